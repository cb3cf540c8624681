//! Storage classes, which claims name and nobody else speaks of.

use std::time::{Duration, Instant};

use baton_engine::Gvk;

use crate::{blockers::Blocker, lately::Lately};

/// How long one that was there counts as there.
const THERE: Duration = Duration::from_mins(5);
/// How many are known before those that count no more are thrown away.
const KEPT: usize = 256;

/// Classes that were there lately.
#[derive(Default)]
pub(crate) struct StorageClasses(Lately<String, (), KEPT>);

impl StorageClasses {
    pub(crate) fn is_there(&self, name: &str, now: Instant) -> bool {
        self.0.known(&name.to_owned(), now).is_some()
    }

    pub(crate) fn note(&self, name: &str, now: Instant) {
        self.0.note(name.to_owned(), (), now, now + THERE);
    }
}

/// A storage class as an object to wait for.
pub fn storage_class(name: &str) -> Blocker {
    let gvk = Gvk::new("storage.k8s.io/v1", "StorageClass");
    let key = gvk.key("", name);
    Blocker { gvk, key }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_counts_as_there_for_a_while() {
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
