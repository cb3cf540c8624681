//! A revision from the view of the engine: prepared phases of wanted objects, and its place in a
//! chain.
//!
//! Observable behaviour: `docs/contract/revisions.md`.

mod body;
mod kinds;
mod manifest;
pub mod set_by_controllers;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use baton_apis::{
    CollisionProtection, ConditionMapping, ControlledObjectReference, EndedObject, LifecycleState,
    ObjectSetTemplatePhase, WaitingForObject, conditions::Reason,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Gvk, ObjectKey,
    delegated::Delegated,
    diff::FieldPath,
    diff::is_secret,
    mapping::is_condition_type,
    names::{for_message, is_label, quoted, segment_problem},
    object::{Identity, metadata, owner_references, text},
};

use body::complete;
use manifest::{forbidden, malformed, owners_annotation};
use set_by_controllers::leave_to_controllers;

pub(crate) use kinds::KindProblem;
pub use kinds::{KindScope, KindState, Kinds};

/// A revision with all its data that does not depend on live objects.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Clone, Debug, Default)]
pub struct Revision {
    /// Identity of the revision.
    pub identity: Identity,
    /// Revision number.
    pub number: i64,
    /// Time of its creation, if it is known.
    pub created: Option<Timestamp>,
    /// `metadata.generation`, the `observedGeneration` of all conditions.
    pub generation: i64,
    /// Wanted lifecycle state.
    pub lifecycle: LifecycleState,
    /// Seconds that `Available` has to last before `Succeeded`.
    pub success_delay_seconds: i32,
    /// Value of the package label, which is copied to every object.
    pub package: Option<String>,
    /// Value of the instance label, which is copied to every object.
    pub instance: Option<String>,
    /// True if collision protection is off for the whole manager.
    pub force_adoption: bool,
    /// UIDs of the hubs that a user has declared lost, and of owners of such hubs. Objects in other
    /// clusters are taken over from them.
    pub lost_hubs: BTreeSet<String>,
    /// True if objects that the server refuses to release are left behind.
    pub is_abandoned: bool,
    /// Way of delivery of the objects.
    pub delivery: Delivery,
    /// True if objects are written as another account, which may lack rights.
    pub is_impersonated: bool,
    /// True if a refusal or a collision stopped the last pass. This is likely to be repeated, so all
    /// writes need a dry run.
    pub was_refused: bool,
    /// Time since which objects have failed their probes, by the last report.
    pub failing_since: Option<Timestamp>,
    /// True if the objects of all phases are to be checked before the first write.
    pub checks_all_first: bool,
    /// True if the objects of all delegated phases are created at once, instead of each after the
    /// phases before it have passed.
    pub delegates_ahead: bool,
    /// Places where its objects may be.
    pub reach: Reach,
    /// Candidates to get objects back when the revision is torn down; the first one that wants an
    /// object gets it. Empty unless the revision is being deleted and has the annotation for this.
    pub heirs: Vec<Heir>,
    /// The objects that are deleted and created again for a change, and that the revision controls
    /// according to its last report. Older revisions do not create an object that was reported.
    pub reported: Vec<ControlledObjectReference>,
    /// The Jobs that an older revision of the chain has run to their end with the same content.
    pub ran: BTreeSet<ObjectKey>,
    /// The objects that have run to their end with the same content, in this revision or an older
    /// one. They are not created again.
    pub ended: BTreeMap<ObjectKey, EndedObject>,
    /// The objects that are not repaired for now, because others change them again at once.
    pub disputed: BTreeSet<ObjectKey>,
    /// The objects that newer revisions of the chain want in the same cluster; only for a teardown.
    pub newer_wants: BTreeSet<ObjectKey>,
    /// The objects that the revision may have written, by its last report; only for a teardown.
    /// `None` if any object may be.
    pub written: Option<BTreeSet<ControlledObjectReference>>,
}

/// An older revision, or one of its phase objects, that gets objects back from a deleted revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heir {
    /// Identity of the owner of the heir's objects.
    pub identity: Identity,
    /// Revision number of the heir.
    pub number: i64,
    /// The objects that the heir wants, in the cluster of the deleted revision's objects.
    pub wants: BTreeSet<ObjectKey>,
}

/// The places where the objects of a namespaced revision may be. A revision without a namespace is
/// an administrator's, and its objects may be anywhere.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Reach {
    /// In the revision's own namespace and in these.
    Namespaces(BTreeSet<String>),
    /// Anywhere.
    Cluster,
}

impl Default for Reach {
    fn default() -> Self {
        Self::Namespaces(BTreeSet::new())
    }
}

/// The way of delivery of a phase's objects. Phases that are not run in-process allow fewer fields
/// in manifests, and have no default namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delivery {
    /// By the controller of the revision, which owns them.
    #[default]
    InProcess,
    /// By the controller of a class in the same cluster; the phase object owns them.
    Delegated,
    /// By the controller of a class into another cluster.
    Remote,
}

impl Revision {
    /// True if no write is allowed.
    pub fn is_paused(&self) -> bool {
        self.lifecycle == LifecycleState::Paused
    }
}

/// A phase with its objects prepared for writing.
#[derive(Clone, Debug, Default)]
pub struct Phase {
    /// Name of the phase.
    pub name: String,
    /// Objects in the order of the spec, inline ones first, then those of slices.
    pub objects: Vec<Desired>,
    /// Present if another controller runs the phase.
    pub delegated: Option<Delegated>,
}

impl Phase {
    /// The objects that the controller of the revision delivers itself: none of a delegated phase.
    pub fn own_objects(&self) -> &[Desired] {
        if self.delegated.is_some() {
            return &[];
        }
        &self.objects
    }

    /// The entry of `status.waitingFor` for an object.
    pub(super) fn waiting(&self, object: usize, reason: Reason, message: &str) -> WaitingForObject {
        let key = &self.objects[object].key;
        WaitingForObject {
            phase: self.name.clone(),
            group: key.group.clone(),
            kind: key.kind.clone(),
            name: key.name.clone(),
            namespace: (!key.namespace.is_empty()).then(|| key.namespace.clone()),
            reason: reason.to_string(),
            message: message.to_owned(),
            cause: None,
        }
    }
}

/// An object that a revision wants.
#[derive(Clone, Debug)]
pub struct Desired {
    /// Kind and version of the manifest.
    pub gvk: Gvk,
    /// Identity, with the revision's namespace if the manifest has none.
    pub key: ObjectKey,
    /// Namespace in the manifest, for messages.
    pub written_namespace: String,
    /// Protection of existing objects from being taken over.
    pub protection: CollisionProtection,
    /// Conditions that are copied to the revision.
    pub mappings: Vec<ConditionMapping>,
    /// Paths of fields that other clients may change once the object exists.
    pub create_only: Vec<FieldPath>,
    /// The body of an apply, without owner references.
    pub manifest: Value,
    /// Violations of the manifest that do not depend on the cluster.
    pub violations: Vec<String>,
    /// The reason why nothing of the live object may be reported, if any. It stops a roll-out, but
    /// no teardown.
    pub hidden: Option<String>,
    /// A missing object without which this object cannot become ready. This object is written
    /// nevertheless, and is not available until it is bound.
    pub lacks: Option<String>,
    /// The cause of failed probes, according to its pods.
    pub reason: Option<String>,
}

impl Desired {
    /// The position that a violation names.
    pub fn position(&self, phase: &str) -> String {
        format!(
            "Phase \"{phase}\", {} {}/{}",
            for_message(&self.key.kind),
            for_message(&self.written_namespace),
            for_message(&self.key.name)
        )
    }
}

/// Prepares the phases of a revision: the bodies to write, and the violations of each manifest. The
/// phases already include the objects of their slices.
///
/// # Guarantees
/// No object is dropped: an object that cannot be parsed stays in the list with a violation, so
/// that it is reported at its position.
pub fn prepare(revision: &Revision, phases: Vec<ObjectSetTemplatePhase>) -> Vec<Phase> {
    phases
        .into_iter()
        .map(|phase| Phase {
            objects: phase
                .objects
                .into_iter()
                .map(|entry| {
                    let mut violations = Vec::new();
                    let mut manifest = entry.object;
                    let gvk = Gvk::new(text(&manifest, "apiVersion"), text(&manifest, "kind"));
                    violations.extend(malformed(&manifest));
                    let is_well_formed = violations.is_empty();
                    for (field, value) in [
                        ("apiVersion", text(&manifest, "apiVersion")),
                        ("kind", gvk.kind.as_str()),
                        ("metadata.name", metadata(&manifest, "name")),
                    ] {
                        if value.is_empty() && is_well_formed {
                            violations.push(format!("Object must have a {field}."));
                        }
                    }
                    // A server may refuse further names for its kind; a dry run reports this.
                    let name = metadata(&manifest, "name");
                    if let Some(problem) = segment_problem(name)
                        && !name.is_empty()
                    {
                        let name = quoted(name);
                        violations.push(format!("metadata.name: Invalid value: {name}: {problem}"));
                    }
                    if revision.delivery == Delivery::InProcess {
                        if !owner_references(&manifest).is_empty() {
                            violations.push("Object must not have a owner reference.".to_owned());
                        }
                    } else {
                        violations.extend(forbidden(&manifest));
                    }
                    violations.extend(owners_annotation(&manifest));
                    let mut create_only: Vec<_> = entry
                        .create_only_fields
                        .iter()
                        .filter_map(|path| match FieldPath::parse(path) {
                            Ok(path) if is_secret(&manifest) => Some(path.stored()),
                            Ok(path) => Some(path),
                            Err(error) => {
                                violations.push(format!("createOnlyFields: {error}"));
                                None
                            }
                        })
                        .collect();
                    for mapping in &entry.condition_mappings {
                        // The schema's pattern is not anchored, as upstream. One condition of an
                        // invalid type would make every write of the status fail.
                        if !is_condition_type(&mapping.destination_type) {
                            violations.push(format!(
                                "conditionMappings: \"{}\" cannot be the type of a condition.",
                                mapping.destination_type
                            ));
                        }
                    }
                    let written_namespace = metadata(&manifest, "namespace").to_owned();
                    complete(revision, &mut manifest);
                    for path in leave_to_controllers(&gvk, &mut manifest) {
                        if !create_only.contains(&path) {
                            create_only.push(path);
                        }
                    }
                    Desired {
                        key: ObjectKey {
                            group: gvk.group.clone(),
                            kind: gvk.kind.clone(),
                            namespace: metadata(&manifest, "namespace").to_owned(),
                            name: metadata(&manifest, "name").to_owned(),
                        },
                        gvk,
                        written_namespace,
                        protection: entry.collision_protection,
                        mappings: entry.condition_mappings,
                        create_only,
                        manifest,
                        violations,
                        hidden: None,
                        lacks: None,
                        reason: None,
                    }
                })
                .collect(),
            name: phase.name,
            delegated: None,
        })
        .collect()
}

/// Violations of the revision as a whole, which precede any other check: duplicate objects. Phases
/// may share a name, as in revisions of Package Operator: their position identifies them.
pub fn duplicates(phases: &[Phase]) -> Vec<String> {
    let mut violations = Vec::new();
    let mut objects = BTreeSet::new();
    let mut delegates = BTreeSet::new();
    for phase in phases {
        if let Some(delegated) = &phase.delegated
            && !delegates.insert(&delegated.name)
        {
            violations.push(format!(
                "Phase \"{}\", {} {}: Duplicate Object",
                phase.name, delegated.kind, delegated.name
            ));
        }
        for object in &phase.objects {
            if !objects.insert(&object.key) {
                let group = if object.key.group.is_empty() {
                    String::new()
                } else {
                    format!(".{}", object.key.group)
                };
                violations.push(format!(
                    "Phase \"{}\", {}{group} {}/{}: Duplicate Object",
                    phase.name, object.key.kind, object.written_namespace, object.key.name
                ));
            }
        }
    }
    violations
}

/// Violations of the objects of a phase on this server, one text each, in the order of objects. A
/// kind that is not served hides the other violations of its object.
pub fn violations(revision: &Revision, phase: &Phase, kinds: &Kinds) -> Vec<String> {
    let objects = phase.objects.iter();
    let found = objects.flat_map(|object| {
        let position = object.position(&phase.name);
        let texts = violations_of(revision, object, kinds).into_iter();
        texts.map(move |text| format!("{position}: {text}"))
    });
    found.collect()
}

/// Violations of an object, as in [`violations`] but without its position.
pub(crate) fn violations_of(revision: &Revision, object: &Desired, kinds: &Kinds) -> Vec<String> {
    match kinds.get(&object.gvk) {
        _ if !object.violations.is_empty() => object.violations.clone(),
        Some(KindState::Unmanageable) => vec![format!(
            "{} cannot be listed and watched, so its objects cannot be managed.",
            object.gvk
        )],
        Some(state @ KindState::Served { scope, .. }) if state.is_served_as_named() => {
            let escape = escape(revision, object, *scope).into_iter();
            escape.chain(object.hidden.clone()).collect()
        }
        // Reported as unknown, and not as a violation.
        Some(KindState::Away(_)) => Vec::new(),
        _ => vec![kinds::unserved(&object.gvk)],
    }
}

/// True if the revision can have written the object. In another cluster, the reach of the revision
/// may have been larger before.
pub fn may_be_written(revision: &Revision, object: &Desired, scope: KindScope) -> bool {
    match revision.delivery {
        Delivery::Remote => has_place(object, scope),
        Delivery::InProcess | Delivery::Delegated => escape(revision, object, scope).is_none(),
    }
}

/// True if an object has a namespace that can exist, if its kind needs one.
fn has_place(object: &Desired, scope: KindScope) -> bool {
    scope == KindScope::Cluster || is_label(&object.key.namespace)
}

/// The reason why an object would be outside of its revision's reach, or of any server.
fn escape(revision: &Revision, object: &Desired, scope: KindScope) -> Option<String> {
    let (own, actual) = (&revision.identity.namespace, &object.key.namespace);
    let reach = match &revision.reach {
        Reach::Namespaces(others) if revision.identity.is_namespaced() => Some(others),
        Reach::Namespaces(_) | Reach::Cluster => None,
    };
    let is_in_process = revision.delivery == Delivery::InProcess;
    let text = match (reach, scope) {
        (Some(_), KindScope::Cluster) if is_in_process => {
            "Must be namespaced scoped when part of an non-cluster-scoped API."
        }
        (Some(_), KindScope::Cluster) => "object must be namespace-scoped",
        (Some(others), KindScope::Namespaced) => {
            if actual == own || others.contains(actual) {
                return None;
            }
            if !is_in_process {
                let allowed: BTreeSet<_> = others.iter().chain([own]).collect();
                let allowed: Vec<_> = allowed.iter().map(|name| format!("\"{name}\"")).collect();
                let allowed = allowed.join(" or ");
                let text = format!("object must be in namespace {allowed}, actual \"{actual}\"");
                return Some(text);
            }
            "Must stay within the same namespace."
        }
        (None, KindScope::Namespaced) if actual.is_empty() => {
            "Object doesn't have a namespace and no default is provided."
        }
        (None, KindScope::Namespaced) if !is_label(actual) => {
            let namespace = quoted(actual);
            return Some(format!(
                "metadata.namespace: Invalid value: {namespace}: no namespace can have this name"
            ));
        }
        (None, _) => return None,
    };
    Some(text.to_owned())
}
