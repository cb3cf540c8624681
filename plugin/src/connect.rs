//! The connection to a cluster, and the few requests that all commands are made of.
//!
//! Objects are JSON: a person wants to see what the server holds, not what some version of a type
//! keeps of it.

use std::sync::Arc;

use baton_apis::kinds::Kind;
use baton_engine::{Gvk, ObjectKey};
use baton_kubernetes::{
    discovery::{Discovery, Resource},
    path,
    wire::MediaType,
};
use baton_terminal::{
    client::{self, JSON, Selectors},
    connection::{CONNECT_TIMEOUT, server_url},
    error::{is_absent, is_not_served},
    kubeconfig::{ConnectionArgs, load_client_config},
    proxy::shown,
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
    error::Error,
    output::report_once,
    served::{Served, kinds},
};

/// The field manager of everything that this program writes.
pub(crate) const FIELD_MANAGER: &str = "kubectl-baton";

/// The query of dry runs of what the manager would write.
const BY_MANAGER: &str = "fieldManager=package-operator&fieldValidation=Ignore&dryRun=All";

/// Objects whole, and their metadata alone.
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// Requests under way at the same time.
pub(crate) const SIDE_BY_SIDE: usize = 8;

/// A cluster, and the namespace to look into.
#[derive(Clone)]
pub(crate) struct Cluster {
    /// For requests that the methods here do not make.
    pub(crate) client: Client,
    /// The namespace of the flag, else of the context, else `default`.
    pub(crate) namespace: String,
    /// URL of the API server, and the proxy on the way to it, for messages.
    pub(crate) server: String,
    discovery: Arc<Discovery>,
    served: Arc<OnceCell<Vec<Served>>>,
}

/// Connects by the rules of kubectl: flags, `KUBECONFIG`, `~/.kube/config`, service account.
pub(crate) async fn connect(
    connection: &ConnectionArgs,
    namespace: Option<&str>,
    as_user: Option<&str>,
) -> Result<Cluster, Error> {
    let mut config = load_client_config(connection).await?;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    if let Some(user) = as_user {
        config.auth_info.impersonate = Some(user.to_owned());
    }
    let namespace = namespace.map_or_else(|| config.default_namespace.clone(), str::to_owned);
    let mut server = server_url(&config.cluster_url);
    if let Some(proxy) = &config.proxy_url {
        server = format!("{server} (through the proxy {})", shown(proxy));
    }
    let client = Client::try_from(config).map_err(|source| Error::Client {
        server: server.clone(),
        source: Box::new(source),
    })?;
    Ok(Cluster::new(client, namespace, server))
}

/// How to write, in the name of this program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write<'a> {
    pub(crate) content: MediaType,
    /// More of the query, such as `&force=true`.
    pub(crate) options: &'a str,
    /// Whether the server only checks it.
    pub(crate) dry_run: bool,
}

impl Write<'_> {
    pub(crate) fn new(content: MediaType, dry_run: bool) -> Self {
        Self {
            content,
            options: "",
            dry_run,
        }
    }
}

impl Cluster {
    pub(crate) fn new(client: Client, namespace: String, server: String) -> Self {
        Self {
            discovery: Arc::new(Discovery::new(client.clone())),
            served: Arc::default(),
            client,
            namespace,
            server,
        }
    }

    /// The same cluster, looking into another namespace.
    pub(crate) fn within(&self, namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            ..self.clone()
        }
    }

    /// The namespace in which objects of a kind are named: none for cluster-scoped kinds.
    pub(crate) fn namespace_of(&self, kind: ChainKind) -> Option<&str> {
        kind.is_namespaced.then_some(self.namespace.as_str())
    }

    /// Reads one of our own objects from the namespace in use; `None` when there is none.
    pub(crate) async fn get(&self, kind: ChainKind, name: &str) -> Result<Option<Value>, Error> {
        let path = kind.path(self.namespace_of(kind));
        let mut found = self.list_at(&path, &ListQuery::named(name)).await?;
        Ok(found.pop())
    }

    /// Reads a collection or a part of it: page by page, or an object by its name. Items carry `apiVersion` and `kind`,
    /// which servers leave out of lists of built-in kinds; with `metadata_only` these are of `PartialObjectMetadata`.
    ///
    /// # Errors
    /// If it cannot be read. That a kind of ours is not served is an error of its own.
    pub(crate) async fn list_at(&self, path: &str, query: &ListQuery) -> Result<Vec<Value>, Error> {
        let mut items = Vec::new();
        self.each_at(path, query, |item| items.push(item)).await?;
        Ok(items)
    }

    /// As [`Cluster::list_at`], for collections too large to be held: `take` gets one object after the other.
    pub(crate) async fn each_at(
        &self,
        path: &str,
        query: &ListQuery,
        take: impl FnMut(Value),
    ) -> Result<(), Error> {
        let read = match &query.name {
            Some(name) => self.each_named(path, name, query, take).await,
            None => self.each_listed(path, query, take).await,
        };
        read.map_err(|error| match error {
            Error::Refused(status) if is_not_served(&status) => match Kind::at(path) {
                Some(kind) => Error::NotServed {
                    server: self.server.clone(),
                    kind,
                },
                None => Error::Refused(status),
            },
            error => error,
        })
    }

    async fn each_named(
        &self,
        path: &str,
        name: &str,
        query: &ListQuery,
        mut take: impl FnMut(Value),
    ) -> Result<(), Error> {
        // What no object can be named does not exist.
        let Ok(path) = path::object(path, name) else {
            return Ok(());
        };
        let accept = if query.metadata_only { METADATA } else { JSON };
        match self.form(&path, accept).await {
            Err(Error::Refused(status)) if is_absent(&status) => {}
            object => take(object?),
        }
        Ok(())
    }

    async fn each_listed(
        &self,
        path: &str,
        query: &ListQuery,
        take: impl FnMut(Value),
    ) -> Result<(), Error> {
        let selectors = Selectors {
            labels: query.labels.as_deref(),
            fields: query.fields.as_deref(),
        };
        let listed = client::each(&self.client, path, selectors, accept(query), take).await;
        listed.map_err(|error| self.failure(error))
    }

    /// How many objects a collection has, by one request for one of them.
    pub(crate) async fn count_at(&self, path: &str) -> Result<Count, Error> {
        let query = &ListQuery {
            metadata_only: true,
            ..ListQuery::default()
        };
        let page = self.form(&format!("{path}?limit=1"), accept(query)).await?;
        Ok(count(&page))
    }

    /// Reads the object at a path; `None` when there is none.
    pub(crate) async fn get_at(&self, path: &str) -> Result<Option<Value>, Error> {
        self.read(path, JSON).await
    }

    /// Reads the metadata of the object at a path, and nothing else of it; `None` when there is none.
    pub(crate) async fn metadata_at(&self, path: &str) -> Result<Option<Value>, Error> {
        self.read(path, METADATA).await
    }

    async fn read(&self, path: &str, accept: &'static str) -> Result<Option<Value>, Error> {
        match self.form(path, accept).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.is_code(404) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads the text at a path, such as a log. What is not UTF-8 of it is replaced.
    pub(crate) async fn text_at(&self, path: &str) -> Result<String, Error> {
        let request = Request::get(path).body(Vec::new());
        let request = request.map_err(|error| Error::Usage(error.to_string()))?;
        match self.client.request_text(request).await {
            Err(kube::Error::FromUtf8(error)) => {
                Ok(String::from_utf8_lossy(error.as_bytes()).into_owned())
            }
            text => text.map_err(|error| self.failure(error)),
        }
    }

    /// Sends a request and returns the object that the server answers with. `path` may have a query.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<(MediaType, &Value)>,
    ) -> Result<Value, Error> {
        let answer = client::send(&self.client, method, path, body).await;
        answer.map_err(|error| self.failure(error))
    }

    /// Creates an object in the collection at a path, or changes the one at it.
    pub(crate) async fn write(
        &self,
        path: &str,
        write: Write<'_>,
        body: &Value,
    ) -> Result<Value, Error> {
        let method = match write.content {
            MediaType::Json => Method::POST,
            _ => Method::PATCH,
        };
        let dry_run = if write.dry_run { "&dryRun=All" } else { "" };
        let options = write.options;
        let url = format!("{path}?fieldManager={FIELD_MANAGER}{options}{dry_run}");
        self.send(method, &url, Some((write.content, body))).await
    }

    /// How the server serves a kind; `None` when it does not. Asked once per group and version.
    pub(crate) async fn resource(&self, gvk: &Gvk) -> Result<Option<Arc<Resource>>, Error> {
        Ok(self.discovery.resolve(gvk).await?)
    }

    /// Every kind that the server serves. Asked once; that the server does not know all of them is reported then.
    pub(crate) async fn served(&self) -> Result<&[Served], Error> {
        let ask = async || {
            let mut warnings = Vec::new();
            let served = self.discover(&mut warnings).await?;
            for warning in warnings {
                report_once(&format!("warning: {warning}"));
            }
            Ok(served)
        };
        let served = self.served.get_or_try_init(ask).await;
        served.map(Vec::as_slice)
    }

    /// The same, asked anew, with what the server does not know.
    pub(crate) async fn discover(&self, warnings: &mut Vec<String>) -> Result<Vec<Served>, Error> {
        let (core, groups) = futures::try_join!(
            self.client.list_core_api_versions_aggregated(),
            self.client.list_api_groups_aggregated(),
        )
        .map_err(|error| self.failure(error))?;
        Ok(kinds(&core, &groups, warnings))
    }

    /// Path of an object; an error where its kind is not served.
    pub(crate) async fn path_of(&self, gvk: &Gvk, key: &ObjectKey) -> Result<String, Error> {
        let Some(resource) = self.resource(gvk).await? else {
            let (version, kind) = (gvk.api_version(), &gvk.kind);
            return Err(Error::NotFound(format!("{version} {kind} is not served")));
        };
        let path = resource.path_of(key);
        path.map_err(|error| Error::Impossible(error.to_string()))
    }

    /// What the server would make of an apply by the manager.
    pub(crate) async fn dry_run_apply(
        &self,
        path: &str,
        body: &Value,
        is_forced: bool,
    ) -> Result<Value, Error> {
        let url = format!("{path}?{BY_MANAGER}&force={is_forced}");
        self.send(Method::PATCH, &url, Some((MediaType::Apply, body)))
            .await
    }

    /// What the server would make of an object that the manager puts in the place of another one.
    pub(crate) async fn dry_run_replace(&self, path: &str, body: &Value) -> Result<Value, Error> {
        let url = format!("{path}?{BY_MANAGER}");
        self.send(Method::PUT, &url, Some((MediaType::Json, body)))
            .await
    }

    /// Reads what is at a URL in the form of a media type.
    async fn form(&self, url: &str, accept: &str) -> Result<Value, Error> {
        let answer = client::get(&self.client, url, accept).await;
        answer.map_err(|error| self.failure(error))
    }

    /// What a failed request means to a person.
    pub(crate) fn failure(&self, error: kube::Error) -> Error {
        match error {
            kube::Error::Api(status) => Error::Refused(status),
            kube::Error::HttpError(error) => Error::Usage(error.to_string()),
            source => Error::Unreachable {
                server: self.server.clone(),
                source: Box::new(source),
            },
        }
    }
}

/// How much of the objects a request asks for.
fn accept(query: &ListQuery) -> &'static str {
    if query.metadata_only {
        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
    } else {
        JSON
    }
}

/// How many objects there are, by the first page of them.
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
    fn a_page_tells_how_many_objects_there_are() {
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
