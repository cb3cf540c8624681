//! The custom resource definitions as a server receives them: the output of the derive macros,
//! changed to the form that clients of Package Operator expect.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinition, JSON, JSONSchemaProps,
    JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;
use serde_json::json;

use crate::{
    Cluster, ClusterObjectDeployment, ClusterObjectSet, ClusterObjectSetPhase, ClusterObjectSlice,
    ObjectDeployment, ObjectSet, ObjectSetPhase, ObjectSlice, SiteApplication, SiteAssignment,
    SiteDeployment, conditions, constants::LABEL_PHASE_CLASS,
};

mod releases;

pub use releases::release_crds;

/// The custom resource definitions that every installation has.
///
/// Each namespaced kind is followed by its cluster-scoped twin; then the Cluster and the kinds for
/// sites.
///
/// # Guarantees
///
/// The result is the same on every call, and the schemas of twins differ in descriptions only.
///
/// # Panics
///
/// Never: the schemas come from types of this crate, and its tests call this function.
pub fn crds() -> Vec<CustomResourceDefinition> {
    vec![
        finish(ObjectSet::crd(), &object_set_columns()),
        finish(ClusterObjectSet::crd(), &object_set_columns()),
        finish(ObjectSetPhase::crd(), &object_set_phase_columns()),
        finish(ClusterObjectSetPhase::crd(), &object_set_phase_columns()),
        finish(ObjectSlice::crd(), &[age()]),
        finish(ClusterObjectSlice::crd(), &[age()]),
        finish(
            ObjectDeployment::crd(),
            &[
                column("Status", ".status.phase"),
                condition(conditions::AVAILABLE),
                condition(conditions::PROGRESSING),
                condition(conditions::PAUSED),
                column("Revision", ".status.revision"),
                age(),
                message(),
            ],
        ),
        // The order differs from that of the namespaced kind, as in Package Operator.
        finish(
            ClusterObjectDeployment::crd(),
            &[
                column("Status", ".status.phase"),
                condition(conditions::AVAILABLE),
                column("Revision", ".status.revision"),
                condition(conditions::PROGRESSING),
                condition(conditions::PAUSED),
                age(),
                message(),
            ],
        ),
        without_subresources(finish(
            Cluster::crd(),
            &[
                column("Connection", ".spec.connection"),
                column("Region", ".spec.region"),
                condition(conditions::CONNECTED),
                column("Version", ".status.serverVersion"),
                age(),
            ],
        )),
        finish(
            SiteAssignment::crd(),
            &[
                column("Namespaces", ".spec.namespaces"),
                column("Clusters", ".spec.clusters"),
                column("Scope", ".spec.scope"),
                wide(column("TargetNamespaces", ".spec.targetNamespaces")),
                age(),
            ],
        ),
        finish(
            SiteApplication::crd(),
            &[
                column("Version", ".spec.version"),
                condition(conditions::KEPT),
                age(),
                message(),
            ],
        ),
        finish(SiteDeployment::crd(), &site_deployment_columns()),
    ]
}

fn site_deployment_columns() -> Vec<CustomResourceColumnDefinition> {
    let count = |name: &str, field: &str| CustomResourceColumnDefinition {
        type_: "integer".to_owned(),
        ..column(name, &format!(".status.counts.{field}"))
    };
    vec![
        column("Version", ".status.version"),
        count("Sites", "sites"),
        count("Updated", "updated"),
        count("Healthy", "healthy"),
        count("Queued", "queued"),
        count("Offline", "offline"),
        count("Failed", "failed"),
        condition(conditions::PROGRESSING),
        condition(conditions::ABORTED),
        age(),
        message(),
    ]
}

fn object_set_columns() -> Vec<CustomResourceColumnDefinition> {
    vec![
        column("Status", ".status.phase"),
        condition(conditions::AVAILABLE),
        condition(conditions::PAUSED),
        wide(condition(conditions::ARCHIVED)),
        wide(condition(conditions::SUCCEEDED)),
        wide(condition(conditions::IN_TRANSITION)),
        column("Revision", ".spec.revision"),
        age(),
        wide(message()),
    ]
}

fn object_set_phase_columns() -> Vec<CustomResourceColumnDefinition> {
    let class = LABEL_PHASE_CLASS.replace('.', r"\.");
    vec![
        column("Class", &format!(".metadata.labels.{class}")),
        condition(conditions::AVAILABLE),
        condition(conditions::PAUSED),
        column("Revision", ".spec.revision"),
        age(),
    ]
}

fn column(name: &str, json_path: &str) -> CustomResourceColumnDefinition {
    CustomResourceColumnDefinition {
        name: name.to_owned(),
        type_: "string".to_owned(),
        json_path: json_path.to_owned(),
        ..Default::default()
    }
}

fn condition(type_: &str) -> CustomResourceColumnDefinition {
    column(
        type_,
        &format!(r#".status.conditions[?(@.type=="{type_}")].status"#),
    )
}

fn age() -> CustomResourceColumnDefinition {
    CustomResourceColumnDefinition {
        type_: "date".to_owned(),
        ..column("Age", ".metadata.creationTimestamp")
    }
}

/// The column of the message that explains the state of an object: the last one, because messages
/// are long.
fn message() -> CustomResourceColumnDefinition {
    let type_ = conditions::READY;
    column(
        "Message",
        &format!(r#".status.conditions[?(@.type=="{type_}")].message"#),
    )
}

/// The same column, shown by `kubectl get -o wide` only.
fn wide(column: CustomResourceColumnDefinition) -> CustomResourceColumnDefinition {
    CustomResourceColumnDefinition {
        priority: Some(1),
        ..column
    }
}

/// Removes the status subresource, because Shipper's clients write the status with the object.
fn without_subresources(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    for version in &mut crd.spec.versions {
        version.subresources = None;
    }
    crd
}

/// Changes a derived definition to the form that clients expect, with these columns.
fn finish(
    mut crd: CustomResourceDefinition,
    columns: &[CustomResourceColumnDefinition],
) -> CustomResourceDefinition {
    for version in &mut crd.spec.versions {
        version.additional_printer_columns = Some(columns.to_owned());
        let root = version
            .schema
            .as_mut()
            .and_then(|schema| schema.open_api_v3_schema.as_mut())
            .expect("the derive macro always makes a schema");
        tidy(root);
        default_spec(root);
        default_status(root);
    }
    crd
}

/// Makes a spec without required fields optional as a whole.
///
/// The default `{}` keeps the rules of immutability in force, because they compare two specs:
/// without the default, an update that removes the spec would pass, and so would one that adds a
/// new spec later.
fn default_spec(root: &mut JSONSchemaProps) {
    let Some(spec) = property(root, "spec") else {
        return;
    };
    if spec.required.is_some() {
        return;
    }
    spec.default = Some(JSON(json!({})));
    if let Some(required) = &mut root.required {
        required.retain(|field| field != "spec");
    }
    root.required.take_if(|required| required.is_empty());
}

/// Makes an object without a written status show the defaults of the status.
fn default_status(root: &mut JSONSchemaProps) {
    if let Some(status) = property(root, "status") {
        let has_defaults = status
            .properties
            .iter()
            .flatten()
            .any(|(_, field)| field.default.is_some());
        status.default = has_defaults.then(|| JSON(json!({})));
    }
}

fn property<'a>(schema: &'a mut JSONSchemaProps, name: &str) -> Option<&'a mut JSONSchemaProps> {
    schema.properties.as_mut()?.get_mut(name)
}

/// Removes parts of a schema that come from the Rust types and do not belong to the API, at all
/// depths.
fn tidy(schema: &mut JSONSchemaProps) {
    // Rust does not distinguish an absent field from a null field, but the server does: null is no
    // valid value there, and for a rule a null field is present.
    schema.nullable = None;
    schema.title = None;
    schema.description = schema.description.take().map(|text| reflow(&text));
    for field in schema
        .properties
        .iter_mut()
        .flat_map(|map| map.values_mut())
    {
        tidy(field);
    }
    match &mut schema.items {
        Some(JSONSchemaPropsOrArray::Schema(items)) => tidy(items),
        Some(JSONSchemaPropsOrArray::Schemas(items)) => items.iter_mut().for_each(tidy),
        None => {}
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        tidy(values);
    }
}

/// Replaces line breaks, which are those of the source code, by spaces.
fn reflow(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
