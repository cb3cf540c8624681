//! Claims whose storage class does not exist: the server accepts them, and they stay pending
//! without an event.

use std::collections::{BTreeMap, BTreeSet};

use baton_engine::{
    object_pass::Live,
    revision::{Desired, Phase, Revision},
};
use baton_kubernetes::{blockers::Blocker, storage_classes::storage_class};

use super::objects::Objects;

/// Marks each unbound claim whose storage class does not exist, and returns these classes: their
/// creation has to wake the owner.
///
/// Each missing class costs one read per pass with such a claim. A class counts as existing if it
/// cannot be read or may not be reported, or if the revision contains a volume of the class itself:
/// claims are bound to such volumes by name. For a paused revision no request is sent.
pub(super) async fn note_missing(
    objects: Objects<'_>,
    phases: &mut [Phase],
    revision: &Revision,
) -> Vec<Blocker> {
    if revision.is_paused() {
        return Vec::new();
    }
    let volumes = phases.iter().flat_map(|phase| &phase.objects);
    let own: BTreeSet<String> = volumes
        .filter_map(|object| class_of(object, "PersistentVolume"))
        .collect();
    let mut classes: BTreeMap<String, bool> = BTreeMap::new();
    for phase in phases {
        if phase.delegated.is_some() {
            continue;
        }
        for claim in &mut phase.objects {
            let class = class_of(claim, "PersistentVolumeClaim");
            let class = class.filter(|class| !own.contains(class));
            let Some(class) = class.filter(|_| !is_bound(objects, claim)) else {
                continue;
            };
            let is_missing = match classes.get(&class) {
                Some(is_missing) => *is_missing,
                None => is_missing(objects, &class).await,
            };
            claim.lacks = is_missing.then(|| format!("storage class \"{class}\" does not exist"));
            classes.insert(class, is_missing);
        }
    }
    let missing = classes.into_iter().filter(|(_, is_missing)| *is_missing);
    missing.map(|(class, _)| storage_class(&class)).collect()
}

fn is_bound(objects: Objects<'_>, claim: &Desired) -> bool {
    match objects.cached(claim).0 {
        Live::Present(live) => live["status"]["phase"] == "Bound",
        Live::Unread | Live::Uncached | Live::Gone | Live::Ended(_) => false,
    }
}

async fn is_missing(objects: Objects<'_>, class: &str) -> bool {
    let Blocker { gvk, key } = storage_class(class);
    objects.target.lacks_storage_class(class).await && objects.may_read(&gvk, &key).await
}

/// The class that a claim or a volume names; `None` for other objects. An empty name asks for a
/// volume without a class.
fn class_of(object: &Desired, kind: &str) -> Option<String> {
    let is_it = object.key.group.is_empty() && object.key.kind == kind;
    let class = object.manifest["spec"]["storageClassName"].as_str();
    class
        .filter(|class| is_it && !class.is_empty())
        .map(ToOwned::to_owned)
}
