//! The controllers of applications and deployments of sites.
//!
//! What they decide is in `baton-sites`; here they observe, ask and write.
//!
//! ```text
//! SiteApplication ──► a ControllerRevision per version, and slices that all sites share
//! SiteDeployment  ──► a ControllerRevision with the chosen sites ──► a chain of revisions per site ──► objects
//! ```
//!
//! Their definitions may be missing: nothing of this runs then, and it begins once they are there.

pub(crate) mod application;
pub(crate) mod deployment;
mod placement;
pub(crate) mod terms;
mod versions;

use std::{sync::Arc, time::Duration};

use baton_apis::{
    SiteApplication, SiteDeployment,
    constants::{LABEL_SITE_APPLICATION, LABEL_SITE_DEPLOYMENT},
    kinds,
};
use baton_fleet::{assignments::Assignments, inventory::Inventory};
use baton_kubernetes::watch::WatchSpec;
use baton_runtime::source::Source;
use k8s_openapi::{
    api::apps::v1::ControllerRevision, apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{Client, Resource, ResourceExt as _};
use tokio::{sync::Notify, task::JoinSet};

use super::{
    extent::Extent,
    requests::Requests,
    store::{Key, Kind, Store},
};
use crate::delivery::{observed::Observed, shared::Shared};

/// Until all kinds were listed, nothing is decided: what is missing may exist.
const INCOMPLETE: Duration = Duration::from_secs(1);

/// The kind of what is kept of both.
const RECORD: &str = "ControllerRevision";

/// All objects of the kinds that take part.
pub(crate) struct Stores {
    pub applications: Arc<Store<SiteApplication>>,
    pub deployments: Arc<Store<SiteDeployment>>,
    /// The versions of applications.
    pub versions: Arc<Store<ControllerRevision>>,
    /// The sites that deployments have chosen.
    pub placements: Arc<Store<ControllerRevision>>,
}

impl Default for Stores {
    fn default() -> Self {
        Self {
            applications: Arc::new(Store::new(kinds::SITE_APPLICATION.name)),
            deployments: Arc::new(Store::new(kinds::SITE_DEPLOYMENT.name)),
            versions: Arc::new(Store::new(RECORD)),
            placements: Arc::new(Store::new(RECORD)),
        }
    }
}

impl Stores {
    /// Starts to follow all of them. `defined` tells that definitions of the group came or went. What is kept is not
    /// asked for before there are deployments.
    pub(crate) fn follow(&self, client: &Client, defined: &Arc<Notify>, tasks: &mut JoinSet<()>) {
        let Self {
            applications,
            deployments,
            versions,
            placements,
        } = self;
        let defined = || Arc::clone(defined);
        tasks.spawn(Arc::clone(applications).follow(client.clone(), defined()));
        tasks.spawn(Arc::clone(deployments).follow(client.clone(), defined()));
        for (store, label) in [
            (versions, LABEL_SITE_APPLICATION),
            (placements, LABEL_SITE_DEPLOYMENT),
        ] {
            let (store, client) = (Arc::clone(store), client.clone());
            let deployments = Arc::clone(deployments);
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

    /// Resolves when all were listed once, or could not be, as where their definitions are not installed.
    pub(crate) async fn listed(&self) {
        tokio::join!(self.applications.listed(), self.deployments.listed());
    }

    /// Sources that report that something of them is not known any more.
    fn lost(&self) -> [&Source<()>; 4] {
        [
            &self.applications.lost,
            &self.deployments.lost,
            &self.versions.lost,
            &self.placements.lost,
        ]
    }

    /// How much is known of which objects there are. While it is not all, nothing is made or deleted.
    fn extent(&self) -> Extent {
        let kinds = self.applications.extent().and(self.deployments.extent());
        kinds
            .and(self.versions.extent())
            .and(self.placements.extent())
    }

    /// The deployments of an application, sorted by name, and those whose sites may still have it.
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

/// What both controllers share.
#[derive(Clone)]
pub(crate) struct Base {
    /// Events, the clock, and requests about revisions and slices.
    pub shared: Shared,
    /// Objects of these kinds.
    pub stores: Arc<Stores>,
    /// Requests about them.
    pub requests: Requests,
    /// Revisions and slices.
    pub observed: Arc<Observed>,
    /// The sites.
    pub inventory: Inventory,
    /// Who may use them.
    pub assignments: Assignments,
    /// Applications whose slices were made again.
    pub mended: Arc<Source<Key>>,
}

impl Base {
    /// How much is known of all that a rollout depends on: these kinds, the sites, and who may use them.
    fn extent(&self) -> Extent {
        let unreadable = self.inventory.unreadable();
        let unreadable = unreadable.or_else(|| self.assignments.unreadable());
        let others = unreadable.map_or(Extent::All, Extent::Unknown);
        self.stores.extent().and(others)
    }
}

/// The reference that makes an object an owner, or the managing one.
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

/// Whether an object has an owner with this uid.
fn is_owned_by<K: Resource>(object: &K, uid: &str) -> bool {
    object.owner_references().iter().any(|it| it.uid == uid)
}

fn uid<K: Resource>(object: &K) -> &str {
    object.meta().uid.as_deref().unwrap_or_default()
}
