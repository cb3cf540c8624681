//! The objects of a kind, folded from a list and a watch.
//!
//! [`Fold`] says what each event means for whoever keeps the objects; [`Collection`] keeps them itself.
//!
//! # Guarantees
//! - The identity of an object is read from its metadata alone. One that cannot be read otherwise counts as listed, and
//!   goes when it is deleted.
//! - What was listed and cannot be listed any more, or is not served, is unknown, never none: see [`Extent`]. What was
//!   known stays.
//! - A watch that breaks goes on where it was, and changes nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde_json::value::RawValue;

use crate::{metadata::Metadata, watch::Event};

/// How much is known of which objects there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Extent {
    /// The server has not answered yet.
    #[default]
    Nothing,
    /// They cannot be listed, or are not served, for this reason.
    Unavailable(Arc<str>),
    /// All were listed, or there are none: one that is missing does not exist.
    All,
}

impl Extent {
    /// Why the objects cannot be listed.
    pub fn failure(&self) -> Option<&str> {
        match self {
            Self::Nothing | Self::All => None,
            Self::Unavailable(cause) => Some(cause),
        }
    }

    /// How much is known of these and of others together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (known @ Self::Unavailable(_), _) | (_, known @ Self::Unavailable(_)) => known,
            (Self::Nothing, _) | (_, Self::Nothing) => Self::Nothing,
            (Self::All, Self::All) => Self::All,
        }
    }
}

/// The meaning of [`Event::Unserved`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unserved {
    /// There are no objects: for a kind whose definition is asked for (`WatchSpec::definition`).
    Empty,
    /// It is unknown which objects there are.
    Unknown,
}

/// The identity of an object within a collection.
pub trait Identity: Clone + Ord {
    /// That of an object with this metadata.
    fn of(metadata: &Metadata<'_>) -> Self;
}

/// The name, where all objects are of one namespace, or of none.
impl Identity for String {
    fn of(metadata: &Metadata<'_>) -> Self {
        metadata.name.to_string()
    }
}

/// Namespace, empty where objects are of none, and name.
pub type NamespacedName = (Arc<str>, Arc<str>);

impl Identity for NamespacedName {
    fn of(metadata: &Metadata<'_>) -> Self {
        ((*metadata.namespace).into(), (*metadata.name).into())
    }
}

/// The meaning of an event for the objects that are known.
#[derive(Debug)]
pub enum Step<'a, K> {
    /// A list begins.
    Begin,
    /// An object is there, in this state.
    Upsert {
        /// Its identity.
        key: K,
        /// Its version.
        version: u64,
        /// Its text.
        object: &'a RawValue,
        /// Whether it is an object of the list that is under way.
        is_listed: bool,
    },
    /// An object is gone.
    Remove {
        /// Its identity.
        key: K,
        /// The version of its deletion.
        version: u64,
    },
    /// All objects but these are gone; a list is complete.
    Retain {
        /// Identities of the objects that are there.
        listed: BTreeSet<K>,
        /// The version of the list.
        version: u64,
    },
    /// Everything up to this version was reported.
    Reached(u64),
    /// No object has changed; the extent may have.
    Nothing,
}

/// The fold of a list and a watch.
#[derive(Debug)]
pub struct Fold<K> {
    unserved: Unserved,
    extent: Extent,
    was_complete: bool,
    /// Identities of the list that is under way, if one is.
    listed: Option<BTreeSet<K>>,
}

impl<K: Identity> Fold<K> {
    /// One that has seen no event.
    #[must_use]
    pub fn new(unserved: Unserved) -> Self {
        Self {
            unserved,
            extent: Extent::Nothing,
            was_complete: false,
            listed: None,
        }
    }

    /// How much is known.
    pub fn extent(&self) -> &Extent {
        &self.extent
    }

    /// Whether all objects were known once, be they known now or not.
    pub fn was_complete(&self) -> bool {
        self.was_complete
    }

    /// Notes that nothing was ever known.
    pub fn forget(&mut self) {
        self.was_complete = false;
    }

    /// Takes in an event.
    pub fn take<'a>(&mut self, event: &Event<'a>) -> Step<'a, K> {
        match event {
            Event::ListStarted => {
                self.listed = Some(BTreeSet::new());
                Step::Begin
            }
            Event::Listed(object) => self.upsert(object, true),
            Event::Upsert(object) => self.upsert(object, false),
            Event::Deleted(object) => {
                let gone = identify(object);
                gone.map_or(Step::Nothing, |(key, version)| Step::Remove {
                    key,
                    version,
                })
            }
            Event::ListDone { resource_version } => self.complete(*resource_version),
            Event::Unserved if self.unserved == Unserved::Empty => {
                self.listed = None;
                self.complete(0)
            }
            Event::Unserved => {
                self.listed = None;
                self.extent = Extent::Unavailable("the API server does not serve the kind".into());
                Step::Nothing
            }
            Event::Failed(cause) | Event::Forbidden(cause) => {
                // Outside of a list the watch goes on where it was.
                if self.listed.take().is_some() || self.extent != Extent::All {
                    self.extent = Extent::Unavailable((*cause).into());
                }
                Step::Nothing
            }
            Event::Bookmark(version) => Step::Reached(*version),
        }
    }

    fn upsert<'a>(&mut self, object: &'a RawValue, is_listed: bool) -> Step<'a, K> {
        let Some((key, version)) = identify::<K>(object) else {
            return Step::Nothing;
        };
        if let Some(listed) = &mut self.listed {
            listed.insert(key.clone());
        }
        Step::Upsert {
            key,
            version,
            object,
            is_listed,
        }
    }

    fn complete(&mut self, version: u64) -> Step<'static, K> {
        self.extent = Extent::All;
        self.was_complete = true;
        let listed = self.listed.take().unwrap_or_default();
        Step::Retain { listed, version }
    }
}

/// Identity and version of an object; `None` for what has no name, which no object of a server has.
fn identify<K: Identity>(object: &RawValue) -> Option<(K, u64)> {
    let metadata = Metadata::of(object.get())
        .inspect_err(|error| tracing::warn!(%error, "the metadata of an object is not readable"))
        .ok()?;
    (!metadata.name.is_empty()).then(|| (K::of(&metadata), metadata.version()))
}

/// An object that is another one than before; at least one side is there.
#[derive(Debug, PartialEq, Eq)]
pub struct Change<K, V> {
    /// Its identity.
    pub key: K,
    /// The object as it was.
    pub old: Option<V>,
    /// The object as it is.
    pub new: Option<V>,
}

/// The objects of a kind, as far as each is needed. A list takes effect when it is complete.
#[derive(Debug)]
pub struct Collection<K, V> {
    fold: Fold<K>,
    items: BTreeMap<K, V>,
    /// Those of the list that is under way.
    listing: BTreeMap<K, V>,
}

impl<K: Identity, V: Clone + PartialEq> Collection<K, V> {
    /// One of which nothing is known.
    #[must_use]
    pub fn new(unserved: Unserved) -> Self {
        Self {
            fold: Fold::new(unserved),
            items: BTreeMap::new(),
            listing: BTreeMap::new(),
        }
    }

    /// How much is known.
    pub fn extent(&self) -> &Extent {
        self.fold.extent()
    }

    /// Whether all objects were known once, be they known now or not.
    pub fn was_complete(&self) -> bool {
        self.fold.was_complete()
    }

    /// The objects by identity.
    pub fn items(&self) -> &BTreeMap<K, V> {
        &self.items
    }

    /// Takes in an event. An object that `read` returns nothing for stays as it was read last.
    pub fn take(
        &mut self,
        event: &Event<'_>,
        read: impl Fn(&RawValue) -> Option<V>,
    ) -> Vec<Change<K, V>> {
        match self.fold.take(event) {
            Step::Begin => self.listing.clear(),
            Step::Upsert {
                key,
                object,
                is_listed,
                ..
            } => {
                let Some(new) = read(object) else {
                    return Vec::new();
                };
                if !is_listed {
                    return self.set(key, Some(new)).into_iter().collect();
                }
                self.listing.insert(key, new);
            }
            Step::Remove { key, .. } => return self.set(key, None).into_iter().collect(),
            Step::Retain { listed, .. } => {
                let gone = self.items.keys().filter(|key| !listed.contains(key));
                let gone: Vec<_> = gone.map(|key| (key.clone(), None)).collect();
                // Of a list that failed half-way some may be left.
                let there = std::mem::take(&mut self.listing).into_iter();
                let there = there.filter(|(key, _)| listed.contains(key));
                let there = there.map(|(key, item)| (key, Some(item)));
                let states = gone.into_iter().chain(there);
                return states.filter_map(|(key, new)| self.set(key, new)).collect();
            }
            Step::Reached(_) | Step::Nothing => {}
        }
        Vec::new()
    }

    fn set(&mut self, key: K, new: Option<V>) -> Option<Change<K, V>> {
        let old = match &new {
            Some(item) => self.items.insert(key.clone(), item.clone()),
            None => self.items.remove(&key),
        };
        (old != new).then_some(Change { key, old, new })
    }
}

#[cfg(test)]
mod tests;
