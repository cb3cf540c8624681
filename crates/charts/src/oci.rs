//! Charts in registries: tags, manifests and blobs of the OCI distribution specification.

use baton_engine::redact::shown_url;
use reqwest::{
    Response, StatusCode,
    header::{LINK, WWW_AUTHENTICATE},
};
use serde::Deserialize;
use url::{Host, Url};

use crate::{
    Credentials,
    address::same_origin,
    http::{Authorization, Error as HttpError, Http, body},
};

/// Limit in bytes of a manifest, a page of tags or a token.
const MAX_BYTES: u64 = 1 << 20;

/// Limit in bytes of the versions of a chart.
const MAX_VERSIONS: usize = 8 << 20;

/// Limit of the pages of tags that are read.
const PAGES: usize = 100;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// Media type of the layer that is the archive of a chart.
const CHART: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";

/// A chart in a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Scheme, host and port of the registry.
    registry: Url,
    /// Path of the chart in the registry.
    path: String,
    /// Version of the chart, as a tag; empty for all versions.
    tag: String,
}

/// The reason that a registry does not provide the requested content.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The request failed.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// The registry requires an unknown kind of authorization.
    #[error("the registry requires an unknown kind of authorization")]
    Challenge,
    /// The response does not conform to the specification.
    #[error("the registry's {what} cannot be read: {why}")]
    Answer {
        /// The requested content.
        what: &'static str,
        /// The cause of the failure.
        why: String,
    },
}

/// An archive in a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    /// URL of the archive.
    pub url: Url,
    /// SHA-256 of the archive in hexadecimal digits.
    pub digest: String,
}

#[derive(Deserialize)]
struct Tags {
    tags: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Manifest {
    #[serde(default)]
    layers: Vec<Layer>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Layer {
    media_type: String,
    digest: String,
}

#[derive(Deserialize)]
struct Token {
    #[serde(alias = "access_token")]
    token: String,
}

impl Reference {
    /// Reads `oci://host/path:tag`.
    ///
    /// # Errors
    /// If the URL has no host or no path. The error is a text for people.
    pub fn parse(url: &Url) -> Result<Self, String> {
        let host = url.host_str().filter(|host| !host.is_empty());
        let host = host.ok_or_else(|| format!("{} has no host", shown_url(url.as_str())))?;
        // For an unknown scheme, the host is a text, even if it is an address.
        let loopback = match Host::parse(host) {
            Ok(Host::Ipv4(address)) => address.is_loopback(),
            Ok(Host::Ipv6(address)) => address.is_loopback(),
            Ok(Host::Domain(name)) => name == "localhost",
            Err(_) => false,
        };
        // As for container runtimes, only registries on this machine are without TLS.
        let scheme = if loopback { "http" } else { "https" };
        let port = url.port().map_or(String::new(), |port| format!(":{port}"));
        let registry = Url::parse(&format!("{scheme}://{host}{port}/"));
        let registry = registry.map_err(|error| error.to_string())?;
        let path = url.path().trim_matches('/');
        let (path, tag) = path.rsplit_once(':').unwrap_or((path, ""));
        if path.is_empty() {
            return Err(format!("{} has no path", shown_url(url.as_str())));
        }
        Ok(Self {
            registry,
            path: path.to_owned(),
            tag: tag.to_owned(),
        })
    }

    fn url(&self, rest: &str) -> Url {
        let mut url = self.registry.clone();
        url.set_path(&format!("v2/{}/{rest}", self.path));
        url
    }
}

/// The tag for a version. A tag cannot contain a `+`.
pub fn tag(version: &str) -> String {
    version.replace('+', "_")
}

/// Requests to one registry. The token for one request is used for the next ones as well.
pub struct Session<'h> {
    http: &'h Http,
    reference: Reference,
    credentials: Option<Credentials>,
    authorization: Option<Authorization>,
}

impl<'h> Session<'h> {
    /// Creates a session. `credentials` are those for the registry of `reference`.
    pub fn new(http: &'h Http, reference: Reference, credentials: Option<Credentials>) -> Self {
        Self {
            http,
            reference,
            credentials,
            authorization: None,
        }
    }

    /// The versions of a chart; `None` if the registry does not have the chart.
    pub async fn versions(&mut self) -> Result<Option<Vec<String>>, Error> {
        let mut versions = Vec::new();
        let mut bytes = 0;
        let mut url = self.reference.url("tags/list");
        for _ in 0..PAGES {
            let response = match self.get(&url, None).await {
                Err(Error::Http(HttpError::Status(StatusCode::NOT_FOUND))) => return Ok(None),
                response => response?,
            };
            let next = response
                .headers()
                .get(LINK)
                .and_then(|link| link.to_str().ok());
            let next = next
                .and_then(next_page)
                .and_then(|link| url.join(link).ok());
            let page: Tags = read(response, "list of tags").await?;
            let tags = page.tags.unwrap_or_default().into_iter();
            bytes += tags
                .as_slice()
                .iter()
                .map(|tag| tag.len() + size_of::<String>())
                .sum::<usize>();
            if bytes > MAX_VERSIONS {
                return Err(Error::Answer {
                    what: "list of tags",
                    why: format!("it takes more than {MAX_VERSIONS} bytes"),
                });
            }
            versions.extend(tags.map(|tag| tag.replace('_', "+")));
            match next.filter(|next| same_origin(next, &url)) {
                Some(next) => url = next,
                None => break,
            }
        }
        Ok(Some(versions))
    }

    /// The archive of the version in the reference.
    pub async fn blob(&mut self) -> Result<Blob, Error> {
        let url = self
            .reference
            .url(&format!("manifests/{}", self.reference.tag));
        let response = self.get(&url, Some(MANIFEST)).await?;
        let manifest: Manifest = read(response, "manifest").await?;
        let odd = |why: &str| Error::Answer {
            what: "manifest",
            why: why.to_owned(),
        };
        let mut layers = manifest.layers.into_iter();
        let layer = layers.find(|layer| layer.media_type == CHART);
        let digest = layer
            .ok_or_else(|| odd("it has no layer with a chart"))?
            .digest;
        let hex = digest
            .strip_prefix("sha256:")
            .filter(|hex| hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let hex = hex.ok_or_else(|| odd("its layer has no SHA-256 digest"))?;
        Ok(Blob {
            url: self.reference.url(&format!("blobs/{digest}")),
            digest: hex.to_ascii_lowercase(),
        })
    }

    /// Sends a request. If the registry requires authorization, sends the request again with it.
    pub async fn get(
        &mut self,
        url: &Url,
        accept: Option<&'static str>,
    ) -> Result<Response, Error> {
        let response = self
            .http
            .send(url, accept, self.authorization.as_ref())
            .await?;
        let refused = response.status() == StatusCode::UNAUTHORIZED;
        let response = if refused && self.authorization.is_none() {
            self.authorization = self.authorize(&response).await?;
            self.http
                .send(url, accept, self.authorization.as_ref())
                .await?
        } else {
            response
        };
        match response.status() {
            StatusCode::OK => Ok(response),
            status => Err(HttpError::Status(status).into()),
        }
    }

    async fn authorize(&self, response: &Response) -> Result<Option<Authorization>, Error> {
        // The target of a redirect may not ask for the credentials of the registry.
        if !same_origin(response.url(), &self.reference.registry) {
            return Ok(None);
        }
        let own = self.credentials.as_ref().and_then(Authorization::new);
        let challenge = response.headers().get(WWW_AUTHENTICATE);
        let challenge = challenge
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        let scheme = challenge.split_whitespace().next().unwrap_or_default();
        let is_token = matches!(self.credentials, Some(Credentials::Token(_)));
        if scheme.eq_ignore_ascii_case("basic") || is_token {
            return Ok(own);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(Error::Challenge);
        }
        let realm = parameter(challenge, "realm").and_then(|realm| Url::parse(realm).ok());
        let mut realm = realm.ok_or(Error::Challenge)?;
        // A password is not sent over a network without TLS, unless the registry itself is without
        // TLS.
        if realm.scheme() != "https" && !same_origin(&realm, &self.reference.registry) {
            return Err(Error::Challenge);
        }
        for name in ["service", "scope"] {
            if let Some(value) = parameter(challenge, name) {
                realm.query_pairs_mut().append_pair(name, value);
            }
        }
        let response = self.http.get(&realm, None, own.as_ref()).await?;
        let token: Token = read(response, "token").await?;
        Ok(Authorization::bearer(&token.token))
    }
}

async fn read<T: for<'d> Deserialize<'d>>(
    response: Response,
    what: &'static str,
) -> Result<T, Error> {
    let bytes = body(response, MAX_BYTES).await?;
    // The content is not reported: it may be from a place that only the manager can reach.
    serde_json::from_slice(&bytes).map_err(|error| Error::Answer {
        what,
        why: format!("line {}, column {}", error.line(), error.column()),
    })
}

/// The URL in a `Link` header of the form `<...>; rel="next"`; `None` if there is no next page.
fn next_page(link: &str) -> Option<&str> {
    let (target, rest) = link.trim().strip_prefix('<')?.split_once('>')?;
    rest.contains("next").then_some(target)
}

/// A parameter of a challenge: `name="value"`.
fn parameter<'c>(challenge: &'c str, name: &str) -> Option<&'c str> {
    let mut rest = challenge.split_once(' ')?.1;
    loop {
        let (key, after) = rest.split_once('=')?;
        let (value, after) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => after.split_once(',').unwrap_or((after, "")),
        };
        if key.trim_matches([' ', ',']).eq_ignore_ascii_case(name) {
            return Some(value);
        }
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(text: &str) -> Result<Reference, String> {
        let url = Url::parse(text).map_err(|error| error.to_string())?;
        Reference::parse(&url)
    }

    #[test]
    fn references_are_read() {
        for (text, url) in [
            ("oci://r/charts/nginx:1.0.0", "https://r/v2/charts/nginx/x"),
            ("oci://r:5000/nginx", "https://r:5000/v2/nginx/x"),
            (
                "oci://127.0.0.1:5000/nginx:1",
                "http://127.0.0.1:5000/v2/nginx/x",
            ),
            ("oci://localhost/nginx:1", "http://localhost/v2/nginx/x"),
            (
                "oci://localhost.evil/nginx",
                "https://localhost.evil/v2/nginx/x",
            ),
        ] {
            assert_eq!(reference(text).unwrap().url("x").as_str(), url);
        }
        assert_eq!(reference("oci://r/a:1.0").unwrap().tag, "1.0");
        assert_eq!(reference("oci://r/a").unwrap().tag, "");
        for text in ["oci://r", "oci://r/", "oci:a", "oci:///a"] {
            reference(text).unwrap_err();
        }
    }

    #[test]
    fn challenges_are_read() {
        let challenge = "Bearer realm=\"https://auth/token?a=b\", service=reg,scope=\"r:a,b:pull\"";
        assert_eq!(
            parameter(challenge, "realm"),
            Some("https://auth/token?a=b")
        );
        assert_eq!(parameter(challenge, "service"), Some("reg"));
        assert_eq!(parameter(challenge, "Scope"), Some("r:a,b:pull"));
        for challenge in [
            "",
            "Bearer",
            "Bearer realm",
            "Bearer realm=\"a",
            "Bearer a=b",
        ] {
            assert_eq!(parameter(challenge, "realm"), None, "{challenge}");
        }
    }

    #[test]
    fn pages_are_found() {
        assert_eq!(
            next_page("</v2/a/tags/list?last=b>; rel=\"next\""),
            Some("/v2/a/tags/list?last=b")
        );
        assert_eq!(next_page("</v2/a>; rel=\"first\""), None);
        assert_eq!(next_page("next"), None);
    }
}
