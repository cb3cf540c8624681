use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::{limits, schema};

/// A step of a revision.
///
/// The objects of a phase are written together. The next phase starts when all of them are written
/// and pass their probes.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectSetTemplatePhase {
    /// Name of the phase, unique within the revision. Conditions and messages refer to it.
    pub name: String,
    /// Class of the controller that runs the phase. Empty (the default): the controller of the
    /// revision itself. Otherwise an `ObjectSetPhase` object is created, and the controller of the
    /// class runs the phase. `default` is the built-in class; `cluster.<name>` delivers the phase
    /// into the Cluster of that name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 63), regex(pattern = schema::LABEL_VALUE))]
    pub class: String,
    /// Objects of the phase. They are written in parallel. Phases are torn down in reverse order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<ObjectSetObject>,
    /// Names of slices whose objects follow the inline objects. A slice is an `ObjectSlice` in the
    /// same namespace, or a `ClusterObjectSlice` for a cluster-scoped revision. Slices keep a large
    /// revision below the size limit of a single object.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(length(max = 253), regex(pattern = schema::SUBDOMAIN)))]
    pub slices: Vec<String>,
}

/// An object, with the rules for its delivery.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectSetObject {
    /// The whole manifest: `apiVersion`, `kind`, `metadata.name` and all other fields of the kind.
    /// An empty `metadata.namespace` means the namespace of the revision. Owner references are not
    /// allowed. A namespaced revision may only contain objects of its own namespace.
    #[schemars(schema_with = "schema::manifest")]
    pub object: Value,
    /// Rule for an object that exists already and belongs neither to this revision nor to one in
    /// `previous`. `Prevent` (the default): the object is not changed, and a collision is reported.
    /// `IfNoController`: the object is taken over if it has no controller. `None`: the object is
    /// taken over from any controller, except from a newer revision.
    #[serde(default)]
    pub collision_protection: CollisionProtection,
    /// Conditions of the live object that are copied to the status of the revision.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::MAPPINGS))]
    pub condition_mappings: Vec<ConditionMapping>,
    /// Dotted paths, such as `.spec.replicas`, of fields that are written only when the object is
    /// created. Afterwards other clients may change them, for example an autoscaler: the fields are
    /// not reset, and a change is not drift. Paths consist of map keys, without list indexes; a dot
    /// in a key is written as `\.`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = limits::CREATE_ONLY_FIELDS),
        inner(length(max = limits::PATH), regex(pattern = schema::FIELD_PATH))
    )]
    pub create_only_fields: Vec<String>,
}

/// The rule for objects that belong to others.
///
/// Deserialization is lenient: the definitions of Package Operator admit any text, and such objects
/// have to stay readable. As in Package Operator, an unknown text means the safest rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub enum CollisionProtection {
    /// Only objects of this revision or of one in `previous` are taken over.
    #[default]
    Prevent,
    /// Objects without a controller are taken over as well.
    IfNoController,
    /// All objects are taken over, except those that a newer revision has marked.
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
    /// Type of the condition in `.status.conditions` of the object.
    #[schemars(length(max = limits::CONDITION_TYPE))]
    pub source_type: String,
    /// Type of the copy in the status of the revision: a lower-case DNS prefix, a slash and a name,
    /// such as `example.com/Ready`. The prefix distinguishes it from the conditions of the revision
    /// itself.
    #[schemars(length(max = limits::CONDITION_TYPE), regex(pattern = schema::MAPPED_CONDITION_TYPE))]
    pub destination_type: String,
}
