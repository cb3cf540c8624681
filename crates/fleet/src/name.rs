//! The name of a cluster, and the names derived from it.

use std::{fmt, str::FromStr};

use baton_apis::constants::{
    CLASS_CLUSTER_PREFIX as CLASS_PREFIX, NAMESPACE_CLUSTER_PREFIX as NAMESPACE_PREFIX,
};

/// Limit of the length of a namespace's name, and of a label's value.
const LABEL_LENGTH: usize = 63;

/// The reason that a name is not valid for a cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Object names are DNS-1123 subdomains.
    #[error(
        "{0:?} cannot be the name of a cluster: a name is 1 to 253 lower-case letters, digits, '-' and '.', with a \
         letter or a digit at both ends and beside every '.'"
    )]
    Malformed(String),
    /// The class of its phases is the value of a label.
    #[error(
        "{0:?} cannot be the name of a cluster: it is longer than {longest} characters, and its class \
         \"cluster.NAME\" has to fit into a label",
        longest = LABEL_LENGTH - CLASS_PREFIX.len()
    )]
    TooLong(String),
    /// The name of the namespace on the hub would not be valid.
    #[error(
        "{0:?} cannot be the name of a cluster that is joined with --pull: its namespace \"baton-cluster-NAME\" on \
         the hub has to be a DNS label, so the name is at most {longest} characters without '.'",
        longest = LABEL_LENGTH - NAMESPACE_PREFIX.len()
    )]
    NoNamespace(String),
}

/// The name of a Cluster: a DNS-1123 subdomain.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClusterName(String);

impl ClusterName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The class of phases that are delivered into the cluster.
    ///
    /// # Errors
    /// If the class is too long for a label. A Cluster may still have the name, but no phase can
    /// name it.
    pub fn class(&self) -> Result<String, NameError> {
        if CLASS_PREFIX.len() + self.0.len() > LABEL_LENGTH {
            return Err(NameError::TooLong(self.0.clone()));
        }
        Ok(format!("{CLASS_PREFIX}{}", self.0))
    }

    /// The namespace on the hub that an agent of the cluster reads; `None` if its name would not be
    /// valid.
    pub fn namespace(&self) -> Option<String> {
        let is_label =
            !self.0.contains('.') && NAMESPACE_PREFIX.len() + self.0.len() <= LABEL_LENGTH;
        is_label.then(|| format!("{NAMESPACE_PREFIX}{}", self.0))
    }
}

impl FromStr for ClusterName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
        let is_part = |part: &str| {
            !part.is_empty()
                && part.bytes().all(inner)
                && !part.starts_with('-')
                && !part.ends_with('-')
        };
        if text.len() <= 253 && text.split('.').all(is_part) {
            Ok(Self(text.to_owned()))
        } else {
            Err(NameError::Malformed(text.to_owned()))
        }
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn class_and_namespace_follow_from_the_name_of_a_cluster() {
        let long = |length: usize| "a".repeat(length);
        for (text, class, namespace) in [
            ("eu-1", true, true),
            ("1", true, true),
            ("eu.west-1", true, false),
            (&*long(49), true, true),
            (&*long(50), true, false),
            (&*long(55), true, false),
            (&*long(56), false, false),
            (&*long(253), false, false),
        ] {
            let name: ClusterName = text.parse().unwrap();
            let expected = format!("cluster.{text}");
            assert_eq!(name.class().ok(), class.then_some(expected), "{text}");
            let expected = format!("baton-cluster-{text}");
            assert_eq!(name.namespace(), namespace.then_some(expected), "{text}");
        }
    }

    #[test]
    fn an_invalid_name_is_refused_in_one_line() {
        let long = "a".repeat(254);
        for text in [
            "", "-a", "a-", "A", "a_b", ".a", "a.", "a..b", "a.-b", "a b", "ä", &*long,
        ] {
            let error = text.parse::<ClusterName>().unwrap_err().to_string();
            assert!(error.contains("cannot be the name"), "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }
}
