//! The requests that a fault injector has received.

use http::{Method, Request, header};

/// The verb of a request as in RBAC, but an apply differs from other patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Reads one object, or a path that is no resource, such as `/version`.
    Get,
    /// Reads a collection.
    List,
    /// Watches a collection.
    Watch,
    /// Creates an object.
    Create,
    /// Replaces an object.
    Update,
    /// Changes an object.
    Patch,
    /// Applies an object on the server side.
    Apply,
    /// Deletes an object.
    Delete,
    /// Deletes a collection.
    DeleteCollection,
    /// Anything else.
    Other,
}

/// A request and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedRequest {
    /// Verb of the request.
    pub verb: Verb,
    /// Path of the request.
    pub path: String,
    /// Query of the request.
    pub query: String,
    /// Status that the client received, or 0 if the connection ended instead.
    pub status: u16,
    /// True if the request met an injection.
    pub injected: bool,
    /// True if the real server carried out the request.
    pub carried_out: bool,
}

impl ObservedRequest {
    /// Starts the entry of a request whose answer is not determined yet.
    pub(super) fn new<B>(request: &Request<B>) -> Self {
        let path = request.uri().path().to_owned();
        let query = request.uri().query().unwrap_or_default().to_owned();
        let content = request.headers().get(header::CONTENT_TYPE);
        let content = content.and_then(|content| content.to_str().ok());
        Self {
            verb: verb(request.method(), &path, &query, content.unwrap_or_default()),
            path,
            query,
            status: 0,
            injected: false,
            carried_out: false,
        }
    }

    /// True if the request is a dry run, which stores nothing.
    #[must_use]
    pub fn is_dry_run(&self) -> bool {
        parameters(&self.query).any(|parameter| parameter == "dryRun=All")
    }

    /// True if the request asks the server to store or to remove an object.
    #[must_use]
    pub fn is_write(&self) -> bool {
        let changes = match self.verb {
            Verb::Create
            | Verb::Update
            | Verb::Patch
            | Verb::Apply
            | Verb::Delete
            | Verb::DeleteCollection => true,
            Verb::Get | Verb::List | Verb::Watch | Verb::Other => false,
        };
        changes && !self.is_dry_run()
    }
}

fn parameters(query: &str) -> impl Iterator<Item = &str> {
    query.split('&')
}

fn verb(method: &Method, path: &str, query: &str, content: &str) -> Verb {
    let named = is_named(path);
    match *method {
        Method::GET => {
            let watches = ["watch=1", "watch=true"];
            if parameters(query).any(|parameter| watches.contains(&parameter)) {
                Verb::Watch
            } else if named {
                Verb::Get
            } else {
                Verb::List
            }
        }
        Method::POST => Verb::Create,
        Method::PUT => Verb::Update,
        Method::PATCH if content.starts_with("application/apply-patch") => Verb::Apply,
        Method::PATCH => Verb::Patch,
        Method::DELETE if named => Verb::Delete,
        Method::DELETE => Verb::DeleteCollection,
        _ => Verb::Other,
    }
}

/// True if a path is not that of a collection.
///
/// `/api/v1/configmaps` and `/apis/apps/v1/namespaces/x/deployments` are collections. A shorter
/// path names no resource, a longer one names an object or a subresource.
fn is_named(path: &str) -> bool {
    let mut parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let root = match parts.first() {
        Some(&"api") => 2,
        Some(&"apis") => 3,
        _ => return true,
    };
    parts.drain(..root.min(parts.len()));
    if parts.first() == Some(&"namespaces") && parts.len() > 2 {
        parts.drain(..2);
    }
    parts.len() != 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: &str, uri: &str, content: &str) -> ObservedRequest {
        let request = Request::builder().method(method).uri(uri);
        let request = request.header(header::CONTENT_TYPE, content);
        ObservedRequest::new(&request.body(()).unwrap())
    }

    #[track_caller]
    fn check(method: &str, uri: &str, verb: Verb) {
        assert_eq!(request(method, uri, "").verb, verb, "{method} {uri}");
    }

    #[test]
    fn requests_have_the_verbs_of_the_api() {
        check("GET", "/version", Verb::Get);
        check("GET", "/apis", Verb::Get);
        check("GET", "/api/v1", Verb::Get);
        check("GET", "/apis/apps/v1", Verb::Get);
        check("GET", "/api/v1/configmaps?limit=5", Verb::List);
        check("GET", "/api/v1/namespaces", Verb::List);
        check("GET", "/api/v1/namespaces/a", Verb::Get);
        check("GET", "/api/v1/namespaces/a/configmaps", Verb::List);
        check(
            "GET",
            "/api/v1/namespaces/a/configmaps?watch=1&a=b",
            Verb::Watch,
        );
        check(
            "GET",
            "/apis/apps/v1/deployments?a=b&watch=true",
            Verb::Watch,
        );
        check("GET", "/apis/apps/v1/namespaces/a/deployments/b", Verb::Get);
        check(
            "GET",
            "/apis/apps/v1/namespaces/a/deployments/b/status",
            Verb::Get,
        );
        check("POST", "/api/v1/namespaces/a/configmaps", Verb::Create);
        check("PUT", "/api/v1/namespaces/a/configmaps/b", Verb::Update);
        check("PATCH", "/api/v1/namespaces/a/configmaps/b", Verb::Patch);
        check("DELETE", "/api/v1/namespaces/a/configmaps/b", Verb::Delete);
        check(
            "DELETE",
            "/api/v1/namespaces/a/configmaps",
            Verb::DeleteCollection,
        );
        check("OPTIONS", "/", Verb::Other);
    }

    #[test]
    fn a_dry_run_is_no_write() {
        let path = "/api/v1/namespaces/a/configmaps/b";
        let apply = "application/apply-patch+yaml";
        let write = request("PATCH", &format!("{path}?force=true"), apply);
        assert_eq!((write.verb, write.is_write()), (Verb::Apply, true));
        let dry = request("PATCH", &format!("{path}?dryRun=All&force=true"), apply);
        assert_eq!((dry.verb, dry.is_write()), (Verb::Apply, false));
        assert!(!request("GET", path, "").is_write());
        assert!(request("DELETE", path, "").is_write());
    }
}
