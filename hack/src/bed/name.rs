//! The name of a bed.

use crate::kubernetes::Kubernetes;

/// A name that is safe in paths, kubeconfigs and arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name(String);

/// The text is no valid name.
#[derive(Debug, thiserror::Error)]
#[error(
    "{0:?} is not a name for a bed: use at most 40 of a-z, 0-9 and `-`, with a letter or digit at both ends"
)]
pub struct InvalidName(String);

impl Name {
    /// The maximum length of a name.
    const MAX: usize = 40;

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name with a version of Kubernetes, for a bed of that version.
    pub(crate) fn of_version(&self, version: Kubernetes) -> Self {
        let version = version.to_string().replace('.', "-");
        let longest = Self::MAX - version.len() - 1;
        let name: String = self.0.chars().take(longest).collect();
        Self(format!("{name}-{version}"))
    }
}

impl std::str::FromStr for Name {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let ends = text.starts_with('-') || text.ends_with('-');
        if text.is_empty() || text.len() > Self::MAX || ends || !text.chars().all(allowed) {
            return Err(InvalidName(text.to_owned()));
        }
        Ok(Self(text.to_owned()))
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_leave_their_directory() {
        for good in ["baton", "test-2", "0"] {
            assert_eq!(good.parse::<Name>().unwrap().as_str(), good);
        }
        for bad in [
            "",
            ".",
            "..",
            "a/b",
            "-a",
            "a-",
            "A",
            "a b",
            "a_b",
            &"a".repeat(41),
        ] {
            assert!(bad.parse::<Name>().is_err(), "{bad:?}");
        }
    }
}
