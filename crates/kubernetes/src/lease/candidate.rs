//! Reads the lease, and takes it if that is allowed.

use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, PostParams};
use kube::runtime::wait::await_condition;
use kube::{Api, Client};
use tokio::time::{Instant, sleep};
use tracing::debug;

use super::LeaseParams;
use super::record::{LeaseState, Sighting, claimed, holder, lease_state};
use crate::backoff::jittered;
use crate::fence::Moment;
use crate::metadata::number;

/// The last written lease, and the time at which the write was sent.
#[derive(Debug)]
pub(super) struct WrittenLease {
    pub(super) lease: Box<Lease>,
    pub(super) since: Instant,
    /// The same moment, on the clock of the fence.
    pub(super) sent: Moment,
}

/// The outcome of one attempt at the lease.
#[derive(Debug)]
pub(super) enum AttemptOutcome {
    Won(WrittenLease),
    Held {
        holder: String,
    },
    /// Another process wrote in between.
    Raced,
    /// The version of the lease has gone back.
    Restored,
}

/// A candidate for the lease, and its observations so far.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) api: Api<Lease>,
    pub(super) params: LeaseParams,
    pub(super) observed: Option<Sighting>,
    /// The highest observed version of the lease.
    version: u64,
}

impl Candidate {
    pub(super) fn new(client: Client, params: LeaseParams) -> Self {
        Self {
            api: Api::namespaced(client, &params.namespace),
            params,
            observed: None,
            version: 0,
        }
    }

    /// Reads the lease and takes it if that is allowed.
    pub(super) async fn attempt(&mut self) -> Result<AttemptOutcome, kube::Error> {
        let found = self.api.get_opt(&self.params.name).await?;
        if found.as_ref().is_some_and(|lease| self.is_older(lease)) {
            return Ok(AttemptOutcome::Restored);
        }
        let me = &self.params.identity;
        let spec = found
            .as_ref()
            .map(|lease| lease.spec.clone().unwrap_or_default());
        if let Some(spec) = &spec {
            let now = Instant::now();
            let sighting = Sighting::update(self.observed.take(), spec, now);
            let sighting = self.observed.insert(sighting);
            if let LeaseState::Held { holder } = lease_state(sighting, me, now) {
                return Ok(AttemptOutcome::Held { holder });
            }
        }
        let claim = claimed(
            spec.as_ref(),
            me,
            self.params.timing.duration,
            Timestamp::now(),
        );
        let (since, sent) = (Instant::now(), Moment::now());
        let params = PostParams::default();
        let annotations = self.params.annotations.clone();
        let written = if let Some(lease) = &found {
            let mut lease = with_spec(lease, claim);
            let all = lease.metadata.annotations.get_or_insert_default();
            all.extend(annotations);
            self.api.replace(&self.params.name, &params, &lease).await
        } else {
            let name = Some(self.params.name.clone());
            let metadata = ObjectMeta {
                name,
                annotations: Some(annotations),
                ..ObjectMeta::default()
            };
            self.api
                .create(
                    &params,
                    &Lease {
                        metadata,
                        spec: Some(claim),
                    },
                )
                .await
        };
        match written {
            Ok(lease) => Ok(self.won(lease, since, sent)),
            Err(error) if changed_meanwhile(&error, found.is_some()) => Ok(AttemptOutcome::Raced),
            Err(error) => Err(error),
        }
    }

    /// The outcome of a successful claim: a grant, or [`AttemptOutcome::Restored`] if the lease is older
    /// than one before.
    pub(super) fn won(&mut self, lease: Lease, since: Instant, sent: Moment) -> AttemptOutcome {
        if self.is_older(&lease) {
            return AttemptOutcome::Restored;
        }
        AttemptOutcome::Won(WrittenLease {
            lease: Box::new(lease),
            since,
            sent,
        })
    }

    /// True if the lease has a lower version than one that was observed before. Versions count up
    /// in the whole cluster, so this happens only if the cluster was restored from a backup.
    fn is_older(&mut self, lease: &Lease) -> bool {
        let version = lease.metadata.resource_version.as_deref();
        let version = number(version.unwrap_or_default());
        let is_older = version != 0 && version < self.version;
        self.version = self.version.max(version);
        is_older
    }

    /// Waits for the next round: a moment, or until the lease becomes vacant.
    pub(super) async fn pause(&self, vacancy: &mut Option<BoxFuture<'static, ()>>) {
        let watch = vacancy.get_or_insert_with(|| {
            let (api, name) = (self.api.clone(), self.params.name.clone());
            let is_vacant = |lease: Option<&Lease>| {
                lease
                    .and_then(|lease| lease.spec.as_ref())
                    .and_then(holder)
                    .is_none()
            };
            async move {
                if let Err(error) = await_condition(api, &name, is_vacant).await {
                    debug!(%error, "cannot watch the lease, polling it");
                    // Then the timer alone sets the pace of the rounds.
                    std::future::pending::<()>().await;
                }
            }
            .boxed()
        });
        tokio::select! {
            () = sleep(jittered(self.params.timing.retry, 1.0..1.2)) => {}
            () = watch => *vacancy = None,
        }
    }
}

/// True if a write failed because the object is no longer in the state that the decision was made
/// on.
pub(super) fn changed_meanwhile(error: &kube::Error, existed: bool) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409 || (existed && status.code == 404))
}

/// The lease with another record and the same `resourceVersion`.
pub(super) fn with_spec(lease: &Lease, spec: LeaseSpec) -> Lease {
    Lease {
        spec: Some(spec),
        ..lease.clone()
    }
}
