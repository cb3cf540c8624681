//! The bytes of the objects of a cluster that are stored.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// The bytes that the stored objects of a cluster take, and their limit.
#[derive(Debug)]
pub struct Budget {
    used: AtomicUsize,
    most: usize,
}

/// A part of a budget, for one object. It is returned when the value is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Budget {
    /// A budget of `most` bytes.
    #[must_use]
    pub fn new(most: usize) -> Arc<Self> {
        let used = AtomicUsize::new(0);
        Arc::new(Self { used, most })
    }

    /// Takes bytes from the budget; `None` if it has not as many left.
    pub(crate) fn charge(self: &Arc<Self>, bytes: usize) -> Option<Charge> {
        let add = |used: usize| used.checked_add(bytes).filter(|used| *used <= self.most);
        let taken = self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        taken.ok().map(|_| Charge {
            budget: Arc::clone(self),
            bytes,
        })
    }
}

/// A copy takes its own bytes, also beyond the limit: it replaces the original.
impl Clone for Charge {
    fn clone(&self) -> Self {
        self.budget.used.fetch_add(self.bytes, Ordering::Relaxed);
        Self {
            budget: Arc::clone(&self.budget),
            bytes: self.bytes,
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_returned_with_the_last_copy() {
        let budget = Budget::new(10);
        let six = budget.charge(6).unwrap();
        assert!(budget.charge(5).is_none());
        let copy = six.clone();
        drop(six);
        assert!(budget.charge(5).is_none());
        drop(copy);
        assert!(budget.charge(10).is_some());
        assert!(budget.charge(usize::MAX).is_none());
    }
}
