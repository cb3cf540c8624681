//! Shows whether the deletion of an object asked for its objects to be left behind, although nobody looked.
//!
//! The API server notes such a deletion by the finalizer `orphan`, and garbage collection removes it when it has taken
//! the object's references off its dependents. It knows those of its own cluster only, and leaves nothing behind that
//! says so. But whoever removes a value from a list takes it from all who are known to have set it, in
//! `managedFields`. So an object gets an entry there, along with our finalizer, that claims `orphan` before it is in
//! the list, and a value that never is. The deletion itself, of whatever kind, changes no such entry.
//!
//! | the entry claims | |
//! |---|---|
//! | both | nobody has asked for it, or garbage collection is not done yet |
//! | only the value that is never there | it was orphaned |
//! | neither | nothing is known: somebody has removed the entry |

use baton_apis::constants::{API_VERSION, FINALIZER_ORPHAN};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

/// The manager that the entry names.
const MANAGER: &str = "baton-orphaning";
/// The finalizer that no object has.
const NEVER: &str = "baton.run/orphaning";

#[derive(Deserialize)]
struct Object<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(borrow, default)]
    managed_fields: Vec<Entry<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry<'a> {
    #[serde(borrow, default)]
    fields_v1: Option<&'a RawValue>,
}

fn member(finalizer: &str) -> String {
    format!("v:\"{finalizer}\"")
}

/// The entry of `managedFields` that is added.
pub(crate) fn entry() -> Value {
    let claimed = json!({ member(FINALIZER_ORPHAN): {}, member(NEVER): {} });
    json!({
        "manager": MANAGER,
        "operation": "Update",
        "apiVersion": API_VERSION,
        "fieldsType": "FieldsV1",
        "fieldsV1": { "f:metadata": { "f:finalizers": claimed } },
    })
}

/// Whether the entry of an object that is being deleted says that it was orphaned. The API server may have united the
/// entry with others.
///
/// # Errors
/// When it is no object.
pub(crate) fn was_orphaned(object: &str) -> Result<bool, serde_json::Error> {
    let Object { metadata } = serde_json::from_str(object)?;
    let (mut is_marked, mut is_claimed) = (false, false);
    for entry in metadata.managed_fields {
        let Some(fields) = entry.fields_v1 else {
            continue;
        };
        let fields: Value = serde_json::from_str(fields.get())?;
        let finalizers = &fields["f:metadata"]["f:finalizers"];
        is_marked |= finalizers.get(member(NEVER)).is_some();
        is_claimed |= finalizers.get(member(FINALIZER_ORPHAN)).is_some();
    }
    Ok(is_marked && !is_claimed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_entry_that_has_lost_its_claim_says_so() {
        let fields = |names: &[&str]| {
            let claimed: Value = names.iter().map(|name| (member(name), json!({}))).collect();
            json!({ "fieldsV1": { "f:metadata": { "f:finalizers": claimed } } })
        };
        let other = json!({ "manager": "other", "fieldsV1": { "f:spec": {} } });
        for (entries, expected) in [
            (vec![], false),
            (vec![other.clone()], false),
            (vec![other.clone(), entry()], false),
            (vec![other.clone(), fields(&[NEVER])], true),
            (vec![fields(&[NEVER, "x"]), json!({})], true),
            (
                vec![fields(&[NEVER, "x"]), fields(&[FINALIZER_ORPHAN])],
                false,
            ),
            (vec![fields(&[FINALIZER_ORPHAN])], false),
            (vec![fields(&["x"])], false),
        ] {
            let object = json!({ "metadata": { "name": "x", "managedFields": entries } });
            let said = was_orphaned(&object.to_string()).unwrap();
            assert_eq!(said, expected, "{object}");
        }
        assert!(!was_orphaned(r#"{"metadata": {}}"#).unwrap());
    }
}
