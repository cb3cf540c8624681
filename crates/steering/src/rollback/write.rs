//! The patches and objects that a rollback writes.

use std::collections::BTreeSet;

use baton_apis::constants::{
    ANNOTATION_CHANGE_CAUSE, ANNOTATION_HASH, ANNOTATION_LAST_APPLIED, ANNOTATION_PAUSED_BY_PARENT,
    ANNOTATION_TEMPLATE_METADATA, API_VERSION, LABEL_OBJECT_DEPLOYMENT,
};
use baton_engine::operations::{add, remove, test};
use serde_json::{Map, Value, json};

/// Annotations that describe the object that they are on, and would be wrong on a copy.
const OF_THE_ORIGINAL: [&str; 4] = [
    ANNOTATION_HASH,
    ANNOTATION_LAST_APPLIED,
    ANNOTATION_PAUSED_BY_PARENT,
    ANNOTATION_TEMPLATE_METADATA,
];

/// The fields of a revision's spec that are its content.
const CONTENT: [&str; 4] = [
    "phases",
    "availabilityProbes",
    "successDelaySeconds",
    "serviceAccountName",
];

/// The verb of [`cause`] for a rollback.
pub(crate) const ROLLBACK: &str = "rollback to";

/// Path of the change cause.
const CAUSE: [&str; 3] = ["metadata", "annotations", ANNOTATION_CHANGE_CAUSE];

/// The JSON patch that makes a revision's content the template of a deployment. It fails if the
/// deployment has changed since it was read.
///
/// A merge patch would take a `null` in a manifest for a removal.
pub(crate) fn roll_deployment(deployment: &Value, revision: &Value) -> Value {
    let version = &deployment["metadata"]["resourceVersion"];
    let cause = cause(revision, ROLLBACK);
    let annotation = match &deployment["metadata"]["annotations"] {
        Value::Object(_) => add(&CAUSE, cause),
        _ => add(&CAUSE[..2], json!({ ANNOTATION_CHANGE_CAUSE: cause })),
    };
    json!([
        add(&["metadata", "resourceVersion"], version.clone()),
        annotation,
        add(&["spec", "template"], template(revision)),
    ])
}

/// The JSON patch that removes a change cause from a deployment. It fails if the change cause is
/// another one.
pub(crate) fn without_cause(cause: &str) -> Value {
    json!([test(&CAUSE, cause), remove(&CAUSE)])
}

/// The content of a revision in the form of a template.
pub(crate) fn template(revision: &Value) -> Value {
    let mut metadata = Map::new();
    if let Some(labels) = labels(revision) {
        metadata.insert("labels".to_owned(), labels);
    }
    json!({ "metadata": metadata, "spec": content(revision) })
}

/// The next revision of a chain without a deployment, with the content of an earlier one.
///
/// `previous` are the names of the revisions that it takes over from.
pub(crate) fn next_revision(
    revision: &Value,
    name: &str,
    number: i64,
    previous: &[String],
    cause: &str,
) -> Value {
    let mut metadata = Map::new();
    metadata.insert("name".to_owned(), name.into());
    if let Some(namespace) = revision["metadata"]["namespace"].as_str() {
        metadata.insert("namespace".to_owned(), namespace.into());
    }
    if let Some(labels) = labels(revision) {
        metadata.insert("labels".to_owned(), labels);
    }
    let mut annotations = revision["metadata"]["annotations"]
        .as_object()
        .cloned()
        .unwrap_or_default();
    annotations.retain(|name, _| !OF_THE_ORIGINAL.contains(&name.as_str()));
    annotations.insert(ANNOTATION_CHANGE_CAUSE.to_owned(), cause.into());
    metadata.insert("annotations".to_owned(), annotations.into());
    let mut spec = content(revision);
    spec.insert("revision".to_owned(), number.into());
    let previous: Vec<Value> = previous
        .iter()
        .map(|name| json!({ "name": name }))
        .collect();
    spec.insert("previous".to_owned(), previous.into());
    json!({
        "apiVersion": API_VERSION,
        "kind": revision["kind"],
        "metadata": metadata,
        "spec": spec,
    })
}

/// The change cause of the new revision: that of the old revision if it has one, else the `verb`,
/// such as `rollback to`, with the number.
pub fn cause(revision: &Value, verb: &str) -> String {
    let number = &revision["spec"]["revision"];
    let cause = revision["metadata"]["annotations"][ANNOTATION_CHANGE_CAUSE].as_str();
    cause
        .filter(|cause| !cause.is_empty())
        .map_or_else(|| format!("{verb} revision {number}"), str::to_owned)
}

/// The name of the next revision.
///
/// A number at the end of the name becomes the new revision's number if it was the old one's, and
/// else is increased by one. `web-v3` is followed by `web-v4`, `web` by `web-v4`. Names in `taken`
/// are skipped.
pub(crate) fn next_name(name: &str, number: i64, next: i64, taken: &BTreeSet<String>) -> String {
    let stem = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
    // A number that is too large to be parsed is part of the name.
    let (stem, count) = match name[stem.len()..].parse::<i64>() {
        Ok(count) if count == number => (stem.to_owned(), Some(next)),
        Ok(count) if !stem.is_empty() => (stem.to_owned(), count.checked_add(1)),
        _ => (format!("{name}-v"), Some(next)),
    };
    let (stem, mut count) = match count {
        Some(count) => (stem, count),
        None => (format!("{name}-v"), next),
    };
    loop {
        let name = format!("{stem}{count}");
        if !taken.contains(&name) {
            return name;
        }
        // An overflow starts again at 0: there are fewer names than numbers.
        count = count.checked_add(1).unwrap_or(0);
    }
}

/// Labels of a revision without the one that names its deployment; `None` if none are left.
fn labels(revision: &Value) -> Option<Value> {
    let mut labels = revision["metadata"]["labels"].as_object()?.clone();
    labels.remove(LABEL_OBJECT_DEPLOYMENT);
    (!labels.is_empty()).then_some(labels.into())
}

fn content(revision: &Value) -> Map<String, Value> {
    let fields = CONTENT.iter().filter_map(|field| {
        let value = revision["spec"].get(field)?;
        Some(((*field).to_owned(), value.clone()))
    });
    fields.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn yaml(text: &str) -> Value {
        serde_saphyr::from_str(text).unwrap()
    }

    fn old() -> Value {
        yaml(
            r#"
apiVersion: package-operator.run/v1alpha1
kind: ObjectSet
metadata:
  name: web-v1
  namespace: shop
  uid: "7"
  resourceVersion: "70"
  labels: {app: web, package-operator.run/object-deployment: web}
  annotations: {note: kept, package-operator.run/hash: "44", package-operator.run/paused-by-parent: "true"}
  finalizers: [package-operator.run/cached]
  ownerReferences: [{kind: ObjectDeployment, name: web, uid: "1", controller: true}]
spec:
  lifecycleState: Archived
  revision: 1
  previous: [{name: web-v0}]
  successDelaySeconds: 3
  phases: [{name: a, slices: [s], objects: [{object: {kind: ConfigMap, data: {gone: null}}}]}]
status: {phase: Archived}
"#,
        )
    }

    #[test]
    fn a_template_is_the_content_and_the_labels() {
        let expected = yaml(
            "
metadata: {labels: {app: web}}
spec:
  successDelaySeconds: 3
  phases: [{name: a, slices: [s], objects: [{object: {kind: ConfigMap, data: {gone: null}}}]}]
",
        );
        assert_eq!(template(&old()), expected);
        assert_eq!(template(&json!({})), yaml("{metadata: {}, spec: {}}"));
        let own_label_only =
            yaml("metadata: {labels: {package-operator.run/object-deployment: web}}");
        assert_eq!(template(&own_label_only), yaml("{metadata: {}, spec: {}}"));
    }

    #[test]
    fn a_deployment_is_patched_only_in_the_state_it_was_read_in() {
        let mut deployment = yaml("metadata: {resourceVersion: '12', annotations: {a: b}}");
        let patch = roll_deployment(&deployment, &old());
        let expected = json!([
            {"op": "add", "path": "/metadata/resourceVersion", "value": "12"},
            {"op": "add", "path": "/metadata/annotations/kubernetes.io~1change-cause", "value": "rollback to \
                 revision 1"},
            {"op": "add", "path": "/spec/template", "value": template(&old())},
        ]);
        assert_eq!(patch, expected);
        deployment["metadata"]["annotations"] = Value::Null;
        let patch = roll_deployment(&deployment, &old());
        let expected = json!({"op": "add", "path": "/metadata/annotations",
            "value": {"kubernetes.io/change-cause": "rollback to revision 1"}});
        assert_eq!(patch[1], expected);
    }

    #[test]
    fn the_cause_is_that_of_the_old_revision() {
        let mut revision = old();
        assert_eq!(cause(&revision, ROLLBACK), "rollback to revision 1");
        revision["metadata"]["annotations"][ANNOTATION_CHANGE_CAUSE] = "".into();
        assert_eq!(cause(&revision, ROLLBACK), "rollback to revision 1");
        revision["metadata"]["annotations"][ANNOTATION_CHANGE_CAUSE] = "release 1.0".into();
        assert_eq!(cause(&revision, ROLLBACK), "release 1.0");
    }

    #[test]
    fn the_next_revision_of_a_chain_is_a_new_object() {
        let previous = ["web-v1".to_owned(), "web-v3".to_owned()];
        let next = next_revision(&old(), "web-v4", 4, &previous, "back");
        let expected = yaml(
            "
apiVersion: package-operator.run/v1alpha1
kind: ObjectSet
metadata:
  name: web-v4
  namespace: shop
  labels: {app: web}
  annotations: {note: kept, kubernetes.io/change-cause: back}
spec:
  revision: 4
  previous: [{name: web-v1}, {name: web-v3}]
  successDelaySeconds: 3
  phases: [{name: a, slices: [s], objects: [{object: {kind: ConfigMap, data: {gone: null}}}]}]
",
        );
        assert_eq!(next, expected);
        let mut cluster = old();
        cluster["kind"] = "ClusterObjectSet".into();
        cluster["metadata"] = json!({"name": "web-v1"});
        let next = next_revision(&cluster, "n", 2, &[], "back");
        assert_eq!(next["kind"], "ClusterObjectSet");
        assert_eq!(
            next["metadata"],
            json!({"name": "n", "annotations": {ANNOTATION_CHANGE_CAUSE: "back"}})
        );
    }

    #[test]
    fn the_next_name_counts_up() {
        let taken: BTreeSet<String> = ["web-v5", "web-v6"].map(str::to_owned).into();
        for (name, number, next, expected) in [
            ("web-v3", 3, 4, "web-v4"),
            ("web-v3", 3, 9, "web-v9"),
            ("web-3", 3, 4, "web-4"),
            ("web3", 3, 4, "web4"),
            ("3", 3, 4, "4"),
            // The numbers in the names differ from those of the revisions.
            ("web-v3", 7, 8, "web-v4"),
            ("web-v9", 9, 10, "web-v10"),
            ("web-v09", 9, 10, "web-v10"),
            ("web", 3, 4, "web-v4"),
            // The number in the name is no counter.
            ("2024", 1, 2, "2024-v2"),
            (
                "web-99999999999999999999",
                1,
                2,
                "web-99999999999999999999-v2",
            ),
            (
                "web-9223372036854775807",
                1,
                2,
                "web-9223372036854775807-v2",
            ),
            // These names are taken.
            ("web-v4", 4, 5, "web-v7"),
            ("web-v4", 1, 2, "web-v7"),
        ] {
            assert_eq!(next_name(name, number, next, &taken), expected, "{name}");
        }
    }
}
