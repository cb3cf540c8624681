//! Objects that another client makes under names, labels and numbers of the controllers of sites.

use baton_apis::constants::{LABEL_SITE_APPLICATION, LABEL_SITE_DEPLOYMENT};
use baton_apis::limits;
use baton_integration::application::reason;
use baton_integration::fleet::{APPLICATION, Fleet, settings, spec, version};
use baton_integration::forged::{self, OWN_API};
use baton_integration::prelude::*;
use baton_integration::sites::{Joined, PUSH, Site, join_hub};
use baton_sites::chain::revision_name;
use baton_sites::snapshot::record_name;
use futures::future::join_all;

async fn one_site(ns: &TestNamespace) -> (Fleet<'_>, Joined) {
    let fleet = Fleet::new(ns);
    let hub = join_hub(ns, &Site::get(PUSH).await).await;
    fleet.add(&hub).await;
    (fleet, hub)
}

/// A slice, and a record with and without the label of records, exist before the application.
#[tokio::test]
async fn slices_and_records_of_other_clients_are_not_used() {
    join_all([true, false].map(async |is_labelled| {
        let ns = &TestNamespace::new(Scope::Namespaced).await;
        let (fleet, site) = one_site(ns).await;
        let spec = version("1.0.0");
        let content = forged::derived(ns, &spec);
        let slice = &content.slices[0].name;
        ns.create(&forged::slice(slice)).await;
        ns.create(&forged::slice("other")).await;
        let mut snapshot = content.snapshot;
        let name = record_name(APPLICATION, &snapshot.version, &snapshot.edit);
        snapshot.phases[0].slices = vec!["other".to_owned()];
        let mut record = object("apps/v1", "ControllerRevision", &name)
            .with("/data", json!(snapshot))
            .with("/revision", json!(7));
        if is_labelled {
            record = record.label(LABEL_SITE_APPLICATION, APPLICATION);
        }
        ns.create(&record).await;

        fleet.application(&spec).await;
        fleet.deployment("web", json!({})).await;
        fleet.complete("web", "1.0.0", 1).await;
        assert_eq!(fleet.version_in(&site).await.as_deref(), Some("1.0.0"));
        let revision = &fleet.revisions("web", &site).await[0];
        let expected = format!("{slice}-1");
        assert_eq!(revision["spec"]["phases"][0]["slices"], json!([expected]));
        // A version that shares the slice finds it.
        let shared = [settings().data("version", "1.0.0").data("other", "1.0.0")];
        fleet.application(&self::spec("1.1.0", &shared)).await;
        fleet.complete("web", "1.1.0", 1).await;
        let revision = &fleet.revisions("web", &site).await[1];
        assert_eq!(revision["spec"]["phases"][0]["slices"], json!([expected]));
    }))
    .await;
}

/// The record of a version exists, and owns a slice with other content: nothing is delivered, and the
/// application names the slice.
#[tokio::test]
async fn a_slice_with_other_content_is_reported() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let (fleet, site) = one_site(&ns).await;
    let spec = version("1.0.0");
    let snapshot = forged::derived(&ns, &spec).snapshot;
    let name = record_name(APPLICATION, &snapshot.version, &snapshot.edit);
    let record = object("apps/v1", "ControllerRevision", &name)
        .label(LABEL_SITE_APPLICATION, APPLICATION)
        .with("/data", json!(snapshot))
        .with("/revision", json!(1));
    let made = ns.create(&record).await;
    let owner = json!([{
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "name": name, "uid": made["metadata"]["uid"],
    }]);
    let slice = forged::slice(snapshot.slices().next().unwrap());
    let slice = slice.with("/metadata/ownerReferences", owner);
    ns.create(&slice).await;
    fleet.application(&spec).await;
    let application = Fleet::kind("SiteApplication", APPLICATION);
    let expected = format!("ObjectSlice {} has other content", slice.name());
    let is_reported = |live: &Value| {
        let [reason, message] = reason(live, "Kept");
        reason == "WriteError" && message.contains(&expected)
    };
    ns.object_becomes(&application, "the slice to be named", is_reported)
        .await;
    fleet.deployment("web", json!({})).await;
    let has_none = |live: &Value| reason(live, "Progressing")[0] == "VersionNotFound";
    fleet.becomes("web", "without a version", has_none).await;
    assert!(
        ns.cluster()
            .delete(&ns.reference(&slice), "Background")
            .await
    );
    fleet.complete("web", "1.0.0", 1).await;
    assert_eq!(fleet.version_in(&site).await.as_deref(), Some("1.0.0"));
}

/// Each row forges a version of a high number from the record of the application.
#[tokio::test]
async fn a_forged_version_is_not_rolled_out() {
    type Row = (&'static str, i64, fn(&mut Value));
    let rows: [Row; 4] = [
        ("copied with the highest number", i64::MAX, |_| {}),
        ("copied with a high number", 1000, |_| {}),
        ("with the label alone", 1000, |copy| {
            copy["metadata"]["ownerReferences"].take();
        }),
        ("of another controller", 1000, |copy| {
            copy["metadata"]["ownerReferences"][0]["kind"] = "StatefulSet".into();
            copy["metadata"]["ownerReferences"][0]["uid"] = "a".into();
        }),
    ];
    join_all(rows.map(async |(row, number, change)| {
        let ns = &TestNamespace::new(Scope::Namespaced).await;
        println!("{}: {row}", ns.name());
        let (fleet, site) = one_site(ns).await;
        fleet.application(&version("1.0.0")).await;
        fleet.deployment("web", json!({})).await;
        fleet.complete("web", "1.0.0", 1).await;
        ns.create(&forged::slice("forged")).await;
        let record = &fleet.records(LABEL_SITE_APPLICATION).await[0];
        for (name, version) in [("newer", "6.6.6"), ("same", "1.0.0")] {
            let forged = forged::copied(record, name, |copy| {
                copy["revision"] = number.into();
                copy["data"]["version"] = version.into();
                copy["data"]["edit"] = name.into();
                copy["data"]["phases"][0]["slices"] = json!(["forged"]);
                change(copy);
            });
            ns.cluster().create(&forged).await.unwrap();
        }
        fleet.application(&version("1.1.0")).await;
        fleet.complete("web", "1.1.0", 1).await;
        assert_eq!(fleet.version_in(&site).await.as_deref(), Some("1.1.0"));
        fleet.application(&version("1.2.0")).await;
        fleet.complete("web", "1.2.0", 1).await;
        // The version of the forged record with the same name is the one of the application.
        fleet
            .change("web", json!({ "applicationVersion": "1.0.0" }))
            .await;
        fleet.complete("web", "1.0.0", 1).await;
        let revisions = fleet.revisions("web", &site).await;
        let versions: Vec<_> = revisions
            .iter()
            .map(|it| baton_integration::fleet::entry(it)["version"].clone())
            .collect();
        assert!(!versions.contains(&json!("6.6.6")), "{row}: {versions:?}");
        assert_eq!(fleet.version_in(&site).await.as_deref(), Some("1.0.0"));
    }))
    .await;
}

/// A revision has the next name of a site, and a copy in its chain has the highest number.
#[tokio::test]
async fn a_site_gets_versions_beside_forged_revisions() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let (fleet, site) = one_site(&ns).await;
    let named = |number| revision_name("web", site.name(), number);
    let taken = object(OWN_API, "ObjectSet", &named(1));
    let phases = json!([{ "name": "a", "objects": [configmap("taken").into_json()] }]);
    ns.create(&taken.with("/spec", json!({ "phases": phases, "revision": 1 })))
        .await;
    fleet.application(&version("1.0.0")).await;
    fleet.deployment("web", json!({})).await;
    fleet.complete("web", "1.0.0", 1).await;
    let first = &fleet.revisions("web", &site).await[0];
    assert_eq!(first["metadata"]["name"], named(2));

    for (name, is_owned) in [("forged", true), ("labelled", false)] {
        let forged = forged::copied(first, name, |copy| {
            copy["spec"]["revision"] = limits::NUMBER.into();
            copy["spec"]["previous"].take();
            copy["spec"]["lifecycleState"] = "Paused".into();
            if !is_owned {
                copy["metadata"]["ownerReferences"].take();
            }
        });
        ns.cluster().create(&forged).await.unwrap();
    }
    fleet.application(&version("1.1.0")).await;
    fleet.complete("web", "1.1.0", 1).await;
    assert_eq!(fleet.version_in(&site).await.as_deref(), Some("1.1.0"));
}

/// The server accepts no number that another one cannot follow.
#[tokio::test]
async fn numbers_are_bounded_by_the_schema() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let set = ns.set("high").revision(limits::NUMBER + 1);
    let refused = set.phase("a", [configmap("high")]).try_create().await;
    let refused = format!("{:?}", refused.unwrap_err());
    assert!(refused.contains("spec.revision"), "{refused}");
}

/// A record of chosen sites names another site, and has a later generation than its deployment.
#[tokio::test]
async fn a_forged_choice_of_sites_is_deleted_once() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let (fleet, site) = one_site(&ns).await;
    fleet.application(&version("1.0.0")).await;
    fleet.deployment("web", json!({})).await;
    fleet.complete("web", "1.0.0", 1).await;
    let own = fleet.records(LABEL_SITE_DEPLOYMENT).await;
    let forged = forged::copied(&own[0], "forged", |copy| {
        copy["revision"] = i64::MAX.into();
        copy["data"]["sites"] = json!(["elsewhere"]);
    });
    ns.cluster().create(&forged).await.unwrap();
    let is_deleted = async || fleet.records(LABEL_SITE_DEPLOYMENT).await.len() == 1;
    ns.eventually("the forged record to be deleted", is_deleted)
        .await;
    fleet.application(&version("1.1.0")).await;
    fleet.complete("web", "1.1.0", 1).await;
    assert_eq!(fleet.version_in(&site).await.as_deref(), Some("1.1.0"));
    let left = fleet.records(LABEL_SITE_DEPLOYMENT).await;
    assert_eq!(left[0]["metadata"]["uid"], own[0]["metadata"]["uid"]);
}
