//! A version that one site of three refuses.

use baton_integration::application::{condition, reason};
use baton_integration::fleet::{Fleet, entry, settings, spec};
use baton_integration::prelude::*;

use crate::site_rollouts::Sites;

/// Returns a version with an object that collides in one site.
fn with_extra(number: &str) -> Value {
    let object = |name: &str| {
        configmap(name)
            .data("version", number)
            .data("other", number)
    };
    spec(number, &[object("settings"), object("extra")])
}

/// The site fails at once, without a deadline. The rollout is aborted in the site's wave, or
/// continues without the site.
#[tokio::test]
async fn a_site_that_refuses_a_version_fails_at_once() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let fleet = Fleet::new(&ns);
    let sites = Sites::of(&fleet).await;
    let push = sites.all[1].site().cluster().await;
    push.create(&ns.reference(&configmap("extra").data("of", "somebody")))
        .await
        .unwrap();
    let first = settings().data("version", "1.0.0").data("other", "1.0.0");
    fleet.application(&spec("1.0.0", &[first])).await;
    fleet.deployment("web", json!({})).await;
    fleet.complete("web", "1.0.0", 3).await;
    let rolling = |on_error: &str, most: Option<i32>| {
        let rolling = json!({ "sitesInParallel": 1 });
        let strategy = json!({ "type": "Rolling", "rolling": rolling, "onError": on_error, "maxFailures": most });
        json!({ "strategy": strategy })
    };
    fleet.change("web", rolling("Abort", None)).await;
    fleet.becomes("web", "observed", |_| true).await;

    fleet.application(&with_extra("1.1.0")).await;
    let aborted = |live: &Value| condition(live, "Aborted") == "True";
    let live = fleet.becomes("web", "aborted", aborted).await;
    let [why, text] = reason(&live, "Aborted");
    assert_eq!(why, "SiteFailed");
    assert!(
        text.contains(sites.all[1].name()) && text.contains("CollisionDetected"),
        "{text}"
    );
    // The failed site is the last one that got the version.
    let mut waves = Vec::new();
    for site in &sites.all {
        let mut revisions = fleet.revisions("web", site).await;
        revisions.retain(|it| entry(it)["version"] == "1.1.0");
        waves.push(revisions.first().and_then(|it| entry(it)["batch"].as_i64()));
        // The site that refuses the version may have some of its objects.
        if site.name() != sites.all[1].name() {
            let has = if revisions.is_empty() {
                "1.0.0"
            } else {
                "1.1.0"
            };
            fleet.has_version(site, Some(has)).await;
        }
    }
    let given = waves.iter().flatten().count();
    assert_eq!(waves[1], i64::try_from(given).ok(), "{waves:?}");

    fleet.change("web", rolling("Continue", Some(1))).await;
    fleet.becomes("web", "observed", |_| true).await;
    fleet.application(&with_extra("1.2.0")).await;
    let complete = fleet.complete("web", "1.2.0", 2).await;
    assert_eq!(complete["status"]["counts"]["failed"], 1);
    assert_ne!(condition(&complete, "Aborted"), "True");
    for site in [&sites.all[0], &sites.all[2]] {
        fleet.has_version(site, Some("1.2.0")).await;
    }
    let extra = push.get(&ns.reference(&configmap("extra"))).await.unwrap();
    assert_eq!(extra["data"], json!({ "of": "somebody" }));
}
