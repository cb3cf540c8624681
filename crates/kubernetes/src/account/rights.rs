//! A cache of the server's answers about the rights of accounts.

use std::time::{Duration, Instant};

use super::Account;
use crate::expiring_cache::ExpiringCache;

/// Lifetimes of a cached right and of a cached lack of one. The second is short, because an account
/// that was refused waits for the right to be granted.
const GRANTED: Duration = Duration::from_mins(5);
const DENIED: Duration = Duration::from_secs(20);
/// Number of cached answers from which expired ones are removed.
const CACHE_SIZE: usize = 1024;

/// A right to read: the objects of a kind in a namespace, or one of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Right {
    pub account: Account,
    pub group: String,
    pub plural: String,
    pub namespace: String,
    /// Name of the object; empty for all objects.
    pub name: String,
}

/// Cached answers of the server about rights.
#[derive(Default)]
pub(crate) struct Rights(ExpiringCache<Right, bool, CACHE_SIZE>);

impl Rights {
    pub(super) fn get(&self, right: &Right, now: Instant) -> Option<bool> {
        self.0.get(right, now)
    }

    pub(super) fn insert(&self, right: Right, granted: bool, now: Instant) {
        let lasts = if granted { GRANTED } else { DENIED };
        self.0.insert(right, granted, now, now + lasts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_right_is_cached_for_a_limited_time() {
        let right = |name: &str| Right {
            account: Account::new("shop", "deployer").unwrap(),
            group: String::new(),
            plural: "secrets".to_owned(),
            namespace: "shop".to_owned(),
            name: name.to_owned(),
        };
        let (rights, now) = (Rights::default(), Instant::now());
        rights.insert(right("granted"), true, now);
        rights.insert(right("denied"), false, now);
        for (name, after, expected) in [
            ("granted", Duration::ZERO, Some(true)),
            ("denied", Duration::ZERO, Some(false)),
            ("granted", DENIED, Some(true)),
            ("denied", DENIED, None),
            ("granted", GRANTED, None),
            ("other", Duration::ZERO, None),
        ] {
            assert_eq!(rights.get(&right(name), now + after), expected, "{name}");
        }
        for number in 0..2 * CACHE_SIZE {
            rights.insert(right(&number.to_string()), true, now);
        }
        assert!(rights.0.len() <= CACHE_SIZE);
    }
}
