//! The refusals that a change would meet, before anything is written.

use baton_cluster::{Cluster, ClusterError};
use baton_text::diff::{outcome::fate, title};
use baton_view::{
    chain::{Chain, kind::ChainKind},
    diff::plan::{NoPlan, Plan},
};
use serde_json::Value;

use super::{
    forecast,
    losses::{PendingApply, warn},
    phase_clusters::PhaseClusters,
};
use crate::error::Error;

/// Checks what the server or the manager would refuse of an apply. `given` are slices that are
/// applied together with the object.
///
/// # Errors
/// If something would be refused, unless that is forced, or if the server cannot be reached.
pub async fn check_apply(
    cluster: &Cluster,
    next: &PendingApply,
    given: &[Value],
    is_forced: bool,
) -> Result<(), Error> {
    let Some(plan) = next.plan() else {
        return Ok(());
    };
    let mut given = given.to_vec();
    for slice in &mut given {
        slice["metadata"]["namespace"] = next.namespace().clone();
    }
    check(cluster, plan, &given, is_forced).await
}

/// Checks a revision that is about to be created in a chain, and warns of the losses by it.
///
/// # Errors
/// If something would be refused, unless that is forced, or if the server cannot be reached.
pub async fn check_revision(
    cluster: &Cluster,
    chain: &Chain,
    (kind, object): (ChainKind, &Value),
    is_forced: bool,
) -> Result<(), Error> {
    let plan = || Plan::of(kind, object, std::slice::from_ref(chain));
    check(cluster, plan(), &[], is_forced).await?;
    warn(plan(), cluster, &[]).await;
    Ok(())
}

/// Computes the effects of a revision as `diff -f` does, and finds the refusals.
///
/// `given` are slices that are applied together with the revision. With `is_forced`, the refusals
/// are warnings.
///
/// # Errors
/// [`Error::Foreseen`] if something would be refused. An error during the computation is only
/// reported: a user may have the right to write a deployment and not to read its objects.
async fn check(
    cluster: &Cluster,
    plan: Result<Option<Plan>, NoPlan>,
    given: &[Value],
    is_forced: bool,
) -> Result<(), Error> {
    // The caller reports that no revision can follow.
    let Ok(Some(plan)) = plan else {
        return Ok(());
    };
    let places = PhaseClusters::only(cluster.clone());
    let sections = match forecast::of_plan(&places, &plan, given).await {
        Ok(sections) => sections,
        Err(error @ Error::Cluster(ClusterError::Unreachable { .. })) => return Err(error),
        Err(error) => {
            cluster.warn(&format!("the refusals by the server are unknown: {error}"));
            return Ok(());
        }
    };
    let refused = sections.iter().filter(|section| section.is_refused());
    let mut lines: Vec<String> = refused
        .map(|section| format!("{}: {}", title(&section.topic), fate(&section.outcome)))
        .collect();
    lines.dedup();
    if is_forced {
        for line in &lines {
            cluster.warn(line);
        }
    }
    if is_forced || lines.is_empty() {
        return Ok(());
    }
    let count = match lines.len() {
        1 => "an object would be refused".to_owned(),
        count => format!("{count} objects would be refused"),
    };
    Err(Error::Foreseen {
        refused: lines,
        message: format!("nothing was written, because {count}; --force writes it all the same"),
    })
}
