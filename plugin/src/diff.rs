//! Differences of objects, for people.
//!
//! What is compared becomes a list of [`Section`]s, one per object: by [`revisions`] for two
//! revisions, by [`live`] for a revision and the cluster, by [`apply`] for a file and what applying
//! it would do. [`render`] turns them into text, [`external`] hands them to another program. Both
//! see values only as a [`Pair`], which cannot be made without masking Secrets.

pub(crate) mod apply;
pub(crate) mod check;
pub(crate) mod clean;
pub(crate) mod external;
pub(crate) mod fate;
pub(crate) mod forecast;
pub(crate) mod going;
pub(crate) mod input;
pub(crate) mod live;
pub(crate) mod losses;
pub(crate) mod mask;
pub(crate) mod places;
pub(crate) mod plan;
pub(crate) mod project;
pub(crate) mod render;
pub(crate) mod revisions;
pub(crate) mod takeover;

use baton_engine::{Gvk, ObjectKey};
use serde_json::Value;

use self::fate::Fate;

/// What is to be said about one object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Section {
    /// Name of the files that another program is given.
    pub(crate) file: String,
    /// The object, and where it stands.
    pub(crate) title: String,
    pub(crate) fate: Fate,
    /// More to know, a line each.
    pub(crate) notes: Vec<String>,
    /// What should not happen by surprise, a line each.
    pub(crate) warnings: Vec<String>,
    /// Its content on both sides, where there is something to see.
    pub(crate) pair: Option<Pair>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    /// Something is there that was not.
    Added,
    Changed,
    Removed,
    Bad,
    Same,
}

impl Section {
    pub(crate) fn new(file: impl Into<String>, title: impl Into<String>) -> Self {
        Self {
            file: file.into(),
            title: title.into(),
            fate: Fate::default(),
            notes: Vec::new(),
            warnings: Vec::new(),
            pair: None,
        }
    }

    pub(crate) fn of(gvk: &Gvk, key: &ObjectKey, phase: Option<&str>) -> Self {
        let phase = phase.map(|phase| format!(" (phase {phase})"));
        let title = format!("{}{}", describe(key), phase.unwrap_or_default());
        Self::new(file_name(gvk, key), title)
    }

    pub(crate) fn fate(mut self, fate: Fate) -> Self {
        self.fate = fate;
        self
    }

    pub(crate) fn tone(&self) -> Tone {
        self.fate.tone()
    }

    /// With one more thing to know.
    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    pub(crate) fn pair(mut self, pair: Pair) -> Self {
        self.pair = Some(pair);
        self
    }

    pub(crate) fn differs(&self) -> bool {
        self.tone() != Tone::Same
    }

    /// Whether it would not come about.
    pub(crate) fn is_refused(&self) -> bool {
        self.tone() == Tone::Bad
    }
}

/// `ConfigMap default/settings`, `Deployment.apps default/web`, `Namespace prod`.
pub(crate) fn describe(key: &ObjectKey) -> String {
    let group = if key.group.is_empty() {
        String::new()
    } else {
        format!(".{}", key.group)
    };
    let namespace = if key.namespace.is_empty() {
        String::new()
    } else {
        format!("{}/", key.namespace)
    };
    format!("{}{group} {namespace}{}", key.kind, key.name)
}

/// Says that slices do not exist.
pub(crate) fn gone(slices: &[String]) -> String {
    match slices {
        [only] => format!("its slice {only} does not exist any more"),
        _ => format!("its slices {} do not exist any more", slices.join(", ")),
    }
}

/// `apps.v1.Deployment.default.web`, as `kubectl diff` names its files.
fn file_name(gvk: &Gvk, key: &ObjectKey) -> String {
    let group = if gvk.group.is_empty() {
        String::new()
    } else {
        format!("{}.", gvk.group)
    };
    let name = format!(
        "{group}{}.{}.{}.{}",
        gvk.version, gvk.kind, key.namespace, key.name
    );
    // A manifest may say anything, and this becomes a path.
    name.replace(['/', '\\', '\0', ':'], "_")
}

/// An object's content on two sides, with the values of Secrets masked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pair {
    before: Option<Value>,
    after: Option<Value>,
}

impl Pair {
    /// Masks both sides. `None` is a side on which the object does not exist.
    pub(crate) fn new(mut before: Option<Value>, mut after: Option<Value>) -> Self {
        mask::mask(before.as_mut(), after.as_mut());
        Self { before, after }
    }

    /// Whether both sides are equal. Masking hides no difference.
    pub(crate) fn is_same(&self) -> bool {
        self.before == self.after
    }

    /// The first side; `None` when the object does not exist there.
    pub(crate) fn before(&self) -> Option<&Value> {
        self.before.as_ref()
    }

    /// The second side; `None` when the object does not exist there.
    pub(crate) fn after(&self) -> Option<&Value> {
        self.after.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_are_no_paths() {
        let key = |namespace: &str, name: &str| ObjectKey {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            ..ObjectKey::default()
        };
        for (gvk, key, expected) in [
            (
                Gvk::new("apps/v1", "Deployment"),
                key("shop", "web"),
                "apps.v1.Deployment.shop.web",
            ),
            (
                Gvk::new("v1", "Namespace"),
                key("", "shop"),
                "v1.Namespace..shop",
            ),
            (
                Gvk::new("rbac.authorization.k8s.io/v1", "ClusterRole"),
                key("", "system:web"),
                "rbac.authorization.k8s.io.v1.ClusterRole..system_web",
            ),
            (
                Gvk::new("v1", "../../x"),
                key("/etc", "pass\\wd"),
                "v1..._.._x._etc.pass_wd",
            ),
        ] {
            assert_eq!(file_name(&gvk, &key), expected);
        }
    }
}
