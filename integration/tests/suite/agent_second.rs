//! Two agents with the name of one cluster: only one of them delivers.

use baton_integration::prelude::*;
use baton_integration::sites::{PUSH, Site};

use crate::agent::{Pulled, settings};

/// The manifest of an agent is applied in another cluster by mistake. That agent changes nothing
/// while the first one reports, and takes its place when the first one is gone. The first one, which
/// returns later, is refused in turn.
#[tokio::test]
async fn a_second_agent_with_the_name_of_a_cluster_is_refused() {
    let mut pulled = Pulled::new(Scope::Namespaced).await;
    pulled.deliver([settings()]).await;
    let elsewhere = Site::get(PUSH).await;
    elsewhere.namespace(pulled.ns.name()).await;
    let token = elsewhere.account().await.token().await.text;
    let second = pulled.joined.agent().site(elsewhere.endpoint());
    let mut second = second.site_token(&token).start().await;

    let refused = pulled.joined.becomes("SecondAgent", "True").await;
    assert_eq!(refused["reason"], "AgentRefused");
    let message = refused["message"].as_str().unwrap();
    assert!(
        message.contains("delivers nothing. End it, or join"),
        "{message}"
    );
    let is_logged = async || {
        second
            .log()
            .about("this one is refused", 1)
            .contains("ERROR")
    };
    pulled
        .ns
        .eventually("the second agent to be refused", is_logged)
        .await;
    // The first one continues, also with another revision, and after a restart.
    pulled.is_repaired(&settings()).await;
    pulled.agent.kill();
    pulled.agent.start();
    let class = pulled.class();
    let later = pulled.ns.set("v2").previous(&["v1"]);
    let later = later.delegated("a", &class, [settings().data("k", "w")]);
    later.reaching(&[Is("Succeeded", "True")]).await;
    let untouched = async || elsewhere.read(&pulled.ns, &settings()).await.is_none();
    let text = "nothing is written in the other cluster";
    pulled
        .ns
        .stays(Duration::from_secs(3), text, untouched)
        .await;
    pulled.joined.becomes("Connected", "True").await;

    pulled.agent.kill();
    let delivered = async || elsewhere.read(&pulled.ns, &settings()).await.is_some();
    pulled
        .ns
        .eventually("the second agent to deliver", delivered)
        .await;
    pulled.ns.reaches("v2", &[Is("Available", "True")]).await;
    let is_over = async || {
        let cluster = pulled.joined.read().await.unwrap();
        let conditions = cluster["status"]["conditions"].as_array().unwrap().clone();
        conditions
            .iter()
            .all(|condition| condition["type"] != "SecondAgent")
    };
    pulled
        .ns
        .eventually("no agent to be refused", is_over)
        .await;

    pulled.agent.start();
    pulled.joined.becomes("SecondAgent", "True").await;
    let drift = json!({ "data": { "k": "drifted" } });
    let drifted = pulled.merge(&settings(), &drift).await;
    let untouched = async || pulled.live(&settings()).await == drifted;
    let text = "the first agent is refused";
    pulled
        .ns
        .stays(Duration::from_secs(2), text, untouched)
        .await;
    second.kill();
    pulled
        .object_becomes(&settings(), "repaired", |live| live["data"]["k"] == "w")
        .await;
    elsewhere.forget(pulled.ns.name()).await;
}
