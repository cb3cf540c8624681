//! Worlds in which what the manager reads back is not true: numbers that somebody else wrote, and a
//! server that goes back to a backup. The search takes a few minutes.

use super::{CALM, FIRST, LOSSY, remote, world};
use crate::world::{
    UserAction::{Archive, Delete, Forge, Pause, Remove, Restore},
    World,
};

/// Worlds with the highest number on an object, or in a revision that the chain does not contain, and
/// worlds with a server that goes back to its backup.
pub(super) fn quick_lies() -> Vec<World> {
    vec![
        world(
            "handover, paused, with a forged number",
            &[FIRST, FIRST],
            &[Archive(0), Pause(0), Delete(1), Forge(0)],
            1,
            LOSSY,
        ),
        World {
            has_stranger: true,
            ..world(
                "a stranger with the highest number",
                &[FIRST, FIRST, FIRST],
                &[Archive(0), Delete(2), Remove(0)],
                1,
                CALM,
            )
        },
        world(
            "the server goes back",
            &[FIRST, FIRST],
            &[Archive(0), Delete(0), Restore],
            0,
            LOSSY,
        ),
        remote(world(
            "the other cluster goes back",
            &[FIRST, FIRST],
            &[Archive(0), Restore],
            0,
            LOSSY,
        )),
    ]
}
