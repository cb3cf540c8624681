//! The clusters of a fleet: their own control planes, joined to the hub as users join them.

use std::path::Path;
use std::time::Duration;

use baton_apis::Cluster;
use baton_hack::bed::{self, Afterwards, Bed, Extent};
use baton_hack::exec;
use baton_hack::paths::Dirs;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use tokio::process::Command;
use tokio::time::Instant;

use super::bare;
use super::error::Error;
use super::figures::Timing;
use super::load::Shape;
use super::load::fleet::Fleet;
use super::process::Servers;
use super::served::{Served, watches};
use super::target::{self, MANAGER_NAMESPACE, MAX_CONCURRENT, Target};

/// Number of clusters that start concurrently. More would only slow each other down.
const STARTING: usize = 4;

/// A resource that a manager watches in each connected cluster, once per Cluster object.
const WATCHED: &str = "customresourcedefinitions";

/// The clusters of a fleet.
///
/// # Guarantees
///
/// The clusters have ended when this value is dropped, even during the start, unless they are to be
/// kept.
pub(crate) struct Sites {
    fleet: Fleet,
    all: Vec<Site>,
    /// Number of watches on [`WATCHED`] before any manager was started.
    other_watches: u64,
}

struct Site {
    bed: Bed,
    client: Client,
    /// The name of its first Cluster object.
    name: String,
}

impl Sites {
    /// Starts the clusters with these servers, in beds that are named after that of the hub.
    pub(crate) async fn start(
        dirs: &Dirs,
        (hub, extent): (&bed::Name, Extent),
        fleet: Fleet,
        afterwards: Afterwards,
    ) -> Result<Self, Error> {
        let start = async |name: String| {
            let bed: bed::Name = format!("{hub}-{name}").parse()?;
            bed::down(dirs, &bed)?;
            let bed = Bed::up_with(extent, dirs, &bed, None, afterwards).await?;
            let client = target::client(&bed.kubeconfig()).await?;
            Ok::<_, Error>(Site { bed, client, name })
        };
        let all = stream::iter(fleet.used())
            .map(start)
            .buffered(STARTING)
            .try_collect()
            .await?;
        let mut sites = Self {
            fleet,
            all,
            other_watches: 0,
        };
        sites.other_watches = sites.watches().await?;
        Ok(sites)
    }

    /// The API servers and their storage.
    pub(crate) fn servers(&self) -> impl Iterator<Item = Servers> {
        let sites = self.all.iter();
        sites.map(|site| Servers::of_bed(&site.bed.kubeconfig()))
    }

    /// Joins each of them to the hub once, one after the other, with `baton cluster join` of that
    /// binary.
    pub(crate) async fn join(&self, binary: &Path, hub: &Path) -> Result<(), Error> {
        let started = Instant::now();
        for site in &self.all {
            site.join(binary, hub).await.map_err(Error::Join)?;
        }
        eprintln!(
            "bench: {} clusters joined in {:.1} s",
            self.all.len(),
            started.elapsed().as_secs_f64()
        );
        Ok(())
    }

    /// Creates the further Cluster objects on the hub, with copies of the Secrets of the first
    /// ones.
    pub(crate) async fn enter_further(&self, hub: &Client) -> Result<(), Error> {
        let clusters: Api<Cluster> = Api::all(hub.clone());
        let secrets: Api<Secret> = Api::namespaced(hub.clone(), MANAGER_NAMESPACE);
        let mut first = Vec::with_capacity(self.all.len());
        for site in &self.all {
            let name = &site.name;
            first.push((clusters.get(name).await?, secrets.get(name).await?));
        }
        let named = |name: &str| ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        };
        let further = self.fleet.further().filter_map(|(name, of)| {
            let (mut cluster, mut secret) = first.get(of)?.clone();
            cluster.metadata = named(&name);
            cluster.status = None;
            secret.metadata = named(&name);
            Some((cluster, secret))
        });
        stream::iter(further)
            .map(Ok)
            .try_for_each_concurrent(MAX_CONCURRENT, async |(cluster, secret)| {
                let params = PostParams::default();
                // The Secret comes first: without it the Cluster would count as lost at first.
                secrets.create(&params, &secret).await?;
                clusters.create(&params, &cluster).await.map(drop)
            })
            .await
            .map_err(Error::from)
    }

    /// The clients of the clusters, and the kubeconfig of the first one.
    pub(crate) fn planes(&self) -> (Vec<Client>, Option<std::path::PathBuf>) {
        let clients = self.all.iter().map(|site| site.client.clone());
        let first = self.all.first().map(|site| site.bed.kubeconfig());
        (clients.collect(), first)
    }

    /// Creates namespaces with these names, distributed over the clusters in turn.
    pub(crate) async fn namespaces(
        &self,
        names: impl Iterator<Item = String>,
    ) -> Result<(), Error> {
        stream::iter(names.zip(self.all.iter().cycle()))
            .map(Ok)
            .try_for_each_concurrent(MAX_CONCURRENT, async |(name, site)| {
                Target::create(&site.client, &name).await.map(drop)
            })
            .await
            .map_err(Error::from)
    }

    /// Creates a namespace in all clusters.
    pub(crate) async fn namespace(&self, name: &str) -> Result<(), Error> {
        for site in &self.all {
            Target::create(&site.client, name).await?;
        }
        Ok(())
    }

    /// Writes the bare objects of all sets, into one cluster after the other. The time is the sum.
    pub(crate) async fn bare(&self, shape: &Shape, round: usize) -> Result<Timing, Error> {
        let each = self.fleet.for_each(shape);
        let (mut objects, mut seconds, mut server) = (0, 0.0, 0.0);
        for (site, servers) in self.all.iter().zip(self.servers()) {
            let timing = bare::measure(&site.client, &servers, &each, round).await?;
            objects += timing.objects;
            seconds += timing.seconds;
            server += timing.server;
        }
        Ok(Timing::of(objects, Duration::from_secs_f64(seconds)).with_server(server))
    }

    /// The requests that all clusters have answered since their start.
    pub(crate) async fn served(&self) -> Result<Served, Error> {
        let mut sum = Served::default();
        for site in &self.all {
            sum = sum.plus(&Served::read(&site.client).await?);
        }
        Ok(sum)
    }

    /// Number of Cluster objects by which a manager is connected now, as the clusters count them.
    pub(crate) async fn connected(&self) -> Result<u64, Error> {
        Ok(self.watches().await?.saturating_sub(self.other_watches))
    }

    async fn watches(&self) -> Result<u64, Error> {
        let mut sum = 0;
        for site in &self.all {
            sum += watches(&site.client, WATCHED).await?;
        }
        Ok(sum)
    }
}

impl Site {
    async fn join(&self, binary: &Path, hub: &Path) -> Result<(), exec::Error> {
        join(binary, (&self.name, "bench"), hub, &self.bed.kubeconfig()).await
    }
}

/// Joins a cluster to a hub with `baton cluster join` of that binary, under a name and in a region.
pub(crate) async fn join(
    binary: &Path,
    (name, region): (&str, &str),
    hub: &Path,
    cluster: &Path,
) -> Result<(), exec::Error> {
    let mut join = Command::new(binary);
    join.args(["cluster", "join", name, "--region", region])
        .args(["--namespace", MANAGER_NAMESPACE, "--hub-kubeconfig"])
        .args([hub, "--kubeconfig".as_ref(), cluster]);
    if hub == cluster {
        join.arg("--allow-same");
    }
    exec::output(&mut join).await.map(drop)
}
