//! A leader that is stopped for longer than its lease and then continues, and the objects that it
//! writes too late.

#[cfg(target_os = "linux")]
mod unaware;

use baton_integration::exclusive::Exclusive;
use baton_integration::manager::Manager;
use baton_integration::prelude::*;
use baton_integration::seed::{SEED, seeds};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

alternating_scopes! {
    late_objects_of_an_archived_revision_are_deleted;
}

/// Number of leaders that are stopped.
const STOPS: u64 = 2;

/// Number of objects of a revision. A leader is stopped when some of them exist.
const OBJECTS: usize = 200;

/// Number of objects that a stopped leader may create late: those whose requests it was encrypting for a
/// socket when it was stopped. Without a check of each step towards the socket it is most of the missing ones.
const IN_HAND: usize = 3;

/// Flags of managers of which one is the leader at a time.
const FLAGS: [&str; 2] = ["--leader-elect", "--namespace=baton-system"];

fn is_leader(manager: &Manager) -> bool {
    manager.is_ready() && manager.metrics().count("baton_leader") == 1
}

/// Returns the names of a revision's objects that exist.
async fn objects(ns: &TestNamespace, set: &str) -> Vec<String> {
    let like =
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "namespace": ns.name() } });
    let objects = ns.cluster().list(&like, &format!("of={set}")).await;
    let name = |object: &Value| {
        object["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    objects.iter().map(name).collect()
}

/// A leader is stopped in the middle of a rollout. Another manager becomes leader and archives the
/// revision; then the first one continues. No object of the revision exists afterwards.
#[tokio::test]
async fn a_stopped_leader_that_continues_leaves_no_object() {
    let mut bed = Exclusive::acquire().await;
    let ns = bed.namespace(Scope::Namespaced).await;
    let home = object("v1", "Namespace", "baton-system").manifest;
    bed.cluster().apply(&home, "tests").await.unwrap();
    let _ = bed.take_manager().terminate();
    let start = || Manager::spawn(bed.cluster().kubeconfig(), "stale", &FLAGS);
    let mut leader = start();
    // Another revision has the same kind, so the kind is watched all the time.
    ns.set("other")
        .phase("a", [configmap("other")])
        .available()
        .await;
    let mut late = Vec::new();
    for seed in seeds(STOPS) {
        println!("{SEED}={seed}");
        let mut random = StdRng::seed_from_u64(seed);
        ns.eventually("the leader to lead", async || is_leader(&leader))
            .await;
        let successor = start();
        ns.eventually("the successor to be ready", async || successor.is_ready())
            .await;
        let set = format!("r{seed}");
        let cm = |at: usize| configmap(&format!("{set}-{at}")).label("of", &set);
        ns.set(&set).phase("a", (0..OBJECTS).map(cm)).create().await;
        let some = random.random_range(0..OBJECTS);
        ns.eventually("some objects to exist", async || {
            objects(&ns, &set).await.len() >= some
        })
        .await;
        leader.freeze();
        let before = objects(&ns, &set).await.len();
        ns.set_lifecycle(&set, "Archived").await;
        ns.reaches(&set, &[Is("Archived", "True")]).await;
        assert_eq!(objects(&ns, &set).await, [""; 0], "archived");
        let more = random.random_range(0..3_000);
        tokio::time::sleep(Duration::from_millis(more)).await;
        leader.go_on();
        ns.eventually("the former leader to end", async || {
            leader.exited().is_some()
        })
        .await;
        late.push(objects(&ns, &set).await.len());
        ns.eventually("the late object to be deleted", async || {
            objects(&ns, &set).await.is_empty()
        })
        .await;
        println!("{before} of {OBJECTS} objects existed when the leader was stopped");
        leader = successor;
    }
    assert!(
        late.iter().all(|late| *late <= IN_HAND),
        "writes of former leaders: {late:?}"
    );
}

/// Objects that are created late are deleted, even if no manager ran at that time; objects with
/// another controller stay.
async fn late_objects_of_an_archived_revision_are_deleted(scope: Scope) {
    let mut bed = Exclusive::acquire().await;
    let ns = bed.namespace(scope).await;
    let kept = configmap("kept");
    ns.revision(1)
        .phase("a", [configmap("cm")])
        .available()
        .await;
    ns.revision(2).phase("a", [kept.clone()]).available().await;
    ns.set_lifecycle("v1", "Archived").await;
    let archived = ns.reaches("v1", &[Is("Archived", "True")]).await;
    let late = |name: &str, controller: bool| {
        let owner = json!([{
            "apiVersion": "package-operator.run/v1alpha1", "kind": archived.json["kind"],
            "name": archived.name(), "uid": archived.uid(), "controller": controller,
        }]);
        configmap(name)
            .label("package-operator.run/cache", "True")
            .with("/metadata/ownerReferences", owner)
    };
    let (stray, shared) = (late("stray", true), late("shared", false));
    ns.create(&shared).await;
    ns.create(&stray).await;
    ns.gone(&stray).await;

    bed.take_manager().kill();
    ns.create(&stray).await;
    let finalizer = json!({ "metadata": { "finalizers": ["baton.run/test-blocks"] } });
    let blocked = late("blocked", true);
    ns.create(&blocked).await;
    ns.merge(&blocked, &finalizer).await;
    bed.start_manager();
    ns.gone(&stray).await;
    ns.object_becomes(&blocked, "deleted", |live| {
        !live["metadata"]["deletionTimestamp"].is_null()
    })
    .await;
    ns.unblock(&blocked).await;
    ns.gone(&blocked).await;
    ns.live(&kept).await;
    let live = ns.live(&shared).await;
    assert_eq!(live["metadata"]["deletionTimestamp"], Value::Null, "{live}");
}
