//! The controller of `SiteApplications`: stores each version as a record, as long as it may be
//! needed.

mod stored;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use baton_apis::{
    EVERY_VERSION, SiteApplication, SiteApplicationStatus, SiteDeployment,
    conditions::{KEPT, READY},
    constants::LABEL_SITE_APPLICATION,
    kinds,
};
use baton_engine::{
    condition_list::{find, has_lost},
    conditions::Requeue,
    weight::of_json,
};
use baton_kubernetes::collection::Extent;
use baton_records::{revision::RevisionKind, slice::SliceKey, store::Change as RecordChange};
use baton_runtime::{
    controller::{Controller, Reconciled},
    outcomes::ReconcileOutcome,
    queue::Queue,
    source::Wake,
};
use baton_sites::{
    rollout::{VersionName, reported},
    snapshot::{self, Content, Record, RecordsPlan, content, plan_records},
};
use baton_typed::{key::Key, store::Change};
use jiff::Timestamp;
use kube::ResourceExt as _;

use self::stored::{ComparedSlices, Present};
use super::{
    Context, INCOMPLETE, uid,
    versions::{Version, is_listed},
};
use crate::delivery::shared::{AtStep as _, BURST, Error};

/// Delay before unused versions are deleted: revisions of many sites end at the same time.
const UNUSED: Duration = Duration::from_secs(10);

/// Makes the status of an application from the previous one, its generation, the time and a cause.
type UnsettledStatus = fn(&SiteApplicationStatus, i64, Timestamp, &str) -> SiteApplicationStatus;

/// Stores the versions of applications.
pub(crate) struct SiteApplications {
    context: Context,
    compared: ComparedSlices,
}

impl SiteApplications {
    /// A controller without state.
    pub(crate) fn new(context: Context) -> Self {
        Self {
            context,
            compared: ComparedSlices::default(),
        }
    }
}

impl Controller for SiteApplications {
    const NAME: &'static str = "siteapplication";

    type Key = Key;
    type Error = Error;

    fn watches(self: &Arc<Self>, queue: &Arc<Queue<Key>>) {
        let stores = &self.context.stores;
        queue.wake_on(&stores.applications.changes, self, |_, change| {
            on_application(change)
        });
        queue.wake_on(&stores.versions.changes, self, |_, change| {
            let record = change.object();
            record
                .and_then(|it| {
                    key_of(
                        it.namespace().as_deref(),
                        it.labels().get(LABEL_SITE_APPLICATION),
                    )
                })
                .map(|key| Wake::after(BURST, key))
        });
        queue.wake_on(&stores.deployments.changes, self, |_, change| {
            on_deployment(change)
        });
        stores.all.wake_when_lost(queue, self, |this| {
            this.context.stores.applications.wake(|_| true)
        });
        let observed = &self.context.observed;
        queue.wake_on(observed.revisions.changes(), self, |_, change| {
            on_revision(change)
        });
        queue.wake_on(observed.slices.changes(), self, |this, change| {
            let is_gone = change.new.as_ref().is_none_or(|new| new.deleting);
            let slice = change.record().filter(|_| is_gone);
            if let Some(slice) = slice {
                this.compared.forget(&slice.key);
            }
            slice.map(|it| this.users_of(&it.key)).unwrap_or_default()
        });
    }

    fn memory(&self, key: &Key) -> usize {
        let stores = &self.context.stores;
        let application = stores.applications.get(&key.namespace, &key.name);
        application.map_or(0, |it| of_json(it.spec.template.spec.text()))
    }

    async fn reconcile(&self, key: &Key, failures: u32) -> Result<Reconciled, Error> {
        let stores = &self.context.stores;
        let Some(application) = stores.applications.get(&key.namespace, &key.name) else {
            return Ok((ReconcileOutcome::Gone, Requeue::OnEvent));
        };
        match stores.all.extent() {
            Extent::All => {}
            Extent::Nothing => return Ok(INCOMPLETE),
            Extent::Unavailable(why) => {
                self.report_unsettled(&application, &why, snapshot::undecided)
                    .await?;
                return Ok(INCOMPLETE);
            }
        }
        // The records of a deleted application are deleted with it, or are owned by the deployments
        // that run them.
        if application.metadata.deletion_timestamp.is_some() {
            return Ok((ReconcileOutcome::Unchanged, Requeue::OnEvent));
        }
        let mut content = content((&key.namespace, &key.name), &application.spec);
        let versions = stores.versions_by((&key.namespace, &key.name), Some(&application));
        let named = match &mut content {
            Ok(content) => self.name(key, content, &versions).await.map(Some),
            Err(_) => Ok(None),
        };
        let name = self.reported(&application, failures, named).await?;
        let present = name.as_deref().zip(content.as_ref().ok());
        let kept = self.decide(key, &application, present, &versions);
        let settled = self.settle(key, &application, present, &kept).await;
        let mut wrote = self.reported(&application, failures, settled).await?;
        let generation = application.metadata.generation.unwrap_or(0);
        let said = match (&content, &kept.obstacle) {
            (Ok(_), Some(obstacle)) => Err(obstacle),
            _ => content.as_ref().map(|it| it.snapshot.version.as_str()),
        };
        let is_blocked = said.is_err();
        let previous = application.status.clone().unwrap_or_default();
        let now = self.context.shared.clock.now();
        let status = snapshot::report(&previous, generation, now, kept.versions, &said);
        wrote |= self.write(&application, status).await?;
        let outcome = match (wrote, is_blocked) {
            (true, _) => ReconcileOutcome::Changed,
            (false, true) => ReconcileOutcome::Blocked,
            (false, false) => ReconcileOutcome::Unchanged,
        };
        Ok((outcome, Requeue::OnEvent))
    }
}

impl SiteApplications {
    /// Reports an error that lasts. Returns the result.
    async fn reported<T>(
        &self,
        application: &SiteApplication,
        failures: u32,
        result: Result<T, Error>,
    ) -> Result<T, Error> {
        let why = result.as_ref().err().and_then(|it| it.to_report(failures));
        if let Some(why) = why {
            self.report_unsettled(application, &why, snapshot::not_stored)
                .await?;
        }
        result
    }

    /// Stores the present version and deletes the records that are not needed. Returns true if an
    /// object was written.
    async fn settle(
        &self,
        key: &Key,
        application: &SiteApplication,
        present: Option<Present<'_>>,
        kept: &RecordsPlan,
    ) -> Result<bool, Error> {
        let mut wrote = false;
        if let (Some(present), Some(revision)) = (present, kept.revision) {
            wrote |= self
                .store_record(key, application, present, revision)
                .await?;
        }
        wrote |= self.prune(key, application, present, kept).await?;
        Ok(wrote)
    }

    /// Reports that versions are not stored, with the reason: the objects for the decision cannot be
    /// listed, or a record cannot be written.
    async fn report_unsettled(
        &self,
        application: &SiteApplication,
        why: &str,
        status: UnsettledStatus,
    ) -> Result<(), Error> {
        let previous = application.status.clone().unwrap_or_default();
        let generation = application.metadata.generation.unwrap_or(0);
        let now = self.context.shared.clock.now();
        let status = status(&previous, generation, now, why);
        self.write(application, status).await?;
        Ok(())
    }

    /// Writes a status if it differs. Returns true if it was written.
    async fn write(
        &self,
        application: &SiteApplication,
        status: SiteApplicationStatus,
    ) -> Result<bool, Error> {
        if application.status.as_ref() == Some(&status) {
            return Ok(false);
        }
        let mut reported = application.clone();
        reported.status = Some(status);
        let written = self.context.requests.replace_status(&reported).await;
        let written = written.at_step("writing the status")?;
        self.context.stores.applications.written(written);
        Ok(true)
    }

    /// Decides on the versions, by the revisions that run them and the deployments that name them.
    fn decide(
        &self,
        key: &Key,
        application: &SiteApplication,
        present: Option<Present<'_>>,
        versions: &[Version],
    ) -> RecordsPlan {
        let records: Vec<_> = versions
            .iter()
            .map(|version| Record {
                name: version.record.name_any(),
                revision: version.record.revision,
                version: version.snapshot.version.clone(),
                edit: version.snapshot.edit.clone(),
                is_listed: is_listed(application, version),
                is_left: version.is_left(uid(application)),
            })
            .collect();
        let present = present.map(|(name, Content { snapshot, .. })| {
            (name, snapshot.version.as_str(), snapshot.edit.as_str())
        });
        let deployments = self
            .context
            .stores
            .deployments_of(&key.namespace, &key.name);
        // Revisions count whatever their controller: revisions that a deployment has left behind
        // run the version as well.
        let running = self.context.observed.revisions.filter(|revision| {
            let site = revision.site.as_ref();
            !revision.archived
                && revision.key.namespace == key.namespace
                && site.is_some_and(|site| site.entry.application == *key.name)
        });
        let entries: BTreeSet<_> = running
            .iter()
            .filter_map(|revision| revision.site.as_ref())
            .map(|site| (site.entry.version.clone(), site.entry.edit.clone()))
            .collect();
        let used = entries.iter().map(|(version, edit)| (&**version, &**edit));
        let named = deployments.iter().flat_map(|deployment| named(deployment));
        let named = named.filter(|name| name.application == &*key.name);
        let named = named.map(|name| name.version).collect();
        plan_records(&records, present, &used.collect(), &named)
    }

    /// Deletes the records that are not needed. The application becomes the owner of the others,
    /// which may stem from an earlier application of the same name. Returns true if an object was
    /// written.
    async fn prune(
        &self,
        key: &Key,
        application: &SiteApplication,
        present: Option<Present<'_>>,
        kept: &RecordsPlan,
    ) -> Result<bool, Error> {
        let mut wrote = false;
        let versions = || self.context.stores.versions_of(&key.namespace, &key.name);
        for Version { record, .. } in versions() {
            let name = record.name_any();
            // The decision is repeated after the writes: a deployment may have named the version
            // meanwhile.
            let is_surplus = || {
                let is_known = self.context.stores.all.extent() == Extent::All;
                is_known
                    && self
                        .decide(key, application, present, &versions())
                        .surplus
                        .contains(&name)
            };
            if kept.ignored.contains(&name) {
                continue;
            }
            if kept.surplus.contains(&name) && is_surplus() {
                let deleted = self.context.requests.delete(&*record).await;
                deleted.at_step("deleting the record of a version")?;
                wrote = true;
            } else {
                wrote |= self
                    .context
                    .settle_version(&record, application, true, record.revision)
                    .await?;
            }
        }
        Ok(wrote)
    }

    /// The applications that have stored versions with this slice.
    fn users_of(&self, slice: &SliceKey) -> Vec<Wake<Key>> {
        let applications = self
            .context
            .stores
            .applications
            .in_namespace(&slice.namespace);
        let is_user = |application: &Arc<SiteApplication>| {
            let name = application.name_any();
            let versions = self.context.stores.versions_of(&slice.namespace, &name);
            versions
                .iter()
                .any(|it| it.snapshot.slices().any(|name| *name == *slice.name))
        };
        let users = applications.iter().filter(|it| is_user(it));
        let keys = users.map(|it| Key::of(kinds::SITE_APPLICATION.name, &**it));
        keys.map(|key| Wake::after(BURST, key)).collect()
    }
}

/// The versions that a deployment may need: the one in its spec, the one that it rolls out, and the
/// one that it rolls back to.
fn named(deployment: &SiteDeployment) -> impl Iterator<Item = VersionName<'_>> {
    let spec = &deployment.spec;
    let status = deployment.status.iter();
    let reported = status.flat_map(|status| reported(spec, status)).flatten();
    let requested = VersionName {
        version: &spec.application_version,
        application: &spec.application,
    };
    reported.chain(Some(requested).filter(|it| it.version != EVERY_VERSION))
}

fn key_of(namespace: Option<&str>, application: Option<&String>) -> Option<Key> {
    Some(Key::new(
        kinds::SITE_APPLICATION.name,
        namespace?,
        application?,
    ))
}

/// An application wakes itself when it appears, is deleted or changes. Changes of the status are
/// ignored, as most are our own, unless another client has removed it, or the names of the versions.
fn on_application(change: &Change<SiteApplication>) -> Option<Wake<Key>> {
    let application = change.object()?;
    let has = |it: &SiteApplication, type_: &str| {
        let status = it.status.as_ref();
        status.is_some_and(|status| find(&status.conditions, type_).is_some())
    };
    let has_versions = |it: &SiteApplication| {
        let status = it.status.as_ref();
        status.is_some_and(|status| !status.versions.is_empty())
    };
    let is_wiped = |old: &SiteApplication, new: &SiteApplication| {
        has_lost(&[KEPT, READY], |it| has(old, it), |it| has(new, it))
            || (has_versions(old) && !has_versions(new))
    };
    let is_woken = match (&change.old, &change.new) {
        (Some(old), Some(new)) if is_wiped(old, new) => true,
        (Some(old), Some(new)) => {
            let (old, new) = (&old.metadata, &new.metadata);
            old.uid != new.uid
                || old.generation != new.generation
                || old.deletion_timestamp != new.deletion_timestamp
        }
        _ => true,
    };
    is_woken.then(|| Wake::now(Key::of(kinds::SITE_APPLICATION.name, &**application)))
}

/// A deployment wakes the applications whose versions it no longer needs.
fn on_deployment(change: &Change<SiteDeployment>) -> Vec<Wake<Key>> {
    let Some(old) = &change.old else {
        return Vec::new();
    };
    let left: BTreeSet<_> = change.new.iter().flat_map(|new| named(new)).collect();
    let given_up = named(old).filter(|name| !left.contains(name));
    let applications: BTreeSet<_> = given_up.map(|name| name.application.to_owned()).collect();
    let namespace = old.namespace();
    let keys = applications.iter();
    let keys = keys.filter_map(|it| key_of(namespace.as_deref(), Some(it)));
    keys.map(|key| Wake::after(UNUSED, key)).collect()
}

/// A revision of a site that has ended may have been the last one of its version.
fn on_revision(change: &RecordChange<RevisionKind>) -> Option<Wake<Key>> {
    let old = change.old.as_ref().filter(|old| !old.archived)?;
    let has_ended = change.new.as_ref().is_none_or(|new| new.archived);
    let site = old.site.as_ref().filter(|_| has_ended)?;
    let key = key_of(Some(&old.key.namespace), Some(&site.entry.application));
    key.map(|key| Wake::after(UNUSED, key))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::*;

    #[test]
    fn a_removed_status_wakes_its_application_and_other_changes_of_it_do_not() {
        let application = |status: &Value| {
            let object = json!({
                "metadata": {"name": "shop", "namespace": "n", "uid": "u", "generation": 1},
                "spec": {"version": "1.0.0", "template": {"spec": {"phases": []}}},
                "status": status,
            });
            let application: SiteApplication = from_value(object).unwrap();
            Some(Arc::new(application))
        };
        let status = |types: &[&str], versions: &[&str]| {
            let condition = |type_: &&str| {
                json!({
                    "type": type_, "status": "True", "reason": "Kept", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                })
            };
            let conditions: Vec<_> = types.iter().map(condition).collect();
            let version = |version: &&str| json!({"version": version, "edit": "0", "record": "r"});
            let versions: Vec<_> = versions.iter().map(version).collect();
            json!({"conditions": conditions, "versions": versions})
        };
        let whole = status(&["Kept", "Ready"], &["1.0.0"]);
        for (old, new, is_woken) in [
            (&Value::Null, &whole, false),
            (
                &whole,
                &status(&["Kept", "Ready", "Stalled"], &["1.1.0"]),
                false,
            ),
            (&whole, &status(&["Kept"], &["1.0.0"]), true),
            (&whole, &status(&["Kept", "Ready"], &[]), true),
            (&whole, &json!({}), true),
            (&whole, &Value::Null, true),
            (&json!({}), &Value::Null, false),
        ] {
            let change = Change {
                old: application(old),
                new: application(new),
            };
            assert_eq!(on_application(&change).is_some(), is_woken, "{old} {new}");
        }
    }
}
