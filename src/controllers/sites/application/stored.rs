//! The record of the present version and its slices.
//!
//! Their names are derived from the content, so that they are found again. An object of such a name
//! may be that of another client: it is used only if it has the same content, and otherwise another
//! name is taken.

use std::{collections::HashMap, sync::Arc};

use baton_apis::{SiteApplication, constants::LABEL_SITE_APPLICATION};
use baton_engine::chain_names::numbered;
use baton_records::{
    key::OwnKind as _,
    slice::{NewOwner, SliceKey, SliceRecord},
};
use baton_runtime::controller::Controller as _;
use baton_sites::snapshot::{Content, Slice, Snapshot, record_name};
use baton_typed::key::Key;
use k8s_openapi::{
    api::apps::v1::ControllerRevision, apimachinery::pkg::apis::meta::v1::ObjectMeta,
    apimachinery::pkg::runtime::RawExtension,
};
use kube::ResourceExt as _;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{
    super::{Context, owner_reference, versions::Version},
    SiteApplications,
};
use crate::delivery::{
    shared::{AtStep as _, Error, Refusal},
    slices::{Made, NewSlice},
};

/// The slices whose content was compared, by key, each with its uid: their content never changes.
#[derive(Default)]
pub(super) struct ComparedSlices(Mutex<HashMap<SliceKey, Arc<str>>>);

impl ComparedSlices {
    fn contains(&self, slice: &SliceRecord) -> bool {
        !slice.deleting && self.0.lock().get(&slice.key) == Some(&slice.uid)
    }

    fn add(&self, slice: SliceKey, uid: Arc<str>) {
        self.0.lock().insert(slice, uid);
    }

    /// Drops a slice that is gone.
    pub(super) fn forget(&self, slice: &SliceKey) {
        self.0.lock().remove(slice);
    }
}

/// The present content of an application, with the name of its record.
pub(super) type Present<'a> = (&'a str, &'a Content);

impl SiteApplications {
    /// Gives the slices of a content the names that their record has for them, or else free ones.
    /// Returns the name of the record, which may not exist yet.
    ///
    /// A slice or record with a name of this content may be that of another client.
    pub(super) async fn name(
        &self,
        key: &Key,
        content: &mut Content,
        versions: &[Version],
    ) -> Result<String, Error> {
        let mut versions = versions.iter();
        if let Some(stored) = versions.find(|it| content.is_stored_as(&it.snapshot)) {
            content.take_names(&stored.snapshot);
            return Ok(stored.record.name_any());
        }
        let Context {
            shared,
            observed,
            stores,
            ..
        } = &self.context;
        for index in 0..content.slices.len() {
            let slice = &content.slices[index];
            let mut taken = 0;
            let name = loop {
                let name = numbered(&slice.name, taken);
                let new = new_slice(key, &name, slice, Value::Null);
                let Some(existing) = observed.slices.get(&new.key()) else {
                    break name;
                };
                if new.is_same(shared, observed, &existing).await? {
                    break name;
                }
                taken += 1;
            };
            content.rename(index, name);
        }
        let is_free = |name: &String| stores.versions.get(&key.namespace, name).is_none();
        let free = record_names(key, content).find(is_free);
        Ok(free.unwrap_or_default())
    }

    /// Creates the record of the present version and its slices, if they are missing. Returns true
    /// if an object was written.
    pub(super) async fn store_record(
        &self,
        key: &Key,
        application: &SiteApplication,
        (name, content): Present<'_>,
        revision: i64,
    ) -> Result<bool, Error> {
        let stores = &self.context.stores;
        let existing = stores.versions.get(&key.namespace, name);
        let is_new = existing.is_none();
        let record = if let Some(record) = existing {
            record
        } else {
            let made = self
                .create_record(key, application, (name, content), revision)
                .await?;
            stores.versions.written(made.clone());
            Arc::new(made)
        };
        let mut mended = false;
        for slice in &content.slices {
            mended |= self.keep_slice(key, &record, slice).await?;
        }
        // After the slices were compared: a version that the application controls is rolled out.
        let settled = self
            .context
            .settle_version(&record, application, true, revision)
            .await?;
        if mended {
            self.context.stores.mended.emit(key);
        }
        Ok(is_new || mended || settled)
    }

    /// Creates the record of the present version. Another client may have an object of its name
    /// without the label of records: then the record gets a further name.
    async fn create_record(
        &self,
        key: &Key,
        application: &SiteApplication,
        (name, content): Present<'_>,
        revision: i64,
    ) -> Result<ControllerRevision, Error> {
        let labels = [(LABEL_SITE_APPLICATION.to_owned(), key.name.to_string())];
        let mut record = ControllerRevision {
            metadata: ObjectMeta {
                namespace: Some(key.namespace.to_string()),
                labels: Some(labels.into()),
                owner_references: Some(vec![owner_reference(application, true)]),
                ..ObjectMeta::default()
            },
            data: Some(RawExtension(json!(content.snapshot))),
            revision,
        };
        let names = record_names(key, content).skip_while(|free| free != name);
        let step = "creating the record of a version";
        self.context.create_record(&mut record, names, step).await
    }

    /// Creates a slice that the record of its version owns, if it is missing. Returns true if an
    /// object was written.
    async fn keep_slice(
        &self,
        key: &Key,
        record: &ControllerRevision,
        slice: &Slice,
    ) -> Result<bool, Error> {
        let owner = owner_reference(record, false);
        let Context {
            shared, observed, ..
        } = &self.context;
        let new = new_slice(key, &slice.name, slice, json!(owner));
        let found = match new.make(shared, observed, Self::NAME).await? {
            Made::Created { uid } => {
                self.compared.add(new.key(), uid);
                return Ok(true);
            }
            Made::Found(found) => found,
        };
        if !self.compared.contains(&found) {
            let is_same = new.is_same(shared, observed, &found).await?;
            let (kind, name) = (found.key.kind.kind(), slice.name.clone());
            match (found.deleting, is_same) {
                (true, _) => return Err(Refusal::InDeletion { kind, name }.into()),
                (false, false) => return Err(Refusal::OtherContent { kind, name }.into()),
                (false, true) => self.compared.add(found.key.clone(), found.uid.clone()),
            }
        }
        if found.is_owned_by(&owner.uid) {
            return Ok(false);
        }
        let owner = NewOwner {
            reference: owner,
            replaces: None,
        };
        let added = shared.api.add_slice_owners(&[owner], &found).await;
        observed
            .slices
            .updated(added.at_step("adding an owner to a slice")?, Self::NAME);
        Ok(true)
    }
}

/// A slice of an application with this name and owner.
fn new_slice<'a>(key: &'a Key, name: &'a str, slice: &'a Slice, owner: Value) -> NewSlice<'a> {
    NewSlice {
        namespace: &key.namespace,
        name,
        labels: json!({LABEL_SITE_APPLICATION: &*key.name}),
        owner,
        objects: &slice.objects,
    }
}

/// The names that the record of a content may have, in the order of preference.
fn record_names(key: &Key, content: &Content) -> impl Iterator<Item = String> {
    let Snapshot { version, edit, .. } = &content.snapshot;
    let base = record_name(&key.name, version, edit);
    (0..).map(move |taken| numbered(&base, taken))
}
