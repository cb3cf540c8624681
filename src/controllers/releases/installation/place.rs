//! The place of a new revision in the chain of its application and cluster.

use std::{collections::BTreeSet, sync::Arc};

use baton_apis::{
    ConditionStatus, InstallationTarget, Release, conditions::shipper::READY,
    constants::shipper::LABEL_APP, limits,
};
use baton_records::revision::RevisionRecord;
use baton_releases::{
    application::history,
    chain::{self, Place},
    targets::{
        InstallationOutcome, Progress,
        reasons::{Cause, Failure},
    },
};
use baton_typed::key::Key;
use kube::ResourceExt as _;

use super::{Installations, revision_key};

impl Installations {
    /// The place of the revision to be created for a Release, or the reason that none can be
    /// created now.
    ///
    /// A revision that was lost behind the revision of a newer Release is created again under its
    /// old name, which the newer one lists as previous. With the next number it would take over all
    /// objects from the newer one; with another name it would be a foreign owner.
    pub(super) fn place_in_chain(
        &self,
        key: &Key,
        target: &InstallationTarget,
        cluster: &str,
        chain: &[Arc<RevisionRecord>],
    ) -> Result<Place, InstallationOutcome> {
        let generation = |name: &str| {
            let release = self.context.stores.releases.get(&key.namespace, name)?;
            history::generation(&release).ok()
        };
        let own = generation(&key.name);
        let mut newer = chain.iter().filter(|revision| {
            let of = revision.release.as_ref();
            of.and_then(|of| generation(&of.release)) > own && !revision.deleting
        });
        let Some(next) = newer.next() else {
            let numbers = chain.iter().map(|it| (&*it.key.name, it.number));
            let earlier = self.installed_without_revision(key, target, cluster, chain);
            let earlier: Vec<_> = earlier.iter().map(String::as_str).collect();
            let place = chain::place_at_end(numbers, &earlier, cluster).map_err(|highest| {
                let message = format!("ObjectSet {highest}. Delete it.");
                Err(Failure::new(Cause::Refused, message))
            });
            return place.map(|place| self.with_free_name(key, cluster, place));
        };
        let next_name = &next.key.name;
        let listed = std::iter::once(next).chain(newer);
        let listed = listed.flat_map(|revision| &revision.previous);
        let mut listed = listed.filter_map(|name| {
            chain::number_of(name, &key.name, cluster).map(|number| (number, name))
        });
        let Some((number, name)) = listed.next() else {
            let message = format!(
                "Release {own} was never installed in cluster {cluster}, and ObjectSet {newer} of a newer Release is \
                 there. Delete Release {own}, or roll back to it.",
                own = key.name,
                newer = next_name,
            );
            return Err(Err(Failure::new(Cause::Refused, message)));
        };
        if chain.iter().any(|revision| revision.key.name == *name) {
            let message = format!("ObjectSet {name} is being deleted");
            return Err(Ok(Progress::InProgress(message)));
        }
        Ok(Place {
            number,
            reserved: Vec::new(),
        })
    }

    /// The first place at or after the end of a chain whose name is free: another client may have
    /// created an ObjectSet of the name.
    fn with_free_name(&self, key: &Key, cluster: &str, mut place: Place) -> Place {
        let revisions = &self.context.observed.revisions;
        let is_taken = |number| {
            let name = chain::revision_name(&key.name, cluster, number);
            revisions.get(&revision_key(key, &name)).is_some()
        };
        while place.number < limits::NUMBER && is_taken(place.number) {
            place.number += 1;
        }
        place
    }

    /// The Releases before this one, and after the newest one with a revision, that are installed in
    /// a cluster; the oldest first.
    fn installed_without_revision(
        &self,
        key: &Key,
        target: &InstallationTarget,
        cluster: &str,
        chain: &[Arc<RevisionRecord>],
    ) -> Vec<String> {
        let stores = &self.context.stores;
        let application = target.labels().get(LABEL_APP).map_or("", String::as_str);
        let releases = stores
            .releases
            .labelled(&key.namespace, LABEL_APP, application);
        let with_revision = chain.iter().filter_map(|it| it.release.as_ref());
        let with_revision: BTreeSet<_> = with_revision.map(|of| &*of.release).collect();
        let is_installed = |release: &Release| {
            let target = stores
                .installation_targets
                .get(&key.namespace, &release.name_any());
            release.metadata.deletion_timestamp.is_none()
                && target.is_some_and(|target| installed_in(&target, release, cluster))
        };
        let in_order = releases.iter().filter_map(|release| {
            let generation = history::generation(release).ok()?;
            Some((generation, release.name_any(), is_installed(release)))
        });
        let mut in_order: Vec<_> = in_order.collect();
        in_order.sort_unstable();
        let own = in_order.iter().position(|(_, name, _)| **name == *key.name);
        in_order.truncate(own.unwrap_or_default());
        let newest = in_order
            .iter()
            .rposition(|(_, name, _)| with_revision.contains(&**name));
        let rest = in_order
            .into_iter()
            .skip(newest.map_or(0, |index| index + 1));
        rest.filter(|(_, _, is_installed)| *is_installed)
            .map(|(_, name, _)| name)
            .collect()
    }
}

/// True if a Release was installed in a cluster, according to the status of its target or to its own.
fn installed_in(target: &InstallationTarget, release: &Release, cluster: &str) -> bool {
    let is_listed = target.spec.clusters.iter().any(|name| name == cluster);
    let status = target.status.iter().flat_map(|status| &status.clusters);
    let mut status = status.filter(|status| status.name == cluster);
    let is_ready = status.any(|status| {
        let mut conditions = status.conditions.iter();
        conditions.any(|it| it.type_ == READY && it.status == ConditionStatus::True)
    });
    let achieved = release
        .status
        .as_ref()
        .and_then(|status| status.achieved_step.as_ref());
    is_listed && (is_ready || achieved.is_some())
}
