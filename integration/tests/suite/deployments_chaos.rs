//! Deployments in the hands of people who do not wait, and of a manager that does not live long.

use std::collections::BTreeSet;

use baton_integration::prelude::*;
use futures::future::join_all;

/// Deployments that are edited side by side.
const CHAINS: u64 = 3;

both_scopes! {
    ten_edits_in_a_second => ten_edits;
}

/// Each edit may become a revision or be passed over, but the chain stays one: no number twice, each
/// revision names all before it.
async fn ten_edits(scope: Scope) {
    let ns = &TestNamespace::new(scope).await;
    let names: Vec<String> = (0..CHAINS).map(|at| format!("web-{at}")).collect();
    join_all(names.iter().map(|name| edit_ten_times(ns, name))).await;
    let expected = names
        .iter()
        .flat_map(|name| [format!("{name}-shared"), format!("{name}-10")]);
    assert_eq!(managed(ns).await, expected.collect());
}

async fn edit_ten_times(ns: &TestNamespace, name: &str) {
    let shared = configmap(&format!("{name}-shared"));
    let content = |version: u64| {
        ns.content()
            .phase("a", [shared.clone().data("version", &version.to_string())])
            .phase("b", [configmap(&format!("{name}-{version}"))])
    };
    let web = ns.deployment(name).content(content(0)).create().await;
    web.concluded().await;
    let before = ns.live(&shared).await;
    let label = format!("package-operator.run/object-deployment={}", web.name());
    let sets = Recording::start(ns.cluster(), &ns.set_ref("any"), &label).await;
    for version in 1..=10 {
        web.edit(content(version)).await;
    }
    web.concluded().await;
    let live = ns.live(&shared).await;
    assert_eq!(live["data"]["version"], "10");
    assert_eq!(uid(&live), uid(&before));

    let mut known = vec![web.set(1).await.name().to_owned()];
    for event in sets.so_far().await.events {
        if event.deed == Deed::Added {
            let set = Revision { json: event.object };
            let number = i64::try_from(known.len()).unwrap() + 1;
            assert_eq!(set.number(), Some(number), "{:#}", set.json);
            assert_eq!(previous(&set), known);
            known.push(set.name().to_owned());
        }
    }
    let newest = i64::try_from(known.len()).unwrap();
    for number in 1..newest {
        let archived = [Is("Archived", "True"), Controls(&[])];
        web.set_reaches(number, &archived).await;
    }
}

/// The names of all config maps that revisions have written.
async fn managed(ns: &TestNamespace) -> BTreeSet<String> {
    let like = ns.reference(&configmap(""));
    let objects = ns
        .cluster()
        .list(&like, "package-operator.run/cache=True")
        .await;
    let name = |object: &Value| object["metadata"]["name"].as_str().unwrap().to_owned();
    objects.iter().map(name).collect()
}
