//! The pages of the part "Guides".

use std::os::unix::fs::symlink;

use baton_integration::application::{ALL_IN, TestApplication, charts, name};
use baton_integration::exclusive::Exclusive;
use baton_integration::page::Page;
use baton_integration::prelude::*;
use baton_integration::sites::{PULL, PUSH, Site};

use crate::adopt::chart;
use crate::cluster_commands::turn;

fn web() -> Entry {
    object("apps/v1", "Deployment", "web")
}

/// Returns a bed with the namespace of the manager, as the installation creates it.
async fn hub() -> Exclusive {
    let bed = Exclusive::acquire().await;
    let home = object("v1", "Namespace", "baton-system").manifest;
    bed.cluster().apply(&home, "tests").await.unwrap();
    bed
}

#[tokio::test]
async fn a_release_is_adopted_and_left_by_hand() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let (helm, chart) = (ns.helm().await, chart());
    let folder = chart.path().to_str().unwrap();
    let _ = helm.run(&["install", ns.name(), folder]);
    let _ = helm.run(&["upgrade", ns.name(), folder]);
    let _ = helm.run(&["upgrade", ns.name(), folder, "--set", "replicas=1"]);
    let before = uid(&ns.live(&web()).await).to_owned();
    let mut page = Page::open(&ns, "docs/guides/adoption.md").await;
    page = page.stands_for("shop", ns.name());
    page = page.stands_for("NAME", ns.name());
    page = page.stands_for("KIND OBJECT", "deployment web");
    page.run_through("Adopt and give back").await;
    let shop = ns.existing(ns.name());
    shop.concluded_as(1).await;

    ns.until_garbage_is_collected().await;
    page.run().await;
    shop.gone().await;
    let after = ns.live(&web()).await;
    assert_eq!((uid(&after), owners(&after)), (&*before, &[][..]));
    assert!(!is_labelled(&after), "{after}");
}

#[tokio::test]
async fn a_chart_is_adopted_and_packed() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let (helm, chart) = (ns.helm().await, chart());
    let _ = helm.run(&["install", ns.name(), chart.path().to_str().unwrap()]);
    let page = Page::open(&ns, "docs/guides/from-helm.md").await;
    let page = page.stands_for("shop", ns.name());
    symlink(chart.path(), page.folder().join("chart")).unwrap();
    page.run().await;
    ns.existing(ns.name())
        .reaches(&[Is("Available", "True")])
        .await;
}

#[tokio::test]
async fn argo_cd_gets_the_script_and_the_columns_show_the_states() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let home = object("v1", "Namespace", "argocd").manifest;
    let settings = configmap("argocd-cm").within("argocd").manifest;
    for object in [&home, &settings] {
        ns.cluster().apply(object, "tests").await.unwrap();
    }
    let content = |image: &str| {
        let probe = cel_probe("", "ConfigMap", "self.data.k != 'bad'", "it is bad");
        ns.content()
            .phase("app", [configmap("app").data("k", image)])
            .probe(probe)
    };
    ns.deployment("cafe")
        .content(ns.content().phase("app", [configmap("cafe")]))
        .create()
        .await;
    let store = ns.deployment("store").spec("progressDeadlineSeconds", 1);
    let store = store.content(content("good")).create().await;
    store.concluded_as(1).await;
    store.edit(content("bad")).await;
    Page::open(&ns, "docs/guides/gitops.md").await.run().await;
    let live = ns.cluster().get(&settings).await.unwrap();
    assert!(
        live["data"]["resource.customizations"].is_string(),
        "{live}"
    );
}

#[tokio::test]
async fn the_manager_may_act_for_a_tenant() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let page = Page::open(&ns, "docs/guides/tenants.md").await;
    page.stands_for("shop", ns.name()).run().await;
    ns.live(&object(
        "rbac.authorization.k8s.io/v1",
        "RoleBinding",
        "baton-tenant",
    ))
    .await;
}

#[tokio::test]
async fn a_cluster_is_taken_over_from_package_operator() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    ns.revision(1)
        .phase("a", [configmap("cm")])
        .reaching(&[Is("Succeeded", "True")])
        .await;
    let page = Page::open(&ns, "docs/guides/from-package-operator.md").await;
    // Other tests have revisions that are not available.
    let page = page.stands_for("-A", &format!("-n {}", ns.name()));
    page.run().await;
}

#[tokio::test]
async fn a_hub_is_given_back_to_shipper() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let app = TestApplication::new(&ns, "web").await;
    app.apply(app.environment("0.0.1", 1, ALL_IN)).await;
    let release = app.completed(0).await;
    let page = Page::open(&ns, "docs/guides/from-shipper.md").await;
    page.stands_for("NAME", name(&release)).run().await;
}

/// One hub serves the pages one after the other, as it is expensive.
#[tokio::test]
async fn clusters_join_are_assigned_and_are_abandoned() {
    let _turn = turn().await;
    let bed = hub().await;
    let ns = bed.namespace(Scope::Namespaced).await;
    let site = Site::get(PUSH).await;
    site.namespace(ns.name()).await;
    let (there, edge) = (site.kubeconfig(), Site::get(PULL).await.kubeconfig());
    let hub = bed.cluster().kubeconfig();
    let contexts = [("hub", hub), ("eu-1", &there), ("edge", &edge)];
    let open = async |name| {
        let page = Page::open(&ns, name).await.contexts(&contexts);
        page.stands_for("shop", ns.name())
            .stands_for("https://10.1.2.3:6443", &site.url())
    };
    let mut clusters = open("docs/guides/clusters.md").await;
    clusters = clusters.afterwards("baton cluster remove eu-1 --context eu-1 --force");
    clusters
        .run_through("Phases for other controllers and other clusters")
        .await;
    ns.reaches("web-v1", &[Is("Available", "True")]).await;
    let delivered = site.live(&ns, &configmap("web")).await;
    assert_eq!(delivered["data"], json!({ "k": "v" }));
    // The page ends with a command for a cluster that is lost. It has no effect on this one.
    ns.delete_set("web-v1", "Background").await;
    assert_eq!(site.read(&ns, &configmap("web")).await, None);

    let page = open("docs/guides/agents.md").await;
    page.afterwards("baton cluster remove edge --context edge --force")
        .run()
        .await;
    open("docs/guides/assignments.md").await.run().await;
    site.forget(ns.name()).await;
}

/// Calls `test` with a page about a hub and a push cluster with this context.
async fn with_hub_and_site(
    name: &'static str,
    context: &str,
    test: impl AsyncFnOnce(&TestNamespace, &Site, Page),
) {
    let _turn = turn().await;
    let bed = hub().await;
    let ns = bed.namespace(Scope::Namespaced).await;
    let site = Site::get(PUSH).await;
    site.namespace(ns.name()).await;
    let there = site.kubeconfig();
    let page = Page::open(&ns, name).await;
    let page = page.contexts(&[("hub", bed.cluster().kubeconfig()), (context, &there)]);
    let page = page.stands_for("shop", ns.name());
    test(&ns, &site, page).await;
    site.forget(ns.name()).await;
}

#[tokio::test]
async fn an_application_is_rolled_out_to_two_clusters() {
    with_hub_and_site("docs/guides/releases.md", "us-1", async |_, _, page| {
        let mut page = page
            .stands_for("https://charts.example.com", &charts().await.url())
            .stands_for(
                "{name: nginx, version: ~1.2.0",
                "{name: test-nginx, version: ~0.0.1",
            )
            .afterwards("kubectl delete application web")
            .afterwards("baton cluster remove us-1 --context us-1 --force")
            .afterwards("baton cluster remove eu-1 --force");
        page.run_through("Set up").await;
        page.reader("kubectl wait --for=create rel -l shipper-app=web --timeout=60s");
        let staged = "jsonpath='{.status.achievedStep.name}'=staging";
        page.reader(&format!(
            "kubectl wait --for={staged} rel -l shipper-app=web --timeout=60s"
        ));
        page.reader("kubectl baton promote web --full --timeout 60s");
        page.run().await;
    })
    .await;
}

#[tokio::test]
async fn a_fleet_is_rolled_out_in_four_steps() {
    with_hub_and_site("docs/guides/sites.md", "berlin", async |ns, site, page| {
        let mut page = page
            .afterwards("kubectl delete sitedeploy till")
            .afterwards("baton cluster remove berlin --context berlin --force")
            .afterwards("baton cluster remove madrid --force");
        page.run_through("A fleet in four steps").await;
        let till = object("apps/v1", "Deployment", "till");
        ns.eventually("the version in the site", async || {
            site.read(ns, &till).await.is_some()
        })
        .await;
        page.reader("kubectl describe sitedeploy till -n shop");
        page.run().await;
    })
    .await;
}
