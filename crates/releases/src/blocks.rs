//! Which rollout blocks count for an object (section 8 of the contract).

use std::collections::BTreeSet;

use crate::{event::Event, texts::Quoted};

/// What the blocks mean for an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing is in the way.
    Free,
    /// All that would be in the way is overridden: the blocks that are.
    Overridden(String),
    /// Blocks are in the way: those.
    Blocked(String),
    /// Blocks are overridden that do not exist, which is as if they were in the way: those.
    Unknown(String),
}

impl Verdict {
    /// Judges by the blocks that exist in the namespace of an object and for all namespaces, as `namespace/name`, and
    /// by the annotation that overrides some.
    #[must_use]
    pub fn of(existing: &[String], overrides: &str) -> Self {
        let existing: BTreeSet<&str> = existing.iter().map(String::as_str).collect();
        let overrides = listed(overrides);
        let join = |blocks: Vec<&str>| blocks.join(",");
        let unknown: Vec<_> = overrides.difference(&existing).copied().collect();
        if !unknown.is_empty() {
            return Self::Unknown(join(unknown));
        }
        let effective: Vec<_> = existing.difference(&overrides).copied().collect();
        if !effective.is_empty() {
            return Self::Blocked(join(effective));
        }
        if overrides.is_empty() {
            Self::Free
        } else {
            Self::Overridden(join(overrides.into_iter().collect()))
        }
    }

    /// Why nothing may be done; `None` if it may.
    pub fn problem(&self) -> Option<String> {
        match self {
            Self::Free | Self::Overridden(_) => None,
            Self::Blocked(blocks) => {
                let blocks = Quoted(blocks);
                Some(format!("rollout block(s) with name(s) {blocks} exist"))
            }
            Self::Unknown(blocks) => {
                let blocks = Quoted(blocks);
                Some(format!("rollout block with name {blocks} does not exist"))
            }
        }
    }

    /// The event that tells of it, on every sync.
    pub fn event(&self) -> Option<Event> {
        match self {
            Self::Free | Self::Unknown(_) => None,
            Self::Overridden(blocks) => Some(Event::normal("RolloutBlockOverridden", blocks)),
            Self::Blocked(blocks) => Some(Event::warning("RolloutBlocked", blocks)),
        }
    }
}

/// The annotation that overrides blocks as it is written back: sorted, each block once.
pub fn tidied(overrides: &str) -> String {
    Vec::from_iter(listed(overrides)).join(",")
}

/// Nothing is trimmed.
fn listed(overrides: &str) -> BTreeSet<&str> {
    let blocks = overrides.split(',');
    blocks.filter(|block| !block.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// V1 of the contract, and its neighbours.
    #[test]
    fn blocks_count_unless_they_are_overridden() {
        let exist = |blocks: &str| {
            let message = format!("rollout block(s) with name(s) \"{blocks}\" exist");
            (
                Some(message),
                Some(Event::warning("RolloutBlocked", blocks)),
            )
        };
        let overridden =
            |blocks: &str| (None, Some(Event::normal("RolloutBlockOverridden", blocks)));
        let unknown = |blocks: &str| {
            let message = format!("rollout block with name \"{blocks}\" does not exist");
            (Some(message), None)
        };
        for (existing, overrides, expected) in [
            (vec![], "", (None, None)),
            (vec![], ",,", (None, None)),
            (vec!["a/b"], "", exist("a/b")),
            (vec!["c/d", "a/b"], "", exist("a/b,c/d")),
            (vec!["a/b"], "a/b", overridden("a/b")),
            (vec!["c/d", "a/b"], "a/b", exist("c/d")),
            (vec!["c/d", "a/b"], "c/d,,a/b,c/d", overridden("a/b,c/d")),
            (vec![], "a/b", unknown("a/b")),
            (vec!["a/b"], "x/y,a/b,c/d", unknown("c/d,x/y")),
            (vec!["a/b"], " a/b", unknown(" a/b")),
        ] {
            let existing: Vec<_> = existing.into_iter().map(String::from).collect();
            let verdict = Verdict::of(&existing, overrides);
            let found = (verdict.problem(), verdict.event());
            assert_eq!(found, expected, "{existing:?}, {overrides:?}");
        }
    }

    #[test]
    fn the_annotation_is_sorted_and_has_each_block_once() {
        for (overrides, expected) in [("", ""), (",", ""), ("b,a,,b", "a,b"), ("a, a", " a,a")] {
            assert_eq!(tidied(overrides), expected);
        }
    }
}
