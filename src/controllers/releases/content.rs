//! The content of a Release: its chart, rendered once, in slices that the revisions of all its
//! clusters share.
//!
//! The Release owns the slices. Their names are stored in an annotation of the
//! `InstallationTarget`, so that a restart does not render the chart again. The revisions that were
//! created before the annotation also name them. A name is derived from the content: a slice of an
//! earlier attempt is either reused, or stays unused and is deleted with the Release.

use std::{collections::BTreeMap, sync::Arc};

use baton_apis::{
    InstallationTarget, ObjectSetObject, Release,
    constants::{ANNOTATION_CONTENT, shipper},
    kinds,
};
use baton_engine::{chain_names::numbered, slice_parts};
use baton_records::{revision::RevisionRecord, slice::NewOwner};
use baton_releases::{
    chart::{self, Installation},
    scheduling::error::ScheduleError,
};
use baton_typed::key::Key;
use kube::ResourceExt as _;
use serde_json::{Value, json};
use twox_hash::XxHash64;

use super::{AtStep as _, Context, Error, charts::ChartSource, scalable::scalable};
use crate::delivery::{
    shared::Refusal,
    slices::{Made, NewSlice},
};

/// Number of names that other slices may have. A webhook that changes slices would cause more of them
/// in every pass.
const MAX_TAKEN: usize = 16;

/// The names of the slices, by phase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Content {
    /// Slices with definitions of kinds, which have to exist before objects of those kinds.
    pub definitions: Vec<String>,
    /// Slices with all other objects.
    pub objects: Vec<String>,
}

/// The reason that there is no content.
pub(super) enum ContentError {
    /// The chart or its repository has an error. `message` is the text for the status; `again` is
    /// true if a retry may help.
    Chart { message: String, again: bool },
    /// A request failed.
    Request(Error),
}

impl Content {
    /// The text of the annotation: the number of slices with definitions, then all names.
    pub(super) fn to_annotation(&self) -> String {
        let names: Vec<_> = self.definitions.iter().chain(&self.objects).collect();
        json!([self.definitions.len(), names]).to_string()
    }

    /// Reads the annotation; `None` if it is missing or invalid.
    pub(super) fn from_annotation(target: &InstallationTarget) -> Option<Self> {
        let note = target.annotations().get(ANNOTATION_CONTENT)?;
        let (definitions, mut names): (usize, Vec<String>) = serde_json::from_str(note).ok()?;
        (definitions < names.len()).then(|| {
            let objects = names.split_off(definitions);
            Self {
                definitions: names,
                objects,
            }
        })
    }
}

/// Creates the contents of charts.
pub(super) struct ContentWriter {
    /// Inventory, slices, and requests about them.
    pub context: Context,
    /// Rendered charts.
    pub charts: ChartSource,
    /// The name of the controller that writes slices.
    pub writer: &'static str,
}

impl ContentWriter {
    /// Makes the revisions of a Release owners of their slices, in one write for each slice. So the slices
    /// exist as long as the revisions that need them, also after the deletion of the Release. A revision
    /// that shares its slices with no other one is left out, as it makes itself an owner.
    ///
    /// A slice that is not observed is left out: a revision that has read it reports, and the next pass follows.
    ///
    /// # Errors
    /// When a request fails, or a slice has changed since it was observed.
    pub(super) async fn own_slices(&self, revisions: &[Arc<RevisionRecord>]) -> Result<(), Error> {
        let Context {
            shared, observed, ..
        } = &self.context;
        let mut users: BTreeMap<_, Vec<_>> = BTreeMap::new();
        let sharing = |it: &&Arc<RevisionRecord>| !it.is_closed() && it.has_shared_slices();
        for revision in revisions.iter().filter(sharing) {
            for name in &revision.slices {
                let key = revision.key.slice(name);
                users.entry(key).or_default().push(revision);
            }
        }
        for (key, users) in users {
            let Some(slice) = observed.slices.get(&key) else {
                continue;
            };
            let new = users.iter().filter(|it| !slice.is_owned_by(&it.uid));
            let new: Vec<_> = new.map(|it| NewOwner::of(it)).collect();
            if !new.is_empty() {
                let owned = shared.api.add_slice_owners(&new, &slice).await;
                let owned = owned.at_step("owning slices")?;
                observed.slices.updated(owned, self.writer);
            }
        }
        Ok(())
    }

    /// The content of a Release: read from the annotation, or rendered and written now.
    pub(super) async fn of(
        &self,
        key: &Key,
        target: &InstallationTarget,
        release: &Release,
    ) -> Result<Content, ContentError> {
        if let Some(noted) = Content::from_annotation(target) {
            return Ok(noted);
        }
        let failed = |error: ScheduleError| ContentError::Chart {
            message: error.to_string(),
            again: !error.is_permanent(),
        };
        let documents = self.charts.take_rendered(key, release).await;
        let (inventory, clusters) = (&self.context.inventory, &target.spec.clusters);
        let documents = documents.map_err(failed)?;
        let scalable = scalable(&self.charts, inventory, clusters, documents).await;
        let (documents, scalable) = scalable.map_err(failed)?;
        let content = chart::content(
            documents.objects,
            Installation {
                name: &key.name,
                labels: target.labels(),
                chart: &release.spec.environment.chart,
                scalable: &scalable,
            },
        );
        let content = content.map_err(|error| ContentError::Chart {
            message: error.to_string(),
            again: false,
        })?;
        let (definitions, objects): (Vec<_>, Vec<_>) = content
            .manifests
            .into_iter()
            .map(|manifest| ObjectSetObject {
                object: slice_parts::placed(manifest.object, &key.namespace),
                create_only_fields: manifest.create_only,
                ..ObjectSetObject::default()
            })
            .partition(|entry| entry.object["kind"] == "CustomResourceDefinition");
        let made = async {
            Ok(Content {
                definitions: self.slices(key, release, definitions).await?,
                objects: self.slices(key, release, objects).await?,
            })
        };
        made.await.map_err(ContentError::Request)
    }

    /// Writes objects into slices. Returns the names of the slices.
    async fn slices(
        &self,
        key: &Key,
        release: &Release,
        objects: Vec<ObjectSetObject>,
    ) -> Result<Vec<String>, Error> {
        let uid = release.metadata.uid.as_deref().unwrap_or_default();
        let mut names = Vec::new();
        for objects in slice_parts::in_parts(objects) {
            let objects = json!(objects);
            // The uid makes the name unique to this Release: a later Release of the same name must
            // not share slices that are deleted with the earlier one.
            let hash = XxHash64::oneshot(0, format!("{uid}{objects}").as_bytes());
            let base = format!("{}-{hash:016x}", key.name);
            let mut taken = 0;
            let name = loop {
                let name = numbered(&base, taken);
                if self.is_made(key, release, &name, &objects).await? {
                    break name;
                }
                taken += 1;
                if taken > MAX_TAKEN {
                    let kind = kinds::OBJECT_SLICE.name;
                    return Err(Refusal::OtherContent { kind, name }.into());
                }
            };
            names.push(name);
        }
        Ok(names)
    }

    /// Creates the slice of a Release, unless it exists. Returns false if the name is that of another
    /// slice.
    async fn is_made(
        &self,
        key: &Key,
        release: &Release,
        name: &str,
        objects: &Value,
    ) -> Result<bool, Error> {
        let Context {
            shared, observed, ..
        } = &self.context;
        let uid = release.metadata.uid.as_deref().unwrap_or_default();
        let slice = NewSlice {
            namespace: &key.namespace,
            name,
            labels: json!(release.labels()),
            owner: json!({
                "apiVersion": shipper::API_VERSION,
                "kind": kinds::RELEASE.name,
                "name": &*key.name,
                "uid": uid,
            }),
            objects,
        };
        match slice.make(shared, observed, self.writer).await? {
            Made::Created { .. } => Ok(true),
            Made::Found(found) => {
                Ok(found.is_owned_by(uid) && slice.is_same(shared, observed, &found).await?)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_content_is_read_unchanged() {
        let content = Content {
            definitions: vec!["a".into()],
            objects: vec!["b".into(), "c".into()],
        };
        let mut target = InstallationTarget::default();
        for (note, expected) in [
            (content.to_annotation(), Some(content)),
            (
                "[0,[\"x\"]]".to_owned(),
                Some(Content {
                    definitions: vec![],
                    objects: vec!["x".into()],
                }),
            ),
            ("[1,[\"x\"]]".to_owned(), None),
            ("[0,[]]".to_owned(), None),
            ("spoilt".to_owned(), None),
        ] {
            target
                .annotations_mut()
                .insert(ANNOTATION_CONTENT.to_owned(), note);
            assert_eq!(Content::from_annotation(&target), expected);
        }
    }
}
