//! `SiteAssignments`: the namespaces that may deliver into a cluster, and the scope of their
//! deliveries.

use baton_integration::exclusive::Exclusive;
use baton_integration::prelude::*;
use baton_integration::sites::{Joined, PUSH, Site};

use crate::agent::Pulled;
use crate::cluster_commands::{baton, messages, refused, turn};

const AVAILABLE: [Expectation<'_>; 1] = [Is("Available", "True")];
const REFUSED: [Expectation<'_>; 1] = [Because("Available", "False", "PreflightError")];

/// Creates a `SiteAssignment` that is deleted with the test's namespace.
pub(crate) async fn assign(ns: &TestNamespace, name: &str, spec: Value) -> Value {
    let entry = object("baton.run/v1alpha1", "SiteAssignment", &ns.unique(name));
    ns.create_elsewhere(&entry.with("/spec", spec)).await
}

pub(crate) fn names(names: &[&str]) -> Value {
    json!({ "names": names })
}

fn settings() -> Entry {
    configmap("settings").data("k", "1")
}

async fn deliver(ns: &TestNamespace, name: &str, joined: &Joined, objects: &[Entry]) {
    let set = ns.set(name).revision(1);
    let set = set.delegated("a", &joined.class(), objects.to_vec());
    set.create().await;
}

fn missing(ns: &TestNamespace, joined: &Joined) -> String {
    format!(
        "Phase \"a\" failed: Namespace \"{}\" may not deliver into Cluster \"{}\": there is no SiteAssignment that \
         selects both.",
        ns.name(),
        joined.name()
    )
}

/// Changes an object in the site as another client.
async fn drift(ns: &TestNamespace, site: &Site) {
    let patch = json!({ "data": { "k": "drifted" } });
    let cluster = site.cluster().await;
    let reference = ns.reference(&settings());
    cluster.merge(&reference, &patch).await.unwrap();
}

async fn content(ns: &TestNamespace, site: &Site) -> Value {
    site.live(ns, &settings()).await["data"]["k"].clone()
}

/// The delivery is refused, allowed, withdrawn, allowed again, withdrawn, and deleted.
async fn follows_assignments(ns: &TestNamespace, joined: &Joined) {
    let hub = ns.cluster();
    let site = joined.site();
    let others = json!({
        "namespaces": names(&["somebody-else"]), "clusters": names(&[joined.name()]),
    });
    let assignment = assign(ns, "edge", others).await;
    let allow = async |namespaces: &[&str]| {
        let patch = json!({ "spec": { "namespaces": { "names": namespaces } } });
        hub.merge(&assignment, &patch).await.unwrap();
    };
    deliver(ns, "v1", joined, &[settings()]).await;
    let refused = ns.reaches("v1", &REFUSED).await;
    assert_eq!(refused.message("Available"), missing(ns, joined));
    let phase = ns.phase_object("v1", "a").await.unwrap();
    assert_eq!(phase.json["metadata"]["finalizers"], Value::Null);
    assert_eq!(site.read(ns, &settings()).await, None);

    allow(&["somebody-else", ns.name()]).await;
    ns.reaches("v1", &AVAILABLE).await;
    assert_eq!(content(ns, site).await, "1");

    allow(&[]).await;
    let frozen = ns.reaches("v1", &REFUSED).await;
    let text = format!(
        "{} What was delivered before is left as it is.",
        missing(ns, joined)
    );
    assert_eq!(frozen.message("Available"), text);
    assert_eq!(frozen.controller_of(), ["ConfigMap settings"]);
    joined.until_frozen().await;
    drift(ns, site).await;
    ns.stays(
        Duration::from_secs(2),
        "nothing to be written",
        async || content(ns, site).await == "drifted",
    )
    .await;

    allow(&[ns.name()]).await;
    ns.eventually("the drift to be undone", async || {
        content(ns, site).await == "1"
    })
    .await;
    ns.reaches("v1", &AVAILABLE).await;

    // A deletion removes the revision's objects even if the namespace may not deliver any more.
    allow(&[]).await;
    ns.reaches("v1", &REFUSED).await;
    ns.delete_set("v1", "Background").await;
    assert_eq!(site.read(ns, &settings()).await, None);

    // Nothing was delivered, so nothing delays the deletion.
    deliver(ns, "v2", joined, &[settings()]).await;
    ns.reaches("v2", &REFUSED).await;
    ns.delete_set("v2", "Background").await;

    // Without an assignment every namespace may deliver into the cluster.
    deliver(ns, "v3", joined, &[settings()]).await;
    ns.reaches("v3", &REFUSED).await;
    assert!(hub.delete(&assignment, "Background").await);
    ns.reaches("v3", &AVAILABLE).await;
}

#[tokio::test]
async fn pushed_phases_follow_the_assignments_of_their_cluster() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let site = Site::get(PUSH).await;
    let joined = site.join(&ns).create().await;
    follows_assignments(&ns, &joined).await;
}

#[tokio::test]
async fn pulled_phases_follow_the_assignments_of_their_cluster() {
    let pulled = Pulled::new(Scope::Namespaced).await;
    follows_assignments(&pulled.ns, &pulled.joined).await;
}

/// The labels of the namespace and of the cluster change one after the other.
#[tokio::test]
async fn assignments_select_by_labels() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let site = Site::get(PUSH).await;
    let joined = site.join(&ns).create().await;
    let hub = ns.cluster();
    let own = ns.unique("own");
    let select = || json!({ "selector": { "matchLabels": { "tests": own } } });
    let closed = json!({ "namespaces": names(&[]), "clusters": names(&[joined.name()]) });
    assign(&ns, "closed", closed).await;
    let spec = json!({ "namespaces": select(), "clusters": select() });
    assign(&ns, "open", spec).await;
    let label = async |object: &Value, value: Value| {
        let patch = json!({ "metadata": { "labels": { "tests": value } } });
        hub.merge(object, &patch).await.unwrap();
    };
    let home = object("v1", "Namespace", ns.name()).manifest;
    deliver(&ns, "v1", &joined, &[settings()]).await;
    ns.reaches("v1", &REFUSED).await;
    label(&home, json!(own)).await;
    label(&joined.reference(), json!(own)).await;
    ns.reaches("v1", &AVAILABLE).await;
    label(&home, Value::Null).await;
    ns.reaches("v1", &REFUSED).await;
    label(&home, json!(own)).await;
    ns.reaches("v1", &AVAILABLE).await;
    label(&joined.reference(), Value::Null).await;
    ns.reaches("v1", &REFUSED).await;
}

/// An assignment limits the namespaces of the site, and cluster-scoped objects.
async fn reaches_as_far_as_assigned(ns: &TestNamespace, joined: &Joined) {
    let site = joined.site();
    let other = format!("{}-other", ns.name());
    site.namespace(&other).await;
    let own = || names(&[ns.name()]);
    let further = json!({
        "namespaces": own(), "clusters": names(&[joined.name()]), "targetNamespaces": [other],
    });
    let assignment = assign(ns, "far", further).await;
    let there = settings().within(&other);
    let system = configmap(&ns.unique("system")).within("kube-system");
    let objects = [settings(), there.clone()];
    deliver(ns, "v1", joined, &objects).await;
    ns.reaches("v1", &AVAILABLE).await;
    deliver(ns, "v2", joined, &[configmap("here"), system.clone()]).await;
    let refused = ns.reaches("v2", &REFUSED).await;
    let text = format!(
        "Phase \"a\" failed: Phase \"a\", ConfigMap kube-system/{}: object must be in namespace \"{}\" or \"{other}\", \
         actual \"kube-system\"",
        system.name(),
        ns.name(),
    );
    assert_eq!(refused.message("Available"), text);

    let hub = ns.cluster();
    let wide = json!({ "spec": { "scope": "Cluster", "targetNamespaces": null } });
    hub.merge(&assignment, &wide).await.unwrap();
    ns.reaches("v2", &AVAILABLE).await;
    let home = object("v1", "Namespace", &ns.unique("made"));
    deliver(ns, "v3", joined, std::slice::from_ref(&home)).await;
    ns.reaches("v3", &AVAILABLE).await;

    // Objects that are out of scope now stay until their revision is deleted.
    let narrow = json!({ "spec": { "scope": "Namespace" } });
    hub.merge(&assignment, &narrow).await.unwrap();
    let cluster = site.cluster().await;
    for (name, entry) in [("v1", &there), ("v2", &system), ("v3", &home)] {
        ns.reaches(name, &REFUSED).await;
        assert!(cluster.get(&entry.manifest).await.is_some(), "{name}");
    }
    for (name, entry) in [("v1", &there), ("v2", &system), ("v3", &home)] {
        ns.delete_set(name, "Background").await;
        assert_eq!(cluster.get(&entry.manifest).await, None, "{name}");
    }
    site.forget(&other).await;
}

#[tokio::test]
async fn an_assignment_limits_where_pushed_phases_may_write() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let site = Site::get(PUSH).await;
    let joined = site.join(&ns).create().await;
    reaches_as_far_as_assigned(&ns, &joined).await;
}

#[tokio::test]
async fn an_assignment_limits_where_pulled_phases_may_write() {
    let pulled = Pulled::new(Scope::Namespaced).await;
    reaches_as_far_as_assigned(&pulled.ns, &pulled.joined).await;
}

/// With `--require-site-assignments` no namespace may deliver into a cluster without an assignment.
/// Cluster-scoped revisions still may.
#[tokio::test]
async fn assignments_can_be_required() {
    let mut bed = Exclusive::acquire().await;
    bed.take_manager().kill();
    bed.spawn_manager(&["--leader-elect=false", "--require-site-assignments"]);
    let ns = bed.namespace(Scope::Namespaced).await;
    let site = Site::get(PUSH).await;
    // With this flag, Secrets must also name their server.
    let server = ("baton.run/server", &*site.url());
    let join = site.join(&ns).secret_annotation(server.0, server.1);
    let joined = join.create().await;
    deliver(&ns, "v1", &joined, &[settings()]).await;
    let refused = ns.reaches("v1", &REFUSED).await;
    assert_eq!(refused.message("Available"), missing(&ns, &joined));
    let all = json!({ "namespaces": { "selector": {} }, "clusters": names(&[joined.name()]) });
    assign(&ns, "all", all).await;
    ns.reaches("v1", &AVAILABLE).await;
    ns.delete_set("v1", "Background").await;

    let wide = bed.namespace(Scope::Cluster).await;
    let join = site.join(&wide).named("other");
    let other = join.secret_annotation(server.0, server.1).create().await;
    deliver(&wide, "v1", &other, &[settings()]).await;
    wide.reaches("v1", &AVAILABLE).await;
    wide.delete_set("v1", "Background").await;
}

#[tokio::test]
async fn invalid_assignments_are_refused() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let valid = || json!({ "namespaces": names(&["a"]), "clusters": { "selector": {} } });
    let with = |pointer: &str, value: Value| {
        let mut spec = valid();
        *spec.pointer_mut(pointer).unwrap() = value;
        spec
    };
    let expression = |operator: &str, values: Value| {
        let expression = json!({ "key": "a", "operator": operator, "values": values });
        json!({ "selector": { "matchExpressions": [expression] } })
    };
    let mut wide = valid();
    wide["scope"] = "Cluster".into();
    wide["targetNamespaces"] = json!(["a"]);
    for (spec, expected) in [
        (json!({}), "spec.namespaces: Required value"),
        (with("/namespaces", json!({})), "set names or selector"),
        (with("/clusters", json!({})), "set names or selector"),
        (
            with("/clusters", expression("In", json!([]))),
            "operator must be In",
        ),
        (
            with("/clusters", expression("Exists", json!(["b"]))),
            "operator must be In",
        ),
        (
            with("/clusters", expression("Like", json!(["b"]))),
            "operator must be In",
        ),
        (wide, "targetNamespaces are for scope Namespace"),
        (with("/namespaces", names(&["a", "a"])), "Duplicate value"),
        (
            with("/namespaces", names(&[""])),
            "should be at least 1 chars long",
        ),
    ] {
        let entry = object("baton.run/v1alpha1", "SiteAssignment", &ns.unique("bad"));
        let manifest = entry.with("/spec", spec.clone()).manifest;
        let refused = ns.cluster().create(&manifest).await.unwrap_err();
        assert!(refused.message.contains(expected), "{spec}: {refused:?}");
    }
    let valid = [
        names(&["a"]),
        names(&[]),
        expression("NotIn", json!(["b"])),
        expression("DoesNotExist", json!([])),
    ];
    for (at, namespaces) in valid.into_iter().enumerate() {
        let spec = json!({ "namespaces": namespaces, "clusters": names(&[]) });
        let made = assign(&ns, &format!("good-{at}"), spec).await;
        assert_eq!(made["spec"]["scope"], "Namespace");
    }
}

/// A join writes an assignment for the namespaces that it names, which is removed with the cluster.
#[tokio::test]
async fn a_join_writes_the_assignment_of_its_cluster() {
    let _turn = turn().await;
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let (hub, site) = (ns.cluster(), Site::get(PUSH).await);
    let (path, name) = (site.kubeconfig(), ns.unique("assigned"));
    let run = |args: &[&str]| baton(&ns, Some(&path), args);
    let join = |flag: &str| run(&["join", &name, flag]);
    let assignment = object("baton.run/v1alpha1", "SiteAssignment", &name).manifest;
    let namespaces = async || hub.get(&assignment).await.unwrap()["spec"]["namespaces"].clone();

    let first = messages(join("--for-namespaces=somebody,else"));
    let steps =
        format!("Creating site assignment {name}... done\nCreating cluster {name}... done\n");
    assert!(first.contains(&steps), "{first}");
    assert_eq!(namespaces().await, names(&["else", "somebody"]));
    let set = ns.revision(1);
    let class = format!("cluster.{name}");
    set.delegated("a", &class, [settings()]).create().await;
    ns.reaches("v1", &REFUSED).await;

    messages(join("--for-all"));
    assert_eq!(namespaces().await, json!({ "selector": {} }));
    // The delivery is allowed now, but the test's manager has no Secret for the cluster.
    ns.reaches(
        "v1",
        &[Because("Available", "Unknown", "ClusterUnreachable")],
    )
    .await;
    for flag in ["--for-all", "--region=default"] {
        let again = messages(join(flag));
        assert!(again.ends_with("nothing was changed\n"), "{again}");
    }
    messages(join("--for-namespaces=somebody"));
    assert_eq!(namespaces().await, names(&["somebody"]));
    ns.reaches("v1", &REFUSED).await;
    ns.delete_set("v1", "Background").await;

    let removed = messages(run(&["remove", &name]));
    let step = format!("Deleting site assignment {name}... done\n");
    assert!(removed.contains(&step), "{removed}");
    assert_eq!(hub.get(&assignment).await, None);

    // The command does not change an assignment that another client has written.
    let own = json!({ "namespaces": names(&["own"]), "clusters": names(&[&name]) });
    let entry = object("baton.run/v1alpha1", "SiteAssignment", &name);
    ns.create_elsewhere(&entry.with("/spec", own)).await;
    let text = join("--for-all");
    let text = refused(&text);
    assert!(
        text.contains("was not written by `baton cluster join`"),
        "{text}"
    );
    messages(run(&["join", &name]));
    messages(run(&["remove", &name]));
    assert_eq!(namespaces().await, names(&["own"]));
}
