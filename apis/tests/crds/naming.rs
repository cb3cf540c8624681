use baton_apis::{crds, kinds::Kind, release_crds};
use serde_json::{Value, json};

use super::{crd, kinds};

#[test]
fn definitions_come_in_a_fixed_order() {
    let served: Vec<String> = crds().into_iter().map(|crd| crd.spec.names.kind).collect();
    assert_eq!(served, kinds().collect::<Vec<_>>());
}

#[test]
fn names_scopes_and_subresources() {
    let expected = [
        (
            "ObjectSet",
            "objectsets",
            "Namespaced",
            ["objset", "os"],
            true,
        ),
        (
            "ClusterObjectSet",
            "clusterobjectsets",
            "Cluster",
            ["clobjset", "cos"],
            true,
        ),
        (
            "ObjectSetPhase",
            "objectsetphases",
            "Namespaced",
            ["objsetphase", "osp"],
            true,
        ),
        (
            "ClusterObjectSetPhase",
            "clusterobjectsetphases",
            "Cluster",
            ["clobjsetphase", "cosp"],
            true,
        ),
        (
            "ObjectSlice",
            "objectslices",
            "Namespaced",
            ["objslice", "osl"],
            false,
        ),
        (
            "ClusterObjectSlice",
            "clusterobjectslices",
            "Cluster",
            ["clobjslice", "cosl"],
            false,
        ),
        (
            "ObjectDeployment",
            "objectdeployments",
            "Namespaced",
            ["objdeploy", "od"],
            true,
        ),
        (
            "ClusterObjectDeployment",
            "clusterobjectdeployments",
            "Cluster",
            ["clobjdeploy", "cod"],
            true,
        ),
    ];
    for (kind, plural, scope, short_names, has_status) in expected {
        let crd = crd(kind);
        assert_eq!(
            crd["metadata"]["name"],
            format!("{plural}.package-operator.run")
        );
        assert_eq!(crd["spec"]["group"], "package-operator.run");
        assert_eq!(crd["spec"]["scope"], scope);
        assert_eq!(crd["spec"]["names"]["plural"], plural);
        assert_eq!(crd["spec"]["names"]["shortNames"], json!(short_names));
        assert!(crd["spec"]["names"].get("categories").is_none());

        let [version] = crd["spec"]["versions"].as_array().unwrap().as_slice() else {
            panic!("{kind} has one version");
        };
        assert_eq!(version["name"], "v1alpha1");
        assert_eq!(
            (&version["served"], &version["storage"]),
            (&json!(true), &json!(true))
        );
        assert_eq!(version["subresources"]["status"].is_object(), has_status);
    }
}

#[test]
fn a_cluster_is_shippers() {
    let crd = crd("Cluster");
    assert_eq!(crd["metadata"]["name"], "clusters.shipper.booking.com");
    assert_eq!(crd["spec"]["group"], "shipper.booking.com");
    assert_eq!(crd["spec"]["scope"], "Cluster");
    assert_eq!(crd["spec"]["names"]["shortNames"], json!(["cl"]));
    assert_eq!(crd["spec"]["names"]["categories"], json!(["shipper"]));
    let [version] = crd["spec"]["versions"].as_array().unwrap().as_slice() else {
        panic!("there is one version");
    };
    assert_eq!(version["name"], "v1alpha1");
    // The status is written with the object.
    assert!(version.get("subresources").is_none());
}

#[test]
fn printer_columns() {
    let object_set = "Status Available Paused Archived+ Succeeded+ InTransition+ Revision=.spec.revision Age Message+";
    let phase = "Class=.metadata.labels.package-operator\\.run/phase-class Available Paused \
                  Revision=.spec.revision Age";
    let expected = [
        ("ObjectSet", object_set),
        ("ClusterObjectSet", object_set),
        ("ObjectSetPhase", phase),
        ("ClusterObjectSetPhase", phase),
        ("ObjectSlice", "Age"),
        ("ClusterObjectSlice", "Age"),
        (
            "ObjectDeployment",
            "Status Available Progressing Paused Revision=.status.revision Age Message",
        ),
        (
            "ClusterObjectDeployment",
            "Status Available Revision=.status.revision Progressing Paused Age Message",
        ),
        (
            "Cluster",
            "Connection=.spec.connection Region=.spec.region Connected Version=.status.serverVersion Age",
        ),
    ];
    for (kind, columns) in expected {
        let columns: Vec<Value> = columns.split(' ').map(printer_column).collect();
        assert_eq!(
            crd(kind)["spec"]["versions"][0]["additionalPrinterColumns"],
            json!(columns),
            "{kind}"
        );
    }
}

/// Parses `Name`, `Name+` for a wide column, or `Name=path`.
fn printer_column(text: &str) -> Value {
    let (name, path) = text.split_once('=').unwrap_or((text, ""));
    let wide = name.ends_with('+');
    let name = name.trim_end_matches('+');
    let condition = format!(".status.conditions[?(@.type==\"{name}\")].status");
    let (type_, path) = match name {
        "Age" => ("date", ".metadata.creationTimestamp"),
        "Status" => ("string", ".status.phase"),
        "Message" => (
            "string",
            r#".status.conditions[?(@.type=="Ready")].message"#,
        ),
        _ if !path.is_empty() => ("string", path),
        _ => ("string", condition.as_str()),
    };
    let mut column = json!({ "name": name, "type": type_, "jsonPath": path });
    if wide {
        column["priority"] = json!(1);
    }
    column
}

#[test]
fn the_table_of_kinds_has_the_names_of_the_definitions() {
    let defined: Vec<_> = crds().into_iter().chain(release_crds()).collect();
    assert_eq!(defined.len(), Kind::ALL.len());
    for kind in Kind::ALL {
        let crd = defined.iter().map(|crd| &crd.spec);
        let mut crd = crd.filter(|spec| spec.names.kind == kind.name);
        let spec = crd.next().expect(kind.name);
        let names = &spec.names;
        assert_eq!(names.singular.as_deref(), Some(kind.singular()));
        assert_eq!(names.plural, kind.plural);
        assert_eq!(names.short_names.as_deref().unwrap(), kind.short_names);
        assert_eq!(spec.group, kind.group);
        assert_eq!(spec.scope == "Namespaced", kind.is_namespaced);
        let version = &spec.versions[0].name;
        assert_eq!(format!("{}/{version}", spec.group), kind.api_version);
    }
}
