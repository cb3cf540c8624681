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
}

impl Wanted {
    /// The list that answers a request. The plugin reads whole objects also for requests of metadata,
    /// since watches of browsers cannot ask for less.
    pub(crate) fn of(request: ListRequest) -> Self {
        let ListRequest { path, query } = request;
        let ListQuery {
            name,
            labels,
            fields,
            is_immutable,
            metadata_only: _,
        } = query;
        Self {
            path,
            name,
            labels,
            fields,
            is_immutable,
        }
    }
}

/// A list as it was last read.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Read {
    pub(crate) request: Wanted,
    /// The objects that were last read.
    #[serde(default)]
    objects: Vec<Value>,
    /// The reason that the list cannot be read now.
    error: Option<String>,
    /// The HTTP status of the error.
    status: Option<u16>,
}

impl Read {
    /// The list, without the fields that a question does not read.
    pub(crate) fn list(self, trim: fn(&mut Value)) -> List {
        let objects = self.objects.into_iter().map(|mut object| {
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
