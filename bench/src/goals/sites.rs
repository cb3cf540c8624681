//! The goals of sites.

use super::Goals;
use crate::figures::Figures;
use crate::figures::sites::{CONNECTED, IDLE, NONE, RESTART, ROLLOUTS, Sites};

/// Maximum memory of the manager in KiB per site.
const PER_SITE: f64 = 60.0;
/// Maximum size of a deployment's status in KiB.
const STATUS: f64 = 16.0;
/// Maximum time of the planner for a step of 10,000 sites, in milliseconds.
const STEP: f64 = 5.0;
/// Maximum number of writes at the hub per site that gets a version: a revision and its phase are
/// created, their statuses written, those of the version before archived, and the oldest deleted.
const WRITES: f64 = 12.0;

impl Goals {
    pub(super) fn sites(&mut self, figures: &Figures, sites: &Sites) {
        for (figure, earlier) in [
            ("sites: memory per site", NONE),
            ("sites: memory per site, connections left out", CONNECTED),
        ] {
            self.at_most(figure, sites.per_site(IDLE, earlier), PER_SITE, "KiB");
        }
        let status = crate::figures::number(sites.status) / 1024.0;
        self.at_most(
            "sites: longest status of the deployment",
            Some(status),
            STATUS,
            "KiB",
        );
        for requests in ROLLOUTS.iter().filter_map(|step| sites.requests_of(step)) {
            let figure = format!("{}: writes at the hub per site", requests.step);
            self.at_most(&figure, Some(requests.writes_per_site()), WRITES, "");
        }
        for name in [IDLE, RESTART] {
            let writes = figures.step(name).map(|step| step.writes);
            self.none(&format!("{name}: writes"), writes);
        }
        for planned in &sites.planned {
            let figure = format!("sites: planner, {}", planned.what);
            self.at_most(&figure, Some(planned.milliseconds), STEP, "ms");
        }
    }
}
