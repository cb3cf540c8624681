//! The stopped form of manifests, and the states in which a stopped workload has no pods.

use super::*;

fn object(kind: &str, spec: Value) -> ObjectSetObject {
    let (api, kind) = kind.rsplit_once('/').unwrap();
    let mut object = json!({
        "apiVersion": api, "kind": kind,
        "metadata": {"name": "x", "labels": {LABEL_SERVICE: "web"}, "annotations": {"own": "y"}},
    });
    object["spec"] = spec;
    ObjectSetObject {
        object,
        ..ObjectSetObject::default()
    }
}

fn stopped(mut entry: ObjectSetObject, which: &SiteStop) -> ObjectSetObject {
    stop(std::slice::from_mut(&mut entry), which);
    entry
}

#[test]
fn workloads_are_changed_so_that_they_run_no_pods() {
    let none = json!({ ANNOTATION_STOPPED: "true" });
    for (kind, spec, expected) in [
        (
            "apps/v1/Deployment",
            json!({"replicas": 3, "x": 1}),
            json!({"replicas": 0, "x": 1}),
        ),
        ("apps/v1/Deployment", json!({}), json!({"replicas": 0})),
        (
            "apps/v1/StatefulSet",
            json!({"replicas": 2}),
            json!({"replicas": 0}),
        ),
        ("apps/v1/ReplicaSet", json!({}), json!({"replicas": 0})),
        (
            "v1/ReplicationController",
            json!({}),
            json!({"replicas": 0}),
        ),
        (
            "example.com/v1/Database",
            json!({"replicas": 5}),
            json!({"replicas": 0}),
        ),
        (
            "batch/v1/CronJob",
            json!({"schedule": "x"}),
            json!({"schedule": "x", "suspend": true}),
        ),
        (
            "batch/v1/Job",
            json!({"suspend": false}),
            json!({"suspend": true}),
        ),
        (
            "apps/v1/DaemonSet",
            json!({"template": {"spec": {"nodeSelector": {"a": "b"}, "y": 1}}}),
            json!({"template": {"spec": {"nodeSelector": none, "y": 1}}}),
        ),
    ] {
        let stopped = stopped(object(kind, spec), &SiteStop::All);
        assert_eq!(stopped.object["spec"], expected, "{kind}");
        assert!(is_stopped(&stopped.object), "{kind}");
        let annotations = json!({ "own": "y", ANNOTATION_STOPPED: "true" });
        assert_eq!(stopped.object["metadata"]["annotations"], annotations);
    }
    // An object that is no workload does not change, nor does a malformed one, which is reported
    // elsewhere.
    for (kind, spec) in [
        ("v1/ConfigMap", json!({})),
        ("v1/Service", json!({"selector": {}})),
        ("example.com/v1/Database", json!({"replicas": "many"})),
        ("apps/v1/Deployment", json!([1])),
        ("apps/v1/DaemonSet", json!({"template": "x"})),
    ] {
        let before = object(kind, spec);
        assert_eq!(stopped(before.clone(), &SiteStop::All), before, "{kind}");
    }
    for metadata in [json!(null), json!(1), json!({"annotations": []})] {
        let mut entry = object("apps/v1/Deployment", json!({}));
        entry.object["metadata"] = metadata;
        stopped(entry, &SiteStop::All);
    }
}

#[test]
fn only_workloads_of_the_given_services_stop() {
    let services =
        |names: &[&str]| SiteStop::Services(names.iter().map(ToString::to_string).collect());
    let mut unlabelled = object("apps/v1/Deployment", json!({}));
    unlabelled.object["metadata"]["labels"] = json!({});
    for (which, labelled, other) in [
        (SiteStop::None, false, false),
        (SiteStop::All, true, true),
        (services(&[]), false, false),
        (services(&["db", "web"]), true, false),
        (services(&["db"]), false, false),
    ] {
        let web = stopped(object("apps/v1/Deployment", json!({})), &which);
        assert_eq!(is_stopped(&web.object), labelled, "{which:?}");
        assert_eq!(
            is_stopped(&stopped(unlabelled.clone(), &which).object),
            other,
            "{which:?}"
        );
    }
}

/// If the count of replicas stayed create-only, it would not change, and the workload would
/// continue to run.
#[test]
fn the_field_that_stops_a_workload_is_not_create_only() {
    for (kind, path, is_kept) in [
        ("apps/v1/Deployment", ".spec.replicas", false),
        ("apps/v1/Deployment", ".spec", false),
        ("apps/v1/Deployment", ".spec.template", true),
        ("apps/v1/Deployment", ".spec.suspend", true),
        ("batch/v1/CronJob", ".spec.suspend", false),
        (
            "apps/v1/DaemonSet",
            ".spec.template.spec.nodeSelector.a",
            false,
        ),
        ("apps/v1/DaemonSet", ".spec.replicas", true),
        ("apps/v1/Deployment", "malformed", true),
    ] {
        let entry = ObjectSetObject {
            create_only_fields: vec![path.to_owned()],
            ..object(kind, json!({}))
        };
        let kept = !stopped(entry, &SiteStop::All).create_only_fields.is_empty();
        assert_eq!(kept, is_kept, "{kind} {path}");
    }
}

#[test]
fn the_field_that_stopped_a_workload_is_set_on_start() {
    let path = |text: &str| FieldPath::parse(text).unwrap();
    let running = object("apps/v1/Deployment", json!({})).object;
    let still = stopped(object("apps/v1/Deployment", json!({})), &SiteStop::All).object;
    for (text, expected) in [(".spec.replicas", true), (".spec.paused", false)] {
        assert_eq!(is_switched_on(&still, &path(text)), expected, "{text}");
        assert!(!is_switched_on(&running, &path(text)), "{text}");
    }
}

#[test]
fn pods_are_known_from_the_status_of_a_workload_or_asked_for() {
    let selector = json!({"matchLabels": {"app": "x"}});
    let ask = |selector: &Value| Pods::Ask(selector.clone());
    for (kind, status, expected) in [
        ("Deployment", json!({}), ask(&selector)),
        (
            "Deployment",
            json!({"replicas": 0, "observedGeneration": 2}),
            ask(&selector),
        ),
        (
            "Deployment",
            json!({"replicas": 1, "observedGeneration": 2}),
            Pods::Some,
        ),
        (
            "Deployment",
            json!({"replicas": 0, "observedGeneration": 1}),
            Pods::Some,
        ),
        (
            "DaemonSet",
            json!({"currentNumberScheduled": 1}),
            Pods::Some,
        ),
        ("DaemonSet", json!({"numberMisscheduled": 1}), Pods::Some),
        (
            "DaemonSet",
            json!({"currentNumberScheduled": 0}),
            ask(&selector),
        ),
        ("Job", json!({"active": 1}), Pods::Some),
        ("Job", json!({"succeeded": 1}), ask(&selector)),
    ] {
        let live = json!({
            "kind": kind, "metadata": {"generation": 2}, "spec": {"selector": selector}, "status": status,
        });
        assert_eq!(pods(&live), expected, "{live}");
    }
    let live = |kind: &str, spec: Value, status: Value| json!({"kind": kind, "spec": spec, "status": status});
    let plain = json!({"selector": {"app": "x"}});
    assert_eq!(
        pods(&live("ReplicationController", plain, json!({}))),
        ask(&selector)
    );
    for (active, expected) in [
        (json!([]), Pods::None),
        (json!([{"name": "x-1"}]), Pods::Some),
    ] {
        assert_eq!(
            pods(&live("CronJob", json!({}), json!({"active": active}))),
            expected
        );
    }
    assert_eq!(
        pods(&live("Database", json!({"replicas": 0}), json!({}))),
        Pods::None
    );
}

#[test]
fn pods_without_a_workload_are_marked_and_end() {
    let marked = stopped(object("v1/Pod", json!({"x": 1})), &SiteStop::All).object;
    assert!(is_stopped(&marked) && is_bare_pod(&marked));
    assert_eq!(marked["spec"], json!({"x": 1}));
    let other = object("example.com/v1/Pod", json!({}));
    assert_eq!(stopped(other.clone(), &SiteStop::All), other);

    let pod = |phase: &str, more: Value| {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"uid": "u", "resourceVersion": "7"},
            "status": {"phase": phase},
        });
        for (key, value) in more.as_object().unwrap() {
            pod["metadata"][key] = value.clone();
        }
        pod
    };
    let deleting = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
    let kept = json!({"annotations": {"baton.run/deletion": "keep"}});
    for (pod, ends, expected) in [
        (pod("Running", json!({})), true, Pods::Some),
        (pod("Pending", json!({})), true, Pods::Some),
        (pod("Running", deleting), false, Pods::Some),
        (pod("Succeeded", json!({})), false, Pods::None),
        (pod("Failed", json!({})), false, Pods::None),
        (pod("Running", kept), false, Pods::None),
    ] {
        assert_eq!(pods(&pod), expected, "{pod}");
        assert_eq!(end(&pod).is_some(), ends, "{pod}");
    }
}
