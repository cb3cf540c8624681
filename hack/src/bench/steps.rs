//! The steps of a run, one after the other on the same manager.

mod chain;
mod fleet;

use std::collections::BTreeMap;
use std::time::Duration;

use kube::Client;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::calm::Calm;
use super::figures::{Figures, Spread, Step, Timing};
use super::load::{Shape, Target, set_name};
use super::manager::{Error as ManagerError, Launch, Manager};
use super::metrics::Requests;
use super::process::{Servers, Usage, reset_peak, usage};
use super::watch::{Sight, State, Watch};
use super::{Error, bare, say};

/// How long the manager is left alone.
const IDLE: Duration = Duration::from_secs(30);

/// How many lone sets there are.
const LONE: usize = 20;

/// How often the metrics are looked at. Each look costs the manager a little.
const LOOK: Duration = Duration::from_millis(100);

/// The same where the time is measured by it.
const CLOSE_LOOK: Duration = Duration::from_millis(20);

/// Objects per second below which something must be wrong.
const SLOWEST: u32 = 20;

/// What is waited for, of one ObjectSet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Available,
    ControlsNothing,
    Gone,
}

impl Wanted {
    fn is(self, state: Option<State>) -> bool {
        match self {
            Self::Available => state.is_some_and(|state| state.available),
            Self::ControlsNothing => state.is_some_and(|state| state.controls == 0),
            Self::Gone => state.is_none(),
        }
    }
}

/// What the manager had done and used when a step began.
struct Before {
    requests: Requests,
    usage: Option<Usage>,
    server: f64,
}

/// A manager that was started anew.
struct Again {
    /// Processor time of the servers when the one before was asked to end.
    server: f64,
    started: Instant,
    ready: Duration,
    /// Since when it has nothing to do.
    settled: Instant,
}

/// A manager, its load, and what was measured so far.
pub struct Steps {
    client: Client,
    shape: Shape,
    launch: Launch,
    servers: Servers,
    manager: Manager,
    target: Target,
    watch: Watch,
    figures: Figures,
}

impl Steps {
    /// Starts the manager.
    ///
    /// # Errors
    ///
    /// When it does not start, or the API server refuses the namespace.
    pub async fn start(
        client: Client,
        shape: Shape,
        launch: Launch,
        servers: Servers,
        figures: Figures,
    ) -> Result<Self, Error> {
        let target = Target::create(&client, "bench").await?;
        let watch = Watch::start(&client, target.sets());
        let mut manager = Manager::launch(&launch)?;
        manager.ready().await?;
        let mut steps = Self {
            client,
            shape,
            launch,
            servers,
            manager,
            target,
            watch,
            figures,
        };
        steps.calm("the manager to lead", LOOK, 0).await?;
        Ok(steps)
    }

    /// Ends the manager and returns what was measured.
    ///
    /// # Errors
    ///
    /// When it does not end.
    pub async fn finish(mut self) -> Result<Figures, Error> {
        self.manager.stop().await?;
        Ok(self.figures)
    }

    /// The objects without the manager, which is idle meanwhile and does not see them.
    ///
    /// # Errors
    ///
    /// When the API server refuses one.
    pub async fn bare(&mut self) -> Result<(), Error> {
        let timing = bare::measure(
            &self.client,
            &self.servers,
            &self.shape,
            self.figures.bare.len() + 1,
        )
        .await?;
        self.figures.bare.push(timing);
        Ok(())
    }

    /// First revisions, from the first creation until all are available.
    ///
    /// # Errors
    ///
    /// When that fails or takes too long.
    pub async fn create(&mut self) -> Result<(), Error> {
        let wanted = self
            .names(1)
            .map(|name| (name, Wanted::Available))
            .collect();
        self.roll_out("create", self.bodies(1), wanted).await
    }

    /// Second revisions, until all are available and the first ones control nothing.
    ///
    /// # Errors
    ///
    /// When that fails or takes too long.
    pub async fn handover(&mut self) -> Result<(), Error> {
        let old = self.names(1).map(|name| (name, Wanted::ControlsNothing));
        let new = self.names(2).map(|name| (name, Wanted::Available));
        let wanted = old.chain(new).collect();
        self.roll_out("handover", self.bodies(2), wanted).await
    }

    async fn roll_out(
        &mut self,
        step: &'static str,
        sets: Vec<Value>,
        wanted: BTreeMap<String, Wanted>,
    ) -> Result<(), Error> {
        let before = self.begin().await?;
        let started = Instant::now();
        let create = self.target.create_sets(&sets);
        let answered = self
            .manager
            .until("ObjectSets to be created", self.limit(), create)
            .await??;
        let seen = self.see(step, wanted).await?;
        let end = seen.values().max().copied().unwrap_or(started);
        let latencies = answered.iter().filter_map(|(name, answered)| {
            Some(seen.get(name)?.saturating_duration_since(*answered))
        });
        // What it still has to do is part of the step's requests and processor time.
        self.calm("the manager to settle", LOOK, 0).await?;
        self.record(
            step,
            sets.len(),
            Timing::of(self.shape.objects(), end - started),
        )
        .with_latencies(Spread::of(latencies))
        .end(before)
        .await
    }

    /// Nothing happens for a while.
    ///
    /// # Errors
    ///
    /// When the manager ends.
    pub async fn idle(&mut self) -> Result<(), Error> {
        let before = self.begin().await?;
        let limit = IDLE + Duration::from_secs(5);
        self.manager
            .until("the idle time to end", limit, sleep(IDLE))
            .await?;
        self.record("idle", self.sets(), Timing::of(0, IDLE))
            .end(before)
            .await
    }

    /// The manager ends and starts anew, until it has nothing to do any more.
    ///
    /// # Errors
    ///
    /// When it does not end or start.
    pub async fn restart(&mut self) -> Result<(), Error> {
        let sets = self.sets();
        // Each revision has to be looked at once.
        let again = self.start_again(sets).await?;
        self.restarted("restart", sets, again).await
    }

    /// Ends the manager and starts it anew, until it has looked so often at something and has nothing
    /// to do any more.
    async fn start_again(&mut self, looks: usize) -> Result<Again, Error> {
        let server = self.servers.cpu();
        self.manager.stop().await?;
        let started = Instant::now();
        self.manager = Manager::launch(&self.launch)?;
        self.manager.ready().await?;
        let ready = started.elapsed();
        let expected = u64::try_from(looks).unwrap_or_default();
        let since = self
            .calm("the restarted manager to settle", CLOSE_LOOK, expected)
            .await?;
        say(&format!(
            "restart: ready after {:.2} s",
            ready.as_secs_f64()
        ));
        Ok(Again {
            server,
            started,
            ready,
            settled: since,
        })
    }

    async fn restarted(
        &mut self,
        step: &'static str,
        sets: usize,
        again: Again,
    ) -> Result<(), Error> {
        let before = Before {
            requests: Requests::default(),
            usage: None,
            server: again.server,
        };
        let timing = Timing::of(0, again.settled - again.started);
        self.record(step, sets, timing).end(before).await
    }

    /// One revision after the other on an otherwise idle manager.
    ///
    /// # Errors
    ///
    /// When that fails or takes too long.
    pub async fn lone(&mut self) -> Result<(), Error> {
        let shape = Shape {
            sets: 1,
            phases: 2,
            per_phase: 5,
            pad: self.shape.pad,
            phase_class: self.shape.phase_class,
        };
        let target = Target::create(&self.client, "bench-lone").await?;
        let mut watch = Watch::start(&self.client, target.sets());
        let before = self.begin().await?;
        let mut latencies = Vec::new();
        let limit = self.limit();
        for number in 0..LONE {
            let name = set_name(number, 1);
            let body = shape.set(number, 1);
            let create = target.create_set(&body);
            let answered = self.manager.until("a lone set", limit, create).await??;
            let wanted = BTreeMap::from([(name.clone(), Wanted::Available)]);
            let seen = see(&mut self.manager, &mut watch, "lone", wanted, limit).await?;
            latencies.extend(
                seen.values()
                    .map(|at| at.saturating_duration_since(answered)),
            );
            target.delete_sets(std::slice::from_ref(&name)).await?;
            let wanted = BTreeMap::from([(name, Wanted::Gone)]);
            see(&mut self.manager, &mut watch, "lone", wanted, limit).await?;
        }
        self.calm("the manager to settle", LOOK, 0).await?;
        let objects = LONE * shape.objects();
        self.record("lone", LONE, Timing::of(objects, latencies.iter().sum()))
            .with_latencies(Spread::of(latencies))
            .end(before)
            .await
    }

    /// All revisions are deleted, until nothing of them is left.
    ///
    /// # Errors
    ///
    /// When that fails or takes too long.
    pub async fn teardown(&mut self) -> Result<(), Error> {
        // The older ones first: without a successor they would take their objects back.
        let names: Vec<String> = self.names(1).chain(self.names(2)).collect();
        let wanted = names
            .iter()
            .map(|name| (name.clone(), Wanted::Gone))
            .collect();
        let before = self.begin().await?;
        let started = Instant::now();
        let delete = self.target.delete_sets(&names);
        self.manager
            .until("ObjectSets to be deleted", self.limit(), delete)
            .await??;
        self.see("teardown", wanted).await?;
        let children = self.target.without_children();
        self.manager
            .until("the last object to be gone", self.limit(), children)
            .await??;
        let elapsed = started.elapsed();
        self.calm("the manager to settle", LOOK, 0).await?;
        self.record(
            "teardown",
            names.len(),
            Timing::of(self.shape.objects(), elapsed),
        )
        .end(before)
        .await
    }

    /// All sets in that revision.
    fn bodies(&self, revision: u32) -> Vec<Value> {
        let numbers = 0..self.shape.sets;
        numbers
            .map(|number| self.shape.set(number, revision))
            .collect()
    }

    /// The names of all sets' revisions of that number.
    fn names(&self, revision: u32) -> impl Iterator<Item = String> + use<> {
        (0..self.shape.sets).map(move |number| set_name(number, revision))
    }

    /// How many revisions there are after the handover.
    fn sets(&self) -> usize {
        let rolled_out = |step: &&Step| step.name == "create" || step.name == "handover";
        self.figures
            .steps
            .iter()
            .filter(rolled_out)
            .map(|step| step.sets)
            .sum()
    }

    /// How long a step may take.
    fn limit(&self) -> Duration {
        limit(self.shape.objects())
    }

    async fn begin(&self) -> Result<Before, Error> {
        reset_peak(self.manager.pid());
        Ok(Before {
            requests: self.requests().await?,
            usage: usage(self.manager.pid()),
            server: self.servers.cpu(),
        })
    }

    async fn requests(&self) -> Result<Requests, Error> {
        let metrics = self.manager.endpoints().metrics().await?;
        metrics.requests().ok_or_else(|| {
            ManagerError::Metrics("there is no baton_api_requests_total in them".to_owned()).into()
        })
    }

    fn record(&mut self, name: &'static str, sets: usize, timing: Timing) -> Record<'_> {
        let step = Step {
            name,
            sets,
            timing,
            per_set: None,
            cpu: None,
            memory: None,
            requests: Requests::default(),
            writes: 0,
        };
        Record { steps: self, step }
    }

    /// Waits until the manager has nothing to do any more, and returns since when it has not.
    async fn calm(&mut self, what: &str, every: Duration, at_least: u64) -> Result<Instant, Error> {
        let endpoints = self.manager.endpoints();
        let mut calm = Calm::new(at_least, Instant::now());
        let look = async {
            loop {
                let metrics = endpoints.metrics().await?;
                if let Some(since) = calm.look(&metrics, Instant::now()) {
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

    async fn see(
        &mut self,
        step: &str,
        wanted: BTreeMap<String, Wanted>,
    ) -> Result<BTreeMap<String, Instant>, Error> {
        let limit = self.limit();
        see(&mut self.manager, &mut self.watch, step, wanted, limit).await
    }
}

/// How long something with so many objects may take.
fn limit(objects: usize) -> Duration {
    let objects = u32::try_from(objects).unwrap_or(u32::MAX);
    Duration::from_mins(1) + Duration::from_secs((objects / SLOWEST).into())
}

/// Waits until each set was seen as wanted, and returns when it was.
async fn see(
    manager: &mut Manager,
    watch: &mut Watch,
    step: &str,
    mut wanted: BTreeMap<String, Wanted>,
    limit: Duration,
) -> Result<BTreeMap<String, Instant>, Error> {
    let all = wanted.len();
    let mut seen = BTreeMap::new();
    let looking = async {
        while !wanted.is_empty() {
            let Some(sight) = watch.next().await else {
                return;
            };
            take(&mut wanted, &mut seen, sight);
        }
    };
    let looked = manager
        .until(&format!("the ObjectSets of {step}"), limit, looking)
        .await;
    looked.map_err(|error| {
        let some: Vec<String> = wanted
            .iter()
            .take(3)
            .map(|(name, wanted)| format!("{name} {wanted:?}"))
            .collect();
        error.with_detail(&format!(
            "{} of {all} missing, as {}",
            wanted.len(),
            some.join(", ")
        ))
    })?;
    Ok(seen)
}

fn take(
    wanted: &mut BTreeMap<String, Wanted>,
    seen: &mut BTreeMap<String, Instant>,
    Sight { name, at, state }: Sight,
) {
    if wanted.get(&name).is_some_and(|wanted| wanted.is(state)) {
        wanted.remove(&name);
        seen.insert(name, at);
    }
}

/// A step whose time is known, and whose costs are still to be read.
struct Record<'a> {
    steps: &'a mut Steps,
    step: Step,
}

impl Record<'_> {
    fn with_latencies(mut self, latencies: Option<Spread>) -> Self {
        self.step.per_set = latencies;
        self
    }

    /// Adds what the manager did and used, and tells of the step.
    async fn end(self, before: Before) -> Result<(), Error> {
        let Self { steps, step } = self;
        let usage = usage(steps.manager.pid());
        let requests = steps.requests().await?.since(&before.requests);
        let step = Step {
            timing: step.timing.with_server(steps.servers.cpu() - before.server),
            writes: requests.writes(),
            requests,
            ..step.with_usage(before.usage, usage)
        };
        let rate = steps
            .figures
            .to_bare(&step)
            .map_or_else(String::new, |to_bare| {
                format!(", {:.0} objects/s, {to_bare:.2} x bare", step.timing.rate)
            });
        say(&format!(
            "{}: {:.2} s{rate}, {} writes, CPU {:.2} s, peak {:.1} MiB",
            step.name,
            step.timing.seconds,
            step.writes,
            step.cpu.unwrap_or_default(),
            step.memory.map_or(0.0, |memory| memory.peak),
        ));
        steps.figures.steps.push(step);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_seen_once_when_it_is_as_wanted() {
        let start = Instant::now();
        let mut wanted = BTreeMap::from([
            ("new".to_owned(), Wanted::Available),
            ("old".to_owned(), Wanted::ControlsNothing),
            ("gone".to_owned(), Wanted::Gone),
        ]);
        let mut seen = BTreeMap::new();
        let state = |available, controls| {
            Some(State {
                available,
                controls,
            })
        };
        let sights = [
            ("new", state(false, 1)),
            ("old", state(true, 1)),
            ("gone", state(true, 0)),
            ("stranger", None),
            ("new", state(true, 5)),
            ("new", state(true, 6)),
            ("old", state(true, 0)),
            ("gone", None),
        ];
        for (second, (name, state)) in (0..).zip(sights) {
            let at = start + Duration::from_secs(second);
            take(
                &mut wanted,
                &mut seen,
                Sight {
                    name: name.to_owned(),
                    at,
                    state,
                },
            );
        }
        assert!(wanted.is_empty(), "{wanted:?}");
        let seconds: Vec<u64> = seen.values().map(|at| (*at - start).as_secs()).collect();
        assert_eq!(seconds, [7, 4, 6], "gone, new, old");
    }
}
