//! URLs as Go parses them, which is what the Kubernetes CEL library shows.
//!
//! The `url` crate follows the web's rules instead: it adds and drops parts that rules can see
//! (a path of `/`, default ports, escapes).

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use thiserror::Error;

/// Longest text that is taken for a URL.
const MAX_BYTES: usize = 1 << 16;

/// Why a text is no absolute URL and no absolute path.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UrlError {
    /// Nothing there.
    #[error("empty url")]
    Empty,
    /// Nobody writes that many characters.
    #[error("url too long")]
    TooLong,
    /// Control characters have no place.
    #[error("invalid control character in URL")]
    Control,
    /// Starts with a colon.
    #[error("missing protocol scheme")]
    Scheme,
    /// A relative reference.
    #[error("invalid URI for request")]
    Relative,
    /// Characters a user name cannot have.
    #[error("invalid userinfo")]
    UserInfo,
    /// Brackets around something that is no IPv6 address, or unbalanced ones.
    #[error("invalid IP-literal")]
    IpLiteral,
    /// Something other than digits behind the colon.
    #[error("invalid port \"{0}\" after host")]
    Port(String),
    /// A character that must be escaped.
    #[error("invalid character \"{0}\" in host name")]
    Host(char),
    /// A percent sign without two hexadecimal digits, or an escape that is not allowed there.
    #[error("invalid URL escape \"{0}\"")]
    Escape(String),
}

/// A parsed URL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Url {
    scheme: String,
    /// `mailto:opaque`
    opaque: String,
    user: String,
    host: String,
    escaped_path: String,
    raw_query: String,
    fragment: String,
}

/// What a text is read as.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Request,
    Reference,
}

/// Where an escape stands: hosts allow fewer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Host,
    Zone,
    Query,
    Other,
}

impl Url {
    /// Parses an absolute URL or an absolute path.
    ///
    /// # Errors
    /// See [`UrlError`].
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        // The library checks the text as a request target, where `//` starts a path and `#` is
        // a character like others, and then parses it as a reference.
        Self::parse_as(text, Form::Request)?;
        let (base, fragment) = text.split_once('#').unwrap_or((text, ""));
        let mut url = Self::parse_as(base, Form::Reference)?;
        unescape(fragment, Part::Other)?;
        fragment.clone_into(&mut url.fragment);
        Ok(url)
    }

    /// Whether the text is an absolute URL or an absolute path.
    pub fn is_valid(text: &str) -> bool {
        Self::parse_as(text, Form::Request).is_ok()
    }

    fn parse_as(text: &str, form: Form) -> Result<Self, UrlError> {
        if text.len() > MAX_BYTES {
            return Err(UrlError::TooLong);
        }
        if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
            return Err(UrlError::Control);
        }
        if text.is_empty() {
            return Err(UrlError::Empty);
        }
        let mut url = Self::default();
        if text == "*" {
            text.clone_into(&mut url.escaped_path);
            return Ok(url);
        }
        let (scheme, rest) = split_scheme(text)?;
        url.scheme = scheme.to_ascii_lowercase();
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        query.clone_into(&mut url.raw_query);
        if !rest.starts_with('/') {
            if url.scheme.is_empty() {
                return Err(UrlError::Relative);
            }
            rest.clone_into(&mut url.opaque);
            return Ok(url);
        }
        let mut path = rest;
        let has_authority =
            !url.scheme.is_empty() || (form == Form::Reference && !rest.starts_with("///"));
        if let Some(rest) = rest.strip_prefix("//").filter(|_| has_authority) {
            let (authority, rest) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            path = rest;
            let (user, host) = match authority.rsplit_once('@') {
                Some((user, host)) => (user, host),
                None => ("", authority),
            };
            url.host = parse_host(&url.scheme, host)?;
            if !user.bytes().all(is_user) {
                return Err(UrlError::UserInfo);
            }
            unescape(user, Part::Other)?;
            user.clone_into(&mut url.user);
        }
        let decoded = unescape(path, Part::Other)?;
        url.escaped_path = if path.bytes().all(is_path) {
            path.to_owned()
        } else {
            escape_path(&decoded)
        };
        Ok(url)
    }

    /// `https`, or nothing.
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// `example.com:80`, with brackets around an IPv6 address.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The host without port and brackets.
    pub fn hostname(&self) -> &str {
        let host = self.split_port().0;
        host.strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(host)
    }

    /// The port, or nothing.
    pub fn port(&self) -> &str {
        self.split_port().1
    }

    fn split_port(&self) -> (&str, &str) {
        match self.host.rsplit_once(':') {
            Some((host, port)) if is_port(port) => (host, port),
            _ => (&self.host, ""),
        }
    }

    /// The path as it goes over the wire.
    pub fn escaped_path(&self) -> &str {
        &self.escaped_path
    }

    /// The values of each key; pairs that are malformed are left out.
    pub fn query(&self) -> BTreeMap<String, Vec<String>> {
        let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for pair in self.raw_query.split('&') {
            if pair.is_empty() || pair.contains(';') {
                continue;
            }
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            if let (Ok(key), Ok(value)) = (unescape(key, Part::Query), unescape(value, Part::Query))
            {
                let key = String::from_utf8_lossy(&key).into_owned();
                let value = String::from_utf8_lossy(&value).into_owned();
                values.entry(key).or_default().push(value);
            }
        }
        values
    }
}

/// Splits `scheme:rest`; a text that cannot start with a scheme has none.
fn split_scheme(text: &str) -> Result<(&str, &str), UrlError> {
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return Err(UrlError::Scheme),
            b':' => return Ok((&text[..at], &text[at + 1..])),
            _ => return Ok(("", text)),
        }
    }
    Ok(("", text))
}

fn parse_host(scheme: &str, host: &str) -> Result<String, UrlError> {
    match host.rfind('[') {
        Some(0) => return parse_ip_literal(host),
        Some(_) => return Err(UrlError::IpLiteral),
        None => {}
    }
    // Lists of hosts with ports are in use, though not with HTTP.
    let colon = match scheme {
        "http" | "https" => host.find(':'),
        _ => host.rfind(':'),
    };
    check_port(colon.map_or("", |colon| &host[colon..]))?;
    host_text(host)
}

fn parse_ip_literal(host: &str) -> Result<String, UrlError> {
    let close = host.rfind(']').ok_or(UrlError::IpLiteral)?;
    let (address, port) = (&host[1..close], &host[close + 1..]);
    check_port(port)?;
    // An escaped percent sign introduces the zone, which may hold other escapes.
    let (address, zone) = address.split_at(address.find("%25").unwrap_or(address.len()));
    let address = host_text(address)?;
    let zone = String::from_utf8_lossy(&unescape(zone, Part::Zone)?).into_owned();
    let bare_zone = zone == "%";
    if bare_zone || address.parse::<Ipv6Addr>().is_err() {
        return Err(UrlError::IpLiteral);
    }
    Ok(format!("[{address}{zone}]{port}"))
}

fn host_text(host: &str) -> Result<String, UrlError> {
    Ok(String::from_utf8_lossy(&unescape(host, Part::Host)?).into_owned())
}

fn check_port(colon_port: &str) -> Result<(), UrlError> {
    match colon_port.strip_prefix(':') {
        Some(port) if is_port(port) => Ok(()),
        None if colon_port.is_empty() => Ok(()),
        _ => Err(UrlError::Port(colon_port.to_owned())),
    }
}

fn is_port(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte)
}

fn is_user(byte: u8) -> bool {
    is_unreserved(byte) || b"!$&'()*+,;=:%@".contains(&byte)
}

/// What may stand in a path as it is; the percent sign was checked before.
fn is_path(byte: u8) -> bool {
    is_unreserved(byte) || b"!$&'()*+,;=:@[]%/".contains(&byte)
}

fn is_host(byte: u8) -> bool {
    is_unreserved(byte) || b"!$&'()*+,;=:[]<>\"".contains(&byte)
}

/// Escapes what Go escapes in a path; that is more than what may stand there.
fn escape_path(path: &[u8]) -> String {
    let mut escaped = String::with_capacity(path.len());
    for byte in path {
        if is_unreserved(*byte) || b"$&+,/:;=@".contains(byte) {
            escaped.push(char::from(*byte));
        } else {
            escaped.push('%');
            for digit in [byte >> 4, byte & 15] {
                let digit = char::from_digit(u32::from(digit), 16).unwrap_or_default();
                escaped.push(digit.to_ascii_uppercase());
            }
        }
    }
    escaped
}

fn unescape(text: &str, part: Part) -> Result<Vec<u8>, UrlError> {
    let in_host = matches!(part, Part::Host | Part::Zone);
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'%' => {
                let digits = text.as_bytes().get(at + 1..at + 3).unwrap_or_default();
                let value = std::str::from_utf8(digits)
                    .ok()
                    .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
                    .and_then(|digits| u8::from_str_radix(digits, 16).ok());
                let Some(value) = value.filter(|_| digits.len() == 2) else {
                    let shown: String = text[at..].chars().take(3).collect();
                    return Err(UrlError::Escape(shown));
                };
                // Hosts escape what is no ASCII, zones also the percent sign, space and the
                // characters that hosts may have.
                let allowed = match part {
                    Part::Host => value >= 0x80 || value == b'%',
                    Part::Zone => value >= 0x80 || value == b'%' || value == b' ' || is_host(value),
                    Part::Query | Part::Other => true,
                };
                if !allowed {
                    return Err(UrlError::Escape(format!("%{value:02X}")));
                }
                decoded.push(value);
                bytes.nth(1);
            }
            b'+' if part == Part::Query => decoded.push(b' '),
            byte if in_host && byte < 0x80 && !is_host(byte) => {
                return Err(UrlError::Host(char::from(byte)));
            }
            byte => decoded.push(byte),
        }
    }
    Ok(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All values were compared with what Go 1.26 and the Kubernetes library say.
    #[test]
    fn parts_of_a_url() {
        // text: scheme, host, hostname, port, escaped path
        for (text, parts) in [
            ("*", ["", "", "", "", "*"]),
            ("/", ["", "", "", "", "/"]),
            ("/path", ["", "", "", "", "/path"]),
            ("//host/path", ["", "host", "host", "", "/path"]),
            ("///path", ["", "", "", "", "///path"]),
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
            ("https://h:/", ["https", "h:", "h", "", "/"]),
            ("https://h:99999/", ["https", "h:99999", "h", "99999", "/"]),
            ("ftp://a:1,b:2/", ["ftp", "a:1,b:2", "a:1,b", "2", "/"]),
            ("https://[::1]:80/", ["https", "[::1]:80", "::1", "80", "/"]),
            ("https://[::1]/", ["https", "[::1]", "::1", "", "/"]),
            (
                "https://[fe80::1%25en0]/",
                ["https", "[fe80::1%en0]", "fe80::1%en0", "", "/"],
            ),
            (
                "https://[::ffff:1.2.3.4]",
                ["https", "[::ffff:1.2.3.4]", "::ffff:1.2.3.4", "", ""],
            ),
            (
                "https://ex%c3%bc.com",
                ["https", "exü.com", "exü.com", "", ""],
            ),
            ("https://h<x>\"/", ["https", "h<x>\"", "h<x>\"", "", "/"]),
            (
                "https://h/path with spaces/",
                ["https", "h", "h", "", "/path%20with%20spaces/"],
            ),
            ("https://h/a%2fb", ["https", "h", "h", "", "/a%2fb"]),
            // one character that needs an escape makes Go escape the rest its own way
            ("https://h/a%2fb c", ["https", "h", "h", "", "/a/b%20c"]),
            ("https://h/(ü)", ["https", "h", "h", "", "/%28%C3%BC%29"]),
            (
                "https://h/!$&'()*+,;=:@[]",
                ["https", "h", "h", "", "/!$&'()*+,;=:@[]"],
            ),
            ("/p#x?y", ["", "", "", "", "/p"]),
        ] {
            let url = Url::parse(text).unwrap();
            let found = [
                url.scheme(),
                url.host(),
                url.hostname(),
                url.port(),
                url.escaped_path(),
            ];
            assert_eq!(found, parts, "{text}");
            assert!(Url::is_valid(text), "{text}");
        }
    }

    #[test]
    fn queries_keep_all_values_of_a_key() {
        for (text, expected) in [
            ("https://h/p", vec![]),
            ("https://h/p?", vec![]),
            ("https://h?x=1", vec![("x", vec!["1"])]),
            (
                "https://h/p?k1=a&k2=b&k2=c",
                vec![("k1", vec!["a"]), ("k2", vec!["b", "c"])],
            ),
            (
                "/p?key with spaces=value+with%20spaces",
                vec![("key with spaces", vec!["value with spaces"])],
            ),
            ("/p?a?b=c", vec![("a?b", vec!["c"])]),
            ("/p?e", vec![("e", vec![""])]),
            ("/p?=1", vec![("", vec!["1"])]),
            // malformed pairs are left out
            ("/p?a;b=1&c=%zz&&d=2", vec![("d", vec!["2"])]),
            ("/p?x=1#y=2", vec![("x", vec!["1"])]),
        ] {
            let expected: BTreeMap<String, Vec<String>> = expected
                .into_iter()
                .map(|(key, values)| {
                    (
                        key.to_owned(),
                        values.into_iter().map(str::to_owned).collect(),
                    )
                })
                .collect();
            assert_eq!(Url::parse(text).unwrap().query(), expected, "{text}");
        }
    }

    #[test]
    fn texts_that_are_no_url_say_why() {
        for (text, message) in [
            ("", "empty url"),
            ("path", "invalid URI for request"),
            ("../relative-path", "invalid URI for request"),
            ("1a:b", "invalid URI for request"),
            ("?x=1", "invalid URI for request"),
            ("#fragment", "invalid URI for request"),
            (":a", "missing protocol scheme"),
            ("https://h/\u{1}", "invalid control character in URL"),
            ("https://h/\u{7f}", "invalid control character in URL"),
            ("https://a:b:c/", "invalid port \":b:c\" after host"),
            ("https://h:80:90/", "invalid port \":80:90\" after host"),
            ("https://h:8a/", "invalid port \":8a\" after host"),
            ("https://[::1]x/", "invalid port \"x\" after host"),
            ("https://[::1", "invalid IP-literal"),
            ("https://[1.2.3.4]/", "invalid IP-literal"),
            ("https://[fe80::1%25]/", "invalid IP-literal"),
            ("https://x[::1]/", "invalid IP-literal"),
            ("https://[fe80::1%en0]/", "invalid URL escape \"%en\""),
            ("https://us er@host", "invalid userinfo"),
            ("https://u%zz@h", "invalid URL escape \"%zz\""),
            (
                "https://ex ample.com",
                "invalid character \" \" in host name",
            ),
            ("https://h|x/", "invalid character \"|\" in host name"),
            // as a request target, a fragment is part of the host
            ("https://h#f", "invalid character \"#\" in host name"),
            ("https://ex%41mple.com", "invalid URL escape \"%41\""),
            ("https://h/%zz", "invalid URL escape \"%zz\""),
            ("https://h/%2", "invalid URL escape \"%2\""),
            ("https://h/%", "invalid URL escape \"%\""),
            ("https://h/%ü", "invalid URL escape \"%ü\""),
        ] {
            assert_eq!(Url::parse(text).unwrap_err().to_string(), message, "{text}");
            assert!(!Url::is_valid(text), "{text}");
        }
        let long = format!("/{}", "a".repeat(MAX_BYTES));
        assert_eq!(Url::parse(&long), Err(UrlError::TooLong));
    }

    #[test]
    fn a_relative_reference_behind_a_fragment_is_only_seen_when_parsed() {
        // Two hosts: the request form takes `//` for a path, the reference form for a host.
        assert!(Url::is_valid("//h|x/"));
        assert_eq!(Url::parse("//h|x/"), Err(UrlError::Host('|')));
    }

    #[test]
    fn urls_are_equal_by_their_parts() {
        let parse = |text| Url::parse(text).unwrap();
        assert_eq!(parse("HTTPS://h/a b"), parse("https://h/a%20b"));
        for other in [
            "http://h/a%20b",
            "https://H/a%20b",
            "https://u@h/a%20b",
            "https://h:443/a%20b",
            "https://h/a%20b?x",
            "https://h/a%20b#x",
        ] {
            assert_ne!(parse("https://h/a b"), parse(other), "{other}");
        }
    }
}
