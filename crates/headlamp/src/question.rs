//! The requests of the plugin: lists, and what was read.

use baton_view::lists::{Cause, List, ListQuery, ListRequest};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A list that the plugin reads, and watches unless its objects never change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Wanted {
    /// URL path of the collection.
    path: String,
    /// The name of the only object.
    name: Option<String>,
    /// Label selector.
    labels: Option<String>,
    /// Field selector.
    fields: Option<String>,
    /// True if the objects never change, so that they are read once.
    is_immutable: bool,
    /// True if only the metadata is read.
    is_metadata: bool,
}

impl Wanted {
    /// The list for a request that answers others. A list of objects that never change is read once
    /// too.
    pub(crate) fn of(request: ListRequest, answered: &[ListRequest]) -> Self {
        let ListRequest { path, query } = request;
        let ListQuery {
            name,
            labels,
            fields,
            is_immutable: _,
            metadata_only,
        } = query;
        Self {
            path,
            name,
            labels,
            fields,
            is_immutable: answered.iter().all(|it| it.query.is_immutable),
            is_metadata: metadata_only,
        }
    }
}

/// A list as it was last read.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Read {
    pub(crate) request: Wanted,
    /// The objects that were last read; absent if all reads have failed.
    objects: Option<Vec<Value>>,
    /// The reason that the list cannot be read now.
    error: Option<String>,
    /// The HTTP status of the error.
    status: Option<u16>,
}

impl Read {
    /// True if all reads have failed, so that the objects are unknown.
    pub(crate) fn has_failed(&self) -> bool {
        self.objects.is_none()
    }

    /// The list, without the fields that a question does not read.
    pub(crate) fn list(self, trim: fn(&mut Value)) -> List {
        let objects = self.objects.into_iter().flatten().map(|mut object| {
            trim(&mut object);
            object
        });
        let mut list: List = objects.collect();
        list.trouble = self.error;
        list.cause = match self.status {
            Some(404) => Some(Cause::Unserved),
            Some(403) => Some(Cause::Forbidden),
            _ => None,
        };
        list
    }
}
