//! The stored versions of an application.

use std::{cmp::Reverse, sync::Arc};

use baton_apis::{
    ObjectSetProbe, SiteApplication, SiteEntry, constants::LABEL_SITE_APPLICATION, kinds,
};
use baton_engine::{chain_names::retain_near, redact::without_values};
use baton_kubernetes::answer::is_immutable;
use baton_records::{key::Key as RecordKey, revision::RevisionKind, slice::SliceKind};
use baton_sites::{
    rollout::VersionName,
    snapshot::{Snapshot, is_record_name, record_name},
};
use baton_typed::requests::Namespaced;
use k8s_openapi::{
    api::apps::v1::ControllerRevision, apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::ResourceExt as _;
use serde::Deserialize as _;
use serde_json::json;
use tracing::warn;

use super::{Context, Stores, is_owned_by, owner_reference, uid};
use crate::delivery::{
    observed::Observed,
    shared::{AtStep as _, Error},
};

/// A stored version.
pub(super) struct Version {
    /// Name of its application.
    pub application: Arc<str>,
    /// The object that stores the version.
    pub record: Arc<ControllerRevision>,
    /// The content of the record.
    pub snapshot: Snapshot,
}

impl Stores {
    /// The versions of an application: those that its status lists, then the others, each the newest
    /// first. Another client cannot list its record. A record that cannot be read is logged and
    /// left out, and so is one that [another client](Version::is_of) has made, or whose
    /// [number](retain_near) no controller has given.
    pub(super) fn versions_of(&self, namespace: &str, application: &str) -> Vec<Version> {
        let owner = self.applications.get(namespace, application);
        self.versions_by((namespace, application), owner.as_deref())
    }

    /// [`Stores::versions_of`] for an application that was read before; `None` if it does not exist.
    pub(super) fn versions_by(
        &self,
        (namespace, application): (&str, &str),
        owner: Option<&SiteApplication>,
    ) -> Vec<Version> {
        let records = self
            .versions
            .labelled(namespace, LABEL_SITE_APPLICATION, application);
        let application = application.into();
        let read = |record| read(record, &application);
        let mut versions: Vec<_> = records.into_iter().filter_map(read).collect();
        versions.retain(|version| version.is_of(owner.map(uid)));
        retain_near(&mut versions, |version| version.record.revision);
        versions.sort_by_key(|version| {
            let created = version.record.metadata.creation_timestamp.clone();
            let is_listed = owner.is_some_and(|it| is_listed(it, version));
            Reverse((is_listed, version.record.revision, created))
        });
        versions
    }

    /// The probes of the version of a revision; `None` if its record does not exist, or is not
    /// known.
    pub(super) fn probes(&self, namespace: &str, entry: &SiteEntry) -> Option<Vec<ObjectSetProbe>> {
        let is_same = |it: &Version| {
            (&it.snapshot.version, &it.snapshot.edit) == (&entry.version, &entry.edit)
        };
        let application = entry.application.as_str();
        // The usual record has the first name, so the others need not be parsed in every pass.
        let owner = self.applications.get(namespace, application);
        let name = record_name(application, &entry.version, &entry.edit);
        let usual = self.versions.get(namespace, &name);
        let usual = usual
            .filter(|record| owner.is_some_and(|owner| is_controlled_by(record, uid(&*owner))));
        let usual = usual.and_then(|record| read(record, &application.into()));
        let version = usual.filter(is_same).or_else(|| {
            let versions = self.versions_of(namespace, application);
            versions.into_iter().find(is_same)
        })?;
        Some(version.snapshot.availability_probes)
    }
}

/// True if the status of an application lists the record of a version.
pub(super) fn is_listed(application: &SiteApplication, version: &Version) -> bool {
    let name = version.record.metadata.name.as_deref();
    let mut listed = application.status.iter().flat_map(|it| &it.versions);
    listed.any(|listed| Some(&*listed.record) == name)
}

fn read(record: Arc<ControllerRevision>, application: &Arc<str>) -> Option<Version> {
    if record.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let data = record.data.as_ref().map(|data| &data.0);
    match Snapshot::deserialize(data.unwrap_or(&serde_json::Value::Null)) {
        Ok(snapshot) => Some(Version {
            application: Arc::clone(application),
            record,
            snapshot,
        }),
        Err(error) => {
            let (namespace, name) = (record.namespace(), record.name_any());
            let error = without_values(&error.to_string());
            warn!(
                namespace,
                name, error, "a ControllerRevision contains no version of a SiteApplication"
            );
            None
        }
    }
}

fn is_controlled_by(record: &ControllerRevision, uid: &str) -> bool {
    let mut owners = record.owner_references().iter();
    owners.any(|owner| owner.controller == Some(true) && owner.uid == uid)
}

fn owned_by(mut record: ControllerRevision, owners: Vec<OwnerReference>) -> ControllerRevision {
    record.metadata.owner_references = Some(owners);
    record
}

impl Version {
    /// True if the application with this UID controls the record, or if the record was left by an
    /// earlier application of the same name. `owner` is `None` if the application does not exist.
    ///
    /// A label shows nothing, as every client may set it.
    fn is_of(&self, owner: Option<&str>) -> bool {
        let mut owners = self.record.owner_references().iter();
        let may_be_left = |controller: &OwnerReference| {
            controller.kind == kinds::SITE_APPLICATION.name && *controller.name == *self.application
        };
        match owners.find(|owner| owner.controller == Some(true)) {
            Some(controller) if Some(&*controller.uid) == owner => true,
            Some(controller) if !may_be_left(controller) => false,
            _ => is_record_name(&self.record.name_any(), &self.application, &self.snapshot),
        }
    }

    /// The name of the version.
    pub(super) fn name(&self) -> VersionName<'_> {
        VersionName {
            version: &self.snapshot.version,
            application: &self.application,
        }
    }

    /// True if the record was left by an earlier application, and the one with this UID does not
    /// control it yet.
    pub(super) fn is_left(&self, owner: &str) -> bool {
        !is_controlled_by(&self.record, owner)
    }

    /// True if all of its slices exist and are its own, so that it can be rolled out. `owner` is its
    /// application, if that exists: it has compared the slices before it controls the record.
    pub(super) fn is_whole(&self, observed: &Observed, owner: Option<&SiteApplication>) -> bool {
        if owner.is_some_and(|owner| self.is_left(uid(owner))) {
            return false;
        }
        let namespace = self
            .record
            .metadata
            .namespace
            .as_deref()
            .unwrap_or_default();
        self.snapshot.slices().all(|name| {
            let key = RecordKey {
                kind: SliceKind(RevisionKind::ObjectSet),
                namespace: namespace.into(),
                name: name.into(),
            };
            let slice = observed.slices.get(&key);
            slice.is_some_and(|it| !it.deleting && it.is_owned_by(uid(&*self.record)))
        })
    }
}

impl Context {
    /// Updates the record of a version: its owner, and its place in the order of versions. Returns
    /// true if it was written.
    ///
    /// The server compares the content of a record as text. It refuses a patch of a record that it
    /// stores with unescaped characters of HTML, as Baton 0.1 wrote them: it escapes them in the
    /// patched record. Such a record is written as a whole, in its stored form.
    ///
    /// An owner that does not exist any more does not become the only owner, as garbage collection
    /// would delete the record.
    pub(super) async fn settle_version<K: Namespaced>(
        &self,
        record: &ControllerRevision,
        owner: &K,
        is_controller: bool,
        revision: i64,
    ) -> Result<bool, Error> {
        let is_owned = is_owned_by(record, uid(owner));
        if is_owned && record.revision == revision {
            return Ok(false);
        }
        if record.owner_references().is_empty() {
            let is_live = self.requests.is_live(owner).await;
            if !is_live.at_step("reading the owner of a version")? {
                return Ok(false);
            }
        }
        let owner = owner_reference(owner, is_controller);
        let mut owners = record.owner_references().to_vec();
        if !is_owned {
            // An object has one controller. A previous controller with another uid does not exist
            // any more.
            if owner.controller == Some(true) {
                owners.retain(|other| other.controller != Some(true));
            }
            owners.push(owner);
        }
        let patch = json!({
            "metadata": {"uid": record.metadata.uid, "ownerReferences": &owners},
            "revision": revision,
        });
        let written = match self.requests.merge(record, patch).await {
            Err(kube::Error::Api(status)) if is_immutable(&status) => {
                let whole = ControllerRevision {
                    revision,
                    ..record.clone()
                };
                self.requests.replace(&owned_by(whole, owners)).await
            }
            written => written,
        };
        let written = written.at_step("writing the record of a version")?;
        self.stores.versions.written(written);
        Ok(true)
    }
}
