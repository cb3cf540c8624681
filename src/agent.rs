//! The agent of one cluster: what connects it to the hub, and what it knows while the hub is away.

pub mod heartbeat;
pub mod intake;
pub mod reporter;
pub mod state;
