//! Locks by object.

use std::hash::{BuildHasher as _, Hash, RandomState};

use tokio::sync::{Mutex, MutexGuard};

/// Number of locks of each target, more than it has [`crate::permits::Permits`].
const LOCKS: usize = 127;

/// Locks that each are shared by a few objects. A create is short, so that costs less than counting
/// the locks in use.
pub struct KeyLocks {
    hasher: RandomState,
    locks: Box<[Mutex<()>]>,
}

impl Default for KeyLocks {
    fn default() -> Self {
        Self {
            hasher: RandomState::new(),
            locks: (0..LOCKS).map(|_| Mutex::default()).collect(),
        }
    }
}

impl KeyLocks {
    /// Waits for the lock of an object.
    pub async fn lock(&self, key: &impl Hash) -> MutexGuard<'_, ()> {
        let hash = self.hasher.hash_one(key);
        let at = usize::try_from(hash % self.locks.len() as u64).unwrap_or_default();
        self.locks[at].lock().await
    }
}
