//! A stolen token of an agent, which may write the status of the objects in the agent's namespace.

use baton_integration::hostile::{forged_condition, forged_status};
use baton_integration::prelude::*;
use baton_integration::sites::TemporaryKubeconfig;
use futures::future::join_all;

use crate::agent::{Pulled, settings};

/// Connects to the hub with the rights of an agent.
async fn thief(pulled: &Pulled) -> (Cluster, TemporaryKubeconfig) {
    let token = pulled.joined.admit_agent().await.token().await;
    let hub = pulled.joined.hub_endpoint();
    let kubeconfig = TemporaryKubeconfig::new(&hub.kubeconfig(&token.text));
    (Cluster::connect(kubeconfig.path()).await, kubeconfig)
}

/// The status of the phase and of its revision keep their sizes and can be written, and the agent
/// continues afterwards.
#[tokio::test]
async fn a_forged_report_changes_no_more_than_the_state_of_its_phase() {
    let mut pulled = Pulled::new(Scope::Namespaced).await;
    pulled.deliver([settings()]).await;
    let (thief, _kubeconfig) = thief(&pulled).await;
    let phase = pulled.ns.phase_ref("v1", "a");
    let hub = pulled.ns.cluster();
    let before = hub.get(&phase).await.unwrap();
    let mirror = pulled.joined.mirrored().await.remove(0);
    pulled.agent.kill();

    let generation = before["metadata"]["generation"].as_i64().unwrap();
    let status = json!({ "status": forged_status(generation) });
    thief.merge_status(&mirror, &status).await.unwrap();
    let available = |live: &Value| {
        let conditions = live["status"]["conditions"].as_array().unwrap();
        let mut conditions = conditions.iter();
        conditions
            .find(|it| it["type"] == "Available")
            .unwrap()
            .clone()
    };
    let is_taken = async || {
        let live = hub.get(&phase).await.unwrap();
        available(&live)["message"] == "forged"
    };
    pulled
        .ns
        .eventually("the report to be taken over", is_taken)
        .await;
    let after = hub.get(&phase).await.unwrap();
    let types = |live: &Value| {
        let conditions = live["status"]["conditions"].as_array().unwrap();
        let types = conditions
            .iter()
            .map(|it| it["type"].as_str().unwrap().to_owned());
        types.collect::<Vec<_>>()
    };
    let mut types = types(&after);
    types.sort();
    assert_eq!(types, ["Available", "baton.run/Started"]);
    assert_eq!(
        after["status"]["contentHash"],
        before["status"]["contentHash"]
    );
    assert_eq!(after["status"].get("controllerOf"), None);
    let time = available(&after)["lastTransitionTime"].clone();
    assert!(!time.as_str().unwrap().starts_with("2399"), "{time}");

    pulled.agent.start();
    let wanted = [Is("Available", "True"), Controls(&["ConfigMap cm"])];
    pulled.ns.reaches("v1", &wanted).await;
    pulled.is_repaired(&settings()).await;
    pulled.ns.set_lifecycle("v1", "Paused").await;
    pulled.ns.reaches("v1", &[Is("Paused", "True")]).await;
}

/// A heartbeat cannot make the status of the Cluster large.
#[tokio::test]
async fn a_forged_heartbeat_is_cut() {
    let mut pulled = Pulled::new(Scope::Namespaced).await;
    pulled.joined.becomes("Connected", "True").await;
    let (thief, _kubeconfig) = thief(&pulled).await;
    pulled.agent.kill();
    let heartbeat = object("package-operator.run/v1alpha1", "ObjectSetPhase", "agent");
    let heartbeat = heartbeat.within(&pulled.joined.mirrors()).manifest;
    let beat = async |status: &str, number: usize| {
        let mut connected = forged_condition("Connected", 0, &format!("v{number}").repeat(9_000));
        connected["status"] = status.into();
        let status = json!({ "status": { "conditions": [connected] } });
        thief.merge_status(&heartbeat, &status).await.unwrap();
    };
    let cluster = async || pulled.joined.read().await.unwrap();
    let is_cut = async || {
        beat("True", 7).await;
        let version = cluster().await["status"]["serverVersion"].clone();
        version
            .as_str()
            .is_some_and(|version| version.starts_with("v7v7") && version.len() < 200)
    };
    pulled.ns.eventually("the version to be cut", is_cut).await;
    beat("False", 8).await;
    let lost = pulled.joined.becomes("Connected", "False").await;
    assert!(lost["message"].as_str().unwrap().len() < 1_100, "{lost}");
}

/// Reports in a loop wake the phase, its revision and all phases of the cluster at a limited pace.
/// The count includes the writes of the agent's place in the status of the Cluster.
#[tokio::test]
async fn reports_in_a_loop_cause_few_writes() {
    const REPORTS: usize = 120;
    let mut pulled = Pulled::new(Scope::Namespaced).await;
    pulled.deliver([settings()]).await;
    let (thief, _kubeconfig) = thief(&pulled).await;
    let hub = pulled.ns.cluster();
    let phase = pulled.ns.phase_ref("v1", "a");
    let revision = pulled.ns.set_ref("v1");
    let mirror = pulled.joined.mirrored().await.remove(0);
    let heartbeat = object("package-operator.run/v1alpha1", "ObjectSetPhase", "agent");
    let heartbeat = heartbeat.within(&pulled.joined.mirrors()).manifest;
    pulled.agent.kill();
    let generation = hub.get(&phase).await.unwrap()["metadata"]["generation"].clone();
    let generation = generation.as_i64().unwrap();
    let phases = Recording::start(hub, &phase, "").await;
    let revisions = Recording::start(hub, &revision, "").await;
    let start = std::time::Instant::now();
    let mut reports = 0;
    while reports < REPORTS {
        let condition = |type_: &str, number: usize| {
            let status = if number.is_multiple_of(20) {
                "True"
            } else {
                "False"
            };
            let mut condition = forged_condition(type_, generation, &format!("forged {number}"));
            condition["status"] = status.into();
            json!({ "status": { "conditions": [condition] } })
        };
        let round = (reports..reports + 10).map(|number| {
            let report = condition("Available", number);
            let (thief, mirror) = (&thief, &mirror);
            async move { thief.merge_status(mirror, &report).await.unwrap() }
        });
        join_all(round).await;
        let beat = condition("Connected", reports);
        thief.merge_status(&heartbeat, &beat).await.unwrap();
        reports += 10;
    }
    let writes = [phases.so_far().await, revisions.so_far().await];
    let writes = writes.map(|recorded| recorded.changes().values().sum::<usize>());
    let seconds = usize::try_from(start.elapsed().as_secs()).unwrap();
    println!(
        "{reports} reports in {seconds} s: {writes:?} writes of the phase and of the revision"
    );
    // The reports, and the states of the cluster that wake its phases: ten at once, and one per second.
    let most = 2 * (seconds + 12);
    assert!(
        writes.iter().all(|writes| (2..=most).contains(writes)),
        "{writes:?}"
    );
    pulled.agent.start();
    pulled.ns.reaches("v1", &[Is("Available", "True")]).await;
}
