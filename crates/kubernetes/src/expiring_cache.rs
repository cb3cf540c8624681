//! A cache of answers that expire.

use std::{collections::HashMap, hash::Hash, time::Instant};

use parking_lot::Mutex;

/// Cached answers by question, each with the time at which it expires. At most `SIZE` answers:
/// beyond that the expired ones are removed, or all if none has expired.
pub(crate) struct ExpiringCache<K, V, const SIZE: usize>(Mutex<HashMap<K, (V, Instant)>>);

impl<K, V, const SIZE: usize> Default for ExpiringCache<K, V, SIZE> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash, V: Copy, const SIZE: usize> ExpiringCache<K, V, SIZE> {
    /// The answer to a question, unless it has expired.
    pub fn get(&self, question: &K, now: Instant) -> Option<V> {
        let answers = self.0.lock();
        let (answer, until) = answers.get(question)?;
        (now < *until).then_some(*answer)
    }

    /// Caches an answer until the given time.
    pub fn insert(&self, question: K, answer: V, now: Instant, until: Instant) {
        let mut answers = self.0.lock();
        if answers.len() >= SIZE {
            answers.retain(|_, (_, until)| now < *until);
        }
        if answers.len() >= SIZE {
            answers.clear();
        }
        answers.insert(question, (answer, until));
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.0.lock().len()
    }
}
