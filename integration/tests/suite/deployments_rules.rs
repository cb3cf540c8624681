//! The rules for the archival of old revisions: which of them are archived at once, and which must
//! wait.

use baton_integration::prelude::*;

alternating_scopes! {
    objects_that_a_newer_revision_has_yet_to_take_stay;
    objects_in_slices_that_a_newer_revision_has_yet_to_take_stay;
    objects_of_newer_revisions_make_no_older_one_available;
}

/// Returns an object that holds back the following phases until it is annotated with its own name.
fn gate(name: &str) -> Entry {
    configmap(name)
}

/// The revision reports that it controls nothing, which differs from no report, so its archival
/// need not wait.
#[tokio::test]
async fn a_failed_revision_with_nothing_left_is_archived_at_once() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let cm = configmap("cm");
    let content = |version: &str| {
        ns.content()
            .phase("a", [cm.clone().data("k", version)])
            .probe(name_annotation_probe())
    };
    let web = ns.deployment("web").content(content("1")).create().await;
    web.set_reaches(1, &[Is("Available", "False"), Controls(&["ConfigMap cm"])])
        .await;
    let before = ns.live(&cm).await;
    for version in 2..=3 {
        web.edit(content(&version.to_string())).await;
        web.set_reaches(version - 1, &[Is("Archived", "True"), Controls(&[])])
            .await;
        web.set_reaches(
            version,
            &[Is("Available", "False"), Controls(&["ConfigMap cm"])],
        )
        .await;
    }
    let live = ns.live(&cm).await;
    assert_eq!(
        (uid(&live), &live["data"]["k"]),
        (uid(&before), &json!("3"))
    );
    ns.annotate_with_name(&cm).await;
    web.concluded().await;
    web.has_sets(&[1, 2, 3]).await;
}

/// Revision 1 is available and fails later, revision 2 shares no object with it, and revision 3
/// contains its object in a later phase.
///
/// Revision 2 is archived. Revision 1 and its object stay until revision 3 controls the object.
async fn objects_that_a_newer_revision_has_yet_to_take_stay(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let object = configmap("object");
    let content = || ns.content().probe(name_annotation_probe());
    let ready = object.clone().annotation("name", "object");
    let first = content().phase("a", [configmap("first").annotation("name", "first")]);
    let first = first.phase("b", [ready.clone()]);
    let web = ns.deployment("web").content(first).create().await;
    web.concluded().await;
    let before = ns.live(&object).await;

    web.edit(content().phase("a", [gate("gate-2")])).await;
    web.set_reaches(
        2,
        &[Is("Available", "False"), Controls(&["ConfigMap gate-2"])],
    )
    .await;
    let third = content().phase("a", [gate("gate-3")]).phase("b", [ready]);
    web.edit(third).await;
    web.set_reaches(
        3,
        &[Is("Available", "False"), Controls(&["ConfigMap gate-3"])],
    )
    .await;
    web.set_reaches(2, &[Is("Archived", "True")]).await;
    // The first object of revision 1 is deleted, so the deployment has no available revision left.
    ns.set_lifecycle(&in_test(&ns, &web.set(1).await), "Paused")
        .await;
    web.set_reaches(1, &[Is("Paused", "True")]).await;
    ns.delete(&configmap("first")).await;
    web.set_reaches(1, &[Is("Available", "False")]).await;
    web.reaches(&[
        Because("Available", "False", "ObjectSetUnready"),
        Is("Progressing", "True"),
    ])
    .await;
    web.annotate("another", "pass").await;
    ns.stays(
        Duration::from_secs(1),
        "the object and its revision",
        async || {
            let live = ns.live(&object).await;
            uid(&live) == uid(&before) && lifecycle(&web.set(1).await) == "Paused"
        },
    )
    .await;

    ns.annotate_with_name(&gate("gate-3")).await;
    web.concluded().await;
    web.set_reaches(1, &[Is("Archived", "True"), Controls(&[])])
        .await;
    let third = web
        .set_reaches(
            3,
            &[
                Is("Succeeded", "True"),
                Controls(&["ConfigMap gate-3", "ConfigMap object"]),
            ],
        )
        .await;
    let live = ns.live(&object).await;
    assert_eq!(uid(&live), uid(&before));
    assert_managed_by(&live, &third);
}

/// Returns the name of a revision within the test.
fn in_test(ns: &TestNamespace, set: &Revision) -> String {
    match ns.scope() {
        Scope::Namespaced => set.name().to_owned(),
        Scope::Cluster => set.name().replacen(&ns.unique(""), "", 1),
    }
}

/// Slices of a template are rolled out and handed over, the archival rules read them, and missing
/// ones are reported.
async fn objects_in_slices_that_a_newer_revision_has_yet_to_take_stay(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let (sliced, gone) = (configmap("sliced"), configmap("gone"));
    let content = |slices: &[&str], gates: Vec<Entry>| {
        ns.content()
            .phase("a", gates)
            .phase_with_slices("b", [], slices)
            .probe(fields_equal("", "ConfigMap", ".data.ready", ".data.ready"))
    };
    let ready = |entry: &Entry| entry.clone().data("ready", "yes");
    // The revision fails, and controls the objects of its slice.
    ns.create_slice("one", [sliced.clone(), gone.clone()]).await;
    let web = ns
        .deployment("web")
        .content(content(&["one"], vec![]))
        .create()
        .await;
    let own = ["ConfigMap sliced", "ConfigMap gone"];
    web.set_reaches(1, &[Is("Available", "False"), Controls(&own)])
        .await;
    let before = ns.live(&sliced).await;

    // The next revision has the object in a slice as well, in a later phase.
    ns.create_slice("two", [ready(&sliced)]).await;
    web.edit(content(&["two"], vec![gate("gate")])).await;
    web.set_reaches(
        2,
        &[Is("Available", "False"), Controls(&["ConfigMap gate"])],
    )
    .await;
    web.annotate("another", "pass").await;
    ns.stays(
        Duration::from_secs(1),
        "the first revision is needed",
        async || lifecycle(&web.set(1).await) == "Active" && ns.get(&gone).await.is_some(),
    )
    .await;
    ns.merge(&gate("gate"), &json!({ "data": { "ready": "yes" } }))
        .await;
    web.concluded().await;
    web.set_reaches(1, &[Is("Archived", "True"), Controls(&[])])
        .await;
    ns.gone(&gone).await;
    let second = web.set_reaches(2, &[Is("Succeeded", "True")]).await;
    let live = ns.live(&sliced).await;
    assert_eq!(uid(&live), uid(&before));
    assert_managed_by(&live, &second);

    // A slice is missing, so its objects are unknown, and no revision is archived.
    web.edit(content(&["two", "three"], vec![ready(&configmap("other"))]))
        .await;
    let reported = web
        .reaches(&[
            Is("Progressing", "True"),
            Says("Progressing", &ns.set_name("three")),
            Is("Available", "True"),
        ])
        .await;
    assert_eq!(reported.json["status"]["revision"], 3);
    assert_eq!(lifecycle(&web.set(2).await), "Active");
    ns.create_slice("three", [ready(&configmap("late"))]).await;
    web.concluded().await;
    web.set_reaches(2, &[Is("Archived", "True")]).await;
    web.set_reaches(
        3,
        &[Controls(&[
            "ConfigMap other",
            "ConfigMap sliced",
            "ConfigMap late",
        ])],
    )
    .await;
    ns.gone(&gate("gate")).await;
    assert_eq!(uid(&ns.live(&sliced).await), uid(&before));
}

/// A failing revision has taken over all objects of the first one. The first one still reports that
/// it is available, because its own probes pass. The deployment does not rely on that.
async fn objects_of_newer_revisions_make_no_older_one_available(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let cm = configmap("cm");
    let first = ns.content().phase("a", [cm.clone()]);
    let web = ns.deployment("web").content(first).create().await;
    web.concluded().await;
    let second = ns.content().phase("a", [cm.clone().data("k", "2")]);
    web.edit(second.probe(name_annotation_probe())).await;
    web.set_reaches(2, &[Is("Available", "False"), Controls(&["ConfigMap cm"])])
        .await;
    web.set_reaches(
        1,
        &[
            Is("Available", "True"),
            Is("InTransition", "True"),
            Controls(&[]),
        ],
    )
    .await;
    web.reaches(&[
        Because("Available", "False", "ObjectSetUnready"),
        Says("Available", "No ObjectSet is available."),
        Is("Progressing", "True"),
    ])
    .await;
    ns.annotate_with_name(&cm).await;
    web.concluded().await;
    web.set_reaches(1, &[Is("Archived", "True")]).await;
}

/// The deployment reports an error of the newest revision until its cause is gone.
#[tokio::test]
async fn a_collision_is_reported_by_the_deployment() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let (cm, theirs) = (configmap("cm"), configmap("theirs"));
    let content = ns.content().phase("a", [cm.clone(), configmap("own")]);
    let web = ns.deployment("web").content(content).create().await;
    web.concluded().await;
    ns.create(&theirs).await;
    web.edit(ns.content().phase("a", [cm.clone(), theirs.clone()]))
        .await;
    web.reaches(&[
        Because("Progressing", "True", "LatestRevisionPendingSuccess"),
        Says("Progressing", "theirs kind:ConfigMap: refusing adoption"),
        Is("Available", "True"),
    ])
    .await;
    assert_eq!(lifecycle(&web.set(1).await), "Active");
    ns.delete(&theirs).await;
    web.concluded().await;
    web.set_reaches(1, &[Is("Archived", "True")]).await;
}
