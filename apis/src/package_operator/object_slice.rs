use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::{ObjectSetObject, schema};

/// The content of a slice. It is at the top level of the object: there is neither spec nor status.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, CustomResource, KubeSchema)]
#[kube(
    group = "package-operator.run",
    version = "v1alpha1",
    kind = "ObjectSlice",
    doc = "A part of a phase's objects, kept apart so that a large ObjectSet stays below the size limit of a single \
        object.",
    namespaced,
    no_spec,
    shortname = "objslice",
    shortname = "osl",
    derive = "Default",
    derive = "PartialEq"
)]
pub struct ObjectSliceSpec {
    /// Objects of the slice, in their order. They follow the inline objects of the phase.
    /// Immutable.
    #[x_kube(validation = schema::immutable_value("objects"))]
    pub objects: Vec<ObjectSetObject>,
}

/// The content of a cluster-scoped slice.
///
/// The field is repeated instead of wrapped, because only named fields can be at the top level.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, CustomResource, KubeSchema)]
#[kube(
    group = "package-operator.run",
    version = "v1alpha1",
    kind = "ClusterObjectSlice",
    doc = "The cluster-scoped variant of an ObjectSlice: a part of the objects of a ClusterObjectSet's phase.",
    no_spec,
    shortname = "clobjslice",
    shortname = "cosl",
    derive = "Default",
    derive = "PartialEq"
)]
pub struct ClusterObjectSliceSpec {
    /// Objects of the slice, in their order. They follow the inline objects of the phase.
    /// Immutable.
    #[x_kube(validation = schema::immutable_value("objects"))]
    pub objects: Vec<ObjectSetObject>,
}
