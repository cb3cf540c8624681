//! The objects of a revision's delegated phases (contract 6.1).

use baton_apis::{
    ObjectSetProbe, ObjectSetTemplatePhase,
    constants::{
        ANNOTATION_LAST_APPLIED, API_VERSION, CLASS_DEFAULT, FINALIZER_CACHED, LABEL_PHASE_CLASS,
    },
};
use serde_json::{Value, json};

use super::{Context, drive::state};
use crate::{
    cluster::{
        key::Resource as _,
        phase::PhaseKey,
        record::{Origin, Record},
    },
    engine::delegated::{Delegated, names},
};

/// The phase object of a phase whose slices are inlined, and what is known of it; `None` for a phase
/// without class.
#[must_use]
pub fn delegated(
    context: &Context,
    record: &Record,
    phase: &ObjectSetTemplatePhase,
    probes: &[ObjectSetProbe],
) -> Option<Delegated> {
    if phase.class.is_empty() {
        return None;
    }
    let keys = names(&record.key.name, &phase.name).map(|name| PhaseKey::of(&record.key, &name));
    let known = |key: &PhaseKey| context.phases.get(key);
    let is_own = |key: &&PhaseKey| {
        known(key).is_some_and(|item| item.controller.as_ref() == Some(&record.uid))
    };
    // One that was made stays, even when the better name becomes free.
    let key = keys.iter().find(is_own).unwrap_or_else(|| {
        let is_free = known(&keys[0]).is_none();
        &keys[usize::from(!is_free)]
    });
    let state = known(key).map(|item| state(record, &item));
    // It is as long as the phase, and nobody looks at it once there is an object.
    let manifest = match state {
        None => manifest(record, key, phase, probes),
        Some(_) => Value::Null,
    };
    Some(Delegated {
        kind: key.kind.kind(),
        namespace: key.namespace.to_string(),
        name: key.name.to_string(),
        manifest,
        state,
    })
}

fn manifest(
    record: &Record,
    key: &PhaseKey,
    phase: &ObjectSetTemplatePhase,
    probes: &[ObjectSetProbe],
) -> Value {
    let Origin {
        mut labels,
        mut annotations,
    } = record.origin.as_deref().cloned().unwrap_or_default();
    labels.insert(LABEL_PHASE_CLASS.to_owned(), phase.class.clone());
    // It holds the whole revision, and says nothing about the phase (improvement 38).
    annotations.remove(ANNOTATION_LAST_APPLIED);
    let mut metadata = json!({
        "name": &*key.name,
        "labels": labels,
        "annotations": annotations,
        "ownerReferences": [{
            "apiVersion": API_VERSION,
            "kind": record.key.kind.kind(),
            "name": &*record.key.name,
            "uid": &*record.uid,
            "controller": true,
            "blockOwnerDeletion": true,
        }],
    });
    // Its own controller, which is this very process, would add it first of all. Those of other classes
    // do so themselves, if they exist: nobody else would take it away again.
    if phase.class == CLASS_DEFAULT {
        metadata["finalizers"] = json!([FINALIZER_CACHED]);
    }
    if !key.namespace.is_empty() {
        metadata["namespace"] = (*key.namespace).into();
    }
    let mut spec = json!({
        "revision": record.number.unwrap_or(0),
        "objects": phase.objects,
    });
    if record.lifecycle == baton_apis::LifecycleState::Paused {
        spec["paused"] = true.into();
    }
    if !record.previous.is_empty() {
        let names = record
            .previous
            .iter()
            .map(|name| json!({ "name": &**name }));
        spec["previous"] = names.collect();
    }
    if !probes.is_empty() {
        spec["availabilityProbes"] = json!(probes);
    }
    json!({
        "apiVersion": API_VERSION,
        "kind": key.kind.kind(),
        "metadata": metadata,
        "spec": spec,
    })
}
