//! The observations on which a pass over a deployment decides.

use std::{collections::BTreeMap, sync::Arc};

use baton_apis::{
    ObjectDeploymentSpec,
    conditions::Reason,
    constants::{ANNOTATION_CHANGE_CAUSE, ANNOTATION_PREFLIGHT},
};
use baton_engine::{
    chain_names::is_near,
    deployment::{
        Deployment, DeploymentRevision, Objects, Snapshot, archival, sort, status::Creation,
        template,
    },
    object::manifest_reference,
    rollout_blocks::Effect,
};
use baton_probes::selector::Labels;
use baton_records::{
    deployment::DeploymentRecord, key::OwnKind as _, record::ReadError, revision::RevisionRecord,
};
use serde_json::Value;

use super::ObjectDeployments;
use crate::delivery::{
    lost_hubs,
    observed::Room,
    shared::{AtStep as _, Error},
};

impl ObjectDeployments {
    /// Adopts the revisions that a deployment of this name has made and that have no controller,
    /// for example because that deployment was deleted without them.
    ///
    /// Other revisions that the selector matches are not touched, nor are those with a
    /// [number](is_near) that no deployment has given. A deployment that does not exist
    /// any more adopts nothing, as garbage collection would delete the revisions: the store may
    /// show the effects of its deletion before the deletion itself. Returns true if the pass must
    /// wait until the watches report an adoption or the deletion.
    ///
    /// # Errors
    /// When a revision cannot be adopted.
    pub(super) async fn adopt(&self, deployment: &DeploymentRecord) -> Result<bool, Error> {
        self.adopt_if(deployment, |orphan| orphan.controller.is_none())
            .await
    }

    /// As [`Self::adopt`], also for revisions whose controller is not among the observed
    /// deployments. To be called before a revision is created.
    ///
    /// The controller may be a deployment of this name that was deleted and has left its revisions
    /// behind, which the watch of the revisions has yet to report. Sends one request for each. A
    /// revision without controller may have been orphaned since the pass began.
    ///
    /// # Errors
    /// As [`Self::adopt`].
    pub(super) async fn adopt_unobserved(
        &self,
        deployment: &DeploymentRecord,
    ) -> Result<bool, Error> {
        let deployments = &self.observed.deployments;
        let is_gone = |uid: &Arc<str>| deployments.by_uid(uid).is_none();
        self.adopt_if(deployment, |orphan| {
            orphan.controller.as_ref().is_none_or(is_gone)
        })
        .await
    }

    async fn adopt_if(
        &self,
        deployment: &DeploymentRecord,
        may_be_orphan: impl Fn(&RevisionRecord) -> bool,
    ) -> Result<bool, Error> {
        let mut orphans = self.observed.revisions.named_after(deployment);
        orphans.retain(|revision| {
            !revision.deleting && is_near(revision.number) && may_be_orphan(revision)
        });
        if orphans.is_empty() {
            return Ok(false);
        }
        let spec = deployment.outline()?;
        let Ok(selector) = Labels::compile(&spec.selector) else {
            return Ok(false);
        };
        let is_selected = |labels: &BTreeMap<_, _>| selector.select(labels);
        let api = &self.shared.api;
        if !api
            .is_live(deployment)
            .await
            .at_step("reading the deployment")?
        {
            return Ok(true);
        }
        let owner = deployment.owner_reference(true);
        let mut adopted = false;
        for orphan in orphans {
            // The labels of revisions with a controller are not in the store.
            if orphan.controller.is_some() || is_selected(&orphan.notes.labels) {
                let answer = api.adopt(&orphan, &owner, is_selected).await;
                adopted |= answer.at_step("adopting a revision")?;
            }
        }
        Ok(adopted)
    }

    /// Reads everything that the decisions depend on; `creation` is the revision that this pass has
    /// created.
    ///
    /// # Errors
    /// When a revision cannot be read.
    pub(super) async fn observe<'a>(
        &'a self,
        record: &'a DeploymentRecord,
        template: &'a Value,
        creation: &Creation,
    ) -> Result<Snapshot<'a>, Error> {
        let spec = record.outline()?;
        let is_read = record.check_weight().is_ok();
        let records = self.observed.revisions.controlled_by(record);
        let mut members = Vec::with_capacity(records.len());
        for record in &records {
            members.push(member(record)?);
        }
        sort(&mut members);
        let newest = members.last().and_then(|newest| {
            records
                .iter()
                .find(|record| *record.key.name == *newest.name)
        });
        let newest_fits = match newest {
            Some(newest) if matches!(creation, Creation::Done(made) if *made.name == *newest.key.name) => {
                true
            }
            Some(newest) if is_read => self.fits(record, newest, &spec, template).await?,
            _ => false,
        };
        let key = &record.key;
        let (labels, annotations) = (&record.labels, &record.annotations);
        let blocks = self.blocks.effect_on(&key.namespace, labels, annotations);
        let mut snapshot = Snapshot {
            deployment: deployment(record, &spec, blocks)?,
            members,
            newest_fits,
            contents: BTreeMap::new(),
            is_taken: Box::new(|name| self.observed.revisions.get(&key.revision(name)).is_some()),
            hash: Box::new(|collisions| template::hash(template, collisions)),
            unlisted: self
                .observed
                .revisions
                .extent(key.kind.0)
                .failure()
                .map(str::to_owned),
            now: self.shared.clock.now(),
        };
        let wanted: Vec<_> = archival::wanted_contents(&snapshot)
            .into_iter()
            .map(ToOwned::to_owned)
            .collect();
        for name in wanted {
            let record = records.iter().find(|record| *record.key.name == *name);
            if let Some(record) = record
                && let Some(objects) = self.contents(record).await?
            {
                snapshot.contents.insert(name, objects);
            }
        }
        Ok(snapshot)
    }

    /// True if the newest revision matches the template. The contents and the metadata of the
    /// template are compared, as a hash may have been computed by another controller in another
    /// way.
    async fn fits(
        &self,
        record: &DeploymentRecord,
        newest: &RevisionRecord,
        spec: &ObjectDeploymentSpec,
        template: &Value,
    ) -> Result<bool, Error> {
        let same_metadata = match &newest.notes.digest {
            Some(digest) => *digest == template::metadata_digest(template),
            None => template::has_labels(&newest.notes.labels, &spec.template.metadata.labels),
        };
        if !same_metadata {
            return Ok(false);
        }
        // The revision was created from this template, but is stored with another content: a webhook
        // changed it, or the CRDs of deployments and revisions are of different versions. A new
        // revision would be stored in the same way, and the deployment would create revisions
        // without end. A revision that was changed later is replaced.
        let collision_count = record.status()?.collision_count.unwrap_or(0);
        let hash = template::hash(template, collision_count);
        let was_made_of_it = newest.notes.digest.is_some() && newest.notes.hash == Some(hash);
        let conditions = newest.status()?.conditions;
        if was_made_of_it && !conditions.iter().any(|c| c.reason == Reason::SpecChanged) {
            return Ok(true);
        }
        // The store does not contain the content of archived revisions. The newest revision is
        // archived only if a user does that, which is rare.
        let revision = if newest.archived {
            self.shared
                .api
                .content(&newest.key)
                .await
                .at_step("reading a revision")?
        } else {
            newest.spec()?
        };
        let slices = self.in_slices(newest, &revision, spec).await?;
        Ok(template::same_content(
            &revision,
            &spec.template.spec,
            &slices,
        ))
    }

    /// The objects that a revision's manifests name, slices included; `None` if a slice is missing or
    /// too large.
    async fn contents(&self, record: &RevisionRecord) -> Result<Option<Objects>, Error> {
        let mut objects = Objects::new();
        let mut add = |manifest: &Value| {
            objects.insert(manifest_reference(manifest, &record.key.namespace));
        };
        let mut room = Room::beside(record);
        for phase in record.spec()?.phases.into_iter().flatten() {
            phase.objects.iter().for_each(|entry| add(&entry.object));
            for name in &phase.slices {
                let key = record.key.slice(name);
                let slice = self.observed.slice(&self.shared.api, &key).await?;
                match slice.filter(|slice| room.take(slice)) {
                    Some(slice) => slice.spec()?.iter().for_each(|entry| add(&entry.object)),
                    None => return Ok(None),
                }
            }
        }
        Ok(Some(objects))
    }
}

fn deployment(
    record: &DeploymentRecord,
    spec: &ObjectDeploymentSpec,
    blocks: Effect,
) -> Result<Deployment, ReadError> {
    let phases = spec.template.spec.phases.as_deref();
    Ok(Deployment {
        name: record.key.name.to_string(),
        namespace: record.key.namespace.to_string(),
        revision_kind: record.key.kind.0.kind(),
        generation: record.generation,
        paused: spec.paused,
        history_limit: usize::try_from(spec.revision_history_limit).unwrap_or(0),
        progress_deadline_seconds: spec.progress_deadline_seconds,
        change_cause: record.annotations.get(ANNOTATION_CHANGE_CAUSE).cloned(),
        preflight: record.annotations.get(ANNOTATION_PREFLIGHT).cloned(),
        lost_hubs: lost_hubs::of_deployment(&record.annotations).map(Into::into),
        has_phases: phases.is_some_and(|phases| !phases.is_empty()),
        blocks,
        status: record.status()?,
    })
}

fn member(record: &RevisionRecord) -> Result<DeploymentRevision, ReadError> {
    let notes = &record.notes;
    Ok(DeploymentRevision {
        name: record.key.name.to_string(),
        number: record.number,
        generation: record.generation,
        created: record.created,
        lifecycle: record.lifecycle,
        paused_by_parent: notes.paused_by_parent,
        is_archived: record.archived,
        is_deleting: record.deleting,
        hash: notes.hash.clone(),
        digest: notes.digest.clone(),
        change_cause: notes.change_cause.clone(),
        preflight: record.preflight.as_deref().map(str::to_owned),
        lost_hubs: record.lost_hubs.as_deref().map(str::to_owned),
        status: record.status()?,
    })
}
