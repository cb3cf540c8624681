//! The sites that a deployment has chosen. The choice is stored in a `ControllerRevision`, so that
//! later changes of labels do not change it.
//!
//! The `revision` of the record is the generation of the deployment for which the sites were
//! chosen.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use baton_apis::{Cluster, SiteDeployment, SitePlacement, constants::LABEL_SITE_DEPLOYMENT, kinds};
use baton_engine::chain_names::{begin, numbered, short_hash};
use baton_fleet::assignments::{Decision, Subject};
use baton_probes::selector::Labels;
use baton_sites::placement::{Expression, record};
use baton_typed::key::Key;
use k8s_openapi::{
    api::apps::v1::ControllerRevision,
    apimachinery::pkg::{apis::meta::v1::ObjectMeta, runtime::RawExtension},
};
use kube::{Api, api::ListParams};
use parking_lot::Mutex;
use serde_json::json;

use super::{Context, is_owned_by, owner_reference, uid};
use crate::delivery::shared::{AtStep as _, Error};

/// Maximum number of characters of the deployment's name in the name of its record.
const NAME_LIMIT: usize = 180;

/// Clusters per page of a list.
const PAGE: u32 = 500;

/// Labels of sites, by name.
type AllLabels = BTreeMap<String, Arc<BTreeMap<String, String>>>;

/// A record of chosen sites.
type Choice = Arc<ControllerRevision>;

/// Names of sites.
pub(super) type Sites = Arc<BTreeSet<Arc<str>>>;

/// The sites of a deployment.
pub(super) struct SelectedSites {
    pub sites: Sites,
    /// The error if the spec is invalid. The sites are then those of the last choice, or those with
    /// revisions.
    pub invalid: Option<String>,
}

/// The choices that were read, by deployment, each with the uid of its record.
#[derive(Default)]
pub(super) struct Choices(Mutex<HashMap<Key, (String, Sites)>>);

impl Choices {
    /// Drops the choice of a deployment.
    pub(super) fn forget(&self, key: &Key) {
        self.0.lock().remove(key);
    }

    /// True if a deployment may have a site. If its choice was not read yet, it may have any site.
    pub(super) fn may_have(&self, key: &Key, site: &str) -> bool {
        let choices = self.0.lock();
        choices
            .get(key)
            .is_none_or(|(_, sites)| sites.contains(site))
    }

    /// The sites that a record names; `None` if it cannot be read.
    fn read(&self, key: &Key, record: &ControllerRevision) -> Option<Sites> {
        let mut choices = self.0.lock();
        if let Some((read, sites)) = choices.get(key)
            && *read == uid(record)
        {
            return Some(Arc::clone(sites));
        }
        let named = record::sites(record)?.into_iter();
        let sites: Sites = Arc::new(named.map(Into::into).collect());
        choices.insert(key.clone(), (uid(record).to_owned(), Arc::clone(&sites)));
        Some(sites)
    }
}

/// The selector of sites.
enum SiteSelector {
    Expression(Expression),
    Labels(Labels),
}

impl SiteSelector {
    fn compile(placement: &SitePlacement) -> Result<Self, String> {
        if let Some(text) = &placement.match_site_labels {
            let expression = Expression::parse(text)
                .map_err(|error| format!("placement.matchSiteLabels: {error}"))?;
            return Ok(Self::Expression(expression));
        }
        let labels = placement.selector.as_ref().map(Labels::compile);
        match labels {
            Some(Ok(labels)) => Ok(Self::Labels(labels)),
            Some(Err(error)) => Err(format!("placement.selector: {error}")),
            None => Err("placement: there is neither matchSiteLabels nor a selector".to_owned()),
        }
    }

    fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        match self {
            Self::Expression(expression) => expression.matches(labels),
            Self::Labels(selector) => selector.select(labels),
        }
    }
}

impl Context {
    /// The sites that a deployment has chosen. Chooses again if that is due. `None` while the sites
    /// or the assignments are not known completely.
    pub(super) async fn choose(
        &self,
        choices: &Choices,
        key: &Key,
        deployment: &SiteDeployment,
    ) -> Result<Option<SelectedSites>, Error> {
        let (current, surplus) = self.placements_of(key, deployment);
        let generation = deployment.metadata.generation.unwrap_or(0);
        let placement = &deployment.spec.placement;
        let sites = current.as_ref();
        let sites = sites.and_then(|record| choices.read(key, record));
        let is_same_spec = |it: &Arc<ControllerRevision>| it.revision == generation;
        let is_due = placement.follow || !current.as_ref().is_some_and(is_same_spec);
        if let Some(sites) = sites.clone().filter(|_| !is_due) {
            self.drop_placements(&surplus).await?;
            return Ok(Some(SelectedSites {
                sites,
                invalid: None,
            }));
        }
        let chooser = match SiteSelector::compile(placement) {
            Ok(chooser) => chooser,
            Err(text) => {
                // There is no choice if the deployment has adopted revisions of an earlier one.
                let sites = sites.unwrap_or_else(|| self.present_in(key, deployment));
                return Ok(Some(SelectedSites {
                    sites,
                    invalid: Some(text),
                }));
            }
        };
        if !self.inventory.is_complete() {
            return Ok(None);
        }
        let labels = if placement.follow {
            self.cached_labels()
        } else {
            self.present_labels().await?
        };
        let Some((found, refused)) = self.evaluate(&key.namespace, &chooser, &labels) else {
            return Ok(None);
        };
        // A choice that is made only once has to include all writes before it, and a site that is
        // dropped loses its objects.
        let is_final = |subject: &Subject<'_>| {
            !placement.follow || sites.as_ref().is_some_and(|had| had.contains(subject.name))
        };
        let refused: Vec<_> = refused.into_iter().filter(is_final).collect();
        if self.is_outdated(&key.namespace, &refused).await? {
            // The watch of assignments reports the change, and the choice is made then.
            return Ok(None);
        }
        let is_same = sites.as_deref() == Some(&found);
        match current.filter(|_| is_same) {
            Some(current) if current.revision == generation => {}
            Some(current) => self.renew_placement(&current, generation).await?,
            None => self.keep_placement(key, deployment, &found).await?,
        }
        let (current, surplus) = self.placements_of(key, deployment);
        self.drop_placements(&surplus).await?;
        let sites = current.and_then(|record| choices.read(key, &record));
        Ok(Some(SelectedSites {
            sites: sites.unwrap_or_else(|| Arc::new(found)),
            invalid: None,
        }))
    }

    /// The sites where a deployment has revisions.
    fn present_in(&self, key: &Key, deployment: &SiteDeployment) -> Sites {
        let revisions = &self.observed.revisions;
        let mut revisions = revisions.controlled_by_uid(&key.namespace, uid(deployment));
        revisions.retain(|revision| !revision.deleting);
        let sites = revisions.iter().filter_map(|it| it.site.as_ref());
        Arc::new(sites.map(|it| it.entry.site.as_str().into()).collect())
    }

    /// The sites that another deployment chose last.
    pub(super) fn chosen_by(&self, choices: &Choices, deployment: &SiteDeployment) -> Sites {
        let key = Key::of(kinds::SITE_DEPLOYMENT.name, deployment);
        let (current, _) = self.placements_of(&key, deployment);
        let sites = current.and_then(|record| choices.read(&key, &record));
        sites.unwrap_or_default()
    }

    /// The record of a deployment's choice that is in force, and those that are not needed.
    fn placements_of(
        &self,
        key: &Key,
        deployment: &SiteDeployment,
    ) -> (Option<Choice>, Vec<Choice>) {
        let store = &self.stores.placements;
        let records = store.labelled(&key.namespace, LABEL_SITE_DEPLOYMENT, &key.name);
        let generation = deployment.metadata.generation.unwrap_or(0);
        record::in_force(records, uid(deployment), generation)
    }

    /// The labels of all sites in the cache, which may be a moment old.
    fn cached_labels(&self) -> AllLabels {
        let sites = self.inventory.sites().into_iter();
        sites.map(|(name, site)| (name, site.labels)).collect()
    }

    /// The labels of all sites on the server. A choice that is made only once has to include all
    /// writes before it, and the cache may be behind.
    async fn present_labels(&self) -> Result<AllLabels, Error> {
        let api = Api::<Cluster>::all(self.requests.client.clone());
        let mut page = ListParams::default().limit(PAGE);
        let mut found = AllLabels::new();
        loop {
            let list = api.list_metadata(&page).await;
            let list = list.at_step("reading the labels of sites")?;
            found.extend(list.items.into_iter().map(|site| {
                let labels = site.metadata.labels.unwrap_or_default();
                (site.metadata.name.unwrap_or_default(), Arc::new(labels))
            }));
            match list.metadata.continue_ {
                Some(next) if !next.is_empty() => page.continue_token = Some(next),
                _ => return Ok(found),
            }
        }
    }

    /// True if the server has assignments that allow one of these sites, which are refused by those
    /// in the cache.
    async fn is_outdated(&self, namespace: &str, refused: &[Subject<'_>]) -> Result<bool, Error> {
        if refused.is_empty() {
            return Ok(false);
        }
        let decisions = self.assignments.decide_now(namespace, refused).await;
        let mut decisions = decisions.at_step("reading the assignments")?.into_iter();
        Ok(decisions.any(|decision| matches!(decision, Decision::Allowed(_))))
    }

    /// The sites that match, and those that match and are refused by assignments; `None` while the
    /// assignments are not known.
    fn evaluate<'a>(
        &self,
        namespace: &str,
        chooser: &SiteSelector,
        sites: &'a AllLabels,
    ) -> Option<(BTreeSet<Arc<str>>, Vec<Subject<'a>>)> {
        let mut found = BTreeSet::new();
        let mut refused = Vec::new();
        for (name, labels) in sites {
            if !chooser.selects(labels) {
                continue;
            }
            let subject = Subject { name, labels };
            match self.assignments.decide(namespace, subject) {
                Decision::Allowed(_) => {
                    found.insert(name.as_str().into());
                }
                Decision::Refused(_) => refused.push(subject),
                Decision::Unknown | Decision::Unreadable { .. } => return None,
            }
        }
        Some((found, refused))
    }

    /// Updates the record of an unchanged choice to another generation.
    async fn renew_placement(
        &self,
        record: &ControllerRevision,
        generation: i64,
    ) -> Result<(), Error> {
        let patch = json!({"metadata": {"uid": record.metadata.uid}, "revision": generation});
        let written = self.requests.merge(record, patch).await;
        let written = written.at_step("writing the chosen sites")?;
        self.stores.placements.written(written);
        Ok(())
    }

    async fn keep_placement(
        &self,
        key: &Key,
        deployment: &SiteDeployment,
        sites: &BTreeSet<Arc<str>>,
    ) -> Result<(), Error> {
        let generation = deployment.metadata.generation.unwrap_or(0);
        let data: Vec<_> = sites.iter().map(|site| &**site).collect();
        let data = json!({ "sites": data });
        let hash = short_hash(&format!("{}{data}", uid(deployment)));
        let base = format!("{}-sites-{hash}", begin(&key.name, NAME_LIMIT));
        let mut names = (0..).map(|taken| numbered(&base, taken)).peekable();
        while let Some(name) = names.peek()
            && let Some(record) = self.stores.placements.get(&key.namespace, name)
        {
            // The deployment returns to an earlier choice, unless another client has made the record.
            let is_same = record.data.as_ref().is_some_and(|own| own.0 == data);
            let is_live = record.metadata.deletion_timestamp.is_none();
            if is_same && is_live && is_owned_by(&*record, uid(deployment)) {
                return self.renew_placement(&record, generation).await;
            }
            names.next();
        }
        let labels = [(LABEL_SITE_DEPLOYMENT.to_owned(), key.name.to_string())];
        let mut record = ControllerRevision {
            metadata: ObjectMeta {
                namespace: Some(key.namespace.to_string()),
                labels: Some(labels.into()),
                owner_references: Some(vec![owner_reference(deployment, true)]),
                ..ObjectMeta::default()
            },
            data: Some(RawExtension(data)),
            revision: generation,
        };
        let step = "writing the chosen sites";
        let made = self.create_record(&mut record, names, step).await?;
        self.stores.placements.written(made);
        Ok(())
    }

    /// Deletes records of choices.
    pub(super) async fn drop_placements(
        &self,
        records: &[Arc<ControllerRevision>],
    ) -> Result<(), Error> {
        for record in records {
            let deleted = self.requests.delete(&**record).await;
            deleted.at_step("deleting an earlier choice of sites")?;
        }
        Ok(())
    }
}
