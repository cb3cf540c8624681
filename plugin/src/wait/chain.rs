//! Waiting for what becomes of a chain.

use std::{mem, time::Duration};

use baton_view::{
    chain::{self, Chain, target::Target},
    content::Slices,
    lists::ListRequest,
    rollout::{Outcome, Rollout, judge, refusals::Refusals},
};
use k8s_openapi::jiff::Timestamp;

use super::{Follow, bars::Bars, deleted, until};
use crate::{
    cluster::lists::{self, not_found},
    connect::Cluster,
    error::Error,
    live::Watches,
    text::rollout::message,
};

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
    let place = cluster.namespace_of(target.candidates()[0]);
    let mut missing = not_found(target, place);
    let mut follower = Follower::start(cluster, target).await?;
    let found = until(&mut follower, target, timeout, Some(TICK), async |chain| {
        let found = look(chain.as_ref()).await;
        let missing = mem::replace(&mut missing, deleted(target));
        let is_gone = found.is_none() && chain.is_none();
        found.map(Ok).or_else(|| is_gone.then_some(Err(missing)))
    });
    let found = found.await?.transpose()?;
    Ok((follower.last, found))
}

/// Follows the chain of one target.
struct Follower {
    watches: Watches,
    deployments: ListRequest,
    revisions: ListRequest,
    target: Target,
    last: Option<Chain>,
}

impl Follower {
    /// Starts watching the deployments and the revisions of the scope and the namespace of a target.
    async fn start(cluster: &Cluster, target: &Target) -> Result<Self, Error> {
        let kind = target.candidates()[0];
        let namespace = cluster.namespace_of(kind);
        // A list first: a watch would retry where an error has to be reported.
        let chains = lists::chains(cluster, kind, namespace).await?;
        let deployments = ListRequest::all(kind.deployment().path(namespace));
        let revisions = ListRequest::all(kind.revision().path(namespace));
        let mut watches = Watches::new(cluster);
        watches.set([deployments.clone(), revisions.clone()]);
        Ok(Self {
            watches,
            deployments,
            revisions,
            target: target.clone(),
            last: chain::pick(chains, target),
        })
    }
}

impl Follow for Follower {
    /// `None` when what the target names is gone, or not there yet.
    type Seen = Option<Chain>;

    fn last(&self) -> &Option<Chain> {
        &self.last
    }

    /// That it is gone is seen in the chain.
    async fn next(&mut self) -> bool {
        self.watches.changed().await;
        let objects = |source| self.watches.objects(source).cloned().collect();
        let chains = lists::from_objects(objects(&self.deployments), objects(&self.revisions));
        let now = chain::pick(chains, &self.target);
        if now.is_some() || self.trouble().is_none() {
            self.last = now;
        }
        true
    }

    fn trouble(&self) -> Option<&str> {
        self.watches
            .trouble(&self.deployments)
            .or_else(|| self.watches.trouble(&self.revisions))
    }
}
