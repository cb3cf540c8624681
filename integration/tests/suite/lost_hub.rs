//! Objects in other clusters that belong to a hub that does not exist any more.

use baton_integration::application::{ALL_IN, TestApplication};
use baton_integration::fleet::{Fleet, settings as versioned, version};
use baton_integration::prelude::*;
use baton_integration::sites::{PULL, PUSH, Site};

use crate::agent::{OWNERS, Pulled, remote_owners, settings};

const LOST_HUBS: &str = "baton.run/lost-hubs";
/// UID of the lost hub.
const OLD: &str = "11111111-2222-4333-8444-555555555555";
/// UID of the owner in the lost hub.
const OWNER: &str = "99999999-2222-4333-8444-555555555555";

/// Returns an object as the lost hub has left it: with its owner, its labels and its number.
fn left(entry: &Entry, hub: Option<&str>) -> Entry {
    let owner = json!({
        "apiVersion": "package-operator.run/v1alpha1", "kind": "ObjectSetPhase", "name": "web-7-a",
        "namespace": "elsewhere", "uid": OWNER, "controller": true,
    });
    let mut annotations =
        json!({ OWNERS: json!([owner]).to_string(), "package-operator.run/revision": "7" });
    if let Some(hub) = hub {
        annotations["baton.run/hub"] = hub.into();
    }
    let entry = entry.clone().with("/metadata/annotations", annotations);
    let labels = json!({ "package-operator.run/cache": "True" });
    entry.with("/metadata/labels", labels)
}

fn permission(value: &str) -> Value {
    json!({ "metadata": { "annotations": { LOST_HUBS: value } } })
}

const COLLIDES: [Expectation<'_>; 1] = [Because("Available", "False", "CollisionDetected")];

/// The object stays with a hub that nobody has declared lost. The permission on the deployment
/// reaches the revision that exists already.
#[tokio::test]
async fn a_deployment_takes_objects_over_from_a_lost_hub() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let site = Site::get(PUSH).await;
    let joined = site.join(&ns).create().await;
    joined.becomes("Connected", "True").await;
    let cluster = site.cluster().await;
    let there = left(&settings().data("k", "old"), Some(OLD));
    let before = cluster.create(&ns.reference(&there)).await.unwrap();
    let phase = json!({ "name": "a", "class": joined.class(), "objects": [settings().within(ns.name()).into_json()] });
    let deployment = object("package-operator.run/v1alpha1", "ObjectDeployment", "web").with(
        "/spec",
        json!({
            "selector": { "matchLabels": { "app": "web" } },
            "template": {
                "metadata": { "labels": { "app": "web" } },
                "spec": { "phases": [phase] },
            },
        }),
    );
    ns.create(&deployment).await;
    let text = format!("controlled by ObjectSetPhase elsewhere/web-7-a of hub {OLD}");
    ns.object_becomes(&deployment, "refused", |live| {
        live["status"]["conditions"].to_string().contains(&text)
    })
    .await;
    let adopt = ["adopt", "od/web", "--from-hub", OLD];
    let shown = ns.plugin(&adopt).done();
    let line = format!(
        "ConfigMap {}/cm: taken over from ObjectSetPhase elsewhere/web-7-a of hub {OLD}",
        ns.name()
    );
    assert!(shown.stdout.contains(&line), "{}", shown.stdout);
    ns.plugin(&["adopt", "od/web", "--from-hub", "another", "--apply"])
        .done();
    ns.stays(
        Duration::from_secs(2),
        "the object is left alone",
        async || site.live(&ns, &settings()).await == before,
    )
    .await;
    ns.plugin(&[adopt.as_slice(), &["--apply"]].concat()).done();
    ns.object_becomes(&deployment, "available", |live| {
        let conditions = live["status"]["conditions"].as_array().cloned();
        let mut conditions = conditions.into_iter().flatten();
        conditions.any(|it| it["type"] == "Available" && it["status"] == "True")
    })
    .await;
    let after = site.live(&ns, &settings()).await;
    assert_eq!(uid(&after), uid(&before));
    assert_eq!(after["data"]["k"], "v");
    let owners = remote_owners(&after);
    // The entry of the lost hub stays, so that the hub takes nothing back if it does exist.
    assert_eq!(owners[0], ("web-7-a".to_owned(), false));
    assert!(owners[1].1, "{owners:?}");
}

/// An agent gets the permission with the mirror. An owner without a hub is named by its own UID.
#[tokio::test]
async fn an_agent_takes_objects_over_from_a_lost_hub() {
    for (hub, named) in [(Some(OLD), OLD), (None, OWNER)] {
        let pulled = Pulled::new(Scope::Namespaced).await;
        let ns = &pulled.ns;
        let site = pulled.joined.site().cluster().await;
        let there = left(&settings(), hub);
        let before = site.create(&ns.reference(&there)).await.unwrap();
        let set = ns.revision(1);
        let phase = set.delegated("a", &pulled.class(), [settings()]);
        phase.create().await;
        ns.reaches("v1", &COLLIDES).await;
        assert_eq!(pulled.live(&settings()).await, before);
        ns.patch_set("v1", &permission(named)).await.unwrap();
        ns.reaches("v1", &[Is("Succeeded", "True")]).await;
        let after = pulled.live(&settings()).await;
        assert_eq!(uid(&after), uid(&before));
        assert_eq!(remote_owners(&after)[0], ("web-7-a".to_owned(), false));
        ns.delete_set("v1", "Background").await;
        pulled.gone(&settings()).await;
    }
}

/// A deployment to sites, with the permission from its beginning, is rolled out without an abort.
#[tokio::test]
async fn a_deployment_to_sites_moves_to_a_new_hub() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let fleet = Fleet::new(&ns);
    let (push, pull) = (Site::get(PUSH).await, Site::get(PULL).await);
    let pushed = push.join(&ns).named("push").create().await;
    let pulled = pull.join(&ns).named("pull").pull().create().await;
    let _agent = pulled.agent().start().await;
    let mut before = Vec::new();
    for joined in [&pushed, &pulled] {
        joined.becomes("Connected", "True").await;
        fleet.add(joined).await;
        let there = left(&versioned().data("version", "0.9.0"), Some(OLD));
        let cluster = joined.site().cluster().await;
        before.push(cluster.create(&ns.reference(&there)).await.unwrap());
    }
    fleet.application(&version("1.0.0")).await;
    let paused = json!({ "paused": true });
    fleet.deployment("web", paused).await;
    let entry = Fleet::kind("SiteDeployment", "web");
    ns.merge(&entry, &permission(OLD)).await;
    fleet.change("web", json!({ "paused": false })).await;
    fleet.complete("web", "1.0.0", 2).await;
    for (joined, before) in [&pushed, &pulled].into_iter().zip(&before) {
        let after = joined.site().live(&ns, &versioned()).await;
        assert_eq!(uid(&after), uid(before));
        assert_eq!(after["data"]["version"], "1.0.0");
    }
}

/// A rollout that was refused in its sites continues after the permission.
#[tokio::test]
async fn sites_that_were_refused_continue_with_the_permission() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let fleet = Fleet::new(&ns);
    let site = Site::get(PUSH).await;
    let joined = site.join(&ns).create().await;
    joined.becomes("Connected", "True").await;
    fleet.add(&joined).await;
    let there = left(&versioned().data("version", "0.9.0"), Some(OLD));
    let before = site.cluster().await.create(&ns.reference(&there)).await;
    fleet.application(&version("1.0.0")).await;
    fleet.deployment("web", json!({})).await;
    ns.eventually("a collision", async || {
        let revisions = fleet.revisions("web", &joined).await;
        let mut revisions = revisions.iter().map(Value::to_string);
        revisions.any(|it| it.contains("CollisionDetected"))
    })
    .await;
    let shown = ns
        .plugin(&["adopt", "sitedeploy/web", "--from-hub", OLD])
        .done();
    assert!(
        shown.stdout.contains("settings: taken over from"),
        "{}",
        shown.stdout
    );
    ns.plugin(&["adopt", "sitedeploy/web", "--from-hub", OLD, "--apply"])
        .done();
    fleet.has_version(&joined, Some("1.0.0")).await;
    let after = site.live(&ns, &versioned()).await;
    assert_eq!(uid(&after), uid(&before.unwrap()));
}

/// The objects of a Release are taken over in the clusters of its Application.
#[tokio::test]
async fn releases_take_objects_over_from_a_lost_hub() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let application = TestApplication::new(&ns, "web").await;
    let remote = &application.clusters[1];
    application
        .apply(application.environment("0.0.1", 1, ALL_IN))
        .await;
    application.completed(0).await;
    let services = application.services().await;
    let name = services[1]["metadata"]["name"].as_str().unwrap();
    let service = object("v1", "Service", name);
    let was = remote.joined.site().live(&ns, &service).await;
    // The cluster is given to the lost hub.
    ns.delete(&application.entry()).await;
    ns.eventually("the objects to be gone", async || {
        remote.joined.site().read(&ns, &service).await.is_none()
    })
    .await;
    let there = service.clone().with("/spec/ports", json!([{ "port": 80 }]));
    let there = left(&there, Some(OLD));
    let there = there.with("/metadata/labels", was["metadata"]["labels"].clone());
    let before = remote.cluster.create(&ns.reference(&there)).await.unwrap();
    application
        .apply(application.environment("0.0.1", 1, ALL_IN))
        .await;
    ns.merge(&application.entry(), &permission(OLD)).await;
    application.completed(0).await;
    let after = remote.joined.site().live(&ns, &service).await;
    assert_eq!(uid(&after), uid(&before));
    assert_eq!(remote_owners(&after)[0], ("web-7-a".to_owned(), false));
}
