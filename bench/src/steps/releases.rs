//! Releases: one after the other, many at once, idle time, and a restart.

pub(crate) mod fleet;
mod profile;
mod release;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use baton_apis::constants::shipper;
use futures::TryStreamExt as _;
use futures::stream::FuturesUnordered;
use kube::api::{Patch, PatchParams};
use kube::core::Request;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokio::time::Instant;

use self::profile::Profiler;
use self::release::Release;
use super::{POLL_INTERVAL, Steps};
use crate::bare;
use crate::error::Error;
use crate::figures::releases::{FILL, FIRST, IDLE, Profile, RESTART, StepRequests, at_once, lone};
use crate::figures::{Step, Timing};
use crate::load::releases::{FIRST_VERSION, Releases as Shape, Strategy, Template, names};
use crate::served::Served;
use crate::target::Target;
use crate::watch::{ObjectEvent, Watch};

/// The time for which the manager is left idle.
const SILENCE: Duration = Duration::from_secs(30);

/// The time for which the memory of a calm manager is read: twice the time in which its allocator
/// returns the memory of a burst.
const MEMORY_TIME: Duration = Duration::from_secs(2);

/// The time that a rollout may take, and the additional time for each of many.
const ROLLOUT: Duration = Duration::from_mins(1);
const EACH: Duration = Duration::from_secs(2);

/// Minimum number of passes per Application after a restart: over the Application, its Release, its
/// targets and its revision.
const PASSES: usize = 6;

/// The name of the Cluster.
pub(crate) const CLUSTER: &str = "hub";

/// A namespace with Applications.
struct Load {
    target: Target,
    releases: Watch<Release>,
    repository: String,
}

impl Load {
    fn template(&self, strategy: Strategy, pods: usize) -> Template {
        Template {
            repository: self.repository.clone(),
            strategy,
            pods,
            version: FIRST_VERSION,
            clusters: 1,
        }
    }
}

impl Steps {
    /// The bare measurement of Releases, before the manager is started or after it has ended.
    pub(crate) async fn bare_releases(&mut self) -> Result<(), Error> {
        let Some(releases) = &mut self.figures.releases else {
            return Ok(());
        };
        let bare = bare::releases::measure(&self.client, &self.servers, &releases.shape, 2).await?;
        releases.bare.extend(bare);
        Ok(())
    }

    /// Rolls Applications out one after the other and concurrently, in one step and in three;
    /// creates the idle ones, leaves the manager idle, and restarts it.
    pub(crate) async fn releases(&mut self, shape: Shape, repository: String) -> Result<(), Error> {
        let path = format!("/apis/{}/clusters", shipper::API_VERSION);
        let mut clusters = Watch::start(&self.client, path);
        let cluster = [CLUSTER.to_owned()].into_iter();
        self.connected(&mut clusters, cluster).await?;
        drop(clusters);
        let target = Target::create(&self.client, "bench-releases").await?;
        let mut load = Load {
            releases: Watch::start(&self.client, target.shipper("releases")),
            target,
            repository,
        };
        let template = load.template(Strategy::AllIn, shape.pods);
        self.one_by_one(FIRST, &mut load, &template, &names("first", 1))
            .await?;
        for (strategy, base, lone_base) in [
            (Strategy::AllIn, "all-in", "lone-all-in"),
            (Strategy::ThreeSteps, "steps", "lone-steps"),
        ] {
            let template = load.template(strategy, shape.pods);
            let lone_names = names(lone_base, shape.lone_applications);
            self.one_by_one(lone(strategy), &mut load, &template, &lone_names)
                .await?;
            self.profile(&mut load, &template).await?;
            let names = names(base, shape.applications);
            self.side_by_side(at_once(strategy), &mut load, &template, &names)
                .await?;
        }
        if shape.idle_applications > 0 {
            let template = load.template(Strategy::AllIn, 1);
            let names = names("idle", shape.idle_applications);
            self.side_by_side(FILL, &mut load, &template, &names)
                .await?;
        }
        let all: usize = {
            let steps = self.figures.steps.iter();
            let profiles = 2;
            steps.map(|step| step.sets).sum::<usize>() + profiles
        };
        let memory = self.leave_idle(IDLE, all, SILENCE, MEMORY_TIME).await?;
        if let Some(memory) = memory {
            eprintln!("bench: {IDLE}: {memory:.2} MiB with {all} Applications");
        }
        let restart = self.start_again(PASSES * all).await?;
        self.restarted(RESTART, all, &restart).await
    }

    /// Rolls Applications out, each after the one before is complete and the manager is calm.
    async fn one_by_one(
        &mut self,
        step: &'static str,
        load: &mut Load,
        template: &Template,
        names: &[String],
    ) -> Result<(), Error> {
        let earlier = Served::read(&self.client).await?;
        let before = self.begin().await?;
        let mut latencies = Vec::new();
        for name in names {
            let took = self.complete(load, template, std::slice::from_ref(name));
            latencies.extend(took.await?);
            self.wait_until_idle("the manager to settle", POLL_INTERVAL, 0)
                .await?;
        }
        let timing = Timing::of(0, latencies.iter().sum());
        let figures = Step::new(step, names.len(), timing).with_latencies(latencies);
        self.end(figures, before).await?;
        self.record_requests(step, template, names, &earlier).await
    }

    /// Rolls Applications out concurrently.
    async fn side_by_side(
        &mut self,
        step: &'static str,
        load: &mut Load,
        template: &Template,
        names: &[String],
    ) -> Result<(), Error> {
        let earlier = Served::read(&self.client).await?;
        let before = self.begin().await?;
        let latencies = self.complete(load, template, names).await?;
        self.wait_until_idle("the manager to settle", POLL_INTERVAL, 0)
            .await?;
        let longest = latencies.iter().max().copied().unwrap_or_default();
        let figures = Step::new(step, names.len(), Timing::of(0, longest));
        self.end(figures.with_latencies(latencies), before).await?;
        self.record_requests(step, template, names, &earlier).await
    }

    /// Records the requests of a step without those of the bench.
    async fn record_requests(
        &mut self,
        step: &'static str,
        template: &Template,
        names: &[String],
        earlier: &Served,
    ) -> Result<(), Error> {
        let count = |number: usize| u64::try_from(number).unwrap_or_default();
        let promotions = template.strategy.promotions() * names.len();
        let served = Served::read(&self.client).await?.since(earlier);
        let served = served
            .without("applications", "POST", count(names.len()))
            .without("releases", "PATCH", count(promotions));
        if let Some(releases) = &mut self.figures.releases {
            releases.asked.push(StepRequests { step, served });
        }
        Ok(())
    }

    /// Creates Applications concurrently, and sends each Release to its next step as soon as it
    /// waits for a command. Returns the time of each until it was complete, since the first was
    /// sent.
    async fn complete(
        &mut self,
        load: &mut Load,
        template: &Template,
        names: &[String],
    ) -> Result<Vec<Duration>, Error> {
        let bodies = template.bodies(names);
        let target = load.target.clone();
        let create = async move {
            let applications = target.shipper("applications");
            target.create_all(applications, &bodies).await.map(drop)
        };
        let each = EACH.saturating_mul(u32::try_from(names.len()).unwrap_or(u32::MAX));
        let rollouts = self.follow(load, Waiting::new(names), create, ROLLOUT + each);
        let complete = rollouts.await?.into_iter();
        Ok(complete.map(|(_, took)| took).collect())
    }

    /// Starts the rollouts that `begin` causes, and sends each Release to its next step as soon as it
    /// waits for a command. Returns the name of each Release, and the time until it was complete, since
    /// the start.
    async fn follow(
        &mut self,
        load: &mut Load,
        mut waiting: Waiting,
        begin: impl Future<Output = kube::Result<()>>,
        limit: Duration,
    ) -> Result<Vec<(String, Duration)>, Error> {
        let Load {
            target, releases, ..
        } = load;
        let started = Instant::now();
        let follow = async {
            let mut promotions = FuturesUnordered::new();
            while !waiting.is_over() {
                tokio::select! {
                    Some(sight) = releases.next() => {
                        if let Some((release, step)) = waiting.take(sight) {
                            promotions.push(promote(target, release, step));
                        }
                    }
                    promoted = promotions.try_next(), if !promotions.is_empty() => {
                        promoted?;
                    }
                }
            }
            Ok::<_, kube::Error>(())
        };
        let rollouts = async { tokio::try_join!(begin, follow).map(drop) };
        let what = "Applications to be rolled out";
        match self.manager.until(what, limit, rollouts).await {
            Ok(done) => done?,
            Err(error) => return Err(error.with_detail(&waiting.describe()).into()),
        }
        let complete = waiting.complete.into_iter();
        Ok(complete.map(|(name, at)| (name, at - started)).collect())
    }

    /// Rolls out one more Application, and records the events of its objects.
    async fn profile(&mut self, load: &mut Load, template: &Template) -> Result<(), Error> {
        let step = lone(template.strategy);
        let slug = match template.strategy {
            Strategy::AllIn => "profile-all-in",
            Strategy::ThreeSteps => "profile-steps",
        };
        let mut profiler = Profiler::start(&self.client, &load.target).await;
        let started = Instant::now();
        self.complete(load, template, &[slug.to_owned()]).await?;
        // Later events are part of the rollout as well.
        self.wait_until_idle("the manager to settle", POLL_INTERVAL, 0)
            .await?;
        let moments = profiler.moments(slug, started);
        if let Some(releases) = &mut self.figures.releases {
            releases.profiles.push(Profile { step, moments });
        }
        Ok(())
    }
}

async fn promote(target: &Target, release: String, step: i64) -> kube::Result<()> {
    let patch: Value = json!({"spec": {"targetStep": step}});
    let request = Request::new(target.shipper("releases"));
    let request = request.patch(&release, &PatchParams::default(), &Patch::Merge(patch));
    target.send::<IgnoredAny>(request).await.map(drop)
}

/// The Applications whose rollout is not complete.
struct Waiting {
    /// By Application, the last observed state of its Release, and the step that it was sent to.
    open: BTreeMap<String, (String, i64)>,
    all: usize,
    /// The names of the Releases of earlier rollouts.
    earlier: BTreeSet<String>,
    /// The names of the complete Releases, and when they were.
    complete: Vec<(String, Instant)>,
}

impl Waiting {
    fn new(names: &[String]) -> Self {
        let unseen = |name: &String| (name.clone(), ("no Release".to_owned(), 0));
        Self {
            open: names.iter().map(unseen).collect(),
            all: names.len(),
            earlier: BTreeSet::new(),
            complete: vec![],
        }
    }

    /// As [`Waiting::new`], for Applications with Releases of earlier rollouts.
    fn after(names: &[String], earlier: impl IntoIterator<Item = String>) -> Self {
        Self {
            earlier: earlier.into_iter().collect(),
            ..Self::new(names)
        }
    }

    fn is_over(&self) -> bool {
        self.open.is_empty()
    }

    /// Records an event of a Release. Returns the step that the Release is to be sent to, if it
    /// waits for that.
    fn take(&mut self, sight: ObjectEvent<Release>) -> Option<(String, i64)> {
        let release = sight
            .object
            .filter(|_| !self.earlier.contains(&sight.name))?;
        let application = release.application();
        let (last, sent) = self.open.get_mut(application)?;
        if release.is_complete() {
            self.open.remove(application);
            self.complete.push((sight.name, sight.at));
            return None;
        }
        *last = release.describe();
        let next = release.waits_at()? + 1;
        (next > *sent).then(|| {
            *sent = next;
            (sight.name, next)
        })
    }

    fn describe(&self) -> String {
        let some = self.open.iter().take(3);
        let some: Vec<String> = some
            .map(|(name, (last, _))| format!("{name}: {last}"))
            .collect();
        let missing = self.open.len();
        format!("{missing} of {} missing: {}", self.all, some.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sight(application: &str, status: &Value) -> ObjectEvent<Release> {
        let name = format!("{application}-1-0");
        let release = json!({
            "metadata": {"name": name, "labels": {"shipper-app": application}},
            "spec": {"targetStep": 0},
            "status": status,
        });
        ObjectEvent {
            name,
            at: Instant::now(),
            object: Some(serde_json::from_value(release).unwrap()),
        }
    }

    #[test]
    fn releases_of_earlier_rollouts_do_not_count() {
        let complete = json!({"conditions": [{"type": "Complete", "status": "True"}]});
        let names = ["a".to_owned()];
        let mut waiting = Waiting::after(&names, ["a-1-0".to_owned()]);
        assert_eq!(waiting.take(sight("a", &complete)), None);
        assert!(!waiting.is_over());
        let mut waiting = Waiting::after(&names, ["a-0-0".to_owned()]);
        assert_eq!(waiting.take(sight("a", &complete)), None);
        assert!(waiting.is_over());
    }

    #[test]
    fn a_waiting_release_is_promoted_once() {
        let mut waiting = Waiting::new(&["a".to_owned(), "b".to_owned()]);
        let command = json!({
            "achievedStep": {"step": 0, "name": "staging"},
            "strategy": {"state": {"waitingForCommand": "True"}},
        });
        assert_eq!(waiting.take(sight("a", &json!({}))), None);
        assert_eq!(waiting.take(sight("stranger", &command)), None);
        let next = Some(("a-1-0".to_owned(), 1));
        assert_eq!(waiting.take(sight("a", &command)), next);
        assert_eq!(waiting.take(sight("a", &command)), None);
        let text = waiting.describe();
        assert!(text.starts_with("2 of 2 missing: a: "), "{text}");
        let complete = json!({"conditions": [{"type": "Complete", "status": "True"}]});
        assert_eq!(waiting.take(sight("a", &complete)), None);
        assert_eq!(waiting.take(sight("b", &complete)), None);
        assert!(waiting.is_over());
        assert_eq!(waiting.complete.len(), 2);
    }
}
