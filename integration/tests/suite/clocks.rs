//! The time of day of the manager jumps while it runs.

use baton_integration::clock::ShiftedClock;
use baton_integration::exclusive::Exclusive;
use baton_integration::prelude::*;

/// One hour in seconds.
const HOUR: i64 = 3600;

/// The longest time until a manager looks at its clock, plus that of the passes.
const LOOK: Duration = Duration::from_secs(40);

/// The success delay of a revision, in seconds.
const DELAY: u64 = 30;

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
    let mut bed = Exclusive::acquire().await;
    let clock = ShiftedClock::ahead(0);
    bed.restart_manager_at(&clock);
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
    let mut bed = Exclusive::acquire().await;
    let clock = ShiftedClock::ahead(0);
    bed.restart_manager_at(&clock);
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
