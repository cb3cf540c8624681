//! Persistent refusals: the time after which a refused rollout counts as failed.
//!
//! The manager tries again, because the reason of a refusal may go away: rights are granted, or
//! another revision releases an object. A refusal that lasts longer needs a person.

use std::time::Duration;

use baton_apis::conditions::{self, Reason};
use jiff::Timestamp;

use crate::chain::Chain;

/// The time that a refusal has to last. The manager tries again after at most 30 seconds.
const MIN_DURATION: Duration = Duration::from_secs(35);

/// The refusal that was observed last, and the time since when it lasts.
#[derive(Debug, Default)]
pub struct Refusals {
    since: Option<(String, Timestamp)>,
}

impl Refusals {
    /// True if the rollout of a chain is refused, and has been for long enough.
    pub fn stand(&mut self, chain: &Chain, now: Timestamp) -> bool {
        let Some(refused) = refused(chain) else {
            self.since = None;
            return false;
        };
        match &self.since {
            Some((same, since)) if *same == refused => now >= *since + MIN_DURATION,
            _ => {
                self.since = Some((refused, now));
                false
            }
        }
    }
}

/// Reasons of a deployment that cannot create its next revision.
const NOT_MADE: [Reason; 3] = [
    Reason::ObjectSetCreateError,
    Reason::NumbersExhausted,
    Reason::RevisionRepeated,
];

/// Identifies the refusal of a chain: the object, its generation, and the reason.
fn refused(chain: &Chain) -> Option<String> {
    if let Some(deployment) = chain.asked_deployment()
        && let Some(condition) = deployment.condition(conditions::PROGRESSING)
        && Reason::is_in(&condition.reason, &NOT_MADE)
        && condition.observed_generation == deployment.metadata.generation
    {
        let generation = deployment.metadata.generation.unwrap_or_default();
        return Some(format!("{} {generation}", deployment.uid()));
    }
    let revision = chain.subject()?;
    let available = revision.condition(conditions::AVAILABLE)?;
    let is_refused = Reason::is_in(&available.reason, &Reason::REFUSALS)
        && available.status == "False"
        && available.observed_generation == revision.metadata.generation;
    is_refused.then(|| {
        let generation = revision.metadata.generation.unwrap_or_default();
        format!("{} {generation} {}", revision.uid(), available.reason)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::chain::from_objects;

    fn condition(type_: &str, reason: &str, generation: i64) -> Value {
        json!({
            "type": type_, "status": "False", "reason": reason, "message": "why",
            "observedGeneration": generation, "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    }

    fn revision(generation: i64, condition: &Value) -> Chain {
        let set = json!({
            "apiVersion": "package-operator.run/v1alpha1", "kind": "ObjectSet",
            "metadata": {"name": "web-1", "namespace": "shop", "uid": "u", "generation": generation},
            "spec": {"revision": 1}, "status": {"conditions": [condition]},
        });
        from_objects(Vec::new(), vec![set]).0.remove(0)
    }

    fn deployment(condition: &Value) -> Chain {
        let object = json!({
            "apiVersion": "package-operator.run/v1alpha1", "kind": "ObjectDeployment",
            "metadata": {"name": "web", "namespace": "shop", "uid": "d", "generation": 2},
            "spec": {"selector": {}, "template": {"metadata": {}, "spec": {}}},
            "status": {"conditions": [condition]},
        });
        from_objects(vec![object], Vec::new()).0.remove(0)
    }

    #[test]
    fn a_refusal_is_final_after_the_manager_has_retried() {
        let start = Timestamp::UNIX_EPOCH;
        let seconds = |seconds| start + Duration::from_secs(seconds);
        let collision = revision(1, &condition("Available", "CollisionDetected", 1));
        let preflight = revision(1, &condition("Available", "PreflightError", 1));
        let waiting = revision(1, &condition("Available", "ProbeFailure", 1));
        let changed = revision(2, &condition("Available", "CollisionDetected", 2));
        for (steps, expected) in [
            (vec![(0, &collision), (34, &collision)], false),
            (
                vec![(0, &collision), (10, &collision), (35, &collision)],
                true,
            ),
            (vec![(0, &preflight), (35, &preflight)], true),
            (vec![(0, &waiting), (35, &waiting)], false),
            // The state has changed in between, so the time starts again.
            (
                vec![(0, &collision), (20, &waiting), (35, &collision)],
                false,
            ),
            (
                vec![(0, &collision), (20, &preflight), (35, &preflight)],
                false,
            ),
            (vec![(0, &collision), (20, &changed), (35, &changed)], false),
        ] {
            let mut refusals = Refusals::default();
            let mut stands = false;
            for (at, chain) in steps {
                stands = refusals.stand(chain, seconds(at));
            }
            assert_eq!(stands, expected);
        }
    }

    #[test]
    fn only_a_report_of_the_current_generation_is_a_refusal() {
        for (chain, expected) in [
            (
                deployment(&condition("Progressing", "ObjectSetCreateError", 2)),
                true,
            ),
            (
                deployment(&condition("Progressing", "ObjectSetCreateError", 1)),
                false,
            ),
            (deployment(&condition("Progressing", "Idle", 2)), false),
            (revision(2, &condition("Available", "SpecChanged", 2)), true),
            (
                revision(2, &condition("Available", "SpecChanged", 1)),
                false,
            ),
            (revision(2, &condition("Available", "WriteError", 2)), false),
            (
                revision(2, &condition("Archived", "CollisionDetected", 2)),
                false,
            ),
        ] {
            assert_eq!(refused(&chain).is_some(), expected, "{chain:?}");
        }
    }
}
