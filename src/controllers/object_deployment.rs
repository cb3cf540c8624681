//! The controller of `ObjectDeployment` and `ClusterObjectDeployment`: observe, act, report.

mod observe;
mod slices;
mod triggers;

use std::{collections::BTreeMap, sync::Arc};

use baton_apis::{
    LifecycleState, ObjectDeploymentStatus,
    conditions::{EventReason, PROGRESSING, Reason},
    constants::{
        ANNOTATION_CHANGE_CAUSE, ANNOTATION_HASH, ANNOTATION_LAST_APPLIED, ANNOTATION_LOST_HUBS,
        ANNOTATION_PREFLIGHT, ANNOTATION_TEMPLATE_METADATA, API_VERSION, FINALIZER_CACHED,
        FINALIZER_METRICS, LABEL_OBJECT_DEPLOYMENT, shipper::ANNOTATION_BLOCK_OVERRIDE,
    },
};
use baton_engine::{
    condition_list::find,
    conditions::Requeue,
    deployment::{
        Action, NewRevision, Snapshot,
        status::{Creation, is_interim, report},
        template::metadata_digest,
    },
    preflight,
    weight::MANIFESTS,
};
use baton_kubernetes::events::EventKind;
use baton_records::{
    api::ApiError,
    deployment::{DeploymentKey, DeploymentRecord},
    key::OwnKind as _,
    revision::RevisionRecord,
};
use baton_runtime::{
    controller::{Controller, Reconciled},
    outcomes::ReconcileOutcome,
    queue::Queue,
};
use baton_typed::debounce::{Debounced, at_most, at_the_latest};
use serde_json::{Value, json};

use crate::delivery::{
    lost_hubs,
    observed::Observed,
    rollout_blocks::RolloutBlocks,
    shared::{AtStep as _, Error, Shared},
};

/// The limit of rounds in one pass. A new revision, a pause, an archival and a deletion need one
/// round each. More rounds are needed only if others write at the same time; a later pass does the
/// rest then.
const ROUNDS: usize = 8;

/// Creates, pauses, archives and deletes the revisions of deployments.
pub(crate) struct ObjectDeployments {
    pub shared: Shared,
    pub observed: Arc<Observed>,
    blocks: RolloutBlocks,
    debounced: Debounced<DeploymentKey>,
}

impl ObjectDeployments {
    pub(crate) fn new(shared: Shared, observed: Arc<Observed>, blocks: RolloutBlocks) -> Self {
        Self {
            shared,
            observed,
            blocks,
            debounced: Debounced::default(),
        }
    }
}

impl Controller for ObjectDeployments {
    const NAME: &'static str = "objectdeployment";

    type Key = DeploymentKey;
    type Error = Error;

    fn watches(self: &Arc<Self>, queue: &Arc<Queue<DeploymentKey>>) {
        let on = &self.observed;
        queue.wake_on(on.deployments.changes(), self, |_, change| {
            triggers::on_deployment(change)
        });
        queue.wake_on(on.revisions.changes(), self, |this, change| {
            triggers::on_revision(&this.observed, change)
        });
        queue.wake_on(&on.revisions.extents, self, |this, kind| {
            triggers::on_revisions_listed(&this.observed, *kind)
        });
        queue.wake_on(&self.blocks.0.changes, self, |this, change| {
            triggers::on_block(&this.observed, change)
        });
        queue.wake_on(&self.blocks.0.extents, self, |this, ()| {
            triggers::on_blocks_listed(&this.observed)
        });
    }

    /// The template, and the content of the newest revision, which is compared with it.
    fn memory(&self, key: &DeploymentKey) -> usize {
        let Some(record) = self.observed.deployments.get(key) else {
            return 0;
        };
        let revisions = self.observed.revisions.controlled_by(&record);
        let weights = revisions
            .iter()
            .map(|revision| self.observed.weight(revision));
        record.weight.min(MANIFESTS) + weights.max().unwrap_or(0)
    }

    fn timed(&self) -> Vec<DeploymentKey> {
        let records = self.observed.deployments.all().into_iter();
        records.map(|record| record.key.clone()).collect()
    }

    async fn reconcile(&self, key: &DeploymentKey, _failures: u32) -> Result<Reconciled, Error> {
        let Some(record) = self.observed.deployments.get(key) else {
            self.debounced.forget(key);
            return Ok((ReconcileOutcome::Gone, Requeue::OnEvent));
        };
        // No new revisions: garbage collection deletes the existing ones, or they are left behind.
        if record.deleting {
            return Ok((ReconcileOutcome::Unchanged, Requeue::OnEvent));
        }
        // A template that is too large is refused in the place of the creation.
        let template = match record.template() {
            Err(error) if error.is_too_large() => json!({}),
            template => template?,
        };
        if self.adopt(&record).await? {
            // The store does not show the adopted revisions before the watch reports them. The pass
            // would create the revision of the template once more.
            return Ok((ReconcileOutcome::Changed, Requeue::OnEvent));
        }
        let mut wrote = false;
        let mut creation = Creation::None;
        for _ in 0..ROUNDS {
            let snapshot = self.observe(&record, &template, &creation).await?;
            let actions = snapshot.actions();
            for action in &actions {
                match action {
                    // The store would show these revisions as those of another deployment, and
                    // their names as taken.
                    Action::Create(_) if self.adopt_unobserved(&record).await? => {
                        return Ok((ReconcileOutcome::Changed, Requeue::OnEvent));
                    }
                    Action::Create(new) => creation = self.create(&record, &template, new).await?,
                    action => self.change(&record, &template, action).await?,
                }
            }
            wrote |= !actions.is_empty();
            if actions.is_empty() || matches!(creation, Creation::Refused(_)) {
                if let Some(current) = snapshot.current() {
                    let current = self
                        .observed
                        .revisions
                        .get(&record.key.revision(&current.name));
                    if let Some(current) = current {
                        self.recreate_deleted(&record, &template, &current).await?;
                    }
                }
                return self.report(&record, &snapshot, &creation, wrote).await;
            }
        }
        Ok((ReconcileOutcome::Conflict, Requeue::Backoff))
    }
}

impl ObjectDeployments {
    /// Creates the next revision. A refusal by the server is an outcome, not an error.
    async fn create(
        &self,
        deployment: &DeploymentRecord,
        template: &Value,
        new: &NewRevision,
    ) -> Result<Creation, Error> {
        if let Err(error) = deployment.check_weight() {
            return Ok(Creation::Refused(error.to_string()));
        }
        let key = deployment.key.revision(&new.name);
        let spec = match self.sliced(deployment, template).await {
            Ok(spec) => spec,
            Err(error) => match error.refusal() {
                Some(message) => return Ok(Creation::Refused(message)),
                None => return Err(error),
            },
        };
        let manifest = manifest(deployment, template, spec, new);
        match self.shared.api.create(&key, &manifest).await {
            Ok(record) => {
                // The store is updated at once: a pass that does not observe the revision would create
                // another one with the same number.
                self.observed.revisions.created(record, Self::NAME);
                let kind = key.kind.kind();
                let note = format!("Created {kind} {} as revision {}", new.name, new.number);
                let (key, uid) = (&deployment.key, &deployment.uid);
                let events = &self.shared.events;
                events.publish(key, uid, EventKind::Normal, EventReason::NewRevision, note);
                Ok(Creation::Done(new.clone()))
            }
            Err(error) => match error.refusal() {
                Some(message) => {
                    let text = format!("{} {} was refused: {message}", key.kind.kind(), new.name);
                    Ok(Creation::Refused(text))
                }
                None if error.is_repeated() => Ok(Creation::Refused(error.to_string())),
                None => Err(error).at_step("creating a revision"),
            },
        }
    }

    /// Changes or deletes one revision, and updates the store.
    async fn change(
        &self,
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
        let Some(record) = self.observed.revisions.get(&deployment.key.revision(name)) else {
            return Ok(());
        };
        // A user may have archived it since the decision, and that is final.
        let is_final = record.lifecycle == Archived;
        if is_final && matches!(action, Action::Pause { .. } | Action::Resume(_)) {
            return Ok(());
        }
        let api = &self.shared.api;
        let updated = match action {
            Action::Pause { by_parent, .. } => api.set_lifecycle(&record, Paused, *by_parent).await,
            Action::Resume(_) => api.set_lifecycle(&record, Active, false).await,
            Action::Archive(_) => api.set_lifecycle(&record, Archived, false).await,
            Action::Annotate(_) => self.annotate(deployment, template, &record).await,
            Action::Delete(_) => Ok(api.delete(&record).await.at_step("deleting a revision")?),
            // There is no revision to change yet.
            Action::Create(_) => return Ok(()),
        };
        let updated = updated.at_step("changing a revision")?;
        self.observed.revisions.updated(updated, Self::NAME);
        Ok(())
    }

    async fn annotate(
        &self,
        deployment: &DeploymentRecord,
        template: &Value,
        record: &RevisionRecord,
    ) -> Result<RevisionRecord, ApiError> {
        let digest = metadata_digest(template);
        let mut annotations = BTreeMap::from([(ANNOTATION_TEMPLATE_METADATA, Some(&*digest))]);
        let cause = deployment.annotations.get(ANNOTATION_CHANGE_CAUSE);
        annotations.extend(cause.map(|cause| (ANNOTATION_CHANGE_CAUSE, Some(&**cause))));
        let preflight = deployment.annotations.get(ANNOTATION_PREFLIGHT);
        let preflight =
            preflight::wanted(preflight.map(String::as_str), record.preflight.as_deref());
        annotations.extend(preflight.map(|value| (ANNOTATION_PREFLIGHT, Some(value))));
        let lost_hubs = lost_hubs::of_deployment(&deployment.annotations);
        if lost_hubs != record.lost_hubs.as_deref() {
            annotations.insert(ANNOTATION_LOST_HUBS, lost_hubs);
        }
        let mut updated = self.shared.api.annotate(record, &annotations).await?;
        updated.lost_hubs = lost_hubs.map(Into::into);
        if let Some(cause) = cause {
            updated.notes.change_cause = Some(cause.clone());
        }
        if let Some(value) = preflight {
            updated.preflight = Some(value.into());
        }
        updated.notes.digest = Some(digest);
        updated.notes.labels.clear();
        Ok(updated)
    }

    /// Writes the status if it differs from the stored one.
    async fn report(
        &self,
        record: &DeploymentRecord,
        snapshot: &Snapshot<'_>,
        creation: &Creation,
        wrote: bool,
    ) -> Result<Reconciled, Error> {
        let (status, requeue) = report(snapshot, creation);
        let mut outcome = match creation {
            Creation::Refused(_) => ReconcileOutcome::Blocked,
            Creation::Done(_) => ReconcileOutcome::Changed,
            Creation::None if wrote => ReconcileOutcome::Changed,
            Creation::None => ReconcileOutcome::Unchanged,
        };
        let old = &snapshot.deployment.status;
        if *old != status {
            if is_interim(snapshot, &status)
                && let Some(left) = self.debounced.remaining(
                    &record.key,
                    &record.uid,
                    None,
                    at_most(false),
                    self.shared.clock.instant(),
                )
            {
                return Ok((outcome, at_the_latest(requeue, left)));
            }
            let updated = self.shared.api.set_status(record, &status).await;
            let updated = updated.at_step("writing the status")?;
            self.observed.deployments.updated(updated, Self::NAME);
            if let Some((kind, reason, note)) = transition(old, &status) {
                let events = &self.shared.events;
                events.publish(&record.key, &record.uid, kind, reason, note);
            }
            if outcome == ReconcileOutcome::Unchanged {
                outcome = ReconcileOutcome::Changed;
            }
        }
        self.debounced.forget(&record.key);
        Ok((outcome, requeue))
    }
}

/// The manifest of a new revision. It contains the finalizers, which saves a write and ensures that
/// the revision is not deleted before its controller observes it.
fn manifest(
    deployment: &DeploymentRecord,
    template: &Value,
    mut spec: Value,
    new: &NewRevision,
) -> Value {
    let mut annotations = deployment.annotations.clone();
    // The annotation contains the whole deployment, and nothing about a revision.
    annotations.remove(ANNOTATION_LAST_APPLIED);
    // Revisions obey no blocks.
    annotations.remove(ANNOTATION_BLOCK_OVERRIDE);
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
    spec["revision"] = new.number.into();
    if !new.previous.is_empty() {
        let names = new.previous.iter().map(|name| json!({ "name": name }));
        spec["previous"] = names.collect();
    }
    let mut metadata = json!({
        "name": new.name,
        "labels": labels,
        "annotations": annotations,
        "ownerReferences": [deployment.owner_reference(true)],
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

/// The event for a status change.
fn transition(
    old: &ObjectDeploymentStatus,
    new: &ObjectDeploymentStatus,
) -> Option<(EventKind, Reason, String)> {
    let progressing = find(&new.conditions, PROGRESSING)?;
    if find(&old.conditions, PROGRESSING).is_some_and(|before| before.reason == progressing.reason)
    {
        return None;
    }
    let kinds = [
        (Reason::Idle, EventKind::Normal),
        (Reason::ProgressDeadlineExceeded, EventKind::Warning),
        (Reason::ObjectSetCreateError, EventKind::Warning),
        (Reason::NumbersExhausted, EventKind::Warning),
        (Reason::RevisionRepeated, EventKind::Warning),
        (Reason::RolloutsBlocked, EventKind::Warning),
    ];
    let (reason, kind) = kinds
        .into_iter()
        .find(|(reason, _)| progressing.reason == *reason)?;
    let note = match new.revision.filter(|_| reason == Reason::Idle) {
        Some(number) => format!("Revision {number} is rolled out"),
        None => progressing.message.clone(),
    };
    Some((kind, reason, note))
}
