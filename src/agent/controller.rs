//! Reconciles the phases of the agent's cluster.
//!
//! A pass sends no request to the hub and never waits for the hub: it records the status, and
//! [`reporter`](super::reporter) writes the status when the hub is reachable.

use std::{collections::BTreeSet, sync::Arc};

use baton_apis::{
    ObjectSetPhaseStatus,
    conditions::{ARCHIVED, Reason},
    constants::LABEL_CHAIN,
};
use baton_engine::{conditions::Requeue, owners::lost_hubs, revision::Delivery};
use baton_fleet::mirror::{self, Origin};
use baton_kubernetes::account::Account;
use baton_records::phase::{PhaseKey, PhaseRecord};
use baton_runtime::{
    controller::{Controller, Reconciled},
    outcomes::ReconcileOutcome,
    queue::Queue,
    source::Wake,
};
use baton_sites::{terms::Terms, uptime::Uptime};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use parking_lot::Mutex;

use super::{
    mirrors::Mirrors,
    state::{StateFile, save},
};
use crate::delivery::{
    gate::{self, Gated, NoteBegun, Times, is_untouched},
    heirs::phases_given,
    observed::{Observed, phases_of_siblings},
    phase_owners::PhaseOwners,
    phase_pass::{PhaseOutcome, PhasePass},
    shared::{Error, Shared},
    site_chain::{on_site_phase, state},
    strays::OwnerServer,
};

/// Delivers the phases of one cluster. There is one worker, so that of several phases that arrive
/// together the newest is reconciled first.
pub(crate) struct AgentPhases {
    pub shared: Shared,
    pub observed: Arc<Observed>,
    pub mirrors: Arc<Mirrors>,
    /// Stores which phases have begun.
    pub file: StateFile,
    /// Chains of sites in which a phase has begun since the file was written.
    pub unsaved: Mutex<BTreeSet<String>>,
    /// Start time of this process.
    pub since: Timestamp,
    /// The phases of the agent's cluster.
    pub phases: PhaseOwners,
}

impl Controller for AgentPhases {
    const NAME: &'static str = "objectsetphase";

    type Key = PhaseKey;
    type Error = Error;

    fn watches(self: &Arc<Self>, queue: &Arc<Queue<PhaseKey>>) {
        queue.wake_on(self.mirrors.wakes(), self, |_, key| {
            [Wake::now(key.clone())]
        });
        let on = &self.observed;
        queue.wake_on(&on.children, self, |this, event| {
            let now = this.shared.clock.instant();
            this.phases.on_child(&this.observed, event, now)
        });
        queue.wake_on(&on.affected_siblings, self, |this, affected| {
            phases_of_siblings(&this.observed, affected)
        });
        queue.wake_on(&on.handed_back, self, |this, uids| {
            phases_given(&this.observed, uids)
        });
    }

    async fn reconcile(&self, key: &PhaseKey, failures: u32) -> Result<Reconciled, Error> {
        if self.mirrors.acceptance().is_refused() {
            return Ok((ReconcileOutcome::Waiting, Requeue::OnEvent));
        }
        let now = self.shared.clock.instant();
        let server = OwnerServer {
            api: &self.shared.api,
            at: &|uid| self.mirrors.mirror_of(&key.name, uid),
            says_ended: |mirror, _| mirror.deleting,
        };
        let taken = self
            .phases
            .take_strays_away(key, &self.observed, now, server);
        let gone = taken.await;
        let Some(record) = self.phases.phase(key, &self.observed) else {
            return Ok(gone);
        };
        let (record, site) = match self.gate(record).await? {
            Gated::Open(record, site) => (record, site),
            Gated::Held(result) => return Ok(result),
        };
        let old = record.status()?;
        let origin = Origin::read(&record)?;
        let account = origin.service_account();
        let pass = PhasePass {
            account: account.and_then(|name| Account::new(&record.key.namespace, name)),
            shared: &self.shared,
            observed: &self.observed,
            owners: &self.phases.owners,
            record: &record,
            target: self.phases.owners.targets.home.clone(),
            delivery: Delivery::Remote,
            reach: origin.reach().clone(),
            force_adoption: false,
            hub: origin.hub(),
            lost_hubs: lost_hubs(origin.lost_hubs()),
            has_given: Some(origin.has_given()),
            ended_before: origin.ended(),
            failures,
            site,
        };
        let PhaseOutcome {
            status,
            result: (outcome, requeue),
            affected,
        } = if !record.deleting {
            pass.roll_out().await?
        } else if mirror::is_archived(&old) {
            return Ok((ReconcileOutcome::Unchanged, Requeue::OnEvent));
        } else if self.mirrors.is_closing() {
            return Ok((ReconcileOutcome::Waiting, Requeue::OnEvent));
        } else {
            let waiting = if is_untouched(&record)? {
                None
            } else {
                pass.tear_down().await?
            };
            waiting.unwrap_or_else(|| self.archived(&record))
        };
        let is_new = self.note(&record, &status)?;
        if let Some(affected) = affected {
            self.observed.affected_siblings.emit(&affected);
        }
        match outcome {
            ReconcileOutcome::Unchanged if is_new => Ok((ReconcileOutcome::Changed, requeue)),
            outcome => Ok((outcome, requeue)),
        }
    }
}

impl NoteBegun for AgentPhases {
    async fn report_waiting(
        &self,
        record: &PhaseRecord,
        status: ObjectSetPhaseStatus,
        (outcome, requeue): Reconciled,
    ) -> Result<Reconciled, Error> {
        let is_new = self.note(record, &status)?;
        let outcome = if is_new {
            ReconcileOutcome::Changed
        } else {
            outcome
        };
        Ok((outcome, requeue))
    }

    async fn report_begun(
        &self,
        record: Arc<PhaseRecord>,
        status: ObjectSetPhaseStatus,
    ) -> Result<Option<Arc<PhaseRecord>>, Error> {
        self.note(&record, &status)?;
        self.save_begun(&record).await?;
        let begun = self.observed.phases.get(&record.key);
        Ok(begun.filter(|begun| begun.uid == record.uid))
    }
}

impl AgentPhases {
    /// Decides if a phase may write now. Returns the input of its pass, or the result of the
    /// reconcile if the phase has to wait.
    async fn gate(&self, record: Arc<PhaseRecord>) -> Result<Gated, Error> {
        if !record.deleting {
            self.save_begun(&record).await?;
        }
        let times = Times {
            now: self.shared.clock.now(),
            uptime: Uptime::since(self.since),
        };
        let origin = Origin::read(&record)?;
        let ask = |record: &PhaseRecord| {
            let position = origin.queue_position();
            let terms =
                |_: &_| position.map_or_else(Terms::default, |position| position.terms().clone());
            gate::ask(&self.observed, record, terms, times)
        };
        gate::pass(record, ask, self).await
    }

    /// Saves the file if a phase of this chain has begun since the last save: a pass of one phase
    /// may rely on the beginning of another. There is one worker, so no phase begins meanwhile.
    async fn save_begun(&self, record: &PhaseRecord) -> Result<(), Error> {
        if !self.unsaved.lock().contains(chain_label(record)) {
            return Ok(());
        }
        let saved = save(&self.file, &self.mirrors).await;
        saved.map_err(|error| Error::NotSaved(error.into()))?;
        self.unsaved.lock().clear();
        Ok(())
    }

    /// Records the new status of a phase, and wakes the phases that may wait for it. Returns true
    /// if the status differs from the previous one.
    fn note(&self, record: &PhaseRecord, status: &ObjectSetPhaseStatus) -> Result<bool, Error> {
        let is_new = self.mirrors.record_status(record, status)?;
        if is_new {
            let now = self.observed.phases.get(&record.key);
            let has_begun = |phase: &PhaseRecord| state(phase).begun.since().is_some();
            if !has_begun(record) && now.as_deref().is_some_and(has_begun) {
                let chain = chain_label(record).to_owned();
                self.unsaved.lock().insert(chain);
            }
            for waiting in on_site_phase(&self.observed, Some(record), now.as_deref()) {
                self.mirrors.wakes().emit(&waiting.key);
            }
        }
        Ok(is_new)
    }

    /// The outcome that reports to the hub that the objects are deleted.
    fn archived(&self, phase: &PhaseRecord) -> PhaseOutcome {
        let condition = Condition {
            type_: ARCHIVED.to_owned(),
            status: "True".to_owned(),
            reason: Reason::Archived.to_string(),
            message: String::new(),
            observed_generation: Some(phase.generation),
            last_transition_time: Time(self.shared.clock.now()),
        };
        PhaseOutcome {
            status: ObjectSetPhaseStatus {
                conditions: vec![condition],
                ..ObjectSetPhaseStatus::default()
            },
            result: (ReconcileOutcome::Changed, Requeue::OnEvent),
            affected: None,
        }
    }
}

/// The chain label of a phase; empty if the phase has none.
fn chain_label(phase: &PhaseRecord) -> &str {
    phase.labels.get(LABEL_CHAIN).map_or("", String::as_str)
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use baton_apis::conditions::AVAILABLE;
    use baton_kubernetes::target::Target;
    use baton_records::api::Api;
    use baton_runtime::{clock::Clock, metrics::Metrics};
    use kube::{Client, Config};
    use tokio::{sync::mpsc, time::advance};

    use super::*;
    use crate::{
        agent::{
            mirrors::{Change, tests::mirror},
            state::LONGEST_PAUSE,
        },
        delivery::{gate::SitePass, owners::Targets, repairs::Repairs, shared::Events},
    };

    fn agent(file: &StateFile) -> AgentPhases {
        let client = Client::try_from(Config::new("http://127.0.0.1:9".parse().unwrap())).unwrap();
        let observed = Arc::new(Observed::default());
        let (events, _) = mpsc::unbounded_channel();
        AgentPhases {
            shared: Shared {
                api: Api::new(client.clone()),
                events: Events::Log,
                clock: Clock::default(),
                repairs: Repairs::register(&Metrics::new()),
                default_account: None,
            },
            mirrors: Arc::new(Mirrors::new("edge", "", observed.clone())),
            file: file.clone(),
            unsaved: Mutex::default(),
            since: Timestamp::UNIX_EPOCH,
            phases: PhaseOwners::new(Targets {
                home: Target::new(client, observed.watcher(events)),
                inventory: None,
            }),
            observed,
        }
    }

    /// Replaces the directory by a file, so that nothing can be written to it.
    fn block(path: &Path) {
        fs::remove_dir_all(path).unwrap_or_default();
        fs::write(path, "").unwrap();
    }

    fn unblock(path: &Path) {
        fs::remove_file(path).unwrap();
    }

    fn is_open(gated: Result<Gated, Error>) -> bool {
        matches!(gated.unwrap(), Gated::Open(..))
    }

    #[tokio::test(start_paused = true)]
    async fn no_object_is_written_before_the_start_of_a_phase_is_on_disk() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state");
        let file = StateFile::new(&path, "edge");
        let agent = agent(&file);
        agent.mirrors.process([Change::There(mirror(1, true))]);
        block(&path);
        let gate = || agent.gate(agent.observed.phases.all().remove(0));
        assert!(gate().await.is_err());
        assert!(gate().await.is_err(), "it is not saved yet");
        unblock(&path);
        assert!(gate().await.is_err(), "the disk is not tried at once");
        advance(LONGEST_PAUSE).await;
        assert!(is_open(gate().await));
        let saved = file.load().unwrap().unwrap();
        assert!(saved[0].noted.is_some());
        // The second pass does not write to the disk either.
        block(&path);
        assert!(is_open(gate().await));
    }

    #[tokio::test(start_paused = true)]
    async fn no_workload_stops_before_the_start_of_a_phase_is_on_disk() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state");
        let file = StateFile::new(&path, "edge");
        let agent = agent(&file);
        let phase = |number: i64| {
            let mut phases = agent.observed.phases.all().into_iter();
            phases.find(|it| it.revision_number() == number).unwrap()
        };
        agent.mirrors.process([Change::There(mirror(1, true))]);
        assert!(is_open(agent.gate(phase(1)).await));
        let mut available = phase(1).status().unwrap();
        let mut conditions = available.conditions.iter_mut();
        let condition = conditions.find(|it| it.type_ == AVAILABLE).unwrap();
        condition.status = "True".to_owned();
        agent.note(&phase(1), &available).unwrap();
        agent.mirrors.process([Change::There(mirror(2, true))]);
        let Gated::Open(_, SitePass::Trial(accepted)) = agent.gate(phase(2)).await.unwrap() else {
            panic!("it is not checked");
        };
        block(&path);
        assert!(agent.note(&phase(2), &accepted).unwrap());
        assert!(agent.gate(phase(1)).await.is_err());
        unblock(&path);
        advance(LONGEST_PAUSE).await;
        let Gated::Open(_, site) = agent.gate(phase(1)).await.unwrap() else {
            panic!("it is held");
        };
        assert!(site.stop_request().is_some());
        let saved = file.load().unwrap().unwrap().into_iter();
        let noted = saved.map(|saved| saved.noted.unwrap().conditions);
        assert!(noted.flatten().any(|it| it.reason == Reason::Stopping));
    }
}
