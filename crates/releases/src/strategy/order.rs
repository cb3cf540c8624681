//! The stages of a step, and their order.

use std::cmp::Ordering::{self, Equal, Greater, Less};

/// Which of the two Releases of a rollout a stage is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The one that is decided about.
    Own,
    /// The one before it.
    Previous,
}

/// A part of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The objects are installed.
    Installation,
    /// The pods run.
    Capacity(Side),
    /// They have their traffic.
    Traffic(Side),
    /// The step is reached.
    State,
}

/// Where a rollout goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To a later step, or to the one that was reached.
    Forward,
    /// To an earlier step than the one that was reached.
    Backwards,
}

impl Direction {
    /// The direction from the step that was reached to the one to be at.
    #[must_use]
    pub fn of(achieved: Option<i32>, target: i32) -> Self {
        if super::is_stepping_backwards(achieved, target) {
            Self::Backwards
        } else {
            Self::Forward
        }
    }
}

/// Where a Release stands in the line of the Releases of its application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// It is the newest.
    Head {
        /// Whether there is one before it.
        previous: bool,
        /// Where it goes.
        direction: Direction,
    },
    /// There is a newer one, which is where it is to be.
    Follower {
        /// Where that goes.
        direction: Direction,
    },
    /// There is a newer one, which is on its way.
    Waiting,
}

impl Position {
    /// The stages, in the order in which a rollout goes through them if nobody changes his mind. (Section 3.5, X1 to
    /// X5.)
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

    /// Whether the Release leads a rollout away from another.
    pub fn has_incumbent(self) -> bool {
        matches!(self, Self::Head { previous: true, .. })
    }

    /// Whether the Release is the newest.
    pub fn is_head(self) -> bool {
        matches!(self, Self::Head { .. })
    }
}

/// How the targets of a Release are, compared to how they are to be at the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Present {
    /// The percentages of its `CapacityTarget`.
    pub capacity: Ordering,
    /// The weights of its `TrafficTarget`.
    pub weight: Ordering,
    /// Its share of the traffic of both Releases.
    pub share: Ordering,
}

impl Present {
    /// Everything is as it is to be.
    pub const SETTLED: Self = Self {
        capacity: Equal,
        weight: Equal,
        share: Equal,
    };

    /// True if the Release gets pods or traffic, and gives up no pods.
    pub fn grows(self) -> bool {
        self.capacity != Greater && (self.capacity == Less || self.weight == Less)
    }
}

/// The stages in the order that is safe as things are.
///
/// The order of the position is kept where it can be. It fits a rollout that comes from a neighbouring step. When
/// somebody changes `spec.targetStep` half-way, targets may have to grow that would shrink otherwise, and the order of
/// the position would take capacity away from traffic (W36). So whoever gets a greater share of the traffic gets its
/// capacity before, and whoever gets a smaller one, or has more capacity than it needs, gives it up after.
///
/// A Release before it that grows comes first of all: a contender may never become ready.
pub fn ordered(position: Position, own: Present, previous: Present) -> Vec<Stage> {
    let mut stages = position.stages().to_vec();
    let usual = position.stages();
    let present = |side| match side {
        Side::Own => own,
        Side::Previous => previous,
    };
    // Sorting is stable: stages of the same rank stay in the order of the position.
    stages.sort_by_key(|&stage| match stage {
        Stage::Installation => 0,
        Stage::Capacity(Side::Previous) if previous.grows() => 1,
        Stage::Traffic(Side::Previous) if previous.grows() && previous.weight == Less => 2,
        Stage::Capacity(side) => match present(side) {
            // What has to give up weight and gets a greater share nevertheless gives up weight first.
            Present {
                capacity: Greater,
                weight: Greater,
                ..
            } => 7,
            Present { share: Less, .. } => 3,
            Present {
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

/// Whether the capacity of a side comes before its traffic.
fn is_first(usual: &[Stage], side: Side) -> bool {
    let place = |wanted| usual.iter().position(|&stage| stage == wanted);
    place(Stage::Capacity(side)) < place(Stage::Traffic(side))
}
