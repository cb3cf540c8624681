//! Differences of objects.
//!
//! A comparison is a list of [`Section`]s, one per object. [`revisions`] compares two revisions,
//! [`live`] compares a revision with the cluster, and [`apply`] evaluates dry runs of a new
//! revision. A section contains values only as a [`Pair`], and a pair always masks Secrets.

pub mod apply;
pub mod clean;
pub mod live;
pub mod mask;
pub mod note;
pub mod outcome;
pub mod plan;
pub mod project;
pub mod revisions;
pub mod warning;

use baton_apis::kinds::Kind;
use baton_engine::{Gvk, ObjectKey, revision::Desired};
use serde_json::Value;

use self::{
    note::ObjectNote,
    outcome::{DiffOutcome, Group},
    warning::Warning,
};
use crate::chain::kind::ChainKind;

/// The result of the comparison of one object.
#[derive(Clone, Debug, PartialEq)]
pub struct Section {
    /// The object.
    pub topic: Topic,
    /// The outcome for the object, or the difference of its two sides.
    pub outcome: DiffOutcome,
    /// Further facts about the object.
    pub notes: Vec<ObjectNote>,
    /// Losses that a user may not expect.
    pub warnings: Vec<Warning>,
    /// The content of the object on both sides, if it is shown.
    pub pair: Option<Pair>,
}

/// The topic of a section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topic {
    /// An object of a revision or of a Release.
    Object {
        /// The kind of the object, in the version of the manifest.
        gvk: Gvk,
        /// The identity of the object.
        key: ObjectKey,
        /// The phase of the object; `None` for an object of a Release.
        phase: Option<String>,
    },
    /// A deployment or a revision itself, by name.
    Chain(ChainKind, String),
    /// An application itself, by kind, namespace and name.
    Application(&'static Kind, String, String),
    /// A whole revision, by number.
    Revision(i64),
    /// Slices that a revision names.
    Slices,
    /// Settings of a revision, such as labels, phases and probes.
    Settings,
    /// Chart, clusters and strategy of a Release.
    Environment,
    /// The values for the chart of a Release.
    Values,
    /// The rendered manifests of a Release.
    Manifests,
    /// The upgrade method of a version.
    Upgrade,
    /// The upgrade terms of an application for sites.
    Terms,
}

impl Section {
    /// A section about an unchanged topic.
    #[must_use]
    pub fn new(topic: Topic) -> Self {
        Self {
            topic,
            outcome: DiffOutcome::default(),
            notes: Vec::new(),
            warnings: Vec::new(),
            pair: None,
        }
    }

    /// A section about an unchanged object of a phase.
    #[must_use]
    pub fn of(object: &Desired, phase: &str) -> Self {
        Self::new(Topic::Object {
            gvk: object.gvk.clone(),
            key: object.key.clone(),
            phase: Some(phase.to_owned()),
        })
    }

    /// A section about the change of a topic; `None` if its two sides are equal.
    pub fn of_change(topic: Topic, before: Value, after: Value) -> Option<Self> {
        let pair = Pair::new(Some(before), Some(after));
        (!pair.is_same()).then(|| Self::new(topic).fate(DiffOutcome::Changed).pair(pair))
    }

    /// Sets the outcome.
    #[must_use]
    pub fn fate(mut self, fate: DiffOutcome) -> Self {
        self.outcome = fate;
        self
    }

    /// Adds notes.
    #[must_use]
    pub fn notes(mut self, notes: impl IntoIterator<Item = ObjectNote>) -> Self {
        self.notes.extend(notes);
        self
    }

    /// Sets the content on both sides.
    #[must_use]
    pub fn pair(mut self, pair: Pair) -> Self {
        self.pair = Some(pair);
        self
    }

    /// True if something changes or is refused.
    pub fn differs(&self) -> bool {
        !self.outcome.group().is_same()
    }

    /// True if the change is refused.
    pub fn is_refused(&self) -> bool {
        self.outcome.group() == Group::Refused
    }
}

/// The content of an object on two sides, with the values of Secrets masked.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    before: Option<Value>,
    after: Option<Value>,
}

impl Pair {
    /// Masks both sides. `None` is a side without the object.
    #[must_use]
    pub fn new(mut before: Option<Value>, mut after: Option<Value>) -> Self {
        mask::mask(before.as_mut(), after.as_mut());
        Self { before, after }
    }

    /// True if both sides are equal. Different values stay different after masking.
    pub fn is_same(&self) -> bool {
        self.before == self.after
    }

    /// The first side; `None` if the object does not exist there.
    pub fn before(&self) -> Option<&Value> {
        self.before.as_ref()
    }

    /// The second side; `None` if the object does not exist there.
    pub fn after(&self) -> Option<&Value> {
        self.after.as_ref()
    }

    /// The outcome that follows from the difference of the sides.
    pub fn fate(&self) -> DiffOutcome {
        match (&self.before, &self.after) {
            (None, Some(_)) => DiffOutcome::Added,
            (Some(_), None) => DiffOutcome::Removed,
            (before, after) if before == after => DiffOutcome::Unchanged,
            _ => DiffOutcome::Changed,
        }
    }
}
