//! Baton's own kinds, when they are temporarily not served, or when the manager temporarily may not
//! list them.
//!
//! Without a list the manager knows nothing about the objects: deployed objects stay, nothing is
//! deleted or newly delivered, and a condition reports the reason.

use baton_integration::application::reason;
use baton_integration::endpoint::Endpoint;
use baton_integration::exclusive::Exclusive;
use baton_integration::faults::{Answer, Faults, On, WatchEnd};
use baton_integration::fleet::{Fleet, version};
use baton_integration::manager::Manager;
use baton_integration::prelude::*;
use baton_integration::sites::{PUSH, Site};

use crate::assignments::{assign, names};

const AVAILABLE: [Expectation<'_>; 1] = [Is("Available", "True")];
const REFUSED: [Expectation<'_>; 1] = [Because("Available", "False", "PreflightError")];
const UNKNOWN: [Expectation<'_>; 1] = [Because("Available", "Unknown", "ListFailed")];
const UNLISTED: &str = "ListFailed";

/// A control plane, and a manager behind a fault injector. The test creates the namespaces.
struct Unlisted {
    bed: Exclusive,
    faults: Faults,
}

impl Unlisted {
    async fn new() -> Self {
        let bed = Exclusive::acquire().await;
        let faults = Faults::start(&Endpoint::of_bed(bed.cluster().kubeconfig())).await;
        Self { bed, faults }
    }

    async fn manager(&mut self) -> Manager {
        let flags = ["--leader-elect=false"];
        self.bed.manager_through(&self.faults, &flags).await
    }

    /// Lets every request for a path that matches this expression get this answer, from now on.
    async fn lose(&self, path: &str, answer: Answer) {
        let lost = self.faults.inject(On::any().path(path), answer);
        self.faults.end_watches(path, WatchEnd::Close);
        lost.used(1).await;
    }
}

/// True if the test's application has a record of a version.
async fn is_kept(ns: &TestNamespace, version: &str) -> bool {
    let like = object("apps/v1", "ControllerRevision", "any");
    let label = "baton.run/site-application";
    let records = ns.cluster().list(&ns.reference(&like), label).await;
    records.iter().any(|it| it["data"]["version"] == version)
}

async fn kept(ns: &TestNamespace, version: &str) {
    let text = format!("version {version} to be kept");
    ns.eventually(&text, async || is_kept(ns, version).await)
        .await;
}

/// Version 1.0.0 is kept only because a deployment without sites names it.
#[tokio::test]
async fn named_versions_are_kept_while_deployments_are_not_served() {
    let mut it = Unlisted::new().await;
    let ns = it.bed.namespace(Scope::Namespaced).await;
    let _manager = it.manager().await;
    let fleet = Fleet::new(&ns);
    fleet.application(&version("1.0.0")).await;
    kept(&ns, "1.0.0").await;
    fleet
        .deployment("pinned", json!({ "applicationVersion": "1.0.0" }))
        .await;
    for newer in ["1.1.0", "1.2.0", "1.3.0", "1.4.0"] {
        fleet.application(&version(newer)).await;
        kept(&ns, newer).await;
    }
    it.lose("/sitedeployments(/|$)", Answer::unserved()).await;
    let application = Fleet::kind("SiteApplication", "shop");
    let says = async |wanted: &str| {
        let live = ns.live(&application).await;
        let [why, message] = reason(&live, "Kept");
        why == wanted
            && (wanted != UNLISTED || message.contains("SiteDeployments cannot be listed"))
    };
    // The newest four versions are kept in any case. With this one, the first version is not among
    // them.
    fleet.application(&version("1.5.0")).await;
    let pinned = "version 1.0.0 to be kept";
    ns.stays(Duration::from_secs(3), pinned, async || {
        is_kept(&ns, "1.0.0").await
    })
    .await;
    let unknown = "the application to report the kind that cannot be listed";
    ns.eventually(unknown, async || says(UNLISTED).await).await;
    it.faults.heal();
    ns.eventually("versions to be kept again", async || {
        is_kept(&ns, "1.5.0").await && says("Kept").await
    })
    .await;
    assert!(is_kept(&ns, "1.0.0").await);
}

/// In a closed cluster, existing deliveries continue, refused namespaces stay refused, and nothing
/// new is delivered.
async fn a_closed_cluster_stays_closed(answer: Answer, cause: &str) {
    let mut it = Unlisted::new().await;
    let ns = it.bed.namespace(Scope::Namespaced).await;
    let stranger = it.bed.namespace(Scope::Namespaced).await;
    let site = Site::get(PUSH).await;
    let joined = site.join(&ns).create().await;
    let closed = json!({ "namespaces": names(&[ns.name()]), "clusters": names(&[joined.name()]) });
    assign(&ns, "closed", closed).await;
    let _manager = it.manager().await;
    let deliver = async |ns: &TestNamespace, name: &str| {
        let settings = configmap(name).data("k", "1");
        let set = ns.set(name).revision(1);
        let set = set.delegated("a", &joined.class(), vec![settings]);
        set.create().await;
    };
    deliver(&ns, "runs").await;
    ns.reaches("runs", &AVAILABLE).await;
    deliver(&stranger, "early").await;
    stranger.reaches("early", &REFUSED).await;

    it.lose("/siteassignments$", answer).await;
    let unknown = stranger.reaches("early", &UNKNOWN).await;
    let message = unknown.message("Available");
    assert!(
        message.contains("SiteAssignments cannot be listed"),
        "{message}"
    );
    assert!(message.contains(cause), "{message}");
    deliver(&stranger, "late").await;
    stranger.reaches("late", &UNKNOWN).await;
    deliver(&ns, "new").await;
    ns.reaches("new", &UNKNOWN).await;
    let drift = json!({ "data": { "k": "drifted" } });
    let runs = configmap("runs");
    let cluster = site.cluster().await;
    cluster.merge(&ns.reference(&runs), &drift).await.unwrap();
    ns.eventually("the drift to be undone", async || {
        site.live(&ns, &runs).await["data"]["k"] == "1"
    })
    .await;
    ns.reaches("runs", &AVAILABLE).await;
    assert_eq!(site.read(&ns, &configmap("new")).await, None);
    for name in ["early", "late"] {
        assert_eq!(site.read(&stranger, &configmap(name)).await, None);
    }

    it.faults.heal();
    ns.reaches("new", &AVAILABLE).await;
    for name in ["early", "late"] {
        stranger.reaches(name, &REFUSED).await;
    }
}

#[tokio::test]
async fn a_closed_cluster_stays_closed_while_assignments_are_not_served() {
    a_closed_cluster_stays_closed(Answer::unserved(), "does not serve the kind").await;
}

#[tokio::test]
async fn a_closed_cluster_stays_closed_while_assignments_may_not_be_listed() {
    a_closed_cluster_stays_closed(Answer::forbidden(), "is forbidden").await;
}

/// A manager starts without the right to list the kind that decides which namespaces may use a
/// site.
async fn a_deployment_that_follows_keeps_its_sites(path: &str, kind: &str) {
    let mut it = Unlisted::new().await;
    let ns = it.bed.namespace(Scope::Namespaced).await;
    let fleet = Fleet::new(&ns);
    let push = Site::get(PUSH).await;
    let site = push.join(&ns).create().await;
    let own =
        json!({ "selector": { "matchLabels": { "kubernetes.io/metadata.name": ns.name() } } });
    let open = json!({ "namespaces": own, "clusters": names(&[site.name()]) });
    assign(&ns, "open", open).await;
    fleet.add(&site).await;
    fleet.application(&version("1.0.0")).await;
    let follow = json!({ "matchSiteLabels": fleet.expression(), "follow": true });
    fleet
        .deployment("web", json!({ "placement": follow }))
        .await;
    fleet.complete("web", "1.0.0", 1).await;
    let before = fleet.revisions("web", &site).await;

    it.faults.inject(On::any().path(path), Answer::forbidden());
    let _manager = it.manager().await;
    let text = "to report the kind that cannot be listed";
    let held = fleet
        .becomes("web", text, |live| {
            reason(live, "Progressing")[0] == UNLISTED
        })
        .await;
    let message = &reason(&held, "Progressing")[1];
    assert!(
        message.contains(&format!("{kind} cannot be listed")),
        "{message}"
    );
    fleet.application(&version("1.1.0")).await;
    ns.stays(
        Duration::from_secs(3),
        "the site to keep its objects",
        async || {
            let now = fleet.revisions("web", &site).await;
            let is_same = |(one, other): (&Value, &Value)| {
                let [one, other] = [one, other].map(|it| &it["metadata"]);
                one["uid"] == other["uid"] && other["deletionTimestamp"].is_null()
            };
            now.len() == before.len() && before.iter().zip(&now).all(is_same)
        },
    )
    .await;
    fleet.has_version(&site, Some("1.0.0")).await;

    it.faults.heal();
    fleet.complete("web", "1.1.0", 1).await;
    fleet.has_version(&site, Some("1.1.0")).await;
}

#[tokio::test]
async fn sites_are_kept_while_assignments_may_not_be_listed() {
    a_deployment_that_follows_keeps_its_sites("/siteassignments$", "SiteAssignments").await;
}

#[tokio::test]
async fn sites_are_kept_while_namespaces_may_not_be_listed() {
    a_deployment_that_follows_keeps_its_sites("^/api/v1/namespaces$", "Namespaces").await;
}
