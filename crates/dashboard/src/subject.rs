//! Parts of addresses, and the cluster for the object in one.

use baton_cluster::Cluster;
use baton_pages::subject::ChainSubject;
use http::StatusCode;

use crate::failure::Failure;

/// The cluster with the namespace of a deployment or a revision.
pub(crate) fn within(subject: &ChainSubject, cluster: &Cluster) -> Cluster {
    cluster.within(subject.namespace.as_deref().unwrap_or_default())
}

/// The number in an address; `None` if the text is empty.
///
/// # Errors
/// If the text is no number.
pub(crate) fn number(text: &str) -> Result<Option<i64>, Failure> {
    if text.is_empty() {
        return Ok(None);
    }
    let message = || Failure::new(StatusCode::BAD_REQUEST, format!("{text:?} is no number"));
    text.parse().map(Some).map_err(|_| message())
}
