//! The admission webhook: refuses an override annotation that names a RolloutBlock which does not exist.
//!
//! A policy of the API server refuses changes under a block. It is evaluated once for each block, so it
//! cannot find that a name is none of them. The controllers hold an object with such an annotation as
//! well, so the API server ignores a webhook that does not answer. Source of the rule:
//! `docs/contract/releases.md#rollout-blocks`.

mod certificate;
mod review;

use std::{sync::Arc, time::Duration};

use axum::{
    Json, Router,
    body::{Body, to_bytes},
    extract::State,
    http::StatusCode,
    response::{IntoResponse as _, Response},
    routing::post,
};
use baton_apis::constants::WEBHOOK;
use baton_kubernetes::{error::request_failure, fence::Fence};
use baton_runtime::{
    clock::Clock,
    server::{
        CONNECTIONS, ListenAddr,
        https::{Certificate, CertificateError, Endpoint, HttpsError, Server, serve_routes},
    },
};
use http::Uri;
use jiff::Timestamp;
use k8s_openapi::{
    ByteString,
    api::{
        admissionregistration::v1::{ValidatingWebhook, ValidatingWebhookConfiguration},
        core::v1::Secret,
    },
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::{sync::Semaphore, task::JoinSet, time::timeout};
use tracing::{info, warn};

use self::{
    certificate::{SECRET, Stored, is_ours, issue, read},
    review::{Request, answer},
};
use crate::delivery::rollout_blocks::RolloutBlocks;

/// The period in which the certificate is checked.
const PERIOD: Duration = Duration::from_mins(10);
/// The period after a failure, and in which a replica looks for the certificate that the leader makes.
const RETRY: Duration = Duration::from_secs(10);
/// The size in bytes of the largest request: two objects of the size that etcd stores.
const MAX_BODY: usize = 8 << 20;
/// Time limit for the body of a request. The API server waits for 5 s.
const BODY_TIMEOUT: Duration = Duration::from_secs(2);
/// Number of requests whose bodies are in memory at the same time.
const CONCURRENT: usize = 4;

/// The running webhook. It ends when this is dropped.
pub(crate) struct Webhook {
    _server: Server,
    _certificate: JoinSet<()>,
}

/// The state of the handler.
struct Reviews {
    blocks: RolloutBlocks,
    client: Client,
    permits: Semaphore,
}

/// Starts the webhook; `None` if it is turned off. It answers once the certificate is made. `namespace`
/// is the one of the manager. Only the leader writes: `fence` permits it.
///
/// # Errors
/// If listening on the address fails, or if TLS cannot be set up.
pub(crate) async fn start(
    address: &ListenAddr,
    namespace: &str,
    blocks: RolloutBlocks,
    (client, fence): (&Client, &Fence),
    clock: Clock,
) -> Result<Option<Webhook>, HttpsError> {
    let certificate = Certificate::default();
    let reviews = Reviews {
        blocks,
        client: client.clone(),
        permits: Semaphore::new(CONCURRENT),
    };
    let routes = Router::new().route("/validate", post(validate));
    let routes = routes.with_state(Arc::new(reviews));
    let endpoint = Endpoint {
        address: *address,
        purpose: "the webhook",
        flag: "--webhook-addr",
        connections: CONNECTIONS,
    };
    let Some(server) = serve_routes(endpoint, routes, Some(&certificate)).await? else {
        return Ok(None);
    };
    let keeper = Keeper {
        configurations: Api::all(client.clone()),
        secrets: Api::namespaced(client.clone(), namespace),
        namespace: namespace.to_owned(),
        certificate,
        fence: fence.clone(),
        clock,
    };
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { keeper.keep().await });
    Ok(Some(Webhook {
        _server: server,
        _certificate: tasks,
    }))
}

async fn validate(State(reviews): State<Arc<Reviews>>, body: Body) -> Response {
    let Ok(_permit) = reviews.permits.acquire().await else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    let refused = |code, problem: String| (code, format!("{problem}\n")).into_response();
    let body = match timeout(BODY_TIMEOUT, to_bytes(body, MAX_BODY)).await {
        Ok(Ok(body)) => body,
        Ok(Err(error)) => return refused(StatusCode::BAD_REQUEST, error.to_string()),
        Err(error) => return refused(StatusCode::REQUEST_TIMEOUT, error.to_string()),
    };
    match Request::parse(&body) {
        Ok(request) => {
            Json(answer(&request, &reviews.blocks, &reviews.client).await).into_response()
        }
        Err(problem) => refused(StatusCode::BAD_REQUEST, problem),
    }
}

/// The reason that the webhook has no certificate, or that the API server does not trust it yet.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("the ValidatingWebhookConfiguration {WEBHOOK} does not exist")]
    NotInstalled,
    #[error("the ValidatingWebhookConfiguration {WEBHOOK} has neither a service nor a valid URL")]
    NoHost,
    #[error("the leader has not made the certificate yet, or the API server does not trust it")]
    Awaited,
    #[error("the Secret {SECRET} is not the one of the webhook, or its certificate was not stored")]
    Foreign,
    #[error("{step}: {}", request_failure(source))]
    Request {
        step: &'static str,
        source: kube::Error,
    },
    #[error("cannot make a certificate for {host}: {source}")]
    Issue { host: String, source: rcgen::Error },
    #[error(transparent)]
    Unusable(#[from] CertificateError),
}

impl Error {
    fn at(step: &'static str) -> impl FnOnce(kube::Error) -> Self {
        move |source| Self::Request { step, source }
    }
}

/// Keeps the certificate valid, and trusted by the API server.
struct Keeper {
    configurations: Api<ValidatingWebhookConfiguration>,
    secrets: Api<Secret>,
    namespace: String,
    certificate: Certificate,
    fence: Fence,
    clock: Clock,
}

impl Keeper {
    async fn keep(&self) {
        let mut reported = String::new();
        loop {
            let (wait, text) = match self.ensure().await {
                Ok(()) => (PERIOD, String::new()),
                Err(error) => (RETRY, error.to_string()),
            };
            if !text.is_empty() && reported != text {
                warn!(
                    error = text,
                    "the certificate of the webhook is checked again"
                );
            }
            reported = text;
            tokio::time::sleep(wait).await;
        }
    }

    /// Serves the stored certificate, and makes one if there is none that can be used, or if it is due.
    /// A certificate is served once the API server trusts it. Only the leader writes.
    async fn ensure(&self) -> Result<(), Error> {
        let configuration = self.configurations.get_opt(WEBHOOK).await;
        let configuration = configuration.map_err(Error::at("reading the configuration"))?;
        let configuration = configuration.ok_or(Error::NotInstalled)?;
        let host = host(&configuration).ok_or(Error::NoHost)?;
        let secret = self.secrets.get_opt(SECRET).await;
        let secret = secret.map_err(Error::at("reading the Secret"))?;
        if secret.as_ref().is_some_and(|it| !is_ours(it)) {
            return Err(Error::Foreign);
        }
        let (now, leads) = (self.clock.now(), self.fence.check().is_ok());
        let stored = secret.as_ref().and_then(|it| read(it, &host, now));
        let stored =
            stored.filter(|it| Certificate::default().set(&it.certificate, &it.key).is_ok());
        let trusted = stored.as_ref().filter(|it| trusts(&configuration, it));
        if let Some(trusted) = trusted {
            self.certificate.set(&trusted.certificate, &trusted.key)?;
        }
        match &stored {
            Some(stored) if trusted.is_some() && !(stored.is_due && leads) => Ok(()),
            _ if !leads => Err(Error::Awaited),
            Some(stored) if !stored.is_due => self.serve(&configuration, stored).await,
            _ => {
                let issued = self.issue(&host, now, secret).await?;
                let stored = read(&issued, &host, now).ok_or(Error::Foreign)?;
                self.serve(&configuration, &stored).await
            }
        }
    }

    /// Makes and stores a certificate.
    async fn issue(
        &self,
        host: &str,
        now: Timestamp,
        former: Option<Secret>,
    ) -> Result<Secret, Error> {
        let parameters = PostParams::default();
        let is_new = former.is_none();
        let issued = issue(host, now, &self.namespace, former);
        let issued = issued.map_err(|source| Error::Issue {
            host: host.to_owned(),
            source,
        })?;
        let written = if is_new {
            self.secrets.create(&parameters, &issued).await
        } else {
            self.secrets.replace(SECRET, &parameters, &issued).await
        };
        let written = written.map_err(Error::at("writing the Secret"))?;
        info!(host, "made a certificate for the webhook");
        Ok(written)
    }

    /// Lets the API server trust a certificate, and serves it.
    async fn serve(
        &self,
        configuration: &ValidatingWebhookConfiguration,
        stored: &Stored,
    ) -> Result<(), Error> {
        let ca_bundle = ByteString(stored.bundle.clone().into_bytes());
        let webhooks = webhooks(configuration).iter().map(
            |webhook| json!({ "name": webhook.name, "clientConfig": { "caBundle": ca_bundle } }),
        );
        let version = &configuration.metadata.resource_version;
        let patch = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": { "name": WEBHOOK, "resourceVersion": version },
            "webhooks": webhooks.collect::<Vec<_>>(),
        });
        let patch = Patch::Apply(patch);
        // A field manager of its own: an apply of the manifests does not remove its field.
        let parameters = PatchParams::apply(WEBHOOK).force();
        let written = self.configurations.patch(WEBHOOK, &parameters, &patch);
        written
            .await
            .map_err(Error::at("writing the configuration"))?;
        self.certificate.set(&stored.certificate, &stored.key)?;
        Ok(())
    }
}

fn webhooks(configuration: &ValidatingWebhookConfiguration) -> &[ValidatingWebhook] {
    configuration.webhooks.as_deref().unwrap_or_default()
}

/// True if the API server trusts a certificate.
fn trusts(configuration: &ValidatingWebhookConfiguration, stored: &Stored) -> bool {
    webhooks(configuration).iter().all(|webhook| {
        let bundle = webhook.client_config.ca_bundle.as_ref();
        let bundle = bundle.map(|it| String::from_utf8_lossy(&it.0));
        bundle.is_some_and(|it| it.contains(&stored.certificate))
    })
}

/// The host by which the API server connects to the webhook.
fn host(configuration: &ValidatingWebhookConfiguration) -> Option<String> {
    let client = &configuration.webhooks.as_ref()?.first()?.client_config;
    if let Some(service) = &client.service {
        return Some(format!("{}.{}.svc", service.name, service.namespace));
    }
    let url: Uri = client.url.as_ref()?.parse().ok()?;
    Some(url.host()?.trim_matches(['[', ']']).to_owned())
}

#[cfg(test)]
mod tests;
