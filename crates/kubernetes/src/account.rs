//! Service accounts that requests about children are sent as, and what they may read.
//!
//! Who may create a revision is to gain no rights by it: its objects are written with the rights of an account of its
//! namespace. The server is told by `Impersonate-User`, and adds the groups of the account itself, so that the manager
//! needs the right to impersonate service accounts only, and none on groups.
//!
//! Reads stay the manager's, as its caches serve everybody. So before anything of an object is told, the server is
//! asked whether the account may read it.

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

/// Names the user that a request is to be carried out as.
pub(crate) const IMPERSONATE_USER: &str = "impersonate-user";

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/// A service account.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Account {
    namespace: Arc<str>,
    name: Arc<str>,
}

impl Account {
    /// The account of this name in a namespace; `None` for cluster-scoped owners, which are for administrators.
    pub fn new(namespace: &str, name: &str) -> Option<Self> {
        (!namespace.is_empty() && !name.is_empty()).then(|| Self {
            namespace: namespace.into(),
            name: name.into(),
        })
    }
}

/// Prints the name of the user that it is: `system:serviceaccount:NAMESPACE:NAME`.
impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "system:serviceaccount:{}:{}", self.namespace, self.name)
    }
}

impl Target {
    /// Why an account may not read an object, if so; also when that cannot be found out.
    ///
    /// One request for all objects of a kind in a namespace, and one for the object itself where not all of them may
    /// be read. Answers count for a while.
    pub async fn hides(&self, account: &Account, gvk: &Gvk, key: &ObjectKey) -> Option<String> {
        let resource = match self.resolve(gvk).await {
            Ok(Some(resource)) => resource,
            // There is nothing to read, which is reported elsewhere.
            Ok(None) => return None,
            Err(error) => return Some(error.to_string()),
        };
        for name in ["", &key.name] {
            match self.may_get(account, &resource, key, name).await {
                Ok(true) => return None,
                Ok(false) => {}
                Err(cause) => {
                    return Some(format!(
                        "{account} may perhaps not get it, as its probes need: {cause}"
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
        if let Some(granted) = self.0.rights.known(&right, Instant::now()) {
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
        self.0.rights.note(right, granted, Instant::now());
        Ok(granted)
    }
}

/// The question whether the account has a right, asked as that account: so it takes the right to impersonate only.
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
