//! The queue of a site: versions follow one another, delivered by the hub or by an agent without
//! the hub.

use baton_integration::faults::{Answer, Faults, On};
use baton_integration::fleet::{APPLICATION, Fleet, spec};
use baton_integration::prelude::*;
use baton_integration::proxy::{Mode, Proxy};
use baton_integration::set::SetBuilder;
use baton_integration::sites::{Joined, PULL, PUSH, Site};

use crate::agent::Pulled;

/// Reasons of `Available=False`.
const QUEUED: Expectation<'static> = Because("Available", "False", "Queued");
pub(crate) const STOPPING: Expectation<'static> = Because("Available", "False", "Stopping");
const FAILING: Expectation<'static> = Because("Available", "False", "ProbeFailure");
/// The revision has begun, as its phases report.
pub(crate) const STARTED: Expectation<'static> = Because("baton.run/Started", "True", "Started");
pub(crate) const AVAILABLE: Expectation<'static> = Is("Available", "True");

/// The label value of the chain.
const CHAIN: &str = "site-queue-test";

/// Returns upgrade windows that open so rarely that no test observes it.
fn closed() -> Value {
    json!({ "upgradeWindows": [{ "cron": "0 0 29 2 *", "duration": "1s" }] })
}

/// Returns upgrade windows that are always open.
fn open() -> Value {
    json!({ "upgradeWindows": [{ "cron": "* * * * *", "duration": "1h" }] })
}

/// Returns the object of the first phase. Its data names the revision that is in the site.
fn settings() -> Entry {
    configmap("cm")
}

/// Returns a probe that passes once a test has marked the object as seen for this revision.
fn probe() -> Value {
    let rule = "!has(self.data) || self.metadata.?annotations['seen'].orValue('') == self.data.k";
    cel_probe("", "ConfigMap", rule, "not seen yet")
}

/// Creates a namespace with the application of the revisions' versions.
pub(crate) async fn namespace() -> TestNamespace {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let spec = spec("1.0.0", &[settings()]);
    Fleet::new(&ns).application(&spec).await;
    ns
}

/// Starts revision `number` of the chain, with the version `1.<number>.0`. It names all earlier
/// revisions as previous.
pub(crate) fn revision<'a>(
    ns: &'a TestNamespace,
    joined: &Joined,
    number: i64,
    entry: &Value,
) -> SetBuilder<'a> {
    let mut site = json!({
        "deployment": "fleet", "site": joined.name(), "application": APPLICATION, "version": format!("1.{number}.0"),
        "edit": "0", "rollout": number, "batch": 0, "phases": ["a", "b"],
    });
    for (field, value) in entry.as_object().unwrap() {
        site[field] = value.clone();
    }
    let previous: Vec<_> = (1..number).map(|older| format!("v{older}")).collect();
    let previous: Vec<_> = previous.iter().map(String::as_str).collect();
    ns.revision(number)
        .previous(&previous)
        .label("baton.run/chain", CHAIN)
        .annotation("baton.run/site", &site.to_string())
        .annotation("baton.run/on-deletion", "hand-back")
}

/// Creates a revision with [`settings`] and, in a second phase, an object of this revision only.
async fn create_revision(ns: &TestNamespace, joined: &Joined, number: i64) {
    let class = joined.class();
    let text = number.to_string();
    revision(ns, joined, number, &json!({}))
        .delegated("a", &class, [settings().data("k", &text)])
        .delegated("b", &class, [configmap(&format!("own-{number}"))])
        .probe(probe())
        .create()
        .await;
}

/// Waits until a revision is in the site, and marks it as seen.
async fn is_delivered(ns: &TestNamespace, joined: &Joined, number: i64) {
    let site = joined.site().cluster().await;
    let settings = ns.reference(&settings().within(ns.name()));
    let wanted = number.to_string();
    let there = async || {
        let live = site.get(&settings).await;
        live.is_some_and(|live| live["data"]["k"] == wanted)
    };
    ns.eventually(&format!("revision {number} in the site"), there)
        .await;
    let annotated = json!({ "metadata": { "annotations": { "seen": wanted } } });
    site.merge(&settings, &annotated).await.unwrap();
}

/// Waits until the last object of a revision is in the site.
async fn is_fully_delivered(ns: &TestNamespace, joined: &Joined, number: i64) {
    let own = configmap(&format!("own-{number}"));
    let there = async || joined.site().read(ns, &own).await.is_some();
    ns.eventually(&format!("all of revision {number} in the site"), there)
        .await;
}

/// Returns the revisions whose second phase is in the site.
async fn fully_delivered(ns: &TestNamespace, joined: &Joined) -> Vec<i64> {
    let mut found = Vec::new();
    for number in 1..6 {
        let own = configmap(&format!("own-{number}"));
        if joined.site().read(ns, &own).await.is_some() {
            found.push(number);
        }
    }
    found
}

/// Four versions are created at once. Each waits for its predecessor, and a version that is deleted
/// meanwhile is never delivered.
#[tokio::test]
async fn versions_are_delivered_one_after_the_other() {
    let ns = namespace().await;
    let joined = Site::get(PUSH).await.join(&ns).create().await;
    joined.becomes("Connected", "True").await;
    for number in 1..=4 {
        create_revision(&ns, &joined, number).await;
    }
    ns.reaches("v1", &[FAILING, STARTED]).await;
    for (name, before) in [("v2", "v1"), ("v3", "v2"), ("v4", "v3")] {
        let text = format!("Waits for version 1.{}.0 ({before})", &before[1..]);
        let wanted = [QUEUED, Says("Available", &text), No("baton.run/Started")];
        ns.reaches(name, &wanted).await;
        // The phase objects of phases that are not reached exist already.
        for phase in ["a", "b"] {
            assert!(
                ns.phase_object(name, phase).await.is_some(),
                "{name} {phase}"
            );
        }
    }
    ns.delete_set("v3", "Background").await;
    for number in [1, 2, 4] {
        is_delivered(&ns, &joined, number).await;
        ns.reaches(&format!("v{number}"), &[AVAILABLE, STARTED])
            .await;
    }
    assert_eq!(fully_delivered(&ns, &joined).await, [1, 2, 4]);
}

/// A revision names the version whose record has its probes. Without the record it has no phase
/// objects, which would be available without probes.
#[tokio::test]
async fn the_probes_of_a_revision_are_those_of_its_version() {
    let ns = namespace().await;
    let joined = Site::get(PUSH).await.join(&ns).create().await;
    joined.becomes("Connected", "True").await;
    let fleet = Fleet::new(&ns);
    let records = async || fleet.records("baton.run/site-application").await;
    ns.eventually("the record of the version", async || {
        !records().await.is_empty()
    })
    .await;
    let data = &records().await[0]["data"];
    let class = joined.class();
    let entry = |edit: &Value| json!({ "version": "1.0.0", "edit": edit, "hasProbes": true });
    for (number, edit) in [(1, &data["edit"]), (2, &json!("unknown"))] {
        revision(&ns, &joined, number, &entry(edit))
            .delegated("a", &class, [settings().data("k", "1")])
            .delegated("b", &class, [configmap(&format!("own-{number}"))])
            .create()
            .await;
    }
    // The values that the probe compares are missing.
    ns.reaches("v1", &[FAILING, STARTED]).await;
    let phase = ns
        .live(&object(
            "package-operator.run/v1alpha1",
            "ObjectSetPhase",
            "v1-a",
        ))
        .await;
    assert_eq!(
        phase["spec"]["availabilityProbes"],
        data["availabilityProbes"]
    );
    let text = "The probes are not known: SiteApplication \"shop\" has no ControllerRevision of version 1.0.0";
    let wanted = [
        Because("Available", "False", "WriteError"),
        Says("Available", text),
    ];
    ns.reaches("v2", &wanted).await;
    let phase = object("package-operator.run/v1alpha1", "ObjectSetPhase", "v2-a");
    let phase = ns.reference(&phase);
    assert!(ns.cluster().get(&phase).await.is_none());
}

/// The first version needs no window. A later one waits for it, and continues if it closes during
/// the upgrade.
#[tokio::test]
async fn upgrades_begin_in_their_windows() {
    let ns = namespace().await;
    let site = Site::get(PUSH).await;
    let windows = closed()["upgradeWindows"].clone();
    let joined = site
        .join(&ns)
        .spec("upgradeWindows", windows)
        .create()
        .await;
    joined.becomes("Connected", "True").await;
    create_revision(&ns, &joined, 1).await;
    is_delivered(&ns, &joined, 1).await;
    ns.reaches("v1", &[AVAILABLE]).await;
    create_revision(&ns, &joined, 2).await;
    let waits = [
        QUEUED,
        Says("Available", "Waits for its upgrade window, which opens at"),
    ];
    ns.reaches("v2", &waits).await;
    joined.change_spec(&open()).await;
    ns.reaches("v2", &[FAILING, STARTED]).await;
    joined.change_spec(&closed()).await;
    create_revision(&ns, &joined, 3).await;
    is_delivered(&ns, &joined, 2).await;
    ns.reaches("v2", &[AVAILABLE]).await;
    ns.reaches("v3", &waits).await;
    assert_eq!(fully_delivered(&ns, &joined).await, [1, 2]);
    let unreadable = json!({ "upgradeWindows": [{ "cron": "soon", "duration": "1h" }] });
    joined.change_spec(&unreadable).await;
    let held = [QUEUED, Says("Available", "upgradeWindows[0] (\"soon\"")];
    ns.reaches("v3", &held).await;
    ns.reaches("v2", &[AVAILABLE]).await;
}

/// An agent works through its queue while the hub is unreachable, also if it is killed meanwhile.
#[tokio::test]
async fn an_agent_works_through_its_queue_without_the_hub() {
    let ns = namespace().await;
    let joined = Site::get(PULL).await.join(&ns).pull().create().await;
    let hub = joined.hub_endpoint();
    let line = Proxy::start(hub.address).await;
    let agent = joined.agent().hub(&hub.at(line.address())).start().await;
    joined.becomes("Connected", "True").await;
    let mut pulled = Pulled { agent, joined, ns };
    for number in 1..=3 {
        create_revision(&pulled.ns, &pulled.joined, number).await;
    }
    pulled.ns.reaches("v1", &[FAILING, STARTED]).await;
    // The agent reports these conditions, so it has received all revisions.
    for (name, before) in [("v2", "v1"), ("v3", "v2")] {
        let text = format!("Waits for version 1.{}.0 ({before})", &before[1..]);
        let waits = [QUEUED, Says("Available", &text)];
        pulled.ns.reaches(name, &waits).await;
    }
    line.set(Mode::Cut).await;
    pulled.joined.because("Connected", "AgentSilent").await;
    is_delivered(&pulled.ns, &pulled.joined, 1).await;
    let second = settings();
    let has_begun = |live: &Value| live["data"]["k"] == "2";
    pulled
        .object_becomes(&second, "of the second", has_begun)
        .await;
    pulled.agent.kill();
    pulled.agent.start();
    is_delivered(&pulled.ns, &pulled.joined, 2).await;
    is_delivered(&pulled.ns, &pulled.joined, 3).await;
    is_fully_delivered(&pulled.ns, &pulled.joined, 3).await;
    assert_eq!(fully_delivered(&pulled.ns, &pulled.joined).await, [1, 2, 3]);
    line.set(Mode::Pass).await;
    pulled.ns.reaches("v3", &[AVAILABLE, STARTED]).await;
    // The agent could not report their availability to the hub while they were current.
    let passed = Because("Available", "False", "NotInControl");
    for name in ["v1", "v2"] {
        pulled.ns.reaches(name, &[passed, STARTED]).await;
    }
}

/// The start of an upgrade is recorded before its first write. It counts after a restart of the
/// agent, although the window is closed by then.
#[tokio::test]
async fn an_upgrade_that_has_begun_continues_after_a_crash() {
    let ns = namespace().await;
    let site = Site::get(PULL).await;
    let joined = site.join(&ns).pull().create().await;
    let faults = Faults::start(site.endpoint()).await;
    let agent = joined.agent().site(faults.endpoint()).start().await;
    joined.becomes("Connected", "True").await;
    let mut pulled = Pulled { agent, joined, ns };
    create_revision(&pulled.ns, &pulled.joined, 1).await;
    is_delivered(&pulled.ns, &pulled.joined, 1).await;
    pulled.ns.reaches("v1", &[AVAILABLE]).await;
    let writes = On::writes().path(&format!("/namespaces/{}/configmaps/cm", pulled.ns.name()));
    let failing = faults.inject(writes, Answer::unavailable());
    create_revision(&pulled.ns, &pulled.joined, 2).await;
    failing.used(1).await;
    pulled.ns.reaches("v2", &[STARTED]).await;
    let live = pulled.live(&settings()).await;
    assert_eq!(live["data"]["k"], "1");
    pulled.agent.kill();
    pulled.joined.change_spec(&closed()).await;
    faults.heal();
    pulled.agent.start();
    is_delivered(&pulled.ns, &pulled.joined, 2).await;
    pulled.ns.reaches("v2", &[AVAILABLE, STARTED]).await;
}

/// A queued revision that is deleted or archived is never delivered, and its agent removes nothing.
#[tokio::test]
async fn an_agent_never_delivers_a_deleted_or_archived_queued_revision() {
    let pulled = Pulled::new(Scope::Namespaced).await;
    let (ns, joined) = (&pulled.ns, &pulled.joined);
    for number in 1..=3 {
        create_revision(ns, joined, number).await;
    }
    for name in ["v2", "v3"] {
        ns.reaches(name, &[QUEUED]).await;
    }
    ns.delete_set("v2", "Background").await;
    ns.set_lifecycle("v3", "Archived").await;
    ns.reaches("v3", &[Is("Archived", "True")]).await;
    is_delivered(ns, joined, 1).await;
    ns.reaches("v1", &[AVAILABLE]).await;
    assert_eq!(fully_delivered(ns, joined).await, [1]);
    assert_eq!(pulled.live(&settings()).await["data"]["k"], "1");
}

/// Returns a Deployment whose pods have a finalizer, and whose replicas are set at creation only.
pub(crate) fn workload(image: &str) -> Entry {
    let labels = json!({ "app": "web" });
    let metadata = json!({ "labels": labels, "finalizers": ["tests.baton.run/hold"] });
    let containers = json!([{ "name": "web", "image": image }]);
    object("apps/v1", "Deployment", "web")
        .with("/spec/replicas", 1)
        .with("/spec/selector/matchLabels", labels)
        .with("/spec/template/metadata", metadata)
        .with("/spec/template/spec/containers", containers)
        .create_only(&[".spec.replicas"])
}

/// Returns the number of pods that stay and of pods that are being deleted. If `remove_finalizers`
/// is true, the latter lose their finalizers.
pub(crate) async fn pods(
    ns: &TestNamespace,
    joined: &Joined,
    remove_finalizers: bool,
) -> (usize, usize) {
    let site = joined.site().cluster().await;
    let mut pod =
        json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "namespace": ns.name() } });
    let found = site.list(&pod, "app=web").await;
    let (going, staying): (Vec<_>, Vec<_>) = found
        .into_iter()
        .partition(|pod| !pod["metadata"]["deletionTimestamp"].is_null());
    for found in going.iter().filter(|_| remove_finalizers) {
        pod["metadata"]["name"] = found["metadata"]["name"].clone();
        let free = json!({ "metadata": { "finalizers": null } });
        let _ = site.merge(&pod, &free).await;
    }
    (staying.len(), going.len())
}

/// The next version is not written before the pods of its predecessor are gone. If it is deleted
/// meanwhile, the predecessor starts again.
#[tokio::test]
async fn the_next_version_waits_until_the_one_before_has_stopped() {
    let ns = namespace().await;
    let joined = Site::get(PUSH).await.join(&ns).create().await;
    joined.becomes("Connected", "True").await;
    let class = joined.class();
    let create_revision = async |number: i64| {
        let stop = json!({ "stop": "All", "phases": ["a"] });
        revision(&ns, &joined, number, &stop)
            .delegated("a", &class, [workload(&format!("web:{number}"))])
            .create()
            .await;
    };
    let pods_are = async |wanted: (usize, usize), remove_finalizers: bool| {
        let text = format!("{wanted:?} pods");
        ns.eventually(&text, async || {
            pods(&ns, &joined, remove_finalizers).await == wanted
        })
        .await;
    };
    let live = async || joined.site().live(&ns, &workload("")).await;
    let image = |live: &Value| live["spec"]["template"]["spec"]["containers"][0]["image"].clone();
    create_revision(1).await;
    ns.reaches("v1", &[AVAILABLE, STARTED]).await;
    pods_are((1, 0), false).await;

    create_revision(2).await;
    let stopping = [STOPPING, Because("baton.run/Started", "True", "Stopping")];
    ns.reaches("v2", &stopping).await;
    ns.reaches(
        "v1",
        &[
            STOPPING,
            Says("Available", "Deployment"),
            No("baton.run/Stopped"),
        ],
    )
    .await;
    pods_are((0, 1), false).await;
    let before = live().await;
    assert_eq!(
        (&before["spec"]["replicas"], image(&before)),
        (&json!(0), json!("web:1"))
    );
    // The version is deleted before it has written anything.
    ns.delete_set("v2", "Background").await;
    ns.reaches("v1", &[AVAILABLE]).await;
    let back = live().await;
    assert_eq!(
        (&back["spec"]["replicas"], image(&back)),
        (&json!(1), json!("web:1"))
    );
    pods_are((1, 0), true).await;

    create_revision(3).await;
    ns.reaches("v3", &stopping).await;
    pods_are((0, 1), false).await;
    let text = "while a pod is terminating";
    let waits = async || image(&live().await) == "web:1";
    ns.stays(Duration::from_millis(1500), text, waits).await;
    pods_are((1, 0), true).await;
    ns.reaches("v3", &[AVAILABLE, STARTED]).await;
    let after = live().await;
    assert_eq!(
        (&after["spec"]["replicas"], image(&after)),
        (&json!(1), json!("web:3"))
    );
    ns.reaches("v1", &[Because("baton.run/Stopped", "True", "Stopped")])
        .await;
    for name in ["v3", "v1"] {
        ns.set_lifecycle(name, "Archived").await;
    }
    pods_are((0, 0), true).await;
}
