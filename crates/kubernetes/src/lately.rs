//! A cache of answers that expire.

use std::{collections::HashMap, hash::Hash, time::Instant};

use parking_lot::Mutex;

/// Cached answers by question, each with the time at which it expires. At most `KEPT` answers:
/// beyond that the expired ones are removed, or all if none has expired.
pub(crate) struct ExpiringCache<K, V, const KEPT: usize>(Mutex<HashMap<K, (V, Instant)>>);

impl<K, V, const KEPT: usize> Default for ExpiringCache<K, V, KEPT> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash, V: Copy, const KEPT: usize> ExpiringCache<K, V, KEPT> {
    /// The answer to a question, unless it has expired.
    pub fn get(&self, question: &K, now: Instant) -> Option<V> {
        let answers = self.0.lock();
        let (answer, until) = answers.get(question)?;
        (now < *until).then_some(*answer)
    }

    /// Caches an answer until the given time.
    pub fn note(&self, question: K, answer: V, now: Instant, until: Instant) {
        let mut answers = self.0.lock();
        if answers.len() >= KEPT {
            answers.retain(|_, (_, until)| now < *until);
        }
        if answers.len() >= KEPT {
            answers.clear();
        }
        answers.insert(question, (answer, until));
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.0.lock().len()
    }
}
