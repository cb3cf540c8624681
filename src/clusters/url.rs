//! The URL of an API server.

use std::{fmt, str::FromStr};

use http::Uri;

/// Not the URL of an API server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the URL of an API server, such as https://10.0.0.1:6443")]
pub struct UrlError(String);

/// The URL of an API server, without a slash at its end: clients cannot do without its scheme and its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerUrl(String);

impl FromStr for ServerUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let uri = text.parse::<Uri>().ok();
        let is_url = uri.is_some_and(|uri| {
            matches!(uri.scheme_str(), Some("http" | "https"))
                && uri.host().is_some_and(|host| !host.is_empty())
                && uri.query().is_none()
        });
        if is_url {
            Ok(Self(text.trim_end_matches('/').to_owned()))
        } else {
            Err(UrlError(text.to_owned()))
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
    fn urls() {
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
        ] {
            let url = text.parse::<ServerUrl>().ok().map(|url| url.to_string());
            assert_eq!(url.as_deref(), expected, "{text}");
        }
        assert_eq!(
            "hub".parse::<ServerUrl>().unwrap_err().to_string(),
            "\"hub\" is not the URL of an API server, such as https://10.0.0.1:6443"
        );
    }
}
