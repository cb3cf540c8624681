//! The kinds, other than built-in ones, that can be scaled.

use baton_fleet::inventory::{ClusterLink, Inventory};
use baton_releases::chart::{
    scalable::{needs_definitions, of_definitions},
    workloads::Scalable,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, api::ListParams};
use serde_json::Value;

/// The kinds that can be scaled, by the definitions in a rendered chart and those in the first
/// connected cluster. If all objects of the chart are of built-in kinds, the result is empty, and
/// no request is sent.
///
/// # Errors
/// If a cluster is needed, and none is connected or its definitions cannot be listed. The error is
/// a text for people.
pub(crate) async fn scalable(
    inventory: &Inventory,
    clusters: &[String],
    documents: &[Value],
) -> Result<Scalable, String> {
    if !needs_definitions(documents) {
        return Ok(Scalable::default());
    }
    let mut targets = clusters
        .iter()
        .filter_map(|name| match inventory.link(name) {
            ClusterLink::Up(target) => Some(target),
            _ => None,
        });
    let Some(target) = targets.next() else {
        let clusters = clusters.join(", ");
        return Err(format!(
            "cannot read which kinds can be scaled: none of the clusters {clusters} is connected"
        ));
    };
    let definitions: Api<CustomResourceDefinition> = Api::all(target.client());
    let listed = definitions.list(&ListParams::default()).await;
    let listed =
        listed.map_err(|error| format!("cannot list CustomResourceDefinitions: {error}"))?;
    Ok(of_definitions(listed.items, documents))
}
