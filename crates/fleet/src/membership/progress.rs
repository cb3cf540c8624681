//! The steps of a command, and the messages about them.

use baton_terminal::output::{report, task};
use futures::future::try_join_all;
use serde_json::Value;

use super::{
    error::{ClusterRole, Error},
    manifest::{Change, Manifest, text, uid},
    rights::Right,
    server::Server,
};

/// A step that makes an object as its manifest describes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Step {
    /// The desired state of the object.
    pub manifest: Manifest,
    pub live: Option<Value>,
    /// The change to make.
    pub change: Change,
}

impl Step {
    /// Creates a step by comparing the manifest with the live object.
    pub fn new(side: ClusterRole, manifest: Manifest, live: Option<Value>) -> Result<Self, Error> {
        let deletion = live
            .as_ref()
            .map(|live| text(live, "/metadata/deletionTimestamp"));
        if deletion.is_some_and(|time| !time.is_empty()) {
            let object = manifest.title();
            return Err(Error::Terminating { side, object });
        }
        let change = manifest.compare(live.as_ref());
        Ok(Self {
            manifest,
            live,
            change,
        })
    }

    /// Reads the live objects. An error if one of them is being deleted.
    pub async fn plan(server: &Server, manifests: Vec<Manifest>) -> Result<Vec<Self>, Error> {
        let live = try_join_all(manifests.iter().map(|manifest| server.get(manifest))).await?;
        let steps = manifests.into_iter().zip(live);
        steps
            .map(|(manifest, live)| Self::new(server.side(), manifest, live))
            .collect()
    }

    /// The rights that the step needs.
    pub fn rights(&self) -> impl Iterator<Item = Right> {
        let verbs = self.change.verbs().iter();
        verbs.map(|verb| self.manifest.right(verb))
    }

    /// The message about the step in a dry run.
    pub fn forecast(&self) -> String {
        let title = self.manifest.title();
        match &self.change {
            Change::Create => format!("Would create {title}"),
            Change::Update => format!("Would update {title}"),
            Change::Delete => format!("Would delete {title}"),
            Change::Replace => format!("Would replace {title}"),
            Change::Keep => format!("Would leave {title} as it is"),
            Change::Leave { manager } => {
                format!("Would leave {title} as it is: its rules belong to {manager}")
            }
        }
    }
}

/// The objects that were written and those that are still to be written, for the message of an
/// error.
#[derive(Debug, Default)]
pub(super) struct Progress {
    done: Vec<String>,
    missing: Vec<String>,
}

impl Progress {
    /// A progress in which none of the steps' writes is done.
    pub fn over<'a>(steps: impl IntoIterator<Item = &'a Step>) -> Self {
        let writes = steps.into_iter().filter(|step| step.change.is_write());
        Self::over_titles(writes.map(|step| step.manifest.title()).collect())
    }

    /// A progress in which no object of these titles is written.
    pub fn over_titles(missing: Vec<String>) -> Self {
        Self {
            done: Vec::new(),
            missing,
        }
    }

    /// True if anything was written.
    pub fn has_changed_something(&self) -> bool {
        !self.done.is_empty()
    }

    /// Carries out a step. Returns the object after it.
    pub async fn carry_out(&mut self, server: &Server, step: &Step) -> Result<Value, Error> {
        let title = step.manifest.title();
        let live = || step.live.clone().unwrap_or_default();
        match &step.change {
            Change::Keep => {
                report(&format!("Creating {title}... already exists. Skipping"));
                Ok(live())
            }
            Change::Leave { manager } => {
                report(&format!(
                    "Updating {title}... its rules belong to {manager}. Skipping"
                ));
                Ok(live())
            }
            Change::Create => self.write("Creating", server, step).await,
            Change::Update => self.write("Updating", server, step).await,
            Change::Replace => {
                server.delete(&step.manifest, &live()).await?;
                let applied = self.write("Replacing", server, step).await?;
                if step.live.as_ref().map(uid) == Some(uid(&applied)) {
                    let (side, object) = (server.side(), title);
                    return Err(Error::Terminating { side, object });
                }
                Ok(applied)
            }
            Change::Delete => {
                let live = live();
                let delete = server.delete(&step.manifest, &live);
                task(&format!("Deleting {title}"), delete).await?;
                self.is_done(&title);
                Ok(live)
            }
        }
    }

    async fn write(&mut self, doing: &str, server: &Server, step: &Step) -> Result<Value, Error> {
        let title = step.manifest.title();
        let write = server.apply(&step.manifest);
        let applied = task(&format!("{doing} {title}"), write).await?;
        let version = |object: &Value| text(object, "/metadata/resourceVersion").to_owned();
        if step.live.as_ref().map(version) == Some(version(&applied)) {
            // Only fields of other managers differed, so the server had nothing to change.
            self.missing.retain(|missing| *missing != title);
        } else {
            self.is_done(&title);
        }
        Ok(applied)
    }

    /// Records that an object was written.
    pub fn is_done(&mut self, title: &str) {
        self.missing.retain(|missing| missing != title);
        self.done.push(title.to_owned());
    }

    /// Adds to an error the titles of the objects that were written before it, and of those that were
    /// not.
    pub fn halfway(self, error: Error) -> Error {
        Error::Halfway {
            cause: Box::new(error),
            done: self.done,
            missing: self.missing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn step(change: Change) -> Step {
        let manifest = Manifest(json!({ "kind": "ClusterRole", "metadata": { "name": "a" } }));
        Step {
            manifest,
            live: None,
            change,
        }
    }

    #[test]
    fn a_dry_run_prints_the_planned_changes() {
        let manager = "kubectl-edit".to_owned();
        for (change, expected) in [
            (Change::Create, "Would create cluster role a"),
            (Change::Update, "Would update cluster role a"),
            (Change::Delete, "Would delete cluster role a"),
            (Change::Replace, "Would replace cluster role a"),
            (Change::Keep, "Would leave cluster role a as it is"),
            (
                Change::Leave { manager },
                "Would leave cluster role a as it is: its rules belong to kubectl-edit",
            ),
        ] {
            assert_eq!(step(change).forecast(), expected);
        }
    }

    #[test]
    fn an_object_in_deletion_is_an_error() {
        let manifest = step(Change::Create).manifest;
        let live = json!({ "metadata": { "deletionTimestamp": "2026-08-01T00:00:00Z" } });
        let error = Step::new(ClusterRole::Hub, manifest, Some(live)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cluster role a on the hub is being deleted; run the command again when it is gone"
        );
    }

    #[test]
    fn completed_steps_are_listed_as_done_and_not_as_missing() {
        let mut progress = Progress::over(&[step(Change::Create), step(Change::Keep)]);
        assert_eq!(progress.missing, ["cluster role a"]);
        assert!(!progress.has_changed_something());
        progress.is_done("cluster role a");
        assert!(progress.has_changed_something());
        let error = progress.halfway(Error::Usage("x".to_owned())).to_string();
        assert_eq!(
            error,
            "x. Done before that: cluster role a. Running the command again continues from there"
        );
    }
}
