//! One Application in many clusters: its first rollout, one that replaces a Release, idle time, and a
//! restart.

use std::time::Duration;

use baton_apis::constants::shipper;
use kube::api::{ListParams, Patch, PatchParams};
use kube::core::Request;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::{Load, MEMORY_TIME, PASSES, ROLLOUT, SILENCE, Waiting};
use crate::error::Error;
use crate::figures::releases_fleet::{
    CONNECTED, FIRST, IDLE, NONE, RESTART, StepRequests, StoredObject, UPGRADE,
};
use crate::figures::{Step, Timing};
use crate::gateway::Gateway;
use crate::load::releases::fleet::{NAME, ReleasesFleet as Shape};
use crate::load::releases::{FIRST_VERSION, NEXT_VERSION, Strategy, Template};
use crate::sites::Sites as Planes;
use crate::steps::{POLL_INTERVAL, Steps};
use crate::watch::Watch;

/// The additional time that a rollout may take for each cluster.
const EACH: Duration = Duration::from_secs(3);

/// The kinds whose objects list all clusters.
const LISTING: [&str; 4] = [
    "releases",
    "installationtargets",
    "capacitytargets",
    "traffictargets",
];

/// The template of the Application.
pub(crate) fn template(shape: Shape, repository: &str, version: &'static str) -> Template {
    Template {
        repository: repository.to_owned(),
        strategy: Strategy::ThreeSteps,
        pods: shape.pods_per_cluster,
        version,
        clusters: shape.release_clusters,
    }
}

impl Steps {
    /// Creates the Clusters, rolls an Application out over all of them in three steps, rolls out the next
    /// version of its chart, leaves the manager idle, and restarts it.
    pub(crate) async fn releases_fleet(
        &mut self,
        shape: Shape,
        (planes, gateway): (&Planes, &Gateway),
        repository: &str,
    ) -> Result<(), Error> {
        self.measure_memory(NONE).await?;
        let path = format!("/apis/{}/clusters", shipper::API_VERSION);
        let mut clusters = Watch::start(&self.client, path);
        self.enter_sites(
            gateway,
            &mut clusters,
            shape.names(),
            shape.release_clusters,
        )
        .await?;
        drop(clusters);
        self.wait_until_idle("all clusters to be connected", POLL_INTERVAL, 0)
            .await?;
        self.measure_memory(CONNECTED).await?;

        let load = &mut Load {
            releases: Watch::start(&self.client, self.target.shipper("releases")),
            target: self.target.clone(),
            repository: repository.to_owned(),
        };
        let names = [NAME.to_owned()];
        let first = template(shape, repository, FIRST_VERSION);
        let (target, body) = (load.target.clone(), first.application(NAME));
        let create = async move {
            let path = target.shipper("applications");
            target.post::<IgnoredAny>(&path, &body).await.map(drop)
        };
        let waiting = Waiting::new(&names);
        let released = self
            .roll_out_over(FIRST, planes, load, waiting, shape, create)
            .await?;

        let next = template(shape, repository, NEXT_VERSION).environment(NAME);
        let target = load.target.clone();
        let edit = async move {
            let template: Value = json!({"spec": {"template": next}});
            let request = Request::new(target.shipper("applications"));
            let request = request.patch(NAME, &PatchParams::default(), &Patch::Merge(template));
            target.send::<IgnoredAny>(request).await.map(drop)
        };
        let waiting = Waiting::after(&names, released);
        self.roll_out_over(UPGRADE, planes, load, waiting, shape, edit)
            .await?;
        self.read_stored().await?;

        self.measure_memory(IDLE).await?;
        let mut restart = self.start_again(PASSES).await?;
        self.all_connected(shape.release_clusters, planes, &mut restart)
            .await?;
        self.restarted(RESTART, 1, &restart).await
    }

    /// Rolls out a Release that `begin` causes. Returns its name.
    async fn roll_out_over(
        &mut self,
        step: &'static str,
        planes: &Planes,
        load: &mut Load,
        waiting: Waiting,
        shape: Shape,
        begin: impl Future<Output = kube::Result<()>>,
    ) -> Result<Option<String>, Error> {
        let earlier = self.sides(planes).await?;
        let before = self.begin().await?;
        let clusters = u32::try_from(shape.release_clusters).unwrap_or(u32::MAX);
        let limit = ROLLOUT + EACH.saturating_mul(clusters);
        let rollout = self.follow(load, waiting, begin, limit).await?.pop();
        self.wait_until_idle("the manager to settle", POLL_INTERVAL, 0)
            .await?;
        let took = rollout.as_ref().map_or(Duration::ZERO, |(_, took)| *took);
        self.end(Step::new(step, 1, Timing::of(0, took)), before)
            .await?;
        let sides = self.sides(planes).await?.since(&earlier);
        if let Some(figures) = &mut self.figures.releases_fleet {
            figures.asked.push(StepRequests { step, sides });
        }
        Ok(rollout.map(|(release, _)| release))
    }

    /// Leaves the manager idle, and records its memory.
    async fn measure_memory(&mut self, step: &'static str) -> Result<(), Error> {
        let memory = self.leave_idle(step, 0, SILENCE, MEMORY_TIME).await?;
        if let Some(figures) = &mut self.figures.releases_fleet {
            figures.memory.push((step, memory));
        }
        Ok(())
    }

    /// Records the size of the largest object of each kind that lists all clusters.
    async fn read_stored(&mut self) -> Result<(), Error> {
        for kind in LISTING {
            let path = self.target.shipper(kind);
            let request = Request::new(path).list(&ListParams::default());
            let list: Value = self.target.send(request).await?;
            let sizes = list["items"].as_array().into_iter().flatten();
            let bytes = sizes.map(|object| object.to_string().len()).max();
            if let Some(figures) = &mut self.figures.releases_fleet {
                let bytes = bytes.unwrap_or_default();
                figures.stored.push(StoredObject { kind, bytes });
            }
        }
        Ok(())
    }
}
