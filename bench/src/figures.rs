//! The measurements of a run, and the figures derived from them.

pub(crate) mod chain;
pub(crate) mod fleet;
pub(crate) mod releases;
pub(crate) mod releases_fleet;
pub(crate) mod sites;
mod step;

use serde::Serialize;

use self::chain::Chain;
use self::fleet::Fleet;
use self::releases::Releases;
use self::releases_fleet::ReleasesFleet;
use self::sites::Sites;
pub(crate) use self::step::{Spread, Step, Timing};
use super::load::Shape;

/// The requests that a manager sends in a step, sent again without a manager.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Replayed {
    pub(crate) step: &'static str,
    pub(crate) requests: u64,
    pub(crate) timing: Timing,
    /// Rate relative to the bare rates right before and after it.
    pub(crate) to_bare: f64,
}

/// One run of the bench.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Figures {
    pub(crate) shape: Shape,
    pub(crate) processors: usize,
    /// The bare measurements: before, between and after the rollouts, and before and after the
    /// chains.
    pub(crate) bare: Vec<Timing>,
    /// The upper bound of the machine for the requests that the manager sends.
    pub(crate) replayed: Vec<Replayed>,
    /// The measured steps, in order.
    pub(crate) steps: Vec<Step>,
    pub(crate) chain: Option<Chain>,
    pub(crate) fleet: Option<Fleet>,
    pub(crate) releases: Option<Releases>,
    pub(crate) releases_fleet: Option<ReleasesFleet>,
    pub(crate) sites: Option<Sites>,
}

impl Figures {
    /// A run without measurements.
    pub(crate) fn new(shape: Shape) -> Self {
        Self {
            shape,
            processors: std::thread::available_parallelism().map_or(0, Into::into),
            bare: vec![],
            replayed: vec![],
            steps: vec![],
            chain: None,
            fleet: None,
            releases: None,
            releases_fleet: None,
            sites: None,
        }
    }

    pub(crate) fn step(&self, name: &str) -> Option<&Step> {
        self.steps.iter().find(|step| step.name == name)
    }

    /// The mean bare rate; `None` if it was not measured.
    pub(crate) fn bare_rate(&self) -> Option<f64> {
        mean(&self.bare)
    }

    /// The rate of a step relative to the bare rate right before and after it; `None` for a step
    /// without a meaningful rate.
    pub(crate) fn to_bare(&self, step: &Step) -> Option<f64> {
        let around = match step.name {
            "create" | fleet::CREATE => self.bare.get(..2),
            "handover" => self.bare.get(1..3),
            "unchanged" => self.bare.get(2..4),
            "teardown" => self.bare.get(..4),
            chain::CREATE | chain::EDITS => self.bare.last_chunk::<2>().map(|last| &last[..]),
            _ => None,
        };
        let bare = mean(around.unwrap_or(&self.bare)).filter(|_| step.is_paced())?;
        Some(ratio(step.timing.rate, bare))
    }

    /// The rate of the requests of a step when they are sent without a manager, relative to the bare
    /// rate; `None` if it was not measured.
    pub(crate) fn bound(&self, step: &Step) -> Option<f64> {
        let mut replayed = self.replayed.iter();
        let replayed = replayed.find(|replayed| replayed.step == step.name)?;
        Some(replayed.to_bare)
    }

    /// The relative difference between the fastest and the slowest bare rate, from 0 to 1.
    pub(crate) fn unsteadiness(&self) -> f64 {
        let rates = || self.bare.iter().map(|timing| timing.rate);
        let (slowest, fastest) = (
            rates().min_by(f64::total_cmp),
            rates().max_by(f64::total_cmp),
        );
        let range = slowest.zip(fastest);
        range.map_or(0.0, |(slowest, fastest)| 1.0 - ratio(slowest, fastest))
    }
}

fn mean(bare: &[Timing]) -> Option<f64> {
    let sum: f64 = bare.iter().map(|timing| timing.rate).sum();
    (!bare.is_empty()).then(|| sum / number(bare.len()))
}

/// A count as a floating point number.
#[expect(clippy::cast_precision_loss, reason = "no count here comes near 2^52")]
pub(crate) fn number(count: impl TryInto<u64>) -> f64 {
    count.try_into().unwrap_or(u64::MAX) as f64
}

/// `part / whole`, and 0 if `whole` is 0.
pub(crate) fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::Duration;

    use super::step::Memory;
    use super::*;

    pub(crate) fn memory(rss: f64, peak: f64) -> Memory {
        Memory { rss, peak }
    }

    /// Figures of 100 sets with 1,000 objects.
    pub(crate) fn figures(steps: Vec<Step>) -> Figures {
        let shape = Shape {
            sets: 100,
            phases: 2,
            per_phase: 5,
            pad: 256,
            phase_class: None,
        };
        Figures {
            processors: 2,
            bare: [1000, 2000]
                .map(|objects| Timing::of(objects, Duration::from_secs(1)))
                .into(),
            steps,
            ..Figures::new(shape)
        }
    }

    #[test]
    #[expect(clippy::float_cmp, reason = "the values are exact")]
    fn a_ratio_with_a_zero_denominator_is_zero() {
        assert_eq!(ratio(3.0, 2.0), 1.5);
        assert_eq!(ratio(3.0, 0.0), 0.0);
    }
}
