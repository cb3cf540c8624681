//! Maintains the connection to one cluster: reads its Secret, connects, checks, and publishes its
//! state.

use std::{sync::Arc, time::Duration};

use baton_apis::{conditions::Reason, constants::ANNOTATION_SKIP_TLS_VERIFY, url::escape};
use baton_engine::redact::parse_error;
use http::{StatusCode, Uri};
use k8s_openapi::api::core::v1::Secret;
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until},
};

use super::{
    ClusterLink, Shared,
    check::check,
    client::ReconnectingClient,
    credentials::{self, Change, Credentials, CredentialsError, Fingerprint, Problem},
    health::{ConnectionState, Health},
    text::excerpt,
    twins,
};
use baton_kubernetes::{
    backoff::{Backoff, spread},
    error::innermost,
    target::Target,
    watch::number,
    wire,
};

/// Approximate period of the checks of a connected cluster.
const CHECK_EVERY: Duration = Duration::from_secs(30);
/// The longest pause between attempts to connect.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// The shortest pause between two checks, for any number of failing requests.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
/// Number of failed checks in a row after which a connected cluster counts as lost: a single
/// connection may break.
const MAX_FAILURES: u32 = 2;
/// Limit of the length of a message, in characters.
const MESSAGE: usize = 1_000;

/// The state of the Cluster and its Secret from which the connection is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DesiredConnection {
    /// `spec.apiMaster`, or the reason that it cannot be read.
    pub api_master: Result<String, String>,
    /// The version of the last change of the Secret that its watch has reported; 0 at first.
    pub secret: u64,
}

/// The connection to one cluster.
pub(super) struct Connector {
    name: String,
    /// Number of the entry in the table of links.
    id: u64,
    shared: Arc<Shared>,
    health: watch::Sender<Health>,
    site: Option<Connection>,
    /// `spec.apiMaster` and the version of the Secret from which the connection was made; `None` if
    /// they have to be read again.
    made_from: Option<(String, u64)>,
    failures: u32,
}

struct Connection {
    url: Uri,
    fingerprint: Fingerprint,
    client: ReconnectingClient,
    /// The target; `None` before the first response.
    target: Option<Target>,
    /// True if the UID was read since the cluster was connected.
    has_uid: bool,
}

/// The reason that there are no credentials.
enum NoCredentials {
    /// There are no usable credentials.
    CredentialsError(CredentialsError),
    /// The credentials cannot be read, for this reason.
    Unknown(String),
}

impl Connector {
    pub fn new(name: &str, id: u64, shared: Arc<Shared>, health: watch::Sender<Health>) -> Self {
        Self {
            name: name.to_owned(),
            id,
            shared,
            health,
            site: None,
            made_from: None,
            failures: 0,
        }
    }

    /// Connects, and stays connected, until the sender of `wanted` is dropped.
    pub async fn run(mut self, mut wanted: watch::Receiver<DesiredConnection>) {
        loop {
            let now = wanted.borrow_and_update().clone();
            let round = async {
                let pause = self.reconcile(&now).await;
                self.wait(pause).await;
            };
            tokio::select! {
                // A change does not wait for a server that does not respond.
                changed = wanted.changed() => match changed {
                    Ok(()) => self.failures = 0,
                    Err(_) => return,
                },
                () = round => {}
            }
        }
    }

    /// Updates the connection and checks it. Returns the pause until the next round.
    ///
    /// Requests that rarely run are boxed: each cluster keeps one future of this function, which
    /// would otherwise always be as large as the largest request.
    async fn reconcile(&mut self, wanted: &DesiredConnection) -> Duration {
        if !self.is_made_from(wanted) {
            match Box::pin(self.remake(wanted)).await {
                Ok(()) => {}
                Err(NoCredentials::CredentialsError(error)) => {
                    self.site = None;
                    self.made_from = None;
                    return self.fail(error.reason(), &error.to_string());
                }
                Err(NoCredentials::Unknown(cause)) if self.site.is_none() => {
                    return self.fail(Reason::NoSecret, &cause);
                }
                // An existing connection stays: the credentials were not revoked.
                Err(NoCredentials::Unknown(cause)) => {
                    tracing::warn!(
                        cluster = self.name,
                        cause,
                        "the credentials cannot be read, trying again"
                    );
                }
            }
        }
        let Some(site) = &mut self.site else {
            return self.pause();
        };
        match Box::pin(check(&site.client.checks(), &site.url)).await {
            Ok(version) => {
                site.client.outcomes.expect(true);
                let target = site.target.get_or_insert_with(|| {
                    Target::of_other_cluster(
                        site.client.client.clone(),
                        self.shared.children.clone(),
                    )
                });
                let link = ClusterLink::Up(target.clone());
                self.failures = 0;
                let now = self.shared.clock.now();
                self.publish(|health| health.answered(version, now), |_| link);
                self.read_uid().await;
                spread(CHECK_EVERY)
            }
            Err(loss) => {
                site.client.outcomes.expect(false);
                if loss.silent {
                    site.client.renew();
                }
                if loss.reason != Reason::Unreachable {
                    // The credentials may have been exchanged already, and the event be under way.
                    self.made_from = None;
                }
                let was_up = self.health.borrow().state == ConnectionState::Up;
                if was_up && self.failures + 1 < MAX_FAILURES {
                    tracing::debug!(cluster = self.name, cause = loss.message, "check failed");
                    return self.pause();
                }
                site.client.end_requests();
                site.has_uid = false;
                self.fail(loss.reason, &loss.message)
            }
        }
    }

    /// Reads the UID of the cluster, once for each time that it is connected.
    async fn read_uid(&mut self) {
        let Some(site) = self.site.as_mut().filter(|site| !site.has_uid) else {
            return;
        };
        let uid = Box::pin(twins::read(site.client.checks())).await;
        site.has_uid = true;
        self.shared.twins.set(&self.name, uid.as_deref());
    }

    /// Waits for the pause, or until the outcome of requests is not the expected one.
    async fn wait(&self, pause: Duration) {
        let earliest = Instant::now() + SHORTEST_PAUSE;
        match &self.site {
            None => sleep(pause).await,
            Some(site) => {
                tokio::select! {
                    () = sleep(pause) => {}
                    () = site.client.outcomes.changed() => {}
                }
                sleep_until(earliest).await;
            }
        }
    }

    fn is_made_from(&self, wanted: &DesiredConnection) -> bool {
        let made_from = self.made_from.as_ref();
        made_from.is_some_and(|(api_master, secret)| {
            wanted.api_master.as_ref() == Ok(api_master) && wanted.secret <= *secret
        })
    }

    /// Reads the credentials and uses them for the connection.
    async fn remake(&mut self, wanted: &DesiredConnection) -> Result<(), NoCredentials> {
        let api_master = match &wanted.api_master {
            Ok(api_master) => api_master,
            Err(cause) => {
                return Err(NoCredentials::CredentialsError(CredentialsError::Spec(
                    cause.clone(),
                )));
            }
        };
        let secret = self.secret().await?;
        let version = number(
            secret
                .metadata
                .resource_version
                .as_deref()
                .unwrap_or_default(),
        );
        credentials::read(api_master, &secret, self.shared.is_strict)
            .and_then(|credentials| self.adopt(&credentials))
            .map_err(NoCredentials::CredentialsError)?;
        self.made_from = Some((api_master.clone(), version));
        Ok(())
    }

    /// Reads the Secret from the server. No cache contains data of Secrets.
    async fn secret(&self) -> Result<Secret, NoCredentials> {
        let named = self.secret_name();
        let path = format!(
            "/api/v1/namespaces/{}/secrets/{}",
            escape(&self.shared.namespace),
            escape(&self.name)
        );
        let unknown =
            |cause: String| NoCredentials::Unknown(format!("cannot read Secret {named}: {cause}"));
        let request =
            wire::get(&path, "application/json").map_err(|error| unknown(error.to_string()))?;
        let reply = self
            .shared
            .at_the_hub(wire::call(&self.shared.hub, request))
            .await
            .map_err(|error| unknown(error.to_string()))?;
        match reply.status {
            StatusCode::NOT_FOUND => Err(NoCredentials::CredentialsError(
                CredentialsError::NoSecret { secret: named },
            )),
            status if status.is_success() => {
                serde_json::from_slice(&reply.body).map_err(|error| unknown(parse_error(&error)))
            }
            status => Err(unknown(wire::failure(status, &reply.body).message)),
        }
    }

    fn secret_name(&self) -> String {
        format!("{}/{}", self.shared.namespace, self.name)
    }

    /// Uses these credentials for the connection.
    fn adopt(&mut self, credentials: &Credentials) -> Result<(), CredentialsError> {
        let secret = self.secret_name();
        let refused = |error: kube::Error| CredentialsError::Secret {
            secret,
            problem: Problem::Tls(innermost(&error)),
        };
        let fingerprint = credentials.fingerprint();
        let old = self.site.as_ref().map(|site| &site.fingerprint);
        let change = Change::between(old, &fingerprint);
        match (change, &mut self.site) {
            (Change::Keep, _) => return Ok(()),
            (Change::Exchange, Some(site)) => {
                site.client.exchange(credentials).map_err(refused)?;
                site.fingerprint = fingerprint;
                tracing::info!(cluster = self.name, "credentials exchanged");
            }
            (Change::Exchange | Change::Rebuild, _) => {
                let line =
                    ReconnectingClient::new(credentials, &self.shared.metrics, &self.shared.fence)
                        .map_err(refused)?;
                let site = Connection {
                    url: credentials.url.clone(),
                    fingerprint,
                    client: line,
                    target: None,
                    has_uid: false,
                };
                self.shared.forget_uid(&self.name);
                if self.site.replace(site).is_some() {
                    let now = self.shared.clock.now();
                    self.publish(|_| Health::connecting(now), ClusterLink::down);
                }
            }
        }
        if credentials.skip_verify {
            let annotation = ANNOTATION_SKIP_TLS_VERIFY;
            tracing::warn!(
                cluster = self.name,
                annotation,
                "the certificate of the server is not verified"
            );
        }
        Ok(())
    }

    fn fail(&mut self, reason: Reason, message: &str) -> Duration {
        let now = self.shared.clock.now();
        // A part of the message is from the Cluster, and can have any length.
        let message = excerpt(message, MESSAGE);
        self.publish(
            |health| health.disconnected(reason, message, now),
            ClusterLink::down,
        );
        self.pause()
    }

    fn pause(&mut self) -> Duration {
        self.failures = self.failures.saturating_add(1);
        Backoff::up_to(LONGEST_PAUSE).delay(self.failures)
    }

    /// Publishes the state to the status and to the controllers.
    fn publish(
        &self,
        next: impl FnOnce(Health) -> Health,
        link: impl FnOnce(&Health) -> ClusterLink,
    ) {
        let health = next(self.health.borrow().clone());
        let link = link(&health);
        let site = self.site.as_ref();
        let target = site.and_then(|site| site.target.clone());
        self.shared
            .publish((&self.name, self.id), health, (link, target), &self.health);
    }
}
