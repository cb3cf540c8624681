//! Restarts of a manager while an agent serves a cluster, restarts of an agent, and a second agent
//! that takes over.

use std::time::Instant;

use baton_integration::exclusive::Exclusive;
use baton_integration::prelude::*;
use baton_integration::sites::{PULL, Site};

use crate::agent::{Pulled, settings};
use crate::agent_offline::SILENT;
use crate::requests::settle;

/// Returns all objects that a restart could change, on both sides.
async fn picture(pulled: &Pulled) -> Vec<Value> {
    let ns = &pulled.ns;
    let hub = ns.cluster();
    let like = |kind: &str, namespace: &str| {
        let like = object("package-operator.run/v1alpha1", kind, "");
        like.within(namespace).manifest
    };
    let mut all = pulled.joined.mirrored().await;
    for kind in ["ObjectSet", "ObjectSetPhase"] {
        all.extend(hub.list(&like(kind, ns.name()), "").await);
    }
    let configmaps = configmap("").within(ns.name()).manifest;
    let site = pulled.joined.site().cluster().await;
    all.extend(site.list(&configmaps, "").await);
    all
}

/// Creates a chain with all situations that a new process could misjudge: objects handed over, a
/// failing probe, a pause, a collision.
async fn populate(pulled: &Pulled) {
    let (ns, class) = (&pulled.ns, pulled.class());
    ns.revision(1)
        .delegated("a", &class, [settings(), configmap("old")])
        .available()
        .await;
    ns.set("v2")
        .previous(&["v1"])
        .delegated("a", &class, [settings().data("x", "x"), configmap("new")])
        .phase("b", [configmap("here")])
        .reaching(&[Is("Available", "True"), No("InTransition")])
        .await;
    ns.reaches("v1", &[Controls(&["ConfigMap old"])]).await;
    ns.set("failing")
        .revision(1)
        .delegated("a", &class, [configmap("failing").data("k", "v")])
        .probe(fields_equal("", "ConfigMap", ".data.x", ".data.k"))
        .reaching(&[Because("Available", "False", "ProbeFailure")])
        .await;
    let site = pulled.joined.site().cluster().await;
    let taken = ns.reference(&configmap("taken"));
    site.create(&taken).await.unwrap();
    ns.set("collides")
        .revision(1)
        .delegated("a", &class, [configmap("taken")])
        .create()
        .await;
    let collision = [Because("Available", "False", "CollisionDetected")];
    ns.reaches("collides", &collision).await;
    ns.set("paused")
        .revision(1)
        .delegated("a", &class, [configmap("paused")])
        .available()
        .await;
    ns.set_lifecycle("paused", "Paused").await;
    ns.reaches("paused", &[Is("Paused", "True"), Is("Available", "True")])
        .await;
}

/// Nothing differs, so neither process writes anything, no matter if the agent runs, is silent, or
/// is back.
#[tokio::test]
async fn a_restart_of_the_manager_writes_nothing() {
    let mut bed = Exclusive::acquire().await;
    let ns = bed.namespace(Scope::Namespaced).await;
    let site = Site::get(PULL).await;
    let joined = site.join(&ns).pull().create().await;
    let agent = joined.agent().start().await;
    joined.becomes("Connected", "True").await;
    let mut pulled = Pulled { agent, joined, ns };
    populate(&pulled).await;

    settle(&pulled.ns, &bed).await;
    let before = picture(&pulled).await;
    restart(&mut bed, &pulled, "with the agent at work").await;
    assert_eq!(picture(&pulled).await, before, "with the agent at work");
    pulled.joined.becomes("Connected", "True").await;

    pulled.agent.stop();
    pulled.joined.because("Connected", SILENT).await;
    let lost = [Because("Available", "Unknown", "ClusterUnreachable")];
    for name in ["v1", "v2", "failing", "collides", "paused"] {
        pulled.ns.reaches(name, &lost).await;
    }
    settle(&pulled.ns, &bed).await;
    let silent = picture(&pulled).await;
    let reported = pulled.joined.read().await;
    restart(&mut bed, &pulled, "with the agent away").await;
    assert_eq!(picture(&pulled).await, silent, "with the agent away");
    assert_eq!(pulled.joined.read().await, reported);

    pulled.agent.start();
    pulled.joined.becomes("Connected", "True").await;
    pulled.ns.reaches("v2", &[Is("Available", "True")]).await;
    let failing = [Because("Available", "False", "ProbeFailure")];
    pulled.ns.reaches("failing", &failing).await;
    // The agent works, it is not only silent.
    pulled.is_repaired(&settings()).await;
}

/// Ends the manager in both ways, and fails if the next one writes anything.
async fn restart(bed: &mut Exclusive, pulled: &Pulled, text: &str) {
    for end in ["killed", "terminated"] {
        let manager = bed.take_manager();
        if end == "killed" {
            manager.kill();
        } else {
            assert!(manager.terminate().success());
        }
        bed.start_manager();
        settle(&pulled.ns, bed).await;
        let metrics = bed.manager().metrics();
        assert_eq!(metrics.writes(), 0, "after one was {end} {text}");
    }
}

/// A restarted agent writes nothing, and its short absence is not reported.
#[tokio::test]
async fn a_restart_of_the_agent_writes_nothing() {
    let mut pulled = Pulled::new(Scope::Namespaced).await;
    populate(&pulled).await;
    let before = picture(&pulled).await;
    for kill in [true, false] {
        if kill {
            pulled.agent.kill();
        } else {
            pulled.agent.stop();
        }
        pulled.agent.start();
        pulled
            .ns
            .eventually("the agent to be ready", async || pulled.agent.is_ready())
            .await;
        // The repair is queued behind the work of the start.
        pulled.is_repaired(&settings()).await;
        let mut after = picture(&pulled).await;
        // The object that was just repaired is left out.
        let other = |object: &Value| object["metadata"]["name"] != settings().name();
        after.retain(other);
        let expected: Vec<_> = before.iter().filter(|object| other(object)).collect();
        assert_eq!(after.iter().collect::<Vec<_>>(), expected);
    }
}

/// Of two agents one is the leader. The other one continues its work, at once if the leader has
/// ended regularly. No condition changes.
#[tokio::test]
async fn the_second_agent_takes_over_at_once() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let site = Site::get(PULL).await;
    site.namespace("baton-system").await;
    let joined = site.join(&ns).pull().create().await;
    let mut second = joined.agent().with_lease().prepare().await;
    let agent = joined.agent().with_lease().start().await;
    let connected = joined.becomes("Connected", "True").await;
    let mut pulled = Pulled { agent, joined, ns };
    pulled.deliver([settings()]).await;
    second.start();
    pulled
        .ns
        .eventually("the second to be ready", async || second.is_ready())
        .await;
    pulled.is_repaired(&settings()).await;
    assert_eq!(second.metrics().writes(), 0, "the second one waits");

    pulled.agent.stop();
    let ended = Instant::now();
    pulled.is_repaired(&settings()).await;
    assert!(
        ended.elapsed() < Duration::from_secs(5),
        "{:?}",
        ended.elapsed()
    );
    pulled.ns.reaches("v1", &[Is("Available", "True")]).await;
    assert_eq!(pulled.joined.becomes("Connected", "True").await, connected);
}
