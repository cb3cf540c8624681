//! Deployments that are deleted, and created again under the same name.

use baton_integration::application::{condition, reason};
use baton_integration::exclusive::Exclusive;
use baton_integration::faults::Gate;
use baton_integration::fleet::{APPLICATION, Fleet, settings, version};
use baton_integration::prelude::*;
use baton_integration::sites::{Joined, PUSH, Site, join_hub};

use super::waits;
use crate::site_rollouts::hub_behind_faults;

/// Joins the hub and a push cluster as sites, with the first version.
async fn installed(fleet: &Fleet<'_>) -> [Joined; 2] {
    let push = Site::get(PUSH).await;
    let hub = join_hub(fleet.ns, &push).await;
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

/// Returns the revisions in all sites, the oldest first.
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

fn uids(found: &[Value]) -> Vec<String> {
    found.iter().map(|it| uid(it).to_owned()).collect()
}

/// Deletes the deployment without its revisions.
async fn orphan_revisions(fleet: &Fleet<'_>) {
    let deployment = Fleet::kind("SiteDeployment", "web");
    let reference = fleet.ns.reference(&deployment);
    fleet.ns.cluster().delete(&reference, "Orphan").await;
    fleet.ns.gone(&deployment).await;
}

/// The objects of the deleted deployment are deleted with it; the new deployment installs the
/// application again.
#[tokio::test]
async fn a_deployment_recreated_at_once_installs_anew() {
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
    ns.eventually("revisions of the new one alone", is_new)
        .await;
    fleet.complete("web", "1.0.0", 2).await;
    fleet.application(&version("1.1.0")).await;
    fleet.complete("web", "1.1.0", 2).await;
    for site in &sites {
        fleet.has_version(site, Some("1.1.0")).await;
    }
}

/// A deployment is deleted without its revisions and created again. It adopts them, and no object
/// in a site is written.
#[tokio::test]
async fn a_recreated_deployment_adopts_its_orphaned_revisions() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let fleet = Fleet::new(&ns);
    let sites = installed(&fleet).await;
    let before = revisions(&fleet, &sites).await;
    let there = sites[1].site().live(&ns, &settings()).await;

    orphan_revisions(&fleet).await;
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
    assert_eq!(uids(&after), uids(&before));
    assert!(are_owned_by(&after, &owner), "{after:#?}");
    assert_eq!(sites[1].site().live(&ns, &settings()).await, there);
    assert_eq!(
        fleet.records("baton.run/site-deployment=web").await.len(),
        1
    );

    // The deployment is an owner of the running version's record, as of the record of every version
    // that it has rolled out.
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
    ns.eventually("the adopted revision to be archived", archived)
        .await;
}

/// Five newer versions are recorded, and the new deployment has an invalid placement. The running
/// version stays, and so does its record.
#[tokio::test]
async fn an_invalid_recreated_deployment_leaves_the_running_version() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let fleet = Fleet::new(&ns);
    let sites = installed(&fleet).await;
    let before = revisions(&fleet, &sites).await;
    orphan_revisions(&fleet).await;
    for number in 1..=5 {
        let newer = format!("1.{number}.0");
        fleet.application(&version(&newer)).await;
        let is_kept = async || fleet.kept().await.contains(&newer);
        ns.eventually("the version to be kept", is_kept).await;
    }
    let four_and_one = async || fleet.kept().await == ["1.0.0", "1.2.0", "1.3.0", "1.4.0", "1.5.0"];
    ns.eventually("the newest and the one that runs to be kept", four_and_one)
        .await;

    let mistake = json!({ "matchSiteLabels": "a ~ b" });
    let fields = json!({ "placement": mistake, "applicationVersion": "1.0.0" });
    fleet.deployment("web", fields).await;
    let reported = |live: &Value| {
        reason(live, "Placed")[0] == "InvalidExpression" && live["status"]["counts"]["sites"] == 2
    };
    fleet
        .becomes("web", "the mistake to be reported", reported)
        .await;
    let after = revisions(&fleet, &sites).await;
    assert_eq!(uids(&after), uids(&before));
    assert!(
        after
            .iter()
            .all(|it| it["metadata"]["deletionTimestamp"].is_null()),
        "{after:#?}"
    );
    for site in &sites {
        assert_eq!(fleet.version_in(site).await.as_deref(), Some("1.0.0"));
    }
    let corrected = json!({ "matchSiteLabels": fleet.expression() });
    fleet.change("web", json!({ "placement": corrected })).await;
    fleet.complete("web", "1.0.0", 2).await;
    assert_eq!(uids(&revisions(&fleet, &sites).await), uids(&before));
}

/// Without the application its windows are unknown, so versions that wait for a window keep
/// waiting.
#[tokio::test]
async fn the_deletion_of_an_application_opens_no_window() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let fleet = Fleet::new(&ns);
    let sites = installed(&fleet).await;
    let mut next = version("1.1.0");
    next["upgradeWindows"] = json!([{ "cron": "0 0 29 2 *", "duration": "1s" }]);
    fleet.application(&next).await;
    for site in &sites {
        waits(&fleet, site, "1.1.0", "Waits for its upgrade window").await;
    }
    ns.delete(&Fleet::kind("SiteApplication", APPLICATION))
        .await;
    for site in &sites {
        waits(&fleet, site, "1.1.0", "which does not exist").await;
        assert_eq!(fleet.version_in(site).await.as_deref(), Some("1.0.0"));
    }
    fleet.application(&version("1.1.0")).await;
    fleet.complete("web", "1.1.0", 2).await;
}

/// The manager observes the new deployment before it observes that the revisions have no owner any
/// more. It creates no revision for a version that runs.
#[tokio::test]
async fn a_recreated_deployment_adopts_revisions_whose_owner_it_observes_late() {
    let mut bed = Exclusive::acquire().await;
    let ns = bed.namespace(Scope::Namespaced).await;
    let fleet = Fleet::new(&ns);
    let (hub, faults, _manager) = hub_behind_faults(&mut bed, &fleet).await;
    fleet.deployment("web", json!({})).await;
    fleet.complete("web", "1.0.0", 1).await;
    let before = fleet.revisions("web", &hub).await;
    ns.until_owners_are_observed().await;

    let gate = Gate::default();
    faults.hold_watch("/objectsets$", &gate).await;
    orphan_revisions(&fleet).await;
    fleet.deployment("web", json!({})).await;
    let owner = owner(&fleet).await;
    ns.eventually("the revision to be adopted", async || {
        let found = fleet.revisions("web", &hub).await;
        found.len() > 1 || are_owned_by(&found, &owner)
    })
    .await;
    gate.open();
    fleet.complete("web", "1.0.0", 1).await;
    let after = fleet.revisions("web", &hub).await;
    assert_eq!(uids(&after), uids(&before));
}

/// The manager observes the changes of the orphaned revisions before the deletion. Garbage
/// collection would delete a revision, or the record of a version, that the manager gives back to
/// this deployment or application.
#[tokio::test]
async fn a_deleted_deployment_adopts_no_revisions() {
    let mut bed = Exclusive::acquire().await;
    let ns = bed.namespace(Scope::Namespaced).await;
    let fleet = Fleet::new(&ns);
    let (hub, faults, _manager) = hub_behind_faults(&mut bed, &fleet).await;
    fleet.deployment("web", json!({})).await;
    fleet.complete("web", "1.0.0", 1).await;
    let state = async || {
        let revisions = fleet.revisions("web", &hub).await;
        let records = fleet.records("baton.run/site-application").await;
        [revisions, records]
    };
    // The deployment becomes an owner of the record after the version is available.
    let has_both_owners = async || {
        let records = fleet.records("baton.run/site-application").await;
        records.iter().all(|it| owners(it).len() == 2)
    };
    ns.eventually("the record to have both owners", has_both_owners)
        .await;
    let before = state().await;
    ns.until_owners_are_observed().await;

    let gate = Gate::default();
    for path in ["/sitedeployments$", "/siteapplications$"] {
        faults.hold_watch(path, &gate).await;
    }
    let earlier = faults.requests().len();
    let application = Fleet::kind("SiteApplication", APPLICATION);
    let reference = ns.reference(&application);
    ns.cluster().delete(&reference, "Orphan").await;
    orphan_revisions(&fleet).await;
    ns.gone(&application).await;
    let examined = ["/sitedeployments/web", "/objectsets/web-"];
    faults.until_read(earlier, examined).await;
    ns.until_owners_are_observed().await;
    let after = state().await;
    assert_eq!(uids(&after.concat()), uids(&before.concat()), "{after:#?}");

    gate.open();
    fleet.application(&version("1.0.0")).await;
    fleet.deployment("web", json!({})).await;
    fleet.complete("web", "1.0.0", 1).await;
    assert_eq!(uids(&state().await.concat()), uids(&before.concat()));
}
