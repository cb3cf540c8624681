//! An agent that must remove objects that it has not delivered, and the outcome of objects if the
//! agent's Cluster or namespace on the hub is deleted.

use baton_integration::exclusive::Exclusive;
use baton_integration::prelude::*;
use baton_integration::sites::{Joined, PULL, Site};

use crate::agent::{Pulled, settings};

/// Returns the namespace of an agent on the hub.
fn hub_object(joined: &Joined) -> Value {
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": joined.mirrors() } })
}

/// Deletes the namespace of an agent, and waits until it is gone.
async fn delete_namespace(pulled: &Pulled) {
    let hub_object = hub_object(&pulled.joined);
    let hub = pulled.ns.cluster();
    assert!(hub.delete(&hub_object, "Background").await);
    let gone = async || hub.get(&hub_object).await.is_none();
    pulled
        .ns
        .eventually("the namespace of the agent to be gone", gone)
        .await;
}

/// Creates the namespace of an agent, and grants the agent its rights again.
async fn create_namespace_again(pulled: &Pulled) {
    let token = pulled.joined.admit_agent().await.token().await;
    pulled.agent.replace_hub_token(&token.text);
}

/// Delivers the revisions `v1` and `going` into a pull cluster, and returns the object of the first
/// one.
async fn with_two_revisions() -> (Pulled, Value) {
    let pulled = Pulled::new(Scope::Namespaced).await;
    pulled.deliver([settings()]).await;
    let going = pulled.ns.set("going");
    going
        .delegated("a", &pulled.class(), [configmap("going")])
        .available()
        .await;
    let before = pulled.live(&settings()).await;
    (pulled, before)
}

const UNREACHABLE: Expectation<'_> = Because("Available", "Unknown", "ClusterUnreachable");

#[tokio::test]
async fn an_agent_deletes_objects_that_the_manager_delivered() {
    let mut bed = Exclusive::acquire().await;
    let site = Site::get(PULL).await;
    for scope in [Scope::Namespaced, Scope::Cluster] {
        let ns = bed.namespace(scope).await;
        let joined = site.join(&ns).create().await;
        ns.revision(1)
            .delegated("a", &joined.class(), [settings()])
            .available()
            .await;
        bed.take_manager().kill();
        joined.change_spec(&json!({ "connection": "Pull" })).await;
        let (set, phase) = (ns.set_ref("v1"), ns.phase_ref("v1", "a"));
        for deleted in [&set, &phase] {
            assert!(ns.cluster().delete(deleted, "Background").await);
        }
        let _agent = joined.agent().start().await;
        bed.start_manager();
        ns.eventually("the revision to be gone", async || {
            ns.cluster().get(&set).await.is_none()
        })
        .await;
        assert_eq!(site.read(&ns, &settings()).await, None);
        ns.eventually("the mirror to be gone", async || {
            joined.mirrored().await.is_empty()
        })
        .await;
    }
}

/// The cluster was never joined, so nothing was delivered.
#[tokio::test]
async fn phases_of_a_cluster_that_was_never_joined_can_be_deleted() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let site = Site::get(PULL).await;
    let joined = site.join(&ns).pull().create().await;
    let other = ns.unique("unjoined");
    let mut cluster = joined.read().await.unwrap();
    cluster["metadata"] = json!({ "name": other, "labels": cluster["metadata"]["labels"] });
    cluster["status"].take();
    ns.cluster().create(&cluster).await.unwrap();
    let set = ns.revision(1);
    set.delegated("a", &format!("cluster.{other}"), [settings()])
        .create()
        .await;
    let text = format!("`baton cluster join {other} --pull`");
    let lost = ns.within(Duration::from_mins(4));
    lost.reaches("v1", &[UNREACHABLE, Says("Available", &text)])
        .await;
    ns.delete_set("v1", "Background").await;
    assert!(ns.cluster().delete(&cluster, "Background").await);
}

#[tokio::test]
async fn no_object_is_deleted_with_the_namespace_of_an_agent() {
    let (pulled, before) = with_two_revisions().await;
    let ns = &pulled.ns;
    delete_namespace(&pulled).await;
    let text = format!("`baton cluster join {} --pull`", pulled.joined.name());
    let lost = ns.within(Duration::from_mins(4));
    for name in ["v1", "going"] {
        lost.reaches(name, &[UNREACHABLE, Says("Available", &text)])
            .await;
    }
    assert_eq!(pulled.live(&settings()).await, before);
    // A deletion waits meanwhile, so that no object is left behind.
    let set = ns.set_ref("going");
    assert!(ns.cluster().delete(&set, "Background").await);
    ns.eventually("the phase to wait", async || {
        let phase = ns.phase_object("going", "a").await.unwrap();
        phase.has(&[Says("Available", "The deletion waits for it")])
    })
    .await;
    pulled.live(&configmap("going")).await;

    create_namespace_again(&pulled).await;
    lost.reaches("v1", &[Is("Available", "True")]).await;
    lost.eventually("the other revision to be gone", async || {
        ns.cluster().get(&set).await.is_none()
    })
    .await;
    assert_eq!(pulled.read(&configmap("going")).await, None);
    assert_eq!(pulled.live(&settings()).await, before);
    pulled.is_repaired(&settings()).await;
    ns.delete_set("v1", "Background").await;
    assert_eq!(pulled.read(&settings()).await, None);
}

/// A Cluster is deleted by mistake and created again, and the agent continues. The agent also
/// carries out the deletions in between.
#[tokio::test]
async fn an_agent_serves_its_phases_while_its_cluster_object_is_gone() {
    let (pulled, before) = with_two_revisions().await;
    let ns = &pulled.ns;
    let mut cluster = pulled.joined.read().await.unwrap();
    pulled.joined.leave().await;
    ns.reaches(
        "v1",
        &[UNREACHABLE, Says("Available", "There is no Cluster")],
    )
    .await;
    pulled.is_repaired(&settings()).await;
    ns.delete_set("going", "Background").await;
    assert_eq!(pulled.read(&configmap("going")).await, None);

    cluster["metadata"] = json!({
        "name": cluster["metadata"]["name"], "labels": cluster["metadata"]["labels"],
    });
    cluster["status"].take();
    ns.cluster().create(&cluster).await.unwrap();
    ns.reaches("v1", &[Is("Available", "True")]).await;
    assert_eq!(uid(&pulled.live(&settings()).await), uid(&before));

    // The Cluster is gone for good, together with the agent's namespace.
    pulled.joined.leave().await;
    ns.reaches("v1", &[UNREACHABLE]).await;
    delete_namespace(&pulled).await;
    let set = ns.set_ref("v1");
    assert!(ns.cluster().delete(&set, "Background").await);
    let phase = ns.phase_ref("v1", "a");
    let abandon = json!({ "metadata": { "annotations": { "baton.run/abandon": "true" } } });
    ns.cluster().merge(&phase, &abandon).await.unwrap();
    ns.eventually("the revision to be gone", async || {
        ns.cluster().get(&set).await.is_none()
    })
    .await;
    assert_eq!(uid(&pulled.live(&settings()).await), uid(&before));
}
