//! Any report about a phase: the result is a status of that phase, in limited sizes.

use std::collections::BTreeSet;

use baton_apis::ConditionMapping;
use serde_json::Value;

use super::*;
use crate::mapping::is_condition_type;

/// Greatest size of the types, reasons and messages of all mapped conditions in bytes.
const MAX_MAPPED: usize = 10 * 1024;
/// Greatest length of a reason in the API in bytes.
const LONGEST_REASON: usize = 1024;

#[test]
fn reports_are_reduced_to_a_status_of_the_phase() {
    bolero::check!(name = "report")
        .with_iterations(300)
        .for_each(|input: &[u8]| {
            if let Ok(input) = serde_json::from_slice(input) {
                check(&input);
            }
        });
}

/// An input has the `objects` of the phase, its `generation`, and the status that is `reported`.
fn check(input: &Value) {
    let Ok(reported) = serde_json::from_value::<ObjectSetPhaseStatus>(input["reported"].clone())
    else {
        return;
    };
    let spec = json_spec(input);
    let phase = |accepted| ReportedPhase {
        spec: &spec,
        generation: input["generation"].as_i64().unwrap_or(1),
        content_hash: "hash",
        accepted,
        now: Timestamp::UNIX_EPOCH,
    };
    let nothing = ObjectSetPhaseStatus::default();
    let accepted = phase(&nothing).accept(reported.clone());
    assert_eq!(
        phase(&accepted).accept(accepted.clone()),
        accepted,
        "it is accepted again"
    );
    assert_eq!(
        phase(&accepted).accept(reported),
        accepted,
        "the same report changes nothing"
    );

    let ObjectSetPhaseStatus {
        observed_generation,
        conditions,
        controller_of,
        ended,
        content_hash,
        stopped_for,
    } = &accepted;
    let latest = phase(&nothing).generation;
    assert!(observed_generation.is_none_or(|it| (0..=latest).contains(&it)));
    assert!(content_hash.as_deref().is_none_or(|hash| hash == "hash"));
    assert!(stopped_for.as_ref().is_none_or(|uid| uid.len() <= MAX_UID));
    check_conditions(&spec, conditions);

    let keys = phase(&nothing).keys();
    let known: BTreeSet<_> = keys
        .iter()
        .map(|key| [&*key.group, &*key.kind, &*key.name])
        .collect();
    let controlled = controller_of
        .iter()
        .map(|it| [&*it.group, &*it.kind, &*it.name]);
    let over = ended.iter().map(|it| [&*it.group, &*it.kind, &*it.name]);
    assert!(
        controlled.chain(over).all(|it| known.contains(&it)),
        "{accepted:?}"
    );
    assert!(
        controller_of.len() <= keys.len() && ended.len() <= keys.len(),
        "each once"
    );
    assert!(controller_of.iter().all(|it| it.version.is_empty()));
    let causes = ended.iter().filter_map(|it| it.message.as_ref());
    assert!(causes.map(String::len).max().unwrap_or_default() <= MAX_CAUSE);
}

fn check_conditions(spec: &ObjectSetPhaseSpec, conditions: &[Condition]) {
    let types: BTreeSet<_> = conditions.iter().map(|it| &*it.type_).collect();
    assert_eq!(types.len(), conditions.len(), "each once");
    let mut size = 0;
    for condition in conditions {
        let Condition {
            type_,
            status,
            reason,
            message,
            ..
        } = condition;
        assert!(
            ["True", "False", "Unknown"].contains(&&**status),
            "{condition:?}"
        );
        assert!(
            reason.len() <= LONGEST_REASON && message.len() <= MAX_MESSAGE_LENGTH,
            "{condition:?}"
        );
        assert!(condition.last_transition_time.0 <= Timestamp::UNIX_EPOCH + CLOCK_TOLERANCE);
        if type_.contains('/') {
            size += type_.len() + reason.len() + message.len();
            let mut mappings = spec.objects.iter().flat_map(|it| &it.condition_mappings);
            assert!(
                mappings.any(|it| it.destination_type == *type_),
                "{condition:?}"
            );
        }
    }
    assert!(size <= MAX_MAPPED, "{size}");
}

/// The objects with the mappings that preflight accepts.
fn json_spec(input: &Value) -> ObjectSetPhaseSpec {
    let mut spec = ObjectSetPhaseSpec {
        objects: serde_json::from_value(input["objects"].clone()).unwrap_or_default(),
        ..ObjectSetPhaseSpec::default()
    };
    let is_mapped = |it: &ConditionMapping| {
        it.destination_type.contains('/') && is_condition_type(&it.destination_type)
    };
    for object in &mut spec.objects {
        object.condition_mappings.retain(is_mapped);
    }
    spec
}
