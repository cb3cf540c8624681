//! The plugin's `history`, `diff`, `rollback`, `pause`, `resume` and `restart`, and their output.

use std::fmt::Write as _;
use std::fs;

use baton_integration::plugin::{self, Ran};
use baton_integration::prelude::*;
use baton_integration::set::SetBuilder;
use tempfile::TempDir;

/// A value that no output may contain, and its base64.
const SECRET: [&str; 2] = ["hunter2-hunter2", "aHVudGVyMi1odW50ZXIy"];

/// The annotation with the reason of a revision.
const CAUSE: &str = "kubernetes.io/change-cause";

/// Returns the whole output of a run, which must not contain the secret values.
fn whole(ran: &Ran) -> String {
    let mut text = format!("exit code {}\n", ran.code);
    for (name, stream) in [
        ("standard output", &ran.stdout),
        ("standard error", &ran.stderr),
    ] {
        if !stream.is_empty() {
            write!(text, "--- {name} ---\n{stream}").unwrap();
        }
    }
    for secret in SECRET {
        assert!(!text.contains(secret), "this shows a secret:\n{text}");
    }
    text
}

/// As the snapshots of the whole plugin, without creation times.
fn snapshots(ns: &TestNamespace) -> insta::Settings {
    let mut settings = plugin::snapshots(ns);
    settings.add_filter(r"[-0-9]+T[:0-9]+Z \(\d+s ago\)", "[time] ([age] ago)");
    settings
}

/// Compares the output of a run with a snapshot.
macro_rules! assert_ran {
    ($ns:expr, $name:literal, $args:expr) => {
        let ran = $ns.plugin($args);
        let text = format!("$ kubectl baton {}\n{}", $args.join(" "), whole(&ran));
        snapshots(&$ns).bind(|| insta::assert_snapshot!($name, text));
    };
}

/// Returns the content of a revision: a greeting, a password, and additional objects.
fn content<'a>(
    ns: &'a TestNamespace,
    greeting: &str,
    password: &str,
    more: impl IntoIterator<Item = Entry>,
) -> SetBuilder<'a> {
    let password = secret("web").with("/stringData/password", password);
    let mut objects = vec![configmap("web").data("greeting", greeting), password];
    objects.extend(more);
    ns.content().phase("config", objects)
}

/// A probe that no object passes.
fn never_passing_probe() -> Value {
    cel_probe("", "ConfigMap", "false", "never")
}

/// Changes the content and the cause of a deployment in one write. The cause of the current
/// revision stays.
async fn edit(web: &TestDeployment<'_>, cause: &str, content: SetBuilder<'_>) {
    let spec = content.manifest()["spec"].take();
    web.patch(&json!({
        "metadata": { "annotations": { CAUSE: cause } },
        "spec": { "template": { "spec": spec } },
    }))
    .await;
}

/// Creates a deployment with revisions 1 to 3, the last of which is rolled out.
async fn create_three_revisions(ns: &TestNamespace) -> TestDeployment<'_> {
    let first = content(ns, "hello", SECRET[0], [configmap("old")]);
    let web = ns
        .deployment("web")
        .content(first)
        .annotation(CAUSE, "first try");
    let web = web.create().await;
    web.concluded().await;
    let second = content(ns, "hi", SECRET[0], [configmap("old")]);
    edit(&web, "second try", second).await;
    web.concluded().await;
    let third = content(ns, "hey", "another", [configmap("new").data("a", "b")]);
    edit(&web, "third try", third).await;
    web.concluded().await;
    web.set_reaches(1, &[Is("Archived", "True")]).await;
    web.set_reaches(2, &[Is("Archived", "True")]).await;
    web
}

#[tokio::test]
async fn history_lists_all_revisions() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    create_three_revisions(&ns).await;
    assert_ran!(ns, "history", &["history", "od/web"]);
    assert_ran!(ns, "history_names", &["history", "web", "-o", "name"]);
    assert_ran!(
        ns,
        "history_unknown",
        &["history", "web", "--revision", "9"]
    );
    assert_ran!(ns, "history_nobody", &["history", "od/nobody"]);

    let ran = ns.plugin(&["history", "web", "--revision", "2", "-o", "json"]);
    let printed: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(printed["spec"]["revision"], 2);
    let listed = ns.plugin(&["history", "web", "-o", "yaml"]);
    let listed: Value = serde_saphyr::from_str(&listed.stdout).unwrap();
    assert_eq!(listed["items"][1], printed);
}

#[tokio::test]
async fn history_shows_one_revision_in_full() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    ns.create_slice(
        "web-slice",
        [configmap("sliced").collision("IfNoController")],
    )
    .await;
    let own = [configmap("web").create_only(&[".data"]), configmap("more")];
    let set = ns
        .set("web-v1")
        .phase_with_slices("config", own, &["web-slice"]);
    let set = set
        .label("app", "web")
        .probe(never_passing_probe())
        .spec("successDelaySeconds", 2);
    set.create().await;
    let controlled = ["ConfigMap web", "ConfigMap more", "ConfigMap sliced"];
    let wanted = [Is("Available", "False"), Controls(&controlled)];
    ns.reaches("web-v1", &wanted).await;
    assert_ran!(ns, "describe", &["history", "os/web-v1", "--revision", "1"]);
}

#[tokio::test]
async fn diff_compares_revisions() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    create_three_revisions(&ns).await;
    assert_ran!(ns, "diff_default", &["diff", "web"]);
    assert_ran!(
        ns,
        "diff_from_to",
        &["diff", "web", "--from", "3", "--to", "1"]
    );
    assert_ran!(
        ns,
        "diff_same",
        &["diff", "web", "--from", "2", "--to", "2"]
    );
    assert_ran!(ns, "diff_first", &["diff", "web", "--to", "1"]);
    assert_ran!(ns, "diff_unknown", &["diff", "web", "--from", "7"]);

    let mut external = ns.plugin_command(&["diff", "web"]);
    external.env("KUBECTL_EXTERNAL_DIFF", "diff -r -q");
    let output = external.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    let map = format!("v1.ConfigMap.{}.web", ns.name());
    assert!(
        text.contains(&format!(
            "Files revision-2/{map} and revision-3/{map} differ"
        )),
        "{text}"
    );
}

/// Objects in slices are compared by content, no matter which slice contains them.
#[tokio::test]
async fn diff_compares_the_content_of_slices() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let sliced = |value: &str| {
        [
            configmap("sliced").data("a", "b"),
            secret("sliced").with("/stringData/password", value),
        ]
    };
    ns.create_slice("slice-1", sliced(SECRET[0])).await;
    ns.create_slice("slice-2", sliced("another")).await;
    let own = || [configmap("web")];
    let first = ns.set("web-v1").phase_with_slices("a", own(), &["slice-1"]);
    first.create().await;
    ns.set("web-v2")
        .previous(&["web-v1"])
        .phase_with_slices("a", own(), &["slice-2"])
        .reaching(&[Is("Available", "True"), Is("Succeeded", "True")])
        .await;
    let third = ns.set("web-v3").previous(&["web-v1", "web-v2"]);
    let inline = own().into_iter().chain(sliced(SECRET[0]));
    third.phase("a", inline).create().await;
    ns.reaches(
        "web-v3",
        &[Is("Available", "True"), Is("Succeeded", "True")],
    )
    .await;

    assert_ran!(ns, "diff_slices", &["diff", "os/web-v2"]);
    assert_ran!(
        ns,
        "diff_inline",
        &["diff", "os/web-v3", "--from", "1", "--to", "3"]
    );
    let already = ns.plugin(&["rollback", "os/web-v3", "--to-revision", "1"]);
    assert_eq!(already.code, 0, "{already:?}");
    assert!(already.stdout.contains("not rolled back"), "{already:?}");

    let slice = ns.slice_ref("slice-1");
    assert!(ns.cluster().delete(&slice, "Background").await);
    ns.eventually("the slice to be gone", async || {
        ns.cluster().get(&slice).await.is_none()
    })
    .await;
    assert_ran!(ns, "diff_lost_slice", &["diff", "os/web-v2"]);
    assert_ran!(
        ns,
        "rollback_lost_slice",
        &["rollback", "os/web-v3", "--to-revision", "1"]
    );
}

#[tokio::test]
async fn diff_compares_with_live_objects() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let web = ns.deployment("web");
    let app = object("apps/v1", "Deployment", "web").with(
        "/spec",
        json!({
            "replicas": 1, "selector": { "matchLabels": { "app": "web" } },
            "template": {
                "metadata": { "labels": { "app": "web" } },
                "spec": { "containers": [{
                    "name": "web", "image": "registry.example/web:1.0",
                    "resources": { "limits": { "cpu": "1000m" } },
                }] },
            },
        }),
    );
    let scaled = app.clone().create_only(&[".spec.replicas"]);
    let objects = [configmap("gone"), scaled];
    let web = web
        .content(content(&ns, "hello", SECRET[0], objects))
        .create()
        .await;
    web.concluded().await;
    assert_ran!(ns, "live_same", &["diff", "web", "--live"]);

    // A paused revision repairs nothing.
    web.pause().await;
    web.set_reaches(1, &[Is("Paused", "True")]).await;
    ns.merge(
        &configmap("web"),
        &json!({ "data": { "greeting": "drifted", "theirs": "kept" } }),
    )
    .await;
    ns.merge(
        &secret("web"),
        &json!({ "stringData": { "password": "drifted" } }),
    )
    .await;
    ns.merge(
        &app,
        &json!({ "spec": { "replicas": 3 }, "metadata": { "labels": { "theirs": "kept" } } }),
    )
    .await;
    ns.delete(&configmap("gone")).await;
    assert_ran!(ns, "live_drifted", &["diff", "web", "--live"]);
}

/// Writes a file for the plugin, and returns its path.
fn file(dir: &TempDir, name: &str, manifest: &Value) -> String {
    let path = dir.path().join(name);
    fs::write(&path, serde_saphyr::to_string(manifest).unwrap()).unwrap();
    path.to_str().unwrap().to_owned()
}

#[tokio::test]
async fn diff_shows_what_applying_a_file_would_change() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let kept = || configmap("kept").data("a", "b");
    let manifest = |greeting: &str, more: Vec<Entry>| {
        ns.deployment("web")
            .content(content(&ns, greeting, SECRET[0], more))
            .manifest()
    };
    let diff = |manifest: &Value| {
        let text = serde_json::to_string(manifest).unwrap();
        ns.plugin_with_input(&["diff", "-f", "-"], &text)
    };
    let first = manifest("hello", vec![kept(), configmap("old")]);
    let snapshot = |name: &str, ran: &Ran| {
        snapshots(&ns).bind(|| insta::assert_snapshot!(name, whole(ran)));
    };
    snapshot("file_new", &diff(&first));

    ns.cluster().apply(&first, "kubectl-baton").await.unwrap();
    let web = ns.existing("web");
    web.concluded().await;
    snapshot("file_same", &diff(&first));

    ns.create(&configmap("stranger")).await;
    ns.create(&configmap("welcome").data("a", "b")).await;
    let mut second = manifest(
        "hi",
        vec![
            kept(),
            configmap("new"),
            configmap("stranger").data("a", "b"),
            configmap("welcome")
                .data("a", "c")
                .collision("IfNoController"),
            configmap("Bad_Name"),
            object("example.com/v1", "Unknown", "x"),
        ],
    );
    second["spec"]["revisionHistoryLimit"] = 3.into();
    snapshot("file_changes", &diff(&second));
    assert_eq!(
        web.sets().await.len(),
        1,
        "a comparison has changed something"
    );

    web.pause().await;
    let paused = diff(&second);
    assert!(
        paused.stdout.contains("paused: this is rolled out after"),
        "{paused:?}"
    );
}

/// A client-side `kubectl apply` removes the fields that the previous file had and the new one
/// lacks.
#[tokio::test]
async fn diff_shows_what_a_client_side_apply_would_change() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let dir = TempDir::new().unwrap();
    let content = || {
        ns.content()
            .phase("config", [configmap("web").data("a", "b")])
    };
    let mut applied = ns.deployment("web").content(content()).manifest();
    applied["spec"]["progressDeadlineSeconds"] = 60.into();
    let text = serde_json::to_string(&applied).unwrap();
    applied["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] =
        text.into();
    ns.cluster().create(&applied).await.unwrap();
    let web = ns.existing("web");
    web.concluded().await;
    // A field that another client has set stays.
    web.patch(&json!({ "spec": { "revisionHistoryLimit": 3 } }))
        .await;
    let given = ns.deployment("web").content(content()).manifest();
    let given = file(&dir, "web.yaml", &given);
    let ran = ns.plugin(&["diff", "-f", &given]);
    snapshots(&ns).bind(|| insta::assert_snapshot!("file_client_side", whole(&ran)));
}

#[tokio::test]
async fn diff_shows_what_a_revision_in_a_file_would_change() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let dir = TempDir::new().unwrap();
    let first = ns.set("web-v1");
    let objects = [
        configmap("web").data("a", "b"),
        configmap("old"),
        configmap("kept"),
    ];
    first.phase("a", objects).create().await;
    ns.reaches("web-v1", &[Is("Succeeded", "True")]).await;
    let second = ns.set("web-v2").previous(&["web-v1", "gone"]);
    let second = second.phase("a", [configmap("web").data("a", "c"), configmap("kept")]);
    let second = file(&dir, "v2.yaml", &second.manifest());
    assert_eq!(ns.plugin(&["diff", "-f", &second]).code, 1);
    let ran = ns.plugin(&["diff", "-f", &second]);
    snapshots(&ns).bind(|| insta::assert_snapshot!("file_revision", whole(&ran)));

    let other = ns
        .set("web-v1")
        .phase("a", [configmap("web").data("a", "c")]);
    let other = file(&dir, "v1.yaml", &other.manifest());
    let ran = ns.plugin(&["diff", "-f", &other]);
    snapshots(&ns).bind(|| insta::assert_snapshot!("file_immutable", whole(&ran)));
}

#[tokio::test]
async fn diff_shows_what_applying_plain_manifests_would_change() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let dir = TempDir::new().unwrap();
    let plain = file(
        &dir,
        "web.yaml",
        &configmap("plain").data("a", "b").manifest,
    );
    let ran = ns.plugin(&["diff", "-f", &plain]);
    snapshots(&ns).bind(|| insta::assert_snapshot!("file_plain", whole(&ran)));
    // Manifests are packed as by `pack`, with Helm's hooks.
    let mut hook = configmap("hook").manifest;
    hook["metadata"]["annotations"]["helm.sh/hook"] = "pre-install".into();
    let hook = file(&dir, "hook.yaml", &hook);
    let ran = ns.plugin(&["diff", "-f", &hook]);
    assert_eq!((ran.code, ran.stderr.as_str()), (1, ""), "{ran:?}");
    assert!(
        ran.stdout.contains("/hook (phase pre-install): created"),
        "{ran:?}"
    );
    let nameless = ns.plugin_with_input(
        &["diff", "-f", "-"],
        "{kind: ConfigMap, apiVersion: v1, metadata: {name: x}}",
    );
    assert_eq!(nameless.code, 2, "{nameless:?}");
    assert!(nameless.stderr.contains("--name"), "{nameless:?}");
    let broken = ns.plugin_with_input(&["diff", "-f", "-"], "a: [");
    assert_eq!(broken.code, 2, "{broken:?}");
    assert!(
        broken.stderr.contains("standard input:1: document 1"),
        "{broken:?}"
    );
}

alternating_scopes! {
    /// Covers the cause, the labels and the content of the last revision that succeeded.
    rollback_returns_to_the_last_revision_that_succeeded;
    chains_without_a_deployment_are_rolled_back;
    pause_and_resume_apply_to_every_kind;
}

async fn rollback_returns_to_the_last_revision_that_succeeded(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let first = content(&ns, "hello", SECRET[0], [configmap("old")]);
    let web = ns
        .deployment("web")
        .content(first)
        .annotation(CAUSE, "first try")
        .create()
        .await;
    web.concluded().await;
    let second = content(&ns, "broken", "another", []).probe(never_passing_probe());
    edit(&web, "second try", second).await;
    web.set_reaches(2, &[Is("Available", "False")]).await;

    let kind = match scope {
        Scope::Namespaced => "od",
        Scope::Cluster => "cod",
    };
    let target = format!("{kind}/{}", web.name());
    let dry = ns.plugin(&["rollback", &target, "--dry-run"]);
    assert_eq!(dry.code, 0, "{dry:?}");
    assert!(dry.stdout.ends_with("(server dry run)\n"), "{dry:?}");
    web.has_sets(&[1, 2]).await;

    let ran = ns.plugin(&["rollback", &target]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let third = web.set(3).await;
    let expected = format!(
        "revision 3 ({}) is rolled out and available\n",
        third.name()
    );
    assert!(ran.stdout.ends_with(&expected), "{ran:?}");
    third.assert(&[Is("Available", "True"), Is("Succeeded", "True")]);
    assert_eq!(annotation(&third.json, CAUSE), "first try");
    assert_eq!(
        third.json["spec"]["phases"],
        web.set(1).await.json["spec"]["phases"]
    );
    let live = ns.live(&configmap("web")).await;
    assert_eq!(live["data"]["greeting"], "hello");
    // The cause does not stay on the deployment for later changes.
    let deployment = web.concluded().await;
    let annotations = &deployment.json["metadata"]["annotations"];
    assert_eq!(annotations[CAUSE], Value::Null);

    let again = ns.plugin(&["rollback", &target, "--to-revision", "1"]);
    assert_eq!(again.code, 0, "{again:?}");
    assert!(
        again
            .stdout
            .contains("not rolled back: it has the content of revision 1"),
        "{again:?}"
    );
    web.has_sets(&[1, 2, 3]).await;
}

async fn chains_without_a_deployment_are_rolled_back(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let set = |name: &str, greeting: &str| {
        let content = configmap("web").data("greeting", greeting);
        ns.set(name).label("app", "web").phase("config", [content])
    };
    set("web-v1", "hello")
        .annotation(CAUSE, "first try")
        .create()
        .await;
    ns.reaches("web-v1", &[Is("Succeeded", "True")]).await;
    set("web-v2", "hi").previous(&["web-v1"]).create().await;
    ns.reaches("web-v2", &[Is("Succeeded", "True")]).await;
    ns.set_lifecycle("web-v1", "Archived").await;
    ns.reaches("web-v1", &[Is("Archived", "True")]).await;

    let kind = match scope {
        Scope::Namespaced => "os",
        Scope::Cluster => "cos",
    };
    let target = |name: &str| format!("{kind}/{}", ns.set_name(name));
    let ran = ns.plugin(&["rollback", &target("web-v1")]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let third = ns.read_set("web-v3").await;
    third.assert(&[Is("Available", "True"), Is("Succeeded", "True")]);
    assert_eq!(third.number(), Some(3));
    assert_eq!(previous(&third), [ns.set_name("web-v2")]);
    assert_eq!(annotation(&third.json, CAUSE), "first try");
    assert_eq!(third.json["metadata"]["labels"]["app"], "web");
    assert_eq!(
        ns.live(&configmap("web")).await["data"]["greeting"],
        "hello"
    );

    // A restart rolls out the same content again.
    let ran = ns.plugin(&["restart", &target("web-v3")]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let fourth = ns.reaches("web-v4", &[Is("Succeeded", "True")]).await;
    assert_eq!(fourth.json["spec"]["phases"], third.json["spec"]["phases"]);
    assert_eq!(
        previous(&fourth),
        [ns.set_name("web-v2"), ns.set_name("web-v3")]
    );
    let ran = ns.plugin(&["restart", &target("web-v1")]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(
        ran.stderr
            .contains("is not the newest revision of its chain"),
        "{ran:?}"
    );

    let (name, taken) = (ns.set_name("other"), ns.set_name("taken"));
    ns.set("taken")
        .revision(1)
        .phase("a", [configmap("beside")])
        .create()
        .await;
    let ran = ns.plugin(&[
        "rollback",
        &target("web-v4"),
        "--to-revision",
        "2",
        "--name",
        &taken,
    ]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.contains("choose another name"), "{ran:?}");
    let ran = ns.plugin(&[
        "rollback",
        &target("web-v4"),
        "--to-revision",
        "2",
        "--name",
        &name,
    ]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(ns.read_set("other").await.number(), Some(5));
}

#[tokio::test]
async fn impossible_rollbacks_are_refused() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let web = ns
        .deployment("web")
        .content(content(&ns, "hello", "a", []).probe(never_passing_probe()));
    let web = web.create().await;
    web.set_reaches(1, &[Is("Available", "False")]).await;
    assert_ran!(ns, "rollback_nothing", &["rollback", "web"]);
    web.edit(content(&ns, "hi", "a", [])).await;
    web.concluded().await;
    assert_ran!(ns, "rollback_never", &["rollback", "web"]);
    assert_ran!(
        ns,
        "rollback_never_named",
        &["rollback", "web", "--to-revision", "1"]
    );
    assert_ran!(
        ns,
        "rollback_unknown",
        &["rollback", "web", "--to-revision", "7"]
    );
    let set = web.set(2).await.name().to_owned();
    assert_ran!(
        ns,
        "rollback_named",
        &["rollback", "web", "--name", "other"]
    );
    let of_set = ns.plugin(&["rollback", &format!("os/{set}")]);
    assert_eq!(of_set.code, 2, "{of_set:?}");
    assert!(of_set.stderr.contains("belongs to od/web"), "{of_set:?}");
    web.has_sets(&[1, 2]).await;
}

/// A wait for a rollout that fails ends with the reason.
#[tokio::test]
async fn a_failing_rollback_ends_with_the_reason() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let web = ns
        .deployment("web")
        .content(content(&ns, "hello", "a", []).probe(never_passing_probe()));
    let web = web.create().await;
    web.set_reaches(1, &[Is("Available", "False")]).await;
    web.edit(content(&ns, "hi", "a", [])).await;
    web.concluded().await;

    let args = [
        "rollback",
        "web",
        "--to-revision",
        "1",
        "--force",
        "--timeout",
        "2s",
    ];
    let ran = ns.plugin(&args);
    assert_eq!(ran.code, 1, "{ran:?}");
    let last = ran.stderr.lines().last().unwrap_or_default();
    assert!(
        last.starts_with("error: not rolled out after 2s: "),
        "{ran:?}"
    );

    web.edit(content(&ns, "hey", "a", [])).await;
    web.patch(&json!({ "spec": { "progressDeadlineSeconds": 1 } }))
        .await;
    web.concluded().await;
    let ran = ns.plugin(&["rollback", "web", "--to-revision", "1", "--force"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(
        ran.stderr.contains("was not available within 1 second"),
        "{ran:?}"
    );

    let ran = ns.plugin(&["rollback", "web", "--no-wait"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    web.concluded().await;
    assert_eq!(ns.live(&configmap("web")).await["data"]["greeting"], "hey");
}

async fn pause_and_resume_apply_to_every_kind(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let web = ns
        .deployment("web")
        .content(content(&ns, "hello", "a", []))
        .create()
        .await;
    web.concluded().await;
    ns.set("alone")
        .phase("a", [configmap("alone")])
        .available()
        .await;
    let (deployment, set) = match scope {
        Scope::Namespaced => ("od", "os"),
        Scope::Cluster => ("cod", "cos"),
    };
    let deployment = format!("{deployment}/{}", web.name());
    let set = format!("{set}/{}", ns.set_name("alone"));
    let prefix = match scope {
        Scope::Namespaced => "object",
        Scope::Cluster => "clusterobject",
    };
    let names = [
        format!("{prefix}deployment.package-operator.run/{}", web.name()),
        format!("{prefix}set.package-operator.run/{}", ns.set_name("alone")),
    ];
    let says = |args: &[&str], words: &str| {
        let mut args = args.to_vec();
        args.extend([deployment.as_str(), set.as_str()]);
        let ran = ns.plugin(&args);
        let lines = names.iter().map(|name| format!("{name} {words}\n"));
        let expected: String = lines.collect();
        assert_eq!(
            (ran.code, ran.stdout.as_str()),
            (0, expected.as_str()),
            "{ran:?}"
        );
    };
    says(&["pause", "--dry-run"], "paused (server dry run)");
    says(&["resume"], "not paused");
    says(&["pause"], "paused");
    says(&["pause"], "already paused");
    ns.reaches("alone", &[Is("Paused", "True")]).await;
    let member = web.set_reaches(1, &[Is("Paused", "True")]).await;

    let refused = ns.plugin(&["restart", &deployment]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(
        refused.stderr.contains("is paused; resume it first"),
        "{refused:?}"
    );
    let refused = ns.plugin(&["rollback", &deployment]);
    assert!(refused.stderr.contains("is paused"), "{refused:?}");
    let (kind, _) = set.split_once('/').unwrap();
    let refused = ns.plugin(&["resume", &format!("{kind}/{}", member.name())]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(
        refused.stderr.contains("resume this one instead"),
        "{refused:?}"
    );

    says(&["resume"], "resumed");
    ns.reaches("alone", &[No("Paused"), Is("Available", "True")])
        .await;
    web.set_reaches(1, &[No("Paused"), Is("Available", "True")])
        .await;
}

#[tokio::test]
async fn restart_creates_a_revision_of_the_same_content() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let web = ns
        .deployment("web")
        .content(content(&ns, "hello", "a", []))
        .create()
        .await;
    web.concluded().await;
    let before = ns.live(&configmap("web")).await;
    assert_ran!(ns, "restart", &["restart", "web"]);
    let second = web.set_reaches(2, &[Is("Succeeded", "True")]).await;
    let first = web.set_reaches(1, &[Is("Archived", "True")]).await;
    assert_eq!(first.json["spec"]["phases"], second.json["spec"]["phases"]);
    assert_eq!(uid(&ns.live(&configmap("web")).await), uid(&before));
    assert_ran!(ns, "restart_diff", &["diff", "web"]);
    // No revision has another content, so there is no rollback.
    assert_ran!(ns, "restart_rollback", &["rollback", "web"]);
}

/// Other targets are processed if one fails.
#[tokio::test]
async fn a_failing_target_does_not_stop_the_others() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    for name in ["a", "b"] {
        let set = ns.set(name).revision(1);
        set.phase("config", [configmap(name)]).create().await;
    }
    ns.set("z")
        .lifecycle("Archived")
        .reaching(&[Is("Archived", "True")])
        .await;
    assert_ran!(
        ns,
        "pause_several",
        &["pause", "os", "a", "nobody", "z", "b"]
    );
    for name in ["a", "b"] {
        ns.reaches(name, &[Is("Paused", "True")]).await;
    }
    assert_ran!(ns, "pause_nothing", &["pause"]);
    assert_ran!(ns, "pause_no_kind", &["pause", "deploy/web"]);
}

/// An error about a missing right names the verb and the resource, and a reader can use the reading
/// commands.
#[tokio::test]
async fn missing_rights_are_named() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let web = create_three_revisions(&ns).await;
    let user = ns.unique("reader");
    let rules = json!([
        { "apiGroups": ["package-operator.run"], "verbs": ["get", "list"],
          "resources": ["objectdeployments", "objectsets"] },
        { "apiGroups": [""], "verbs": ["get", "list"], "resources": ["configmaps", "secrets"] },
    ]);
    ns.grant(&user, rules).await;
    let as_user = |args: &[&str]| {
        let mut args = args.to_vec();
        args.extend(["--as", user.as_str()]);
        ns.plugin(&args)
    };
    ns.eventually("the rights to count", async || {
        as_user(&["history", "web"]).code == 0
    })
    .await;
    assert_eq!(as_user(&["diff", "web"]).code, 1);
    assert_eq!(as_user(&["diff", "web", "--live"]).code, 0);
    for args in [
        &["rollback", "web"][..],
        &["pause", "web"],
        &["restart", "web"],
    ] {
        let ran = as_user(args);
        let right = "cannot patch resource \"objectdeployments\"";
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(ran.stderr.contains(right), "{ran:?}");
    }
    let wanted = ns
        .deployment("web")
        .content(content(&ns, "x", "a", []))
        .manifest();
    let text = serde_json::to_string(&wanted).unwrap();
    let ran = ns.plugin_with_input(&["diff", "-f", "-", "--as", &user], &text);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.contains("cannot patch resource"), "{ran:?}");
    web.has_sets(&[1, 2, 3]).await;
}
