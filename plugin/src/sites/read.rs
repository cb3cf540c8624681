//! Reads deployments to sites and their applications.

use std::time::Duration;

use baton_cluster::{Cluster, follower::Follower};
use baton_text::fleet::line;
use baton_view::{
    lists::Question,
    rollout::Outcome,
    sites::{
        fleet::Fleet, observed::Observed, question::SiteQuestion, target::SiteTarget,
        verdict::judge,
    },
};
use k8s_openapi::jiff::Timestamp;

use crate::{
    error::Error,
    wait::{
        bars::{
            Bars,
            sites::{NOUN, bars},
        },
        until,
    },
};

/// Reads a deployment or an application, or objects that belong to it.
///
/// # Errors
/// If the object does not exist or cannot be read, or its kind is not served.
pub(crate) async fn read<T>(cluster: &Cluster, target: &SiteTarget) -> Result<T, Error>
where
    SiteQuestion<T>: Question<Answer = T>,
{
    Ok(baton_steering::sites::read(cluster, target).await?)
}

/// Follows a deployment with its sites until its rollout is complete or has failed, or the timeout
/// expires. Zero means no timeout.
///
/// Shows the progress of the waves. Returns the last state: a rollout that is underway means that
/// the timeout expired.
///
/// # Errors
/// The errors of [`read`], and an error if the deployment is deleted.
pub(crate) async fn watch(
    cluster: &Cluster,
    target: &SiteTarget,
    timeout: Duration,
) -> Result<Observed, Error> {
    let question = SiteQuestion::<Observed>::new(target, &cluster.namespace);
    let mut follower = Follower::start(cluster, question).await?;
    let mut shown = Bars::new(NOUN);
    until(&mut follower, target, timeout, None, async |observed| {
        let verdict = judge(&observed.deployment);
        if verdict.outcome != Outcome::Underway {
            return Some(());
        }
        let fleet = Fleet::of(observed, Timestamp::now());
        shown.show(&bars(&fleet), &line(observed, &verdict, ": "));
        None
    })
    .await?;
    Ok(follower.into_last())
}
