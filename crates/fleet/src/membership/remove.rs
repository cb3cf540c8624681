//! `baton cluster remove`.

use baton_apis::{
    ClusterConnection,
    constants::{ANNOTATION_ABANDON, API_VERSION, LABEL_PHASE_CLASS},
};
use baton_terminal::output::{report, task};
use futures::future::try_join_all;
use serde_json::{Value, json};

use super::{
    args::RemoveArgs,
    error::{ClusterRole, Error},
    manifest::{Manifest, text},
    manifests::{
        Credentials, HUB,
        agent::{self, AGENT},
        assignment, cluster, cluster_secret, hub_account, identity, is_made_for,
        target_rights::{TargetRights, cluster_role, tenants_role},
    },
    progress::Progress,
    request::Admitted,
    rights::Right,
    server::Server,
    spec::connection_of,
    target::{differs, is_free},
    tenants::bindings,
};
use crate::name::ClusterName;

/// Number of phases that a message names.
const MAX_NAMED: usize = 5;
/// Number of rounds in which recreated mirrors are dropped again. A manager that has observed the
/// deletion of the Cluster makes none.
const ROUNDS: usize = 20;

/// An existing object that is to be deleted.
struct Deletion {
    manifest: Manifest,
    live: Value,
}

impl Deletion {
    /// The rights that the deletion needs.
    fn rights(&self) -> Vec<Right> {
        let mut rights = vec![self.manifest.right("delete")];
        if self.manifest.kind() == "Namespace" {
            let phases = mirrors(self.manifest.name());
            rights.extend(["list", "patch", "delete"].map(|verb| phases.right(verb)));
        }
        rights
    }
}

/// The phases that an agent reads in this namespace.
fn mirrors(namespace: &str) -> Manifest {
    Manifest(json!({
        "apiVersion": API_VERSION, "kind": "ObjectSetPhase", "metadata": { "namespace": namespace },
    }))
}

pub(super) async fn run(args: &RemoveArgs) -> Result<(), Error> {
    let name = &args.name;
    let hub = Server::connect(ClusterRole::Hub, &args.hub.connection()).await?;
    let target = if args.target.is_named() {
        let target = Server::connect(ClusterRole::Target, &args.target.connection).await?;
        differs(&hub, &target, args.target.allow_same).await?;
        Some(target)
    } else {
        None
    };
    let live = hub.get(&cluster(name, &json!({}))).await?;
    let connection = live.as_ref().map(connection_of);
    let on_hub = on_hub(&hub, name, args.hub.namespace.as_str(), live).await?;
    let in_target = match &target {
        Some(target) => in_target(target, name).await?,
        None => Vec::new(),
    };
    if on_hub.is_empty() && in_target.is_empty() {
        return Err(Error::NoSuchCluster {
            at: hub.address(),
            name: name.to_string(),
        });
    }
    let phases = phases(&hub, name).await?;
    if !phases.is_empty() && !args.force {
        return Err(Error::InUse {
            name: name.to_string(),
            count: phases.len(),
            first: phases.into_iter().take(MAX_NAMED).collect(),
        });
    }
    for (server, deletions) in [(Some(&hub), &on_hub), (target.as_ref(), &in_target)] {
        if let Some(server) = server {
            let rights = deletions.iter().flat_map(Deletion::rights);
            server.require_rights(rights.collect()).await?;
        }
    }

    report(&format!("Removing cluster {name}:"));
    let titles = on_hub.iter().chain(&in_target);
    let titles = titles.map(|deletions| deletions.manifest.title()).collect();
    let mut progress = Progress::over_titles(titles);
    let parts = [(Some(&hub), on_hub), (target.as_ref(), in_target)];
    if let Err(error) = delete(&parts, args.dry_run, &mut progress).await {
        return Err(progress.halfway(error));
    }
    if !args.dry_run {
        report(&format!("Finished removing cluster {name}"));
    }
    for line in left(target.is_some(), connection, phases.len(), name) {
        report(&line);
    }
    Ok(())
}

/// Deletes in order, or prints the deletions of a dry run. The hub is first, so that no object is
/// used after it was deleted.
async fn delete(
    parts: &[(Option<&Server>, Vec<Deletion>); 2],
    dry_run: bool,
    progress: &mut Progress,
) -> Result<(), Error> {
    for (server, deletions) in parts {
        let Some(server) = server else { continue };
        if !deletions.is_empty() {
            report(&server.heading());
        }
        for Deletion { manifest, live } in deletions {
            let title = manifest.title();
            if dry_run {
                report(&format!("Would delete {title}"));
                continue;
            }
            if manifest.kind() == "Namespace" {
                let doing = format!("Releasing the phases in {title}");
                task(&doing, forget(server, manifest.name())).await?;
            }
            // A Secret is garbage collected with its Cluster, so it may be gone by now.
            task(&format!("Deleting {title}"), server.delete(manifest, live)).await?;
            progress.is_done(&title);
        }
    }
    Ok(())
}

/// Drops the mirrors of an agent. The agent forgets a phase whose mirror vanishes, but would take
/// away the objects of one that is being deleted; they are to stay.
async fn forget(hub: &Server, namespace: &str) -> Result<(), Error> {
    let like = mirrors(namespace);
    for _ in 0..ROUNDS {
        let found = hub.list_if_served(&like, "").await?;
        if found.is_empty() {
            return Ok(());
        }
        for live in found {
            let mut mirror = like.clone();
            mirror.0["metadata"]["name"] = text(&live, "/metadata/name").into();
            hub.drop_object(&mirror, &live).await?;
        }
    }
    Err(Error::Unforgotten {
        namespace: namespace.to_owned(),
    })
}

/// The objects to delete on the hub: Cluster, Secret, assignment, namespace of the agent.
///
/// The Cluster is first: without it the manager writes nothing more into that namespace, and
/// nothing is delivered after the assignment is gone.
async fn on_hub(
    hub: &Server,
    name: &ClusterName,
    secrets: &str,
    cluster_live: Option<Value>,
) -> Result<Vec<Deletion>, Error> {
    let manifest = cluster(name, &json!({}));
    let mut deletions: Vec<Deletion> = cluster_live
        .map(|live| Deletion { manifest, live })
        .into_iter()
        .collect();
    let secret = cluster_secret(name, secrets, "", "", &Credentials::default());
    match hub.get(&secret).await? {
        Some(live) if belongs_to(&live, name) => deletions.push(Deletion {
            manifest: secret,
            live,
        }),
        Some(_) => report(&format!(
            "Leaving secret {name} in namespace {secrets} on the hub: its owner is not the Cluster"
        )),
        None => {}
    }
    let manifest = assignment(name, &Admitted::All);
    match hub.get(&manifest).await? {
        Some(live) if is_made_for(&live, name) => deletions.push(Deletion { manifest, live }),
        Some(_) => report(&format!(
            "Leaving {} on the hub: `baton cluster join` did not write it",
            manifest.title()
        )),
        None => {}
    }
    // The namespace of an agent.
    if let Some(namespace) = name.namespace() {
        let manifest = identity("v1", "Namespace", "", &namespace);
        let live = hub.get(&manifest).await?;
        deletions.extend(live.map(|live| Deletion { manifest, live }));
    }
    Ok(deletions)
}

/// True if the Cluster owns a Secret, which may only have the same name.
fn belongs_to(secret: &Value, name: &ClusterName) -> bool {
    let owners = secret.pointer("/metadata/ownerReferences");
    let mut owners = owners.and_then(Value::as_array).into_iter().flatten();
    owners.any(|owner| {
        let group = text(owner, "/apiVersion").split('/').next();
        group == Some("shipper.booking.com")
            && text(owner, "/kind") == "Cluster"
            && text(owner, "/name") == name.as_str()
    })
}

/// The objects that joining has made in the target, for both directions of the connection: one may
/// have followed the other.
async fn in_target(target: &Server, name: &ClusterName) -> Result<Vec<Deletion>, Error> {
    is_free(target, name).await?;
    let mut deletions = Vec::new();
    for account in [HUB, AGENT] {
        let bindings = bindings(target, account).await?.into_iter();
        deletions.extend(bindings.map(|(manifest, live)| Deletion { manifest, live }));
    }
    let mut manifests = agent::leftovers(name);
    manifests.push(cluster_role(&tenants_role(HUB)));
    let account = hub_account(name, &TargetRights::default())
        .into_iter()
        .rev();
    // The namespace may have other users.
    manifests.extend(account.filter(|manifest| manifest.kind() != "Namespace"));
    let live = try_join_all(manifests.iter().map(|manifest| target.get(manifest))).await?;
    for (manifest, live) in manifests.into_iter().zip(live) {
        deletions.extend(live.map(|live| Deletion { manifest, live }));
    }
    Ok(deletions)
}

/// The phases that are delivered into the cluster.
async fn phases(hub: &Server, name: &ClusterName) -> Result<Vec<String>, Error> {
    let Ok(class) = name.class() else {
        return Ok(Vec::new());
    };
    let label = format!("{LABEL_PHASE_CLASS}={class}");
    let mut found = Vec::new();
    for kind in ["ObjectSetPhase", "ClusterObjectSetPhase"] {
        let kind = Manifest(json!({ "apiVersion": API_VERSION, "kind": kind }));
        found.extend(hub.list_if_served(&kind, &label).await?);
    }
    let mut names: Vec<String> = found
        .iter()
        .map(|phase| {
            let name = text(phase, "/metadata/name");
            match text(phase, "/metadata/namespace") {
                "" => name.to_owned(),
                namespace => format!("{namespace}/{name}"),
            }
        })
        .collect();
    names.sort();
    Ok(names)
}

/// The messages about the objects that are left, and the ways to remove them.
fn left(
    target_was_named: bool,
    connection: Option<ClusterConnection>,
    phases: usize,
    name: &ClusterName,
) -> Vec<String> {
    let delivered = match (connection, target_was_named) {
        (_, true) => {
            "Left in the target: namespace baton-system, and the objects that revisions have delivered"
        }
        (Some(ClusterConnection::Pull), false) => {
            "Left in the cluster: the objects that revisions have delivered, and the agent if it was started there, \
             with its rights; until it observes the removal it continues to repair the objects. The same command with \
             --kubeconfig or --context of the cluster removes the agent"
        }
        (_, false) => {
            "Left in the cluster: service account baton-hub in namespace baton-system, its rights and its token; the \
             same command with --kubeconfig or --context of the cluster removes that"
        }
    };
    let mut lines = vec![delivered.to_owned()];
    if phases > 0 {
        lines.push(format!(
            "Left on the hub: {phases} phases of class cluster.{name}, which no manager delivers any more; to delete \
             them without their objects, annotate them with {ANNOTATION_ABANDON}=true"
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name() -> ClusterName {
        "eu-1".parse().unwrap()
    }

    #[test]
    fn only_a_secret_that_the_cluster_owns_is_deleted() {
        let owned = |group: &str, kind: &str, name: &str| {
            json!({ "metadata": { "ownerReferences": [
                { "apiVersion": "v1", "kind": "Namespace", "name": "a" },
                { "apiVersion": format!("{group}/v1alpha1"), "kind": kind, "name": name },
            ] } })
        };
        for (secret, expected) in [
            (owned("shipper.booking.com", "Cluster", "eu-1"), true),
            (owned("shipper.booking.com", "Cluster", "eu-2"), false),
            (owned("shipper.booking.com", "Application", "eu-1"), false),
            (owned("cluster.x-k8s.io", "Cluster", "eu-1"), false),
            (json!({ "metadata": { "name": "eu-1" } }), false),
        ] {
            assert_eq!(belongs_to(&secret, &name()), expected, "{secret}");
        }
    }

    #[test]
    fn remaining_objects_are_printed() {
        let printed =
            |named, connection, phases| left(named, connection, phases, &name()).join("\n");
        assert!(
            printed(false, Some(ClusterConnection::Push), 0).contains("service account baton-hub")
        );
        assert!(printed(false, Some(ClusterConnection::Pull), 0).contains("and the agent if"));
        assert!(!printed(true, Some(ClusterConnection::Pull), 0).contains("the agent"));
        assert!(printed(true, None, 0).starts_with("Left in the target: namespace baton-system"));
        assert!(printed(true, None, 2).contains("2 phases of class cluster.eu-1"));
        assert!(!printed(true, None, 0).contains("phases"));
    }
}
