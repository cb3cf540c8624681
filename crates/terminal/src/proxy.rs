//! The proxy on the way to an API server, by the rules of kubectl and other Go programs.
//!
//! A `proxy-url` of the kubeconfig always applies. Otherwise the environment names proxies:
//! `HTTPS_PROXY` for servers with TLS, `HTTP_PROXY` for others, also in lower case. They do not
//! apply to this machine, nor to the entries of `NO_PROXY`: names (with all below them), addresses,
//! networks such as `10.0.0.0/8`, or `*`.

use std::fmt;

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;

use crate::connection::{is_local, server_url};

/// The schemes of proxies that clients can use.
const SCHEMES: [&str; 3] = ["http", "https", "socks5"];

/// The proxies that the environment names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proxies {
    https: Option<Variable>,
    http: Option<Variable>,
    /// The servers that are reached without a proxy, as in `NO_PROXY`.
    none: String,
}

/// The name and value of an environment variable. The value is checked only if a connection needs
/// it.
#[derive(Clone, PartialEq, Eq)]
struct Variable {
    name: &'static str,
    value: String,
}

/// Prints only the name, because the value may contain a password.
impl fmt::Debug for Variable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name)
    }
}

/// The value of an environment variable or of a kubeconfig is not the URL of a proxy. The message
/// does not contain the value, because the value may contain a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0} is not the URL of a proxy, such as http://proxy.example:3128, https://... or socks5://..."
)]
pub struct ProxyError(&'static str);

impl Proxies {
    /// Reads the environment of this process.
    #[must_use]
    pub fn of_environment() -> Self {
        Self::read(|name| std::env::var(name).ok())
    }

    /// As [`Proxies::of_environment`], with a function that returns the value of a variable.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let first = |names: [&'static str; 2]| {
            names.into_iter().find_map(|name| {
                let value = variable(name).filter(|value| !value.is_empty())?;
                Some(Variable { name, value })
            })
        };
        Self {
            https: first(["HTTPS_PROXY", "https_proxy"]),
            http: first(["HTTP_PROXY", "http_proxy"]),
            none: first(["NO_PROXY", "no_proxy"])
                .map_or_else(String::new, |variable| variable.value),
        }
    }

    /// The proxy for a server; `None` if it is reached without one.
    ///
    /// # Errors
    /// If the proxy for this server has no valid URL; the error names the variable.
    pub fn to(&self, server: &Uri) -> Result<Option<Uri>, ProxyError> {
        let variable = match server.scheme_str() {
            Some("https") => self.https.as_ref(),
            _ => self.http.as_ref(),
        };
        let Some(Variable { name, value }) = variable.filter(|_| self.is_for(server)) else {
            return Ok(None);
        };
        parse(value).map(Some).ok_or(ProxyError(name))
    }

    /// True if a proxy may be used for a server.
    fn is_for(&self, server: &Uri) -> bool {
        if is_local(server) {
            return false;
        }
        let default = if server.scheme_str() == Some("https") {
            443
        } else {
            80
        };
        let port = server.port_u16().unwrap_or(default);
        let entries = self.none.split(',');
        let entries: Vec<&str> = entries
            .filter_map(|entry| for_port(entry.trim(), port))
            .collect();
        // The URL of the proxy does not matter: the matcher only decides on the exceptions.
        let matcher = Matcher::builder()
            .all("http://proxy")
            .no(entries.join(","))
            .build();
        matcher.intercept(server).is_some()
    }
}

/// An entry of `NO_PROXY` as the matcher expects it: without the asterisk before a domain, and
/// without a port. `None` if the entry is for another port.
fn for_port(entry: &str, port: u16) -> Option<&str> {
    let entry = entry
        .strip_prefix('*')
        .filter(|rest| rest.starts_with('.'))
        .unwrap_or(entry);
    let (host, own) = match entry.rsplit_once(':') {
        // An IPv6 address has a port only if it is in brackets.
        Some((host, own)) if !host.contains(':') || host.ends_with(']') => (host, own),
        _ => return Some(entry),
    };
    (own.parse() == Ok(port)).then_some(host)
}

/// The proxy of a kubeconfig.
pub(crate) fn of_kubeconfig(text: &str) -> Result<Uri, ProxyError> {
    parse(text).ok_or(ProxyError("the proxy-url of the kubeconfig"))
}

/// The URL of a proxy. Without a scheme it is an HTTP proxy, as in Go.
fn parse(text: &str) -> Option<Uri> {
    let whole = if text.contains("://") {
        text.to_owned()
    } else {
        format!("http://{text}")
    };
    let uri: Uri = whole.parse().ok()?;
    let is_known = SCHEMES.contains(&uri.scheme_str()?);
    (is_known && uri.host().is_some_and(|host| !host.is_empty())).then_some(uri)
}

/// The URL of a proxy for messages: without user and password.
pub fn without_credentials(proxy: &Uri) -> String {
    let url = server_url(proxy);
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://{host}"),
        _ => url,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HUB: &str = "https://hub.example:6443";

    fn proxies(variables: &[(&str, &str)]) -> Proxies {
        Proxies::read(|name| {
            let found = variables.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_proxy_of_a_server_follows_from_the_environment() {
        const HTTPS: (&str, &str) = ("HTTPS_PROXY", "http://user:secret@proxy:3128");
        const HTTP: (&str, &str) = ("http_proxy", "plain:8080");
        let no = |list| ("NO_PROXY", list);
        let https = Some("http://proxy:3128");
        for (variables, server, expected) in [
            (&[][..], "https://hub.example:6443", None),
            (&[HTTPS], "https://hub.example:6443", https),
            (&[HTTPS], "http://hub.example", None),
            (
                &[HTTPS, HTTP],
                "http://hub.example",
                Some("http://plain:8080"),
            ),
            (&[HTTPS], "https://127.0.0.1:6443", None),
            (&[HTTPS], "https://localhost:6443", None),
            (&[HTTPS], "https://[::1]:6443", None),
            (&[HTTPS, no("*")], "https://hub.example", None),
            (
                &[HTTPS, no("hub.example")],
                "https://hub.example:6443",
                None,
            ),
            (
                &[HTTPS, no("other, .example")],
                "https://hub.example:6443",
                None,
            ),
            (&[HTTPS, no("other")], "https://hub.example:6443", https),
            (&[HTTPS, no("10.0.0.0/8")], "https://10.1.2.3:6443", None),
            (&[HTTPS, no("10.0.0.0/8")], "https://11.1.2.3:6443", https),
            // `NO_PROXY` applies to servers, not to the proxy itself.
            (&[HTTPS, no("proxy")], "https://hub.example:6443", https),
            (
                &[("https_proxy", ""), ("HTTPS_PROXY", "")],
                "https://hub.example",
                None,
            ),
        ] {
            let server: Uri = server.parse().unwrap();
            let found = proxies(variables).to(&server).unwrap();
            assert_eq!(
                found.as_ref().map(without_credentials).as_deref(),
                expected,
                "{variables:?} {server}"
            );
        }
    }

    #[test]
    fn an_invalid_proxy_variable_is_named_and_not_quoted() {
        for text in ["ftp://a:secret@b", "http://", "http://a:secret @b", "://"] {
            let proxies = proxies(&[("https_proxy", text)]);
            let error = proxies.to(&HUB.parse().unwrap()).unwrap_err().to_string();
            assert!(
                error.starts_with("https_proxy is not the URL of a proxy"),
                "{error}"
            );
            assert!(!error.contains("secret"), "{error}");
            assert!(!format!("{proxies:?}").contains("secret"), "{proxies:?}");
        }
    }

    #[test]
    fn a_proxy_that_no_connection_needs_may_be_anything() {
        for (variables, server) in [
            (&[("HTTP_PROXY", "socks4://old:1080")][..], HUB),
            (
                &[("HTTPS_PROXY", "socks4://old:1080")],
                "http://hub.example",
            ),
            (
                &[("HTTPS_PROXY", "socks4://old:1080")],
                "https://127.0.0.1:6443",
            ),
            (
                &[
                    ("HTTPS_PROXY", "socks4://old:1080"),
                    ("NO_PROXY", "hub.example"),
                ],
                HUB,
            ),
        ] {
            let found = proxies(variables).to(&server.parse().unwrap());
            assert_eq!(found, Ok(None), "{variables:?} {server}");
        }
    }

    /// Go accepts an asterisk and a port in an exception, and the matcher does not.
    #[test]
    fn exceptions_may_have_an_asterisk_and_a_port() {
        for (list, is_proxied) in [
            ("*.example", false),
            (".example", false),
            ("hub.example:6443", false),
            ("hub.example:443", true),
            ("other.example, hub.example:6443", false),
            ("*.other", true),
            ("fe80::1", true),
            ("[fe80::1]:6443", true),
        ] {
            let proxies = proxies(&[("HTTPS_PROXY", "http://proxy:3128"), ("NO_PROXY", list)]);
            let proxy = proxies.to(&HUB.parse().unwrap()).unwrap();
            assert_eq!(proxy.is_some(), is_proxied, "{list}");
        }
    }
}
