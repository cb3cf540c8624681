//! The step that a Release has reached, for targets that are created again.

use baton_apis::{Release, RolloutStep};
use serde::{Deserialize, Serialize};

use super::{achieved, steps};

/// Shares of a Release in each of its clusters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct AchievedShares {
    /// Share of the pods that the chart requests, as a percentage.
    pub percent: i32,
    /// Weight of the traffic.
    pub weight: u32,
}

/// The shares of a Release at the achieved step of its successor, which drives it, or else at its
/// own achieved step.
///
/// A target that a user has deleted is created again with these values. With zero, as at the first
/// time, the target would remove the pods of a Release that serves.
///
/// # Guarantees
/// The shares are zero for a Release that has not reached a step yet.
pub fn reached(release: &Release, successor: Option<&Release>) -> AchievedShares {
    let follows = successor.and_then(step).map(|step| AchievedShares {
        percent: step.capacity.incumbent,
        weight: step.traffic.incumbent,
    });
    let leads = || {
        step(release).map(|step| AchievedShares {
            percent: step.capacity.contender,
            weight: step.traffic.contender,
        })
    };
    follows.or_else(leads).unwrap_or_default()
}

/// The step that a Release has reached.
fn step(release: &Release) -> Option<&RolloutStep> {
    let index = usize::try_from(achieved(release)?).ok()?;
    steps(release).get(index)
}

#[cfg(test)]
mod tests {
    use baton_apis::{AchievedStep, ReleaseStatus, StepCapacity, StepTraffic};

    use super::super::fixtures::Parts;
    use super::*;

    fn release(achieved: Option<i32>) -> Release {
        let step = |incumbent, contender| RolloutStep {
            capacity: StepCapacity {
                incumbent,
                contender,
            },
            traffic: StepTraffic {
                incumbent: 2 * incumbent.unsigned_abs(),
                contender: 2 * contender.unsigned_abs(),
            },
            ..RolloutStep::default()
        };
        let steps = [step(100, 1), step(50, 60), step(0, 100)];
        let mut release = Parts::new("web", &steps, &[], 0, 0).release;
        release.status = Some(ReleaseStatus {
            achieved_step: achieved.map(|step| AchievedStep {
                step,
                name: String::new(),
            }),
            ..ReleaseStatus::default()
        });
        release
    }

    #[test]
    fn a_release_has_the_capacity_of_the_step_it_has_reached() {
        for (own, successor, percent) in [
            // The newest Release.
            (None, None, 0),
            (Some(0), None, 1),
            (Some(1), None, 60),
            (Some(2), None, 100),
            // A newer Release has reached no step yet.
            (None, Some(None), 0),
            (Some(2), Some(None), 100),
            // A newer Release has reached a step.
            (Some(2), Some(Some(0)), 100),
            (Some(2), Some(Some(1)), 50),
            (Some(2), Some(Some(2)), 0),
            // The step does not exist.
            (Some(7), None, 0),
            (Some(2), Some(Some(-1)), 100),
        ] {
            let text = format!("{own:?}, {successor:?}");
            let successor = successor.map(release);
            let reached = reached(&release(own), successor.as_ref());
            assert_eq!(reached.percent, percent, "{text}");
            assert_eq!(reached.weight, 2 * percent.unsigned_abs(), "{text}");
        }
    }
}
