//! Budgets for the memory of values that are parsed from text.
//!
//! The values of a text can take a hundred times its memory, so the text alone limits nothing.

use std::sync::Arc;

use crate::permits::{Permit, Permits};

/// Unit of the memory that is counted, in bytes.
const UNIT: usize = 64 << 10;

/// Limit in bytes of the values that a byte of YAML may stand for. A short map, such as `{a: }`, takes
/// over a hundred times its text.
const EXPANSION: usize = 128;

/// A number of bytes that all parsers and the values that they have made share. Lanes take turns.
#[derive(Clone, Debug)]
pub struct Memory(Arc<Permits>);

/// A part of the memory, returned when dropped.
#[derive(Debug)]
pub struct Share {
    permit: Permit,
    /// Number of bytes.
    pub bytes: usize,
}

impl Memory {
    /// Creates a memory of so many bytes.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        Self(Permits::new(bytes / UNIT))
    }

    /// Waits for the memory for the values of a YAML text of so many bytes: in proportion to the
    /// text, and not more than `most` bytes.
    pub async fn of_text(&self, lane: &str, text: usize, most: usize) -> Share {
        let bytes = most.min(text.saturating_mul(EXPANSION).saturating_add(UNIT));
        self.take(lane, bytes).await
    }

    /// Waits for so many bytes. More than all bytes count as all bytes.
    pub async fn take(&self, lane: &str, bytes: usize) -> Share {
        let permit = self.0.acquire_many(lane, bytes.div_ceil(UNIT)).await;
        Share { permit, bytes }
    }
}

impl Share {
    /// Returns all but so many bytes.
    pub fn shrink(&mut self, bytes: usize) {
        self.bytes = bytes.min(self.bytes);
        self.permit.shrink(self.bytes.div_ceil(UNIT));
    }
}
