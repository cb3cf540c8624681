//! The controller of `ObjectSetPhase` and `ClusterObjectSetPhase` (contract section 6).

mod mirror;

use std::{sync::Arc, time::Duration};

use baton_apis::{
    ObjectSetPhaseStatus,
    conditions::{AVAILABLE, reasons},
    constants::{ANNOTATION_ABANDON, CLASS_DEFAULT, FINALIZER_CACHED},
};
use jiff::Timestamp;

use super::{
    Context, Fault, Reconciled,
    deliver::{self, Report, Work, lifecycle},
    owner::Owner,
};
use crate::{
    cluster::{
        events::EventKind,
        inventory::{Contact, Inventory, Link},
        phase::{PhaseKey, PhaseRecord},
        record::ReadError,
        revision_api::ApiError,
        target::Target,
    },
    engine::{
        conditions::{Again, report_phase_unknown},
        revision::{Delivery, Revision},
    },
    telemetry::outcomes::ReconcileOutcome,
};

/// A pass ended early. The work is taken up again with a growing delay.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The phase itself, or its objects.
    #[error(transparent)]
    Deliver(#[from] deliver::Error),
    /// The finalizer.
    #[error("setting up: {0}")]
    SetUp(#[source] ApiError),
    /// What stands for the phase in the namespace of an agent.
    #[error("handing to the agent: {0}")]
    Mirror(#[source] ApiError),
    /// The status.
    #[error("writing the status: {0}")]
    Status(#[source] ApiError),
    /// The finalizer at the end.
    #[error("releasing the finalizer: {0}")]
    Release(#[source] ApiError),
}

impl From<ReadError> for Error {
    fn from(error: ReadError) -> Self {
        Self::Deliver(error.into())
    }
}

impl Fault for Error {
    fn is_change(&self) -> bool {
        matches!(
            self,
            Self::SetUp(ApiError::Changed { .. })
                | Self::Mirror(ApiError::Changed { .. })
                | Self::Status(ApiError::Changed { .. })
                | Self::Release(ApiError::Changed { .. })
        )
    }
}

/// One pass over a delegated phase.
///
/// # Errors
/// When a request about the phase itself failed. What goes wrong with its objects is told in its status.
pub async fn reconcile(
    context: &Context,
    inventory: &Inventory,
    key: &PhaseKey,
) -> Result<Reconciled, Error> {
    if let Some(cluster) = mirror::cluster_of_heartbeat(key) {
        return mirror::keep_heartbeat(context, inventory, cluster).await;
    }
    let owner = Owner::Phase(key.clone());
    let Some(record) = context.phases.get(key) else {
        context.forget(&owner);
        return Ok((ReconcileOutcome::Gone, Again::OnEvent));
    };
    let (target, delivery) = match route(context, inventory, &record) {
        Route::Elsewhere => return Ok((ReconcileOutcome::Unchanged, Again::OnEvent)),
        // What was reported last still holds, for the few seconds until that is known better.
        Route::Connecting => return Ok((ReconcileOutcome::Waiting, Again::OnEvent)),
        Route::Unreachable(message) => {
            return unreachable(context, &record, &message).await;
        }
        Route::Stray => return mirror::collect(context, &record).await,
        Route::Agent(cluster, contact) => {
            return mirror::hand_over(context, record.clone(), cluster, contact).await;
        }
        Route::Here => (context.target.clone(), Delivery::Delegated),
        Route::Remote(cluster, target) => {
            mirror::withdraw(context, &record, cluster).await?;
            (target, Delivery::Remote)
        }
    };
    let work = Work {
        context,
        owner,
        target,
        delivery,
    };
    if record.deleting {
        return tear_down(&work, &record).await;
    }
    let record = set_up(context, record).await?;
    let report = work.roll_out(&record).await?;
    let old = record.status()?;
    let written = write(context, &record, &old, report.status, report.result).await;
    context.look_again(&record.key.revision(""), &report.concerned);
    written
}

/// Takes the objects of a phase away and lets go of it (contract 6.7).
async fn tear_down(work: &Work<'_>, record: &PhaseRecord) -> Result<Reconciled, Error> {
    // Without it nothing was ever delivered.
    if !has(record, FINALIZER_CACHED) {
        return Ok((ReconcileOutcome::Unchanged, Again::OnEvent));
    }
    let report = if record.orphaning {
        work.target.release(&work.owner.to_string());
        None
    } else {
        work.tear_down(record).await?
    };
    if let Some(Report { status, result, .. }) = report {
        let old = record.status()?;
        return write(work.context, record, &old, status, result).await;
    }
    release(work.context, record).await?;
    Ok((ReconcileOutcome::Changed, Again::OnEvent))
}

fn has(record: &PhaseRecord, finalizer: &str) -> bool {
    record.finalizers.iter().any(|present| present == finalizer)
}

/// Who delivers a phase, and where to.
enum Route<'a> {
    /// Nobody here: another class has a controller of its own, or none.
    Elsewhere,
    /// Into the cluster of the revision.
    Here,
    /// Into another cluster, of this name.
    Remote(&'a str, Target),
    /// Into another cluster that is about to be connected to.
    Connecting,
    /// Into another cluster that cannot be reached; the text says why.
    Unreachable(String),
    /// By the agent of this cluster.
    Agent(&'a str, Contact),
    /// It stands for a phase itself, and nobody knows of which.
    Stray,
}

fn route<'a>(context: &Context, inventory: &Inventory, record: &'a PhaseRecord) -> Route<'a> {
    let Some(cluster) = record.cluster() else {
        return match record.class() {
            CLASS_DEFAULT => Route::Here,
            _ if record.agent().is_some() && context.origin(record).is_none() => Route::Stray,
            _ => Route::Elsewhere,
        };
    };
    match inventory.link(cluster) {
        Link::Up(target) => Route::Remote(cluster, target),
        Link::Pull(contact) => Route::Agent(cluster, contact),
        Link::Unknown => Route::Unreachable(format!("There is no Cluster \"{cluster}\".")),
        Link::Down { reason, .. } if reason == reasons::CONNECTING => Route::Connecting,
        Link::Down { message, since, .. } => {
            Route::Unreachable(not_connected(cluster, since, &message))
        }
    }
}

/// Says that a cluster is not connected, since when and why.
fn not_connected(cluster: &str, since: Timestamp, cause: &str) -> String {
    format!("Cluster \"{cluster}\" is not connected since {since:.0}: {cause}")
}

/// Tells that nothing can be done about the objects of a phase, and lets go of it if its deletion is not
/// to wait for them.
async fn unreachable(
    context: &Context,
    record: &PhaseRecord,
    message: &str,
) -> Result<Reconciled, Error> {
    if record.deleting {
        // Without it nothing was ever delivered.
        if !has(record, FINALIZER_CACHED) {
            return Ok((ReconcileOutcome::Unchanged, Again::OnEvent));
        }
        if record.is_abandoned() || record.orphaning {
            if let Some(cluster) = record.cluster() {
                mirror::withdraw(context, record, cluster).await?;
            }
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
        if !text.ends_with(['.', '?', '!']) {
            text.push('.');
        }
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

/// Makes sure that the finalizer is there.
async fn set_up(context: &Context, record: Arc<PhaseRecord>) -> Result<Arc<PhaseRecord>, Error> {
    if has(&record, FINALIZER_CACHED) {
        return Ok(record);
    }
    let mut finalizers = record.finalizers.clone();
    finalizers.push(FINALIZER_CACHED.to_owned());
    let updated = context.api.set_finalizers(&record, finalizers).await;
    let updated = updated.map_err(Error::SetUp)?;
    context.phases.update(updated.clone());
    Ok(Arc::new(updated))
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
