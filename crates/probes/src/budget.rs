//! The budget of a revision's probes.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::cel::programs::Program;

/// Budget of one pass over a revision: about half a second.
///
/// It is five times the budget of one rule, so that no single object uses up the time of a
/// revision. Common rules cost hundreds of units, so a pass has room for thousands of objects.
const PASS: u64 = 5_000_000;

/// The remaining budget of a revision's probes in a pass, in units of about 100 ns.
///
/// # Guarantees
/// The cost depends only on probes and objects, so a pass over the same objects has the same result
/// each time.
#[derive(Clone)]
pub struct Budget {
    left: u64,
    /// The constant patterns that are charged for.
    pub(crate) programs: HashMap<String, Arc<Program>>,
}

/// Shows the state that later costs depend on, in the same way each time.
impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let patterns: BTreeSet<&String> = self.programs.keys().collect();
        f.debug_struct("Budget")
            .field("left", &self.left)
            .field("patterns", &patterns)
            .finish()
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(PASS)
    }
}

impl Budget {
    pub(crate) fn new(units: u64) -> Self {
        Self {
            left: units,
            programs: HashMap::new(),
        }
    }

    /// Charges for units. Returns false if fewer were left; then none are left from now on.
    pub(crate) fn spend(&mut self, units: u64) -> bool {
        let left = self.left.checked_sub(units);
        self.left = left.unwrap_or_default();
        left.is_some()
    }

    pub(crate) fn left(&self) -> u64 {
        self.left
    }
}

/// The cost of comparing a value.
pub(crate) fn weight(value: &Value) -> u64 {
    1 + match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => (text.len() / 1024) as u64,
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(fields) => fields.values().map(weight).sum(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_exhausted_budget_stays_exhausted() {
        let mut budget = Budget::new(10);
        assert!(budget.spend(7));
        assert_eq!(budget.left(), 3);
        assert!(budget.spend(3));
        assert!(!budget.spend(1));
        let mut budget = Budget::new(10);
        assert!(!budget.spend(u64::MAX));
        assert!(!budget.spend(1), "what did not fit took all");
    }

    #[test]
    fn weights_grow_with_the_value() {
        for (value, expected) in [
            (json!(null), 1),
            (json!("text"), 1),
            (json!("a".repeat(10_240)), 11),
            (json!([1, 2, [3]]), 5),
            (json!({"a": 1, "b": {"c": true}}), 4),
        ] {
            assert_eq!(weight(&value), expected, "{value}");
        }
    }
}
