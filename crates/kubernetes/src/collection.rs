//! The objects of a kind, computed from a list and a watch.
//!
//! [`Fold`] gives each event a meaning for the owner of a cache; [`Collection`] is such a cache.
//!
//! # Guarantees
//! - The identity of an object is read from its metadata alone. An object whose other parts cannot
//!   be read counts as listed, and is removed when it is deleted.
//! - If a kind was listed and can no longer be listed, or is not served, its objects are unknown,
//!   never none: see [`Extent`]. The cached objects stay.
//! - A watch that breaks continues where it was, and changes nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use baton_engine::redact::parse_error;
use serde_json::value::RawValue;

use crate::{metadata::Metadata, watch::Event};

/// Extent to which the objects of a kind are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Extent {
    /// The server has not answered yet.
    #[default]
    Nothing,
    /// The objects cannot be listed, or are not served, for this reason.
    Unavailable(Arc<str>),
    /// All objects were listed, or there are none: an object that is missing does not exist.
    All,
}

impl Extent {
    /// The reason that the objects cannot be listed, if so.
    pub fn failure(&self) -> Option<&str> {
        match self {
            Self::Nothing | Self::All => None,
            Self::Unavailable(cause) => Some(cause),
        }
    }

    /// The extent of two sets of objects together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (unavailable @ Self::Unavailable(_), _) | (_, unavailable @ Self::Unavailable(_)) => {
                unavailable
            }
            (Self::Nothing, _) | (_, Self::Nothing) => Self::Nothing,
            (Self::All, Self::All) => Self::All,
        }
    }
}

/// The conclusion about the objects of a kind from [`Event::Unserved`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unserved {
    /// There are no objects: for a kind whose definition is read (`WatchSpec::definition`).
    Empty,
    /// It is unknown which objects there are.
    Unknown,
}

/// The identity of an object within a collection.
pub trait Identity: Clone + Ord {
    /// The identity of an object with this metadata.
    fn of(metadata: &Metadata<'_>) -> Self;
}

/// The name, for kinds whose watched objects are in one namespace, or in none.
impl Identity for String {
    fn of(metadata: &Metadata<'_>) -> Self {
        metadata.name.to_string()
    }
}

/// Namespace, empty for cluster-scoped objects, and name.
pub type NamespacedName = (Arc<str>, Arc<str>);

impl Identity for NamespacedName {
    fn of(metadata: &Metadata<'_>) -> Self {
        ((*metadata.namespace).into(), (*metadata.name).into())
    }
}

/// The effect of an event on the cached objects.
#[derive(Debug)]
pub enum Step<'a, K> {
    /// A list begins.
    Begin,
    /// An object exists, in this state.
    Upsert {
        /// Identity of the object.
        key: K,
        /// Version of the object.
        version: u64,
        /// Text of the object.
        object: &'a RawValue,
        /// True if the object is a part of the list that is under way.
        is_listed: bool,
    },
    /// An object was deleted.
    Remove {
        /// Identity of the object.
        key: K,
        /// The version of its deletion.
        version: u64,
    },
    /// A list is complete: all objects but these were deleted.
    Retain {
        /// Identities of the objects that exist.
        listed: BTreeSet<K>,
        /// The version of the list.
        version: u64,
    },
    /// All events up to this version were reported.
    Reached(u64),
    /// No object has changed; the extent may have changed.
    Nothing,
}

/// State that turns the events of a list and a watch into steps.
#[derive(Debug)]
pub struct Fold<K> {
    unserved: Unserved,
    extent: Extent,
    is_forbidden: bool,
    was_complete: bool,
    /// Identities of the list that is under way, if one is.
    listed: Option<BTreeSet<K>>,
}

impl<K: Identity> Fold<K> {
    /// The state before the first event.
    #[must_use]
    pub fn new(unserved: Unserved) -> Self {
        Self {
            unserved,
            extent: Extent::Nothing,
            is_forbidden: false,
            was_complete: false,
            listed: None,
        }
    }

    /// The current extent.
    pub fn extent(&self) -> &Extent {
        &self.extent
    }

    /// True if the client has no right to list the objects.
    pub fn is_forbidden(&self) -> bool {
        self.is_forbidden
    }

    /// True if all objects were known once, even if they are unknown now.
    pub fn was_complete(&self) -> bool {
        self.was_complete
    }

    /// Sets [`Fold::was_complete`] to false.
    pub fn forget(&mut self) {
        self.was_complete = false;
    }

    /// Processes an event.
    pub fn process<'a>(&mut self, event: &Event<'a>) -> Step<'a, K> {
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
            Event::Failed(cause) | Event::Refused(cause) | Event::Forbidden(cause) => {
                // Outside of a list the watch continues where it was.
                if self.listed.take().is_some() || self.extent != Extent::All {
                    self.extent = Extent::Unavailable((*cause).into());
                    self.is_forbidden = matches!(event, Event::Forbidden(_));
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
        self.is_forbidden = false;
        self.was_complete = true;
        let listed = self.listed.take().unwrap_or_default();
        Step::Retain { listed, version }
    }
}

/// Identity and version of an object; `None` for an object without a name, which no server has.
fn identify<K: Identity>(object: &RawValue) -> Option<(K, u64)> {
    let metadata = Metadata::of(object.get())
        .inspect_err(|error| {
            let error = parse_error(error);
            tracing::warn!(%error, "the metadata of an object cannot be parsed");
        })
        .ok()?;
    (!metadata.name.is_empty()).then(|| (K::of(&metadata), metadata.version()))
}

/// A changed object; at least one of the two states is present.
#[derive(Debug, PartialEq, Eq)]
pub struct Change<K, V> {
    /// Identity of the object.
    pub key: K,
    /// The state before the change; `None` if the object did not exist.
    pub old: Option<V>,
    /// The state after the change; `None` if the object was deleted.
    pub new: Option<V>,
}

/// A cache of the objects of a kind, each reduced to the needed parts. A list takes effect when it
/// is complete.
#[derive(Debug)]
pub struct Collection<K, V> {
    fold: Fold<K>,
    items: BTreeMap<K, V>,
    /// Objects of the list that is under way.
    listing: BTreeMap<K, V>,
}

impl<K: Identity, V: Clone + PartialEq> Collection<K, V> {
    /// A collection before the first event.
    #[must_use]
    pub fn new(unserved: Unserved) -> Self {
        Self {
            fold: Fold::new(unserved),
            items: BTreeMap::new(),
            listing: BTreeMap::new(),
        }
    }

    /// The current extent.
    pub fn extent(&self) -> &Extent {
        self.fold.extent()
    }

    /// True if all objects were known once, even if they are unknown now.
    pub fn was_complete(&self) -> bool {
        self.fold.was_complete()
    }

    /// The objects by identity.
    pub fn items(&self) -> &BTreeMap<K, V> {
        &self.items
    }

    /// Processes an event, and returns the changes. An object for which `read` returns nothing
    /// stays as it was last read.
    pub fn process(
        &mut self,
        event: &Event<'_>,
        read: impl Fn(&RawValue) -> Option<V>,
    ) -> Vec<Change<K, V>> {
        match self.fold.process(event) {
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
                // A list that failed half-way may have left objects here.
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
