//! The Releases of an Application, in order, and the choice of those to delete.

use std::borrow::Cow;

use baton_apis::{
    Release, conditions::shipper::COMPLETE, constants::shipper::ANNOTATION_RELEASE_GENERATION,
};

use super::error::GenerationError;
use crate::{conditions::is_true, hash::environment_hash, texts::parse_number};

/// The Releases of an Application, the oldest first.
#[derive(Clone, Debug)]
pub struct History<'a>(Vec<HistoryEntry<'a>>);

/// A Release with its place in the history.
#[derive(Clone, Debug)]
pub struct HistoryEntry<'a> {
    /// The Release.
    pub release: Cow<'a, Release>,
    /// Number that orders the Releases.
    pub generation: i64,
}

/// The Releases to delete. A Release that is already gone is no error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CleanUp {
    /// Releases that never completed and are not the newest.
    pub unfinished: Vec<String>,
    /// Completed Releases beyond the limit, to be deleted in this order. The first error ends the
    /// deletion, so no Release stays that is older than the ones to keep.
    pub surplus: Vec<String>,
}

impl<'a> History<'a> {
    /// Puts Releases in order. Of the same generation, the older one comes first.
    ///
    /// # Errors
    /// If a Release has no generation: the error of the first one by name.
    pub fn read(releases: impl IntoIterator<Item = &'a Release>) -> Result<Self, GenerationError> {
        let mut releases: Vec<_> = releases.into_iter().collect();
        releases.sort_by_key(|release| &release.metadata.name);
        let members = releases.into_iter().map(HistoryEntry::of);
        Ok(Self::sorted(members.collect::<Result<_, _>>()?))
    }

    /// The Releases that have a generation, in the order of [`History::read`].
    #[must_use]
    pub fn numbered(releases: impl IntoIterator<Item = &'a Release>) -> Self {
        let members = releases.into_iter().map(HistoryEntry::of);
        Self::sorted(members.filter_map(Result::ok).collect())
    }

    fn sorted(mut members: Vec<HistoryEntry<'a>>) -> Self {
        members.sort_by(|a, b| {
            let created = |it: &HistoryEntry<'_>| it.release.metadata.creation_timestamp.clone();
            let order = a.generation.cmp(&b.generation);
            let order = order.then_with(|| created(a).cmp(&created(b)));
            order.then_with(|| a.name().cmp(b.name()))
        });
        Self(members)
    }

    /// Adds a Release that is newer than all others.
    pub(super) fn push(&mut self, release: Release, generation: i64) {
        self.0.push(HistoryEntry {
            release: Cow::Owned(release),
            generation,
        });
    }

    /// All Releases, the oldest first, including those that are being deleted.
    pub fn members(&self) -> &[HistoryEntry<'a>] {
        &self.0
    }

    /// The contender, if there is one: the newest Release that is not being deleted. It is or will
    /// be rolled out.
    pub fn newest(&self) -> Option<&HistoryEntry<'a>> {
        self.living().pop()
    }

    /// The incumbent, which the newest Release replaces, if there is one: the newest of the others
    /// that was complete once.
    pub fn incumbent(&self) -> Option<&HistoryEntry<'a>> {
        self.others().into_iter().rev().find(|it| it.is_complete())
    }

    /// The names of the Releases that are not being deleted, the oldest first.
    pub fn names(&self) -> Vec<String> {
        let living = self.living().into_iter();
        living.map(|member| member.name().to_owned()).collect()
    }

    /// The Releases that are not being deleted, the oldest first.
    pub fn living(&self) -> Vec<&HistoryEntry<'a>> {
        let members = self.0.iter();
        members.filter(|member| !member.is_deleting()).collect()
    }

    /// True if all Releases are being deleted and none of them was ever complete.
    ///
    /// In this case no Release serves, so there is nothing to replace, and the next Release gets
    /// the name of the first.
    pub(super) fn starts_over(&self) -> bool {
        let is_empty = self.0.is_empty();
        !is_empty && self.newest().is_none() && !self.0.iter().any(HistoryEntry::is_complete)
    }

    /// Chooses the Releases to delete. `limit` is the number of completed ones that are kept
    /// besides the newest.
    pub fn clean_up(&self, limit: usize) -> CleanUp {
        let (completed, unfinished): (Vec<_>, Vec<_>) =
            self.others().into_iter().partition(|it| it.is_complete());
        let surplus = completed.len().saturating_sub(limit);
        let names = |members: &[&HistoryEntry<'_>]| {
            let names = members.iter().map(|member| member.name().to_owned());
            names.collect()
        };
        CleanUp {
            unfinished: names(&unfinished),
            surplus: names(&completed[..surplus]),
        }
    }

    /// The Releases that are not being deleted, without the newest.
    fn others(&self) -> Vec<&HistoryEntry<'a>> {
        let mut living = self.living();
        living.pop();
        living
    }
}

impl<'a> HistoryEntry<'a> {
    fn of(release: &'a Release) -> Result<Self, GenerationError> {
        Ok(Self {
            generation: generation(release)?,
            release: Cow::Borrowed(release),
        })
    }

    /// Name of the Release.
    pub fn name(&self) -> &str {
        self.release.metadata.name.as_deref().unwrap_or_default()
    }

    /// True if the last step of the Release was reached once.
    pub fn is_complete(&self) -> bool {
        is_complete(&self.release)
    }

    /// Hash of the environment, independent of the label.
    pub fn hash(&self) -> String {
        environment_hash(&self.release.spec.environment)
    }

    fn is_deleting(&self) -> bool {
        self.release.metadata.deletion_timestamp.is_some()
    }
}

/// True if the last step of a Release was reached once.
pub fn is_complete(release: &Release) -> bool {
    let status = release.status.as_ref();
    status.is_some_and(|status| is_true(&status.conditions, COMPLETE))
}

/// The number that orders the Releases of an Application.
///
/// # Errors
/// If the annotation is missing, or is not a number.
pub fn generation(release: &Release) -> Result<i64, GenerationError> {
    let name = || release.metadata.name.clone().unwrap_or_default();
    let annotations = release.metadata.annotations.as_ref();
    let text = annotations.and_then(|all| all.get(ANNOTATION_RELEASE_GENERATION));
    let text = text.ok_or_else(|| GenerationError::Missing { release: name() })?;
    parse_number(text).map_err(|source| GenerationError::Invalid {
        release: name(),
        source,
    })
}
