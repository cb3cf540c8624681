//! The ObjectSet and ClusterObjectSet controller: observe, plan, apply, report.

use std::sync::Arc;

use baton_apis::{
    LifecycleState, ObjectSetStatus,
    conditions::reasons,
    constants::{FINALIZER_CACHED, FINALIZER_METRICS},
};
use jiff::Timestamp;

use super::{
    Context, Fault, Reconciled,
    drive::Driver,
    observe::{self, Loaded},
    owner::Owner,
    report,
};
use crate::{
    cluster::{
        record::{ReadError, Record, RevisionKey},
        revision_api::ApiError,
        revisions::Kinship,
        target::ObserveError,
    },
    engine::{
        chain::{self, Numbering},
        conditions::{Again, report_archival, report_deletion, report_pass, report_refusal},
        pass::Snapshot,
        teardown::TeardownOutcome,
    },
    telemetry::outcomes::ReconcileOutcome,
};

/// A pass ended early. The work is taken up again with a growing delay.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Finalizers and number.
    #[error("setting up: {0}")]
    SetUp(#[source] ApiError),
    /// Reading the revision itself.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Slices.
    #[error("slices: {0}")]
    Slices(#[source] ApiError),
    /// Kinds and watches of children.
    #[error("observing objects: {0}")]
    Observe(#[from] ObserveError),
    /// The status.
    #[error("writing the status: {0}")]
    Status(#[source] ApiError),
    /// Finalizers at the end.
    #[error("releasing finalizers: {0}")]
    Release(#[source] ApiError),
}

impl Fault for Error {
    fn is_change(&self) -> bool {
        matches!(
            self,
            Self::SetUp(ApiError::Changed { .. })
                | Self::Slices(ApiError::Changed { .. })
                | Self::Status(ApiError::Changed { .. })
                | Self::Release(ApiError::Changed { .. })
        )
    }
}

/// One pass over a revision.
///
/// # Errors
/// When a request about the revision itself failed. What goes wrong with its objects is no error
/// but is told in its status.
pub async fn reconcile(context: &Context, key: &RevisionKey) -> Result<Reconciled, Error> {
    let Some(record) = context.revisions.get(key) else {
        context.forget(&Owner::Set(key.clone()));
        return Ok((ReconcileOutcome::Gone, Again::OnEvent));
    };
    if record.archived || (record.deleting && record.orphaning) {
        return retire(context, &record).await;
    }
    if record.deleting || record.lifecycle == LifecycleState::Archived {
        return tear_down(context, &record).await;
    }
    let number = chain::number(
        &key.name,
        &context.revisions.link(key).unwrap_or_default(),
        |name| context.revisions.link(&key.sibling(name)),
    );
    let record = match &number {
        Numbering::WaitFor(_) => return Ok((ReconcileOutcome::Waiting, Again::OnEvent)),
        Numbering::Given(_) | Numbering::Impossible(_) => set_up(context, record, None).await?,
        Numbering::Computed(number) => set_up(context, record, Some(*number)).await?,
    };
    let status = status(context, &record)?;
    let mut loaded = observe::load(context, &record, &status).await?;
    if let Numbering::Impossible(text) = number {
        loaded.refuse(reasons::PREFLIGHT_ERROR, text);
    }
    roll_out(context, &record, &status, loaded).await
}

/// The status of a revision, with what is known of its contents although it is not written yet.
fn status(context: &Context, record: &Record) -> Result<ObjectSetStatus, ReadError> {
    let mut status = record.status()?;
    if status.content_hash.is_none() {
        status.content_hash = context.held.content_hash(&record.key, &record.uid);
    }
    Ok(status)
}

/// Makes sure that both finalizers and the number are there, in one write.
async fn set_up(
    context: &Context,
    record: Arc<Record>,
    number: Option<i64>,
) -> Result<Arc<Record>, Error> {
    let mut finalizers = record.finalizers.clone();
    for finalizer in [FINALIZER_CACHED, FINALIZER_METRICS] {
        if !finalizers.iter().any(|present| present == finalizer) {
            finalizers.push(finalizer.to_owned());
        }
    }
    if finalizers.len() == record.finalizers.len() && number.is_none() {
        return Ok(record);
    }
    let updated = context
        .api
        .set_up(&record, finalizers, number)
        .await
        .map_err(Error::SetUp)?;
    context.revisions_changed(context.revisions.update(updated.clone()), Some(&record.key));
    Ok(Arc::new(updated))
}

/// Brings the objects of a revision to where they belong and reports.
async fn roll_out(
    context: &Context,
    record: &Record,
    status: &ObjectSetStatus,
    loaded: Loaded,
) -> Result<Reconciled, Error> {
    let Loaded {
        revision,
        phases,
        probes,
        content_hash,
        refusal,
    } = loaded;
    let status = &ObjectSetStatus {
        content_hash: status.content_hash.clone().or(content_hash),
        ..status.clone()
    };
    let now = Timestamp::now();
    let (Some(probes), None) = (probes, &refusal) else {
        let refusal = refusal.unwrap_or_default();
        let report = report_refusal(status, &revision, refusal.reason, &refusal.texts, now);
        return report::write(context, record, status, report, ReconcileOutcome::Blocked).await;
    };
    let driver = driver(context, record);
    let kinds = match driver.kinds(&phases).await {
        Ok(kinds) => kinds,
        Err(error) if context.is_stuck(&driver.owner) => {
            let texts = [error.to_string()];
            let mut report =
                report_refusal(status, &revision, reasons::PREFLIGHT_ERROR, &texts, now);
            report.again = Again::Backoff;
            return report::write(context, record, status, report, ReconcileOutcome::Failed).await;
        }
        Err(error) => return Err(error.into()),
    };
    let lineage = Kinship::of_set(record, &context.revisions, &context.phases);
    let outcome = driver
        .roll_out(Snapshot {
            revision: &revision,
            phases: &phases,
            probes: &probes,
            kinds: &kinds,
            lineage: &lineage,
        })
        .await;
    let previous = record.previous.iter().map(ToString::to_string);
    let concerned = driver.remember(&phases, &kinds, &outcome, previous);
    let kind = report::outcome_kind(&outcome);
    let failures = context.failures(&driver.owner);
    let report = report_pass(status, &revision, outcome, failures, Timestamp::now());
    let written = report::write(context, record, status, report, kind).await;
    // Whoever looks at both should not see the older one without its objects first.
    context.look_again(&record.key, &concerned);
    written
}

/// Takes the objects of a revision away, for archival or deletion.
async fn tear_down(context: &Context, record: &Arc<Record>) -> Result<Reconciled, Error> {
    let status = status(context, record)?;
    let was_set_up = record
        .finalizers
        .iter()
        .any(|finalizer| finalizer == FINALIZER_CACHED);
    let loaded = observe::load(context, record, &status).await?;
    let Loaded {
        revision,
        phases,
        refusal,
        ..
    } = loaded;
    let outcome = if !was_set_up && status.controller_of.is_empty() {
        // It never wrote anything.
        TeardownOutcome::Done
    } else if let Some(texts) = refusal.and_then(|refusal| refusal.missing_slices)
        && !record.deleting
        && may_have_written(&status)
    {
        // Without the slice nobody knows what else is to be removed. When the revision itself is
        // deleted, garbage collection follows its owner references.
        let report = report_refusal(
            &status,
            &revision,
            reasons::PREFLIGHT_ERROR,
            &texts,
            Timestamp::now(),
        );
        return report::write(context, record, &status, report, ReconcileOutcome::Blocked).await;
    } else {
        driver(context, record)
            .take_away(&revision, &phases)
            .await?
    };
    let kind = match &outcome {
        TeardownOutcome::Done => ReconcileOutcome::Unchanged,
        TeardownOutcome::Waiting(_) => ReconcileOutcome::Waiting,
        TeardownOutcome::Failed(_) | TeardownOutcome::Blocked(_) => ReconcileOutcome::Failed,
    };
    if outcome == TeardownOutcome::Done {
        context.target.release(&record.key.to_string());
        if record.deleting {
            return retire(context, record).await;
        }
    }
    if record.deleting {
        let report = report_deletion(&status, outcome);
        return report::write(context, record, &status, report, kind).await;
    }
    let release = outcome == TeardownOutcome::Done;
    let report = report_archival(&status, &revision, outcome, Timestamp::now());
    if release && was_set_up {
        // In this order a crash in between leaves a revision without finalizer that is to be
        // archived, which is then archived at once.
        let updated = without_finalizers(context, record, &[FINALIZER_CACHED]).await?;
        return report::write(context, &updated, &status, report, kind).await;
    }
    report::write(context, record, &status, report, kind).await
}

/// Whether a revision can have written any object. The content hash is noted in the first pass that
/// finds all slices, which is the first one that writes anything.
fn may_have_written(status: &ObjectSetStatus) -> bool {
    status.content_hash.is_some() || !status.controller_of.is_empty()
}

fn driver<'a>(context: &'a Context, record: &'a Record) -> Driver<'a> {
    Driver {
        context,
        owner: Owner::Set(record.key.clone()),
        uid: &record.uid,
        target: context.target.clone(),
        set: Some(record),
    }
}

/// Lets go of a revision that has nothing left to tear down: archived for good, or deleted with
/// its objects to be left behind.
async fn retire(context: &Context, record: &Arc<Record>) -> Result<Reconciled, Error> {
    context.target.release(&record.key.to_string());
    if record.deleting {
        without_finalizers(context, record, &[FINALIZER_CACHED, FINALIZER_METRICS]).await?;
    } else {
        without_finalizers(context, record, &[FINALIZER_CACHED]).await?;
        report::figures(context, record, &record.status()?);
    }
    Ok((ReconcileOutcome::Unchanged, Again::OnEvent))
}

async fn without_finalizers(
    context: &Context,
    record: &Arc<Record>,
    finalizers: &[&str],
) -> Result<Arc<Record>, Error> {
    let mut left = record.finalizers.clone();
    left.retain(|finalizer| !finalizers.contains(&finalizer.as_str()));
    if left.len() == record.finalizers.len() {
        return Ok(record.clone());
    }
    let updated = context
        .api
        .set_up(record, left, None)
        .await
        .map_err(Error::Release)?;
    context.revisions_changed(context.revisions.update(updated.clone()), Some(&record.key));
    Ok(Arc::new(updated))
}
