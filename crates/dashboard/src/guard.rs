//! Protection of a dashboard against other web pages, and against other users of its machine.

use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{
        CACHE_CONTROL, CONTENT_SECURITY_POLICY, COOKIE, HOST, ORIGIN, REFERRER_POLICY,
        X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
    },
};
use ring::{
    digest,
    rand::{Random, SystemRandom, generate},
};

use crate::hex::hex;

/// Only files of this server: no script or style within a page, no frame around one.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// The secret that a browser must have, as any process and any web page can send requests to a port of
/// this machine.
#[derive(Clone)]
pub struct Key(String);

impl Key {
    /// A new key; `None` if the system has no random numbers.
    #[must_use]
    pub fn random() -> Option<Self> {
        let random: [u8; 32] = generate(&SystemRandom::new()).map(Random::expose).ok()?;
        Some(Self(hex(&random)))
    }

    /// The key as part of the first address.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True if a text is the key. Hashes are compared, as the time of a comparison depends on the first
    /// difference.
    pub(crate) fn is(&self, text: &str) -> bool {
        let hash = |text: &str| digest::digest(&digest::SHA256, text.as_bytes());
        hash(&self.0).as_ref() == hash(text).as_ref()
    }
}

/// The value of a cookie of a request.
pub(crate) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let lines = headers.get_all(COOKIE).into_iter();
    let mut cookies = lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(';'));
    cookies
        .find_map(|cookie| {
            cookie
                .trim()
                .split_once('=')
                .filter(|(own, _)| *own == name)
        })
        .map(|(_, value)| value)
}

/// True if a request names this server as its user does. Another name that resolves to this machine
/// is that of a web page that wants to read our pages.
pub(crate) fn is_own_host(headers: &HeaderMap, port: u16) -> bool {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let name = host.and_then(|host| match host.split_once(':') {
        Some((name, given)) => (given == port.to_string()).then_some(name),
        // Browsers leave out the usual port.
        None => (port == 80).then_some(host),
    });
    matches!(name, Some("127.0.0.1" | "localhost"))
}

/// True if a page of another server has sent a request, other than by a link. Such a page cannot read
/// the answer, but could open many pages.
pub(crate) fn is_of_other_page(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let is_other = matches!(text("sec-fetch-site"), Some("cross-site" | "same-site"));
    is_other && text("sec-fetch-dest") != Some("document")
}

/// True if a page of this dashboard has sent a form. Browsers add one of these headers, which scripts
/// cannot change.
pub(crate) fn is_own_form(headers: &HeaderMap) -> bool {
    let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    if let Some(site) = text(&HeaderName::from_static("sec-fetch-site")) {
        return site == "same-origin";
    }
    let origin = text(&ORIGIN).and_then(|origin| origin.split_once("://"));
    origin.is_some_and(|(_, host)| text(&HOST) == Some(host))
}

/// Adds the headers of all responses.
pub(crate) fn protect(headers: &mut HeaderMap) {
    let fixed: [(HeaderName, &'static str); 7] = [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        // Without it, browsers would name no origin of forms.
        (REFERRER_POLICY, "same-origin"),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("permissions-policy"),
            "interest-cohort=()",
        ),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers
        .entry(CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &HeaderName, values: &[&str]) -> HeaderMap {
        let values = values.iter();
        values
            .map(|value| (name.clone(), HeaderValue::from_str(value).unwrap()))
            .collect()
    }

    #[test]
    fn other_names_of_this_machine_are_refused() {
        for (host, expected) in [
            ("127.0.0.1:8080", true),
            ("localhost:8080", true),
            ("[::1]:8080", false),
            ("127.0.0.1:80", false),
            ("127.0.0.1", false),
            ("evil.example:8080", false),
            ("localhost.evil.example:8080", false),
            ("127.0.0.1:8080:8080", false),
            ("", false),
        ] {
            assert_eq!(
                is_own_host(&headers(&HOST, &[host]), 8080),
                expected,
                "{host}"
            );
        }
        assert!(!is_own_host(&HeaderMap::new(), 8080));
        assert!(is_own_host(&headers(&HOST, &["localhost"]), 80));
        assert!(!is_own_host(&headers(&HOST, &["evil.example"]), 80));
    }

    #[test]
    fn only_links_of_other_pages_are_followed() {
        for (site, destination, expected) in [
            ("none", "document", false),
            ("same-origin", "empty", false),
            ("same-site", "document", false),
            ("same-site", "image", true),
            ("cross-site", "iframe", true),
            ("cross-site", "", true),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert("sec-fetch-site", HeaderValue::from_static(site));
            headers.insert("sec-fetch-dest", HeaderValue::from_static(destination));
            assert_eq!(is_of_other_page(&headers), expected, "{site} {destination}");
        }
        assert!(
            !is_of_other_page(&HeaderMap::new()),
            "a client that is no browser"
        );
    }

    #[test]
    fn only_own_forms_are_accepted() {
        for (fields, expected) in [
            (&[("sec-fetch-site", "same-origin")][..], true),
            (&[("sec-fetch-site", "same-site")], false),
            (&[("sec-fetch-site", "cross-site")], false),
            (&[("sec-fetch-site", "none")], false),
            (
                &[
                    ("origin", "https://baton.example"),
                    ("host", "baton.example"),
                ],
                true,
            ),
            (&[("origin", "http://a:8080"), ("host", "a:8080")], true),
            (
                &[
                    ("origin", "https://evil.example"),
                    ("host", "baton.example"),
                ],
                false,
            ),
            (&[("origin", "null"), ("host", "null")], false),
            (
                &[
                    ("sec-fetch-site", "cross-site"),
                    ("origin", "https://baton.example"),
                    ("host", "baton.example"),
                ],
                false,
            ),
            (&[("host", "baton.example")], false),
            (&[], false),
        ] {
            let fields = fields.iter().map(|(name, value)| {
                (
                    HeaderName::from_static(name),
                    HeaderValue::from_static(value),
                )
            });
            assert_eq!(is_own_form(&fields.collect()), expected);
        }
    }

    #[test]
    fn a_cookie_has_its_own_value() {
        let all = headers(&COOKIE, &["a=1; baton=2", "baton-3=4"]);
        assert_eq!(cookie(&all, "baton"), Some("2"));
        assert_eq!(cookie(&all, "baton-3"), Some("4"));
        assert_eq!(cookie(&all, "b"), None);
        assert_eq!(cookie(&headers(&COOKIE, &["", ";=;", "x"]), "x"), None);
    }

    #[test]
    fn a_key_is_only_itself() {
        let key = Key::random().unwrap();
        assert!(key.is(key.as_str()));
        assert!(!key.is("") && !key.is(&key.as_str()[1..]));
        assert_ne!(key.as_str(), Key::random().unwrap().as_str());
    }
}
