//! The phase objects of a revision's delegated phases: their manifests, and the requests about
//! them.

use baton_apis::{
    LifecycleState, ObjectSetProbe, ObjectSetTemplatePhase,
    constants::{
        ANNOTATION_LAST_APPLIED, ANNOTATION_PHASE_CLASS, API_VERSION, CLASS_DEFAULT,
        FINALIZER_CACHED, LABEL_PHASE_CLASS,
    },
};
use baton_engine::delegated::{
    Delegated, Delegation, DelegationAnswer, PhaseState, name_to_make, names,
};
use baton_records::{
    api::{Api, ApiError},
    key::OwnKind as _,
    phase::{PhaseKey, PhaseRecord, Phases},
    revision::{Inherited, RevisionRecord},
};
use serde_json::{Value, json};

/// The phase objects of a revision.
pub(crate) struct PhaseObjects<'a> {
    pub set: &'a RevisionRecord,
    pub phases: &'a Phases,
    pub api: &'a Api,
    /// The name of the controller of the revision.
    pub writer: &'static str,
}

impl PhaseObjects<'_> {
    /// Sends the request for a decision about a phase object.
    pub(crate) async fn carry_out(
        &self,
        delegated: &Delegated,
        delegation: Delegation,
    ) -> DelegationAnswer {
        let key = PhaseKey::of(&self.set.key, &delegated.name);
        let cached = self.phases.get(&key);
        let answer = match (delegation, cached) {
            (Delegation::Get, _) => self.api.get(&key).await,
            (Delegation::Create(manifest), _) => self.api.create(&key, &manifest).await.map(Some),
            (Delegation::Pause(paused), Some(cached)) => {
                self.api.pause_phase(&cached, paused).await.map(Some)
            }
            // The watch reports the end of the deletion.
            (
                Delegation::Delete {
                    uid,
                    resource_version,
                },
                Some(cached),
            ) => {
                let deleted = self.api.delete_phase(&key, &uid, resource_version);
                deleted.await.map(|()| {
                    let mut going = PhaseRecord::clone(&cached);
                    going.deleting = true;
                    Some(going)
                })
            }
            (Delegation::Pause(_) | Delegation::Delete { .. }, None) => {
                return DelegationAnswer::Changed;
            }
        };
        match answer {
            Ok(Some(phase)) => {
                let state = state(self.set, &phase);
                if !phase.deleting {
                    self.phases.created(phase, self.writer);
                }
                DelegationAnswer::Object(state)
            }
            Ok(None) => DelegationAnswer::Gone,
            Err(ApiError::Changed { .. }) => DelegationAnswer::Changed,
            Err(error) if error.is_repeated() => DelegationAnswer::Refused(error.to_string()),
            Err(error) => match error.refusal() {
                Some(message) => DelegationAnswer::Refused(message),
                None => DelegationAnswer::Failed(error.to_string()),
            },
        }
    }

    /// The phase object that the revision has made for a phase.
    fn made(&self, phase: &ObjectSetTemplatePhase) -> Option<PhaseKey> {
        let set = self.set;
        let names = names(&set.key.name, &phase.name);
        let mut keys = names.iter().map(|name| PhaseKey::of(&set.key, name));
        keys.find(|key| {
            let phase = self.phases.get(key);
            phase.is_some_and(|phase| phase.controller.as_ref() == Some(&set.uid))
        })
    }

    /// The place of the phase object of a phase; `None` for a phase without class.
    pub(crate) fn place(&self, phase: &ObjectSetTemplatePhase) -> Option<Place> {
        if phase.class.is_empty() {
            return None;
        }
        let set = self.set;
        let cached = |key: &PhaseKey| self.phases.get(key);
        let to_make = || {
            let names = names(&set.key.name, &phase.name);
            let is_free = cached(&PhaseKey::of(&set.key, &names[0])).is_none();
            PhaseKey::of(&set.key, name_to_make(&names, is_free))
        };
        // An existing phase object is used even if the preferred name becomes free.
        let key = self.made(phase).unwrap_or_else(to_make);
        let state = cached(&key).map(|phase| state(set, &phase));
        Some(Place { key, state })
    }

    /// The phase object of a phase whose slices are inlined. `probes` are only for one that does not
    /// exist.
    pub(crate) fn delegated(
        &self,
        phase: &ObjectSetTemplatePhase,
        place: Place,
        probes: &[ObjectSetProbe],
        account: Option<&str>,
    ) -> Delegated {
        let Place { key, state } = place;
        // The manifest is as large as the phase, and not needed once the object exists.
        let manifest = match state {
            None => manifest(self.set, &key, phase, (probes, account)),
            Some(_) => Value::Null,
        };
        Delegated {
            kind: key.kind.kind(),
            namespace: key.namespace.to_string(),
            name: key.name.to_string(),
            class: phase.class.clone(),
            manifest,
            state,
        }
    }
}

/// The place of a phase object, and its state. Both are read once in a pass: the object may
/// disappear at any time, and what depends on its absence has to agree.
pub(crate) struct Place {
    key: PhaseKey,
    state: Option<PhaseState>,
}

impl Place {
    /// True if the phase object exists.
    pub(crate) fn exists(&self) -> bool {
        self.state.is_some()
    }
}

fn manifest(
    record: &RevisionRecord,
    key: &PhaseKey,
    phase: &ObjectSetTemplatePhase,
    (probes, account): (&[ObjectSetProbe], Option<&str>),
) -> Value {
    let Inherited {
        mut labels,
        mut annotations,
    } = record.inherited.as_deref().cloned().unwrap_or_default();
    labels.insert(LABEL_PHASE_CLASS.to_owned(), phase.class.clone());
    // The annotation contains the whole revision, and nothing about the phase.
    annotations.remove(ANNOTATION_LAST_APPLIED);
    annotations.remove(ANNOTATION_PHASE_CLASS);
    // The controller of the class `default` is this process: the annotation and the finalizer in
    // the manifest save it a write. Controllers of other classes add their own; if there is no such
    // controller, nothing would ever remove our finalizer.
    let is_ours = phase.class == CLASS_DEFAULT;
    if is_ours {
        annotations.insert(ANNOTATION_PHASE_CLASS.to_owned(), phase.class.clone());
    }
    let mut metadata = json!({
        "name": &*key.name,
        "labels": labels,
        "annotations": annotations,
        "ownerReferences": [record.owner_reference(true)],
    });
    if is_ours {
        metadata["finalizers"] = json!([FINALIZER_CACHED]);
    }
    if !key.namespace.is_empty() {
        metadata["namespace"] = (*key.namespace).into();
    }
    let mut spec = json!({
        "revision": record.number.unwrap_or(0),
        "objects": phase.objects,
    });
    if record.lifecycle == LifecycleState::Paused {
        spec["paused"] = true.into();
    }
    if !record.previous.is_empty() {
        let names = record
            .previous
            .iter()
            .map(|name| json!({ "name": &**name }));
        spec["previous"] = names.collect();
    }
    if let Some(account) = account {
        spec["serviceAccountName"] = account.into();
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

/// The state of a phase object, as its revision observes it.
fn state(set: &RevisionRecord, phase: &PhaseRecord) -> PhaseState {
    let status = phase.status().unwrap_or_default();
    PhaseState {
        uid: phase.uid.to_string(),
        resource_version: phase.resource_version,
        generation: phase.generation,
        is_ours: phase.controller.as_ref() == Some(&set.uid),
        is_deleting: phase.deleting,
        paused: phase.is_paused().unwrap_or(false),
        conditions: status.conditions,
        controller_of: status.controller_of,
        ended: status.ended,
    }
}
