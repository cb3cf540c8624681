//! A fleet: connections, silence, delivery, and a restart.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use baton_apis::constants::CLUSTER_API_VERSION;
use serde::Deserialize;
use tokio::time::{Instant, sleep};

use super::{LOOK, Steps, Wanted, limit};
use crate::bench::Error;
use crate::bench::figures::Timing;
use crate::bench::figures::fleet::{CONNECT, CREATE, Fleet, IDLE_ALL, IDLE_FEW, RESTART, Sides};
use crate::bench::load::fleet::Fleet as Shape;
use crate::bench::process::usage;
use crate::bench::served::Served;
use crate::bench::sites::Sites;
use crate::bench::watch::{Item, Watch};

/// How long the manager is left alone: every cluster is checked once at least, which is about every
/// half minute.
const IDLE: Duration = Duration::from_secs(40);

/// How long the memory of the manager is looked at then. The least counts: what is needed to answer
/// a check is given back within a second.
const MEMORY_LOOKS: Duration = Duration::from_secs(5);

/// How long a Cluster object may take to be connected, beyond the time for as many objects.
const CONNECTED: Duration = Duration::from_mins(1);

/// What is read of a Cluster object.
#[derive(Clone, Deserialize)]
struct Cluster {
    metadata: Meta,
    #[serde(default)]
    status: Status,
}

#[derive(Clone, Deserialize)]
struct Meta {
    name: String,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct Status {
    conditions: Vec<Condition>,
}

#[derive(Clone, Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
    reason: String,
    #[serde(default)]
    message: String,
}

impl Item for Cluster {
    /// Nothing when it is connected, and else why it is not.
    type State = Option<String>;

    fn name(&self) -> &str {
        &self.metadata.name
    }

    fn state(&self) -> Option<String> {
        let mut conditions = self.status.conditions.iter();
        match conditions.find(|condition| condition.type_ == "Connected") {
            Some(condition) if condition.status == "True" => None,
            Some(condition) => Some(format!("{}: {}", condition.reason, condition.message)),
            None => Some("nothing is said of it yet".to_owned()),
        }
    }
}

impl Steps {
    /// Leaves the manager alone with one Cluster object for each cluster, which were joined before it
    /// was started; enters the other ones and leaves it alone again; delivers into all clusters; and starts
    /// it anew.
    ///
    /// # Errors
    ///
    /// When something of that fails or takes too long.
    pub async fn fleet(&mut self, shape: Shape, sites: &Sites) -> Result<(), Error> {
        let path = format!("/apis/{CLUSTER_API_VERSION}/clusters");
        let mut clusters = Watch::<Cluster>::start(&self.client, path);
        self.connected(&mut clusters, shape.used().collect())
            .await?;
        self.calm("the first clusters to be connected", LOOK, 0)
            .await?;
        let few = self.quiet(IDLE_FEW, shape.clusters).await?;

        self.connect(shape, sites, &mut clusters).await?;
        let earlier = self.sides(sites).await?;
        let all = self.quiet(IDLE_ALL, shape.objects()).await?;
        let idle = self.sides(sites).await?.since(&earlier);

        sites.namespace("bench").await?;
        self.bare_sites(sites).await?;
        let create = self.deliver(shape, sites).await?;
        self.bare_sites(sites).await?;

        let (restart, ready) = self.restart_fleet(shape, sites).await?;
        let restarted = self.least_memory().await?;
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

    /// Enters the further Cluster objects, until all are connected.
    async fn connect(
        &mut self,
        shape: Shape,
        sites: &Sites,
        clusters: &mut Watch<Cluster>,
    ) -> Result<(), Error> {
        let before = self.begin().await?;
        let started = Instant::now();
        let enter = sites.enter_further(&self.client);
        let limit = CONNECTED + limit(shape.objects());
        self.manager
            .until("Cluster objects to be entered", limit, enter)
            .await??;
        let names = shape.further().map(|(name, _)| name).collect();
        let end = self.connected(clusters, names).await?;
        self.calm("all clusters to be connected", LOOK, 0).await?;
        let timing = Timing::of(0, end.unwrap_or(started) - started);
        self.record(CONNECT, 0, timing).end(before).await
    }

    /// Waits until these Cluster objects say that they are connected, and returns when the last one
    /// did.
    async fn connected(
        &mut self,
        clusters: &mut Watch<Cluster>,
        names: BTreeSet<String>,
    ) -> Result<Option<Instant>, Error> {
        let limit = CONNECTED + limit(names.len());
        let all = names.len();
        let no_word = || "not seen yet".to_owned();
        let mut waiting: BTreeMap<String, String> =
            names.into_iter().map(|name| (name, no_word())).collect();
        let mut end = None;
        let looking = async {
            while !waiting.is_empty() {
                let Some(sight) = clusters.next().await else {
                    return;
                };
                let is_new = match sight.state {
                    Some(None) => waiting.remove(&sight.name).is_some(),
                    Some(Some(why)) => {
                        waiting.entry(sight.name).and_modify(|told| *told = why);
                        false
                    }
                    None => false,
                };
                if is_new {
                    end = Some(sight.at);
                }
            }
        };
        let what = "clusters to be connected";
        let looked = self.manager.until(what, limit, looking).await;
        looked.map_err(|error| {
            let some = waiting.iter().take(3);
            let some: Vec<String> = some.map(|(name, why)| format!("{name}: {why}")).collect();
            let missing = format!("{} of {all} missing: {}", waiting.len(), some.join("; "));
            error.with_detail(&missing)
        })?;
        Ok(end)
    }

    /// Leaves the manager alone, and returns the least memory that it had at last.
    async fn quiet(&mut self, step: &'static str, clusters: usize) -> Result<Option<f64>, Error> {
        let before = self.begin().await?;
        let started = Instant::now();
        let pause = IDLE.saturating_sub(MEMORY_LOOKS);
        let limit = IDLE + Duration::from_secs(5);
        self.manager
            .until("the idle time to end", limit, sleep(pause))
            .await?;
        let memory = self.least_memory().await?;
        self.record(step, 0, Timing::of(0, started.elapsed()))
            .end(before)
            .await?;
        if let Some(memory) = memory {
            super::say(&format!("{step}: {memory:.2} MiB with {clusters} Clusters"));
        }
        Ok(memory)
    }

    async fn least_memory(&mut self) -> Result<Option<f64>, Error> {
        let pid = self.manager.pid();
        let limit = MEMORY_LOOKS + Duration::from_secs(5);
        let looks = async {
            let started = Instant::now();
            let mut least: Option<f64> = None;
            while started.elapsed() < MEMORY_LOOKS {
                if let Some(usage) = usage(pid) {
                    least = Some(least.map_or(usage.rss, |least| least.min(usage.rss)));
                }
                sleep(LOOK).await;
            }
            least
        };
        let what = "the manager's memory to be looked at";
        Ok(self.manager.until(what, limit, looks).await?)
    }

    async fn bare_sites(&mut self, sites: &Sites) -> Result<(), Error> {
        let round = self.figures.bare.len() + 1;
        let timing = sites.bare(&self.shape, round).await?;
        super::say(&format!(
            "bare {round}, all clusters: {:.2} s, {:.0} objects/s",
            timing.seconds, timing.rate
        ));
        self.figures.bare.push(timing);
        Ok(())
    }

    /// Creates the sets of all clusters side by side, until all are available. Returns the requests,
    /// without those of the bench.
    async fn deliver(&mut self, shape: Shape, sites: &Sites) -> Result<Sides, Error> {
        let sets = shape.sets(&self.shape);
        let wanted = self.names(1).map(|name| (name, Wanted::Available));
        let wanted = wanted.collect();
        let own = u64::try_from(sets.len()).unwrap_or_default();
        let earlier = self.sides(sites).await?;
        self.roll_out(CREATE, sets, wanted).await?;
        let Sides { hub, clusters } = self.sides(sites).await?.since(&earlier);
        Ok(Sides {
            hub: hub.without("objectsets", "POST", own),
            clusters,
        })
    }

    /// Starts the manager anew, until it is connected to all clusters and has nothing to do any more.
    /// Returns the requests, and how long it took to be ready.
    async fn restart_fleet(
        &mut self,
        shape: Shape,
        sites: &Sites,
    ) -> Result<(Sides, Duration), Error> {
        let earlier = self.sides(sites).await?;
        let sets = self.shape.sets;
        // Each revision has to be looked at, and each of its phase objects.
        let mut again = self.start_again(sets * (1 + self.shape.phases)).await?;
        let objects = u64::try_from(shape.objects()).unwrap_or(u64::MAX);
        let mut connected = 0;
        let limit = CONNECTED + limit(shape.objects());
        // The statuses are as they were, so they do not tell when each cluster is back. Mostly they
        // all are by now.
        let looking = async {
            let mut looks = 0;
            loop {
                connected = sites.connected().await?;
                if connected >= objects {
                    return Ok::<_, Error>(looks);
                }
                looks += 1;
                sleep(LOOK).await;
            }
        };
        let what = "the restarted manager to be connected to all clusters";
        match self.manager.until(what, limit, looking).await {
            Ok(looks) => {
                if looks? > 0 {
                    again.settled = Instant::now();
                }
            }
            Err(error) => {
                let detail = format!("{connected} of {objects} connected");
                return Err(error.with_detail(&detail).into());
            }
        }
        let ready = again.ready;
        self.restarted(RESTART, sets, again).await?;
        Ok((self.sides(sites).await?.since(&earlier), ready))
    }

    async fn sides(&self, sites: &Sites) -> Result<Sides, Error> {
        Ok(Sides {
            hub: Served::read(&self.client).await?,
            clusters: sites.served().await?,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_cluster_tells_why_it_is_not_connected() {
        let state = |status: serde_json::Value| {
            let object = json!({"metadata": {"name": "site-001"}, "spec": {}, "status": status});
            let cluster: Cluster = serde_json::from_value(object).unwrap();
            assert_eq!(cluster.name(), "site-001");
            cluster.state()
        };
        let connected = |status: &str, reason: &str, message: &str| {
            json!({"conditions": [
                {"type": "Audited", "status": "True", "reason": "Yes", "message": ""},
                {"type": "Connected", "status": status, "reason": reason, "message": message},
            ]})
        };
        assert_eq!(state(connected("True", "Connected", "")), None);
        assert_eq!(
            state(connected("False", "Unreachable", "refused")).unwrap(),
            "Unreachable: refused"
        );
        assert_eq!(state(json!({})).unwrap(), "nothing is said of it yet");
    }
}
