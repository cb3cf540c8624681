//! The Kubernetes CEL library for URLs, over the `url` crate.
//!
//! Kubernetes parses with Go's `net/url`, the crate as browsers do. If browsers know the scheme of
//! a URL, the crate changes parts that CEL rules can read: it drops default ports, adds a path of
//! `/`, and turns upper case into lower case. In a URL with another scheme it changes none of them,
//! so all URLs are parsed with a prefix before their scheme. The remaining differences are listed
//! and tested in `upstream.rs`.

use std::any::Any;
use std::collections::HashMap;

use cel::common::types::{CelBool, CelMap, CelMapKey, CelString, Type};
use cel::common::value::{StaticVal, Val};
use cel::{DeclarationError, Env, ExecutionError, add_member_overload, add_overload};
use url::{ParseError, Position, Url, form_urlencoded};

use crate::cel::arguments::string_list;

static URL_TYPE: Type = Type::new_unspecified_type("kubernetes.URL");

/// Parsing puts this before each scheme, so that the crate does not know the scheme.
const PREFIX: &str = "x-";
/// Parsing puts this before an absolute path, which has no scheme.
const NO_SCHEME: &str = "x:";

pub fn extension(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_type(URL_TYPE.to_owned())?;
    add_overload!(env, fn url: (CelString) -> Result<CelUrl>)?;
    add_overload!(env, fn is_url: (CelString) -> CelBool, name = "isURL")?;
    add_member_overload!(env, fn get_scheme: (CelUrl) -> CelString)?;
    add_member_overload!(env, fn get_host: (CelUrl) -> CelString)?;
    add_member_overload!(env, fn get_hostname: (CelUrl) -> CelString)?;
    add_member_overload!(env, fn get_port: (CelUrl) -> CelString)?;
    add_member_overload!(env, fn get_escaped_path: (CelUrl) -> CelString)?;
    add_member_overload!(env, fn get_query: (CelUrl) -> CelMap)
}

/// Parses an absolute URL or an absolute path.
fn parse(text: &str) -> Result<Url, String> {
    let prefix = match text.chars().next() {
        Some('/') => NO_SCHEME,
        Some(first) if first.is_ascii_alphabetic() => PREFIX,
        _ => return Err(ParseError::RelativeUrlWithoutBase.to_string()),
    };
    // The crate drops control characters and does not check escapes.
    if text.contains(|c: char| c.is_ascii_control()) {
        return Err("invalid control character in URL".to_owned());
    }
    if !escapes_are_complete(text.split('?').next().unwrap_or_default()) {
        return Err("invalid URL escape".to_owned());
    }
    Url::parse(&format!("{prefix}{text}")).map_err(|error| error.to_string())
}

/// True if two hexadecimal digits follow each percent sign.
fn escapes_are_complete(text: &str) -> bool {
    text.split('%').skip(1).all(|behind| {
        let digits = behind.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    })
}

/// A URL as a CEL value: opaque except for its getters, and equal by its parts.
#[derive(Clone, Debug, PartialEq)]
struct CelUrl(Url);

impl StaticVal for CelUrl {}

impl Val for CelUrl {
    fn get_type(&self) -> &Type {
        &URL_TYPE
    }

    fn cel_type() -> &'static Type {
        &URL_TYPE
    }

    fn equals(&self, other: &dyn Val) -> bool {
        other.downcast_ref::<Self>() == Some(self)
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v> {
        Box::new(self.clone())
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

fn url(text: &CelString<'_>) -> Result<CelUrl, ExecutionError> {
    parse(text.inner()).map(CelUrl).map_err(|cause| {
        let message = format!("URL parse error during conversion from string: {cause}");
        ExecutionError::function_error("url", message)
    })
}

fn is_url(text: &CelString<'_>) -> CelBool {
    parse(text.inner()).is_ok().into()
}

fn string(text: &str) -> CelString<'static> {
    text.to_owned().into()
}

fn get_scheme(url: &CelUrl) -> CelString<'static> {
    string(url.0.scheme().strip_prefix(PREFIX).unwrap_or_default())
}

fn get_host(url: &CelUrl) -> CelString<'static> {
    string(&url.0[Position::BeforeHost..Position::AfterPort])
}

fn get_hostname(url: &CelUrl) -> CelString<'static> {
    let host = url.0.host_str().unwrap_or_default();
    string(host.trim_start_matches('[').trim_end_matches(']'))
}

fn get_port(url: &CelUrl) -> CelString<'static> {
    string(&url.0[Position::BeforePort..Position::AfterPort])
}

/// The path with its escapes; empty for a URL such as `mailto:joe`, which has no path.
fn get_escaped_path(url: &CelUrl) -> CelString<'static> {
    string(url.0.path_segments().map_or("", |_| url.0.path()))
}

/// The values of each key of the query. Pairs with a semicolon or a broken escape are left out.
fn get_query(url: &CelUrl) -> CelMap<'static> {
    let mut values: HashMap<String, Vec<String>> = HashMap::new();
    let pairs = url.0.query().unwrap_or_default().split('&');
    for pair in pairs.filter(|pair| !pair.contains(';') && escapes_are_complete(pair)) {
        for (key, value) in form_urlencoded::parse(pair.as_bytes()) {
            let values = values.entry(key.into_owned()).or_default();
            values.push(value.into_owned());
        }
    }
    let entries = values.into_iter().map(|(key, values)| {
        let values: Box<dyn Val> = Box::new(string_list(values));
        (CelMapKey::from(key), values)
    });
    CelMap::from(entries.collect::<HashMap<_, _>>())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cel::testing::{check, hold, object, verdict};

    #[test]
    fn urls_have_the_functions_of_kubernetes() {
        hold(&[
            "isURL('https://example.com:80/') && isURL('/path') && isURL(self.status.url)",
            "!isURL('../path') && !isURL('https://a:b:c/') && !isURL('')",
            "url(self.status.url).getScheme() == 'https'",
            "url(self.status.url).getHost() == 'example.com:8443'",
            "url(self.status.url).getHostname() == 'example.com'",
            "url(self.status.url).getPort() == '8443'",
            "url(self.status.url).getEscapedPath() == '/a%20b'",
            "url(self.status.url).getQuery() == {'x': ['1', '2']}",
            "url('/path').getQuery() == {} && url('/path').getScheme() == ''",
            "url('https://[::1]:80/').getHostname() == '::1'",
            "url('/a b') == url('/a%20b') && url('/a') != url('/b')",
            "[url('/a'), url('/b')].exists(u, u.getEscapedPath() == '/b')",
            "[url('/a')].indexOf(url('/a')) == 0 && url('/a') in [url('/a')]",
        ]);
        check(&[
            (
                "url('https://a:b:c/').getHost() == ''",
                "error: URL parse error during conversion from string: invalid port number",
            ),
            (
                "url(self.metadata.name).getHost() == ''",
                "error: URL parse error during conversion from string: relative URL without a base",
            ),
            (
                "url(self.spec.replicas).getHost() == ''",
                "error: no such overload: url(int)",
            ),
            (
                "'/path'.getHost() == ''",
                "refused: 1:16: found no matching overload for 'getHost' applied to 'string.()'",
            ),
            (
                "url('/path') == '/path'",
                "refused: 1:14: found no matching overload for '_==_' applied to \
                 '(kubernetes.URL, string)'",
            ),
            (
                "url('/path').host == ''",
                "refused: 1:13: type 'kubernetes.URL' does not support field selection",
            ),
            (
                "dyn(url('/path')).host == ''",
                "error: no such overload: _._(kubernetes.URL, string)",
            ),
        ]);
    }

    #[test]
    fn urls_are_values_of_their_own_type() {
        assert_eq!(
            verdict(
                "type(url('/a')) == type(url('/b')) && type(url('/a')) != string",
                &object()
            ),
            "true"
        );
        let url = CelUrl(parse("/a").unwrap());
        assert!(url.clone_as_boxed().equals(&url));
        assert!(!url.equals(&CelString::from("/a")));
        assert_eq!(CelUrl::cel_type(), url.get_type());
        assert_eq!(
            verdict("url(self.u).getQuery().size() == 2", &json!({"u": "/?a&b"})),
            "true"
        );
    }

    /// All values were compared with the results of Go 1.26 and the Kubernetes library.
    #[test]
    fn urls_have_the_same_parts_as_in_go() {
        // text: scheme, host, hostname, port, escaped path
        for (text, parts) in [
            ("/", ["", "", "", "", "/"]),
            ("/path", ["", "", "", "", "/path"]),
            ("//host/path", ["", "host", "host", "", "/path"]),
            ("http:", ["http", "", "", "", ""]),
            ("http:/path", ["http", "", "", "", "/path"]),
            ("http:///path", ["http", "", "", "", "/path"]),
            ("mailto:joe@example.com", ["mailto", "", "", "", ""]),
            ("a+b.c-d:x", ["a+b.c-d", "", "", "", ""]),
            (
                "https://example.com",
                ["https", "example.com", "example.com", "", ""],
            ),
            (
                "https://example.com/",
                ["https", "example.com", "example.com", "", "/"],
            ),
            (
                "https://example.com:443/",
                ["https", "example.com:443", "example.com", "443", "/"],
            ),
            (
                "HTTPS://Example.COM/A?b",
                ["https", "Example.COM", "Example.COM", "", "/A"],
            ),
            (
                "https://user:pass@example.com:80/path?query=val#fragment",
                ["https", "example.com:80", "example.com", "80", "/path"],
            ),
            ("https://a@b@c/", ["https", "c", "c", "", "/"]),
            ("https://[::1]:80/", ["https", "[::1]:80", "::1", "80", "/"]),
            ("https://[::1]/", ["https", "[::1]", "::1", "", "/"]),
            (
                "https://h/path with spaces/",
                ["https", "h", "h", "", "/path%20with%20spaces/"],
            ),
            ("https://h/a%2fb", ["https", "h", "h", "", "/a%2fb"]),
            (
                "https://h/!$&'()*+,;=:@[]",
                ["https", "h", "h", "", "/!$&'()*+,;=:@[]"],
            ),
            ("/p#x?y", ["", "", "", "", "/p"]),
        ] {
            let url = CelUrl(parse(text).unwrap());
            let found = [
                get_scheme,
                get_host,
                get_hostname,
                get_port,
                get_escaped_path,
            ]
            .map(|getter| getter(&url).inner().to_owned());
            assert_eq!(found, parts, "{text}");
        }
    }

    /// A difference from Go, which does not resolve dots.
    #[test]
    fn dots_in_paths_are_resolved() {
        for (text, path) in [
            ("/a/../b", "/b"),
            ("https://h/./a/..", "/"),
            ("/a/..b", "/a/..b"),
        ] {
            let url = CelUrl(parse(text).unwrap());
            assert_eq!(get_escaped_path(&url).inner(), path, "{text}");
        }
    }

    #[test]
    fn queries_keep_all_values_of_a_key() {
        for (text, expected) in [
            ("https://h/p", json!({})),
            ("https://h/p?", json!({})),
            ("https://h?x=1", json!({"x": ["1"]})),
            (
                "https://h/p?k1=a&k2=b&k2=c",
                json!({"k1": ["a"], "k2": ["b", "c"]}),
            ),
            (
                "/p?key with spaces=value+with%20spaces",
                json!({"key with spaces": ["value with spaces"]}),
            ),
            ("/p?a?b=c", json!({"a?b": ["c"]})),
            ("/p?e", json!({"e": [""]})),
            ("/p?=1", json!({"": ["1"]})),
            // malformed pairs are left out
            ("/p?a;b=1&c=%zz&&d=2", json!({"d": ["2"]})),
            ("/p?x=1#y=2", json!({"x": ["1"]})),
        ] {
            let object = json!({"url": text, "query": expected});
            assert_eq!(
                verdict("url(self.url).getQuery() == self.query", &object),
                "true",
                "{text}"
            );
        }
    }

    #[test]
    fn texts_that_are_no_url_are_refused() {
        for text in [
            "",
            "path",
            "../relative-path",
            "1a:b",
            "?x=1",
            "#fragment",
            ":a",
            "https://h/\u{1}",
            "https://h/\u{7f}",
            "https://a:b:c/",
            "https://h:80:90/",
            "https://h:8a/",
            "https://[::1]x/",
            "https://[::1",
            "https://[1.2.3.4]/",
            "https://[fe80::1%25]/",
            "https://x[::1]/",
            "https://[fe80::1%en0]/",
            "https://u%zz@h",
            "https://ex ample.com",
            "https://h|x/",
            "https://h/%zz",
            "https://h/%2",
            "https://h/%",
            "https://h/%ü",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn urls_are_equal_by_their_parts() {
        let url = |text| CelUrl(parse(text).unwrap());
        assert_eq!(url("HTTPS://h/a b"), url("https://h/a%20b"));
        for other in [
            "http://h/a%20b",
            "https://H/a%20b",
            "https://u@h/a%20b",
            "https://h:443/a%20b",
            "https://h/a%20b?x",
            "https://h/a%20b#x",
        ] {
            assert_ne!(url("https://h/a b"), url(other), "{other}");
        }
    }
}
