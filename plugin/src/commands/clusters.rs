//! `clusters`: takes clusters out of use for Applications, and back.

use baton_apis::kinds;
use baton_cluster::{Cluster, Write, lists::once};
use baton_kubernetes::wire::MediaType;
use baton_steering::note;
use baton_terminal::output::report;
use baton_view::applications::scheduled::AllReleases;
use clap::{Args, Subcommand};
use serde_json::json;

use super::{Exit, pause::for_each_target};
use crate::{args::GlobalArgs, error::Error, subject::object_name};

/// Drain clusters that Applications run in, and use them again
///
/// `baton cluster` joins clusters, lists and removes them.
#[derive(Clone, Debug, Args)]
pub(crate) struct ClustersArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Clone, Debug, Subcommand)]
enum Action {
    /// Move the Releases of Applications out of clusters
    ///
    /// New Releases do not use the clusters. A Release that runs there gets another cluster of the same
    /// region, with capacity and traffic by the steps of its strategy, and leaves the drained one then.
    /// If there is no other cluster it stays, and its condition Scheduled says so. Sites are not
    /// affected.
    Drain(ClusterArgs),
    /// Let Releases use drained clusters again
    Undrain(ClusterArgs),
}

#[derive(Clone, Debug, Args)]
struct ClusterArgs {
    /// Names of clusters
    #[arg(value_name = "SITE", value_parser = object_name, required = true)]
    names: Vec<String>,

    /// Check the change on the server, and store nothing
    #[arg(long)]
    dry_run: bool,
}

pub(crate) async fn run(args: &ClustersArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    let (args, drains) = match &args.action {
        Action::Drain(args) => (args, true),
        Action::Undrain(args) => (args, false),
    };
    let exit = for_each_target(&args.names, global, async |cluster, name| {
        let change = set_unschedulable(cluster, name, drains, args.dry_run).await?;
        Ok(format!("cluster.{}/{name} {change}", kinds::CLUSTER.group))
    });
    let exit = exit.await?;
    if drains {
        let cluster = global.connect().await?;
        let releases = once(&cluster, &AllReleases { namespace: None }).await?;
        let in_drained = releases
            .all(None)
            .into_iter()
            .filter(|release| release.clusters.iter().any(|it| args.names.contains(it)));
        let count = in_drained.count();
        if count > 0 {
            report(&format!(
                "number of releases there: {count}; `kubectl baton list releases` shows their clusters"
            ));
        }
    }
    Ok(exit)
}

/// Changes a Cluster. Returns the word for the result.
async fn set_unschedulable(
    cluster: &Cluster,
    name: &str,
    drains: bool,
    dry_run: bool,
) -> Result<String, Error> {
    let path = kinds::CLUSTER.path_of(None, name);
    let Some(live) = cluster.get_at(&path).await? else {
        return Err(Error::NotFound(format!("there is no cluster {name:?}")));
    };
    let word = if drains { "drained" } else { "undrained" };
    let is_drained = live["spec"]["scheduler"]["unschedulable"] == true;
    if is_drained == drains {
        return Ok(format!("{word} already"));
    }
    let body = json!({ "spec": { "scheduler": { "unschedulable": drains } } });
    let write = Write::new(MediaType::MergePatch, dry_run);
    cluster.write(&path, write, &body).await?;
    Ok(format!("{word}{}", note(dry_run)))
}
