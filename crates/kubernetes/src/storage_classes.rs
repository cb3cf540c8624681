//! Storage classes, which volume claims name and no watch reports.

use std::time::{Duration, Instant};

use baton_engine::Gvk;

use crate::{blockers::Blocker, lately::ExpiringCache};

/// Time for which a storage class counts as existing after it was observed.
const THERE: Duration = Duration::from_mins(5);
/// Number of cached classes from which expired ones are removed.
const KEPT: usize = 256;

/// A cache of existing classes.
#[derive(Default)]
pub(crate) struct StorageClasses(ExpiringCache<String, (), KEPT>);

impl StorageClasses {
    pub(crate) fn is_there(&self, name: &str, now: Instant) -> bool {
        self.0.get(&name.to_owned(), now).is_some()
    }

    pub(crate) fn note(&self, name: &str, now: Instant) {
        self.0.note(name.to_owned(), (), now, now + THERE);
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
        classes.note("fast", start);
        assert!(classes.is_there("fast", start + THERE / 2) && !classes.is_there("slow", start));
        assert!(!classes.is_there("fast", start + THERE));
        for index in 0..KEPT {
            classes.note(&index.to_string(), start + THERE);
        }
        assert!(classes.0.len() <= KEPT);
    }
}
