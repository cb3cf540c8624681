//! Reads an Application once, or waits for its rollout.

use std::time::Duration;

use baton_cluster::{Cluster, follower::Follower};
use baton_steering::releases::{self, question};
use baton_text::application::verdict::message;
use baton_view::applications::{observed::Observed, state::judge, target::AppTarget};

use super::{bars::Bars, until};
use crate::{
    error::Error,
    wait::bars::application::{NOUN, bars},
};

/// Reads the Application or the Release that a user named.
pub(crate) async fn read(cluster: &Cluster, target: &AppTarget) -> Result<Observed, Error> {
    Ok(releases::read(cluster, target).await?)
}

/// Watches an Application until `look` returns a value, or the time is up (zero: no limit), and
/// shows the progress of its clusters. Returns the last state and the value of `look`.
///
/// # Errors
/// Those of [`read`], and that the named object does not exist any more.
pub(crate) async fn watch_until<T>(
    cluster: &Cluster,
    target: &AppTarget,
    timeout: Duration,
    mut look: impl FnMut(&Observed) -> Option<T>,
) -> Result<(Observed, Option<T>), Error> {
    let mut follower = Follower::start(cluster, question(cluster, target)).await?;
    let mut shown = Bars::new(NOUN);
    let found = until(&mut follower, target, timeout, None, async |observed| {
        let found = look(observed);
        if found.is_none() {
            shown.show(&bars(observed), &message(&judge(observed)));
        }
        found
    });
    let found = found.await?;
    Ok((follower.into_last(), found))
}
