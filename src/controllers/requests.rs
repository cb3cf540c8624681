//! The requests about typed objects on the manager's own API server, and how a pass over one ends early.

use baton_apis::constants::FIELD_MANAGER;
use baton_records::api::ApiError;
use baton_runtime::controller::ReconcileError;
use baton_typed::key::Kind;
use kube::{
    Api, Client, Resource,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions},
    core::NamespaceResourceScope,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::releases::calls::Calls;

/// A namespaced kind.
pub(crate) trait Namespaced:
    Kind + Resource<Scope = NamespaceResourceScope> + Serialize + DeserializeOwned
{
}

impl<K> Namespaced for K where
    K: Kind + Resource<Scope = NamespaceResourceScope> + Serialize + DeserializeOwned
{
}

/// Requests on the manager's own API server.
#[derive(Clone)]
pub(crate) struct Requests {
    /// The client; its requests are counted, and its writes let through for the leader alone.
    pub client: Client,
    /// Counts them a second time, as Shipper does.
    pub calls: Option<Calls>,
}

impl Requests {
    fn api<K: Namespaced>(&self, object: &K) -> Api<K> {
        let namespace = object.meta().namespace.as_deref().unwrap_or_default();
        Api::namespaced(self.client.clone(), namespace)
    }

    async fn count<K: Kind, T>(
        &self,
        method: &'static str,
        request: impl Future<Output = Result<T, kube::Error>> + Send,
    ) -> Result<T, kube::Error> {
        let Some(calls) = &self.calls else {
            return request.await;
        };
        let gvr = format!("{}, Resource={}", K::api_version(&()), K::plural(&()));
        calls.count(method, gvr, request).await
    }

    /// Creates an object; as the server has it then.
    pub(crate) async fn create<K: Namespaced>(&self, object: &K) -> Result<K, kube::Error> {
        let (api, post) = (self.api(object), post());
        self.count::<K, _>("POST", Box::pin(api.create(&post, object)))
            .await
    }

    /// Writes an object as a whole. The version in its metadata is the precondition.
    pub(crate) async fn replace<K: Namespaced>(&self, object: &K) -> Result<K, kube::Error> {
        let (api, post) = (self.api(object), post());
        let request = api.replace(name(object), &post, object);
        self.count::<K, _>("PUT", Box::pin(request)).await
    }

    /// Writes the status of an object whose kind has a subresource for it. The version in its metadata is the
    /// precondition.
    pub(crate) async fn replace_status<K: Namespaced>(&self, object: &K) -> Result<K, kube::Error> {
        let (api, post) = (self.api(object), post());
        let request = api.replace_status(name(object), &post, object);
        self.count::<K, _>("PUT", Box::pin(request)).await
    }

    /// Applies a merge patch to an object in the state that was observed.
    pub(crate) async fn merge<K: Namespaced>(
        &self,
        observed: &K,
        mut patch: Value,
    ) -> Result<K, kube::Error> {
        let version = observed.meta().resource_version.as_deref();
        patch["metadata"]["resourceVersion"] = version.into();
        let parameters = PatchParams::apply(FIELD_MANAGER);
        let api = self.api(observed);
        let patch = Patch::Merge(patch);
        let request = api.patch(name(observed), &parameters, &patch);
        self.count::<K, _>("PATCH", Box::pin(request)).await
    }

    /// Deletes an object in the state that was observed. That it is gone is no error.
    pub(crate) async fn delete<K: Namespaced>(&self, observed: &K) -> Result<(), kube::Error> {
        let parameters = DeleteParams {
            preconditions: Some(Preconditions {
                uid: observed.meta().uid.clone(),
                resource_version: observed.meta().resource_version.clone(),
            }),
            ..DeleteParams::default()
        };
        let api = self.api(observed);
        let request = api.delete(name(observed), &parameters);
        match self.count::<K, _>("DELETE", Box::pin(request)).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            answer => answer.map(drop),
        }
    }

    /// The objects of a namespace that a label selects, as the server has them now.
    pub(crate) async fn list<K: Namespaced>(
        &self,
        namespace: &str,
        selector: &str,
    ) -> Result<Vec<K>, kube::Error> {
        let api: Api<K> = Api::namespaced(self.client.clone(), namespace);
        let parameters = ListParams::default().labels(selector);
        let list = self
            .count::<K, _>("GET", Box::pin(api.list(&parameters)))
            .await?;
        Ok(list.items)
    }
}

/// A pass over a typed object ended early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A request about a typed object, or in another cluster.
    #[error("{step}: {source}")]
    Request {
        step: &'static str,
        source: kube::Error,
    },
    /// A request about a revision or a slice.
    #[error("{step}: {source}")]
    Record {
        step: &'static str,
        source: ApiError,
    },
    /// Something that is told in the status, and is to be tried again.
    #[error("{0}")]
    Told(String),
}

impl Error {
    /// What is to be told in the status: a refusal, which a second try does not overcome.
    pub(crate) fn refusal(&self) -> Option<String> {
        match self {
            Self::Told(text) => Some(text.clone()),
            Self::Record { source, .. } => source.refusal().map(|_| self.to_string()),
            Self::Request { .. } => None,
        }
    }
}

impl ReconcileError for Error {
    fn is_change(&self) -> bool {
        match self {
            Self::Request { source, .. } => is_change(source),
            Self::Record { source, .. } => source.is_change(),
            Self::Told(_) => false,
        }
    }
}

/// Whether a request was refused because the object is not what it was, or is gone.
pub(crate) fn is_change(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 404 | 409))
}

/// Says in which step of a pass a request failed.
pub(crate) trait AtStep<T> {
    fn at_step(self, step: &'static str) -> Result<T, Error>;
}

impl<T> AtStep<T> for Result<T, kube::Error> {
    fn at_step(self, step: &'static str) -> Result<T, Error> {
        self.map_err(|source| Error::Request { step, source })
    }
}

impl<T> AtStep<T> for Result<T, ApiError> {
    fn at_step(self, step: &'static str) -> Result<T, Error> {
        self.map_err(|source| Error::Record { step, source })
    }
}

fn post() -> PostParams {
    PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    }
}

fn name<K: Kind>(object: &K) -> &str {
    object.meta().name.as_deref().unwrap_or_default()
}
