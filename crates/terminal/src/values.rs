//! Values of flags, checked when they are parsed.

use std::str::FromStr;

/// The name of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace(String);

impl Namespace {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Namespace {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
        let is_label = (1..=63).contains(&text.len())
            && text.bytes().all(inner)
            && !text.starts_with('-')
            && !text.ends_with('-');
        if is_label {
            Ok(Self(text.to_owned()))
        } else {
            Err(
                "a namespace is 1 to 63 lower-case letters, digits and '-', with no '-' at either end",
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_namespaces_are_checked() {
        let longest = "a".repeat(63);
        for (text, valid) in [
            ("a", true),
            ("baton-system", true),
            (&*longest, true),
            ("", false),
            ("-a", false),
            ("a-", false),
            ("A", false),
            ("a.b", false),
        ] {
            assert_eq!(text.parse::<Namespace>().is_ok(), valid, "{text:?}");
        }
        assert!("a".repeat(64).parse::<Namespace>().is_err());
    }
}
