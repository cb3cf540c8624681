//! Pausing and resuming a deployment or a revision.

use baton_apis::{LifecycleState, constants::ANNOTATION_PAUSED_BY_PARENT};
use baton_cluster::{
    Cluster, Write,
    lists::{chain, not_found},
};
use baton_kubernetes::wire::MediaType;
use baton_text::output::format::name;
use baton_view::chain::{
    kind::ChainKind,
    member::{Deployment, Revision},
    target::Target,
};
use serde_json::{Value, json};

use crate::error::Error;

/// The number of attempts for a revision that changes while it is paused.
const ROUNDS: usize = 5;

/// The change to a deployment or revision: paused, or resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing is written or deleted any more.
    Pause,
    /// The end of a pause.
    Resume,
}

impl Action {
    /// The words for a change, and for a state that was reached before.
    pub fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Pause => ("paused", "already paused"),
            Self::Resume => ("resumed", "not paused"),
        }
    }
}

/// Pauses or resumes one target. Returns the target as it was before, and true if it was changed.
///
/// The revisions of a deployment are paused at once, also while no manager runs: the manager that
/// starts next repairs none of their objects.
///
/// # Errors
/// If the target does not exist, cannot be paused or resumed, or a request fails.
pub async fn switched(
    cluster: &Cluster,
    target: &Target,
    action: Action,
    dry_run: bool,
) -> Result<(Pausable, bool), Error> {
    let mut rounds = ROUNDS;
    loop {
        rounds -= 1;
        let subject = Pausable::read(cluster, target).await?;
        let decision = decide(&subject, action)?;
        let written = match &decision {
            Decision::Already => Ok(()),
            Decision::Patch(patch) => write(cluster, &subject, patch, dry_run).await,
        };
        match written {
            Ok(()) => {
                if action == Action::Pause && !dry_run {
                    pause_revisions(cluster, &subject).await;
                }
                return Ok((subject, decision != Decision::Already));
            }
            Err(error) if error.is_code(409) && rounds > 0 => {}
            Err(error) => return Err(error),
        }
    }
}

/// Pauses the revisions of a paused deployment, as the manager does. If that is not possible here,
/// such as without the right to it, a warning has the reason; the manager pauses them later.
async fn pause_revisions(cluster: &Cluster, subject: &Pausable) {
    let Pausable::Deployment(deployment) = subject else {
        return;
    };
    if let Err(error) = try_pause_revisions(cluster, &deployment.target()).await {
        cluster.warn(&format!(
            "revisions of {} are not paused before a manager runs: {error}",
            name(subject.object())
        ));
    }
}

async fn try_pause_revisions(cluster: &Cluster, deployment: &Target) -> Result<(), Error> {
    let mut rounds = ROUNDS;
    loop {
        rounds -= 1;
        let chain = chain(cluster, deployment).await?;
        // Somebody may have resumed it meanwhile.
        if !chain.deployment.is_some_and(|it| it.spec.paused) {
            return Ok(());
        }
        let (mut conflict, mut refused) = (None, None);
        for revision in chain.revisions {
            let Some(patch) = with_deployment(&revision) else {
                continue;
            };
            let subject = Pausable::Revision(Box::new(revision));
            match write(cluster, &subject, &patch, false).await {
                Ok(()) => {}
                Err(error) if error.is_code(409) => conflict = Some(error),
                // It was deleted meanwhile.
                Err(error) if error.is_code(404) => {}
                Err(error) => refused = Some(error),
            }
        }
        match (refused, conflict) {
            (Some(error), _) => return Err(error),
            (None, None) => return Ok(()),
            (None, Some(error)) if rounds == 0 => return Err(error),
            (None, Some(_)) => {}
        }
    }
}

/// The change that pauses a revision with its deployment; `None` if it is not active.
fn with_deployment(revision: &Revision) -> Option<Value> {
    let is_active = revision.spec.lifecycle_state == LifecycleState::Active;
    let is_live = is_active && !revision.is_archived() && !revision.is_deleting();
    is_live.then(|| {
        json!({
            "metadata": {
                "resourceVersion": revision.metadata.resource_version,
                "annotations": { ANNOTATION_PAUSED_BY_PARENT: "true" },
            },
            "spec": { "lifecycleState": LifecycleState::Paused },
        })
    })
}

/// A deployment or a revision to pause or resume.
#[derive(Clone, Debug)]
pub enum Pausable {
    /// A deployment.
    Deployment(Box<Deployment>),
    /// A revision.
    Revision(Box<Revision>),
}

impl Pausable {
    /// Reads the object that a person named.
    ///
    /// # Errors
    /// If it does not exist, or cannot be read.
    pub async fn read(cluster: &Cluster, target: &Target) -> Result<Self, Error> {
        let kinds = target.candidates();
        let cluster_scoped = [ChainKind::ClusterObjectDeployment];
        let further = cluster_scoped.iter().filter(|_| target.kind.is_none());
        for kind in kinds.iter().chain(further) {
            if let Some(object) = cluster.get(*kind, &target.name).await? {
                return Self::parse(*kind, object)
                    .map_err(|error| Error::Impossible(error.to_string()));
            }
        }
        Err(not_found(target, cluster.namespace_of(kinds[0])).into())
    }

    fn parse(kind: ChainKind, object: Value) -> Result<Self, serde_json::Error> {
        Ok(if kind.is_deployment() {
            Self::Deployment(Box::new(Deployment::parse(object)?))
        } else {
            Self::Revision(Box::new(Revision::parse(object)?))
        })
    }

    /// The object, as the server returned it.
    pub fn object(&self) -> &Value {
        match self {
            Self::Deployment(deployment) => &deployment.object,
            Self::Revision(revision) => &revision.object,
        }
    }

    /// The URL path of the object.
    pub fn path(&self) -> String {
        match self {
            Self::Deployment(deployment) => deployment.path(),
            Self::Revision(revision) => revision.path(),
        }
    }

    /// True while it is being deleted.
    pub fn is_deleting(&self) -> bool {
        match self {
            Self::Deployment(deployment) => deployment.is_deleting(),
            Self::Revision(revision) => revision.is_deleting(),
        }
    }
}

/// Writes a merge patch.
///
/// # Errors
/// If the request fails.
pub async fn write(
    cluster: &Cluster,
    subject: &Pausable,
    patch: &Value,
    dry_run: bool,
) -> Result<(), Error> {
    let write = Write::new(MediaType::MergePatch, dry_run);
    cluster.write(&subject.path(), write, patch).await?;
    Ok(())
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Decision {
    Already,
    Patch(Value),
}

pub(crate) fn decide(subject: &Pausable, action: Action) -> Result<Decision, Error> {
    let impossible = |why: &str| {
        let name = name(subject.object());
        Err(Error::Impossible(format!("{name} {why}")))
    };
    if subject.is_deleting() {
        return impossible("is being deleted");
    }
    match subject {
        Pausable::Deployment(deployment) => {
            let wanted = action == Action::Pause;
            Ok(if deployment.spec.paused == wanted {
                Decision::Already
            } else {
                Decision::Patch(json!({ "spec": { "paused": wanted } }))
            })
        }
        Pausable::Revision(revision) if revision.is_archived() => {
            impossible("is archived, which is final")
        }
        Pausable::Revision(revision) => {
            let state = match action {
                Action::Pause => LifecycleState::Paused,
                Action::Resume => LifecycleState::Active,
            };
            if revision.spec.lifecycle_state == state {
                return Ok(Decision::Already);
            }
            let by_parent = revision.annotation(ANNOTATION_PAUSED_BY_PARENT) == Some("true");
            if let (Action::Resume, true, Some(owner)) = (action, by_parent, revision.controller())
            {
                return impossible(&format!(
                    "was paused with its {} {}; resume this one instead",
                    owner.kind, owner.name
                ));
            }
            // An archival in the meantime must not be undone, so the patch is for the version that
            // was read.
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

    fn subject(text: &str) -> Pausable {
        let mut object: Value = serde_saphyr::from_str(text).unwrap();
        object["apiVersion"] = "package-operator.run/v1alpha1".into();
        let kind = ChainKind::of(&object).unwrap();
        Pausable::parse(kind, object).unwrap()
    }

    /// The decision, as JSON or as its message.
    fn decided(text: &str, action: Action) -> String {
        match decide(&subject(text), action) {
            Ok(Decision::Already) => "already".to_owned(),
            Ok(Decision::Patch(patch)) => patch.to_string(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn active_revisions_are_paused_with_their_deployment() {
        let patched = |state: &str, metadata: &str| {
            let text = format!(
                "{{kind: ObjectSet, metadata: {{name: web-1, resourceVersion: '4'{metadata}}}, \
                 spec: {{lifecycleState: {state}}}}}"
            );
            match subject(&text) {
                Pausable::Revision(revision) => with_deployment(&revision),
                Pausable::Deployment(_) => None,
            }
        };
        let mark = r#"{"package-operator.run/paused-by-parent":"true"}"#;
        let expected = format!(
            r#"{{"metadata":{{"annotations":{mark},"resourceVersion":"4"}},"spec":{{"lifecycleState":"Paused"}}}}"#
        );
        let expected: Value = serde_json::from_str(&expected).unwrap();
        assert_eq!(patched("Active", ""), Some(expected));
        for (state, metadata) in [
            ("Paused", ""),
            ("Archived", ""),
            ("Active", ", deletionTimestamp: '2026-08-01T00:00:00Z'"),
        ] {
            assert_eq!(patched(state, metadata), None, "{state}{metadata}");
        }
    }

    #[test]
    fn deployments_are_paused_once() {
        let deployment = |metadata: &str, spec: &str| {
            format!(
                "{{kind: ObjectDeployment, metadata: {{name: web{metadata}}}, spec: {{selector: {{}}, template: \
                     {{metadata: {{}}, spec: {{}}}}{spec}}}}}"
            )
        };
        for (metadata, spec, action, expected) in [
            ("", "", Action::Pause, r#"{"spec":{"paused":true}}"#),
            ("", ", paused: true", Action::Pause, "already"),
            (
                "",
                ", paused: true",
                Action::Resume,
                r#"{"spec":{"paused":false}}"#,
            ),
            ("", "", Action::Resume, "already"),
            (
                ", deletionTimestamp: '2026-08-01T00:00:00Z'",
                "",
                Action::Pause,
                "objectdeployment.package-operator.run/web is being deleted",
            ),
        ] {
            assert_eq!(decided(&deployment(metadata, spec), action), expected);
        }
    }

    #[test]
    fn revisions_are_paused_and_resumed_in_the_state_they_were_read_in() {
        let paused = r#"{"metadata":{"resourceVersion":"4"},"spec":{"lifecycleState":"Paused"}}"#;
        let active = r#"{"metadata":{"resourceVersion":"4"},"spec":{"lifecycleState":"Active"}}"#;
        let set = |metadata: &str, state: &str, status: &str| {
            format!(
                "{{kind: ClusterObjectSet, metadata: {{name: web-1, resourceVersion: '4'{metadata}}}, spec: \
                     {{lifecycleState: {state}}}, status: {{{status}}}}}"
            )
        };
        let by_parent = ", annotations: {package-operator.run/paused-by-parent: 'true'}, ownerReferences: \
             [{apiVersion: v, kind: ClusterObjectDeployment, name: web, uid: u, controller: true}]";
        let archived = "conditions: [{type: Archived, status: 'True', reason: A, message: '', lastTransitionTime: \
             '2026-08-01T00:00:00Z'}]";
        let name = "clusterobjectset.package-operator.run/web-1";
        for (metadata, state, status, action, expected) in [
            ("", "Active", "", Action::Pause, paused.to_owned()),
            ("", "Paused", "", Action::Pause, "already".to_owned()),
            ("", "Paused", "", Action::Resume, active.to_owned()),
            ("", "Active", "", Action::Resume, "already".to_owned()),
            (by_parent, "Paused", "", Action::Pause, "already".to_owned()),
            (
                by_parent,
                "Paused",
                "",
                Action::Resume,
                format!(
                    "{name} was paused with its ClusterObjectDeployment web; resume this one instead"
                ),
            ),
            (
                "",
                "Archived",
                "",
                Action::Resume,
                format!("{name} is archived, which is final"),
            ),
            (
                "",
                "Active",
                archived,
                Action::Pause,
                format!("{name} is archived, which is final"),
            ),
        ] {
            assert_eq!(decided(&set(metadata, state, status), action), expected);
        }
    }
}
