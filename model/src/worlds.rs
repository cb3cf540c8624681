//! The worlds for the search.

mod careful;
mod lies;

use careful::{quick_ahead, quick_kept, quick_lost, quick_recreated};
use lies::quick_lies;

use crate::world::{
    Class,
    DesiredObject::{self, Broken, In, Nothing, Same},
    EngineFault, Faults, OBJECTS, REVISIONS,
    UserAction::{self, Archive, Delete, Edit, Hold, Pause, Remove, RemovePhase},
    World,
};

const CALM: Faults = Faults {
    crashes: false,
    losses: false,
    lags: false,
    late: 0,
};
const LOSSY: Faults = Faults {
    crashes: true,
    losses: true,
    ..CALM
};
const ROUGH: Faults = Faults {
    lags: true,
    ..LOSSY
};
/// A request may still be carried out after the manager has given it up, or has crashed and started
/// again.
const LATE: Faults = Faults { late: 1, ..LOSSY };

const BOTH: [DesiredObject; OBJECTS] = [In(0), In(1)];
const TOGETHER: [DesiredObject; OBJECTS] = [In(0), In(0)];
const FIRST: [DesiredObject; OBJECTS] = [In(0), Nothing];

fn world(
    name: &'static str,
    revisions: &[[DesiredObject; OBJECTS]],
    powers: &[UserAction],
    edits: u8,
    faults: Faults,
) -> World {
    World {
        name,
        revisions: revisions.to_vec(),
        powers: powers.to_vec(),
        edits,
        faults,
        sabotage: EngineFault::None,
        classes: [Class::None; REVISIONS],
        delegated: 0,
        is_remote: false,
        looks_ahead: false,
        has_stranger: false,
    }
}

/// The same world, with objects in another cluster.
fn remote(world: World) -> World {
    World {
        is_remote: true,
        ..world
    }
}

/// The same world, with phase objects for the first phase of these revisions.
fn delegated(which: [bool; REVISIONS], world: World) -> World {
    with_class(Class::Default, which, 0, world)
}

/// The same world, in which foreign controllers run a phase of these revisions.
fn foreign(which: [bool; REVISIONS], phase: usize, world: World) -> World {
    with_class(Class::Foreign, which, phase, world)
}

fn with_class(class: Class, which: [bool; REVISIONS], phase: usize, world: World) -> World {
    World {
        classes: which.map(|is_it| if is_it { class } else { Class::None }),
        delegated: phase,
        ..world
    }
}

/// The worlds whose search takes a few minutes.
#[must_use]
pub fn quick() -> Vec<World> {
    let mut worlds = vec![
        world(
            "one revision",
            &[BOTH],
            &[Archive(0), Delete(0), Pause(0), Edit(0), Remove(1), Hold(1)],
            2,
            ROUGH,
        ),
        world(
            "handover",
            &[BOTH, BOTH],
            &[Archive(0), Delete(0)],
            0,
            LOSSY,
        ),
        world(
            "handover in one phase",
            &[TOGETHER, TOGETHER],
            &[Archive(0)],
            0,
            CALM,
        ),
        world(
            "handover, lagging watches",
            &[FIRST, FIRST],
            &[Archive(0), Archive(1), Delete(0), Delete(1)],
            0,
            ROUGH,
        ),
        remote(world(
            "another cluster",
            &[FIRST, FIRST],
            &[Archive(0), Archive(1), Delete(0), Delete(1)],
            0,
            ROUGH,
        )),
        remote(world(
            "another cluster, touched",
            &[FIRST, FIRST],
            &[Archive(0), Delete(1), Edit(0), Remove(0)],
            1,
            LOSSY,
        )),
        world(
            "handover, touched",
            &[FIRST, FIRST],
            &[Archive(0), Delete(1), Edit(0), Remove(0), Hold(0)],
            1,
            ROUGH,
        ),
        world(
            "handover, paused",
            &[FIRST, FIRST],
            &[Archive(0), Pause(0), Pause(1), Remove(0)],
            1,
            LOSSY,
        ),
        world(
            "handover that fails",
            &[BOTH, [In(0), Broken(1)]],
            &[Archive(0), Archive(1)],
            0,
            LOSSY,
        ),
        world(
            "objects that move and go",
            &[BOTH, [In(1), Nothing]],
            &[Archive(0), Delete(0), Delete(1)],
            0,
            ROUGH,
        ),
        world(
            "the same content",
            &[[Same(0), Same(1)], [Same(0), Same(1)]],
            &[Archive(0)],
            0,
            LOSSY,
        ),
        world(
            "three revisions",
            &[FIRST, FIRST, FIRST],
            &[Archive(0), Archive(1), Delete(1)],
            0,
            CALM,
        ),
        world(
            "late requests",
            &[FIRST, FIRST],
            &[Archive(0), Archive(1), Delete(0), Remove(0)],
            1,
            LATE,
        ),
    ];
    worlds.extend(quick_delegated());
    worlds.extend(quick_foreign());
    worlds.extend(quick_kept());
    worlds.extend(quick_recreated());
    worlds.extend(quick_ahead());
    worlds.extend(quick_lost().into_iter().chain(quick_lies()));
    worlds
}

/// Worlds with phases of foreign controllers, whose search takes a few minutes.
fn quick_foreign() -> Vec<World> {
    vec![
        foreign(
            [true, false, false],
            0,
            world(
                "others first",
                &[BOTH],
                &[Archive(0), Delete(0), RemovePhase(0)],
                1,
                LOSSY,
            ),
        ),
        foreign(
            [true, false, false],
            1,
            world(
                "others last, paused",
                &[BOTH],
                &[Archive(0), Pause(0), Remove(0)],
                1,
                CALM,
            ),
        ),
        foreign(
            [false, true, false],
            0,
            world(
                "handover behind others",
                &[BOTH, BOTH],
                &[Archive(0), Archive(1)],
                0,
                CALM,
            ),
        ),
        foreign(
            [true, false, false],
            0,
            world(
                "handover from others",
                &[BOTH, BOTH],
                &[Archive(0)],
                0,
                CALM,
            ),
        ),
    ]
}

/// Larger worlds with phases of foreign controllers.
fn full_foreign() -> Vec<World> {
    let touched = [
        Archive(0),
        Delete(0),
        Pause(0),
        Remove(0),
        Remove(1),
        RemovePhase(0),
    ];
    vec![
        foreign(
            [true, false, false],
            0,
            world("others first, all powers", &[BOTH], &touched, 1, LOSSY),
        ),
        foreign(
            [true, false, false],
            1,
            world("others last, all powers", &[BOTH], &touched, 1, LOSSY),
        ),
        foreign(
            [true, true, false],
            0,
            world(
                "handover between others",
                &[BOTH, BOTH],
                &[Archive(0)],
                0,
                CALM,
            ),
        ),
        foreign(
            [true, true, false],
            1,
            world(
                "handover ahead of others",
                &[BOTH, BOTH],
                &[Archive(0)],
                0,
                CALM,
            ),
        ),
        foreign(
            [false, true, false],
            0,
            world(
                "handover behind others, lossy",
                &[BOTH, BOTH],
                &[Archive(0)],
                0,
                LOSSY,
            ),
        ),
        foreign(
            [false, true, false],
            0,
            world(
                "handover behind others, touched",
                &[BOTH, BOTH],
                &[Archive(0), Archive(1), Remove(1), RemovePhase(1)],
                1,
                CALM,
            ),
        ),
    ]
}

/// Worlds with phase objects, whose search takes a few minutes.
fn quick_delegated() -> Vec<World> {
    vec![
        delegated(
            [true, true, false],
            world("delegated", &[FIRST, FIRST], &[Archive(0)], 0, LOSSY),
        ),
        delegated(
            [true, false, false],
            world(
                "from a delegated phase",
                &[BOTH, BOTH],
                &[Archive(0)],
                0,
                CALM,
            ),
        ),
        delegated(
            [false, true, false],
            world(
                "into a delegated phase",
                &[BOTH, BOTH],
                &[Archive(0), Archive(1)],
                0,
                CALM,
            ),
        ),
        delegated(
            [true, true, false],
            world(
                "delegated, paused",
                &[FIRST, FIRST],
                &[Archive(0), Pause(0)],
                0,
                CALM,
            ),
        ),
    ]
}

/// Larger worlds with phase objects.
fn full_delegated() -> Vec<World> {
    let all = [Archive(0), Archive(1), Delete(0), Delete(1)];
    vec![
        delegated(
            [true, true, false],
            world("delegated, all powers", &[FIRST, FIRST], &all, 0, LOSSY),
        ),
        delegated(
            [true, true, false],
            world(
                "delegated, paused and touched",
                &[FIRST, FIRST],
                &[Archive(0), Pause(0), Pause(1), Remove(0)],
                1,
                CALM,
            ),
        ),
        delegated(
            [true, false, false],
            world(
                "from a delegated phase, lossy",
                &[BOTH, BOTH],
                &[Archive(0), Delete(0)],
                0,
                LOSSY,
            ),
        ),
        delegated(
            [true, true, true],
            world(
                "three delegated revisions",
                &[FIRST, FIRST, FIRST],
                &[Archive(0), Archive(1)],
                0,
                CALM,
            ),
        ),
    ]
}

/// All worlds.
#[must_use]
pub fn full() -> Vec<World> {
    let all = [Archive(0), Archive(1), Delete(0), Delete(1)];
    let mut worlds = quick();
    worlds.extend(full_delegated());
    worlds.extend(full_foreign());
    worlds.extend([
        world("handover, all powers", &[BOTH, BOTH], &all, 0, ROUGH),
        remote(world(
            "another cluster, all powers",
            &[BOTH, BOTH],
            &all,
            0,
            ROUGH,
        )),
        world(
            "handover in one phase, lossy",
            &[TOGETHER, TOGETHER],
            &[Archive(0), Delete(1)],
            0,
            LOSSY,
        ),
        world(
            "handover of both, touched",
            &[BOTH, BOTH],
            &[Archive(0), Edit(0), Remove(1)],
            1,
            LOSSY,
        ),
        world(
            "handover, touched twice",
            &[FIRST, FIRST],
            &[Archive(0), Delete(1), Edit(0), Remove(0), Hold(0)],
            2,
            ROUGH,
        ),
        world(
            "late requests of both objects",
            &[BOTH, BOTH],
            &[Archive(0), Archive(1)],
            0,
            LATE,
        ),
        world(
            "three revisions, lossy",
            &[FIRST, FIRST, FIRST],
            &[Archive(0), Archive(1), Delete(1)],
            0,
            LOSSY,
        ),
        world(
            "three revisions of two objects",
            &[BOTH, BOTH, BOTH],
            &[Archive(0), Archive(1)],
            0,
            CALM,
        ),
    ]);
    worlds
}
