//! Requests about typed objects of one cluster.

use baton_apis::constants::FIELD_MANAGER;
use baton_kubernetes::metadata::is_live;
use kube::{
    Api, Client, Resource,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions},
    core::NamespaceResourceScope,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::key::Kind;

/// A namespaced kind.
pub trait Namespaced:
    Kind + Resource<Scope = NamespaceResourceScope> + Serialize + DeserializeOwned
{
}

impl<K> Namespaced for K where
    K: Kind + Resource<Scope = NamespaceResourceScope> + Serialize + DeserializeOwned
{
}

/// Requests to the API server of a cluster.
#[derive(Clone)]
pub struct Requests {
    /// The client. The client of a manager counts requests, and writes only as the leader.
    pub client: Client,
}

impl Requests {
    fn api<K: Namespaced>(&self, object: &K) -> Api<K> {
        let namespace = object.meta().namespace.as_deref().unwrap_or_default();
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Creates an object. Returns the object as the server has it then.
    ///
    /// # Errors
    /// If the request fails.
    pub async fn create<K: Namespaced>(&self, object: &K) -> Result<K, kube::Error> {
        self.api(object).create(&post(), object).await
    }

    /// Writes an object as a whole. The version in its metadata is the precondition.
    ///
    /// # Errors
    /// If the request fails.
    pub async fn replace<K: Namespaced>(&self, object: &K) -> Result<K, kube::Error> {
        let api = self.api(object);
        api.replace(name(object), &post(), object).await
    }

    /// Writes the status of an object whose kind has a subresource for it. The version in its
    /// metadata is the precondition.
    ///
    /// # Errors
    /// If the request fails.
    pub async fn replace_status<K: Namespaced>(&self, object: &K) -> Result<K, kube::Error> {
        let api = self.api(object);
        api.replace_status(name(object), &post(), object).await
    }

    /// Applies a merge patch to an object in the state that was observed.
    ///
    /// # Errors
    /// If the request fails.
    pub async fn merge<K: Namespaced>(
        &self,
        observed: &K,
        mut patch: Value,
    ) -> Result<K, kube::Error> {
        let version = observed.meta().resource_version.as_deref();
        patch["metadata"]["resourceVersion"] = version.into();
        let parameters = PatchParams::apply(FIELD_MANAGER);
        let api = self.api(observed);
        let patch = Patch::Merge(patch);
        api.patch(name(observed), &parameters, &patch).await
    }

    /// Deletes an object in the state that was observed. It is no error if the object is gone.
    ///
    /// # Errors
    /// If the request fails.
    pub async fn delete<K: Namespaced>(&self, observed: &K) -> Result<(), kube::Error> {
        let parameters = DeleteParams {
            preconditions: Some(Preconditions {
                uid: observed.meta().uid.clone(),
                resource_version: observed.meta().resource_version.clone(),
            }),
            ..DeleteParams::default()
        };
        let api = self.api(observed);
        match api.delete(name(observed), &parameters).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            answer => answer.map(drop),
        }
    }

    /// True if an object exists and is not being deleted. Read from the server.
    ///
    /// # Errors
    /// If the request fails.
    pub async fn is_live<K: Namespaced>(&self, observed: &K) -> Result<bool, kube::Error> {
        let api = self.api(observed);
        let found = api.get_metadata_opt(name(observed)).await?;
        let found = found.as_ref().map(|it| &it.metadata);
        let uid = observed.meta().uid.as_deref().unwrap_or_default();
        Ok(is_live(found, uid))
    }

    /// Lists the objects of a namespace that a label selects, from the server.
    ///
    /// # Errors
    /// If the request fails.
    pub async fn list<K: Namespaced>(
        &self,
        namespace: &str,
        selector: &str,
    ) -> Result<Vec<K>, kube::Error> {
        let api: Api<K> = Api::namespaced(self.client.clone(), namespace);
        let parameters = ListParams::default().labels(selector);
        Ok(api.list(&parameters).await?.items)
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
