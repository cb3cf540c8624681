//! The plugin's reading commands, and their output.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;

use baton_integration::faults::ObservedRequest;
use baton_integration::plugin::snapshots;
use baton_integration::prelude::*;
use baton_integration::sites::{PUSH, Site};
use tokio::task::spawn_blocking;

/// Compares the printed text with the snapshot of this name.
macro_rules! assert_shows {
    ($ns:expr, $name:literal, $text:expr) => {
        snapshots(&$ns).bind(|| insta::assert_snapshot!($name, $text));
    };
}

/// Creates a namespace with one available revision, `v1`.
async fn one_revision() -> TestNamespace {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    ns.revision(1)
        .phase("a", [configmap("cm")])
        .available()
        .await;
    ns
}

/// Creates a deployment whose first revision is available. The second one becomes available once
/// [`FAILING`] is annotated with its own name.
async fn failing(ns: &TestNamespace) -> TestDeployment<'_> {
    let app = configmap("app-1");
    let content = ns
        .content()
        .phase(
            "config",
            [secret("settings").with("/stringData/greeting", "hello")],
        )
        .phase("app", [app.clone()])
        .probe(name_annotation_probe());
    let web = ns
        .deployment("web")
        .annotation("kubernetes.io/change-cause", "the first one")
        .content(content)
        .create()
        .await;
    ns.object_becomes(&app, "written", |_| true).await;
    ns.annotate_with_name(&app).await;
    web.concluded().await;
    let content = ns
        .content()
        .phase(
            "config",
            [secret("settings").with("/stringData/greeting", "bonjour")],
        )
        .phase("app", [configmap(FAILING)])
        .phase("traffic", [secret("certificate")])
        .probe(name_annotation_probe());
    web.annotate("kubernetes.io/change-cause", "the second one")
        .await;
    web.edit(content).await;
    web.set_reaches(2, &[Because("Available", "False", "ProbeFailure")])
        .await;
    // The first revision has observed the loss of an object.
    web.set_reaches(1, &[Is("InTransition", "True"), Is("Available", "True")])
        .await;
    web.reaches(&[Is("Available", "True"), Is("Progressing", "True")])
        .await;
    web
}

/// The object that the second revision of [`failing`] waits for.
const FAILING: &str = "app-2";

#[tokio::test]
async fn a_chain_is_shown_from_its_failure_to_its_end() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let web = failing(&ns).await;
    let tree = ns.plugin(&["tree", "od/web"]).success();
    assert_shows!(ns, "tree_failing", tree);
    assert_eq!(ns.plugin(&["tree"]).success(), tree);
    assert_eq!(ns.plugin(&["tree", "web"]).success(), tree);
    let status = ns.plugin(&["status", "web"]);
    assert_eq!((status.code, status.stderr.as_str()), (1, ""));
    assert_shows!(ns, "status_failing", status.stdout);
    let waited = ns.plugin(&["wait", "web", "--for=succeeded", "--timeout=1s"]);
    assert_eq!((waited.code, waited.stdout.as_str()), (1, ""));
    assert_shows!(ns, "wait_in_vain", waited.stderr);

    // A command with `--watch` follows the rollout to its end.
    let mut follower = ns.plugin_started(&["tree", "web", "--watch"]);
    follower.writes("the first picture", |lines| {
        lines.iter().any(|line| line.contains("missing"))
    });
    let wait = ns.plugin_command(&["wait", "web", "--for=succeeded"]);
    let wait = std::thread::spawn(move || { wait }.output().unwrap());
    ns.annotate_with_name(&configmap(FAILING)).await;
    follower.writes("the last picture", |lines| {
        lines
            .iter()
            .any(|line| line.contains("revision 1") && line.ends_with("Archived"))
    });
    assert_eq!(follower.interrupt(), 130);
    assert_eq!(wait.join().unwrap().status.code(), Some(0));

    web.concluded().await;
    web.set_reaches(1, &[Is("Archived", "True")]).await;
    assert_shows!(ns, "tree_done", ns.plugin(&["tree", "web"]).success());
    let archived = ns
        .plugin(&["tree", "web", "--archived", "--ascii"])
        .success();
    assert_shows!(ns, "tree_archived", archived);
    assert_shows!(ns, "status_done", ns.plugin(&["status", "web"]).success());
    let watched = ns
        .plugin(&["status", "web", "--watch", "-o", "json"])
        .success();
    let watched: Value = serde_json::from_str(&watched).unwrap();
    assert_eq!(
        (&watched["rolledOut"], &watched["revision"]["revision"]),
        (&json!(true), &json!(2))
    );
    for (what, answer) in [
        ("revision=2", "is at revision 2"),
        ("archived", "all revisions of"),
        ("available", "is available"),
        ("condition=Progressing=False", "Progressing=False"),
    ] {
        let written = ns.plugin(&["wait", "web", "--for", what]).success();
        assert!(written.contains(answer), "{written}");
    }
}

#[tokio::test]
async fn only_events_of_the_chain_are_shown() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    failing(&ns).await;
    let other = configmap("other");
    ns.set("other")
        .revision(1)
        .phase("a", [other])
        .probe(name_annotation_probe())
        .create()
        .await;
    // Events are written in the background.
    ns.eventually("an event of each kind", async || {
        let events = ns.plugin(&["events"]).stdout;
        ["NewRevision", "TookOver", "ObjectSet/other"]
            .iter()
            .all(|word| events.contains(word))
    })
    .await;
    let events = ns.plugin(&["events", "web"]).success();
    assert!(events.starts_with("LAST SEEN "), "{events}");
    assert!(!events.contains("ObjectSet/other"), "{events}");
    let offset = |reason: &str| events.find(reason).unwrap_or_else(|| panic!("{events}"));
    assert!(
        offset("as revision 1") < offset("as revision 2"),
        "{events}"
    );
    assert!(offset("as revision 2") < offset("TookOver"), "{events}");

    let mut follower = ns.plugin_started(&["events", "web", "-w"]);
    follower.writes("the existing events", |lines| {
        lines.iter().any(|line| line.contains("TookOver"))
    });
    ns.annotate_with_name(&configmap(FAILING)).await;
    follower.writes("the new events", |lines| {
        lines
            .iter()
            .any(|line| line.contains("Revision 2 is rolled out"))
    });
    assert_eq!(follower.interrupt(), 130);
}

/// Creates objects with each kind of owner, in both scopes.
async fn owners_of_all_kinds(scope: Scope) -> (TestNamespace, String) {
    let ns = TestNamespace::new(scope).await;
    let (own, gone, free, taken) = (
        configmap("own"),
        configmap("gone"),
        configmap("free"),
        configmap("taken"),
    );
    let objects = || [own.clone(), gone.clone(), free.clone(), taken.clone()];
    ns.create_slice("slice", [secret("sliced")]).await;
    ns.set("v1")
        .phase_with_slices("a", objects(), &["slice"])
        .reaching(&[Is("Succeeded", "True")])
        .await;
    ns.set_lifecycle("v1", "Paused").await;
    ns.reaches("v1", &[Is("Paused", "True")]).await;
    ns.delete(&gone).await;
    let owners = |list: Value| json!({ "metadata": { "ownerReferences": list } });
    ns.merge(&free, &owners(json!([]))).await;
    let stranger = json!([baton_integration::manifest::foreign_controller()]);
    // A foreign controller removes the labels as well.
    let mut patch = owners(stranger);
    patch["metadata"]["labels"] = Value::Null;
    ns.merge(&taken, &patch).await;
    ns.set("v2")
        .previous(&["v1"])
        .phase("a", [own.clone()])
        .reaching(&[Is("Succeeded", "True")])
        .await;
    ns.reaches("v1", &[Because("Available", "False", "CollisionDetected")])
        .await;
    let kind = match scope {
        Scope::Namespaced => "os",
        Scope::Cluster => "cos",
    };
    let target = format!("{kind}/{}", ns.set_name("v2"));
    (ns, target)
}

#[tokio::test]
async fn owners_of_objects_are_shown() {
    let (ns, target) = owners_of_all_kinds(Scope::Namespaced).await;
    assert_shows!(ns, "tree_owners", ns.plugin(&["tree", &target]).success());
    let previous = ns.plugin(&["tree", "v1"]).success();
    assert_eq!(previous, ns.plugin(&["tree", &target]).success());
}

#[tokio::test]
async fn owners_of_objects_of_cluster_scoped_revisions_are_shown() {
    let (ns, target) = owners_of_all_kinds(Scope::Cluster).await;
    assert_shows!(
        ns,
        "tree_owners_cluster",
        ns.plugin(&["tree", &target]).success()
    );
}

#[tokio::test]
async fn delegated_phases_are_shown() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let near = || configmap("near").data("a", "b");
    let set = ns.revision(1).phase("here", [configmap("cm")]);
    let set = set.delegated("near", "default", [near(), configmap("more")]);
    let set = set.delegated("there", "elsewhere", [configmap("far")]);
    set.create().await;
    ns.eventually("the last phase to be made", async || {
        ns.phase_object("v1", "there").await.is_some()
    })
    .await;
    let unserved = Says("Available", "Phase \"there\" failed: no status reported");
    ns.reaches("v1", &[unserved]).await;
    let there = ns.phase_object("v1", "there").await.unwrap();
    assert_shows!(
        ns,
        "tree_delegated",
        ns.plugin(&["tree", "os/v1"]).success()
    );
    let status = ns.plugin(&["status", "os/v1"]);
    let hint = "No controller has reported on phase there, which has the class elsewhere; Baton serves only the \
                classes default and cluster.NAME\n";
    assert!(status.stdout.contains(hint), "{status:?}");
    let live = ns.plugin(&["diff", "os/v1", "--live"]).success();
    let far = "(phase there): not compared: class elsewhere writes it\n";
    assert!(live.ends_with(far) && live.lines().count() == 1, "{live}");

    // Another manager could report this status.
    let condition = |status: &str| {
        json!({ "status": { "conditions": [{
            "type": "Available", "status": status, "reason": "ProbeFailure", "message": "not yet",
            "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z",
        }] } })
    };
    let row = |start: &str| {
        let tree = ns.plugin(&["tree", "os/v1"]).success();
        let row = tree.lines().find(|line| line.contains(start));
        let words = row.unwrap_or_else(|| panic!("{tree}")).split_whitespace();
        words.collect::<Vec<_>>().join(" ")
    };
    for (status, head, below) in [
        (
            "False",
            "└─ phase there (class elsewhere) 0/1 not yet",
            // The status of the phase does not name the failing object.
            "Unknown",
        ),
        ("True", "└─ phase there (class elsewhere) 1/1", "True"),
    ] {
        let cluster = ns.cluster();
        cluster
            .merge_status(&there.json, &condition(status))
            .await
            .unwrap();
        assert_eq!(row("phase there"), head);
        assert_eq!(
            row("ConfigMap/far"),
            format!("└─ ConfigMap/far {below} class elsewhere")
        );
    }

    // The objects of the class `default` are inspected one by one.
    ns.set_lifecycle("v1", "Paused").await;
    ns.eventually("the phase to be paused", async || {
        let near = ns.phase_object("v1", "near").await.unwrap();
        let conditions = near.json["status"]["conditions"].as_array();
        let is_paused = |condition: &Value| condition["type"] == "Paused";
        conditions.is_some_and(|conditions| conditions.iter().any(is_paused))
    })
    .await;
    ns.delete(&configmap("more")).await;
    ns.merge(&near(), &json!({ "data": { "a": "c" } })).await;
    assert_eq!(row("ConfigMap/more"), "│ └─ ConfigMap/more - missing");
    let live = ns.plugin(&["diff", "os/v1", "--live"]);
    assert_eq!((live.code, live.stderr.as_str()), (1, ""), "{live:?}");
    for expected in [
        "near (phase near): different in the cluster\n---",
        "-  a: c\n+  a: b\n",
        "more (phase near): not in the cluster\n",
    ] {
        assert!(live.stdout.contains(expected), "{}", live.stdout);
    }
}

#[tokio::test]
async fn only_orphans_are_found() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let (left, kept) = (configmap("left"), configmap("kept"));
    ns.set("v1")
        .revision(7)
        .phase("a", [left.clone()])
        .create()
        .await;
    ns.set("v2").revision(1).phase("a", [kept]).create().await;
    ns.reaches("v1", &[Is("Available", "True")]).await;
    ns.reaches("v2", &[Is("Available", "True")]).await;
    let none = ns.plugin(&["orphans"]);
    assert_eq!((none.code, none.stdout.as_str()), (0, ""));
    let none_found = format!("No resources found in {} namespace.\n", ns.name());
    assert_eq!(none.stderr, none_found);
    ns.delete_set("v1", "Orphan").await;
    assert_shows!(ns, "orphans", ns.plugin(&["orphans"]).success());
    let names = ns.plugin(&["orphans", "-o", "name"]).success();
    assert_eq!(names, "configmap/left\n");
    let list = ns.plugin(&["orphans", "-o", "json"]).success();
    let list: Value = serde_json::from_str(&list).unwrap();
    assert_eq!(
        list["items"][0]["metadata"]["uid"],
        *uid(&ns.live(&left).await)
    );
    assert_eq!(list["items"][0]["kind"], "ConfigMap");
    // With `-A`, the objects of other tests are listed as well.
    let all = ns.plugin(&["orphans", "-A"]).success();
    let row = format!("{}   configmap/left", ns.name());
    assert!(all.lines().any(|line| line.starts_with(&row)), "{all}");
}

#[tokio::test]
async fn errors_are_one_line_and_code_2() {
    let ns = one_revision().await;
    let account = format!("--as=system:serviceaccount:{}:nobody", ns.name());
    for (args, expected) in [
        (
            &["tree", "od/none"][..],
            "objectdeployments \"none\" not found in namespace \"NAMESPACE\"",
        ),
        (
            &["status", "none"],
            "objectdeployments or objectsets \"none\" not found in namespace \"NAMESPACE\"",
        ),
        (
            &["wait", "cod/none"],
            "clusterobjectdeployments \"none\" not found",
        ),
        (&["tree", "deploy/web"], "unknown kind \"deploy\"; use od "),
        (&["tree", "os/v1", "--revision=5"], "there is no revision 5"),
        (
            &["tree", "os/v1", "-A"],
            "a TARGET and -A cannot be used together",
        ),
        (
            &["tree", &account],
            "objectdeployments.package-operator.run is forbidden: \
             User \"system:serviceaccount:NAMESPACE:nobody\" cannot list",
        ),
        (&["tree", "--watch", &account], "is forbidden: User"),
        (&["events", &account], "is forbidden: User"),
        (
            &["status", "os/v1", "--watch", &account],
            "is forbidden: User",
        ),
        (
            &["tree", "--context=none"],
            "has no context \"none\"; choose one of",
        ),
        (
            &["tree", "--kubeconfig=/none"],
            "cannot read the kubeconfig /none",
        ),
    ] {
        let stderr = ns.plugin(args).failed().replace(ns.name(), "NAMESPACE");
        assert!(stderr.starts_with("error: "), "{args:?}: {stderr}");
        assert!(stderr.contains(expected), "{args:?}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{args:?}: {stderr}");
    }
}

#[tokio::test]
async fn a_server_without_our_kinds_is_reported() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let site = Site::get(PUSH).await;
    let elsewhere = format!("--kubeconfig={}", site.kubeconfig().display());
    let plain = configmap("cm").manifest.to_string();
    for args in [
        &["tree"][..],
        &["status", "web"],
        &["pause", "cod/web"],
        &["diff", "-f", "-", "--name=web"],
        &["pack", "-", "--name=web", "--apply"],
    ] {
        let args = [args, &[&elsewhere, "-n", "default"]].concat();
        let said = ns.plugin_with_input(&args, &plain).failed();
        assert!(said.contains(" does not serve "), "{args:?}: {said}");
        assert!(said.contains("install Baton"), "{args:?}: {said}");
    }
}

/// Kinds that the user may not list are reported, which is no failure.
#[tokio::test]
async fn orphans_that_cannot_be_read_are_no_failure() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let account = format!("--as=system:serviceaccount:{}:nobody", ns.name());
    let ran = ns.plugin(&["orphans", &account]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{ran:?}");
    assert!(
        ran.stderr
            .contains("warning: no right to list configmaps, "),
        "{ran:?}"
    );
    assert!(ran.stderr.contains("deployments.apps"), "{ran:?}");
}

/// The user may list revisions and some of their objects, but read no single object.
#[tokio::test]
async fn unreadable_objects_are_reported() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    ns.revision(1)
        .phase("a", [secret("hidden"), configmap("seen")])
        .available()
        .await;
    // Without `get`, the plugin uses lists. Their number does not depend on the number of objects.
    let rules = json!([
        { "apiGroups": ["package-operator.run"], "resources": ["*"], "verbs": ["list"] },
        { "apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"] },
    ]);
    let user = ns.unique("reader");
    ns.grant(&user, rules).await;
    let account = format!("--as={user}");
    // The server applies new rights with a delay.
    ns.eventually("the rights to be there", async || {
        ns.plugin(&["tree", "v1", &account]).code == 0
    })
    .await;
    let tree = ns.plugin(&["tree", "v1", &account]).success();
    let row = |start: &str| {
        let row = tree.lines().find(|line| line.contains(start));
        row.unwrap_or_else(|| panic!("{tree}"))
    };
    let hidden = row("Secret/hidden");
    assert!(hidden.contains("Unknown   unknown "), "{tree}");
    assert!(hidden.contains("secrets is forbidden"), "{tree}");
    assert!(
        row("ConfigMap/seen").ends_with("True      revision 1"),
        "{tree}"
    );
}

#[tokio::test]
async fn a_closed_standard_output_is_no_failure() {
    let ns = one_revision().await;
    let mut command = ns.plugin_command(&["tree", "v1"]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut stderr = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut stderr)
        .unwrap();
    assert_eq!(
        (child.wait().unwrap().code(), stderr.as_str()),
        (Some(141), "")
    );
}

#[tokio::test]
async fn colours_depend_on_flags_and_the_environment() {
    let ns = one_revision().await;
    let plain = ns.plugin(&["tree", "v1"]).success();
    assert!(!plain.contains('\x1b'), "{plain:?}");
    let colours = ns.plugin(&["tree", "v1", "--color=always"]).success();
    assert!(colours.contains("\x1b[32mTrue\x1b[0m"), "{colours:?}");
    // Another part of the plugin formats the tables.
    let colours = ns.plugin(&["history", "v1", "--color=always"]).success();
    assert!(colours.contains('\x1b'), "{colours:?}");
    let output = ns
        .plugin_command(&["history", "v1"])
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    assert!(!output.stdout.contains(&b'\x1b'));
}

#[tokio::test]
async fn empty_lists_are_reported_as_by_kubectl() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let ran = ns.plugin(&["tree"]);
    let none_found = format!("No resources found in {} namespace.\n", ns.name());
    assert_eq!(
        (ran.code, ran.stdout, ran.stderr),
        (0, String::new(), none_found)
    );
    let gone = ns.plugin(&["wait", "od/web", "--for=deleted"]).success();
    assert_eq!(gone, "od/web does not exist\n");
}

#[tokio::test]
async fn deletions_are_waited_for() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let object = configmap("cm").blocked();
    ns.revision(1)
        .phase("a", [object.clone()])
        .available()
        .await;
    let wait = ["wait", "os/v1", "--for=deleted", "--timeout=1s"];
    let ran = ns.plugin(&wait);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stderr.contains("is not being deleted"), "{ran:?}");
    assert!(ns.cluster().delete(&ns.set_ref("v1"), "Background").await);
    let ran = ns.plugin(&wait);
    assert_eq!(ran.code, 1, "{ran:?}");
    let finalizers = "waits for its finalizers: package-operator.run/cached";
    assert!(ran.stderr.contains(finalizers), "{ran:?}");
    let waiting = ns.plugin_waiting(&["wait", "os/v1", "--for=deleted"]);
    ns.unblock(&object).await;
    let output = waiting.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(output.stdout, b"os/v1 is deleted\n");
}

/// Slices are immutable, so each is read once, no matter how often the state changes.
#[tokio::test]
async fn objects_in_slices_are_counted() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let (inline, sliced, last) = (configmap("inline"), configmap("sliced"), configmap("last"));
    ns.create_slice("slice", [sliced.clone()]).await;
    ns.revision(1)
        .phase_with_slices("a", [inline.clone()], &["slice"])
        .phase("b", [last.clone()])
        .probe(name_annotation_probe())
        .reaching(&[Because("Available", "False", "ProbeFailure")])
        .await;
    let first = ns.plugin(&["status", "os/v1"]).stdout;
    assert!(first.contains(", 0 of 3 objects ready"), "{first}");

    let plugin = ns.seen_plugin().await;
    let reads = |requests: &[ObservedRequest]| {
        let reads = requests.iter();
        reads
            .filter(|request| request.path.contains("/objectslices"))
            .count()
    };
    let mut follow = plugin.command(&["status", "os/v1", "--watch"]);
    let mut follow = follow
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut progress = BufReader::new(follow.stderr.take().unwrap()).lines();
    // This runtime passes the plugin's requests on, so it must not block.
    let first = spawn_blocking(move || (progress.next(), progress));
    let (first, progress) = first.await.unwrap();
    assert!(
        first
            .as_ref()
            .unwrap()
            .as_ref()
            .unwrap()
            .starts_with("0/3 "),
        "{first:?}"
    );
    assert_eq!(reads(&plugin.requests()), 1);
    for entry in [&inline, &sliced, &last] {
        ns.object_becomes(entry, "written", |_| true).await;
        ns.annotate_with_name(entry).await;
    }
    // The number of further lines depends on timing.
    let followed = spawn_blocking(move || (progress.count(), follow.wait_with_output()));
    let (_, followed) = followed.await.unwrap();
    let followed = followed.unwrap();
    assert_eq!(followed.status.code(), Some(0), "{followed:?}");
    let last = String::from_utf8(followed.stdout).unwrap();
    assert!(last.contains(", 3 of 3 objects ready"), "{last}");
    assert_eq!(reads(&plugin.requests()), 1);
}
