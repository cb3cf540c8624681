//! Rollout blocks: which of them forbid changes of an object, and the effect on the chains of revisions
//! that obey them.
//!
//! Source of the rules: `docs/contract/releases.md#rollout-blocks`.

use std::collections::BTreeSet;

use baton_apis::conditions::Reason;

use crate::quoted::Quoted;

/// The blocks of the namespace of an object and of all namespaces, as `namespace/name`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blocks {
    /// The blocks that apply unless they are overridden.
    pub in_force: BTreeSet<String>,
    /// The blocks that are being deleted. They apply no more, and may still be overridden.
    pub ending: BTreeSet<String>,
}

/// The effect of the blocks on an object that obeys them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No block applies.
    Free,
    /// All blocks that would apply are overridden: their names.
    Overridden(String),
    /// Blocks apply: their names.
    Blocked(String),
    /// The annotation overrides blocks that do not exist, which counts as blocked: their names.
    Unknown(String),
}

impl Verdict {
    /// Decides by the blocks that apply to an object, and by its annotation that overrides blocks.
    #[must_use]
    pub fn of(blocks: &Blocks, overrides: &str) -> Self {
        let Blocks { in_force, ending } = blocks;
        let overrides = listed(overrides);
        let mut unknown = overrides.clone();
        unknown.retain(|name| !in_force.contains(*name) && !ending.contains(*name));
        let effective = in_force.iter().map(String::as_str);
        let effective: Vec<_> = effective.filter(|name| !overrides.contains(name)).collect();
        if !unknown.is_empty() {
            Self::Unknown(joined(unknown))
        } else if !effective.is_empty() {
            Self::Blocked(effective.join(","))
        } else if overrides.is_empty() {
            Self::Free
        } else {
            Self::Overridden(joined(overrides))
        }
    }

    /// The reason that changes are forbidden; `None` if they are allowed.
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
}

/// The effect of the blocks on a chain of revisions, which obeys them only by its label.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Effect {
    /// The chain has no such label.
    #[default]
    NotObeyed,
    /// The blocks as they are.
    Judged(Verdict),
    /// The blocks cannot be listed, so that nothing is rolled out; the text is the cause.
    Unlisted(String),
}

impl Effect {
    /// The reason and the message of the hold; `None` if the rollout may continue.
    pub fn hold(&self) -> Option<(Reason, String)> {
        match self {
            Self::NotObeyed => None,
            Self::Judged(verdict) => Some((Reason::RolloutsBlocked, verdict.problem()?)),
            Self::Unlisted(cause) => Some((Reason::ListFailed, cause.clone())),
        }
    }

    /// Status, reason and message of the condition `Blocked`; `None` if the chain has no such condition.
    pub fn condition(&self) -> Option<(&'static str, Reason, String)> {
        let status = match self {
            Self::NotObeyed => return None,
            Self::Judged(_) => "True",
            Self::Unlisted(_) => "Unknown",
        };
        let free = ("False", Reason::NotBlocked, String::new());
        let held = self.hold().map(|(reason, text)| (status, reason, text));
        Some(held.unwrap_or(free))
    }
}

/// True if the label of a chain makes it obey blocks.
pub fn is_obeyed(label: Option<&str>) -> bool {
    label.is_some_and(|value| value != "false")
}

/// The annotation that overrides blocks, in the form in which it is written back: sorted, without
/// duplicates.
pub fn tidied(overrides: &str) -> String {
    joined(listed(overrides))
}

/// The annotation without a block, in the form in which it is written back.
pub fn without(overrides: &str, block: &str) -> String {
    let mut blocks = listed(overrides);
    blocks.remove(block);
    joined(blocks)
}

/// The names in the annotation. As in Shipper, spaces around names are part of the names.
pub fn listed(overrides: &str) -> BTreeSet<&str> {
    let blocks = overrides.split(',');
    blocks.filter(|block| !block.is_empty()).collect()
}

fn joined(names: BTreeSet<&str>) -> String {
    Vec::from_iter(names).join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_effective_unless_they_are_overridden() {
        let exist = |blocks: &str| Verdict::Blocked(blocks.to_owned());
        let overridden = |blocks: &str| Verdict::Overridden(blocks.to_owned());
        let unknown = |blocks: &str| Verdict::Unknown(blocks.to_owned());
        for (in_force, ending, overrides, expected) in [
            ("", "", "", Verdict::Free),
            ("", "", ",,", Verdict::Free),
            ("a/b", "", "", exist("a/b")),
            ("c/d,a/b", "", "", exist("a/b,c/d")),
            ("a/b", "", "a/b", overridden("a/b")),
            ("c/d,a/b", "", "a/b", exist("c/d")),
            ("c/d,a/b", "", "c/d,,a/b,c/d", overridden("a/b,c/d")),
            ("", "", "a/b", unknown("a/b")),
            ("a/b", "", "x/y,a/b,c/d", unknown("c/d,x/y")),
            ("a/b", "", " a/b", unknown(" a/b")),
            ("", "a/b", "", Verdict::Free),
            ("", "a/b", "a/b", overridden("a/b")),
            ("c/d", "a/b", "a/b", exist("c/d")),
        ] {
            let names = |list| listed(list).into_iter().map(str::to_owned).collect();
            let blocks = Blocks {
                in_force: names(in_force),
                ending: names(ending),
            };
            let found = Verdict::of(&blocks, overrides);
            assert_eq!(found, expected, "{blocks:?}, {overrides:?}");
        }
    }

    #[test]
    fn a_block_is_removed_from_the_annotation() {
        for (overrides, expected) in [
            ("", ""),
            ("a/b", ""),
            ("c/d,a/b,,c/d", "c/d"),
            ("c/d", "c/d"),
        ] {
            assert_eq!(without(overrides, "a/b"), expected);
        }
    }

    #[test]
    fn the_annotation_is_sorted_and_has_each_block_once() {
        for (overrides, expected) in [("", ""), (",", ""), ("b,a,,b", "a,b"), ("a, a", " a,a")] {
            assert_eq!(tidied(overrides), expected);
        }
    }

    #[test]
    fn a_chain_reports_the_blocks_that_it_obeys() {
        let blocked = Effect::Judged(Verdict::Blocked("a/b".to_owned()));
        let unlisted = Effect::Unlisted("RolloutBlocks cannot be listed: gone".to_owned());
        for (effect, expected) in [
            (blocked, Some(("True", Reason::RolloutsBlocked))),
            (unlisted, Some(("Unknown", Reason::ListFailed))),
            (
                Effect::Judged(Verdict::Free),
                Some(("False", Reason::NotBlocked)),
            ),
            (Effect::NotObeyed, None),
        ] {
            let found = effect.condition();
            assert_eq!(found.map(|(status, reason, _)| (status, reason)), expected);
            let is_held = expected.is_some_and(|(status, _)| status != "False");
            assert_eq!(effect.hold().is_some(), is_held);
        }
    }

    #[test]
    fn any_label_but_false_opts_in() {
        let found = [None, Some("false"), Some("true"), Some("")].map(is_obeyed);
        assert_eq!(found, [false, false, true, true]);
    }
}
