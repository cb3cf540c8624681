//! Changes of deployments to sites.

use baton_apis::SiteDeployment;
use baton_cluster::{Cluster, Write, lists::once};
use baton_kubernetes::wire::MediaType;
use baton_text::fleet::steer::{not_kept, refused};
use baton_view::{
    lists::Question,
    sites::{
        question::SiteQuestion,
        record::Records,
        steer::{self, Abort, Refusal, VersionRollback},
        target::SiteTarget,
    },
};
use jiff::Timestamp;

use crate::{error::Error, version::SpecVersion};

/// Reads a deployment or an application, or objects that belong to it.
///
/// # Errors
/// If the object does not exist or cannot be read, or its kind is not served.
pub async fn read<T>(cluster: &Cluster, target: &SiteTarget) -> Result<T, Error>
where
    SiteQuestion<T>: Question<Answer = T>,
{
    let question = SiteQuestion::new(target, &cluster.namespace);
    Ok(once(cluster, &question).await?)
}

/// Pauses or resumes a deployment to sites. Returns true if it was changed.
///
/// # Errors
/// If the deployment is being deleted, or a request fails.
pub async fn pause(
    cluster: &Cluster,
    target: &SiteTarget,
    is_paused: bool,
    dry_run: bool,
) -> Result<bool, Error> {
    let deployment: SiteDeployment = read(cluster, target).await?;
    let patch = steer::pause(&deployment, is_paused)
        .map_err(|refusal| Error::Impossible(refused(&target.full(), &refusal)))?;
    let Some(patch) = patch else {
        return Ok(false);
    };
    let write = Write::new(MediaType::MergePatch, dry_run);
    let url = target.path(&cluster.namespace);
    cluster.write(&url, write, &patch).await?;
    Ok(true)
}

/// Lets a deployment select its sites again, from `now` on.
///
/// # Errors
/// If that is refused, or a request fails.
pub async fn redeploy(
    cluster: &Cluster,
    target: &SiteTarget,
    now: Timestamp,
    dry_run: bool,
) -> Result<(), Error> {
    let deployment: SiteDeployment = read(cluster, target).await?;
    let patch = steer::redeploy(&deployment, now).map_err(|refusal| refuse(target, &refusal))?;
    let write = Write::new(MediaType::MergePatch, dry_run);
    let url = target.path(&cluster.namespace);
    cluster.write(&url, write, &patch).await?;
    Ok(())
}

/// Aborts the rollout of a deployment: no further site gets its version. With `rollout`, no other rollout
/// is aborted.
///
/// # Errors
/// If there is nothing to abort, or the deployment has changed in the meantime.
pub async fn abort(
    cluster: &Cluster,
    target: &SiteTarget,
    rollout: Option<i64>,
    dry_run: bool,
) -> Result<Abort, Error> {
    let deployment: SiteDeployment = read(cluster, target).await?;
    let abort = steer::abort(&deployment).map_err(|refusal| refuse(target, &refusal))?;
    let overtaken = || format!("{target} has changed since it was read; nothing was aborted");
    if rollout.is_some_and(|rollout| rollout != abort.rollout) {
        return Err(Error::Impossible(overtaken()));
    }
    if let Some(patch) = &abort.patch {
        let write = Write::new(MediaType::JsonPatch, dry_run);
        let url = target.path(&cluster.namespace);
        let written = cluster.write(&url, write, patch).await;
        written.map_err(|error| error.of_write(overtaken))?;
    }
    Ok(abort)
}

/// Sends an older version to all sites; the previous one without `version`. The version has to be kept.
/// With `only`, a deployment in another state is not changed.
///
/// # Errors
/// If the rollback is refused, or the deployment has changed in the meantime.
pub async fn roll_back(
    cluster: &Cluster,
    target: &SiteTarget,
    version: Option<&str>,
    force: bool,
    only: Option<&SpecVersion>,
    dry_run: bool,
) -> Result<VersionRollback, Error> {
    let deployment: SiteDeployment = read(cluster, target).await?;
    let overtaken = || format!("{target} has changed since it was read; nothing was rolled back");
    if only.is_some_and(|only| *only != SpecVersion::of(&deployment.metadata)) {
        return Err(Error::Impossible(overtaken()));
    }
    let found =
        steer::rollback(&deployment, version, force).map_err(|refusal| refuse(target, &refusal))?;
    let Some(patch) = &found.patch else {
        return Ok(found);
    };
    // A version that is not kept would stop the rollout, which would wait for ever.
    let application = SiteTarget::application(&deployment.spec.application);
    let records: Records = read(cluster, &application).await?;
    if records.version(&found.version).is_none() {
        return Err(Error::NotFound(not_kept(&found.version, &records)));
    }
    let write = Write::new(MediaType::JsonPatch, dry_run);
    let url = target.path(&cluster.namespace);
    let written = cluster.write(&url, write, patch).await;
    written.map_err(|error| error.of_write(overtaken))?;
    Ok(found)
}

fn refuse(target: &SiteTarget, refusal: &Refusal) -> Error {
    Error::Impossible(refused(target, refusal))
}
