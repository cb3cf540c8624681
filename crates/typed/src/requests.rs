//! Requests about typed objects of one cluster.

use std::fmt::Write as _;

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
    /// The server stores a field without a schema, such as the data of a `ControllerRevision`, as
    /// the text that it received, and compares such texts when the object is written again. So the
    /// text is the one that the server would write.
    ///
    /// # Errors
    /// If the request fails.
    pub async fn create<K: Namespaced>(&self, object: &K) -> Result<K, kube::Error> {
        let api = self.api(object);
        let body = serde_json::to_string(object).map_err(kube::Error::SerdeError)?;
        let request = kube::core::Request::new(api.resource_url());
        let request = request.create(&post(), escaped(&body).into_bytes());
        let request = request.map_err(kube::Error::BuildRequest)?;
        self.client.request(request).await
    }

    /// Writes an object as a whole. The version in its metadata is the precondition. The characters
    /// of HTML are not escaped.
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
    pub async fn merge<K: Namespaced>(&self, observed: &K, patch: Value) -> Result<K, kube::Error> {
        let version = observed.meta().resource_version.as_deref();
        self.merge_at(version, observed, patch).await
    }

    /// Applies a merge patch to an object of the name of `present`, in the state of a version that was
    /// observed before.
    ///
    /// # Errors
    /// If the request fails, with 409 if the object has another version.
    pub async fn merge_at<K: Namespaced>(
        &self,
        version: Option<&str>,
        present: &K,
        mut patch: Value,
    ) -> Result<K, kube::Error> {
        patch["metadata"]["resourceVersion"] = version.into();
        let parameters = PatchParams::apply(FIELD_MANAGER);
        let api = self.api(present);
        let patch = Patch::Merge(patch);
        api.patch(name(present), &parameters, &patch).await
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

/// JSON with the characters escaped that encoders in Go escape. They occur in strings only.
fn escaped(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            '&' | '<' | '>' | '\u{2028}' | '\u{2029}' => {
                // Writing into a string cannot fail.
                let _ = write!(text, "\\u{:04x}", u32::from(character));
            }
            other => text.push(other),
        }
    }
    text
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn escaped_json_has_the_same_value() {
        let value = json!({"a<b": "x && y >= \"z\" \\& \u{2028}\u{2029} ä", "n": [1, 2.5]});
        let text = escaped(&value.to_string());
        assert!(!text.contains(['&', '<', '>', '\u{2028}']), "{text}");
        assert!(text.contains(r"x \u0026\u0026 y \u003e="), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    }
}
