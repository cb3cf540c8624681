//! Detects that an object was deleted with the option to orphan its dependents, even if no process
//! observed it.
//!
//! For such a deletion the API server sets the finalizer `orphan`, and garbage collection removes
//! the finalizer after it has removed the object's references from its dependents. Garbage
//! collection acts on dependents in its own cluster only, and leaves no trace. But a client that
//! removes a value from a list also removes it from the `managedFields` entries that claim the
//! value. So along with our finalizer an object gets an entry that claims `orphan`, before the list
//! contains it, and another value that the list never contains. A deletion of any kind changes no
//! entry.
//!
//! | the entry claims | meaning |
//! |---|---|
//! | both | the object was not orphaned, or garbage collection is not done yet |
//! | only the value that is never in the list | the object was orphaned |
//! | neither | unknown: another client has removed the entry |

use baton_apis::constants::{API_VERSION, FINALIZER_ORPHAN};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

/// The manager that the entry names.
const MANAGER: &str = "baton-orphaning";
/// A finalizer that no object has.
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

/// The entry that is added to `managedFields`.
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

/// True if the entry of an object that is being deleted shows that the object was orphaned. The API
/// server may have merged the entry with others.
///
/// # Errors
/// If the text is no object.
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
    fn only_an_entry_without_its_claim_marks_an_orphaned_object() {
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
