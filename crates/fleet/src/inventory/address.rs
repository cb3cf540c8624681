//! The address in `spec.apiMaster` of a Cluster.

use http::Uri;

use crate::url::is_exposed;

/// The reason that an address is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Problem {
    #[error("is empty; set it to the URL of the cluster's API server")]
    Empty,
    /// The address is not quoted, because it may contain a password.
    #[error("contains a user name; put the credentials into the Secret")]
    User,
    #[error(
        "{0:?} is not encrypted; credentials are sent over https only, except within the machine"
    )]
    Plain(String),
    #[error("{text:?} is not the URL of an API server, such as https://10.1.2.3:6443: {cause}")]
    Malformed { text: String, cause: String },
}

/// Reads an address. The default scheme is `https`.
pub(super) fn parse(text: &str) -> Result<Uri, Problem> {
    let text = text.trim();
    if text.is_empty() {
        return Err(Problem::Empty);
    }
    let has_scheme = text.contains("://");
    let full = if has_scheme {
        text.to_owned()
    } else {
        format!("https://{text}")
    };
    let authority = full.split_once("://").map_or("", |(_, rest)| rest);
    let authority = authority.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err(Problem::User);
    }
    let malformed = |cause: String| Problem::Malformed {
        text: text.to_owned(),
        cause,
    };
    let url: Uri = full
        .parse()
        .map_err(|error: http::uri::InvalidUri| malformed(error.to_string()))?;
    match url.scheme_str() {
        Some("https" | "http") => {}
        other => {
            let scheme = other.unwrap_or_default();
            return Err(malformed(format!("{scheme} is neither https nor http")));
        }
    }
    let host = url.host().unwrap_or_default();
    if host.is_empty() {
        return Err(malformed("it has no host".to_owned()));
    }
    if host.len() < authority.len() && url.port_u16().is_none() {
        return Err(malformed("its port is not valid".to_owned()));
    }
    if url.query().is_some() {
        return Err(malformed("it has a query".to_owned()));
    }
    if is_exposed(&url) {
        return Err(Problem::Plain(text.to_owned()));
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_shipper_reads_them() {
        for (text, expected) in [
            ("https://10.1.2.3:6443", "https://10.1.2.3:6443/"),
            (" https://eu-1.example\n", "https://eu-1.example/"),
            ("eu-1.example:6443", "https://eu-1.example:6443/"),
            ("10.1.2.3", "https://10.1.2.3/"),
            ("https://[fd00::1]:6443", "https://[fd00::1]:6443/"),
            ("http://127.0.0.1:8001", "http://127.0.0.1:8001/"),
            (
                "https://example.com/k8s/clusters/c-1",
                "https://example.com/k8s/clusters/c-1",
            ),
        ] {
            assert_eq!(parse(text).unwrap().to_string(), expected);
        }
    }

    #[test]
    fn an_invalid_address_is_reported_with_its_fault() {
        for (text, expected) in [
            (
                "",
                "is empty; set it to the URL of the cluster's API server",
            ),
            (
                " ",
                "is empty; set it to the URL of the cluster's API server",
            ),
            (
                "ftp://a",
                "\"ftp://a\" is not the URL of an API server, such as https://10.1.2.3:6443: ftp is neither https nor \
                 http",
            ),
            (
                "https://a b",
                "\"https://a b\" is not the URL of an API server, such as https://10.1.2.3:6443: invalid uri character",
            ),
            (
                "https://a:port",
                "\"https://a:port\" is not the URL of an API server, such as https://10.1.2.3:6443: its port is not \
                 valid",
            ),
            (
                "https://a:70000",
                "\"https://a:70000\" is not the URL of an API server, such as https://10.1.2.3:6443: its port is not \
                 valid",
            ),
            (
                "https://a:",
                "\"https://a:\" is not the URL of an API server, such as https://10.1.2.3:6443: its port is not valid",
            ),
            (
                "https://",
                "\"https://\" is not the URL of an API server, such as https://10.1.2.3:6443: empty string",
            ),
            (
                "https://:6443",
                "\"https://:6443\" is not the URL of an API server, such as https://10.1.2.3:6443: it has no host",
            ),
            (
                "https://a/?x=1",
                "\"https://a/?x=1\" is not the URL of an API server, such as https://10.1.2.3:6443: it has a query",
            ),
            (
                "http://10.1.2.3:6443",
                "\"http://10.1.2.3:6443\" is not encrypted; credentials are sent over https only, except within the \
                 machine",
            ),
            (
                "https://admin:hunter2@a",
                "contains a user name; put the credentials into the Secret",
            ),
            (
                "admin:hunter2@a:6443/x",
                "contains a user name; put the credentials into the Secret",
            ),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), expected, "{text}");
        }
    }
}
