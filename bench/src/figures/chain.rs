//! The measurements of chains of revisions, and the figures per revision.

use serde::Serialize;

use super::{Timing, number, ratio};
use crate::load::chains::Chains;
use crate::served::Served;

/// The step that creates the deployments.
pub(crate) const CREATE: &str = "chain: create";
/// The step that edits them.
pub(crate) const EDITS: &str = "chain: edits";
/// The step in which the manager is idle with them.
pub(crate) const IDLE: &str = "chain: idle";

/// The step that restarts the manager, and edits one of them at once.
pub(crate) const RESTART: &str = "chain: edit after a restart";

/// Resources whose writes do not count for the deployments: the revisions, their statuses and their
/// objects.
const OF_REVISIONS: [&str; 4] = ["objectsets", "objectsets/status", "configmaps", "events"];

/// The first rollout of all chains, and the edits that followed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Chain {
    /// Number and length of the chains.
    #[serde(flatten)]
    pub(crate) shape: Chains,
    /// The first rollout, and then each edit of all templates.
    pub(crate) rounds: Vec<Round>,
    /// Requests during the edits as the API server counted them, without those of the bench.
    pub(crate) served: Served,
}

/// A concurrent rollout of all chains.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Round {
    /// The objects written, and the time from the first request to the last settled chain.
    pub(crate) timing: Timing,
    /// Number of archived revisions afterwards.
    pub(crate) archived: usize,
    /// Resident memory of the calm manager afterwards, in MiB.
    pub(crate) memory: Option<f64>,
}

impl Chain {
    /// Number of edits of one deployment.
    pub(crate) fn edits(&self) -> usize {
        self.shape.deployments * self.rounds.len().saturating_sub(1)
    }

    /// Number of objects written by edits.
    pub(crate) fn objects(&self) -> usize {
        let edits = self.rounds.iter().skip(1);
        edits.map(|round| round.timing.objects).sum()
    }

    /// Requests about an object per edit of it, as the API server counted them.
    pub(crate) fn requests_per_object(&self) -> f64 {
        let sent = self.served.about("configmaps").sent;
        ratio(number(sent), number(self.objects()))
    }

    /// Writes of a deployment and its status per edit.
    pub(crate) fn deployment_writes(&self) -> f64 {
        let resources = self.served.resources();
        let others = resources.filter(|resource| !OF_REVISIONS.contains(resource));
        let writes: u64 = others.map(|resource| self.served.writes(resource)).sum();
        self.per_edit(writes)
    }

    /// The given number of requests, per edit of a deployment.
    pub(crate) fn per_edit(&self, requests: u64) -> f64 {
        ratio(number(requests), number(self.edits()))
    }

    /// The growth of the manager's memory per archived revision, in KiB: the slope of the
    /// regression line through the resident memory after each edit. `None` if fewer than two were
    /// measured.
    ///
    /// The first rollout is left out: the first edit allocates memory that is not needed again, for
    /// example for code that was not loaded before.
    pub(crate) fn growth(&self) -> Option<f64> {
        let edits = self.rounds.iter().skip(1);
        let points = edits.filter_map(|round| Some((number(round.archived), round.memory?)));
        slope(&points.collect::<Vec<_>>()).map(|mebibytes| 1024.0 * mebibytes)
    }
}

/// The slope of the regression line through the points (least squares). `None` if they do not
/// determine a line.
fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let mean = |values: &dyn Fn(&(f64, f64)) -> f64| {
        ratio(points.iter().map(values).sum(), number(points.len()))
    };
    let (x, y) = (mean(&|(x, _)| *x), mean(&|(_, y)| *y));
    let spread: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    let common: f64 = points
        .iter()
        .map(|point| (point.0 - x) * (point.1 - y))
        .sum();
    (spread > 0.0).then(|| common / spread)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::Duration;

    use super::*;
    use crate::served::tests::served;

    /// Four chains of ten objects. `memory` is the resident memory after the first rollout and
    /// after each edit.
    pub(crate) fn chain(memory: &[f64], served: Served) -> Chain {
        let shape = Chains {
            deployments: 4,
            edits: u32::try_from(memory.len() - 1).unwrap(),
        };
        let round = |(edit, memory): (usize, &f64)| Round {
            timing: Timing::of(40, Duration::from_secs(2)),
            archived: 4 * edit,
            memory: Some(*memory),
        };
        Chain {
            shape,
            rounds: memory.iter().enumerate().map(round).collect(),
            served,
        }
    }

    #[test]
    fn requests_are_counted_per_edit_and_per_object() {
        let chain = chain(
            &[20.0, 20.0, 20.0],
            served(&[
                ("configmaps", "dry run", 80),
                ("configmaps", "APPLY", 80),
                ("configmaps", "PATCH", 80),
                ("objectsets", "POST", 8),
                ("objectsets/status", "PUT", 32),
                ("objectdeployments", "GET", 4),
                ("objectdeployments/status", "PUT", 20),
            ]),
        );
        assert_eq!((chain.edits(), chain.objects()), (8, 80));
        assert!((chain.requests_per_object() - 3.0).abs() < 1e-9);
        assert!((chain.deployment_writes() - 2.5).abs() < 1e-9);
    }

    #[test]
    fn memory_growth_is_computed_per_revision_after_the_first() {
        let growth = |memory: &[f64]| chain(memory, Served::default()).growth();
        // 1 MiB for four revisions; the first rollout does not count.
        let steady = growth(&[3.0, 20.0, 21.0, 22.0, 23.0]).unwrap();
        assert!((steady - 256.0).abs() < 1e-6, "{steady}");
        let noisy = growth(&[3.0, 20.5, 20.5, 22.5, 22.5]).unwrap();
        assert!((noisy - 204.8).abs() < 1e-6, "{noisy}");
        assert_eq!(growth(&[20.0, 21.0]), None);
    }
}
