//! Memory of the manager that others can occupy.

use baton_integration::exclusive::Exclusive;
use baton_integration::namespace::TIMEOUT;
use baton_integration::prelude::*;
use futures::{StreamExt as _, stream};

/// Number of ConfigMaps of another client, with the label that the manager's watches select by.
const STRANGERS: usize = 40;
/// Size of the data, which is close to the limit of an object.
const LENGTH: usize = 900_000;
/// Limit of the memory for all of them. A few of them are in memory at a time, as they arrive.
const LIMIT: u64 = 5 << 20;

fn memory(bed: &Exclusive) -> u64 {
    bed.manager()
        .metrics()
        .count("process_resident_memory_bytes")
}

/// Waits until the manager's memory exceeds a mark by less than the limit. Bursts are released
/// within a second or two.
async fn settles(ns: &TestNamespace, bed: &Exclusive, mark: u64, what: &str) {
    let above = || memory(bed).saturating_sub(mark);
    ns.eventually(what, async || above() < LIMIT).await;
    println!("{what}: {} KiB", above() / 1024);
}

/// A user who may create ConfigMaps cannot make the manager cache them, neither at their creation
/// nor at a restart.
#[tokio::test]
async fn objects_of_other_users_are_not_cached() {
    let mut bed = Exclusive::acquire().await;
    let ns = bed.namespace(Scope::Namespaced).await;
    let own = configmap("own").data("k", "v");
    ns.revision(1).phase("a", [own.clone()]).available().await;
    bed.take_manager().kill();
    bed.start_manager();
    crate::requests::settle(&ns, &bed).await;
    let before = memory(&bed);

    let create = |at: usize| {
        let cm = configmap(&format!("stranger-{at}"))
            .label("package-operator.run/cache", "True")
            .data("k", &"x".repeat(LENGTH));
        let ns = &ns;
        async move {
            ns.create(&cm).await;
        }
    };
    let create = stream::iter((0..STRANGERS).map(create)).buffer_unordered(4);
    create.collect::<()>().await;
    ns.eventually("the strangers to be observed", async || {
        let metrics = bed.manager().metrics();
        metrics.count("package_operator_managed_cache_objects_total") > STRANGERS as u64
    })
    .await;
    settles(&ns, &bed, before, "memory for strangers").await;

    bed.take_manager().kill();
    bed.start_manager();
    // A debug build of the manager needs some time to read all of them.
    ns.within(TIMEOUT * 2)
        .eventually("the strangers to be listed", async || {
            let metrics = bed.manager().metrics();
            metrics.count("package_operator_managed_cache_objects_total") > STRANGERS as u64
        })
        .await;
    settles(&ns, &bed, before, "memory for strangers after a restart").await;
    let most = bed
        .manager()
        .metrics()
        .count("process_resident_memory_max_bytes");
    let most = most.saturating_sub(before);
    println!("at most, after a restart: {} KiB", most / 1024);
    assert!(most < 4 * LIMIT, "{most} bytes at a restart");

    // A revision contains one of these objects. The foreign object is read because it collides, and
    // then it is deleted.
    let wanted = configmap("stranger-0").data("k", "ours");
    ns.revision(2)
        .previous(&["v1"])
        .phase("a", [own, wanted.clone()])
        .create()
        .await;
    let in_the_way = [Because("Available", "False", "CollisionDetected")];
    ns.reaches("v2", &in_the_way).await;
    ns.delete(&wanted).await;
    ns.reaches("v2", &[Is("Available", "True")]).await;
    assert_eq!(ns.live(&wanted).await["data"]["k"], "ours");
}

/// The size is close to the limit of the API server. Objects of a revision are cached.
#[tokio::test]
async fn a_revision_of_1400_kb_is_rolled_out_archived_and_listed() {
    let mut bed = Exclusive::acquire().await;
    let ns = bed.namespace(Scope::Namespaced).await;
    let part = |name: &str| configmap(name).data("k", &"x".repeat(LENGTH * 7 / 9));
    ns.revision(1)
        .phase("a", [part("a"), part("b")])
        .available()
        .await;
    bed.take_manager().kill();
    bed.start_manager();
    ns.merge(&part("b"), &json!({ "data": { "k": "drifted" } }))
        .await;
    ns.object_becomes(&part("b"), "repaired", |live| {
        live["data"]["k"] != "drifted"
    })
    .await;
    ns.set_lifecycle("v1", "Archived").await;
    ns.reaches("v1", &[Is("Archived", "True")]).await;
    ns.gone(&part("a")).await;
}
