//! Sends the requests of commands to an API server.
//!
//! Objects are JSON: people expect the fields that the server has, not those that some version of a
//! type has.

use baton_apis::url::escape;
use baton_kubernetes::wire::MediaType;
use http::{Method, Request, header};
use kube::{Client, Error};
use serde_json::Value;

/// Media type of whole objects and lists.
pub const JSON: &str = "application/json";

/// Number of objects per page of a list, as in kubectl.
const PAGE: u32 = 500;

/// Selects the objects of a collection, in the syntax of the API.
#[derive(Clone, Copy, Debug, Default)]
pub struct Selectors<'a> {
    /// Selects by labels.
    pub labels: Option<&'a str>,
    /// Selects by fields.
    pub fields: Option<&'a str>,
}

/// Reads the object at a URL path, which may have a query, in the form of a media type.
///
/// # Errors
/// If the server refuses the request, or cannot be reached.
pub async fn get(client: &Client, url: &str, accept: &str) -> Result<Value, Error> {
    let request = Request::get(url).header(header::ACCEPT, accept);
    answer(client, request.body(Vec::new())).await
}

/// Sends a request to a URL path, which may have a query, and returns the object in the response.
///
/// # Errors
/// If the server refuses the request, or cannot be reached.
pub async fn send(
    client: &Client,
    method: Method,
    url: &str,
    body: Option<(MediaType, &Value)>,
) -> Result<Value, Error> {
    let mut request = Request::builder()
        .method(method)
        .uri(url)
        .header(header::ACCEPT, JSON);
    if let Some((content, _)) = body {
        request = request.header(header::CONTENT_TYPE, content.as_str());
    }
    let bytes = body.map_or_else(Vec::new, |(_, value)| value.to_string().into_bytes());
    answer(client, request.body(bytes)).await
}

/// Lists a collection page by page, and calls `take` with each object. Objects carry `apiVersion`
/// and `kind`, which servers leave out of lists of built-in kinds.
///
/// # Errors
/// If a page is refused, or the server cannot be reached. `take` was called with the objects of
/// earlier pages then.
pub async fn for_each(
    client: &Client,
    path: &str,
    selectors: Selectors<'_>,
    accept: &str,
    mut take: impl FnMut(Value),
) -> Result<(), Error> {
    let mut token = String::new();
    loop {
        let mut page = get(client, &url(path, selectors, &token), accept).await?;
        let kind = page["kind"].as_str().unwrap_or_default();
        let kind = kind.strip_suffix("List").unwrap_or(kind).to_owned();
        let api_version = page["apiVersion"].take();
        if let Value::Array(found) = page["items"].take() {
            for mut item in found {
                if item["kind"].is_null() {
                    item["apiVersion"] = api_version.clone();
                    item["kind"] = kind.clone().into();
                }
                take(item);
            }
        }
        match page.pointer("/metadata/continue").and_then(Value::as_str) {
            Some(next) if !next.is_empty() => next.clone_into(&mut token),
            _ => return Ok(()),
        }
    }
}

async fn answer(
    client: &Client,
    request: Result<Request<Vec<u8>>, http::Error>,
) -> Result<Value, Error> {
    client.request(request.map_err(Error::HttpError)?).await
}

fn url(path: &str, selectors: Selectors<'_>, token: &str) -> String {
    let mut url = format!("{path}?limit={PAGE}");
    for (name, value) in [
        ("labelSelector", selectors.labels),
        ("fieldSelector", selectors.fields),
        ("continue", Some(token).filter(|token| !token.is_empty())),
    ] {
        if let Some(value) = value {
            url.push('&');
            url.push_str(name);
            url.push('=');
            url.push_str(&escape(value));
        }
    }
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_escaped() {
        let selectors = Selectors {
            labels: Some("package-operator.run/cache=True"),
            fields: Some("metadata.name=a&b"),
        };
        assert_eq!(
            url("/api/v1/pods", selectors, "x+y="),
            "/api/v1/pods?limit=500&labelSelector=package-operator.run%2Fcache%3DTrue\
             &fieldSelector=metadata.name%3Da%26b&continue=x%2By%3D"
        );
        assert_eq!(
            url("/api/v1/pods", Selectors::default(), ""),
            "/api/v1/pods?limit=500"
        );
    }
}
