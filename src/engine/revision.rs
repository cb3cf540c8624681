//! A revision as the engine sees it: prepared phases of wanted objects, and its place in a chain.

use std::collections::{BTreeMap, BTreeSet};

use baton_apis::{
    CollisionProtection, ConditionMapping, LifecycleState, ObjectSetTemplatePhase,
    constants::{
        ANNOTATION_REVISION, LABEL_CACHE, LABEL_CACHE_VALUE, LABEL_INSTANCE, LABEL_MANAGED_BY,
        LABEL_MANAGED_BY_VALUE, LABEL_PACKAGE,
    },
};
use serde_json::Value;

use super::{
    Gvk, ObjectKey,
    delegated::Delegated,
    diff::FieldPath,
    mapping::is_condition_type,
    object::{Identity, map_mut, metadata, metadata_mut, owner_references, text},
};

/// A revision and everything about it that does not depend on live objects.
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
    /// How its objects are delivered.
    pub delivery: Delivery,
}

/// How the objects of a phase get to where they belong (contract 6.6 tells the differences).
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
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.lifecycle == LifecycleState::Paused
    }
}

/// Whether a kind lives in namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KindScope {
    /// Objects have a namespace.
    Namespaced,
    /// Objects have none.
    Cluster,
}

/// The kinds that the API server serves, among those a revision names.
pub type Kinds = BTreeMap<Gvk, KindScope>;

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
    #[must_use]
    pub fn own_objects(&self) -> &[Desired] {
        if self.delegated.is_some() {
            return &[];
        }
        &self.objects
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
}

impl Desired {
    /// The position that a violation names (contract section 3).
    #[must_use]
    pub fn position(&self, phase: &str) -> String {
        format!(
            "Phase \"{phase}\", {} {}/{}",
            self.key.kind, self.written_namespace, self.key.name
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

/// Prepares the phases of a revision: what to write (contract 2.5), and per object what is wrong
/// with its manifest. Phases come with the objects of their slices already appended.
///
/// # Guarantees
/// Nothing is dropped: an object that cannot be parsed is kept with a violation, so that it is
/// reported in its place and order.
#[must_use]
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
                    for (field, value) in [
                        ("apiVersion", gvk.version.as_str()),
                        ("kind", gvk.kind.as_str()),
                        ("metadata.name", metadata(&manifest, "name")),
                    ] {
                        if value.is_empty() {
                            violations.push(format!("Object must have a {field}."));
                        }
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
                    }
                })
                .collect(),
            name: phase.name,
            delegated: None,
        })
        .collect()
}

/// Fields of the metadata that a manifest of a delegated phase must not have (contract 6.6).
const FORBIDDEN: [&str; 6] = [
    "uid",
    "generation",
    "generateName",
    "finalizers",
    "ownerReferences",
    "resourceVersion",
];

fn forbidden(manifest: &Value) -> impl Iterator<Item = String> {
    let is_set = |field: &&str| match manifest.pointer("/metadata").and_then(|m| m.get(*field)) {
        None | Some(Value::Null) => false,
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Array(list)) => !list.is_empty(),
        Some(_) => true,
    };
    let found: Vec<_> = FORBIDDEN.into_iter().filter(is_set).collect();
    found
        .into_iter()
        .map(|field| format!("metadata.{field} must not be set."))
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
        // A user's own value stays (improvement 12).
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

/// Violations that concern the revision as a whole: found before anything else is looked at
/// (contract section 3, row *duplicate*). Phases may share a name: they are told apart by their
/// place, and revisions of Package Operator that do so have to go on working.
#[must_use]
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

/// What is wrong with the objects of a phase, given what the server serves: one text per fault,
/// in object order. A kind that is not served hides the other checks of its object.
#[must_use]
pub fn violations(revision: &Revision, phase: &Phase, kinds: &Kinds) -> Vec<String> {
    let mut found = Vec::new();
    for object in &phase.objects {
        let mut texts = Vec::new();
        match kinds.get(&object.gvk) {
            _ if !object.violations.is_empty() => texts.clone_from(&object.violations),
            None => texts.push(format!("{} not registered on the api server.", object.gvk)),
            Some(scope) => texts.extend(escape(revision, object, *scope)),
        }
        let position = object.position(&phase.name);
        found.extend(texts.into_iter().map(|text| format!("{position}: {text}")));
    }
    found
}

/// Whether an object is where its revision may write at all.
#[must_use]
pub fn is_within_reach(revision: &Revision, object: &Desired, scope: KindScope) -> bool {
    escape(revision, object, scope).is_none()
}

/// Why an object would leave the reach of its revision (contract section 3 and 6.6, improvement 17).
fn escape(revision: &Revision, object: &Desired, scope: KindScope) -> Option<String> {
    let own = &revision.identity.namespace;
    let is_namespaced = revision.identity.is_namespaced() && revision.delivery != Delivery::Remote;
    let text = match (is_namespaced, scope) {
        (true, KindScope::Cluster) if revision.delivery == Delivery::InProcess => {
            "Must be namespaced scoped when part of an non-cluster-scoped API."
        }
        (true, KindScope::Cluster) => "object must be namespace-scoped",
        (true, KindScope::Namespaced) if object.key.namespace != *own => {
            if revision.delivery == Delivery::InProcess {
                "Must stay within the same namespace."
            } else {
                let actual = &object.key.namespace;
                let text = format!("object must be in namespace \"{own}\", actual \"{actual}\"");
                return Some(text);
            }
        }
        (false, KindScope::Namespaced) if object.key.namespace.is_empty() => {
            "Object doesn't have a namespace and no default is provided."
        }
        _ => return None,
    };
    Some(text.to_owned())
}
