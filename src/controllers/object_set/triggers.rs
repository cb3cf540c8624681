//! Triggers of revisions. Each function maps a change to the revisions to reconcile.

use std::sync::Arc;

use baton_apis::{LifecycleState, conditions::AVAILABLE};
use baton_engine::condition_list::is_true;
use baton_records::{
    phase::PhaseKind,
    revision::{RevisionKey, RevisionKind},
    slice::{SliceKind, SliceRecord},
    store::Change,
};
use baton_runtime::{controller::Controller as _, source::Wake};

use super::ObjectSets;
use crate::delivery::{
    observed::{AffectedSiblings, Observed, changes_chain},
    shared::BURST,
};

/// Trigger: a revision wakes itself, the revisions that wait for its number and, when it ends, the
/// revisions that inherit its objects.
///
/// The siblings from which a new revision takes objects are woken by its own pass, by
/// [`AffectedSiblings`].
pub(super) fn on_revision(
    observed: &Observed,
    change: &Change<RevisionKind>,
) -> Vec<Wake<RevisionKey>> {
    let Some(record) = change.record() else {
        return Vec::new();
    };
    let mut wakes = Vec::new();
    if change.writer != Some(ObjectSets::NAME) && matters_to_itself(change) {
        wakes.push(Wake::now(record.key.clone()));
    }
    if changes_chain(change) {
        let successors = observed.revisions.successors(&record.key);
        let concerned = successors.into_iter().chain(observed.heirs(change));
        wakes.extend(concerned.map(|other| Wake::after(BURST, other.key.clone())));
    }
    wakes
}

/// True if a change of a revision may change the result of its own pass. Its status is ignored, as
/// only its own passes write it, unless another client has removed it.
fn matters_to_itself(change: &Change<RevisionKind>) -> bool {
    let (Some(old), Some(new)) = (&change.old, &change.new) else {
        return true;
    };
    // The server was restored from a backup.
    let has_gone_back = old.resource_version > new.resource_version;
    has_gone_back
        || old.generation != new.generation
        || old.deleting != new.deleting
        || old.uid != new.uid
        || old.finalizers != new.finalizers
        || new.is_wiped
        || old.is_abandoned != new.is_abandoned
        || old.preflight != new.preflight
        || old.package != new.package
        || old.instance != new.instance
}

/// Trigger: a phase object wakes its previous and its current revision. Writes of the revision's
/// own pass are ignored; of writes of the phase's controller only the status matters.
pub(super) fn on_phase(observed: &Observed, change: &Change<PhaseKind>) -> Vec<Wake<RevisionKey>> {
    if change.record().is_some_and(|phase| phase.agent().is_some()) {
        // A mirror is ignored: the phase object takes over its status.
        return Vec::new();
    }
    let may_change_results = match (&change.old, &change.new, change.writer) {
        (_, _, Some(ObjectSets::NAME)) => false,
        (Some(old), Some(new), Some(_)) => old.status_differs(new),
        (Some(old), Some(new), None) => old.differs(new),
        _ => true,
    };
    if !may_change_results {
        return Vec::new();
    }
    let phases = change.old.iter().chain(&change.new);
    let mut owners: Vec<&Arc<str>> = phases
        .filter_map(|phase| phase.controller.as_ref())
        .collect();
    owners.dedup();
    let owners = owners
        .into_iter()
        .filter_map(|uid| observed.revisions.by_uid(uid));
    owners.map(|owner| Wake::now(owner.key.clone())).collect()
}

/// Trigger: phase objects that can no longer be listed, or can be listed again, wake the revisions
/// that wait for a report of a phase.
pub(super) fn on_phases_listed(observed: &Observed, kind: PhaseKind) -> Vec<Wake<RevisionKey>> {
    let phases = observed.phases.filter(|phase| {
        let status = phase.status().unwrap_or_default();
        phase.key.kind == kind && !is_true(&status.conditions, AVAILABLE)
    });
    let owners = phases.iter().filter_map(|phase| phase.controller.as_ref());
    let owners = owners.filter_map(|uid| observed.revisions.by_uid(uid));
    let mut keys: Vec<_> = owners.map(|owner| owner.key.clone()).collect();
    keys.sort();
    keys.dedup();
    let keys = keys.into_iter();
    keys.map(|key| Wake::after(BURST, key)).collect()
}

/// The revision that owns a child by this uid. The children of a phase object do not belong to its
/// revision.
pub(super) fn owner(observed: &Observed, uid: &str) -> Option<RevisionKey> {
    if observed.phases.by_uid(uid).is_some() {
        return None;
    }
    let record = observed.revisions.by_uid(uid)?;
    Some(record.key.clone())
}

/// The revision with this uid, if it must not control objects any more: it is archived, or to be
/// archived. Objects of a deleted revision are left to garbage collection.
pub(super) fn ended_owner(observed: &Observed, uid: &str) -> Option<RevisionKey> {
    let record = observed.revisions.by_uid(uid)?;
    if *record.uid != *uid {
        // The uid is that of a phase object, whose children do not belong to the revision.
        return None;
    }
    let is_ended = record.archived || record.lifecycle == LifecycleState::Archived;
    (is_ended && !record.deleting).then(|| record.key.clone())
}

/// Trigger: a slice that appears, changes or is deleted wakes the revisions that use it.
///
/// A slice that has lost all owners wakes them too, as its own user becomes its owner; other changes of
/// owners are ignored. A slice whose content becomes known also wakes the revisions before its
/// users.
pub(super) fn on_slice(observed: &Observed, change: &Change<SliceKind>) -> Vec<Wake<RevisionKey>> {
    let is_same = |old: &SliceRecord, new: &SliceRecord| {
        old.uid == new.uid
            && old.generation == new.generation
            && old.owners.is_empty() == new.owners.is_empty()
    };
    let slice = match (&change.old, &change.new) {
        (Some(old), Some(new)) if is_same(old, new) => None,
        _ => change.record(),
    };
    let users = slice.map(|slice| observed.revisions.users_of(&slice.key));
    let waiting = observed.waiting_for_slice(change).into_iter();
    let waiting = waiting.map(|revision| revision.key.clone());
    let concerned = users.into_iter().flatten().chain(waiting);
    concerned.map(|key| Wake::after(BURST, key)).collect()
}

/// Trigger: a pass that changed the owners of objects wakes the affected siblings.
pub(super) fn on_affected(
    observed: &Observed,
    affected: &AffectedSiblings,
) -> Vec<Wake<RevisionKey>> {
    let names = affected.siblings.iter().map(String::as_str);
    let siblings = observed.open_siblings(&affected.by, names);
    siblings
        .map(|sibling| Wake::after(BURST, sibling.key.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, sync::Mutex};

    use baton_records::{
        record::Record,
        revision::{RevisionKind::ObjectSet, RevisionRecord},
    };
    use serde_json::{Value, json};

    use super::*;

    /// A chain of three: v1 <- v2 <- v3.
    fn chain() -> Arc<Observed> {
        let observed = Arc::new(Observed::default());
        for number in 1..=3 {
            observed
                .revisions
                .observe(revision(number, number, &json!({})));
        }
        observed
    }

    fn revision(number: i64, version: i64, patch: &Value) -> RevisionRecord {
        let previous: Vec<_> = (1..number)
            .map(|n| json!({"name": format!("v{n}")}))
            .collect();
        let mut object = json!({
            "metadata": {
                "name": format!("v{number}"), "namespace": "shop", "uid": format!("u{number}"),
                "resourceVersion": version.to_string(), "generation": 1,
            },
            "spec": {
                "revision": number, "previous": previous,
                "phases": [{"name": "a", "slices": [format!("s{number}")]}],
            },
        });
        json_patch::merge(&mut object, patch);
        Record::read(ObjectSet, &object.to_string()).unwrap()
    }

    fn names(wakes: Vec<Wake<RevisionKey>>) -> String {
        let text = |wake: Wake<RevisionKey>| {
            let mark = if wake.after.is_zero() { "!" } else { "" };
            format!("{}{mark}", wake.key.name)
        };
        let mut names: Vec<_> = wakes.into_iter().map(text).collect();
        names.sort();
        names.join(" ")
    }

    /// The revisions that a change wakes; `!` means at once.
    fn after(change: impl FnOnce(&Observed)) -> String {
        let observed = chain();
        let woken = Arc::new(Mutex::new(Vec::new()));
        let (sink, map) = (Arc::clone(&woken), Arc::downgrade(&observed));
        observed.revisions.changes().subscribe(move |change| {
            let observed = map.upgrade().unwrap();
            sink.lock().unwrap().extend(on_revision(&observed, change));
        });
        change(&observed);
        names(std::mem::take(&mut *woken.lock().unwrap()))
    }

    #[test]
    fn a_revision_is_woken_by_changes_that_affect_its_pass() {
        for (patch, expected) in [
            (json!({"metadata": {"generation": 2}}), "v2!"),
            (json!({"metadata": {"finalizers": ["x"]}}), "v2!"),
            (
                json!({"metadata": {"labels": {"package-operator.run/instance": "i"}}}),
                "v2!",
            ),
            (json!({"metadata": {"annotations": {"note": "x"}}}), ""),
            (
                json!({"metadata": {"annotations": {"baton.run/abandon": "true"}}}),
                "v2!",
            ),
            (json!({"status": {"conditions": []}}), ""),
        ] {
            let woken = after(|observed| {
                observed.revisions.observe(revision(2, 9, &patch));
            });
            assert_eq!(woken, expected, "{patch}");
        }
    }

    /// The store keeps the removed status, so that no other revision is woken.
    #[test]
    fn a_revision_is_woken_when_another_client_removes_its_status() {
        let condition = |type_: &str| json!({"type": type_, "status": "True"});
        let status = |types: &[&str], phases: &[&str]| {
            let conditions: Vec<_> = types.iter().copied().map(condition).collect();
            let phases: Vec<_> = phases
                .iter()
                .map(|uid| json!({"name": "v2-a", "uid": uid}))
                .collect();
            json!({"status": {"conditions": conditions, "remotePhases": phases}})
        };
        let archived = status(&["Archived", "Succeeded"], &["p2"]);
        let live = status(&["Available", "Ready", "Succeeded"], &["p2"]);
        let none = json!({});
        for (old, new, writer, expected) in [
            (&archived, &none, None, "v2!"),
            (&archived, &status(&["Succeeded"], &["p2"]), None, "v2!"),
            (&archived, &status(&["Archived"], &[]), None, ""),
            (&live, &none, None, "v2!"),
            (&live, &status(&[], &["p2"]), None, "v2!"),
            (&live, &status(&["Available"], &["p2"]), None, "v2!"),
            (&live, &status(&["Available", "Ready"], &["p2"]), None, ""),
            // An own pass that the watch reports before its answer.
            (&live, &status(&["Archived"], &["p2"]), None, ""),
            (&none, &none, None, ""),
            (&live, &none, Some(ObjectSets::NAME), ""),
        ] {
            let observed = chain();
            observed.revisions.observe(revision(2, 5, old));
            let woken = Arc::new(Mutex::new(Vec::new()));
            let (sink, map) = (Arc::clone(&woken), Arc::downgrade(&observed));
            observed.revisions.changes().subscribe(move |change| {
                let observed = map.upgrade().unwrap();
                sink.lock().unwrap().extend(on_revision(&observed, change));
            });
            let new = revision(2, 9, new);
            match writer {
                Some(writer) => observed.revisions.updated(new, writer),
                None => drop(observed.revisions.observe(new)),
            }
            let woken = names(std::mem::take(&mut *woken.lock().unwrap()));
            // An archival wakes the siblings of the revision.
            let own: Vec<_> = woken.split(' ').filter(|it| it.starts_with("v2")).collect();
            assert_eq!(own.join(" "), expected, "{old} {writer:?}");
        }
    }

    #[test]
    fn a_revision_is_not_woken_by_its_own_writes_but_its_successors_are() {
        let numbered =
            json!({"spec": {"revision": 7}, "metadata": {"generation": 2, "finalizers": ["x"]}});
        for (writer, expected) in [(ObjectSets::NAME, "v3"), ("objectdeployment", "v2! v3")] {
            let woken = after(|observed| {
                observed
                    .revisions
                    .updated(revision(2, 9, &numbered), writer);
            });
            assert_eq!(woken, expected, "{writer}");
        }
    }

    #[test]
    fn a_revision_that_ends_wakes_those_after_and_before_it() {
        let deleting = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
        let archived = json!({"status": {"conditions": [{"type": "Archived", "status": "True"}]}});
        for (patch, expected) in [(&deleting, "v1 v2! v3"), (&archived, "v1 v3")] {
            let woken = after(|observed| {
                observed.revisions.observe(revision(2, 9, patch));
            });
            assert_eq!(woken, expected, "{patch}");
        }
        let gone = after(|observed| {
            observed.revisions.remove(&revision(2, 2, &json!({})).key);
        });
        assert_eq!(gone, "v1 v2! v3");
    }

    #[test]
    fn ended_revisions_are_not_woken() {
        let observed = chain();
        let archived = json!({"status": {"conditions": [{"type": "Archived", "status": "True"}]}});
        observed.revisions.observe(revision(1, 9, &archived));
        let affected = AffectedSiblings {
            by: revision(3, 0, &json!({})).key,
            siblings: vec!["v1".to_owned(), "v2".to_owned(), "unknown".to_owned()],
            taken: BTreeSet::new(),
        };
        assert_eq!(names(on_affected(&observed, &affected)), "v2");
        for (name, expected) in [("s1", ""), ("s2", "v2"), ("unknown", "")] {
            let change = slice_change(None, Some(slice(name, 1, &[])));
            assert_eq!(names(on_slice(&observed, &change)), expected);
        }
    }

    fn slice(name: &str, generation: i64, owners: &[&str]) -> SliceRecord {
        let owners: Vec<_> = owners.iter().map(|uid| json!({ "uid": uid })).collect();
        let object = json!({"metadata": {
            "name": name, "namespace": "shop", "uid": name, "resourceVersion": "5",
            "generation": generation, "ownerReferences": owners,
        }});
        Record::read(SliceKind(ObjectSet), &object.to_string()).unwrap()
    }

    fn slice_change(old: Option<SliceRecord>, new: Option<SliceRecord>) -> Change<SliceKind> {
        Change {
            old: old.map(Arc::new),
            new: new.map(Arc::new),
            writer: None,
        }
    }

    #[test]
    fn a_slice_wakes_its_users_when_it_changes_or_loses_its_owners() {
        let observed = chain();
        let s2 = |generation, owners: &[&str]| Some(slice("s2", generation, owners));
        for (old, new, expected) in [
            (None, s2(1, &[]), "v2"),
            (s2(1, &["u2"]), None, "v2"),
            (s2(1, &["u2"]), s2(2, &["u2"]), "v2"),
            (s2(1, &["d"]), s2(1, &["u2"]), ""),
            (s2(1, &["d"]), s2(1, &[]), "v2"),
        ] {
            let change = slice_change(old, new);
            assert_eq!(names(on_slice(&observed, &change)), expected);
        }
    }

    /// Until the content is known, the revisions before may have left their missing objects to it.
    #[test]
    fn known_slice_content_wakes_the_revisions_before_its_users() {
        let observed = chain();
        let s3 = |content: bool| {
            let mut object = json!({"metadata": {
                "name": "s3", "namespace": "shop", "uid": "s3", "resourceVersion": "5", "generation": 1,
                "ownerReferences": [{"uid": "u3"}],
            }});
            if content {
                object["objects"] = json!([]);
            }
            Some(Record::read(SliceKind(ObjectSet), &object.to_string()).unwrap())
        };
        for (old, new, expected) in [
            (None, s3(true), "v1 v2 v3"),
            (None, s3(false), "v3"),
            (s3(false), s3(true), "v1 v2"),
            (s3(true), s3(true), ""),
            (s3(true), None, "v3"),
        ] {
            let change = slice_change(old, new);
            assert_eq!(names(on_slice(&observed, &change)), expected);
        }
    }

    #[test]
    fn a_revision_with_archived_state_or_status_has_ended() {
        let archived = json!({"type": "Archived", "status": "True"});
        let phases = json!([{"name": "v2-a", "uid": "p2"}]);
        let status = json!({"conditions": [archived], "remotePhases": phases});
        let deleting = "2026-01-01T00:00:00Z";
        for (patch, expected) in [
            (json!({}), false),
            (json!({"spec": {"lifecycleState": "Paused"}}), false),
            (json!({"spec": {"lifecycleState": "Archived"}}), true),
            (json!({"status": status}), true),
            (
                json!({"status": status, "metadata": {"deletionTimestamp": deleting}}),
                false,
            ),
        ] {
            let observed = chain();
            observed.revisions.observe(revision(2, 9, &patch));
            let ended = |uid: &str| ended_owner(&observed, uid).map(|key| key.name.to_string());
            let name = expected.then(|| "v2".to_owned());
            assert_eq!(ended("u2"), name, "{patch}");
            assert_eq!((ended("p2"), ended("unknown")), (None, None), "{patch}");
        }
    }

    #[test]
    fn a_phase_object_wakes_its_revision_unless_the_revision_wrote_it() {
        let observed = chain();
        let phase = |version: i64, status: &str| {
            let object = json!({
                "metadata": {
                    "name": "v2-a", "namespace": "shop", "uid": "p2", "resourceVersion": version.to_string(),
                    "ownerReferences": [{"uid": "u2", "controller": true}],
                },
                "status": {"conditions": [{
                    "type": "Available", "status": status, "reason": "x", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }]},
            });
            Arc::new(Record::read(PhaseKind(ObjectSet), &object.to_string()).unwrap())
        };
        let (down, same, up) = (phase(5, "False"), phase(6, "False"), phase(6, "True"));
        for (old, new, writer, expected) in [
            (None, Some(&down), None, "v2!"),
            (Some(&down), Some(&same), None, ""),
            (Some(&down), Some(&up), None, "v2!"),
            (Some(&down), None, None, "v2!"),
            (None, Some(&down), Some(ObjectSets::NAME), ""),
            (Some(&down), Some(&up), Some(ObjectSets::NAME), ""),
            (Some(&down), Some(&same), Some("objectsetphase"), ""),
            (Some(&down), Some(&up), Some("objectsetphase"), "v2!"),
        ] {
            let change = Change {
                old: old.cloned(),
                new: new.cloned(),
                writer,
            };
            let woken = names(on_phase(&observed, &change));
            assert_eq!(
                woken,
                expected,
                "{:?} by {writer:?}",
                (old.is_some(), new.is_some())
            );
        }
        observed.phases.observe(Record::clone(&down));
        assert_eq!(owner(&observed, "p2"), None);
        assert_eq!(owner(&observed, "u2").unwrap().name.as_ref(), "v2");
    }
}
