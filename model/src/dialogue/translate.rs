//! The translation between the small states of the model and the manifests and statuses of the
//! engine.

use super::{
    ARCHIVED, AVAILABLE, Answer, Condition, ControlledObjectReference, Delegated, DelegationAnswer,
    IN_TRANSITION, Life, OBJECTS, ObjectSetObject, ObjectSetPhaseStatus, ObjectSetStatus,
    ObjectSetTemplatePhase, PAUSED, PRESENT, PhaseAnswer, PhaseState, Probes, Record, Reported,
    SUCCEEDED, Status, Value, World, controlled_reference, engine_fault, json,
};

/// The phases of a revision, or the phase of a phase object; phases without objects are omitted.
pub(super) fn phases(world: &World, actor: usize) -> Vec<ObjectSetTemplatePhase> {
    let set = World::revision(actor);
    let is_own = |index: usize| !World::is_phase(actor) || index == world.delegated;
    let phase = |index: usize| ObjectSetTemplatePhase {
        name: format!("phase-{index}"),
        objects: (0..OBJECTS)
            .filter(|object| world.revisions[set][*object].phase() == Some(index) && is_own(index))
            .filter_map(|object| world.manifest(set, object))
            .map(|object| ObjectSetObject {
                object,
                ..ObjectSetObject::default()
            })
            .collect(),
        ..ObjectSetTemplatePhase::default()
    };
    (0..OBJECTS)
        .map(phase)
        .filter(|phase| !phase.objects.is_empty())
        .collect()
}

/// Probes: an object is available unless its content starts with `broken`.
pub(super) fn probes() -> Probes {
    let spec = json!([{
        "selector": {"kind": {"group": "", "kind": "ConfigMap"}},
        "probes": [{"cel": {"rule": "!self.data.content.startsWith('broken')", "message": "is broken"}}],
    }]);
    let specs: Vec<_> = serde_json::from_value(spec).expect("probes");
    Probes::compile(&specs).expect("probes compile")
}

pub(super) fn at_present(mut object: Value) -> Value {
    object["metadata"]["resourceVersion"] = PRESENT.into();
    object
}

pub(super) fn at_present_in(answer: Answer) -> Answer {
    match answer {
        Answer::Object(object) => Answer::Object(at_present(object)),
        Answer::Created(object) => Answer::Created(at_present(object)),
        Answer::Merged(object) => Answer::Merged(at_present(object)),
        answer => answer,
    }
}

fn condition(type_: &str, status: &str) -> Condition {
    let condition = json!({"type": type_, "status": status, "reason": type_, "message": "", "observedGeneration": 1,
        "lastTransitionTime": "1970-01-01T00:00:00Z"});
    serde_json::from_value(condition).expect("a condition")
}

/// The references of objects that are given as bits.
pub(super) fn controlled(bits: u8) -> Vec<ControlledObjectReference> {
    let objects = (0..OBJECTS).filter(|object| bits & (1 << object) != 0);
    let references = objects.map(|object| controlled_reference(&World::key(object)));
    references.collect()
}

/// The objects in a list, one bit each.
fn controls(list: &[ControlledObjectReference]) -> u8 {
    let is_listed = |object: &usize| list.contains(&controlled_reference(&World::key(*object)));
    (0..OBJECTS)
        .filter(is_listed)
        .fold(0, |bits, object| bits | 1 << object)
}

fn is_true(conditions: &[Condition], type_: &str) -> bool {
    let mut conditions = conditions.iter();
    conditions.any(|condition| condition.type_ == type_ && condition.status == "True")
}

/// The status of a revision with these recorded parts.
pub(super) fn status_of(set: usize, kept: Status) -> ObjectSetStatus {
    let mut conditions = Vec::new();
    conditions.extend(kept.archived.then(|| condition(ARCHIVED, "True")));
    conditions.extend(kept.succeeded.then(|| condition(SUCCEEDED, "True")));
    conditions.extend(kept.in_transition.then(|| condition(IN_TRANSITION, "True")));
    ObjectSetStatus {
        conditions,
        controller_of: controlled(kept.controls),
        revision: i64::try_from(set).ok(),
        ..ObjectSetStatus::default()
    }
}

/// The status of a phase object with these recorded parts.
pub(super) fn phase_status_of(kept: Status) -> ObjectSetPhaseStatus {
    let available = match kept.reported {
        Reported::Nothing => None,
        Reported::Available => Some("True"),
        Reported::Not => Some("False"),
    };
    let mut conditions = Vec::new();
    conditions.extend(available.map(|status| condition(AVAILABLE, status)));
    conditions.extend(kept.pauses.then(|| condition(PAUSED, "True")));
    ObjectSetPhaseStatus {
        conditions,
        controller_of: controlled(kept.controls),
        ..ObjectSetPhaseStatus::default()
    }
}

/// The recorded parts of the status of a phase object.
pub(super) fn kept_of_phase(status: &ObjectSetPhaseStatus) -> Status {
    let mut conditions = status.conditions.iter();
    let is_reported = conditions.any(|condition| condition.type_ == AVAILABLE);
    Status {
        controls: controls(&status.controller_of),
        reported: match (is_reported, is_true(&status.conditions, AVAILABLE)) {
            (false, _) => Reported::Nothing,
            (true, false) => Reported::Not,
            (true, true) => Reported::Available,
        },
        pauses: is_true(&status.conditions, PAUSED),
        ..Status::default()
    }
}

/// The delegated phase of a revision, whose phase object has this record.
pub(super) fn delegated(world: &World, set: usize, record: Record) -> Delegated {
    let actor = World::phase_of(set);
    let phase = World::identity(actor);
    let class = if world.is_foreign(actor) {
        "elsewhere"
    } else {
        "default"
    };
    Delegated {
        kind: "ObjectSetPhase",
        namespace: phase.namespace,
        name: phase.name,
        class: class.to_owned(),
        manifest: Value::Null,
        state: record
            .exists()
            .then(|| engine_fault::phase_state(world.sabotage, phase_state(set, record))),
    }
}

fn phase_state(set: usize, record: Record) -> PhaseState {
    let status = phase_status_of(record.status);
    PhaseState {
        uid: World::identity(World::phase_of(set)).uid,
        generation: 1,
        resource_version: record.version(),
        is_ours: true,
        is_deleting: record.life == Life::Deleting,
        paused: record.paused,
        conditions: status.conditions,
        controller_of: status.controller_of,
        ended: status.ended,
    }
}

pub(super) fn delegation_answer(world: &World, set: usize, said: PhaseAnswer) -> DelegationAnswer {
    let answer = match said {
        PhaseAnswer::Is(record) => DelegationAnswer::Object(phase_state(set, record)),
        PhaseAnswer::Gone => DelegationAnswer::Gone,
        PhaseAnswer::Changed => DelegationAnswer::Changed,
        PhaseAnswer::Failed => DelegationAnswer::Failed("lost".to_owned()),
    };
    engine_fault::delegation_answer(world.sabotage, answer)
}

/// The recorded parts of the status of a revision.
pub(super) fn kept(status: &ObjectSetStatus) -> Status {
    let succeeded = is_true(&status.conditions, SUCCEEDED);
    Status {
        archived: is_true(&status.conditions, ARCHIVED),
        succeeded,
        in_transition: succeeded && is_true(&status.conditions, IN_TRANSITION),
        controls: controls(&status.controller_of),
        ..Status::default()
    }
}
