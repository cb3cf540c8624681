//! Phases of the class `cluster.<name>` that the manager delivers.

use baton_integration::prelude::*;
use baton_integration::sites::{PUSH, Site, join_hub};

alternating_scopes! {
    objects_are_delivered_into_another_cluster;
    handover_between_processes_classes_and_clusters;
    objects_in_another_cluster_are_handed_back_on_deletion;
    drift_and_deletion_are_undone;
    objects_of_other_owners_are_left_alone;
    an_unknown_cluster_is_reported;
}

const OWNERS: &str = "package-operator.run/owners";

fn settings() -> Entry {
    configmap("cm").data("k", "v")
}

/// Returns the UID by which owners name their hub.
async fn hub_uid(ns: &TestNamespace) -> String {
    let reference = object("v1", "Namespace", "kube-system").manifest;
    let live = ns.cluster().get(&reference).await.unwrap();
    uid(&live).to_owned()
}

/// Returns the owners in the annotation of an object, each with true for the controller.
fn remote_owners(live: &Value) -> Vec<(String, bool)> {
    let list: Vec<Value> = serde_json::from_str(annotation(live, OWNERS)).unwrap_or_default();
    let entry = |owner: &Value| {
        let name = owner["name"].as_str().unwrap().to_owned();
        (name, owner["controller"] == true)
    };
    list.iter().map(entry).collect()
}

/// The objects of two revisions are created, changed, handed over and removed in another cluster.
async fn objects_are_delivered_into_another_cluster(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let site = Site::get(PUSH).await;
    let joined = site.join(&ns).create().await;
    let class = joined.class();
    let [kept, old] = ["kept", "old"].map(configmap);
    ns.revision(1)
        .delegated("a", &class, [kept.clone().data("k", "1")])
        .delegated("b", &class, [old.clone()])
        .create()
        .await;
    let wanted = [
        Is("Succeeded", "True"),
        Controls(&["ConfigMap kept", "ConfigMap old"]),
    ];
    ns.reaches("v1", &wanted).await;
    let phase = ns.phase_object("v1", "a").await.unwrap();
    let before = site.live(&ns, &kept).await;
    let kind = phase.json["kind"].as_str().unwrap();
    let namespace = phase.json["metadata"]["namespace"].as_str().unwrap_or("");
    assert_eq!(
        annotation(&before, OWNERS),
        format!(
            "[{{\"apiVersion\":\"package-operator.run/v1alpha1\",\"kind\":\"{kind}\",\"name\":\"{}\",\
             \"namespace\":\"{namespace}\",\"uid\":\"{}\",\"controller\":true}}]",
            phase.name(),
            phase.uid()
        )
    );
    assert_eq!(annotation(&before, "baton.run/hub"), hub_uid(&ns).await);
    assert!(owners(&before).is_empty());
    assert_eq!(annotation(&before, "package-operator.run/revision"), "1");
    let labels = &before["metadata"]["labels"];
    assert_eq!(labels["package-operator.run/cache"], "True");
    assert_eq!(labels["app.kubernetes.io/managed-by"], "boxcutter");
    // None of the objects is in the hub.
    assert_eq!(ns.get(&kept).await, None);

    ns.revision(2)
        .delegated("a", &class, [kept.clone().data("k", "2")])
        .reaching(&[Is("Succeeded", "True")])
        .await;
    let after = site.live(&ns, &kept).await;
    assert_eq!(
        (uid(&after), &after["data"]["k"]),
        (uid(&before), &json!("2"))
    );
    let names = ["v1", "v2"].map(|set| {
        let reference = ns.phase_ref(set, "a");
        reference["metadata"]["name"].as_str().unwrap().to_owned()
    });
    assert_eq!(
        remote_owners(&after),
        [(names[0].clone(), false), (names[1].clone(), true)]
    );
    ns.reaches(
        "v1",
        &[Is("InTransition", "True"), Controls(&["ConfigMap old"])],
    )
    .await;
    ns.set_lifecycle("v1", "Archived").await;
    ns.reaches("v1", &[Is("Archived", "True")]).await;
    assert_eq!(site.read(&ns, &old).await, None);
    let left = site.live(&ns, &kept).await;
    assert_eq!(remote_owners(&left), [(names[1].clone(), true)]);
    ns.delete_set("v2", "Background").await;
    assert_eq!(site.read(&ns, &kept).await, None);
}

/// The object is the same in all steps, because the other cluster is the hub itself: in-process,
/// `default`, remote, and back.
async fn handover_between_processes_classes_and_clusters(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let site = Site::get(PUSH).await;
    let joined = join_hub(&ns, &site).await;
    let remote = joined.class();
    let chain = [
        ("v1", ""),
        ("v2", "default"),
        ("v3", &remote),
        ("v4", "default"),
        ("v5", &remote),
        ("v6", ""),
    ];
    let cm = |name: &str| configmap("cm").data("k", name);
    let mut first = Value::Null;
    for (at, (name, class)) in chain.into_iter().enumerate() {
        let number = i64::try_from(at).unwrap() + 1;
        let mut set = ns.set(name).revision(number);
        if at > 0 {
            set = set.previous(&[chain[at - 1].0]);
        }
        set.phase_of(class, "a", [cm(name)]).create().await;
        ns.reaches(name, &[Is("Succeeded", "True"), No("InTransition")])
            .await;
        let live = ns.live(&cm(name)).await;
        if at == 0 {
            first = live.clone();
        }
        assert_eq!(
            (uid(&live), &live["data"]["k"]),
            (uid(&first), &json!(name))
        );
        let owner = if class.is_empty() {
            ns.set_name(name)
        } else {
            let reference = ns.phase_ref(name, "a");
            reference["metadata"]["name"].as_str().unwrap().to_owned()
        };
        let remote_controllers: Vec<_> = remote_owners(&live)
            .into_iter()
            .filter_map(|(name, controls)| controls.then_some(name))
            .collect();
        if class == remote {
            assert_eq!(remote_controllers, [owner]);
            // No owner reference is left, so no owner's deletion deletes the object.
            assert!(owners(&live).is_empty(), "{live}");
        } else {
            assert_eq!(controller(&live), owner);
            assert!(remote_controllers.is_empty(), "{live}");
        }
        if at > 0 {
            let before = chain[at - 1].0;
            ns.reaches(before, &[Controls(&[])]).await;
            ns.set_lifecycle(before, "Archived").await;
            ns.reaches(before, &[Is("Archived", "True")]).await;
            ns.delete_set(before, "Background").await;
        }
    }
    let last = ns.live(&cm("v6")).await;
    assert_eq!(uid(&last), uid(&first));
    assert!(remote_owners(&last).is_empty());
}

/// The older revision gets its objects back unchanged. Objects that only the deleted revision has
/// are removed.
async fn objects_in_another_cluster_are_handed_back_on_deletion(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let site = Site::get(PUSH).await;
    let class = site.join(&ns).create().await.class();
    let [cm, own] = ["cm", "own"].map(configmap);
    ns.revision(1)
        .delegated("a", &class, [cm.clone().data("from", "v1")])
        .reaching(&[Is("Succeeded", "True")])
        .await;
    ns.revision(2)
        .delegated("a", &class, [own.clone(), cm.clone().data("from", "v2")])
        .reaching(&[Is("Succeeded", "True")])
        .await;
    // The annotation is set after the rollout.
    let annotations = json!({ "baton.run/on-deletion": "hand-back" });
    let patch = json!({ "metadata": { "annotations": annotations } });
    let annotated = ns.cluster().merge(&ns.set_ref("v2"), &patch).await;
    annotated.unwrap();
    let before = site.live(&ns, &cm).await;
    let label = "package-operator.run/cache=True";
    let recording = Recording::start(&site.cluster().await, &before, label).await;
    ns.delete_set("v2", "Background").await;
    let wanted = [
        Is("Available", "True"),
        No("InTransition"),
        Controls(&["ConfigMap cm"]),
    ];
    ns.reaches("v1", &wanted).await;
    ns.eventually("the objects of v2 alone to be deleted", async || {
        site.read(&ns, &own).await.is_none()
    })
    .await;
    for state in recording.so_far().await.states() {
        let live = &state["cm"];
        assert_eq!(uid(live), uid(&before));
        let mut owners = remote_owners(live).into_iter();
        assert!(owners.any(|(_, controls)| controls), "{live}");
    }
    let live = site.live(&ns, &cm).await;
    assert_eq!(live["data"], json!({ "from": "v1" }));
    let phase = ns.phase_object("v1", "a").await.unwrap();
    assert_eq!(remote_owners(&live), [(phase.name().to_owned(), true)]);
}

async fn drift_and_deletion_are_undone(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let site = Site::get(PUSH).await;
    let joined = site.join(&ns).create().await;
    ns.revision(1)
        .delegated("a", &joined.class(), [settings()])
        .reaching(&[Is("Succeeded", "True")])
        .await;
    let cluster = site.cluster().await;
    let before = site.live(&ns, &settings()).await;
    let drifted = json!({ "data": { "k": "drifted", "theirs": "kept" } });
    cluster.merge(&before, &drifted).await.unwrap();
    ns.eventually("the drift to be undone", async || {
        site.live(&ns, &settings()).await["data"] == json!({ "k": "v", "theirs": "kept" })
    })
    .await;
    assert!(cluster.delete(&before, "Background").await);
    ns.eventually("the object to be made again", async || {
        let now = site.read(&ns, &settings()).await;
        now.is_some_and(|now| uid(&now) != uid(&before) && now["data"]["k"] == "v")
    })
    .await;
    ns.reaches("v1", &[Is("Available", "True")]).await;
}

/// The objects in the site have no controller, or a controller of that cluster.
async fn objects_of_other_owners_are_left_alone(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let site = Site::get(PUSH).await;
    let joined = site.join(&ns).create().await;
    let cluster = site.cluster().await;
    let there = [settings(), settings().foreign()];
    for (at, (there, protection)) in there
        .into_iter()
        .zip(["Prevent", "IfNoController"])
        .enumerate()
    {
        let there = there.within(ns.name()).manifest;
        let before = cluster.create(&there).await.unwrap();
        let name = format!("v{at}");
        let entry = settings().collision(protection);
        let set = ns.set(&name).revision(1);
        set.delegated("a", &joined.class(), [entry]).create().await;
        let wanted = [Because("Available", "False", "CollisionDetected")];
        ns.reaches(&name, &wanted).await;
        assert_eq!(site.live(&ns, &settings()).await, before);
        ns.delete_set(&name, "Background").await;
        assert_eq!(site.live(&ns, &settings()).await, before);
        assert!(cluster.delete(&there, "Background").await);
    }
}

/// An unknown cluster is reported, and a deletion does not wait for objects that were never
/// delivered.
async fn an_unknown_cluster_is_reported(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let class = format!("cluster.{}", ns.unique("nowhere"));
    let reported = ns
        .revision(1)
        .delegated("a", &class, [settings()])
        .reaching(&[Because("Available", "Unknown", "ClusterUnreachable")])
        .await;
    let text = reported.message("Available");
    assert!(
        text.starts_with("Phase \"a\" failed: There is no Cluster \""),
        "{text}"
    );
    ns.delete_set("v1", "Background").await;
    assert!(ns.phase_object("v1", "a").await.is_none());
}

/// A lost site is reported, and blocks the deletion of its phases until a user abandons them.
#[tokio::test]
async fn a_lost_site_is_reported_and_can_be_abandoned() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let site = Site::get(PUSH).await;
    let joined = site.join(&ns).create().await;
    let before = ns
        .revision(1)
        .delegated("a", &joined.class(), [settings()])
        .phase("b", [configmap("here")])
        .reaching(&[Is("Succeeded", "True")])
        .await;
    let there = site.live(&ns, &settings()).await;
    joined.delete_secret().await;
    let cut = [Because("Available", "Unknown", "ClusterUnreachable")];
    let reported = ns.reaches("v1", &cut).await;
    assert_eq!(reported.controller_of(), before.controller_of());
    ns.live(&configmap("here")).await;

    // The deletion waits, and reports the reason and the way to abandon the phase.
    let reference = ns.set_ref("v1");
    assert!(ns.cluster().delete(&reference, "Background").await);
    ns.gone(&configmap("here")).await;
    let phase = ns.phase_ref("v1", "a");
    ns.eventually("the wait to be reported", async || {
        let reported = ns.read_set("v1").await;
        let message = &reported.json["status"]["waitingFor"][0]["message"];
        message.as_str().is_some_and(|text| {
            text.contains("The deletion waits for it") && text.contains("baton.run/abandon=true")
        })
    })
    .await;
    let abandon = json!({ "metadata": { "annotations": { "baton.run/abandon": "true" } } });
    ns.cluster().merge(&phase, &abandon).await.unwrap();
    ns.eventually("the revision to be gone", async || {
        ns.cluster().get(&reference).await.is_none()
    })
    .await;
    assert_eq!(site.live(&ns, &settings()).await, there);
}
