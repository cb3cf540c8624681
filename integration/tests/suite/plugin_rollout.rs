//! The plugin's `pack --apply --wait`: its results, and its rollback.

use baton_integration::plugin::Ran;
use baton_integration::prelude::*;
use tokio::task::spawn_blocking;

/// Returns a package whose only object is available while its state is `good`.
fn package(state: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: settings}}, data: {{state: {state}}}}}\n"
    )
}

const APPLY: [&str; 7] = [
    "pack",
    "-",
    "--name=web",
    "--probe=ConfigMap=cel:self.data.state.startsWith('good')",
    "--apply",
    "--wait",
    "--rollback-on-failure",
];

const TITLE: &str = "objectdeployment.package-operator.run/web";

fn apply(ns: &TestNamespace, state: &str, more: &[&str]) -> Ran {
    ns.plugin_with_input(&[&APPLY[..], more].concat(), &package(state))
}

fn last(ran: &Ran) -> &str {
    ran.stderr.lines().last().unwrap_or_default()
}

async fn state(ns: &TestNamespace) -> Value {
    ns.live(&configmap("settings")).await["data"]["state"].clone()
}

#[tokio::test]
async fn a_failed_rollout_is_rolled_back_and_reported() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let web = ns.existing("web");
    let first = apply(&ns, "good", &[]).done();
    let name = web.set(1).await.name().to_owned();
    let available = format!("revision 1 ({name}) is rolled out and available\n");
    assert_eq!(first.stdout, format!("{TITLE} created\n{available}"));
    let again = apply(&ns, "good", &[]).done();
    assert_eq!(again.stdout, format!("{TITLE} unchanged\n{available}"));

    let failed = apply(&ns, "bad", &["--progress-deadline=10", "--timeout=2m"]);
    let bad = web.set(2).await.name().to_owned();
    let third = web.set(3).await.name().to_owned();
    assert_eq!(failed.code, 1, "{failed:?}");
    assert_eq!(
        failed.stdout,
        format!("{TITLE} configured\n{TITLE} rolled back to revision 1 ({name})\n")
    );
    assert_eq!(
        last(&failed),
        format!(
            "error: not rolled out; rolled back to revision 1 ({name}): revision 3 ({third}) is rolled out and \
             available"
        )
    );
    // The output contains the reason, as `status` reports it.
    for reason in [
        format!("Revision 2 ({bad}): NotReady"),
        "ProgressDeadlineExceeded".to_owned(),
        "ConfigMap/settings".to_owned(),
        "not true: self.data.state.startsWith('good')".to_owned(),
    ] {
        assert!(
            failed.stderr.contains(&reason),
            "{reason}: {}",
            failed.stderr
        );
    }
    assert_eq!(state(&ns).await, "good");
    web.concluded_as(3).await;
}

#[tokio::test]
async fn a_rollback_needs_a_previous_revision_that_has_succeeded() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let web = ns.existing("web");
    let not_back = "error: not rolled out, and not rolled back: ";
    let first = apply(&ns, "bad", &["--timeout=2s"]);
    assert_eq!(
        (first.code, &*first.stdout),
        (1, &*format!("{TITLE} created\n"))
    );
    assert!(
        first.stderr.contains("error: not rolled out after 2s: "),
        "{first:?}"
    );
    assert_eq!(
        last(&first),
        format!("{not_back}there was no revision before")
    );
    let name = web.set(1).await.name().to_owned();

    let second = apply(&ns, "worse", &["--timeout=2s"]);
    assert_eq!(second.code, 1, "{second:?}");
    let never = format!("revision 1 ({name}), the previous one, has never succeeded");
    assert_eq!(last(&second), format!("{not_back}{never}"));

    // The failed revisions stay, and the next package becomes revision 3.
    let good = apply(&ns, "good", &[]).done();
    assert!(good.stdout.contains("revision 3"), "{good:?}");
    ns.merge(
        &configmap("settings"),
        &json!({ "data": { "state": "good" } }),
    )
    .await;
    let template = web.read().await.json["spec"]["template"].to_string();
    assert!(template.contains("good"), "{template}");
}

/// A change of the deployment by another client during the wait prevents the rollback.
#[tokio::test]
async fn a_deployment_changed_by_another_client_is_not_rolled_back() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let web = ns.existing("web");
    apply(&ns, "good", &[]).done();
    let mut command = ns.plugin_command(&[&APPLY[..], &["--timeout=20s"]].concat());
    let input = package("bad");
    let waiting = spawn_blocking(move || {
        use std::io::Write as _;
        use std::process::Stdio;
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = piped.stderr(Stdio::piped()).spawn().unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(input.as_bytes())
            .unwrap();
        child.wait_with_output().unwrap()
    });
    web.set_reaches(2, &[Because("Available", "False", "ProbeFailure")])
        .await;
    web.patch(&json!({ "spec": { "revisionHistoryLimit": 3 } }))
        .await;
    let ran = waiting.await.unwrap();
    let stderr = String::from_utf8(ran.stderr).unwrap();
    assert_eq!(ran.status.code(), Some(1), "{stderr}");
    assert_eq!(
        stderr.lines().last().unwrap(),
        format!(
            "error: not rolled out, and not rolled back: {TITLE} has changed since it was read; nothing was rolled \
             back"
        )
    );
    web.has_sets(&[1, 2]).await;
    let template = web.read().await.json["spec"]["template"].to_string();
    assert!(template.contains("bad"), "{template}");
}

/// A Secret is left out of the package, and a Secret of a revision is not deleted by that.
#[tokio::test]
async fn secrets_are_left_out_unless_a_revision_would_delete_them() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let web = ns.existing("web");
    let manifests = "
{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {a: b}}
---
{apiVersion: v1, kind: Secret, metadata: {name: db}, stringData: {password: hunter2}}
";
    let run = |more: &[&str]| {
        let args = ["pack", "-", "--name=web", "--apply"];
        ns.plugin_with_input(&[&args[..], more].concat(), manifests)
    };
    let with = run(&["--wait"]).done();
    assert_eq!(with.stderr.matches("note: ").count(), 1, "{with:?}");
    assert!(
        with.stderr
            .starts_with("note: Secret/db is stored in clear text "),
        "{with:?}"
    );
    assert!(!with.stderr.contains("hunter2"));

    let owner = web.set(1).await.name().to_owned();
    let refused = run(&["--no-secrets"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    let expected = format!("error: Secret/db belongs to ObjectSet/{owner}, which would delete it");
    assert!(last(&refused).starts_with(&expected), "{refused:?}");
    web.has_sets(&[1]).await;

    // For a user who may not read Secrets, the content of the revision names the Secret.
    let blind = ns.unique("blind");
    let rules = json!([
        { "apiGroups": ["package-operator.run"], "resources": ["*"], "verbs": ["get", "list", "patch", "create"] },
    ]);
    ns.grant(&blind, rules).await;
    let account = format!("--as={blind}");
    let expected =
        format!("error: nothing was written, because Secret/db belongs to ObjectSet/{owner}");
    ns.eventually(
        "a refusal because of the content of the revision",
        async || {
            let refused = run(&["--no-secrets", &account]);
            refused.code == 2 && last(&refused).starts_with(&expected)
        },
    )
    .await;
    web.has_sets(&[1]).await;

    let kept = json!({ "metadata": { "annotations": { "baton.run/deletion": "keep" } } });
    ns.merge(&secret("db"), &kept).await;
    run(&["--no-secrets", "--wait"]).done();
    web.set_reaches(1, &[Is("Archived", "True")]).await;
    let left = ns.live(&secret("db")).await;
    assert_eq!(left["metadata"].get("ownerReferences"), None, "{left}");
    let package = web.read().await.json.to_string();
    assert!(!package.contains("Secret"), "{package}");

    // A missing Secret is reported, or that the user may not look for it.
    ns.delete(&secret("db")).await;
    let missing = run(&["--no-secrets"]).done();
    let expected = format!(
        "note: Secret/db does not exist yet in namespace {}\n",
        ns.name()
    );
    assert!(missing.stderr.ends_with(&expected), "{missing:?}");
    let user = ns.unique("packer");
    let rules = json!([
        { "apiGroups": ["package-operator.run"], "resources": ["*"], "verbs": ["get", "patch", "create"] },
    ]);
    ns.grant(&user, rules).await;
    let account = format!("--as={user}");
    ns.eventually("the rights to be there", async || {
        run(&["--no-secrets", "--dry-run", &account]).code == 0
    })
    .await;
    let unknown = run(&["--no-secrets", &account]).done();
    assert!(
        unknown
            .stderr
            .contains("note: cannot check that Secret/db exists: "),
        "{unknown:?}"
    );
}

/// An available older revision does not make the newest one rolled out.
#[tokio::test]
async fn a_failed_revision_is_not_rolled_out_while_an_older_is_available() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let web = ns.existing("web");
    apply(&ns, "good", &[]).done();
    let broken = "{apiVersion: v1, kind: ConfigMap, metadata: {name: more}, data: {state: bad}}\n";
    let args = [&APPLY[..5], &["--progress-deadline=3"]].concat();
    ns.plugin_with_input(&args, broken).done();
    web.reaches(&[
        Is("Available", "True"),
        Because("Progressing", "False", "ProgressDeadlineExceeded"),
    ])
    .await;
    let waited = ns.plugin(&["wait", "od/web", "--timeout=5s"]);
    assert_eq!(waited.code, 1, "{waited:?}");
    let status = ns.plugin(&["status", "od/web"]);
    assert_eq!(status.code, 1, "{status:?}");
    assert!(!status.stdout.contains("is rolled out"), "{status:?}");
    // `--for=available` also accepts an older revision.
    let available = ns.plugin(&["wait", "od/web", "--for=available"]);
    assert_eq!(available.code, 0, "{available:?}");
}
