//! The ObjectDeployment and ClusterObjectDeployment controller: observe, act, report.

mod observe;

use std::collections::BTreeMap;

use baton_apis::{
    LifecycleState, ObjectDeploymentStatus,
    conditions::{PROGRESSING, reasons},
    constants::{
        ANNOTATION_CHANGE_CAUSE, ANNOTATION_HASH, ANNOTATION_LAST_APPLIED,
        ANNOTATION_TEMPLATE_METADATA, API_VERSION, FINALIZER_CACHED, FINALIZER_METRICS,
        LABEL_OBJECT_DEPLOYMENT,
    },
};
use serde_json::{Value, json};

use super::{Context, Fault, Reconciled};
use crate::{
    cluster::{
        deployment::{DeploymentKey, DeploymentRecord},
        events::EventKind,
        key::Resource as _,
        record::{ReadError, Record},
        revision_api::ApiError,
    },
    engine::{
        conditions::Again,
        deployment::{
            Action, NewRevision, Snapshot,
            status::{Creation, report},
            template::metadata_digest,
        },
    },
    telemetry::outcomes::ReconcileOutcome,
};

/// Rounds of actions in one pass. A new revision, a pause, an archival and a deletion are a round each;
/// more only come up when others write at the same time, and then a later pass goes on.
const ROUNDS: usize = 8;

/// A pass ended early. The work is taken up again with a growing delay.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Reading the deployment or one of its revisions.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A revision that nobody controls.
    #[error("adopting a revision: {0}")]
    Adopt(#[source] ApiError),
    /// What a revision consists of.
    #[error("reading a revision: {0}")]
    Content(#[source] ApiError),
    /// The next revision.
    #[error("making a revision: {0}")]
    Create(#[source] ApiError),
    /// The life cycle of a revision.
    #[error("changing a revision: {0}")]
    Change(#[source] ApiError),
    /// A revision that history has no room for.
    #[error("deleting a revision: {0}")]
    Delete(#[source] ApiError),
    /// The status.
    #[error("writing the status: {0}")]
    Status(#[source] ApiError),
}

impl Fault for Error {
    fn is_change(&self) -> bool {
        match self {
            Self::Read(_) => false,
            Self::Adopt(error)
            | Self::Content(error)
            | Self::Create(error)
            | Self::Change(error)
            | Self::Delete(error)
            | Self::Status(error) => matches!(error, ApiError::Changed { .. }),
        }
    }
}

/// One pass over a deployment.
///
/// # Errors
/// When a request failed for a reason that may pass. A new revision that the server refuses is told
/// in the status.
pub async fn reconcile(context: &Context, key: &DeploymentKey) -> Result<Reconciled, Error> {
    let Some(record) = context.deployments.get(key) else {
        return Ok((ReconcileOutcome::Gone, Again::OnEvent));
    };
    // Its revisions go with it or are left behind; either way no new ones (improvement 15).
    if record.deleting {
        return Ok((ReconcileOutcome::Unchanged, Again::OnEvent));
    }
    let template = record.template()?;
    if observe::adopt(context, &record).await? {
        // The watch tells about them in a moment. Until then they would pass for missing, and the
        // template would be made into a revision once more.
        return Ok((ReconcileOutcome::Changed, Again::OnEvent));
    }
    let mut wrote = false;
    let mut creation = Creation::None;
    for _ in 0..ROUNDS {
        let snapshot = observe::observe(context, &record, &template, &creation).await?;
        let actions = snapshot.actions();
        for action in &actions {
            match action {
                Action::Create(new) => {
                    creation = create(context, &record, &template, new).await?;
                }
                action => change(context, &record, &template, action).await?,
            }
        }
        wrote |= !actions.is_empty();
        if actions.is_empty() || matches!(creation, Creation::Refused(_)) {
            return tell(context, &record, &snapshot, &creation, wrote).await;
        }
    }
    Ok((ReconcileOutcome::Conflict, Again::Backoff))
}

/// Makes the next revision. A refusal is an outcome, not an error.
async fn create(
    context: &Context,
    deployment: &DeploymentRecord,
    template: &Value,
    new: &NewRevision,
) -> Result<Creation, Error> {
    let key = deployment.key.revision(&new.name);
    match context
        .api
        .create(&key, &manifest(deployment, template, new))
        .await
    {
        Ok(record) => {
            // A pass that does not know of it would make another one of the same number.
            context.revisions_changed(context.revisions.created(record), None);
            let kind = key.kind.kind();
            let note = format!("Made {kind} {} as revision {}", new.name, new.number);
            context.event(
                &deployment.key,
                &deployment.uid,
                EventKind::Normal,
                "NewRevision",
                note,
            );
            Ok(Creation::Done(new.clone()))
        }
        Err(ApiError::Refused { code, message, .. })
            if (400..500).contains(&code) && code != 429 =>
        {
            let text = format!("{} {} was refused: {message}", key.kind.kind(), new.name);
            Ok(Creation::Refused(text))
        }
        Err(error) => Err(Error::Create(error)),
    }
}

/// The manifest of a new revision (contract 5.2). It has its finalizers from the start, which
/// saves a write, and it cannot go before its controller has seen it.
fn manifest(deployment: &DeploymentRecord, template: &Value, new: &NewRevision) -> Value {
    let mut annotations = deployment.annotations.clone();
    // It holds the whole deployment, and says nothing about a revision (improvement 38).
    annotations.remove(ANNOTATION_LAST_APPLIED);
    annotations.insert(ANNOTATION_HASH.to_owned(), new.hash.clone());
    annotations.insert(
        ANNOTATION_TEMPLATE_METADATA.to_owned(),
        metadata_digest(template),
    );
    let mut labels = match template.pointer("/metadata/labels") {
        Some(Value::Object(labels)) => labels.clone(),
        _ => serde_json::Map::new(),
    };
    labels.insert(
        LABEL_OBJECT_DEPLOYMENT.to_owned(),
        (*deployment.key.name).into(),
    );
    let mut spec = template.get("spec").cloned().unwrap_or_else(|| json!({}));
    spec["revision"] = new.number.into();
    if !new.previous.is_empty() {
        let names = new.previous.iter().map(|name| json!({ "name": name }));
        spec["previous"] = names.collect();
    }
    let mut metadata = json!({
        "name": new.name,
        "labels": labels,
        "annotations": annotations,
        "ownerReferences": [deployment.controller_reference()],
        "finalizers": [FINALIZER_CACHED, FINALIZER_METRICS],
    });
    if !deployment.key.namespace.is_empty() {
        metadata["namespace"] = (*deployment.key.namespace).into();
    }
    json!({
        "apiVersion": API_VERSION,
        "kind": deployment.key.kind.0.kind(),
        "metadata": metadata,
        "spec": spec,
    })
}

/// Changes or deletes one revision, and the store with it.
async fn change(
    context: &Context,
    deployment: &DeploymentRecord,
    template: &Value,
    action: &Action,
) -> Result<(), Error> {
    use LifecycleState::{Active, Archived, Paused};
    let (Action::Pause { name, .. }
    | Action::Resume(name)
    | Action::Archive(name)
    | Action::Annotate(name)
    | Action::Delete(name)
    | Action::Create(NewRevision { name, .. })) = action;
    let Some(record) = context.revisions.get(&deployment.key.revision(name)) else {
        return Ok(());
    };
    let api = &context.api;
    let updated = match action {
        Action::Pause { by_parent, .. } => api.set_lifecycle(&record, Paused, *by_parent).await,
        Action::Resume(_) => api.set_lifecycle(&record, Active, false).await,
        Action::Archive(_) => api.set_lifecycle(&record, Archived, false).await,
        Action::Annotate(_) => annotate(context, deployment, template, &record).await,
        Action::Delete(_) => {
            let deleted = api.delete(&record).await.map_err(Error::Delete)?;
            Ok(deleted)
        }
        // Not there yet.
        Action::Create(_) => return Ok(()),
    };
    let updated = updated.map_err(Error::Change)?;
    context.revisions_changed(context.revisions.update(updated), None);
    Ok(())
}

async fn annotate(
    context: &Context,
    deployment: &DeploymentRecord,
    template: &Value,
    record: &Record,
) -> Result<Record, ApiError> {
    let digest = metadata_digest(template);
    let mut annotations = BTreeMap::from([(ANNOTATION_TEMPLATE_METADATA, digest.clone())]);
    let cause = deployment.annotations.get(ANNOTATION_CHANGE_CAUSE);
    annotations.extend(cause.map(|cause| (ANNOTATION_CHANGE_CAUSE, cause.clone())));
    let mut updated = context.api.annotate(record, &annotations).await?;
    updated.notes.digest = Some(digest);
    updated.notes.change_cause = cause.cloned().or(updated.notes.change_cause);
    updated.notes.labels.clear();
    Ok(updated)
}

/// Writes the status if it says anything new.
async fn tell(
    context: &Context,
    record: &DeploymentRecord,
    snapshot: &Snapshot<'_>,
    creation: &Creation,
    wrote: bool,
) -> Result<Reconciled, Error> {
    let (status, again) = report(snapshot, creation);
    let mut outcome = match creation {
        Creation::Refused(_) => ReconcileOutcome::Blocked,
        Creation::Done(_) => ReconcileOutcome::Changed,
        Creation::None if wrote => ReconcileOutcome::Changed,
        Creation::None => ReconcileOutcome::Unchanged,
    };
    let old = &snapshot.deployment.status;
    if *old != status {
        let updated = context
            .api
            .set_item_status(record, &status)
            .await
            .map_err(Error::Status)?;
        context.deployments.update(updated);
        transitions(context, record, old, &status);
        if outcome == ReconcileOutcome::Unchanged {
            outcome = ReconcileOutcome::Changed;
        }
    }
    Ok((outcome, again))
}

/// Events for what a person wants to see in `kubectl describe`.
fn transitions(
    context: &Context,
    record: &DeploymentRecord,
    old: &ObjectDeploymentStatus,
    new: &ObjectDeploymentStatus,
) {
    let find = |status: &ObjectDeploymentStatus| {
        let mut conditions = status.conditions.iter();
        conditions.find(|c| c.type_ == PROGRESSING).cloned()
    };
    let Some(progressing) = find(new) else { return };
    if find(old).is_some_and(|before| before.reason == progressing.reason) {
        return;
    }
    for (reason, kind) in [
        (reasons::IDLE, EventKind::Normal),
        (reasons::PROGRESS_DEADLINE_EXCEEDED, EventKind::Warning),
        (reasons::OBJECT_SET_CREATE_ERROR, EventKind::Warning),
    ] {
        if progressing.reason == reason {
            let note = match new.revision.filter(|_| reason == reasons::IDLE) {
                Some(number) => format!("Revision {number} is rolled out"),
                None => progressing.message.clone(),
            };
            context.event(&record.key, &record.uid, kind, reason, note);
        }
    }
}
