use baton_apis::constants::LABEL_MANAGED_BY;
use serde_json::json;

use super::*;
use crate::{
    object_pass::Live,
    pass::Step,
    teardown::{Teardown, TeardownOutcome},
    tests::fixtures::*,
};

#[test]
fn violations_name_position_and_cause() {
    let revision = revision();
    let phase = phase(
        &revision,
        "p",
        &[
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: fine}}",
            "{apiVersion: x.io/v1, kind: Gone, metadata: {name: a}}",
            "{apiVersion: v1, kind: Namespace, metadata: {name: b}}",
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: other}}",
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: d, ownerReferences: [{uid: x}]}}",
            "{apiVersion: v1, kind: ConfigMap, metadata: {generateName: e}}",
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: f, annotations: {package-operator.run/owners: '[]'}}}",
        ],
    );
    assert_eq!(
        violations(&revision, &phase, &kinds()),
        [
            "Phase \"p\", Gone /a: x.io/v1, Kind=Gone not registered on the api server.",
            "Phase \"p\", Namespace /b: Must be namespaced scoped when part of an non-cluster-scoped API.",
            "Phase \"p\", ConfigMap other/c: Must stay within the same namespace.",
            "Phase \"p\", ConfigMap /d: Object must not have a owner reference.",
            "Phase \"p\", ConfigMap /: Object must have a metadata.name.",
            "Phase \"p\", ConfigMap /f: metadata.annotations must not have package-operator.run/owners.",
        ]
    );
}

/// The schema refuses the first ones as well, but revisions that are older than the schema reach
/// this check.
#[test]
fn invalid_manifests_are_refused_and_do_not_block_a_teardown() {
    let revision = revision();
    let position = "Phase \"p\",";
    for (manifest, expected) in [
        ("text", " /: Object must be a map."),
        ("[]", " /: Object must be a map."),
        (
            "{}",
            " /: Object must have a apiVersion., Phase \"p\",  /: Object must have a kind., \
             Phase \"p\",  /: Object must have a metadata.name.",
        ),
        (
            "{apiVersion: v1, metadata: {name: a}}",
            " /a: Object must have a kind.",
        ),
        (
            "{kind: ConfigMap, metadata: {name: a}}",
            "ConfigMap /a: Object must have a apiVersion.",
        ),
        (
            "{apiVersion: v1, kind: ConfigMap}",
            "ConfigMap /: Object must have a metadata.name.",
        ),
        (
            "{apiVersion: 1, kind: ConfigMap, metadata: {name: a}}",
            "ConfigMap /a: apiVersion must be a string.",
        ),
        (
            "{apiVersion: v1, kind: [], metadata: {name: a}}",
            " /a: kind must be a string.",
        ),
        (
            "{apiVersion: v1, kind: ConfigMap, metadata: x}",
            "ConfigMap /: metadata must be a map.",
        ),
        (
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: 5}}",
            "ConfigMap /: metadata.name must be a string.",
        ),
        (
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: 5}}",
            "ConfigMap /a: metadata.namespace must be a string.",
        ),
        (
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: x, annotations: {a: 1}}}",
            "ConfigMap /a: metadata.labels must be a map of strings., \
             Phase \"p\", ConfigMap /a: metadata.annotations must be a map of strings.",
        ),
        (
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, ownerReferences: {}}}",
            "ConfigMap /a: metadata.ownerReferences must be a list.",
        ),
    ] {
        let phases = [phase(&revision, "p", &[manifest])];
        let kinds = kinds();
        let texts = violations(&revision, &phases[0], &kinds).join(", ");
        assert_eq!(texts, format!("{position} {expected}"));
        let mut teardown = Teardown::new(&revision, &phases, &kinds, |_| Live::Uncached);
        assert_eq!(teardown.step(), Step::Done, "{texts}");
        assert_eq!(teardown.outcome(), TeardownOutcome::Done);
    }
}

/// An object with an invalid name is never written, so its end needs no request either.
#[test]
fn invalid_names_are_refused_and_do_not_block_a_teardown() {
    let mut revision = revision();
    revision.identity.namespace.clear();
    let object = |namespace: &str, name: &str| {
        let metadata = serde_json::json!({ "namespace": namespace, "name": name });
        serde_json::json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata })
            .to_string()
    };
    let (long, cause) = ("a".repeat(70_000), "metadata.name: Invalid value: ");
    for (namespace, name, expected) in [
        (
            "n",
            "a\n",
            format!("ConfigMap n/\"a\\n\": {cause}\"a\\n\": may not contain control"),
        ),
        (
            "n",
            "..",
            format!("ConfigMap n/..: {cause}\"..\": may not be '.' or '..'"),
        ),
        (
            "n",
            "50%",
            format!("ConfigMap n/50%: {cause}\"50%\": may not contain '/' or '%'"),
        ),
        ("n", &long, "is too long".to_owned()),
        (
            "a b",
            "x",
            "ConfigMap a b/x: metadata.namespace: Invalid value: \"a b\"".to_owned(),
        ),
        (&long, "x", "no namespace can have this name".to_owned()),
    ] {
        let phases = [phase(&revision, "p", &[&object(namespace, name)])];
        let texts = violations(&revision, &phases[0], &kinds()).join(", ");
        assert!(texts.contains(&expected), "{texts}");
        assert!(texts.len() < 600, "{}", texts.len());
        let kinds = kinds();
        let mut teardown = Teardown::new(&revision, &phases, &kinds, |_| Live::Uncached);
        assert_eq!(teardown.step(), Step::Done, "{texts}");
        assert_eq!(teardown.outcome(), TeardownOutcome::Done);
    }
}

#[test]
fn kinds_that_cannot_be_managed_are_refused() {
    let revision = revision();
    let phase = phase(
        &revision,
        "p",
        &["{apiVersion: x/v1, kind: Review, metadata: {name: a}}"],
    );
    let gvk = phase.objects[0].gvk.clone();
    let unregistered = "x/v1, Kind=Review not registered on the api server.";
    for (state, expected) in [
        (None, unregistered),
        (
            Some(KindState::Unmanageable),
            "x/v1, Kind=Review cannot be listed and watched, so its objects cannot be managed.",
        ),
        (Some(KindState::Unknown("x".to_owned())), unregistered),
        (
            Some(KindState::Served {
                scope: KindScope::Namespaced,
                other_version: Some("v2".to_owned()),
                is_watched: true,
            }),
            unregistered,
        ),
    ] {
        let kinds: Kinds = state
            .map(|state| (gvk.clone(), state))
            .into_iter()
            .collect();
        let texts = violations(&revision, &phase, &kinds);
        assert_eq!(texts, [format!("Phase \"p\", Review /a: {expected}")]);
    }
}

#[test]
fn an_object_may_be_listed_once_in_a_revision() {
    let revision = revision();
    let phases = phases(&revision, &[&["a"], &["b", "a"]]);
    assert_eq!(
        duplicates(&phases),
        ["Phase \"p2\", ConfigMap /a: Duplicate Object"]
    );
}

#[test]
fn two_delegated_phases_need_two_names() {
    let revision = revision();
    let mut phases = delegation::phases(&revision, None);
    phases[2].delegated = phases[1].delegated.clone();
    assert_eq!(
        duplicates(&phases),
        ["Phase \"p-last\", ObjectSetPhase v1-p-far: Duplicate Object"]
    );
}

/// Valid and invalid manifests of delegated phases, and the bodies that are written.
#[test]
fn manifests_of_delegated_phases() {
    let prepared = |delivery, manifest: &Value| {
        let revision = Revision {
            delivery,
            package: Some("p".to_owned()),
            ..revision()
        };
        let phase = json!({"name": "a", "objects": [{ "object": manifest }]});
        let phases = prepare(&revision, vec![serde_json::from_value(phase).unwrap()]);
        let texts = violations(&revision, &phases[0], &kinds());
        (phases[0].objects[0].manifest.clone(), texts)
    };
    let cm =
        |metadata: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
    let (body, texts) = prepared(
        Delivery::Delegated,
        &cm(json!({"name": "a", "namespace": "ns"})),
    );
    assert!(texts.is_empty(), "{texts:?}");
    assert_eq!(body["metadata"]["labels"][LABEL_MANAGED_BY], "boxcutter");
    // A value of the user is not changed.
    let own = json!({"name": "a", "namespace": "ns", "labels": {LABEL_MANAGED_BY: "me"}});
    let (body, _) = prepared(Delivery::Delegated, &cm(own));
    assert_eq!(body["metadata"]["labels"][LABEL_MANAGED_BY], "me");
    let elsewhere = cm(json!({"name": "a", "namespace": "other"}));
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}});
    for (delivery, manifest, expected) in [
        (
            Delivery::Delegated,
            cm(json!({"name": "a"})),
            Some("ConfigMap /a: object must be in namespace \"ns\", actual \"\""),
        ),
        (
            Delivery::Delegated,
            elsewhere.clone(),
            Some("ConfigMap other/a: object must be in namespace \"ns\", actual \"other\""),
        ),
        (
            Delivery::Delegated,
            namespace.clone(),
            Some("Namespace /a: object must be namespace-scoped"),
        ),
        (
            Delivery::Remote,
            cm(json!({"name": "a"})),
            Some("ConfigMap /a: object must be in namespace \"ns\", actual \"\""),
        ),
        (
            Delivery::Remote,
            elsewhere.clone(),
            Some("ConfigMap other/a: object must be in namespace \"ns\", actual \"other\""),
        ),
        (
            Delivery::Remote,
            namespace.clone(),
            Some("Namespace /a: object must be namespace-scoped"),
        ),
        (
            Delivery::Remote,
            cm(json!({"name": "a", "namespace": "x", "generateName": "b"})),
            Some("ConfigMap x/a: metadata.generateName must not be set."),
        ),
        (
            Delivery::Remote,
            cm(json!({"name": "a", "namespace": "ns", "finalizers": []})),
            None,
        ),
    ] {
        let (_, texts) = prepared(delivery, &manifest);
        let expected: Vec<_> = expected
            .into_iter()
            .map(|text| format!("Phase \"a\", {text}"))
            .collect();
        assert_eq!(texts, expected, "{delivery:?} {manifest}");
    }
}

/// The places of objects in other clusters, by the reach of their revision, and the violations of
/// the others. The end of a revision covers all places that it may have reached before.
#[test]
fn objects_in_other_clusters_are_limited_to_the_reach_of_the_revision() {
    let reaching =
        |names: &[&str]| Reach::Namespaces(names.iter().map(ToString::to_string).collect());
    let no_namespace = "Object doesn't have a namespace and no default is provided.";
    let own = |actual| format!("object must be in namespace \"ns\", actual \"{actual}\"");
    let either =
        |actual| format!("object must be in namespace \"a\" or \"ns\", actual \"{actual}\"");
    let scope = || "object must be namespace-scoped".to_owned();
    for (namespace, reach, [in_own, in_a, in_b, nowhere, cluster]) in [
        (
            "ns",
            reaching(&[]),
            [
                None,
                Some(own("a")),
                Some(own("b")),
                Some(own("")),
                Some(scope()),
            ],
        ),
        (
            "ns",
            reaching(&["a"]),
            [
                None,
                None,
                Some(either("b")),
                Some(either("")),
                Some(scope()),
            ],
        ),
        (
            "ns",
            Reach::Cluster,
            [None, None, None, Some(no_namespace.to_owned()), None],
        ),
        (
            "",
            reaching(&[]),
            [None, None, None, Some(no_namespace.to_owned()), None],
        ),
        (
            "",
            Reach::Cluster,
            [None, None, None, Some(no_namespace.to_owned()), None],
        ),
    ] {
        let mut revision = Revision {
            delivery: Delivery::Remote,
            reach: reach.clone(),
            ..revision()
        };
        namespace.clone_into(&mut revision.identity.namespace);
        let cm = |namespace| {
            let metadata = json!({"name": "x", "namespace": namespace});
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
        };
        let node = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}});
        for (manifest, expected) in [
            (cm("ns"), in_own),
            (cm("a"), in_a),
            (cm("b"), in_b),
            (cm(""), nowhere),
            (node, cluster),
        ] {
            let phase = json!({"name": "p", "objects": [{ "object": manifest }]});
            let phases = prepare(&revision, vec![serde_json::from_value(phase).unwrap()]);
            let texts = violations(&revision, &phases[0], &kinds());
            let expected =
                expected.map(|text| format!("{}: {text}", phases[0].objects[0].position("p")));
            assert_eq!(
                texts,
                Vec::from_iter(expected),
                "from {namespace:?} with {reach:?}"
            );
            let object = &phases[0].objects[0];
            let is_somewhere = manifest["metadata"]["namespace"] != "";
            assert_eq!(
                may_be_written(&revision, object, scope_of(&object.gvk)),
                is_somewhere
            );
        }
    }
}

/// The scope of the kinds of the fixtures.
fn scope_of(gvk: &Gvk) -> KindScope {
    match &kinds()[gvk] {
        KindState::Served { scope, .. } => *scope,
        other => panic!("{other:?}"),
    }
}
