//! The thread that carries the traffic between programs under test.
//!
//! Proxies and fault injectors do not run on the runtime of their test. A test blocks its own
//! runtime while it starts a manager, and that manager sends requests meanwhile.

use std::sync::OnceLock;

use tokio::runtime::{Builder, Handle};

/// Returns the runtime of all proxies and fault injectors.
///
/// # Guarantees
///
/// The runtime has one thread, so no other task on it runs between two `await`s of a task.
pub(crate) fn network() -> &'static Handle {
    static NETWORK: OnceLock<Handle> = OnceLock::new();
    NETWORK.get_or_init(|| {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let handle = runtime.handle().clone();
        std::thread::Builder::new()
            .name("network".to_owned())
            .spawn(move || runtime.block_on(std::future::pending::<()>()))
            .unwrap();
        handle
    })
}
