//! Asks the server for two facts: which of a tool's fields it would set by itself, and if a value
//! differs in notation only.

use std::fmt::Write as _;

use baton_cluster::{Cluster, ClusterError};
use baton_engine::redact::with_short_values;
use baton_text::output::format::first;
use baton_view::diff::{clean::clean_live, mask::redact};
use serde_json::Value;

use super::{ObjectToAdopt, content::Content};
use crate::error::Error;

/// The number of paths of a drift that are named.
const MAX_NAMED: usize = 3;

/// The source of the values of a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Values {
    /// The values of the cluster.
    Live,
    /// The values of the tool's record.
    Recorded,
}

/// Chooses the content of an object in a revision. Returns a remark for the user besides.
pub(crate) async fn choose_content(
    cluster: &Cluster,
    member: &ObjectToAdopt,
    live: &Value,
    content: &Content,
    values: Values,
) -> Result<(Value, Option<String>), Error> {
    if values == Values::Recorded {
        return Ok((content.as_recorded(), None));
    }
    let note = drift(cluster, member, live, content).await?;
    let is_complete = match &content.without {
        Some(without) => is_restored(cluster, member, live, without).await?,
        None => true,
    };
    let chosen = if is_complete {
        &content.concise
    } else {
        &content.full
    };
    Ok((chosen.clone(), note))
}

/// True if the server would complete `without` to the live object. False if the server refuses.
async fn is_restored(
    cluster: &Cluster,
    member: &ObjectToAdopt,
    live: &Value,
    without: &Value,
) -> Result<bool, Error> {
    let path = cluster.path_of(&member.gvk, &member.key()).await?;
    match cluster.dry_run_replace(&path, without).await {
        Ok(answer) => Ok(clean_live(answer) == clean_live(live.clone())),
        Err(error @ ClusterError::Unreachable { .. }) => Err(error.into()),
        Err(_) => Ok(false),
    }
}

/// A note about the differences between the cluster and the record; `None` if there are none.
async fn drift(
    cluster: &Cluster,
    member: &ObjectToAdopt,
    live: &Value,
    content: &Content,
) -> Result<Option<String>, Error> {
    if !content.may_have_drifted() {
        return Ok(None);
    }
    let path = cluster.path_of(&member.gvk, &member.key()).await?;
    let body = clean_live(content.as_recorded());
    let paths = match cluster.dry_run_apply(&path, &body, true).await {
        Ok(answer) => differences(&clean_live(live.clone()), &clean_live(answer)),
        Err(error @ ClusterError::Unreachable { .. }) => return Err(error.into()),
        Err(error) => {
            // If the error is about rights, the forecast that follows reports the missing ones as
            // well.
            let title = member.title();
            let why = without_values(&error.to_string(), &body, live);
            return Ok(Some(format!(
                "{title}: its record cannot be compared: {why}"
            )));
        }
    };
    if paths.is_empty() {
        return Ok(None);
    }
    Ok(Some(format!(
        "{} differs from its record in {}: the value of the cluster is used; --recorded uses the value of the record",
        member.title(),
        first(&paths, MAX_NAMED)
    )))
}

/// Removes values of Secrets from the text of a refusal, those of the record and of the cluster,
/// and shortens others.
fn without_values(why: &str, recorded: &Value, live: &Value) -> String {
    with_short_values(&redact(&redact(why, recorded), live))
}

/// The paths at which two values differ. Items of lists are identified by their number.
pub(crate) fn differences(one: &Value, other: &Value) -> Vec<String> {
    let mut paths = Vec::new();
    walk(&mut String::new(), one, other, &mut paths);
    paths
}

fn walk(path: &mut String, one: &Value, other: &Value, paths: &mut Vec<String>) {
    let length = path.len();
    match (one, other) {
        _ if one == other => {}
        (Value::Object(fields), Value::Object(others)) => {
            let added = others.keys().filter(|name| !fields.contains_key(*name));
            for name in fields.keys().chain(added) {
                path.push('.');
                path.push_str(name);
                walk(path, &one[name], &other[name], paths);
                path.truncate(length);
            }
        }
        (Value::Array(items), Value::Array(others)) if items.len() == others.len() => {
            for (index, (item, other)) in items.iter().zip(others).enumerate() {
                let _ = write!(path, "[{index}]");
                walk(path, item, other, paths);
                path.truncate(length);
            }
        }
        _ => paths.push(path.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_quote_no_values() {
        let secret = |text: &str| serde_json::json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"a": text}});
        let (recorded, live) = (secret("hunter2"), secret("changed-by-hand"));
        let long = "x".repeat(500);
        let said = format!(
            "a webhook said: hunter2 is not changed-by-hand; spec.x: Invalid value: \"{long}\": no"
        );
        let shown = without_values(&said, &recorded, &live);
        assert_eq!(
            shown,
            "a webhook said: *** is not ***; spec.x: Invalid value: a string of 500 bytes: no"
        );
    }

    #[test]
    fn differences_have_paths() {
        let yaml = |text: &str| -> Value { serde_saphyr::from_str(text).unwrap() };
        for (one, other, expected) in [
            ("{a: 1}", "{a: 1}", &[][..]),
            (
                "{a: 1, b: {c: 2}}",
                "{a: 2, b: {d: 2}}",
                &[".a", ".b.c", ".b.d"],
            ),
            ("{a: [1, {b: 2}]}", "{a: [1, {b: 3}]}", &[".a[1].b"]),
            ("{a: [1]}", "{a: [1, 2]}", &[".a"]),
        ] {
            assert_eq!(differences(&yaml(one), &yaml(other)), expected);
        }
    }
}
