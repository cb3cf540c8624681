//! Rollouts of an application's versions to sites.

use std::sync::atomic::{AtomicU32, Ordering};

use baton_integration::agent::Agent;
use baton_integration::application::{condition, reason};
use baton_integration::endpoint::Endpoint;
use baton_integration::exclusive::Exclusive;
use baton_integration::faults::{Answer, Faults, Gate, On, Verb, WatchEnd};
use baton_integration::fleet::{
    APPLICATION, Fleet, LABEL, entry, settings, spec, version, version_with,
};
use baton_integration::manager::Manager;
use baton_integration::prelude::*;
use baton_integration::proxy::{Mode, Proxy};
use baton_integration::sites::{Joined, PULL, PUSH, Site, join_hub};

use jiff::Timestamp;

use crate::requests::settle;

/// Three sites: the hub under the name of another cluster, a push cluster, and a pull cluster.
pub(crate) struct Sites {
    pub(crate) all: [Joined; 3],
    _agent: Agent,
}

impl Sites {
    pub(crate) async fn of(fleet: &Fleet<'_>) -> Self {
        let ns = fleet.ns;
        let (push, pull) = (Site::get(PUSH).await, Site::get(PULL).await);
        let hub = join_hub(ns, &push).await;
        let pushed = push.join(ns).named("push").create().await;
        let pulled = pull.join(ns).named("pull").pull().create().await;
        let agent = pulled.agent().start().await;
        let all = [hub, pushed, pulled];
        for site in &all {
            site.becomes("Connected", "True").await;
            fleet.add(site).await;
        }
        Self { all, _agent: agent }
    }

    async fn have(&self, fleet: &Fleet<'_>, version: Option<&str>) {
        for site in &self.all {
            fleet.has_version(site, version).await;
        }
    }
}

/// Makes the hub the only site, with the first version.
async fn one_site(fleet: &Fleet<'_>) -> Joined {
    let hub = join_hub(fleet.ns, &Site::get(PUSH).await).await;
    fleet.add(&hub).await;
    fleet.application(&version("1.0.0")).await;
    fleet.deployment("web", json!({})).await;
    fleet.complete("web", "1.0.0", 1).await;
    hub
}

/// Makes the hub the only site of an application with the first version. A manager with faults around
/// it runs as long as the last value of the result exists.
pub(crate) async fn hub_behind_faults(
    bed: &mut Exclusive,
    fleet: &Fleet<'_>,
) -> (Joined, Faults, Manager) {
    let hub = join_hub(fleet.ns, &Site::get(PUSH).await).await;
    fleet.add(&hub).await;
    fleet.application(&version("1.0.0")).await;
    let faults = Faults::start(&Endpoint::of_bed(bed.cluster().kubeconfig())).await;
    let manager = bed
        .manager_through(&faults, &["--leader-elect=false"])
        .await;
    (hub, faults, manager)
}

fn rolling() -> Value {
    json!({"strategy": { "type": "Rolling", "rolling": { "sitesInParallel": 1 } }})
}

/// Returns the numbers of the waves in which the sites got a version, sorted.
async fn order(fleet: &Fleet<'_>, sites: &Sites, number: &str) -> Vec<i64> {
    let mut batches = Vec::new();
    for site in &sites.all {
        let revisions = fleet.revisions("web", site).await;
        let mut of_version = revisions.iter().filter(|it| entry(it)["version"] == number);
        let revision = of_version.next().unwrap();
        batches.push(entry(revision)["batch"].as_i64().unwrap());
    }
    batches.sort_unstable();
    batches
}

/// Returns an application with the probes that `pack` makes for six kinds of workloads.
fn probed(number: &str) -> Value {
    let rules = [
        (
            "apps",
            "Deployment",
            "(has(self.status.updatedReplicas) ? self.status.updatedReplicas : 0) == \
          self.spec.replicas && (has(self.status.replicas) ? self.status.replicas : 0) == self.spec.replicas",
        ),
        (
            "apps",
            "StatefulSet",
            "self.spec.updateStrategy.type == 'OnDelete' || (has(self.status.updatedReplicas) ? \
          self.status.updatedReplicas : 0) >= self.spec.replicas - (has(self.spec.updateStrategy.rollingUpdate) && \
          has(self.spec.updateStrategy.rollingUpdate.partition) ? \
          self.spec.updateStrategy.rollingUpdate.partition : 0)",
        ),
        (
            "apps",
            "DaemonSet",
            "has(self.status.observedGeneration) && (has(self.status.numberAvailable) ? \
          self.status.numberAvailable : 0) >= self.status.desiredNumberScheduled",
        ),
        (
            "batch",
            "Job",
            "has(self.status.conditions) && self.status.conditions.exists(c, c.type == 'Complete' && \
          c.status == 'True')",
        ),
        (
            "",
            "Pod",
            "self.status.phase == 'Succeeded' || (has(self.status.conditions) && \
          self.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True'))",
        ),
        (
            "",
            "PersistentVolumeClaim",
            "has(self.status.phase) && self.status.phase == 'Bound'",
        ),
    ];
    let mut application = version(number);
    let probes = &mut application["template"]["spec"]["availabilityProbes"];
    let probes = probes.as_array_mut().unwrap();
    for (group, kind, rule) in rules {
        let message = format!("not all of this {kind} is of the newest template, or available");
        probes.push(cel_probe(group, kind, rule, &message));
    }
    application
}

/// The objects of a version are in slices that all sites share. Metadata and status count.
#[tokio::test]
async fn the_revision_of_a_site_is_small() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let fleet = Fleet::new(&ns);
    let hub = join_hub(&ns, &Site::get(PUSH).await).await;
    fleet.add(&hub).await;
    fleet.deployment("web", json!({})).await;
    for number in ["1.0.0", "1.1.0"] {
        fleet.application(&probed(number)).await;
        fleet.complete("web", number, 1).await;
    }
    let revisions = fleet.revisions("web", &hub).await;
    let newest = revisions.last().unwrap();
    let size = newest.to_string().len();
    assert!(size < 4000, "{size} bytes: {newest:#}");
}

/// Covers the first installation, a new version and an edit. A manager that restarts has nothing to
/// write.
#[tokio::test]
async fn versions_reach_sites_in_waves() {
    let mut bed = Exclusive::acquire().await;
    let ns = bed.namespace(Scope::Namespaced).await;
    let fleet = Fleet::new(&ns);
    let sites = Sites::of(&fleet).await;
    fleet.deployment("web", rolling()).await;
    let waits = |live: &Value| reason(live, "Waiting")[0] == "ApplicationNotFound";
    fleet
        .becomes("web", "waiting for its application", waits)
        .await;
    fleet.application(&version("1.0.0")).await;
    fleet.complete("web", "1.0.0", 3).await;
    sites.have(&fleet, Some("1.0.0")).await;

    fleet.application(&version("1.1.0")).await;
    let complete = fleet.complete("web", "1.1.0", 3).await;
    assert_eq!(complete["status"]["previousVersion"], "1.0.0");
    sites.have(&fleet, Some("1.1.0")).await;
    assert_eq!(order(&fleet, &sites, "1.1.0").await, [1, 2, 3]);
    for site in &sites.all {
        ns.eventually("the older revision to be archived", async || {
            let revisions = fleet.revisions("web", site).await;
            revisions.len() == 2 && condition(&revisions[0], "Archived") == "True"
        })
        .await;
    }

    // An edit without a new version goes to all sites at once, with one revision each.
    let edited = settings()
        .data("version", "1.1.0-edited")
        .data("other", "1.1.0-edited");
    fleet.application(&spec("1.1.0", &[edited])).await;
    sites.have(&fleet, Some("1.1.0-edited")).await;
    let complete = fleet.complete("web", "1.1.0", 3).await;
    assert_eq!(complete["status"]["rollout"], 2);
    for site in &sites.all {
        let revisions = fleet.revisions("web", site).await;
        assert_eq!(entry(revisions.last().unwrap())["isEdit"], true);
    }

    // The content before the edit is deleted when no site runs it any more.
    let is_pruned = async || fleet.kept().await == ["1.0.0", "1.1.0"];
    ns.eventually("the older edit to go", is_pruned).await;
    settle(&ns, &bed).await;
    // An expected handover has no event: thousands of sites have it.
    let events = ns.reference(&object("v1", "Event", ""));
    for event in ns.cluster().list(&events, "").await {
        assert_ne!(event["reason"], "TookOver", "{event:#}");
    }
    bed.take_manager().kill();
    bed.start_manager();
    for site in &sites.all {
        site.becomes("Connected", "True").await;
    }
    settle(&ns, &bed).await;
    assert_eq!(bed.manager().metrics().writes(), 0);
    sites.have(&fleet, Some("1.1.0-edited")).await;
}

/// The deadline of a site counts from the stored beginning of its revision.
#[tokio::test]
async fn a_restart_of_the_manager_does_not_prolong_a_deadline() {
    let mut bed = Exclusive::acquire().await;
    let ns = bed.namespace(Scope::Namespaced).await;
    let fleet = Fleet::new(&ns);
    let hub = join_hub(&ns, &Site::get(PUSH).await).await;
    fleet.add(&hub).await;
    hub.becomes("Connected", "True").await;
    fleet.application(&version_with("1.0.0", "other")).await;
    let mut fields = rolling();
    fields["strategy"]["progressDeadline"] = "30s".into();
    fleet.deployment("web", fields).await;
    let since = |live: &Value, type_: &str| {
        let conditions = live["status"]["conditions"].as_array()?;
        let found = conditions.iter().find(|it| it["type"] == type_)?;
        let time = found["lastTransitionTime"].as_str()?;
        Some(time.parse::<Timestamp>().unwrap().as_second())
    };
    let begun = async || {
        let revisions = fleet.revisions("web", &hub).await;
        since(revisions.first()?, "baton.run/Started")
    };
    ns.eventually("the version to begin", async || begun().await.is_some())
        .await;
    let begun = begun().await.unwrap();
    let is_time = async || Timestamp::now().as_second() >= begun + 20;
    ns.eventually("most of the deadline to pass", is_time).await;
    bed.take_manager().kill();
    bed.start_manager();
    let is_aborted = |live: &Value| condition(live, "Aborted") == "True";
    let live = fleet.becomes("web", "aborted", is_aborted).await;
    let aborted = since(&live, "Aborted").unwrap();
    assert!((30..45).contains(&(aborted - begun)), "{begun} {aborted}");
}

#[tokio::test]
async fn a_failed_canary_is_rolled_back_and_no_other_site_is_upgraded() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let fleet = Fleet::new(&ns);
    let sites = Sites::of(&fleet).await;
    fleet.label(&sites.all[1], "tests/canary", "true").await;
    fleet.application(&version("1.0.0")).await;
    let canary = json!({"strategy": {
        "type": "Canary",
        "canary": { "matchSiteLabels": "tests/canary = true" },
        "onError": "Rollback",
        "progressDeadline": "10s",
    }});
    fleet.deployment("web", canary).await;
    fleet.complete("web", "1.0.0", 3).await;

    fleet.application(&version_with("1.1.0", "never")).await;
    let back = |live: &Value| reason(live, "Aborted")[0] == "RolledBack";
    fleet.becomes("web", "rolled back", back).await;
    let rolled_back = async || {
        let revisions = fleet.revisions("web", &sites.all[1]).await;
        let newest = revisions.last().unwrap();
        entry(newest)["isRollback"] == true && condition(newest, "Available") == "True"
    };
    ns.eventually("the canary to have its version again", rolled_back)
        .await;
    sites.have(&fleet, Some("1.0.0")).await;
    for site in [&sites.all[0], &sites.all[2]] {
        assert_eq!(fleet.revisions("web", site).await.len(), 1);
    }

    fleet.application(&version("1.1.1")).await;
    fleet.complete("web", "1.1.1", 3).await;
    sites.have(&fleet, Some("1.1.1")).await;
}

#[tokio::test]
async fn a_site_that_was_offline_catches_up() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let fleet = Fleet::new(&ns);
    let push = Site::get(PUSH).await;
    let line = Proxy::start(push.address()).await;
    line.set(Mode::Cut).await;
    let away = push
        .join(&ns)
        .named("away")
        .through(&line.url())
        .create()
        .await;
    let hub = join_hub(&ns, &push).await;
    away.because("Connected", "Unreachable").await;
    for site in [&away, &hub] {
        fleet.add(site).await;
    }
    fleet.application(&version("1.0.0")).await;
    fleet.deployment("web", rolling()).await;
    let complete = fleet.complete("web", "1.0.0", 1).await;
    assert_eq!(complete["status"]["counts"]["offline"], 1);
    fleet.application(&version("1.1.0")).await;
    fleet.complete("web", "1.1.0", 1).await;
    line.set(Mode::Pass).await;
    away.becomes("Connected", "True").await;
    fleet.has_version(&away, Some("1.1.0")).await;
    fleet.complete("web", "1.1.0", 2).await;
}

/// Later changes of labels have no effect unless the deployment follows them or is redeployed.
#[tokio::test]
async fn sites_are_chosen_when_the_deployment_changes() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let fleet = Fleet::new(&ns);
    let push = Site::get(PUSH).await;
    let hub = join_hub(&ns, &push).await;
    let other = push.join(&ns).named("push").create().await;
    other.becomes("Connected", "True").await;
    fleet.add(&hub).await;
    fleet.application(&version("1.0.0")).await;
    fleet.deployment("web", json!({})).await;
    fleet.complete("web", "1.0.0", 1).await;

    fleet.add(&other).await;
    ns.stays(Duration::from_secs(3), "no further site", async || {
        fleet.revisions("web", &other).await.is_empty()
    })
    .await;
    fleet.change("web", json!({ "redeploy": "once" })).await;
    fleet.complete("web", "1.0.0", 2).await;
    fleet.has_version(&other, Some("1.0.0")).await;

    fleet.label(&hub, LABEL, Value::Null).await;
    ns.stays(Duration::from_secs(3), "both sites", async || {
        fleet.version_in(&hub).await.is_some()
    })
    .await;
    fleet
        .change("web", json!({ "placement": { "follow": true } }))
        .await;
    fleet.has_version(&hub, None).await;
    fleet.add(&hub).await;
    fleet.has_version(&hub, Some("1.0.0")).await;
    fleet.label(&other, LABEL, Value::Null).await;
    fleet.has_version(&other, None).await;
    assert_eq!(
        fleet.records("baton.run/site-deployment=web").await.len(),
        1
    );

    // An invalid expression changes only the condition.
    let broken = json!({ "placement": { "matchSiteLabels": "a ~ b" } });
    fleet.change("web", broken).await;
    let invalid = |live: &Value| reason(live, "Placed")[0] == "InvalidExpression";
    fleet
        .becomes("web", "the expression to be reported", invalid)
        .await;
    assert_eq!(fleet.version_in(&hub).await.as_deref(), Some("1.0.0"));
}

/// A label that is written before the deployment counts, even if the manager has not observed it
/// yet.
#[tokio::test]
async fn sites_are_chosen_by_labels_that_are_not_observed_yet() {
    let mut bed = Exclusive::acquire().await;
    let ns = bed.namespace(Scope::Namespaced).await;
    let fleet = Fleet::new(&ns);
    let push = Site::get(PUSH).await;
    let hub = join_hub(&ns, &push).await;
    fleet.application(&version("1.0.0")).await;
    let faults = Faults::start(&Endpoint::of_bed(bed.cluster().kubeconfig())).await;
    let _manager = bed
        .manager_through(&faults, &["--leader-elect=false"])
        .await;
    let gate = Gate::default();
    let clusters = "/shipper.booking.com/v1alpha1/clusters$";
    let held = faults.inject(
        On::verb(Verb::Watch).path(clusters),
        Answer::Held(gate.clone()),
    );
    faults.end_watches(clusters, WatchEnd::Close);
    held.used(1).await;

    fleet.add(&hub).await;
    fleet.deployment("web", json!({})).await;
    fleet.complete("web", "1.0.0", 1).await;
    gate.open();
}

/// An assignment that was deleted counts no more, even if the manager has not observed that yet.
/// Otherwise the site would be dropped, and its objects deleted.
#[tokio::test]
async fn sites_are_chosen_by_assignments_that_are_not_observed_yet() {
    let mut bed = Exclusive::acquire().await;
    let ns = bed.namespace(Scope::Namespaced).await;
    let fleet = Fleet::new(&ns);
    let (hub, faults, _manager) = hub_behind_faults(&mut bed, &fleet).await;
    fleet.deployment("web", json!({})).await;
    fleet.complete("web", "1.0.0", 1).await;
    let refusing = Fleet::kind("SiteAssignment", &ns.unique("refusing")).with(
        "/spec",
        json!({
            "namespaces": { "names": ["elsewhere"] }, "clusters": { "names": [hub.name()] },
        }),
    );
    let cluster = ns.cluster();
    cluster.create(&refusing.manifest).await.unwrap();
    // The refusal is observed when a second deployment does not get the site.
    fleet.deployment("refused", json!({})).await;
    let nowhere = |live: &Value| reason(live, "Progressing")[0] == "NoSites";
    fleet.becomes("refused", "without sites", nowhere).await;

    let gate = Gate::default();
    faults.hold_watch("/siteassignments$", &gate).await;
    assert!(cluster.delete(&refusing.manifest, "Background").await);
    let again = json!({ "redeploy": "again" });
    fleet.change("web", again).await;
    let is_there = async || fleet.version_in(&hub).await.as_deref() == Some("1.0.0");
    ns.stays(Duration::from_secs(4), "the objects are live", is_there)
        .await;
    gate.open();
    fleet.complete("web", "1.0.0", 1).await;
    assert!(is_there().await);
}

/// The older deployment selects the site while the first write of the other one is under way. It
/// would get the site, if the revision of the other one did not exist.
#[tokio::test]
async fn two_deployments_that_choose_a_site_at_once_do_not_both_get_it() {
    let mut bed = Exclusive::acquire().await;
    let ns = bed.namespace(Scope::Namespaced).await;
    let fleet = Fleet::new(&ns);
    let (hub, faults, _manager) = hub_behind_faults(&mut bed, &fleet).await;
    let nowhere = json!({ "placement": { "matchSiteLabels": "nowhere = yes" } });
    fleet.deployment("older", nowhere).await;
    let waits = |live: &Value| reason(live, "Progressing")[0] == "NoSites";
    fleet.becomes("older", "without sites", waits).await;

    let gate = Gate::default();
    let creates = On::verb(Verb::Create).path("/objectsets$").times(1);
    let held = faults.inject(creates, Answer::Held(gate.clone()));
    fleet.deployment("newer", json!({})).await;
    held.used(1).await;
    let here = json!({ "placement": { "matchSiteLabels": fleet.expression() } });
    fleet.change("older", here).await;
    let is_alone = async || fleet.revisions("older", &hub).await.is_empty();
    ns.stays(Duration::from_secs(3), "one has the site", is_alone)
        .await;
    gate.open();
    fleet.complete("newer", "1.0.0", 1).await;
    let overlaps = |live: &Value| reason(live, "Placed")[0] == "Overlapping";
    fleet.becomes("older", "without its site", overlaps).await;
    assert!(is_alone().await);
}

#[tokio::test]
async fn a_site_belongs_to_one_deployment_of_an_application() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let fleet = Fleet::new(&ns);
    let push = Site::get(PUSH).await;
    let hub = join_hub(&ns, &push).await;
    fleet.add(&hub).await;
    fleet.application(&version("1.0.0")).await;
    fleet.deployment("first", json!({})).await;
    fleet.complete("first", "1.0.0", 1).await;
    fleet.deployment("second", json!({})).await;
    let overlaps = |live: &Value| reason(live, "Placed")[0] == "Overlapping";
    let live = fleet.becomes("second", "without its site", overlaps).await;
    let text = reason(&live, "Placed")[1];
    assert!(
        text.contains("\"first\"") && text.contains(hub.name()),
        "{text}"
    );
    let reported = |live: &Value| {
        condition(live, "Placed") == "True" && reason(live, "Placed")[1].contains("\"second\"")
    };
    fleet
        .becomes("first", "the other one to be reported", reported)
        .await;
    assert!(fleet.revisions("second", &hub).await.is_empty());

    // The second deployment waits until the objects of the first one are gone, because they would
    // collide.
    let first = Fleet::kind("SiteDeployment", "first");
    ns.delete(&first).await;
    ns.gone(&first).await;
    ns.eventually("the revision of the first one to be gone", async || {
        fleet.revisions("first", &hub).await.is_empty()
    })
    .await;
    let live = fleet.complete("second", "1.0.0", 1).await;
    assert_eq!(condition(&live, "Placed"), "True");
    assert_eq!(condition(&live, "Aborted"), "");
    fleet.has_version(&hub, Some("1.0.0")).await;
}

/// The deployment of the old revisions was deleted without them.
#[tokio::test]
async fn a_site_with_orphaned_revisions_is_placed_once_they_are_gone() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let fleet = Fleet::new(&ns);
    let push = Site::get(PUSH).await;
    let hub = join_hub(&ns, &push).await;
    fleet.add(&hub).await;
    fleet.application(&version("1.0.0")).await;
    fleet.deployment("first", json!({})).await;
    fleet.complete("first", "1.0.0", 1).await;
    let first = Fleet::kind("SiteDeployment", "first");
    let cluster = ns.cluster();
    cluster.delete(&ns.reference(&first), "Orphan").await;
    ns.gone(&first).await;
    fleet.deployment("second", json!({})).await;
    let overlaps = |live: &Value| reason(live, "Placed")[0] == "Overlapping";
    let live = fleet.becomes("second", "without its site", overlaps).await;
    let text = reason(&live, "Placed")[1];
    let left =
        "SiteDeployment \"first\" does not exist any more, but its revisions are still in sites";
    assert!(text.contains(left) && text.contains(hub.name()), "{text}");
    assert!(fleet.revisions("second", &hub).await.is_empty());
    fleet.has_version(&hub, Some("1.0.0")).await;

    for revision in fleet.revisions("first", &hub).await {
        assert!(cluster.delete(&revision, "Background").await);
    }
    fleet.complete("second", "1.0.0", 1).await;
    fleet.has_version(&hub, Some("1.0.0")).await;
}

/// The four newest versions are kept, and those that a deployment names. A deployment waits for a
/// version that does not exist.
#[tokio::test]
async fn the_newest_and_the_named_versions_are_kept() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let fleet = Fleet::new(&ns);
    let application = Fleet::kind("SiteApplication", APPLICATION);
    let keep = async |number: &str| {
        fleet.application(&version(number)).await;
        let kept = |live: &Value| {
            live["status"]["versions"][0]["version"] == number && condition(live, "Kept") == "True"
        };
        ns.object_becomes(&application, "kept", kept).await;
    };
    keep("1").await;
    fleet
        .deployment("named", json!({ "applicationVersion": "1" }))
        .await;
    fleet
        .deployment("later", json!({ "applicationVersion": "6" }))
        .await;
    let waits = |live: &Value| reason(live, "Waiting")[0] == "VersionNotFound";
    fleet.becomes("later", "waiting", waits).await;
    for number in ["2", "3", "4", "5", "6"] {
        keep(number).await;
    }
    ns.eventually("the oldest to go", async || {
        fleet.kept().await == ["1", "3", "4", "5", "6"]
    })
    .await;
    fleet
        .becomes("later", "no longer waiting", |live| {
            condition(live, "Waiting") != "True"
        })
        .await;
    // An older version becomes the newest again.
    keep("4").await;
    assert_eq!(fleet.kept().await, ["1", "3", "5", "6", "4"]);

    let invalid = json!({"spec": {"template": {"spec": {"phases": [
        { "name": "a", "class": "default", "objects": [{ "object": {
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" },
        } }] },
    ]}}}});
    ns.merge(&application, &invalid).await;
    let reported = |live: &Value| reason(live, "Kept")[0] == "InvalidTemplate";
    let live = ns
        .object_becomes(&application, "the template to be reported", reported)
        .await;
    assert_eq!(
        (condition(&live, "Stalled"), condition(&live, "Ready")),
        ("True", "False")
    );
}

/// A quota of the tenant forbids the next revision. The running version stays, the deployment
/// reports the reason, and a raised quota is detected without another change.
#[tokio::test]
async fn a_revision_that_the_hub_refuses_is_reported_and_created_later() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let fleet = Fleet::new(&ns);
    let hub = one_site(&fleet).await;
    let quota = object("v1", "ResourceQuota", "quota");
    let count = "count/objectsets.package-operator.run";
    let hard = |most: &str| json!({ "spec": { "hard": { count: most } } });
    let limited = quota.clone().with("/spec", hard("1")["spec"].clone());
    ns.create(&limited).await;
    // A control plane that has just started discovers custom resources later. A change of the quota
    // makes it count again.
    let changes = AtomicU32::new(0);
    ns.eventually("revisions to be counted", async || {
        let pods = 100 + changes.fetch_add(1, Ordering::Relaxed);
        let hard = json!({ "spec": { "hard": { "pods": pods.to_string() } } });
        ns.merge(&quota, &hard).await;
        ns.live(&quota).await["status"]["used"][count] == "1"
    })
    .await;

    fleet.application(&version("1.1.0")).await;
    let is_reported = |live: &Value| {
        let [reason, message] = reason(live, "Progressing");
        reason == "RevisionRefused" && message.contains("exceeded quota: quota")
    };
    let live = fleet
        .becomes("web", "the refusal to be reported", is_reported)
        .await;
    assert_eq!(condition(&live, "Ready"), "False");
    assert_eq!(condition(&live, "Available"), "True");
    assert_eq!(fleet.version_in(&hub).await.as_deref(), Some("1.0.0"));
    ns.merge(&quota, &hard("2")).await;
    fleet.complete("web", "1.1.0", 1).await;
}

#[tokio::test]
async fn revisions_outlive_their_application_and_end_with_the_deployment() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    ns.until_garbage_is_collected().await;
    let fleet = Fleet::new(&ns);
    let hub = one_site(&fleet).await;

    ns.delete(&Fleet::kind("SiteApplication", APPLICATION))
        .await;
    let orphaned = async || {
        let records = fleet.records("baton.run/site-application").await;
        let owners = records.iter().map(owner_names);
        owners.collect::<Vec<_>>() == [["web"]]
    };
    ns.eventually("the version to belong to the deployment alone", orphaned)
        .await;
    let missing = |live: &Value| reason(live, "Waiting")[0] == "ApplicationNotFound";
    fleet
        .becomes("web", "without its application", missing)
        .await;
    assert_eq!(fleet.version_in(&hub).await.as_deref(), Some("1.0.0"));
    // Drift is repaired as before.
    ns.merge(&settings(), &json!({ "data": { "version": "drifted" } }))
        .await;
    fleet.has_version(&hub, Some("1.0.0")).await;

    ns.delete(&Fleet::kind("SiteDeployment", "web")).await;
    fleet.has_version(&hub, None).await;
    let is_empty = async || {
        fleet.revisions("web", &hub).await.is_empty()
            && fleet.records("").await.is_empty()
            && ns
                .cluster()
                .list(&ns.slice_ref("any"), "baton.run/site-application")
                .await
                .is_empty()
    };
    ns.eventually("all of it to go", is_empty).await;
}

/// The newest version cannot be delivered any more, and the status reports it. The previous version
/// is not rolled out instead.
#[tokio::test]
async fn no_older_version_replaces_one_that_has_lost_its_content() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    ns.until_garbage_is_collected().await;
    let fleet = Fleet::new(&ns);
    let hub = one_site(&fleet).await;
    // An application with an invalid window is not recorded again.
    let mut next = version("1.1.0");
    next["upgradeWindows"] = json!([]);
    fleet.application(&next).await;
    fleet.complete("web", "1.1.0", 1).await;
    next["upgradeWindows"] = json!([{ "cron": "soon", "duration": "1h" }]);
    fleet.application(&next).await;
    let application = Fleet::kind("SiteApplication", APPLICATION);
    let is_refused = async || reason(&ns.live(&application).await, "Kept")[0] == "InvalidWindow";
    ns.eventually("the window to be refused", is_refused).await;

    let records = fleet.records("baton.run/site-application").await;
    let newest = records.iter().max_by_key(|it| it["revision"].as_i64());
    let name = &newest.unwrap()["data"]["phases"][0]["slices"][0];
    let slice = ns.slice_ref(name.as_str().unwrap());
    ns.cluster().delete(&slice, "Background").await;
    let reported = |live: &Value| {
        let status = &live["status"];
        reason(live, "Waiting")[0] == "VersionNotFound" && status["rollout"] == 2
    };
    fleet.becomes("web", "it to be reported", reported).await;
    assert_eq!(fleet.version_in(&hub).await.as_deref(), Some("1.1.0"));
}
