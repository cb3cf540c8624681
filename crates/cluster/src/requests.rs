//! The connection to a cluster, and the few requests that all commands use.
//!
//! Objects are JSON, so that users see the objects of the server, including fields that a typed
//! version would lose.

use std::sync::Arc;

use baton_apis::kinds::Kind;
use baton_engine::{Gvk, ObjectKey};
use baton_kubernetes::{
    discovery::{Discovery, Location, Resource},
    path,
    wire::MediaType,
};
use baton_terminal::{
    client::{self, JSON, Selectors},
    connection::{CONNECT_TIMEOUT, server_url},
    error::{is_absent, is_not_served},
    kubeconfig::{ConnectionArgs, load_client_config},
    proxy::without_credentials,
};
use baton_view::{
    chain::kind::ChainKind,
    lists::{Count, ListQuery},
};
use http::{Method, Request};
use kube::Client;
use serde_json::Value;
use tokio::sync::OnceCell;

use crate::{
    error::ClusterError,
    served::{Served, kinds},
};

/// Receives warnings besides answers, such as objects that were left out. Questions that are asked
/// again after every change repeat theirs.
pub type Warn = Arc<dyn Fn(&str) + Send + Sync>;

/// The field manager of all writes of this program.
pub const FIELD_MANAGER: &str = "kubectl-baton";

/// The query of dry runs in the name of the manager.
const BY_MANAGER: &str = "fieldManager=package-operator&fieldValidation=Ignore&dryRun=All";

/// The media type of an object's metadata.
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// The number of concurrent requests.
pub const MAX_CONCURRENT: usize = 8;

/// A cluster, and the namespace in use.
#[derive(Clone)]
pub struct Cluster {
    /// The client, for requests that this type has no method for.
    pub client: Client,
    /// The namespace of the flag, or else of the context, or else `default`.
    pub namespace: String,
    /// URL of the API server, and of the proxy if there is one, for messages.
    pub server: String,
    discovery: Arc<Discovery>,
    served: Arc<OnceCell<Vec<Served>>>,
    warn: Warn,
}

/// Connects by the rules of kubectl: flags, `KUBECONFIG`, `~/.kube/config`, service account.
///
/// # Errors
/// If the files and flags name no cluster, or no client can be made of them.
pub async fn connect(
    connection: &ConnectionArgs,
    namespace: Option<&str>,
    as_user: Option<&str>,
    warn: Warn,
) -> Result<Cluster, ClusterError> {
    let config = load_client_config(connection).await?;
    connect_with(config, namespace, as_user, warn)
}

/// Connects with a configuration. No request is sent yet.
///
/// # Errors
/// If no client can be made of the configuration.
pub fn connect_with(
    mut config: kube::Config,
    namespace: Option<&str>,
    as_user: Option<&str>,
    warn: Warn,
) -> Result<Cluster, ClusterError> {
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    if let Some(user) = as_user {
        config.auth_info.impersonate = Some(user.to_owned());
    }
    let namespace = namespace.map_or_else(|| config.default_namespace.clone(), str::to_owned);
    let mut server = server_url(&config.cluster_url);
    if let Some(proxy) = &config.proxy_url {
        server = format!(
            "{server} (through the proxy {})",
            without_credentials(proxy)
        );
    }
    let client = Client::try_from(config).map_err(|source| ClusterError::Client {
        server: server.clone(),
        source: Box::new(source),
    })?;
    Ok(Cluster::new(client, namespace, server, warn))
}

/// Options of a write in the name of this program.
#[derive(Clone, Copy, Debug)]
pub struct Write<'a> {
    /// Media type of the body.
    pub content: MediaType,
    /// Further parameters of the query, such as `&force=true`.
    pub options: &'a str,
    /// True for a dry run: the server checks the write and does not store it.
    pub dry_run: bool,
}

impl Write<'_> {
    /// A write without further parameters.
    #[must_use]
    pub fn new(content: MediaType, dry_run: bool) -> Self {
        Self {
            content,
            options: "",
            dry_run,
        }
    }
}

impl Cluster {
    /// A cluster behind a client. `server` is its URL, for messages.
    pub fn new(client: Client, namespace: String, server: String, warn: Warn) -> Self {
        Self {
            warn,
            discovery: Arc::new(Discovery::new(client.clone())),
            served: Arc::default(),
            client,
            namespace,
            server,
        }
    }

    /// Passes a warning on.
    pub fn warn(&self, warning: &str) {
        (self.warn)(warning);
    }

    /// The same cluster with another receiver of warnings.
    #[must_use]
    pub fn with_warnings(&self, warn: Warn) -> Self {
        Self {
            warn,
            ..self.clone()
        }
    }

    /// The same cluster with another namespace in use.
    #[must_use]
    pub fn within(&self, namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            ..self.clone()
        }
    }

    /// The namespace for objects of a kind: `None` for cluster-scoped kinds.
    pub fn namespace_of(&self, kind: ChainKind) -> Option<&str> {
        kind.is_namespaced.then_some(self.namespace.as_str())
    }

    /// Reads an object of Baton from the namespace in use; `None` if it does not exist.
    ///
    /// # Errors
    /// If the request fails.
    pub async fn get(&self, kind: ChainKind, name: &str) -> Result<Option<Value>, ClusterError> {
        let path = kind.path(self.namespace_of(kind));
        let mut found = self.list_at(&path, &ListQuery::named(name)).await?;
        Ok(found.pop())
    }

    /// Reads a collection or a part of it, page by page, or an object by its name.
    ///
    /// Items have `apiVersion` and `kind`, which servers leave out of lists of built-in kinds. With
    /// `metadata_only`, these are of `PartialObjectMetadata`.
    ///
    /// # Errors
    /// If the collection cannot be read. A kind of Baton that is not served has an error of its
    /// own.
    pub async fn list_at(&self, path: &str, query: &ListQuery) -> Result<Vec<Value>, ClusterError> {
        let mut items = Vec::new();
        self.each_at(path, query, |item| items.push(item)).await?;
        Ok(items)
    }

    /// As [`Cluster::list_at`], for collections that are too large to be stored: `take` gets one
    /// object after the other.
    ///
    /// # Errors
    /// As [`Cluster::list_at`].
    pub async fn each_at(
        &self,
        path: &str,
        query: &ListQuery,
        take: impl FnMut(Value),
    ) -> Result<(), ClusterError> {
        let read = match &query.name {
            Some(name) => self.each_named(path, name, query, take).await,
            None => self.each_listed(path, query, take).await,
        };
        read.map_err(|error| self.of_collection(path, error))
    }

    /// The error for a failed request for a collection.
    pub(crate) fn failure_at(&self, path: &str, error: kube::Error) -> ClusterError {
        self.of_collection(path, self.failure(error))
    }

    /// The error of a request for the collection at a path. A kind of Baton that is not served has an
    /// error of its own.
    fn of_collection(&self, path: &str, error: ClusterError) -> ClusterError {
        match error {
            ClusterError::Refused(status) if is_not_served(&status) => match Kind::at(path) {
                Some(kind) => ClusterError::NotServed {
                    server: self.server.clone(),
                    kind,
                },
                None => ClusterError::Refused(status),
            },
            error => error,
        }
    }

    async fn each_named(
        &self,
        path: &str,
        name: &str,
        query: &ListQuery,
        mut take: impl FnMut(Value),
    ) -> Result<(), ClusterError> {
        // An object with an invalid name does not exist.
        let Ok(path) = path::object(path, name) else {
            return Ok(());
        };
        let accept = if query.metadata_only { METADATA } else { JSON };
        match self.form(&path, accept).await {
            Err(ClusterError::Refused(status)) if is_absent(&status) => {}
            object => take(object?),
        }
        Ok(())
    }

    async fn each_listed(
        &self,
        path: &str,
        query: &ListQuery,
        take: impl FnMut(Value),
    ) -> Result<(), ClusterError> {
        let selectors = Selectors {
            labels: query.labels.as_deref(),
            fields: query.fields.as_deref(),
        };
        let listed = client::for_each(&self.client, path, selectors, accept(query), take).await;
        listed.map_err(|error| self.failure(error))
    }

    /// The number of objects of a collection, by a request for one of them.
    ///
    /// # Errors
    /// If the request fails.
    pub async fn count_at(&self, path: &str) -> Result<Count, ClusterError> {
        let query = &ListQuery {
            metadata_only: true,
            ..ListQuery::default()
        };
        let page = self.form(&format!("{path}?limit=1"), accept(query)).await?;
        Ok(count(&page))
    }

    /// Reads the object at a path; `None` if it does not exist.
    ///
    /// # Errors
    /// If the request fails for another reason.
    pub async fn get_at(&self, path: &str) -> Result<Option<Value>, ClusterError> {
        self.read(path, JSON).await
    }

    /// Reads only the metadata of the object at a path; `None` if it does not exist.
    ///
    /// # Errors
    /// If the request fails for another reason.
    pub async fn metadata_at(&self, path: &str) -> Result<Option<Value>, ClusterError> {
        self.read(path, METADATA).await
    }

    async fn read(&self, path: &str, accept: &'static str) -> Result<Option<Value>, ClusterError> {
        match self.form(path, accept).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.is_code(404) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads the text at a path, such as a log. Bytes that are not UTF-8 are replaced.
    ///
    /// # Errors
    /// If the request fails.
    pub async fn text_at(&self, path: &str) -> Result<String, ClusterError> {
        let request = Request::get(path).body(Vec::new());
        let request = request.map_err(|error| ClusterError::Invalid(error.to_string()))?;
        match self.client.request_text(request).await {
            Err(kube::Error::FromUtf8(error)) => {
                Ok(String::from_utf8_lossy(error.as_bytes()).into_owned())
            }
            text => text.map_err(|error| self.failure(error)),
        }
    }

    /// Sends a request and returns the object in the response. `path` may have a query.
    ///
    /// # Errors
    /// If the request fails.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<(MediaType, &Value)>,
    ) -> Result<Value, ClusterError> {
        let answer = client::send(&self.client, method, path, body).await;
        answer.map_err(|error| self.failure(error))
    }

    /// Creates an object in the collection at a path, or changes the object at a path.
    ///
    /// # Errors
    /// If the request fails.
    pub async fn write(
        &self,
        path: &str,
        write: Write<'_>,
        body: &Value,
    ) -> Result<Value, ClusterError> {
        let method = match write.content {
            MediaType::Json => Method::POST,
            _ => Method::PATCH,
        };
        let dry_run = if write.dry_run { "&dryRun=All" } else { "" };
        let options = write.options;
        let url = format!("{path}?fieldManager={FIELD_MANAGER}{options}{dry_run}");
        self.send(method, &url, Some((write.content, body))).await
    }

    /// The resource of a kind; `None` if the kind is not served. Requested once per group and
    /// version.
    ///
    /// # Errors
    /// If the kinds of the server cannot be read.
    pub async fn resource(&self, gvk: &Gvk) -> Result<Option<Arc<Resource>>, ClusterError> {
        Ok(self.discovery.resolve(gvk).await?)
    }

    /// The version in which a kind is served.
    ///
    /// # Errors
    /// If the kinds of the server cannot be read.
    pub async fn locate(&self, gvk: &Gvk) -> Result<Location, ClusterError> {
        Ok(self.discovery.locate(gvk).await?)
    }

    /// All kinds that the server serves. They are requested once. Warns if the server does not know
    /// all of them.
    ///
    /// # Errors
    /// If the kinds of the server cannot be read.
    pub async fn served(&self) -> Result<&[Served], ClusterError> {
        let ask = async || {
            let mut warnings = Vec::new();
            let served = self.discover(&mut warnings).await?;
            for warning in &warnings {
                self.warn(warning);
            }
            Ok(served)
        };
        let served = self.served.get_or_try_init(ask).await;
        served.map(Vec::as_slice)
    }

    /// All kinds that the server serves. They are requested again; `warnings` gets those that the
    /// server does not know.
    ///
    /// # Errors
    /// If the kinds of the server cannot be read.
    pub async fn discover(&self, warnings: &mut Vec<String>) -> Result<Vec<Served>, ClusterError> {
        let (core, groups) = futures::try_join!(
            self.client.list_core_api_versions_aggregated(),
            self.client.list_api_groups_aggregated(),
        )
        .map_err(|error| self.failure(error))?;
        Ok(kinds(&core, &groups, warnings))
    }

    /// Path of an object; an error if its kind is not served.
    ///
    /// # Errors
    /// If the kind is not served, or the name of the object cannot be part of a path.
    pub async fn path_of(&self, gvk: &Gvk, key: &ObjectKey) -> Result<String, ClusterError> {
        let Some(resource) = self.resource(gvk).await? else {
            let (version, kind) = (gvk.api_version(), &gvk.kind);
            return Err(ClusterError::NotFound(format!(
                "{version} {kind} is not served"
            )));
        };
        let path = resource.path_of(key);
        path.map_err(|error| ClusterError::Impossible(error.to_string()))
    }

    /// The object that the server would store for an apply by the manager.
    ///
    /// # Errors
    /// If the server would refuse the apply, or the request fails.
    pub async fn dry_run_apply(
        &self,
        path: &str,
        body: &Value,
        is_forced: bool,
    ) -> Result<Value, ClusterError> {
        let url = format!("{path}?{BY_MANAGER}&force={is_forced}");
        self.send(Method::PATCH, &url, Some((MediaType::Apply, body)))
            .await
    }

    /// The object that the server would store if the manager replaced an object by `body`.
    ///
    /// # Errors
    /// If the server would refuse the write, or the request fails.
    pub async fn dry_run_replace(&self, path: &str, body: &Value) -> Result<Value, ClusterError> {
        let url = format!("{path}?{BY_MANAGER}");
        self.send(Method::PUT, &url, Some((MediaType::Json, body)))
            .await
    }

    /// Reads a URL as this media type.
    async fn form(&self, url: &str, accept: &str) -> Result<Value, ClusterError> {
        let answer = client::get(&self.client, url, accept).await;
        answer.map_err(|error| self.failure(error))
    }

    /// The error for a failed request, for people.
    pub fn failure(&self, error: kube::Error) -> ClusterError {
        match error {
            kube::Error::Api(status) => ClusterError::Refused(status),
            kube::Error::HttpError(error) => ClusterError::Invalid(error.to_string()),
            source => ClusterError::Unreachable {
                server: self.server.clone(),
                source: Box::new(source),
            },
        }
    }
}

/// The media type for the objects that a query requests.
fn accept(query: &ListQuery) -> &'static str {
    if query.metadata_only {
        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
    } else {
        JSON
    }
}

/// The number of objects of a collection, by its first page.
fn count(page: &Value) -> Count {
    let items = page["items"].as_array().map_or(0, Vec::len);
    let items = u64::try_from(items).unwrap_or(u64::MAX);
    let metadata = &page["metadata"];
    let is_whole = metadata["continue"].as_str().is_none_or(str::is_empty);
    match metadata["remainingItemCount"].as_u64() {
        Some(more) => Count::Exactly(items.saturating_add(more)),
        None if is_whole => Count::Exactly(items),
        None => Count::MoreThan(items),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_number_of_objects_is_read_from_one_page() {
        for (page, expected) in [
            (json!({"items": []}), Count::Exactly(0)),
            (
                json!({"items": [{}], "metadata": {"continue": ""}}),
                Count::Exactly(1),
            ),
            (
                json!({"items": [{}], "metadata": {"continue": "x", "remainingItemCount": 11}}),
                Count::Exactly(12),
            ),
            (
                json!({"items": [{}], "metadata": {"continue": "x"}}),
                Count::MoreThan(1),
            ),
        ] {
            assert_eq!(count(&page), expected, "{page}");
        }
    }
}
