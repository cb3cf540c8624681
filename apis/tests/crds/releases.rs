//! The kinds for application rollouts are those of Shipper.

use baton_apis::release_crds;
use serde_json::{Value, json};

use super::{crd, field, schema, walk};

const KINDS: [&str; 6] = [
    "Application",
    "Release",
    "InstallationTarget",
    "CapacityTarget",
    "TrafficTarget",
    "RolloutBlock",
];

#[test]
fn definitions_come_in_a_fixed_order() {
    let kinds: Vec<String> = release_crds()
        .into_iter()
        .map(|crd| crd.spec.names.kind)
        .collect();
    assert_eq!(kinds, KINDS);
}

#[test]
fn names_and_categories() {
    let expected = [
        ("Application", "applications", "app", true),
        ("Release", "releases", "rel", true),
        ("InstallationTarget", "installationtargets", "it", false),
        ("CapacityTarget", "capacitytargets", "ct", false),
        ("TrafficTarget", "traffictargets", "tt", false),
        ("RolloutBlock", "rolloutblocks", "rb", true),
    ];
    for (kind, plural, short_name, is_in_all) in expected {
        let crd = crd(kind);
        let names = &crd["spec"]["names"];
        assert_eq!(
            crd["metadata"]["name"],
            format!("{plural}.shipper.booking.com")
        );
        assert_eq!(crd["spec"]["group"], "shipper.booking.com");
        assert_eq!(crd["spec"]["scope"], "Namespaced");
        assert_eq!(names["plural"], plural);
        assert_eq!(names["shortNames"], json!([short_name]));
        let categories = &["all", "shipper"][usize::from(!is_in_all)..];
        assert_eq!(names["categories"], json!(categories), "{kind}");
    }
}

/// Shipper's clients write the status of some kinds with the object, and the status of others
/// through a subresource.
#[test]
fn status_is_a_subresource_in_the_versions_that_shipper_expects() {
    for kind in KINDS {
        let mut crd = crd(kind);
        let versions = crd["spec"]["versions"].as_array_mut().unwrap();
        let schemas: Vec<_> = versions.iter_mut().map(|v| v["schema"].take()).collect();
        assert!(schemas.iter().all(|schema| *schema == schemas[0]));
        let columns: Vec<_> = versions
            .iter_mut()
            .map(|v| v["additionalPrinterColumns"].take())
            .collect();
        assert!(columns.iter().all(|column| *column == columns[0]));

        let versions: Vec<_> = versions
            .iter()
            .map(|v| {
                assert_eq!(v["served"], true);
                let has_status = v["subresources"]["status"].is_object();
                (v["name"].as_str().unwrap(), &v["storage"], has_status)
            })
            .collect();
        let expected = if ["CapacityTarget", "TrafficTarget"].contains(&kind) {
            vec![("v1alpha1", &Value::Bool(true), true)]
        } else {
            vec![
                ("v1alpha1", &Value::Bool(true), false),
                ("v1alpha0", &Value::Bool(false), true),
            ]
        };
        assert_eq!(versions, expected, "{kind}");
    }
}

#[test]
fn printer_columns() {
    let age = (".metadata.creationTimestamp", "Age");
    let target = [
        (
            r#".status.conditions[?(.type=="Operational")].status"#,
            "Operational",
        ),
        (r#".status.conditions[?(.type=="Ready")].status"#, "Ready"),
        (
            r#".status.conditions[?(.status=="False")].message"#,
            "Reason",
        ),
        age,
    ];
    let application = [
        (".status.history[-1]", "Latest Release"),
        (
            ".status.conditions[?(@.type=='RollingOut')].status",
            "Rolling Out",
        ),
        age,
    ];
    let release = [
        age,
        (".status.achievedStep.name", "Achieved Step"),
        (
            r".metadata.annotations.shipper\.booking\.com\/release\.clusters",
            "Clusters",
        ),
        (
            r#".status.strategy.conditions[?(.status=="False")].type"#,
            "Waiting",
        ),
        (
            r#".status.strategy.conditions[?(.status=="False")].message"#,
            "Reason",
        ),
    ];
    let block = [
        (".spec.message", "Message"),
        (".spec.author.type", "Author Type"),
        (".spec.author.name", "Author Name"),
        (".status.overrides.application", "Overriding Applications"),
        (".status.overrides.release", "Overriding Releases"),
    ];
    let expected: [(&str, &[_]); 6] = [
        ("RolloutBlock", &block),
        ("Application", &application),
        ("Release", &release),
        ("InstallationTarget", &target),
        ("CapacityTarget", &target),
        ("TrafficTarget", &target),
    ];
    for (kind, columns) in expected {
        let columns: Vec<Value> = columns
            .iter()
            .map(|(path, name)| {
                let type_ = if *name == "Age" { "date" } else { "string" };
                let mut column = json!({ "name": name, "type": type_, "jsonPath": path });
                // Of a block, `kubectl get` shows the others with `-o wide` only.
                if kind == "RolloutBlock" && *name != "Message" {
                    column["priority"] = 1.into();
                }
                column
            })
            .collect();
        assert_eq!(
            crd(kind)["spec"]["versions"][0]["additionalPrinterColumns"],
            json!(columns),
            "{kind}"
        );
    }
}

const ENVIRONMENTS: [(&str, &str); 2] = [
    ("Application", "spec.template"),
    ("Release", "spec.environment"),
];

#[test]
fn an_environment_is_the_same_in_applications_and_releases() {
    let [mut template, mut environment] =
        ENVIRONMENTS.map(|(kind, path)| field(&schema(kind), path).clone());
    for environment in [&mut template, &mut environment] {
        environment["description"].take();
    }
    assert_eq!(template, environment);
}

#[test]
fn required_fields() {
    let environment = [
        ("", json!(["chart", "clusterRequirements", "strategy"])),
        ("chart", json!(["name", "repoUrl", "version"])),
        ("clusterRequirements", json!(["regions"])),
        ("clusterRequirements.regions.[]", json!(["name"])),
        ("strategy", json!(["steps"])),
        ("strategy.steps.[]", json!(["capacity", "name", "traffic"])),
        (
            "strategy.steps.[].capacity",
            json!(["contender", "incumbent"]),
        ),
        (
            "strategy.steps.[].traffic",
            json!(["contender", "incumbent"]),
        ),
    ];
    for (kind, at) in ENVIRONMENTS {
        for (path, names) in &environment {
            let schema = schema(kind);
            let found = &field(field(&schema, at), path)["required"];
            assert_eq!(found, names, "{kind} {at}.{path}");
        }
    }
    for (kind, path, names) in [
        ("Application", "", json!(["spec"])),
        ("Application", "spec", json!(["template"])),
        ("Release", "spec", json!(["environment", "targetStep"])),
        (
            "InstallationTarget",
            "spec",
            json!(["canOverride", "clusters"]),
        ),
        (
            "CapacityTarget",
            "spec.clusters.[]",
            json!(["name", "percent"]),
        ),
        (
            "TrafficTarget",
            "spec.clusters.[]",
            json!(["name", "weight"]),
        ),
        ("RolloutBlock", "spec", json!(["author", "message"])),
        ("RolloutBlock", "spec.author", json!(["name", "type"])),
        ("Application", "status", Value::Null),
        ("Release", "status", Value::Null),
        ("InstallationTarget", "status", Value::Null),
        ("CapacityTarget", "status", Value::Null),
        ("TrafficTarget", "status", Value::Null),
        (
            "Application",
            "status.conditions.[]",
            json!(["status", "type"]),
        ),
        (
            "Release",
            "status.strategy.conditions.[]",
            json!(["status", "step", "type"]),
        ),
    ] {
        let schema = schema(kind);
        assert_eq!(field(&schema, path)["required"], names, "{kind} {path}");
    }
}

#[test]
fn numbers_have_bounds() {
    let step = "spec.environment.strategy.steps.[]";
    for (kind, path, format, least, most) in [
        (
            "Application",
            "spec.revisionHistoryLimit",
            "int32",
            None,
            None,
        ),
        ("Release", "spec.targetStep", "int32", Some(0), None),
        (
            "Release",
            &format!("{step}.capacity.incumbent"),
            "int32",
            Some(0),
            Some(100),
        ),
        (
            "Release",
            &format!("{step}.capacity.contender"),
            "int32",
            Some(0),
            Some(100),
        ),
        (
            "Release",
            &format!("{step}.traffic.incumbent"),
            "int64",
            Some(0),
            Some(u32::MAX),
        ),
        (
            "Release",
            &format!("{step}.traffic.contender"),
            "int64",
            Some(0),
            Some(u32::MAX),
        ),
        (
            "Release",
            "spec.environment.clusterRequirements.regions.[].replicas",
            "int32",
            None,
            None,
        ),
        (
            "CapacityTarget",
            "spec.clusters.[].percent",
            "int32",
            Some(0),
            Some(100),
        ),
        (
            "CapacityTarget",
            "spec.clusters.[].totalReplicaCount",
            "int32",
            None,
            None,
        ),
        (
            "CapacityTarget",
            "status.observedGeneration",
            "int64",
            None,
            None,
        ),
        (
            "TrafficTarget",
            "spec.clusters.[].weight",
            "int64",
            Some(0),
            Some(u32::MAX),
        ),
    ] {
        let schema = schema(kind);
        let number = field(&schema, path);
        assert_eq!(number["type"], "integer", "{kind} {path}");
        assert_eq!(number["format"], format, "{kind} {path}");
        for (keyword, bound) in [("minimum", least), ("maximum", most)] {
            let bound = bound.map(f64::from);
            assert_eq!(number[keyword].as_f64(), bound, "{kind} {path} {keyword}");
        }
    }
}

#[test]
fn lists_in_specs_and_names_of_charts_have_generous_limits() {
    for (kind, path, keyword, most) in [
        (
            "Release",
            "spec.environment.strategy.steps",
            "maxItems",
            1000,
        ),
        (
            "Release",
            "spec.environment.clusterRequirements.regions",
            "maxItems",
            1000,
        ),
        (
            "Release",
            "spec.environment.clusterRequirements.capabilities",
            "maxItems",
            1000,
        ),
        ("Release", "spec.environment.chart.name", "maxLength", 1024),
        (
            "Release",
            "spec.environment.chart.version",
            "maxLength",
            1024,
        ),
        (
            "Release",
            "spec.environment.chart.repoUrl",
            "maxLength",
            8192,
        ),
        ("InstallationTarget", "spec.clusters", "maxItems", 1000),
        ("CapacityTarget", "spec.clusters", "maxItems", 1000),
        ("TrafficTarget", "spec.clusters", "maxItems", 1000),
    ] {
        let schema = schema(kind);
        assert_eq!(field(&schema, path)[keyword], most, "{kind} {path}");
    }
}

#[test]
fn values_may_be_any_map_and_are_not_pruned() {
    for (kind, path) in [
        ("Application", "spec.template.values"),
        ("Release", "spec.environment.values"),
        ("InstallationTarget", "spec.values"),
    ] {
        let schema = schema(kind);
        let values = field(&schema, path);
        assert_eq!(values["type"], "object");
        assert_eq!(values["x-kubernetes-preserve-unknown-fields"], true);
        assert!(values.get("properties").is_none());
        assert_eq!(values["nullable"], true);
    }
}

/// Go programs write null for an absent list or map.
#[test]
fn null_is_allowed_only_where_a_field_may_be_absent() {
    for kind in KINDS {
        walk(&schema(kind), kind, &mut |path, schema| {
            let required = schema["required"].as_array();
            for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                let is_required = required.is_some_and(|names| names.contains(&json!(name)));
                assert_eq!(property["nullable"] == true, !is_required, "{path}.{name}");
            }
        });
    }
}

#[test]
fn every_field_has_a_description_and_none_has_a_default() {
    for kind in KINDS {
        walk(&schema(kind), kind, &mut |path, schema| {
            let text = schema["description"].as_str().unwrap_or_default();
            assert!(
                !text.is_empty() || path.ends_with("[]"),
                "{path} has no description"
            );
            // A value that the server filled in would become part of comparisons and hashes.
            assert!(schema.get("default").is_none(), "{path} has a default");
        });
    }
}
