//! The owner references of an apply.

use serde_json::Value;

use crate::{
    diff,
    object::{owner_references, text},
    owners,
    revision::Revision,
};

/// The selection of owner references in an apply.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum References {
    /// All existing references, none of them controlling any more, and ours as the controller.
    All,
    /// The references that our manager owns. Leaving out the references of others does not remove
    /// them.
    Owned,
    /// The existing references, unchanged.
    AsLive,
}

impl References {
    /// Returns the references for an apply to the live object.
    pub(super) fn list(self, live: &Value, revision: &Revision) -> Vec<Value> {
        let identity = &revision.identity;
        let existing = owner_references(live);
        if self == Self::AsLive {
            return existing.to_vec();
        }
        let owned = diff::owned_fields(live);
        let owned = owned
            .as_deref()
            .and_then(|fields| fields.pointer("/f:metadata/f:ownerReferences"));
        let is_owned = |reference: &Value| {
            let key = format!("k:{{\"uid\":\"{}\"}}", text(reference, "uid"));
            owned.is_some_and(|owned| owned.get(key).is_some())
        };
        let mut list = Vec::with_capacity(existing.len() + 1);
        let mut own = Some(identity.controller_reference());
        for reference in existing {
            if identity.is(reference) {
                let own = own.take().map(|mut own| {
                    // An object that an earlier version has written is not written again for these.
                    if let Some(own) = own.as_object_mut().filter(|_| self == Self::Owned) {
                        own.retain(|field, _| {
                            !matches!(&**field, "hub" | "chain") || reference.get(field).is_some()
                        });
                    }
                    own
                });
                list.extend(own);
            } else if identity.is_remote && !owners::is_remote(reference) {
                // Garbage collection deletes the object with an owner of its own cluster, so we
                // must not own that reference. Leaving out the references of others does not remove
                // them.
            } else if self == Self::All {
                let mut reference = reference.clone();
                if reference.get("controller").is_some() {
                    reference["controller"] = false.into();
                }
                list.push(reference);
            } else if is_owned(reference) {
                list.push(reference.clone());
            }
        }
        list.extend(own);
        list
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tests::fixtures::revision;

    /// A repair does not add the hub to an entry that an earlier version has written; a take-over
    /// does.
    #[test]
    fn an_entry_without_a_hub_stays_as_it_is() {
        let mut revision = revision();
        revision.identity.is_remote = true;
        revision.identity.hub = "h".to_owned();
        let with_hub = revision.identity.controller_reference();
        let mut without = with_hub.clone();
        without.as_object_mut().unwrap().remove("hub");
        for (references, live, expected) in [
            (References::Owned, &without, &without),
            (References::Owned, &with_hub, &with_hub),
            (References::All, &without, &with_hub),
        ] {
            let live = json!({"metadata": {"ownerReferences": [live]}});
            assert_eq!(
                &references.list(&live, &revision)[..],
                std::slice::from_ref(expected)
            );
        }
        assert_eq!(References::Owned.list(&json!({}), &revision), [with_hub]);
    }
}
