//! The states of objects that the search found, and the facts that it needs about them.

use baton_apis::constants::{ANNOTATION_OWNERS, LABEL_CACHE};
use baton_engine::{
    keep::is_kept,
    object::{is_controller, is_terminating, owner_references, revision_number, text},
    owners,
};
use indexmap::IndexMap;
use serde_json::Value;

use crate::{
    server::Next,
    state::ContentId,
    world::{ACTORS, World},
};

/// The facts about a state of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Facts {
    /// Number of owner references that are controllers.
    pub controllers: u8,
    /// Actor that controls the object.
    pub controller: Option<usize>,
    /// Actors among the owners, one bit each.
    pub owners: u8,
    /// True if the cache contains the object, which is selected by label.
    pub is_labelled: bool,
    /// True if a revision wrote the object.
    pub is_managed: bool,
    /// True if the object has the highest revision number.
    pub is_forged: bool,
    /// True if the object is being deleted and waits for a finalizer.
    pub is_terminating: bool,
    /// True if the object has a finalizer.
    pub is_held: bool,
    /// True if the object must never be deleted.
    pub is_kept: bool,
}

/// All states of objects that the search found. The first one is absence.
#[derive(Debug, Default)]
pub struct Contents {
    contents: IndexMap<Value, Facts>,
}

/// The `resourceVersion` of an object in its present state.
pub const PRESENT: &str = "7";
/// The `resourceVersion` of an object that has changed since a request about it was decided.
pub const CHANGED: &str = "8";

impl Contents {
    /// The UID and version of every write; they contain no information about a state.
    #[must_use]
    pub fn next() -> Next {
        Next {
            uid: "uid".to_owned(),
            version: PRESENT.to_owned(),
        }
    }

    /// The index of a state, which is added if it is new.
    ///
    /// # Panics
    /// If there are more states than indexes.
    pub fn intern(&mut self, object: Option<Value>) -> ContentId {
        if self.contents.is_empty() {
            self.contents.insert(Value::Null, Facts::default());
        }
        let Some(object) = object else {
            return 0;
        };
        let facts = facts(&object);
        let (index, _) = self.contents.insert_full(object, facts);
        ContentId::try_from(index).expect("few states of an object")
    }

    /// A state by its index.
    #[must_use]
    pub fn object(&self, id: ContentId) -> Option<&Value> {
        let (object, _) = self.contents.get_index(id.into())?;
        (id != 0).then_some(object)
    }

    /// The facts about a state.
    #[must_use]
    pub fn facts(&self, id: ContentId) -> Facts {
        self.contents
            .get_index(id.into())
            .map_or(Facts::default(), |(_, facts)| *facts)
    }

    /// The data of an object in a state.
    #[must_use]
    pub fn data(&self, id: ContentId) -> &str {
        let content = self
            .object(id)
            .and_then(|object| object.pointer("/data/content"));
        content.and_then(Value::as_str).unwrap_or_default()
    }
}

fn facts(object: &Value) -> Facts {
    let mut references = owner_references(object).to_vec();
    let annotation = object
        .pointer("/metadata/annotations")
        .map(|a| text(a, ANNOTATION_OWNERS));
    references.extend(owners::parse(annotation.unwrap_or_default()));
    let revision = |reference: &Value| {
        (0..ACTORS).find(|actor| World::identity(*actor).uid == text(reference, "uid"))
    };
    let controllers: Vec<_> = references.iter().filter(|r| is_controller(r)).collect();
    let labels = object.pointer("/metadata/labels");
    Facts {
        controllers: u8::try_from(controllers.len()).unwrap_or(u8::MAX),
        controller: controllers
            .first()
            .and_then(|reference| revision(reference)),
        owners: references
            .iter()
            .filter_map(revision)
            .fold(0, |bits, r| bits | 1 << r),
        is_labelled: labels.is_some_and(|labels| labels.get(LABEL_CACHE).is_some()),
        is_managed: revision_number(object) != 0,
        is_forged: revision_number(object) == i64::MAX,
        is_terminating: is_terminating(object),
        is_held: object.pointer("/metadata/finalizers").is_some(),
        is_kept: is_kept([object]),
    }
}
