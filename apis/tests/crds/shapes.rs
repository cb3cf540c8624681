use serde_json::json;

use super::{TWINS, field, kinds, messages, schema, walk};

#[test]
fn schemas_of_both_scopes_differ_in_descriptions_only() {
    for (namespaced, cluster) in TWINS {
        let [mut namespaced, mut cluster] = [schema(namespaced), schema(cluster)];
        for schema in [&mut namespaced, &mut cluster] {
            schema["description"].take();
            if let Some(spec) = schema.pointer_mut("/properties/spec/description") {
                spec.take();
            }
        }
        assert_eq!(namespaced, cluster);
    }
}

#[test]
fn objects_are_stored_as_v1alpha1() {
    for definition in baton_apis::crds() {
        let versions = definition.spec.versions.iter();
        let stored: Vec<_> = versions
            .filter(|version| version.storage)
            .map(|version| version.name.as_str())
            .collect();
        assert_eq!(stored, ["v1alpha1"], "{:?}", definition.metadata.name);
    }
}

#[test]
fn immutability_messages() {
    let both = [
        "previous is immutable",
        "availabilityProbes is immutable",
        "serviceAccountName is immutable",
    ];
    for kind in ["ObjectSet", "ClusterObjectSet"] {
        let schema = schema(kind);
        let expected = [
            "previous is immutable",
            "phases is immutable",
            "availabilityProbes is immutable",
            "successDelaySeconds is immutable",
            "serviceAccountName is immutable",
            "revision is immutable",
        ];
        assert_eq!(messages(field(&schema, "spec")), expected);
    }
    for kind in ["ObjectSetPhase", "ClusterObjectSetPhase"] {
        let schema = schema(kind);
        assert_eq!(messages(field(&schema, "spec")), both);
        for name in ["previous", "availabilityProbes", "objects", "revision"] {
            let expected = [format!("{name} is immutable")];
            assert_eq!(messages(field(&schema, &format!("spec.{name}"))), expected);
        }
    }
    for kind in ["ObjectSlice", "ClusterObjectSlice"] {
        assert_eq!(
            messages(field(&schema(kind), "objects")),
            ["objects is immutable"]
        );
    }
}

#[test]
fn a_cluster_needs_a_region_and_an_address_to_connect_to() {
    let cluster = schema("Cluster");
    let spec = field(&cluster, "spec");
    assert_eq!(spec["required"], json!(["region"]));
    assert_eq!(
        messages(spec),
        ["apiMaster is required unless connection is Pull"]
    );
    assert_eq!(field(spec, "connection")["default"], "Push");
    assert_eq!(field(spec, "connection")["enum"], json!(["Push", "Pull"]));
    assert_eq!(field(spec, "capabilities")["default"], json!([]));
    assert_eq!(field(spec, "scheduler.weight")["format"], "int32");
}

#[test]
fn immutability_rules_fire_on_update_only() {
    for kind in kinds() {
        walk(&schema(kind), kind, &mut |path, schema| {
            for rule in schema["x-kubernetes-validations"]
                .as_array()
                .into_iter()
                .flatten()
            {
                let immutable = rule["message"]
                    .as_str()
                    .is_some_and(|text| text.ends_with("is immutable"));
                let transition = rule["rule"].as_str().unwrap().contains("oldSelf");
                assert_eq!(immutable, transition, "{path}");
                assert!(rule.get("optionalOldSelf").is_none(), "{path}");
            }
        });
    }
}

#[test]
fn a_spec_is_optional_where_nothing_in_it_is_required() {
    let set = schema("ObjectSet");
    assert!(set.get("required").is_none());
    assert_eq!(field(&set, "spec")["default"], json!({}));
    for kind in ["ObjectSetPhase", "ObjectDeployment"] {
        assert_eq!(schema(kind)["required"], json!(["spec"]));
    }
    let slice = schema("ObjectSlice");
    assert_eq!(slice["required"], json!(["objects"]));
    assert_eq!(slice["properties"].as_object().unwrap().len(), 1);
}

#[test]
fn defaults() {
    let set = schema("ObjectSet");
    let deployment = schema("ObjectDeployment");
    for (schema, path, expected) in [
        (&set, "spec.lifecycleState", json!("Active")),
        (
            &set,
            "spec.phases.[].objects.[].collisionProtection",
            json!("Prevent"),
        ),
        (
            &set,
            "spec.availabilityProbes.[].probes.[].condition.status",
            json!("True"),
        ),
        (&set, "status", json!({})),
        (&set, "status.phase", json!("Pending")),
        (&deployment, "spec.revisionHistoryLimit", json!(10)),
        (&deployment, "status", json!({})),
        (&deployment, "status.phase", json!("Pending")),
    ] {
        assert_eq!(field(schema, path)["default"], expected, "{path}");
    }
    for path in ["spec.paused", "spec.progressDeadlineSeconds"] {
        assert!(field(&deployment, path).get("default").is_none(), "{path}");
    }
}

#[test]
fn closed_lists_of_words() {
    let set = schema("ObjectSet");
    for (path, values) in [
        (
            "spec.lifecycleState",
            json!(["Active", "Paused", "Archived"]),
        ),
        (
            "spec.phases.[].objects.[].collisionProtection",
            json!(["Prevent", "IfNoController", "None"]),
        ),
        ("spec.previous.[].group", json!(["package-operator.run"])),
        (
            "status.phase",
            json!(["Pending", "Available", "NotReady", "Archived"]),
        ),
        (
            "status.conditions.[].status",
            json!(["True", "False", "Unknown"]),
        ),
    ] {
        assert_eq!(field(&set, path)["enum"], values, "{path}");
    }
}

#[test]
fn number_formats() {
    let [set, phase, deployment] = ["ObjectSet", "ObjectSetPhase", "ObjectDeployment"].map(schema);
    for (schema, path, format) in [
        (&set, "spec.revision", "int64"),
        (&set, "spec.successDelaySeconds", "int32"),
        (&set, "status.revision", "int64"),
        (&phase, "spec.revision", "int64"),
        (&deployment, "spec.revisionHistoryLimit", "int32"),
        (&deployment, "spec.progressDeadlineSeconds", "int32"),
        (&deployment, "status.revision", "int64"),
        (&deployment, "status.collisionCount", "int32"),
    ] {
        assert_eq!(field(schema, path)["type"], "integer", "{path}");
        assert_eq!(field(schema, path)["format"], format, "{path}");
    }
}

#[test]
fn required_fields() {
    let [set, phase, deployment] = ["ObjectSet", "ObjectSetPhase", "ObjectDeployment"].map(schema);
    for (schema, path, names) in [
        (&set, "spec.phases.[]", json!(["name"])),
        (&set, "spec.phases.[].objects.[]", json!(["object"])),
        (
            &set,
            "spec.phases.[].objects.[].conditionMappings.[]",
            json!(["destinationType", "sourceType"]),
        ),
        (&set, "spec.previous.[]", json!(["name"])),
        (
            &set,
            "spec.availabilityProbes.[]",
            json!(["probes", "selector"]),
        ),
        (&set, "spec.availabilityProbes.[].selector", json!(["kind"])),
        (
            &set,
            "spec.availabilityProbes.[].selector.kind",
            json!(["group", "kind"]),
        ),
        (
            &set,
            "spec.availabilityProbes.[].probes.[].fieldsEqual",
            json!(["fieldA", "fieldB"]),
        ),
        (
            &set,
            "spec.availabilityProbes.[].probes.[].cel",
            json!(["message", "rule"]),
        ),
        (
            &set,
            "status.controllerOf.[]",
            json!(["group", "kind", "name", "version"]),
        ),
        (&set, "status.remotePhases.[]", json!(["name", "uid"])),
        (
            &set,
            "status.conditions.[]",
            json!(["lastTransitionTime", "message", "reason", "status", "type"]),
        ),
        (&phase, "spec", json!(["objects", "revision"])),
        (&deployment, "spec", json!(["selector", "template"])),
        (&deployment, "spec.template", json!(["metadata", "spec"])),
    ] {
        assert_eq!(field(schema, path)["required"], names, "{path}");
    }
}

#[test]
fn conditions_have_the_limits_of_kubernetes() {
    let set = schema("ObjectSet");
    let condition = field(&set, "status.conditions.[]");
    assert_eq!(field(condition, "message")["maxLength"], 32768);
    assert_eq!(field(condition, "reason")["minLength"], 1);
    assert_eq!(field(condition, "reason")["maxLength"], 1024);
    assert_eq!(
        field(condition, "reason")["pattern"],
        "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"
    );
    assert_eq!(field(condition, "type")["maxLength"], 316);
    assert!(
        field(&set, "status.conditions")
            .get("x-kubernetes-list-type")
            .is_none()
    );
}

#[test]
fn manifests_are_not_pruned_and_require_api_version_and_kind() {
    let set = schema("ObjectSet");
    let object = field(&set, "spec.phases.[].objects.[].object");
    assert_eq!(object["required"], json!(["apiVersion", "kind"]));
    assert_eq!(field(object, "metadata")["type"], "object");
    for part in [object, field(object, "metadata")] {
        assert_eq!(part["x-kubernetes-preserve-unknown-fields"], true);
    }
}

/// The schema of a manifest has neither `x-kubernetes-embedded-resource` nor `type: object`.
///
/// With an embedded resource, the server would convert the metadata of all manifests on every write
/// and every read of an object. With the type `object`, a rule of immutability compares field by
/// field and misses renamed fields.
#[test]
fn no_manifest_is_an_embedded_resource_or_has_a_type() {
    for kind in kinds() {
        walk(&schema(kind), kind, &mut |path, schema| {
            assert!(
                schema.get("x-kubernetes-embedded-resource").is_none(),
                "{path}"
            );
            if path.ends_with(".object") {
                assert!(schema.get("type").is_none(), "{path}");
            }
        });
    }
}

#[test]
fn a_mapped_condition_needs_a_prefix() {
    let set = schema("ObjectSet");
    let mapping = field(&set, "spec.phases.[].objects.[].conditionMappings.[]");
    assert!(
        field(mapping, "destinationType")["pattern"]
            .as_str()
            .unwrap()
            .contains(")*/(")
    );
}

#[test]
fn every_field_has_a_description_and_no_content_is_limited_or_null() {
    for kind in kinds() {
        walk(&schema(kind), kind, &mut |path, schema| {
            let owned_by_kubernetes = path.contains(".selector.") || path.ends_with("[]");
            let explained = schema["description"]
                .as_str()
                .is_some_and(|text| !text.is_empty());
            assert!(
                explained || owned_by_kubernetes,
                "{path} has no description"
            );
            // Revisions of any size that Package Operator accepted have to stay valid. Only the cost
            // of each of their objects is bounded, see `probes_and_mappings_are_bounded`.
            let bounded = [
                "availabilityProbes",
                "probes",
                "conditionMappings",
                "createOnlyFields",
            ];
            let is_bounded = bounded.iter().any(|name| path.ends_with(name));
            let is_own = path.starts_with("Site") || path.ends_with("upgradeWindows");
            assert!(
                is_own || is_bounded || schema.get("maxItems").is_none(),
                "{path} has a limit"
            );
            assert!(schema.get("nullable").is_none(), "{path} admits null");
        });
    }
}

/// The schemas bound everything that is repeated for each object, and everything that is compiled
/// or compared.
#[test]
fn probes_and_mappings_are_bounded() {
    let probe = "availabilityProbes.[].probes.[]";
    let probes = [
        ("availabilityProbes".to_owned(), "maxItems", 1000),
        ("availabilityProbes.[].probes".to_owned(), "maxItems", 1000),
        (
            "availabilityProbes.[].selector.kind.group".to_owned(),
            "maxLength",
            253,
        ),
        (
            "availabilityProbes.[].selector.kind.kind".to_owned(),
            "maxLength",
            63,
        ),
        (format!("{probe}.condition.type"), "maxLength", 316),
        (format!("{probe}.condition.status"), "maxLength", 63),
        (format!("{probe}.fieldsEqual.fieldA"), "maxLength", 4096),
        (format!("{probe}.fieldsEqual.fieldB"), "maxLength", 4096),
        (format!("{probe}.cel.rule"), "maxLength", 8192),
    ];
    let objects = [
        ("conditionMappings".to_owned(), "maxItems", 100),
        (
            "conditionMappings.[].sourceType".to_owned(),
            "maxLength",
            316,
        ),
        (
            "conditionMappings.[].destinationType".to_owned(),
            "maxLength",
            316,
        ),
        ("createOnlyFields".to_owned(), "maxItems", 1000),
        ("createOnlyFields.[]".to_owned(), "maxLength", 4096),
    ];
    for (kind, of_probes, of_objects) in [
        ("ObjectSet", Some("spec"), "spec.phases.[].objects.[]"),
        ("ObjectSetPhase", Some("spec"), "spec.objects.[]"),
        ("ObjectSlice", None, "objects.[]"),
        (
            "ObjectDeployment",
            Some("spec.template.spec"),
            "spec.template.spec.phases.[].objects.[]",
        ),
    ] {
        // Twins have the same schema.
        let schema = schema(kind);
        let parts = of_probes.map(|at| (at, &probes[..]));
        for (at, bounds) in parts.into_iter().chain([(of_objects, &objects[..])]) {
            for (path, keyword, most) in bounds {
                let found = &field(field(&schema, at), path)[*keyword];
                assert_eq!(*found, json!(most), "{kind} {at}.{path} {keyword}");
            }
        }
    }
}

/// The kinds of sites are Baton's own, so that all lists and maps in their specs can be bounded,
/// except for those of revisions.
#[test]
fn lists_and_maps_of_sites_are_bounded() {
    for kind in ["SiteAssignment", "SiteApplication", "SiteDeployment"] {
        let schema = schema(kind);
        walk(field(&schema, "spec"), kind, &mut |path, schema| {
            if path.contains(".template.spec") {
                return;
            }
            let keyword = match schema["type"].as_str() {
                Some("array") => "maxItems",
                Some("object") if schema["additionalProperties"].is_object() => "maxProperties",
                _ => return,
            };
            assert!(schema[keyword].is_u64(), "{path} has no {keyword}");
        });
    }
}
