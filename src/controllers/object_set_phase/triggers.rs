//! Triggers of delegated phases. Each function maps a change to the phases to reconcile.

use std::{sync::Arc, time::Instant};

use baton_apis::{
    LifecycleState, SiteEntry,
    constants::{ANNOTATION_SITE, HEARTBEAT},
};
use baton_fleet::{
    assignments::{AssignmentChange, Labels, Subject},
    mirror,
};
use baton_records::{
    phase::{PhaseKey, PhaseKind, PhaseRecord},
    revision::{RevisionKind, RevisionRecord},
    slice::SliceKind,
    store::Change,
};
use baton_runtime::{controller::Controller as _, pace::Pace, source::Wake};

use baton_sites::gate::PhaseStart;

use super::ObjectSetPhases;
use crate::delivery::{
    observed::Observed,
    shared::BURST,
    site_chain::{in_chain, is_refused, on_site_phase, state},
    terms::SiteTermsChange,
};

/// A phase wakes itself, and its mirror when it is deleted. A mirror wakes its phase, or itself if
/// there is none.
pub(super) fn on_phase(observed: &Observed, change: &Change<PhaseKind>) -> Vec<Wake<PhaseKey>> {
    let Some(phase) = change.record() else {
        return Vec::new();
    };
    if let Some(cluster) = phase.agent().filter(|_| *phase.key.name == *HEARTBEAT) {
        return on_place(observed, change, cluster);
    }
    if mirror::rollout_cluster(phase).is_some() {
        return Vec::new();
    }
    let mut wakes = on_mate(observed, change);
    if change.writer == Some(ObjectSetPhases::NAME) || !change.may_change_results() {
        return wakes;
    }
    if phase.agent().is_some() {
        let origin = observed.origin(phase);
        let key = origin.map_or_else(|| phase.key.clone(), |origin| origin.key.clone());
        wakes.push(Wake::now(key));
        return wakes;
    }
    wakes.push(Wake::now(phase.key.clone()));
    if let (None, Some(cluster)) = (&change.new, phase.cluster()) {
        let mirror = mirror::key(cluster, phase);
        wakes.extend(observed.phases.get(&mirror).map(|_| Wake::now(mirror)));
    }
    wakes
}

/// The wakes of a change, at the pace of reports if it is a report of an agent. The credentials of
/// the agent may be in other hands, and each report is a pass of its phase and of the revision.
pub(super) fn at_pace(
    reports: &Pace<PhaseKey>,
    change: &Change<PhaseKind>,
    mut wakes: Vec<Wake<PhaseKey>>,
    now: Instant,
) -> Vec<Wake<PhaseKey>> {
    let is_report =
        matches!((&change.old, &change.new), (Some(_), Some(new)) if new.agent().is_some());
    for wake in wakes.iter_mut().filter(|_| is_report) {
        wake.after = wake.after.max(reports.delay(wake.key.clone(), now));
    }
    wakes
}

/// A phase of a site wakes the phases that may wait for it, and so does its mirror when it is
/// created.
fn on_mate(observed: &Observed, change: &Change<PhaseKind>) -> Vec<Wake<PhaseKey>> {
    let (old, new) = (change.old.as_deref(), change.new.as_deref());
    match new {
        Some(mirror) if mirror.agent().is_some() => {
            let origin = old.is_none().then(|| observed.origin(mirror)).flatten();
            origin.map_or_else(Vec::new, |origin| {
                on_site_phase(observed, None, Some(&origin))
            })
        }
        _ => on_site_phase(observed, old, new),
    }
}

/// Changed terms wake the phases that have not begun.
pub(super) fn on_terms(observed: &Observed, change: &SiteTermsChange) -> Vec<Wake<PhaseKey>> {
    let is_concerned = |phase: &PhaseRecord| {
        let text = phase.annotations.get(ANNOTATION_SITE);
        let text = text.filter(|_| *phase.key.namespace == *change.namespace);
        let entry = text.and_then(|text| serde_json::from_str::<SiteEntry>(text).ok());
        let is_of_it = entry.is_some_and(|entry| change.by.has(&entry));
        is_of_it && !matches!(state(phase).begun, PhaseStart::Yes(_))
    };
    let phases = observed.phases.filter(is_concerned).into_iter();
    phases
        .map(|phase| Wake::after(BURST, phase.key.clone()))
        .collect()
}

/// The heartbeat object of a cluster, when it appears or is deleted, wakes the phases that are
/// delivered into the cluster: it shows if mirrors can be created.
fn on_place(observed: &Observed, change: &Change<PhaseKind>, cluster: &str) -> Vec<Wake<PhaseKey>> {
    let is_there =
        |version: &Option<Arc<PhaseRecord>>| version.as_ref().is_some_and(|it| !it.deleting);
    if is_there(&change.old) == is_there(&change.new) {
        return Vec::new();
    }
    on_link(observed, cluster)
}

/// A revision that ends wakes the phases of the revisions that inherit its objects; one that is paused or
/// resumed those before it, whose agents need to know it; a revision of a site those of its chain.
pub(super) fn on_revision(
    observed: &Observed,
    change: &Change<RevisionKind>,
) -> Vec<Wake<PhaseKey>> {
    // The permission to take objects over from a lost hub is that of the revision.
    let lost = |record: &Option<Arc<RevisionRecord>>| {
        record.as_ref().and_then(|record| record.lost_hubs.clone())
    };
    let itself = change.new.clone();
    let itself = itself.filter(|_| lost(&change.old) != lost(&change.new));
    let pausing = |record: &Option<Arc<RevisionRecord>>| {
        record
            .as_ref()
            .is_some_and(|record| record.lifecycle == LifecycleState::Paused)
    };
    let paused = change
        .new
        .as_ref()
        .filter(|_| pausing(&change.old) != pausing(&change.new));
    let before = paused.map(|newer| observed.revisions.all_before(newer));
    let heirs = observed.heirs(change).into_iter().chain(itself);
    let concerned = heirs.chain(before.into_iter().flatten());
    let phases = concerned.flat_map(|revision| observed.phases.controlled_by(&revision));
    let wakes = phases.map(|phase| Wake::after(BURST, phase.key.clone()));
    wakes.chain(on_member(observed, change)).collect()
}

/// A revision of a site wakes the phases of its chain when it appears, gets a number or another
/// owner, is refused or is given up.
fn on_member(observed: &Observed, change: &Change<RevisionKind>) -> Vec<Wake<PhaseKey>> {
    let part = |record: &Option<Arc<RevisionRecord>>| {
        let record = record.as_ref().filter(|record| record.has_site());
        record.map(|it| {
            let owner = it.controller.as_ref();
            (it.number, owner.cloned(), it.is_in_force(), is_refused(it))
        })
    };
    let record = change
        .record()
        .filter(|_| part(&change.old) != part(&change.new));
    let chain = record.and_then(|record| Some((&record.key.namespace, record.chain()?)));
    chain.map_or_else(Vec::new, |(namespace, chain)| {
        in_chain(observed, namespace, chain, false)
    })
}

/// A slice whose content becomes known wakes the phases of the revisions before its users.
pub(super) fn on_slice(observed: &Observed, change: &Change<SliceKind>) -> Vec<Wake<PhaseKey>> {
    let waiting = observed.waiting_for_slice(change).into_iter();
    let phases = waiting.flat_map(|revision| observed.phases.controlled_by(&revision));
    phases
        .map(|phase| Wake::after(BURST, phase.key.clone()))
        .collect()
}

/// A changed link of a cluster wakes the phases that are delivered into the cluster.
pub(super) fn on_link(observed: &Observed, cluster: &str) -> Vec<Wake<PhaseKey>> {
    let on_it = |phase: &PhaseRecord| phase.cluster() == Some(cluster);
    let phases = observed.phases.filter(on_it).into_iter();
    phases
        .map(|phase| Wake::after(BURST, phase.key.clone()))
        .collect()
}

/// A change of assignments wakes the phases that it affects.
pub(super) fn on_assignment(
    observed: &Observed,
    change: &AssignmentChange,
    labels: impl Fn(&str) -> Arc<Labels>,
) -> Vec<Wake<PhaseKey>> {
    let is_about = |phase: &PhaseRecord| {
        let cluster = phase.cluster().filter(|_| !phase.key.namespace.is_empty());
        cluster.is_some_and(|name| {
            let labels = &labels(name);
            change.concerns(&phase.key.namespace, Subject { name, labels })
        })
    };
    let phases = observed.phases.filter(is_about).into_iter();
    phases
        .map(|phase| Wake::after(BURST, phase.key.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use baton_apis::{ControlledObjectReference, ObjectSetPhaseStatus, constants::CLASS_AGENT};
    use baton_engine::revision::Reach;
    use baton_fleet::assignments::Assignment;
    use baton_records::{record::Record, revision::RevisionKind::ObjectSet};
    use serde_json::{Value, json};

    use super::*;
    use crate::delivery::{
        observed::{AffectedSiblings, phases_of_siblings},
        shared::CO_OWNED,
    };

    fn phase(name: &str, class: &str, version: i64, patch: &Value) -> PhaseRecord {
        let mut metadata = json!({
            "name": name, "namespace": "shop", "uid": format!("u-{name}"), "generation": 1,
            "resourceVersion": version.to_string(), "labels": {"package-operator.run/phase-class": class},
            "ownerReferences": [{"uid": "u2", "controller": true}],
        });
        for (key, value) in patch.as_object().into_iter().flatten() {
            metadata[key] = value.clone();
        }
        let object = json!({ "metadata": metadata });
        Record::read(PhaseKind(ObjectSet), &object.to_string()).unwrap()
    }

    fn names(wakes: Vec<Wake<PhaseKey>>) -> String {
        let text = |wake: Wake<PhaseKey>| {
            let mark = if wake.after.is_zero() { "!" } else { "" };
            format!("{}/{}{mark}", wake.key.namespace, wake.key.name)
        };
        let mut names: Vec<_> = wakes.into_iter().map(text).collect();
        names.sort();
        names.join(" ")
    }

    #[test]
    fn a_phase_is_woken_by_changes_of_other_writers() {
        let observed = Observed::default();
        let before = Arc::new(phase("web-a", "default", 5, &json!({})));
        let same = Arc::new(phase("web-a", "default", 6, &json!({})));
        let changed = Arc::new(phase("web-a", "default", 6, &json!({"generation": 2})));
        for (old, new, writer, expected) in [
            (None, Some(&before), None, "shop/web-a!"),
            (None, Some(&before), Some("objectset"), "shop/web-a!"),
            (None, Some(&before), Some(ObjectSetPhases::NAME), ""),
            (Some(&before), Some(&same), None, ""),
            (Some(&before), Some(&changed), None, "shop/web-a!"),
            (
                Some(&before),
                Some(&changed),
                Some("objectset"),
                "shop/web-a!",
            ),
            (
                Some(&before),
                Some(&changed),
                Some(ObjectSetPhases::NAME),
                "",
            ),
            (Some(&before), None, None, "shop/web-a!"),
        ] {
            let change = Change {
                old: old.cloned(),
                new: new.cloned(),
                writer,
            };
            assert_eq!(
                names(on_phase(&observed, &change)),
                expected,
                "by {writer:?}"
            );
        }
    }

    #[test]
    fn a_link_wakes_the_phases_of_its_cluster() {
        let observed = Observed::default();
        for (name, class) in [
            ("a", "cluster.edge"),
            ("b", "cluster.other"),
            ("c", "default"),
        ] {
            observed.phases.observe(phase(name, class, 5, &json!({})));
        }
        assert_eq!(names(on_link(&observed, "edge")), "shop/a");
    }

    /// The heartbeat object shows that the namespace of the agent exists.
    #[test]
    fn a_place_for_mirrors_wakes_the_phases_of_its_cluster() {
        let observed = Observed::default();
        for (name, class) in [("a", "cluster.edge"), ("b", "cluster.other")] {
            observed.phases.observe(phase(name, class, 5, &json!({})));
        }
        let heartbeat = |version, patch: Value| {
            let mut metadata = json!({"name": HEARTBEAT, "namespace": "baton-cluster-edge"});
            for (key, value) in patch.as_object().into_iter().flatten() {
                metadata[key] = value.clone();
            }
            Some(Arc::new(phase(HEARTBEAT, CLASS_AGENT, version, &metadata)))
        };
        let there = heartbeat(5, json!({}));
        let reported = heartbeat(6, json!({"generation": 2}));
        let going = heartbeat(6, json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}));
        for (old, new, expected) in [
            (&None, &there, "shop/a"),
            (&there, &reported, ""),
            (&there, &going, "shop/a"),
            (&there, &None, "shop/a"),
            (&going, &None, ""),
        ] {
            let change = Change {
                old: old.clone(),
                new: new.clone(),
                writer: Some("heartbeat"),
            };
            assert_eq!(names(on_phase(&observed, &change)), expected, "{change:?}");
        }
    }

    #[test]
    fn an_assignment_wakes_the_phases_that_it_is_about() {
        let observed = Observed::default();
        for (name, class) in [
            ("a", "cluster.edge"),
            ("b", "cluster.other"),
            ("c", "default"),
        ] {
            observed.phases.observe(phase(name, class, 5, &json!({})));
        }
        let elsewhere = phase("d", "cluster.edge", 5, &json!({"namespace": "bar"}));
        observed.phases.observe(elsewhere);
        let object = json!({"metadata": {
            "name": "e", "uid": "u-e", "resourceVersion": "5",
            "labels": {"package-operator.run/phase-class": "cluster.edge"},
        }});
        let unbound = Record::read(
            PhaseKind(RevisionKind::ClusterObjectSet),
            &object.to_string(),
        );
        observed.phases.observe(unbound.unwrap());
        let selecting = |clusters: Value| {
            let spec = json!({"namespaces": {"names": ["shop"]}, "clusters": clusters});
            let spec = serde_json::from_value(spec).unwrap();
            Arc::new(Assignment::new("x", Ok(spec)))
        };
        let by_name = selecting(json!({"names": ["other"]}));
        let by_label = selecting(json!({"selector": {"matchLabels": {"name": "edge"}}}));
        let labels = |name: &str| Arc::new(Labels::from([("name".to_owned(), name.to_owned())]));
        for (change, expected) in [
            (
                AssignmentChange::Assignment(vec![by_name.clone()]),
                "shop/b",
            ),
            // Phases that the previous assignments selected are woken too: they may deliver again.
            (
                AssignmentChange::Assignment(vec![by_label.clone()]),
                "bar/d shop/a",
            ),
            (
                AssignmentChange::Assignment(vec![by_name, by_label]),
                "bar/d shop/a shop/b",
            ),
            (
                AssignmentChange::Namespace("shop".to_owned()),
                "shop/a shop/b",
            ),
            (AssignmentChange::Namespace("none".to_owned()), ""),
            (AssignmentChange::Everything, "bar/d shop/a shop/b"),
        ] {
            let woken = names(on_assignment(&observed, &change, labels));
            assert_eq!(woken, expected, "{change:?}");
        }
    }

    #[test]
    fn mirrors_and_phases_wake_each_other() {
        let observed = Observed::default();
        let origin = phase("web-a", "cluster.edge", 5, &json!({}));
        let key = mirror::key("edge", &origin);
        let text = mirror::Origin::of(&origin, None, &[], Reach::default()).text();
        let mirror = phase(
            "x",
            "agent",
            6,
            &json!({
                "name": *key.name, "namespace": *key.namespace,
                "labels": {"package-operator.run/phase-class": CLASS_AGENT},
                "annotations": {baton_apis::constants::ANNOTATION_ORIGIN: text},
            }),
        );
        let appears = |record: &PhaseRecord| Change {
            old: None,
            new: Some(Arc::new(record.clone())),
            writer: None,
        };
        // A mirror without a phase is a stray.
        let stray = format!("{}/{}!", key.namespace, key.name);
        assert_eq!(names(on_phase(&observed, &appears(&mirror))), stray);
        observed.phases.observe(origin.clone());
        assert_eq!(names(on_phase(&observed, &appears(&mirror))), "shop/web-a!");
        // Reports in a loop wake the phase at a limited pace; other changes wake it at once.
        let mut reported = mirror.clone();
        reported
            .set_status(&ObjectSetPhaseStatus::default())
            .unwrap();
        reported.resource_version += 1;
        reported.generation += 1;
        let report = Change {
            old: Some(Arc::new(mirror.clone())),
            ..appears(&reported)
        };
        let (pace, now) = (Pace::default(), Instant::now());
        let delayed = |change: &Change<PhaseKind>| {
            let wakes = at_pace(&pace, change, on_phase(&observed, change), now);
            let wake = wakes.into_iter().next().unwrap();
            assert_eq!(&*wake.key.name, "web-a");
            !wake.after.is_zero()
        };
        let delays = (0..100).filter(|_| delayed(&report)).count();
        assert!((80..100).contains(&delays), "{delays}");
        assert!(!delayed(&appears(&mirror)));
        observed.phases.observe(mirror);
        let gone = Change {
            old: observed.phases.remove(&origin.key),
            new: None,
            writer: None,
        };
        assert_eq!(
            names(on_phase(&observed, &gone)),
            format!("{stray} shop/web-a!")
        );
    }

    #[test]
    fn a_handover_wakes_the_phases_of_the_siblings() {
        let observed = Observed::default();
        let object = json!({"metadata": {
            "name": "v2", "namespace": "shop", "uid": "u2", "resourceVersion": "3",
        }});
        let revision = Record::read(ObjectSet, &object.to_string()).unwrap();
        let reference = |name: &str| ControlledObjectReference {
            kind: "ConfigMap".to_owned(),
            name: name.to_owned(),
            ..ControlledObjectReference::default()
        };
        let affected = AffectedSiblings {
            by: revision.key.sibling("v3"),
            siblings: vec!["v2".to_owned()],
            taken: [reference("b-0")].into(),
        };
        observed.revisions.observe(revision);
        for name in ["a", "b"] {
            let mut record = phase(&format!("v2-{name}"), "default", 5, &json!({}));
            let controller_of = [0, 1].map(|at| reference(&format!("{name}-{at}")));
            let status = ObjectSetPhaseStatus {
                controller_of: controller_of.into(),
                ..ObjectSetPhaseStatus::default()
            };
            record.set_status(&status).unwrap();
            observed.phases.observe(record);
        }
        let delays: Vec<_> = phases_of_siblings(&observed, &affected)
            .into_iter()
            .map(|wake| (wake.key.name.to_string(), wake.after))
            .collect();
        // A revision that has lost nothing yet is about to lose objects, and would report an
        // interim state.
        let expected = [("v2-a", CO_OWNED), ("v2-b", BURST)];
        assert_eq!(
            delays,
            expected.map(|(name, after)| (name.to_owned(), after))
        );
    }
}
