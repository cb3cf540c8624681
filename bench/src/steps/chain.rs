//! Chains of revisions: the first rollout, edits, and idle time.

use std::time::Duration;

use baton_hack::manager::Manager;
use tokio::time::{Instant, timeout};

use super::{POLL_INTERVAL, StepStart, Steps, limit};
use crate::error::Error;
use crate::figures::chain::{Chain, Round};
use crate::figures::{Step, Timing, chain};
use crate::load::Shape;
use crate::load::chains::Chains;
use crate::served::Served;
use crate::settle::{self, ExpectedChain};
use crate::target::{Answer, Answers, Target};
use crate::watch::Watch;

/// The time for which the manager is left idle.
const IDLE: Duration = Duration::from_secs(10);

/// The time for which the memory of a calm manager is read: twice the time in which its allocator
/// returns the memory of a burst.
const MEMORY_TIME: Duration = Duration::from_secs(2);

/// Number of objects that take as long as one rollout of a deployment without its objects: a
/// revision is created, and another one paused and archived.
const PER_DEPLOYMENT: usize = 20;

/// Deployments, and the observed state of them and their revisions.
struct Load {
    shape: Chains,
    target: Target,
    deployments: Watch,
    revisions: Watch,
    chains: settle::Chains,
}

impl Steps {
    /// Creates deployments, edits the templates of all of them a number of times, each time until
    /// all have settled, and then leaves the manager idle.
    ///
    /// The manager is restarted before, so that earlier steps do not show in its memory.
    pub(crate) async fn chain(&mut self, shape: Chains) -> Result<(), Error> {
        self.manager.stop().await?;
        self.manager = Manager::start(&self.launch).await?;
        self.wait_until_idle("the manager to lead", POLL_INTERVAL, 0)
            .await?;
        let target = Target::create(&self.client, "bench-chain").await?;
        let mut load = Load {
            shape,
            deployments: Watch::start(&self.client, target.deployments()),
            revisions: Watch::start(&self.client, target.sets()),
            chains: settle::Chains::default(),
            target,
        };
        let first = self.first(&mut load).await?;
        self.edits(&mut load, first).await?;
        let revisions = shape.deployments + load.chains.archived();
        self.leave_idle(chain::IDLE, revisions, IDLE, Duration::ZERO)
            .await?;
        self.edit_after_restart(&mut load).await
    }

    /// Restarts the manager, and edits one of the deployments as soon as it is ready: all others wait for
    /// their first reconcile then.
    async fn edit_after_restart(&mut self, load: &mut Load) -> Result<(), Error> {
        let server = self.servers.cpu();
        self.manager.stop().await?;
        self.manager = Manager::start(&self.launch).await?;
        let newest = load.shape.edits + 2;
        let middle = load.shape.names().nth(load.shape.deployments / 2);
        let name = middle.unwrap_or_default();
        let patches = [(name.clone(), self.figures.shape.edit(&name, newest))].into();
        let started = Instant::now();
        let answers = load.target.edit_deployments(&patches).await?;
        let (timing, latencies) = self.settle(load, started, answers, newest).await?;
        let timing = Timing::of(0, Duration::from_secs_f64(timing.seconds));
        let step = Step::new(chain::RESTART, load.shape.deployments, timing);
        let before = StepStart {
            server,
            ..StepStart::default()
        };
        self.end(step.with_latencies(latencies), before).await
    }

    async fn first(&mut self, load: &mut Load) -> Result<Round, Error> {
        let before = self.begin().await?;
        let shape = self.figures.shape;
        let bodies = load.shape.bodies(|name| shape.deployment(name));
        let started = Instant::now();
        let create = load.target.create_all(load.target.deployments(), &bodies);
        let what = "ObjectDeployments to be created";
        let answers = self
            .manager
            .until(what, load.limit(&shape), create)
            .await??;
        let (timing, latencies) = self.settle(load, started, answers, 1).await?;
        let step = Step::new(chain::CREATE, load.shape.deployments, timing);
        self.end(step.with_latencies(latencies), before).await?;
        self.round(load, timing).await
    }

    async fn edits(&mut self, load: &mut Load, first: Round) -> Result<(), Error> {
        let shape = self.figures.shape;
        let mut rounds = vec![first];
        let mut latencies = Vec::new();
        let earlier = Served::read(&self.client).await?;
        let mut before = self.begin().await?;
        for revision in 2..=load.shape.edits + 1 {
            let patches = load.shape.bodies(|name| shape.edit(name, revision));
            let started = Instant::now();
            let edit = load.target.edit_deployments(&patches);
            let what = "ObjectDeployments to be edited";
            let answers = self.manager.until(what, load.limit(&shape), edit).await??;
            let (timing, some) = self.settle(load, started, answers, revision).await?;
            latencies.extend(some);
            // The server's processor time between the edits does not count for the edits.
            let server = self.servers.cpu();
            let round = self.round(load, timing).await?;
            before.server += self.servers.cpu() - server;
            eprintln!(
                "bench: edit {} of {}: {:.2} s, {:.0} objects/s, {:.1} MiB when calm",
                revision - 1,
                load.shape.edits,
                timing.seconds,
                timing.rate,
                round.memory.unwrap_or_default(),
            );
            rounds.push(round);
        }
        let mut chain = Chain {
            shape: load.shape,
            rounds,
            served: Served::read(&self.client).await?.since(&earlier),
        };
        let edits = chain.edits();
        let own = u64::try_from(edits).unwrap_or_default();
        chain.served = chain.served.without("objectdeployments", "PATCH", own);
        let seconds = chain.rounds.iter().skip(1);
        let seconds: f64 = seconds.map(|round| round.timing.seconds).sum();
        let timing = Timing::of(chain.objects(), Duration::from_secs_f64(seconds));
        self.figures.chain = Some(chain);
        let step = Step::new(chain::EDITS, edits, timing).with_latencies(latencies);
        self.end(step, before).await
    }

    /// Waits until all chains have settled with that newest revision and the manager is calm.
    /// Returns the time from the first request until all have settled, and the time of each chain
    /// since its answer.
    async fn settle(
        &mut self,
        load: &mut Load,
        started: Instant,
        answers: Answers,
        newest: u32,
    ) -> Result<(Timing, Vec<Duration>), Error> {
        let objects = load.shape.objects(&self.figures.shape);
        let limit = load.limit(&self.figures.shape);
        let all = answers.len();
        let mut waiting = answers;
        let mut latencies = Vec::new();
        let mut end = started;
        let looking = async {
            while !waiting.is_empty() {
                let Some(name) = load.next().await else {
                    return;
                };
                let Some(Answer { at, generation }) = waiting.get(&name).copied() else {
                    continue;
                };
                let wanted = ExpectedChain { generation, newest };
                if let Some(settled) = load.chains.settled(&name, wanted) {
                    waiting.remove(&name);
                    latencies.push(settled.saturating_duration_since(at));
                    end = end.max(settled);
                }
            }
        };
        let what = format!("the ObjectDeployments to settle with revision {newest}");
        let looked = self.manager.until(&what, limit, looking).await;
        looked.map_err(|error| {
            let some = waiting.keys().take(3);
            let some: Vec<String> = some.map(|name| load.chains.describe(name)).collect();
            let missing = format!("{} of {all} missing: {}", waiting.len(), some.join(", "));
            error.with_detail(&missing)
        })?;
        // The remaining work counts for the step's requests and processor time.
        self.wait_until_idle("the manager to settle", POLL_INTERVAL, 0)
            .await?;
        Ok((Timing::of(objects, end - started), latencies))
    }

    /// The state after a rollout.
    async fn round(&mut self, load: &mut Load, timing: Timing) -> Result<Round, Error> {
        let memory = self.least_memory(MEMORY_TIME).await?;
        // Revisions beyond the history limit were deleted while the manager became calm.
        while let Ok(Some(_)) = timeout(POLL_INTERVAL, load.next()).await {}
        Ok(Round {
            timing,
            archived: load.chains.archived(),
            memory,
        })
    }
}

impl Load {
    /// The time that a rollout may take.
    fn limit(&self, shape: &Shape) -> Duration {
        limit(self.shape.objects(shape) + PER_DEPLOYMENT * self.shape.deployments)
    }

    /// Waits for the next event, and returns the name of its deployment.
    async fn next(&mut self) -> Option<String> {
        tokio::select! {
            sight = self.deployments.next() => Some(self.chains.deployment(sight?)),
            sight = self.revisions.next() => Some(self.chains.revision(sight?)),
        }
    }
}
