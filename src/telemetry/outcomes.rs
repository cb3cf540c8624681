//! The bounded sets of outcomes that metrics are counted by.

/// What a reconcile came to, as the label `outcome` of `baton_reconcile_total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReconcileOutcome {
    /// Nothing differed and nothing was written.
    Unchanged,
    /// Something was written.
    Changed,
    /// Waits for something that will wake it: a probe, a predecessor, a finalizer, a delay.
    Waiting,
    /// Bad input or a collision, reported in the object's own status.
    Blocked,
    /// The server held something newer than the cache; planned again at once.
    Conflict,
    /// A call failed; tried again with backoff.
    Failed,
    /// The object does not exist any more.
    Gone,
}

impl ReconcileOutcome {
    /// Every outcome, in the order of its discriminant.
    pub const ALL: [Self; 7] = [
        Self::Unchanged,
        Self::Changed,
        Self::Waiting,
        Self::Blocked,
        Self::Conflict,
        Self::Failed,
        Self::Gone,
    ];

    /// The label value.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unchanged => "unchanged",
            Self::Changed => "changed",
            Self::Waiting => "waiting",
            Self::Blocked => "blocked",
            Self::Conflict => "conflict",
            Self::Failed => "failed",
            Self::Gone => "gone",
        }
    }
}

/// What became of a Kubernetes Event, as the label `outcome` of `baton_events_total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventOutcome {
    /// Written to the API server.
    Published,
    /// The same was said a short time ago; it will be counted in the next write of that event.
    Duplicate,
    /// The object had too many events lately.
    Spam,
    /// The queue was full.
    Dropped,
    /// The API server refused it or could not be reached.
    Failed,
}

impl EventOutcome {
    /// Every outcome, in the order of its discriminant.
    pub const ALL: [Self; 5] = [
        Self::Published,
        Self::Duplicate,
        Self::Spam,
        Self::Dropped,
        Self::Failed,
    ];

    /// The label value.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Published => "published",
            Self::Duplicate => "duplicate",
            Self::Spam => "spam",
            Self::Dropped => "dropped",
            Self::Failed => "failed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_listed_in_order() {
        for (index, outcome) in ReconcileOutcome::ALL.into_iter().enumerate() {
            assert_eq!(outcome as usize, index, "{}", outcome.as_str());
        }
        for (index, outcome) in EventOutcome::ALL.into_iter().enumerate() {
            assert_eq!(outcome as usize, index, "{}", outcome.as_str());
        }
    }
}
