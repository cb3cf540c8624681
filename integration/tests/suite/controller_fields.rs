//! Fields that controllers set by design do not belong to a revision that leaves them empty.

use baton_integration::prelude::*;

alternating_scopes! {
    empty_data_is_filled_by_others;
}

/// The way in which a phase is delivered.
#[derive(Clone, Copy)]
enum Mode {
    InProcess,
    Delegated,
}

async fn roll_out(ns: &TestNamespace, mode: Mode, number: i64, entries: Vec<Entry>) {
    let set = ns.revision(number);
    let set = match mode {
        Mode::InProcess => set.phase("a", entries),
        Mode::Delegated => set.delegated("a", "default", entries),
    };
    set.reaching(&[Is("Available", "True"), Is("Succeeded", "True")])
        .await;
}

fn version(object: &Value) -> &str {
    object["metadata"]["resourceVersion"].as_str().unwrap()
}

/// Fails if an object is written.
async fn is_at_rest(ns: &TestNamespace, entry: &Entry) {
    let before = ns.live(entry).await;
    ns.stays(Duration::from_secs(3), "the object", async || {
        version(&ns.live(entry).await) == version(&before)
    })
    .await;
}

/// Fails if an object was or is written, or `drift` reports anything.
async fn has_no_drift(ns: &TestNamespace, set: &str, entry: &Entry) {
    is_at_rest(ns, entry).await;
    let kind = match ns.scope() {
        Scope::Namespaced => "os",
        Scope::Cluster => "cos",
    };
    let drift = ns.plugin(&["drift", &format!("{kind}/{}", ns.set_name(set))]);
    assert_eq!((drift.code, &*drift.stdout), (0, ""), "{drift:?}");
}

/// Causes a repair of the object.
async fn is_repaired(ns: &TestNamespace, entry: &Entry) -> Value {
    let label = json!({ "metadata": { "labels": { "package-operator.run/cache": null } } });
    ns.merge(entry, &label).await;
    ns.object_becomes(entry, "labelled again", |live| {
        live["metadata"]["labels"]["package-operator.run/cache"] == "True"
    })
    .await
}

async fn an_aggregated_role(mode: Mode) {
    let ns = TestNamespace::new(Scope::Cluster).await;
    let label = format!("example.com/{}", ns.name());
    let role = |name: &str| {
        object(
            "rbac.authorization.k8s.io/v1",
            "ClusterRole",
            &ns.unique(name),
        )
    };
    let part = role("part").label(&label, "true").with(
        "/rules",
        json!([{ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"] }]),
    );
    let stale = json!([{ "apiGroups": [""], "resources": ["pods"], "verbs": ["get"] }]);
    // An older revision has set rules of its own.
    let whole = role("whole");
    let first = whole.clone().with("/rules", stale);
    roll_out(&ns, mode, 1, vec![part.clone(), first]).await;
    let whole = whole
        .with(
            "/aggregationRule/clusterRoleSelectors",
            json!([{ "matchLabels": { &label: "true" } }]),
        )
        .with("/rules", json!([]));
    roll_out(&ns, mode, 2, vec![part, whole.clone()]).await;
    let is_filled = |live: &Value| live["rules"][0]["resources"] == json!(["configmaps"]);
    ns.object_becomes(&whole, "filled by the control plane", is_filled)
        .await;
    has_no_drift(&ns, "v2", &whole).await;
    assert!(is_filled(&is_repaired(&ns, &whole).await));
    is_at_rest(&ns, &whole).await;
}

#[tokio::test]
async fn rules_of_an_aggregated_role_belong_to_the_control_plane() {
    an_aggregated_role(Mode::InProcess).await;
}

#[tokio::test]
async fn rules_of_an_aggregated_role_in_a_delegated_phase_belong_to_the_control_plane() {
    an_aggregated_role(Mode::Delegated).await;
}

/// Keys that an older revision has set are removed, those of others stay.
async fn empty_data_is_filled_by_others(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let empty = configmap("cm").with("/data", json!({}));
    let pin = secret("pin").with("/data", json!({}));
    let old = configmap("cm").data("old", "x");
    roll_out(&ns, Mode::InProcess, 1, vec![old, pin.clone()]).await;
    roll_out(&ns, Mode::InProcess, 2, vec![empty.clone(), pin.clone()]).await;
    assert!(ns.live(&empty).await["data"].is_null());
    let update = json!({ "data": { "k": "dg==" } });
    ns.merge(&pin, &update).await;
    for entry in [&empty, &pin] {
        let mut object = ns.reference(entry);
        object["data"] = json!({ "l": "dg==" });
        ns.cluster().apply(&object, "injector").await.unwrap();
    }
    assert_eq!(
        ns.live(&pin).await["data"],
        json!({ "k": "dg==", "l": "dg==" })
    );
    // Earlier releases applied the empty map.
    let mut applied = ns.reference(&empty);
    applied["data"] = json!({});
    let live = ns.live(&empty).await;
    for field in ["annotations", "labels", "ownerReferences"] {
        applied["metadata"][field] = live["metadata"][field].clone();
    }
    ns.cluster()
        .apply(&applied, "package-operator")
        .await
        .unwrap();
    for entry in [&empty, &pin] {
        let live = is_repaired(&ns, entry).await;
        assert_eq!(live["data"]["l"], "dg==");
        is_at_rest(&ns, entry).await;
    }
}

/// A certificate as a bundle. The server encodes it.
async fn certificate(ns: &TestNamespace) -> Value {
    let root = object("v1", "ConfigMap", "kube-root-ca.crt").within(ns.name());
    let root = ns.object_becomes(&root, "published", |_| true).await;
    let encoded = secret("ca").with("/stringData/ca", root["data"]["ca.crt"].clone());
    ns.create(&encoded).await["data"]["ca"].clone()
}

#[tokio::test]
async fn empty_bundles_are_left_to_injectors() {
    let ns = TestNamespace::new(Scope::Cluster).await;
    let name = ns.unique("hook");
    let webhook = |name: &str, bundle: &str| {
        json!({
            "name": name, "sideEffects": "None", "admissionReviewVersions": ["v1"], "rules": [],
            "clientConfig": { "caBundle": bundle, "url": "https://localhost/x" },
        })
    };
    let hooks = json!([
        webhook("a.example.com", ""),
        webhook("b.example.com", "Cg==")
    ]);
    let hook = object(
        "admissionregistration.k8s.io/v1",
        "ValidatingWebhookConfiguration",
        &name,
    )
    .with("/webhooks", hooks);
    roll_out(&ns, Mode::InProcess, 1, vec![hook.clone()]).await;
    let mut live = ns.live(&hook).await;
    let bundle = certificate(&ns).await;
    for index in 0..2 {
        live["webhooks"][index]["clientConfig"]["caBundle"] = bundle.clone();
    }
    ns.cluster().update(&live).await.unwrap();
    has_no_drift(&ns, "v1", &hook).await;
    let repaired = is_repaired(&ns, &hook).await;
    for index in 0..2 {
        let client = &repaired["webhooks"][index]["clientConfig"];
        assert_eq!(client["caBundle"], bundle);
    }
}

#[tokio::test]
async fn allocated_fields_of_a_service_are_left_to_the_server() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let service = object("v1", "Service", "web").with(
        "/spec",
        json!({
            "type": "NodePort", "clusterIP": "", "clusterIPs": [], "healthCheckNodePort": 0,
            "selector": { "app": "web" }, "ports": [{ "name": "http", "port": 80, "nodePort": 0 }],
        }),
    );
    roll_out(&ns, Mode::InProcess, 1, vec![service.clone()]).await;
    let before = ns.live(&service).await;
    has_no_drift(&ns, "v1", &service).await;
    let after = is_repaired(&ns, &service).await;
    assert_eq!(after["spec"], before["spec"]);
}

/// The autoscaler is in a later phase than the workload.
async fn an_autoscaled_workload(mode: Mode) {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let web = |replicas: u32| {
        object("apps/v1", "Deployment", "web")
            .with("/spec/replicas", replicas)
            .with("/spec/selector/matchLabels/app", "web")
            .with("/spec/template/metadata/labels/app", "web")
            .with(
                "/spec/template/spec/containers",
                json!([{ "name": "web", "image": "image:1" }]),
            )
    };
    let autoscaler = object("autoscaling/v2", "HorizontalPodAutoscaler", "web").with(
        "/spec",
        json!({
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
            "minReplicas": 1, "maxReplicas": 9,
        }),
    );
    for number in 1..=2 {
        let set = ns.revision(number);
        let web = web(u32::try_from(number).unwrap());
        let set = match mode {
            Mode::InProcess => set.phase("a", [web]).phase("scaling", [autoscaler.clone()]),
            Mode::Delegated => set.delegated("a", "default", [web]).delegated(
                "scaling",
                "default",
                [autoscaler.clone()],
            ),
        };
        set.reaching(&[Is("Available", "True"), Is("Succeeded", "True")])
            .await;
        let replicas = &ns.live(&web_of(&ns)).await["spec"]["replicas"];
        assert_eq!(*replicas, if number == 1 { 1 } else { 3 });
        let scaled = ns.cluster().scale(&ns.reference(&web_of(&ns)), 3).await;
        scaled.unwrap();
    }
    let live = is_repaired(&ns, &web_of(&ns)).await;
    assert_eq!(live["spec"]["replicas"], 3);
}

fn web_of(_: &TestNamespace) -> Entry {
    object("apps/v1", "Deployment", "web")
}

#[tokio::test]
async fn replicas_are_left_to_an_autoscaler_of_the_revision() {
    an_autoscaled_workload(Mode::InProcess).await;
}

#[tokio::test]
async fn replicas_are_left_to_an_autoscaler_of_another_delegated_phase() {
    an_autoscaled_workload(Mode::Delegated).await;
}

#[tokio::test]
async fn an_expanded_claim_keeps_its_size() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let name = ns.unique("class");
    let class = object("storage.k8s.io/v1", "StorageClass", &name)
        .with("/provisioner", "example.com/none")
        .with("/allowVolumeExpansion", true);
    ns.create_elsewhere(&class).await;
    let claim = |size: &str| {
        object("v1", "PersistentVolumeClaim", "data")
            .with("/spec/accessModes", json!(["ReadWriteOnce"]))
            .with("/spec/storageClassName", name.as_str())
            .with("/spec/resources/requests/storage", size)
    };
    let set = ns.revision(1).phase("a", [claim("1Gi")]);
    set.reaching(&[Controls(&["PersistentVolumeClaim data"])])
        .await;
    let entry = claim("1Gi");
    let object = ns.reference(&entry);
    let bound = json!({ "status": { "phase": "Bound", "capacity": { "storage": "1Gi" } } });
    ns.cluster().merge_status(&object, &bound).await.unwrap();
    let larger = json!({ "spec": { "resources": { "requests": { "storage": "2Gi" } } } });
    ns.merge(&entry, &larger).await;
    has_no_drift(&ns, "v1", &entry).await;
    let live = is_repaired(&ns, &entry).await;
    assert_eq!(live["spec"]["resources"]["requests"]["storage"], "2Gi");
    ns.cluster()
        .delete(&ns.reference(&class), "Background")
        .await;
}
