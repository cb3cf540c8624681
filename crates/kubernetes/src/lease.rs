//! Leader election: only one manager is active at a time.
//!
//! The record is a Lease in the form of client-go, under the name that Package Operator uses. So a
//! Package Operator that was left running in the same namespace and Baton are never active at the
//! same time: the holder of the lease is active, the other one waits.
//!
//! # Guarantees
//!
//! - Every write to the lease carries the `resourceVersion` that the decision was made on. Of two
//!   candidates that find the lease vacant, one gets it.
//! - The clock of another machine is not trusted. A holder counts as gone once its record has not
//!   changed for the duration that the record states, as measured by this process since it first
//!   observed the record.
//! - A leader that cannot renew gives up [`Timing::renew_deadline`] after its last renewal was
//!   *sent*, which is before another process may take over. [`Leadership::lost`] resolves then, and
//!   the process has to stop writing at once.
//! - Leaders and candidates detect a cluster that was restored from a backup by the version of its
//!   lease, before the cluster has caught up with the versions that they remember. Both give up.
//! - After [`Leadership::release`] the lease is vacant, which wakes a waiting candidate.
//! - Writes pass a [`Fence`] that is open while the lease is certainly held. If a process is
//!   stopped beyond that time, the fence is closed when the process continues, before its timers
//!   have fired.
//!
//! The crate kube-lease-manager is not used: it takes an expired lease over without a precondition,
//! so that two candidates can win for a moment, compares the holder's clock with its own, and its
//! release may clear a lease that another process has taken meanwhile.

mod candidate;
mod keeper;
mod record;

use std::{collections::BTreeMap, time::Duration};

use kube::Client;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tower::util::rng::{HasherRng, Rng as _};
use tracing::{info, warn};

use candidate::{AttemptOutcome, Candidate, WrittenLease};
use keeper::LeaseRenewer;

use crate::fence::Fence;

/// The Lease of Package Operator's manager.
pub const LEASE_NAME: &str = "8a4hp84a6s.package-operator-lock";

/// Time limit of one request. A silently dead connection costs this much, and the next attempt
/// opens another.
const ATTEMPT: Duration = Duration::from_secs(4);
/// Time limit of a release.
const RELEASE: Duration = Duration::from_secs(5);
/// Refusals in a row after which a candidate gives up. Rights and namespace may be created a moment
/// after the process starts.
const REFUSALS: u32 = 3;

/// The periods of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Time for which others leave the lease to a holder that does not renew it.
    pub duration: Duration,
    /// Time for which a leader continues without a renewal; shorter than `duration`.
    pub renew_deadline: Duration,
    /// Period of the renewals of a leader, and of the attempts of a candidate.
    pub retry: Duration,
}

impl Default for Timing {
    /// The values of the components of the Kubernetes control plane.
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry: Duration::from_secs(2),
        }
    }
}

/// A lease and a candidate for it.
#[derive(Clone, Debug)]
pub struct LeaseParams {
    /// Namespace of the lease.
    pub namespace: String,
    /// Name of the lease.
    pub name: String,
    /// Identity of the candidate. A candidate that finds its own identity in the lease takes the
    /// lease without waiting, so the identity has to be unique among the running processes.
    pub identity: String,
    /// The periods of the lease.
    pub timing: Timing,
    /// Annotations that a claim sets on the lease. Others stay.
    pub annotations: BTreeMap<String, String>,
}

impl LeaseParams {
    /// The lease of the manager in `namespace`. Without an identity, one is made of the host name
    /// and a random part.
    #[must_use]
    pub fn new(namespace: &str, identity: Option<&str>) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: LEASE_NAME.to_owned(),
            identity: identity.map_or_else(random_identity, str::to_owned),
            timing: Timing::default(),
            annotations: BTreeMap::new(),
        }
    }

    fn path(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// The error of a response that would be the same the next time; `None` if the next attempt may
    /// succeed.
    fn refusal(&self, error: &kube::Error) -> Option<AcquireError> {
        let kube::Error::Api(status) = error else {
            return None;
        };
        match status.code {
            401 | 403 => Some(AcquireError::Refused {
                lease: self.path(),
                cause: status.message.clone(),
            }),
            // Only a create is answered like this, and the missing object is the namespace.
            404 => Some(AcquireError::NoNamespace {
                namespace: self.namespace.clone(),
            }),
            _ => None,
        }
    }
}

fn random_identity() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let host = host
        .or_else(|| std::env::var("HOSTNAME").ok())
        .unwrap_or_default();
    let host = if host.trim().is_empty() {
        "baton"
    } else {
        host.trim()
    };
    format!("{host}_{:016x}", HasherRng::new().next_u64())
}

/// The lease can never be acquired.
#[derive(Debug, thiserror::Error)]
pub enum AcquireError {
    /// The namespace of the lease does not exist.
    #[error(
        "the namespace {namespace:?} for the lease does not exist; create it or choose another with --namespace"
    )]
    NoNamespace {
        /// Name of the namespace.
        namespace: String,
    },
    /// The cluster was restored from a backup.
    #[error(
        "the lease {lease} is older than before: the cluster was restored from a backup; this process exits, so that \
         it is started again with empty caches"
    )]
    Restored {
        /// Namespace and name of the lease.
        lease: String,
    },
    /// The lease may not be read or written.
    #[error(
        "the lease {lease} cannot be used: {cause}; \
         apply config/rbac/leader-election.yaml or run with --leader-elect=false"
    )]
    Refused {
        /// Namespace and name of the lease.
        lease: String,
        /// Message of the server.
        cause: String,
    },
}

/// The reason that a leader has lost the lease.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeaseLost {
    /// Another process holds the lease.
    #[error(
        "the lease {lease} was taken over by {holder:?}; \
         this process stops, so that two managers never write at the same time"
    )]
    TakenOver {
        /// Namespace and name of the lease.
        lease: String,
        /// Identity of the new holder.
        holder: String,
    },
    /// The cluster was restored from a backup. It has none of the writes since then, and uses the
    /// same versions again for other states, so no state in the memory of this process is valid.
    #[error(
        "the lease {lease} is older than before: the cluster was restored from a backup; this process exits, so that \
         it is started again with empty caches"
    )]
    Restored {
        /// Namespace and name of the lease.
        lease: String,
    },
    /// The lease could not be renewed in time.
    #[error(
        "the lease {lease} could not be renewed in time ({cause}); \
         this process stops, so that two managers never write at the same time"
    )]
    NotRenewed {
        /// Namespace and name of the lease.
        lease: String,
        /// The cause of the last failure.
        cause: String,
    },
}

/// Waits for the lease without a time limit, and opens `fence` while the lease is held.
///
/// A server that cannot be reached is retried. Drop the future to cancel: no lease is taken before
/// it resolves, except for the moment between the response of the server and the return.
///
/// # Errors
///
/// If the server refuses again and again; the text states in one line what to do.
pub async fn acquire(
    client: Client,
    params: LeaseParams,
    fence: Fence,
) -> Result<Leadership, AcquireError> {
    let mut candidate = Candidate::new(client, params);
    let mut vacancy = None;
    let mut refusals = 0;
    let mut logged = String::new();
    let mut log_once = |text: String| {
        if logged != text {
            info!("{text}");
            logged = text;
        }
    };
    info!(
        lease = candidate.params.path(),
        identity = candidate.params.identity,
        "waiting for the lease"
    );
    loop {
        match timeout(ATTEMPT, candidate.attempt()).await {
            Ok(Ok(AttemptOutcome::Won(grant))) => {
                info!(lease = candidate.params.path(), "leading");
                return Ok(Leadership::start(candidate, grant, fence));
            }
            Ok(Ok(AttemptOutcome::Held { holder })) => {
                refusals = 0;
                log_once(format!(
                    "the lease is held by {holder:?}, waiting until it is free"
                ));
            }
            Ok(Ok(AttemptOutcome::Restored)) => {
                let lease = candidate.params.path();
                return Err(AcquireError::Restored { lease });
            }
            Ok(Ok(AttemptOutcome::Raced)) => refusals = 0,
            Ok(Err(error)) => match candidate.params.refusal(&error) {
                Some(refusal) => {
                    refusals += 1;
                    if refusals >= REFUSALS {
                        return Err(refusal);
                    }
                    log_once(format!("{refusal}; trying again"));
                }
                None => log_once(format!(
                    "cannot read or write the lease, trying again: {}",
                    crate::error::request_failure(&error)
                )),
            },
            Err(_elapsed) => log_once("the API server does not answer, trying again".to_owned()),
        }
        candidate.pause(&mut vacancy).await;
    }
}

/// The lease held by this process, renewed in the background. If this is dropped without
/// [`Self::release`], the renewals end, and other candidates wait until the lease runs out.
#[derive(Debug)]
pub struct Leadership {
    path: String,
    lost: watch::Receiver<Option<LeaseLost>>,
    stop: Option<oneshot::Sender<()>>,
    fence: Fence,
    keeper: JoinHandle<Option<LeaseRenewer>>,
}

impl Leadership {
    fn start(candidate: Candidate, grant: WrittenLease, fence: Fence) -> Self {
        let path = candidate.params.path();
        let (report, lost) = watch::channel(None);
        let (stop, stopped) = oneshot::channel();
        let keeper = LeaseRenewer {
            candidate,
            grant,
            fence: fence.clone(),
        };
        // Not in the spawned task: a caller that has the `Leadership` may write.
        keeper.allow_writes();
        let keeper = tokio::spawn(keeper.renew_until(report, stopped));
        Self {
            path,
            lost,
            stop: Some(stop),
            fence,
            keeper,
        }
    }

    /// Resolves when the lease is lost. From then on the process must not write.
    pub async fn lost(&self) -> LeaseLost {
        let mut lost = self.lost.clone();
        let reason = lost
            .wait_for(Option::is_some)
            .await
            .ok()
            .and_then(|reason| reason.clone());
        // Without a reason the task that renews the lease has ended.
        let cause = "the task that renews it has ended".to_owned();
        reason.unwrap_or(LeaseLost::NotRenewed {
            lease: self.path.clone(),
            cause,
        })
    }

    /// Gives the lease back, so that a successor starts at once. Call it when no write is under way
    /// any more.
    ///
    /// Takes a few seconds at most. On failure a warning is logged, and the lease runs out by
    /// itself.
    pub async fn release(mut self) {
        if let Some(stop) = self.stop.take() {
            // A closed channel means that the lease is lost already.
            let _ = stop.send(());
        }
        let path = self.path.clone();
        let release = async {
            match (&mut self.keeper).await {
                Ok(Some(keeper)) => keeper.release().await,
                Ok(None) | Err(_) => Ok(()),
            }
        };
        match timeout(RELEASE, release).await {
            Ok(Ok(())) => info!(lease = path, "released the lease"),
            Ok(Err(error)) => warn!(
                lease = path,
                error = crate::error::request_failure(&error),
                "cannot release the lease, it expires by itself"
            ),
            Err(_elapsed) => warn!(
                lease = path,
                "cannot release the lease in time, it expires by itself"
            ),
        }
    }
}

impl Drop for Leadership {
    fn drop(&mut self) {
        self.keeper.abort();
        self.fence.close();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http::{Method, Request, Response};
    use http_body_util::BodyExt as _;
    use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
    use kube::client::Body;
    use parking_lot::Mutex;
    use serde_json::{Value, json};
    use tokio::time::Instant;
    use tower::BoxError;

    use super::*;

    /// The behaviour of the server that holds the lease.
    #[derive(Clone, Copy, PartialEq)]
    enum ServerBehaviour {
        Well,
        Silent,
        Forbids,
        LacksNamespace,
    }

    /// A server that holds one lease. Its requests and responses are those of a real one, but it
    /// has no watches.
    #[derive(Clone)]
    struct Server {
        state: Arc<Mutex<(ServerBehaviour, Option<Lease>, u64)>>,
    }

    impl Server {
        fn new(behaviour: ServerBehaviour, lease: Option<Lease>) -> Self {
            Self {
                state: Arc::new(Mutex::new((behaviour, lease, 1))),
            }
        }

        fn held_by(holder: &str, duration: i32) -> Self {
            let server = Self::new(ServerBehaviour::Well, None);
            server.write(Some(LeaseSpec {
                holder_identity: Some(holder.to_owned()),
                lease_duration_seconds: Some(duration),
                lease_transitions: Some(7),
                ..LeaseSpec::default()
            }));
            server
        }

        fn set_behaviour(&self, behaviour: ServerBehaviour) {
            self.state.lock().0 = behaviour;
        }

        /// Writes to the lease or deletes it, as another process.
        fn write(&self, spec: Option<LeaseSpec>) {
            let mut state = self.state.lock();
            state.2 += 1;
            let mut lease = Lease {
                spec,
                ..Lease::default()
            };
            lease.metadata.resource_version = Some(state.2.to_string());
            state.1 = lease.spec.is_some().then_some(lease);
        }

        fn spec(&self) -> LeaseSpec {
            self.state
                .lock()
                .1
                .clone()
                .and_then(|lease| lease.spec)
                .unwrap_or_default()
        }

        fn holder(&self) -> Option<String> {
            record::holder(&self.spec()).map(str::to_owned)
        }

        fn client(&self) -> Client {
            let server = self.clone();
            Client::new(
                tower::service_fn(move |request| server.clone().answer(request)),
                "default",
            )
        }

        async fn answer(self, request: Request<Body>) -> Result<Response<Body>, BoxError> {
            let (parts, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            if self.state.lock().0 == ServerBehaviour::Silent {
                std::future::pending::<()>().await;
            }
            let (status, answer) = self.decide(&parts.method, parts.uri.path(), &body)?;
            Ok(Response::builder()
                .status(status)
                .body(serde_json::to_vec(&answer)?.into())?)
        }

        fn decide(
            &self,
            method: &Method,
            path: &str,
            body: &[u8],
        ) -> Result<(u16, Value), BoxError> {
            let mut state = self.state.lock();
            let (behaviour, stored, version) = &mut *state;
            let refuse = |code: u16, message: &str| {
                let reason = match code {
                    403 => "Forbidden",
                    404 => "NotFound",
                    _ => "Conflict",
                };
                let status = json!({
                    "kind": "Status",
                    "status": "Failure",
                    "code": code,
                    "reason": reason,
                    "message": message,
                });
                Ok((code, status))
            };
            let one = path.ends_with(LEASE_NAME);
            if *behaviour == ServerBehaviour::Forbids || (*method == Method::GET && !one) {
                return refuse(403, "no right to leases");
            }
            if *method == Method::GET {
                return match stored {
                    Some(lease) => Ok((200, serde_json::to_value(lease)?)),
                    None => refuse(404, "no such lease"),
                };
            }
            if *behaviour == ServerBehaviour::LacksNamespace {
                return refuse(404, "no such namespace");
            }
            let mut sent: Lease = serde_json::from_slice(body)?;
            let current = stored
                .as_ref()
                .and_then(|lease| lease.metadata.resource_version.clone());
            if *method == Method::PUT && stored.is_none() {
                return refuse(404, "no such lease");
            }
            if sent.metadata.resource_version != current {
                return refuse(409, "changed meanwhile");
            }
            *version += 1;
            sent.metadata.resource_version = Some(version.to_string());
            *stored = Some(sent.clone());
            Ok((200, serde_json::to_value(sent)?))
        }
    }

    fn params(identity: &str) -> LeaseParams {
        LeaseParams::new("baton-system", Some(identity))
    }

    async fn lead(server: &Server, identity: &str) -> Leadership {
        acquire(server.client(), params(identity), Fence::closed())
            .await
            .unwrap()
    }

    /// The reason of a loss of the lease within that time; `None` if the lease is not lost.
    async fn lost_within(leadership: &Leadership, seconds: u64) -> Option<LeaseLost> {
        timeout(Duration::from_secs(seconds), leadership.lost())
            .await
            .ok()
    }

    #[tokio::test(start_paused = true)]
    async fn a_leader_renews_the_lease_and_releases_it() {
        let server = Server::new(ServerBehaviour::Well, None);
        let first = lead(&server, "first").await;
        let acquired = server.spec().acquire_time;
        assert_eq!(lost_within(&first, 3600).await, None);
        assert_eq!(server.spec().acquire_time, acquired);

        let start = Instant::now();
        let (second, ()) = tokio::join!(lead(&server, "second"), first.release());
        assert!(
            start.elapsed() < Duration::from_secs(5),
            "{:?}",
            start.elapsed()
        );
        assert_eq!(server.spec().lease_transitions, Some(1));
        second.release().await;
        assert_eq!(server.holder(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn writes_are_let_through_while_the_lease_is_held() {
        let server = Server::new(ServerBehaviour::Well, None);
        let fence = Fence::closed();
        let lead = || acquire(server.client(), params("me"), fence.clone());
        let leadership = lead().await.unwrap();
        let left = fence.check().unwrap().unwrap();
        assert!(left > Duration::from_secs(14), "{left:?}");
        leadership.release().await;
        fence.check().unwrap_err();

        let leadership = lead().await.unwrap();
        fence.check().unwrap();
        server.write(Some(LeaseSpec {
            holder_identity: Some("other".to_owned()),
            ..server.spec()
        }));
        leadership.lost().await;
        fence.check().unwrap_err();

        server.write(None);
        drop(lead().await.unwrap());
        fence.check().unwrap_err();
    }

    #[tokio::test(start_paused = true)]
    async fn only_one_of_several_candidates_becomes_the_leader() {
        let server = Server::new(ServerBehaviour::Well, None);
        let names = ["a", "b", "c", "d"];
        let fence = Fence::closed();
        let candidates =
            names.map(|name| Box::pin(acquire(server.client(), params(name), fence.clone())));
        let (winner, _, waiting) = futures::future::select_all(candidates).await;
        let winner = winner.unwrap();
        let others = futures::future::select_all(waiting);
        assert!(timeout(Duration::from_mins(10), others).await.is_err());
        assert_eq!(lost_within(&winner, 1).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_is_acquired_after_the_duration_of_its_silent_holder() {
        // A record that a killed Package Operator leaves behind.
        let server = Server::held_by("package-operator_1234", 137);
        let start = Instant::now();
        let leadership = lead(&server, "me").await;
        let waited = start.elapsed().as_secs();
        assert!((137..145).contains(&waited), "{waited} s");
        assert_eq!(server.spec().lease_transitions, Some(8));
        assert_eq!(server.spec().lease_duration_seconds, Some(15));
        leadership.release().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_restarted_holder_acquires_its_lease_at_once() {
        let server = Server::held_by("me", 15);
        let start = Instant::now();
        let leadership = lead(&server, "me").await;
        assert!(start.elapsed() < Duration::from_secs(1));
        assert_eq!(server.spec().lease_transitions, Some(7));
        leadership.release().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_leader_notices_a_replacement_at_the_next_renewal() {
        let server = Server::new(ServerBehaviour::Well, None);
        let leadership = lead(&server, "me").await;
        server.write(Some(LeaseSpec {
            holder_identity: Some("other".to_owned()),
            ..server.spec()
        }));
        let lost = lost_within(&leadership, 3).await;
        let lease = format!("baton-system/{LEASE_NAME}");
        assert_eq!(
            lost,
            Some(LeaseLost::TakenOver {
                lease,
                holder: "other".to_owned()
            })
        );
        leadership.release().await;
        assert_eq!(server.holder().as_deref(), Some("other"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_release_does_not_change_the_lease_of_another_holder() {
        let server = Server::new(ServerBehaviour::Well, None);
        let leadership = lead(&server, "me").await;
        server.write(Some(LeaseSpec {
            holder_identity: Some("other".to_owned()),
            ..server.spec()
        }));
        leadership.release().await;
        assert_eq!(server.holder().as_deref(), Some("other"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_leader_without_a_server_stops_before_the_lease_expires() {
        let server = Server::new(ServerBehaviour::Well, None);
        let leadership = lead(&server, "me").await;
        assert_eq!(lost_within(&leadership, 60).await, None);
        server.set_behaviour(ServerBehaviour::Silent);
        let start = Instant::now();
        let lost = lost_within(&leadership, 60).await;
        assert!(
            matches!(lost, Some(LeaseLost::NotRenewed { .. })),
            "{lost:?}"
        );
        assert!(
            start.elapsed() <= Duration::from_secs(10),
            "{:?}",
            start.elapsed()
        );
    }

    /// For a backup that was made before and after the lease was created.
    #[tokio::test(start_paused = true)]
    async fn a_cluster_that_was_restored_from_a_backup_is_noticed() {
        for lease_was_there in [true, false] {
            let server = Server::new(ServerBehaviour::Well, None);
            server.write(Some(LeaseSpec::default()));
            let backup = server.state.lock().clone();
            let leader = lead(&server, "leader").await;
            let client = server.client();
            let waiting =
                tokio::spawn(
                    async move { acquire(client, params("other"), Fence::closed()).await },
                );
            assert_eq!(lost_within(&leader, 60).await, None);
            assert!(!waiting.is_finished());
            *server.state.lock() = backup;
            if !lease_was_there {
                server.state.lock().1 = None;
            }
            let lease = format!("baton-system/{LEASE_NAME}");
            // Either may take the restored lease first; both detect the backup.
            let lost = lost_within(&leader, 5).await;
            assert_eq!(
                lost,
                Some(LeaseLost::Restored { lease }),
                "{lease_was_there}"
            );
            let error = waiting.await.unwrap().unwrap_err();
            assert!(matches!(error, AcquireError::Restored { .. }), "{error}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_short_outage_does_not_end_the_leadership() {
        let server = Server::new(ServerBehaviour::Well, None);
        let leadership = lead(&server, "me").await;
        for _ in 0..5 {
            server.set_behaviour(ServerBehaviour::Silent);
            tokio::time::sleep(Duration::from_secs(5)).await;
            server.set_behaviour(ServerBehaviour::Well);
            assert_eq!(lost_within(&leadership, 10).await, None);
        }
        leadership.release().await;
        assert_eq!(server.holder(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_that_is_edited_or_deleted_is_written_again() {
        let server = Server::new(ServerBehaviour::Well, None);
        let leadership = lead(&server, "me").await;
        for spec in [None, Some(LeaseSpec::default()), Some(server.spec())] {
            server.write(spec);
            assert_eq!(lost_within(&leadership, 5).await, None);
            assert_eq!(server.holder().as_deref(), Some("me"));
        }
        leadership.release().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_lease_request_is_reported_with_a_remedy() {
        for (behaviour, expected) in [
            (
                ServerBehaviour::Forbids,
                "the lease baton-system/8a4hp84a6s.package-operator-lock cannot be used: no right to leases; \
                 apply config/rbac/leader-election.yaml or run with --leader-elect=false",
            ),
            (
                ServerBehaviour::LacksNamespace,
                "the namespace \"baton-system\" for the lease does not exist; \
                 create it or choose another with --namespace",
            ),
        ] {
            let server = Server::new(behaviour, None);
            let start = Instant::now();
            let fence = Fence::closed();
            let error = acquire(server.client(), params("me"), fence.clone())
                .await
                .unwrap_err();
            assert_eq!(error.to_string(), expected);
            assert!(
                start.elapsed() < Duration::from_secs(6),
                "{:?}",
                start.elapsed()
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_unreachable_server_is_waited_for() {
        let server = Server::new(ServerBehaviour::Silent, None);
        let client = server.client();
        let candidate =
            tokio::spawn(async move { acquire(client, params("me"), Fence::closed()).await });
        tokio::time::sleep(Duration::from_mins(10)).await;
        assert!(!candidate.is_finished());
        server.set_behaviour(ServerBehaviour::Well);
        candidate.await.unwrap().unwrap().release().await;
    }

    #[test]
    fn identities_are_unique() {
        let first = LeaseParams::new("a", None).identity;
        assert_ne!(first, LeaseParams::new("a", None).identity);
        assert_eq!(LeaseParams::new("a", Some("pod")).identity, "pod");
    }
}
