//! Answers to requests that contain credentials.

use std::borrow::Cow;

use base64::{
    Engine as _,
    prelude::{BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE_NO_PAD},
};

use super::without_parts;

/// Length in bytes of the shortest credential that is removed. Shorter ones are parts of many words.
const SHORTEST: usize = 8;

/// The text that replaces a credential.
const REPLACEMENT: &str = "[credential]";

/// A text of a server without the credentials that were sent to it: as they are, and in base64 as a
/// part of any other text, in upper and lower case.
///
/// # Caveats
/// Credentials of less than eight bytes stay, and so do other encodings.
pub fn without_credentials<'a>(text: &'a str, credentials: &[String]) -> Cow<'a, str> {
    let forms = credentials.iter().filter(|it| it.len() >= SHORTEST);
    let forms = forms.flat_map(|credential| forms_of(credential));
    let lower = text.to_ascii_lowercase();
    let mut hidden = vec![false; text.len()];
    let mut is_found = false;
    for form in forms {
        for (at, _) in lower.match_indices(&form) {
            hidden[at..at + form.len()].fill(true);
            is_found = true;
        }
    }
    if is_found {
        Cow::Owned(without_parts(text, &hidden, REPLACEMENT))
    } else {
        Cow::Borrowed(text)
    }
}

/// The forms of a credential in lower case: three bytes are four characters in base64, so that the
/// form depends on the position, and its ends on the text around it.
fn forms_of(credential: &str) -> Vec<String> {
    let mut forms = vec![credential.to_ascii_lowercase()];
    for (before, mixed) in [(0, 0), (1, 2), (2, 3)] {
        let bytes = [&vec![0; before], credential.as_bytes()].concat();
        let whole = bytes.len() / 3 * 4;
        for encoded in [
            BASE64_STANDARD_NO_PAD.encode(&bytes),
            BASE64_URL_SAFE_NO_PAD.encode(&bytes),
        ] {
            forms.push(encoded[mixed..whole].to_ascii_lowercase());
        }
    }
    forms
}

#[cfg(test)]
mod tests {
    use base64::prelude::BASE64_STANDARD;

    use super::*;

    #[test]
    fn credentials_are_removed_in_all_forms() {
        let token = "eyJhbGciOi.J~>?SUzI1NiJ9";
        let shown = |text: &str| without_credentials(text, &[token.to_owned()]).into_owned();
        for (text, expected) in [
            ("nothing", "nothing"),
            ("", ""),
            (&*format!("got {token}!"), "got [credential]!"),
            (&token.to_uppercase(), "[credential]"),
            (&format!("{token}{token}ü"), "[credential]ü"),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
        for before in ["", "B", "Be", "Bearer ", "user:"] {
            for after in ["", "x", "xy"] {
                let echo = format!("{before}{token}{after}");
                for encoded in [
                    BASE64_STANDARD.encode(&echo),
                    BASE64_URL_SAFE_NO_PAD.encode(&echo),
                ] {
                    let shown = shown(&format!("got {encoded} here"));
                    let around = shown.split_once(REPLACEMENT);
                    let (start, end) = around.unwrap_or_else(|| panic!("{shown}"));
                    // At most the bytes at the ends are left.
                    assert!(end.len() <= "xxxxxxxx here".len(), "{shown}");
                    assert!(
                        start.len() <= "got ".len() + before.len() * 4 / 3 + 3,
                        "{shown}"
                    );
                }
            }
        }
        assert_eq!(without_credentials("a cat", &["a".to_owned()]), "a cat");
    }
}
