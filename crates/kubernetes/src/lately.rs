//! Answers that count for a while without being asked for again.

use std::{collections::HashMap, hash::Hash, time::Instant};

use parking_lot::Mutex;

/// What has been answered lately, by question, and until when that counts. At most `KEPT` answers: then those that
/// count no more are thrown away, and all of them if that is none.
pub(crate) struct Lately<K, V, const KEPT: usize>(Mutex<HashMap<K, (V, Instant)>>);

impl<K, V, const KEPT: usize> Default for Lately<K, V, KEPT> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash, V: Copy, const KEPT: usize> Lately<K, V, KEPT> {
    /// The answer to a question, while it counts.
    pub fn known(&self, question: &K, now: Instant) -> Option<V> {
        let answers = self.0.lock();
        let (answer, until) = answers.get(question)?;
        (now < *until).then_some(*answer)
    }

    /// Notes an answer that counts until then.
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
