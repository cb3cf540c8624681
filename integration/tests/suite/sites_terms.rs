//! Conditions of upgrades in sites: upgrade windows of owners and providers, services that stop,
//! the success delay of a version, and assignments of sites.

use baton_integration::agent::Agent;
use baton_integration::application::reason;
use baton_integration::exclusive::Exclusive;
use baton_integration::fleet::{APPLICATION, Fleet, settings, spec, version};
use baton_integration::prelude::*;
use baton_integration::sites::{Joined, PULL, PUSH, Site, join_hub};

use crate::assignments::{assign, names};
use crate::sites_faults::waits;
use crate::sites_queue::{pods, workload};

/// A push cluster and a pull cluster as sites.
struct Pair {
    all: [Joined; 2],
    _agent: Agent,
}

impl Pair {
    async fn of(fleet: &Fleet<'_>) -> Self {
        let (push, pull) = (Site::get(PUSH).await, Site::get(PULL).await);
        let pushed = push.join(fleet.ns).named("push").create().await;
        let pulled = pull.join(fleet.ns).named("pull").pull().create().await;
        let agent = pulled.agent().start().await;
        let all = [pushed, pulled];
        for site in &all {
            site.becomes("Connected", "True").await;
            fleet.add(site).await;
        }
        Self { all, _agent: agent }
    }

    /// Sets the windows of the providers.
    async fn have_windows(&self, windows: &Value) {
        for site in &self.all {
            site.change_spec(&json!({ "upgradeWindows": windows }))
                .await;
        }
    }

    /// Waits until both sites report that a version waits for the closed windows of these kinds,
    /// and have the previous version.
    async fn wait_for(&self, fleet: &Fleet<'_>, number: &str, whose: &[&str], has: &str) {
        for site in &self.all {
            let of: Vec<_> = whose
                .iter()
                .map(|kind| match *kind {
                    "Cluster" => format!("Cluster \"{}\"", site.name()),
                    kind => format!("{kind} \"{APPLICATION}\""),
                })
                .collect();
            let closed = of.join(" and ");
            let text = format!("-02-29T00:00:00Z; the windows of {closed} are closed now.");
            waits(fleet, site, number, &text).await;
            assert_eq!(fleet.version_in(site).await.as_deref(), Some(has));
        }
    }

    async fn have(&self, fleet: &Fleet<'_>, version: &str) {
        for site in &self.all {
            fleet.has_version(site, Some(version)).await;
        }
    }
}

/// Returns windows that open so rarely that no test observes it.
fn closed() -> Value {
    json!([{ "cron": "0 0 29 2 *", "duration": "1s" }])
}

/// Returns windows that are always open.
fn open() -> Value {
    json!([{ "cron": "* * * * *", "duration": "1h" }])
}

/// Returns a version with the owner's windows.
fn within(mut spec: Value, windows: &Value) -> Value {
    spec["upgradeWindows"] = windows.clone();
    spec
}

/// Returns a version with edited content.
fn edited(number: &str, content: &str) -> Value {
    let settings = settings().data("version", content).data("other", content);
    spec(number, &[settings])
}

/// The first installation needs no window.
#[tokio::test]
async fn an_upgrade_begins_while_the_windows_of_owner_and_provider_are_open() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let fleet = Fleet::new(&ns);
    let sites = Pair::of(&fleet).await;
    sites.have_windows(&closed()).await;
    fleet
        .application(&within(version("1.0.0"), &closed()))
        .await;
    fleet.deployment("web", json!({})).await;
    fleet.complete("web", "1.0.0", 2).await;

    let owner = async |windows: Value| {
        let next = within(version("1.1.0"), &windows);
        fleet.application(&next).await;
    };
    let wait = async |whose: &[&str]| sites.wait_for(&fleet, "1.1.0", whose, "1.0.0").await;
    let both = ["SiteApplication", "Cluster"];
    // The changes are made one at a time, because the order of their observation is undefined.
    owner(closed()).await;
    wait(&both).await;
    owner(open()).await;
    wait(&["Cluster"]).await;
    owner(closed()).await;
    wait(&both).await;
    sites.have_windows(&open()).await;
    wait(&["SiteApplication"]).await;
    owner(open()).await;
    fleet.complete("web", "1.1.0", 2).await;
    sites.have(&fleet, "1.1.0").await;
}

/// The revisions of a deployment are deleted in any order. A waiting version does not begin because
/// its predecessor is gone.
#[tokio::test]
async fn a_waiting_version_does_not_begin_while_its_deployment_is_deleted() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let fleet = Fleet::new(&ns);
    let sites = Pair::of(&fleet).await;
    let first = within(version("1.0.0"), &closed());
    fleet.application(&first).await;
    fleet.deployment("web", json!({})).await;
    fleet.complete("web", "1.0.0", 2).await;
    let next = within(version("1.1.0"), &closed());
    fleet.application(&next).await;
    let whose = ["SiteApplication"];
    sites.wait_for(&fleet, "1.1.0", &whose, "1.0.0").await;

    // The deployment is being deleted, but a finalizer holds it, so only the first revisions are
    // deleted.
    let entry = Fleet::kind("SiteDeployment", "web");
    let finalizers = |names: Value| json!({ "metadata": { "finalizers": names } });
    ns.merge(&entry, &finalizers(json!(["tests.baton.run/hold"])))
        .await;
    ns.delete(&entry).await;
    for site in &sites.all {
        let revisions = fleet.revisions("web", site).await;
        let first = revisions[0]["metadata"]["name"].as_str().unwrap();
        ns.delete_set(first, "Background").await;
        fleet.has_version(site, None).await;
        let text = "Does not begin any more: SiteDeployment \"web\" is deleted.";
        waits(&fleet, site, "1.1.0", text).await;
        assert_eq!(fleet.version_in(site).await, None);
    }
    ns.merge(&entry, &finalizers(Value::Null)).await;
    for site in &sites.all {
        let gone = async || fleet.revisions("web", site).await.is_empty();
        ns.eventually("no revision to be left", gone).await;
        assert_eq!(fleet.version_in(site).await, None);
    }
}

#[tokio::test]
async fn an_edit_waits_for_windows_where_they_apply_to_edits() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let fleet = Fleet::new(&ns);
    let sites = Pair::of(&fleet).await;
    fleet
        .application(&within(version("1.0.0"), &closed()))
        .await;
    fleet.deployment("web", json!({})).await;
    fleet.complete("web", "1.0.0", 2).await;

    let first = edited("1.0.0", "1.0.0-first");
    fleet.application(&within(first, &closed())).await;
    sites.have(&fleet, "1.0.0-first").await;

    let mut second = within(edited("1.0.0", "1.0.0-second"), &closed());
    second["upgrade"] = json!({ "windowsApplyToEdits": true });
    fleet.application(&second).await;
    let whose = ["SiteApplication"];
    sites.wait_for(&fleet, "1.0.0", &whose, "1.0.0-first").await;
    fleet.application(&within(second, &open())).await;
    sites.have(&fleet, "1.0.0-second").await;
    fleet.complete("web", "1.0.0", 2).await;
}

/// Returns a Deployment of a service, whose pods have no finalizer.
fn service(name: &str, image: &str) -> Entry {
    let labels = json!({ "app": name });
    workload(image)
        .with("/metadata/name", name)
        .label("baton.run/service", name)
        .with("/spec/selector/matchLabels", labels.clone())
        .with("/spec/template/metadata", json!({ "labels": labels }))
}

/// Returns the replicas and the image of a Deployment at each change of them.
fn states(recorded: &Recorded, name: &str) -> Vec<(i64, String)> {
    let objects = recorded.events.iter().map(|event| &event.object);
    let of = objects.filter(|it| it["metadata"]["name"] == name);
    let state = |it: &Value| {
        let image = &it["spec"]["template"]["spec"]["containers"][0]["image"];
        let image = image.as_str().unwrap().to_owned();
        (it["spec"]["replicas"].as_i64().unwrap(), image)
    };
    let mut states: Vec<_> = of.map(state).collect();
    states.dedup();
    states
}

/// The pods of one service are gone before the next version is written, and the other service does
/// not stop.
#[tokio::test]
async fn a_service_stops_while_the_others_keep_running() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let fleet = Fleet::new(&ns);
    let site = Site::get(PUSH).await.join(&ns).create().await;
    site.becomes("Connected", "True").await;
    fleet.add(&site).await;
    let bring = async |number: &str| {
        let held = workload(number).label("baton.run/service", "web");
        let mut spec = spec(number, &[held, service("side", number)]);
        spec["upgrade"] = json!({ "services": [
            { "name": "web", "method": "StopAndRestart" }, { "name": "side", "method": "Rolling" },
        ] });
        fleet.application(&spec).await;
    };
    let pods_are = async |wanted: (usize, usize), remove_finalizers: bool| {
        let are = async || pods(&ns, &site, remove_finalizers).await == wanted;
        ns.eventually(&format!("{wanted:?} pods"), are).await;
    };
    let like = ns.reference(&workload(""));
    let recording = Recording::start(&site.site().cluster().await, &like, "").await;
    bring("1.0.0").await;
    fleet.deployment("web", json!({})).await;
    fleet.complete("web", "1.0.0", 1).await;
    pods_are((1, 0), false).await;

    bring("1.1.0").await;
    waits(
        &fleet,
        &site,
        "1.1.0",
        "Waits until the workloads have stopped",
    )
    .await;
    pods_are((0, 1), false).await;
    let so_far = recording.so_far().await;
    let (first, next) = ("1.0.0".to_owned(), "1.1.0".to_owned());
    assert_eq!(states(&so_far, "side"), [(1, first.clone())]);
    pods_are((1, 0), true).await;
    fleet.complete("web", "1.1.0", 1).await;
    let recorded = recording.so_far().await;
    let stopped = [(1, first.clone()), (0, first.clone()), (1, next.clone())];
    assert_eq!(states(&recorded, "web"), stopped);
    assert_eq!(states(&recorded, "side"), [(1, first), (1, next)]);

    ns.delete(&Fleet::kind("SiteDeployment", "web")).await;
    pods_are((0, 0), true).await;
}

/// The rollout ends when the version has been available for the success delay. A version that
/// becomes unavailable meanwhile has failed.
#[tokio::test]
async fn a_failure_during_the_success_delay_aborts_the_rollout() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let fleet = Fleet::new(&ns);
    let hub = join_hub(&ns, &Site::get(PUSH).await).await;
    fleet.add(&hub).await;
    let is_whole = "!has(self.metadata.annotations) || !('broken' in self.metadata.annotations)";
    let bring = async |number: &str, delay: u32| {
        let mut spec = version(number);
        let template = &mut spec["template"]["spec"];
        template["successDelaySeconds"] = delay.into();
        template["availabilityProbes"] = json!([cel_probe("", "ConfigMap", is_whole, "broken")]);
        fleet.application(&spec).await;
    };
    bring("1.0.0", 0).await;
    fleet.deployment("web", json!({})).await;
    fleet.complete("web", "1.0.0", 1).await;

    bring("1.1.0", 600).await;
    let soaks = |live: &Value| {
        reason(live, "Progressing")[0] == "Soaking" && live["status"]["version"] == "1.1.0"
    };
    fleet.becomes("web", "soaking", soaks).await;
    let broken = json!({ "metadata": { "annotations": { "broken": "" } } });
    ns.merge(&settings(), &broken).await;
    let is_aborted = |live: &Value| reason(live, "Aborted")[0] == "SiteFailed";
    let live = fleet.becomes("web", "aborted", is_aborted).await;
    let text = reason(&live, "Aborted")[1];
    assert!(text.contains(hub.name()), "{text}");
    assert_eq!(live["status"]["counts"]["failed"], 1);
    assert_eq!(fleet.version_in(&hub).await.as_deref(), Some("1.1.0"));
}

/// Waits until the deployment reports that no matching site is assigned to the namespace.
async fn has_no_site(fleet: &Fleet<'_>, name: &str) {
    let is_reported = |live: &Value| {
        let text = "No site that the namespace may use matches.";
        reason(live, "Placed") == ["NoSites", text] && reason(live, "Progressing")[0] == "NoSites"
    };
    fleet.becomes(name, "without any site", is_reported).await;
}

/// A site that is assigned to others is not placed, and a change of its assignment is followed.
#[tokio::test]
async fn only_assigned_sites_are_placed() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let fleet = Fleet::new(&ns);
    let push = Site::get(PUSH).await;
    let hub = join_hub(&ns, &push).await;
    let closed = push.join(&ns).named("closed").create().await;
    closed.becomes("Connected", "True").await;
    let to = |namespaces: &[&str]| json!({ "namespaces": names(namespaces), "clusters": names(&[closed.name()]) });
    let assignment = assign(&ns, "closed", to(&["somebody-else"])).await;
    let allow = async |namespaces: &[&str]| {
        let patch = json!({ "spec": to(namespaces) });
        ns.cluster().merge(&assignment, &patch).await.unwrap();
    };
    fleet.add(&closed).await;
    fleet.application(&version("1.0.0")).await;
    fleet.deployment("web", json!({})).await;
    has_no_site(&fleet, "web").await;

    fleet.add(&hub).await;
    let follow = json!({ "placement": { "follow": true } });
    fleet.change("web", follow).await;
    let live = fleet.complete("web", "1.0.0", 1).await;
    assert_eq!(reason(&live, "Placed"), ["Placed", "1 sites."]);
    assert!(fleet.revisions("web", &closed).await.is_empty());

    allow(&["somebody-else", ns.name()]).await;
    fleet.has_version(&closed, Some("1.0.0")).await;
    fleet.complete("web", "1.0.0", 2).await;

    allow(&["somebody-else"]).await;
    fleet.has_version(&closed, None).await;
    let has_left = |live: &Value| reason(live, "Placed")[1] == "1 sites.";
    fleet.becomes("web", "without it", has_left).await;
    assert_eq!(fleet.version_in(&hub).await.as_deref(), Some("1.0.0"));
}

/// With `--require-site-assignments`, a site without an assignment is not placed.
#[tokio::test]
async fn no_site_is_placed_without_a_required_assignment() {
    let mut bed = Exclusive::acquire().await;
    bed.take_manager().kill();
    bed.spawn_manager(&["--leader-elect=false", "--require-site-assignments"]);
    let ns = bed.namespace(Scope::Namespaced).await;
    let fleet = Fleet::new(&ns);
    let push = Site::get(PUSH).await;
    // With this flag, Secrets must also name their server.
    let join = push.join(&ns);
    let site = join.secret_annotation("baton.run/server", &push.url());
    let site = site.create().await;
    site.becomes("Connected", "True").await;
    fleet.add(&site).await;
    fleet.application(&version("1.0.0")).await;
    fleet.deployment("web", json!({})).await;
    has_no_site(&fleet, "web").await;
    assert!(fleet.revisions("web", &site).await.is_empty());

    let all = json!({ "namespaces": { "selector": {} }, "clusters": names(&[site.name()]) });
    assign(&ns, "all", all).await;
    // A change of the spec triggers an evaluation with the current assignments.
    let follow = json!({ "placement": { "follow": true } });
    fleet.change("web", follow).await;
    fleet.complete("web", "1.0.0", 1).await;
    fleet.has_version(&site, Some("1.0.0")).await;
    ns.delete(&Fleet::kind("SiteDeployment", "web")).await;
    fleet.has_version(&site, None).await;
}
