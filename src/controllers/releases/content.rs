//! What a Release installs: its chart, rendered once, in slices that the revisions of all its clusters share.
//!
//! The slices belong to the Release. Which they are is noted on the `InstallationTarget`, and before that is written it
//! shows in the revisions that were made from them, so that no restart renders a chart again. Their names tell their
//! content: what an earlier attempt left behind is either the same, or stays unused and goes with the Release.

use baton_apis::{
    InstallationTarget, ObjectSetObject, Release,
    constants::{ANNOTATION_CONTENT, API_VERSION, shipper},
};
use baton_records::{
    api::ApiError, key::Key as RecordKey, revision::RevisionKind, slice::SliceKind,
};
use baton_releases::chart::{self, Installation};
use baton_runtime::controller::Controller as _;
use kube::ResourceExt as _;
use serde_json::{Value, json};
use twox_hash::XxHash64;

use super::{
    AtStep as _, Error, installation::Installations, kinds, scalable::scalable, store::Key,
};

/// Bytes of manifests in a slice: a few times less than an object may have, as the revision of another cluster gets a
/// copy of a phase.
const SLICE_BYTES: usize = 256 * 1024;

/// The names of the slices, by the phases that they are installed in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Content {
    /// Definitions of kinds, which are there before objects of those kinds.
    pub definitions: Vec<String>,
    /// Everything else.
    pub objects: Vec<String>,
}

/// Why there is no content.
pub(super) enum ContentError {
    /// The chart is at fault, or its repository: the text for the status, and whether trying again may help.
    Chart { message: String, again: bool },
    /// A request failed.
    Request(Error),
}

impl Content {
    /// As it is noted on an `InstallationTarget`: the number of slices with definitions, then all names.
    pub(super) fn note(&self) -> String {
        let names: Vec<_> = self.definitions.iter().chain(&self.objects).collect();
        json!([self.definitions.len(), names]).to_string()
    }

    /// Reads what was noted; nothing where somebody has spoilt it.
    pub(super) fn noted(target: &InstallationTarget) -> Option<Self> {
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

impl Installations {
    /// The content of a Release: as it is noted, or rendered and written now.
    pub(super) async fn content(
        &self,
        key: &Key,
        target: &InstallationTarget,
        release: &Release,
    ) -> Result<Content, ContentError> {
        if let Some(noted) = Content::noted(target) {
            return Ok(noted);
        }
        let documents = self.charts.take(key, release).await;
        let documents = documents.map_err(|error| ContentError::Chart {
            message: error.to_string(),
            again: !error.is_permanent(),
        })?;
        let clusters = &target.spec.clusters;
        let scalable = scalable(&self.base.inventory, clusters, &documents).await;
        let scalable = scalable.map_err(|message| ContentError::Chart {
            message,
            again: true,
        })?;
        let content = chart::content(
            documents,
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
                object: placed(manifest.object, &key.namespace),
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

    /// Writes objects into slices; their names.
    async fn slices(
        &self,
        key: &Key,
        release: &Release,
        objects: Vec<ObjectSetObject>,
    ) -> Result<Vec<String>, Error> {
        let uid = release.metadata.uid.as_deref().unwrap_or_default();
        let mut names = Vec::new();
        for objects in in_parts(objects) {
            let objects = json!(objects);
            // Two Releases of one name that follow one another do not share slices: one takes its own along.
            let hash = XxHash64::oneshot(0, format!("{uid}{objects}").as_bytes());
            let name = format!("{}-{hash:016x}", key.name);
            self.slice(key, release, &name, &objects).await?;
            names.push(name);
        }
        Ok(names)
    }

    async fn slice(
        &self,
        key: &Key,
        release: &Release,
        name: &str,
        objects: &Value,
    ) -> Result<(), Error> {
        let slice = RecordKey {
            kind: SliceKind(RevisionKind::ObjectSet),
            namespace: key.namespace.clone(),
            name: name.into(),
        };
        let observed = &self.base.observed;
        if observed.slices.get(&slice).is_some() {
            return Ok(());
        }
        let manifest = json!({
            "apiVersion": API_VERSION,
            "kind": "ObjectSlice",
            "metadata": {
                "name": name,
                "namespace": &*key.namespace,
                "labels": release.labels(),
                "ownerReferences": [{
                    "apiVersion": shipper::API_VERSION,
                    "kind": kinds::RELEASE,
                    "name": &*key.name,
                    "uid": release.metadata.uid,
                }],
            },
            "objects": objects,
        });
        let api = &self.base.shared.api;
        match api.create(&slice, &manifest).await {
            Ok(record) => {
                observed.slices.created(record, Self::NAME);
                Ok(())
            }
            // Its name tells that its content is the same.
            Err(ApiError::Changed { .. }) if api.get(&slice).await.is_ok_and(|it| it.is_some()) => {
                Ok(())
            }
            Err(error) => Err(error).at_step("making a slice"),
        }
    }
}

/// Built-in kinds whose objects have no namespace, and that charts have.
const CLUSTER_SCOPED: [&str; 13] = [
    "APIService",
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "IngressClass",
    "MutatingWebhookConfiguration",
    "Namespace",
    "PersistentVolume",
    "PriorityClass",
    "RuntimeClass",
    "StorageClass",
    "ValidatingAdmissionPolicy",
    "ValidatingWebhookConfiguration",
];

/// An object in the namespace of its Release, as other clusters are not asked which kinds are namespaced.
fn placed(mut object: Value, namespace: &str) -> Value {
    let kind = object["kind"].as_str().unwrap_or_default();
    if !CLUSTER_SCOPED.contains(&kind) {
        object["metadata"]["namespace"] = namespace.into();
    }
    object
}

/// Objects in their order, in as few parts as may be.
fn in_parts(objects: Vec<ObjectSetObject>) -> Vec<Vec<ObjectSetObject>> {
    let mut parts: Vec<Vec<ObjectSetObject>> = Vec::new();
    let mut length = 0;
    for object in objects {
        let own = object.object.to_string().len();
        match parts.last_mut() {
            Some(last) if length + own <= SLICE_BYTES => last.push(object),
            _ => {
                length = 0;
                parts.push(vec![object]);
            }
        }
        length += own;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(bytes: usize) -> ObjectSetObject {
        ObjectSetObject {
            object: json!("x".repeat(bytes)),
            ..ObjectSetObject::default()
        }
    }

    #[test]
    fn parts_are_bounded_and_keep_the_order() {
        let kb = 1024;
        for (sizes, expected) in [
            (vec![], vec![]),
            (vec![10, 20], vec![2]),
            (vec![100 * kb, 100 * kb, 100 * kb], vec![2, 1]),
            (vec![300 * kb, 10], vec![1, 1]),
            (vec![10, 300 * kb], vec![1, 1]),
        ] {
            let parts = in_parts(sizes.iter().map(|size| object(*size)).collect());
            let lengths: Vec<_> = parts.iter().map(Vec::len).collect();
            assert_eq!(lengths, expected, "{sizes:?}");
            let order: Vec<_> = parts
                .iter()
                .flatten()
                .map(|it| it.object.to_string().len() - 2)
                .collect();
            assert_eq!(order, sizes);
        }
    }

    #[test]
    fn a_note_is_read_as_it_was_written() {
        let content = Content {
            definitions: vec!["a".into()],
            objects: vec!["b".into(), "c".into()],
        };
        let mut target = InstallationTarget::default();
        for (note, expected) in [
            (content.note(), Some(content)),
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
            assert_eq!(Content::noted(&target), expected);
        }
    }
}
