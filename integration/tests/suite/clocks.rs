//! The time of day of the manager jumps while it runs.

use baton_integration::application::{ALL_IN, TestApplication};
use baton_integration::clock::ShiftedClock;
use baton_integration::exclusive::Exclusive;
use baton_integration::prelude::*;
use baton_integration::sites::{PUSH, Site};

/// One hour in seconds.
const HOUR: i64 = 3600;

/// The longest time until a manager looks at its clock, plus that of the passes.
const LOOK: Duration = Duration::from_secs(40);

/// The success delay of a revision, in seconds.
const DELAY: u64 = 30;

/// Returns a bed whose manager has a clock of the test.
async fn shifted() -> (ShiftedClock, Exclusive) {
    let mut bed = Exclusive::acquire().await;
    let clock = ShiftedClock::ahead(0);
    bed.restart_manager_at(&clock);
    (clock, bed)
}

/// Creates a revision that succeeds after a delay, and waits until it is available.
async fn soaking(ns: &TestNamespace) {
    let set = ns.set("soaking").revision(1);
    set.spec("successDelaySeconds", DELAY)
        .phase("a", [configmap("soaking").data("k", "v")])
        .available()
        .await;
}

/// The revision succeeds after its delay, and not an hour later.
async fn succeeds(ns: &TestNamespace) {
    let patience = Duration::from_secs(DELAY) + LOOK;
    ns.within(patience)
        .reaches("soaking", &[Is("Succeeded", "True")])
        .await;
}

/// The clock stays an hour back: a delay, and the deadline of a deployment, end in their time.
#[tokio::test]
async fn delays_end_in_time_after_the_clock_went_back() {
    let (clock, bed) = shifted().await;
    let ns = &bed.namespace(Scope::Namespaced).await;
    soaking(ns).await;
    let never = ns
        .content()
        .probe(cel_probe("", "ConfigMap", "false", "never"));
    let content = never.phase("a", [configmap("never")]);
    let web = ns.deployment("web").content(content);
    let web = web.spec("progressDeadlineSeconds", DELAY).create().await;
    web.reaches(&[Is("Progressing", "True")]).await;
    clock.set(-HOUR);
    succeeds(ns).await;
    web.reaches(&[Because("Progressing", "False", "ProgressDeadlineExceeded")])
        .await;
}

/// The clock is an hour back for a moment, in which the manager repairs the revision.
#[tokio::test]
async fn delays_end_in_time_after_a_short_jump_of_the_clock() {
    let (clock, bed) = shifted().await;
    let ns = &bed.namespace(Scope::Namespaced).await;
    soaking(ns).await;
    clock.set(-HOUR);
    let object = configmap("soaking");
    ns.merge(&object, &json!({ "data": { "k": "drifted" } }))
        .await;
    let is_repaired = async || ns.live(&object).await["data"]["k"] == "v";
    ns.eventually("the object to be repaired", is_repaired)
        .await;
    clock.set(0);
    succeeds(ns).await;
}

/// A Release is completed while the clock is an hour back, and the next one after the clock is right again.
#[tokio::test]
async fn releases_are_rolled_out_while_the_clock_is_wrong() {
    let (clock, bed) = shifted().await;
    let ns = &bed.namespace(Scope::Namespaced).await;
    let site = Site::get(PUSH).await;
    let app = TestApplication::through(ns, "web", &site, &site.url()).await;
    app.apply(app.environment("0.0.1", 1, ALL_IN)).await;
    app.completed(0).await;
    for (generation, shift) in [(1, -HOUR), (2, 0), (3, 24 * HOUR)] {
        clock.set(shift);
        let replicas = u32::try_from(generation).unwrap() + 1;
        app.apply(app.environment("0.0.1", replicas, ALL_IN)).await;
        app.completed(generation).await;
    }
}
