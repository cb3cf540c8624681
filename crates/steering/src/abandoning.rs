//! Abandons the objects of a revision that cannot be deleted.

use baton_apis::constants::ANNOTATION_ABANDON;
use baton_cluster::{Cluster, Write};
use baton_kubernetes::wire::MediaType;
use baton_text::output::format::name;
use baton_view::chain::target::Target;
use serde_json::json;

use crate::{error::Error, pausing::Pausable};

/// Lets a revision that is being archived or deleted leave behind the objects whose deletion the API
/// server refuses. Returns its name, as kubectl prints it.
///
/// # Errors
/// If the revision is neither being archived nor deleted, abandons its objects already, or a request
/// fails.
pub async fn abandon(cluster: &Cluster, target: &Target, dry_run: bool) -> Result<String, Error> {
    let Pausable::Revision(revision) = Pausable::read(cluster, target).await? else {
        return Err(Error::Impossible(format!(
            "{target} is a deployment: only a revision abandons objects"
        )));
    };
    let named = name(&revision.object);
    let impossible = |why: &str| Err(Error::Impossible(format!("{named} {why}")));
    let is_archiving = revision.spec.lifecycle_state == baton_apis::LifecycleState::Archived;
    if revision.is_archived() || !(revision.is_deleting() || is_archiving) {
        return impossible("is neither being archived nor deleted, so it has nothing to abandon");
    }
    if revision.annotation(ANNOTATION_ABANDON) == Some("true") {
        return impossible("abandons its objects already");
    }
    let patch = json!({
        "metadata": { "uid": revision.uid(), "annotations": { ANNOTATION_ABANDON: "true" } },
    });
    let write = Write::new(MediaType::MergePatch, dry_run);
    cluster.write(&revision.path(), write, &patch).await?;
    Ok(named)
}
