//! Service accounts that write children, and their rights to read them.
//!
//! A user who may create a revision must gain no rights by it, so the objects of a revision are
//! written with the rights of a service account of its namespace. The request names the account in
//! `Impersonate-User`. The server adds the groups of the account itself, so the manager needs the
//! right to impersonate service accounts only, and none on groups.
//!
//! Reads are sent with the rights of the manager, because its caches serve all accounts. So before
//! anything about an object is reported, the server is asked if the account may read the object.

pub(crate) mod rights;

use std::{fmt, sync::Arc, time::Instant};

use baton_engine::{Gvk, ObjectKey};
use http::{Method, Request, header};
use kube::client::Body;
use serde_json::{Value, json};

use self::rights::Right;
use crate::{
    discovery::Resource,
    target::Target,
    wire::{self, WireError},
};

/// Header that names the user with whose rights the server carries out a request.
pub(crate) const IMPERSONATE_USER: &str = "impersonate-user";

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/// A service account.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Account {
    namespace: Arc<str>,
    name: Arc<str>,
}

impl Account {
    /// The account of this name in a namespace; `None` for cluster-scoped owners, which are for
    /// administrators.
    pub fn new(namespace: &str, name: &str) -> Option<Self> {
        (!namespace.is_empty() && !name.is_empty()).then(|| Self {
            namespace: namespace.into(),
            name: name.into(),
        })
    }
}

/// Prints the user name of the account: `system:serviceaccount:NAMESPACE:NAME`.
impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "system:serviceaccount:{}:{}", self.namespace, self.name)
    }
}

impl Target {
    /// Returns the reason that an account may not read an object, also if the right cannot be
    /// checked; `None` if the account may.
    ///
    /// One request is about all objects of a kind in a namespace, and a second one about the object
    /// itself if not all of them may be read. Answers are cached for a while.
    pub async fn hides(&self, account: &Account, gvk: &Gvk, key: &ObjectKey) -> Option<String> {
        let resource = match self.resolve(gvk).await {
            Ok(Some(resource)) => resource,
            // No object can be read. The missing kind is reported elsewhere.
            Ok(None) => return None,
            Err(error) => return Some(error.to_string()),
        };
        for name in ["", &key.name] {
            match self.may_get(account, &resource, key, name).await {
                Ok(true) => return None,
                Ok(false) => {}
                Err(cause) => {
                    return Some(format!(
                        "cannot check whether {account} may get it, as its probes need: {cause}"
                    ));
                }
            }
        }
        Some(format!(
            "{account} may not get it, which its probes and conditionMappings need"
        ))
    }

    async fn may_get(
        &self,
        account: &Account,
        resource: &Resource,
        key: &ObjectKey,
        name: &str,
    ) -> Result<bool, String> {
        let right = Right {
            account: account.clone(),
            group: key.group.clone(),
            plural: resource.plural.clone(),
            namespace: key.namespace.clone(),
            name: name.to_owned(),
        };
        if let Some(granted) = self.0.rights.get(&right, Instant::now()) {
            return Ok(granted);
        }
        let request = review(&right).map_err(|error| error.to_string())?;
        let _permit = self.0.permits.acquire(&right.namespace).await;
        let reply = wire::call(&self.0.client, request).await;
        let reply = reply.map_err(|error| error.to_string())?;
        if !reply.status.is_success() {
            return Err(wire::failure(reply.status, &reply.body).message);
        }
        let answer: Value =
            serde_json::from_slice(&reply.body).map_err(|error| error.to_string())?;
        let granted = answer["status"]["allowed"] == true;
        self.0.rights.insert(right, granted, Instant::now());
        Ok(granted)
    }
}

/// Builds a review that asks the server if the account has a right. The request is sent as that
/// account, so the manager needs no right but to impersonate it.
fn review(right: &Right) -> Result<Request<Body>, WireError> {
    let Right {
        account,
        group,
        plural,
        namespace,
        name,
    } = right;
    let body = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": { "resourceAttributes": {
            "verb": "get", "group": group, "resource": plural, "namespace": namespace, "name": name,
        } },
    });
    Request::builder()
        .method(Method::POST)
        .uri(REVIEWS)
        .header(header::ACCEPT, "application/json")
        .header(header::CONTENT_TYPE, "application/json")
        .header(IMPERSONATE_USER, account.to_string())
        .body(Body::from(body.to_string().into_bytes()))
        .map_err(|source| WireError::Build {
            path: REVIEWS.to_owned(),
            source,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_of_a_namespace() {
        let account = Account::new("shop", "deployer").unwrap();
        assert_eq!(account.to_string(), "system:serviceaccount:shop:deployer");
        assert_eq!(Account::new("", "deployer"), None);
        assert_eq!(Account::new("shop", ""), None);
    }
}
