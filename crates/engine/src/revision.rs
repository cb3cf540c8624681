//! A revision as the engine sees it: prepared phases of wanted objects, and its place in a chain.
//!
//! What clients can observe of it: `docs/contract/revisions.md`.

mod kinds;
mod manifest;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use baton_apis::{
    CollisionProtection, ConditionMapping, ControlledObjectReference, LifecycleState,
    ObjectSetTemplatePhase, WaitingForObject,
    constants::{
        ANNOTATION_REVISION, LABEL_CACHE, LABEL_CACHE_VALUE, LABEL_INSTANCE, LABEL_MANAGED_BY,
        LABEL_MANAGED_BY_VALUE, LABEL_PACKAGE,
    },
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Gvk, ObjectKey,
    delegated::Delegated,
    diff::FieldPath,
    mapping::is_condition_type,
    names::{is_label, quoted, segment_problem, shown},
    object::{Identity, map_mut, metadata, metadata_mut, owner_references, text},
};

use manifest::{forbidden, malformed};

pub use kinds::{KindScope, KindState, Kinds};

/// A revision and everything about it that does not depend on live objects.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Clone, Debug, Default)]
pub struct Revision {
    /// Who it is.
    pub identity: Identity,
    /// Its number in the chain.
    pub number: i64,
    /// `metadata.generation`, the `observedGeneration` of all conditions.
    pub generation: i64,
    /// Wanted life cycle state.
    pub lifecycle: LifecycleState,
    /// Seconds that `Available` has to last before `Succeeded`.
    pub success_delay_seconds: i32,
    /// Values of the labels of package origin, copied to every object.
    pub package: Option<String>,
    /// As `package`.
    pub instance: Option<String>,
    /// Collision protection is off for the whole manager.
    pub force_adoption: bool,
    /// Objects that the server does not let go are left behind.
    pub is_abandoned: bool,
    /// How its objects are delivered.
    pub delivery: Delivery,
    /// Its objects are written with the rights of somebody else, which may lack.
    pub is_impersonated: bool,
    /// Its last pass was stopped by a refusal or a collision, and this one probably is as well: no write goes without
    /// its dry run.
    pub was_refused: bool,
    /// Since when objects have failed their probes, by its last report.
    pub failing_since: Option<Timestamp>,
    /// It has written nothing yet, and is to check the objects of all phases before it does.
    pub checks_all_first: bool,
    /// The objects of all of its delegated phases are made at once, and not each when the phases before it have passed.
    pub delegates_ahead: bool,
    /// Where its objects may be.
    pub reach: Reach,
    /// Who gets objects of it back when it is torn down, the first that wants them; nobody, unless it is deleted and
    /// says so.
    pub heirs: Vec<Heir>,
    /// Of the objects that are to be recreated those that it controls by its last report, which older revisions go by.
    pub reported: Vec<ControlledObjectReference>,
    /// The Jobs that an older revision of its chain has run to its end in the same form.
    pub ran: BTreeSet<ObjectKey>,
    /// The objects that newer revisions of its chain want where its own are. Only a teardown asks.
    pub newer_wants: BTreeSet<ObjectKey>,
}

/// An older revision, or one of its phase objects, that gets objects back from a deleted one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heir {
    /// Its identity as the owner of its objects.
    pub identity: Identity,
    /// The number of its revision.
    pub number: i64,
    /// The objects that it wants, in the cluster of the deleted ones.
    pub wants: BTreeSet<ObjectKey>,
}

/// Where the objects of a namespaced revision may be. One without a namespace is an administrator's, and its objects
/// may be anywhere.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Reach {
    /// In its own namespace and in these.
    Namespaces(BTreeSet<String>),
    /// Anywhere.
    Cluster,
}

impl Default for Reach {
    fn default() -> Self {
        Self::Namespaces(BTreeSet::new())
    }
}

/// How the objects of a phase get to where they belong. Phases that are not run in-process allow fewer
/// fields in manifests, and default no namespace.
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
    /// Whether nothing may be written.
    pub fn is_paused(&self) -> bool {
        self.lifecycle == LifecycleState::Paused
    }
}

/// A phase with its objects prepared for writing.
#[derive(Clone, Debug, Default)]
pub struct Phase {
    /// Name.
    pub name: String,
    /// Objects in the order of the spec, inline ones first, then those of slices.
    pub objects: Vec<Desired>,
    /// Set when another controller runs the phase.
    pub delegated: Option<Delegated>,
}

impl Phase {
    /// The objects that the controller of the revision looks after itself: none of a delegated phase.
    pub fn own_objects(&self) -> &[Desired] {
        if self.delegated.is_some() {
            return &[];
        }
        &self.objects
    }

    /// The entry of `status.waitingFor` for an object.
    pub(super) fn waiting(&self, object: usize, reason: &str, message: &str) -> WaitingForObject {
        let key = &self.objects[object].key;
        WaitingForObject {
            phase: self.name.clone(),
            group: key.group.clone(),
            kind: key.kind.clone(),
            name: key.name.clone(),
            namespace: (!key.namespace.is_empty()).then(|| key.namespace.clone()),
            reason: reason.to_owned(),
            message: message.to_owned(),
        }
    }
}

/// An object that a revision wants.
#[derive(Clone, Debug)]
pub struct Desired {
    /// Kind and version of the manifest.
    pub gvk: Gvk,
    /// Identity, with the revision's namespace where the manifest names none.
    pub key: ObjectKey,
    /// Namespace as the manifest has it, for messages.
    pub written_namespace: String,
    /// What may be taken over.
    pub protection: CollisionProtection,
    /// Conditions to copy to the revision.
    pub mappings: Vec<ConditionMapping>,
    /// Paths that belong to others once the object exists.
    pub create_only: Vec<FieldPath>,
    /// What to apply, without owner references.
    pub manifest: Value,
    /// What is wrong with the manifest whatever the cluster says.
    pub violations: Vec<String>,
    /// Why nothing of the live object may be told, if so; that stops a roll-out, but no teardown.
    pub hidden: Option<String>,
    /// What the object needs to become of use, and what does not exist. It is written all the same, and not available
    /// until it is bound.
    pub lacks: Option<String>,
    /// Why it fails its probes, if it does: what its pods say.
    pub reason: Option<String>,
}

impl Desired {
    /// The position that a violation names.
    pub fn position(&self, phase: &str) -> String {
        format!(
            "Phase \"{phase}\", {} {}/{}",
            shown(&self.key.kind),
            shown(&self.written_namespace),
            shown(&self.key.name)
        )
    }
}

/// Fields that an object read back from a server carries and that no apply may bring along.
const SERVER_SET: [&str; 8] = [
    "managedFields",
    "resourceVersion",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "selfLink",
];

/// Prepares the phases of a revision: what to write, and per object what is wrong
/// with its manifest. Phases come with the objects of their slices already appended.
///
/// # Guarantees
/// Nothing is dropped: an object that cannot be parsed stays in the list with a violation, so that it is
/// reported in its place and order.
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
                    // The server of the manifest's kind may refuse more names, and says so in a dry run.
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
                    let create_only = entry
                        .create_only_fields
                        .iter()
                        .filter_map(|path| match FieldPath::parse(path) {
                            Ok(path) => Some(path),
                            Err(error) => {
                                violations.push(format!("createOnlyFields: {error}"));
                                None
                            }
                        })
                        .collect();
                    for mapping in &entry.condition_mappings {
                        // The schema's pattern is not anchored, as upstream's. One condition of
                        // such a type would make every write of the status fail.
                        if !is_condition_type(&mapping.destination_type) {
                            violations.push(format!(
                                "conditionMappings: \"{}\" cannot be the type of a condition.",
                                mapping.destination_type
                            ));
                        }
                    }
                    let written_namespace = metadata(&manifest, "namespace").to_owned();
                    complete(revision, &mut manifest);
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

/// Adds what every managed object carries and removes what only a server may set.
fn complete(revision: &Revision, manifest: &mut Value) {
    if let Some(manifest) = manifest.as_object_mut() {
        manifest.remove("status");
    }
    let fields = metadata_mut(manifest);
    for field in SERVER_SET {
        fields.remove(field);
    }
    fields.remove("ownerReferences");
    if revision.delivery == Delivery::InProcess
        && revision.identity.is_namespaced()
        && fields
            .get("namespace")
            .and_then(Value::as_str)
            .is_none_or(str::is_empty)
    {
        fields.insert(
            "namespace".to_owned(),
            revision.identity.namespace.clone().into(),
        );
    }
    let mut metadata = Value::Object(std::mem::take(fields));
    let labels = map_mut(&mut metadata, "labels");
    labels.insert(LABEL_CACHE.to_owned(), LABEL_CACHE_VALUE.into());
    if revision.delivery != Delivery::InProcess {
        // A user's own value stays.
        labels
            .entry(LABEL_MANAGED_BY)
            .or_insert_with(|| LABEL_MANAGED_BY_VALUE.into());
    }
    for (label, value) in [
        (LABEL_PACKAGE, &revision.package),
        (LABEL_INSTANCE, &revision.instance),
    ] {
        if let Some(value) = value {
            labels.insert(label.to_owned(), value.clone().into());
        }
    }
    map_mut(&mut metadata, "annotations").insert(
        ANNOTATION_REVISION.to_owned(),
        revision.number.to_string().into(),
    );
    manifest["metadata"] = metadata;
}

/// Violations that concern the revision as a whole: duplicate objects, found before any other
/// check. Phases may share a name, as in revisions of Package Operator: their place identifies them.
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

/// What is wrong with the objects of a phase, given what the server serves: one text per violation,
/// in object order. A kind that is not served hides the other checks of its object.
pub fn violations(revision: &Revision, phase: &Phase, kinds: &Kinds) -> Vec<String> {
    let objects = phase.objects.iter();
    let found = objects.flat_map(|object| {
        let position = object.position(&phase.name);
        let texts = violations_of(revision, object, kinds).into_iter();
        texts.map(move |text| format!("{position}: {text}"))
    });
    found.collect()
}

/// What is wrong with an object, as [`violations`] without its position.
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
        _ => vec![format!("{} not registered on the api server.", object.gvk)],
    }
}

/// Whether an object can have been written by its revision. What may be reached in another cluster can have become less
/// since.
pub fn may_be_written(revision: &Revision, object: &Desired, scope: KindScope) -> bool {
    match revision.delivery {
        Delivery::Remote => has_place(object, scope),
        Delivery::InProcess | Delivery::Delegated => escape(revision, object, scope).is_none(),
    }
}

/// Whether an object names a namespace that can exist, if its kind needs one.
fn has_place(object: &Desired, scope: KindScope) -> bool {
    scope == KindScope::Cluster || is_label(&object.key.namespace)
}

/// Why an object would leave the reach of its revision, or of any server.
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
