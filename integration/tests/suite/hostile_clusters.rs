//! Joined clusters that answer with what no API server sends: lists without an end, objects and
//! discovery of any size, answers of another kind.
//!
//! Each is bounded and reported by the revision. Nothing else waits for the cluster, and the revision
//! continues when the cluster answers again.

use baton_integration::faults::Faults;
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
