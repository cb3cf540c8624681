//! Two owners that want one object: deployments, scopes, phases, sites and Releases. A revision of one chain never
//! gives way to a revision of another chain because of its number.

use std::time::Instant;

use baton_integration::application::{ALL_IN, TestApplication, condition, name};
use baton_integration::prelude::*;
use baton_integration::set::SetBuilder;
use baton_integration::sites::{PULL, PUSH, Site};

both_scopes! {
    a_collision_names_the_object_and_its_owner_for_any_numbers;
    the_second_deployment_continues_once_the_first_is_deleted;
    two_deployments_without_protection_do_not_fight;
    a_paused_revision_reports_its_collision;
}

fn settings() -> Entry {
    configmap("cm").data("k", "v")
}

/// A content with the contested object, in a phase of this class.
fn wanting<'a>(ns: &'a TestNamespace, class: &str, own: &str, protection: &str) -> SetBuilder<'a> {
    let contested = settings().data("from", own).collision(protection);
    let contested = if class.is_empty() {
        contested
    } else {
        contested.within(ns.name())
    };
    ns.content()
        .phase("own", [configmap(own)])
        .phase_of(class, "a", [contested])
}

/// Content and controller of the contested object. An archived revision may still leave its owners.
async fn state(ns: &TestNamespace) -> (Value, String) {
    let live = ns.live(&settings()).await;
    (live["data"].clone(), controller(&live).to_owned())
}

/// Waits until the newest revision of a deployment reports the collision with its owner.
async fn collides(deployment: &TestDeployment<'_>, number: i64, owner: &str) -> Revision {
    let wanted = [
        Because("Available", "False", "CollisionDetected"),
        Says("Available", "/cm kind:ConfigMap: refusing adoption"),
        Says(
            "Available",
            "not owned by previous revision, controlled by ",
        ),
        Says("Available", owner),
    ];
    deployment.set_reaches(number, &wanted).await
}

/// Rolls out as many revisions.
async fn with_revisions<'a>(
    ns: &'a TestNamespace,
    name: &str,
    class: &str,
    count: i64,
) -> TestDeployment<'a> {
    let content = |number: i64| wanting(ns, class, &format!("{name}-{number}"), "Prevent");
    let deployment = ns.deployment(name).content(content(1)).create().await;
    for number in 2..=count {
        deployment.concluded().await;
        deployment.edit(content(number)).await;
    }
    deployment.concluded_as(count).await;
    deployment
}

async fn a_collision_names_the_object_and_its_owner_for_any_numbers(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let first = with_revisions(&ns, "first", "", 2).await;
    let owner = first.set(2).await.name().to_owned();
    let before = state(&ns).await;
    let content = |number: i64| wanting(&ns, "", &format!("second-{number}"), "Prevent");
    let second = ns.deployment("second").content(content(1)).create().await;
    for number in 1..=3 {
        if number > 1 {
            second.edit(content(number)).await;
        }
        collides(&second, number, &owner).await;
    }
    assert_eq!(state(&ns).await, before);
    first.concluded_as(2).await;
}

async fn the_second_deployment_continues_once_the_first_is_deleted(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    for (class, name) in [("", "in-process"), ("default", "delegated")] {
        let first = with_revisions(&ns, &format!("{name}-1"), class, 2).await;
        let content = wanting(&ns, class, &format!("{name}-own"), "Prevent");
        let second = ns
            .deployment(&format!("{name}-2"))
            .content(content)
            .create()
            .await;
        collides(&second, 1, first.name()).await;
        first.delete("Background").await;
        first.gone().await;
        // The garbage collector of the control plane deletes the revisions in its own time.
        ns.eventually("the revisions to be gone", async || {
            first.sets().await.is_empty()
        })
        .await;
        let gone = Instant::now();
        second.concluded().await;
        assert!(
            gone.elapsed() < Duration::from_secs(20),
            "{:?}",
            gone.elapsed()
        );
        second.delete("Background").await;
        second.gone().await;
        ns.eventually("the object to be gone", async || {
            ns.get(&settings()).await.is_none()
        })
        .await;
    }
}

/// The second one takes the object over, and the first one reports the loss.
async fn two_deployments_without_protection_do_not_fight(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let first = ns
        .deployment("first")
        .content(wanting(&ns, "", "one", "None"))
        .create()
        .await;
    first.concluded().await;
    let second = ns
        .deployment("second")
        .content(wanting(&ns, "", "two", "None"))
        .create()
        .await;
    second.concluded().await;
    let owner = second.set(1).await.name().to_owned();
    collides(&first, 1, &owner).await;
    let settled = ns.live(&settings()).await;
    assert_eq!(settled["data"]["from"], "two");
    for deployment in [&first, &second] {
        deployment.annotate("example.com/look", "again").await;
        deployment.observed().await;
    }
    assert_eq!(ns.live(&settings()).await, settled);
    // The next revision of the first one takes the object back, once.
    first.edit(wanting(&ns, "", "three", "None")).await;
    first.concluded_as(2).await;
    let owner = first.set(2).await.name().to_owned();
    collides(&second, 1, &owner).await;
    assert_eq!(ns.live(&settings()).await["data"]["from"], "three");
}

/// The object is one of another deployment, or of nobody.
async fn a_paused_revision_reports_its_collision(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let theirs = configmap("theirs");
    ns.create(&theirs).await;
    let first = with_revisions(&ns, "first", "", 2).await;
    let owner = first.set(2).await.name().to_owned();
    for (at, (object, says)) in [(settings(), &*owner), (theirs.clone(), "not owned by")]
        .into_iter()
        .enumerate()
    {
        let name = format!("v{at}");
        let wanted = [
            Because("Available", "False", "CollisionDetected"),
            Says("Available", says),
            Is("Paused", "True"),
        ];
        let before = ns.live(&object).await["data"].clone();
        ns.set(&name)
            .revision(1)
            .lifecycle("Paused")
            .phase("a", [configmap("own"), object.clone()])
            .reaching(&wanted)
            .await;
        assert_eq!(ns.live(&object).await["data"], before);
        assert_eq!(ns.get(&configmap("own")).await, None);
    }
    // The watch on the object ends the collision.
    ns.delete(&theirs).await;
    ns.reaches(
        "v1",
        &[
            Because("Available", "False", "ProbeFailure"),
            Says("Available", "not found"),
        ],
    )
    .await;
}

/// A cluster-scoped revision and a namespaced one are of two chains.
#[tokio::test]
async fn revisions_of_two_scopes_do_not_fight() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let contested = |from: &str| settings().data("from", from).collision("None");
    ns.set("v1")
        .revision(5)
        .phase("a", [contested("set")])
        .available()
        .await;
    let wide = ns.unique("wide");
    let cluster_set = json!({
        "apiVersion": "package-operator.run/v1alpha1", "kind": "ClusterObjectSet",
        "metadata": { "name": wide },
        "spec": { "revision": 1, "phases": [{ "name": "a", "objects": [
            contested("cluster-set").within(ns.name()).into_json(),
        ] }] },
    });
    let created = ns.cluster().create(&cluster_set).await.unwrap();
    let wanted = [
        Because("Available", "False", "CollisionDetected"),
        Says(
            "Available",
            &format!("controlled by ClusterObjectSet {wide}"),
        ),
    ];
    ns.reaches("v1", &wanted).await;
    let settled = ns.live(&settings()).await;
    assert_eq!(settled["data"]["from"], "cluster-set");
    ns.cluster().delete(&created, "Background").await;
    ns.reaches(
        "v1",
        &[Is("Available", "True"), Controls(&["ConfigMap cm"])],
    )
    .await;
    assert_eq!(ns.live(&settings()).await["data"]["from"], "set");
}

/// Two deployments deliver one object into a cluster, by push and by an agent.
#[tokio::test]
async fn deployments_collide_in_other_clusters() {
    for place in [PUSH, PULL] {
        let ns = TestNamespace::new(Scope::Namespaced).await;
        let site = Site::get(place).await;
        let joined = site.join(&ns).create().await;
        let first = with_revisions(&ns, "first", &joined.class(), 2).await;
        let second = with_collision(&ns, &joined.class(), first.name()).await;
        first.delete("Background").await;
        first.gone().await;
        second.concluded().await;
    }
}

async fn with_collision<'a>(ns: &'a TestNamespace, class: &str, owner: &str) -> TestDeployment<'a> {
    let content = wanting(ns, class, "own", "Prevent");
    let second = ns.deployment("second").content(content).create().await;
    collides(&second, 1, owner).await;
    second
}

/// The charts of two applications contain a Service of one name.
#[tokio::test]
async fn a_release_with_the_service_of_another_application_is_not_ready() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let app = TestApplication::new(&ns, "web").await;
    app.apply(app.environment("0.0.1", 1, ALL_IN)).await;
    app.completed(0).await;
    // The number of the owner is higher than that of the other application.
    app.apply(app.environment("0.0.2", 1, ALL_IN)).await;
    let owner = app.completed(1).await;
    let services = app.services().await;
    let other = TestApplication::kind("Application", "other");
    let spec = json!({ "template": app.environment("0.0.1", 1, ALL_IN) });
    ns.create(&other.clone().with("/spec", spec)).await;
    let like = ns.reference(&TestApplication::kind("InstallationTarget", "any"));
    ns.eventually("the collision to be reported", async || {
        let targets = ns.cluster().list(&like, "shipper-app=other").await;
        targets.iter().any(|target| {
            let text = target["status"].to_string();
            condition(target, "Ready") == "False"
                && text.contains("test-nginx-prod kind:Service")
                && text.contains(&format!("controlled by ObjectSet {}", name(&owner)))
        })
    })
    .await;
    let releases = ns
        .cluster()
        .list(
            &ns.reference(&TestApplication::kind("Release", "any")),
            "shipper-app=other",
        )
        .await;
    for release in &releases {
        assert_ne!(condition(release, "Complete"), "True", "{release}");
    }
    assert_eq!(app.services().await, services);
}
