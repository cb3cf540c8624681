//! Carries out the rollouts of Releases in the agent's cluster.
//!
//! A pass sends no request to the hub and never waits for the hub. The shares of the Releases are
//! stored on disk before pods or traffic follow: a restarted agent would otherwise begin again with
//! the shares of an earlier time, and take pods away.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use baton_apis::conditions::AVAILABLE;
use baton_engine::{condition_list::find_current, conditions::Requeue};
use baton_fleet::mirror;
use baton_kubernetes::target::Target;
use baton_records::phase::PhaseKey;
use baton_releases::{
    by_agent::{
        LocalRelease, ReleaseReport, ReleaseTask, Report, Task,
        local::{installed, weights},
        next,
        report::{bounded, is_awaited, set_outcomes},
    },
    chain,
    strategy::AchievedShares,
    targets::{
        CapacityOutcome, Progress,
        reasons::{Cause, Failure},
    },
};
use baton_runtime::{
    clock::Clock,
    controller::{Controller, Reconciled},
    outcomes::ReconcileOutcome,
    queue::Queue,
    source::{Source, Wake},
};
use baton_typed::debounce::Debounced;
use parking_lot::Mutex;

use super::{
    mirrors::{MAX_REPORT, Mirrors},
    state::{StateFile, save},
};
use crate::{
    controllers::releases::{
        app_clusters::{ChangedObject, ClusterChange, cluster::AppCluster},
        capacity::work::{WantedCapacity, set_capacity},
        debounced::{MOMENT, Reported},
        pass_outcome::PassOutcome,
        traffic::work::divide_traffic,
    },
    delivery::{
        observed::Observed,
        shared::{BURST, Error},
    },
};

/// Limit of the changes of shares in one pass.
const ROUNDS: usize = 16;

/// Carries out the rollouts. There is one worker.
pub(crate) struct AgentRollouts {
    pub mirrors: Arc<Mirrors>,
    pub observed: Arc<Observed>,
    pub file: StateFile,
    pub clock: Clock,
    /// The agent's cluster.
    pub target: Target,
    /// Changes of workloads, pods and Services in it.
    pub changes: Arc<Source<ClusterChange>>,
    /// The watched state of the cluster, while there are rollouts.
    pub cluster: Mutex<Option<Arc<AppCluster>>>,
    pub debounced: Debounced<PhaseKey>,
    /// Rollouts whose shares are not stored on disk.
    pub unsaved: Mutex<BTreeSet<PhaseKey>>,
}

impl Controller for AgentRollouts {
    const NAME: &'static str = "agentrollout";

    type Key = PhaseKey;
    type Error = Error;

    fn watches(self: &Arc<Self>, queue: &Arc<Queue<PhaseKey>>) {
        queue.wake_on(self.mirrors.rollout_wakes(), self, |_, key| {
            [Wake::now(key.clone())]
        });
        queue.wake_on(&self.changes, self, |this, change| {
            let ClusterChange {
                namespace,
                application,
                object,
            } = change;
            let key = mirror::rollout(this.mirrors.cluster(), namespace, application);
            let is_awaited = matches!(object, ChangedObject::Workload { is_full: true, .. });
            [if is_awaited {
                Wake::now(key)
            } else {
                Wake::after(BURST, key)
            }]
        });
    }

    async fn reconcile(&self, key: &PhaseKey, _failures: u32) -> Result<Reconciled, Error> {
        if self.mirrors.acceptance().is_refused() {
            return Ok((ReconcileOutcome::Waiting, Requeue::OnEvent));
        }
        let Some((task, before)) = self.mirrors.rollout(key) else {
            self.debounced.forget(key);
            self.unsaved.lock().remove(key);
            if self.mirrors.has_no_rollouts() {
                *self.cluster.lock() = None;
            }
            return Ok((ReconcileOutcome::Gone, Requeue::OnEvent));
        };
        let cluster = self.cluster();
        let mut report = begun(&task, &before);
        let mut stored = shares_of(&before);
        if self.unsaved.lock().contains(key) {
            stored.clear();
        }
        let mut done = PassOutcome::default();
        let mut is_cut = true;
        for _ in 0..ROUNDS {
            if shares_of(&report) != stored {
                self.store(key, &report).await?;
                stored = shares_of(&report);
            }
            self.work(&cluster, &task, &mut report, &mut done).await;
            let local = self.local(&task, &report);
            let Ok(Some((index, shares))) = next(&local, task.is_held, self.clock.now()) else {
                is_cut = false;
                break;
            };
            set_shares(&mut report, index, shares);
        }
        if is_cut {
            return Ok((ReconcileOutcome::Changed, Requeue::After(BURST)));
        }
        let reported = self.report(key, &before, report);
        Ok(reported.with(done.reconciled()))
    }
}

impl AgentRollouts {
    fn cluster(&self) -> Arc<AppCluster> {
        let mut cluster = self.cluster.lock();
        let cluster = cluster.get_or_insert_with(|| {
            let (target, changes) = (self.target.clone(), Arc::clone(&self.changes));
            Arc::new(AppCluster::new(self.mirrors.cluster(), target, changes))
        });
        Arc::clone(cluster)
    }

    /// Stores the shares of a report on disk. If that fails, the report says so.
    async fn store(&self, key: &PhaseKey, report: &Report) -> Result<(), Error> {
        self.unsaved.lock().insert(key.clone());
        let now = self.clock.now();
        self.mirrors.record_report(key, (report, false), now);
        if let Err(error) = save(&self.file, &self.mirrors).await {
            let failed = unsaved(report, &error.to_string());
            self.mirrors.record_report(key, (&failed, true), now);
            return Err(Error::NotSaved(error.into()));
        }
        self.unsaved.lock().remove(key);
        Ok(())
    }

    /// Gives all Releases their shares of pods and traffic.
    async fn work(
        &self,
        cluster: &AppCluster,
        task: &Task,
        report: &mut Report,
        done: &mut PassOutcome,
    ) {
        let shares = report.releases.iter();
        let weights = weights(shares.map(|it| (it.name.as_str(), it.shares)));
        for (release, report) in task.releases.iter().zip(&mut report.releases) {
            let capacity = capacity(cluster, task, (release, report), done).await;
            let of = (task.namespace.as_str(), &*task.application, &*release.name);
            let traffic = divide_traffic(cluster, of, &weights, done).await;
            done.add_cluster(PassOutcome::Nothing, capacity.as_ref().err());
            done.add_cluster(PassOutcome::Nothing, traffic.as_ref().err());
            set_outcomes(report, capacity, traffic);
        }
    }

    /// The Releases with the outcomes of their shares.
    fn local<'a>(&self, task: &'a Task, report: &Report) -> Vec<LocalRelease<'a>> {
        let pairs = task.releases.iter().zip(&report.releases);
        let local = pairs.filter_map(|(release, report)| {
            Some(LocalRelease {
                task: release,
                shares: report.shares,
                installation: self.installation(task, release),
                capacity: report.capacity.clone()?,
                traffic: report.traffic.clone()?,
            })
        });
        local.collect()
    }

    /// The state of the objects of a Release.
    fn installation(&self, task: &Task, release: &ReleaseTask) -> Progress {
        let cluster = self.mirrors.cluster();
        let chain = chain::label(&task.application, cluster);
        let revisions = self.observed.revisions.of_chain(&task.namespace, &chain);
        let own = revisions.into_iter().filter(|revision| {
            chain::number_of(&revision.key.name, &release.name, cluster).is_some()
        });
        let phases = own.flat_map(|revision| self.observed.phases.controlled_by(&revision));
        let live = phases.filter(|phase| !phase.deleting);
        let available = live.map(|phase| {
            let status = phase.status().ok()?;
            let found = find_current(&status.conditions, AVAILABLE, phase.generation)?;
            Some((found.status == "True", found.message.clone()))
        });
        installed(&available.collect::<Vec<_>>())
    }

    /// Records the report: at once if a strategy may wait for it, otherwise debounced.
    fn report(&self, key: &PhaseKey, before: &Report, report: Report) -> Reported {
        let report = bounded(report, MAX_REPORT);
        if report == *before {
            self.debounced.forget(key);
            return Reported::Unchanged;
        }
        let now = self.clock.instant();
        if !is_awaited(before, &report)
            && let Some(left) = self
                .debounced
                .remaining(key, &Arc::default(), None, MOMENT, now)
        {
            return Reported::Debounced(left);
        }
        let now = self.clock.now();
        self.mirrors.record_report(key, (&report, true), now);
        self.debounced.forget(key);
        Reported::Written
    }
}

/// The report at the begin of a pass: the Releases of the task, with their last shares and outcomes.
fn begun(task: &Task, before: &Report) -> Report {
    let releases = task.releases.iter().map(|release| {
        before
            .of(&release.name)
            .cloned()
            .unwrap_or_else(|| ReleaseReport {
                name: release.name.clone(),
                shares: release.shares,
                scaled_to: 0,
                capacity: None,
                traffic: None,
            })
    });
    Report {
        number: before.number,
        releases: releases.collect(),
    }
}

fn shares_of(report: &Report) -> BTreeMap<String, AchievedShares> {
    let releases = report.releases.iter();
    releases.map(|it| (it.name.clone(), it.shares)).collect()
}

/// Scales the workloads of a Release.
async fn capacity(
    cluster: &AppCluster,
    task: &Task,
    (release, report): (&ReleaseTask, &ReleaseReport),
    done: &mut PassOutcome,
) -> CapacityOutcome {
    let wanted = WantedCapacity::new(
        (&task.namespace, &task.application, &release.name),
        release.workloads.as_deref(),
        release.replicas,
    )?;
    let shares = (report.shares.percent, report.scaled_to);
    set_capacity(cluster, &wanted, shares, done).await
}

/// Gives a Release other shares. The outcomes are those of the shares before.
fn set_shares(report: &mut Report, index: usize, shares: AchievedShares) {
    for release in &mut report.releases {
        release.traffic = None;
    }
    let release = &mut report.releases[index];
    if release.shares.percent != shares.percent {
        release.capacity = None;
    }
    release.shares = shares;
}

/// The report that the shares cannot be stored, so that nothing is done.
fn unsaved(report: &Report, cause: &str) -> Report {
    let failure = || {
        let message = format!("the agent does nothing before it has stored its state: {cause}");
        Failure::new(Cause::Write, message)
    };
    let mut report = report.clone();
    for release in &mut report.releases {
        set_outcomes(release, Err(failure()), Err(failure()));
    }
    report
}
