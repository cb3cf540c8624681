//! The measurements of Releases, besides the bare ones.

use std::time::Duration;

use serde::Serialize;

use super::{Figures, Spread, Step, number, ratio};
use crate::load::releases::{Releases as Shape, Strategy};
use crate::served::Served;

/// The first Application after the start: its repository and its cluster are not used before.
pub(crate) const FIRST: &str = "releases: first";
/// The step that creates the Applications that are idle later.
pub(crate) const FILL: &str = "releases: idle ones, made";
/// The step in which the manager is idle with them.
pub(crate) const IDLE: &str = "releases: idle";
/// The restart with them.
pub(crate) const RESTART: &str = "releases: restart";

/// The step that rolls Applications out one after the other.
pub(crate) const fn lone(strategy: Strategy) -> &'static str {
    match strategy {
        Strategy::AllIn => "releases: lone, all in",
        Strategy::ThreeSteps => "releases: lone, three steps",
    }
}

/// The step that rolls Applications out concurrently.
pub(crate) const fn at_once(strategy: Strategy) -> &'static str {
    match strategy {
        Strategy::AllIn => "releases: at once, all in",
        Strategy::ThreeSteps => "releases: at once, three steps",
    }
}

/// The measurements of Releases besides the steps.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Releases {
    #[serde(flatten)]
    pub(crate) shape: Shape,
    /// The bare measurements, before and after.
    pub(crate) bare: Vec<Bare>,
    /// The requests of each step with Releases, as the API server counted them, without those of
    /// the bench.
    pub(crate) asked: Vec<StepRequests>,
    /// The course of lone rollouts.
    pub(crate) profiles: Vec<Profile>,
}

/// The bare measurement of a step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Bare {
    /// The step that does the same with a manager.
    pub(crate) step: &'static str,
    /// Time of all concurrent rollouts, or the median of lone ones.
    pub(crate) seconds: f64,
    /// The part of a rollout's time that it waits for its pods and addresses (the median).
    pub(crate) waited: f64,
    /// Processor seconds of the API server and its storage per rollout.
    pub(crate) server: f64,
}

/// The requests of a step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct StepRequests {
    pub(crate) step: &'static str,
    pub(crate) served: Served,
}

/// The events of the objects of one Release, in the order in which they were observed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Profile {
    pub(crate) step: &'static str,
    pub(crate) moments: Vec<Moment>,
}

/// An observed event.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Moment {
    /// Time since the Application was sent.
    pub(crate) milliseconds: f64,
    pub(crate) kind: &'static str,
    /// A short description of the object's state.
    pub(crate) state: String,
}

impl Bare {
    /// The figures of these rollouts. Each one has its whole time, and the part of it that was spent
    /// waiting. `elapsed` is the time of all rollouts together, and `server` the processor seconds of
    /// the API server for all of them.
    pub(crate) fn of(
        (strategy, is_lone): (Strategy, bool),
        rollouts: &[(Duration, Duration)],
        elapsed: Duration,
        server: f64,
    ) -> Self {
        let median = |part: fn(&(Duration, Duration)) -> Duration| {
            Spread::of(rollouts.iter().map(part)).map_or(0.0, |spread| spread.p50)
        };
        let (step, seconds) = if is_lone {
            (lone(strategy), median(|(whole, _)| *whole))
        } else {
            (at_once(strategy), elapsed.as_secs_f64())
        };
        Self {
            step,
            seconds,
            waited: median(|(_, waited)| *waited),
            server: ratio(server, number(rollouts.len())),
        }
    }
}

impl Releases {
    /// No measurements yet.
    pub(crate) fn new(shape: Shape) -> Self {
        Self {
            shape,
            bare: vec![],
            asked: vec![],
            profiles: vec![],
        }
    }

    /// The means of the bare measurements of a step.
    pub(crate) fn bare_of(&self, step: &str) -> Option<Bare> {
        let rounds: Vec<&Bare> = self.bare.iter().filter(|bare| bare.step == step).collect();
        let mean = |part: fn(&Bare) -> f64| {
            let sum: f64 = rounds.iter().map(|bare| part(bare)).sum();
            ratio(sum, number(rounds.len()))
        };
        rounds.first().map(|first| Bare {
            step: first.step,
            seconds: mean(|bare| bare.seconds),
            waited: mean(|bare| bare.waited),
            server: mean(|bare| bare.server),
        })
    }

    /// The time of a step relative to its bare measurement.
    pub(crate) fn to_bare(&self, step: &Step) -> Option<f64> {
        let bare = self.bare_of(step.name)?;
        Some(ratio(seconds(step), bare.seconds))
    }
}

/// The time of a step: the median of lone Releases, otherwise the time of all.
pub(crate) fn seconds(step: &Step) -> f64 {
    let is_lone = [Strategy::AllIn, Strategy::ThreeSteps]
        .map(lone)
        .contains(&step.name);
    let median = step.per_set.filter(|_| is_lone);
    median.map_or(step.timing.seconds, |spread| spread.p50)
}

/// Processor seconds of the manager and helm.
pub(crate) fn cpu(step: &Step) -> Option<f64> {
    Some(step.cpu? + step.helm.unwrap_or_default())
}

/// The peak memory of the manager in these steps.
pub(crate) fn peak<'a>(
    figures: &'a Figures,
    steps: impl IntoIterator<Item = &'a str>,
) -> Option<f64> {
    let steps = steps.into_iter().filter_map(|name| figures.step(name));
    let peaks = steps.filter_map(|step| step.memory.map(|memory| memory.peak));
    peaks.max_by(f64::total_cmp)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn shape() -> Shape {
        Shape {
            applications: 20,
            lone_applications: 5,
            idle_applications: 500,
            pods: 4,
        }
    }

    pub(crate) fn releases(served: Served) -> Releases {
        let second = Duration::from_secs;
        let bare = |is_lone| {
            let rollouts = [(second(3), second(1)), (second(1), second(1))];
            Bare::of((Strategy::AllIn, is_lone), &rollouts, second(4), 0.5)
        };
        Releases {
            bare: vec![bare(true), bare(false), bare(false)],
            asked: vec![StepRequests {
                step: at_once(Strategy::AllIn),
                served,
            }],
            profiles: vec![Profile {
                step: lone(Strategy::AllIn),
                moments: vec![Moment {
                    milliseconds: 12.3,
                    kind: "Release",
                    state: "step - of 0".to_owned(),
                }],
            }],
            ..Releases::new(shape())
        }
    }

    #[test]
    #[expect(clippy::float_cmp, reason = "the values are exact")]
    fn lone_rollouts_are_compared_by_median_and_others_by_total_time() {
        let releases = releases(Served::default());
        let bare = |strategy| releases.bare_of(strategy).map(|bare| bare.seconds);
        assert_eq!(bare(lone(Strategy::AllIn)), Some(1.0));
        assert_eq!(bare(at_once(Strategy::AllIn)), Some(4.0));
        assert_eq!(bare(at_once(Strategy::ThreeSteps)), None);
        let timing = super::super::Timing::of(0, Duration::from_secs(8));
        let latencies = [1, 2, 3].map(Duration::from_secs);
        let step = |name| Step::new(name, 3, timing).with_latencies(latencies);
        assert_eq!(releases.to_bare(&step(lone(Strategy::AllIn))), Some(2.0));
        assert_eq!(releases.to_bare(&step(at_once(Strategy::AllIn))), Some(2.0));
        assert_eq!(releases.bare[0].server, 0.25);
    }
}
