//! Revisions that share a slice and are created at the same time.

use baton_integration::prelude::*;
use futures::future::join_all;

/// Number of revisions.
const REVISIONS: usize = 24;

#[tokio::test]
async fn many_revisions_become_owners_of_a_slice_in_fewer_writes() {
    let ns = &TestNamespace::new(Scope::Namespaced).await;
    let api = "package-operator.run/v1alpha1";
    let objects = json!([configmap("cm").into_json()]);
    let slice = object(api, "ObjectSlice", "shared").with("/objects", objects);
    ns.create(&slice).await;
    let slice = ns.reference(&slice);
    let recording = Recording::start(ns.cluster(), &slice, "").await;
    let revision = |at: usize| {
        let phases = json!([{ "name": "a", "slices": ["shared"] }]);
        let spec = json!({ "phases": phases, "availabilityProbes": [] });
        object(api, "ObjectSet", &format!("v{at}")).with("/spec", spec)
    };
    let revisions: Vec<_> = (0..REVISIONS).map(revision).collect();
    join_all(revisions.iter().map(|it| ns.create(it))).await;
    ns.eventually("all revisions to be owners", async || {
        let live = ns.cluster().get(&slice).await.unwrap();
        let owners: std::collections::BTreeSet<_> = owner_names(&live).into_iter().collect();
        owners.len() == REVISIONS
    })
    .await;
    let recorded = recording.so_far().await;
    let writes = recorded.count(Change::Modified);
    assert!(writes < REVISIONS, "{writes} writes");
}
