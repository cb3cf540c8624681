//! Shipper's kinds in an API server: writes of the status, admission, and the columns of `kubectl
//! get`.

use baton_integration::prelude::*;
use baton_integration::unmanaged;

const API_VERSION: &str = "shipper.booking.com/v1alpha1";
const STATUS_VERSION: &str = "shipper.booking.com/v1alpha0";

fn environment() -> Value {
    json!({
        "chart": { "name": "nginx", "version": "0.0.1", "repoUrl": "https://charts.example.com" },
        "values": { "replicaCount": 3, "nested": { "list": [1, { "a": null }] } },
        "clusterRequirements": { "regions": [{ "name": "local" }] },
        "strategy": { "steps": [{
            "name": "full on",
            "capacity": { "incumbent": 0, "contender": 100 },
            "traffic": { "incumbent": 0, "contender": 100 },
        }] },
    })
}

fn kind(kind: &str, spec: Value) -> Entry {
    object(API_VERSION, kind, "shop").with("/spec", spec)
}

fn application() -> Entry {
    kind("Application", json!({ "template": environment() }))
}

fn release() -> Entry {
    kind(
        "Release",
        json!({ "targetStep": 0, "environment": environment() }),
    )
}

fn installation_target() -> Entry {
    kind(
        "InstallationTarget",
        json!({ "clusters": ["a"], "canOverride": true }),
    )
}

fn capacity_target() -> Entry {
    let cluster = json!({ "name": "a", "percent": 1, "totalReplicaCount": 3 });
    kind("CapacityTarget", json!({ "clusters": [cluster] }))
}

fn traffic_target() -> Entry {
    kind(
        "TrafficTarget",
        json!({ "clusters": [{ "name": "a", "weight": 1 }] }),
    )
}

fn status(type_: &str) -> Value {
    json!({ "conditions": [
        { "type": type_, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" },
    ] })
}

fn with(mut object: Value, field: &str, value: Value) -> Value {
    object[field] = value;
    object
}

fn at_version(object: &Value, version: &str) -> Value {
    with(object.clone(), "apiVersion", version.into())
}

fn generation(object: &Value) -> i64 {
    object["metadata"]["generation"].as_i64().unwrap()
}

/// Backups are restored with their statuses, and Shipper's clients replace an object together with
/// its status.
#[tokio::test]
async fn a_status_is_written_together_with_its_object() {
    let ns = unmanaged::namespace().await;
    for (entry, spec) in [
        (application(), json!({ "revisionHistoryLimit": 3 })),
        (release(), json!({ "targetStep": 1 })),
        (installation_target(), json!({ "canOverride": false })),
    ] {
        let created = ns.create(&entry.with("/status", status("Old"))).await;
        assert_eq!(created["status"], status("Old"));

        let mut changed = with(created.clone(), "status", status("New"));
        for (field, value) in spec.as_object().unwrap() {
            changed["spec"][field] = value.clone();
        }
        let updated = ns.cluster().update(&changed).await.unwrap();
        assert_eq!(updated["status"], status("New"));
        assert_eq!(updated["spec"], changed["spec"]);

        let patch = json!({ "status": status("Patched") });
        let patched = ns.cluster().merge(&updated, &patch).await.unwrap();
        assert_eq!(patched["status"], status("Patched"));
        assert!(generation(&patched) > generation(&updated));

        let refused = ns.cluster().update_status(&patched).await.unwrap_err();
        assert_eq!(refused.code, 404, "{refused:?}");
        let stale = ns.cluster().update(&updated).await.unwrap_err();
        assert_eq!(stale.reason, "Conflict", "{stale:?}");
    }
}

#[tokio::test]
async fn a_status_is_updated_alone_in_the_version_with_the_subresource() {
    let ns = unmanaged::namespace().await;
    for entry in [application(), release(), installation_target()] {
        let created = ns.create(&entry.with("/status", status("Old"))).await;
        let mut changed = at_version(&created, STATUS_VERSION);
        changed["status"] = status("New");
        changed["metadata"]["labels"] = json!({ "not": "taken" });
        changed["spec"] = json!({});
        let updated = ns.cluster().update_status(&changed).await.unwrap();
        assert_eq!(updated["status"], status("New"));
        assert_eq!(generation(&updated), generation(&created));

        // The stored object is the same in both versions.
        let read = ns.cluster().get(&created).await.unwrap();
        assert_eq!(read["status"], status("New"));
        assert_eq!(read["spec"], created["spec"]);
        assert!(read["metadata"].get("labels").is_none());
        assert_eq!(
            read["metadata"]["resourceVersion"],
            updated["metadata"]["resourceVersion"]
        );

        let without = with(updated.clone(), "status", Value::Null);
        let kept = ns.cluster().update(&without).await.unwrap();
        assert_eq!(kept["status"], status("New"));
        let stale = ns.cluster().update_status(&changed).await.unwrap_err();
        assert_eq!(stale.reason, "Conflict", "{stale:?}");
    }
}

#[tokio::test]
async fn the_version_of_shippers_clients_is_the_preferred_one() {
    let ns = unmanaged::namespace().await;
    let group = ns.cluster().read("/apis/shipper.booking.com").await;
    assert_eq!(group["preferredVersion"]["version"], "v1alpha1");
}

#[tokio::test]
async fn capacity_and_traffic_targets_have_a_status_subresource() {
    let ns = unmanaged::namespace().await;
    for entry in [capacity_target(), traffic_target()] {
        let created = ns.create(&entry.with("/status", status("Dropped"))).await;
        assert!(created.get("status").is_none());
        let changed = with(created.clone(), "status", status("New"));
        let updated = ns.cluster().update_status(&changed).await.unwrap();
        assert_eq!(updated["status"], status("New"));
        assert_eq!(generation(&updated), generation(&created));
        let emptied = with(updated.clone(), "status", Value::Null);
        let kept = ns.cluster().update(&emptied).await.unwrap();
        assert_eq!(kept["status"], status("New"));
    }
}

#[tokio::test]
async fn values_are_kept_whole_and_may_be_null_or_absent() {
    let ns = unmanaged::namespace().await;
    for (name, values) in [
        ("some", environment()["values"].clone()),
        ("none", json!({})),
        ("null", Value::Null),
    ] {
        let entry = release().with("/metadata/name", name);
        let entry = entry.with("/spec/environment/values", values.clone());
        ns.create(&entry).await;
        let live = ns.live(&entry).await;
        assert_eq!(live["spec"]["environment"].get("values"), Some(&values));
    }
    let mut absent = release();
    let environment = absent.manifest["spec"]["environment"].as_object_mut();
    environment.unwrap().remove("values");
    let live = ns.create(&absent).await;
    assert!(live["spec"]["environment"].get("values").is_none());
}

/// Go programs write null for an absent list.
#[tokio::test]
async fn null_is_admitted_for_optional_fields() {
    let ns = unmanaged::namespace().await;
    let release = release()
        .with(
            "/spec/environment/clusterRequirements/capabilities",
            Value::Null,
        )
        .with(
            "/status",
            json!({
                "achievedStep": null,
                "conditions": null,
                "strategy": { "state": null, "conditions": null },
            }),
        );
    ns.create(&release).await;
    // As in the documentation of Shipper.
    let conditions = json!([{
        "type": "ContenderAchievedCapacity", "status": "True", "step": 2,
        "lastTransitionTime": "2018-12-09T10:00:55Z",
    }]);
    let patch = json!({ "status": { "strategy": { "conditions": conditions } } });
    ns.merge(&release, &patch).await;
    let application = application().with("/spec/revisionHistoryLimit", Value::Null);
    ns.create(&application.with("/status", json!({ "history": null })))
        .await;
}

#[tokio::test]
async fn invalid_fields_are_refused_by_the_schema() {
    let ns = unmanaged::namespace().await;
    let step = "/spec/environment/strategy/steps/0";
    let many = json!(vec![json!({ "name": "local" }); 1001]);
    for (entry, pointer, value, path) in [
        (release(), "/spec/targetStep", json!(-1), "spec.targetStep"),
        (
            release(),
            "/spec/environment/values",
            json!([1]),
            "spec.environment.values",
        ),
        (
            release(),
            "/spec/environment/chart",
            json!({ "name": "nginx" }),
            "spec.environment.chart.version",
        ),
        (
            release(),
            "/spec/environment/clusterRequirements/regions",
            many,
            "clusterRequirements.regions",
        ),
        (
            release(),
            &format!("{step}/capacity/contender"),
            json!(101),
            "capacity.contender",
        ),
        (
            release(),
            &format!("{step}/traffic/incumbent"),
            json!(-1),
            "traffic.incumbent",
        ),
        (
            application(),
            "/spec/template/strategy",
            Value::Null,
            "spec.template.strategy",
        ),
        (
            capacity_target(),
            "/spec/clusters/0/percent",
            json!(101),
            "spec.clusters[0].percent",
        ),
        (
            capacity_target(),
            "/spec/clusters/0/percent",
            json!(-1),
            "spec.clusters[0].percent",
        ),
        (
            traffic_target(),
            "/spec/clusters/0/weight",
            json!(-1),
            "spec.clusters[0].weight",
        ),
    ] {
        let mut entry = ns.reference(&entry);
        *entry.pointer_mut(pointer).unwrap() = value;
        let refused = ns.cluster().create(&entry).await.unwrap_err();
        assert_eq!(refused.reason, "Invalid", "{pointer}: {refused:?}");
        assert!(refused.message.contains(path), "{pointer}: {refused:?}");
    }
}

#[tokio::test]
async fn printer_columns_are_those_of_shipper() {
    let ns = unmanaged::namespace().await;
    let conditions = json!([
        { "type": "Operational", "status": "True" },
        { "type": "Ready", "status": "False", "message": "a: InProgress" },
        { "type": "RollingOut", "status": "True" },
    ]);
    let history = json!({ "history": ["shop-1-0", "shop-2-0"], "conditions": conditions });
    let strategy = json!({
        "achievedStep": { "step": 0, "name": "staging" },
        "strategy": { "conditions": [
            { "type": "A", "status": "True", "reason": "", "message": "", "step": 1 },
            { "type": "B", "status": "False", "reason": "ClustersNotReady", "message": "why", "step": 1 },
        ] },
    });
    let clusters = "/metadata/annotations/shipper.booking.com~1release.clusters";
    let target = [
        ("Operational", "True"),
        ("Ready", "False"),
        ("Reason", "a: InProgress"),
    ];
    let expected: [(Entry, &[_]); 3] = [
        (
            application().with("/status", history),
            &[("Latest Release", "shop-2-0"), ("Rolling Out", "True")],
        ),
        (
            release().with("/status", strategy).with(clusters, "a,b"),
            &[
                ("Achieved Step", "staging"),
                ("Clusters", "a,b"),
                ("Waiting", "B"),
                ("Reason", "why"),
            ],
        ),
        (
            installation_target().with("/status", json!({ "conditions": conditions })),
            &target,
        ),
    ];
    for (entry, expected) in expected {
        ns.create(&entry).await;
        let table = ns.cluster().table(&ns.reference(&entry)).await;
        let cells = table["rows"][0]["cells"].as_array().unwrap();
        let columns = table["columnDefinitions"].as_array().unwrap();
        let shown: Vec<_> = columns
            .iter()
            .zip(cells)
            .map(|(column, cell)| (column["name"].as_str().unwrap(), cell.as_str().unwrap()))
            .filter(|(name, _)| !["Name", "Age"].contains(name))
            .collect();
        assert_eq!(shown, expected, "{}", entry.kind());
    }
}
