//! The URL of an API server.

use std::{fmt, net::IpAddr, str::FromStr};

use http::Uri;

/// The reason that a text is not the URL of an API server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// The text is no URL, or has no host.
    #[error("{0:?} is not the URL of an API server, such as https://10.0.0.1:6443")]
    Malformed(String),
    /// Without TLS, the credentials could be read on the way.
    #[error("{0:?} is not encrypted; credentials are sent over https only")]
    Plain(String),
}

/// True if requests to a URL can be read on the way: without TLS, to another machine.
pub(crate) fn is_exposed(url: &Uri) -> bool {
    let host = url.host().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    let is_loopback = address.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
    url.scheme_str() != Some("https") && !is_loopback && !host.eq_ignore_ascii_case("localhost")
}

/// True if two URLs lead to the same server: same scheme, host, port and path.
pub(crate) fn is_same_server(one: &Uri, other: &Uri) -> bool {
    let port = |url: &Uri| {
        let default = if url.scheme_str() == Some("https") {
            443
        } else {
            80
        };
        url.port_u16().unwrap_or(default)
    };
    let host = |url: &Uri| url.host().map(str::to_ascii_lowercase);
    let path = |url: &Uri| url.path().trim_end_matches('/').to_owned();
    one.scheme() == other.scheme()
        && host(one) == host(other)
        && port(one) == port(other)
        && path(one) == path(other)
}

/// The URL of an API server, with scheme and host, which clients need, and without a slash at its
/// end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerUrl(String);

impl FromStr for ServerUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let uri = text.parse::<Uri>().ok();
        let url = uri.filter(|uri| {
            matches!(uri.scheme_str(), Some("http" | "https"))
                && uri.host().is_some_and(|host| !host.is_empty())
                && uri.query().is_none()
        });
        match url {
            None => Err(UrlError::Malformed(text.to_owned())),
            Some(url) if is_exposed(&url) => Err(UrlError::Plain(text.to_owned())),
            Some(_) => Ok(Self(text.trim_end_matches('/').to_owned())),
        }
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_a_scheme_and_a_host() {
        for (text, expected) in [
            ("https://10.0.0.1:6443", Some("https://10.0.0.1:6443")),
            ("https://hub/", Some("https://hub")),
            ("http://[::1]:8080", Some("http://[::1]:8080")),
            ("https://rancher/k8s/c-1/", Some("https://rancher/k8s/c-1")),
            ("", None),
            ("hub", None),
            ("hub:6443", None),
            ("https://", None),
            ("https:///path", None),
            ("ftp://hub", None),
            ("/path", None),
            ("https://hub?a=b", None),
            ("http://hub:6443", None),
        ] {
            let url = text.parse::<ServerUrl>().ok().map(|url| url.to_string());
            assert_eq!(url.as_deref(), expected, "{text}");
        }
        assert_eq!(
            "hub".parse::<ServerUrl>().unwrap_err().to_string(),
            "\"hub\" is not the URL of an API server, such as https://10.0.0.1:6443"
        );
        assert_eq!(
            "http://hub".parse::<ServerUrl>().unwrap_err().to_string(),
            "\"http://hub\" is not encrypted; credentials are sent over https only"
        );
    }

    #[test]
    fn plain_http_to_another_machine_is_exposed() {
        for (url, expected) in [
            ("https://10.0.0.1", false),
            ("http://10.0.0.1", true),
            ("http://127.0.0.1:8001", false),
            ("http://127.1.2.3", false),
            ("http://[::1]:80", false),
            ("http://LOCALHOST:8001", false),
            ("http://localhost.example:8001", true),
            ("http://127.0.0.1.example", true),
            ("http://0.0.0.0", true),
            ("http://[fd00::1]", true),
        ] {
            assert_eq!(is_exposed(&url.parse().unwrap()), expected, "{url}");
        }
    }

    #[test]
    fn servers_are_the_same_by_scheme_host_port_and_path() {
        for (one, other, expected) in [
            ("https://a", "https://A:443/", true),
            ("https://a/k8s/1/", "https://a/k8s/1", true),
            ("https://a", "https://b", false),
            ("https://a", "https://a:6443", false),
            ("https://a/k8s/1", "https://a/k8s/2", false),
            ("http://127.0.0.1", "https://127.0.0.1", false),
        ] {
            let (first, second) = (one.parse().unwrap(), other.parse().unwrap());
            assert_eq!(is_same_server(&first, &second), expected, "{one} {other}");
        }
    }
}
