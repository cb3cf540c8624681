//! The stages of a step, and their order.

use std::cmp::Ordering::{self, Equal, Greater, Less};

/// A Release of a rollout: the one of the decision or the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The Release of the decision.
    Own,
    /// The Release before it.
    Previous,
}

/// A part of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The objects are installed.
    Installation,
    /// The pods run.
    Capacity(Side),
    /// The pods have their traffic.
    Traffic(Side),
    /// The step is reached.
    State,
}

/// The direction of a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To a later step, or to the step that was reached.
    Forward,
    /// To a step before the one that was reached.
    Backwards,
}

impl Direction {
    /// The direction from the achieved step to the target step.
    #[must_use]
    pub fn of(achieved: Option<i32>, target: i32) -> Self {
        if super::is_stepping_backwards(achieved, target) {
            Self::Backwards
        } else {
            Self::Forward
        }
    }
}

/// The position of a Release among the Releases of its application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// The Release is the newest.
    Head {
        /// True if there is a Release before it.
        previous: bool,
        /// Direction of the rollout.
        direction: Direction,
    },
    /// A newer Release exists, and has reached its target step.
    Follower {
        /// Direction of the newer Release.
        direction: Direction,
    },
    /// A newer Release exists, and has not reached its target step.
    Waiting,
}

impl Position {
    /// The stages, in the order of a rollout whose target step does not change half-way.
    pub fn stages(self) -> &'static [Stage] {
        use Direction::{Backwards, Forward};
        use Side::{Own, Previous};
        use Stage::{Capacity, Installation, State, Traffic};
        match self {
            Self::Head {
                previous: true,
                direction: Forward,
            } => &[
                Installation,
                Capacity(Own),
                Traffic(Own),
                Traffic(Previous),
                Capacity(Previous),
                State,
            ],
            Self::Head {
                previous: true,
                direction: Backwards,
            } => &[
                Installation,
                Capacity(Previous),
                Traffic(Previous),
                Traffic(Own),
                Capacity(Own),
                State,
            ],
            Self::Head {
                previous: false,
                direction: Forward,
            }
            | Self::Follower {
                direction: Backwards,
            } => &[Installation, Capacity(Own), Traffic(Own), State],
            Self::Head {
                previous: false,
                direction: Backwards,
            }
            | Self::Follower { direction: Forward } => {
                &[Installation, Traffic(Own), Capacity(Own), State]
            }
            Self::Waiting => &[],
        }
    }

    /// True if the Release replaces another.
    pub fn has_incumbent(self) -> bool {
        matches!(self, Self::Head { previous: true, .. })
    }

    /// True if the Release is the newest.
    pub fn is_head(self) -> bool {
        matches!(self, Self::Head { .. })
    }
}

/// The targets of a Release, compared to the values of the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetComparison {
    /// Percentages of the `CapacityTarget`.
    pub capacity: Ordering,
    /// Weights of the `TrafficTarget`.
    pub weight: Ordering,
    /// Share of the Release in the traffic of both Releases.
    pub share: Ordering,
}

impl TargetComparison {
    /// All values are those of the step.
    pub const EQUAL: Self = Self {
        capacity: Equal,
        weight: Equal,
        share: Equal,
    };

    /// True if the Release gets pods or traffic, and gives up no pods.
    pub fn grows(self) -> bool {
        self.capacity != Greater && (self.capacity == Less || self.weight == Less)
    }
}

/// The stages in the order that is safe for the present targets.
///
/// The usual order of the position is kept where possible. It is right for a rollout from a
/// neighbouring step. If `spec.targetStep` changes half-way, targets may have to grow that would
/// usually shrink, and the usual order would remove capacity that traffic needs. So a Release that
/// gets a greater share of the traffic gets its capacity first, and a Release that gets a smaller
/// share, or has more capacity than it needs, loses the capacity last.
///
/// A previous Release that grows comes before everything else, because a contender may never become
/// ready.
pub fn ordered(
    position: Position,
    own: TargetComparison,
    previous: TargetComparison,
) -> Vec<Stage> {
    let mut stages = position.stages().to_vec();
    let usual = position.stages();
    let present = |side| match side {
        Side::Own => own,
        Side::Previous => previous,
    };
    // The sort is stable: stages of the same rank stay in the usual order.
    stages.sort_by_key(|&stage| match stage {
        Stage::Installation => 0,
        Stage::Capacity(Side::Previous) if previous.grows() => 1,
        Stage::Traffic(Side::Previous) if previous.grows() && previous.weight == Less => 2,
        Stage::Capacity(side) => match present(side) {
            // A Release that must lose weight although its share grows loses the weight first.
            TargetComparison {
                capacity: Greater,
                weight: Greater,
                ..
            } => 7,
            TargetComparison { share: Less, .. } => 3,
            TargetComparison {
                share: Equal,
                capacity: Less | Equal,
                ..
            } if is_first(usual, side) => 3,
            _ => 7,
        },
        Stage::Traffic(side) => match present(side).weight {
            Less => 4,
            Equal => 5,
            Greater => 6,
        },
        Stage::State => 8,
    });
    stages
}

/// True if the capacity of a side comes before its traffic.
fn is_first(usual: &[Stage], side: Side) -> bool {
    let position = |wanted| usual.iter().position(|&stage| stage == wanted);
    position(Stage::Capacity(side)) < position(Stage::Traffic(side))
}
