//! A cluster whose etcd is restored from a backup, while the manager has observed later changes.

use baton_integration::exclusive::Exclusive;
use baton_integration::namespace::TIMEOUT;
use baton_integration::prelude::*;
use baton_integration::sites::{PUSH, Site};

/// Number of changes of each object after the restore. Each change is an event.
const TOUCHES: usize = 3;

both_scopes! {
    objects_of_a_restored_revision_are_no_strays;
}

/// A revision was archived after the backup, and the manager has observed its end.
///
/// After the restore its objects are live again. The resource versions of the cluster may exceed
/// the old ones before or after the manager detects the restore.
async fn objects_of_a_restored_revision_are_no_strays(scope: Scope) {
    // A run stops and starts a control plane four times, so each scope covers one case.
    let writes = match scope {
        Scope::Namespaced => 400,
        Scope::Cluster => 0,
    };
    let bed = Exclusive::acquire().await;
    let ns = bed.namespace(scope).await;
    let objects = |number: i64| {
        ["shared", "own"].map(|name| match name {
            "own" => configmap(&format!("own-{number}")),
            name => configmap(name).data("from", &number.to_string()),
        })
    };
    ns.revision(1).phase("a", objects(1)).available().await;
    // Another revision has the same kinds, so they are watched all the time.
    ns.set("other")
        .phase("a", [configmap("other")])
        .available()
        .await;
    let before = [ns.live(&objects(1)[0]).await, ns.live(&objects(1)[1]).await];
    let snapshot = bed.snapshot().await;

    ns.revision(2).phase("a", objects(2)).available().await;
    ns.set_lifecycle("v1", "Archived").await;
    ns.reaches("v1", &[Is("Archived", "True")]).await;
    ns.gone(&objects(1)[1]).await;
    for write in 0..writes {
        let patch = json!({ "data": { "write": write.to_string() } });
        ns.merge(&configmap("other"), &patch).await;
    }
    bed.restore(&snapshot).await;

    let is_unchanged = async || {
        for (entry, before) in objects(1).iter().zip(&before) {
            match ns.get(entry).await {
                Some(live) if uid(&live) == uid(before) => {}
                _ => return false,
            }
        }
        true
    };
    for touch in 0..TOUCHES {
        for entry in &objects(1) {
            let patch = json!({ "metadata": { "labels": { "touched": touch.to_string() } } });
            ns.merge(entry, &patch).await;
        }
        ns.stays(Duration::from_secs(4), "the objects are live", is_unchanged)
            .await;
    }
    // The manager continues with the restored objects.
    ns.revision(2).phase("a", objects(2)).available().await;
    ns.set_lifecycle("v1", "Archived").await;
    ns.within(2 * TIMEOUT)
        .reaches("v1", &[Is("Archived", "True")])
        .await;
    ns.gone(&objects(1)[1]).await;
    let shared = ns.live(&objects(1)[0]).await;
    assert_eq!(uid(&shared), uid(&before[0]));
    let log = std::fs::read_to_string(bed.manager().log().path()).unwrap();
    assert!(
        !log.contains("was created after its owner had ended"),
        "a stray"
    );
}

/// As the page about backups says, a revision that the backup lacks has left its objects in another
/// cluster, and a new revision of that name may take them over.
#[tokio::test]
async fn objects_of_a_lost_revision_in_a_site_are_taken_over() {
    let mut bed = Exclusive::acquire().await;
    let ns = bed.namespace(Scope::Namespaced).await;
    let site = Site::get(PUSH).await;
    let joined = site.join(&ns).create().await;
    joined.becomes("Connected", "True").await;
    let class = joined.class();
    let delivered = configmap("delivered").within(ns.name());
    let snapshot = bed.snapshot().await;
    let set = || ns.revision(1).delegated("a", &class, [delivered.clone()]);
    set().available().await;
    let before = site.live(&ns, &delivered).await;
    bed.restore(&snapshot).await;
    // A manager with a lease ends by itself.
    bed.take_manager().kill();
    bed.start_manager();

    let collides = [Because("Available", "False", "CollisionDetected")];
    set().create().await;
    ns.within(2 * TIMEOUT).reaches("v1", &collides).await;
    let taken = delivered.clone().collision("None");
    ns.revision(2)
        .delegated("a", &class, [taken])
        .available()
        .await;
    let after = site.live(&ns, &delivered).await;
    assert_eq!(uid(&after), uid(&before));
}
