//! One of the two clusters, and the requests for joining and removing.

use std::time::Duration;

use baton_kubernetes::wire::MediaType;
use baton_terminal::{
    client::{self, JSON, Selectors},
    connection::{CONNECT_TIMEOUT, server_url},
    error::{innermost, is_absent, is_not_served, refusal},
    kubeconfig::{ConnectionArgs, load_client_config},
};
use futures::future::join_all;
use http::Method;
use k8s_openapi::api::{
    authorization::v1::SelfSubjectAccessReview,
    core::v1::{Namespace, Secret},
};
use kube::{Api, Client, Config, api::PostParams, runtime::wait::await_condition};
use serde_json::{Value, json};

use super::{
    error::{ClusterAddress, ClusterRole, Error},
    manifest::{FIELD_MANAGER, Manifest, text, uid},
    rights::Right,
};

/// Time of silence after which a server counts as unreachable.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit of the token controller. It takes milliseconds if it runs.
const TOKEN_TIMEOUT: Duration = Duration::from_secs(20);

/// The cluster of a kubeconfig.
pub(super) struct Server {
    address: ClusterAddress,
    client: Client,
    /// The CAs of the kubeconfig for the certificate of the server, as PEM.
    ca: Option<String>,
}

impl Server {
    /// Connects, and waits for the response to a first request.
    pub async fn connect(side: ClusterRole, args: &ConnectionArgs) -> Result<Self, Error> {
        let config = load_client_config(args).await;
        let mut config = config.map_err(|cause| Error::Config {
            side,
            cause: Box::new(cause),
        })?;
        limit(&mut config);
        let url = server_url(&config.cluster_url);
        let address = ClusterAddress { side, url };
        let ca = config.root_cert.as_deref().map(pem_of);
        let client = Client::try_from(config).map_err(|cause| Error::Client {
            at: address.clone(),
            cause: Box::new(cause),
        })?;
        let server = Self {
            address,
            client,
            ca,
        };
        let version = server.client.apiserver_version().await;
        version.map_err(|error| server.failure(error))?;
        Ok(server)
    }

    pub fn address(&self) -> ClusterAddress {
        self.address.clone()
    }

    pub fn side(&self) -> ClusterRole {
        self.address.side
    }

    /// URL of the API server, without a slash at its end.
    pub fn url(&self) -> &str {
        &self.address.url
    }

    /// The heading above the steps in this cluster.
    pub fn heading(&self) -> String {
        let cluster = match self.side() {
            ClusterRole::Hub => "On the hub",
            ClusterRole::Target => "In the target",
        };
        format!("{cluster} {}:", self.url())
    }

    /// The CAs of the kubeconfig for the certificate of the server, as PEM; `None` if it names
    /// none.
    pub fn ca(&self) -> Option<&str> {
        self.ca.as_deref()
    }

    /// Identifies the cluster independently of its address.
    pub async fn uid(&self) -> Result<String, Error> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let system = namespaces.get("kube-system").await;
        let system = system.map_err(|error| self.failure(error))?;
        Ok(system.metadata.uid.unwrap_or_default())
    }

    /// Reads the object with the identity of a manifest; `None` if there is none.
    pub async fn get(&self, manifest: &Manifest) -> Result<Option<Value>, Error> {
        match client::get(&self.client, &manifest.path(), JSON).await {
            Ok(object) => Ok(Some(object)),
            Err(kube::Error::Api(status)) if is_absent(&status) => Ok(None),
            Err(error) => Err(self.failure(error)),
        }
    }

    /// Applies a manifest. Returns the object after it.
    pub async fn apply(&self, manifest: &Manifest) -> Result<Value, Error> {
        let options = "&force=true&fieldValidation=Strict";
        let url = format!("{}?fieldManager={FIELD_MANAGER}{options}", manifest.path());
        let body = Some((MediaType::Apply, &manifest.0));
        let applied = client::send(&self.client, Method::PATCH, &url, body).await;
        applied.map_err(|error| self.failure(error))
    }

    /// Deletes the object that was read as `live`. False if there was none.
    pub async fn delete(&self, manifest: &Manifest, live: &Value) -> Result<bool, Error> {
        match self.try_delete(manifest, json!({ "uid": uid(live) })).await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if is_absent(&status) => Ok(false),
            Err(error) => Err(self.failure(error)),
        }
    }

    async fn try_delete(
        &self,
        manifest: &Manifest,
        preconditions: Value,
    ) -> Result<Value, kube::Error> {
        let options = json!({ "propagationPolicy": "Background", "preconditions": preconditions });
        let body = Some((MediaType::Json, &options));
        client::send(&self.client, Method::DELETE, &manifest.path(), body).await
    }

    /// Deletes an object that was read, without waiting for its finalizers: they are removed first,
    /// so that a watch reports the object as gone, and never as being deleted. False if the object
    /// was written meanwhile.
    pub async fn drop_object(&self, manifest: &Manifest, live: &Value) -> Result<bool, Error> {
        let free = json!({ "metadata": { "uid": uid(live), "finalizers": null } });
        let url = format!("{}?fieldManager={FIELD_MANAGER}", manifest.path());
        let body = Some((MediaType::MergePatch, &free));
        let freed = match client::send(&self.client, Method::PATCH, &url, body).await {
            Ok(freed) => freed,
            Err(error) => return self.gone_or_overtaken(error),
        };
        let version = &freed["metadata"]["resourceVersion"];
        let preconditions = json!({ "uid": uid(live), "resourceVersion": version });
        match self.try_delete(manifest, preconditions).await {
            Ok(_) => Ok(true),
            Err(error) => self.gone_or_overtaken(error),
        }
    }

    /// True if an object that could not be dropped is gone; false if it was written meanwhile.
    fn gone_or_overtaken(&self, error: kube::Error) -> Result<bool, Error> {
        match error {
            kube::Error::Api(status) if is_absent(&status) => Ok(true),
            kube::Error::Api(status) if status.is_conflict() => Ok(false),
            error => Err(self.failure(error)),
        }
    }

    /// Lists the objects of a manifest's kind that have a label, in its namespace if it has one,
    /// else in all namespaces.
    pub async fn list(&self, like: &Manifest, labels: &str) -> Result<Vec<Value>, Error> {
        let found = self.try_list(like, labels).await;
        found.map_err(|error| self.failure(error))
    }

    /// As [`Server::list`], but empty if the kind is not served.
    pub async fn list_if_served(&self, like: &Manifest, labels: &str) -> Result<Vec<Value>, Error> {
        match self.try_list(like, labels).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
            found => found.map_err(|error| self.failure(error)),
        }
    }

    /// Finds the objects that have the kind and name of a manifest, in all namespaces.
    pub async fn find(&self, like: &Manifest) -> Result<Vec<(Manifest, Value)>, Error> {
        let name = format!("metadata.name={}", like.name());
        let named = Selectors {
            fields: Some(&name),
            ..Selectors::default()
        };
        let found = self.list_with(like, named).await;
        let found = found.map_err(|error| self.failure(error))?.into_iter();
        let found = found.map(|live| {
            let mut manifest = like.clone();
            manifest.0["metadata"]["namespace"] = text(&live, "/metadata/namespace").into();
            (manifest, live)
        });
        Ok(found.collect())
    }

    async fn try_list(&self, like: &Manifest, labels: &str) -> Result<Vec<Value>, kube::Error> {
        let labelled = Selectors {
            labels: Some(labels),
            ..Selectors::default()
        };
        self.list_with(like, labelled).await
    }

    async fn list_with(
        &self,
        like: &Manifest,
        selectors: Selectors<'_>,
    ) -> Result<Vec<Value>, kube::Error> {
        let (mut items, collection) = (Vec::new(), like.collection());
        let take = |item| items.push(item);
        client::for_each(&self.client, &collection, selectors, JSON, take).await?;
        Ok(items)
    }

    /// Checks rights. An error if one of them is missing.
    pub async fn require_rights(&self, rights: Vec<Right>) -> Result<(), Error> {
        let api: Api<SelfSubjectAccessReview> = Api::all(self.client.clone());
        let params = PostParams::default();
        let reviews: Vec<_> = rights.iter().map(Right::review).collect();
        let answers = join_all(reviews.iter().map(|review| api.create(&params, review))).await;
        let mut missing = Vec::new();
        for (right, answer) in rights.into_iter().zip(answers) {
            let answer = answer.map_err(|error| self.failure(error))?;
            if !answer.status.is_some_and(|status| status.allowed) {
                missing.push(right);
            }
        }
        missing.dedup_by(|one, next| one.verb == next.verb && one.object() == next.object());
        if missing.is_empty() {
            return Ok(());
        }
        let at = self.address();
        Err(Error::Lacking { at, missing })
    }

    /// Waits until the token controller has filled a Secret, and returns it.
    pub async fn token(&self, secret: &Manifest) -> Result<Value, Error> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), secret.namespace());
        let is_filled = |secret: Option<&Secret>| {
            let data = secret.and_then(|secret| secret.data.as_ref());
            let token = data.and_then(|data| data.get("token"));
            token.is_some_and(|token| !token.0.is_empty())
        };
        let filled = await_condition(api, secret.name(), is_filled);
        match tokio::time::timeout(TOKEN_TIMEOUT, filled).await {
            Ok(Ok(found)) => Ok(serde_json::to_value(found).unwrap_or_default()),
            Ok(Err(error)) => Err(Error::Refused {
                at: self.address(),
                message: innermost(&error),
            }),
            Err(_elapsed) => Err(Error::NoToken {
                at: self.address(),
                secret: format!("{}/{}", secret.namespace(), secret.name()),
                limit: TOKEN_TIMEOUT,
            }),
        }
    }

    /// The error for a failed request.
    fn failure(&self, error: kube::Error) -> Error {
        let at = self.address();
        match error {
            kube::Error::Api(status) if status.code == 401 => Error::Unauthorized { at },
            kube::Error::Api(status) if at.side == ClusterRole::Hub && is_not_served(&status) => {
                Error::NotInstalled { at }
            }
            kube::Error::Api(status) => Error::Refused {
                at,
                message: refusal(&status),
            },
            cause => Error::Unreachable {
                at,
                cause: Box::new(cause),
            },
        }
    }
}

/// Sets time limits for people who wait for each response.
pub(super) fn limit(config: &mut Config) {
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = Some(READ_TIMEOUT);
    // Retries would take minutes without a message.
    config.default_retry = false;
}

fn pem_of(certificates: &[Vec<u8>]) -> String {
    let pems: Vec<pem::Pem> = certificates
        .iter()
        .map(|der| pem::Pem::new("CERTIFICATE", der.clone()))
        .collect();
    let config = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
    pem::encode_many_config(&pems, config)
}
