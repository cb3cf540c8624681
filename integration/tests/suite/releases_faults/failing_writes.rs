//! Writes that fail, and writes whose answers are lost.

use baton_integration::application::{ALL_IN, TestApplication, VANGUARD};
use baton_integration::endpoint::Endpoint;
use baton_integration::exclusive::Exclusive;
use baton_integration::faults::{Answer, Faults, Gate, On, Status, Verb};
use baton_integration::manager::Manager;
use baton_integration::prelude::*;

use super::state::{becomes, settled_picture};
use super::watched::Watched;
use super::{APP, PODS};
use crate::requests::settle;

/// Starts a manager behind a fault injector, and creates a namespace.
async fn start() -> (Exclusive, Faults, TestNamespace, Manager) {
    let (mut bed, ns) = super::bed_with_releases().await;
    let faults = Faults::start(&Endpoint::of_bed(bed.cluster().kubeconfig())).await;
    let manager = bed
        .manager_through(&faults, &["--leader-elect=false"])
        .await;
    (bed, faults, ns, manager)
}

/// Rolls out the next Release in all its steps.
async fn roll_out(app: &TestApplication<'_>, generation: i64) {
    let version = ["0.0.1", "0.0.2"][usize::try_from(generation % 2).unwrap()];
    app.apply(app.environment(version, PODS, VANGUARD)).await;
    for step in [0, 1] {
        app.at_step(generation, step).await;
        app.promote(generation, step + 1).await;
    }
    app.completed(generation).await;
}

/// Rollouts have the same result if writes fail, and if only the answers to writes are lost.
#[tokio::test]
async fn failed_writes_are_repeated_until_they_are_carried_out() {
    let (mut bed, faults, ns, manager) = start().await;
    let app = TestApplication::new(&ns, APP).await;
    app.apply(app.environment("0.0.1", PODS, ALL_IN)).await;
    let limit = json!({ "spec": { "revisionHistoryLimit": 1 } });
    ns.merge(&app.entry(), &limit).await;
    app.completed(0).await;
    let watched = Watched::start(&app).await;
    // The first rollout replaces a Release with another strategy, so its result is not compared.
    roll_out(&app, 1).await;
    roll_out(&app, 2).await;
    let even = settled_picture(&app).await;
    roll_out(&app, 3).await;
    let odd = settled_picture(&app).await;

    let kinds = "/shipper.booking.com/|/package-operator.run/|/apps/|/services/|/pods/";
    let writes = || On::writes().path(kinds);
    let answers = [
        ("409", Answer::conflict()),
        ("500", Answer::internal_error()),
        ("503", Answer::unavailable()),
        (
            "500 for a request that was executed",
            Answer::Lost(Status::internal_error()),
        ),
        ("no answer", Answer::HangUp { carried_out: false }),
        (
            "no answer for a request that was executed",
            Answer::HangUp { carried_out: true },
        ),
    ];
    for (generation, (text, answer)) in (4..).zip(answers) {
        println!("{text}");
        // Twelve writes fail, one after the other.
        let injections: Vec<_> = (0..12)
            .map(|at| faults.inject(writes().after(2 + at).times(1), answer.clone()))
            .collect();
        roll_out(&app, generation).await;
        assert!(injections.iter().all(|it| it.count() == 1), "{text}");
        faults.heal();
        let expected = if generation % 2 == 1 { &odd } else { &even };
        becomes(&app, expected, text).await;
        watched.assert(PODS as usize).await;
    }
    manager.kill();
    bed.start_manager();
    settle(&ns, &bed).await;
    assert_eq!(bed.manager().metrics().writes(), 0);
}

/// A Release is deleted as unfinished only if it is unchanged since it was read. Here it becomes
/// complete, with all pods and all traffic, while the creation of the next Release is held back.
#[tokio::test]
async fn a_release_that_becomes_complete_while_the_next_one_is_made_stays() {
    let (_bed, faults, ns, manager) = start().await;
    let app = TestApplication::new(&ns, APP).await;
    app.apply(app.environment("0.0.1", PODS, ALL_IN)).await;
    app.completed(0).await;
    let watched = Watched::start(&app).await;
    app.apply(app.environment("0.0.2", PODS, VANGUARD)).await;
    app.at_step(1, 0).await;
    app.promote(1, 1).await;
    app.at_step(1, 1).await;

    let gate = Gate::default();
    let creates = On::verb(Verb::Create).path("/releases$").times(1);
    let held = faults.inject(creates, Answer::Held(gate.clone()));
    app.apply(app.environment("0.0.1", PODS, VANGUARD)).await;
    held.used(1).await;
    app.promote(1, 2).await;
    let complete = app.completed(1).await;
    gate.open();
    for step in [0, 1] {
        app.at_step(2, step).await;
        let there = app.find(1).await.expect("the Release that was complete");
        assert_eq!(uid(&there), uid(&complete));
        assert!(there["metadata"]["deletionTimestamp"].is_null());
        app.promote(2, step + 1).await;
    }
    app.completed(2).await;
    watched.assert(PODS as usize).await;
    drop(manager);
}
