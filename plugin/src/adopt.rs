//! Makes a first revision from existing objects: `kubectl baton adopt`.
//!
//! 1. The objects are found in the record of the tool that made them ([`helm`], [`kapp`],
//!    [`argocd`], [`flux`]), by name or by labels ([`selected`]).
//! 2. [`live`] reads the objects and refuses those that another controller has. [`content`]
//!    computes the content of the revision so that the take-over changes nothing, and [`dry_run`]
//!    asks the server about the rest.
//! 3. `pack` makes the deployment, with phases and probes as for any manifests.
//! 4. [`preview`] shows the effect on each object, and refuses changes that would restart pods.
//! 5. [`undo`] releases all objects again and gives the fields back.
//!
//! Before step 5, only the deployment is written; the manager takes the objects over.

pub(crate) mod argocd;
pub(crate) mod content;
pub(crate) mod dry_run;
pub(crate) mod flux;
pub(crate) mod helm;
pub(crate) mod kapp;
pub(crate) mod live;
pub(crate) mod managers;
pub(crate) mod preview;
pub(crate) mod record;
pub(crate) mod selected;
pub(crate) mod shipper;
pub(crate) mod undo;

use baton_cluster::Cluster;
use baton_engine::{Gvk, ObjectKey};
use baton_kubernetes::path;
use baton_view::object::{namespaced_name, text_at};
use serde_json::{Value, json};

use crate::{error::Error, pack::source_location::SourceLocation};

/// An object to adopt.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ObjectToAdopt {
    /// The place where the object was found.
    pub(crate) location: SourceLocation,
    pub(crate) gvk: Gvk,
    /// Namespace of the object; empty if no source names one.
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// The content that the tool wants, if its record has it.
    pub(crate) wanted: Option<Value>,
    /// The live object, if it was read already.
    pub(crate) live: Option<Value>,
}

impl ObjectToAdopt {
    /// A member from a manifest; missing fields are an error.
    pub(crate) fn of_manifest(location: SourceLocation, manifest: Value) -> Result<Self, String> {
        let member = Self::named(location, &manifest);
        let Gvk { version, kind, .. } = &member.gvk;
        if version.is_empty() || kind.is_empty() || member.name.is_empty() {
            return Err(format!(
                "{}: an object without apiVersion, kind or name",
                member.location
            ));
        }
        Ok(Self {
            wanted: Some(manifest),
            ..member
        })
    }

    /// A member that a record names without its content.
    pub(crate) fn referred(
        location: SourceLocation,
        gvk: &Gvk,
        namespace: &str,
        name: &str,
    ) -> Result<Self, String> {
        let object = json!({
            "apiVersion": gvk.api_version(), "kind": gvk.kind,
            "metadata": {"namespace": namespace, "name": name},
        });
        let member = Self::of_manifest(location, object)?;
        Ok(Self {
            wanted: None,
            ..member
        })
    }

    /// A member that was read from the server.
    pub(crate) fn of_live(location: SourceLocation, live: Value) -> Self {
        let member = Self::named(location, &live);
        Self {
            live: Some(live),
            ..member
        }
    }

    fn named(at: SourceLocation, object: &Value) -> Self {
        let (namespace, name) = namespaced_name(object);
        Self {
            location: at,
            gvk: Gvk::new(text_at(object, "/apiVersion"), text_at(object, "/kind")),
            namespace,
            name,
            wanted: None,
            live: None,
        }
    }

    pub(crate) fn key(&self) -> ObjectKey {
        self.gvk.key(&self.namespace, &self.name)
    }

    pub(crate) fn title(&self) -> String {
        format!("{}/{}", self.gvk.kind, self.name)
    }
}

/// The objects that a record, a selector or names lead to.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct FoundObjects {
    /// The title for the history: `Helm release shop, revision 3`.
    pub(crate) title: String,
    /// The namespace of objects without one.
    pub(crate) namespace: String,
    pub(crate) members: Vec<ObjectToAdopt>,
    /// Remarks for the user.
    pub(crate) notes: Vec<String>,
    /// Errors in parts of the record.
    pub(crate) errors: Vec<String>,
}

/// A place without lines, such as an inventory or a selector.
pub(crate) fn whole(source: &str) -> SourceLocation {
    SourceLocation {
        source: source.into(),
        ..SourceLocation::default()
    }
}

/// Path of a resource of the core group in the namespace in use.
fn core_path(cluster: &Cluster, plural: &str) -> Result<String, Error> {
    let path = path::within("/api/v1", &cluster.namespace, plural);
    path.map_err(|error| Error::Usage(error.to_string()))
}

/// Reads an object of a kind of another tool.
async fn custom(cluster: &Cluster, gvk: &Gvk, namespace: &str, name: &str) -> Result<Value, Error> {
    let kind = &gvk.kind;
    let key = ObjectKey {
        group: gvk.group.clone(),
        kind: kind.clone(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };
    let path = cluster.path_of(gvk, &key).await?;
    cluster.get_at(&path).await?.ok_or_else(|| {
        Error::NotFound(format!(
            "there is no {kind} {name} in the namespace {namespace}"
        ))
    })
}
