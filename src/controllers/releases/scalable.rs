//! The kinds, other than built-in ones, that can be scaled.

use baton_apis::url::escape;
use baton_charts::Documents;
use baton_fleet::inventory::{ClusterLink, Inventory};
use baton_kubernetes::error::request_failure;
use baton_releases::{
    chart::{
        scalable::{Definition, needs_definitions, of_definitions},
        workloads::Scalable,
    },
    scheduling::error::ScheduleError,
};
use http::Request;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::Client;
use serde::Deserialize;

use super::charts::ChartSource;

/// The objects of a rendered chart, with the kinds that can be scaled, by the definitions in the chart
/// and those in the first connected cluster. If all objects of the chart are of built-in kinds, the
/// result is empty, and no request is sent.
///
/// The objects take no memory while the cluster is asked, which may be slow. They are read again
/// after that.
///
/// # Errors
/// If a cluster is needed, and none is connected or its definitions cannot be listed.
pub(crate) async fn scalable(
    charts: &ChartSource,
    inventory: &Inventory,
    clusters: &[String],
    documents: Documents,
) -> Result<(Documents, Scalable), ScheduleError> {
    if !needs_definitions(&documents) {
        return Ok((documents, Scalable::default()));
    }
    let rendered = documents.into_rendered();
    let listed = of_first_connected(inventory, clusters).await;
    let listed = listed.map_err(ScheduleError::Request)?;
    let documents = charts.read(rendered).await?;
    let scalable = of_definitions(listed, &documents);
    Ok((documents, scalable))
}

/// The definitions in the first connected cluster.
///
/// # Errors
/// If none is connected, or its definitions cannot be listed. The error is a text for people.
async fn of_first_connected(
    inventory: &Inventory,
    clusters: &[String],
) -> Result<Vec<Definition>, String> {
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
    let listed = definitions(&target.client()).await;
    listed.map_err(|error| {
        let cause = request_failure(&error);
        format!("cannot list CustomResourceDefinitions: {cause}")
    })
}

/// Number of definitions in a page. An answer of a cluster has at most 16 MiB, and a definition up to
/// 1.5 MiB.
const PAGE: usize = 10;

/// Limit of the number of definitions that are read: more than any cluster has.
const MOST: usize = 10_000;

/// The definitions in a cluster, page by page.
async fn definitions(client: &Client) -> Result<Vec<Definition>, kube::Error> {
    #[derive(Deserialize)]
    struct Page {
        metadata: ListMeta,
        items: Vec<Definition>,
    }
    let mut definitions = Vec::new();
    let mut token = String::new();
    while definitions.len() < MOST {
        let path = format!("{PATH}?limit={PAGE}&continue={}", escape(&token));
        let request = Request::get(path).body(Vec::new());
        let request = request.map_err(kube::Error::HttpError)?;
        let page: Page = client.request(request).await?;
        if page.items.is_empty() {
            break;
        }
        definitions.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(next) => token = next,
            None => break,
        }
    }
    Ok(definitions)
}

const PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
