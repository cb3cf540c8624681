//! An agent without its hub, and a hub without its agent.
//!
//! A site may be offline at any time. Delivered objects are repaired meanwhile, also after a
//! restart of the agent. Changes on the hub are carried out once the hub is reachable, and nothing
//! beyond them.

use baton_integration::faults::{Faults, ObservedRequest, Verb};
use baton_integration::prelude::*;
use baton_integration::proxy::{Mode, Proxy};
use baton_integration::sites::{PULL, PUSH, Site};

use crate::agent::{Pulled, settings};

/// The reason of a Cluster whose agent has sent no heartbeat for three intervals.
pub(crate) const SILENT: &str = "AgentSilent";

/// A pull cluster with a proxy between its agent and the hub, and a record of all requests of the
/// agent.
struct Remote {
    pulled: Pulled,
    /// The line to the hub.
    line: Proxy,
    hub: Faults,
    site: Faults,
}

impl Remote {
    async fn new(scope: Scope) -> Self {
        let ns = TestNamespace::new(scope).await;
        let site = Site::get(PULL).await;
        let joined = site.join(&ns).pull().create().await;
        let hub = Faults::start(&joined.hub_endpoint()).await;
        let line = Proxy::start(hub.address()).await;
        let site = Faults::start(site.endpoint()).await;
        let agent = joined
            .agent()
            .hub(&hub.endpoint().at(line.address()))
            .site(site.endpoint());
        let agent = agent.start().await;
        joined.becomes("Connected", "True").await;
        Self {
            pulled: Pulled { agent, joined, ns },
            line,
            hub,
            site,
        }
    }

    /// Delivers [`settings`] and another object.
    async fn deliver(&self) {
        let ns = &self.pulled.ns;
        ns.revision(1)
            .delegated("a", &self.pulled.class(), [settings(), configmap("other")])
            .reaching(&[Is("Succeeded", "True")])
            .await;
    }

    /// Cuts the line, and waits until the hub reports it.
    async fn cut(&self) {
        self.line.set(Mode::Cut).await;
        self.pulled.joined.because("Connected", SILENT).await;
    }

    /// Restores the line, and waits until the hub reports it.
    async fn restore(&self) {
        self.line.set(Mode::Pass).await;
        self.pulled.joined.becomes("Connected", "True").await;
    }

    /// Returns the number of phase statuses that the hub has accepted from the agent.
    fn reports(&self) -> usize {
        let heartbeat = "/objectsetphases/agent/status";
        let requests = self.hub.requests();
        let of = |request: &&ObservedRequest| {
            request.is_write() && request.carried_out && !request.path.ends_with(heartbeat)
        };
        requests.iter().filter(of).count()
    }

    /// Returns the number of writes that the site has carried out, of objects whose path contains a
    /// text.
    fn writes(&self, path: &str) -> usize {
        let requests = self.site.requests();
        let of = |request: &&ObservedRequest| {
            request.is_write() && request.carried_out && request.path.contains(path)
        };
        requests.iter().filter(of).count()
    }
}

/// Delivered objects are repaired without the hub, after each kind of restart.
#[tokio::test]
async fn drift_is_repaired_without_the_hub_over_restarts() {
    let mut remote = Remote::new(Scope::Namespaced).await;
    remote.deliver().await;
    let before = remote.pulled.live(&configmap("other")).await;
    remote.cut().await;
    remote.pulled.is_repaired(&settings()).await;
    for kill in [true, false] {
        if kill {
            remote.pulled.agent.kill();
        } else {
            remote.pulled.agent.stop();
        }
        let drift = json!({ "data": { "k": "drifted" } });
        remote.pulled.merge(&settings(), &drift).await;
        remote.pulled.agent.start();
        remote
            .pulled
            .object_becomes(&settings(), "repaired", |live| live["data"]["k"] == "v")
            .await;
        // The agent keeps repairing, not only at its start.
        remote.pulled.is_repaired(&settings()).await;
        // A deleted object is created again.
        let old = remote.pulled.live(&settings()).await;
        remote.pulled.delete(&settings()).await;
        remote
            .pulled
            .object_becomes(&settings(), "made again", |live| {
                uid(live) != uid(&old) && live["data"]["k"] == "v"
            })
            .await;
    }
    assert_eq!(remote.pulled.live(&configmap("other")).await, before);
    remote.restore().await;
    let ns = &remote.pulled.ns;
    ns.reaches("v1", &[Is("Available", "True")]).await;
    assert_eq!(remote.pulled.live(&configmap("other")).await, before);
}

/// If nothing has changed, nothing is written when the hub is reachable again; new results of
/// probes are reported.
#[tokio::test]
async fn changed_statuses_are_reported_when_the_hub_is_back() {
    let remote = Remote::new(Scope::Namespaced).await;
    let (ns, class) = (&remote.pulled.ns, remote.pulled.class());
    for name in ["calm", "failing"] {
        ns.set(name)
            .revision(1)
            .delegated("a", &class, [configmap(name).annotation("state", "good")])
            .probe(cel_probe(
                "",
                "ConfigMap",
                "self.metadata.?annotations['name'].orValue('') != 'bad'",
                "it is bad",
            ))
            .reaching(&[Is("Succeeded", "True")])
            .await;
    }
    let (writes, reports) = (remote.writes(""), remote.reports());
    remote.cut().await;
    let lost = [Because("Available", "Unknown", "ClusterUnreachable")];
    for name in ["calm", "failing"] {
        ns.reaches(name, &lost).await;
    }
    let bad = json!({ "metadata": { "annotations": { "name": "bad" } } });
    remote.pulled.merge(&configmap("failing"), &bad).await;
    remote.restore().await;
    let failed = [
        Because("Available", "False", "ProbeFailure"),
        Says("Available", "it is bad"),
    ];
    ns.reaches("failing", &failed).await;
    ns.reaches("calm", &[Is("Available", "True")]).await;
    assert_eq!(remote.writes(""), writes, "writes in the site");
    assert_eq!(
        remote.reports(),
        reports + 1,
        "only new events are reported"
    );
}

/// Two revisions are created while the agent is away, and the first one is archived. It never
/// reaches the site.
#[tokio::test]
async fn a_revision_archived_while_offline_is_never_written() {
    let remote = Remote::new(Scope::Namespaced).await;
    let (ns, class) = (&remote.pulled.ns, remote.pulled.class());
    let create = async |name: &str, previous: &[&str]| {
        let objects = [configmap("shared"), configmap(name)];
        ns.set(name)
            .previous(previous)
            .delegated("a", &class, objects.map(|entry| entry.data("from", name)))
            .create()
            .await;
    };
    create("v1", &[]).await;
    ns.reaches("v1", &[Is("Succeeded", "True")]).await;
    let site = remote.pulled.joined.site().cluster().await;
    let configmaps = configmap("").within(ns.name()).manifest;
    let recording = Recording::start(&site, &configmaps, "").await;
    let writes = remote.writes("/configmaps/");
    remote.cut().await;
    create("v2", &["v1"]).await;
    let mirrors = async |count: usize| {
        let text = format!("{count} mirrors");
        ns.eventually(&text, async || {
            remote.pulled.joined.mirrored().await.len() == count
        })
        .await;
    };
    mirrors(2).await;
    create("v3", &["v1", "v2"]).await;
    mirrors(3).await;
    for name in ["v1", "v2"] {
        ns.set_lifecycle(name, "Archived").await;
    }
    ns.reaches("v1", &[Is("Archived", "False")]).await;
    remote.restore().await;
    ns.reaches("v3", &[Is("Succeeded", "True"), No("InTransition")])
        .await;
    for name in ["v1", "v2"] {
        ns.reaches(name, &[Is("Archived", "True"), Controls(&[])])
            .await;
    }
    mirrors(1).await;
    let recorded = recording.so_far().await;
    let states = recorded.states();
    assert!(states.iter().all(|state| !state.contains_key("v2")));
    let values = states.iter().map(|state| &state["shared"]["data"]["from"]);
    let mut values: Vec<_> = values.collect();
    values.dedup();
    assert_eq!(values, ["v1", "v3"]);
    // One object is taken over, one created, one released by the first revision, and one deleted.
    let done = remote.writes("/configmaps/") - writes;
    assert!(done <= 4, "{done} writes");
}

/// The same for a deployment: the templates between the first and the last one are skipped.
#[tokio::test]
async fn templates_replaced_while_offline_are_never_written() {
    let remote = Remote::new(Scope::Namespaced).await;
    let ns = &remote.pulled.ns;
    let class = remote.pulled.class();
    let content = |value: &str| {
        let objects = [configmap("cm").data("k", value)];
        ns.content().delegated("a", &class, objects)
    };
    let deployment = ns.deployment("site").content(content("1")).create().await;
    deployment.concluded().await;
    let site = remote.pulled.joined.site().cluster().await;
    let configmaps = configmap("").within(ns.name()).manifest;
    let recording = Recording::start(&site, &configmaps, "").await;
    let writes = remote.writes("/configmaps/");
    remote.cut().await;
    for (number, value) in [(2, "2"), (3, "3"), (4, "4")] {
        deployment.edit(content(value)).await;
        deployment.reaches(&[Expectation::Revision(number)]).await;
    }
    remote.restore().await;
    deployment.concluded_as(4).await;
    let recorded = recording.so_far().await;
    let states = recorded.states();
    let mut values: Vec<_> = states
        .iter()
        .map(|state| &state["cm"]["data"]["k"])
        .collect();
    values.dedup();
    assert_eq!(values, ["1", "4"]);
    let done = remote.writes("/configmaps/") - writes;
    assert!(done <= 4, "{done} writes");
}

/// The hub reports the time at which the agent became silent, and other phases are delivered.
#[tokio::test]
async fn a_silent_agent_is_reported_and_blocks_no_other_phase() {
    let remote = Remote::new(Scope::Namespaced).await;
    remote.deliver().await;
    let ns = &remote.pulled.ns;
    let delivered = ns.read_set("v1").await;
    let site = Site::get(PUSH).await;
    let pushed = site.join(ns).named("pushed").create().await;
    let connected = remote.pulled.joined.becomes("Connected", "True").await;
    remote.line.set(Mode::Cut).await;
    let cut = jiff::Timestamp::now();
    let reported = remote.pulled.joined.because("Connected", SILENT).await;
    assert_eq!(reported["status"], "False");
    let message = reported["message"].as_str().unwrap();
    assert!(!message.is_empty() && !message.contains('\n'), "{message}");
    let since: jiff::Timestamp = reported["lastTransitionTime"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    assert!(since.as_second() >= cut.as_second(), "{reported}");
    assert_ne!(
        reported["lastTransitionTime"],
        connected["lastTransitionTime"]
    );
    let lost = [Because("Available", "Unknown", "ClusterUnreachable")];
    let reported = ns.reaches("v1", &lost).await;
    assert_eq!(reported.controller_of(), delivered.controller_of());
    ns.phase_object("v1", "a").await.unwrap().assert(&lost);
    // The condition is reported once and does not change.
    let condition = reported.condition("Available").cloned();

    // Delivers into the hub itself and into another cluster, and deletes both revisions.
    for name in ["local", "pushed"] {
        let class = if name == "local" {
            String::new()
        } else {
            pushed.class()
        };
        ns.set(name)
            .revision(1)
            .phase_of(&class, "a", [configmap(name)])
            .reaching(&[Is("Succeeded", "True")])
            .await;
        ns.delete_set(name, "Background").await;
    }
    assert_eq!(
        ns.read_set("v1").await.condition("Available").cloned(),
        condition
    );
    remote.restore().await;
    ns.reaches("v1", &[Is("Available", "True")]).await;
}

/// The deletion waits, reports the reason, and is carried out when the agent is back.
#[tokio::test]
async fn a_deletion_waits_for_the_agent() {
    let remote = Remote::new(Scope::Namespaced).await;
    remote.deliver().await;
    let ns = &remote.pulled.ns;
    remote.cut().await;
    let set = ns.set_ref("v1");
    assert!(ns.cluster().delete(&set, "Background").await);
    is_waited_for(ns).await;
    // The agent has not observed the deletion, and repairs as before.
    remote.pulled.is_repaired(&settings()).await;
    remote.restore().await;
    ns.eventually("the revision to be gone", async || {
        ns.cluster().get(&set).await.is_none()
    })
    .await;
    assert_eq!(remote.pulled.read(&settings()).await, None);
    assert_eq!(remote.pulled.read(&configmap("other")).await, None);
    let deletions = remote.site.requests();
    let deletions = deletions
        .iter()
        .filter(|request| request.verb == Verb::Delete);
    assert_eq!(deletions.count(), 2, "each is deleted once");
}

/// A user abandons the phase of a lost site. If the site comes back, its objects are unchanged.
#[tokio::test]
async fn the_phase_of_a_lost_site_can_be_abandoned() {
    let remote = Remote::new(Scope::Namespaced).await;
    remote.deliver().await;
    let ns = &remote.pulled.ns;
    let before = remote.pulled.live(&settings()).await;
    remote.cut().await;
    let set = ns.set_ref("v1");
    assert!(ns.cluster().delete(&set, "Background").await);
    is_waited_for(ns).await;
    let abandon = json!({ "metadata": { "annotations": { "baton.run/abandon": "true" } } });
    let phase = ns.phase_ref("v1", "a");
    ns.cluster().merge(&phase, &abandon).await.unwrap();
    ns.eventually("the revision to be gone", async || {
        ns.cluster().get(&set).await.is_none()
    })
    .await;
    ns.eventually("the mirror to be gone", async || {
        remote.pulled.joined.mirrored().await.is_empty()
    })
    .await;
    assert_eq!(remote.pulled.live(&settings()).await, before);
    remote.restore().await;
    // The agent has dropped the phase, so the object is not repaired any more.
    let drift = json!({ "data": { "k": "drifted" } });
    let drifted = async || {
        let drifted = remote.pulled.merge(&settings(), &drift).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        remote.pulled.live(&settings()).await == drifted
    };
    ns.eventually("the phase to be forgotten", drifted).await;
    let left = remote.pulled.live(&settings()).await;
    assert_eq!(uid(&left), uid(&before));
}

/// Waits until the revision reports that its deletion waits, and names the way to abandon it.
async fn is_waited_for(ns: &TestNamespace) {
    ns.eventually("the wait to be reported", async || {
        let reported = ns.read_set("v1").await;
        let message = &reported.json["status"]["waitingFor"][0]["message"];
        message.as_str().is_some_and(|text| {
            text.contains("The deletion waits for it") && text.contains("baton.run/abandon=true")
        })
    })
    .await;
}
