use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::{limits, schema};

/// One step of a revision.
///
/// The objects of a phase are written together. The next phase starts only when all of them have
/// been written and pass their probes.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectSetTemplatePhase {
    /// Name of the phase, unique within its revision. Conditions and messages refer to it.
    pub name: String,
    /// Which controller runs the phase. Empty: the controller of the revision itself. Otherwise the
    /// phase is handed to the controller of that class as an `ObjectSetPhase` object; `default` is
    /// the built-in one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 63), regex(pattern = schema::LABEL_VALUE))]
    pub class: String,
    /// Objects of the phase. They are written side by side and torn down in the reverse order of
    /// the phases.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<ObjectSetObject>,
    /// Names of slices whose objects follow the inline ones. A slice is an `ObjectSlice` in the same
    /// namespace (a `ClusterObjectSlice` for a cluster-scoped revision) and keeps a large revision
    /// below the size limit of a single object.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(length(max = 253), regex(pattern = schema::SUBDOMAIN)))]
    pub slices: Vec<String>,
}

/// An object and how it is to be treated.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectSetObject {
    /// The whole manifest: `apiVersion`, `kind`, `metadata.name` and whatever the kind takes. An
    /// empty `metadata.namespace` means the namespace of the revision. Owner references are not
    /// allowed, and a namespaced revision may only hold objects of its own namespace.
    #[schemars(schema_with = "schema::manifest")]
    pub object: Value,
    /// What to do when the object exists already and belongs to neither this revision nor one
    /// listed in `previous`. `Prevent` refuses to touch it. `IfNoController` takes it over when it
    /// has no controller. `None` takes it over from any controller, except from a newer revision.
    #[serde(default)]
    pub collision_protection: CollisionProtection,
    /// Conditions of the live object to copy into the status of the revision.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::MAPPINGS))]
    pub condition_mappings: Vec<ConditionMapping>,
    /// Dotted paths, such as `.spec.replicas`, whose values are sent when the object is created and
    /// then left to others, for example to an autoscaler. They are neither reset nor regarded as
    /// drift. Map keys only, no list indexes; a dot in a key is written `\.`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = limits::CREATE_ONLY_FIELDS),
        inner(length(max = limits::PATH), regex(pattern = schema::FIELD_PATH))
    )]
    pub create_only_fields: Vec<String>,
}

/// What may be taken over.
///
/// Reading is lenient: the definitions of Package Operator admit any text, and such objects have to
/// stay readable. An unknown text is the safest one, as it is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub enum CollisionProtection {
    /// Only objects of this revision or of a listed previous one.
    #[default]
    Prevent,
    /// Additionally objects without a controller.
    IfNoController,
    /// Everything that no newer revision has marked.
    None,
}

impl<'de> Deserialize<'de> for CollisionProtection {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match String::deserialize(deserializer)?.as_str() {
            "IfNoController" => Self::IfNoController,
            "None" => Self::None,
            _ => Self::Prevent,
        })
    }
}

/// Copies a condition of an object to the revision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConditionMapping {
    /// Type of the condition in the object's `.status.conditions`.
    #[schemars(length(max = limits::CONDITION_TYPE))]
    pub source_type: String,
    /// Type that the copy gets in the revision's status: a lower-case DNS prefix, a slash and a
    /// name, as in `example.com/Ready`. The prefix keeps it apart from the revision's own conditions.
    #[schemars(length(max = limits::CONDITION_TYPE), regex(pattern = schema::MAPPED_CONDITION_TYPE))]
    pub destination_type: String,
}
