//! The plugin's commands about deployments to sites, on objects in the state that the controllers
//! leave. No manager runs, so only these tests change the objects.

use std::process::Stdio;

use baton_integration::plugin::dated_snapshots;
use baton_integration::prelude::*;
use baton_integration::svg::assert_picture;
use baton_integration::unmanaged;
use regex::{Captures, Regex};

const API: &str = "baton.run/v1alpha1";
const OURS: &str = "package-operator.run/v1alpha1";
const THEN: &str = "2026-01-01T00:00:00Z";

/// Compares the printed text with the snapshot of this name. The conditions were written long ago.
macro_rules! assert_shows {
    ($ns:expr, $name:literal, $text:expr) => {
        dated_snapshots(&$ns).bind(|| insta::assert_snapshot!($name, $text));
    };
}

fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({
        "type": type_, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": THEN,
    })
}

/// Returns the name of a site that no other test has.
fn site(ns: &TestNamespace, letter: &str) -> String {
    format!("{}-{letter}", ns.name())
}

async fn cluster(ns: &TestNamespace, letter: &str, is_online: bool) {
    let (status, reason) = if is_online {
        ("True", "Connected")
    } else {
        ("False", "AgentSilent")
    };
    let windows = json!([{ "cron": "0 * * * *", "duration": "1h" }]);
    let entry = object("shipper.booking.com/v1alpha1", "Cluster", &site(ns, letter))
        .label("of", ns.name())
        .with(
            "/spec",
            json!({ "region": "eu", "connection": "Pull", "upgradeWindows": windows }),
        );
    let connected = json!([condition("Connected", status, reason, "")]);
    ns.create_elsewhere(&entry.with("/status/conditions", connected))
        .await;
}

async fn report(ns: &TestNamespace, created: &Value, status: Value) {
    let patch = json!({ "status": status });
    ns.cluster().merge_status(created, &patch).await.unwrap();
}

/// A revision of a site: letter of the site, number, version, rollout, wave and conditions.
type SiteRevisionCase<'a> = (&'a str, i64, &'a str, i64, i32, &'a [Value]);

async fn revision(
    ns: &TestNamespace,
    (letter, number, version, rollout, wave, said): SiteRevisionCase<'_>,
) {
    let site = site(ns, letter);
    let entry = json!({
        "deployment": "shop", "site": site, "application": "shop", "version": version, "edit": "e",
        "rollout": rollout, "batch": wave, "phases": ["main"],
    });
    let previous =
        (number > 1).then(|| json!([{ "name": format!("shop-{letter}-{}", number - 1) }]));
    let phase = json!({
        "name": "main", "class": format!("cluster.{site}"), "slices": [format!("shop-{version}")],
    });
    let mut spec = json!({ "revision": number, "phases": [phase] });
    if let Some(previous) = previous {
        spec["previous"] = previous;
    }
    let set = object(OURS, "ObjectSet", &format!("shop-{letter}-{number}"))
        .label("baton.run/site-deployment", "shop")
        .label("baton.run/site", &site)
        .annotation("baton.run/site", &entry.to_string())
        .with("/spec", spec);
    let created = ns.create(&set).await;
    report(ns, &created, json!({ "conditions": said })).await;
}

fn deployment() -> Entry {
    object(API, "SiteDeployment", "shop").with(
        "/spec",
        json!({
            "application": "shop", "applicationVersion": "1.1.0",
            "placement": { "matchSiteLabels": "of exists" },
            "strategy": { "type": "Rolling", "rolling": { "sitesInParallel": 2 }, "healthyTime": "5m" },
        }),
    )
}

/// Returns the status of a deployment in the second wave of its second rollout.
fn under_way() -> Value {
    json!({
        "observedGeneration": 1, "rollout": 2, "version": "1.1.0", "previousVersion": "1.0.0",
        "counts": { "sites": 6, "updated": 2, "healthy": 2, "offline": 1, "failed": 1, "queued": 1 },
        "batch": { "number": 2, "of": 3 },
        "conditions": [condition("Progressing", "True", "RollingOut", "Wave 2: 1 of 3 sites are available.")],
    })
}

/// Creates the application, its two versions, and their content.
async fn application(ns: &TestNamespace) {
    let application = object(API, "SiteApplication", "shop").with("/spec", template("1.1.0"));
    ns.create(&application).await;
    for (number, version) in [(1, "1.0.0"), (2, "1.1.0")] {
        let slice = object(OURS, "ObjectSlice", &format!("shop-{version}"))
            .label("baton.run/site-application", "shop")
            .with("/objects", json!([config(version), password(version)]));
        ns.create(&slice).await;
        let data = json!({
            "version": version, "edit": "e", "upgrade": { "method": "PerService" },
            "phases": [{ "name": "main", "slices": [format!("shop-{version}")] }],
        });
        let record = object("apps/v1", "ControllerRevision", &format!("shop-{version}"))
            .label("baton.run/site-application", "shop")
            .with("/data", data)
            .with("/revision", number);
        ns.create(&record).await;
    }
}

fn template(version: &str) -> Value {
    let phase = json!({ "name": "main", "objects": [config(version), password(version)] });
    json!({
        "version": version,
        "template": { "spec": { "phases": [phase], "availabilityProbes": [] } },
    })
}

fn config(version: &str) -> Value {
    json!({ "object": {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "web", "namespace": "web" },
        "data": { "version": version },
    } })
}

fn password(version: &str) -> Value {
    json!({ "object": {
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "web", "namespace": "web" },
        "stringData": { "password": version },
    } })
}

/// Creates six sites in the middle of a rollout, two in each state.
pub(crate) async fn mid_rollout(ns: &TestNamespace) {
    let available = || condition("Available", "True", "Available", "");
    let started = || condition("baton.run/Started", "True", "Started", "");
    let fine = [started(), available()];
    let failed = [
        started(),
        condition(
            "Available",
            "False",
            "PreflightError",
            "Phase \"main\" is refused: no such kind",
        ),
    ];
    let queued = [condition(
        "Available",
        "False",
        "Queued",
        "Waits for the upgrade windows of the site, which open at 02:00.",
    )];
    application(ns).await;
    let created = ns.create(&deployment()).await;
    report(ns, &created, under_way()).await;
    let letters = ["a", "b", "c", "d", "e", "f"];
    for letter in letters {
        cluster(ns, letter, letter != "e").await;
        revision(ns, (letter, 1, "1.0.0", 1, 1, &fine)).await;
    }
    for given in [
        ("a", 2, "1.1.0", 2, 1, &fine[..]),
        ("b", 2, "1.1.0", 2, 1, &fine[..]),
        ("c", 2, "1.1.0", 2, 2, &failed[..]),
        ("d", 2, "1.1.0", 2, 2, &queued[..]),
        ("e", 2, "1.1.0", 2, 2, &[]),
    ] {
        revision(ns, given).await;
    }
    let owner = json!([{
        "apiVersion": API, "kind": "SiteDeployment", "name": "shop", "uid": created["metadata"]["uid"],
    }]);
    let sites: Vec<String> = letters.iter().map(|letter| site(ns, letter)).collect();
    let placement = object("apps/v1", "ControllerRevision", "shop-sites-1")
        .label("baton.run/site-deployment", "shop")
        .with("/metadata/ownerReferences", owner)
        .with("/data", json!({ "sites": sites }))
        .with("/revision", 1);
    ns.create(&placement).await;
}

/// Replaces the names of sites and the ages by constants of the same width.
fn pictured(ns: &TestNamespace, mut tree: String) -> String {
    let cities = ["berlin", "lisbon", "madrid", "prague", "vienna", "warsaw"];
    for ((number, city), letter) in (1..).zip(cities).zip(["a", "b", "c", "d", "e", "f"]) {
        tree = tree.replace(&site(ns, letter), &format!("store-{city}-{number:03}"));
    }
    let age = Regex::new(r" \d+[smhdy][0-9a-z]*").unwrap();
    let tree = age.replace_all(&tree, |age: &Captures<'_>| {
        format!("{:1$}", " 3m", age[0].len())
    });
    tree.into_owned()
}

#[tokio::test]
async fn a_rollout_over_sites_is_shown() {
    let ns = unmanaged::namespace().await;
    mid_rollout(&ns).await;
    let tree = ns.plugin(&["tree", "sitedeploy/shop"]).success();
    assert_shows!(ns, "sites_tree", tree);
    let colored = ns
        .plugin(&["tree", "sitedeploy/shop", "--color=always"])
        .success();
    assert_picture("fleet", &pictured(&ns, colored));
    let json = ns
        .plugin(&["tree", "sitedeployment", "shop", "-o", "json"])
        .success();
    let json: Value = serde_json::from_str(&json).unwrap();
    let fleet = &json["deployment"]["fleet"];
    assert_eq!(fleet["counts"]["Updated"], 2);
    assert_eq!(fleet["waves"][1]["counts"]["Failed"], 1);
    assert_eq!(fleet["sites"][2]["state"], "Failed");
    assert_eq!(fleet["sites"][2]["runs"], "1.0.0");

    let status = ns.plugin(&["status", "sitedeploy/shop"]);
    assert_eq!((status.code, status.stderr.as_str()), (1, ""));
    assert_shows!(ns, "sites_status", status.stdout);
    let history = ns.plugin(&["history", "sitedeploy/shop"]).success();
    assert_shows!(ns, "sites_history", history);
    let of = format!("of={}", ns.name());
    let sites = ns.plugin(&["sites", "-l", &of]).success();
    assert_shows!(ns, "sites_inventory", sites);
    let application = ns.plugin(&["tree", "siteapp/shop"]).success();
    assert_shows!(ns, "sites_application", application);
    let names = ns
        .plugin(&["history", "siteapp/shop", "-o", "name"])
        .success();
    assert_eq!(
        names,
        "controllerrevision.apps/shop-1.0.0\ncontrollerrevision.apps/shop-1.1.0\n"
    );
}

/// The number of requests does not depend on the number of sites.
#[tokio::test]
async fn a_rollout_over_sites_costs_a_read_and_three_lists() {
    let ns = unmanaged::namespace().await;
    mid_rollout(&ns).await;
    let plugin = ns.seen_plugin().await;
    let rollout = ["clusters", "controllerrevisions", "objectsets", "shop"];
    let all = ["clusters", "objectsets"];
    for (args, expected) in [
        (&["tree", "sitedeploy/shop"][..], &rollout[..]),
        (&["status", "sitedeploy/shop"], &rollout),
        (&["sites"], &all),
        (&["sites", "-A"], &all),
    ] {
        assert_eq!(plugin.asks_for(args).await, expected, "{args:?}");
    }
}

#[tokio::test]
async fn the_tree_of_one_site_is_shown() {
    let ns = unmanaged::namespace().await;
    mid_rollout(&ns).await;
    let site_c = site(&ns, "c");
    let args = ["tree", "sitedeploy/shop", "--site", &site_c];
    assert_shows!(ns, "sites_one", ns.plugin(&args).success());
    let refused = ns
        .plugin(&["tree", "sitedeploy/shop", "--site", "nowhere"])
        .failed();
    assert_eq!(
        refused,
        "error: sitedeploy/shop has no revision in site nowhere; `kubectl baton tree sitedeploy/shop` shows its sites\n"
    );
    let refused = ns.plugin(&["tree", "od/shop", "--site", "a"]).failed();
    assert!(refused.contains("name one as sitedeploy/NAME"), "{refused}");
    let refused = ns.plugin(&["tree", "sitedeploy/none"]).failed();
    assert!(
        refused.starts_with("error: sitedeployments \"none\" not found in namespace"),
        "{refused}"
    );
    let one = ns.plugin(&["sites", &site_c, "-A"]).success();
    assert!(one.contains(&format!("{}/shop 1.0.0", ns.name())), "{one}");
}

#[tokio::test]
async fn versions_for_sites_are_compared() {
    let ns = unmanaged::namespace().await;
    mid_rollout(&ns).await;
    let diff = ns.plugin(&["diff", "sitedeploy/shop"]);
    assert_eq!((diff.code, diff.stderr.as_str()), (1, ""));
    assert_shows!(ns, "sites_diff", diff.stdout);
    assert_eq!(ns.plugin(&["diff", "siteapp/shop"]).stdout, diff.stdout);
    let same = [
        "diff",
        "siteapp/shop",
        "--from-version=1.1.0",
        "--to-version=shop-1.1.0",
    ];
    assert_eq!(ns.plugin(&same).success(), "");
    let gone = ns
        .plugin(&["diff", "siteapp/shop", "--to-version=9.9"])
        .failed();
    assert_eq!(
        gone,
        "error: version 9.9 is not kept; there are 1.1.0, 1.0.0\n"
    );

    let file = |spec: Value| {
        let manifest = json!({
            "apiVersion": API, "kind": "SiteApplication", "metadata": { "name": "shop" }, "spec": spec,
        });
        ns.plugin_with_input(&["diff", "-f", "-"], &manifest.to_string())
    };
    let new = file(template("1.2.0"));
    assert_eq!((new.code, new.stderr.as_str()), (1, ""));
    assert_shows!(ns, "sites_forecast", new.stdout);
    let unchanged = file(template("1.1.0")).success();
    assert!(
        unchanged.contains("version 1.1.0 is unchanged"),
        "{unchanged}"
    );
    let mut edit = template("1.1.0");
    edit["template"]["spec"]["phases"][0]["objects"][0] = config("other");
    let edit = file(edit);
    assert!(
        edit.stdout
            .contains("reaches the sites that run it at once"),
        "{edit:?}"
    );
    let mut wrong = template("1.2.0");
    wrong["upgradeWindows"] = json!([{ "cron": "0 2 * * *", "duration": "long" }]);
    let wrong = file(wrong);
    assert_eq!(wrong.code, 3);
    assert!(
        wrong.stdout.contains("the server would refuse that"),
        "{wrong:?}"
    );
}

#[tokio::test]
async fn a_rollout_over_sites_is_paused_resumed_and_aborted() {
    let ns = unmanaged::namespace().await;
    mid_rollout(&ns).await;
    let spec = async || ns.live(&deployment()).await["spec"].clone();
    let name = "sitedeployment.baton.run/shop";

    let dry = ns
        .plugin(&["pause", "sitedeploy/shop", "--dry-run"])
        .success();
    assert_eq!(dry, format!("{name} paused (server dry run)\n"));
    assert_eq!(spec().await["paused"], Value::Null);
    let paused = ns.plugin(&["pause", "sitedeploy/shop"]).success();
    assert_eq!(paused, format!("{name} paused\n"));
    assert_eq!(spec().await["paused"], true);
    let again = ns.plugin(&["pause", "sitedeploy", "shop"]).success();
    assert_eq!(again, format!("{name} already paused\n"));
    let refused = ns.plugin(&["rollback", "sitedeploy/shop"]).failed();
    assert!(
        refused.contains("sitedeploy/shop: it is paused"),
        "{refused}"
    );
    ns.plugin(&["resume", "sitedeploy/shop"]).done();
    assert_eq!(spec().await["paused"], false);

    let aborted = ns.plugin(&["abort", "sitedeploy/shop"]).success();
    assert!(
        aborted.starts_with(&format!("{name}: rollout 2 of version 1.1.0 aborted")),
        "{aborted}"
    );
    assert_eq!(spec().await["abortRollout"], 2);
    let again = ns.plugin(&["abort", "sitedeploy/shop"]).success();
    assert_eq!(
        again,
        format!("{name}: rollout 2 of version 1.1.0 is aborted already\n")
    );

    let refused = ns
        .plugin(&["rollback", "sitedeploy/shop", "--to-version=0.9"])
        .failed();
    assert_eq!(
        refused,
        "error: version 0.9 is not kept; there are 1.1.0, 1.0.0\n"
    );
    let back = ns
        .plugin(&["rollback", "sitedeploy/shop", "--no-wait"])
        .success();
    assert_eq!(back, format!("{name} rolled back to version 1.0.0\n"));
    assert_eq!(spec().await["applicationVersion"], "1.0.0");
    let same = ns
        .plugin(&["rollback", "sitedeploy/shop", "--to-version=1.0.0"])
        .success();
    assert!(same.contains("not rolled back: its spec names version 1.0.0 already"));

    let redeployed = ns.plugin(&["redeploy", "shop"]).success();
    assert_eq!(redeployed, format!("{name} selects its sites again\n"));
    assert!(spec().await["redeploy"].is_string());
    let refused = ns.plugin(&["redeploy", "siteapp/shop"]).failed();
    assert!(
        refused.contains("\"siteapp\" is not a kind for this command"),
        "{refused}"
    );
    let refused = ns.plugin(&["restart", "sitedeploy/shop"]).failed();
    assert!(
        refused.contains("\"sitedeploy\" is not a kind for this command"),
        "{refused}"
    );
}

#[tokio::test]
async fn a_rollout_over_sites_is_waited_for() {
    let ns = unmanaged::namespace().await;
    mid_rollout(&ns).await;
    let watched = ns.plugin(&["status", "sitedeploy/shop", "--watch", "--timeout=1s"]);
    assert_eq!(watched.code, 1);
    assert_eq!(
        watched.stderr,
        "rollout 2, 1.0.0 -> 1.1.0: Wave 2: 1 of 3 sites are available.\n\
         wave 1: 2/2: 2 updated\n\
         wave 2: 0/3: 1 failed, 1 offline, 1 waiting for a window\n\
         later: 0/1: 1 to come\n\
         error: not rolled out after 1s\n"
    );
    let started = |args: &[&str]| {
        let mut command = ns.plugin_command(args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let commands = [
        started(&["wait", "sitedeploy/shop", "--timeout=60s"]),
        started(&["status", "sitedeploy/shop", "--watch"]),
    ];
    let object = ns.live(&deployment()).await;
    let complete = json!({
        "counts": { "sites": 6, "updated": 5 },
        "conditions": [condition("Progressing", "False", "Complete", "")],
    });
    report(&ns, &object, complete).await;
    for command in commands {
        let output = command.wait_with_output().unwrap();
        let stdout = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(0), "{stdout}");
        assert!(
            stdout.contains("version 1.1.0 is in 5 of 6 sites; 1 is offline"),
            "{stdout}"
        );
    }
    let refused = ns.plugin(&["abort", "sitedeploy/shop"]).failed();
    assert!(refused.contains("there is nothing to abort"), "{refused}");

    let aborted = json!({
        "conditions": [condition("Aborted", "True", "SiteFailed", "site c failed")],
    });
    report(&ns, &object, aborted).await;
    let ran = ns.plugin(&["wait", "sitedeploy/shop"]);
    assert_eq!(
        (ran.code, ran.stderr.as_str()),
        (1, "error: sitedeploy/shop: site c failed\n")
    );
    let refused = ns
        .plugin(&["wait", "sitedeploy/shop", "--for=archived"])
        .failed();
    assert!(
        refused.contains("--for archived is for deployments"),
        "{refused}"
    );
    let waiting = ns.plugin_waiting(&["wait", "sitedeploy/shop", "--for=deleted"]);
    assert!(ns.cluster().delete(&object, "Background").await);
    let output = waiting.wait_with_output().unwrap();
    assert_eq!(output.stdout, b"sitedeploy/shop is deleted\n");
    let gone = ns.plugin(&["wait", "sitedeploy/shop", "--for=deleted"]);
    assert_eq!(gone.success(), "sitedeploy/shop does not exist\n");
}

/// Clusters are cluster-scoped, so tenants may not be able to read them.
#[tokio::test]
async fn a_user_who_may_not_read_clusters_sees_sites_with_revisions() {
    let ns = unmanaged::namespace().await;
    mid_rollout(&ns).await;
    let user = format!("{}-tenant", ns.name());
    let rules = json!([
        { "apiGroups": ["baton.run", "package-operator.run", "apps"], "resources": ["*"], "verbs": ["get", "list"] },
    ]);
    ns.grant(&user, rules).await;
    let tree = || ns.plugin(&["tree", "sitedeploy/shop", "--as", &user]);
    ns.eventually("the rights to be seen", async || tree().code == 0)
        .await;
    let tree = tree().success();
    assert!(
        tree.contains("Clusters cannot be read, so sites that are offline may be missing"),
        "{tree}"
    );
    assert!(
        tree.contains("1 failed") && tree.contains("queued"),
        "{tree}"
    );
    let sites = ns.plugin(&["sites", "--as", &user]);
    assert_eq!(sites.code, 0);
    assert!(
        sites.stderr.contains("only sites with revisions are shown"),
        "{sites:?}"
    );
    assert!(sites.stdout.contains(&site(&ns, "f")), "{sites:?}");
}
