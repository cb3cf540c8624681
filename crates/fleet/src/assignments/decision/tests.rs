use serde_json::json;

use super::*;

fn labels(of: &[(&str, &str)]) -> BTreeMap<String, String> {
    let labels = of
        .iter()
        .map(|(key, value)| ((*key).into(), (*value).into()));
    labels.collect()
}

fn assignment(name: &str, spec: &serde_json::Value) -> Assignment {
    let spec = serde_json::from_value(spec.clone());
    Assignment::new(name, spec.map_err(|error| error.to_string()))
}

/// A decision as a word: `cluster`, `own`, the further namespaces, `no`, or `unknown`.
fn text(decision: &Decision) -> String {
    match decision {
        Decision::Allowed(Reach::Cluster) => "cluster".to_owned(),
        Decision::Allowed(Reach::Namespaces(names)) if names.is_empty() => "own".to_owned(),
        Decision::Allowed(Reach::Namespaces(names)) => Vec::from_iter(names.clone()).join("+"),
        Decision::Refused(_) => "no".to_owned(),
        Decision::Unknown | Decision::Unreadable { .. } => "unknown".to_owned(),
    }
}

/// Decides for the namespace `shop` with `team: a` and the cluster `edge` with `region: eu`.
fn decide(assignments: &[Assignment], is_required: bool) -> Decision {
    let (namespace, cluster) = (labels(&[("team", "a")]), labels(&[("region", "eu")]));
    let subject = |name, labels| Subject { name, labels };
    may_deliver(
        subject("shop", &namespace),
        subject("edge", &cluster),
        assignments,
        is_required,
    )
}

#[test]
fn decisions_by_assignments() {
    let of = |namespaces, clusters| json!({ "namespaces": namespaces, "clusters": clusters });
    let names = |names: &[&str]| json!({ "names": names });
    let select = |key: &str, value: &str| json!({ "selector": { "matchLabels": { key: value } } });
    let all = || json!({ "selector": {} });
    let to_edge = |namespaces| of(namespaces, names(&["edge"]));
    let mut wide = to_edge(names(&["shop"]));
    wide["scope"] = "Cluster".into();
    let further = |target: &str| {
        let mut spec = to_edge(names(&["shop"]));
        spec["targetNamespaces"] = json!([target]);
        spec
    };
    let not_in = json!({ "selector": { "matchExpressions": [
        { "key": "team", "operator": "NotIn", "values": ["b"] },
    ] } });
    let broken =
        json!({ "selector": { "matchExpressions": [{ "key": "team", "operator": "Like" }] } });
    for (specs, open, required) in [
        (vec![], "own", "no"),
        // Assignments of other clusters have no effect.
        (vec![of(names(&["shop"]), names(&["other"]))], "own", "no"),
        (vec![of(names(&["other"]), names(&["other"]))], "own", "no"),
        (vec![of(all(), select("region", "us"))], "own", "no"),
        (vec![of(all(), names(&[]))], "own", "no"),
        // The cluster is closed by any assignment that selects it.
        (vec![to_edge(names(&["other"]))], "no", "no"),
        (vec![to_edge(names(&[]))], "no", "no"),
        (vec![to_edge(select("team", "b"))], "no", "no"),
        (vec![of(names(&["other"]), all())], "no", "no"),
        (
            vec![of(names(&["other"]), select("region", "eu"))],
            "no",
            "no",
        ),
        // An assignment that also selects the namespace opens the cluster.
        (vec![to_edge(names(&["shop"]))], "own", "own"),
        (vec![to_edge(names(&["other", "shop"]))], "own", "own"),
        (vec![to_edge(select("team", "a"))], "own", "own"),
        (vec![to_edge(not_in)], "own", "own"),
        (vec![to_edge(all())], "own", "own"),
        (
            vec![of(names(&["shop"]), select("region", "eu"))],
            "own",
            "own",
        ),
        (vec![of(all(), all())], "own", "own"),
        // A match by names or by labels is sufficient.
        (
            vec![to_edge(
                json!({ "names": ["other"], "selector": { "matchLabels": { "team": "a" } } }),
            )],
            "own",
            "own",
        ),
        // Assignments add up.
        (
            vec![to_edge(names(&["other"])), to_edge(names(&["shop"]))],
            "own",
            "own",
        ),
        (vec![further("x")], "x", "x"),
        (
            vec![further("y"), to_edge(names(&["shop"])), further("x")],
            "x+y",
            "x+y",
        ),
        (vec![wide.clone()], "cluster", "cluster"),
        (vec![further("x"), wide.clone()], "cluster", "cluster"),
        (vec![wide, further("x")], "cluster", "cluster"),
        // An assignment that cannot be parsed closes all clusters that it may select, and revokes
        // nothing.
        (vec![to_edge(broken.clone())], "no", "no"),
        (vec![of(all(), broken.clone())], "no", "no"),
        (vec![json!({ "namespaces": 1 })], "no", "no"),
        (vec![to_edge(broken), to_edge(all())], "own", "own"),
    ] {
        let assignments: Vec<_> = specs.iter().map(|spec| assignment("a", spec)).collect();
        for (is_required, expected) in [(false, open), (true, required)] {
            let decision = decide(&assignments, is_required);
            assert_eq!(
                text(&decision),
                expected,
                "{specs:?}, required: {is_required}"
            );
        }
    }
}

#[test]
fn a_refusal_names_the_missing_assignment() {
    let missing = "Namespace \"shop\" may not deliver into Cluster \"edge\": \
        there is no SiteAssignment that selects both.";
    assert_eq!(decide(&[], true), Decision::Refused(missing.to_owned()));
    let broken = assignment("odd", &json!({ "namespaces": 1, "clusters": {} }));
    let Decision::Refused(text) = decide(&[broken], false) else {
        panic!("it is closed");
    };
    let begin = format!(
        "{missing} Each Cluster requires one, because these SiteAssignments are invalid: \"odd\" ("
    );
    assert!(text.starts_with(&begin), "{text}");
    assert!(text.ends_with("). Correct them."), "{text}");
}

/// All assignments of a small world: with each selection of namespaces and clusters, and each
/// reach.
fn world() -> Vec<Assignment> {
    let subjects = |own: &str| {
        [
            json!({ "names": [] }),
            json!({ "names": [own] }),
            json!({ "names": ["other"] }),
            json!({ "selector": {} }),
            json!({ "selector": { "matchLabels": { "team": "a", "region": "eu" } } }),
        ]
    };
    let mut all = Vec::new();
    for namespaces in subjects("shop") {
        for clusters in subjects("edge") {
            for (scope, targets) in [
                ("Namespace", json!([])),
                ("Namespace", json!(["x"])),
                ("Namespace", json!(["y"])),
                ("Cluster", json!([])),
            ] {
                all.push(assignment(
                    "a",
                    &json!({
                        "namespaces": namespaces, "clusters": clusters, "scope": scope,
                        "targetNamespaces": targets,
                    }),
                ));
            }
        }
    }
    all
}

/// The allowed reach as a set that grows with it: nothing, the own namespace, and further ones.
fn extent(decision: &Decision) -> BTreeSet<&'static str> {
    let mut extent = BTreeSet::new();
    if let Decision::Allowed(reach) = decision {
        extent.insert("own");
        for target in ["x", "y"] {
            let reaches = match reach {
                Reach::Cluster => true,
                Reach::Namespaces(names) => names.contains(target),
            };
            extent.extend(reaches.then_some(target));
        }
        extent.extend((*reach == Reach::Cluster).then_some("cluster"));
    }
    extent
}

/// The whole small world, with every pair of assignments: they add up in any order, and a cluster
/// is closed exactly if one of them selects it.
#[test]
fn every_pair_of_assignments() {
    let both_labels = labels(&[("team", "a"), ("region", "eu")]);
    let shop = Subject {
        name: "shop",
        labels: &both_labels,
    };
    let edge = Subject {
        name: "edge",
        labels: &both_labels,
    };
    let world = world();
    let alone: Vec<_> = world
        .iter()
        .map(|one| extent(&may_deliver(shop, edge, [one], true)))
        .collect();
    for (one, of_one) in world.iter().zip(&alone) {
        for (other, of_other) in world.iter().zip(&alone) {
            let sum: BTreeSet<_> = of_one | of_other;
            for is_required in [false, true] {
                let decision = may_deliver(shop, edge, [one, other], is_required);
                let turned = may_deliver(shop, edge, [other, one], is_required);
                assert_eq!(decision, turned, "{one:?} {other:?}");
                let is_about_it = [one, other].iter().any(|it| it.selects_cluster(edge));
                let expected = if is_about_it || is_required {
                    sum.clone()
                } else {
                    BTreeSet::from(["own"])
                };
                assert_eq!(
                    extent(&decision),
                    expected,
                    "{one:?} {other:?} {is_required}"
                );
            }
        }
    }
}
