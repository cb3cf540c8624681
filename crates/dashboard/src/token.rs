//! The bearer tokens of viewers.

use std::fmt;

use http::{HeaderMap, HeaderName, HeaderValue, header::AUTHORIZATION};
use ring::digest;

/// The longest token, in bytes. Tokens of OIDC with many groups have several thousand.
const MAX_LENGTH: usize = 16 * 1024;

/// The word before a token in a header.
const SCHEME: &str = "Bearer";

/// A bearer token. Its text appears in no log.
#[derive(Clone)]
pub(crate) struct Token {
    header: HeaderValue,
    id: TokenId,
}

/// The hash of a token.
pub(crate) type TokenId = [u8; 32];

/// The reason that a text is no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TokenError {
    #[error("there is no token")]
    Empty,
    #[error("the token is longer than {MAX_LENGTH} bytes")]
    TooLong,
    #[error("a token has letters, digits and the characters - . _ ~ + / = only")]
    Characters,
}

impl Token {
    /// Parses a token as people paste it: with spaces and line ends around it, and perhaps with the word
    /// of the header before it.
    pub(crate) fn parse(text: &str) -> Result<Self, TokenError> {
        let text = text.trim();
        let text = behind_scheme(text).unwrap_or(text);
        if text.is_empty() {
            return Err(TokenError::Empty);
        }
        if text.len() > MAX_LENGTH {
            return Err(TokenError::TooLong);
        }
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
        let header = HeaderValue::from_str(&format!("{SCHEME} {text}"));
        let (true, Ok(mut header)) = (text.bytes().all(is_allowed), header) else {
            return Err(TokenError::Characters);
        };
        header.set_sensitive(true);
        let hash = digest::digest(&digest::SHA256, text.as_bytes());
        let mut id = TokenId::default();
        id.copy_from_slice(hash.as_ref());
        Ok(Self { header, id })
    }

    /// The token in a header of a request, such as that of a proxy that logs people in; `None` without
    /// the header.
    pub(crate) fn of_header(
        headers: &HeaderMap,
        name: &HeaderName,
    ) -> Option<Result<Self, TokenError>> {
        let value = headers.get(name)?;
        // Another scheme is that of a proxy, such as a password in `Authorization`.
        let text = value.to_str().unwrap_or_default();
        let is_other = *name == AUTHORIZATION && behind_scheme(text).is_none();
        (!is_other && !text.is_empty()).then(|| Self::parse(text))
    }

    /// The hash of the token.
    pub(crate) fn id(&self) -> TokenId {
        self.id
    }

    /// The header of requests with the token.
    pub(crate) fn header(&self) -> HeaderValue {
        self.header.clone()
    }

    /// The token itself, for a cookie.
    pub(crate) fn secret(&self) -> &str {
        let text = self.header.to_str().unwrap_or_default();
        behind_scheme(text).unwrap_or_default()
    }
}

/// The text after the word of the header; `None` if it does not begin with this word.
fn behind_scheme(text: &str) -> Option<&str> {
    let rest = text.strip_prefix(SCHEME)?;
    (rest.is_empty() || rest.starts_with(' ')).then(|| rest.trim_start())
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_parsed_as_they_are_pasted() {
        for text in [
            "a.b-c_d~e+f/g==",
            " a.b-c_d~e+f/g==\r\n",
            "Bearer a.b-c_d~e+f/g==",
        ] {
            assert_eq!(Token::parse(text).unwrap().secret(), "a.b-c_d~e+f/g==");
        }
        for (text, expected) in [
            ("", TokenError::Empty),
            ("Bearer ", TokenError::Empty),
            ("a b", TokenError::Characters),
            ("a;b", TokenError::Characters),
            ("a\r\nImpersonate-User: x", TokenError::Characters),
            ("ä", TokenError::Characters),
            (&"a".repeat(MAX_LENGTH + 1), TokenError::TooLong),
        ] {
            assert_eq!(Token::parse(text).unwrap_err(), expected, "{text}");
        }
    }

    #[test]
    fn no_log_has_a_token() {
        let token = Token::parse("very-secret").unwrap();
        assert!(!format!("{token:?} {:?}", token.header()).contains("secret"));
    }

    #[test]
    fn headers_of_proxies_are_read() {
        let of = |name: &'static str, value: &'static str| {
            let name = HeaderName::from_static(name);
            let headers = HeaderMap::from_iter([(name.clone(), HeaderValue::from_static(value))]);
            Token::of_header(&headers, &name).map(|it| it.map(|token| token.secret().to_owned()))
        };
        assert_eq!(of("authorization", "Bearer a"), Some(Ok("a".to_owned())));
        assert_eq!(of("authorization", "Basic YTpi"), None);
        assert_eq!(
            of("x-forwarded-access-token", "a"),
            Some(Ok("a".to_owned()))
        );
        assert_eq!(of("x-forwarded-access-token", ""), None);
        assert_eq!(
            of("authorization", "Bearer a b"),
            Some(Err(TokenError::Characters))
        );
    }
}
