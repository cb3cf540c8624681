//! Objects that Shipper has installed.
//!
//! Shipper gives the objects of a Release the labels of the Release, and a label with the name of
//! the Release that wrote the object last. Their owners are *anchors*: ConfigMaps, one of each
//! Release that has installed the object. None of them is a controller.
//!
//! Observable behaviour: `docs/contract/handover.md`, "Objects of Shipper".

use baton_apis::constants::shipper::{ANCHOR_SUFFIX, LABEL_APP, LABEL_OWNED_BY};
use serde_json::Value;

use crate::object::{label, owner_references, text};

/// The installation of an object by Shipper.
pub(super) struct Installation<'a> {
    application: &'a str,
    /// The Release that wrote the object last.
    writer: &'a str,
    /// The Releases whose anchors own the object.
    anchored: Vec<&'a str>,
}

impl<'a> Installation<'a> {
    /// Returns `None` if Shipper has not installed the object, or if it has another owner than
    /// anchors.
    pub(super) fn of(live: &'a Value) -> Option<Self> {
        let anchored = owner_references(live).iter().map(anchored_release);
        let installation = Self {
            application: label(live, LABEL_APP),
            writer: label(live, LABEL_OWNED_BY),
            anchored: anchored.collect::<Option<_>>()?,
        };
        let is_complete = !installation.application.is_empty() && !installation.writer.is_empty();
        is_complete.then_some(installation)
    }

    /// The Release that has to take the object over before all others: the one that wrote it last.
    ///
    /// If that Release was deleted, its anchor is gone, and the other anchors decide. `None` if
    /// several are left.
    pub(super) fn release(&self) -> Option<&'a str> {
        match &*self.anchored {
            [only] => Some(only),
            anchored if anchored.is_empty() || anchored.contains(&self.writer) => Some(self.writer),
            _ => None,
        }
    }

    /// True if the object is that of the Release that a manifest was rendered for.
    pub(super) fn is_of(&self, manifest: &Value) -> bool {
        let release = label(manifest, LABEL_OWNED_BY);
        let is_first = match self.release() {
            Some(first) => first == release,
            None => self.anchored.contains(&release),
        };
        is_first && label(manifest, LABEL_APP) == self.application
    }
}

/// The Release whose anchor an owner reference names.
fn anchored_release(reference: &Value) -> Option<&str> {
    let is_config_map =
        text(reference, "apiVersion") == "v1" && text(reference, "kind") == "ConfigMap";
    let name = text(reference, "name").strip_suffix(ANCHOR_SUFFIX)?;
    is_config_map.then_some(name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn installed(writer: &str, owners: &[&str]) -> Value {
        let owners = owners.iter().map(
            |name| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": name}),
        );
        json!({"metadata": {
            "labels": {LABEL_APP: "web", LABEL_OWNED_BY: writer},
            "ownerReferences": owners.collect::<Vec<_>>(),
        }})
    }

    fn rendered(application: &str, release: &str) -> Value {
        json!({"metadata": {"labels": {LABEL_APP: application, LABEL_OWNED_BY: release}}})
    }

    /// The Releases of `web-0`, `web-1` and `web-2` that may take an object over.
    #[test]
    fn the_release_that_wrote_an_object_last_takes_it_first() {
        for (writer, owners, expected) in [
            ("web-0", &["web-0-anchor"][..], "0"),
            ("web-1", &["web-0-anchor", "web-1-anchor"], "1"),
            ("web-0", &["web-0-anchor", "web-1-anchor"], "0"),
            // The Release that wrote the object last was aborted.
            ("web-1", &["web-0-anchor"], "0"),
            ("web-2", &["web-0-anchor", "web-1-anchor"], "01"),
            // Somebody removed the owners.
            ("web-1", &[], "1"),
            // Somebody else owns the object too.
            ("web-0", &["web-0-anchor", "settings"], ""),
            ("web-0", &["settings"], ""),
            ("", &["web-0-anchor"], ""),
        ] {
            let live = installed(writer, owners);
            let may_take = |release: &&str| {
                let manifest = rendered("web", &format!("web-{release}"));
                Installation::of(&live).is_some_and(|it| it.is_of(&manifest))
            };
            let found: String = ["0", "1", "2"].into_iter().filter(may_take).collect();
            assert_eq!(found, expected, "{writer} {owners:?}");
        }
    }

    #[test]
    fn an_object_of_another_application_or_with_another_owner_is_not_taken() {
        let live = installed("web-0", &["web-0-anchor"]);
        let is_of = |live: &Value, manifest: &Value| {
            Installation::of(live).is_some_and(|it| it.is_of(manifest))
        };
        assert!(is_of(&live, &rendered("web", "web-0")));
        assert!(!is_of(&live, &rendered("shop", "web-0")));
        assert!(!is_of(
            &live,
            &json!({"metadata": {"labels": {LABEL_OWNED_BY: "web-0"}}})
        ));
        assert!(!is_of(&live, &json!({})));
        for (field, value) in [("kind", "Secret"), ("apiVersion", "v2")] {
            let mut live = live.clone();
            live["metadata"]["ownerReferences"][0][field] = value.into();
            assert!(!is_of(&live, &rendered("web", "web-0")), "{field}");
        }
        let mut unlabelled = live;
        unlabelled["metadata"]["labels"] = json!({LABEL_OWNED_BY: "web-0"});
        assert!(!is_of(&unlabelled, &rendered("", "web-0")));
    }
}
