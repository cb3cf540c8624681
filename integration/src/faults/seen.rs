//! What a request asks for.

use http::{Method, Request, header};

/// What a request does, in the words of RBAC; an apply apart from other patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Reads one object, or something that is none, such as `/version`.
    Get,
    /// Reads a collection.
    List,
    /// Follows a collection.
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

/// A request that was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// What it does.
    pub verb: Verb,
    /// Its path.
    pub path: String,
    /// Its query.
    pub query: String,
    /// The status that the client got, or 0 when the connection ended instead.
    pub status: u16,
    /// Whether it met an injection.
    pub injected: bool,
    /// Whether the real server carried it out.
    pub carried_out: bool,
}

impl Seen {
    /// A request whose answer is not known yet.
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

    /// Whether nothing would be stored.
    #[must_use]
    pub fn is_dry_run(&self) -> bool {
        parameters(&self.query).any(|parameter| parameter == "dryRun=All")
    }

    /// Whether it asks the server to store something, or to remove it.
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

/// Whether a path is not that of a collection: `/api/v1/configmaps` and
/// `/apis/apps/v1/namespaces/x/deployments` are ones; what names less is no resource, what names more an
/// object or a part of it.
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

    fn seen(method: &str, uri: &str, content: &str) -> Seen {
        let request = Request::builder().method(method).uri(uri);
        let request = request.header(header::CONTENT_TYPE, content);
        Seen::new(&request.body(()).unwrap())
    }

    #[track_caller]
    fn check(method: &str, uri: &str, verb: Verb) {
        assert_eq!(seen(method, uri, "").verb, verb, "{method} {uri}");
    }

    #[test]
    fn verbs_are_those_of_the_api() {
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
        let write = seen("PATCH", &format!("{path}?force=true"), apply);
        assert_eq!((write.verb, write.is_write()), (Verb::Apply, true));
        let dry = seen("PATCH", &format!("{path}?dryRun=All&force=true"), apply);
        assert_eq!((dry.verb, dry.is_write()), (Verb::Apply, false));
        assert!(!seen("GET", path, "").is_write());
        assert!(seen("DELETE", path, "").is_write());
    }
}
