//! The bounded set of outcomes, as a label of metrics.

/// The outcome of a reconcile, as the label `outcome` of `baton_reconcile_total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReconcileOutcome {
    /// Nothing differed, and nothing was written.
    Unchanged,
    /// Something was written.
    Changed,
    /// The object waits for a trigger: a probe, a predecessor, a finalizer, a delay.
    Waiting,
    /// Bad input or a collision, reported in the object's own status.
    Blocked,
    /// The server had a newer state than the cache; the object is reconciled again at once.
    Conflict,
    /// A call failed; it is retried with backoff.
    Failed,
    /// The object no longer exists.
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

    /// The label value of the outcome.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_listed_in_order() {
        for (index, outcome) in ReconcileOutcome::ALL.into_iter().enumerate() {
            assert_eq!(outcome as usize, index, "{}", outcome.as_str());
        }
    }
}
