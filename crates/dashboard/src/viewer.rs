//! The viewers of pages.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use baton_cluster::Cluster;
use kube::Client;
use tokio::sync::Semaphore;

use crate::{
    credentials::Credentials,
    failure::Failure,
    rights::{Access, Reviews},
    token::Token,
};

/// The number of pages that are made for a viewer at the same time, each on a thread of its own.
const THREADS: usize = 2;

/// A viewer, with the rights to read the cluster.
pub(crate) struct Viewer {
    /// The cluster, with requests in the name of the viewer.
    pub(crate) cluster: Cluster,
    /// `None` for the only viewer of a dashboard.
    identity: Option<Identity>,
    /// The number of pages that the user looks at.
    pages: Arc<AtomicUsize>,
    /// Permits for pages that are made on threads of their own.
    pub(crate) threads: Arc<Semaphore>,
}

/// A viewer among others.
struct Identity {
    token: Token,
    /// The name of the user; `None` if the server does not report it.
    name: Option<String>,
    /// A client without a token.
    client: Client,
    reviews: Reviews,
}

impl Viewer {
    /// The only viewer of a dashboard.
    pub(crate) fn alone(cluster: Cluster) -> Arc<Self> {
        Arc::new(Self {
            cluster,
            identity: None,
            pages: Arc::default(),
            threads: Arc::new(Semaphore::new(THREADS)),
        })
    }

    /// A viewer with a token. `nobody` is the cluster with requests in nobody's name, and `pages` the number
    /// of pages that the same user looks at with any token.
    pub(crate) fn new(
        nobody: &Cluster,
        token: Token,
        name: Option<String>,
        pages: Arc<AtomicUsize>,
    ) -> Arc<Self> {
        Arc::new(Self {
            cluster: with(nobody, &Credentials::new(token.clone()), &nobody.client),
            identity: Some(Identity {
                token,
                name,
                client: nobody.client.clone(),
                reviews: Reviews::default(),
            }),
            pages,
            threads: Arc::new(Semaphore::new(THREADS)),
        })
    }

    /// The token; `None` for the only viewer.
    pub(crate) fn token(&self) -> Option<&Token> {
        Some(&self.identity.as_ref()?.token)
    }

    /// The name of the user, if the server reports it.
    pub(crate) fn name(&self) -> Option<&str> {
        self.identity.as_ref()?.name.as_deref()
    }

    /// The cluster with requests that have the token of `credentials`. The connection to the cluster is
    /// that of all viewers.
    pub(crate) fn open(&self, credentials: Option<&Arc<Credentials>>) -> Cluster {
        match (&self.identity, credentials) {
            (Some(identity), Some(credentials)) => {
                with(&self.cluster, credentials, &identity.client)
            }
            _ => self.cluster.clone(),
        }
    }

    /// True if the viewer has these rights.
    ///
    /// # Errors
    /// If the token is not valid any more.
    pub(crate) async fn may(&self, required: &BTreeSet<Access>) -> Result<bool, Failure> {
        match &self.identity {
            None => Ok(true),
            Some(identity) => identity.reviews.allow(&self.cluster, required).await,
        }
    }

    /// Counts a page. Returns false, and does not count it, if the viewer has `most` of them.
    pub(crate) fn enter(&self, most: usize) -> bool {
        let add = |pages| (pages < most).then_some(pages + 1);
        let (set, fetch) = (Ordering::AcqRel, Ordering::Acquire);
        self.pages.fetch_update(set, fetch, add).is_ok()
    }

    /// Stops counting a page.
    pub(crate) fn leave(&self) {
        self.pages.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A cluster with the requests of other credentials.
fn with(cluster: &Cluster, credentials: &Arc<Credentials>, client: &Client) -> Cluster {
    let client = credentials.client(client.clone());
    let (namespace, server) = (cluster.namespace.clone(), cluster.server.clone());
    Cluster::new(client, namespace, server, Arc::new(|_: &str| {}))
}
