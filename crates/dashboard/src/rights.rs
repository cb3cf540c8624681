//! The rights of a viewer, as the API server reviews them.

use std::{collections::BTreeSet, collections::HashMap, sync::Arc, time::Duration};

use baton_cluster::{Cluster, MAX_CONCURRENT};
use baton_kubernetes::wire::MediaType;
use baton_view::lists::{Cause, ListRequest};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::Method;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::failure::Failure;

/// The time for which a review is valid.
const VALID: Duration = Duration::from_mins(1);
/// The time for which a right that was granted is valid while the server makes no reviews.
const VALID_WITHOUT_SERVER: Duration = Duration::from_mins(10);
/// The number of reviews that are stored for a viewer.
const MAX_REVIEWS: usize = 1_000;

/// A right to read objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Access {
    verb: &'static str,
    group: String,
    version: String,
    resource: String,
    namespace: String,
    /// The name of the only object; empty for all of them.
    name: String,
}

impl Access {
    /// The right that a list requires.
    fn of(request: &ListRequest) -> Self {
        let segments: Vec<&str> = request.path.trim_start_matches('/').split('/').collect();
        let (group, version, rest) = match &segments[..] {
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            ["api", version, rest @ ..] => ("", *version, rest),
            _ => ("", "", &[][..]),
        };
        let (namespace, resource) = match rest {
            ["namespaces", namespace, resource, ..] => (*namespace, *resource),
            _ => ("", rest.first().copied().unwrap_or_default()),
        };
        let query = &request.query;
        // The server takes this selector for the name of the object.
        let of_one = query.fields.as_deref();
        let of_one = of_one.and_then(|fields| fields.strip_prefix("metadata.name="));
        // Many immutable objects are read by one list, and few by their names.
        let name = query.name.as_deref().filter(|_| !query.is_immutable);
        let name = name.or(of_one);
        Self {
            verb: "list",
            group: group.to_owned(),
            version: version.to_owned(),
            resource: resource.to_owned(),
            namespace: namespace.to_owned(),
            name: name.unwrap_or_default().to_owned(),
        }
    }

    fn review(&self) -> Value {
        json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {
                "verb": self.verb, "group": self.group, "version": self.version, "resource": self.resource,
                "namespace": self.namespace, "name": self.name,
            }},
        })
    }
}

/// The rights that the lists of an answer require; `None` if a right was missing, so that the answer is
/// for its viewer only.
pub(crate) fn required<'a>(
    lists: impl Iterator<Item = (&'a ListRequest, Option<Cause>)>,
) -> Option<Arc<BTreeSet<Access>>> {
    let mut all = BTreeSet::new();
    for (request, cause) in lists {
        match cause {
            Some(Cause::Forbidden) => return None,
            // There is nothing to read.
            Some(Cause::Unserved) => {}
            None => {
                all.insert(Access::of(request));
            }
        }
    }
    Some(Arc::new(all))
}

/// The reviews of a viewer's rights.
#[derive(Default)]
pub(crate) struct Reviews(Mutex<HashMap<Access, (Instant, bool)>>);

impl Reviews {
    /// True if the server allows all of the rights. Reviews are repeated after a minute. While the server
    /// makes none, rights that it has granted before stay, and others are refused.
    ///
    /// # Errors
    /// If the token is not valid.
    pub(crate) async fn allow(
        &self,
        cluster: &Cluster,
        required: &BTreeSet<Access>,
    ) -> Result<bool, Failure> {
        let now = Instant::now();
        let mut unknown = Vec::new();
        {
            let reviews = self.0.lock();
            for access in required {
                match reviews.get(access) {
                    Some((at, is_allowed)) if now - *at < VALID => {
                        if !is_allowed {
                            return Ok(false);
                        }
                    }
                    _ => unknown.push(access.clone()),
                }
            }
        }
        let reviews = unknown.into_iter().map(|access| async {
            let is_allowed = is_allowed(cluster, &access).await?;
            Ok::<_, Failure>((access, is_allowed))
        });
        let reviews = stream::iter(reviews).buffer_unordered(MAX_CONCURRENT);
        let reviews: Vec<(Access, Option<bool>)> = reviews.try_collect().await?;
        let mut known = self.0.lock();
        if known.len() + reviews.len() > MAX_REVIEWS {
            known.retain(|access, _| required.contains(access));
        }
        let mut are_allowed = true;
        for (access, review) in reviews {
            are_allowed &= match review {
                Some(is_allowed) => {
                    known.insert(access, (now, is_allowed));
                    is_allowed
                }
                None => known.get(&access).is_some_and(|(at, was_allowed)| {
                    *was_allowed && now - *at < VALID_WITHOUT_SERVER
                }),
            };
        }
        Ok(are_allowed)
    }
}

/// The review of a right; `None` if the server makes none now.
async fn is_allowed(cluster: &Cluster, access: &Access) -> Result<Option<bool>, Failure> {
    const PATH: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let review = access.review();
    let body = Some((MediaType::Json, &review));
    match cluster.send(Method::POST, PATH, body).await {
        Ok(review) => Ok(Some(review["status"]["allowed"] == true)),
        Err(error) if error.is_code(401) => Err(error.into()),
        Err(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_requires_the_right_of_its_request() {
        let access = |verb, group: &str, resource: &str, namespace: &str, name: &str| Access {
            verb,
            group: group.to_owned(),
            version: "v1".to_owned(),
            resource: resource.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        for (request, expected) in [
            (
                ListRequest::all("/api/v1/pods"),
                access("list", "", "pods", "", ""),
            ),
            (
                ListRequest::labelled("/apis/apps/v1/namespaces/shop/deployments", "a=b"),
                access("list", "apps", "deployments", "shop", ""),
            ),
            (
                ListRequest::named("/api/v1/namespaces/shop/secrets", "a"),
                access("list", "", "secrets", "shop", "a"),
            ),
            (
                ListRequest::of_one("/api/v1/namespaces/shop/secrets", "a"),
                access("list", "", "secrets", "shop", "a"),
            ),
            (
                ListRequest::immutable("/api/v1/namespaces/shop/secrets", "a"),
                access("list", "", "secrets", "shop", ""),
            ),
        ] {
            assert_eq!(Access::of(&request), expected);
        }
    }

    #[test]
    fn an_answer_without_a_right_is_for_its_viewer_only() {
        let (pods, nodes) = (
            ListRequest::all("/api/v1/pods"),
            ListRequest::all("/api/v1/nodes"),
        );
        let of = |cause| required([(&pods, None), (&nodes, cause)].into_iter());
        assert_eq!(of(None).map(|it| it.len()), Some(2));
        assert_eq!(of(Some(Cause::Unserved)).map(|it| it.len()), Some(1));
        assert_eq!(of(Some(Cause::Forbidden)), None);
    }
}
