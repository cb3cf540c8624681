use super::*;
use crate::pack::{documents::InputText, read};

const ROLE: &str = "ClusterRole.rbac.authorization.k8s.io";

/// Manifests of objects that are given as `Kind[.group] [namespace/]name`.
fn manifests(objects: &[&str]) -> Vec<Manifest> {
    let texts = objects.iter().map(|object| {
        let (kind, name) = object.split_once(' ').unwrap();
        let (namespace, name) = name.split_once('/').unwrap_or(("", name));
        let (kind, group) = kind.split_once('.').unwrap_or((kind, ""));
        let api_version = if group.is_empty() {
            "v1".to_owned()
        } else {
            format!("{group}/v1")
        };
        let namespace = if namespace.is_empty() {
            String::new()
        } else {
            format!(", namespace: {namespace}")
        };
        format!(
            "{{apiVersion: {api_version}, kind: {kind}, metadata: {{name: {name}{namespace}}}}}"
        )
    });
    let text = texts.collect::<Vec<_>>().join("\n---\n");
    let collected = read(
        &[InputText {
            name: "a.yaml".into(),
            text,
        }],
        false,
    );
    assert_eq!(collected.errors, []);
    collected.manifests
}

fn crd(scope: &str) -> Manifest {
    let text = format!(
        "{{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {{name: \
             widgets.example.com}}, \
         spec: {{group: example.com, names: {{kind: Widget}}, scope: {scope}}}}}"
    );
    read(
        &[InputText {
            name: "crd.yaml".into(),
            text,
        }],
        false,
    )
    .manifests
    .remove(0)
}

fn options(cluster: bool, namespace: &str) -> ScopeOptions {
    ScopeOptions {
        site: false,
        cluster,
        namespace: Some(namespace.to_owned()).filter(|namespace| !namespace.is_empty()),
        scopes: Scopes::new(),
    }
}

/// The scope, the namespace of the result, and the namespaces in the manifests.
fn settled(
    objects: &[&str],
    options: &ScopeOptions,
) -> Result<(bool, Option<String>, String), String> {
    let mut manifests = manifests(objects);
    match decide_scope(&mut manifests, options) {
        Ok(decision) => {
            let namespace = |manifest: &Manifest| {
                let namespace = manifest.object["metadata"]["namespace"].as_str();
                namespace.unwrap_or("-").to_owned()
            };
            let namespaces: Vec<_> = manifests.iter().map(namespace).collect();
            Ok((decision.cluster, decision.namespace, namespaces.join(" ")))
        }
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn the_scope_follows_from_the_objects() {
    for (objects, wished, expected) in [
        (
            &["ConfigMap a", "Secret b"][..],
            options(false, ""),
            (false, None, "- -"),
        ),
        (
            &["ConfigMap a"],
            options(false, "x"),
            (false, Some("x"), "-"),
        ),
        (
            &["ConfigMap x/a", "Secret b"],
            options(false, ""),
            (false, Some("x"), "x -"),
        ),
        (
            &["ConfigMap x/a"],
            options(false, "x"),
            (false, Some("x"), "x"),
        ),
        (
            &["ConfigMap x/a", "Secret z/b"],
            options(false, ""),
            (true, None, "x z"),
        ),
        (
            &["ConfigMap x/a", "Secret b"],
            options(false, "z"),
            (true, None, "x z"),
        ),
        (
            &["ConfigMap x/a", "Secret b", "Namespace x"],
            options(false, ""),
            (true, None, "x x -"),
        ),
        (
            &["ConfigMap a", ROLE_B],
            options(false, "z"),
            (true, None, "z -"),
        ),
        (&["ConfigMap a"], options(true, "z"), (true, None, "z")),
        (
            &["ClusterRole.rbac.authorization.k8s.io x/b"],
            options(false, ""),
            (true, None, "-"),
        ),
        // Unknown kinds.
        (
            &["Widget.example.com a"],
            options(false, ""),
            (false, None, "-"),
        ),
        (
            &["Widget.example.com a"],
            options(true, ""),
            (true, None, "-"),
        ),
        (
            &["Widget.example.com a", "Secret x/b"],
            options(true, ""),
            (true, None, "x x"),
        ),
        (
            &["Widget.example.com z/a", "Secret x/b"],
            options(false, ""),
            (true, None, "z x"),
        ),
    ] {
        let (cluster, namespace, namespaces) = expected;
        let expected = (cluster, namespace.map(str::to_owned), namespaces.to_owned());
        assert_eq!(
            settled(objects, &wished),
            Ok(expected),
            "{objects:?} {wished:?}"
        );
    }
}

const ROLE_B: &str = "ClusterRole.rbac.authorization.k8s.io b";

#[test]
fn objects_need_a_namespace() {
    assert_eq!(
        settled(&["ConfigMap x/a"], &options(false, "z")).unwrap_err(),
        "the objects are in the namespace x, not in z; use -n x, or --cluster"
    );
    assert_eq!(
        settled(&["ConfigMap a", ROLE_B], &options(false, "")).unwrap_err(),
        "an object has no namespace; -n NAMESPACE sets it: ConfigMap/a (a.yaml:1)"
    );
    assert_eq!(
        settled(
            &[
                "Pod a", "Pod b", "Pod c", "Pod d", "Pod e", "Pod f", "Pod g"
            ],
            &options(true, "")
        )
        .unwrap_err(),
        "objects have no namespace; -n NAMESPACE sets it: Pod/a (a.yaml:1), Pod/b (a.yaml:3), Pod/c (a.yaml:5), Pod/d \
         (a.yaml:7), Pod/e (a.yaml:9) and 2 more"
    );
}

#[test]
fn decisions_about_the_scope_are_noted() {
    let notes = |objects: &[&str], options: &ScopeOptions| {
        decide_scope(&mut manifests(objects), options)
            .unwrap()
            .notes
    };
    assert_eq!(
        notes(&["ConfigMap x/a", ROLE_B], &options(false, "")),
        ["the result is cluster-scoped, as ClusterRole/b is cluster-scoped"]
    );
    assert_eq!(
        notes(&["ConfigMap x/a", "ConfigMap z/a"], &options(false, "")),
        ["the result is cluster-scoped, as the objects are in several namespaces: x, z"]
    );
    assert!(notes(&["ConfigMap x/a", ROLE_B], &options(true, "")).is_empty());
    assert_eq!(
        notes(
            &["Widget.example.com a", "Widget.example.com b"],
            &options(true, "x")
        ),
        [
            "Widget.example.com is assumed to be namespaced; --scope Widget.example.com=Namespaced or --scope \
             Widget.example.com=Cluster sets it"
        ]
    );
    assert!(ROLE_B.starts_with(ROLE));
}

#[test]
fn definitions_and_the_server_know_scopes() {
    let widgets = || manifests(&["Widget.example.com a", "ConfigMap x/b"]);
    let id = ("example.com".to_owned(), "Widget".to_owned());
    for (scope, cluster) in [(KindScope::Cluster, true), (KindScope::Namespaced, false)] {
        let given = ScopeOptions {
            scopes: [(id.clone(), scope)].into(),
            ..ScopeOptions::default()
        };
        let decision = decide_scope(&mut widgets(), &given).unwrap();
        assert_eq!(
            (decision.cluster, decision.notes.is_empty()),
            (cluster, !cluster)
        );
    }
    for (scope, namespace) in [("Cluster", ""), ("Namespaced", "x")] {
        let mut manifests = widgets();
        manifests.push(crd(scope));
        decide_scope(&mut manifests, &ScopeOptions::default()).unwrap();
        assert_eq!(manifests[0].namespace, namespace);
    }
    let titles = |manifests: &[Manifest]| {
        unknown(manifests)
            .iter()
            .map(|manifest| manifest.title())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        titles(&manifests(&[
            "Widget.example.com a",
            "Widget.example.com b",
            "Pod c"
        ])),
        ["Widget/a"]
    );
    let mut defined = widgets();
    defined.push(crd("Cluster"));
    assert!(titles(&defined).is_empty());
}
