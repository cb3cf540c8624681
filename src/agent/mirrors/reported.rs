//! The status that the hub has of a phase. Somebody who has stolen the token of the agent may have
//! written it.

use baton_apis::{ObjectSetPhaseStatus, conditions::ARCHIVED};
use baton_engine::{condition_list::find_true, delegated::reported::ReportedPhase};
use baton_records::{phase::PhaseRecord, record::ReadError};
use baton_runtime::clock::Clock;

use crate::delivery::phase_content::content_hash;

/// Reduces the status of a phase to what the agent can have reported. Otherwise a false hash of the
/// manifests would refuse the phase in each pass of this agent.
///
/// # Errors
/// If the phase cannot be read.
pub(super) fn correct_status(phase: &mut PhaseRecord) -> Result<(), ReadError> {
    let reported = phase.status()?;
    if reported == ObjectSetPhaseStatus::default() {
        return Ok(());
    }
    let (spec, _) = phase.spec_unless_too_large()?;
    let limits = ReportedPhase {
        spec: &spec,
        generation: phase.generation,
        content_hash: &content_hash(&spec),
        accepted: &ObjectSetPhaseStatus::default(),
        now: Clock::default().now(),
    };
    let mut accepted = limits.accept(reported.clone());
    // The end of a teardown is reported for a mirror only.
    let archived = find_true(&reported.conditions, ARCHIVED).filter(|_| phase.deleting);
    accepted.conditions.extend(archived.cloned());
    if accepted == reported {
        return Ok(());
    }
    let set = phase.set_status(&accepted);
    set.map_err(ReadError::of(phase.key.kind, "status"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::agent::mirrors::tests::mirror;

    #[test]
    fn a_forged_status_is_corrected_and_the_own_one_stays() {
        let condition = |type_: &str| {
            json!({
                "type": type_, "status": "True", "reason": "Because", "message": "", "observedGeneration": 1,
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            })
        };
        let corrected = |status: Value| {
            let mut phase = mirror(1, true);
            phase.generation = 1;
            phase
                .set_status(&serde_json::from_value(status).unwrap())
                .unwrap();
            correct_status(&mut phase).unwrap();
            serde_json::to_value(phase.status().unwrap()).unwrap()
        };
        let hash = content_hash(&mirror(1, true).spec().unwrap());
        let own = json!({ "conditions": [condition("Available")], "contentHash": hash });
        assert_eq!(corrected(own.clone()), own);
        let forged = json!({
            "conditions": [condition("Available"), condition("Succeeded"), condition(ARCHIVED)],
            "controllerOf": [{ "kind": "Secret", "group": "", "name": "a", "version": "" }],
            "contentHash": "forged",
        });
        let expected = json!({ "conditions": [condition("Available")] });
        assert_eq!(corrected(forged), expected);
        assert_eq!(corrected(json!({})), json!({}));
    }
}
