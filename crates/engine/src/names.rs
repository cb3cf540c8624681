//! The names that an API server accepts.

use std::borrow::Cow;

/// Greatest length of a path segment. No URL has room for a longer one with its escapes, and no
/// client sends one. Kinds with DNS names allow at most 253 bytes; kinds of RBAC have no limit of
/// their own.
const LONGEST_SEGMENT: usize = 16 * 1024;

/// The reason why a name cannot be a segment of an API path; `None` if it can. The rule is that of
/// the API server for all kinds.
///
/// A name comes from a user's manifest. Servers and proxies resolve `..` in a path, which would
/// turn a request for an object into one for its namespace.
pub fn segment_problem(name: &str) -> Option<&'static str> {
    match name {
        "" => Some("must not be empty"),
        "." | ".." => Some("may not be '.' or '..'"),
        _ if name.contains(['/', '%']) => Some("may not contain '/' or '%'"),
        _ if name.chars().any(char::is_control) => Some("may not contain control characters"),
        _ if name.len() > LONGEST_SEGMENT => Some("is too long"),
        _ => None,
    }
}

/// True for a DNS label, the form of a namespace's name.
pub fn is_label(name: &str) -> bool {
    name.len() <= 63 && !name.contains('.') && is_subdomain(name)
}

/// True for a DNS subdomain, the form of a custom resource's name.
pub fn is_subdomain(name: &str) -> bool {
    let is_part = |part: &str| {
        let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        !part.is_empty()
            && part.chars().all(inner)
            && !part.starts_with('-')
            && !part.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(is_part)
}

/// True if the text is valid as the value of a label.
pub fn is_label_value(value: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let outer = |c: char| c.is_ascii_alphanumeric();
    value.len() <= 63
        && value.chars().all(inner)
        && value.chars().next().is_none_or(outer)
        && value.chars().next_back().is_none_or(outer)
}

/// A name for a message: unchanged, unless it would break or fill the message.
pub fn for_message(name: &str) -> Cow<'_, str> {
    if name.len() > 253 || name.chars().any(char::is_control) {
        quoted(name).into()
    } else {
        name.into()
    }
}

/// A text as messages quote it: escaped, and cut if it is long.
pub fn quoted(text: &str) -> String {
    const MAX_SHOWN: usize = 80;
    let cut = text.floor_char_boundary(MAX_SHOWN);
    let rest = if cut < text.len() { "..." } else { "" };
    format!("{:?}{rest}", &text[..cut])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_change_the_meaning_of_a_path_are_no_segments() {
        let long = "a".repeat(LONGEST_SEGMENT + 1);
        for bad in ["", ".", "..", "../x", "a/b", "a%2fb", "a\nb", "a\n", &long] {
            assert!(segment_problem(bad).is_some(), "{bad:?}");
        }
        let long = "a".repeat(LONGEST_SEGMENT);
        for good in ["a", "a.b", "system:node", "...", "A b", "?watch=1", &long] {
            assert!(segment_problem(good).is_none(), "{good:?}");
        }
    }

    /// Name; expected: label, subdomain, value of a label.
    #[test]
    fn names_are_valid_as_label_subdomain_or_path_segment() {
        let (l63, l64) = ("a".repeat(63), "a".repeat(64));
        let (l253, l254) = ("a".repeat(253), "a".repeat(254));
        for (name, expected) in [
            ("a", [true, true, true]),
            ("a-1", [true, true, true]),
            ("1", [true, true, true]),
            ("a.b", [false, true, true]),
            ("a..b", [false, false, true]),
            ("a.-b", [false, false, true]),
            ("A_b", [false, false, true]),
            ("-a", [false, false, false]),
            ("a-", [false, false, false]),
            ("a.", [false, false, false]),
            ("", [false, false, true]),
            ("deploy web", [false, false, false]),
            ("50%", [false, false, false]),
            ("a\n", [false, false, false]),
            ("ä", [false, false, false]),
            (&l63, [true, true, true]),
            (&l64, [false, true, false]),
            (&l253, [false, true, false]),
            (&l254, [false, false, false]),
        ] {
            let found = [is_label(name), is_subdomain(name), is_label_value(name)];
            assert_eq!(found, expected, "{name:?}");
        }
    }

    #[test]
    fn quotes_are_bounded_and_escaped() {
        assert_eq!(quoted("a\n"), r#""a\n""#);
        assert_eq!(
            (for_message("a b"), for_message("a\n")),
            ("a b".into(), r#""a\n""#.into())
        );
        let text = quoted(&"ä".repeat(100));
        assert_eq!(text.chars().count(), 40 + 2 + 3);
        assert!(text.ends_with("\"..."), "{text}");
    }
}
