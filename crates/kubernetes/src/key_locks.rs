//! Locks by object.

use std::{
    collections::HashMap,
    hash::{BuildHasher as _, Hash, RandomState},
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

type Lock = tokio::sync::Mutex<()>;

/// The locks in use: each target has some, and most targets have none most of the time.
#[derive(Default)]
pub struct KeyLocks {
    hasher: RandomState,
    /// By the hash of the object. Two objects with the same hash share a lock.
    locks: Mutex<HashMap<u64, Weak<Lock>>>,
}

impl KeyLocks {
    /// Waits for the lock of an object.
    pub async fn lock(&self, key: &impl Hash) -> OwnedMutexGuard<()> {
        self.of(self.hasher.hash_one(key)).lock_owned().await
    }

    fn of(&self, hash: u64) -> Arc<Lock> {
        let mut locks = self.locks.lock();
        if let Some(lock) = locks.get(&hash).and_then(Weak::upgrade) {
            return lock;
        }
        // There are as many as there are creates under way.
        locks.retain(|_, lock| lock.strong_count() > 0);
        let lock = Arc::default();
        locks.insert(hash, Arc::downgrade(&lock));
        lock
    }
}

#[cfg(test)]
mod tests {
    use std::{future::Future, pin::pin, task};

    use super::*;

    #[test]
    fn an_object_is_locked_once_at_a_time() {
        let locks = KeyLocks::default();
        let mut context = task::Context::from_waker(task::Waker::noop());
        let mut try_lock = |key: &'static str| {
            let lock = pin!(locks.lock(&key));
            lock.poll(&mut context)
        };
        let first = try_lock("a");
        assert!(first.is_ready());
        assert!(try_lock("a").is_pending());
        assert!(try_lock("b").is_ready(), "another object is not locked");
        drop(first);
        assert!(try_lock("a").is_ready());
    }

    #[test]
    fn locks_that_are_not_in_use_are_dropped() {
        let locks = KeyLocks::default();
        let held = locks.of(0);
        for hash in 1..100 {
            drop(locks.of(hash));
        }
        assert_eq!(locks.locks.lock().len(), 2);
        assert!(Arc::ptr_eq(&held, &locks.of(0)));
    }
}
