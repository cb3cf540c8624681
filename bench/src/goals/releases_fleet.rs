//! The goals of one Application in many clusters.

use super::Goals;
use crate::figures::Figures;
use crate::figures::releases_fleet::{FIRST, IDLE, RESTART, UPGRADE};

/// Maximum number of writes at the hub per cluster and step.
const WRITES: f64 = 3.0;

impl Goals {
    pub(super) fn releases_fleet(&mut self, figures: &Figures) {
        let Some(fleet) = &figures.releases_fleet else {
            return;
        };
        for name in [FIRST, UPGRADE] {
            let figure = format!("{name}: writes at the hub per cluster and step");
            self.at_most(&figure, fleet.hub_writes(name), WRITES, "");
        }
        for name in [IDLE, RESTART] {
            let writes = figures.step(name).map(|step| step.writes);
            self.none(&format!("{name}: writes"), writes);
        }
    }
}
