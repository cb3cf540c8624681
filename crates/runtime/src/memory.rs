//! The memory that concurrent passes may take for the values that they parse.

use baton_kubernetes::memory::{Memory, Share};

/// Values that a pass has at a time for each value that it parses: the wanted object, the one that the
/// server returns, and a copy between two forms.
const COPIES: usize = 3;

/// Limit in bytes of the values that a small pass parses. Nearly all passes are small.
const SMALL: usize = 2 << 20;

/// Bytes for all small passes.
const ALL_SMALL: usize = 96 << 20;

/// Bytes for all other passes.
const ALL_LARGE: usize = 192 << 20;

/// The memory for passes. A large pass waits for other large ones only, so that a tenant with large
/// objects and a slow cluster does not delay the usual passes of others. Namespaces take turns.
#[derive(Clone, Debug)]
pub(crate) struct PassMemory {
    small: Memory,
    large: Memory,
}

impl PassMemory {
    pub(crate) fn new() -> Self {
        Self {
            small: Memory::new(ALL_SMALL),
            large: Memory::new(ALL_LARGE),
        }
    }

    /// Waits for the memory of a pass that parses values of so many bytes; `None` for a pass that
    /// parses none.
    pub(crate) async fn take(&self, lane: &str, bytes: usize) -> Option<Share> {
        let memory = match bytes {
            0 => return None,
            1..=SMALL => &self.small,
            _ => &self.large,
        };
        Some(memory.take(lane, bytes.saturating_mul(COPIES)).await)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn large_passes_wait_for_each_other_and_not_for_small_ones() {
        let memory = PassMemory::new();
        let first = memory.take("a", 64 << 20).now_or_never().unwrap();
        assert!(memory.take("b", SMALL + 1).now_or_never().is_none());
        assert!(memory.take("b", SMALL).now_or_never().is_some());
        assert!(memory.take("b", 0).now_or_never().unwrap().is_none());
        drop(first);
        assert!(memory.take("b", SMALL + 1).now_or_never().is_some());
    }

    /// All passes together stay below the limit, however many there are.
    #[tokio::test]
    async fn small_passes_are_limited_together() {
        let memory = PassMemory::new();
        let most = ALL_SMALL / (SMALL * COPIES);
        let held: Vec<_> = (0..most)
            .map(|_| memory.take("a", SMALL).now_or_never().unwrap())
            .collect();
        assert!(memory.take("a", SMALL).now_or_never().is_none());
        drop(held);
        assert!(memory.take("a", SMALL).now_or_never().is_some());
    }
}
