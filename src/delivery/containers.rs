//! Containers, that is Namespaces and definitions of kinds, whose deletion by an older revision
//! would delete objects of a newer one.

use std::collections::BTreeSet;

use baton_apis::{ObjectSetTemplatePhase, constants::CLASS_DEFAULT};
use baton_engine::{
    ObjectKey,
    containers::{Container, ManagedContainer},
    heirs::wants,
    keep::is_kept,
    object::{controller, text},
    revision::{Desired, Phase, prepare},
};
use baton_kubernetes::{
    store::Source,
    target::{Target, TargetEvent},
};
use baton_records::{
    api::Api,
    revision::{RevisionKey, RevisionKind, RevisionRecord},
};
use baton_runtime::source::Wake;
use serde_json::Value;

use super::{
    heirs::as_revision,
    observed::Observed,
    shared::{BURST, Error},
};

/// The place of a class's objects. The default class has the same place as no class.
fn delivery_class(class: &str) -> &str {
    if class == CLASS_DEFAULT { "" } else { class }
}

/// The place of a phase's objects.
fn place_of(phase: &Phase) -> &str {
    delivery_class(phase.delegated.as_ref().map_or("", |it| &it.class))
}

fn container(object: &Desired) -> Option<Container> {
    Container::of(&object.gvk, &object.manifest)
}

/// An object in a cluster, if it is observed there.
fn live(cluster: &Target, object: &Desired) -> Option<Value> {
    let stored = cluster.get(&object.gvk, &object.key.namespace, &object.key.name)?;
    stored.parse().ok()
}

/// The reasons that a revision must not be rolled out: the objects that it would lose with
/// containers that only older revisions have. `home` is its own cluster.
///
/// # Errors
/// When an older revision cannot be read, or the request for one of its slices fails.
///
/// # Caveats
/// In other clusters only the manifest of a container shows that the container is to be kept; the
/// live object is not read.
pub(crate) async fn losses(
    observed: &Observed,
    api: &Api,
    home: &Target,
    record: &RevisionRecord,
    phases: &[Phase],
) -> Result<Vec<String>, Error> {
    let mut losses = Vec::new();
    if !may_have_containers(record, phases) {
        return Ok(losses);
    }
    let mut containers = BTreeSet::new();
    for older in observed.revisions.unfinished_before(record) {
        for (class, held) in managed_containers(observed, api, home, &older).await? {
            let there = phases.iter().filter(|phase| place_of(phase) == class);
            let wants = there.flat_map(|phase| &phase.objects);
            let wants = wants.map(|object| object.key.clone()).collect();
            if containers.insert((class, held.key.clone())) {
                losses.extend(held.loss(&wants));
            }
        }
    }
    Ok(losses)
}

/// The containers that a revision would delete, with their place.
async fn managed_containers(
    observed: &Observed,
    api: &Api,
    home: &Target,
    record: &RevisionRecord,
) -> Result<Vec<(String, ManagedContainer)>, Error> {
    let mut found = Vec::new();
    let revision = as_revision(record);
    for phase in observed.manifests(api, record).await? {
        let class = delivery_class(&phase.class).to_owned();
        let objects = prepare(&revision, vec![phase]).into_iter();
        for object in objects.flat_map(|phase| phase.objects) {
            let Some(container) = container(&object) else {
                continue;
            };
            let live = class.is_empty().then(|| live(home, &object)).flatten();
            // A container that is missing in the cache may exist.
            let is_its = live
                .as_ref()
                .is_none_or(|live| is_controlled_by(observed, live, record));
            if is_its && !is_kept(live.iter().chain([&object.manifest])) {
                let held = ManagedContainer {
                    container,
                    key: object.key,
                    revision: record.key.name.to_string(),
                };
                found.push((class.clone(), held));
            }
        }
    }
    Ok(found)
}

/// True if the controller of an object is the revision, or one of its phase objects.
fn is_controlled_by(observed: &Observed, live: &Value, revision: &RevisionRecord) -> bool {
    let owner = controller(live).and_then(|owner| observed.revisions.by_uid(text(owner, "uid")));
    owner.is_some_and(|owner| owner.uid == revision.uid)
}

/// The objects that newer revisions want in the place of a class. Empty unless `phases`, which
/// belong to a revision or phase of that class, contain a container.
///
/// # Errors
/// As [`losses`].
pub(crate) async fn newer_wants(
    observed: &Observed,
    api: &Api,
    record: &RevisionRecord,
    class: &str,
    phases: &[Phase],
) -> Result<BTreeSet<ObjectKey>, Error> {
    let mut found = BTreeSet::new();
    let mut own = phases.iter().flat_map(Phase::own_objects);
    if own.all(|object| container(object).is_none()) {
        return Ok(found);
    }
    for newer in observed.revisions.newer(record) {
        let mut there = observed.manifests(api, &newer).await?;
        there.retain(|phase: &ObjectSetTemplatePhase| {
            delivery_class(&phase.class) == delivery_class(class)
        });
        found.extend(wants(&prepare(&as_revision(&newer), there)));
    }
    Ok(found)
}

/// True if a revision can have containers, which are cluster-scoped: a namespaced revision only in
/// delegated phases.
fn may_have_containers(record: &RevisionRecord, phases: &[Phase]) -> bool {
    record.key.kind == RevisionKind::ClusterObjectSet
        || phases.iter().any(|phase| phase.delegated.is_some())
}

/// Trigger: a container that others change wakes the newer revisions, which may wait until the
/// container is marked to be kept.
pub(crate) fn on_container(observed: &Observed, event: &TargetEvent) -> Vec<Wake<RevisionKey>> {
    let TargetEvent::Changed(change) = event else {
        return Vec::new();
    };
    let kind = (&*change.gvk.group, &*change.gvk.kind);
    let is_container = Container::KINDS.contains(&kind);
    if !is_container || change.source == Source::Write {
        return Vec::new();
    }
    let owners = change.owners.iter();
    let owners = owners.filter_map(|owner| observed.revisions.by_uid(&owner.uid));
    let newer = owners.flat_map(|owner| observed.revisions.newer(&owner));
    newer
        .map(|newer| Wake::after(BURST, newer.key.clone()))
        .collect()
}
