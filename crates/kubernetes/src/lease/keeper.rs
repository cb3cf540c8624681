//! Renews the lease while this process leads, and gives it back.

use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout_at};
use tracing::warn;

use super::candidate::{AttemptOutcome, Candidate, WrittenLease, changed_meanwhile, with_spec};
use super::record::{claimed, holder, released};
use super::{ATTEMPT, LeaseLost};
use crate::error::request_failure;
use crate::fence::{Fence, Moment, Term};

/// Renews an acquired lease.
#[derive(Debug)]
pub(super) struct LeaseRenewer {
    pub(super) candidate: Candidate,
    pub(super) grant: WrittenLease,
    pub(super) fence: Fence,
}

impl LeaseRenewer {
    /// Renews until it is stopped, and then returns itself, or until the lease is lost, and then
    /// returns `None`.
    pub(super) async fn renew_until(
        mut self,
        report: watch::Sender<Option<LeaseLost>>,
        mut stop: oneshot::Receiver<()>,
    ) -> Option<Self> {
        let timing = self.candidate.params.timing;
        let lease = self.candidate.params.path();
        let mut next = self.grant.since + timing.retry;
        let mut cause = "no answer from the API server".to_owned();
        loop {
            tokio::select! {
                biased;
                _ = &mut stop => return Some(self),
                () = sleep_until(next) => {}
            }
            let deadline = self.grant.since + timing.renew_deadline;
            let attempt = deadline.min(Instant::now() + ATTEMPT);
            match timeout_at(attempt, self.renew()).await {
                Ok(Ok(AttemptOutcome::Won(grant))) => {
                    self.grant = grant;
                    self.allow_writes();
                }
                Ok(Ok(AttemptOutcome::Held { holder })) => {
                    self.fence.lose();
                    report.send_replace(Some(LeaseLost::TakenOver { lease, holder }));
                    return None;
                }
                Ok(Ok(AttemptOutcome::Restored)) => {
                    self.fence.lose();
                    report.send_replace(Some(LeaseLost::Restored { lease }));
                    return None;
                }
                Ok(Ok(AttemptOutcome::Raced)) => {}
                Ok(Err(error)) => {
                    cause = request_failure(&error);
                    warn!(lease, error = cause, "cannot renew the lease, trying again");
                }
                Err(_elapsed) => {
                    warn!(lease, "no answer to the renewal of the lease, trying again");
                }
            }
            let now = Instant::now();
            let deadline = self.grant.since + timing.renew_deadline;
            if now >= deadline {
                self.fence.lose();
                report.send_replace(Some(LeaseLost::NotRenewed { lease, cause }));
                return None;
            }
            next = deadline.min(now + timing.retry);
        }
    }

    /// Allows writes for the last granted term.
    pub(super) fn allow_writes(&self) {
        let timing = self.candidate.params.timing;
        self.fence.allow_during(Term {
            since: self.grant.sent,
            renew_by: timing.renew_deadline,
            duration: timing.duration,
        });
    }

    /// Writes the next renewal. Another holder in the lease means that the lease is lost.
    async fn renew(&mut self) -> Result<AttemptOutcome, kube::Error> {
        let Candidate { api, params, .. } = &self.candidate;
        let lease = &self.grant.lease;
        let claim = claimed(
            lease.spec.as_ref(),
            &params.identity,
            params.timing.duration,
            Timestamp::now(),
        );
        let (since, sent) = (Instant::now(), Moment::now());
        match api
            .replace(
                &params.name,
                &PostParams::default(),
                &with_spec(lease, claim),
            )
            .await
        {
            Ok(lease) => Ok(self.candidate.won(lease, since, sent)),
            Err(error) if changed_meanwhile(&error, true) => {
                // The lease was written or deleted meanwhile, or an earlier renewal arrived whose
                // answer was lost. The record counts as observed for the first time, so no other
                // holder is ever outwaited here.
                self.candidate.observed = None;
                self.candidate.attempt().await
            }
            Err(error) => Err(error),
        }
    }

    /// Clears the holder, unless another process holds the lease by now.
    pub(super) async fn release(self) -> Result<(), kube::Error> {
        self.fence.close();
        let Candidate { api, params, .. } = &self.candidate;
        let mut lease = *self.grant.lease;
        loop {
            let spec = lease.spec.clone().unwrap_or_default();
            if holder(&spec) != Some(&params.identity) {
                return Ok(());
            }
            let vacant = with_spec(&lease, released(&spec, Timestamp::now()));
            match api
                .replace(&params.name, &PostParams::default(), &vacant)
                .await
            {
                Ok(_) => return Ok(()),
                Err(error) if changed_meanwhile(&error, true) => {
                    match api.get_opt(&params.name).await? {
                        Some(found) => lease = found,
                        None => return Ok(()),
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }
}
