//! The objects of a delegated phase: rolling them out and taking them away, wherever the phase is kept
//! (contract section 6).

use std::sync::Arc;

use baton_apis::{
    LifecycleState, ObjectSetPhaseSpec, ObjectSetPhaseStatus, ObjectSetTemplatePhase,
    WaitingForObject, conditions::reasons,
};
use jiff::Timestamp;

use super::{Context, Reconciled, drive::Driver, owner::Owner, report};
use crate::{
    cluster::{
        key::Resource as _,
        phase::PhaseRecord,
        record::{ReadError, Record},
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

/// A pass over the objects ended early.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Reading the phase itself.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Kinds and watches of children.
    #[error("observing objects: {0}")]
    Observe(#[from] ObserveError),
}

/// What a pass over the objects came to.
pub struct Report {
    /// The whole status that the phase is to have.
    pub status: ObjectSetPhaseStatus,
    /// What the pass came to besides.
    pub result: Reconciled,
    /// Revisions to be looked at again when the status is known.
    pub concerned: Vec<String>,
}

/// Tells phases that are to be paused from others.
#[must_use]
pub fn lifecycle(is_paused: bool) -> LifecycleState {
    if is_paused {
        LifecycleState::Paused
    } else {
        LifecycleState::Active
    }
}

/// A pass in progress.
pub struct Work<'a> {
    /// What all passes share.
    pub context: &'a Context,
    /// The phase, as the owner of its objects.
    pub owner: Owner,
    /// The cluster that the objects live in.
    pub target: Target,
    /// How they get there.
    pub delivery: Delivery,
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

    /// Brings the objects of the phase to where they belong.
    ///
    /// # Errors
    /// When the phase cannot be read, or its kinds cannot be observed and that is no standing state yet.
    /// What goes wrong with its objects is told in the status.
    pub async fn roll_out(&self, record: &PhaseRecord) -> Result<Report, Error> {
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
        let blocked = |texts: &[String], result| {
            let reason = ("False", reasons::PREFLIGHT_ERROR);
            let text = texts.join(", ");
            Report {
                status: report_phase_unknown(&old, &revision, reason, &text, Timestamp::now()),
                result,
                concerned: Vec::new(),
            }
        };
        let (Some(probes), true) = (probes, faults.is_empty()) else {
            let again = Again::After(MISCONFIGURATION_RETRY);
            return Ok(blocked(&faults, (ReconcileOutcome::Blocked, again)));
        };
        let driver = self.driver(record);
        let kinds = match driver.kinds(&phases).await {
            Ok(kinds) => kinds,
            Err(error) if context.is_stuck(&self.owner) => {
                let result = (ReconcileOutcome::Failed, Again::Backoff);
                return Ok(blocked(&[error.to_string()], result));
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
        Ok(Report {
            status,
            result: (kind, again),
            concerned,
        })
    }

    /// Takes the objects of the phase away (contract 6.7); `None` when none is left.
    ///
    /// # Errors
    /// As [`Work::roll_out`].
    pub async fn tear_down(&self, record: &PhaseRecord) -> Result<Option<Report>, Error> {
        let spec = record.spec()?;
        let Loaded {
            revision, phases, ..
        } = self.load(record, None, &spec);
        let outcome = self.driver(record).take_away(&revision, &phases).await?;
        let (objects, result) = match outcome {
            TeardownOutcome::Done => {
                self.target.release(&self.owner.to_string());
                return Ok(None);
            }
            TeardownOutcome::Waiting(objects) => {
                (objects, (ReconcileOutcome::Waiting, Again::OnEvent))
            }
            TeardownOutcome::Failed(objects) => {
                (objects, (ReconcileOutcome::Failed, Again::Backoff))
            }
            TeardownOutcome::Blocked(message) => {
                let blocked = WaitingForObject {
                    message,
                    ..WaitingForObject::default()
                };
                (vec![blocked], (ReconcileOutcome::Failed, Again::Backoff))
            }
        };
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
        let (old, text) = (record.status()?, texts.join(", "));
        Ok(Some(Report {
            status: report_phase_unknown(&old, &revision, reason, &text, Timestamp::now()),
            result,
            concerned: Vec::new(),
        }))
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
