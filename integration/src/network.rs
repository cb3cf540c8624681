//! The thread that carries what goes between programs under test.
//!
//! Proxies and fault injectors do not run on the runtime of their test: a test blocks its own while it
//! starts a manager, and that manager wants to be served meanwhile.

use std::sync::OnceLock;

use tokio::runtime::{Builder, Handle};

/// The runtime of all of them.
///
/// # Guarantees
///
/// It has one thread, so that nothing happens between the `await`s of what runs on it.
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
