//! The fields that a take-over from other tools removes from an object, and the fields that other
//! managers keep.

use std::collections::BTreeSet;

use baton_cluster::{Cluster, ClusterError};
use baton_engine::{
    diff::{
        dropped::Dropped,
        legacy::entries,
        others::{Others, others},
    },
    object::text,
    owners,
    revision::Desired,
};
use baton_view::diff::{mask::redact, note::ObjectNote};
use serde_json::Value;

use crate::error::Error;

/// True if a take-over of an object can remove fields from it.
pub fn removes_any(live: &Value, wanted: &Value, former: &[String]) -> bool {
    !Dropped::of(live, wanted, former).is_empty()
}

/// The object after its apply, without the fields that former tools applied and the revision leaves
/// out. The note lists the removed fields.
///
/// `answer` is the result of the dry run of the apply. If there are fields to remove, a second dry
/// run finds the fields that are defaults: the server sets them again.
pub async fn without_former_fields(
    cluster: &Cluster,
    object: &Desired,
    live: &Value,
    body: &Value,
    former: &[String],
    answer: Value,
) -> Result<(Value, Option<ObjectNote>), Error> {
    let dropped = Dropped::of(live, body, former);
    if dropped.is_empty() {
        return Ok((answer, None));
    }
    let mut after = answer.clone();
    dropped.remove_from(&mut after);
    let replaced = replace(cluster, object, live, after.clone()).await;
    let note = |paths, unchecked| ObjectNote::Removes {
        tools: tools(live, former),
        paths,
        unchecked,
    };
    match replaced {
        Ok(settled) => {
            let gone = dropped.gone(live, &settled);
            let note = (!gone.is_empty()).then(|| note(gone, None));
            Ok((settled, note))
        }
        Err(error @ Error::Cluster(ClusterError::Unreachable { .. })) => Err(error),
        Err(error) if error.is_code(409) => Err(error),
        Err(error) => {
            let gone = dropped.gone(live, &after);
            // The message of the server can quote values of the live object as well.
            let why = redact(&redact(&error.to_string(), &object.manifest), live);
            Ok((answer, Some(note(gone, Some(why)))))
        }
    }
}

/// A dry run that replaces an object by its final state.
async fn replace(
    cluster: &Cluster,
    object: &Desired,
    live: &Value,
    mut after: Value,
) -> Result<Value, Error> {
    if let Some(metadata) = after.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
        let version = live["metadata"]["resourceVersion"].clone();
        metadata.insert("resourceVersion".to_owned(), version);
    }
    owners::encode(&mut after);
    let path = cluster.path_of(&object.gvk, &object.key).await?;
    let mut answer = cluster.dry_run_replace(&path, &after).await?;
    owners::decode(&mut answer);
    Ok(answer)
}

/// The former managers that have fields in the object.
fn tools(live: &Value, former: &[String]) -> Vec<String> {
    let managers = entries(live).iter().map(|entry| text(entry, "manager"));
    let managers = managers.filter(|manager| former.iter().any(|name| name == manager));
    let distinct: BTreeSet<&str> = managers.collect();
    distinct.into_iter().map(str::to_owned).collect()
}

/// Notes about the fields of an object that stay with other managers.
pub fn stays(live: &Value, wanted: &Value, former: &[String]) -> Vec<ObjectNote> {
    let Others {
        by_manager,
        built_in,
    } = others(live, wanted, former);
    let notes = by_manager.into_iter();
    let mut notes: Vec<ObjectNote> = notes
        .map(|(manager, paths)| ObjectNote::SetBy(manager, paths))
        .collect();
    if !notes.is_empty() && built_in > 0 {
        notes.push(ObjectNote::SetByKubernetes(built_in));
    }
    notes
}

#[cfg(test)]
mod tests {
    use baton_text::diff::note::note;
    use serde_json::json;

    use super::*;

    fn live(entries: &[(&str, &str, Value)]) -> Value {
        let entries = entries.iter().map(|(manager, subresource, fields)| {
            json!({"manager": manager, "operation": "Update", "subresource": subresource, "apiVersion": "v1",
                "fieldsV1": {"f:data": fields}})
        });
        json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"managedFields": entries.collect::<Vec<_>>()}})
    }

    #[test]
    fn tools_are_named_once() {
        let entry = |manager| (manager, "", json!({}));
        let object = live(&[
            entry("helm"),
            entry("kubectl"),
            entry("helm"),
            entry("other"),
        ]);
        let former = ["kubectl".to_owned(), "helm".to_owned()];
        assert_eq!(tools(&object, &former), ["helm", "kubectl"]);
        assert_eq!(tools(&object, &[]), [""; 0]);
    }

    #[test]
    fn fields_that_stay_are_reported_by_manager() {
        let many: serde_json::Map<String, Value> =
            (0..11).map(|n| (format!("f:k{n:02}"), json!({}))).collect();
        let object = live(&[
            ("kubectl-edit", "", many.into()),
            ("kube-controller-manager", "", json!({"f:x": {}, "f:y": {}})),
        ]);
        let stays = |object: &Value, wanted: &Value| {
            let notes = stays(object, wanted, &[]);
            notes.iter().map(note).collect::<Vec<_>>()
        };
        assert_eq!(
            stays(&object, &json!({"data": {"k00": "1"}})),
            [
                "set by kubectl-edit, and not changed: .data.k01, .data.k02, .data.k03, .data.k04, .data.k05, \
                 .data.k06, .data.k07, .data.k08 and 2 more",
                "2 more fields set by controllers of Kubernetes",
            ]
        );
        let object = live(&[("kubelet", "", json!({"f:x": {}}))]);
        assert_eq!(stays(&object, &json!({})), [""; 0]);
    }

    #[test]
    fn tools_are_those_that_an_object_has() {
        let former = ["kubectl", "helm"].map(str::to_owned);
        let object = live(&[("helm", "", json!({})), ("edit", "", json!({}))]);
        assert_eq!(tools(&object, &former), ["helm"]);
        assert_eq!(tools(&live(&[]), &former), [""; 0]);
    }
}
