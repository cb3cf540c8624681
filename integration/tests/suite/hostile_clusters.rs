//! Joined clusters that answer with what no API server sends: lists without an end, objects and
//! discovery of any size, answers of another kind.
//!
//! Each is bounded and reported by the revision. Nothing else waits for the cluster, and the revision
//! continues when the cluster answers again.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use baton_integration::faults::{Answer, Faults, On};
use baton_integration::hostile::{self, QUOTED};
use baton_integration::prelude::*;
use baton_integration::sites::{PUSH, Site};
use futures::future::join_all;

#[tokio::test]
async fn hostile_answers_are_bounded_and_reported() {
    let site = &Site::get(PUSH).await;
    join_all(hostile::answers().into_iter().map(async |hostile| {
        let (text, report) = (hostile.name, hostile.report);
        let ns = TestNamespace::new(Scope::Namespaced).await;
        println!("{}: {text}", ns.name());
        let faults = Faults::start(site.endpoint()).await;
        let joined = site.join(&ns).through(&faults.url()).create().await;
        joined.becomes("Connected", "True").await;
        faults.inject(hostile.on, hostile.answer);
        let object = configmap("cm").data("k", "v");
        let set = ns
            .revision(1)
            .delegated("a", &joined.class(), [object.clone()]);
        set.create().await;
        let live = ns.reaches("v1", &[Says("Available", report)]).await;
        let live = live.json["status"].to_string();
        assert!(!live.contains(QUOTED), "{text}: {live}");

        // Another revision does not wait.
        let lone = ns
            .set("lone")
            .revision(1)
            .phase("a", [configmap("lone").data("k", "v")]);
        lone.reaching(&[Is("Available", "True")]).await;

        faults.heal();
        ns.reaches("v1", &[Is("Succeeded", "True")]).await;
        assert_eq!(site.live(&ns, &object).await["data"], json!({ "k": "v" }));
    }))
    .await;
}

/// The cluster repeats the token of each request in its errors: in those of the checks, and in those
/// of the requests for a revision.
#[tokio::test]
async fn a_token_that_a_cluster_repeats_is_not_shown() {
    let site = &Site::get(PUSH).await;
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let faults = Faults::start(site.endpoint()).await;
    let token = site.account().await.token().await.text;
    let joined = site.join(&ns).through(&faults.url()).token(&token);
    let joined = joined.create().await;
    joined.becomes("Connected", "True").await;
    let object = configmap("cm").data("k", "v");
    faults.inject(On::any().path("/configmaps"), Answer::Echo);
    let set = ns.revision(1).delegated("a", &joined.class(), [object]);
    set.create().await;
    let wanted = [Says("Available", "[credential]")];
    let live = ns.reaches("v1", &wanted).await.json.to_string();
    faults.inject(On::any(), Answer::Echo);
    let lost = joined.becomes("Connected", "False").await;
    assert!(
        lost["message"].as_str().unwrap().contains("[credential]"),
        "{lost}"
    );

    let cluster = joined.read().await.unwrap()["status"].to_string();
    let events = baton_integration::prelude::object("v1", "Event", "");
    let events = events.within(ns.name()).manifest;
    let events = Value::from(ns.cluster().list(&events, "").await).to_string();
    let log = std::fs::read_to_string(ns.log().path()).unwrap();
    // Each third of the token, and what the alignment in base64 leaves of each.
    let thirds: Vec<_> = (0..3)
        .map(|at| &token[at * token.len() / 3..][..24])
        .collect();
    let encoded = BASE64_STANDARD.encode(&token);
    let behind = BASE64_STANDARD.encode(format!("Bearer {token}"));
    let forms = [&encoded[40..80], &behind[40..80]];
    for (from, text) in [
        ("revision", &live),
        ("Cluster", &cluster),
        ("events", &events),
        ("log", &log),
    ] {
        for form in thirds.iter().chain(&forms) {
            assert!(!text.contains(form), "{from} contains {form}");
        }
    }
    faults.heal();
    ns.reaches("v1", &[Is("Succeeded", "True")]).await;
}
