//! The cause of a failure, as reported by pods and by the objects that an object requires.

use baton_integration::prelude::*;

use crate::deployments::{workload, workload_probe};

both_scopes! {
    a_failing_workload_reports_the_reason_of_its_pods;
    a_claim_waits_for_its_storage_class;
}

/// Pods are not watched: the manager lists them once the workload has failed for a while.
async fn a_failing_workload_reports_the_reason_of_its_pods(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let nowhere = json!({ "baton.example/no-such-node": "x" });
    let web = workload("web", "r.example/web:1").with("/spec/template/spec/nodeSelector", nowhere);
    let set = ns
        .revision(1)
        .phase("a", [web])
        .probe(workload_probe())
        .reaching(&[
            Because("Available", "False", "ProbeFailure"),
            Says("Available", "(pod web-"),
            Says("Available", ": unschedulable: "),
            Says("Ready", ": unschedulable: "),
        ])
        .await;
    let waiting = &set.json["status"]["waitingFor"][0];
    assert_eq!(
        (&waiting["kind"], &waiting["name"]),
        (&json!("Deployment"), &json!("web"))
    );
    let message = waiting["message"].as_str().unwrap();
    assert!(message.contains("(and 1 more pod fails)"), "{message}");
    // The new revision can run on any node. The reason disappears with the failure.
    let anywhere = workload("web", "r.example/web:2");
    ns.revision(2)
        .previous(&["v1"])
        .phase("a", [anywhere])
        .probe(workload_probe())
        .reaching(&[Is("Available", "True"), Is("Ready", "True")])
        .await;
}

/// Logs are read on request only. The nodes of the bed have no logs, which is reported like a
/// missing right.
#[tokio::test]
async fn logs_of_crashed_containers_are_read_only_on_request() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    ns.revision(1)
        .phase("a", [workload("web", "r.example/broken:1")])
        .probe(workload_probe())
        .reaching(&[Because("Available", "False", "ProbeFailure")])
        .await;
    let like = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "namespace": ns.name() } });
    let pods = async || ns.cluster().list(&like, "workload=web").await;
    let is_pulling = |pod: &Value| pod["status"]["containerStatuses"][0].is_object();
    ns.eventually("pods that cannot be started", async || {
        pods().await.iter().filter(|pod| is_pulling(pod)).count() == 2
    })
    .await;
    let status = ["status", "v1"];
    let with_logs = || ns.plugin(&[&status[..], &["--logs"]].concat());
    let heading = "Logs of crashed containers";
    let before = with_logs();
    assert_eq!(before.code, 1, "{before:?}");
    assert!(!before.stdout.contains(heading), "{before:?}");

    let ended = json!({ "exitCode": 3, "reason": "Error", "containerID": "", "startedAt": null, "finishedAt": null });
    for mut pod in pods().await {
        pod["apiVersion"] = "v1".into();
        pod["kind"] = "Pod".into();
        let mut container = pod["status"]["containerStatuses"][0].clone();
        container["state"] = json!({ "waiting": { "reason": "CrashLoopBackOff" } });
        container["lastState"] = json!({ "terminated": ended });
        container["restartCount"] = 2.into();
        let crashed = json!({ "status": { "phase": "Running", "containerStatuses": [container] } });
        ns.cluster().merge_status(&pod, &crashed).await.unwrap();
    }
    let reported = with_logs();
    assert_eq!(reported.code, 1, "{reported:?}");
    let (_, logs) = reported.stdout.split_once(heading).unwrap();
    assert!(
        logs.contains("Deployment/web   web-") && logs.contains("<unknown: "),
        "{reported:?}"
    );
    let plain = ns.plugin(&status);
    assert!(!plain.stdout.contains(heading), "{plain:?}");
}

/// The server accepts a claim without its storage class, and the claim stays pending.
async fn a_claim_waits_for_its_storage_class(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let class = ns.unique("fast");
    let claim = object("v1", "PersistentVolumeClaim", "data").with(
        "/spec",
        json!({
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": class,
            "resources": { "requests": { "storage": "1Gi" } },
        }),
    );
    let text = format!("storage class \"{class}\" does not exist");
    ns.revision(1)
        .phase("a", [claim])
        .phase("b", [configmap("after")])
        .reaching(&[
            Because("Available", "False", "ProbeFailure"),
            Says("Available", &text),
        ])
        .await;
    assert_eq!(ns.get(&configmap("after")).await, None);
    let kind = match scope {
        Scope::Namespaced => "os",
        Scope::Cluster => "cos",
    };
    let target = format!("{kind}/{}", ns.set_name("v1"));
    let tree = ns.plugin(&["tree", &target]).success();
    let is_reported = tree
        .lines()
        .any(|line| line.contains("PersistentVolumeClaim/data") && line.contains("False"));
    assert!(is_reported && tree.contains("does not exist"), "{tree}");
    let class = object("storage.k8s.io/v1", "StorageClass", &class)
        .with("/provisioner", "example.com/none")
        .with("/volumeBindingMode", "WaitForFirstConsumer");
    ns.create_elsewhere(&class).await;
    ns.reaches("v1", &[Is("Available", "True")]).await;
}
