//! The pages of the part "Operate".

use baton_apis::constants::WEBHOOK;
use baton_integration::application::condition;
use baton_integration::endpoint::Endpoint;
use baton_integration::manager::{HEARTBEAT, Manager};
use baton_integration::page::Page;
use baton_integration::prelude::*;
use baton_integration::program::free_address;
use baton_integration::sites::{PUSH, Site, TemporaryKubeconfig};

use crate::cluster_commands::turn;
use crate::own_chart::bare;

/// The purpose of the manager, which names its log.
const PURPOSE: &str = "operate";

/// Starts a leading manager with the account and the flags of `config/install.yaml`.
async fn manager(ns: &TestNamespace) -> Manager {
    let cluster = ns.cluster();
    let token = cluster.token("baton-system", "baton").await;
    let kubeconfig = Endpoint::of_bed(cluster.kubeconfig()).kubeconfig(&token);
    let kubeconfig = TemporaryKubeconfig::new(&kubeconfig);
    let webhook = format!("--webhook-addr={}", free_address());
    let flags = ["--require-site-assignments", &webhook, HEARTBEAT];
    let manager = Manager::spawn(kubeconfig.path(), PURPOSE, &flags);
    ns.eventually("the manager to be ready", async || manager.is_ready())
        .await;
    manager
}

/// A new manager repairs an object, deletes a revision, and reports the pause of another one, whose
/// object it has not touched.
async fn continues(ns: &TestNamespace, hello: &Entry, leaving: &Value, menu: &Value) {
    ns.eventually("the other object to be repaired", async || {
        ns.live(hello).await["data"]["greeting"] == "hello"
    })
    .await;
    ns.eventually("the deleted revision to be gone", async || {
        ns.cluster().get(leaving).await.is_none() && ns.get(&configmap("leaving")).await.is_none()
    })
    .await;
    ns.eventually("the pause to be reported", async || {
        let sets = ns.cluster().list(&ns.set_ref("any"), "").await;
        sets.iter().any(|set| condition(set, "Paused") == "True")
    })
    .await;
    assert_eq!(ns.live(&configmap("menu")).await, *menu);
}

/// The test removes Baton from its cluster, so it has a control plane of its own.
#[tokio::test]
async fn baton_is_installed_upgraded_and_removed_and_the_objects_stay() {
    let _turn = turn().await;
    let (_guard, bed, ns) = bare(PURPOSE).await;
    let cluster = ns.cluster().clone();
    let site = Site::get(PUSH).await;
    let there = site.kubeconfig();
    let kubeconfig = bed.kubeconfig();
    let open = async |name| {
        let page = Page::open(&ns, name).await;
        let page = page.contexts(&[("hub", &kubeconfig), ("eu-1", &there)]);
        page.stands_for("shop", ns.name())
            .stands_for("cafe", ns.name())
    };

    let mut readme = open("README.md").await;
    readme.run_blocks(1).await;
    open("docs/start/install.md").await.run().await;
    open("docs/operate/install.md").await.run().await;
    let first = manager(&ns).await;
    readme.run().await;
    ns.reaches("hello-v1", &[Is("Available", "True")]).await;
    let menu = ns.live(&configmap("menu")).await;
    assert_eq!(menu["data"]["today"], "tea");
    let webhook = "ValidatingWebhookConfiguration";
    let webhook = object("admissionregistration.k8s.io/v1", webhook, WEBHOOK).manifest;
    ns.eventually("the webhook to have a certificate", async || {
        let webhook = cluster.get(&webhook).await.unwrap();
        webhook["webhooks"][0]["clientConfig"]["caBundle"].is_string()
    })
    .await;
    let content = ns.content().phase("a", [configmap("of-deployment")]);
    let shop = ns.deployment(ns.name()).content(content).create().await;
    shop.concluded_as(1).await;
    let objects = [configmap("of-deployment"), configmap("of-revision")];
    ns.revision(1)
        .phase("a", [objects[1].clone()])
        .available()
        .await;
    let page = open("docs/operate/troubleshooting.md").await;
    page.stands_for("NAME", "v1").run().await;

    ns.set("leaving")
        .phase("a", [configmap("leaving")])
        .create()
        .await;
    ns.reaches("leaving", &[Is("Available", "True")]).await;
    let before = [ns.live(&objects[0]).await, ns.live(&objects[1]).await];
    open("docs/operate/upgrade.md").await.run().await;
    assert!(first.terminate().success());
    let mut page = open("docs/operate/without.md").await;
    page.run_blocks(2).await;
    let menu = ns.live(&configmap("menu")).await;
    assert_eq!(menu["data"]["today"], "soup");
    // Another object is changed, and a revision is deleted.
    let hello = configmap("hello");
    let changed = json!({ "data": { "greeting": "changed" } });
    ns.merge(&hello, &changed).await;
    let leaving = ns.set_ref("leaving");
    assert!(cluster.delete(&leaving, "Background").await);
    assert!(ns.get(&configmap("leaving")).await.is_some());
    let second = manager(&ns).await;
    shop.reaches(&[Is("Available", "True")]).await;
    let after = [ns.live(&objects[0]).await, ns.live(&objects[1]).await];
    assert_eq!(before, after);
    continues(&ns, &hello, &leaving, &menu).await;
    page.run().await;
    let resumed = ns.live(&configmap("menu")).await;
    assert_eq!(resumed["data"]["today"], "soup");

    // The definitions cannot be deleted by mistake.
    let definitions = object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "x").manifest;
    let is_ours = |it: &&Value| it["spec"]["group"] == "package-operator.run";
    for found in cluster.list(&definitions, "").await.iter().filter(is_ours) {
        let mut definition = definitions.clone();
        definition["metadata"]["name"] = found["metadata"]["name"].clone();
        let refused = cluster.try_delete(&definition).await.unwrap_err();
        let text = refused.message;
        assert!(text.contains("baton.run/allow-deletion=true"), "{text}");
    }

    let page = open("docs/operate/uninstall.md").await;
    page.reader("baton cluster join eu-1 --context eu-1 --for-all");
    page.run().await;
    drop(second);
    for (before, object) in before.iter().zip(&objects) {
        let live = ns.live(object).await;
        assert_eq!((uid(&live), owners(&live)), (uid(before), &[][..]));
        assert_eq!(live["data"], before["data"]);
    }
    let left = cluster.list(&definitions, "").await;
    assert_eq!(left.iter().filter(is_ours).count(), 0);
}
