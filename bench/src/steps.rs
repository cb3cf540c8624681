//! The steps of a run, one after the other on the same manager.

mod chain;
mod fleet;
pub(crate) mod releases;
mod restart;
mod rollout;
mod sites;
mod wait;

use std::time::Duration;

use baton_hack::manager::{Error as ManagerError, Launch, Manager};
use kube::Client;
use tokio::time::{Instant, sleep};

use super::bare;
use super::error::Error;
use super::figures::{Figures, Step, Timing};
use super::idle::IdleDetector;
use super::process::{Servers, Usage, reset_peak, usage};
use super::replay;
use super::requests::Requests;
use super::target::Target;
use super::watch::Watch;

/// The time for which the manager is left idle.
const IDLE: Duration = Duration::from_secs(30);

/// The pause between two reads of the metrics. Each read costs the manager a little.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Number of objects per second below which something must be wrong.
const SLOWEST: u32 = 20;

/// The state of the counters when a step began.
#[derive(Default)]
struct StepStart {
    requests: Requests,
    usage: Option<Usage>,
    server: f64,
}

/// A manager, its load, and the measurements so far.
pub(crate) struct Steps {
    client: Client,
    launch: Launch,
    servers: Servers,
    manager: Manager,
    target: Target,
    watch: Watch,
    figures: Figures,
}

impl Steps {
    /// Starts the manager.
    pub(crate) async fn start(
        client: Client,
        launch: Launch,
        servers: Servers,
        figures: Figures,
    ) -> Result<Self, Error> {
        let target = Target::create(&client, "bench").await?;
        let mut steps = Self {
            watch: Watch::start(&client, target.sets()),
            manager: Manager::start(&launch).await?,
            client,
            launch,
            servers,
            target,
            figures,
        };
        steps
            .wait_until_idle("the manager to lead", POLL_INTERVAL, 0)
            .await?;
        Ok(steps)
    }

    /// Stops the manager and returns the measurements.
    pub(crate) async fn finish(mut self) -> Result<Figures, Error> {
        self.manager.stop().await?;
        Ok(self.figures)
    }

    /// As [`Steps::finish`], after another bare measurement of Releases.
    pub(crate) async fn finish_with_bare_releases(mut self) -> Result<Figures, Error> {
        self.manager.stop().await?;
        self.bare_releases().await?;
        Ok(self.figures)
    }

    /// As [`Steps::finish`], with the bounds for the rollouts.
    pub(crate) async fn finish_with_bounds(mut self) -> Result<Figures, Error> {
        self.manager.stop().await?;
        let round = self.figures.bare.len() + 1;
        let shape = &self.figures.shape;
        let replayed = replay::measure(&self.client, &self.target, &self.servers, shape, round);
        self.figures.replayed = replayed.await?;
        Ok(self.figures)
    }

    /// A bare measurement. The manager is idle meanwhile and does not watch the objects.
    pub(crate) async fn bare(&mut self) -> Result<(), Error> {
        let figures = &mut self.figures;
        let round = figures.bare.len() + 1;
        let timing = bare::measure(&self.client, &self.servers, &figures.shape, round).await?;
        figures.bare.push(timing);
        Ok(())
    }

    /// The manager is left idle for a while.
    pub(crate) async fn idle(&mut self) -> Result<(), Error> {
        let sets = self.sets();
        self.leave_idle("idle", sets, IDLE, Duration::ZERO).await?;
        Ok(())
    }

    /// Leaves the manager idle, and returns the minimum of its memory during the last `looks`.
    async fn leave_idle(
        &mut self,
        step: &'static str,
        sets: usize,
        idle: Duration,
        looks: Duration,
    ) -> Result<Option<f64>, Error> {
        let before = self.begin().await?;
        let limit = idle + Duration::from_secs(5);
        let pause = sleep(idle.saturating_sub(looks));
        self.manager
            .until("the idle time to end", limit, pause)
            .await?;
        let memory = self.least_memory(looks).await?;
        let step = Step::new(step, sets, Timing::of(0, idle));
        self.end(step, before).await?;
        Ok(memory)
    }

    /// The minimum of the manager's resident memory in MiB over some time.
    async fn least_memory(&mut self, looks: Duration) -> Result<Option<f64>, Error> {
        let pid = self.manager.pid();
        let looking = async {
            let started = Instant::now();
            let mut least: Option<f64> = None;
            while started.elapsed() < looks {
                if let Some(usage) = usage(pid) {
                    least = Some(least.map_or(usage.rss, |least| least.min(usage.rss)));
                }
                sleep(POLL_INTERVAL).await;
            }
            least
        };
        let limit = looks + Duration::from_secs(5);
        let what = "the manager's memory to be looked at";
        Ok(self.manager.until(what, limit, looking).await?)
    }

    /// Number of revisions after the rollouts.
    fn sets(&self) -> usize {
        let rollouts = ["create", "handover", "unchanged"].map(|name| self.figures.step(name));
        rollouts.into_iter().flatten().map(|step| step.sets).sum()
    }

    /// The time that a step may take.
    fn limit(&self) -> Duration {
        limit(self.figures.shape.objects())
    }

    async fn begin(&self) -> Result<StepStart, Error> {
        reset_peak(self.manager.pid());
        Ok(StepStart {
            requests: self.requests().await?,
            usage: usage(self.manager.pid()),
            server: self.servers.cpu(),
        })
    }

    /// Adds the activity and resources of the manager to a step, and reports the step.
    async fn end(&mut self, step: Step, before: StepStart) -> Result<(), Error> {
        let usage = usage(self.manager.pid());
        let requests = self.requests().await?.since(&before.requests);
        let mut step = step.with_usage(before.usage, usage).with_requests(requests);
        step.timing = step.timing.with_server(self.servers.cpu() - before.server);
        let to_bare = self.figures.to_bare(&step);
        let rate = to_bare.map_or_else(String::new, |to_bare| {
            format!(", {:.0} objects/s, {to_bare:.2} x bare", step.timing.rate)
        });
        eprintln!(
            "bench: {}: {:.2} s{rate}, {} writes, CPU {:.2} s, peak {:.1} MiB",
            step.name,
            step.timing.seconds,
            step.writes,
            step.cpu.unwrap_or_default(),
            step.memory.map_or(0.0, |memory| memory.peak),
        );
        self.figures.steps.push(step);
        Ok(())
    }

    async fn requests(&self) -> Result<Requests, Error> {
        let metrics = self.manager.endpoints().metrics().await?;
        Requests::of(&metrics).ok_or_else(|| {
            ManagerError::Metrics("there is no baton_api_requests_total in them".to_owned()).into()
        })
    }

    /// Waits until the manager has nothing left to do, and returns the beginning of that time.
    async fn wait_until_idle(
        &mut self,
        what: &str,
        every: Duration,
        at_least: u64,
    ) -> Result<Instant, Error> {
        let endpoints = self.manager.endpoints();
        let mut calm = IdleDetector::new(at_least, Instant::now());
        let look = async {
            loop {
                let metrics = endpoints.metrics().await?;
                if let Some(since) = calm.evaluate(&metrics, Instant::now()) {
                    return Ok::<_, ManagerError>(since);
                }
                sleep(every).await;
            }
        };
        let limit = self.limit();
        match self.manager.until(what, limit, look).await {
            Ok(since) => Ok(since?),
            Err(error) => Err(error.with_detail(&calm.describe()).into()),
        }
    }
}

/// The time that this number of objects may take.
fn limit(objects: usize) -> Duration {
    let objects = u32::try_from(objects).unwrap_or(u32::MAX);
    Duration::from_mins(1) + Duration::from_secs((objects / SLOWEST).into())
}
