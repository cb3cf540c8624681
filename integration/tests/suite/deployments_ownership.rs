//! The owners of revisions, and the effects of deletions.

use baton_integration::endpoint::Endpoint;
use baton_integration::exclusive::Exclusive;
use baton_integration::faults::{Faults, Gate, ObservedRequest, Verb};
use baton_integration::prelude::*;
use baton_integration::set::SetBuilder;

alternating_scopes! {
    deployments_with_overlapping_selectors_keep_their_revisions;
    foreground_deletion_creates_nothing_new;
    orphaned_revisions_are_adopted;
    a_revision_name_that_is_taken_is_a_collision;
    a_deleted_current_revision_is_replaced;
    a_deployment_deleted_and_created_again_at_once_is_rolled_out;
}

/// Two deployments whose selectors and templates match the revisions of both, and an uncontrolled
/// revision that they match as well.
async fn deployments_with_overlapping_selectors_keep_their_revisions(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let labels = json!({ "shared": "label" });
    let content = |name: &str, version: &str| {
        ns.content()
            .phase("a", [configmap(name).data("version", version)])
    };
    ns.set("nobodys")
        .label("shared", "label")
        .revision(7)
        .phase("a", [configmap("nobodys")])
        .available()
        .await;
    let mut deployments = Vec::new();
    for name in ["one", "two"] {
        let deployment = ns
            .deployment(name)
            .spec("selector", json!({ "matchLabels": labels }))
            .template_label("shared", "label")
            .spec("revisionHistoryLimit", 1)
            .content(content(name, "1"));
        deployments.push(deployment.create().await);
    }
    for deployment in &deployments {
        deployment.concluded().await;
    }
    let [one, two] = [&deployments[0], &deployments[1]];
    let mut before = two.sets().await;
    before.push(ns.read_set("nobodys").await);
    let two_before = two.read().await;

    // One of the deployments has rollouts, archival, history and a pause.
    for version in ["2", "3"] {
        one.edit(content("one", version)).await;
        one.concluded().await;
    }
    one.has_sets(&[2, 3]).await;
    one.pause().await;
    one.set_reaches(3, &[Is("Paused", "True")]).await;
    one.delete("Background").await;
    one.gone().await;
    ns.gone(&configmap("one")).await;
    one.has_sets(&[]).await;

    let mut after = two.sets().await;
    after.push(ns.read_set("nobodys").await);
    assert_eq!(before, after, "they were not changed");
    assert_eq!(two.read().await, two_before);
    let count = two_before.json["status"]["collisionCount"].clone();
    assert_eq!(count, Value::Null);
}

/// No new revision is created while the old ones are being deleted.
async fn foreground_deletion_creates_nothing_new(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let [first, second, blocked] = ["first", "second", "blocked"].map(configmap);
    let blocked = blocked.blocked();
    let content = |objects: Vec<Entry>| ns.content().phase("a", objects);
    let web = ns.deployment("web");
    let web = web.content(content(vec![first.clone()])).create().await;
    web.concluded().await;
    web.edit(content(vec![second.clone(), blocked.clone()]))
        .await;
    web.concluded().await;
    web.set_reaches(1, &[Is("Archived", "True")]).await;
    let label = format!("package-operator.run/object-deployment={}", web.name());
    let sets = Recording::start(ns.cluster(), &ns.set_ref("any"), &label).await;

    ns.until_owners_are_observed().await;
    web.delete("Foreground").await;
    let is_going = |live: &Value| !live["metadata"]["deletionTimestamp"].is_null();
    ns.object_becomes(&blocked, "deleted", is_going).await;
    // The archived revision waits for nothing, but is removed asynchronously.
    web.has_sets(&[2]).await;
    // The deployment waits for its revision, and no change creates a new one meanwhile.
    web.edit(content(vec![configmap("third")])).await;
    web.annotate("changed", "meanwhile").await;
    ns.stays(Duration::from_secs(2), "the revision waits", async || {
        let left = web.sets().await;
        left.len() == 1 && is_going(&left[0].json)
    })
    .await;
    ns.unblock(&blocked).await;
    web.gone().await;
    let recorded = sets.so_far().await;
    assert_eq!(recorded.count(Change::Added), 0, "{recorded:#?}");
    assert_eq!(recorded.count(Change::Deleted), 2);
    for object in [&first, &second, &blocked, &configmap("third")] {
        ns.gone(object).await;
    }
}

/// A deployment is deleted without its revisions and created again. It adopts the revisions
/// unchanged.
async fn orphaned_revisions_are_adopted(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let (shared, old) = (configmap("shared"), configmap("old"));
    let first = || {
        ns.content()
            .phase("a", [shared.clone().data("k", "1"), old.clone()])
    };
    let second = || ns.content().phase("a", [shared.clone().data("k", "2")]);
    let web = ns.deployment("web").content(first()).create().await;
    web.concluded().await;
    let before = ns.live(&shared).await;
    for _ in 0..3 {
        orphan_and_make_again(&ns, &web, first()).await;
    }
    assert_eq!(ns.live(&shared).await, before);
    web.edit(second()).await;
    web.concluded().await;
    web.set_reaches(1, &[Is("Archived", "True")]).await;
    let before = ns.live(&shared).await;
    for _ in 0..3 {
        orphan_and_make_again(&ns, &web, second()).await;
    }
    assert_eq!(ns.live(&shared).await, before);

    // The next revision builds upon the adopted ones.
    web.edit(first()).await;
    web.concluded().await;
    let third = web.set_reaches(3, &[Is("Available", "True")]).await;
    let names = [web.set(1).await, web.set(2).await];
    assert_eq!(previous(&third), [names[0].name(), names[1].name()]);
    web.set_reaches(2, &[Is("Archived", "True")]).await;
    let live = ns.live(&shared).await;
    assert_eq!(uid(&live), uid(&before));
    assert_eq!(live["data"], json!({ "k": "1" }));
}

/// A deployment whose manager does not get the events of one watch until the gate opens.
struct WithHeldWatch<'a> {
    ns: &'a TestNamespace,
    faults: &'a Faults,
    gate: Gate,
    web: TestDeployment<'a>,
    /// The revisions of the deployment before.
    before: Vec<Revision>,
}

impl WithHeldWatch<'_> {
    /// Creates a deployment, and calls `test` when the watch of `path` is held.
    async fn run(path: &str, test: impl AsyncFnOnce(WithHeldWatch<'_>)) {
        let mut bed = Exclusive::acquire().await;
        let ns = bed.namespace(Scope::Namespaced).await;
        let faults = Faults::start(&Endpoint::of_bed(bed.cluster().kubeconfig())).await;
        let manager = bed.manager_through(&faults, &[]).await;
        let web = Self::create(&ns).await;
        web.concluded().await;
        let before = web.sets().await;
        ns.until_owners_are_observed().await;
        let gate = Gate::default();
        faults.hold_watch(path, &gate).await;
        test(WithHeldWatch {
            ns: &ns,
            faults: &faults,
            gate,
            web,
            before,
        })
        .await;
        drop(manager);
    }

    async fn create(ns: &TestNamespace) -> TestDeployment<'_> {
        let content = ns.content().phase("a", [configmap("cm").data("k", "1")]);
        ns.deployment("web").content(content).create().await
    }
}

/// A deployment is deleted without its revisions and created again, and the manager observes the
/// second deployment before the changes of the revisions: their watches are independent of each
/// other.
#[tokio::test]
async fn revisions_are_adopted_before_their_orphaning_is_observed() {
    WithHeldWatch::run("/objectsets$", async |held| {
        let (faults, web) = (held.faults, &held.web);
        web.delete("Orphan").await;
        web.gone().await;
        let earlier = faults.requests().len();
        WithHeldWatch::create(held.ns).await;
        let is_write = |it: &&ObservedRequest| it.is_write() && it.path.contains("/objectsets");
        let requests = faults
            .until("a revision to be adopted or created", |requests| {
                requests[earlier..].iter().any(|it| is_write(&it))
            })
            .await;
        let first = requests[earlier..].iter().find(is_write);
        assert_eq!(first.map(|it| it.verb), Some(Verb::Patch), "{first:?}");
        held.gate.open();
        let reported = web.concluded().await;
        assert_eq!(reported.json["status"]["collisionCount"], Value::Null);
        assert_eq!(uids(&web.sets().await), uids(&held.before));
    })
    .await;
}

/// A deployment is deleted without its revisions, and the manager observes the changes of the
/// revisions before the deletion. Garbage collection would delete a revision that the manager gives
/// back to this deployment.
#[tokio::test]
async fn a_deleted_deployment_adopts_no_revisions() {
    WithHeldWatch::run("/objectdeployments$", async |held| {
        let (ns, faults, web) = (held.ns, held.faults, &held.web);
        let earlier = faults.requests().len();
        web.delete("Orphan").await;
        web.gone().await;
        let examined = ["/objectdeployments/web", "/objectsets/web-"];
        faults.until_read(earlier, examined).await;
        ns.until_owners_are_observed().await;
        let left = web.sets().await;
        assert_eq!(uids(&left), uids(&held.before), "{left:#?}");
        assert!(left.iter().all(|set| owners(&set.json).is_empty()));

        held.gate.open();
        WithHeldWatch::create(ns).await;
        web.concluded().await;
        assert_eq!(uids(&web.sets().await), uids(&held.before));
    })
    .await;
}

fn uids(sets: &[Revision]) -> Vec<String> {
    sets.iter().map(|set| set.uid().to_owned()).collect()
}

/// Deletes the deployment without its revisions and creates it again. Only owner references may
/// change.
async fn orphan_and_make_again(ns: &TestNamespace, web: &TestDeployment<'_>, like: SetBuilder<'_>) {
    let before = web.sets().await;
    // Garbage collection would delete a revision that it has not observed as a dependent yet.
    ns.until_owners_are_observed().await;
    web.delete("Orphan").await;
    web.gone().await;
    ns.eventually("orphans", async || {
        let sets = web.sets().await;
        sets.len() == before.len() && sets.iter().all(|set| owners(&set.json).is_empty())
    })
    .await;
    let label = format!("package-operator.run/object-deployment={}", web.name());
    let sets = Recording::start(ns.cluster(), &ns.set_ref("any"), &label).await;
    let deployments = Recording::start(ns.cluster(), &web.reference(), "").await;
    ns.deployment("web").content(like).create().await;
    let reported = web.concluded().await;
    let newest = before.last().unwrap();
    assert_eq!(reported.json["status"]["revision"], json!(newest.number()));
    assert_eq!(reported.json["status"]["collisionCount"], Value::Null);
    let entry = |set: &Revision| {
        let kind = web.revision_kind();
        format!("{kind}.package-operator.run {}", set.name())
    };
    let entries: Vec<_> = before.iter().map(entry).collect();
    let entries: Vec<_> = entries.iter().map(String::as_str).collect();
    reported.assert(&[Controls(&entries)]);
    let after = web.sets().await;
    assert_eq!(after.len(), before.len());
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(before.uid(), after.uid());
        assert_eq!(before.json["spec"], after.json["spec"]);
        assert_eq!(controller(&after.json), web.name());
    }
    assert_eq!(sets.so_far().await.count(Change::Added), 0);
    // The deployment reports no other revision in between.
    for state in deployments.so_far().await.states() {
        if let Some(reported) = state.get(web.name()) {
            let status = &reported["status"];
            let is_fresh = status["observedGeneration"].is_null();
            assert!(
                is_fresh || status["revision"] == json!(newest.number()),
                "{status:#}"
            );
        }
    }
}

/// An orphan that the selector does not match is not adopted.
#[tokio::test]
async fn an_orphan_of_another_selector_is_left_alone() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let label = "package-operator.run/object-deployment";
    ns.set("stray")
        .label(label, "web")
        .revision(9)
        .phase("a", [configmap("stray")])
        .available()
        .await;
    let before = ns.read_set("stray").await;
    let content = ns.content().phase("a", [configmap("cm")]);
    let web = ns.deployment("web").content(content).create().await;
    let reported = web.concluded().await;
    assert_eq!(reported.json["status"]["revision"], 1);
    assert_eq!(ns.read_set("stray").await, before);
}

/// A selector that changes, or matches nothing, changes nothing about the owned revisions.
#[tokio::test]
async fn a_changed_selector_keeps_all_revisions() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let cm = configmap("cm");
    let content = |version: &str| ns.content().phase("a", [cm.clone().data("k", version)]);
    let web = ns.deployment("web").content(content("1")).create().await;
    web.concluded().await;
    let before = web.sets().await;
    let other = json!({ "matchLabels": null, "matchExpressions": [{ "key": "other", "operator": "Exists" }] });
    web.patch(&json!({ "spec": { "selector": other } })).await;
    web.concluded().await;
    assert_eq!(web.sets().await, before);
    web.edit(content("2")).await;
    web.concluded().await;
    web.set_reaches(1, &[Is("Archived", "True")]).await;
    web.has_sets(&[1, 2]).await;
}

/// A revision of another owner has the name that the next revision would have. It is left alone.
async fn a_revision_name_that_is_taken_is_a_collision(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let content = |version: &str| {
        ns.content()
            .phase("a", [configmap("cm").data("k", version)])
    };
    // Only the manager can compute the name.
    let web = ns.deployment("web").content(content("1")).create().await;
    let first = web.concluded().await.json["status"]["templateHash"].clone();
    web.edit(content("2")).await;
    let second = web.concluded().await.json["status"]["templateHash"].clone();
    web.delete("Background").await;
    web.gone().await;
    web.has_sets(&[]).await;
    ns.gone(&configmap("cm")).await;

    let second = format!("web-{}", second.as_str().unwrap());
    ns.set(&second)
        .revision(1)
        .phase("a", [configmap("theirs")])
        .create()
        .await;
    let theirs = ns.reaches(&second, &[Is("Succeeded", "True")]).await;
    let web = ns.deployment("web").content(content("1")).create().await;
    let reported = web.concluded().await;
    assert_eq!(reported.json["status"]["templateHash"], first);
    web.edit(content("2")).await;
    let reported = web.concluded().await;
    assert_eq!(reported.json["status"]["collisionCount"], 1);
    let hash = reported.json["status"]["templateHash"].as_str().unwrap();
    let set = web.set_reaches(2, &[Is("Available", "True")]).await;
    assert_eq!(set.name(), format!("{}-{hash}", web.name()));
    assert_ne!(set.name(), theirs.name());
    assert_eq!(ns.read_set(&second).await, theirs);
    assert_eq!(ns.live(&configmap("cm")).await["data"]["k"], "2");
    // No further revision is created as long as the template stays the same.
    web.set_reaches(1, &[Is("Archived", "True")]).await;
    web.has_sets(&[1, 2]).await;
}

/// A user deletes the current revision. The replacement gets all objects, and none is deleted
/// together with the old revision.
async fn a_deleted_current_revision_is_replaced(scope: Scope) {
    for propagation in ["Background", "Foreground"] {
        let ns = TestNamespace::new(scope).await;
        let objects = ["a", "b", "c"].map(|name| configmap(name).data("k", "v"));
        let old = ns.content().phase("1", [configmap("old")]);
        let web = ns.deployment("web").content(old).create().await;
        web.concluded().await;
        let content = ns.content().phase("1", objects.clone());
        web.edit(content).await;
        web.concluded().await;
        let second = web.set_reaches(2, &[Is("Succeeded", "True")]).await;

        ns.delete_set(&made_name(&ns, &second), propagation).await;
        // The number and the name are free again if the revision is gone before its replacement is
        // created.
        ns.eventually("another revision to be at work", async || {
            let sets = web.sets().await;
            let newest = sets.last().filter(|set| set.uid() != second.uid());
            newest.is_some_and(|set| set.has(&[Is("Succeeded", "True")]))
        })
        .await;
        let number = web.sets().await.last().and_then(Revision::number).unwrap();
        assert!((2..=3).contains(&number), "{propagation}: {number}");
        web.concluded_as(number).await;
        let own = ["ConfigMap a", "ConfigMap b", "ConfigMap c"];
        let third = web
            .set_reaches(
                number,
                &[Is("Succeeded", "True"), No("InTransition"), Controls(&own)],
            )
            .await;
        for object in &objects {
            let text = "of the new revision only";
            let live = ns
                .object_becomes(object, text, |live| owner_names(live) == [third.name()])
                .await;
            assert_managed_by(&live, &third);
        }
        web.has_sets(&[1, number]).await;
    }
}

/// Returns the name of a revision within the test.
fn made_name(ns: &TestNamespace, set: &Revision) -> String {
    match ns.scope() {
        Scope::Namespaced => set.name().to_owned(),
        Scope::Cluster => set.name().replacen(&ns.unique(""), "", 1),
    }
}

/// A user deletes an archived revision, and the other revisions continue.
#[tokio::test]
async fn an_archived_revision_may_be_deleted_by_hand() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let cm = configmap("cm");
    let content = |version: &str| ns.content().phase("a", [cm.clone().data("k", version)]);
    let web = ns.deployment("web").content(content("1")).create().await;
    web.concluded().await;
    for version in ["2", "3"] {
        web.edit(content(version)).await;
        web.concluded().await;
    }
    let second = web.set_reaches(2, &[Is("Archived", "True")]).await;
    let before = ns.live(&cm).await;
    ns.delete_set(second.name(), "Background").await;
    let [first, third] = [web.set(1).await, web.set(3).await];
    let entries =
        [&first, &third].map(|set| format!("ObjectSet.package-operator.run {}", set.name()));
    let entries = [&*entries[0], &*entries[1]];
    web.reaches(&[Controls(&entries), Because("Progressing", "False", "Idle")])
        .await;
    assert_eq!(ns.live(&cm).await, before);
    // The revision that names the deleted one in `previous` continues, and so does the next
    // revision.
    web.edit(content("4")).await;
    web.concluded().await;
    let fourth = web.set_reaches(4, &[Is("Succeeded", "True")]).await;
    assert_eq!(previous(&fourth), [first.name(), third.name()]);
    assert_eq!(uid(&ns.live(&cm).await), uid(&before));
}

/// The revisions of the deleted deployment are being deleted and still have the objects. They also
/// have the names that the new revisions would have.
async fn a_deployment_deleted_and_created_again_at_once_is_rolled_out(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let (cm, held) = (configmap("cm").data("k", "v"), configmap("held").blocked());
    let content = || {
        ns.content()
            .phase("a", [cm.clone()])
            .phase("b", [held.clone()])
    };
    let web = ns.deployment("web").content(content()).create().await;
    web.concluded().await;
    let before = web.set(1).await;
    web.delete("Background").await;
    web.gone().await;
    ns.deployment("web").content(content()).create().await;
    let is_going = |live: &Value| !live["metadata"]["deletionTimestamp"].is_null();
    ns.object_becomes(&held, "deleted", is_going).await;
    web.reaches(&[Because("Available", "False", "ObjectSetUnready")])
        .await;
    ns.unblock(&held).await;

    let reported = web.concluded().await;
    assert_eq!(reported.json["status"]["revision"], 1);
    let own = ["ConfigMap cm", "ConfigMap held"];
    let sets = web.has_sets(&[1]).await;
    assert_ne!(sets[0].uid(), before.uid());
    sets[0].assert(&[Is("Available", "True"), Controls(&own)]);
    assert_eq!(controller(&ns.live(&cm).await), sets[0].name());
}

/// A user changes a manifest of the current revision. The template prevails.
#[tokio::test]
async fn a_revision_changed_by_a_user_is_replaced() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let cm = configmap("cm").data("k", "dGVzdA==");
    let content = ns.content().phase("a", [cm.clone()]);
    let web = ns.deployment("web").content(content).create().await;
    web.concluded().await;
    let set = web.set(1).await;
    let before = ns.live(&cm).await;
    let mut phases = set.json["spec"]["phases"].clone();
    let manifest = phases[0]["objects"][0]["object"].as_object_mut().unwrap();
    let data = manifest.remove("data").unwrap();
    manifest.insert("binaryData".to_owned(), data);
    let patch = json!({ "spec": { "phases": phases } });
    if let Err(refused) = ns.patch_set(set.name(), &patch).await {
        assert!(
            refused.message.contains("phases is immutable"),
            "{refused:?}"
        );
        return;
    }
    web.set_reaches(2, &[Is("Succeeded", "True")]).await;
    let reported = web.concluded_as(2).await;
    assert_eq!(reported.json["status"]["collisionCount"], 1);
    web.set_reaches(1, &[Is("Archived", "True")]).await;
    web.has_sets(&[1, 2]).await;
    let live = ns.live(&cm).await;
    assert_eq!((uid(&live), &live["data"]), (uid(&before), &before["data"]));
}
