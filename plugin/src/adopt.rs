//! A first revision from objects that exist already: `kubectl baton adopt`.
//!
//! 1. What belongs to it is found in the record of the tool that made it ([`helm`], [`kapp`], [`argocd`], [`flux`]), by
//!    name or by labels ([`selected`]).
//! 2. [`live`] reads the objects and refuses those that somebody else controls, [`content`] decides what a revision is
//!    to say about each so that taking it over changes nothing, and [`dry_run`] asks the server where only it knows.
//! 3. `pack` makes the deployment of it, with phases and probes as of any manifests.
//! 4. [`preview`] says what becomes of each object, and refuses what would restart pods.
//! 5. [`undo`] lets go of everything again and hands the fields back.
//!
//! Nothing here is written before step 5 but the deployment; the take-over itself is the manager's.

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
pub(crate) mod undo;

use baton_engine::{Gvk, ObjectKey};
use baton_kubernetes::path;
use baton_view::object::{place, text_at};
use serde_json::{Value, json};

use crate::{connect::Cluster, error::Error, pack::source_location::SourceLocation};

/// An object that is to be adopted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Member {
    /// Where it was found.
    pub(crate) place: SourceLocation,
    pub(crate) gvk: Gvk,
    /// Its namespace; empty where nothing names one.
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// What the tool wants of it, where its record says so.
    pub(crate) wanted: Option<Value>,
    /// The object itself, where it has been read already.
    pub(crate) live: Option<Value>,
}

impl Member {
    /// One that a manifest describes; what is missing in it is an error.
    pub(crate) fn of_manifest(place: SourceLocation, manifest: Value) -> Result<Self, String> {
        let member = Self::named(place, &manifest);
        let Gvk { version, kind, .. } = &member.gvk;
        if version.is_empty() || kind.is_empty() || member.name.is_empty() {
            return Err(format!(
                "{}: an object without apiVersion, kind or name",
                member.place
            ));
        }
        Ok(Self {
            wanted: Some(manifest),
            ..member
        })
    }

    /// One that a record refers to, without saying what it wants of it.
    pub(crate) fn referred(
        place: SourceLocation,
        gvk: &Gvk,
        namespace: &str,
        name: &str,
    ) -> Result<Self, String> {
        let object = json!({
            "apiVersion": gvk.api_version(), "kind": gvk.kind,
            "metadata": {"namespace": namespace, "name": name},
        });
        let member = Self::of_manifest(place, object)?;
        Ok(Self {
            wanted: None,
            ..member
        })
    }

    /// One that was read from the server.
    pub(crate) fn of_live(place: SourceLocation, live: Value) -> Self {
        let member = Self::named(place, &live);
        Self {
            live: Some(live),
            ..member
        }
    }

    fn named(at: SourceLocation, object: &Value) -> Self {
        let (namespace, name) = place(object);
        Self {
            place: at,
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

/// What a record, a selector or names have led to.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Found {
    /// What it is, for the history: `Helm release shop, revision 3`.
    pub(crate) title: String,
    /// The namespace of objects that name none.
    pub(crate) namespace: String,
    pub(crate) members: Vec<Member>,
    /// What a person should know.
    pub(crate) notes: Vec<String>,
    /// What is wrong with parts of it.
    pub(crate) errors: Vec<String>,
}

/// A place without lines: an inventory, a selector.
pub(crate) fn whole(source: &str) -> SourceLocation {
    SourceLocation {
        source: source.into(),
        ..SourceLocation::default()
    }
}

/// Path of the objects of a resource of the group without a name, in the namespace in use.
fn core_path(cluster: &Cluster, plural: &str) -> Result<String, Error> {
    let path = path::within("/api/v1", &cluster.namespace, plural);
    path.map_err(|error| Error::Usage(error.to_string()))
}

/// Reads an object of another tool's kind.
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
