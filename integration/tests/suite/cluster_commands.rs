//! `baton cluster join`, `list` and `remove` between a real hub and a real site.
//!
//! The objects of a join on a site have fixed names, so the tests that join a site take turns
//! ([`turn`]). On the hub, each test has its own namespace.

use std::path::Path;
use std::process::{Command, Stdio};

use baton_integration::guard::beside_tests;
use baton_integration::plugin::Ran;
use baton_integration::prelude::*;
use baton_integration::sites::{PUSH, Site, TemporaryKubeconfig};
use kube::config::Kubeconfig;
use tokio::sync::{Mutex, MutexGuard};

/// Waits for the right to join a site.
pub(crate) async fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::const_new(());
    TURN.lock().await
}

/// Runs `baton cluster` between the hub of the test and a site. The Secrets are in the test's
/// namespace.
pub(crate) fn baton(ns: &TestNamespace, site: Option<&Path>, args: &[&str]) -> Ran {
    baton_on(ns.cluster().kubeconfig(), ns, site, args)
}

fn baton_on(hub: &Path, ns: &TestNamespace, site: Option<&Path>, args: &[&str]) -> Ran {
    let program = std::env::var_os("BATON_BIN").map_or_else(|| beside_tests("baton"), Into::into);
    let mut command = Command::new(program);
    command
        .arg("cluster")
        .args(args)
        .env_remove("KUBECONFIG")
        .env("HOME", "/nonexistent")
        .env("BATON_HUB_KUBECONFIG", hub)
        .env("BATON_CLUSTERS_NAMESPACE", ns.name())
        .stdin(Stdio::null());
    if let Some(site) = site {
        command.arg("--kubeconfig").arg(site);
    }
    let output = command.output().unwrap();
    Ran {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Returns the standard error of a run that must succeed without data.
#[track_caller]
pub(crate) fn messages(ran: Ran) -> String {
    assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{ran:?}");
    ran.stderr
}

/// Returns the last line of a run that must fail.
#[track_caller]
pub(crate) fn refused(ran: &Ran) -> &str {
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{ran:?}");
    ran.stderr.lines().last().unwrap()
}

pub(crate) fn cluster(name: &str) -> Value {
    object("shipper.booking.com/v1alpha1", "Cluster", name).manifest
}

/// Returns the objects of a join on a site: token, binding, role, account.
fn made() -> [Value; 4] {
    let here = |entry: Entry| entry.within("baton-system").manifest;
    let rbac = "rbac.authorization.k8s.io/v1";
    [
        here(secret("baton-hub-token")),
        object(rbac, "ClusterRoleBinding", "baton-hub").manifest,
        object(rbac, "ClusterRole", "baton-hub").manifest,
        here(object("v1", "ServiceAccount", "baton-hub")),
    ]
}

/// Waits until the suite's manager reports this reason for a Cluster.
///
/// The manager reads Secrets of another namespace, so `NoSecret` stays, and so does `Connecting`,
/// for some time, if an agent is expected.
pub(crate) async fn reported(ns: &TestNamespace, name: &str, reason: &str) {
    ns.eventually("a report on the Cluster", async || {
        let live = ns.cluster().get(&cluster(name)).await.unwrap();
        let conditions = live["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        conditions.any(|it| it["type"] == "Connected" && it["reason"] == reason)
    })
    .await;
}

/// Returns the resource versions of objects, to check that nothing was written.
pub(crate) async fn versions(cluster: &Cluster, objects: &[Value]) -> Vec<Value> {
    let mut versions = Vec::new();
    for object in objects {
        let live = cluster.get(object).await.unwrap();
        versions.push(live["metadata"]["resourceVersion"].clone());
    }
    versions
}

/// Returns a value of a Secret.
pub(crate) fn value(secret: &Value, key: &str) -> String {
    let encoded = secret["data"][key].clone();
    let bytes: k8s_openapi::ByteString = serde_json::from_value(encoded).unwrap();
    String::from_utf8(bytes.0).unwrap()
}

#[tokio::test]
#[expect(
    clippy::too_many_lines,
    reason = "each step needs the joined cluster in the state that the step before it has left"
)]
async fn a_cluster_is_joined_kept_up_to_date_and_removed() {
    let _turn = turn().await;
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let (hub, site) = (ns.cluster(), Site::get(PUSH).await);
    let (there, path) = (site.cluster().await, site.kubeconfig());
    let name = ns.unique("eu");
    let join = |flags: &[&str]| baton(&ns, Some(&path), &[&["join", &name], flags].concat());
    let identity = secret(&name).within(ns.name()).manifest;

    // A dry run writes nothing.
    let planned = messages(join(&["--dry-run"]));
    assert!(
        planned.contains(&format!("Would create cluster {name}\n")),
        "{planned}"
    );
    assert_eq!(hub.get(&cluster(&name)).await, None);
    assert_eq!(there.get(&made()[3]).await, None);

    let first = messages(join(&["--region=eu", "--capability=gpu"]));
    let expected = format!(
        "Joining cluster {name}, which the hub connects to:
In the target {url}:
Creating namespace baton-system... done
Creating service account baton-hub... done
Creating cluster role baton-hub... done
Creating cluster role binding baton-hub... done
Creating secret baton-hub-token... done
Waiting for the token in secret baton-hub-token... done
On the hub ",
        url = site.url()
    );
    // An earlier test may have left the namespace, because the command does not delete it.
    let first = first.replace(
        "baton-system... already exists. Skipping",
        "baton-system... done",
    );
    assert!(first.starts_with(&expected), "{first}");
    assert!(
        first.contains(&format!(
            "Creating cluster {name}... done\nCreating secret {name}... done\nFinished joining cluster {name}\n"
        )),
        "{first}"
    );
    let joined = hub.get(&cluster(&name)).await.unwrap();
    assert_eq!(joined["spec"]["region"], "eu");
    assert_eq!(joined["spec"]["apiMaster"], site.url());
    assert_eq!(joined["spec"]["connection"], "Push");

    // The token on the hub is valid on the site, and has enough rights to deliver.
    let kept = hub.get(&identity).await.unwrap();
    assert_eq!(owner_names(&kept), [name.as_str()]);
    assert_eq!(value(&kept, "ca.crt").trim(), site.ca().trim());
    let token = value(&kept, "token");
    let kubeconfig = TemporaryKubeconfig::new(&site.endpoint().kubeconfig(&token));
    let delivering = Cluster::connect(kubeconfig.path()).await;
    site.namespace(ns.name()).await;
    let delivered = configmap("delivered").within(ns.name()).manifest;
    delivering.create(&delivered).await.unwrap();
    let definitions = object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "x").manifest;
    delivering.list(&definitions, "").await;
    assert!(delivering.try_delete(&delivered).await.is_ok());

    // A second run writes nothing.
    reported(&ns, &name, "NoSecret").await;
    let before = versions(hub, &[cluster(&name), identity.clone()]).await;
    let before_there = versions(&there, &made()).await;
    let second = messages(join(&[]));
    assert!(
        second.ends_with("was joined already; nothing was changed\n"),
        "{second}"
    );
    assert!(!second.contains("done"), "{second}");
    assert_eq!(
        versions(hub, &[cluster(&name), identity.clone()]).await,
        before
    );
    assert_eq!(versions(&there, &made()).await, before_there);

    // Changes of other clients stay, and requested changes are made.
    let own = json!({ "metadata": { "labels": { "mine": "yes" } }, "spec": { "scheduler": { "weight": 7 } } });
    hub.merge(&cluster(&name), &own).await.unwrap();
    let narrow = json!({ "rules": [{ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"] }] });
    there.merge(&made()[2], &narrow).await.unwrap();
    let third = messages(join(&["--capability=ssd"]));
    assert!(
        third.contains("Updating cluster role baton-hub... its rules belong to a-user. Skipping"),
        "{third}"
    );
    let joined = hub.get(&cluster(&name)).await.unwrap();
    assert_eq!(joined["metadata"]["labels"]["mine"], "yes");
    assert_eq!(joined["spec"]["scheduler"]["weight"], 7);
    assert_eq!(joined["spec"]["capabilities"], json!(["ssd"]));
    assert_eq!(joined["spec"]["region"], "eu");
    let role = there.get(&made()[2]).await.unwrap();
    assert_eq!(role["rules"], narrow["rules"]);

    // The token is replaced, and nothing else.
    let rotate = |flags: &[&str]| baton(&ns, Some(&path), &[&["rotate", &name], flags].concat());
    let planned = messages(rotate(&["--dry-run"]));
    for line in [
        "Would replace service account baton-hub\n".to_owned(),
        "Would replace secret baton-hub-token\n".to_owned(),
        format!("Would update secret {name}\n"),
    ] {
        assert!(planned.contains(&line), "{planned}");
    }
    assert!(site.accepts(&token).await);
    assert!(refused(&rotate(&["--apply"])).contains("is a Push cluster"));
    let unknown = baton(&ns, Some(&path), &["rotate", &ns.unique("unknown")]);
    assert!(refused(&unknown).contains("has no cluster"), "{unknown:?}");
    let elsewhere = baton(
        &ns,
        Some(&path),
        &["rotate", &name, "--hub-kubeconfig", path.to_str().unwrap()],
    );
    assert_eq!(elsewhere.code, 1, "{elsewhere:?}");
    let before = versions(&there, &made()[1..3]).await;
    let fourth = messages(rotate(&[]));
    for line in [
        format!("Replacing the token of cluster {name}, which the hub connects to:\n"),
        "Replacing service account baton-hub... done\n".to_owned(),
        "Replacing secret baton-hub-token... done\n".to_owned(),
        format!("Updating secret {name}... done\n"),
        format!("Finished replacing the token of cluster {name}\n"),
    ] {
        assert!(fourth.contains(&line), "{line}: {fourth}");
    }
    assert_eq!(versions(&there, &made()[1..3]).await, before);
    let same = hub.get(&cluster(&name)).await.unwrap();
    assert_eq!(same["spec"], joined["spec"]);
    let kept = hub.get(&identity).await.unwrap();
    assert_ne!(value(&kept, "token"), token);
    assert!(site.accepts(&value(&kept, "token")).await);
    site.until_refused(&token).await;

    // The same for a cluster in a file of clusters.
    let contexts: Value = serde_saphyr::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    let listed = json!({
        "managementClusters": [{ "name": "hub" }],
        "applicationClusters": [
            { "name": name, "region": "us", "context": contexts["current-context"] },
            { "name": ns.unique("no-context"), "region": "us" },
        ],
    });
    std::fs::write(file.path(), listed.to_string()).unwrap();
    let by_file = baton(
        &ns,
        Some(&path),
        &["join", "-f", file.path().to_str().unwrap()],
    );
    assert_eq!(
        refused(&by_file),
        "baton: 1 of 2 clusters could not be joined"
    );
    assert!(by_file.stderr.contains("has no context"), "{by_file:?}");
    let joined = hub.get(&cluster(&name)).await.unwrap();
    assert_eq!(joined["spec"]["region"], "us");
    assert_eq!(joined["spec"]["capabilities"], json!(["ssd"]));

    let listed = baton(&ns, None, &["list"]);
    let row = listed
        .stdout
        .lines()
        .find(|line| line.starts_with(&name))
        .unwrap();
    assert!(
        row.split_whitespace().take(3).eq([&*name, "Push", "us"]),
        "{row}"
    );
    let names = baton(&ns, None, &["list", "-o", "name"]).stdout;
    assert!(
        names.contains(&format!("cluster.shipper.booking.com/{name}\n")),
        "{names}"
    );

    // The site is joined under another name already.
    let other = ns.unique("other");
    let ran = baton(&ns, Some(&path), &["join", &other]);
    assert!(
        refused(&ran).contains(&format!("is joined as {name}, not as {other}")),
        "{ran:?}"
    );

    removed(&ns, &there, &path, &name).await;
    site.forget(ns.name()).await;
}

/// Removes a cluster that a phase is delivered into.
async fn removed(ns: &TestNamespace, there: &Cluster, path: &Path, name: &str) {
    let hub = ns.cluster();
    let phase = object("package-operator.run/v1alpha1", "ObjectSetPhase", "web-app")
        .within(ns.name())
        .label(
            "package-operator.run/phase-class",
            &format!("cluster.{name}"),
        )
        // The cluster of the phase will be gone.
        .annotation("baton.run/abandon", "true")
        .with("/spec/revision", 1)
        .with("/spec/objects", json!([]));
    hub.create(&phase.manifest).await.unwrap();
    let ran = baton(ns, Some(path), &["remove", name]);
    let expected = format!(
        "baton: 1 phase is of class cluster.{name}: {}/web-app; delete or archive their revisions first",
        ns.name()
    );
    assert!(refused(&ran).starts_with(&expected), "{ran:?}");
    assert!(hub.get(&cluster(name)).await.is_some());

    let planned = messages(baton(
        ns,
        Some(path),
        &["remove", name, "--force", "--dry-run"],
    ));
    assert!(
        planned.contains(&format!("Would delete cluster {name}\n")),
        "{planned}"
    );
    assert!(hub.get(&cluster(name)).await.is_some());
    let gone = messages(baton(ns, Some(path), &["remove", name, "--force"]));
    for line in [
        format!("Deleting cluster {name}... done\n"),
        "Deleting service account baton-hub... done\n".to_owned(),
        format!("Finished removing cluster {name}\n"),
        "Left in the target: namespace baton-system".to_owned(),
        format!("Left on the hub: 1 phases of class cluster.{name}"),
    ] {
        assert!(gone.contains(&line), "{line}: {gone}");
    }
    assert_eq!(hub.get(&cluster(name)).await, None);
    assert_eq!(
        hub.get(&secret(name).within(ns.name()).manifest).await,
        None
    );
    for object in made() {
        assert_eq!(there.get(&object).await, None, "{object}");
    }
    let ran = baton(ns, Some(path), &["remove", name]);
    assert!(
        refused(&ran).ends_with(&format!("has no cluster {name}")),
        "{ran:?}"
    );
    hub.delete(&phase.manifest, "Background").await;
}

/// Errors that can be detected are reported before anything is written, in one line that names the
/// cluster.
#[tokio::test]
async fn impossible_commands_are_refused_before_any_write() {
    let _turn = turn().await;
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let (hub, site) = (ns.cluster(), Site::get(PUSH).await);
    let (there, path) = (site.cluster().await, site.kubeconfig());
    let name = ns.unique("eu");
    let join =
        |path: &Path, flags: &[&str]| baton(&ns, Some(path), &[&["join", &name], flags].concat());
    let hub_path = hub.kubeconfig().to_owned();

    let dead = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let unreachable =
        TemporaryKubeconfig::new(&text.replace(&site.url(), &format!("https://{dead}")));
    let stranger = TemporaryKubeconfig::new(&site.endpoint().kubeconfig("nonsense"));
    let reading = json!([{
        "apiGroups": ["", "rbac.authorization.k8s.io"],
        "resources": ["namespaces", "serviceaccounts", "secrets", "clusterroles", "clusterrolebindings"],
        "verbs": ["get"],
    }]);
    let reader = site.account_with(&reading).await.token().await;
    let reader = TemporaryKubeconfig::new(&site.endpoint().kubeconfig(&reader.text));

    for (ran, expected) in [
        (
            join(&path, &["--context=nope"]),
            "baton: target: the kubeconfig FILE has no context \"nope\"; choose one of",
        ),
        (join(&path, &["--hub-context=nope"]), "with --hub-context"),
        (
            join(Path::new("/nonexistent/file"), &[]),
            "baton: target: cannot read the kubeconfig /nonexistent/file: ",
        ),
        (
            join(unreachable.path(), &[]),
            "cannot be reached: Connection refused",
        ),
        (
            join(stranger.path(), &[]),
            "does not accept the credentials of the kubeconfig (401 Unauthorized)",
        ),
        (
            join(reader.path(), &[]),
            "does not allow you to create and patch serviceaccounts in namespace baton-system, \
             create and patch clusterroles.rbac.authorization.k8s.io, ",
        ),
        (
            join(&path, &["-n=nope"]),
            "has no namespace nope; install Baton there first",
        ),
        (join(&hub_path, &[]), "hub and target are the same cluster"),
        (
            baton_on(&path, &ns, Some(&hub_path), &["join", &name]),
            "does not serve all custom resources of this version; install their definitions",
        ),
        (
            baton(&ns, Some(&path), &["join", &"a".repeat(56)]),
            "it is longer than 55 characters",
        ),
    ] {
        let line = refused(&ran).replace(path.to_str().unwrap(), "FILE");
        assert!(line.contains(expected), "{expected}: {ran:?}");
        assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
    }
    let ran = join(&path, &["--server", &hub_url(&hub_path)]);
    assert!(
        refused(&ran)
            .contains("; give the address of that cluster with --server. Done before that: "),
        "{ran:?}"
    );
    assert_eq!(hub.get(&cluster(&name)).await, None);
    assert_eq!(
        hub.get(&secret(&name).within(ns.name()).manifest).await,
        None
    );
    // The last join has written objects, and the earlier ones have written none.
    let undone = messages(baton(&ns, Some(&path), &["remove", &name]));
    assert!(
        undone.contains("Deleting secret baton-hub-token... done"),
        "{undone}"
    );
    for object in made() {
        assert_eq!(there.get(&object).await, None, "{object}");
    }
}

fn hub_url(kubeconfig: &Path) -> String {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let cluster = kubeconfig.clusters[0].cluster.as_ref().unwrap();
    cluster.server.clone().unwrap()
}

/// A join that fails halfway reports the steps that are done and those that are not, and a second
/// run continues.
#[tokio::test]
async fn a_partial_join_is_reported_and_completed_by_a_second_run() {
    let _turn = turn().await;
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let (hub, site) = (ns.cluster(), Site::get(PUSH).await);
    let path = site.kubeconfig();
    let name = ns.unique("eu");
    let quota = object("v1", "ResourceQuota", "no-secrets")
        .within(ns.name())
        .with("/spec/hard/secrets", "0");
    ns.create(&quota).await;
    ns.object_becomes(&quota, "in force", |quota| {
        quota["status"]["hard"]["secrets"] == "0"
    })
    .await;
    let ran = baton(&ns, Some(&path), &["join", &name]);
    let line = refused(&ran);
    assert!(line.contains("exceeded quota: no-secrets"), "{line}");
    assert!(
        line.ends_with(&format!(
            "secret baton-hub-token, cluster {name}; not done: secret {name}. Running the command again continues from \
             there"
        )),
        "{line}"
    );
    assert!(hub.get(&cluster(&name)).await.is_some());
    ns.delete(&quota).await;
    ns.gone(&quota).await;
    // The server caches the quota for some seconds.
    ns.eventually("the second run to go on", async || {
        let ran = baton(&ns, Some(&path), &["join", &name]);
        ran.code == 0
            && ran
                .stderr
                .contains(&format!("Creating secret {name}... done"))
    })
    .await;
    messages(baton(&ns, Some(&path), &["remove", &name]));
}
