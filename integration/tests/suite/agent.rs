//! Phases of the class `cluster.<name>` of a pull cluster. The hub mirrors them for the agent of
//! the cluster, which delivers them and reports their status.
//!
//! The results are those of a delivery by the manager; see `push`.

use baton_integration::agent::Agent;
use baton_integration::manifest::BLOCKING_FINALIZER;
use baton_integration::namespace::LABEL_TEST;
use baton_integration::prelude::*;
use baton_integration::proxy::Proxy;
use baton_integration::sites::{Joined, PULL, Site};

alternating_scopes! {
    objects_are_delivered_through_all_kinds_of_phases;
    a_later_revision_takes_objects_over;
    a_rollback_restores_the_earlier_content;
    objects_are_handed_back_on_deletion;
    a_paused_phase_writes_nothing;
    probe_results_are_reported_and_waited_for;
    drift_and_deletion_are_undone;
    teardown_goes_in_reverse_order;
    orphaned_objects_stay;
    objects_of_other_owners_are_left_alone;
    phases_of_one_name_in_both_scopes_have_mirrors_of_their_own;
}

/// The annotation with the owners of an object whose owners are in another cluster.
pub(crate) const OWNERS: &str = "package-operator.run/owners";

/// A pull cluster with a running agent, and a namespace of the hub to deliver from.
pub(crate) struct Pulled {
    pub(crate) agent: Agent,
    pub(crate) joined: Joined,
    // Dropped last, as in tests that have each field in a variable.
    pub(crate) ns: TestNamespace,
}

impl Pulled {
    /// Connects the agent directly to both sides.
    pub(crate) async fn new(scope: Scope) -> Self {
        let ns = TestNamespace::new(scope).await;
        let site = Site::get(PULL).await;
        let joined = site.join(&ns).pull().create().await;
        let agent = joined.agent().start().await;
        Self { agent, joined, ns }
    }

    /// As [`Pulled::new`], with a proxy between the agent and the hub.
    pub(crate) async fn behind_a_proxy() -> (Self, Proxy) {
        let ns = TestNamespace::new(Scope::Namespaced).await;
        let site = Site::get(PULL).await;
        let joined = site.join(&ns).pull().create().await;
        let hub = joined.hub_endpoint();
        let line = Proxy::start(hub.address).await;
        let agent = joined.agent().hub(&hub.at(line.address())).start().await;
        (Self { agent, joined, ns }, line)
    }

    /// Creates the revision `v1` of one delegated phase and waits until it has succeeded.
    pub(crate) async fn deliver(&self, objects: impl IntoIterator<Item = Entry>) -> Revision {
        self.ns
            .revision(1)
            .delegated("a", &self.class(), objects)
            .reaching(&[Is("Succeeded", "True")])
            .await
    }

    /// Returns the class of phases that are delivered into the site.
    pub(crate) fn class(&self) -> String {
        self.joined.class()
    }

    /// Returns an object in the site, which must exist.
    pub(crate) async fn live(&self, entry: &Entry) -> Value {
        self.joined.site().live(&self.ns, entry).await
    }

    /// Reads an object in the site.
    pub(crate) async fn read(&self, entry: &Entry) -> Option<Value> {
        self.joined.site().read(&self.ns, entry).await
    }

    /// Merge-patches an object in the site as another client.
    pub(crate) async fn merge(&self, entry: &Entry, patch: &Value) -> Value {
        let site = self.joined.site().cluster().await;
        let reference = self.ns.reference(entry);
        site.merge(&reference, patch).await.unwrap()
    }

    /// Deletes an object in the site as another client.
    pub(crate) async fn delete(&self, entry: &Entry) {
        let site = self.joined.site().cluster().await;
        let reference = self.ns.reference(entry);
        assert!(site.delete(&reference, "Background").await);
    }

    /// Waits until an object in the site satisfies a predicate, and returns it.
    pub(crate) async fn object_becomes(
        &self,
        entry: &Entry,
        text: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> Value {
        let text = format!("{} {} to be {text}", entry.kind(), entry.name());
        let found = async || self.read(entry).await.is_some_and(|live| holds(&live));
        self.ns.eventually(&text, found).await;
        self.live(entry).await
    }

    /// Waits until the object does not exist in the site.
    pub(crate) async fn gone(&self, entry: &Entry) {
        let text = format!("{} {} to be gone", entry.kind(), entry.name());
        let gone = async || self.read(entry).await.is_none();
        self.ns.eventually(&text, gone).await;
    }

    /// Changes a key of an object in the site and waits until it is repaired.
    pub(crate) async fn is_repaired(&self, entry: &Entry) {
        let before = self.live(entry).await;
        self.merge(entry, &json!({ "data": { "k": "drifted" } }))
            .await;
        let data = &before["data"];
        let after = self
            .object_becomes(entry, "repaired", |live| live["data"] == *data)
            .await;
        assert_eq!(uid(&after), uid(&before));
    }

    /// Returns the name of the object of a delegated phase.
    fn phase_name(&self, set: &str, phase: &str) -> String {
        let reference = self.ns.phase_ref(set, phase);
        reference["metadata"]["name"].as_str().unwrap().to_owned()
    }
}

/// Returns the owners in the annotation of an object, each with true for the controller.
pub(crate) fn remote_owners(live: &Value) -> Vec<(String, bool)> {
    let list: Vec<Value> = serde_json::from_str(annotation(live, OWNERS)).unwrap_or_default();
    let entry = |owner: &Value| {
        let name = owner["name"].as_str().unwrap().to_owned();
        (name, owner["controller"] == true)
    };
    list.iter().map(entry).collect()
}

/// Returns the object that most tests deliver.
pub(crate) fn settings() -> Entry {
    configmap("cm").data("k", "v")
}

/// The objects of one revision are delivered in-process, by the manager's own controller of phases,
/// and by the agent.
async fn objects_are_delivered_through_all_kinds_of_phases(scope: Scope) {
    let pulled = Pulled::new(scope).await;
    let ns = &pulled.ns;
    let [here, native, there, last] = ["here", "native", "there", "last"].map(configmap);
    ns.revision(1)
        .phase("a", [here.clone()])
        .delegated("b", "default", [native.clone()])
        .delegated("c", &pulled.class(), [there.clone().data("k", "v")])
        .phase("d", [last.clone()])
        .probe(name_annotation_probe())
        .create()
        .await;
    for (entry, next) in [(&here, &native), (&native, &there)] {
        ns.object_becomes(entry, "made", |live| !live.is_null())
            .await;
        let nothing = async || ns.get(next).await.is_none() && pulled.read(&there).await.is_none();
        ns.stays(Duration::from_millis(300), "the next one waits", nothing)
            .await;
        ns.annotate_with_name(entry).await;
    }
    let made = pulled
        .object_becomes(&there, "made", |live| !live.is_null())
        .await;
    assert_eq!(ns.get(&last).await, None, "its phase waits for the agent");
    let named = json!({ "metadata": { "annotations": { "name": "there" } } });
    pulled.merge(&there, &named).await;
    ns.object_becomes(&last, "made", |live| !live.is_null())
        .await;
    ns.annotate_with_name(&last).await;
    let all = [
        "ConfigMap here",
        "ConfigMap native",
        "ConfigMap there",
        "ConfigMap last",
    ];
    ns.reaches("v1", &[Is("Succeeded", "True"), Controls(&all)])
        .await;

    // The status is the same as after a delivery by the manager.
    let phase = ns.phase_object("v1", "c").await.unwrap();
    phase.assert(&[
        Because("Available", "True", "Available"),
        Controls(&["ConfigMap there"]),
    ]);
    let kind = phase.json["kind"].as_str().unwrap();
    let namespace = phase.json["metadata"]["namespace"].as_str().unwrap_or("");
    assert_eq!(
        annotation(&made, OWNERS),
        format!(
            "[{{\"apiVersion\":\"package-operator.run/v1alpha1\",\"kind\":\"{kind}\",\"name\":\"{}\",\
             \"namespace\":\"{namespace}\",\"uid\":\"{}\",\"controller\":true}}]",
            phase.name(),
            phase.uid()
        )
    );
    assert!(owners(&made).is_empty());
    assert!(is_labelled(&made));
    assert_eq!(revision_annotation(&made), "1");
    assert_eq!(
        made["metadata"]["labels"]["app.kubernetes.io/managed-by"],
        "boxcutter"
    );
    assert_eq!(ns.get(&there).await, None, "nothing of it is on the hub");

    ns.delete_set("v1", "Background").await;
    assert_eq!(pulled.read(&there).await, None);
    assert!(pulled.joined.mirrored().await.is_empty());
}

/// Objects are created, changed in place, handed over and removed.
async fn a_later_revision_takes_objects_over(scope: Scope) {
    let pulled = Pulled::new(scope).await;
    let (ns, class) = (&pulled.ns, pulled.class());
    let [kept, old, new] = ["kept", "old", "new"].map(configmap);
    ns.revision(1)
        .delegated("a", &class, [kept.clone().data("k", "1"), old.clone()])
        .create()
        .await;
    let wanted = [
        Is("Succeeded", "True"),
        Controls(&["ConfigMap kept", "ConfigMap old"]),
    ];
    ns.reaches("v1", &wanted).await;
    let before = pulled.live(&kept).await;
    ns.revision(2)
        .delegated("a", &class, [kept.clone().data("k", "2"), new.clone()])
        .reaching(&[Is("Succeeded", "True"), No("InTransition")])
        .await;
    let after = pulled.live(&kept).await;
    assert_eq!(
        (uid(&after), &after["data"]["k"]),
        (uid(&before), &json!("2"))
    );
    let names = ["v1", "v2"].map(|set| pulled.phase_name(set, "a"));
    assert_eq!(
        remote_owners(&after),
        [(names[0].clone(), false), (names[1].clone(), true)]
    );
    ns.reaches(
        "v1",
        &[Is("InTransition", "True"), Controls(&["ConfigMap old"])],
    )
    .await;
    ns.set_lifecycle("v1", "Archived").await;
    ns.reaches("v1", &[Is("Archived", "True"), Controls(&[])])
        .await;
    assert_eq!(pulled.read(&old).await, None);
    let left = pulled.live(&kept).await;
    assert_eq!(remote_owners(&left), [(names[1].clone(), true)]);
    assert_eq!(uid(&left), uid(&before));
    assert_eq!(pulled.joined.mirrored().await.len(), 1);
    ns.delete_set("v2", "Background").await;
    assert_eq!(pulled.read(&kept).await, None);
    assert_eq!(pulled.read(&new).await, None);
}

/// A revision that never becomes ready is followed by one with the content of the first.
async fn a_rollback_restores_the_earlier_content(scope: Scope) {
    let pulled = Pulled::new(scope).await;
    let (ns, class) = (&pulled.ns, pulled.class());
    let create = async |name: &str, previous: &[&str], good: &str| {
        ns.set(name)
            .previous(previous)
            .delegated("a", &class, [configmap("cm").data("good", good)])
            .probe(cel_probe(
                "",
                "ConfigMap",
                "self.data.good == 'yes'",
                "it is not good",
            ))
            .create()
            .await;
    };
    create("v1", &[], "yes").await;
    ns.reaches("v1", &[Is("Succeeded", "True")]).await;
    let first = pulled.live(&configmap("cm")).await;
    create("v2", &["v1"], "no").await;
    let failed = [
        Because("Available", "False", "ProbeFailure"),
        Says("Available", "it is not good"),
    ];
    ns.reaches("v2", &failed).await;
    create("v3", &["v1", "v2"], "yes").await;
    ns.reaches("v3", &[Is("Succeeded", "True"), No("InTransition")])
        .await;
    let last = pulled.live(&configmap("cm")).await;
    assert_eq!((uid(&last), &last["data"]), (uid(&first), &first["data"]));
    for name in ["v1", "v2"] {
        ns.set_lifecycle(name, "Archived").await;
        ns.reaches(name, &[Is("Archived", "True")]).await;
    }
    let left = pulled.live(&configmap("cm")).await;
    assert_eq!(uid(&left), uid(&first));
    assert_eq!(remote_owners(&left), [(pulled.phase_name("v3", "a"), true)]);
}

/// The agent knows no revisions, so the manager passes on which owner gets an object back.
async fn objects_are_handed_back_on_deletion(scope: Scope) {
    let pulled = Pulled::new(scope).await;
    let ns = &pulled.ns;
    let class = pulled.class();
    let [cm, own] = ["cm", "own"].map(configmap);
    let from = |set: &str| cm.clone().data("from", set);
    ns.revision(1)
        .delegated("a", &class, [from("v1")])
        .reaching(&[Is("Succeeded", "True")])
        .await;
    ns.revision(2)
        .annotation("baton.run/on-deletion", "hand-back")
        .delegated("a", &class, [own.clone(), from("v2")])
        .reaching(&[Is("Succeeded", "True")])
        .await;
    let before = pulled.live(&cm).await;
    let site = pulled.joined.site().cluster().await;
    let label = "package-operator.run/cache=True";
    let recording = Recording::start(&site, &before, label).await;
    ns.delete_set("v2", "Background").await;
    let wanted = [
        Is("Available", "True"),
        No("InTransition"),
        Controls(&["ConfigMap cm"]),
    ];
    ns.reaches("v1", &wanted).await;
    assert_eq!(pulled.read(&own).await, None);
    for state in recording.so_far().await.states() {
        assert_eq!(uid(&state["cm"]), uid(&before));
        let owners = remote_owners(&state["cm"]);
        assert!(owners.iter().any(|(_, controls)| *controls), "{owners:?}");
    }
    let live = pulled.live(&cm).await;
    assert_eq!(live["data"], json!({ "from": "v1" }));
    let phase = ns.phase_object("v1", "a").await.unwrap();
    assert_eq!(remote_owners(&live), [(phase.name().to_owned(), true)]);
}

async fn a_paused_phase_writes_nothing(scope: Scope) {
    let pulled = Pulled::new(scope).await;
    let ns = &pulled.ns;
    pulled.deliver([settings()]).await;
    ns.set_lifecycle("v1", "Paused").await;
    ns.reaches("v1", &[Is("Paused", "True"), Is("Available", "True")])
        .await;
    ns.phase_object("v1", "a")
        .await
        .unwrap()
        .assert(&[Is("Paused", "True")]);
    let drifted = json!({ "data": { "k": "drifted" } });
    pulled.merge(&settings(), &drifted).await;
    let left = async || pulled.live(&settings()).await["data"]["k"] == "drifted";
    ns.stays(
        Duration::from_secs(1),
        "a paused phase writes nothing",
        left,
    )
    .await;
    ns.set_lifecycle("v1", "Active").await;
    pulled
        .object_becomes(&settings(), "repaired", |live| live["data"]["k"] == "v")
        .await;
    ns.reaches("v1", &[No("Paused"), Is("Available", "True")])
        .await;
}

/// The newer revision was paused before it succeeded. The agent of the older one does not create the object
/// that the newer one had taken over, and creates the one that it had not.
#[tokio::test]
async fn an_object_is_left_to_a_revision_paused_before_its_success() {
    let pulled = Pulled::new(Scope::Namespaced).await;
    let (ns, class) = (&pulled.ns, pulled.class());
    let from = |name: &str, set: &str| configmap(name).data("from", set);
    let [taken, left] = ["taken", "left"];
    ns.revision(1)
        .delegated("a", &class, [from(taken, "v1")])
        .delegated("b", &class, [from(left, "v1")])
        .reaching(&[Is("Succeeded", "True")])
        .await;
    let never = fields_equal("", "ConfigMap", ".data.from", ".data.never");
    ns.revision(2)
        .delegated("a", &class, [from(taken, "v2")])
        .delegated("b", &class, [from(left, "v2")])
        .probe(never)
        .create()
        .await;
    ns.reaches(
        "v1",
        &[Is("InTransition", "True"), Controls(&["ConfigMap left"])],
    )
    .await;
    ns.set_lifecycle("v2", "Paused").await;
    ns.reaches("v2", &[Is("Paused", "True")]).await;
    let is_stated = async || {
        let mirrors = pulled.joined.mirrored().await;
        let of_first = mirrors
            .iter()
            .find(|it| it["metadata"]["name"].as_str().unwrap().starts_with("v1-a"));
        let origin = of_first.unwrap()["metadata"]["annotations"]["baton.run/origin"].as_str();
        origin.unwrap().contains("hasGiven")
    };
    ns.eventually("the agent to know of the pause", is_stated)
        .await;
    for name in [taken, left] {
        pulled.delete(&configmap(name)).await;
    }
    let found = format!("left to revision {}", ns.set_name("v2"));
    ns.reaches("v1", &[Says("Available", &found)]).await;
    pulled
        .object_becomes(&configmap(left), "created", |live| {
            live["data"]["from"] == "v1"
        })
        .await;
    let is_missing = async || pulled.read(&configmap(taken)).await.is_none();
    ns.stays(Duration::from_secs(2), "the object is missing", is_missing)
        .await;
    ns.set_lifecycle("v2", "Active").await;
    pulled
        .object_becomes(&configmap(taken), "created", |live| {
            live["data"]["from"] == "v2"
        })
        .await;
}

/// Failures in the site are reported with the site's own messages.
async fn probe_results_are_reported_and_waited_for(scope: Scope) {
    let pulled = Pulled::new(scope).await;
    let ns = &pulled.ns;
    let gate = configmap("gate");
    ns.revision(1)
        .delegated("a", &pulled.class(), [gate.clone()])
        .phase("b", [configmap("after").annotation("name", "after")])
        .probe(name_annotation_probe())
        .create()
        .await;
    let text = format!(
        "Phase \"a\" failed:  ConfigMap {}/gate: \".metadata.annotations.name\" missing",
        ns.name()
    );
    let wanted = [
        Because("Available", "False", "ProbeFailure"),
        Says("Available", &text),
    ];
    ns.reaches("v1", &wanted).await;
    assert_eq!(ns.get(&configmap("after")).await, None);
    let named = json!({ "metadata": { "annotations": { "name": "gate" } } });
    pulled.merge(&gate, &named).await;
    ns.reaches("v1", &[Is("Available", "True"), Is("Succeeded", "True")])
        .await;
    // A probe that fails later is reported as well.
    let nameless = json!({ "metadata": { "annotations": { "name": "another" } } });
    pulled.merge(&gate, &nameless).await;
    ns.reaches("v1", &[Because("Available", "False", "ProbeFailure")])
        .await;
    pulled.merge(&gate, &named).await;
    ns.reaches("v1", &[Is("Available", "True")]).await;
}

async fn drift_and_deletion_are_undone(scope: Scope) {
    let pulled = Pulled::new(scope).await;
    let ns = &pulled.ns;
    pulled.deliver([settings()]).await;
    let before = pulled.live(&settings()).await;
    let drifted = json!({ "data": { "k": "drifted", "theirs": "kept" } });
    pulled.merge(&settings(), &drifted).await;
    pulled
        .object_becomes(&settings(), "repaired", |live| {
            live["data"] == json!({ "k": "v", "theirs": "kept" })
        })
        .await;
    pulled.delete(&settings()).await;
    pulled
        .object_becomes(&settings(), "made again", |live| {
            uid(live) != uid(&before) && live["data"]["k"] == "v"
        })
        .await;
    ns.reaches("v1", &[Is("Available", "True")]).await;
}

async fn teardown_goes_in_reverse_order(scope: Scope) {
    let pulled = Pulled::new(scope).await;
    let (ns, class) = (&pulled.ns, pulled.class());
    let [first, second, third] = ["first", "second", "third"].map(configmap);
    ns.revision(1)
        .phase("a", [first.clone()])
        .delegated("b", &class, [second.clone()])
        .delegated("c", &class, [third.clone()])
        .reaching(&[Is("Succeeded", "True")])
        .await;
    let blocked = second.clone().blocked();
    let finalizers = |value: &Value| json!({ "metadata": { "finalizers": value } });
    let block = finalizers(&blocked.manifest["metadata"]["finalizers"]);
    pulled.merge(&second, &block).await;
    ns.set_lifecycle("v1", "Archived").await;
    pulled.gone(&third).await;
    let is_going = |live: &Value| !live["metadata"]["deletionTimestamp"].is_null();
    pulled.object_becomes(&second, "deleted", is_going).await;
    ns.live(&first).await;
    let text = format!(
        "ConfigMap {}/second: being deleted, held by {BLOCKING_FINALIZER}",
        ns.name()
    );
    ns.eventually("the object to be named", async || {
        let reported = ns.read_set("v1").await;
        let waits = &reported.json["status"]["waitingFor"][0];
        waits["name"] == ns.phase_ref("v1", "b")["metadata"]["name"]
            && waits["message"] == text.as_str()
    })
    .await;
    pulled.merge(&second, &finalizers(&Value::Null)).await;
    ns.reaches("v1", &[Is("Archived", "True"), Controls(&[])])
        .await;
    ns.gone(&first).await;
    assert_eq!(pulled.read(&second).await, None);
    assert!(pulled.joined.mirrored().await.is_empty());
}

async fn orphaned_objects_stay(scope: Scope) {
    let pulled = Pulled::new(scope).await;
    let ns = &pulled.ns;
    pulled.deliver([settings()]).await;
    let before = pulled.live(&settings()).await;
    ns.until_garbage_is_collected().await;
    ns.delete_set("v1", "Orphan").await;
    ns.eventually("the phase object to be an orphan", async || {
        let phase = ns.phase_object("v1", "a").await.unwrap();
        owners(&phase.json).is_empty()
    })
    .await;
    assert_eq!(pulled.live(&settings()).await, before);
    let phase = ns.phase_ref("v1", "a");
    assert!(ns.cluster().delete(&phase, "Orphan").await);
    ns.eventually("the phase object to be gone", async || {
        ns.phase_object("v1", "a").await.is_none()
    })
    .await;
    let left = pulled.live(&settings()).await;
    assert_eq!((uid(&left), &left["data"]), (uid(&before), &before["data"]));
    ns.eventually("the mirror to be gone", async || {
        pulled.joined.mirrored().await.is_empty()
    })
    .await;
}

/// The objects in the site have no controller, or a controller of that cluster.
async fn objects_of_other_owners_are_left_alone(scope: Scope) {
    let pulled = Pulled::new(scope).await;
    let ns = &pulled.ns;
    let site = pulled.joined.site().cluster().await;
    let there = [settings(), settings().foreign()];
    for (there, protection) in there.into_iter().zip(["Prevent", "IfNoController"]) {
        let there = there.within(ns.name()).manifest;
        let before = site.create(&there).await.unwrap();
        let name = protection.to_lowercase();
        let entry = settings().collision(protection);
        let set = ns.set(&name).revision(1);
        set.delegated("a", &pulled.class(), [entry]).create().await;
        let wanted = [
            Because("Available", "False", "CollisionDetected"),
            Says("Available", "refusing adoption"),
        ];
        ns.reaches(&name, &wanted).await;
        assert_eq!(pulled.live(&settings()).await, before);
        // Once the object is gone, the phase continues.
        assert!(site.delete(&there, "Background").await);
        ns.reaches(&name, &[Is("Succeeded", "True")]).await;
        ns.delete_set(&name, "Background").await;
        assert_eq!(pulled.read(&settings()).await, None);
    }
}

/// An `ObjectSetPhase` and a `ClusterObjectSetPhase` of the same name have different mirrors in the
/// same namespace.
async fn phases_of_one_name_in_both_scopes_have_mirrors_of_their_own(scope: Scope) {
    let pulled = Pulled::new(scope).await;
    let (ns, class) = (&pulled.ns, pulled.class());
    let name = ns.unique("twin");
    let (twin, kind, namespace) = match scope {
        Scope::Namespaced => (name.as_str(), "ClusterObjectSet", Value::Null),
        Scope::Cluster => ("twin", "ObjectSet", ns.name().into()),
    };
    let mut other = ns.set_ref(twin);
    other["kind"] = kind.into();
    other["metadata"] = json!({
        "name": name, "namespace": namespace, "labels": { LABEL_TEST: ns.name() },
    });
    let cm = ns.reference(&configmap("of-the-other"));
    other["spec"] = json!({
        "revision": 1,
        "phases": [{ "name": "a", "class": class, "objects": [{ "object": cm }] }],
    });
    ns.cluster().create(&other).await.unwrap();
    let set = ns.set(twin).revision(1);
    set.delegated("a", &class, [settings()]).create().await;
    ns.reaches(twin, &[Is("Succeeded", "True")]).await;
    pulled
        .object_becomes(&configmap("of-the-other"), "made", |live| !live.is_null())
        .await;
    assert_eq!(pulled.joined.mirrored().await.len(), 2);
    ns.delete_set(twin, "Background").await;
    assert_eq!(pulled.read(&settings()).await, None);
    pulled.live(&configmap("of-the-other")).await;
    assert!(ns.cluster().delete(&other, "Background").await);
    pulled.gone(&configmap("of-the-other")).await;
}

/// A cluster can change between push and pull, and no object is written for that.
#[tokio::test]
async fn a_cluster_changes_from_push_to_pull_and_back() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let site = Site::get(PULL).await;
    let joined = site.join(&ns).create().await;
    let agent = joined.agent().start().await;
    let pulled = Pulled { agent, joined, ns };
    let ns = &pulled.ns;
    pulled.deliver([settings(), configmap("still")]).await;
    let configmaps = configmap("").within(ns.name()).manifest;
    let site = pulled.joined.site().cluster().await;
    let recording = Recording::start(&site, &configmaps, "").await;
    for (round, connection) in ["Pull", "Push"].into_iter().enumerate() {
        let spec = json!({ "connection": connection });
        pulled.joined.change_spec(&spec).await;
        ns.eventually("the mirror to be there, or to be gone", async || {
            pulled.joined.mirrored().await.is_empty() == (connection == "Push")
        })
        .await;
        // The present deliverer repairs, and the other one writes nothing.
        pulled.is_repaired(&settings()).await;
        let answered = async || {
            let reported = ns.phase_object("v1", "a").await.unwrap();
            reported.has(&[Is("Available", "True")])
        };
        ns.eventually("the phase to be available", answered).await;
        pulled.joined.becomes("Connected", "True").await;
        ns.reaches("v1", &[Is("Available", "True")]).await;
        let recorded = recording.so_far().await;
        assert_eq!(recorded.count(Change::Deleted), 0);
        let changes = recorded.changes();
        // The drift and its repair, once per round.
        assert_eq!(changes.get("cm"), Some(&(2 * (round + 1))), "{connection}");
        assert_eq!(changes.get("still"), None, "{connection}");
    }
    ns.set("v2")
        .previous(&["v1"])
        .delegated("a", &pulled.class(), [configmap("still").data("k", "2")])
        .reaching(&[Is("Succeeded", "True")])
        .await;
    ns.set_lifecycle("v1", "Archived").await;
    ns.reaches("v1", &[Is("Archived", "True")]).await;
    assert_eq!(pulled.read(&settings()).await, None);
}
