//! The heirs of a deleted revision: the older revisions that want its objects as well.

use std::collections::BTreeSet;

use baton_apis::{ObjectSetTemplatePhase, constants::CLASS_DEFAULT};
use baton_engine::{
    heirs::heir,
    object::Identity,
    revision::{Delivery, Heir, Revision},
};
use baton_fleet::mirror::Origin;
use baton_records::{
    api::Api,
    key::OwnKind as _,
    phase::{PhaseKey, PhaseRecord},
    record::ReadError,
    revision::{RevisionKey, RevisionRecord},
};
use baton_runtime::source::Wake;

use super::{
    observed::Observed,
    shared::{BURST, Error},
};

/// The heirs of a revision in its own cluster, the newest first. Empty unless the revision is being
/// deleted and hands objects back.
///
/// # Errors
/// When an heir cannot be read, or the request for one of its slices fails.
///
/// # Caveats
/// Objects in a slice that does not exist have no heir: the revision with this slice cannot be
/// rolled out.
pub(crate) async fn heirs_here(
    observed: &Observed,
    api: &Api,
    record: &RevisionRecord,
) -> Result<Vec<Heir>, Error> {
    let is_here = |phase: &PhaseRecord| phase.class() == CLASS_DEFAULT;
    let mut heirs = Vec::new();
    for older in observed.revisions.heirs(record) {
        let mut phases = observed.manifests(api, &older).await?;
        phases.retain(|phase| phase.class.is_empty());
        heirs.push(heir(&as_revision(&older), phases));
        let delegated = phase_heirs(observed, &older, Delivery::Delegated, is_here);
        heirs.extend(delegated?);
    }
    Ok(heirs)
}

/// The heirs of a revision in another cluster, as [`heirs_here`].
///
/// # Errors
/// When an heir cannot be read.
pub(crate) fn heirs_elsewhere(
    observed: &Observed,
    record: &RevisionRecord,
    cluster: &str,
) -> Result<Vec<Heir>, Error> {
    let is_there = |phase: &PhaseRecord| phase.cluster() == Some(cluster);
    let mut heirs = Vec::new();
    for older in observed.revisions.heirs(record) {
        heirs.extend(phase_heirs(observed, &older, Delivery::Remote, is_there)?);
    }
    Ok(heirs)
}

/// The heirs of a phase in the cluster of an agent, as its mirror names them.
///
/// # Errors
/// When an heir cannot be read.
pub(crate) fn heirs_by_mirror(
    observed: &Observed,
    record: &PhaseRecord,
) -> Result<Vec<Heir>, Error> {
    let origin = Origin::read(record)?;
    let phases = origin.heirs().filter_map(|uid| observed.phases.by_uid(uid));
    let heirs = phases.filter(|phase| !phase.deleting);
    let heirs = heirs.map(|phase| phase_heir(&phase, Delivery::Remote));
    Ok(heirs.collect::<Result<_, _>>()?)
}

/// The phase objects of a revision with this delivery and place, as heirs.
fn phase_heirs(
    observed: &Observed,
    older: &RevisionRecord,
    delivery: Delivery,
    is_there: impl Fn(&PhaseRecord) -> bool,
) -> Result<Vec<Heir>, ReadError> {
    let phases = observed.phases.controlled_by(older).into_iter();
    let there = phases.filter(|phase| !phase.deleting && is_there(phase));
    there.map(|phase| phase_heir(&phase, delivery)).collect()
}

/// Trigger: wakes revisions to which objects were handed back, so that they restore their content.
pub(crate) fn revisions_given(
    observed: &Observed,
    uids: &BTreeSet<String>,
) -> Vec<Wake<RevisionKey>> {
    let given = uids.iter().filter_map(|uid| {
        // The uid of a phase object also finds its revision, which did not get the object.
        let revision = observed.revisions.by_uid(uid)?;
        (*revision.uid == **uid).then(|| Wake::after(BURST, revision.key.clone()))
    });
    given.collect()
}

/// Trigger: as [`revisions_given`], for phases.
pub(crate) fn phases_given(observed: &Observed, uids: &BTreeSet<String>) -> Vec<Wake<PhaseKey>> {
    let given = uids.iter().filter_map(|uid| observed.phases.by_uid(uid));
    given
        .map(|phase| Wake::after(BURST, phase.key.clone()))
        .collect()
}

/// The identity and number of a revision, for the names of its objects.
pub(crate) fn as_revision(record: &RevisionRecord) -> Revision {
    Revision {
        identity: Identity {
            kind: record.key.kind.kind().to_owned(),
            namespace: record.key.namespace.to_string(),
            name: record.key.name.to_string(),
            uid: record.uid.to_string(),
            is_remote: false,
            hub: String::new(),
            chain: String::new(),
        },
        number: record.number.unwrap_or(0),
        ..Revision::default()
    }
}

/// A phase object as an heir.
///
/// # Errors
/// If its spec cannot be parsed.
pub(crate) fn phase_heir(phase: &PhaseRecord, delivery: Delivery) -> Result<Heir, ReadError> {
    let spec = phase.spec()?;
    let revision = Revision {
        identity: Identity {
            kind: phase.key.kind.kind().to_owned(),
            namespace: phase.key.namespace.to_string(),
            name: phase.key.name.to_string(),
            uid: phase.uid.to_string(),
            is_remote: delivery == Delivery::Remote,
            hub: String::new(),
            chain: String::new(),
        },
        number: spec.revision,
        delivery,
        ..Revision::default()
    };
    let objects = ObjectSetTemplatePhase {
        objects: spec.objects,
        ..ObjectSetTemplatePhase::default()
    };
    Ok(heir(&revision, vec![objects]))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use baton_records::{phase::PhaseKind, record::Record, revision::RevisionKind::ObjectSet};
    use serde_json::{Value, json};

    use super::*;

    fn manifest(name: &str) -> Value {
        json!({"object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "shop"}}})
    }

    /// Two older revisions and a deleted one. Each phase has a name, a class and a ConfigMap with
    /// its name; the last value is true if it is being deleted.
    fn chain(hands_back: &str, phases: &[(&str, &str, bool)]) -> (Observed, Arc<RevisionRecord>) {
        let observed = Observed::default();
        for number in 1..4 {
            let mut object = json!({
                "metadata": {"name": format!("v{number}"), "namespace": "shop", "uid": format!("u{number}"),
                    "resourceVersion": number.to_string()},
                "spec": {"revision": number, "previous": [{"name": format!("v{}", number - 1)}]},
            });
            if number == 3 {
                object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
                object["metadata"]["annotations"] = json!({"baton.run/on-deletion": hands_back});
            }
            let record = Record::read(ObjectSet, &object.to_string());
            observed.revisions.observe(record.unwrap());
        }
        for (name, class, deleting) in phases {
            let mut object = json!({
                "metadata": {"name": name, "namespace": "shop", "uid": format!("p-{name}"), "resourceVersion": "9",
                    "labels": {"package-operator.run/phase-class": class},
                    "ownerReferences": [{"uid": format!("u{}", &name[1..2]), "controller": true}]},
                "spec": {"revision": name[1..2].parse::<i64>().unwrap(), "objects": [manifest(name)]},
            });
            if *deleting {
                object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            }
            let record = Record::read(PhaseKind(ObjectSet), &object.to_string());
            observed.phases.observe(record.unwrap());
        }
        let deleted = observed.revisions.by_uid("u3").unwrap();
        (observed, deleted)
    }

    #[test]
    fn phases_of_the_same_cluster_are_heirs_the_newest_first() {
        let phases = [
            ("v1-a", "cluster.edge", false),
            ("v1-b", "cluster.other", false),
            ("v1-c", "default", false),
            ("v2-a", "cluster.edge", false),
            ("v2-b", "cluster.edge", true),
            ("v3-a", "cluster.edge", true),
        ];
        let (observed, deleted) = chain("hand-back", &phases);
        let heirs = heirs_elsewhere(&observed, &deleted, "edge").unwrap();
        let found: Vec<_> = heirs
            .iter()
            .map(|heir| {
                assert!(heir.identity.is_remote);
                assert_eq!(heir.identity.kind, "ObjectSetPhase");
                let wants: Vec<_> = heir.wants.iter().map(ToString::to_string).collect();
                (&*heir.identity.uid, heir.number, wants.join(" "))
            })
            .collect();
        let expected = [
            ("p-v2-a", 2, "ConfigMap shop/v2-a".to_owned()),
            ("p-v1-a", 1, "ConfigMap shop/v1-a".to_owned()),
        ];
        assert_eq!(found, expected);
        let (observed, deleted) = chain("delete", &phases);
        assert_eq!(heirs_elsewhere(&observed, &deleted, "edge").unwrap(), []);
    }

    #[test]
    fn heirs_that_received_an_object_are_woken() {
        let (observed, _) = chain("hand-back", &[("v1-a", "default", false)]);
        let uids = ["u2", "p-v1-a", "gone"].map(ToOwned::to_owned).into();
        let revisions = revisions_given(&observed, &uids).into_iter();
        let revisions: Vec<_> = revisions.map(|wake| wake.key.name.to_string()).collect();
        assert_eq!(revisions, ["v2"]);
        let phases = phases_given(&observed, &uids).into_iter();
        let phases: Vec<_> = phases.map(|wake| wake.key.name.to_string()).collect();
        assert_eq!(phases, ["v1-a"]);
    }
}
