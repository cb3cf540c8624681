//! The check of a changed custom resource definition, as the manager makes it.

use baton_cluster::Cluster;
use baton_engine::{
    definitions::{Review, changes, is_definition, review},
    revision::Desired,
};
use baton_kubernetes::stored_objects::affected;
use baton_view::diff::note::ObjectNote;
use serde_json::Value;

use crate::error::Error;

/// The reason for which the manager refuses to change a definition from `live` to `after`; `None`
/// if no stored object loses data, and for other objects. The objects of the kind are listed if
/// their fields are affected.
///
/// # Errors
/// If the server cannot be reached.
pub async fn refusal(
    cluster: &Cluster,
    object: &Desired,
    live: &Value,
    after: &Value,
) -> Result<Option<String>, Error> {
    if !is_definition(&object.gvk) {
        return Ok(None);
    }
    let questions = match review(live, after) {
        Review::Accepted => return Ok(None),
        Review::Refused(text) => return Ok(Some(text)),
        Review::Ask(questions) => questions,
    };
    for question in questions {
        let answer = affected(&cluster.client, &question).await;
        let answer = answer.map_err(|error| Error::Impossible(error.to_string()))?;
        if let Some(text) = question.refusal(&answer) {
            return Ok(Some(text));
        }
    }
    Ok(None)
}

/// Notes about changes of a definition that lose no data.
pub fn notes(object: &Desired, live: &Value, after: &Value) -> Vec<ObjectNote> {
    if !is_definition(&object.gvk) {
        return Vec::new();
    }
    let notes = changes(live, after).notes;
    notes.into_iter().map(ObjectNote::Definition).collect()
}
