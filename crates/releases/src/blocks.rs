//! The obstacles of all rollouts of an Application: rollout blocks, and the pause.

use baton_apis::{Application, conditions::EventReason, constants::ANNOTATION_PAUSED};
use baton_engine::rollout_blocks::{Blocks, Verdict};

use crate::event::Event;

/// The obstacle to the rollout of an Application or a Release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// The reason that nothing is rolled out; `None` if the rollout may continue.
    pub problem: Option<String>,
    /// The event about the blocks, recorded on every sync.
    pub event: Option<Event>,
}

impl Obstacle {
    /// Decides by the blocks that apply to an object, by the annotation that overrides blocks, and by
    /// the Application, which may be paused. Nothing overrides a pause.
    #[must_use]
    pub fn of(blocks: &Blocks, overrides: &str, application: Option<&Application>) -> Self {
        if let Some(paused) = application.filter(|application| is_paused(application)) {
            let name = paused.metadata.name.as_deref().unwrap_or_default();
            let text =
                format!("the Application is paused; `kubectl baton resume app/{name}` continues");
            return Self {
                problem: Some(text),
                event: None,
            };
        }
        let verdict = Verdict::of(blocks, overrides);
        Self {
            problem: verdict.problem(),
            event: match verdict {
                Verdict::Free | Verdict::Unknown(_) => None,
                Verdict::Overridden(blocks) => {
                    Some(Event::normal(EventReason::RolloutBlockOverridden, &blocks))
                }
                Verdict::Blocked(blocks) => {
                    Some(Event::warning(EventReason::RolloutBlocked, &blocks))
                }
            },
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn blocks_and_overrides_are_recorded_as_events() {
        let exist = "rollout block(s) with name(s) \"a/b\" exist";
        let unknown = "rollout block with name \"c/d\" does not exist";
        let blocked = Event::warning(EventReason::RolloutBlocked, "a/b");
        let overridden = Event::normal(EventReason::RolloutBlockOverridden, "a/b");
        for (blocks, overrides, problem, event) in [
            (None, "", None, None),
            (Some("a/b"), "", Some(exist), Some(blocked)),
            (Some("a/b"), "a/b", None, Some(overridden)),
            (Some("a/b"), "a/b,c/d", Some(unknown), None),
        ] {
            let blocks = Blocks {
                in_force: blocks.into_iter().map(str::to_owned).collect(),
                ..Blocks::default()
            };
            let found = Obstacle::of(&blocks, overrides, None);
            assert_eq!(found.problem.as_deref(), problem);
            assert_eq!(found.event, event);
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
        let none = Blocks::default();
        let problem = |paused| Obstacle::of(&none, "", Some(&application(paused))).problem;
        let text = "the Application is paused; `kubectl baton resume app/shop` continues";
        assert_eq!(problem("true").as_deref(), Some(text));
        assert_eq!(problem("false"), None);
    }
}
