//! The measurements of sites, and the figures per site.

use serde::Serialize;

use super::fleet::RequestCounts;
use super::{number, ratio};
use crate::load::sites::Sites as Shape;
use crate::planner::Planned;
use crate::traffic::Traffic;

/// The step in which the manager is idle without Clusters.
pub(crate) const NONE: &str = "sites: no Clusters";
/// The step that creates the Clusters, until all are connected.
pub(crate) const CONNECT: &str = "sites: connect";
/// The step in which the manager is idle with them.
pub(crate) const CONNECTED: &str = "sites: idle, connected";
/// The step that rolls out the first version to all sites at once.
pub(crate) const FIRST: &str = "sites: first version";
/// The step that rolls out a version in waves.
pub(crate) const WAVES: &str = "sites: in waves";
/// The step that rolls out a version to all sites at once.
pub(crate) const AT_ONCE: &str = "sites: all at once";
/// The step in which sites go offline.
pub(crate) const LOST: &str = "sites: a tenth offline";
/// The step that rolls out a version to the other sites.
pub(crate) const OTHERS: &str = "sites: to the others";
/// The step in which the lost sites come back.
pub(crate) const BACK: &str = "sites: back online";
/// The step in which the manager is idle with all that was rolled out.
pub(crate) const IDLE: &str = "sites: idle";
/// The step that restarts the manager.
pub(crate) const RESTART: &str = "sites: restart";

/// The steps that roll out a version.
pub(crate) const ROLLOUTS: [&str; 4] = [FIRST, WAVES, AT_ONCE, OTHERS];

/// Sites, and the counts of the API servers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Sites {
    /// Number of sites and objects.
    #[serde(flatten)]
    pub(crate) shape: Shape,
    /// Resident memory of the idle manager in MiB, by step.
    pub(crate) memory: Vec<(&'static str, Option<f64>)>,
    /// Requests to the API servers, by step.
    pub(crate) asked: Vec<StepRequests>,
    /// The largest status of the deployment, in bytes of JSON.
    pub(crate) status: usize,
    /// Timings of the planner.
    pub(crate) planned: Vec<Planned>,
}

/// The requests to the API servers in a step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct StepRequests {
    pub(crate) step: &'static str,
    /// Number of sites that the step affects.
    pub(crate) sites: usize,
    pub(crate) sides: RequestCounts,
    /// Bytes at the hub.
    pub(crate) traffic: Traffic,
}

impl Sites {
    /// No measurements yet.
    pub(crate) fn new(shape: Shape) -> Self {
        Self {
            shape,
            memory: Vec::new(),
            asked: Vec::new(),
            status: 0,
            planned: Vec::new(),
        }
    }

    /// Resident memory of the manager per site in KiB, beyond that in an earlier step; `None` if it
    /// was not measured.
    pub(crate) fn per_site(&self, step: &str, earlier: &str) -> Option<f64> {
        let of = |step: &str| self.memory.iter().find(|(name, _)| *name == step)?.1;
        Some(ratio(
            1024.0 * (of(step)? - of(earlier)?),
            number(self.shape.sites),
        ))
    }

    pub(crate) fn requests_of(&self, step: &str) -> Option<&StepRequests> {
        self.asked.iter().find(|requests| requests.step == step)
    }
}

impl StepRequests {
    /// The given number, per affected site.
    pub(crate) fn per_site(&self, sent: u64) -> f64 {
        ratio(number(sent), number(self.sites))
    }

    /// Writes at the hub, per site.
    pub(crate) fn writes_per_site(&self) -> f64 {
        self.per_site(self.sides.hub.all_writes())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::load::sites::tests::SITES;
    use crate::served::tests::served;

    /// Twenty sites with 60 KiB each, and a rollout.
    pub(crate) fn sites() -> Sites {
        let hub = served(&[
            ("objectsets", "POST", 20),
            ("objectsetphases", "GET", 5),
            ("objectsets/status", "PUT", 60),
        ]);
        let requests = StepRequests {
            step: AT_ONCE,
            sites: 20,
            sides: RequestCounts {
                hub,
                clusters: served(&[("configmaps", "APPLY", 40)]),
            },
            traffic: Traffic::default(),
        };
        let planned = Planned {
            what: "to all at once",
            sites: 10_000,
            milliseconds: 4.5,
        };
        Sites {
            memory: vec![
                (NONE, Some(20.0)),
                (CONNECTED, Some(24.0)),
                (IDLE, Some(25.0)),
                (RESTART, None),
            ],
            asked: vec![requests],
            status: 2_000,
            planned: vec![planned],
            ..Sites::new(SITES)
        }
    }

    #[test]
    fn site_figures_are_per_site() {
        let sites = sites();
        assert_eq!(sites.per_site(IDLE, NONE), Some(256.0));
        assert_eq!(sites.per_site(IDLE, CONNECTED), Some(51.2));
        assert_eq!(sites.per_site(RESTART, NONE), None);
        let requests = sites.requests_of(AT_ONCE).unwrap();
        assert!((requests.writes_per_site() - 4.0).abs() < 1e-9);
        assert_eq!(sites.requests_of(WAVES), None);
    }
}
