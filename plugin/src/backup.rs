//! A backup of the objects of Baton and Shipper in a hub, and its restore into an empty hub.
//!
//! - [`mod@file`]: the format of the file
//! - [`collect`]: reads the objects of a hub
//! - [`order`]: the order in which objects are created again, owners first
//! - [`renewed`]: an object as it is created again, with new UIDs
//! - [`manager_lease`]: keeps the manager from writing during a restore
//! - [`restore`]: creates the objects
//!
//! A restore needs no knowledge of single kinds, except for the generation in the records of chosen
//! sites, see [`renewed`].

pub(crate) mod collect;
pub(crate) mod file;
mod manager_lease;
mod order;
mod renewed;
pub(crate) mod restore;

use baton_apis::kinds::{self, Kind};
use baton_view::object::text_at;
use serde_json::Value;

/// The kind of the records of versions and of chosen sites.
pub(crate) const CONTROLLER_REVISION: Kind = Kind {
    name: "ControllerRevision",
    plural: "controllerrevisions",
    short_names: &[],
    group: "apps",
    api_version: "apps/v1",
    is_namespaced: true,
};

/// The kinds of a backup, in the order in which they are read. A kind comes after the kinds that own
/// its objects or refer to them: what was created in the meantime lacks its owner and is left out, and
/// nothing that was read refers to an object that did not exist yet.
const KINDS: [&Kind; 19] = [
    &kinds::CLUSTER,
    &kinds::SITE_ASSIGNMENT,
    &kinds::APPLICATION,
    &kinds::RELEASE,
    &kinds::INSTALLATION_TARGET,
    &kinds::CAPACITY_TARGET,
    &kinds::TRAFFIC_TARGET,
    &kinds::SITE_APPLICATION,
    &kinds::SITE_DEPLOYMENT,
    &CONTROLLER_REVISION,
    &kinds::OBJECT_DEPLOYMENT,
    &kinds::CLUSTER_OBJECT_DEPLOYMENT,
    &kinds::OBJECT_SET,
    &kinds::CLUSTER_OBJECT_SET,
    &kinds::OBJECT_SET_PHASE,
    &kinds::CLUSTER_OBJECT_SET_PHASE,
    &kinds::OBJECT_SLICE,
    &kinds::CLUSTER_OBJECT_SLICE,
    // Blocks come last: the API server would refuse to create what they block.
    &kinds::ROLLOUT_BLOCK,
];

/// The kind of an object of a backup.
fn kind_of(object: &Value) -> Option<&'static Kind> {
    KINDS.into_iter().find(|kind| kind.is_of(object))
}

/// Kind, namespace and name of an object, for messages.
fn title(object: &Value) -> String {
    let kind = text_at(object, "/kind");
    let name = text_at(object, "/metadata/name");
    match text_at(object, "/metadata/namespace") {
        "" => format!("{kind} {name}"),
        namespace => format!("{kind} {namespace}/{name}"),
    }
}

/// The path of an object of a backup; `None` for other kinds.
fn path_of(object: &Value) -> Option<String> {
    let namespace = text_at(object, "/metadata/namespace");
    let namespace = (!namespace.is_empty()).then_some(namespace);
    Some(kind_of(object)?.path_of(namespace, text_at(object, "/metadata/name")))
}

/// The number of objects by kind, as `Applications: 5`.
pub(crate) fn counts<'o>(objects: impl IntoIterator<Item = &'o Value>) -> Vec<String> {
    let objects: Vec<_> = objects.into_iter().collect();
    let counts = KINDS.iter().filter_map(|kind| {
        let count = objects.iter().filter(|it| kind.is_of(it)).count();
        (count > 0).then(|| format!("{}s: {count}", kind.name))
    });
    counts.collect()
}
