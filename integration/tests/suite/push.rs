//! Phases of the class `cluster.<name>`, delivered by the manager.

use baton_integration::prelude::*;
use baton_integration::sites::{Joined, PUSH, Site};
use kube::config::Kubeconfig;

both_scopes! {
    into_another_cluster => delivery;
    from_process_to_class_to_cluster_and_back => combinations;
    drift_and_deletion_are_undone => drift;
    what_others_own_there_is_theirs => collision;
    an_unknown_cluster_is_told => unknown;
}

const OWNERS: &str = "package-operator.run/owners";

fn settings() -> Entry {
    configmap("cm").data("k", "v")
}

/// The owners that the annotation of an object lists, their controllers marked.
fn remote_owners(live: &Value) -> Vec<(String, bool)> {
    let list: Vec<Value> = serde_json::from_str(annotation(live, OWNERS)).unwrap_or_default();
    let entry = |owner: &Value| {
        let name = owner["name"].as_str().unwrap().to_owned();
        (name, owner["controller"] == true)
    };
    list.iter().map(entry).collect()
}

/// One revision after the other in another cluster: made, changed, handed over, taken away.
async fn delivery(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let site = Site::get(PUSH).await;
    let joined = site.join(&ns).create().await;
    let class = joined.class();
    let [kept, old] = ["kept", "old"].map(configmap);
    ns.set("v1")
        .revision(1)
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
            r#"[{{"apiVersion":"package-operator.run/v1alpha1","kind":"{kind}","name":"{}","namespace":"{namespace}","uid":"{}","controller":true}}]"#,
            phase.name(),
            phase.uid()
        )
    );
    assert!(owners(&before).is_empty());
    assert_eq!(annotation(&before, "package-operator.run/revision"), "1");
    let labels = &before["metadata"]["labels"];
    assert_eq!(labels["package-operator.run/cache"], "True");
    assert_eq!(labels["app.kubernetes.io/managed-by"], "boxcutter");
    // Nothing of it is here.
    assert_eq!(ns.get(&kept).await, None);

    ns.set("v2")
        .revision(2)
        .previous(&["v1"])
        .delegated("a", &class, [kept.clone().data("k", "2")])
        .create()
        .await;
    ns.reaches("v2", &[Is("Succeeded", "True")]).await;
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

/// The test's own cluster under the name of another one.
async fn itself(ns: &TestNamespace, site: &Site) -> Joined {
    let config = Kubeconfig::read_from(ns.cluster().kubeconfig()).unwrap();
    let read = |path: &Option<String>| std::fs::read_to_string(path.as_ref().unwrap()).unwrap();
    let cluster = config.clusters[0].cluster.clone().unwrap();
    let user = config.auth_infos[0].auth_info.clone().unwrap();
    let secret = json!({
        "tls.ca": read(&cluster.certificate_authority),
        "tls.crt": read(&user.client_certificate),
        "tls.key": read(&user.client_key),
    });
    let join = site.join(ns).secret(secret);
    let joined = join
        .through(cluster.server.as_ref().unwrap())
        .create()
        .await;
    joined.becomes("Connected", "True").await;
    joined
}

/// The same object, as the other cluster is this one: in-process, `default`, remote, and back.
async fn combinations(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let site = Site::get(PUSH).await;
    let joined = itself(&ns, &site).await;
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
            // None whose end would take the object along.
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

async fn drift(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let site = Site::get(PUSH).await;
    let joined = site.join(&ns).create().await;
    let set = ns.set("v1").revision(1);
    set.delegated("a", &joined.class(), [settings()])
        .create()
        .await;
    ns.reaches("v1", &[Is("Succeeded", "True")]).await;
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

/// Objects there that nobody controls, or somebody in that cluster.
async fn collision(scope: Scope) {
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

/// Nothing can be done, which is told; nor does a deletion wait for what was never delivered.
async fn unknown(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let class = format!("cluster.{}", ns.unique("nowhere"));
    let set = ns.set("v1").revision(1);
    set.delegated("a", &class, [settings()]).create().await;
    let told = ns
        .reaches(
            "v1",
            &[Because("Available", "Unknown", "ClusterUnreachable")],
        )
        .await;
    let text = told.message("Available");
    assert!(
        text.starts_with("Phase \"a\" failed: There is no Cluster \""),
        "{text}"
    );
    ns.delete_set("v1", "Background").await;
    assert!(ns.phase_object("v1", "a").await.is_none());
}

/// A site that is gone: what was delivered is not forgotten until somebody gives up on it.
#[tokio::test]
async fn a_lost_site_is_told_and_can_be_given_up() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let site = Site::get(PUSH).await;
    let joined = site.join(&ns).create().await;
    let set = ns.set("v1").revision(1);
    set.delegated("a", &joined.class(), [settings()])
        .phase("b", [configmap("here")])
        .create()
        .await;
    let before = ns.reaches("v1", &[Is("Succeeded", "True")]).await;
    let there = site.live(&ns, &settings()).await;
    joined.delete_secret().await;
    let cut = [Because("Available", "Unknown", "ClusterUnreachable")];
    let told = ns.reaches("v1", &cut).await;
    assert_eq!(told.controller_of(), before.controller_of());
    ns.live(&configmap("here")).await;

    // Deleted, it waits, and says for what and what can be done.
    let reference = ns.set_ref("v1");
    assert!(ns.cluster().delete(&reference, "Background").await);
    ns.gone(&configmap("here")).await;
    let phase = ns.phase_ref("v1", "a");
    ns.eventually("the wait to be told", async || {
        let told = ns.read_set("v1").await;
        let message = &told.json["status"]["waitingFor"][0]["message"];
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
