//! Why something does not come up, in the words of those who know: pods, and what an object needs.

use baton_integration::prelude::*;

use crate::deployments::{workload, workload_probe};

both_scopes! {
    a_failing_workload_tells_what_its_pods_say;
    a_claim_waits_for_its_storage_class;
}

/// No watch tells of pods: the manager asks for them once the workload has failed for a while.
async fn a_failing_workload_tells_what_its_pods_say(scope: Scope) {
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
    // Anywhere will do: the reason goes with the failure.
    let anywhere = workload("web", "r.example/web:2");
    ns.revision(2)
        .previous(&["v1"])
        .phase("a", [anywhere])
        .probe(workload_probe())
        .reaching(&[Is("Available", "True"), Is("Ready", "True")])
        .await;
}

/// The server takes such a claim, and nothing ever happens to it.
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
    let class = object("storage.k8s.io/v1", "StorageClass", &class)
        .with("/provisioner", "example.com/none")
        .with("/volumeBindingMode", "WaitForFirstConsumer");
    ns.create_elsewhere(&class).await;
    ns.reaches("v1", &[Is("Available", "True")]).await;
}
