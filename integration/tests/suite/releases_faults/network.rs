//! A cluster that becomes unreachable in each stage of a step, and comes back.

use baton_integration::application::{ALL_IN, TestApplication, VANGUARD, condition, name};
use baton_integration::faults::{Answer, Faults, Gate, Injection, On};
use baton_integration::prelude::*;
use baton_integration::proxy::{Mode, Proxy};
use baton_integration::sites::{PUSH, Site};

use super::watched::Watched;
use super::{APP, PODS};

/// Returns the path of a request, given the names of contender and incumbent.
type Path = fn(&str, &str) -> String;

/// The first request to the cluster in each stage of the second step.
const STAGES: [(&str, Path); 4] = [
    ("the contender's capacity", |contender, _| {
        format!("/deployments/{contender}-")
    }),
    ("the contender's traffic", |contender, _| {
        format!("/pods/{contender}-")
    }),
    ("the incumbent's traffic", |_, incumbent| {
        format!("/pods/{incumbent}-")
    }),
    ("the incumbent's capacity", |_, incumbent| {
        format!("/deployments/{incumbent}-")
    }),
];

/// The network between the hub and the site. It breaks while a request is held back.
struct SiteNetwork {
    proxy: Proxy,
    faults: Faults,
}

impl SiteNetwork {
    /// Waits for the request, and makes the site unreachable before the request arrives.
    async fn cut_at(&self, gate: &Gate, held: &Injection) {
        held.used(1).await;
        self.proxy.set(Mode::Cut).await;
        self.faults.heal();
        gate.open();
    }
}

/// The Release reports that it waits, nothing continues in any cluster, and the rollout continues
/// afterwards.
#[tokio::test]
async fn a_rollout_continues_after_a_cluster_was_cut_off_in_any_stage() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let site = Site::get(PUSH).await;
    let faults = Faults::start(site.endpoint()).await;
    let proxy = Proxy::start(faults.address()).await;
    let url = proxy.url();
    let line = SiteNetwork { proxy, faults };
    let app = TestApplication::through(&ns, APP, &site, &url).await;
    app.apply(app.environment("0.0.1", PODS, ALL_IN)).await;
    app.completed(0).await;
    let watched = Watched::start(&app).await;

    for (generation, (stage, path)) in (1..).zip(STAGES) {
        println!("{stage}");
        let incumbent = app.release(generation - 1).await;
        let version = ["0.0.1", "0.0.2"][usize::try_from(generation % 2).unwrap()];
        app.apply(app.environment(version, PODS, VANGUARD)).await;
        let contender = app.at_step(generation, 0).await;
        let gate = Gate::default();
        let on = On::writes().path(&path(name(&contender), name(&incumbent)));
        let held = line.faults.inject(on, Answer::Held(gate.clone()));
        app.promote(generation, 1).await;
        line.cut_at(&gate, &held).await;
        app.clusters[1].joined.becomes("Connected", "False").await;
        let waiting = app.release(generation).await;
        assert_eq!(waiting["status"]["achievedStep"]["step"], 0, "{stage}");
        watched.assert(PODS as usize).await;
        line.proxy.set(Mode::Pass).await;
        app.at_step(generation, 1).await;
        app.has_pods(&contender, PODS as usize / 2).await;
        app.has_pods(&incumbent, PODS as usize / 2).await;
        app.promote(generation, 2).await;
        app.completed(generation).await;
        app.has_pods(&contender, PODS as usize).await;
        watched.assert(PODS as usize).await;
    }
}

/// A Release that cannot be installed in one of its clusters takes nothing from the previous
/// Release, neither during the wait nor by an abort.
#[tokio::test]
async fn a_release_is_installed_after_a_cluster_was_cut_off() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let site = Site::get(PUSH).await;
    let proxy = Proxy::start(site.address()).await;
    let app = TestApplication::through(&ns, APP, &site, &proxy.url()).await;
    app.apply(app.environment("0.0.1", PODS, ALL_IN)).await;
    let first = app.completed(0).await;
    let watched = Watched::start(&app).await;
    let cut_off = async || {
        proxy.set(Mode::Cut).await;
        app.apply(app.environment("0.0.2", PODS, ALL_IN)).await;
        let waits = "waiting for its installation";
        let cluster = app.clusters[1].joined.name();
        let second = app
            .becomes(1, waits, |release| {
                let strategy = &release["status"]["strategy"];
                strategy["state"]["waitingForInstallation"] == "True"
                    && strategy["conditions"].to_string().contains(cluster)
            })
            .await;
        app.clusters[1].joined.becomes("Connected", "False").await;
        second
    };

    let second = cut_off().await;
    app.delete_release(&second).await;
    ns.object_becomes(&app.entry(), "as before", |application| {
        application["spec"]["template"]["chart"]["version"] == "0.0.1"
            && condition(application, "RollingOut") == "False"
    })
    .await;
    proxy.set(Mode::Pass).await;
    let set = ns.reference(&object("package-operator.run/v1alpha1", "ObjectSet", "any"));
    let labels = format!("shipper-release={}", name(&second));
    ns.eventually("the aborted Release to be gone", async || {
        ns.cluster().list(&set, &labels).await.is_empty()
    })
    .await;
    app.completed(0).await;
    app.has_pods(&first, PODS as usize).await;

    let second = cut_off().await;
    proxy.set(Mode::Pass).await;
    app.completed(1).await;
    app.has_pods(&second, PODS as usize).await;
    watched.assert(PODS as usize).await;
}
