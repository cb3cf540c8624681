//! Revisions that check the objects of all phases before they write any.

use baton_integration::prelude::*;

const PREFLIGHT: &str = "baton.run/preflight";

/// Returns an object that every server refuses.
fn refused_object() -> Entry {
    configmap("Bad").data("k", "v")
}

const REFUSED: Expectation<'static> = Because("Available", "False", "PreflightError");

#[tokio::test]
async fn a_revision_that_checks_all_phases_writes_nothing_if_one_is_refused() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let first = |set: &str| configmap(&format!("first-{set}")).data("k", "v");
    let set = |name: &str| {
        let set = ns.set(name).phase("a", [first(name)]);
        set.phase(
            "b",
            [configmap(&format!("beside-{name}")), refused_object()],
        )
    };
    set("plain").reaching(&[REFUSED]).await;
    assert!(ns.get(&first("plain")).await.is_some());

    let all = set("all").annotation(PREFLIGHT, "All");
    let refused = all.reaching(&[REFUSED]).await;
    let message = refused.message("Available");
    assert!(
        message.starts_with("Phase \"b\", ConfigMap /Bad: "),
        "{message}"
    );
    assert_eq!(refused.controller_of(), [""; 0]);
    assert_eq!(ns.get(&first("all")).await, None);
    // A changed annotation takes effect at once.
    let phase = json!({ "metadata": { "annotations": { PREFLIGHT: "Phase" } } });
    ns.patch_set("all", &phase).await.unwrap();
    ns.reaches("all", &[REFUSED, Controls(&["ConfigMap first-all"])])
        .await;
}

/// The check includes slices. An invalid value of the annotation is an error, because it must not
/// mean a weaker check.
#[tokio::test]
async fn the_check_includes_slices_and_refuses_an_invalid_annotation() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    ns.create_slice("slice", [refused_object()]).await;
    let set = ns.set("sliced").annotation(PREFLIGHT, "All");
    let set = set.phase("a", [configmap("first")]);
    set.phase_with_slices("b", [], &["slice"])
        .reaching(&[REFUSED])
        .await;
    assert_eq!(ns.get(&configmap("first")).await, None);

    let typo = ns.set("typo").annotation(PREFLIGHT, "all");
    let refused = typo
        .phase("a", [configmap("second")])
        .reaching(&[REFUSED])
        .await;
    let expected = "the annotation baton.run/preflight must be All or Phase, not \"all\"";
    assert_eq!(refused.message("Available"), expected);
    assert_eq!(ns.get(&configmap("second")).await, None);
    let mended = json!({ "metadata": { "annotations": { PREFLIGHT: "All" } } });
    ns.patch_set("typo", &mended).await.unwrap();
    ns.reaches("typo", &[Is("Available", "True")]).await;
    // After the revision has written, an invalid value is ignored.
    let again = json!({ "metadata": { "annotations": { PREFLIGHT: "x" } } });
    ns.patch_set("typo", &again).await.unwrap();
    ns.merge(
        &configmap("second"),
        &json!({ "metadata": { "labels": { "package-operator.run/cache": "x" } } }),
    )
    .await;
    ns.object_becomes(&configmap("second"), "repaired", |live| {
        live["metadata"]["labels"]["package-operator.run/cache"] == "True"
    })
    .await;
    ns.reaches("typo", &[Is("Available", "True")]).await;
}

#[tokio::test]
async fn the_annotation_of_a_deployment_applies_to_all_its_revisions() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let content = ns
        .content()
        .phase("a", [configmap("first")])
        .phase("b", [refused_object()]);
    let web = ns
        .deployment("web")
        .content(content)
        .annotation(PREFLIGHT, "All");
    let web = web.create().await;
    web.set_reaches(1, &[REFUSED]).await;
    assert_eq!(ns.get(&configmap("first")).await, None);
    web.annotate(PREFLIGHT, "Phase").await;
    web.set_reaches(1, &[REFUSED, Controls(&["ConfigMap first"])])
        .await;
    web.annotate(PREFLIGHT, "All").await;
    web.edit(
        ns.content()
            .phase("a", [configmap("first")])
            .phase("b", [configmap("good")]),
    )
    .await;
    web.concluded_as(2).await;
}

/// Objects whose namespace or kind is part of an earlier phase cannot be checked beforehand; the
/// rest of the phase can.
#[tokio::test]
async fn the_check_waits_for_namespaces_and_kinds_of_earlier_phases() {
    let ns = TestNamespace::new(Scope::Cluster).await;
    let inner = object("v1", "Namespace", &ns.unique("inner"));
    let group = format!("{}.example.com", ns.name());
    let schema = json!({ "type": "object", "properties": { "spec": {
        "type": "object", "properties": { "size": { "type": "integer" } } } } });
    let crd = tool_definition(&group, "Namespaced", &schema);
    let tool = object(&format!("{group}/v1"), "Tool", "t").with("/spec/size", 1);
    let inside = configmap("cm").within(inner.name());
    let set = |name: &str, more: Vec<Entry>| {
        let set = ns.set(name).annotation(PREFLIGHT, "All");
        let set = set.phase("a", [inner.clone(), crd.clone()]);
        let established = condition_probe(
            "apiextensions.k8s.io",
            "CustomResourceDefinition",
            "Established",
        );
        set.probe(established)
            .phase("b", [vec![inside.clone(), tool.clone()], more].concat())
    };
    set("bad", vec![refused_object()])
        .reaching(&[REFUSED])
        .await;
    assert_eq!(ns.get(&inner).await, None);
    ns.delete_set("bad", "Background").await;
    set("good", Vec::new()).available().await;
    // The namespace and the kind exist now, so their objects are checked as well.
    let wrong = tool.clone().with("/spec/size", "x");
    let next = ns
        .set("next")
        .annotation(PREFLIGHT, "All")
        .previous(&["good"]);
    let changed = inner.clone().label("a", "b");
    let next = next
        .phase("a", [changed, crd.clone()])
        .phase("b", [inside.clone(), wrong]);
    next.reaching(&[REFUSED]).await;
    assert_eq!(
        ns.live(&inner).await["metadata"]["labels"]["a"],
        Value::Null
    );
}
