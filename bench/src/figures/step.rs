//! One step, and the time that it took.

use std::time::Duration;

use serde::Serialize;

use super::{chain, fleet, number, ratio};
use crate::process::Usage;
use crate::requests::Requests;

/// A number of objects, and the time that they took.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Timing {
    pub(crate) objects: usize,
    pub(crate) seconds: f64,
    /// Objects per second.
    pub(crate) rate: f64,
    /// Processor seconds of the API server and its storage during that time.
    pub(crate) server: f64,
}

impl Timing {
    pub(crate) fn of(objects: usize, elapsed: Duration) -> Self {
        let seconds = elapsed.as_secs_f64();
        Self {
            objects,
            seconds,
            rate: ratio(number(objects), seconds),
            server: 0.0,
        }
    }

    pub(crate) fn with_server(self, server: f64) -> Self {
        Self { server, ..self }
    }
}

/// Percentiles of latencies, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// The spread of these latencies; `None` if there are none.
    pub(crate) fn of(latencies: impl IntoIterator<Item = Duration>) -> Option<Self> {
        let seconds = latencies.into_iter().map(|latency| latency.as_secs_f64());
        let mut seconds: Vec<f64> = seconds.collect();
        seconds.sort_by(f64::total_cmp);
        Some(Self {
            p50: percentile(&seconds, 50)?,
            p99: percentile(&seconds, 99)?,
            max: percentile(&seconds, 100)?,
        })
    }
}

/// The smallest of the values that at least `percent` percent of them do not exceed.
fn percentile(sorted: &[f64], percent: usize) -> Option<f64> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

/// The activity of the manager in a step, and the resources that it used.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Step {
    pub(crate) name: &'static str,
    /// Number of revisions in the step: created, deleted, or found at a restart.
    pub(crate) sets: usize,
    /// The objects that the step wrote or deleted, and the time that it took.
    pub(crate) timing: Timing,
    /// The time of each revision, from the answer to its creation until it is observed as
    /// available.
    pub(crate) per_set: Option<Spread>,
    /// Processor seconds of the manager; `None` if the system does not report them.
    pub(crate) cpu: Option<f64>,
    /// Processor seconds of helm, which the manager starts.
    pub(crate) helm: Option<f64>,
    /// Memory of the manager at the end of the step, and its peak during it.
    pub(crate) memory: Option<Memory>,
    /// Requests that the manager sent.
    pub(crate) requests: Requests,
    /// The number of writes among them.
    pub(crate) writes: u64,
}

/// Resident memory in MiB.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Memory {
    pub(crate) rss: f64,
    pub(crate) peak: f64,
}

impl Step {
    /// A step with its time, without the resources used.
    pub(crate) fn new(name: &'static str, sets: usize, timing: Timing) -> Self {
        Self {
            name,
            sets,
            timing,
            per_set: None,
            cpu: None,
            helm: None,
            memory: None,
            requests: Requests::default(),
            writes: 0,
        }
    }

    pub(crate) fn with_latencies(self, latencies: impl IntoIterator<Item = Duration>) -> Self {
        let per_set = Spread::of(latencies);
        Self { per_set, ..self }
    }

    pub(crate) fn with_requests(self, requests: Requests) -> Self {
        let writes = requests.writes();
        Self {
            requests,
            writes,
            ..self
        }
    }

    /// Adds the resources that the manager used between two moments.
    pub(crate) fn with_usage(mut self, before: Option<Usage>, after: Option<Usage>) -> Self {
        self.cpu = after.map(|after| after.cpu - before.map_or(0.0, |before| before.cpu));
        self.helm =
            after.map(|after| after.children - before.map_or(0.0, |before| before.children));
        self.memory = after.map(|Usage { rss, peak, .. }| Memory { rss, peak });
        self
    }

    /// True if the rate of the step is meaningful.
    pub(crate) fn is_paced(&self) -> bool {
        let paced = [
            "create",
            "handover",
            "unchanged",
            "teardown",
            chain::CREATE,
            chain::EDITS,
            fleet::CREATE,
        ];
        paced.contains(&self.name)
    }

    pub(crate) fn is_of_chain(&self) -> bool {
        self.name.starts_with("chain: ")
    }

    pub(crate) fn is_of_fleet(&self) -> bool {
        self.name.starts_with("fleet: ")
    }

    pub(crate) fn is_of_releases(&self) -> bool {
        self.name.starts_with("releases: ")
    }

    pub(crate) fn is_of_releases_fleet(&self) -> bool {
        self.name.starts_with("releases-fleet: ")
    }

    pub(crate) fn is_of_sites(&self) -> bool {
        self.name.starts_with("sites: ")
    }

    /// Requests whose number depends on the number of objects, per object.
    pub(crate) fn requests_per_object(&self) -> f64 {
        let about_objects = number(self.requests.about_objects());
        ratio(about_objects, number(self.timing.objects))
    }

    /// Requests whose number depends on the number of revisions, per revision.
    pub(crate) fn requests_per_set(&self) -> f64 {
        ratio(number(self.requests.about_sets()), number(self.sets))
    }
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
        let spread = Spread::of([3, 1, 2].map(Duration::from_secs)).unwrap();
        let Spread { p50, p99, max } = spread;
        assert!((p50 - 2.0).abs() + (p99 - 3.0).abs() + (max - 3.0).abs() < 1e-9);
        assert_eq!(Spread::of([]), None);
    }

    #[test]
    #[expect(clippy::float_cmp, reason = "the values are exact")]
    fn a_rate_is_objects_by_seconds() {
        assert_eq!(Timing::of(10, Duration::ZERO).rate, 0.0);
        assert_eq!(Timing::of(10, Duration::from_secs(4)).rate, 2.5);
    }
}
