//! Asking the server what applying something would do.

use baton::engine::revision::Desired;
use baton_apis::constants::FIELD_MANAGER;

use crate::{connect::Cluster, error::Error};

/// URL path of a dry-run apply of an object as the manager would send it; `None` when its kind is not
/// served, or its name cannot stand in a path.
///
/// # Errors
/// The server cannot be asked what it serves.
pub async fn path(
    cluster: &Cluster,
    object: &Desired,
    options: &str,
) -> Result<Option<String>, Error> {
    let Some(resource) = cluster.resource(&object.gvk).await? else {
        return Ok(None);
    };
    let path = resource.path_of(&object.gvk, &object.key).ok();
    Ok(path.map(|path| {
        format!("{path}?fieldManager={FIELD_MANAGER}&fieldValidation=Ignore&dryRun=All{options}")
    }))
}
