//! The search for a stored object that a change of the definition of its kind affects.

use baton_apis::url;
use baton_engine::{
    Answer,
    definitions::{Affected, Question},
};
use kube::Client;
use serde::Deserialize;
use serde_json::Value;

use crate::{
    path,
    target::Target,
    wire::{self, WireError},
};

/// Number of objects of a page.
const PAGE: usize = 50;
/// Number of pages that are read.
const MAX_PAGES: usize = 200;

#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    metadata: PageMetadata,
    items: Option<Vec<Value>>,
}

#[derive(Default, Deserialize)]
struct PageMetadata {
    #[serde(default, rename = "continue")]
    next: String,
}

/// Finds the first stored object that a change affects. Reads the objects of the kind in pages of
/// 50, and stops at the first affected one, or after 10,000 objects.
///
/// # Errors
/// If a request gets no answer. A refused request is an answer: the objects cannot be listed.
pub async fn affected(client: &Client, question: &Question) -> Result<Affected, WireError> {
    let unknown = |cause: String| Ok(Affected::Unknown(cause));
    let Some(version) = &question.version else {
        return unknown("no served version shows their fields".to_owned());
    };
    let collection = match path::group_version(&question.group, version) {
        Ok(prefix) => path::everywhere(&prefix, &question.plural),
        Err(error) => return unknown(error.to_string()),
    };
    let mut next = String::new();
    for _ in 0..MAX_PAGES {
        let mut page = format!("{collection}?limit={PAGE}");
        if !next.is_empty() {
            page = format!("{page}&continue={}", url::escape(&next));
        }
        let reply = wire::call(client, wire::get(&page, "application/json")?).await;
        let reply = match reply {
            Err(error @ WireError::TooLong { .. }) => return unknown(error.to_string()),
            reply => reply?,
        };
        if !reply.status.is_success() {
            return unknown(wire::failure(reply.status, &reply.body).message);
        }
        let page: Page = match serde_json::from_slice(&reply.body) {
            Ok(page) => page,
            Err(error) => return unknown(error.to_string()),
        };
        let items = page.items.unwrap_or_default();
        if let Some(affected) = question.first_affected(&items) {
            return Ok(affected);
        }
        next = page.metadata.next;
        if next.is_empty() {
            return Ok(Affected::Nothing);
        }
    }
    unknown(format!("there are more than {}", PAGE * MAX_PAGES))
}

impl Target {
    /// Answers a question about the stored objects of a kind.
    pub(crate) async fn find_affected(&self, question: &Question) -> Answer {
        let _permit = self.0.permits.acquire("").await;
        match affected(&self.0.client, question).await {
            Ok(affected) => Answer::Affected(affected),
            Err(error) => Answer::Failed(error.to_string()),
        }
    }
}
