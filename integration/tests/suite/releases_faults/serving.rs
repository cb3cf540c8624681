//! Pods keep their traffic until other pods have taken over, no matter what happens to their
//! Release.

use baton_integration::application::{ALL_IN, TestApplication, VANGUARD, condition, name, reason};
use baton_integration::prelude::*;

use super::APP;
use super::watched::Watched;

/// Number of pods of a complete Release in each cluster. At least this number of pods must get
/// traffic in every step of the strategy.
const PODS: u32 = 10;

/// The generation of a contender if only the first Release exists.
const CONTENDER: i64 = 1;

/// The moment in a rollout at which a test acts.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// The contender moves towards a step.
    Towards(i64),
    /// The contender waits at a step.
    At(i64),
}

/// Each step, before and after the contender has reached it.
const MOMENTS: [Moment; 6] = [
    Moment::Towards(0),
    Moment::At(0),
    Moment::Towards(1),
    Moment::At(1),
    Moment::Towards(2),
    Moment::At(2),
];

struct Rollout<'a> {
    app: TestApplication<'a>,
    watched: Watched,
    edits: u32,
}

impl<'a> Rollout<'a> {
    /// Creates the first Release, and waits until all of its pods get traffic.
    async fn start(ns: &'a TestNamespace) -> Self {
        let app = TestApplication::new(ns, APP).await;
        app.apply(numbered(app.environment("0.0.1", PODS, ALL_IN), 0))
            .await;
        app.completed(0).await;
        let rollout = Self {
            watched: Watched::start(&app).await,
            app,
            edits: 0,
        };
        rollout.serves_all().await;
        rollout
    }

    /// Returns another template.
    fn environment(&mut self) -> Value {
        self.edits += 1;
        numbered(self.app.environment("0.0.2", PODS, VANGUARD), self.edits)
    }

    /// Changes the template, and returns the generation of the Release that is created from it.
    async fn edit(&self, environment: Value) -> i64 {
        let wanted = environment["values"]["edit"].clone();
        self.app.apply(environment).await;
        let text = format!("a Release of edit {wanted}");
        let newest = async || {
            let newest = self.app.living().await.pop().unwrap_or_default();
            let found = newest["spec"]["environment"]["values"]["edit"] == wanted;
            found.then(|| generation(&newest))
        };
        self.app
            .ns
            .eventually(&text, async || newest().await.is_some())
            .await;
        newest().await.unwrap()
    }

    /// Brings a contender to a moment of its rollout.
    async fn reach(&self, contender: i64, moment: Moment) {
        let (Moment::Towards(last) | Moment::At(last)) = moment;
        for step in 0..=last {
            if step > 0 {
                self.app.promote(contender, step).await;
            }
            match moment {
                Moment::Towards(last) if step == last => {}
                Moment::At(2) if step == 2 => drop(self.app.completed(contender).await),
                _ => drop(self.app.at_step(contender, step).await),
            }
        }
    }

    /// Deletes the contender, and waits until the Application has the template of the first Release
    /// again.
    async fn abort(&self, contender: i64) {
        let release = self.app.release(contender).await;
        self.app.delete_release(&release).await;
        let text = "back at the template of the first Release";
        self.app
            .ns
            .object_becomes(&self.app.entry(), text, |application| {
                application["spec"]["template"]["values"]["edit"] == 0
                    && condition(application, "Aborting") == "False"
            })
            .await;
        self.app.completed(0).await;
    }

    async fn serves_all(&self) {
        self.app
            .ns
            .eventually("all pods to be served", async || {
                self.app.addresses().await == [PODS as usize; 2]
            })
            .await;
    }

    /// Waits until all deleted Releases are gone. Fails if at any moment so far two or more of the
    /// [`PODS`] got no traffic in one of the clusters.
    async fn assert(&self, text: &str) {
        self.app
            .ns
            .eventually("deleted Releases to be gone", async || {
                let releases = self.app.releases().await;
                releases.len() == self.app.living().await.len()
            })
            .await;
        println!("{text}");
        self.watched.assert_served(PODS as usize - 1).await;
    }
}

/// Returns a unique template. Templates are merged, so each contains all fields.
fn numbered(mut environment: Value, edit: u32) -> Value {
    environment["values"]["edit"] = edit.into();
    environment["values"]["image"]["tag"] = "stable".into();
    environment
}

fn generation(release: &Value) -> i64 {
    let number = annotation(release, "shipper.booking.com/release.generation");
    number.parse().unwrap_or(-1)
}

#[tokio::test]
async fn an_edit_in_the_middle_of_a_rollout_takes_no_pod_out_of_service() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let mut rollout = Rollout::start(&ns).await;
    let first = rollout.environment();
    let mut contender = rollout.edit(first).await;
    for moment in MOMENTS {
        rollout.reach(contender, moment).await;
        let next = rollout.environment();
        contender = rollout.edit(next).await;
        rollout.app.at_step(contender, 0).await;
        rollout.assert(&format!("an edit {moment:?}")).await;
    }
}

#[tokio::test]
async fn three_edits_in_a_second_take_no_pod_out_of_service() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let mut rollout = Rollout::start(&ns).await;
    let first = rollout.environment();
    let mut contender = rollout.edit(first).await;
    for moment in &MOMENTS[2..5] {
        rollout.reach(contender, *moment).await;
        for _ in 0..2 {
            let next = rollout.environment();
            rollout.app.apply(next).await;
        }
        let next = rollout.environment();
        contender = rollout.edit(next).await;
        rollout.app.at_step(contender, 0).await;
        rollout.assert(&format!("three edits {moment:?}")).await;
    }
}

#[tokio::test]
async fn an_abort_takes_no_pod_out_of_service() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let mut rollout = Rollout::start(&ns).await;
    for moment in &MOMENTS[1..] {
        let next = rollout.environment();
        let contender = rollout.edit(next).await;
        assert_eq!(contender, CONTENDER);
        rollout.reach(contender, *moment).await;
        rollout.abort(contender).await;
        let first = rollout.app.release(0).await;
        rollout.app.has_pods(&first, PODS as usize).await;
        rollout.serves_all().await;
        rollout.assert(&format!("an abort {moment:?}")).await;
    }
}

#[tokio::test]
async fn a_return_to_an_earlier_step_takes_no_pod_out_of_service() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let mut rollout = Rollout::start(&ns).await;
    let next = rollout.environment();
    let contender = rollout.edit(next).await;
    for (moment, steps) in [
        (Moment::Towards(1), &[0][..]),
        (Moment::At(1), &[0]),
        (Moment::Towards(2), &[1, 0]),
        (Moment::At(2), &[1, 0]),
    ] {
        rollout.reach(contender, moment).await;
        for step in steps {
            rollout.app.promote(contender, *step).await;
            rollout.app.at_step(contender, *step).await;
            rollout.assert(&format!("back to {step} {moment:?}")).await;
        }
    }
}

/// The template of the serving Release is restored, in the middle of the rollout of its successor.
#[tokio::test]
async fn a_rollback_takes_no_pod_out_of_service() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let mut rollout = Rollout::start(&ns).await;
    for moment in &MOMENTS[2..5] {
        let next = rollout.environment();
        let contender = rollout.edit(next).await;
        rollout.reach(contender, *moment).await;
        let served = rollout.app.environment("0.0.1", PODS, VANGUARD);
        let back = rollout.edit(numbered(served, 0)).await;
        assert_ne!(back, contender);
        rollout.app.at_step(back, 0).await;
        rollout.app.promote(back, 2).await;
        rollout.app.completed(back).await;
        rollout.assert(&format!("a rollback {moment:?}")).await;
    }
}

/// With a contender that never becomes ready, the incumbent gets all its pods back.
#[tokio::test]
async fn a_broken_contender_takes_no_pod_out_of_service() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let mut rollout = Rollout::start(&ns).await;
    let incumbent = rollout.app.release(0).await;
    for moment in &MOMENTS[2..5] {
        let next = rollout.environment();
        let contender = rollout.edit(next).await;
        rollout.reach(contender, *moment).await;
        let mut broken = rollout.environment();
        broken["values"]["image"]["tag"] = "broken".into();
        let contender = rollout.edit(broken).await;
        rollout
            .app
            .becomes(contender, "waiting for its pods", |release| {
                release["status"]["strategy"]["state"]["waitingForCapacity"] == "True"
                    && condition(release, "Scheduled") == "True"
            })
            .await;
        rollout.app.has_pods(&incumbent, PODS as usize).await;
        rollout.assert(&format!("a broken image {moment:?}")).await;
        rollout.abort(contender).await;
        rollout.assert("the abort of a broken image").await;
        assert_eq!(name(&rollout.app.release(0).await), name(&incumbent));
    }
}

/// A superseded Release reports the Release that it waits for, if no other pods can take over its
/// part of the traffic. An abort ends the wait.
#[tokio::test]
async fn a_superseded_release_stays_while_no_other_pods_can_serve() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let rollout = Rollout::start(&ns).await;
    let steps = [
        ("half", [50, 50], [50, 50]),
        ("full on", [0, 100], [0, 100]),
    ];
    let environment = |edit| numbered(rollout.app.environment("0.0.2", PODS, &steps), edit);
    let next = environment(1);
    let contender = rollout.edit(next).await;
    let superseded = rollout.app.at_step(contender, 0).await;
    let mut broken = environment(2);
    broken["values"]["image"]["tag"] = "broken".into();
    let contender = rollout.edit(broken).await;
    let broken = rollout.app.release(contender).await;
    let entry = TestApplication::kind("Release", name(&superseded));
    let wanted = format!(
        "pods keep their traffic until Release \"{}\" has the pods and the traffic of its step 0",
        name(&broken)
    );
    ns.object_becomes(&entry, "waiting for the broken one", |release| {
        reason(release, "Replaced") == ["StillServing", &wanted]
    })
    .await;
    rollout.app.has_pods(&superseded, PODS as usize / 2).await;
    rollout.abort(contender).await;
    rollout.assert("the abort of a broken image").await;
}
