//! The rollout blocks that apply to an object.

use std::collections::BTreeSet;

use baton_apis::{Application, conditions::EventReason, constants::ANNOTATION_PAUSED};

use crate::{event::Event, texts::Quoted};

/// The effect of the blocks on an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No block applies.
    Free,
    /// All blocks that would apply are overridden: their names.
    Overridden(String),
    /// Blocks apply: their names.
    Blocked(String),
    /// The Application with this name is paused.
    Paused(String),
    /// The annotation overrides blocks that do not exist, which counts as blocked: their names.
    Unknown(String),
}

impl Verdict {
    /// Decides by the blocks of the namespace of an object and of all namespaces, as
    /// `namespace/name`, and by the annotation that overrides blocks.
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

    /// As this verdict, unless the Application is paused, which nothing overrides.
    #[must_use]
    pub fn unless_paused(self, application: Option<&Application>) -> Self {
        match application {
            Some(application) if is_paused(application) => {
                Self::Paused(application.metadata.name.clone().unwrap_or_default())
            }
            _ => self,
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
            Self::Paused(name) => Some(format!(
                "the Application is paused; `kubectl baton resume app/{name}` continues"
            )),
            Self::Unknown(blocks) => {
                let blocks = Quoted(blocks);
                Some(format!("rollout block with name {blocks} does not exist"))
            }
        }
    }

    /// The event about the blocks, recorded on every sync; `None` if there are none or they are
    /// unknown.
    pub fn event(&self) -> Option<Event> {
        match self {
            Self::Free | Self::Paused(_) | Self::Unknown(_) => None,
            Self::Overridden(blocks) => {
                Some(Event::normal(EventReason::RolloutBlockOverridden, blocks))
            }
            Self::Blocked(blocks) => Some(Event::warning(EventReason::RolloutBlocked, blocks)),
        }
    }
}

/// True if the annotation of an Application pauses its rollout: no Release is created, and none goes
/// to another step.
pub fn is_paused(application: &Application) -> bool {
    let annotations = application.metadata.annotations.as_ref();
    annotations
        .and_then(|all| all.get(ANNOTATION_PAUSED))
        .is_some_and(|value| value == "true")
}

/// The annotation that overrides blocks, in the form in which it is written back: sorted, without
/// duplicates.
pub fn tidied(overrides: &str) -> String {
    Vec::from_iter(listed(overrides)).join(",")
}

/// The names in the annotation. As in Shipper, spaces around names are part of the names.
fn listed(overrides: &str) -> BTreeSet<&str> {
    let blocks = overrides.split(',');
    blocks.filter(|block| !block.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn blocks_are_effective_unless_they_are_overridden() {
        let exist = |blocks: &str| {
            let message = format!("rollout block(s) with name(s) \"{blocks}\" exist");
            (
                Some(message),
                Some(Event::warning(EventReason::RolloutBlocked, blocks)),
            )
        };
        let overridden = |blocks: &str| {
            (
                None,
                Some(Event::normal(EventReason::RolloutBlockOverridden, blocks)),
            )
        };
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
    fn a_paused_application_is_blocked_whatever_its_annotation_overrides() {
        let application = |paused: &str| -> Application {
            let metadata = json!({"name": "shop", "annotations": {ANNOTATION_PAUSED: paused}});
            let template = json!({"chart": {"name": "a", "version": "1", "repoUrl": ""}});
            serde_json::from_value(json!({
                "apiVersion": "shipper.booking.com/v1alpha1", "kind": "Application",
                "metadata": metadata, "spec": {"template": template},
            }))
            .unwrap()
        };
        let block = ["a/b".to_owned()];
        let verdict = |paused| Verdict::of(&block, "a/b").unless_paused(Some(&application(paused)));
        let text = "the Application is paused; `kubectl baton resume app/shop` continues";
        assert_eq!(verdict("true").problem().as_deref(), Some(text));
        assert_eq!(verdict("false").problem(), None);
        assert_eq!(Verdict::Free.unless_paused(None), Verdict::Free);
    }

    #[test]
    fn the_annotation_is_sorted_and_has_each_block_once() {
        for (overrides, expected) in [("", ""), (",", ""), ("b,a,,b", "a,b"), ("a, a", " a,a")] {
            assert_eq!(tidied(overrides), expected);
        }
    }
}
