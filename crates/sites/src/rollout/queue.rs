//! The queue of a site: the revisions behind the one that runs there.
//!
//! The wanted queue is a list: first an edit of the running version, then the waiting revisions in
//! their order, then the newly given one. Revisions that are in the order of the list from its start
//! on stay. The rest of the list is given again behind the queue, then all other revisions are
//! withdrawn. So no version is lost if the manager ends in between; until the next plan, a version
//! is in the queue twice. It runs once: `wanted` contains it once, and the gate of the site lets no
//! version begin again, or behind a later one ([`is_overtaken`](crate::gate::is_overtaken)).
//!
//! In a site that cannot be reached, nothing is withdrawn, because waiting revisions may have
//! begun. The change is made when the state of the site is known.

use std::{collections::BTreeMap, sync::Arc};

use baton_apis::{SiteEntry, limits};
use baton_engine::chain_names::{NoNextNumber, next_in_chain};

use super::{
    Action, Observed, Revision, RevisionState, SharedEntry, Version, VersionName,
    current::CurrentRollout,
    latest_rollout::{LatestRollout, is_withdrawn},
    placed::PlacedSite,
};

/// A revision of the wanted queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct QueuedRevision<'a> {
    pub(super) version: VersionName<'a>,
    pub(super) rollout: i64,
    pub(super) batch: i32,
    pub(super) is_edit: bool,
    pub(super) is_rollback: bool,
}

/// The entries given to sites, shared by sites with the same wanted revision.
pub(super) type SharedEntries<'a> = BTreeMap<QueuedRevision<'a>, SharedEntry>;

/// The queue of a site, with the revision that comes last.
pub(super) struct Queue<'q, 'a> {
    pub(super) observed: &'q Observed<'a>,
    pub(super) placed: &'q PlacedSite<'a>,
    pub(super) current: &'q CurrentRollout<'a>,
    /// The rollout, if it was aborted.
    pub(super) aborted: Option<&'q LatestRollout<'a>>,
    pub(super) last: Option<QueuedRevision<'a>>,
}

impl<'a> QueuedRevision<'a> {
    pub(super) fn new(version: VersionName<'a>, rollout: i64, batch: i32) -> Self {
        Self {
            version,
            rollout,
            batch,
            is_edit: false,
            is_rollback: false,
        }
    }

    fn of(revision: &'a Revision) -> Self {
        let entry = &*revision.entry;
        Self {
            is_edit: entry.is_edit,
            is_rollback: entry.is_rollback,
            ..Self::new(VersionName::of(entry), entry.rollout, entry.batch)
        }
    }
}

impl<'a> Queue<'_, 'a> {
    /// Changes the queue to the wanted one: what is missing is given before the rest is withdrawn. If
    /// a version to give is not kept any more, nothing is withdrawn.
    ///
    /// # Errors
    /// If there are no numbers for the revisions to give. Then nothing is withdrawn.
    pub(super) fn bring_up_to_date(
        &self,
        given: &mut SharedEntries<'a>,
        actions: &mut Vec<Action>,
    ) -> Result<(), NoNextNumber> {
        let mut wanted = self.wanted().peekable();
        let is_next = |revision: &&Revision| {
            let next = wanted.next_if(|next| self.is_as(revision, *next));
            next.is_none()
        };
        let mut surplus: Vec<_> = self.queue().filter(is_next).collect();
        let versions: Option<Vec<_>> = wanted
            .map(|wanted| Some((wanted, self.observed.version(wanted.version)?)))
            .collect();
        let Some(versions) = versions else {
            return Ok(());
        };
        if !versions.is_empty() {
            let numbers = self.numbers(versions.len())?;
            self.create_revisions(&numbers, &versions, given, actions);
        }
        // None begins because the one before it is being deleted.
        surplus.reverse();
        actions.extend(surplus.into_iter().map(|revision| Action::Withdraw {
            revision: Arc::clone(&revision.name),
        }));
        Ok(())
    }

    /// The next numbers above those of the chain, whose names are free.
    fn numbers(&self, many: usize) -> Result<Vec<i64>, NoNextNumber> {
        let chain = &self.placed.site.chain;
        let first = next_in_chain(chain.iter().map(|it| (&*it.name, Some(it.number))))?;
        let is_free = |number: &i64| !(self.observed.is_taken.0)(&self.name(*number));
        let numbers: Vec<_> = (first..=limits::NUMBER)
            .filter(is_free)
            .take(many)
            .collect();
        match chain.iter().max_by_key(|revision| revision.number) {
            Some(highest) if numbers.len() < many => Err(NoNextNumber {
                name: highest.name.to_string(),
                number: highest.number,
            }),
            _ => Ok(numbers),
        }
    }

    /// The name of the revision with this number.
    fn name(&self, number: i64) -> String {
        (self.observed.revision_name)(self.observed.name, self.placed.name, number)
    }

    /// The wanted revisions behind the one that runs, each once.
    ///
    /// If the last one is of another application, waiting versions of the old application are
    /// dropped, because the application may be gone. In a site that cannot be reached, all waiting
    /// revisions stay.
    fn wanted(&self) -> impl Iterator<Item = QueuedRevision<'a>> {
        let is_in_reach = self.placed.is_in_reach;
        let waiting = || self.queue().filter(|waiting| !waiting.entry.is_edit);
        let newest = waiting().max_by_key(|waiting| waiting.rank());
        let newest = self.last.or_else(|| newest.map(QueuedRevision::of));
        let is_asked_for = move |waiting: &Revision| {
            let application = newest.map(|newest| newest.version.application);
            !waiting.entry.is_edit
                && !self.current.is_stuck(waiting, self.placed.site)
                && application.is_none_or(|it| *it == *waiting.entry.application)
        };
        let others = self
            .queue()
            .filter(move |waiting| !is_in_reach || is_asked_for(waiting));
        let others = others.map(QueuedRevision::of).chain(self.last);
        // A revision that was given again behind an edit, and not withdrawn yet, is there twice.
        let mut before = self.placed.running.map(Revision::rank);
        let is_first = move |next: &QueuedRevision<'_>| {
            let own = Some((next.rollout, next.is_rollback));
            let is_later = own > before;
            before = before.max(own);
            is_later || !is_in_reach
        };
        self.edit().into_iter().chain(others.filter(is_first))
    }

    /// The edit of the running version, if it has a newer one. A site that goes back to its old
    /// version needs none.
    fn edit(&self) -> Option<QueuedRevision<'a>> {
        let running = self.placed.running?;
        if is_withdrawn(self.aborted, self.placed.site, running) {
            return None;
        }
        if !self.placed.is_in_reach && self.queue().next().is_some() {
            return None;
        }
        let own = VersionName::of(&running.entry);
        let version = self.observed.version(own)?;
        let is_leaving = || {
            let mut waiting = self.queue().map(QueuedRevision::of).chain(self.last);
            waiting.any(|waiting| waiting.is_rollback && waiting.version != own)
        };
        (*version.edit != *running.entry.edit && !is_leaving()).then(|| QueuedRevision {
            is_edit: true,
            ..QueuedRevision::of(running)
        })
    }

    /// The waiting revisions, except those that an abort withdraws anyway.
    fn queue(&self) -> impl Iterator<Item = &'a Revision> {
        let (aborted, site) = (self.aborted, self.placed.site);
        let queue = self.placed.queue();
        queue.filter(move |revision| !is_withdrawn(aborted, site, revision))
    }

    /// True if a waiting revision is the wanted one for its place.
    fn is_as(&self, revision: &Revision, wanted: QueuedRevision<'_>) -> bool {
        let is_newest = || {
            let version = self.observed.version(wanted.version);
            version.is_none_or(|version| *version.edit == *revision.entry.edit)
        };
        QueuedRevision::of(revision) == wanted && (!self.placed.is_in_reach || is_newest())
    }

    fn create_revisions(
        &self,
        numbers: &[i64],
        versions: &[(QueuedRevision<'a>, &'a Version)],
        given: &mut SharedEntries<'a>,
        give: &mut Vec<Action>,
    ) {
        let chain = &self.placed.site.chain;
        let counting = chain
            .iter()
            .rev()
            .filter(|revision| revision.state != RevisionState::Archived);
        let mut previous: Vec<_> = counting
            .map(|revision| Arc::clone(&revision.name))
            .collect();
        let mut names = Vec::new();
        for (&number, (wanted, version)) in numbers.iter().zip(versions) {
            let site = Arc::clone(self.placed.name);
            let name: Arc<str> = self.name(number).into();
            let brought = given
                .entry(*wanted)
                .or_insert_with(|| self.shared_entry(*wanted, version));
            // Revisions that the plan gives before this one are newer than existing ones.
            let before = names.iter().rev().cloned();
            let is_last = names.len() + 1 == versions.len();
            let older = if is_last {
                std::mem::take(&mut previous)
            } else {
                previous.clone()
            };
            give.push(Action::Give {
                number,
                name: Arc::clone(&name),
                entry: brought.clone(),
                previous: if names.is_empty() {
                    older
                } else {
                    before.chain(older).collect()
                },
                site,
            });
            names.push(name);
        }
    }

    fn shared_entry(&self, wanted: QueuedRevision<'_>, version: &Version) -> SharedEntry {
        SharedEntry(Arc::new(SiteEntry {
            deployment: self.observed.name.to_owned(),
            site: String::new(),
            application: wanted.version.application.to_owned(),
            version: version.version.to_string(),
            edit: version.edit.to_string(),
            rollout: wanted.rollout,
            batch: wanted.batch,
            phases: version.phases.clone(),
            stop: version.stop.clone(),
            has_probes: version.has_probes,
            is_edit: wanted.is_edit,
            is_rollback: wanted.is_rollback,
        }))
    }
}
