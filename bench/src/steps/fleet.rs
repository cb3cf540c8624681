//! A fleet: connections, idle time, delivery, and a restart.

use std::time::Duration;

use baton_apis::constants::shipper;
use tokio::time::{Instant, sleep};

use super::restart::Restart;
use super::wait::{ExpectedState, until_met};
use super::{POLL_INTERVAL, Steps, limit};
use crate::error::Error;
use crate::figures::fleet::{CONNECT, CREATE, Fleet, IDLE_ALL, IDLE_SMALL, RESTART, RequestCounts};
use crate::figures::{Step, Timing};
use crate::load::fleet::Fleet as Shape;
use crate::served::Served;
use crate::sites::Sites;
use crate::watch::Watch;

/// The time for which the manager is left idle: every cluster is checked at least once, which
/// happens about every half minute.
const IDLE: Duration = Duration::from_secs(40);

/// The time for which the memory of the manager is read afterwards. The minimum counts: memory for
/// the answer to a check is returned within a second.
pub(super) const MEMORY_TIME: Duration = Duration::from_secs(5);

/// The time that a Cluster object may take to be connected, beyond the time for as many objects.
pub(super) const CONNECTED: Duration = Duration::from_mins(1);

impl Steps {
    /// Leaves the manager idle with one Cluster object for each cluster, which were joined before
    /// its start; creates the other Cluster objects and leaves it idle again; delivers into all
    /// clusters; and restarts it.
    pub(crate) async fn fleet(&mut self, shape: Shape, sites: &Sites) -> Result<(), Error> {
        let path = format!("/apis/{}/clusters", shipper::API_VERSION);
        let mut clusters = Watch::start(&self.client, path);
        self.connected(&mut clusters, shape.used()).await?;
        self.wait_until_idle("the first clusters to be connected", POLL_INTERVAL, 0)
            .await?;
        let few = self.quiet(IDLE_SMALL, shape.clusters).await?;

        self.connect(shape, sites, &mut clusters).await?;
        let earlier = self.sides(sites).await?;
        let all = self.quiet(IDLE_ALL, shape.objects()).await?;
        let idle = self.sides(sites).await?.since(&earlier);

        sites.namespace("bench").await?;
        self.bare_sites(sites).await?;
        let create = self.deliver(shape, sites).await?;
        self.bare_sites(sites).await?;

        let (restart, ready) = self.restart_fleet(shape, sites).await?;
        let restarted = self.least_memory(MEMORY_TIME).await?;
        self.figures.fleet = Some(Fleet {
            shape,
            few,
            all,
            restarted,
            idle,
            create,
            restart,
            ready: ready.as_secs_f64(),
        });
        Ok(())
    }

    /// Creates the further Cluster objects, and waits until all are connected.
    async fn connect(
        &mut self,
        shape: Shape,
        sites: &Sites,
        clusters: &mut Watch,
    ) -> Result<(), Error> {
        let before = self.begin().await?;
        let started = Instant::now();
        let enter = sites.enter_further(&self.client);
        let limit = CONNECTED + limit(shape.objects());
        self.manager
            .until("Cluster objects to be entered", limit, enter)
            .await??;
        let names = shape.further().map(|(name, _)| name);
        let end = self.connected(clusters, names).await?;
        self.wait_until_idle("all clusters to be connected", POLL_INTERVAL, 0)
            .await?;
        let timing = Timing::of(0, end.unwrap_or(started) - started);
        self.end(Step::new(CONNECT, 0, timing), before).await
    }

    /// Waits until these Cluster objects report that they are connected, and returns the time of
    /// the last one.
    pub(super) async fn connected(
        &mut self,
        clusters: &mut Watch,
        names: impl Iterator<Item = String>,
    ) -> Result<Option<Instant>, Error> {
        let wanted = names.map(|name| (name, ExpectedState::Connected));
        let wanted: std::collections::BTreeMap<_, _> = wanted.collect();
        let limit = CONNECTED + limit(wanted.len());
        let what = "clusters to be connected";
        let met = until_met(&mut self.manager, clusters, what, wanted, limit).await?;
        Ok(met.into_values().max())
    }

    /// Leaves the manager idle, and returns the minimum of its memory at the end.
    async fn quiet(&mut self, step: &'static str, clusters: usize) -> Result<Option<f64>, Error> {
        let memory = self.leave_idle(step, 0, IDLE, MEMORY_TIME).await?;
        if let Some(memory) = memory {
            eprintln!("bench: {step}: {memory:.2} MiB with {clusters} Clusters");
        }
        Ok(memory)
    }

    async fn bare_sites(&mut self, sites: &Sites) -> Result<(), Error> {
        let round = self.figures.bare.len() + 1;
        let timing = sites.bare(&self.figures.shape, round).await?;
        eprintln!(
            "bench: bare {round}, all clusters: {:.2} s, {:.0} objects/s",
            timing.seconds, timing.rate
        );
        self.figures.bare.push(timing);
        Ok(())
    }

    /// Creates the sets of all clusters concurrently, and waits until all are available. Returns
    /// the requests, without those of the bench.
    async fn deliver(&mut self, shape: Shape, sites: &Sites) -> Result<RequestCounts, Error> {
        let sets = shape.sets(&self.figures.shape);
        let wanted = self.all(1, ExpectedState::Available).collect();
        let own = u64::try_from(sets.len()).unwrap_or_default();
        let earlier = self.sides(sites).await?;
        self.roll_out(CREATE, sets, wanted).await?;
        let RequestCounts { hub, clusters } = self.sides(sites).await?.since(&earlier);
        Ok(RequestCounts {
            hub: hub.without("objectsets", "POST", own),
            clusters,
        })
    }

    /// Restarts the manager, and waits until it is connected to all clusters and calm. Returns the
    /// requests, and the time until it was ready.
    async fn restart_fleet(
        &mut self,
        shape: Shape,
        sites: &Sites,
    ) -> Result<(RequestCounts, Duration), Error> {
        let earlier = self.sides(sites).await?;
        let sets = self.figures.shape.sets;
        // Each revision is reconciled once, and each of its phase objects.
        let reconciles = sets * (1 + self.figures.shape.phases);
        let mut restart = self.start_again(reconciles).await?;
        self.all_connected(shape.objects(), sites, &mut restart)
            .await?;
        let ready = restart.ready;
        self.restarted(RESTART, sets, &restart).await?;
        Ok((self.sides(sites).await?.since(&earlier), ready))
    }

    /// Waits until a restarted manager is connected to this number of Clusters.
    pub(super) async fn all_connected(
        &mut self,
        objects: usize,
        sites: &Sites,
        restart: &mut Restart,
    ) -> Result<(), Error> {
        let limit = CONNECTED + limit(objects);
        let objects = u64::try_from(objects).unwrap_or(u64::MAX);
        let mut connected = 0;
        // The statuses have not changed, so they do not show when each cluster is connected again.
        // Mostly all of them are by now.
        let looking = async {
            let mut looks = 0;
            loop {
                connected = sites.connected().await?;
                if connected >= objects {
                    return Ok::<_, Error>(looks);
                }
                looks += 1;
                sleep(POLL_INTERVAL).await;
            }
        };
        let what = "the restarted manager to be connected to all clusters";
        match self.manager.until(what, limit, looking).await {
            Ok(looks) => {
                if looks? > 0 {
                    restart.settled = Instant::now();
                }
                Ok(())
            }
            Err(error) => {
                let detail = format!("{connected} of {objects} connected");
                Err(error.with_detail(&detail).into())
            }
        }
    }

    pub(super) async fn sides(&self, sites: &Sites) -> Result<RequestCounts, Error> {
        Ok(RequestCounts {
            hub: Served::read(&self.client).await?,
            clusters: sites.served().await?,
        })
    }
}
