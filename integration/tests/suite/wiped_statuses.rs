//! A status that another client has removed is written again, without another event.

use baton_integration::application::{ALL_IN, TestApplication, name};
use baton_integration::fleet::{APPLICATION, Fleet, version};
use baton_integration::prelude::*;
use baton_integration::sites::{PUSH, Site, join_hub};

alternating_scopes! {
    the_status_of_a_revision_returns_as_it_was;
    the_status_of_an_archived_revision_returns;
    statuses_of_phases_and_deployments_return;
}

/// The class of the manager's own phase objects.
const CLASS: &str = "default";

/// Returns patches by which a client can remove a status: all of it, its conditions, and one
/// condition. No status of Baton is like one of these results.
fn removals(status: &Value, condition: &str) -> [Value; 3] {
    let mut conditions = status["conditions"].as_array().unwrap().clone();
    conditions.retain(|it| it["type"] != condition);
    [
        json!({ "status": null }),
        json!({ "status": { "conditions": [] } }),
        json!({ "status": { "conditions": conditions } }),
    ]
}

/// Returns a status without its times.
fn timeless(status: &Value) -> Value {
    match status {
        Value::Object(fields) => {
            let lasting = fields.iter().filter(|(name, _)| !name.ends_with("Time"));
            lasting
                .map(|(name, value)| (name.clone(), timeless(value)))
                .collect()
        }
        Value::Array(items) => items.iter().map(timeless).collect(),
        other => other.clone(),
    }
}

/// Waits until a status does not change for longer than the delay of debounced writes.
async fn at_rest(ns: &TestNamespace, object: &Value) -> Value {
    let read = async || ns.cluster().get(object).await.unwrap()["status"].take();
    ns.eventually("a status at rest", async || {
        let before = read().await;
        tokio::time::sleep(Duration::from_millis(1500)).await;
        read().await == before
    })
    .await;
    read().await
}

/// Removes the status of an object, and waits until it is there again except for its times.
/// `removal` sends the request.
async fn returns(ns: &TestNamespace, object: &Value, removal: impl AsyncFn(&Value)) {
    let before = at_rest(ns, object).await;
    removal(&json!({ "status": null })).await;
    let text = format!("the status of the {} to return", object["kind"]);
    ns.eventually(&text, async || {
        let live = ns.cluster().get(object).await.unwrap();
        timeless(&live["status"]) == timeless(&before)
    })
    .await;
}

/// As [`returns`], for a kind whose status is a subresource.
async fn subresource_returns(ns: &TestNamespace, object: &Value) {
    let remove = async |patch: &Value| {
        ns.cluster().merge_status(object, patch).await.unwrap();
    };
    returns(ns, object, remove).await;
}

/// The times of the conditions are the same, too: the manager still has the status.
async fn the_status_of_a_revision_returns_as_it_was(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    ns.revision(1)
        .phase("a", [configmap("here")])
        .delegated("b", CLASS, [configmap("there")])
        .reaching(&[Is("Succeeded", "True"), No("InTransition")])
        .await;
    for object in [ns.set_ref("v1"), ns.phase_ref("v1", "b")] {
        let before = at_rest(&ns, &object).await;
        for removal in removals(&before, "Available") {
            ns.cluster().merge_status(&object, &removal).await.unwrap();
            ns.eventually("the status to return", async || {
                ns.cluster().get(&object).await.unwrap()["status"] == before
            })
            .await;
        }
    }
}

async fn the_status_of_an_archived_revision_returns(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let [here, there, last] = ["here", "there", "last"].map(configmap);
    ns.revision(1)
        .delegated("a", CLASS, [there.clone()])
        .phase("b", [here.clone()])
        .delegated("c", CLASS, [last.clone()])
        .available()
        .await;
    ns.set_lifecycle("v1", "Archived").await;
    ns.reaches("v1", &[Is("Archived", "True")]).await;
    let set = ns.set_ref("v1");
    let before = at_rest(&ns, &set).await;
    assert_eq!(before["remotePhases"].as_array().unwrap().len(), 2);
    let is_back = async || {
        let now = ns.read_set("v1").await;
        let status = &now.json["status"];
        now.has(&[Because("Archived", "True", "Archived"), No("Available")])
            && ["phase", "revision", "remotePhases"]
                .iter()
                .all(|field| status[field] == before[field])
    };
    for removal in removals(&before, "Archived") {
        ns.cluster().merge_status(&set, &removal).await.unwrap();
        ns.eventually("the status to return", is_back).await;
    }
    // The end of the revision is final also without its status.
    ns.set_lifecycle("v1", "Active").await;
    let removal = json!({ "status": null });
    ns.cluster().merge_status(&set, &removal).await.unwrap();
    ns.eventually("the status to return", is_back).await;
    ns.stays(Duration::from_secs(2), "archived for good", async || {
        is_back().await
            && ns.get(&here).await.is_none()
            && ns.get(&there).await.is_none()
            && ns.get(&last).await.is_none()
    })
    .await;
}

async fn statuses_of_phases_and_deployments_return(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let content = ns.content().delegated("a", CLASS, [configmap("there")]);
    let web = ns.deployment("web").content(content).create().await;
    web.concluded().await;
    subresource_returns(&ns, &web.reference()).await;
    let first = web.set(1).await;
    let mut phase = first.json.clone();
    phase["kind"] = format!("{}Phase", first.json["kind"].as_str().unwrap()).into();
    phase["metadata"]["name"] = first.json["status"]["remotePhases"][0]["name"].clone();
    subresource_returns(&ns, &phase).await;
}

#[tokio::test]
async fn statuses_of_site_rollouts_return() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let fleet = Fleet::new(&ns);
    let hub = join_hub(&ns, &Site::get(PUSH).await).await;
    fleet.add(&hub).await;
    fleet.application(&version("1.0.0")).await;
    fleet.deployment("web", json!({})).await;
    fleet.complete("web", "1.0.0", 1).await;
    for (kind, name) in [("SiteApplication", APPLICATION), ("SiteDeployment", "web")] {
        let object = ns.reference(&Fleet::kind(kind, name));
        subresource_returns(&ns, &object).await;
    }
    let application = ns.reference(&Fleet::kind("SiteApplication", APPLICATION));
    let removal = json!({ "status": { "versions": null } });
    ns.cluster()
        .merge_status(&application, &removal)
        .await
        .unwrap();
    let is_kept = async || fleet.kept().await == ["1.0.0"];
    ns.eventually("the versions to return", is_kept).await;
}

#[tokio::test]
async fn statuses_of_releases_return() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let app = TestApplication::new(&ns, "web").await;
    app.apply(app.environment("0.0.1", 2, ALL_IN)).await;
    let release = app.completed(0).await;
    for kind in ["CapacityTarget", "TrafficTarget"] {
        let target = TestApplication::kind(kind, name(&release));
        subresource_returns(&ns, &ns.reference(&target)).await;
    }
    let of_release = ["InstallationTarget", "Release"];
    let of_release = of_release.map(|kind| TestApplication::kind(kind, name(&release)));
    for entry in of_release.iter().chain([&app.entry()]) {
        let object = ns.reference(entry);
        let remove = async |patch: &Value| {
            ns.cluster().merge(&object, patch).await.unwrap();
        };
        returns(&ns, &object, remove).await;
    }
}
