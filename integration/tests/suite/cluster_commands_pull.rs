//! `baton cluster join --pull` and the commands after it, between a real hub and a real site.

use std::path::Path;

use baton_integration::prelude::*;
use baton_integration::sites::{PUSH, Site, TemporaryKubeconfig};
use futures::{Stream, StreamExt as _};
use kube::api::{Api, DynamicObject, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, Config};
use tempfile::TempDir;

use crate::cluster_commands::{baton, cluster, messages, refused, reported, turn, value, versions};

pub(crate) const GROUP: &str = "package-operator.run/v1alpha1";

/// Returns the documents of a printed manifest.
pub(crate) fn documents(text: &str) -> Vec<Value> {
    let documents = text.split("---\n").filter(|text| !text.is_empty());
    documents
        .map(|text| serde_saphyr::from_str(text).unwrap())
        .collect()
}

/// Returns the document of a kind.
pub(crate) fn document<'a>(documents: &'a [Value], kind: &str) -> &'a Value {
    let mut documents = documents.iter();
    documents.find(|one| one["kind"] == kind).unwrap()
}

/// Writes an agent's Secret to files, as in its pod.
pub(crate) fn mounted(secret: &Value) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for key in ["kubeconfig", "token"] {
        std::fs::write(dir.path().join(key), value(secret, key)).unwrap();
    }
    dir
}

/// Returns the namespace of a cluster's agent on the hub.
pub(crate) fn home(name: &str) -> String {
    format!("baton-cluster-{name}")
}

/// Returns the objects of a join on the hub: token, binding, role, account, Cluster.
fn made_on_hub(name: &str) -> [Value; 5] {
    let here = |api_version: &str, kind: &str, name_: &str| {
        object(api_version, kind, name_)
            .within(&home(name))
            .manifest
    };
    let rbac = "rbac.authorization.k8s.io/v1";
    [
        here("v1", "Secret", "agent-token"),
        here(rbac, "RoleBinding", "agent"),
        here(rbac, "Role", "agent"),
        here("v1", "ServiceAccount", "agent"),
        cluster(name),
    ]
}

/// Returns a phase as an agent would find it, with a class that no controller serves.
pub(crate) fn phase(namespace: &str, name: &str) -> Entry {
    object(GROUP, "ObjectSetPhase", name)
        .within(namespace)
        .label("package-operator.run/phase-class", "nobody")
        .annotation("baton.run/origin", "{}")
        .with("/spec/revision", 1)
        .with("/spec/objects", json!([]))
}

/// Connects with a kubeconfig. Refused requests are not repeated.
pub(crate) async fn client(kubeconfig: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let mut config = config.unwrap();
    config.default_retry = false;
    Client::try_from(config).unwrap()
}

/// Returns the events of a phase until its watch ends after some seconds.
pub(crate) async fn watched(
    client: Client,
    phase: &Value,
    seconds: u32,
) -> impl Stream<Item = WatchEvent<DynamicObject>> {
    let kind = GroupVersionKind::gvk("package-operator.run", "v1alpha1", "ObjectSetPhase");
    let text = |part: &str| phase["metadata"][part].as_str().unwrap();
    let namespace = text("namespace");
    let phases: Api<DynamicObject> =
        Api::namespaced_with(client, namespace, &ApiResource::from_gvk(&kind));
    let params = WatchParams::default()
        .fields(&format!("metadata.name={}", text("name")))
        .timeout(seconds);
    let events = phases.watch(&params, text("resourceVersion")).await;
    events.unwrap().map(Result::unwrap)
}

#[tokio::test]
async fn a_cluster_is_joined_for_an_agent_kept_up_to_date_and_removed() {
    let _turn = turn().await;
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let (hub, site) = (ns.cluster(), Site::get(PUSH).await);
    let (there, path) = (site.cluster().await, site.kubeconfig());
    let name = ns.unique("edge");
    let join = |site: Option<&Path>, flags: &[&str]| {
        baton(&ns, site, &[&["join", &name, "--pull"], flags].concat())
    };

    let planned = messages(join(None, &["--dry-run"]));
    assert!(
        planned.ends_with(&format!(
            "Would create cluster {name}\nWould print the manifest of the agent\n"
        )),
        "{planned}"
    );
    assert_eq!(hub.get(&cluster(&name)).await, None);

    let first = join(None, &["--region=eu", "--state-volume=empty-dir"]);
    assert_eq!(first.code, 0, "{first:?}");
    let expected = format!(
        "Creating namespace {home}... done
Creating service account agent... done
Creating role agent... done
Creating role binding agent in namespace {home}... done
Creating secret agent-token... done
Waiting for the token in secret agent-token... done
Creating cluster {name}... done
Printing the manifest of the agent",
        home = home(&name)
    );
    assert!(first.stderr.contains(&expected), "{first:?}");
    let joined = hub.get(&cluster(&name)).await.unwrap();
    assert_eq!(joined["spec"]["connection"], "Pull");
    assert_eq!(joined["spec"]["region"], "eu");
    assert_eq!(joined["spec"].get("apiMaster"), None);
    // No Secret outside of the agent's namespace contains the token.
    assert_eq!(
        hub.get(&secret(&name).within(ns.name()).manifest).await,
        None
    );

    // A second run prints the same and writes nothing.
    reported(&ns, &name, "Connecting").await;
    let before = versions(hub, &made_on_hub(&name)).await;
    let second = join(None, &[]);
    assert_eq!(second.stdout, first.stdout);
    assert!(
        second
            .stderr
            .ends_with("was joined already; nothing was changed\n"),
        "{second:?}"
    );
    assert_eq!(versions(hub, &made_on_hub(&name)).await, before);

    let listed = baton(&ns, None, &["list"]);
    let row = listed.stdout.lines().find(|line| line.starts_with(&name));
    assert!(row.unwrap().contains("   Pull         eu "), "{listed:?}");

    // The printed manifest, applied as by kubectl, results in the same objects as `--apply`.
    let agent = documents(&first.stdout);
    for document in &agent {
        there.apply(document, "kubectl").await.unwrap();
    }
    let versions_there = versions(&there, &agent).await;
    let again = messages(join(Some(&path), &["--apply"]));
    assert!(
        again.ends_with("was joined already; nothing was changed\n"),
        "{again}"
    );
    // The deployment controller may have written the status of the Deployment.
    let is_written = |one: &&Value| one["kind"] != "Deployment";
    let constant: Vec<Value> = agent.iter().filter(is_written).cloned().collect();
    let constant_before: Vec<Value> = agent
        .iter()
        .zip(versions_there)
        .filter(|(one, _)| is_written(one))
        .map(|(_, version)| version)
        .collect();
    assert_eq!(versions(&there, &constant).await, constant_before);
    has_the_rights_of_an_agent(&ns, &there, &site, &name).await;

    only_as_it_is(&ns, &path, &name).await;
    a_new_token(&ns, &there, &path, &name, &agent).await;

    // A join by a file keeps the flags of the previous join.
    let contexts: Value = serde_saphyr::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    let listed = json!({ "applicationClusters": [{
        "name": name, "region": "us", "connection": "Pull", "context": contexts["current-context"],
    }] });
    std::fs::write(file.path(), listed.to_string()).unwrap();
    let by_file = ["join", "--apply", "-f", file.path().to_str().unwrap()];
    messages(baton(&ns, Some(&path), &by_file));
    assert_eq!(
        hub.get(&cluster(&name)).await.unwrap()["spec"]["region"],
        "us"
    );
    let claim = object("v1", "PersistentVolumeClaim", "baton-agent").within("baton-system");
    assert_eq!(there.get(&claim.manifest).await, None);

    removed(&ns, &there, &path, &name, &agent).await;
    site.forget(ns.name()).await;
}

/// The account of the manifest may deliver objects in the site, and hold a lease.
async fn has_the_rights_of_an_agent(ns: &TestNamespace, there: &Cluster, site: &Site, name: &str) {
    let token = there.token("baton-system", "baton-agent").await;
    let kubeconfig = TemporaryKubeconfig::new(&site.endpoint().kubeconfig(&token));
    let delivering = Cluster::connect(kubeconfig.path()).await;
    site.namespace(ns.name()).await;
    let delivered = configmap("delivered").within(ns.name()).manifest;
    ns.eventually("the agent to have its rights", async || {
        !matches!(
            delivering.create(&delivered).await,
            Err(Refused { code: 403, .. })
        )
    })
    .await;
    let definitions = object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "x").manifest;
    delivering.list(&definitions, "").await;
    let lease = lease(name);
    delivering.create(&lease).await.unwrap();
    delivering
        .merge(&lease, &json!({ "spec": { "holderIdentity": "a" } }))
        .await
        .unwrap();
}

/// Returns the lease of a cluster's agent.
fn lease(name: &str) -> Value {
    object(
        "coordination.k8s.io/v1",
        "Lease",
        &format!("baton-agent-{name}"),
    )
    .within("baton-system")
    .manifest
}

/// Joins with wrong arguments are refused, on either side.
async fn only_as_it_is(ns: &TestNamespace, path: &Path, name: &str) {
    let other = ns.unique("other");
    let dead = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    for (args, expected) in [
        (
            &["join", name][..],
            format!(
                "{name} is a Pull cluster on the hub, and two connections at once would mean two writers"
            ),
        ),
        (
            &["join", &other, "--pull", "--apply"],
            format!("is joined as {name}, not as {other}"),
        ),
        (
            &["join", &other],
            format!("is joined as {name}, not as {other}"),
        ),
        (
            &["join", "a.b", "--pull"],
            "\"a.b\" cannot be the name of a cluster that is joined with --pull".to_owned(),
        ),
        (
            &[
                "join",
                name,
                "--pull",
                "--hub-server",
                &Site::get(PUSH).await.url(),
            ],
            "give the address of that cluster with --hub-server".to_owned(),
        ),
        (
            &["join", &other, "--apply"],
            "are for an agent, and need --pull".to_owned(),
        ),
    ] {
        let ran = baton(ns, Some(path), args);
        assert!(refused(&ran).contains(&expected), "{expected}: {ran:?}");
        assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
    }
    assert_eq!(ns.cluster().get(&cluster(&other)).await, None);
    // An address that only the agent can reach results in a note, and is stored.
    let elsewhere = format!("https://{dead}");
    let ran = baton(
        ns,
        None,
        &["join", name, "--pull", "--hub-server", &elsewhere],
    );
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(
        ran.stderr.contains(&format!(
            "Note: {elsewhere} could not be tested from here: "
        )),
        "{ran:?}"
    );
    let later = baton(ns, None, &["join", name, "--pull"]);
    assert_eq!(later.stdout, ran.stdout);
    let dir = mounted(document(&documents(&later.stdout), "Secret"));
    let kubeconfig = Kubeconfig::read_from(dir.path().join("kubeconfig")).unwrap();
    let server = kubeconfig.clusters[0]
        .cluster
        .as_ref()
        .unwrap()
        .server
        .clone();
    assert_eq!(server, Some(elsewhere));
    let hub = Kubeconfig::read_from(ns.cluster().kubeconfig()).unwrap();
    let url = hub.clusters[0]
        .cluster
        .as_ref()
        .unwrap()
        .server
        .clone()
        .unwrap();
    messages(baton(
        ns,
        Some(path),
        &["join", name, "--pull", "--apply", "--hub-server", &url],
    ));
}

/// Replaces the token of an agent.
async fn a_new_token(
    ns: &TestNamespace,
    there: &Cluster,
    path: &Path,
    name: &str,
    agent: &[Value],
) {
    let hub = ns.cluster();
    let planned = messages(baton(ns, None, &["rotate", name, "--dry-run"]));
    assert!(
        planned.contains("Would replace service account agent\nWould leave role agent as it is\n")
            && planned.ends_with("Would print the manifest of the agent\n"),
        "{planned}"
    );
    // The manifest is printed as by a join.
    let printed = baton(ns, None, &["rotate", name]);
    assert_eq!(printed.code, 0, "{printed:?}");
    let first = document(&documents(&printed.stdout), "Secret").clone();
    assert_ne!(
        value(&first, "token"),
        value(document(agent, "Secret"), "token")
    );
    let same = baton(ns, None, &["join", name, "--pull"]);
    assert_eq!(same.stdout, printed.stdout);
    // It is applied as by a join. An interrupted command is continued by the next one.
    let account = made_on_hub(name)[3].clone();
    assert!(hub.delete(&account, "Background").await);
    ns.eventually("the token to go with its account", async || {
        hub.get(&made_on_hub(name)[0]).await.is_none()
    })
    .await;
    let ran = messages(baton(ns, Some(path), &["rotate", name, "--apply"]));
    assert!(
        ran.contains("Creating service account agent... done"),
        "{ran}"
    );
    assert!(ran.contains("Updating secret baton-hub... done"), "{ran}");
    assert!(!ran.contains("Updating deployment"), "{ran}");
    let old = document(agent, "Secret");
    let new = there.get(old).await.unwrap();
    assert_ne!(value(&new, "token"), value(old, "token"));
    for (secret, expected) in [(&new, true), (&first, false), (old, false)] {
        let dir = mounted(secret);
        let agent = Cluster::connect(&dir.path().join("kubeconfig")).await;
        // The server caches tokens for some seconds.
        ns.eventually("the server to know the token that counts", async || {
            agent.is_known().await == expected
        })
        .await;
    }
}

/// Removes a cluster that a phase is delivered into. The agent observes that its phases are gone.
/// It never observes a deletion timestamp, which would make it delete the objects.
async fn removed(ns: &TestNamespace, there: &Cluster, path: &Path, name: &str, agent: &[Value]) {
    let hub = ns.cluster();
    let delivered = phase(ns.name(), "web-app")
        .label(
            "package-operator.run/phase-class",
            &format!("cluster.{name}"),
        )
        // The cluster of the phase will be gone.
        .annotation("baton.run/abandon", "true");
    hub.create(&delivered.manifest).await.unwrap();
    let mut mirror = phase(&home(name), "web-app-1").manifest;
    mirror["metadata"]["finalizers"] = json!(["baton.run/mirror"]);
    let mirror = hub.create(&mirror).await.unwrap();

    let ran = baton(ns, Some(path), &["remove", name]);
    assert!(
        refused(&ran).starts_with(&format!("baton: 1 phase is of class cluster.{name}: ")),
        "{ran:?}"
    );
    assert!(hub.get(&mirror).await.is_some());

    let events = watched(client(hub.kubeconfig()).await, &mirror, 60).await;

    let gone = messages(baton(ns, Some(path), &["remove", name, "--force"]));
    let events: Vec<_> = events
        .take_while(|event| {
            let goes_on = !matches!(event, WatchEvent::Deleted(_));
            if let WatchEvent::Modified(mirror) | WatchEvent::Deleted(mirror) = event {
                assert_eq!(mirror.metadata.deletion_timestamp, None);
            }
            futures::future::ready(goes_on)
        })
        .collect()
        .await;
    // The finalizer is removed in a separate write.
    assert!(
        matches!(events[..], [WatchEvent::Modified(_)]),
        "{events:?}"
    );
    for line in [
        format!("Deleting cluster {name}... done\n"),
        format!("Releasing the phases in namespace {}... done\n", home(name)),
        "Deleting deployment baton-agent... done\n".to_owned(),
        "Deleting service account baton-agent... done\n".to_owned(),
        format!("Finished removing cluster {name}\n"),
        "Left in the target: namespace baton-system".to_owned(),
        format!("Left on the hub: 1 phases of class cluster.{name}"),
    ] {
        assert!(gone.contains(&line), "{line}: {gone}");
    }
    let made = |one: &&Value| one["kind"] != "Namespace";
    for object in agent.iter().filter(made).chain([&lease(name)]) {
        assert_eq!(there.get(object).await, None, "{object}");
    }
    ns.eventually("all on the hub to be gone", async || {
        for object in made_on_hub(name) {
            if hub.get(&object).await.is_some() {
                return false;
            }
        }
        let home = object("v1", "Namespace", &home(name)).manifest;
        hub.get(&home).await.is_none()
    })
    .await;
    let ran = baton(ns, Some(path), &["remove", name, "--force"]);
    assert!(
        refused(&ran).ends_with(&format!("has no cluster {name}")),
        "{ran:?}"
    );
    hub.delete(&delivered.manifest, "Background").await;
}
