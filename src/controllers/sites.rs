//! The controllers of `SiteApplication` and `SiteDeployment`.
//!
//! The decisions are in `baton-sites`; the controllers observe, send requests and write.
//!
//! ```text
//! SiteApplication ──► a ControllerRevision per version, and slices that all sites share
//! SiteDeployment  ──► a ControllerRevision with the chosen sites ──► a chain of revisions per site ──► objects
//! ```
//!
//! The definitions may be missing: the controllers start once the definitions exist.

pub(crate) mod application;
pub(crate) mod deployment;
mod placement;
pub(crate) mod terms;
mod versions;

use std::sync::Arc;

use baton_apis::{
    SiteApplication, SiteDeployment,
    constants::{LABEL_SITE_APPLICATION, LABEL_SITE_DEPLOYMENT},
    kinds,
};
use baton_kubernetes::{collection::Extent, watch::WatchSpec};
use baton_runtime::source::Source;
use baton_typed::{
    key::{Key, Kind},
    store::Store,
    stores,
};
use k8s_openapi::{
    api::apps::v1::ControllerRevision, apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{Client, Resource, ResourceExt as _};
use tokio::task::JoinSet;

use super::INCOMPLETE;
use crate::delivery::shared::Error;

/// The kind of the objects that store versions and chosen sites.
const RECORD: &str = "ControllerRevision";

/// Stores of the kinds that take part.
#[derive(Clone)]
pub(crate) struct Stores {
    pub applications: Arc<Store<SiteApplication>>,
    pub deployments: Arc<Store<SiteDeployment>>,
    /// The versions of applications.
    pub versions: Arc<Store<ControllerRevision>>,
    /// The sites that deployments have chosen.
    pub placements: Arc<Store<ControllerRevision>>,
    /// All of these stores.
    pub all: stores::Stores,
    /// Applications whose slices were created again.
    pub mended: Arc<Source<Key>>,
}

impl Default for Stores {
    fn default() -> Self {
        let mut all = stores::Stores::default();
        Self {
            applications: all.defined(Store::new(kinds::SITE_APPLICATION.name)),
            deployments: all.defined(Store::new(kinds::SITE_DEPLOYMENT.name)),
            versions: all.other(Store::new(RECORD)),
            placements: all.other(Store::new(RECORD)),
            all,
            mended: Arc::default(),
        }
    }
}

impl Stores {
    /// Starts to follow the records of both kinds, once the definition of deployments exists.
    pub(crate) fn follow_records(&self, client: &Client, tasks: &mut JoinSet<()>) {
        for (store, label) in [
            (&self.versions, LABEL_SITE_APPLICATION),
            (&self.placements, LABEL_SITE_DEPLOYMENT),
        ] {
            let (store, client) = (Arc::clone(store), client.clone());
            let deployments = Arc::clone(&self.deployments);
            tasks.spawn(async move {
                deployments.completed().await;
                let spec = WatchSpec {
                    label_selector: Some(label.to_owned()),
                    ..Store::<ControllerRevision>::whole()
                };
                store.follow_at(client, spec).await;
            });
        }
    }

    /// The deployments of an application, and those whose status still names it, sorted by name.
    fn deployments_of(&self, namespace: &str, application: &str) -> Vec<Arc<SiteDeployment>> {
        let mut deployments = self.deployments.in_namespace(namespace);
        deployments.retain(|deployment| {
            let status = deployment.status.as_ref();
            let reported = status.map(|it| [&it.application, &it.previous_application]);
            let mut reported = reported.into_iter().flatten().flatten();
            deployment.spec.application == application || reported.any(|it| it == application)
        });
        deployments
    }
}

/// The state that both controllers share.
pub(crate) type Context = super::Context<Stores>;

impl Context {
    /// The extent of the objects that a rollout depends on: these kinds, the sites, and the
    /// assignments.
    fn extent(&self) -> Extent {
        let unreadable = self.inventory.unreadable();
        let unreadable = unreadable.or_else(|| self.assignments.unreadable());
        let others = unreadable.map_or(Extent::All, |cause| Extent::Unavailable(cause.into()));
        self.stores.all.extent().and(others)
    }
}

/// Number of names that are tried in a pass because objects without the label of records have them.
const MAX_NAMES: usize = 16;

impl Context {
    /// Creates a record under the first of these names that is free. Another client may have an object
    /// of a name without the label of records, which the stores do not contain.
    async fn create_record(
        &self,
        record: &mut ControllerRevision,
        names: impl Iterator<Item = String>,
        step: &'static str,
    ) -> Result<ControllerRevision, Error> {
        let mut names = names.take(MAX_NAMES).peekable();
        loop {
            record.metadata.name = names.next();
            match self.create(&*record, step).await {
                Err(Error::Request {
                    source: kube::Error::Api(status),
                    ..
                }) if status.is_already_exists() && names.peek().is_some() => {}
                made => return made,
            }
        }
    }
}

/// A reference that makes `object` an owner; with `is_controller`, the controller.
fn owner_reference<K: Kind>(object: &K, is_controller: bool) -> OwnerReference {
    let meta = object.meta();
    OwnerReference {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        name: meta.name.clone().unwrap_or_default(),
        uid: meta.uid.clone().unwrap_or_default(),
        controller: is_controller.then_some(true),
        block_owner_deletion: None,
    }
}

/// True if an object has an owner with this uid.
fn is_owned_by<K: Resource>(object: &K, uid: &str) -> bool {
    object.owner_references().iter().any(|it| it.uid == uid)
}

fn uid<K: Resource>(object: &K) -> &str {
    object.meta().uid.as_deref().unwrap_or_default()
}
