//! Objects that run to their end and are then deleted by their own rule.

use baton_integration::exclusive::Exclusive;
use baton_integration::prelude::*;
use baton_integration::recording::{Change, Recording};
use baton_integration::set::SetBuilder;

both_scopes! {
    a_job_that_its_ttl_has_deleted_is_not_created_again;
    a_job_that_was_deleted_before_its_end_is_created_again;
}

const IMAGES: [&str; 2] = ["registry.example/app:1", "registry.example/app:2"];

fn job(image: &str) -> Entry {
    let container = json!({ "name": "migrate", "image": image });
    let pod = json!({ "restartPolicy": "Never", "containers": [container] });
    object("batch/v1", "Job", "migrate")
        .with("/spec/template/spec", pod)
        .with("/spec/ttlSecondsAfterFinished", 0)
}

/// A revision with the Job, a phase after it, and a probe of the Job.
fn with<'a>(ns: &'a TestNamespace, revision: i64, class: &str, job: Entry) -> SetBuilder<'a> {
    ns.revision(revision)
        .phase_of(class, "jobs", [job])
        .phase("app", [configmap("after")])
        .probe(condition_probe("batch", "Job", "Complete"))
        .label("package-operator.run/object-deployment", "web")
}

const DONE: [Expectation<'_>; 2] = [Is("Available", "True"), Is("Succeeded", "True")];

fn has_ended(set: &Revision) -> bool {
    let ended = &set.json["status"]["ended"][0];
    ended["name"] == "migrate" && ended["outcome"] == "Complete"
}

async fn jobs(ns: &TestNamespace) -> Recording {
    Recording::start(ns.cluster(), &ns.reference(&job("")), "").await
}

async fn a_job_that_its_ttl_has_deleted_is_not_created_again(scope: Scope) {
    for class in ["", "default"] {
        let ns = TestNamespace::new(scope).await;
        let jobs = jobs(&ns).await;
        with(&ns, 1, class, job(IMAGES[0])).create().await;
        let first = ns.reaches("v1", &DONE).await;
        assert!(has_ended(&first), "{}", first.status());
        ns.gone(&job("")).await;

        // Another revision with the same content, and one with another content.
        with(&ns, 2, class, job(IMAGES[0]))
            .previous(&["v1"])
            .create()
            .await;
        let second = ns.reaches("v2", &DONE).await;
        assert!(has_ended(&second), "{}", second.status());
        assert_eq!(jobs.so_far().await.count(Change::Added), 1);
        with(&ns, 3, class, job(IMAGES[1]))
            .previous(&["v1", "v2"])
            .create()
            .await;
        ns.reaches("v3", &DONE).await;
        ns.gone(&job("")).await;
        assert_eq!(jobs.so_far().await.count(Change::Added), 2);

        // A rollback, whose older revisions are archived, and a Job that is to run again.
        for name in ["v1", "v2"] {
            ns.set_lifecycle(name, "Archived").await;
            ns.reaches(name, &[Is("Archived", "True")]).await;
        }
        with(&ns, 4, class, job(IMAGES[0]))
            .previous(&["v1", "v2", "v3"])
            .create()
            .await;
        ns.reaches("v4", &DONE).await;
        assert_eq!(jobs.so_far().await.count(Change::Added), 2);
        with(
            &ns,
            5,
            class,
            job(IMAGES[0]).annotation("baton.run/update", "rerun"),
        )
        .previous(&["v1", "v2", "v3", "v4"])
        .create()
        .await;
        ns.reaches("v5", &DONE).await;
        ns.gone(&job("")).await;
        assert_eq!(jobs.so_far().await.count(Change::Added), 3);
    }
}

async fn a_job_that_was_deleted_before_its_end_is_created_again(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let suspended = job(IMAGES[0]).with("/spec/suspend", true);
    with(&ns, 1, "", suspended.clone()).create().await;
    ns.reaches("v1", &[Because("Available", "False", "ProbeFailure")])
        .await;
    let before = ns.live(&suspended).await;
    ns.delete(&suspended).await;
    ns.object_becomes(&suspended, "created again", |live| {
        uid(live) != uid(&before)
    })
    .await;
    assert!(ns.read_set("v1").await.json["status"]["ended"].is_null());
}

/// The status of the revision records the end, not only the memory of the manager.
#[tokio::test]
async fn a_job_that_its_ttl_has_deleted_stays_deleted_after_a_restart() {
    let mut bed = Exclusive::acquire().await;
    let ns = bed.namespace(Scope::Namespaced).await;
    let jobs = jobs(&ns).await;
    with(&ns, 1, "", job(IMAGES[0])).create().await;
    ns.reaches("v1", &DONE).await;
    ns.gone(&job("")).await;
    bed.take_manager().kill();
    bed.start_manager();
    // The change of another object shows that the manager has passed over the revision.
    ns.delete(&configmap("after")).await;
    ns.object_becomes(&configmap("after"), "created again", |_| true)
        .await;
    ns.reaches("v1", &DONE).await;
    assert_eq!(jobs.so_far().await.count(Change::Added), 1);
}
