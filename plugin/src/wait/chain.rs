//! Waits for the rollout of a chain.

use std::{mem, time::Duration};

use baton_cluster::{Cluster, follower::Follower, lists::once};
use baton_text::rollout::message;
use baton_view::{
    chain::{
        Chain,
        question::{OneChain, OneRollout},
        target::Target,
    },
    content::Slices,
    lists::{MissingObject, Question},
    rollout::{Outcome, Rollout, judge, refusals::Refusals},
};
use k8s_openapi::jiff::Timestamp;

use super::{bars::Bars, deleted, until};
use crate::error::Error;

/// Reads a chain and judges its rollout.
pub(crate) async fn read(cluster: &Cluster, target: &Target) -> Result<(Chain, Rollout), Error> {
    let question = OneRollout(OneChain::new(target, &cluster.namespace));
    let missing = || Error::NotFound(question.0.missing().to_string());
    let (chain, slices) = once(cluster, &question).await?.ok_or_else(missing)?;
    let rollout = judge(&chain, &slices);
    Ok((chain, rollout))
}

/// The interval for checks of states that depend on the time.
const TICK: Duration = Duration::from_secs(5);

/// Follows a rollout, and shows its progress, until it is done, has failed, or the time is up
/// (zero: no limit). Returns the last state; `Underway` means that the time is up.
pub(crate) async fn follow(
    cluster: &Cluster,
    target: &Target,
    timeout: Duration,
) -> Result<(Chain, Rollout), Error> {
    follow_until(cluster, target, timeout, |_| false).await
}

/// As [`follow_unless_refused`]; a chain that is `superseded` is a failure as well.
pub(crate) async fn follow_applied(
    cluster: &Cluster,
    target: &Target,
    timeout: Duration,
    superseded: impl Fn(&Chain) -> bool,
) -> Result<(Chain, Rollout), Error> {
    let mut refusals = Refusals::default();
    follow_until(cluster, target, timeout, |chain| {
        superseded(chain) || refusals.stand(chain, Timestamp::now())
    })
    .await
}

/// As [`follow`]; a persistent refusal is a failure as well.
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
    let question = OneRollout(OneChain::new(target, &cluster.namespace));
    let missing = question.0.missing();
    let look = async |last: Option<&(Chain, Slices)>| {
        let (chain, slices) = last?;
        let mut rollout = judge(chain, slices);
        if rollout.outcome == Outcome::Underway && is_refused(chain) {
            rollout.outcome = Outcome::Failed;
        }
        if rollout.outcome == Outcome::Underway {
            shown.count(rollout.ready, rollout.of, &message(&rollout));
            return None;
        }
        Some(rollout)
    };
    let (last, rollout) = watch(cluster, target, question, missing, timeout, look).await?;
    let (chain, slices) = last.unwrap_or_default();
    let rollout = rollout.unwrap_or_else(|| judge(&chain, &slices));
    Ok((chain, rollout))
}

/// Watches a chain until `look` finds the wanted state, or the time is up (zero: no limit).
///
/// `look` is called after each change, and every few seconds. Returns the last chain and the value
/// of `look`. A chain that does not exist is an error, unless `look` accepts that.
pub(crate) async fn watch_until<T>(
    cluster: &Cluster,
    target: &Target,
    timeout: Duration,
    mut look: impl AsyncFnMut(Option<&Chain>) -> Option<T>,
) -> Result<(Option<Chain>, Option<T>), Error> {
    let question = OneChain::new(target, &cluster.namespace);
    let missing = question.missing();
    watch(cluster, target, question, missing, timeout, &mut look).await
}

async fn watch<A, Q: Question<Answer = Option<A>>, T>(
    cluster: &Cluster,
    target: &Target,
    question: Q,
    missing: MissingObject,
    timeout: Duration,
    mut look: impl AsyncFnMut(Option<&A>) -> Option<T>,
) -> Result<(Option<A>, Option<T>), Error> {
    let mut missing = Error::NotFound(missing.to_string());
    let mut follower = Follower::start(cluster, question).await?;
    let found = until(&mut follower, target, timeout, Some(TICK), async |last| {
        let found = look(last.as_ref()).await;
        let missing = mem::replace(&mut missing, deleted(target));
        let is_gone = found.is_none() && last.is_none();
        found.map(Ok).or_else(|| is_gone.then_some(Err(missing)))
    });
    let found = found.await?.transpose()?;
    Ok((follower.into_last(), found))
}
