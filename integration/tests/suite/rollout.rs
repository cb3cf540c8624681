//! A rollout into another cluster over a network that fails. It must end as an undisturbed rollout
//! does, by push and by pull.

use std::collections::BTreeMap;

use baton_integration::faults::{Answer, Faults, ObservedRequest, On, Status, Verb, WatchEnd};
use baton_integration::picture::{assert_same, forget};
use baton_integration::prelude::*;
use baton_integration::sites::{Join, Joined, PUSH, Site};
use tokio::sync::{OnceCell, Semaphore, SemaphorePermit};

/// Time limit of a rollout over a network that fails: the longest backoff of the manager is a
/// minute.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(3);

/// Limit of the concurrent rollouts in all tests. Most of them have an agent, and with more of
/// them waits exceed their time limits.
static TURNS: Semaphore = Semaphore::const_new(24);

/// The name of the Cluster. It is the same in all rollouts.
const NAME: &str = "site";

/// The stage of a rollout that has just begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    First,
    Second,
    Archival,
}

/// A rollout over a network.
pub(crate) struct Rollout {
    pub(crate) joined: Joined,
    recording: Option<Recording>,
    // Dropped last, so that its output comes last when the test fails.
    pub(crate) ns: TestNamespace,
    _turn: SemaphorePermit<'static>,
}

/// The result of a rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// All objects and revisions, without the values that differ between any two runs.
    picture: Vec<String>,
    /// The number of changes of each object on the site, including its creation.
    changes: BTreeMap<String, usize>,
    /// The number of objects that were deleted on the site.
    deletions: usize,
}

impl Rollout {
    /// Joins a site for a rollout, and waits until it is connected.
    pub(crate) async fn new(site: &Site, join: impl for<'a> FnOnce(Join<'a>) -> Join<'a>) -> Self {
        Self::unrecorded(site, join).await.recorded().await
    }

    /// Records the objects on the site from now on.
    pub(crate) async fn recorded(mut self) -> Self {
        let configmaps = configmap("").within(self.ns.name()).manifest;
        let site = self.joined.site().cluster().await;
        self.recording = Some(Recording::start(&site, &configmaps, "").await);
        self
    }

    /// As [`Rollout::new`], without a recording. For a site whose API server is stopped by the
    /// test.
    pub(crate) async fn unrecorded(
        site: &Site,
        join: impl for<'a> FnOnce(Join<'a>) -> Join<'a>,
    ) -> Self {
        let rollout = Self::joined(site, join).await;
        rollout.joined.becomes("Connected", "True").await;
        rollout
    }

    /// As [`Rollout::unrecorded`], with an agent that the test starts.
    #[expect(
        clippy::redundant_closure_for_method_calls,
        reason = "the method itself is not general over the lifetime of the join"
    )]
    pub(crate) async fn without_agent(site: &Site) -> Self {
        Self::joined(site, |join| join.pull()).await
    }

    /// Joins a site after a wait for a turn. `join` is called after the wait.
    async fn joined(site: &Site, join: impl for<'a> FnOnce(Join<'a>) -> Join<'a>) -> Self {
        let turn = TURNS.acquire().await.unwrap();
        let ns = TestNamespace::new(Scope::Namespaced).await;
        let joined = join(site.join(&ns).named(NAME)).create().await;
        Self {
            joined,
            recording: None,
            ns,
            _turn: turn,
        }
    }

    /// Rolls out two revisions, the second of which takes over, changes, adds and drops objects,
    /// and then archives the first one. Calls `disturb` at the start of each stage.
    pub(crate) async fn run(&self, disturb: impl AsyncFn(Stage)) {
        let ns = &self.ns;
        let class = self.joined.class();
        let patient = ns.within(TIMEOUT);
        let done = [
            Is("Available", "True"),
            Is("Succeeded", "True"),
            No("InTransition"),
        ];
        let content = |set: &str, own: &str| {
            let cm = |name: &str| configmap(name).data("from", set).data(set, "only here");
            [
                cm("in-place-0"),
                cm("in-place-1"),
                cm("in-place-2"),
                cm(own),
            ]
        };
        let create = async |name: &str, previous: &[&str], own: &str| {
            let last = configmap("in-place-last").data("from", name);
            ns.set(name)
                .previous(previous)
                .delegated("a", &class, content(name, own))
                .phase("b", [configmap("here").data("from", name)])
                .delegated("c", &class, [last])
                .probe(fields_equal("", "ConfigMap", ".data.from", ".data.from"))
                .create()
                .await;
        };
        create("v1", &[], "old").await;
        disturb(Stage::First).await;
        patient.reaches("v1", &done).await;
        create("v2", &["v1"], "new").await;
        disturb(Stage::Second).await;
        patient.reaches("v2", &done).await;
        patient.reaches("v1", &[Controls(&["ConfigMap old"])]).await;
        ns.set_lifecycle("v1", "Archived").await;
        disturb(Stage::Archival).await;
        let archived = [Is("Archived", "True"), Controls(&[])];
        patient.reaches("v1", &archived).await;
        patient.reaches("v2", &done).await;
    }

    /// Returns the result.
    async fn outcome(&self) -> Outcome {
        let recorded = self.recording.as_ref().unwrap().so_far().await;
        let mut changes = recorded.changes();
        changes.remove("kube-root-ca.crt");
        Outcome {
            picture: self.picture().await,
            changes,
            deletions: recorded.count(Change::Deleted),
        }
    }

    /// Fails unless the rollout ended as an undisturbed one, with the same number of changes.
    pub(crate) async fn assert_calm(&self, text: &str) {
        self.assert_pictured(text).await;
        let (outcome, calm) = (self.outcome().await, &calm().await.0);
        assert_eq!(outcome, *calm, "something was done twice under {text}");
    }

    /// Fails unless the rollout ended as an undisturbed one.
    pub(crate) async fn assert_pictured(&self, text: &str) {
        assert_same(&self.picture().await, &calm().await.0.picture, text);
    }

    /// Returns all objects on both sides and all revisions, without the values that differ between
    /// any two runs.
    async fn picture(&self) -> Vec<String> {
        let (ns, hub) = (&self.ns, self.ns.cluster());
        let site = self.joined.site().cluster().await;
        let like = |kind: &str| object("package-operator.run/v1alpha1", kind, "").within(ns.name());
        let sets = hub.list(&like("ObjectSet").manifest, "").await;
        let phases = hub.list(&like("ObjectSetPhase").manifest, "").await;
        let configmaps = configmap("").within(ns.name()).manifest;
        let here = hub.list(&configmaps, "").await;
        let there = site.list(&configmaps, "").await;
        let owners: Vec<Value> = [sets, phases].concat();
        let mut lines = Vec::new();
        for (cluster, mut object) in [(&here, "hub"), (&there, "site"), (&owners, "hub")]
            .into_iter()
            .flat_map(|(objects, cluster)| {
                objects.iter().map(move |object| (cluster, object.clone()))
            })
        {
            let name = object["metadata"]["name"].take();
            if name != "kube-root-ca.crt" {
                forget(&mut object);
                forget_status(&mut object);
                let kind = object["kind"].as_str().unwrap_or("ConfigMap");
                flatten(&format!("{cluster} {kind} {name}"), &object, &mut lines);
            }
        }
        for line in &mut lines {
            *line = line.replace(ns.name(), "the-namespace");
            for owner in &owners {
                *line = line.replace(uid(owner), owner["metadata"]["name"].as_str().unwrap());
            }
        }
        lines.sort();
        lines
    }
}

/// Adds one line for each value in an object, so that differences are short.
fn flatten(path: &str, value: &Value, lines: &mut Vec<String>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (key, value) in fields {
                flatten(&format!("{path}/{key}"), value, lines);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (at, value) in items.iter().enumerate() {
                flatten(&format!("{path}/{at}"), value, lines);
            }
        }
        value => lines.push(format!("{path}: {value}")),
    }
}

/// Returns the result of an undisturbed rollout, and the number of its writes on the site.
pub(crate) async fn calm() -> &'static (Outcome, usize) {
    static CALM: OnceCell<(Outcome, usize)> = OnceCell::const_new();
    CALM.get_or_init(|| async {
        let site = Site::get(PUSH).await;
        let faults = Faults::start(site.endpoint()).await;
        let url = faults.url();
        let rollout = Rollout::new(&site, |join| join.through(&url)).await;
        rollout.run(async |_| {}).await;
        let outcome = rollout.outcome().await;
        for (name, changes) in &outcome.changes {
            // An object is created, taken over, and released by the first revision, or it is
            // created and deleted.
            assert!(*changes <= 3, "{name} changed {changes} times");
        }
        let requests = faults.requests();
        let done = requests.iter().filter(|request| is_done(request));
        let done: Vec<_> = done.map(|request| (request.verb, &*request.path)).collect();
        let changes = outcome.changes.values().sum::<usize>();
        assert_eq!(
            done.len(),
            changes,
            "each write changes an object once: {done:#?}"
        );
        (outcome, changes)
    })
    .await
}

/// A fault in the server's answers, and the least number of requests that it applies to.
pub(crate) type Script = (&'static str, On, Answer, usize);

/// Returns all faults of watches of these paths.
pub(crate) fn watch_scripts(path: &str) -> Vec<Script> {
    let ends = |after, how: &WatchEnd| Answer::EndWatch {
        after,
        how: how.clone(),
    };
    let expired = WatchEnd::Error(Status::gone());
    let (busy, broken) = (Answer::too_many_requests(1), Answer::internal_error());
    let cut = Answer::CutBody(300);
    let watches = |times| On::verb(Verb::Watch).path(path).times(times);
    vec![
        ("410 to a watch", watches(3), Answer::gone(), 3),
        ("410 in a watch", watches(3), ends(2, &expired), 1),
        ("410 in a watch at once", watches(3), ends(0, &expired), 3),
        (
            "watches that close",
            watches(4),
            ends(1, &WatchEnd::Close),
            1,
        ),
        (
            "watches that break",
            watches(4),
            ends(1, &WatchEnd::HangUp),
            1,
        ),
        ("watches that break within an event", watches(4), cut, 1),
        ("watches that are not allowed now", watches(2), busy, 2),
        ("watches that fail", watches(2), broken, 2),
    ]
}

/// Returns the number of writes that the server has carried out.
pub(crate) fn writes(requests: &[ObservedRequest]) -> usize {
    requests.iter().filter(|request| is_done(request)).count()
}

/// True if a request was a write that the server has carried out.
pub(crate) fn is_done(request: &ObservedRequest) -> bool {
    request.is_write() && request.carried_out
}

/// Removes the parts of a status that depend on the name of the namespace, and the UIDs of phase
/// objects: the phase objects of an archived revision are gone.
fn forget_status(object: &mut Value) {
    let Some(Value::Object(status)) = object.get_mut("status") else {
        return;
    };
    status.remove("contentHash");
    if let Some(Value::Array(phases)) = status.get_mut("remotePhases") {
        for phase in phases {
            phase["uid"].take();
        }
    }
}
