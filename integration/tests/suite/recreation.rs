//! Objects that are deleted and recreated because the server refuses their change.

use baton_integration::prelude::*;
use baton_integration::set::SetBuilder;

alternating_scopes! {
    an_immutable_object_is_created_again;
    a_job_runs_once_for_each_content;
    a_change_of_a_job_is_refused_in_one_line_unless_it_is_a_hook;
}

fn settings(value: &str) -> Entry {
    configmap("settings")
        .data("k", value)
        .with("/immutable", true)
}

fn recreated_on_update(entry: Entry) -> Entry {
    entry.annotation("baton.run/update", "recreate")
}

fn job(image: &str) -> Entry {
    recreated_on_update(plain_job(image))
}

fn plain_job(image: &str) -> Entry {
    let container = json!({ "name": "migrate", "image": format!("registry.example/{image}") });
    let pod = json!({ "restartPolicy": "Never", "containers": [container] });
    object("batch/v1", "Job", "migrate").with("/spec/template/spec", pod)
}

/// Waits until a revision controls its object, in-process or by a phase object, and returns the
/// object.
async fn controls(ns: &TestNamespace, revision: i64, entry: &Entry) -> Value {
    let wanted = [
        Is("Available", "True"),
        Is("Succeeded", "True"),
        Controls(&[match entry.kind() {
            "Job" => "Job.batch migrate",
            _ => "ConfigMap settings",
        }]),
    ];
    ns.reaches(&format!("v{revision}"), &wanted).await;
    ns.live(entry).await
}

fn with<'a>(ns: &'a TestNamespace, revision: i64, class: &str, entry: Entry) -> SetBuilder<'a> {
    let set = ns.revision(revision).phase_of(class, "a", [entry]);
    // Delegated phases find their siblings by this label.
    set.label("package-operator.run/object-deployment", "web")
}

/// An object is recreated if an annotation allows it. Otherwise the change is refused in one line
/// that names the annotation. The older revision, which stays active, does not recreate the object.
async fn an_immutable_object_is_created_again(scope: Scope) {
    for class in ["", "default"] {
        let ns = TestNamespace::new(scope).await;
        with(&ns, 1, class, settings("1")).create().await;
        let before = controls(&ns, 1, &settings("1")).await;
        with(&ns, 2, class, settings("2")).create().await;
        let refused = ns
            .reaches("v2", &[Because("Available", "False", "PreflightError")])
            .await;
        let message = refused.message("Available");
        assert!(
            message.ends_with(
                "field is immutable when `immutable` is set; with the annotation baton.run/update=recreate, it is \
                 deleted and created again"
            ),
            "{message}"
        );
        assert_eq!(ns.live(&settings("1")).await, before, "nothing was touched");
        with(&ns, 3, class, recreated_on_update(settings("3")))
            .previous(&["v1", "v2"])
            .create()
            .await;
        let after = controls(&ns, 3, &settings("3")).await;
        assert_eq!(after["data"], json!({ "k": "3" }));
        assert_ne!(uid(&after), uid(&before));
        let text = format!(
            "Deleted 1 object(s) to create them again, as their change is refused: ConfigMap {}/settings",
            ns.name()
        );
        ns.has_event("Normal", &text).await;
        ns.reaches("v1", &[Controls(&[])]).await;
        assert_eq!(uid(&ns.live(&settings("3")).await), uid(&after), "once");
    }
}

/// A rollback does not run a job of an older revision again, unless an annotation requests it.
async fn a_job_runs_once_for_each_content(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let image = |live: &Value| {
        let image = &live["spec"]["template"]["spec"]["containers"][0]["image"];
        image.as_str().unwrap().to_owned()
    };
    with(&ns, 1, "", job("app:1")).create().await;
    let first = controls(&ns, 1, &job("")).await;
    with(&ns, 2, "", job("app:2")).create().await;
    let second = controls(&ns, 2, &job("")).await;
    assert_ne!(uid(&first), uid(&second));
    assert_eq!(image(&second), "registry.example/app:2");
    ns.set_lifecycle("v1", "Archived").await;
    ns.reaches("v1", &[Is("Archived", "True")]).await;

    with(&ns, 3, "", job("app:1"))
        .previous(&["v1", "v2"])
        .create()
        .await;
    let back = controls(&ns, 3, &job("")).await;
    assert_eq!(uid(&back), uid(&second), "it is left as it is");
    assert_eq!(image(&back), "registry.example/app:2");

    let again = job("app:1").annotation("baton.run/update", "rerun");
    with(&ns, 4, "", again)
        .previous(&["v1", "v2", "v3"])
        .create()
        .await;
    let again = controls(&ns, 4, &job("")).await;
    assert_ne!(uid(&again), uid(&second));
    assert_eq!(image(&again), "registry.example/app:1");
}

/// The server's message contains the whole template, so it is shortened. A hook of Helm is
/// recreated as by Helm.
async fn a_change_of_a_job_is_refused_in_one_line_unless_it_is_a_hook(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    with(&ns, 1, "", plain_job("app:1")).create().await;
    let first = controls(&ns, 1, &job("")).await;
    with(&ns, 2, "", plain_job("app:2")).create().await;
    let refused = ns
        .reaches("v2", &[Because("Available", "False", "PreflightError")])
        .await;
    let message = refused.message("Available");
    assert!(message.len() < 400 && !message.contains('{'), "{message}");
    assert!(message.contains("baton.run/update=recreate"), "{message}");
    assert_eq!(uid(&ns.live(&job("")).await), uid(&first));

    let hook = plain_job("app:3").annotation("helm.sh/hook", "pre-upgrade");
    with(&ns, 3, "", hook)
        .previous(&["v1", "v2"])
        .create()
        .await;
    let third = controls(&ns, 3, &job("")).await;
    assert_ne!(uid(&third), uid(&first));
}
