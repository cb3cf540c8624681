//! Changes of Applications and their Releases.

use baton_apis::kinds;
use baton_cluster::{Cluster, Write, lists::once};
use baton_kubernetes::wire::MediaType;
use baton_text::application::refusal::refused;
use baton_view::applications::{
    clusters::clusters,
    observed::Observed,
    question::OneApplication,
    steer::{self, Abort, Promotion, Rollback, StepChoice},
    target::AppTarget,
};
use http::Method;
use serde_json::json;

use crate::{error::Error, version::SpecVersion};

/// The number of attempts for an Application whose status changes in the meantime.
const ROUNDS: usize = 5;

/// Reads the Application or the Release that a person named.
///
/// # Errors
/// If it does not exist, or cannot be read.
pub async fn read(cluster: &Cluster, target: &AppTarget) -> Result<Observed, Error> {
    Ok(once(cluster, &question(cluster, target)).await?)
}

/// The question for the Application or the Release that a person named.
pub fn question(cluster: &Cluster, target: &AppTarget) -> OneApplication {
    OneApplication {
        target: target.clone(),
        namespace: cluster.namespace.clone(),
    }
}

/// Pauses or resumes the rollout of an Application. Returns true if it was changed.
///
/// # Errors
/// If the Application is gone or being deleted, or a request fails.
pub async fn pause(
    cluster: &Cluster,
    target: &AppTarget,
    is_paused: bool,
    dry_run: bool,
) -> Result<bool, Error> {
    let observed = read(cluster, target).await?;
    let patch = steer::pause(&observed, is_paused)
        .map_err(|refusal| Error::Impossible(refused(&observed, &refusal)))?;
    let Some(patch) = patch else {
        return Ok(false);
    };
    let write = Write::new(MediaType::MergePatch, dry_run);
    let url = target.kind.path_of(Some(&cluster.namespace), &target.name);
    cluster.write(&url, write, &patch).await?;
    Ok(true)
}

/// Sends the newest Release of an Application to another step.
///
/// # Errors
/// If the step is refused, or a request fails.
pub async fn promote(
    cluster: &Cluster,
    observed: &Observed,
    choice: StepChoice,
    force: bool,
    dry_run: bool,
) -> Result<Promotion, Error> {
    let promotion = steer::promote(observed, choice, force)
        .map_err(|refusal| Error::Impossible(refused(observed, &refusal)))?;
    if let Some(patch) = &promotion.patch {
        let url = kinds::RELEASE.path_of(Some(&cluster.namespace), &promotion.release);
        let write = Write::new(MediaType::JsonPatch, dry_run);
        let written = cluster.write(&url, write, patch).await;
        let overtaken = || {
            let release = &promotion.release;
            format!("release {release} has changed since it was read; nothing was promoted")
        };
        written.map_err(|error| error.of_write(overtaken))?;
    }
    Ok(promotion)
}

/// Decides about an abort: the newest Release is deleted, and the one before it comes back.
///
/// # Errors
/// If that is refused.
pub fn plan_abort(observed: &Observed, force: bool) -> Result<Abort, Error> {
    let refusal = |refusal| Error::Impossible(refused(observed, &refusal));
    steer::abort(observed, force).map_err(refusal)
}

/// The effects of an abort, in a line each: the Releases, and the pods that will be gone.
pub fn effects(observed: &Observed, abort: &Abort) -> Vec<String> {
    let mut lines = vec![format!(
        "Release {} is deleted, and {} comes back.",
        abort.release, abort.back_to
    )];
    let release = observed.release(&abort.release);
    for cluster in release.map_or_else(Vec::new, |release| clusters(observed, release)) {
        let pods = cluster
            .capacity
            .and_then(|capacity| capacity.available_pods);
        let percent = cluster.traffic.and_then(|traffic| traffic.service_percent);
        let percent = percent.map(|percent| format!(", which get {percent}% of the traffic"));
        if let Some(pods) = pods.filter(|pods| *pods > 0) {
            let percent = percent.unwrap_or_default();
            lines.push(format!("In {} it has {pods} pods{percent}.", cluster.name));
        }
    }
    lines
}

/// Deletes the Release of an abort.
///
/// # Errors
/// If the Release has changed since it was read, or the request fails.
pub async fn abort(cluster: &Cluster, abort: &Abort, dry_run: bool) -> Result<(), Error> {
    let (release, mut options) = (&abort.release, abort.options.clone());
    if dry_run {
        options["dryRun"] = json!(["All"]);
    }
    let path = kinds::RELEASE.path_of(Some(&cluster.namespace), release);
    let body = Some((MediaType::Json, &options));
    match cluster.send(Method::DELETE, &path, body).await {
        Err(error) if error.is_code(409) => Err(Error::Impossible(format!(
            "release {release} has changed since it was read; nothing was deleted"
        ))),
        answer => Ok(answer.map(drop)?),
    }
}

/// Writes the environment of an earlier Release into its Application. Tries again if only the status has
/// changed since it was read. With `only`, an Application in another state is not changed.
///
/// # Errors
/// If the rollback is refused, or the template was changed in the meantime.
pub async fn roll_back(
    cluster: &Cluster,
    target: &AppTarget,
    to: Option<i64>,
    force: bool,
    only: Option<&SpecVersion>,
    dry_run: bool,
) -> Result<(AppTarget, Rollback), Error> {
    let mut first: Option<Observed> = None;
    for round in 1.. {
        let observed = read(cluster, target).await?;
        let application = observed.application.as_ref();
        let now = application.map(|it| SpecVersion::of(&it.metadata));
        let is_other = only.is_some() && only != now.as_ref();
        let other_template = |first: &Observed| first.template() != observed.template();
        if is_other || first.as_ref().is_some_and(other_template) {
            return Err(Error::Impossible(format!(
                "{} has changed since it was read; nothing was rolled back",
                observed.target()
            )));
        }
        let found = steer::rollback(&observed, to, force)
            .map_err(|refusal| Error::Impossible(refused(&observed, &refusal)))?;
        let Some(patch) = &found.patch else {
            return Ok((observed.target(), found));
        };
        let url = kinds::APPLICATION.path_of(Some(&cluster.namespace), &observed.name);
        let write = Write::new(MediaType::JsonPatch, dry_run);
        match cluster.write(&url, write, patch).await {
            Ok(_) => return Ok((observed.target(), found)),
            Err(error) if error.is_code(409) && round < ROUNDS => first = Some(observed),
            Err(error) => return Err(error.into()),
        }
    }
    Err(Error::Impossible(format!(
        "{target} has changed during each attempt; nothing was rolled back"
    )))
}
