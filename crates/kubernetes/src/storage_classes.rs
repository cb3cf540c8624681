//! Storage classes, which volume claims name and no watch reports.

use std::time::{Duration, Instant};

use baton_engine::Gvk;

use crate::{blockers::Blocker, expiring_cache::ExpiringCache};

/// Time for which a storage class counts as existing after it was observed.
const EXISTS_FOR: Duration = Duration::from_mins(5);
/// Number of cached classes from which expired ones are removed.
const CACHE_SIZE: usize = 256;

/// A cache of existing classes.
#[derive(Default)]
pub(crate) struct StorageClasses(ExpiringCache<String, (), CACHE_SIZE>);

impl StorageClasses {
    pub(crate) fn is_there(&self, name: &str, now: Instant) -> bool {
        self.0.get(&name.to_owned(), now).is_some()
    }

    pub(crate) fn add(&self, name: &str, now: Instant) {
        self.0.insert(name.to_owned(), (), now, now + EXISTS_FOR);
    }
}

/// A storage class as an object that can be watched.
pub fn storage_class(name: &str) -> Blocker {
    let gvk = Gvk::new("storage.k8s.io/v1", "StorageClass");
    let key = gvk.key("", name);
    Blocker { gvk, key }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_existing_storage_class_is_cached_for_a_limited_time() {
        let (classes, start) = (StorageClasses::default(), Instant::now());
        assert!(!classes.is_there("fast", start));
        classes.add("fast", start);
        assert!(
            classes.is_there("fast", start + EXISTS_FOR / 2) && !classes.is_there("slow", start)
        );
        assert!(!classes.is_there("fast", start + EXISTS_FOR));
        for index in 0..CACHE_SIZE {
            classes.add(&index.to_string(), start + EXISTS_FOR);
        }
        assert!(classes.0.len() <= CACHE_SIZE);
    }
}
