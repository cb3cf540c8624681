//! The three forms of a rollout: objects change in place, new objects stand beside the old ones,
//! and a rollout follows a revision that failed.

use baton_integration::prelude::*;
use baton_integration::recording::State;

use crate::deployments::{workload, workload_probe};

alternating_scopes! {
    an_edit_in_place_leaves_no_object_without_a_controller;
    objects_beside_the_old_ones_replace_them_without_downtime;
    a_rollout_completes_after_a_failed_intermediate_revision;
}

const CONFIG: &str = "my-config";

async fn an_edit_in_place_leaves_no_object_without_a_controller(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let (config, app) = (configmap(CONFIG), "my-deployment");
    let content = |version: &str, image: &str| {
        ns.content()
            .phase("config", [config.clone().data("version", version)])
            .phase("app", [workload(app, image)])
            .probe(workload_probe())
    };
    let web = ns
        .deployment("my")
        .content(content("1", "app:1"))
        .create()
        .await;
    web.concluded().await;
    let first = web.set_reaches(1, &[Is("Succeeded", "True")]).await;
    let app = workload(app, "");
    let before = [ns.live(&config).await, ns.live(&app).await];
    for live in &before {
        assert_managed_by(live, &first);
    }
    let objects = [config.clone(), app.clone()];
    let mut recordings = Vec::new();
    for object in &objects {
        recordings.push(Recording::start(ns.cluster(), &ns.reference(object), "").await);
    }

    web.edit(content("2", "app:2")).await;
    web.concluded().await;
    // The archival needs no action of a user.
    web.set_reaches(1, &[Is("Archived", "True"), Controls(&[])])
        .await;
    let second = web
        .set_reaches(
            2,
            &[
                Is("Available", "True"),
                No("InTransition"),
                Controls(&["ConfigMap my-config", "Deployment.apps my-deployment"]),
            ],
        )
        .await;
    let after = [ns.live(&config).await, ns.live(&app).await];
    assert_eq!(after[0]["data"], json!({ "version": "2" }));
    let image = "/spec/template/spec/containers/0/image";
    assert_eq!(after[1].pointer(image), Some(&json!("app:2")));
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(uid(before), uid(after));
        assert_managed_by(after, &second);
        assert_eq!(owner_names(after), [second.name()]);
    }
    // No object was missing or without a controller at any moment.
    let both = [first.name(), second.name()];
    for (recording, object) in recordings.iter().zip(&objects) {
        let recorded = recording.so_far().await;
        assert_eq!(recorded.count(Change::Deleted), 0);
        for state in recorded.states() {
            let live = &state[object.name()];
            assert!(both.contains(&controller(live)), "{live}");
        }
    }
    let config_changes = recordings[0].so_far().await.count(Change::Modified);
    assert!(
        config_changes <= 2,
        "a handover and a release: {config_changes}"
    );
}

/// Returns the number of pods that get requests: they are ready and not being deleted.
fn ready_pods(state: &State) -> usize {
    let is_ready = |pod: &&Value| {
        let conditions = pod["status"]["conditions"].as_array();
        pod["metadata"]["deletionTimestamp"].is_null()
            && conditions
                .into_iter()
                .flatten()
                .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
    };
    state.values().filter(is_ready).count()
}

/// Returns the number of addresses that a Service sends requests to.
fn ready_endpoints(state: &State) -> usize {
    let endpoints = state
        .values()
        .filter_map(|slice| slice["endpoints"].as_array());
    endpoints
        .flatten()
        .filter(|endpoint| endpoint["conditions"]["ready"] == true)
        .count()
}

async fn objects_beside_the_old_ones_replace_them_without_downtime(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let service = object("v1", "Service", "my-service").with(
        "/spec",
        json!({ "selector": { "app": "my" }, "ports": [{ "port": 80 }] }),
    );
    ns.create(&service).await;
    let content = |version: u64| {
        let label = "/spec/template/metadata/labels/app";
        let app = workload(
            &format!("my-deployment-v{version}"),
            &format!("app:{version}"),
        );
        ns.content()
            .phase("config", [configmap(&format!("my-config-v{version}"))])
            .phase("app", [app.with(label, "my")])
            .probe(workload_probe())
    };
    let web = ns.deployment("my").content(content(1)).create().await;
    web.concluded().await;
    let like = |entry: Entry| ns.reference(&entry);
    let slices = Recording::start(
        ns.cluster(),
        &like(object("discovery.k8s.io/v1", "EndpointSlice", "")),
        "kubernetes.io/service-name=my-service",
    )
    .await;
    ns.eventually("backends of the service", async || {
        let last = slices.so_far().await.states().pop().unwrap_or_default();
        ready_endpoints(&last) == 2
    })
    .await;
    let pods = Recording::start(ns.cluster(), &like(object("v1", "Pod", "")), "app=my").await;
    let slices = Recording::start(
        ns.cluster(),
        &like(object("discovery.k8s.io/v1", "EndpointSlice", "")),
        "kubernetes.io/service-name=my-service",
    )
    .await;
    let sets = Recording::start(ns.cluster(), &ns.set_ref("any"), &of(&web)).await;

    for version in 2..=3 {
        web.edit(content(version)).await;
        web.concluded().await;
    }
    for (number, gone) in [(1, "v1"), (2, "v2")] {
        web.set_reaches(number, &[Is("Archived", "True")]).await;
        assert_eq!(
            ns.get(&workload(&format!("my-deployment-{gone}"), ""))
                .await,
            None
        );
        assert_eq!(ns.get(&configmap(&format!("my-config-{gone}"))).await, None);
    }
    ns.live(&configmap("my-config-v3")).await;
    // The pods of deleted workloads are removed asynchronously.
    ns.eventually("the old pods to go", async || {
        let last = pods.so_far().await.states().pop().unwrap_or_default();
        last.len() == 2 && ready_pods(&last) == 2
    })
    .await;

    let (pods, slices) = (pods.so_far().await, slices.so_far().await);
    assert!(
        pods.count(Change::Deleted) >= 4,
        "the rollouts were recorded"
    );
    for state in pods.states() {
        assert!(ready_pods(&state) >= 1, "no pod was ready: {state:#?}");
    }
    assert!(slices.events.len() >= 4, "and so were the backends");
    for state in slices.states() {
        assert!(
            ready_endpoints(&state) >= 1,
            "no backend was ready: {state:#?}"
        );
    }
    for state in sets.so_far().await.states() {
        assert_old_ones_wait(&state, ns.scope());
    }
}

fn of(web: &TestDeployment<'_>) -> String {
    format!("package-operator.run/object-deployment={}", web.name())
}

/// Fails if an old revision was paused or archived before a newer one was available.
fn assert_old_ones_wait(sets: &State, scope: Scope) {
    let sets: Vec<_> = sets
        .values()
        .map(|json| Revision { json: json.clone() })
        .collect();
    for old in sets.iter().filter(|set| lifecycle(set) != "Active") {
        let available = sets.iter().any(|new| {
            let reported = new.condition("Available");
            new.number() > old.number()
                && reported.is_some_and(|reported| reported["status"] == "True")
        });
        assert!(
            available,
            "{scope:?}: {} had to wait: {sets:#?}",
            old.name()
        );
    }
}

/// The configuration is handed over from 1 to 2 to 3, and each revision has its own workload. The
/// image of 2 is broken, and 3 waits until the test lets it pass.
async fn a_rollout_completes_after_a_failed_intermediate_revision(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let config = configmap(CONFIG);
    let app = |version: u64, image: &str| workload(&format!("my-deployment-v{version}"), image);
    let content = |version: u64, app: Entry| {
        ns.content()
            .phase(
                "config",
                [config.clone().data("version", &version.to_string())],
            )
            .phase("app", [app])
            .probe(workload_probe())
            .probe(fields_equal(
                "apps",
                "Deployment",
                ".metadata.name",
                ".metadata.annotations.name",
            ))
    };
    let named = |app: Entry| {
        let name = app.name().to_owned();
        app.annotation("name", &name)
    };
    let first = content(1, named(app(1, "app:1")));
    let web = ns.deployment("my").content(first).create().await;
    web.concluded().await;
    let before = ns.live(&config).await;
    let configs = Recording::start(ns.cluster(), &ns.reference(&config), "").await;
    let sets = Recording::start(ns.cluster(), &ns.set_ref("any"), &of(&web)).await;

    web.edit(content(2, named(app(2, "app:broken")))).await;
    let own = ["ConfigMap my-config", "Deployment.apps my-deployment-v2"];
    let second = web
        .set_reaches(
            2,
            &[
                Because("Available", "False", "ProbeFailure"),
                Controls(&own),
            ],
        )
        .await;
    let first = web
        .set_reaches(
            1,
            &[
                Is("InTransition", "True"),
                Controls(&["Deployment.apps my-deployment-v1"]),
            ],
        )
        .await;

    web.edit(content(3, app(3, "app:3"))).await;
    // Once 3 has the configuration, 2 is not needed.
    web.set_reaches(2, &[Is("Archived", "True"), Controls(&[])])
        .await;
    let third = web.set_reaches(3, &[Is("Available", "False")]).await;
    assert_eq!(previous(&third), [first.name(), second.name()]);
    assert_eq!(ns.get(&app(2, "")).await, None);
    ns.live(&app(1, "")).await;
    let waiting = web.set(1).await;
    assert_eq!(lifecycle(&waiting), "Active");
    waiting.assert(&[
        Is("Available", "True"),
        Controls(&["Deployment.apps my-deployment-v1"]),
    ]);
    let still = "is still Available. Some of its objects have been taken over already.";
    web.reaches(&[
        Is("Available", "True"),
        Says("Available", still),
        Is("Progressing", "True"),
    ])
    .await;

    ns.annotate_with_name(&app(3, "")).await;
    web.concluded().await;
    web.set_reaches(1, &[Is("Archived", "True"), Controls(&[])])
        .await;
    assert_eq!(ns.get(&app(1, "")).await, None);
    let own = ["ConfigMap my-config", "Deployment.apps my-deployment-v3"];
    let third = web
        .set_reaches(
            3,
            &[Is("Succeeded", "True"), No("InTransition"), Controls(&own)],
        )
        .await;
    let live = ns.live(&config).await;
    assert_eq!(uid(&live), uid(&before));
    assert_managed_by(&live, &third);
    assert_eq!(owner_names(&live), [third.name()]);

    let handed = controllers_of(&configs.so_far().await, CONFIG);
    assert_eq!(handed, [first.name(), second.name(), third.name()]);
    for state in sets.so_far().await.states() {
        let mut rest = state;
        // The failed revision may be archived early; the other one must wait.
        rest.remove(second.name());
        assert_old_ones_wait(&rest, ns.scope());
    }
}

/// Returns the controllers of an object, one after the other.
fn controllers_of(recorded: &Recorded, name: &str) -> Vec<String> {
    let states = recorded.states();
    let all = states
        .iter()
        .map(|state| controller(&state[name]).to_owned());
    let mut handed: Vec<String> = all.collect();
    handed.dedup();
    handed
}
