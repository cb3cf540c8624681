//! The kinds of Shipper for application rollouts.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinition, CustomResourceDefinitionVersion,
    JSONSchemaProps, JSONSchemaPropsOrArray,
};
use kube::CustomResourceExt;

use super::{age, column, finish, wide, without_subresources};
use crate::{
    Application, CapacityTarget, InstallationTarget, Release, RolloutBlock, TrafficTarget,
    constants::shipper::STATUS_VERSION,
};

/// The definitions of the kinds for application rollouts: Application, Release, the targets of a Release,
/// and RolloutBlock. They are optional, so they are separate from [`crds`](crate::crds).
///
/// # Guarantees
///
/// The result is the same on every call. The schema of a kind admits everything that its type
/// writes.
///
/// # Panics
///
/// Never: the schemas come from types of this crate, and its tests call this function.
pub fn release_crds() -> Vec<CustomResourceDefinition> {
    vec![
        with_both_statuses(finish_lenient(
            Application::crd(),
            &[
                column("Latest Release", ".status.history[-1]"),
                column(
                    "Rolling Out",
                    ".status.conditions[?(@.type=='RollingOut')].status",
                ),
                age(),
            ],
        )),
        with_both_statuses(finish_lenient(
            Release::crd(),
            &[
                age(),
                column("Achieved Step", ".status.achievedStep.name"),
                column(
                    "Clusters",
                    r".metadata.annotations.shipper\.booking\.com\/release\.clusters",
                ),
                column(
                    "Waiting",
                    r#".status.strategy.conditions[?(.status=="False")].type"#,
                ),
                column(
                    "Reason",
                    r#".status.strategy.conditions[?(.status=="False")].message"#,
                ),
            ],
        )),
        with_both_statuses(finish_lenient(InstallationTarget::crd(), &target_columns())),
        finish_lenient(CapacityTarget::crd(), &target_columns()),
        finish_lenient(TrafficTarget::crd(), &target_columns()),
        with_both_statuses(finish_lenient(
            RolloutBlock::crd(),
            &[
                column("Message", ".spec.message"),
                wide(column("Author Type", ".spec.author.type")),
                wide(column("Author Name", ".spec.author.name")),
                wide(column(
                    "Overriding Applications",
                    ".status.overrides.application",
                )),
                wide(column("Overriding Releases", ".status.overrides.release")),
            ],
        )),
    ]
}

fn target_columns() -> [CustomResourceColumnDefinition; 4] {
    [
        column(
            "Operational",
            r#".status.conditions[?(.type=="Operational")].status"#,
        ),
        column("Ready", r#".status.conditions[?(.type=="Ready")].status"#),
        column(
            "Reason",
            r#".status.conditions[?(.status=="False")].message"#,
        ),
        age(),
    ]
}

/// As [`finish`], for kinds that Go programs write: they write `null` for an absent list or map.
fn finish_lenient(
    crd: CustomResourceDefinition,
    columns: &[CustomResourceColumnDefinition],
) -> CustomResourceDefinition {
    let mut crd = finish(crd, columns);
    for version in &mut crd.spec.versions {
        if let Some(schema) = &mut version.schema
            && let Some(root) = &mut schema.open_api_v3_schema
        {
            admit_null(root);
        }
    }
    crd
}

/// Admits null for every optional field, at all depths.
fn admit_null(schema: &mut JSONSchemaProps) {
    let required = schema.required.as_deref().unwrap_or_default();
    for (name, field) in schema.properties.iter_mut().flatten() {
        field.nullable = (!required.contains(name)).then_some(true);
        admit_null(field);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        admit_null(items);
    }
}

/// Adds a second version with a status subresource.
///
/// In the version of Shipper, clients write the status with the object. No single version can serve
/// both forms. Only writes differ; reads of both versions return the same.
fn with_both_statuses(crd: CustomResourceDefinition) -> CustomResourceDefinition {
    let second = |version: &CustomResourceDefinitionVersion| CustomResourceDefinitionVersion {
        name: STATUS_VERSION.to_owned(),
        storage: false,
        ..version.clone()
    };
    let second: Vec<_> = crd.spec.versions.iter().map(second).collect();
    let mut crd = without_subresources(crd);
    crd.spec.versions.extend(second);
    crd
}
