//! Objects are orphaned on request at any time, also while no manager runs.

use baton_integration::exclusive::Exclusive;
use baton_integration::prelude::*;
use baton_integration::sites::{PULL, PUSH, Site};

/// Deletes an object but not its dependents, and waits until garbage collection has orphaned them.
async fn orphan(ns: &TestNamespace, reference: &Value) {
    assert!(ns.cluster().delete(reference, "Orphan").await);
    ns.eventually("garbage collection to have released it", async || {
        let object = ns.cluster().get(reference).await.unwrap();
        let finalizers = object["metadata"]["finalizers"].as_array().unwrap();
        !finalizers.contains(&json!("orphan"))
    })
    .await;
}

#[tokio::test]
async fn objects_of_phases_that_were_orphaned_while_no_manager_ran_stay() {
    let mut bed = Exclusive::acquire().await;
    let (pushed, pulled) = (Site::get(PUSH).await, Site::get(PULL).await);
    for scope in [Scope::Namespaced, Scope::Cluster] {
        let ns = bed.namespace(scope).await;
        let push = pushed.join(&ns).create().await;
        let pull = pulled.join(&ns).pull().create().await;
        let _agent = pull.agent().start().await;
        let [there, far, here, taken] = ["there", "far", "here", "taken"].map(configmap);
        ns.revision(1)
            .delegated("there", &push.class(), [there.clone()])
            .delegated("far", &pull.class(), [far.clone()])
            .delegated("here", "default", [here.clone()])
            .available()
            .await;
        // A revision that is deleted normally meanwhile deletes its objects as well.
        ns.set("other")
            .revision(1)
            .delegated("there", &push.class(), [taken.clone()])
            .available()
            .await;
        ns.until_garbage_is_collected().await;
        bed.take_manager().kill();
        orphan(&ns, &ns.set_ref("v1")).await;
        let phases = ["there", "far", "here"].map(|phase| ns.phase_ref("v1", phase));
        for phase in &phases {
            orphan(&ns, phase).await;
        }
        let other = ns.set_ref("other");
        let of_other = ns.phase_ref("other", "there");
        for deleted in [&other, &of_other] {
            assert!(ns.cluster().delete(deleted, "Background").await);
        }
        let before = (
            pushed.live(&ns, &there).await,
            pulled.live(&ns, &far).await,
            ns.live(&here).await,
        );

        bed.start_manager();
        for gone in phases.iter().chain([&ns.set_ref("v1"), &other, &of_other]) {
            let text = format!("{} to be gone", gone["metadata"]["name"]);
            ns.eventually(&text, async || ns.cluster().get(gone).await.is_none())
                .await;
        }
        assert_eq!(pushed.live(&ns, &there).await, before.0);
        assert_eq!(uid(&ns.live(&here).await), uid(&before.2));
        assert_eq!(pushed.read(&ns, &taken).await, None);
        ns.eventually("the mirror to be gone", async || {
            pull.mirrored().await.is_empty()
        })
        .await;
        assert_eq!(pulled.live(&ns, &far).await, before.1);
    }
}
