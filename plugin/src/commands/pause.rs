//! `pause`: nothing is written or deleted until `resume`.

use std::ops::AsyncFn;

use baton_apis::LifecycleState;
use baton_apis::constants::ANNOTATION_PAUSED_BY_PARENT;
use clap::Args;
use http::Method;
use serde_json::{Value, json};

use super::Exit;
use crate::{
    chain::{Deployment, Revision, not_found},
    cli::GlobalArgs,
    connect::{Cluster, Content, FIELD_MANAGER},
    error::Error,
    output::{name, tell},
    target::{Kind, Target, parse_all},
};

/// How often a revision that changes in between is looked at again.
const ROUNDS: usize = 5;

/// Pause deployments or revisions: nothing is written or deleted until they are resumed
///
/// A paused deployment makes no revision and pauses those it has; what its template has become by then is
/// rolled out when it is resumed.
#[derive(Clone, Debug, Args)]
pub struct PauseArgs {
    /// What to pause
    #[command(flatten)]
    pub targets: TargetsArg,
}

/// The arguments of commands that change several deployments or revisions in the same way.
#[derive(Clone, Debug, Args)]
pub struct TargetsArg {
    /// Deployments or revisions: od/NAME, cod/NAME, os/NAME, cos/NAME, or NAME
    #[arg(value_name = "TARGET", required = true)]
    words: Vec<String>,

    /// Let the server check the change, and change nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// Pauses.
///
/// # Errors
/// There is no such target, it cannot be paused, or the server refuses.
pub async fn run(args: &PauseArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    switch(&args.targets, global, Wish::Paused).await
}

/// What somebody wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Nothing is to be written.
    Paused,
    /// Work is to go on.
    Resumed,
}

/// Pauses or resumes.
///
/// # Errors
/// As [`TargetsArg::for_each`].
pub async fn switch(args: &TargetsArg, global: &GlobalArgs, wish: Wish) -> Result<Exit, Error> {
    args.for_each(global, async |cluster, target| {
        let mut rounds = ROUNDS;
        loop {
            rounds -= 1;
            let subject = Subject::read(cluster, target).await?;
            let (done, already) = match wish {
                Wish::Paused => ("paused", "already paused"),
                Wish::Resumed => ("resumed", "not paused"),
            };
            let patch = match decide(&subject, wish)? {
                Decision::Already => return Ok(format!("{} {already}", name(subject.object()))),
                Decision::Patch(patch) => patch,
            };
            match write(cluster, &subject, &patch, args.dry_run).await {
                Ok(()) => {
                    let note = note(args.dry_run);
                    return Ok(format!("{} {done}{note}", name(subject.object())));
                }
                Err(error) if error.is_code(409) && rounds > 0 => {}
                Err(error) => return Err(error),
            }
        }
    })
    .await
}

/// What kubectl appends to a line about something that has not happened.
#[must_use]
pub fn note(dry_run: bool) -> &'static str {
    if dry_run { " (server dry run)" } else { "" }
}

impl TargetsArg {
    /// Does something for each target and prints the line that comes back. One that fails does not
    /// keep the others from being done.
    ///
    /// # Errors
    /// The words name nothing, there is no connection, or else the last failure; those before it are
    /// printed.
    pub async fn for_each(
        &self,
        global: &GlobalArgs,
        act: impl AsyncFn(&Cluster, &Target) -> Result<String, Error>,
    ) -> Result<Exit, Error> {
        let targets = parse_all(&self.words)?;
        let cluster = global.connect().await?;
        let mut failure: Option<Error> = None;
        for target in &targets {
            match act(&cluster, target).await {
                Ok(line) => global.output().print(&line)?,
                Err(error) => {
                    if let Some(earlier) = failure.replace(error) {
                        tell(&format!("error: {earlier}"));
                    }
                }
            }
        }
        failure.map_or(Ok(Exit::Fine), Err)
    }
}

/// A deployment or a revision that is to be changed.
#[derive(Clone, Debug)]
pub enum Subject {
    /// A deployment.
    Deployment(Box<Deployment>),
    /// A revision.
    Revision(Box<Revision>),
}

impl Subject {
    /// Reads what a target names.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub async fn read(cluster: &Cluster, target: &Target) -> Result<Self, Error> {
        let kinds = target.candidates();
        for kind in &kinds {
            if let Some(object) = cluster.get(*kind, &target.name).await? {
                return Self::parse(*kind, object)
                    .map_err(|error| Error::Impossible(error.to_string()));
            }
        }
        Err(not_found(target, cluster.namespace_of(kinds[0])))
    }

    fn parse(kind: Kind, object: Value) -> Result<Self, serde_json::Error> {
        Ok(if kind.is_deployment() {
            Self::Deployment(Box::new(Deployment::parse(object)?))
        } else {
            Self::Revision(Box::new(Revision::parse(object)?))
        })
    }

    /// All of it.
    #[must_use]
    pub fn object(&self) -> &Value {
        match self {
            Self::Deployment(deployment) => &deployment.object,
            Self::Revision(revision) => &revision.object,
        }
    }

    /// URL path of it.
    #[must_use]
    pub fn path(&self) -> String {
        match self {
            Self::Deployment(deployment) => deployment.path(),
            Self::Revision(revision) => revision.path(),
        }
    }

    /// Whether it is being deleted.
    #[must_use]
    pub fn is_deleting(&self) -> bool {
        match self {
            Self::Deployment(deployment) => deployment.is_deleting(),
            Self::Revision(revision) => revision.is_deleting(),
        }
    }
}

/// Sends a merge patch.
///
/// # Errors
/// Refused, or no answer.
pub async fn write(
    cluster: &Cluster,
    subject: &Subject,
    patch: &Value,
    dry_run: bool,
) -> Result<(), Error> {
    let dry_run = if dry_run { "&dryRun=All" } else { "" };
    let url = format!("{}?fieldManager={FIELD_MANAGER}{dry_run}", subject.path());
    let body = Some((Content::MergePatch, patch));
    cluster.send(Method::PATCH, &url, body).await.map(drop)
}

/// What to do about a wish.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// It is so already.
    Already,
    /// Send this merge patch.
    Patch(Value),
}

/// Decides about a wish.
///
/// # Errors
/// Why it cannot be.
pub fn decide(subject: &Subject, wish: Wish) -> Result<Decision, Error> {
    let impossible = |why: &str| {
        let name = name(subject.object());
        Err(Error::Impossible(format!("{name} {why}")))
    };
    if subject.is_deleting() {
        return impossible("is being deleted");
    }
    match subject {
        Subject::Deployment(deployment) => {
            let wanted = wish == Wish::Paused;
            Ok(if deployment.spec.paused == wanted {
                Decision::Already
            } else {
                Decision::Patch(json!({ "spec": { "paused": wanted } }))
            })
        }
        Subject::Revision(revision) if revision.is_archived() => {
            impossible("is archived, which is final")
        }
        Subject::Revision(revision) => {
            let state = match wish {
                Wish::Paused => LifecycleState::Paused,
                Wish::Resumed => LifecycleState::Active,
            };
            if revision.spec.lifecycle_state == state {
                return Ok(Decision::Already);
            }
            let by_parent = revision.annotation(ANNOTATION_PAUSED_BY_PARENT) == Some("true");
            if let (Wish::Resumed, true, Some(owner)) = (wish, by_parent, revision.controller()) {
                return impossible(&format!(
                    "was paused with its {} {}; resume that",
                    owner.kind, owner.name
                ));
            }
            // Archival must not be undone by accident, so the version that was looked at counts.
            Ok(Decision::Patch(json!({
                "metadata": { "resourceVersion": revision.metadata.resource_version },
                "spec": { "lifecycleState": state },
            })))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(text: &str) -> Subject {
        let mut object: Value = serde_saphyr::from_str(text).unwrap();
        object["apiVersion"] = "package-operator.run/v1alpha1".into();
        let kind = Kind::of(&object).unwrap();
        Subject::parse(kind, object).unwrap()
    }

    /// The decision, as JSON or as the message.
    fn decided(text: &str, wish: Wish) -> String {
        match decide(&subject(text), wish) {
            Ok(Decision::Already) => "already".to_owned(),
            Ok(Decision::Patch(patch)) => patch.to_string(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn deployments() {
        let deployment = |metadata: &str, spec: &str| {
            format!(
                "{{kind: ObjectDeployment, metadata: {{name: web{metadata}}}, spec: {{selector: {{}}, template: {{metadata: {{}}, spec: {{}}}}{spec}}}}}"
            )
        };
        for (metadata, spec, wish, expected) in [
            ("", "", Wish::Paused, r#"{"spec":{"paused":true}}"#),
            ("", ", paused: true", Wish::Paused, "already"),
            (
                "",
                ", paused: true",
                Wish::Resumed,
                r#"{"spec":{"paused":false}}"#,
            ),
            ("", "", Wish::Resumed, "already"),
            (
                ", deletionTimestamp: '2026-08-01T00:00:00Z'",
                "",
                Wish::Paused,
                "objectdeployment.package-operator.run/web is being deleted",
            ),
        ] {
            assert_eq!(decided(&deployment(metadata, spec), wish), expected);
        }
    }

    #[test]
    fn revisions() {
        let paused = r#"{"metadata":{"resourceVersion":"4"},"spec":{"lifecycleState":"Paused"}}"#;
        let active = r#"{"metadata":{"resourceVersion":"4"},"spec":{"lifecycleState":"Active"}}"#;
        let set = |metadata: &str, state: &str, status: &str| {
            format!(
                "{{kind: ClusterObjectSet, metadata: {{name: web-1, resourceVersion: '4'{metadata}}}, spec: {{lifecycleState: {state}}}, status: {{{status}}}}}"
            )
        };
        let by_parent = ", annotations: {package-operator.run/paused-by-parent: 'true'}, ownerReferences: [{apiVersion: v, kind: ClusterObjectDeployment, name: web, uid: u, controller: true}]";
        let archived = "conditions: [{type: Archived, status: 'True', reason: A, message: '', lastTransitionTime: '2026-08-01T00:00:00Z'}]";
        let name = "clusterobjectset.package-operator.run/web-1";
        for (metadata, state, status, wish, expected) in [
            ("", "Active", "", Wish::Paused, paused.to_owned()),
            ("", "Paused", "", Wish::Paused, "already".to_owned()),
            ("", "Paused", "", Wish::Resumed, active.to_owned()),
            ("", "Active", "", Wish::Resumed, "already".to_owned()),
            (by_parent, "Paused", "", Wish::Paused, "already".to_owned()),
            (
                by_parent,
                "Paused",
                "",
                Wish::Resumed,
                format!("{name} was paused with its ClusterObjectDeployment web; resume that"),
            ),
            (
                "",
                "Archived",
                "",
                Wish::Resumed,
                format!("{name} is archived, which is final"),
            ),
            (
                "",
                "Active",
                archived,
                Wish::Paused,
                format!("{name} is archived, which is final"),
            ),
        ] {
            assert_eq!(decided(&set(metadata, state, status), wish), expected);
        }
    }
}
