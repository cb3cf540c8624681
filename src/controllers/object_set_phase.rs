//! The controller of `ObjectSetPhase` and `ClusterObjectSetPhase` (contract section 6).

use std::{sync::Arc, time::Duration};

use baton_apis::{
    LifecycleState, ObjectSetPhaseSpec, ObjectSetPhaseStatus, ObjectSetTemplatePhase,
    conditions::{AVAILABLE, reasons},
    constants::{ANNOTATION_ABANDON, CLASS_DEFAULT, FINALIZER_CACHED, FINALIZER_ORPHAN},
};
use jiff::Timestamp;

use super::{Context, Fault, Reconciled, drive::Driver, owner::Owner, report};
use crate::{
    cluster::{
        events::EventKind,
        inventory::Link,
        key::Resource as _,
        phase::{PhaseKey, PhaseRecord},
        record::{ReadError, Record},
        revision_api::ApiError,
        revisions::Kinship,
        target::{ObserveError, Target},
    },
    engine::{
        conditions::{Again, MISCONFIGURATION_RETRY, report_phase, report_phase_unknown},
        object::Identity,
        pass::Snapshot,
        revision::{Delivery, Phase, Revision, duplicates, prepare},
        teardown::TeardownOutcome,
    },
    telemetry::outcomes::ReconcileOutcome,
};

/// A pass ended early. The work is taken up again with a growing delay.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Reading the phase itself.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The finalizer.
    #[error("setting up: {0}")]
    SetUp(#[source] ApiError),
    /// Kinds and watches of children.
    #[error("observing objects: {0}")]
    Observe(#[from] ObserveError),
    /// The status.
    #[error("writing the status: {0}")]
    Status(#[source] ApiError),
    /// The finalizer at the end.
    #[error("releasing the finalizer: {0}")]
    Release(#[source] ApiError),
}

impl Fault for Error {
    fn is_change(&self) -> bool {
        matches!(
            self,
            Self::SetUp(ApiError::Changed { .. })
                | Self::Status(ApiError::Changed { .. })
                | Self::Release(ApiError::Changed { .. })
        )
    }
}

/// One pass over a delegated phase.
///
/// # Errors
/// When a request about the phase itself failed. What goes wrong with its objects is told in its status.
pub async fn reconcile(context: &Context, key: &PhaseKey) -> Result<Reconciled, Error> {
    let owner = Owner::Phase(key.clone());
    let Some(record) = context.phases.get(key) else {
        context.forget(&owner);
        return Ok((ReconcileOutcome::Gone, Again::OnEvent));
    };
    let work = |target, delivery| Work {
        context,
        target,
        owner,
        delivery,
    };
    let (work, record) = match route(context, &record) {
        Route::Elsewhere => return Ok((ReconcileOutcome::Unchanged, Again::OnEvent)),
        // What was reported last still holds, for the few seconds until that is known better.
        Route::Connecting => return Ok((ReconcileOutcome::Waiting, Again::OnEvent)),
        Route::Unreachable(message) => {
            return unreachable(context, &record, &message).await;
        }
        Route::Here => (work(context.target.clone(), Delivery::Delegated), record),
        Route::Remote(target) => (work(target, Delivery::Remote), record),
    };
    if record.deleting {
        return work.tear_down(&record).await;
    }
    let record = work.set_up(record).await?;
    work.roll_out(&record).await
}

/// Who delivers a phase, and where to.
enum Route {
    /// Nobody here: another class has a controller of its own, or none.
    Elsewhere,
    /// Into the cluster of the revision.
    Here,
    /// Into another cluster.
    Remote(Target),
    /// Into another cluster that is about to be connected to.
    Connecting,
    /// Into another cluster that cannot be reached; the text says why.
    Unreachable(String),
}

fn route(context: &Context, record: &PhaseRecord) -> Route {
    let Some(cluster) = record.cluster() else {
        return match record.class() {
            CLASS_DEFAULT => Route::Here,
            _ => Route::Elsewhere,
        };
    };
    match context.inventory.link(cluster) {
        Link::Up(target) => Route::Remote(target),
        Link::Pull => Route::Unreachable(format!(
            "Cluster \"{cluster}\" is to be served by an agent, which this version does not have yet."
        )),
        Link::Unknown => Route::Unreachable(format!("There is no Cluster \"{cluster}\".")),
        Link::Down { reason, .. } if reason == reasons::CONNECTING => Route::Connecting,
        Link::Down { message, since, .. } => Route::Unreachable(format!(
            "Cluster \"{cluster}\" is not connected since {since:.0}: {message}"
        )),
    }
}

/// Tells that nothing can be done about the objects of a phase, and lets go of it if its deletion is not
/// to wait for them.
async fn unreachable(
    context: &Context,
    record: &PhaseRecord,
    message: &str,
) -> Result<Reconciled, Error> {
    if record.deleting {
        let has = |finalizer| record.finalizers.iter().any(|present| present == finalizer);
        // Without it nothing was ever delivered.
        if !has(FINALIZER_CACHED) {
            return Ok((ReconcileOutcome::Unchanged, Again::OnEvent));
        }
        if record.is_abandoned() || has(FINALIZER_ORPHAN) {
            release(context, record).await?;
            return Ok((ReconcileOutcome::Changed, Again::OnEvent));
        }
    }
    let old = record.status()?;
    let revision = Revision {
        generation: record.generation,
        lifecycle: lifecycle(record.is_paused()?),
        ..Revision::default()
    };
    let mut text = message.to_owned();
    if record.deleting {
        text = format!(
            "{text} The deletion waits for it; to leave the objects behind, annotate this phase with \
             {ANNOTATION_ABANDON}=true."
        );
    }
    let status = report_phase_unknown(
        &old,
        &revision,
        ("Unknown", reasons::CLUSTER_UNREACHABLE),
        &text,
        Timestamp::now(),
    );
    let kind = ReconcileOutcome::Waiting;
    write(context, record, &old, status, (kind, Again::OnEvent)).await
}

/// Takes our finalizer away.
async fn release(context: &Context, record: &PhaseRecord) -> Result<(), Error> {
    let mut left = record.finalizers.clone();
    left.retain(|finalizer| finalizer != FINALIZER_CACHED);
    let updated = context.api.set_finalizers(record, left).await;
    context.phases.update(updated.map_err(Error::Release)?);
    Ok(())
}

fn lifecycle(is_paused: bool) -> LifecycleState {
    if is_paused {
        LifecycleState::Paused
    } else {
        LifecycleState::Active
    }
}

/// A pass in progress.
struct Work<'a> {
    context: &'a Context,
    target: Target,
    owner: Owner,
    delivery: Delivery,
}

/// A phase read in full.
struct Loaded {
    revision: Revision,
    phases: Vec<Phase>,
    faults: Vec<String>,
}

impl Work<'_> {
    fn driver<'a>(&'a self, record: &'a PhaseRecord) -> Driver<'a> {
        Driver {
            context: self.context,
            owner: self.owner.clone(),
            uid: &record.uid,
            target: self.target.clone(),
            set: None,
        }
    }

    /// Makes sure that the finalizer is there.
    async fn set_up(&self, record: Arc<PhaseRecord>) -> Result<Arc<PhaseRecord>, Error> {
        if record.finalizers.iter().any(|f| f == FINALIZER_CACHED) {
            return Ok(record);
        }
        let mut finalizers = record.finalizers.clone();
        finalizers.push(FINALIZER_CACHED.to_owned());
        let updated = self.context.api.set_finalizers(&record, finalizers).await;
        let updated = updated.map_err(Error::SetUp)?;
        self.context.phases.update(updated.clone());
        Ok(Arc::new(updated))
    }

    /// Brings the objects of the phase to where they belong and reports.
    async fn roll_out(&self, record: &PhaseRecord) -> Result<Reconciled, Error> {
        let context = self.context;
        let spec = record.spec()?;
        let old = record.status()?;
        let set = self.set(record);
        let Loaded {
            revision,
            phases,
            mut faults,
        } = self.load(record, set.as_deref(), &spec);
        let probes = spec.availability_probes.as_deref().unwrap_or_default();
        let probes = match context.probes(&self.owner, &record.uid, probes) {
            Ok(probes) => Some(probes),
            Err(error) => {
                faults.push(error.to_string());
                None
            }
        };
        let blocked = |texts: &[String]| {
            let reason = ("False", reasons::PREFLIGHT_ERROR);
            report_phase_unknown(&old, &revision, reason, &texts.join(", "), Timestamp::now())
        };
        let (Some(probes), true) = (probes, faults.is_empty()) else {
            let again = Again::After(MISCONFIGURATION_RETRY);
            let outcome = ReconcileOutcome::Blocked;
            let status = blocked(&faults);
            return write(context, record, &old, status, (outcome, again)).await;
        };
        let driver = self.driver(record);
        let kinds = match driver.kinds(&phases).await {
            Ok(kinds) => kinds,
            Err(error) if context.is_stuck(&self.owner) => {
                let status = blocked(&[error.to_string()]);
                let result = (ReconcileOutcome::Failed, Again::Backoff);
                return write(context, record, &old, status, result).await;
            }
            Err(error) => return Err(error.into()),
        };
        let lineage = Kinship::of_phase(
            record,
            &spec,
            set.as_deref(),
            &context.revisions,
            &context.phases,
        );
        let outcome = driver
            .roll_out(Snapshot {
                revision: &revision,
                phases: &phases,
                probes: &probes,
                kinds: &kinds,
                lineage: &lineage,
            })
            .await;
        let previous = spec.previous.iter().flatten();
        let previous = previous.map(|previous| previous.name.clone());
        let concerned = driver.remember(&phases, &kinds, &outcome, previous);
        let kind = report::outcome_kind(&outcome);
        let failures = context.failures(&self.owner);
        let (status, again) = report_phase(&old, &revision, outcome, failures, Timestamp::now());
        let written = write(context, record, &old, status, (kind, again)).await;
        context.look_again(&record.key.revision(""), &concerned);
        written
    }

    /// Takes the objects of the phase away and lets go of it (contract 6.7).
    async fn tear_down(&self, record: &PhaseRecord) -> Result<Reconciled, Error> {
        let context = self.context;
        let has = |finalizer| record.finalizers.iter().any(|present| present == finalizer);
        if !has(FINALIZER_CACHED) {
            return Ok((ReconcileOutcome::Unchanged, Again::OnEvent));
        }
        if !has(FINALIZER_ORPHAN) {
            let spec = record.spec()?;
            let Loaded {
                revision, phases, ..
            } = self.load(record, None, &spec);
            let outcome = self.driver(record).take_away(&revision, &phases).await?;
            let (waiting, kind, again) = match outcome {
                TeardownOutcome::Done => (None, ReconcileOutcome::Changed, Again::OnEvent),
                TeardownOutcome::Waiting(objects) => {
                    (Some(objects), ReconcileOutcome::Waiting, Again::OnEvent)
                }
                TeardownOutcome::Failed(objects) => {
                    (Some(objects), ReconcileOutcome::Failed, Again::Backoff)
                }
                TeardownOutcome::Blocked(text) => {
                    let blocked = baton_apis::WaitingForObject {
                        message: text,
                        ..Default::default()
                    };
                    (
                        Some(vec![blocked]),
                        ReconcileOutcome::Failed,
                        Again::Backoff,
                    )
                }
            };
            if let Some(objects) = waiting {
                let old = record.status()?;
                let texts: Vec<_> = objects
                    .iter()
                    .map(|object| {
                        let namespace = object.namespace.as_deref().unwrap_or_default();
                        let name = format!("{} {namespace}/{}", object.kind, object.name);
                        format!("{name}: {}", object.message)
                            .trim_start()
                            .to_owned()
                    })
                    .collect();
                let reason = ("False", reasons::ARCHIVAL_IN_PROGRESS);
                let text = texts.join(", ");
                let now = Timestamp::now();
                let status = report_phase_unknown(&old, &revision, reason, &text, now);
                return write(context, record, &old, status, (kind, again)).await;
            }
        }
        self.target.release(&self.owner.to_string());
        release(context, record).await?;
        Ok((ReconcileOutcome::Changed, Again::OnEvent))
    }

    /// The revision that the phase belongs to.
    fn set(&self, record: &PhaseRecord) -> Option<Arc<Record>> {
        let set = self.context.revisions.by_uid(record.controller.as_ref()?)?;
        (set.key.kind == record.key.kind.0 && set.key.namespace == record.key.namespace)
            .then_some(set)
    }

    fn load(
        &self,
        record: &PhaseRecord,
        set: Option<&Record>,
        spec: &ObjectSetPhaseSpec,
    ) -> Loaded {
        let revision = Revision {
            identity: Identity {
                kind: record.key.kind.kind().to_owned(),
                namespace: record.key.namespace.to_string(),
                name: record.key.name.to_string(),
                uid: record.uid.to_string(),
                is_remote: self.delivery == Delivery::Remote,
            },
            number: spec.revision,
            generation: record.generation,
            lifecycle: lifecycle(spec.paused),
            force_adoption: self.context.force_adoption,
            delivery: self.delivery,
            ..Revision::default()
        };
        // Its name begins with that of the revision.
        let prefix = set.map(|set| format!("{}-", set.key.name));
        let name = prefix
            .and_then(|prefix| {
                record
                    .key
                    .name
                    .strip_prefix(&*prefix)
                    .map(ToOwned::to_owned)
            })
            .unwrap_or_else(|| record.key.name.to_string());
        let phase = ObjectSetTemplatePhase {
            name,
            objects: spec.objects.clone(),
            ..ObjectSetTemplatePhase::default()
        };
        let phases = prepare(&revision, vec![phase]);
        let faults = duplicates(&phases);
        Loaded {
            revision,
            phases,
            faults,
        }
    }
}

/// Writes the status if it says anything new; `result` is what the pass came to besides.
async fn write(
    context: &Context,
    record: &PhaseRecord,
    old: &ObjectSetPhaseStatus,
    status: ObjectSetPhaseStatus,
    (kind, again): Reconciled,
) -> Result<Reconciled, Error> {
    if *old == status {
        return Ok((kind, again));
    }
    let updated = context.api.set_item_status(record, &status).await;
    context.phases.update(updated.map_err(Error::Status)?);
    if let Some(set) = record.controller.as_ref()
        && let Some(set) = context.revisions.by_uid(set)
    {
        context.enqueue(Owner::Set(set.key.clone()), Duration::ZERO);
    }
    let find = |status: &ObjectSetPhaseStatus| {
        let mut conditions = status.conditions.iter();
        conditions.find(|c| c.type_ == AVAILABLE).cloned()
    };
    // Probes that do not pass yet are the revision's news.
    if let Some(available) = find(&status)
        && let Some(reason) = reasons::OF_AVAILABLE
            .into_iter()
            .find(|reason| *reason == available.reason)
        && !matches!(reason, reasons::AVAILABLE | reasons::PROBE_FAILURE)
        && find(old).is_none_or(|before| before.reason != available.reason)
    {
        let kind = EventKind::Warning;
        context.event(&record.key, &record.uid, kind, reason, available.message);
    }
    let kind = match kind {
        ReconcileOutcome::Unchanged => ReconcileOutcome::Changed,
        kind => kind,
    };
    Ok((kind, again))
}
