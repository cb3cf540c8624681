//! RolloutBlocks hold the deployments, also those of sites, that obey them by their label.

use baton_apis::constants::LABEL_OBEY_ROLLOUT_BLOCKS;
use baton_apis::constants::shipper::{ANNOTATION_BLOCK_OVERRIDE, NAMESPACE_GLOBAL_BLOCKS};
use baton_integration::application::{TestApplication, condition, reason};
use baton_integration::deployment::TestDeployment;
use baton_integration::exclusive::Exclusive;
use baton_integration::fleet::{Fleet, version};
use baton_integration::namespace::LABEL_TEST;
use baton_integration::prelude::*;
use baton_integration::set::SetBuilder;
use baton_integration::sites::{PUSH, Site};

/// Creates a block in a namespace, and returns it with its full name.
async fn create_block(ns: &TestNamespace, namespace: &str) -> (Value, String) {
    let mut block = TestApplication::block("frozen").manifest;
    block["metadata"]["namespace"] = namespace.into();
    ns.cluster().create(&block).await.unwrap();
    (block, format!("{namespace}/frozen"))
}

/// True if the override of an object was removed, and no block applies to it.
fn is_free(live: &Value) -> bool {
    live["metadata"]["annotations"][ANNOTATION_BLOCK_OVERRIDE] == ""
        && reason(live, "Blocked")[0] == "NotBlocked"
}

/// Returns a patch of the label by which a deployment obeys blocks.
fn obeying(value: impl Into<Value>) -> Value {
    json!({ "metadata": { "labels": { LABEL_OBEY_ROLLOUT_BLOCKS: value.into() } } })
}

fn content<'a>(ns: &'a TestNamespace, value: &str) -> SetBuilder<'a> {
    ns.content().phase("a", [configmap("cm").data("v", value)])
}

/// Waits until the status of a block has these overrides of a kind.
async fn is_overridden_by(ns: &TestNamespace, block: &Value, kind: &str, names: &str) {
    ns.eventually("the status of the block", async || {
        let live = ns.cluster().get(block).await.unwrap();
        let found = live["status"]["overrides"][kind].as_str();
        live["status"].is_object() && found.unwrap_or_default() == names
    })
    .await;
}

async fn is_held(deployment: &TestDeployment<'_>, text: &str) {
    deployment
        .reaches(&[
            Because("Blocked", "True", "RolloutsBlocked"),
            Because("Progressing", "Unknown", "RolloutsBlocked"),
            Says("Progressing", text),
        ])
        .await;
}

#[tokio::test]
async fn a_deployment_obeys_blocks_by_its_label() {
    let ns = &TestNamespace::new(Scope::Namespaced).await;
    let (block, block_name) = create_block(ns, ns.name()).await;
    let deployment = ns
        .deployment("web")
        .content(content(ns, "1"))
        .create()
        .await;
    deployment.concluded_as(1).await;
    deployment.reaches(&[No("Blocked")]).await;
    deployment.patch(&obeying("true")).await;
    deployment.edit(content(ns, "2")).await;
    let exists = format!("rollout block(s) with name(s) \"{block_name}\" exist");
    is_held(&deployment, &exists).await;
    deployment.has_sets(&[1]).await;

    deployment
        .annotate(ANNOTATION_BLOCK_OVERRIDE, &block_name)
        .await;
    deployment.concluded_as(2).await;
    let name = format!("{}/web", ns.name());
    is_overridden_by(ns, &block, "objectDeployment", &name).await;
    let annotations = deployment.set(2).await.json["metadata"]["annotations"].take();
    assert!(annotations.get(ANNOTATION_BLOCK_OVERRIDE).is_none());
    ns.cluster().delete(&block, "Background").await;
    ns.eventually("the override to be removed", async || {
        is_free(&deployment.read().await.json)
    })
    .await;

    deployment
        .annotate(ANNOTATION_BLOCK_OVERRIDE, "nowhere/frozen")
        .await;
    deployment.edit(content(ns, "3")).await;
    is_held(
        &deployment,
        "rollout block with name \"nowhere/frozen\" does not exist",
    )
    .await;
    deployment.has_sets(&[1, 2]).await;
    deployment.patch(&obeying("false")).await;
    deployment.concluded_as(3).await;
    deployment.reaches(&[No("Blocked")]).await;
}

/// Objects of the cluster scope obey the blocks of all namespaces. The next manager removes the override
/// of a block that was deleted while none ran.
#[tokio::test]
async fn a_deployment_of_the_cluster_obeys_global_blocks() {
    let mut bed = Exclusive::acquire().await;
    let ns = &bed.namespace(Scope::Cluster).await;
    let deployment = ns
        .deployment("web")
        .content(content(ns, "1"))
        .create()
        .await;
    deployment.concluded_as(1).await;
    deployment.patch(&obeying("true")).await;
    deployment
        .reaches(&[Because("Blocked", "False", "NotBlocked")])
        .await;
    let namespace = object("v1", "Namespace", NAMESPACE_GLOBAL_BLOCKS)
        .with("/metadata/labels", json!({ LABEL_TEST: "true" }));
    ns.create_elsewhere(&namespace).await;
    let (block, block_name) = create_block(ns, NAMESPACE_GLOBAL_BLOCKS).await;
    deployment
        .reaches(&[Because("Blocked", "True", "RolloutsBlocked")])
        .await;
    deployment.edit(content(ns, "2")).await;
    is_held(&deployment, &block_name).await;
    deployment
        .annotate(ANNOTATION_BLOCK_OVERRIDE, &block_name)
        .await;
    deployment.concluded_as(2).await;
    is_overridden_by(ns, &block, "objectDeployment", deployment.name()).await;

    bed.take_manager().kill();
    ns.cluster().delete(&block, "Background").await;
    deployment.edit(content(ns, "3")).await;
    bed.start_manager();
    deployment.concluded_as(3).await;
    let live = deployment.read().await.json;
    assert_eq!(
        live["metadata"]["annotations"][ANNOTATION_BLOCK_OVERRIDE],
        ""
    );
}

/// Without the definition of their kind, no blocks can be listed.
#[tokio::test]
async fn a_deployment_waits_until_blocks_can_be_listed() {
    let bed = Exclusive::acquire().await;
    let ns = &bed.namespace(Scope::Namespaced).await;
    let deployment = ns
        .deployment("web")
        .content(content(ns, "1"))
        .create()
        .await;
    deployment.patch(&obeying("true")).await;
    deployment.concluded_as(1).await;
    deployment
        .reaches(&[Because("Blocked", "False", "NotBlocked")])
        .await;
    let definition = object(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        "rolloutblocks.shipper.booking.com",
    );
    ns.cluster()
        .delete(&definition.manifest, "Background")
        .await;
    deployment
        .reaches(&[
            Because("Blocked", "Unknown", "ListFailed"),
            Because("Progressing", "False", "Idle"),
        ])
        .await;
    deployment.edit(content(ns, "2")).await;
    deployment
        .reaches(&[Because("Progressing", "Unknown", "ListFailed")])
        .await;
    deployment.has_sets(&[1]).await;
    bed.install_releases().await;
    deployment.concluded_as(2).await;
    deployment
        .reaches(&[Because("Blocked", "False", "NotBlocked")])
        .await;
}

#[tokio::test]
async fn a_deployment_to_sites_obeys_blocks_by_its_label() {
    let ns = &TestNamespace::new(Scope::Namespaced).await;
    let fleet = Fleet::new(ns);
    let site = Site::get(PUSH).await;
    let joined = site.join(ns).create().await;
    joined.becomes("Connected", "True").await;
    fleet.add(&joined).await;
    fleet.application(&version("1.0.0")).await;
    fleet.deployment("web", json!({})).await;
    fleet.complete("web", "1.0.0", 1).await;
    let deployment = Fleet::kind("SiteDeployment", "web");
    ns.merge(&deployment, &obeying("true")).await;
    let (block, block_name) = create_block(ns, ns.name()).await;
    fleet
        .becomes("web", "blocked", |it| condition(it, "Blocked") == "True")
        .await;
    fleet.application(&version("1.1.0")).await;
    let exists = format!("rollout block(s) with name(s) \"{block_name}\" exist");
    fleet
        .becomes("web", "held", |it| {
            reason(it, "Progressing") == ["RolloutsBlocked", &exists]
        })
        .await;
    fleet.has_version(&joined, Some("1.0.0")).await;
    let annotations = json!({ ANNOTATION_BLOCK_OVERRIDE: block_name });
    ns.merge(
        &deployment,
        &json!({ "metadata": { "annotations": annotations } }),
    )
    .await;
    fleet.complete("web", "1.1.0", 1).await;
    let name = format!("{}/web", ns.name());
    is_overridden_by(ns, &block, "siteDeployment", &name).await;
    ns.cluster().delete(&block, "Background").await;
    fleet.becomes("web", "without an override", is_free).await;
}
