//! What was measured, and how numbers are made of it.

pub mod chain;
pub mod fleet;

use std::time::Duration;

use serde::Serialize;

use self::chain::Chain;
use self::fleet::Fleet;
use super::bare;
use super::load::Shape;
use super::metrics::Requests;
use super::process::Usage;

/// A number of objects, and how long they took.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Timing {
    /// How many objects.
    pub objects: usize,
    /// How many seconds.
    pub seconds: f64,
    /// Objects per second.
    pub rate: f64,
    /// Processor seconds of the API server and its storage meanwhile.
    pub server: f64,
}

impl Timing {
    /// `objects` in `elapsed`.
    #[must_use]
    pub fn of(objects: usize, elapsed: Duration) -> Self {
        let seconds = elapsed.as_secs_f64();
        Self {
            objects,
            seconds,
            rate: ratio(number(objects), seconds),
            server: 0.0,
        }
    }

    /// The same with what the API server used.
    #[must_use]
    pub fn with_server(self, server: f64) -> Self {
        Self { server, ..self }
    }
}

/// How latencies are spread, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// Half of them are shorter.
    pub p50: f64,
    /// 99 of 100 are.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}

impl Spread {
    /// The spread of these latencies; `None` if there are none.
    #[must_use]
    pub fn of(latencies: impl IntoIterator<Item = Duration>) -> Option<Self> {
        let mut seconds: Vec<f64> = latencies
            .into_iter()
            .map(|latency| latency.as_secs_f64())
            .collect();
        seconds.sort_by(f64::total_cmp);
        Some(Self {
            p50: percentile(&seconds, 50)?,
            p99: percentile(&seconds, 99)?,
            max: percentile(&seconds, 100)?,
        })
    }
}

/// The smallest of the values that `percent` of 100 of them do not exceed.
fn percentile(sorted: &[f64], percent: usize) -> Option<f64> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

/// What the manager did and used during a step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Step {
    /// The step.
    pub name: &'static str,
    /// Revisions that the step is about: created, deleted, or found at a restart.
    pub sets: usize,
    /// The objects that it wrote or deleted, and how long that took.
    pub timing: Timing,
    /// The time of each revision, from the answer to its creation to the sight of its availability.
    pub per_set: Option<Spread>,
    /// Processor seconds of the manager; `None` where the system does not tell.
    pub cpu: Option<f64>,
    /// Memory of the manager at the end of the step, and its peak during it.
    pub memory: Option<Memory>,
    /// Requests that the manager sent.
    pub requests: Requests,
    /// Those of them that changed something.
    pub writes: u64,
}

/// Memory in MiB.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Memory {
    /// Resident.
    pub rss: f64,
    /// The most that was resident.
    pub peak: f64,
}

impl Step {
    /// Fills in what the manager used between two moments.
    #[must_use]
    pub fn with_usage(mut self, before: Option<Usage>, after: Option<Usage>) -> Self {
        self.cpu = after.map(|after| after.cpu - before.map_or(0.0, |before| before.cpu));
        self.memory = after.map(|after| Memory {
            rss: after.rss,
            peak: after.peak,
        });
        self
    }

    /// Whether it is a step whose rate says something.
    #[must_use]
    pub fn is_paced(&self) -> bool {
        let is_of_sets = matches!(self.name, "create" | "handover" | "teardown");
        is_of_sets || matches!(self.name, chain::CREATE | chain::EDITS | fleet::CREATE)
    }

    /// Whether it is about chains of revisions.
    #[must_use]
    pub fn is_of_chain(&self) -> bool {
        [chain::CREATE, chain::EDITS, chain::IDLE].contains(&self.name)
    }

    /// Whether it is about a fleet.
    #[must_use]
    pub fn is_of_fleet(&self) -> bool {
        fleet::STEPS.contains(&self.name)
    }

    /// Requests whose number goes with that of the objects, per object.
    #[must_use]
    pub fn requests_per_object(&self) -> f64 {
        ratio(
            number(self.requests.about_objects()),
            number(self.timing.objects),
        )
    }

    /// Requests whose number goes with that of the revisions, per revision.
    #[must_use]
    pub fn requests_per_set(&self) -> f64 {
        ratio(number(self.requests.about_sets()), number(self.sets))
    }
}

/// One run of the bench.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figures {
    /// How much was written.
    pub shape: Shape,
    /// Processors of the machine.
    pub processors: usize,
    /// The same objects without a manager, before, between and after the rollouts, and before and
    /// after the chains.
    pub bare: Vec<Timing>,
    /// What the machine can do at most, by what is done: see [`bare::bounds`].
    pub bounds: Vec<(&'static str, Timing)>,
    /// The steps that were measured, in their order.
    pub steps: Vec<Step>,
    /// What was measured of chains, if anything.
    pub chain: Option<Chain>,
    /// What was measured of a fleet, if anything.
    pub fleet: Option<Fleet>,
}

impl Figures {
    /// Nothing is measured yet.
    #[must_use]
    pub fn new(shape: Shape) -> Self {
        Self {
            shape,
            processors: std::thread::available_parallelism().map_or(0, Into::into),
            bare: vec![],
            bounds: vec![],
            steps: vec![],
            chain: None,
            fleet: None,
        }
    }

    /// The step of that name, if it was measured.
    #[must_use]
    pub fn step(&self, name: &str) -> Option<&Step> {
        self.steps.iter().find(|step| step.name == name)
    }

    /// The mean rate without a manager; `None` if it was not measured.
    #[must_use]
    pub fn bare_rate(&self) -> Option<f64> {
        mean(&self.bare)
    }

    /// The rate of a step as a part of that without a manager right before and after it, if all of
    /// them say something.
    #[must_use]
    pub fn to_bare(&self, step: &Step) -> Option<f64> {
        let around = match step.name {
            "create" => self.bare.get(..2),
            "handover" => self.bare.get(1..3),
            "teardown" => self.bare.get(..3),
            chain::CREATE | chain::EDITS => self.bare.last_chunk::<2>().map(|last| &last[..]),
            fleet::CREATE => self.bare.get(..2),
            _ => None,
        };
        let bare = mean(around.unwrap_or(&self.bare)).filter(|_| step.is_paced())?;
        Some(ratio(step.timing.rate, bare))
    }

    /// What can be reached of the bare rate by a manager that does nothing but a dry run and a write
    /// of each object, if that was measured.
    #[must_use]
    pub fn bound(&self, step: &Step) -> Option<f64> {
        let rate = |name| {
            let found = self.bounds.iter().find(|(other, _)| *other == name);
            found.map(|(_, timing)| timing.rate)
        };
        let bound = match step.name {
            "create" => rate(bare::CREATE),
            "handover" => rate(bare::HANDOVER),
            _ => None,
        };
        Some(ratio(bound?, rate(bare::PLAIN)?))
    }

    /// How much slower the machine was at its slowest than at its fastest, from 0 to 1.
    #[must_use]
    pub fn unsteadiness(&self) -> f64 {
        let rates = || self.bare.iter().map(|timing| timing.rate);
        let (slowest, fastest) = (
            rates().min_by(f64::total_cmp),
            rates().max_by(f64::total_cmp),
        );
        slowest
            .zip(fastest)
            .map_or(0.0, |(slowest, fastest)| 1.0 - ratio(slowest, fastest))
    }
}

fn mean(bare: &[Timing]) -> Option<f64> {
    let sum: f64 = bare.iter().map(|timing| timing.rate).sum();
    (!bare.is_empty()).then(|| sum / number(bare.len()))
}

/// A count as a number to compute with.
#[expect(clippy::cast_precision_loss, reason = "no count here comes near 2^52")]
pub fn number(count: impl TryInto<u64>) -> f64 {
    count.try_into().unwrap_or(u64::MAX) as f64
}

/// `part / whole`, and 0 of nothing.
#[must_use]
pub fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_occur() {
        let values: Vec<f64> = (1_i32..=200).map(f64::from).collect();
        assert_eq!(percentile(&values, 50), Some(100.0));
        assert_eq!(percentile(&values, 99), Some(198.0));
        assert_eq!(percentile(&values, 100), Some(200.0));
        assert_eq!(percentile(&[7.0], 50), Some(7.0));
        assert_eq!(percentile(&[7.0], 0), Some(7.0));
        assert_eq!(percentile(&[], 50), None);
    }

    #[test]
    fn a_spread_does_not_depend_on_the_order() {
        let seconds = [3, 1, 2].map(Duration::from_secs);
        let spread = Spread::of(seconds).unwrap();
        assert_eq!(
            spread,
            Spread {
                p50: 2.0,
                p99: 3.0,
                max: 3.0
            }
        );
        assert_eq!(Spread::of([]), None);
    }

    #[test]
    #[expect(clippy::float_cmp, reason = "the values are exact")]
    fn ratios_of_nothing_are_nothing() {
        assert_eq!(ratio(3.0, 2.0), 1.5);
        assert_eq!(ratio(3.0, 0.0), 0.0);
        assert_eq!(Timing::of(10, Duration::ZERO).rate, 0.0);
        assert_eq!(Timing::of(10, Duration::from_secs(4)).rate, 2.5);
    }
}
