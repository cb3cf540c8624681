//! Sites: connections, versions that are rolled out to all of them, sites that go offline
//! meanwhile, and a restart.

use std::time::Duration;

use baton_apis::conditions::{PROGRESSING, Reason};
use baton_apis::constants::{BATON_API_VERSION, shipper};
use baton_apis::{Cluster, SiteApplication, SiteDeployment, SiteDeploymentStatus};
use baton_hack::manager::Error as ManagerError;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde::Deserialize;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::fleet::{CONNECTED as TIMEOUT, MEMORY_TIME};
use super::wait::{ExpectedState, until_met};
use super::{POLL_INTERVAL, StepStart, Steps, limit};
use crate::error::Error;
use crate::figures::fleet::RequestCounts;
use crate::figures::sites::{
    AT_ONCE, BACK, CONNECT, CONNECTED, FIRST, IDLE, LOST, NONE, OTHERS, RESTART, Sites,
    StepRequests, WAVES,
};
use crate::figures::{Figures, Step, Timing};
use crate::gateway::Gateway;
use crate::load::sites::{NAME, Sites as Shape, Strategy, deployment, site, version};
use crate::planner;
use crate::sites::Sites as Planes;
use crate::target::{MANAGER_NAMESPACE, MAX_CONCURRENT};
use crate::traffic::Traffic;
use crate::watch::{Metadata, Watch, Watched};

/// The time for which the manager is left idle: every site is checked at least once, which happens
/// about every half minute.
const IDLE_TIME: Duration = Duration::from_secs(40);

/// The time in which hardly anything may be written for a step to be over.
const SILENCE: Duration = Duration::from_secs(5);

/// The period in which the status of a Cluster reports the connection.
const REPORT_PERIOD: Duration = Duration::from_mins(5);

/// The time that a wave may take, beyond the time for its objects.
const WAVE: Duration = Duration::from_mins(1);

/// The state of a deployment at a moment.
#[derive(Debug, Clone, Deserialize)]
struct Deployment {
    metadata: Metadata,
    #[serde(default)]
    status: SiteDeploymentStatus,
}

impl Watched for Deployment {
    fn name(&self) -> &str {
        &self.metadata.name
    }
}

/// The sites, and the watches on them.
struct Field<'a> {
    shape: Shape,
    planes: &'a Planes,
    gateway: &'a Gateway,
    clusters: Watch,
    deployments: Watch<Deployment>,
}

/// The counters when a step began.
struct Counted {
    before: StepStart,
    sides: RequestCounts,
    traffic: Traffic,
}

impl Steps {
    /// Leaves the manager idle without Clusters, creates all Clusters, rolls versions out to them,
    /// and restarts it.
    pub(crate) async fn sites(
        &mut self,
        shape: Shape,
        planes: &Planes,
        gateway: &Gateway,
    ) -> Result<(), Error> {
        self.figures.sites = Some(Sites::new(shape));
        let clusters = Watch::start(
            &self.client,
            format!("/apis/{}/clusters", shipper::API_VERSION),
        );
        let path = format!(
            "/apis/{BATON_API_VERSION}/namespaces/{}/sitedeployments",
            Gateway::NAMESPACE
        );
        // Revisions are not watched here, so that the bytes of their watches are those of the
        // manager alone.
        self.watch = Watch::start(&self.client, path.clone());
        let deployments = Watch::start(&self.client, path);
        let field = &mut Field {
            shape,
            planes,
            gateway,
            clusters,
            deployments,
        };
        self.measure_idle(NONE).await?;
        self.create_clusters(field).await?;
        self.measure_idle(CONNECTED).await?;

        let (all, lost) = (shape.sites, shape.lost().count());
        self.roll_out_version(field, FIRST, 1, Strategy::AllAtOnce, all)
            .await?;
        self.roll_out_version(field, WAVES, 2, Strategy::Waves, all)
            .await?;
        self.roll_out_version(field, AT_ONCE, 3, Strategy::AllAtOnce, all)
            .await?;
        self.lose(field, lost).await?;
        self.roll_out_version(field, OTHERS, 4, Strategy::AllAtOnce, all - lost)
            .await?;
        self.come_back(field, lost).await?;

        self.measure_idle(IDLE).await?;
        self.start_anew(field).await
    }

    /// As [`Steps::finish`], with the steps of the planner.
    pub(crate) async fn finish_with_plans(mut self) -> Result<Figures, Error> {
        self.manager.stop().await?;
        if let Some(sites) = &mut self.figures.sites {
            sites.planned = planner::measure();
        }
        Ok(self.figures)
    }

    /// Leaves the manager idle, and records its memory.
    async fn measure_idle(&mut self, step: &'static str) -> Result<(), Error> {
        let memory = self.leave_idle(step, 0, IDLE_TIME, MEMORY_TIME).await?;
        self.note_memory(step, memory);
        Ok(())
    }

    fn note_memory(&mut self, step: &'static str, memory: Option<f64>) {
        if let Some(sites) = &mut self.figures.sites {
            sites.memory.push((step, memory));
        }
    }

    /// Creates all Clusters, and waits until they are connected.
    async fn create_clusters(&mut self, field: &mut Field<'_>) -> Result<(), Error> {
        let counted = self.count(field).await?;
        let Field {
            gateway, clusters, ..
        } = field;
        let names = field.shape.names();
        let took = self
            .enter_sites(gateway, clusters, names, field.shape.sites)
            .await?;
        self.wait_until_idle("all sites to be connected", POLL_INTERVAL, 0)
            .await?;
        let timing = Timing::of(0, took);
        self.counted(field, CONNECT, field.shape.sites, timing, counted)
            .await
    }

    /// Creates a Cluster for each site of a gateway, and waits until they are connected. Returns the time
    /// that it took.
    pub(super) async fn enter_sites(
        &mut self,
        gateway: &Gateway,
        watch: &mut Watch,
        names: impl Iterator<Item = String>,
        count: usize,
    ) -> Result<Duration, Error> {
        let started = Instant::now();
        let clusters: &Api<Cluster> = &Api::all(self.client.clone());
        let secrets: &Api<Secret> = &Api::namespaced(self.client.clone(), MANAGER_NAMESPACE);
        let ca = gateway.ca();
        let enter = stream::iter(gateway.urls()).map(Ok::<_, kube::Error>);
        let enter = enter.try_for_each_concurrent(MAX_CONCURRENT, async |(name, url)| {
            let (cluster, secret) = site(name, url, ca);
            let params = PostParams::default();
            // The Secret comes first: without it the Cluster would count as lost at first.
            secrets.create(&params, &secret).await?;
            clusters.create(&params, &cluster).await.map(drop)
        });
        let timeout = TIMEOUT + limit(count);
        self.manager
            .until("Clusters to be entered", timeout, enter)
            .await??;
        let end = self.connected(watch, names).await?;
        Ok(end.unwrap_or(started) - started)
    }

    /// Rolls a version out, and waits until this number of sites has it.
    async fn roll_out_version(
        &mut self,
        field: &mut Field<'_>,
        step: &'static str,
        number: u32,
        strategy: Strategy,
        sites: usize,
    ) -> Result<(), Error> {
        let applications: Api<SiteApplication> =
            Api::namespaced(self.client.clone(), Gateway::NAMESPACE);
        let deployments: Api<SiteDeployment> =
            Api::namespaced(self.client.clone(), Gateway::NAMESPACE);
        let application = field.shape.application(&self.figures.shape, number)?;
        if number == 1 {
            applications
                .create(&PostParams::default(), &application)
                .await?;
        } else {
            let strategy = json!({"spec": {"strategy": strategy.spec()}});
            deployments
                .patch(NAME, &PatchParams::default(), &Patch::Merge(strategy))
                .await?;
        }
        self.silent("the strategy to be known", field.shape).await?;
        let counted = self.count(field).await?;
        if number == 1 {
            deployments
                .create(&PostParams::default(), &deployment())
                .await?;
        } else {
            let spec = json!({"spec": application.spec});
            applications
                .patch(NAME, &PatchParams::default(), &Patch::Merge(spec))
                .await?;
        }
        let started = Instant::now();
        let end = self.wait_until_rolled_out(field, number, sites).await?;
        self.silent("the sites to have nothing left to do", field.shape)
            .await?;
        let timing = Timing::of(sites * field.shape.objects_per_site, end - started);
        self.counted(field, step, sites, timing, counted).await
    }

    /// Waits until the deployment reports that this number of sites has a version and nothing is
    /// left to do.
    async fn wait_until_rolled_out(
        &mut self,
        field: &mut Field<'_>,
        number: u32,
        sites: usize,
    ) -> Result<Instant, Error> {
        let version = version(number);
        let mut last = SiteDeploymentStatus::default();
        let mut longest = 0;
        let looking = async {
            while let Some(sight) = field.deployments.next().await {
                let Some(Deployment { status, .. }) = sight.object else {
                    continue;
                };
                longest = longest.max(serde_json::to_vec(&status)?.len());
                last = status;
                if is_complete(&last, &version, sites) {
                    return Ok(sight.at);
                }
            }
            Ok::<_, Error>(Instant::now())
        };
        let timeout = 10 * WAVE + limit(field.shape.objects());
        let met = self
            .manager
            .until("a version to be at all sites", timeout, looking)
            .await;
        if let Some(figures) = &mut self.figures.sites {
            figures.status = figures.status.max(longest);
        }
        match met {
            Ok(at) => at,
            Err(error) => Err(error.with_detail(&serde_json::to_string(&last)?).into()),
        }
    }

    /// Waits until nothing is written any more, except for the periodic status of each Cluster. The
    /// metrics of writes decide, as the manager never becomes calm: it retries offline sites
    /// forever.
    async fn silent(&mut self, what: &str, shape: Shape) -> Result<(), Error> {
        let endpoints = self.manager.endpoints();
        let allowed =
            1 + 2 * u64::try_from(shape.sites).unwrap_or(u64::MAX / 100) * SILENCE.as_secs()
                / REPORT_PERIOD.as_secs();
        let looking = async {
            let mut last = None;
            loop {
                let writes = endpoints.metrics().await?.writes();
                if last.is_some_and(|last| writes - last <= allowed) {
                    return Ok::<_, ManagerError>(());
                }
                last = Some(writes);
                sleep(SILENCE).await;
            }
        };
        let limit = self.limit();
        Ok(self.manager.until(what, limit, looking).await??)
    }

    /// Closes some sites, and waits until they are lost.
    async fn lose(&mut self, field: &mut Field<'_>, lost: usize) -> Result<(), Error> {
        let counted = self.count(field).await?;
        let started = Instant::now();
        field.gateway.open(field.shape.lost(), false);
        let wanted = field
            .shape
            .lost()
            .map(|name| (name, ExpectedState::Lost))
            .collect();
        let timeout = TIMEOUT + limit(lost);
        let met = until_met(
            &mut self.manager,
            &mut field.clusters,
            "sites to be lost",
            wanted,
            timeout,
        )
        .await?;
        self.silent("the loss to be reported", field.shape).await?;
        let end = met.into_values().max().unwrap_or(started);
        self.counted(field, LOST, lost, Timing::of(0, end - started), counted)
            .await
    }

    /// Opens the lost sites, and waits until they have the newest version.
    async fn come_back(&mut self, field: &mut Field<'_>, lost: usize) -> Result<(), Error> {
        let counted = self.count(field).await?;
        let started = Instant::now();
        field.gateway.open(field.shape.lost(), true);
        let end = self
            .wait_until_rolled_out(field, 4, field.shape.sites)
            .await?;
        self.silent(
            "the sites that came back to have nothing left to do",
            field.shape,
        )
        .await?;
        let timing = Timing::of(lost * field.shape.objects_per_site, end - started);
        self.counted(field, BACK, lost, timing, counted).await
    }

    /// Restarts the manager, and waits until it is connected to all sites and calm.
    async fn start_anew(&mut self, field: &mut Field<'_>) -> Result<(), Error> {
        let counted = self.count(field).await?;
        let sites = field.shape.sites;
        // Each revision is reconciled once, and each phase.
        let mut restart = self.start_again(2 * sites).await?;
        self.all_connected(sites, field.planes, &mut restart)
            .await?;
        self.restarted(RESTART, sites, &restart).await?;
        let earlier = (&counted.sides, &counted.traffic);
        self.sites_asked(field, RESTART, sites, earlier).await?;
        let memory = self.least_memory(MEMORY_TIME).await?;
        self.note_memory(RESTART, memory);
        Ok(())
    }

    async fn count(&self, field: &Field<'_>) -> Result<Counted, Error> {
        Ok(Counted {
            sides: self.sides(field.planes).await?,
            traffic: Traffic::read(&self.client).await?,
            before: self.begin().await?,
        })
    }

    /// Ends a step that affects this number of sites.
    async fn counted(
        &mut self,
        field: &Field<'_>,
        step: &'static str,
        sites: usize,
        timing: Timing,
        counted: Counted,
    ) -> Result<(), Error> {
        let Counted {
            before,
            sides,
            traffic,
        } = counted;
        self.end(Step::new(step, sites, timing), before).await?;
        let earlier = (&sides, &traffic);
        self.sites_asked(field, step, sites, earlier).await
    }

    /// Records the requests to API servers since then.
    async fn sites_asked(
        &mut self,
        field: &Field<'_>,
        step: &'static str,
        sites: usize,
        earlier: (&RequestCounts, &Traffic),
    ) -> Result<(), Error> {
        let requests = self.sides(field.planes).await?.since(earlier.0);
        let traffic = Traffic::read(&self.client).await?.since(earlier.1);
        if let Some(figures) = &mut self.figures.sites {
            figures.asked.push(StepRequests {
                step,
                sites,
                sides: requests,
                traffic,
            });
        }
        Ok(())
    }
}

/// True if a rollout is over, and this number of sites has the version.
fn is_complete(status: &SiteDeploymentStatus, version: &str, sites: usize) -> bool {
    let is_over = status
        .conditions
        .iter()
        .any(|it| it.type_ == PROGRESSING && it.reason == Reason::Complete);
    status.version.as_deref() == Some(version)
        && usize::try_from(status.counts.healthy).is_ok_and(|healthy| healthy == sites)
        && is_over
}
