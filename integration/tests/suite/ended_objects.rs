//! Objects that run to their end and are then deleted by their own rule.

use baton_integration::exclusive::Exclusive;
use baton_integration::prelude::*;
use baton_integration::set::SetBuilder;
use baton_integration::sites::{PUSH, Site};

alternating_scopes! {
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

/// A Job that its ttl does not delete during a test.
fn staying_job(image: &str) -> Entry {
    job(image).with("/spec/ttlSecondsAfterFinished", 3_600)
}

/// A revision with the Job, a phase after it, and a probe of the Job.
fn with<'a>(ns: &'a TestNamespace, revision: i64, class: &str, job: Entry) -> SetBuilder<'a> {
    let before: Vec<_> = (1..revision).map(|number| format!("v{number}")).collect();
    let before: Vec<_> = before.iter().map(String::as_str).collect();
    ns.revision(revision)
        .previous(&before)
        .phase_of(class, "jobs", [job])
        .phase("app", [configmap("after")])
        .probe(condition_probe("batch", "Job", "Complete"))
        .label("package-operator.run/object-deployment", "web")
}

const DONE: [Expectation<'_>; 2] = [Is("Available", "True"), Is("Succeeded", "True")];

fn has_ended(set: &Revision, outcome: &str) -> bool {
    let ended = &set.json["status"]["ended"][0];
    ended["name"] == "migrate" && ended["outcome"] == outcome
}

/// Waits until the revision has recorded its completed Job.
async fn has_completed(ns: &TestNamespace, revision: i64) {
    let set = ns.reaches(&format!("v{revision}"), &DONE).await;
    assert!(has_ended(&set, "Complete"), "{}", set.status());
}

/// The Jobs of a test in a cluster.
struct Jobs<'a> {
    ns: &'a TestNamespace,
    cluster: Cluster,
    recording: Recording,
}

impl<'a> Jobs<'a> {
    async fn of(ns: &'a TestNamespace, cluster: &Cluster) -> Self {
        Self {
            ns,
            cluster: cluster.clone(),
            recording: Recording::start(cluster, &ns.reference(&job("")), "").await,
        }
    }

    /// Waits until no Job exists, and returns the number of those that were created.
    async fn runs(&self) -> usize {
        let job = self.ns.reference(&job(""));
        let is_gone = async || self.cluster.get(&job).await.is_none();
        self.ns.eventually("the Job to be gone", is_gone).await;
        self.recording.so_far().await.count(Change::Added)
    }
}

/// Waits for a pass over the revision, which the deletion of another object causes.
async fn is_passed_over(ns: &TestNamespace) {
    let before = ns.live(&configmap("after")).await;
    ns.delete(&configmap("after")).await;
    ns.object_becomes(&configmap("after"), "created again", |live| {
        uid(live) != uid(&before)
    })
    .await;
}

async fn archive(ns: &TestNamespace, names: &[&str]) {
    for name in names {
        ns.set_lifecycle(name, "Archived").await;
        ns.reaches(name, &[Is("Archived", "True")]).await;
    }
}

async fn a_job_that_its_ttl_has_deleted_is_not_created_again(scope: Scope) {
    for class in ["", "default"] {
        let ns = TestNamespace::new(scope).await;
        let jobs = Jobs::of(&ns, ns.cluster()).await;
        with(&ns, 1, class, job(IMAGES[0])).create().await;
        has_completed(&ns, 1).await;
        assert_eq!(jobs.runs().await, 1);

        // Another revision with the same content, and one with another content.
        with(&ns, 2, class, job(IMAGES[0])).create().await;
        has_completed(&ns, 2).await;
        assert_eq!(jobs.runs().await, 1);
        with(&ns, 3, class, job(IMAGES[1])).create().await;
        has_completed(&ns, 3).await;
        assert_eq!(jobs.runs().await, 2);

        // A rollback, whose older revisions are archived, and a Job that is to run again.
        archive(&ns, &["v1", "v2"]).await;
        with(&ns, 4, class, job(IMAGES[0])).create().await;
        has_completed(&ns, 4).await;
        assert_eq!(jobs.runs().await, 2);
        let again = job(IMAGES[0]).annotation("baton.run/update", "rerun");
        with(&ns, 5, class, again).create().await;
        has_completed(&ns, 5).await;
        assert_eq!(jobs.runs().await, 3);
        is_passed_over(&ns).await;
        assert_eq!(jobs.runs().await, 3);
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
    let jobs = Jobs::of(&ns, ns.cluster()).await;
    with(&ns, 1, "", job(IMAGES[0])).create().await;
    has_completed(&ns, 1).await;
    assert_eq!(jobs.runs().await, 1);
    bed.take_manager().kill();
    bed.start_manager();
    is_passed_over(&ns).await;
    has_completed(&ns, 1).await;
    assert_eq!(jobs.runs().await, 1);
}

#[tokio::test]
async fn a_job_that_its_ttl_has_deleted_in_another_cluster_is_not_created_again() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let site = Site::get(PUSH).await;
    let joined = site.join(&ns).create().await;
    let jobs = Jobs::of(&ns, &site.cluster().await).await;
    let class = joined.class();
    with(&ns, 1, &class, job(IMAGES[0])).create().await;
    has_completed(&ns, 1).await;
    with(&ns, 2, &class, job(IMAGES[0])).create().await;
    has_completed(&ns, 2).await;
    assert_eq!(jobs.runs().await, 1);
    // In this cluster the Job has not run yet.
    let here = Jobs::of(&ns, ns.cluster()).await;
    with(&ns, 3, "", job(IMAGES[0])).create().await;
    has_completed(&ns, 3).await;
    assert_eq!(here.runs().await, 1);
    assert_eq!(jobs.runs().await, 1);
}

/// An agent gets the ends of older revisions with the phase, so it needs no memory of them.
#[tokio::test]
async fn an_agent_does_not_create_a_job_again_that_its_ttl_has_deleted() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    // Jobs complete only in the site that has nodes.
    let site = Site::get(PUSH).await;
    let joined = site.join(&ns).pull().create().await;
    let mut agent = joined.agent().start().await;
    let jobs = Jobs::of(&ns, &site.cluster().await).await;
    let class = joined.class();
    with(&ns, 1, &class, job(IMAGES[0])).create().await;
    has_completed(&ns, 1).await;
    assert_eq!(jobs.runs().await, 1);
    agent.kill();
    agent.start();
    with(&ns, 2, &class, job(IMAGES[0])).create().await;
    has_completed(&ns, 2).await;
    assert_eq!(jobs.runs().await, 1);

    with(&ns, 3, &class, job(IMAGES[1])).create().await;
    has_completed(&ns, 3).await;
    assert_eq!(jobs.runs().await, 2);
    archive(&ns, &["v1", "v2"]).await;
    with(&ns, 4, &class, job(IMAGES[0])).create().await;
    has_completed(&ns, 4).await;
    assert_eq!(jobs.runs().await, 2);
}

/// The last state of a Job that is taken over to be recreated has the content of the older
/// revision.
#[tokio::test]
async fn a_job_that_is_recreated_runs_with_its_new_content() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let job = |image| staying_job(image).annotation("baton.run/update", "recreate");
    with(&ns, 1, "", job(IMAGES[0])).create().await;
    has_completed(&ns, 1).await;
    let first = ns.live(&job("")).await;
    with(&ns, 2, "", job(IMAGES[1])).create().await;
    has_completed(&ns, 2).await;
    let second = ns.live(&job("")).await;
    assert_ne!(uid(&first), uid(&second));
    let image = &second["spec"]["template"]["spec"]["containers"][0]["image"];
    assert_eq!(image, IMAGES[1]);
    // The older revision keeps its record while the newer one has an object of that name.
    let older = ns.read_set("v1").await;
    assert!(has_ended(&older, "Complete"), "{}", older.status());
}

/// The ttl deletes a Job in the foreground, so it is being deleted until its pods are gone.
#[tokio::test]
async fn a_revision_stays_available_while_an_ended_job_is_being_deleted() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let job = staying_job(IMAGES[0]).blocked();
    with(&ns, 1, "", job.clone()).create().await;
    has_completed(&ns, 1).await;
    let sets = Recording::start(ns.cluster(), &ns.set_ref("v1"), "").await;
    let reference = ns.reference(&job);
    assert!(ns.cluster().delete(&reference, "Foreground").await);
    let live = ns.live(&job).await;
    assert!(live["metadata"]["deletionTimestamp"].is_string(), "{live}");
    is_passed_over(&ns).await;
    let jobs = Jobs::of(&ns, ns.cluster()).await;
    ns.unblock(&job).await;
    assert_eq!(jobs.runs().await, 0);
    is_passed_over(&ns).await;
    assert_eq!(jobs.runs().await, 0);
    // Only the phase after the Job may have been incomplete for a moment.
    for event in sets.so_far().await.events {
        let conditions = event.object["status"]["conditions"].to_string();
        assert!(!conditions.contains("migrate"), "{conditions}");
    }
    has_completed(&ns, 1).await;
}

/// A failure is no success when the Job is gone, and does not count for another revision.
#[tokio::test]
async fn a_failed_job_that_its_ttl_has_deleted_still_fails() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let jobs = Jobs::of(&ns, ns.cluster()).await;
    let failing = job(IMAGES[0])
        .with("/spec/activeDeadlineSeconds", 1)
        .with("/spec/backoffLimit", 0)
        .with(
            "/spec/template/spec/nodeSelector",
            json!({ "no-such": "node" }),
        );
    for revision in [1, 2] {
        with(&ns, revision, "", failing.clone()).create().await;
        let name = format!("v{revision}");
        let fails = [Because("Available", "False", "ProbeFailure")];
        let has_failed = async || has_ended(&ns.read_set(&name).await, "Failed");
        ns.eventually("the failure to be recorded", has_failed)
            .await;
        assert_eq!(jobs.runs().await, usize::try_from(revision).unwrap());
        let set = ns.reaches(&name, &fails).await;
        let message = &set.json["status"]["ended"][0]["message"];
        let message = message.as_str().unwrap();
        assert!(set.message("Available").ends_with(message), "{message}");
    }
}

#[tokio::test]
async fn a_completed_pod_that_was_deleted_is_not_created_again() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let container = json!({ "name": "once", "image": IMAGES[0] });
    // No node simulates the pod.
    let spec = json!({
        "restartPolicy": "Never", "containers": [container], "nodeSelector": { "no-such": "node" },
    });
    let pod = object("v1", "Pod", "once").with("/spec", spec);
    ns.revision(1)
        .phase("pods", [pod.clone()])
        .phase("app", [configmap("after")])
        .create()
        .await;
    ns.reaches("v1", &DONE).await;
    let first = ns.live(&pod).await;
    // A user deletes the pod before its end.
    ns.delete(&pod).await;
    ns.object_becomes(&pod, "created again", |live| uid(live) != uid(&first))
        .await;
    let reference = ns.reference(&pod);
    let completed = json!({ "status": { "phase": "Succeeded" } });
    ns.cluster()
        .merge_status(&reference, &completed)
        .await
        .unwrap();
    let is_recorded =
        async || ns.read_set("v1").await.json["status"]["ended"][0]["outcome"] == "Complete";
    ns.eventually("the end to be recorded", is_recorded).await;
    ns.delete(&pod).await;
    is_passed_over(&ns).await;
    assert!(ns.get(&pod).await.is_none());
    ns.reaches("v1", &DONE).await;
}
