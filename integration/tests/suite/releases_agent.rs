//! Releases in a cluster with an agent.

use std::time::Instant;

use baton_integration::agent::Agent;
use baton_integration::application::{ALL_IN, TestApplication, VANGUARD, name};
use baton_integration::faults::{Answer, Faults, On};
use baton_integration::prelude::*;
use baton_integration::proxy::{Mode, Proxy};
use baton_integration::sites::{PUSH, Site};

/// An Application in the hub and in a site with an agent, which has completed its first Release.
struct World<'a> {
    app: TestApplication<'a>,
    agent: Agent,
    /// The line of the agent to the hub.
    line: Proxy,
    /// The line of the agent to its cluster.
    site: Faults,
}

impl<'a> World<'a> {
    async fn new(ns: &'a TestNamespace) -> Self {
        let site = Site::get(PUSH).await;
        let app = TestApplication::with_agent(ns, "web", &site).await;
        let joined = &app.clusters[1].joined;
        let hub = joined.hub_endpoint();
        let line = Proxy::start(hub.address).await;
        let faults = Faults::start(site.endpoint()).await;
        let agent = joined.agent().hub(&hub.at(line.address()));
        let agent = agent.site(faults.endpoint()).start().await;
        joined.becomes("Connected", "True").await;
        app.apply(app.environment("0.0.1", 4, ALL_IN)).await;
        app.completed(0).await;
        Self {
            app,
            agent,
            line,
            site: faults,
        }
    }

    /// Waits until the Releases have these numbers of ready pods in the site.
    async fn site_has(&self, wanted: [usize; 2]) {
        let text = format!("{wanted:?} pods in the site");
        self.app
            .ns
            .eventually(&text, async || self.in_site().await == wanted)
            .await;
    }

    /// The ready pods of the first two Releases in the site.
    async fn in_site(&self) -> [usize; 2] {
        let mut found = [0, 0];
        for (generation, found) in (0..).zip(&mut found) {
            let release = self.app.release(generation).await;
            *found = self.app.ready_pods(&release).await[1];
        }
        found
    }

    /// Waits until the agent has received a text.
    async fn has_received(&self, text: &str) {
        let received = async || std::fs::read_to_string(self.agent.state()).unwrap();
        let has_it = async || received().await.contains(text);
        self.app
            .ns
            .eventually("the agent to be asked", has_it)
            .await;
    }
}

#[tokio::test]
async fn an_agent_takes_a_release_through_all_steps_and_back() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let world = World::new(&ns).await;
    let app = &world.app;
    let first = app.release(0).await;
    app.has_pods(&first, 4).await;
    app.apply(app.environment("0.0.2", 4, VANGUARD)).await;
    app.at_step(1, 0).await;
    for (step, pods) in [(0, [4, 1]), (1, [2, 2]), (0, [4, 1]), (2, [0, 4])] {
        app.promote(1, step).await;
        if step == 2 {
            app.completed(1).await;
        } else {
            app.at_step(1, step).await;
        }
        assert_eq!(world.in_site().await, pods, "step {step}");
        assert_eq!(app.addresses().await[1], 4, "step {step}");
    }
    // Nothing is left of an Application that is deleted.
    let rollouts = async || {
        let phase = object("package-operator.run/v1alpha1", "ObjectSetPhase", "any");
        let mut like = ns.reference(&phase);
        let namespace = format!("baton-cluster-{}", app.clusters[1].joined.name());
        like["metadata"]["namespace"] = namespace.into();
        let objects = ns.cluster().list(&like, "").await;
        let is_rollout =
            |it: &&Value| it["metadata"]["annotations"]["baton.run/rollout"].is_string();
        objects.iter().filter(is_rollout).count()
    };
    assert_eq!(rollouts().await, 1);
    ns.delete(&app.entry()).await;
    ns.eventually("the rollout to end", async || rollouts().await == 0)
        .await;
    ns.eventually("the pods to be gone", async || {
        let pods = app.in_clusters("v1", "Pod", "shipper-app=web").await;
        pods.iter().all(Vec::is_empty)
    })
    .await;
}

/// The agent completes the step that the hub has released, over a restart, and goes no further. When
/// the hub is back, the rollout continues.
#[tokio::test]
async fn a_released_step_is_completed_without_the_hub_and_not_passed() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let mut world = World::new(&ns).await;
    world
        .app
        .apply(world.app.environment("0.0.2", 4, VANGUARD))
        .await;
    world.app.at_step(1, 0).await;
    assert_eq!(world.in_site().await, [4, 1]);
    // The agent can write nothing in its cluster until the hub is away.
    world.site.inject(On::writes(), Answer::unavailable());
    world.app.promote(1, 1).await;
    world.has_received("\\\"contender\\\":50").await;
    world.line.set(Mode::Cut).await;
    let joined = &world.app.clusters[1].joined;
    joined.becomes("Connected", "False").await;
    world.agent.kill();
    world.site.heal();
    world.agent.start();
    world.site_has([2, 2]).await;
    world.app.promote(1, 2).await;
    ns.stays(Duration::from_secs(3), "the step", async || {
        world.in_site().await == [2, 2] && world.app.addresses().await[1] == 4
    })
    .await;
    world.line.set(Mode::Pass).await;
    world.app.completed(1).await;
    assert_eq!(world.in_site().await, [0, 4]);
}

/// By default a step waits for a cluster that is offline.
#[tokio::test]
async fn an_offline_cluster_stops_a_step_unless_it_is_ignored() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let mut world = World::new(&ns).await;
    world.agent.kill();
    let joined = &world.app.clusters[1].joined;
    joined.becomes("Connected", "False").await;
    world
        .app
        .apply(world.app.environment("0.0.2", 4, ALL_IN))
        .await;
    let is_installing = |release: &Value| {
        release["status"]["strategy"]["state"]["waitingForInstallation"] == "True"
    };
    world.app.becomes(1, "waiting", is_installing).await;
    let mut ignoring = world.app.environment("0.0.2", 4, ALL_IN);
    ignoring["strategy"]["offlineClusters"] = "Ignore".into();
    world.app.apply(ignoring).await;
    let release = world.app.completed(2).await;
    assert_eq!(world.app.ready_pods(&release).await, [4, 0]);
    world.agent.start();
    world.app.has_pods(&release, 4).await;
    let first = world.app.release(0).await;
    world.app.has_pods(&first, 0).await;
    let target = TestApplication::kind("CapacityTarget", name(&release));
    ns.eventually("the cluster to catch up", async || {
        let clusters = ns.live(&target).await["status"]["clusters"].take();
        let clusters = clusters.as_array().unwrap();
        clusters.iter().all(|it| it["availableReplicas"] == 4)
    })
    .await;
}

/// A restarted agent continues with the shares that it has stored.
#[tokio::test]
async fn no_capacity_is_lost_by_kills_of_the_agent() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let mut world = World::new(&ns).await;
    let environment = world.app.environment("0.0.2", 4, VANGUARD);
    world.app.apply(environment).await;
    world.app.at_step(1, 0).await;
    for (step, wanted) in [(1, [2, 2]), (2, [0, 4])] {
        world.app.promote(1, step).await;
        for life in (100..1_500).step_by(200).cycle() {
            let end = Instant::now() + Duration::from_millis(life);
            while Instant::now() < end {
                let served = world.app.addresses().await[1];
                assert!(served >= 4, "{served} pods serve");
            }
            if world.in_site().await == wanted {
                break;
            }
            world.agent.kill();
            world.agent.start();
        }
    }
    world.app.completed(1).await;
}
