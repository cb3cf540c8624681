//! The decision about a request to the API server, by its override annotation.

use baton_apis::RolloutBlock;
use baton_engine::{
    names::is_subdomain,
    rollout_blocks::{Verdict, listed},
};
use baton_kubernetes::error::request_failure;
use kube::{Api, Client};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::delivery::rollout_blocks::{RolloutBlocks, applies};

/// Maximum number of blocks that are read from the API server for one request. A block that exists is
/// missing in the cache for moments only, so there are few of them.
const MAX_READ: usize = 5;

/// Maximum length of an annotation in bytes: that of all annotations of an object.
const MAX_ANNOTATION: usize = 256 << 10;

/// The part of an `AdmissionReview` that decides. Everything else is skipped while it is parsed, so that
/// it takes no memory, and may be nested as deeply as it likes.
#[derive(Debug, Deserialize)]
struct Review {
    request: Request,
}

/// A request to the API server.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Request {
    uid: String,
    #[serde(default)]
    namespace: Option<String>,
    object: Option<Object>,
    old_object: Option<Object>,
}

#[derive(Debug, Deserialize)]
struct Object {
    metadata: Option<Metadata>,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    annotations: Option<Annotations>,
}

#[derive(Debug, Deserialize)]
struct Annotations {
    #[serde(rename = "shipper.booking.com/rollout-block.override")]
    overrides: Option<String>,
}

impl Object {
    /// The override annotation; empty if the object has none.
    fn overrides(&self) -> &str {
        let annotations = self
            .metadata
            .as_ref()
            .and_then(|it| it.annotations.as_ref());
        let overrides = annotations.and_then(|it| it.overrides.as_deref());
        overrides.unwrap_or_default()
    }
}

impl Request {
    /// Parses an `AdmissionReview`.
    ///
    /// # Errors
    /// The problem, for the API server.
    pub(super) fn parse(body: &[u8]) -> Result<Self, String> {
        let review: Review = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        let objects = [&review.request.object, &review.request.old_object];
        let longest = objects.into_iter().flatten().map(|it| it.overrides().len());
        if longest.max().unwrap_or_default() > MAX_ANNOTATION {
            return Err("the override annotation is longer than an object may have it".to_owned());
        }
        Ok(review.request)
    }

    /// The override annotation that the request sets; `None` if the blocks in it stay as they are.
    fn overrides(&self) -> Option<&str> {
        let wanted = self.object.as_ref()?.overrides();
        let before = self.old_object.as_ref().map_or("", Object::overrides);
        (listed(before) != listed(wanted)).then_some(wanted)
    }
}

/// The answer to a request.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Allowed,
    /// Allowed, because it cannot be decided; with the reason.
    Undecided(String),
    Denied(String),
}

/// The review with the answer: denied if the override annotation that the request sets names a block
/// that does not exist. An annotation with the same blocks as before is never the reason: a block was
/// deleted meanwhile, and the object has to stay changeable.
pub(super) async fn answer(request: &Request, blocks: &RolloutBlocks, client: &Client) -> Value {
    let mut response = json!({ "uid": request.uid, "allowed": true });
    match decide(request, blocks, client).await {
        Answer::Allowed => {}
        Answer::Undecided(cause) => {
            let text = format!("the override of rollout blocks was not checked: {cause}");
            response["warnings"] = json!([text]);
        }
        Answer::Denied(message) => {
            response["allowed"] = false.into();
            response["status"] = json!({ "code": 403, "reason": "Forbidden", "message": message });
        }
    }
    json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response })
}

async fn decide(request: &Request, blocks: &RolloutBlocks, client: &Client) -> Answer {
    let Some(overrides) = request.overrides() else {
        return Answer::Allowed;
    };
    let namespace = request.namespace.as_deref().unwrap_or_default();
    let Verdict::Unknown(names) = Verdict::of(&blocks.of(namespace), overrides) else {
        return Answer::Allowed;
    };
    if let Some(cause) = blocks.unlisted() {
        return Answer::Undecided(cause);
    }
    let mut missing = Vec::new();
    for (at, name) in listed(&names).into_iter().enumerate() {
        let is_there = match readable(name, namespace) {
            Some((namespace, name)) if at < MAX_READ => exists(client, namespace, name).await,
            _ => Ok(false),
        };
        match is_there {
            Ok(true) => {}
            Ok(false) => missing.push(name),
            Err(error) => return Answer::Undecided(request_failure(&error)),
        }
    }
    match Verdict::Unknown(missing.join(",")).problem() {
        Some(problem) if !missing.is_empty() => Answer::Denied(problem),
        _ => Answer::Allowed,
    }
}

/// Namespace and name of a block that may exist and apply to the objects of a namespace. The names come
/// from the user, and become parts of a path.
fn readable<'a>(block: &'a str, of_object: &str) -> Option<(&'a str, &'a str)> {
    let (namespace, name) = block.split_once('/')?;
    let is_valid = is_subdomain(namespace) && is_subdomain(name);
    (is_valid && applies(namespace, of_object)).then_some((namespace, name))
}

/// True if a block exists, also if it is being deleted.
async fn exists(client: &Client, namespace: &str, name: &str) -> Result<bool, kube::Error> {
    let blocks: Api<RolloutBlock> = Api::namespaced(client.clone(), namespace);
    Ok(blocks.get_metadata_opt(name).await?.is_some())
}

#[cfg(test)]
mod tests {
    use baton_apis::constants::shipper::ANNOTATION_BLOCK_OVERRIDE;

    use super::*;

    /// A review with an override in the object and in the old one.
    fn review(objects: [Option<&str>; 2]) -> Value {
        let [object, old] = objects.map(|overrides| {
            overrides.map(|text| {
                json!({
                    "metadata": { "name": "web", "annotations": { ANNOTATION_BLOCK_OVERRIDE: text } },
                    "spec": { "template": {} },
                })
            })
        });
        let request = json!({
            "uid": "u", "operation": "UPDATE", "namespace": "shop", "object": object, "oldObject": old,
        });
        json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request })
    }

    fn parse(review: &Value) -> Result<Request, String> {
        Request::parse(review.to_string().as_bytes())
    }

    #[test]
    fn only_blocks_that_a_request_changes_are_decided_about() {
        for (objects, expected) in [
            ([Some("a/b"), None], Some("a/b")),
            ([Some(""), None], None),
            ([Some("a/b"), Some("")], Some("a/b")),
            ([Some(""), Some("a/b")], Some("")),
            ([Some("a/b"), Some("a/b")], None),
            ([Some("c/d,a/b,"), Some("a/b,c/d")], None),
            ([None, Some("a/b")], None),
            ([None, None], None),
        ] {
            let request = parse(&review(objects)).unwrap();
            assert_eq!(request.overrides(), expected, "{objects:?}");
        }
        let plain = json!({ "request": { "uid": "u", "object": { "metadata": {} } } });
        assert_eq!(parse(&plain).unwrap().overrides(), None);
    }

    #[test]
    fn only_the_annotation_of_a_review_is_read() {
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        let text = review([Some("a/b"), None]).to_string();
        let text = text.replace("{\"template\":{}}", &deep);
        assert!(text.contains("[[[["), "{text}");
        let request = Request::parse(text.as_bytes()).unwrap();
        assert_eq!(request.overrides(), Some("a/b"));
        let long = "a/b,".repeat(MAX_ANNOTATION / 4 + 1);
        parse(&review([Some(&long), None])).unwrap_err();
        for text in [
            "",
            "{}",
            "[]",
            "{\"request\":{}}",
            "{\"request\":{\"uid\":1}}",
        ] {
            Request::parse(text.as_bytes()).unwrap_err();
        }
    }

    #[test]
    fn only_valid_names_of_blocks_that_apply_are_read() {
        for (block, expected) in [
            ("shop/frozen", Some(("shop", "frozen"))),
            (
                "rollout-blocks-global/frozen",
                Some(("rollout-blocks-global", "frozen")),
            ),
            ("other/frozen", None),
            ("shop/../secrets/a", None),
            ("shop/frozen?x", None),
            (" shop/frozen", None),
            ("shop/", None),
            ("frozen", None),
        ] {
            assert_eq!(readable(block, "shop"), expected, "{block}");
        }
        assert_eq!(
            readable("/frozen", ""),
            None,
            "objects of the cluster scope"
        );
    }
}
