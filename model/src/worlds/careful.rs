//! Worlds with objects that are kept, with objects that are deleted and created again to change
//! them, with revisions that check all phases first, and with manifests in slices that may be
//! missing.

use super::{BOTH, CALM, FIRST, LOSSY, ROUGH, delegated, remote, world};
use crate::world::{
    DesiredObject::{Fixed, In, Kept, Nothing},
    UserAction::{Archive, Delete, Edit, Hold, Lose, Pause, Remove},
    World,
};

/// The same world, with revisions that check the objects of all phases before the first write.
fn looking_ahead(world: World) -> World {
    World {
        looks_ahead: true,
        ..world
    }
}

/// Worlds with an object that is kept when its revision ends, whose search takes a few minutes.
pub(super) fn quick_kept() -> Vec<World> {
    vec![
        world(
            "one revision with an object that is kept",
            &[[Kept(0), In(1)]],
            &[Archive(0), Delete(0), Pause(0), Hold(0)],
            1,
            ROUGH,
        ),
        world(
            "a kept object that is dropped",
            &[[Kept(0), In(0)], [Nothing, In(0)]],
            &[Archive(0), Delete(0)],
            0,
            LOSSY,
        ),
        remote(world(
            "a kept object in another cluster",
            &[[Kept(0), In(1)]],
            &[Archive(0), Delete(0)],
            0,
            ROUGH,
        )),
        delegated(
            [true, false, false],
            world(
                "a kept object of a delegated phase",
                &[[Kept(0), In(1)]],
                &[Archive(0), Delete(0)],
                0,
                CALM,
            ),
        ),
    ]
}

/// Worlds with an immutable object that is deleted and created again to change it, whose search
/// takes a few minutes.
pub(super) fn quick_recreated() -> Vec<World> {
    let fixed = [Fixed(0), Nothing];
    vec![
        world(
            "handover of an immutable object",
            &[fixed, fixed],
            &[Archive(0), Archive(1), Delete(0)],
            0,
            LOSSY,
        ),
        world(
            "handover of an immutable object, touched",
            &[fixed, fixed],
            &[Archive(0), Edit(0), Remove(0), Hold(0)],
            1,
            LOSSY,
        ),
        world(
            "handover of an immutable object, lagging watches",
            &[fixed, fixed],
            &[Archive(0), Delete(1)],
            0,
            ROUGH,
        ),
        remote(world(
            "an immutable object in another cluster",
            &[fixed, fixed],
            &[Archive(0), Delete(1)],
            0,
            LOSSY,
        )),
        delegated(
            [true, true, false],
            world(
                "an immutable object of delegated phases",
                &[fixed, fixed],
                &[Archive(0)],
                0,
                CALM,
            ),
        ),
    ]
}

/// Worlds with revisions that check the objects of all phases first, whose search takes a few
/// minutes.
pub(super) fn quick_ahead() -> Vec<World> {
    vec![
        looking_ahead(world(
            "handover, all phases checked first",
            &[BOTH, BOTH],
            &[Archive(0), Delete(0)],
            0,
            LOSSY,
        )),
        looking_ahead(world(
            "all phases checked first, paused and touched",
            &[BOTH],
            &[Archive(0), Pause(0), Edit(1), Remove(0), Hold(1)],
            2,
            ROUGH,
        )),
    ]
}

/// Worlds with a newer revision whose manifests are in a slice that may be missing; the search
/// takes a few minutes.
pub(super) fn quick_lost() -> Vec<World> {
    vec![world(
        "handover, paused, in a slice that may be gone",
        &[FIRST, FIRST],
        &[Archive(0), Archive(1), Pause(1), Remove(0), Lose(1)],
        2,
        LOSSY,
    )]
}
