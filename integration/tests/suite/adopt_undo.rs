//! The plugin's `adopt --undo`: the state that it leaves, and its behaviour if a step fails.

use baton_integration::prelude::*;

const API_VERSION: &str = "package-operator.run/v1alpha1";
const HOLD: &str = "integration.test/hold";
const UNDO: [&str; 4] = ["adopt", "shop", "--undo", "--apply"];

/// Returns settings that are too many for the revision itself, so that they are in a slice.
fn large() -> Entry {
    let settings = configmap("settings");
    (0..130).fold(settings, |it, number| it.data(&format!("k{number}"), "1"))
}

async fn slices(ns: &TestNamespace) -> Vec<String> {
    let like = json!({"apiVersion": API_VERSION, "kind": "ObjectSlice", "metadata": {"namespace": ns.name()}});
    let slices = ns.cluster().list(&like, "").await;
    let names = slices
        .iter()
        .map(|slice| slice["metadata"]["name"].as_str().unwrap().to_owned());
    names.collect()
}

/// Adopts the settings, and returns the revision. Garbage collection may not have observed the
/// owner references yet.
async fn adopted(ns: &TestNamespace) -> Entry {
    let _ = ns.kubectl(&["create", "-f", "-"], &large().manifest).await;
    ns.plugin(&["adopt", "shop", "cm/settings", "--apply"])
        .done();
    let shop = ns.existing("shop");
    shop.concluded().await;
    let revision = shop.set(1).await.json;
    object(
        API_VERSION,
        "ObjectSet",
        revision["metadata"]["name"].as_str().unwrap(),
    )
}

async fn is_free(ns: &TestNamespace) -> bool {
    let live = ns.live(&configmap("settings")).await;
    owners(&live).is_empty() && !is_labelled(&live) && !has_manager(&live, "package-operator")
}

/// Changes the finalizers of an object.
async fn finalizers(ns: &TestNamespace, entry: &Entry, change: impl Fn(&mut Vec<Value>)) {
    ns.eventually("the finalizers to be changed", async || {
        let live = ns.live(entry).await;
        let mut finalizers = live["metadata"]["finalizers"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        change(&mut finalizers);
        let version = &live["metadata"]["resourceVersion"];
        let patch = json!({"metadata": {"finalizers": finalizers, "resourceVersion": version}});
        ns.cluster()
            .merge(&ns.reference(entry), &patch)
            .await
            .is_ok()
    })
    .await;
}

/// The slices of revisions that were deleted without their objects have no owner, so the command
/// deletes them.
#[tokio::test]
async fn an_undo_deletes_the_slices_of_all_revisions() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    adopted(&ns).await;
    let first = slices(&ns).await;
    assert_eq!(first.len(), 1);
    let patch = json!([{
        "op": "add", "path": "/spec/template/spec/phases/0/objects/0/object/data/more", "value": "1",
    }]);
    let patch = patch.to_string();
    let args = [
        "patch",
        "objectdeployment",
        "shop",
        "--type=json",
        "-p",
        &patch,
    ];
    let _ = ns.kubectl(&args, &Value::Null).await;
    ns.existing("shop").concluded_as(2).await;
    // Otherwise garbage collection could delete the slices. The command must not depend on that.
    ns.until_garbage_is_collected().await;
    ns.until_owners_are_observed().await;
    // The slice of the archived revision still exists.
    let before = slices(&ns).await;
    assert_eq!(before.len(), 2);
    let ran = ns.plugin(&UNDO).done();
    for slice in &before {
        let line = format!("objectslice.package-operator.run/{slice} deleted");
        assert!(ran.stdout.contains(&line), "{}", ran.stdout);
    }
    assert_eq!(slices(&ns).await, Vec::<String>::new());
    assert!(is_free(&ns).await);
    let again = ns.plugin(&UNDO).failed();
    assert!(
        again.contains("--cluster looks for a ClusterObjectDeployment"),
        "{again}"
    );
}

/// After an interruption the deployment is gone and nothing has an owner. A second run finishes the
/// deletion.
#[tokio::test]
async fn an_interrupted_undo_is_completed_by_a_second_run() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let revision = adopted(&ns).await;
    finalizers(&ns, &revision, |it| it.push(HOLD.into())).await;
    let title = format!(
        "os/{} is still being deleted; check its finalizers",
        revision.name()
    );
    let undo = [&UNDO[..], &["--timeout", "1s"]].concat();
    ns.eventually("the deployment to be gone", async || {
        let held = ns.plugin(&undo);
        assert_eq!(held.code, 2, "{held:?}");
        held.stderr.contains(&title)
    })
    .await;
    ns.existing("shop").gone().await;
    assert!(is_free(&ns).await);

    let mut again = ns.plugin_started(&UNDO);
    again.writes("the objects that it waits for", |lines| {
        lines
            .iter()
            .any(|line| line.starts_with("waiting for the deletion"))
    });
    finalizers(&ns, &revision, |it| it.retain(|name| name != HOLD)).await;
    ns.eventually("the slices to go", async || slices(&ns).await.is_empty())
        .await;
    assert!(is_free(&ns).await);
}

/// When the deletion begins, the objects have no owner, so garbage collection deletes none of them.
/// If the deletion is refused, the user can repeat the undo or resume the deployment.
#[tokio::test]
async fn objects_have_no_owner_when_the_deletion_of_a_deployment_begins() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let revision = adopted(&ns).await;
    let user = ns.unique("no-deletion");
    let rules = json!([
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "patch"]},
        {"apiGroups": ["package-operator.run"], "resources": ["*"], "verbs": ["get", "list", "watch", "patch"]},
    ]);
    ns.grant(&user, rules).await;
    let undo = [&UNDO[..], &["--as", &user]].concat();
    ns.eventually("the refusal of the deletion", async || {
        let ran = ns.plugin(&undo);
        assert_eq!(ran.code, 2, "{ran:?}");
        ran.stderr
            .contains("cannot delete resource \"objectdeployments\"")
    })
    .await;
    assert!(is_free(&ns).await);
    assert!(ns.get(&revision).await.is_some());
    let before = ns.live(&configmap("settings")).await;

    ns.plugin(&["resume", "od/shop"]).done();
    ns.eventually("the settings to be taken over again", async || {
        owner_names(&ns.live(&configmap("settings")).await) == [revision.name()]
    })
    .await;
    ns.existing("shop").concluded().await;

    ns.plugin(&UNDO).done();
    assert!(is_free(&ns).await);
    assert!(ns.get(&revision).await.is_none());
    assert_eq!(uid(&ns.live(&configmap("settings")).await), uid(&before));
}

#[tokio::test]
async fn an_undo_deletes_nothing_without_the_right_to_give_fields_back() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let revision = adopted(&ns).await;
    let user = ns.unique("reader");
    let rules = json!([
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]},
        {"apiGroups": ["package-operator.run"], "resources": ["*"], "verbs": ["*"]},
    ]);
    ns.grant(&user, rules).await;
    let undo = [&UNDO[..], &["--as", &user]].concat();
    ns.eventually("the refusal of a right that is not granted", async || {
        let ran = ns.plugin(&undo);
        assert_eq!(ran.code, 2, "{ran:?}");
        ran.stderr.contains("cannot patch resource \"configmaps\"")
            && ran.stderr.contains("nothing was changed")
    })
    .await;
    assert!(ns.get(&revision).await.is_some());
    ns.existing("shop").concluded().await;
    assert_eq!(slices(&ns).await.len(), 1);
}
