//! The plugin's commands about Shipper's Applications and Releases, on objects in the state that
//! the controllers leave. No manager runs, so only these tests change the objects.

use std::process::Stdio;

use baton_integration::plugin::dated_snapshots;
use baton_integration::prelude::*;
use baton_integration::unmanaged;

const API: &str = "shipper.booking.com/v1alpha1";
const THEN: &str = "2026-01-01T00:00:00Z";

/// Compares the printed text with the snapshot of this name. The conditions were written long ago.
macro_rules! assert_shows {
    ($ns:expr, $name:literal, $text:expr) => {
        dated_snapshots(&$ns).bind(|| insta::assert_snapshot!($name, $text));
    };
}

fn environment(version: &str) -> Value {
    let step = |name: &str, incumbent: i64, contender: i64| {
        json!({
            "name": name,
            "capacity": { "incumbent": incumbent, "contender": contender },
            "traffic": { "incumbent": incumbent, "contender": contender },
        })
    };
    json!({
        "chart": { "name": "nginx", "version": version, "repoUrl": "https://charts.example.com" },
        "values": { "replicaCount": 6, "image": { "tag": version } },
        "clusterRequirements": { "regions": [{ "name": "eu", "replicas": 2 }] },
        "strategy": { "steps": [step("staging", 100, 1), step("50/50", 50, 50), step("full on", 0, 100)] },
    })
}

fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({
        "type": type_, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": THEN,
    })
}

/// Returns the strategy's status of a step. All of the step is achieved, except for the given
/// condition.
fn strategy(step: i64, lacks: Option<(&str, &str)>) -> Value {
    let types = [
        "ContenderAchievedCapacity",
        "ContenderAchievedInstallation",
        "ContenderAchievedTraffic",
        "IncumbentAchievedCapacity",
        "IncumbentAchievedTraffic",
    ];
    let conditions = types.map(|type_| {
        let (status, reason, message) = match lacks {
            Some((lacking, message)) if lacking == type_ => ("False", "ClustersNotReady", message),
            _ => ("True", "", ""),
        };
        let mut condition = condition(type_, status, reason, message);
        condition["step"] = step.into();
        condition
    });
    json!({ "conditions": conditions })
}

/// Returns the status of a Release that has achieved a step, and is complete at the last one.
fn reached(step: i64, name: &str) -> Value {
    let mut conditions = vec![condition("Scheduled", "True", "", "")];
    if step == 2 {
        conditions.insert(0, condition("Complete", "True", "", ""));
    }
    json!({
        "achievedStep": { "step": step, "name": name },
        "conditions": conditions,
        "strategy": strategy(step, None),
    })
}

fn application(name: &str, environment: &Value) -> Entry {
    let message = "Transitioning from \"shop-old-0\" to \"shop-new-0\"";
    object(API, "Application", name)
        .with("/spec", json!({ "template": environment }))
        .with(
            "/status/conditions",
            json!([condition("RollingOut", "True", "", message)]),
        )
}

fn labelled(entry: Entry, name: &str) -> Entry {
    entry
        .label("shipper-app", "shop")
        .label("shipper-release", name)
}

fn release(name: &str, generation: i64, target_step: i64, environment: &Value) -> Entry {
    labelled(object(API, "Release", name), name)
        .annotation(
            "shipper.booking.com/release.generation",
            &generation.to_string(),
        )
        .annotation("shipper.booking.com/release.clusters", "here,north")
        .with(
            "/spec",
            json!({ "targetStep": target_step, "environment": environment }),
        )
}

/// The state of a cluster: name, wanted percentage, pods out of 6, wanted weight and achieved
/// weight.
type InCluster<'a> = (&'a str, i64, i64, i64, i64);

/// Creates the targets of a Release with their statuses.
async fn targets(ns: &TestNamespace, release: &str, clusters: &[InCluster<'_>]) {
    let ready = json!([
        condition("Operational", "True", "", ""),
        condition("Ready", "True", "", "")
    ]);
    let names: Vec<&str> = clusters.iter().map(|cluster| cluster.0).collect();
    let installed: Vec<Value> = names
        .iter()
        .map(|name| json!({ "name": name, "conditions": ready }))
        .collect();
    let installation = object(API, "InstallationTarget", release)
        .with("/spec", json!({ "clusters": names, "canOverride": false }))
        .with("/status", json!({ "clusters": installed }));
    ns.create(&labelled(installation, release)).await;

    let mut capacity = (Vec::new(), Vec::new());
    let mut traffic = (Vec::new(), Vec::new());
    for (name, percent, pods, weight, arriving) in clusters {
        capacity
            .0
            .push(json!({ "name": name, "percent": percent, "totalReplicaCount": 6 }));
        let conditions = if pods * 100 >= percent * 6 {
            ready.clone()
        } else {
            json!([condition(
                "Ready",
                "False",
                "InProgress",
                "1/3: PodInitializing"
            )])
        };
        capacity.1.push(json!({
            "name": name, "availableReplicas": pods, "achievedPercent": (pods * 100 + 5) / 6,
            "conditions": conditions,
        }));
        traffic.0.push(json!({ "name": name, "weight": weight }));
        traffic
            .1
            .push(json!({ "name": name, "achievedTraffic": arriving, "conditions": ready }));
    }
    for (kind, (spec, status)) in [("CapacityTarget", capacity), ("TrafficTarget", traffic)] {
        let entry = object(API, kind, release).with("/spec", json!({ "clusters": spec }));
        let mut created = ns.create(&labelled(entry, release)).await;
        created["status"] = json!({ "observedGeneration": 1, "clusters": status });
        ns.cluster().update_status(&created).await.unwrap();
    }
}

/// Creates the rendered objects of a Release, and its revisions in both clusters.
async fn content(ns: &TestNamespace, release: &Value, number: i64, data: &str) {
    let name = release["metadata"]["name"].as_str().unwrap();
    let owner = json!([{
        "apiVersion": API, "kind": "Release", "name": name, "uid": release["metadata"]["uid"],
    }]);
    let map = |map: &str| {
        json!({ "object": {
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": map, "labels": { "shipper-release": name } },
            "data": { "of": data },
        } })
    };
    let secret = json!({ "object": {
        "apiVersion": "v1", "kind": "Secret",
        "metadata": { "name": "password" }, "stringData": { "password": data },
    } });
    let ours = "package-operator.run/v1alpha1";
    let slice = object(ours, "ObjectSlice", &format!("{name}-0"))
        .with("/metadata/ownerReferences", owner)
        .with("/objects", json!([map(&format!("{name}-web")), secret]));
    ns.create(&labelled(slice, name)).await;
    for (cluster, class) in [("here", ""), ("north", "cluster.north")] {
        let phase = json!({ "name": "all", "class": class, "slices": [format!("{name}-0")] });
        let set = object(ours, "ObjectSet", &format!("{name}-{cluster}"))
            .label("baton.run/chain", &format!("shop-{cluster}"))
            .with("/spec", json!({ "revision": number, "phases": [phase] }));
        ns.create(&labelled(set, name)).await;
    }
}

/// Creates an Application in the middle of a rollout, whose second step lacks pods in one cluster.
pub(crate) async fn mid_rollout(ns: &TestNamespace) {
    let (old, new) = (environment("1.0.0"), environment("1.1.0"));
    ns.create(&application("shop", &new)).await;
    let lacks = "release \"shop-new-0\" hasn't achieved capacity in clusters: north: InProgress";
    let mut status = reached(0, "staging");
    status["strategy"] = strategy(1, Some(("ContenderAchievedCapacity", lacks)));
    let first = release("shop-old-0", 0, 2, &old).with("/status", reached(2, "full on"));
    let second = release("shop-new-0", 1, 1, &new).with("/status", status);
    let (first, second) = (ns.create(&first).await, ns.create(&second).await);
    content(ns, &first, 1, "before").await;
    content(ns, &second, 2, "after").await;
    targets(
        ns,
        "shop-old-0",
        &[("here", 100, 6, 100, 100), ("north", 100, 6, 100, 50)],
    )
    .await;
    targets(
        ns,
        "shop-new-0",
        &[("here", 50, 3, 50, 50), ("north", 50, 2, 50, 0)],
    )
    .await;
}

/// Returns the words of a text, without ages.
fn ageless(text: &str) -> Vec<&str> {
    let is_age = |word: &&str| {
        word.strip_suffix('s')
            .is_some_and(|age| age.parse::<u64>().is_ok())
    };
    text.split_whitespace()
        .filter(|word| !is_age(word))
        .collect()
}

#[tokio::test]
async fn an_application_is_shown() {
    let ns = unmanaged::namespace().await;
    mid_rollout(&ns).await;
    let tree = ns.plugin(&["tree", "app/shop"]).success();
    assert_shows!(ns, "application_tree", tree);
    for words in [
        &["tree", "application/shop"][..],
        &["tree", "app", "shop"],
        &["tree", "applications.shipper.booking.com/shop"],
    ] {
        assert_eq!(ageless(&ns.plugin(words).success()), ageless(&tree));
    }
    let one = ns.plugin(&["tree", "rel/shop-old-0"]).success();
    assert!(
        !one.contains("shop-new-0") && one.contains("shop-old-0-north"),
        "{one}"
    );
    let json = ns.plugin(&["tree", "app/shop", "-o", "json"]).success();
    let json: Value = serde_json::from_str(&json).unwrap();
    let cluster = &json["application"]["releases"][0]["clusters"][0];
    assert_eq!(cluster["traffic"]["servicePercent"], 33);
    assert_eq!(cluster["revision"]["name"], "shop-new-0-here");
    let service = &json["application"]["service"][1];
    assert_eq!(
        service["releases"],
        json!([{ "name": "shop-old-0", "percent": 100 }])
    );

    let status = ns.plugin(&["status", "app/shop"]);
    assert_eq!((status.code, status.stderr.as_str()), (1, ""));
    assert_shows!(ns, "application_status", status.stdout);
    assert_eq!(ns.plugin(&["status", "rel/shop-old-0"]).code, 0);
    let history = ns.plugin(&["history", "app/shop"]).success();
    assert_shows!(ns, "application_history", history);
    let first = ns
        .plugin(&["history", "app/shop", "--revision", "0"])
        .success();
    assert!(first.contains("name: shop-old-0"), "{first}");
    let names = ns
        .plugin(&["history", "rel/shop-new-0", "-o", "name"])
        .success();
    assert_eq!(
        names,
        "release.shipper.booking.com/shop-old-0\nrelease.shipper.booking.com/shop-new-0\n"
    );

    let diff = ns.plugin(&["diff", "app/shop"]);
    assert_eq!((diff.code, diff.stderr.as_str()), (1, ""));
    assert_shows!(ns, "application_diff", diff.stdout);
    assert_eq!(ns.plugin(&["diff", "rel/shop-new-0"]).stdout, diff.stdout);
    let args = [
        "diff",
        "app/shop",
        "--release",
        "shop-old-0",
        "--release",
        "shop-new-0",
    ];
    assert_eq!(ns.plugin(&args).stdout, diff.stdout);
    let same = ["diff", "app/shop", "--from", "1", "--to", "1"];
    assert_eq!(ns.plugin(&same).success(), "");
}

#[tokio::test]
async fn diff_shows_the_effect_of_a_file_on_an_application() {
    let ns = unmanaged::namespace().await;
    mid_rollout(&ns).await;
    let file = |name: &str, environment: Value| {
        let spec = json!({ "revisionHistoryLimit": 3, "template": environment });
        let manifest = json!({
            "apiVersion": API, "kind": "Application", "metadata": { "name": name }, "spec": spec,
        });
        ns.plugin_with_input(&["diff", "--no-chart", "-f", "-"], &manifest.to_string())
    };
    let back = file("shop", environment("1.0.0"));
    assert_eq!((back.code, back.stderr.as_str()), (1, ""));
    assert_shows!(ns, "application_forecast", back.stdout);
    // The repository does not exist.
    let spec = json!({ "template": environment("1.0.0") });
    let manifest = json!({ "apiVersion": API, "kind": "Application", "metadata": { "name": "new" }, "spec": spec });
    let refused = ns.plugin_with_input(&["diff", "-f", "-"], &manifest.to_string());
    let refused = refused.failed();
    assert!(
        refused.contains("the chart cannot be checked here") && refused.contains("--no-chart"),
        "{refused}"
    );
    let new = file("new", environment("1.0.0"));
    assert!(
        new.stdout
            .contains(": added\n  it creates the first release"),
        "{new:?}"
    );
    let mut wrong = environment("1.0.0");
    wrong["strategy"]["steps"][0]["capacity"]["contender"] = 101.into();
    let wrong = file("shop", wrong);
    assert_eq!(wrong.code, 3);
    assert!(
        wrong.stdout.contains("the server would refuse that"),
        "{wrong:?}"
    );
    // The output of `pack` is accepted, and only differences are shown.
    let made = ns.plugin(&[
        "pack",
        "--application",
        "--no-chart",
        "--chart=nginx",
        "--chart-version=1.1.0",
        "--repo=https://charts.example.com",
        "--region=eu=2",
        "--strategy=vanguard",
        "--name=shop",
    ]);
    let made = ns.plugin_with_input(&["diff", "--no-chart", "-f", "-"], &made.success());
    assert!(made.stdout.contains("strategy: changed"), "{made:?}");
    assert!(!made.stdout.contains("refuse"), "{made:?}");
}

#[tokio::test]
async fn a_rollout_is_watched_and_promoted() {
    let ns = unmanaged::namespace().await;
    mid_rollout(&ns).await;
    let newest = release("shop-new-0", 1, 1, &environment("1.1.0"));
    let refused = ns.plugin(&["promote", "shop"]).failed();
    assert!(
        refused.contains("step 1 (50/50) of release shop-new-0 is not achieved"),
        "{refused}"
    );
    let refused = ns.plugin(&["promote", "app/shop", "--step=3"]).failed();
    assert!(refused.contains("there is no step 3"), "{refused}");
    let watched = ns.plugin(&["status", "app/shop", "--watch", "--timeout=1s"]);
    assert_eq!(watched.code, 1);
    assert_eq!(
        watched.stderr,
        "release shop-new-0 waits for capacity at step 1 (50/50): release \"shop-new-0\" hasn't achieved capacity in \
         clusters: north: InProgress\n\
         here: capacity 3/3 pods (50%), traffic 50 of 50\n\
         north: capacity 2/3 pods (50%), traffic 0 of 50\n\
         error: not complete after 1s\n"
    );

    ns.merge(&newest, &json!({ "status": reached(1, "50/50") }))
        .await;
    let waits = ns.plugin(&["status", "app/shop"]);
    assert!(
        waits
            .stdout
            .contains("`kubectl baton promote app/shop` goes on"),
        "{waits:?}"
    );
    let dry = ns.plugin(&["promote", "shop", "--dry-run"]).success();
    let sent = "release.shipper.booking.com/shop-new-0 sent to step 2 (full on)";
    assert_eq!(dry, format!("{sent} (server dry run)\n"));
    let step = async || ns.live(&newest).await["spec"]["targetStep"].clone();
    assert_eq!(step().await, 1);

    // The command waits until the step is achieved, and so does `status --watch`.
    let mut commands = Vec::new();
    for args in [&["promote", "shop"][..], &["status", "app/shop", "--watch"]] {
        let mut command = ns.plugin_command(args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        commands.push(std::thread::spawn(move || command.output().unwrap()));
    }
    ns.eventually("the target step to be changed", async || step().await == 2)
        .await;
    ns.merge(&newest, &json!({ "status": reached(2, "full on") }))
        .await;
    for command in commands {
        let output = command.join().unwrap();
        let stdout = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(0), "{stdout}");
        assert!(stdout.contains("complete"), "{stdout}");
    }
    let refused = ns.plugin(&["promote", "shop", "--full"]).failed();
    assert!(refused.contains("there is nothing to promote"), "{refused}");
    // The template names a version from which no Release can be created. The step is that of the
    // newest Release nevertheless.
    let template = json!({ "chart": { "version": "9.9.9" } });
    let application = application("shop", &environment("1.1.0"));
    ns.merge(&application, &json!({ "spec": { "template": template } }))
        .await;
    ns.merge(
        &newest,
        &json!({ "status": reached(1, "50/50"), "spec": { "targetStep": 1 } }),
    )
    .await;
    let mut command = ns.plugin_command(&["promote", "shop", "--full"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let command = std::thread::spawn(move || command.output().unwrap());
    ns.eventually("the last step to be the target", async || step().await == 2)
        .await;
    ns.merge(&newest, &json!({ "status": reached(2, "full on") }))
        .await;
    let output = command.join().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let waited = ns.plugin(&["wait", "app/shop", "--timeout=1s"]);
    assert_eq!(waited.code, 1, "{waited:?}");
    let waited = ns.plugin(&["wait", "rel/shop-new-0"]).success();
    assert!(waited.contains("complete"), "{waited}");
    // A Release can always go back to an earlier step.
    let back = ns
        .plugin(&["promote", "shop", "--step=0", "--no-wait"])
        .success();
    assert!(back.contains("sent to step 0 (staging)"), "{back}");
    assert_eq!(step().await, 0);
}

#[tokio::test]
async fn a_rollout_is_aborted_or_rolled_back() {
    let ns = unmanaged::namespace().await;
    mid_rollout(&ns).await;
    let app = application("shop", &Value::Null);
    let newest = release("shop-new-0", 1, 1, &Value::Null);
    let template = async || ns.live(&app).await["spec"]["template"].clone();

    let dry = ns.plugin(&["rollback", "app/shop", "--dry-run"]).success();
    let line = "application.shipper.booking.com/shop rolled back to generation 0 (shop-old-0)";
    assert_eq!(dry, format!("{line} (server dry run)\n"));
    assert_eq!(template().await, environment("1.1.0"));
    let refused = ns
        .plugin(&["rollback", "app/shop", "--to-revision=7"])
        .failed();
    assert!(refused.contains("there are 0 to 1"), "{refused}");
    let back = ns.plugin(&["rollback", "app/shop", "--no-wait"]).success();
    assert_eq!(back, format!("{line}\n"));
    assert_eq!(template().await, environment("1.0.0"));
    let again = ns.plugin(&["rollback", "rel/shop-old-0"]).success();
    assert!(again.contains("not rolled back"), "{again}");
    // No controller creates the Release here.
    let forth = [
        "rollback",
        "app/shop",
        "--to-revision=1",
        "--force",
        "--timeout=1s",
    ];
    let forth = ns.plugin(&forth);
    assert_eq!(forth.code, 1);
    assert!(
        forth
            .stderr
            .contains("error: the step is not achieved after 1s"),
        "{forth:?}"
    );
    assert_eq!(template().await, environment("1.1.0"));

    let refused = ns.plugin(&["abort", "shop"]).failed();
    assert!(refused.contains("--yes"), "{refused}");
    let refused = ns.plugin(&["abort", "rel/shop-old-0", "--yes"]).failed();
    assert!(refused.contains("is not the newest"), "{refused}");
    let dry = ns.plugin(&["abort", "shop", "--dry-run"]).success();
    assert!(dry.contains("(server dry run)"), "{dry}");
    assert!(ns.get(&newest).await.is_some());
    let done = ns.plugin(&["abort", "shop", "--yes"]).success();
    let gone = "release.shipper.booking.com/shop-new-0 deleted, app/shop goes back to shop-old-0\n";
    assert_eq!(done, gone);
    ns.gone(&newest).await;
    let refused = ns.plugin(&["abort", "shop", "--yes"]).failed();
    assert!(refused.contains("is the only one"), "{refused}");
}

/// `--full` sends the new Release to the last step at once. Another template in the meantime ends the
/// wait with an exit code of its own.
#[tokio::test]
async fn a_rollback_goes_to_the_last_step_unless_it_is_superseded() {
    let ns = unmanaged::namespace().await;
    mid_rollout(&ns).await;
    let app = application("shop", &Value::Null);
    let start = |args: &[&str]| {
        let mut command = ns.plugin_command(args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        std::thread::spawn(move || command.output().unwrap())
    };
    let wants = async |version: &str| {
        ns.eventually("the template to be changed", async || {
            ns.live(&app).await["spec"]["template"]["chart"]["version"] == version
        })
        .await;
    };
    let command = start(&["rollback", "app/shop", "--full"]);
    wants("1.0.0").await;
    let back = release("shop-back-0", 2, 0, &environment("1.0.0"));
    ns.create(&back).await;
    ns.eventually("the last step to be the target", async || {
        ns.live(&back).await["spec"]["targetStep"] == 2
    })
    .await;
    ns.merge(&back, &json!({ "status": reached(2, "full on") }))
        .await;
    let output = command.join().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{stdout}");
    let sent = "release.shipper.booking.com/shop-back-0 sent to step 2 (full on)\n";
    assert!(
        stdout.contains(sent) && stdout.contains("is complete"),
        "{stdout}"
    );

    let command = start(&[
        "rollback",
        "app/shop",
        "--to-revision=1",
        "--force",
        "--wait",
    ]);
    wants("1.1.0").await;
    let template = json!({ "chart": { "version": "9.9.9" } });
    ns.merge(&app, &json!({ "spec": { "template": template } }))
        .await;
    let output = command.join().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(4), "{stderr}");
    assert!(
        stderr.contains("error: superseded: app/shop has another template now"),
        "{stderr}"
    );
}

#[tokio::test]
async fn an_application_is_paused_applied_and_listed() {
    let ns = unmanaged::namespace().await;
    mid_rollout(&ns).await;
    let app = application("shop", &Value::Null);
    let name = "application.shipper.booking.com/shop";
    for (command, said, annotation) in [
        ("pause", "paused", json!("true")),
        ("pause", "already paused", json!("true")),
        ("resume", "resumed", Value::Null),
        ("resume", "not paused", Value::Null),
    ] {
        let done = ns.plugin(&[command, "app/shop"]).success();
        assert_eq!(done, format!("{name} {said}\n"));
        let live = ns.live(&app).await;
        assert_eq!(
            live["metadata"]["annotations"]["baton.run/paused"],
            annotation
        );
    }

    let overview = ns.plugin(&["status"]);
    assert_eq!((overview.code, &*overview.stderr), (1, ""), "{overview:?}");
    let line = overview
        .stdout
        .lines()
        .find(|line| line.starts_with("app/shop"));
    let words: Vec<_> = line.unwrap().split_whitespace().take(4).collect();
    assert_eq!(words, ["app/shop", "1", "Underway", "5/6"]);
    let json = ns.plugin(&["status", "-A", "-o", "json"]).stdout;
    let json: Value = serde_json::from_str(&json).unwrap();
    let mut all = json["applications"].as_array().unwrap().iter();
    let own = all.find(|it| it["namespace"] == ns.name()).unwrap();
    assert_eq!(own["verdict"], "Underway");

    let about = |kind: &str, of: &str, reason: &str| {
        object("v1", "Event", &format!("{of}-{}", reason.to_lowercase()))
            .with(
                "/involvedObject",
                json!({ "apiVersion": API, "kind": kind, "name": of, "namespace": ns.name() }),
            )
            .with("/reason", json!(reason))
            .with("/message", json!("for the test"))
            .with("/type", json!("Normal"))
            .with("/lastTimestamp", json!(THEN))
    };
    for (kind, of, reason) in [
        ("Application", "shop", "OfApplication"),
        ("CapacityTarget", "shop-new-0", "OfNew"),
        ("Release", "shop-old-0", "OfOld"),
        ("Application", "other", "OfOther"),
    ] {
        ns.create(&about(kind, of, reason)).await;
    }
    let reasons = |target: &str| {
        let events = ns.plugin(&["events", target]).success();
        let reasons = ["OfApplication", "OfNew", "OfOld", "OfOther"];
        reasons.map(|reason| events.contains(reason))
    };
    assert_eq!(reasons("app/shop"), [true, true, true, false]);
    assert_eq!(reasons("rel/shop-new-0"), [false, true, false, false]);

    let pack = [
        "pack",
        "--application",
        "--no-chart",
        "--chart=nginx",
        "--repo=https://charts.example.com",
        "--region=eu=2",
        "--name=made",
        "--apply",
    ];
    let created = ns.plugin(&pack).success();
    assert_eq!(created, "application.shipper.booking.com/made created\n");
    let again = ns.plugin(&[&pack[..], &["--wait", "--timeout=1s"]].concat());
    assert_eq!(again.code, 1, "{again:?}");
    assert!(again.stdout.contains("made unchanged"), "{again:?}");
    assert!(
        again.stderr.contains("the step is not achieved after 1s"),
        "{again:?}"
    );
}

#[tokio::test]
async fn missing_and_forbidden_objects_are_reported() {
    let ns = unmanaged::namespace().await;
    for (args, expected) in [
        (&["tree", "app/shop"][..], "applications \"shop\" not found"),
        (&["status", "rel/shop"], "releases \"shop\" not found"),
        (&["promote", "shop"], "applications \"shop\" not found"),
        (
            &["abort", "shop", "--yes"],
            "applications \"shop\" not found",
        ),
        (&["rollback", "app/shop"], "applications \"shop\" not found"),
        (&["diff", "app/shop"], "applications \"shop\" not found"),
        (&["pause", "app/shop"], "applications \"shop\" not found"),
        (
            &["pause", "rel/shop"],
            "only a whole Application can be paused",
        ),
        (&["events", "app/shop"], "applications \"shop\" not found"),
        (&["rollback", "web", "--full"], "--full is for Applications"),
        (&["tree", "app/shop", "od/web"], "names more than one"),
        (&["tree", "app/a\u{7}"], "cannot be a name"),
    ] {
        let refused = ns.plugin(args).failed();
        assert!(refused.contains(expected), "{args:?}: {refused}");
        assert!(!refused.contains('\u{7}'), "{refused}");
    }
    // An Application whose name is too long for a label has no Releases.
    let long = "a".repeat(100);
    ns.create(&application(&long, &environment("1.0.0"))).await;
    let tree = ns.plugin(&["tree", &format!("app/{long}")]).success();
    assert!(tree.contains("there is no release yet"), "{tree}");

    mid_rollout(&ns).await;
    let user = ns.unique("reader");
    let rules = json!([{
        "apiGroups": ["shipper.booking.com"], "verbs": ["get", "list"],
        "resources": ["applications", "releases"],
    }]);
    ns.grant(&user, rules).await;
    let as_user = |args: &[&str]| ns.plugin(&[args, &["--as", user.as_str()]].concat());
    ns.eventually("the rights to count", async || {
        as_user(&["history", "app/shop"]).code == 0
    })
    .await;
    let tree = as_user(&["tree", "app/shop"]).success();
    assert!(tree.contains("its revisions cannot be read"), "{tree}");
    assert!(tree.contains("the CapacityTarget cannot be read"), "{tree}");
    let diff = as_user(&["diff", "app/shop"]);
    assert!(
        diff.stdout.contains("rendered manifests: cannot be read"),
        "{diff:?}"
    );
    for (args, right) in [
        (
            &["promote", "shop", "--force"][..],
            "cannot patch resource \"releases\"",
        ),
        (
            &["abort", "shop", "--yes"],
            "cannot delete resource \"releases\"",
        ),
        (
            &["rollback", "app/shop"],
            "cannot patch resource \"applications\"",
        ),
    ] {
        let refused = as_user(args).failed();
        assert!(refused.contains(right), "{refused}");
    }
}
