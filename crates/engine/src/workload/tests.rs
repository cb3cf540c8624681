//! The relevant states of pods, in the form of a kubelet.

use serde_json::json;

use super::*;

fn pod(name: &str, status: &Value) -> Value {
    json!({ "metadata": { "name": name }, "status": status })
}

fn container(state: &Value, last: &Value) -> Value {
    let image = "r.example/app:1";
    let status =
        json!({ "name": "app", "image": image, "ready": false, "state": state, "lastState": last });
    json!({ "phase": "Running", "containerStatuses": [status] })
}

fn key(group: &str, kind: &str) -> ObjectKey {
    ObjectKey {
        group: group.to_owned(),
        kind: kind.to_owned(),
        ..ObjectKey::default()
    }
}

#[test]
fn each_way_for_a_pod_to_fail_has_its_reason() {
    let crashed = json!({ "terminated": { "exitCode": 1, "reason": "Error", "message": "password=hunter2" } });
    let killed = json!({ "terminated": { "exitCode": 137, "reason": "OOMKilled" } });
    let waiting = |reason: &str, message: &str| json!({ "waiting": { "reason": reason, "message": message } });
    let running = json!({ "running": { "startedAt": "2026-01-01T00:00:00Z" } });
    let none = json!({});
    let done = json!({ "terminated": { "exitCode": 0, "reason": "Completed" } });
    let image = "container app: ImagePullBackOff: image r.example/app:1 cannot be pulled";
    for (status, expected) in [
        (container(&waiting("ErrImagePull", "x"), &none), Some(image)),
        (
            container(&waiting("ImagePullBackOff", "y"), &none),
            Some(image),
        ),
        (
            container(&waiting("CrashLoopBackOff", "back-off 10s"), &crashed),
            Some("container app: exited with code 1"),
        ),
        (
            container(&running, &crashed),
            Some("container app: exited with code 1"),
        ),
        (
            container(&crashed, &none),
            Some("container app: exited with code 1"),
        ),
        (
            container(&waiting("CrashLoopBackOff", ""), &killed),
            Some("container app: exited with code 137 (OOMKilled)"),
        ),
        (
            container(
                &waiting("CreateContainerConfigError", "secret \"db\" not found"),
                &none,
            ),
            Some("container app: CreateContainerConfigError: secret \"db\" not found"),
        ),
        (container(&waiting("ContainerCreating", ""), &none), None),
        (
            container(&running, &none),
            Some("container app: running, but not ready"),
        ),
        (
            container(&json!({ "terminated": { "exitCode": 0 } }), &none),
            None,
        ),
        (
            container(&waiting("CrashLoopBackOff", "back-off 10s pod=web"), &done),
            Some("container app: exited with code 0"),
        ),
        (
            container(&waiting("CrashLoopBackOff", "back-off 10s pod=web"), &none),
            Some("container app: CrashLoopBackOff"),
        ),
        (
            json!({ "phase": "Pending", "conditions": [
                { "type": "PodScheduled", "status": "False", "message": "0/1 nodes are available" }] }),
            Some("unschedulable: 0/1 nodes are available"),
        ),
        (
            json!({ "phase": "Failed", "reason": "Evicted", "message": "disk" }),
            Some("Evicted: disk"),
        ),
        (json!({ "phase": "Succeeded" }), None),
        (json!({ "phase": "Pending" }), None),
        (
            json!({ "phase": "Running", "initContainerStatuses": [
            { "name": "init", "ready": false, "state": { "running": {} } }] }),
            None,
        ),
        (
            json!({ "containerStatuses": "none", "conditions": 3 }),
            None,
        ),
    ] {
        let pod = pod("web-1", &status);
        assert_eq!(pod_reason(&pod).as_deref(), expected, "{status}");
    }
    assert_eq!(pod_reason(&json!(null)), None);
}

#[test]
fn a_terminating_pod_is_no_reason() {
    let mut pod = pod("web-1", &json!({ "phase": "Failed", "reason": "Evicted" }));
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    assert_eq!(pod_reason(&pod), None);
}

#[test]
fn the_most_frequent_reason_is_reported_with_its_first_pod() {
    let failed =
        |name: &str, reason: &str| pod(name, &json!({ "phase": "Failed", "reason": reason }));
    let fine = pod("web-0", &json!({ "phase": "Running" }));
    let one = [fine.clone(), failed("web-2", "Evicted")];
    assert_eq!(pods_reason(&one).as_deref(), Some("pod web-2: Evicted"));
    let several = [
        failed("web-4", "Evicted"),
        failed("web-1", "NodeLost"),
        failed("web-3", "Evicted"),
    ];
    let text = "pod web-3: Evicted (and 2 more pods fail)";
    assert_eq!(pods_reason(&several).as_deref(), Some(text));
    assert_eq!(pods_reason(&[fine]), None);
    let long = failed("web-1", &"word\n".repeat(1000));
    let reported = pods_reason(&[long]).unwrap();
    assert!(
        reported.len() <= MAX_TEXT && !reported.contains('\n'),
        "{reported}"
    );
}

/// The states of a Deployment's container that ends repeatedly without a failure.
#[test]
fn a_container_that_should_not_end_fails_with_any_code() {
    let done = json!({ "terminated": { "exitCode": 0, "reason": "Completed" } });
    let back_off = |time: &str| {
        let message = format!("back-off {time} restarting failed container=app pod=web-1");
        json!({ "waiting": { "reason": "CrashLoopBackOff", "message": message } })
    };
    let expected = Some("container app: exited with code 0");
    for (state, last) in [
        (done.clone(), json!({})),
        (back_off("10s"), done.clone()),
        (json!({ "running": {} }), done.clone()),
        (back_off("20s"), done.clone()),
    ] {
        let mut pod = pod("web-1", &container(&state, &last));
        pod["spec"]["restartPolicy"] = "Always".into();
        assert_eq!(pod_reason(&pod).as_deref(), expected, "{state}");
        assert_eq!(crashed_container(&pod), Some("app"));
    }
    // A container that runs to its end is done, while another one of the same pod still runs.
    let mut pod = pod("job-1", &container(&done, &json!({})));
    pod["spec"]["restartPolicy"] = "OnFailure".into();
    assert_eq!(pod_reason(&pod), None);
    // An init container is done too, for any state of the other containers.
    let init = json!({ "name": "init", "ready": false, "state": done });
    let mut pod = json!({ "spec": { "restartPolicy": "Always" } });
    pod["status"]["initContainerStatuses"] = json!([init]);
    assert_eq!(pod_reason(&pod), None);
}

#[test]
fn ended_pods_count_only_if_no_other_pod_fails() {
    let evicted = |name: &str| {
        pod(
            name,
            &json!({ "phase": "Failed", "reason": "Evicted", "message": "disk" }),
        )
    };
    let back_off = json!({ "waiting": { "reason": "ImagePullBackOff" } });
    let new = pod("web-z", &container(&back_off, &json!({})));
    let left = ["web-a", "web-b", "web-c"].map(evicted);
    let pods = left.iter().chain([&new]);
    let text = "pod web-z: container app: ImagePullBackOff: image r.example/app:1 cannot be pulled";
    assert_eq!(pods_reason(pods).as_deref(), Some(text));
    let text = "pod web-a: Evicted: disk (and 2 more pods fail)";
    assert_eq!(pods_reason(&left).as_deref(), Some(text));
}

#[test]
fn only_a_container_that_has_crashed_has_a_log_to_show() {
    let crashed = container(
        &json!({ "running": {} }),
        &json!({ "terminated": { "exitCode": 1 } }),
    );
    assert_eq!(crashed_container(&pod("a", &crashed)), Some("app"));
    let waiting = container(
        &json!({ "waiting": { "reason": "ErrImagePull" } }),
        &json!({}),
    );
    assert_eq!(crashed_container(&pod("a", &waiting)), None);
}

#[test]
fn failures_are_read_from_the_conditions_of_a_workload() {
    let with = |type_: &str, status: &str| {
        json!({ "status": { "conditions": [
            { "type": "Available", "status": "False", "message": "Deployment does not have minimum availability." },
            { "type": type_, "status": status, "reason": "FailedCreate", "message": "exceeded\nquota" }] } })
    };
    let reported = |kind: ObjectKey, live: &Value| own_reason(&kind, live);
    let expected = Some("FailedCreate: exceeded quota".to_owned());
    assert_eq!(
        reported(key("apps", "Deployment"), &with("ReplicaFailure", "True")),
        expected
    );
    assert_eq!(
        reported(key("apps", "Deployment"), &with("Progressing", "False")),
        expected
    );
    assert_eq!(
        reported(key("batch", "Job"), &with("Failed", "True")),
        expected
    );
    assert_eq!(
        reported(key("apps", "Deployment"), &with("Progressing", "True")),
        None
    );
    // The conditions of a custom resource may have any meaning.
    assert_eq!(
        reported(key("shop.example", "Deployment"), &with("Failed", "True")),
        None
    );
}

#[test]
fn the_cause_in_a_message_is_found() {
    let pod = "pod web-1: container app: ImagePullBackOff (and 2 more pods fail)";
    let message = with_reason(
        "Phase \"a\" failed: apps Deployment b/web: too few (1)",
        pod,
    );
    for (message, expected) in [
        (message.clone(), Some(pod)),
        (format!("{message}, apps StatefulSet b/db: no"), Some(pod)),
        (
            with_reason("x (y)", "Failed: quota (1)"),
            Some("Failed: quota (1)"),
        ),
        ("x (pod web-1: cut".to_owned(), Some("pod web-1: cut")),
        ("x (y) z".to_owned(), None),
        ("x)".to_owned(), None),
    ] {
        assert_eq!(cause_in(&message), expected, "{message}");
    }
}
