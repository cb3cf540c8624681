//! Sends the requests of commands to an API server.
//!
//! Objects are JSON: people expect the fields that the server has, not those that some version of a
//! type has.

use baton_apis::url::escape;
use baton_kubernetes::wire::MediaType;
use http::{Method, Request, header};
use kube::{Client, Error};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

/// Media type of whole objects and lists.
pub const JSON: &str = "application/json";

/// Number of objects on the first page of a list, which shows how large they are.
const FIRST_PAGE: usize = 100;

/// Limit of the number of objects per page. Pages are read one after the other, and each costs the server
/// about a tenth of a second.
const PAGE: usize = 10_000;

/// Bytes of text that a page should have: objects may have a megabyte.
const PAGE_BYTES: usize = 16 << 20;

/// A page of a list. Its objects are text, of which one at a time is parsed: values can take twenty
/// times the memory of their text.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Page<'p> {
    api_version: Value,
    kind: String,
    metadata: PageMetadata,
    #[serde(borrow)]
    items: Option<Vec<&'p RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PageMetadata {
    r#continue: Option<String>,
}

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
    let (mut token, mut limit) = (String::new(), FIRST_PAGE);
    loop {
        let request = Request::get(url(path, selectors, limit, &token));
        let request = request.header(header::ACCEPT, accept).body(Vec::new());
        let text = client
            .request_text(request.map_err(Error::HttpError)?)
            .await?;
        let page: Page<'_> = serde_json::from_str(&text).map_err(Error::SerdeError)?;
        let kind = page.kind.strip_suffix("List").unwrap_or(&page.kind);
        let items = page.items.unwrap_or_default();
        limit = next_limit(items.len(), text.len());
        for item in items {
            let mut item: Value = serde_json::from_str(item.get()).map_err(Error::SerdeError)?;
            if item["kind"].is_null() {
                item["apiVersion"] = page.api_version.clone();
                item["kind"] = kind.into();
            }
            take(item);
        }
        match page.metadata.r#continue {
            Some(next) if !next.is_empty() => token = next,
            _ => return Ok(()),
        }
    }
}

/// The number of objects to request after a page of so many objects and bytes.
fn next_limit(items: usize, bytes: usize) -> usize {
    let average = bytes / items.max(1);
    (PAGE_BYTES / average.max(1)).clamp(1, PAGE)
}

async fn answer(
    client: &Client,
    request: Result<Request<Vec<u8>>, http::Error>,
) -> Result<Value, Error> {
    client.request(request.map_err(Error::HttpError)?).await
}

fn url(path: &str, selectors: Selectors<'_>, limit: usize, token: &str) -> String {
    let mut url = format!("{path}?limit={limit}");
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
            url("/api/v1/pods", selectors, 500, "x+y="),
            "/api/v1/pods?limit=500&labelSelector=package-operator.run%2Fcache%3DTrue\
             &fieldSelector=metadata.name%3Da%26b&continue=x%2By%3D"
        );
        assert_eq!(
            url("/api/v1/pods", Selectors::default(), 500, ""),
            "/api/v1/pods?limit=500"
        );
    }

    #[test]
    fn pages_have_fewer_objects_if_these_are_large() {
        assert_eq!(next_limit(100, 100 << 20), 16);
        assert_eq!(next_limit(100, 100 << 10), PAGE);
        assert_eq!(next_limit(100, 400 << 10), 4096);
        assert_eq!(next_limit(1, 100 << 20), 1);
        assert_eq!(next_limit(0, 20), PAGE);
    }

    #[test]
    fn a_page_is_read_without_parsing_its_objects() {
        let text = r#"{"kind": "PodList", "apiVersion": "v1", "items": [{"a": [0, 0]}],
            "metadata": {"continue": "x", "remainingItemCount": 3}}"#;
        let page: Page<'_> = serde_json::from_str(text).unwrap();
        assert_eq!(page.items.unwrap()[0].get(), r#"{"a": [0, 0]}"#);
        assert_eq!(page.metadata.r#continue.unwrap(), "x");
        let empty: Page<'_> =
            serde_json::from_str(r#"{"kind": "List", "items": null, "metadata": {}}"#).unwrap();
        assert!(empty.items.is_none());
    }
}
