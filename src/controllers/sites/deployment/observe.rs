//! The observations on which a plan is based: versions, sites, and the state of each site. No
//! request is sent.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use baton_apis::{EVERY_VERSION, SiteDeployment, SiteDeploymentStatus};
use baton_engine::{chain_names::retain_near, rollout_blocks::Effect};
use baton_fleet::inventory::InventorySite;
use baton_records::revision::{RevisionRecord, site::SiteOf};
use baton_sites::{
    chain::revision_name,
    overlap::{Claim, Overlap, assign_sites},
    rollout::{
        IsTaken, Observed, Placement, Plan, Revision, Site, Target, Versions, plan,
        strategy::canary_expression,
    },
    uptime::Uptime,
};
use baton_typed::key::Key;
use jiff::Timestamp;
use kube::ResourceExt as _;

use super::SiteDeployments;
use crate::controllers::sites::{placement::SelectedSites, uid, versions::Version};

/// The state of the versions and sites of a deployment, for its plan.
pub(super) struct ObservedState {
    /// The stored versions of the application, and of other applications that sites run; for each
    /// application the newest version first.
    pub versions: Vec<Version>,
    planned: Versions,
    target: Target,
    placement: Placement,
    sites: BTreeMap<Arc<str>, Site>,
    blocks: Effect,
}

impl ObservedState {
    /// Makes the plan. `is_taken` returns true for the name of an existing revision.
    pub(super) fn plan(
        &self,
        key: &Key,
        deployment: &SiteDeployment,
        is_taken: IsTaken<'_>,
        now: Timestamp,
    ) -> Plan {
        let none = SiteDeploymentStatus::default();
        plan(&Observed {
            name: &key.name,
            uid: uid(deployment),
            generation: deployment.metadata.generation.unwrap_or(0),
            spec: &deployment.spec,
            status: deployment.status.as_ref().unwrap_or(&none),
            target: self.target.clone(),
            versions: &self.planned,
            placement: self.placement.clone(),
            sites: &self.sites,
            revision_name,
            is_taken,
            blocks: &self.blocks,
            now,
        })
    }
}

impl SiteDeployments {
    /// Observes everything that a plan needs.
    pub(super) fn observe(
        &self,
        key: &Key,
        deployment: &SiteDeployment,
        chosen: &SelectedSites,
    ) -> ObservedState {
        let stores = &self.context.stores;
        let application = deployment.spec.application.as_str();
        let (sites, placement) = self.sites(key, deployment, chosen);
        let chains = sites.values().flat_map(|site| &site.chain);
        let mut applications: BTreeSet<_> =
            chains.map(|it| it.entry.application.as_str()).collect();
        applications.insert(application);
        let mut versions = Vec::new();
        let mut planned = Versions::new();
        let (mut newest, mut exists) = (None, false);
        for of in applications {
            // One read: an application may disappear meanwhile.
            let owner = stores.applications.get(&key.namespace, of);
            let mut kept = stores.versions_by((&key.namespace, of), owner.as_deref());
            if of == application {
                exists = owner.is_some();
                let status = owner.as_ref().and_then(|owner| owner.status.as_ref());
                let listed = status.and_then(|status| status.versions.first());
                newest = listed.map(|listed| listed.version.clone());
            }
            kept.retain(|version| version.is_whole(&self.context.observed, owner.as_deref()));
            let of_it = planned.entry(of.into()).or_default();
            for version in &kept {
                let version = version.snapshot.planned();
                // The newest edit comes first.
                of_it.entry(Arc::clone(&version.version)).or_insert(version);
            }
            versions.extend(kept);
        }
        let wanted = deployment.spec.application_version.as_str();
        let whole = |version: &str| {
            let (version, _) = planned.get(application)?.get_key_value(version)?;
            Some(Arc::clone(version))
        };
        let found = match wanted {
            EVERY_VERSION => {
                // While slices of the newest version are missing, the version that is being rolled
                // out stays the target.
                let status = deployment.status.as_ref();
                let of_it = status.filter(|it| it.application.as_deref() == Some(application));
                let present = of_it.and_then(|it| it.version.clone());
                let mut newest = newest.into_iter().chain(present);
                newest.find_map(|version| whole(&version))
            }
            _ => whole(wanted),
        };
        let target = match found {
            _ if !exists => Target::NoApplication,
            None => Target::NoVersion,
            Some(version) => Target::Version(version),
        };
        ObservedState {
            versions,
            planned,
            target,
            placement,
            sites,
            blocks: self.blocks.effect_on(
                &key.namespace,
                deployment.labels(),
                deployment.annotations(),
            ),
        }
    }

    /// The sites of a deployment: those that it has chosen, and those where it only has revisions;
    /// without those that another deployment gets.
    fn sites(
        &self,
        key: &Key,
        deployment: &SiteDeployment,
        chosen: &SelectedSites,
    ) -> (BTreeMap<Arc<str>, Site>, Placement) {
        let revisions = &self.context.observed.revisions;
        let revisions = revisions.of_site_deployment(&key.namespace, &key.name);
        let overlap = self.overlap(key, deployment, chosen);
        let inventory = self.context.inventory.sites();
        let now = self.context.shared.clock.now();
        // The plan reports an invalid expression.
        let canary = canary_expression(&deployment.spec.strategy).ok().flatten();
        let make = |name: &str, is_placed| {
            let cluster = inventory.get(name);
            let is_canary = |site: &InventorySite| {
                let expression = canary.as_ref();
                expression.is_some_and(|expression| expression.matches(&site.labels))
            };
            Site {
                is_placed,
                is_online: cluster.is_some_and(|site| !site.is_lost),
                uptime: cluster.map_or_else(Uptime::default, |site| site.uptime.until(now)),
                is_canary: cluster.is_some_and(is_canary),
                chain: Vec::new(),
            }
        };
        let placed = chosen.sites.iter();
        let mut sites: BTreeMap<_, _> = placed
            .filter(|name| !overlap.lost.contains(*name))
            .map(|name| (Arc::clone(name), make(name, true)))
            .collect();
        for record in &revisions {
            let Some(of) = &record.site else { continue };
            let name = of.entry.site.as_str();
            if overlap.lost.contains(name) {
                continue;
            }
            if !sites.contains_key(name) {
                sites.insert(name.into(), make(name, false));
            }
            if let Some(site) = sites.get_mut(name) {
                let online_since = site.uptime.online_since;
                site.chain
                    .push(revision(record, of, uid(deployment), online_since));
            }
        }
        for site in sites.values_mut() {
            site.chain.sort_by_key(|revision| revision.number);
            // A forged revision does not stop those of the deployment.
            retain_near(&mut site.chain, |revision| revision.number);
        }
        // Revisions of an earlier deployment of this name count as being deleted. A site with no
        // others is left out unless it was chosen.
        let is_own = |site: &Site| site.is_placed || site.chain.iter().any(|it| !it.is_deleting);
        sites.retain(|_, site| is_own(site));
        let placement = match (&chosen.invalid, overlap.lost_text) {
            (Some(text), _) => Placement::Invalid(text.clone()),
            (None, Some(lost)) => {
                let texts: Vec<_> = [Some(lost), overlap.won_text]
                    .into_iter()
                    .flatten()
                    .collect();
                Placement::Overlapping(texts.join(" "))
            }
            (None, None) => Placement::Placed(overlap.won_text),
        };
        (sites, placement)
    }

    /// Decides which deployment gets the sites that several of the application have chosen. A
    /// deleted deployment has its sites until its revisions are deleted.
    fn overlap(&self, key: &Key, deployment: &SiteDeployment, chosen: &SelectedSites) -> Overlap {
        let application = deployment.spec.application.as_str();
        let revisions = &self.context.observed.revisions;
        let revisions = revisions.of_site_application(&key.namespace, application);
        let mut running = running(&revisions);
        let mut take = |of: &SiteDeployment| {
            let name = of.metadata.name.as_deref().unwrap_or_default();
            let by_uid = running.get_mut(name);
            by_uid.and_then(|it| it.remove(uid(of))).unwrap_or_default()
        };
        let own_running = take(deployment);
        let others = self.context.stores.deployments.in_namespace(&key.namespace);
        let mut others: Vec<_> = others
            .iter()
            .filter(|other| uid(&***other) != uid(deployment))
            .map(|other| {
                let meta = &other.metadata;
                let wants =
                    other.spec.application == application && meta.deletion_timestamp.is_none();
                let placed = wants.then(|| self.context.chosen_by(&self.choices, other));
                let created = meta.creation_timestamp.as_ref().map(|time| time.0);
                let name = meta.name.as_deref().unwrap_or_default();
                (name, created, placed.unwrap_or_default(), take(other))
            })
            .collect();
        // Revisions of an earlier deployment of this name are adopted, or being deleted.
        running.remove(&*key.name);
        let gone = running.into_iter().flat_map(|(name, by_uid)| {
            let left = by_uid.into_values();
            left.map(move |running| (name, None, Arc::default(), running))
        });
        others.extend(gone);
        let others: Vec<_> = others
            .iter()
            .map(|(name, created, placed, running)| Claim {
                name,
                created: *created,
                placed,
                running,
            })
            .collect();
        let own = Claim {
            name: &key.name,
            created: deployment
                .metadata
                .creation_timestamp
                .as_ref()
                .map(|it| it.0),
            placed: &chosen.sites,
            running: &own_running,
        };
        assign_sites(own, &others)
    }
}

/// The sites with revisions that are not archived, by the name and the uid of the deployment that
/// made the revisions; the uid is empty if they have no controller.
fn running(
    revisions: &[Arc<RevisionRecord>],
) -> BTreeMap<&str, BTreeMap<&str, BTreeSet<Arc<str>>>> {
    let mut running = BTreeMap::<_, BTreeMap<_, BTreeSet<_>>>::new();
    for revision in revisions.iter().filter(|revision| !revision.archived) {
        if let Some(site) = &revision.site {
            let by_uid = running.entry(site.entry.deployment.as_str()).or_default();
            let uid = revision.controller.as_deref().unwrap_or_default();
            let sites = by_uid.entry(uid).or_default();
            sites.insert(site.entry.site.as_str().into());
        }
    }
    running
}

fn is_own(record: &RevisionRecord, uid: &str) -> bool {
    record.controller.as_deref() == Some(uid)
}

fn revision(
    record: &RevisionRecord,
    of: &SiteOf,
    uid: &str,
    online_since: Option<Timestamp>,
) -> Revision {
    Revision {
        name: Arc::clone(&record.key.name),
        number: record.number.unwrap_or(0),
        entry: Arc::clone(&of.entry),
        state: of.reported.state(online_since),
        beginning: of.reported.beginning(),
        // A revision of another deployment with the same name counts as being deleted.
        is_deleting: record.deleting || !is_own(record, uid),
        is_archiving: record.lifecycle == baton_apis::LifecycleState::Archived,
    }
}
