//! Deliberate mistakes in requests, and in the interpretation of answers.

use baton_engine::{
    Request,
    delegated::{DelegationAnswer, PhaseReport, PhaseState},
    keep::is_kept,
    object::metadata,
};
use serde_json::{Value, json};

use crate::world::EngineFault;

/// A request, as a broken engine would send it.
#[must_use]
pub fn request(sabotage: EngineFault, request: Request, live: Option<&Value>) -> Request {
    let version = live.map_or("", |live| metadata(live, "resourceVersion"));
    match (sabotage, request) {
        (EngineFault::UnboundDelete, Request::Delete(mut precondition)) => {
            version.clone_into(&mut precondition.resource_version);
            Request::Delete(precondition)
        }
        (EngineFault::UnboundDelete, Request::DeleteForRecreation(mut precondition)) => {
            version.clone_into(&mut precondition.resource_version);
            Request::DeleteForRecreation(precondition)
        }
        (EngineFault::DeletesShared, Request::Release { live, .. }) => Request::Delete(live),
        (
            EngineFault::DeletesKept,
            Request::Release {
                live: precondition, ..
            },
        ) if live.is_some_and(|live| is_kept([live])) => Request::Delete(precondition),
        (EngineFault::UnboundApply, Request::Apply(mut body)) => {
            if let Some(metadata) = body["metadata"].as_object_mut() {
                metadata.remove("resourceVersion");
                metadata.remove("uid");
            }
            Request::Apply(body)
        }
        (EngineFault::NeverReleases, Request::Release { .. }) => Request::Get,
        (EngineFault::KeepsControllers, Request::Apply(mut body)) => {
            for reference in body["metadata"]["ownerReferences"]
                .as_array_mut()
                .into_iter()
                .flatten()
            {
                reference["controller"] = true.into();
            }
            Request::Apply(body)
        }
        (_, request) => request,
    }
}

/// A phase object, as a broken engine would see it.
#[must_use]
pub fn phase_state(sabotage: EngineFault, mut state: PhaseState) -> PhaseState {
    if sabotage == EngineFault::BelievesSilence && state.report() == PhaseReport::Nothing {
        let available = json!({"type": "Available", "status": "True", "reason": "", "message": "",
            "observedGeneration": state.generation, "lastTransitionTime": "1970-01-01T00:00:00Z"});
        let available = serde_json::from_value(available);
        state.conditions.extend(available.ok());
    }
    state
}

/// An answer about a phase object, as a broken engine would interpret it.
#[must_use]
pub fn delegation_answer(sabotage: EngineFault, answer: DelegationAnswer) -> DelegationAnswer {
    match answer {
        DelegationAnswer::Object(state)
            if sabotage == EngineFault::ForgetsPhases && state.is_deleting =>
        {
            DelegationAnswer::Gone
        }
        DelegationAnswer::Object(state) => DelegationAnswer::Object(phase_state(sabotage, state)),
        answer => answer,
    }
}
