//! The goals of Releases.

use super::Goals;
use crate::figures::Figures;
use crate::figures::releases::{FILL, FIRST, IDLE, RESTART, at_once, cpu, lone, peak, seconds};
use crate::load::releases::Strategy;

/// Maximum time from an Application to its complete Release, for a lone one and for all at once, in
/// seconds.
const MAX_DURATIONS: [(Strategy, f64, f64); 2] = [
    (Strategy::AllIn, 0.2, 2.3),
    (Strategy::ThreeSteps, 0.4, 6.0),
];
/// Maximum number of processor seconds of the manager and helm for all at once.
const CPU: f64 = 3.5;
/// Maximum memory of the manager in MiB.
const MEMORY: f64 = 40.0;

impl Goals {
    pub(super) fn releases(&mut self, figures: &Figures) {
        let step = |name| figures.step(name);
        for (strategy, alone, together) in MAX_DURATIONS {
            for (name, most) in [(lone(strategy), alone), (at_once(strategy), together)] {
                self.at_most(name, step(name).map(seconds), most, "s");
            }
        }
        for name in [Strategy::AllIn, Strategy::ThreeSteps].map(at_once) {
            let figure = format!("{name}: CPU of manager and helm");
            self.at_most(&figure, step(name).and_then(cpu), CPU, "s");
        }
        let rollouts = MAX_DURATIONS.map(|(strategy, ..)| [lone(strategy), at_once(strategy)]);
        let most = peak(figures, rollouts.into_iter().flatten().chain([FIRST]));
        self.at_most(
            "releases: peak resident memory of rollouts",
            most,
            MEMORY,
            "MiB",
        );
        let most = peak(figures, [FILL, IDLE, RESTART]);
        self.at_most("releases: the same with the idle ones", most, MEMORY, "MiB");
        for name in [IDLE, RESTART] {
            self.none(
                &format!("{name}: writes"),
                step(name).map(|step| step.writes),
            );
        }
    }
}
