//! Waiting for what becomes of a chain.

use std::{mem, time::Duration};

use baton_view::{
    chain::{Chain, target::Target},
    content::Slices,
    rollout::{Outcome, Rollout, judge, refusals::Refusals},
};
use k8s_openapi::jiff::Timestamp;

use super::{bars::Bars, deleted, follower::Follower, until};
use crate::{cluster::lists, connect::Cluster, error::Error, text::rollout::message};

/// The slices of the revision that is judged. Nobody writes them again, so they are read once per revision.
#[derive(Debug, Default)]
pub(crate) struct SubjectSlices {
    /// Uid of the revision.
    read_for: Option<String>,
    slices: Slices,
}

impl SubjectSlices {
    /// Those of a chain's revision; no request when it names none.
    pub(crate) async fn of(&mut self, cluster: &Cluster, chain: &Chain) -> &Slices {
        if let Some(revision) = chain.subject()
            && self.read_for.as_deref() != Some(revision.uid())
        {
            // Without the right to read them everything but the number of objects is known.
            let read = lists::slices(cluster, [revision]).await;
            self.slices = read.unwrap_or_default();
            self.read_for = Some(revision.uid().to_owned());
        }
        &self.slices
    }
}

/// How often what only time decides is looked at.
const TICK: Duration = Duration::from_secs(5);

/// Follows a rollout with progress until it is done, has failed, or the time is up (zero: no limit). Returns
/// the last state; `Underway` means that the time was up.
pub(crate) async fn follow(
    cluster: &Cluster,
    target: &Target,
    timeout: Duration,
) -> Result<(Chain, Rollout), Error> {
    follow_until(cluster, target, timeout, |_| false).await
}

/// As [`follow`]; a refusal that stands is a failure as well.
pub(crate) async fn follow_unless_refused(
    cluster: &Cluster,
    target: &Target,
    timeout: Duration,
) -> Result<(Chain, Rollout), Error> {
    let mut refusals = Refusals::default();
    follow_until(cluster, target, timeout, |chain| {
        refusals.stand(chain, Timestamp::now())
    })
    .await
}

async fn follow_until(
    cluster: &Cluster,
    target: &Target,
    timeout: Duration,
    mut is_refused: impl FnMut(&Chain) -> bool,
) -> Result<(Chain, Rollout), Error> {
    let mut shown = Bars::new("");
    let mut slices = SubjectSlices::default();
    let mut last = None;
    let (chain, _) = watch_until(cluster, target, timeout, async |chain| {
        let chain = chain?;
        let mut rollout = judge(chain, slices.of(cluster, chain).await);
        if rollout.outcome == Outcome::Underway && is_refused(chain) {
            rollout.outcome = Outcome::Failed;
        }
        let is_over = rollout.outcome != Outcome::Underway;
        if !is_over {
            shown.count(rollout.ready, rollout.of, &message(&rollout));
        }
        last = Some(rollout);
        is_over.then_some(())
    })
    .await?;
    let chain = chain.unwrap_or_default();
    let rollout = last.unwrap_or_else(|| judge(&chain, &Slices::default()));
    Ok((chain, rollout))
}

/// Watches a chain until `look` finds in it what is waited for, or the time is up (zero: no limit). It looks after each
/// change, and every few seconds. Returns the last chain and what was found. That there is no chain (any more) is an
/// error, unless `look` waits for that.
pub(crate) async fn watch_until<T>(
    cluster: &Cluster,
    target: &Target,
    timeout: Duration,
    mut look: impl AsyncFnMut(Option<&Chain>) -> Option<T>,
) -> Result<(Option<Chain>, Option<T>), Error> {
    let question = lists::question(cluster, target);
    let mut missing = Error::NotFound(question.missing().to_string());
    let mut follower = Follower::start(cluster, question).await?;
    let found = until(&mut follower, target, timeout, Some(TICK), async |chain| {
        let found = look(chain.as_ref()).await;
        let missing = mem::replace(&mut missing, deleted(target));
        let is_gone = found.is_none() && chain.is_none();
        found.map(Ok).or_else(|| is_gone.then_some(Err(missing)))
    });
    let found = found.await?.transpose()?;
    Ok((follower.into_last(), found))
}
