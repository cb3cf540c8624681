//! Objects that do more than config maps: they become ready, the server rewrites them, or their
//! kind is installed and removed.

use baton_integration::exclusive::Exclusive;
use baton_integration::prelude::*;

use crate::requests::{Count, settle};

both_scopes! {
    a_deployment_becomes_ready;
    a_revision_follows_the_deletion_and_return_of_a_kind;
}

fn web(image: &str) -> Entry {
    let container = json!({
        "name": "web",
        "image": image,
        // The server stores these values as "1" and "1Gi".
        "resources": { "limits": { "cpu": "1000m", "memory": "1024Mi" } },
    });
    object("apps/v1", "Deployment", "web")
        .with("/spec/replicas", 2)
        .with("/spec/selector/matchLabels/app", "web")
        .with("/spec/template/metadata/labels/app", "web")
        .with("/spec/template/spec/containers", json!([container]))
}

/// Returns the two usual probes of deployments.
fn ready() -> Value {
    let mut probe = condition_probe("apps", "Deployment", "Available");
    let rolled_out = fields_equal(
        "apps",
        "Deployment",
        ".status.updatedReplicas",
        ".status.replicas",
    );
    let more = rolled_out["probes"].as_array().cloned().unwrap_or_default();
    probe["probes"].as_array_mut().unwrap().extend(more);
    probe
}

async fn a_deployment_becomes_ready(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let (before, after) = (configmap("before"), configmap("after"));
    ns.revision(1)
        .phase("a", [before.clone()])
        .phase("b", [web("image:1").map("Available", "demo.example/Web")])
        .phase("c", [after.clone()])
        .probe(ready())
        .create()
        .await;
    let wanted = [
        Is("Available", "True"),
        Is("Succeeded", "True"),
        Is("demo.example/Web", "True"),
    ];
    let all = Controls(&["ConfigMap before", "Deployment.apps web", "ConfigMap after"]);
    ns.reaches("v1", &wanted).await.assert(&[all]);

    // The pods of this image never become ready, so the following phases wait.
    ns.revision(2)
        .phase("a", [before.clone()])
        .phase("b", [web("broken:1")])
        .phase("c", [after.clone()])
        .probe(ready())
        .create()
        .await;
    let wanted = [
        Because("Available", "False", "ProbeFailure"),
        Says("Available", "Phase \"b\" failed: apps Deployment "),
        Controls(&["ConfigMap before", "Deployment.apps web"]),
    ];
    ns.reaches("v2", &wanted).await;
    ns.reaches(
        "v1",
        &[Is("InTransition", "True"), Controls(&["ConfigMap after"])],
    )
    .await;
    let text = "\".status.updatedReplicas\" != \".status.replicas\"";
    ns.reaches("v2", &[Says("Available", text)]).await;

    ns.set("v3")
        .revision(3)
        .previous(&["v1", "v2"])
        .phase("a", [before])
        .phase("b", [web("image:3")])
        .phase("c", [after])
        .probe(ready())
        .reaching(&[Is("Available", "True"), No("InTransition"), all])
        .await;
}

/// Returns a definition of a kind that no other test has.
pub(crate) fn definition(ns: &TestNamespace) -> (Entry, String) {
    let group = format!("{}.example", ns.name());
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let scope = "Namespaced";
    let crd = object("apiextensions.k8s.io/v1", "CustomResourceDefinition", &format!("things.{group}"))
        .with("/spec", json!({
            "group": group, "scope": scope,
            "names": { "plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": schema },
            }],
        }));
    (crd, format!("{group}/v1"))
}

async fn a_revision_follows_the_deletion_and_return_of_a_kind(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let (crd, api_version) = definition(&ns);
    let thing = object(&api_version, "Thing", "thing").with("/spec/size", 1);
    let other = configmap("other");
    ns.revision(1)
        .phase("a", [thing.clone()])
        .phase("b", [other.clone()])
        .create()
        .await;
    let wanted = [
        Because("Available", "False", "PreflightError"),
        Says("Available", "Kind=Thing not registered on the api server."),
    ];
    ns.reaches("v1", &wanted).await;

    ns.create_elsewhere(&crd).await;
    let long = Duration::from_secs(45);
    let name = format!("Thing.{}", api_version.trim_end_matches("/v1"));
    let name = format!("{name} thing");
    let all = [
        Is("Available", "True"),
        Controls(&[&name, "ConfigMap other"]),
    ];
    ns.within(long).reaches("v1", &all).await;
    ns.merge(&thing, &json!({ "spec": { "size": 2 } })).await;
    ns.object_becomes(&thing, "repaired", |live| live["spec"]["size"] == 1)
        .await;

    // The deletion of a definition deletes all its objects.
    ns.delete(&crd).await;
    ns.gone(&crd).await;
    ns.within(long)
        .reaches("v1", &[Because("Available", "False", "PreflightError")])
        .await;
    ns.create_elsewhere(&crd).await;
    ns.within(long).reaches("v1", &all).await;
    ns.merge(&thing, &json!({ "spec": { "size": 2 } })).await;
    ns.object_becomes(&thing, "repaired", |live| live["spec"]["size"] == 1)
        .await;

    // A kind that is not served has no objects, so the archival does not wait for them.
    ns.delete(&crd).await;
    ns.gone(&crd).await;
    ns.set_lifecycle("v1", "Archived").await;
    ns.within(long)
        .reaches("v1", &[Is("Archived", "True")])
        .await;
    assert_eq!(ns.get(&other).await, None);
}

/// The server stores many values in another format than the one that was sent. The difference is no
/// drift, neither for the manager that wrote the values nor for the next one.
#[tokio::test]
async fn normalised_values_are_no_drift() {
    let mut bed = Exclusive::acquire().await;
    let ns = bed.namespace(Scope::Namespaced).await;
    let objects = [
        web("image:1"),
        object("v1", "Service", "web").with(
            "/spec",
            json!({
                "selector": { "app": "web" },
                "ports": [{ "port": 80, "name": "a" }, { "port": 81, "name": "b" }],
            }),
        ),
        object("v1", "ServiceAccount", "web"),
        secret("plain").with("/stringData/password", "secret"),
        secret("data").with("/data/password", "c2VjcmV0"),
        object("v1", "PersistentVolumeClaim", "disk").with(
            "/spec",
            json!({
                "accessModes": ["ReadWriteOnce"],
                "resources": { "requests": { "storage": "1024Mi" } },
            }),
        ),
        object("rbac.authorization.k8s.io/v1", "Role", "reader").with(
            "/rules",
            json!([{ "apiGroups": [""], "resources": ["pods"], "verbs": ["get"] }]),
        ),
        object("autoscaling/v2", "HorizontalPodAutoscaler", "web").with(
            "/spec",
            json!({
                "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
                "maxReplicas": 4,
                "metrics": [{ "type": "Resource", "resource": {
                    "name": "cpu", "target": { "type": "AverageValue", "averageValue": "0.5" },
                } }],
            }),
        ),
        object("batch/v1", "CronJob", "nightly").with(
            "/spec",
            json!({
                "schedule": "0 3 * * *",
                "jobTemplate": { "spec": { "template": { "spec": {
                    "restartPolicy": "Never",
                    "containers": [{ "name": "c", "image": "image:1" }],
                } } } },
            }),
        ),
        object("networking.k8s.io/v1", "NetworkPolicy", "closed").with(
            "/spec",
            json!({ "podSelector": {}, "policyTypes": ["Ingress"], "ingress": [] }),
        ),
        // A null is no value, and the server drops an empty map.
        configmap("odd")
            .with("/data/k", "v")
            .with("/binaryData", json!({})),
        configmap("null").with("/data", json!({ "k": "v", "none": null })),
    ];
    let count = objects.len();
    let set = ns
        .revision(1)
        .phase("a", objects)
        .reaching(&[Is("Available", "True"), Is("Succeeded", "True")])
        .await;
    assert_eq!(set.controller_of().len(), count);
    settle(&ns, &bed).await;
    let counted = Count::start(&bed);
    // An event of an object of each kind triggers a reconcile.
    for (kind, name) in [
        ("Secret", "plain"),
        ("ConfigMap", "null"),
        ("ServiceAccount", "web"),
    ] {
        let patch = json!({ "metadata": { "annotations": { "look": "again" } } });
        ns.merge(&object("v1", kind, name), &patch).await;
    }
    settle(&ns, &bed).await;
    assert!(
        counted.so_far(&bed).is_empty(),
        "{:?}",
        counted.so_far(&bed)
    );

    for round in 0..2 {
        bed.take_manager().kill();
        bed.start_manager();
        settle(&ns, &bed).await;
        let metrics = bed.manager().metrics();
        assert_eq!(metrics.writes(), 0, "restart {round}");
        assert_eq!(metrics.requests("get"), 0, "restart {round}");
    }
}
