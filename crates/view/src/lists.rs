//! Requests for collections and parts of them.

use baton_apis::constants::{LABEL_CACHE, LABEL_CACHE_VALUE};

/// A collection, or a part of one.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListRequest {
    /// URL path of the collection.
    pub path: String,
    /// Which of its objects, and how much of them.
    pub query: ListQuery,
}

impl ListRequest {
    /// All of a collection.
    #[must_use]
    pub fn all(path: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            query: ListQuery::default(),
        }
    }
}

/// Which objects of a collection, and how much of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListQuery {
    /// Selects by labels, in the syntax of the API.
    pub labels: Option<String>,
    /// Selects by fields, in the syntax of the API.
    pub fields: Option<String>,
    /// Without specs and statuses.
    pub metadata_only: bool,
}

impl ListQuery {
    /// The object of a name.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self {
            fields: Some(format!("metadata.name={name}")),
            ..Self::default()
        }
    }

    /// Objects with these labels, in the syntax of the API.
    #[must_use]
    pub fn labelled(labels: String) -> Self {
        Self {
            labels: Some(labels),
            ..Self::default()
        }
    }

    /// Objects that carry the label of everything that a revision has written.
    #[must_use]
    pub fn managed() -> Self {
        Self::labelled(format!("{LABEL_CACHE}={LABEL_CACHE_VALUE}"))
    }
}
