//! Carries out an uninstallation. Each step can be repeated, so a run after an interruption goes on.

use std::time::{Duration, Instant};

use baton_apis::{
    constants::ANNOTATION_ALLOW_DELETION,
    kinds::{self, Kind},
};
use baton_cluster::{Cluster, Write};
use baton_kubernetes::wire::MediaType;
use baton_terminal::output::report;
use baton_view::{lists::ListQuery, object::text_at};
use http::Method;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::plan::{Plan, leave};
use crate::{
    adopt::undo,
    backup::{CONTROLLER_REVISION, collect},
    commands::Exit,
    error::Error,
    installation::{DEFINITIONS, managers, server_time},
};

/// Time between two looks at a kind whose objects are being deleted.
const PAUSE: Duration = Duration::from_secs(1);

/// The kinds that are deleted without their dependents, in this order: owners first.
const RELEASING: [&Kind; 4] = [
    &kinds::OBJECT_SET,
    &kinds::CLUSTER_OBJECT_SET,
    &kinds::OBJECT_SET_PHASE,
    &kinds::CLUSTER_OBJECT_SET_PHASE,
];

/// Removes the objects of a plan, and then the definitions. `print` is called after each step.
///
/// # Errors
/// If no manager leads, a request is refused, or a deletion takes longer than `timeout`; zero is
/// for no limit. What was done until then stays done.
pub(super) async fn carry_out(
    plan: &Plan,
    cluster: &Cluster,
    timeout: Duration,
    mut print: impl FnMut(&str) -> Result<(), Error>,
) -> Result<Exit, Error> {
    let now = server_time(cluster).await.unwrap_or_else(Timestamp::now);
    let managers = managers(cluster, now).await?;
    if plan.needs_manager() && !managers.iter().any(|it| it.is_live) {
        let text = "nothing was changed: no manager leads, and only the manager releases objects. One that runs with \
                    --leader-elect=false has no lease. See `kubectl baton doctor`";
        return Err(Error::Foreseen(text.to_owned()));
    }
    // The revisions of sites are left, and are deleted with all others.
    remove(cluster, &kinds::SITE_DEPLOYMENT, true, timeout, &mut print).await?;
    for deployment in &plan.adopted {
        let namespace = deployment.namespace.as_deref().unwrap_or_default();
        let there = cluster.within(namespace);
        let held = undo::read(&there, deployment.kind(), &deployment.name).await?;
        held.undo(&there, timeout, &mut print).await?;
    }
    for kind in [&kinds::OBJECT_DEPLOYMENT, &kinds::CLUSTER_OBJECT_DEPLOYMENT] {
        remove(cluster, kind, true, timeout, &mut print).await?;
    }
    for kind in RELEASING {
        remove(cluster, kind, true, timeout, &mut print).await?;
    }
    // The records of chosen sites have lost their owner with the SiteDeployments.
    for kind in plan.plain().iter().copied().chain([&CONTROLLER_REVISION]) {
        remove(cluster, kind, false, timeout, &mut print).await?;
    }
    if !plan.clusters.is_empty() {
        for name in &plan.clusters {
            print(&leave(name))?;
        }
        report("the definitions were not deleted; remove the clusters, and run this again");
        return Ok(Exit::Negative);
    }
    let exit = delete_definitions(cluster, &plan.groups(), &mut print).await?;
    report(&plan.last_step(exit == Exit::Fine));
    Ok(exit)
}

/// Deletes all objects of a kind, without their dependents if `releases`, and waits until they are
/// gone.
async fn remove(
    cluster: &Cluster,
    kind: &Kind,
    releases: bool,
    timeout: Duration,
    print: &mut impl FnMut(&str) -> Result<(), Error>,
) -> Result<(), Error> {
    let start = Instant::now();
    let mut deleted = 0;
    loop {
        let query = ListQuery {
            metadata_only: true,
            ..ListQuery::default()
        };
        let left = collect::list(cluster, kind, query).await?;
        let Some(first) = left.first() else {
            if deleted > 0 {
                print(&format!("{}s: {deleted} deleted", kind.name))?;
            }
            return Ok(());
        };
        for object in left
            .iter()
            .filter(|it| it["metadata"]["deletionTimestamp"].is_null())
        {
            delete(cluster, kind, object, releases).await?;
            deleted += 1;
        }
        if !timeout.is_zero() && start.elapsed() > timeout {
            let (_, name) = place(first);
            return Err(Error::Impossible(format!(
                "the deletion of {} {name} takes longer than {} s; its status says what it waits for. Run this again \
                 to go on",
                kind.name,
                timeout.as_secs()
            )));
        }
        sleep(PAUSE).await;
    }
}

/// The namespace of an object, if it has one, and its name for messages.
fn place(object: &Value) -> (Option<&str>, String) {
    let name = text_at(object, "/metadata/name").to_owned();
    match text_at(object, "/metadata/namespace") {
        "" => (None, name),
        namespace => (Some(namespace), format!("{namespace}/{name}")),
    }
}

async fn delete(
    cluster: &Cluster,
    kind: &Kind,
    object: &Value,
    releases: bool,
) -> Result<(), Error> {
    let (namespace, _) = place(object);
    let path = kind.path_of(namespace, text_at(object, "/metadata/name"));
    let policy = if releases { "Orphan" } else { "Background" };
    let body = json!({
        "propagationPolicy": policy, "preconditions": {"uid": object["metadata"]["uid"]},
    });
    match cluster
        .send(Method::DELETE, &path, Some((MediaType::Json, &body)))
        .await
    {
        // It is gone, or is another object now, which the next look finds.
        Err(error) if error.is_code(404) || error.is_code(409) => Ok(()),
        answer => Ok(answer.map(drop)?),
    }
}

/// Deletes the definitions of kinds without objects.
async fn delete_definitions(
    cluster: &Cluster,
    groups: &[&str],
    print: &mut impl FnMut(&str) -> Result<(), Error>,
) -> Result<Exit, Error> {
    let live = cluster.list_at(DEFINITIONS, &ListQuery::default()).await?;
    let mut exit = Exit::Fine;
    for kind in Kind::ALL.iter().filter(|kind| groups.contains(&kind.group)) {
        let name = kind.definition();
        if !live.iter().any(|it| text_at(it, "/metadata/name") == name) {
            continue;
        }
        let count = cluster.count_at(&kind.path(None)).await?;
        if count.least() > 0 {
            print(&format!("definition {name}: kept, because it has objects"))?;
            exit = Exit::Negative;
            continue;
        }
        let path = format!("{DEFINITIONS}/{name}");
        let allow = json!({"metadata": {"annotations": {ANNOTATION_ALLOW_DELETION: "true"}}});
        let write = Write::new(MediaType::MergePatch, false);
        cluster.write(&path, write, &allow).await?;
        cluster.send(Method::DELETE, &path, None).await?;
        print(&format!("definition {name}: deleted"))?;
    }
    Ok(exit)
}
