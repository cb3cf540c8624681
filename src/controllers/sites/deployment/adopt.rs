//! Revisions that an earlier deployment of the same name has left behind.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use baton_apis::{SiteDeployment, constants::LABEL_SITE_DEPLOYMENT};
use baton_engine::chain_names::is_near;
use baton_records::{api::ApiError, revision::RevisionRecord};
use baton_sites::rollout::VersionName;
use baton_typed::key::Key;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::ResourceExt as _;

use super::{SiteDeployments, act::MAX_CONCURRENT};
use crate::{
    controllers::sites::{owner_reference, uid},
    delivery::shared::{AtStep as _, Error},
};

impl SiteDeployments {
    /// Adopts the revisions that a deployment of this name has made and that have no controller,
    /// for example because that deployment was deleted without them.
    ///
    /// A deployment that does not exist any more adopts nothing, as garbage collection would delete
    /// the revisions: the store may show the effects of its deletion before the deletion itself.
    /// Returns true if the pass must wait until the watches report an adoption or the deletion.
    ///
    /// # Errors
    /// When a revision cannot be adopted.
    pub(super) async fn adopt(
        &self,
        key: &Key,
        deployment: &SiteDeployment,
    ) -> Result<bool, Error> {
        let Some(orphans) = self.orphans(key, deployment).await? else {
            return Ok(true);
        };
        if orphans.is_empty() {
            return Ok(false);
        }
        let is_live = self.context.requests.is_live(deployment).await;
        if !is_live.at_step("reading the deployment")? {
            return Ok(true);
        }
        let stores = &self.context.stores;
        let placements = &stores.placements;
        let mut choices = placements.labelled(&key.namespace, LABEL_SITE_DEPLOYMENT, &key.name);
        choices.retain(|choice| choice.owner_references().is_empty());
        self.context.drop_placements(&choices).await?;
        let entries = orphans.iter().filter_map(|orphan| orphan.site.as_ref());
        let entries = entries.map(|site| (VersionName::of(&site.entry), &*site.entry.edit));
        let run: BTreeSet<_> = entries.collect();
        let applications: BTreeSet<_> = run.iter().map(|(name, _)| name.application).collect();
        let versions = applications.into_iter();
        let versions = versions.flat_map(|it| stores.versions_of(&key.namespace, it));
        let versions: Vec<_> = versions.collect();
        self.own_versions(deployment, &versions, &run).await?;
        let api = &self.context.shared.api;
        let owner = &owner_reference(deployment, true);
        let is_left = |labels: &BTreeMap<String, String>| {
            labels.get(LABEL_SITE_DEPLOYMENT).map(String::as_str) == Some(&*key.name)
        };
        let adopted = stream::iter(orphans)
            .map(|orphan| async move { api.adopt(&orphan, owner, is_left).await })
            .buffer_unordered(MAX_CONCURRENT)
            .try_fold(false, async |any, adopted| Ok(any | adopted));
        adopted.await.at_step("adopting a revision")
    }

    /// The revisions with the name of this deployment that have no controller; `None` if the store
    /// does not show an adoption yet.
    ///
    /// The store may show the new deployment before it shows that garbage collection has removed the
    /// earlier one from the owners. So revisions of an earlier deployment are read from the server.
    async fn orphans(
        &self,
        key: &Key,
        deployment: &SiteDeployment,
    ) -> Result<Option<Vec<Arc<RevisionRecord>>>, Error> {
        let revisions = &self.context.observed.revisions;
        let mut found = revisions.of_site_deployment(&key.namespace, &key.name);
        found.retain(|it| {
            let is_own = it.controller.as_deref() == Some(uid(deployment));
            !it.deleting && !is_own && is_near(it.number)
        });
        let (mut orphans, owned): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|it| it.controller.is_none());
        let api = &self.context.shared.api;
        let mut read = stream::iter(owned)
            .map(|owned| async move {
                let now: Result<_, ApiError> = api.get(&owned.key).await;
                let is_same = |now: &RevisionRecord| now.uid == owned.uid && !now.deleting;
                now.map(|now| now.filter(is_same))
            })
            .buffer_unordered(MAX_CONCURRENT);
        while let Some(now) = read.next().await {
            let now = now.at_step("reading a revision")?;
            match now.as_ref().map(|now| now.controller.as_deref()) {
                Some(Some(controller)) if controller == uid(deployment) => return Ok(None),
                Some(None) => orphans.extend(now.map(Arc::new)),
                Some(Some(_)) | None => {}
            }
        }
        Ok(Some(orphans))
    }
}
