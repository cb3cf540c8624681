//! Deployments that are deleted, and created again under the same name.

use baton_integration::application::condition;
use baton_integration::fleet::{Fleet, settings, version};
use baton_integration::prelude::*;
use baton_integration::sites::{Joined, PUSH, Site};

use crate::push::itself;

/// The hub and a site that is pushed into, with the first version.
async fn installed(fleet: &Fleet<'_>) -> [Joined; 2] {
    let push = Site::get(PUSH).await;
    let hub = itself(fleet.ns, &push).await;
    let pushed = push.join(fleet.ns).named("push").create().await;
    pushed.becomes("Connected", "True").await;
    let sites = [hub, pushed];
    for site in &sites {
        fleet.add(site).await;
    }
    fleet.ns.until_garbage_is_collected().await;
    fleet.application(&version("1.0.0")).await;
    fleet.deployment("web", json!({})).await;
    fleet.complete("web", "1.0.0", 2).await;
    sites
}

async fn owner(fleet: &Fleet<'_>) -> String {
    let live = fleet.ns.live(&Fleet::kind("SiteDeployment", "web")).await;
    uid(&live).to_owned()
}

/// The revisions in all sites, the oldest first.
async fn revisions(fleet: &Fleet<'_>, sites: &[Joined]) -> Vec<Value> {
    let mut found = Vec::new();
    for site in sites {
        found.extend(fleet.revisions("web", site).await);
    }
    found
}

fn are_owned_by(revisions: &[Value], owner: &str) -> bool {
    revisions
        .iter()
        .all(|it| owners(it).len() == 1 && owners(it)[0]["uid"] == owner)
}

/// What the one before had goes with it; the new one installs the application anew.
#[tokio::test]
async fn one_that_is_created_again_at_once_installs_anew() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let fleet = Fleet::new(&ns);
    let sites = installed(&fleet).await;
    ns.delete(&Fleet::kind("SiteDeployment", "web")).await;
    fleet.deployment("web", json!({})).await;
    let owner = owner(&fleet).await;
    let is_new = async || {
        let found = revisions(&fleet, &sites).await;
        found.len() == 2 && are_owned_by(&found, &owner)
    };
    ns.within(Duration::from_secs(90))
        .eventually("revisions of the new one alone", is_new)
        .await;
    fleet.complete("web", "1.0.0", 2).await;
    fleet.application(&version("1.1.0")).await;
    fleet.complete("web", "1.1.0", 2).await;
    for site in &sites {
        fleet.has_version(site, Some("1.1.0")).await;
    }
}

/// Deleted without what it has brought, and created again: everything is as before, and nothing in a site was written.
#[tokio::test]
async fn one_that_has_left_its_revisions_takes_them_up_again() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let fleet = Fleet::new(&ns);
    let sites = installed(&fleet).await;
    let before = revisions(&fleet, &sites).await;
    let there = sites[1].site().live(&ns, &settings()).await;

    let deployment = Fleet::kind("SiteDeployment", "web");
    ns.cluster()
        .delete(&ns.reference(&deployment), "Orphan")
        .await;
    ns.gone(&deployment).await;
    let orphans = revisions(&fleet, &sites).await;
    assert!(
        orphans.iter().all(|it| owners(it).is_empty()),
        "{orphans:#?}"
    );
    fleet.deployment("web", json!({})).await;
    let complete = fleet.complete("web", "1.0.0", 2).await;
    assert_eq!(complete["status"]["rollout"], 1);
    let owner = owner(&fleet).await;
    let after = revisions(&fleet, &sites).await;
    let uids = |found: &[Value]| {
        found
            .iter()
            .map(|it| uid(it).to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(uids(&after), uids(&before));
    assert!(are_owned_by(&after, &owner), "{after:#?}");
    assert_eq!(sites[1].site().live(&ns, &settings()).await, there);
    assert_eq!(
        fleet.records("baton.run/site-deployment=web").await.len(),
        1
    );

    // It keeps the version that it runs, as one that it has given.
    let records = fleet.records("baton.run/site-application").await;
    assert!(
        owners(&records[0]).iter().any(|it| it["uid"] == *owner),
        "{records:#?}"
    );
    fleet.application(&version("1.1.0")).await;
    fleet.complete("web", "1.1.0", 2).await;
    for site in &sites {
        fleet.has_version(site, Some("1.1.0")).await;
    }
    let archived = async || {
        let found = revisions(&fleet, &sites).await;
        let archived = found
            .iter()
            .filter(|it| condition(it, "Archived") == "True");
        (found.len(), archived.count()) == (4, 2)
    };
    ns.eventually("what was taken up to be archived", archived)
        .await;
}
