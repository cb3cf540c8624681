//! The differences of a live object from the manifest in its revision.

use baton_engine::{
    diff::{Difference, compare, owned_fields},
    object::{Identity, controller, is_terminating, owner_references, text},
    revision::Desired,
};
use serde_json::Value;

use super::{
    Pair, Section, clean::clean, note::ObjectNote, outcome::DiffOutcome, project::project,
};
use crate::children::owner_outside_chain;

/// The body of the manager's apply to a live object. Create-only fields are left out, or have their
/// live values.
pub fn body(desired: &Desired, live: &Value) -> Value {
    let mut body = desired.body(live);
    // The chain decides about owner references. References that the manager wrote stay as they are.
    let owned = owned_fields(live);
    let owned = owned
        .as_deref()
        .and_then(|fields| fields.pointer("/f:metadata/f:ownerReferences"));
    let is_owned = |reference: &&Value| {
        let marker = format!("k:{{\"uid\":\"{}\"}}", text(reference, "uid"));
        owned.is_some_and(|owned| owned.get(marker).is_some())
    };
    let references: Vec<Value> = owner_references(live)
        .iter()
        .filter(is_owned)
        .cloned()
        .collect();
    if !references.is_empty() {
        body["metadata"]["ownerReferences"] = references.into();
    }
    body
}

/// Compares a live object with the manifest in a revision. `None` if there is no difference.
///
/// Only wanted fields are compared, and fields that were applied before and are not wanted any
/// more. `dry_run` is the server's answer to an apply of [`body`]. Without it, a value that the
/// server stores in another notation than the manifest looks different. So a caller that receives a
/// difference should send a dry run, and call again with its answer.
pub fn section(
    phase: &str,
    desired: &Desired,
    revision: &Identity,
    live: Option<&Value>,
    dry_run: Option<&Value>,
) -> Option<Section> {
    let section = Section::of(desired, phase);
    let Some(live) = live else {
        let pair = Pair::new(None, Some(clean(desired.manifest.clone())));
        let section = section.fate(DiffOutcome::Absent);
        return Some(section.pair(pair));
    };
    let body = body(desired, live);
    if compare(&body, live) == Difference::None {
        return None;
    }
    let after = dry_run.map_or_else(|| body.clone(), |answer| project(answer, &body));
    let pair = Pair::new(Some(clean(project(live, &body))), Some(clean(after)));
    if pair.is_same() {
        return None;
    }
    let section = section
        .fate(DiffOutcome::Different)
        .notes(notes(revision, live));
    Some(section.pair(pair))
}

/// The body of a dry run that succeeds only in the present state of the object.
pub fn dry_run_body(desired: &Desired, live: &Value) -> Value {
    let mut body = body(desired, live);
    for field in ["uid", "resourceVersion"] {
        body["metadata"][field] = live["metadata"][field].clone();
    }
    body
}

fn notes(revision: &Identity, live: &Value) -> impl Iterator<Item = ObjectNote> {
    let is_own = controller(live).is_some_and(|owner| revision.is(owner));
    let owner = (!is_own).then(|| ObjectNote::ControlledBy(owner_outside_chain(live)));
    let deleting = is_terminating(live).then_some(ObjectNote::Deleting);
    owner.into_iter().chain(deleting)
}

#[cfg(test)]
mod tests {
    use baton_apis::CollisionProtection;
    use baton_engine::diff::FieldPath;
    use baton_engine::{Gvk, ObjectKey};
    use serde_json::json;

    use super::*;
    use crate::children::Owner;

    fn yaml(text: &str) -> Value {
        serde_saphyr::from_str(text).unwrap()
    }

    fn desired(manifest: &str, create_only: &[&str]) -> Desired {
        let manifest = yaml(manifest);
        let gvk = Gvk::new(text(&manifest, "apiVersion"), text(&manifest, "kind"));
        Desired {
            key: ObjectKey {
                group: gvk.group.clone(),
                kind: gvk.kind.clone(),
                namespace: "shop".to_owned(),
                name: "web".to_owned(),
            },
            gvk,
            written_namespace: String::new(),
            protection: CollisionProtection::Prevent,
            mappings: Vec::new(),
            create_only: create_only
                .iter()
                .map(|path| FieldPath::parse(path).unwrap())
                .collect(),
            manifest,
            violations: Vec::new(),
            hidden: None,
            lacks: None,
            reason: None,
        }
    }

    fn revision() -> Identity {
        Identity {
            is_remote: false,
            hub: String::new(),
            chain: String::new(),
            kind: "ObjectSet".to_owned(),
            namespace: "shop".to_owned(),
            name: "web-v2".to_owned(),
            uid: "2".to_owned(),
        }
    }

    /// A live object that the revision controls; the manager owns the fields in `owned`.
    fn live(object: &str, owned: &str) -> Value {
        let mut object = yaml(object);
        let mut owned = yaml(owned);
        owned["f:metadata"]["f:ownerReferences"] = json!({"k:{\"uid\":\"2\"}": {}});
        object["metadata"]["ownerReferences"] = vec![revision().controller_reference()].into();
        object["metadata"]["managedFields"] = json!([{
            "manager": "package-operator", "operation": "Apply",
            "apiVersion": object["apiVersion"], "fieldsV1": owned,
        }]);
        object
    }

    const WANTED: &str = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: 2, size: \
         1000m}}";
    const OWNED: &str = "{f:spec: {f:replicas: {}, f:size: {}}}";

    fn live_with(spec: &str) -> Value {
        live(
            &format!(
                "{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: web, uid: u, resourceVersion: '5'}}, \
                     spec: {spec}}}"
            ),
            OWNED,
        )
    }

    /// The `spec` on both sides.
    fn specs(section: &Section) -> (Value, Value) {
        let pair = section.pair.as_ref().unwrap();
        let spec = |side: Option<&Value>| side.unwrap()["spec"].clone();
        (spec(pair.before()), spec(pair.after()))
    }

    #[test]
    fn equal_objects_have_no_section() {
        let same = live_with("{replicas: 2, size: 1000m, theirs: 3}");
        let section = section("app", &desired(WANTED, &[]), &revision(), Some(&same), None);
        assert_eq!(section, None);
    }

    #[test]
    fn a_drifted_field_is_different() {
        let drifted = live_with("{replicas: 5, size: 1000m, theirs: 3}");
        let desired = desired(WANTED, &[]);
        let found = section("app", &desired, &revision(), Some(&drifted), None).unwrap();
        let expected = (
            yaml("{replicas: 5, size: 1000m}"),
            yaml("{replicas: 2, size: 1000m}"),
        );
        assert_eq!(specs(&found), expected);
        assert_eq!(found.topic, Section::of(&desired, "app").topic);
        assert_eq!(found.notes, []);
        assert!(found.differs());
    }

    /// The server writes `1000m` as `1`; only a dry run shows that this is no difference.
    #[test]
    fn a_field_in_another_form() {
        let other = live_with("{replicas: 2, size: '1'}");
        let desired = desired(WANTED, &[]);
        let check = |answer| section("app", &desired, &revision(), Some(&other), answer);
        assert!(check(None).is_some());
        assert_eq!(check(Some(&other)), None);
        let drifted = live_with("{replicas: 3, size: '1'}");
        let found = section("app", &desired, &revision(), Some(&drifted), Some(&other)).unwrap();
        let expected = (
            yaml("{replicas: 3, size: '1'}"),
            yaml("{replicas: 2, size: '1'}"),
        );
        assert_eq!(specs(&found), expected);
    }

    #[test]
    fn a_field_that_is_left_to_others() {
        let scaled = live_with("{replicas: 5, size: 1000m}");
        let desired = desired(WANTED, &[".spec.replicas"]);
        assert_eq!(
            section("app", &desired, &revision(), Some(&scaled), None),
            None
        );
    }

    #[test]
    fn a_missing_object_is_not_in_the_cluster() {
        let desired = desired(WANTED, &[]);
        let found = section("app", &desired, &revision(), None, None).unwrap();
        assert_eq!(found.outcome, DiffOutcome::Absent);
        assert_eq!(found.pair.unwrap().before(), None);
    }

    #[test]
    fn another_controller_is_noted() {
        let mut other = live_with("{replicas: 5, size: 1000m}");
        let desired = desired(WANTED, &[]);
        let notes = |live: &Value| {
            section("app", &desired, &revision(), Some(live), None)
                .unwrap()
                .notes
        };
        other["metadata"]["ownerReferences"][0]["name"] = "web-v3".into();
        other["metadata"]["ownerReferences"][0]["uid"] = "3".into();
        other["metadata"]["deletionTimestamp"] = "2026-08-01T00:00:00Z".into();
        let newer = ObjectNote::ControlledBy(owner_outside_chain(&other));
        assert_eq!(notes(&other), [newer, ObjectNote::Deleting]);
        other["metadata"]["ownerReferences"] = Value::Null;
        other["metadata"]["deletionTimestamp"] = Value::Null;
        assert_eq!(notes(&other), [ObjectNote::ControlledBy(Owner::Nobody)]);
    }

    #[test]
    fn a_dry_run_is_bound_to_the_state_it_is_about() {
        let live = live_with("{replicas: 5}");
        let body = dry_run_body(&desired(WANTED, &[]), &live);
        assert_eq!(body["metadata"]["uid"], "u");
        assert_eq!(body["metadata"]["resourceVersion"], "5");
        assert_eq!(
            body["metadata"]["ownerReferences"],
            live["metadata"]["ownerReferences"]
        );
    }
}
