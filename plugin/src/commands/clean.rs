//! `clean`: removes clusters that no longer exist from the Releases of Applications.

use baton_apis::{constants::shipper::ANNOTATION_RELEASE_CLUSTERS, kinds};
use baton_cluster::{Cluster, Write, lists::once};
use baton_kubernetes::wire::MediaType;
use baton_terminal::output::{Print as _, report};
use baton_text::output::table::Table;
use baton_view::applications::scheduled::{AllReleases, Removal, Removals};
use clap::{Args, Subcommand};
use serde_json::json;

use super::{Exit, pause::for_each_target};
use crate::{args::GlobalArgs, confirm::confirmed, error::Error, subject::object_name};

/// Remove what no longer exists from the Releases of Shipper's Applications
#[derive(Clone, Debug, Args)]
pub(crate) struct CleanArgs {
    /// The parts to remove.
    #[command(subcommand)]
    what: What,
}

#[derive(Clone, Debug, Subcommand)]
enum What {
    Clusters(ClustersArgs),
}

/// Remove clusters that no longer exist from Releases
///
/// A cluster that exists is refused; `kubectl baton clusters drain` moves Releases out of it.
///
/// Releases of all namespaces are changed, or those of the namespace of -n. A Release that has no
/// other clusters is changed only if it is neither the newest of its Application nor the newest
/// complete one before it.
#[derive(Clone, Debug, Args)]
#[command(visible_alias = "decommissioned-clusters")]
struct ClustersArgs {
    /// The clusters, separated by commas
    #[arg(
        long,
        visible_alias = "decommissionedClusters",
        value_name = "NAMES",
        value_delimiter = ',',
        value_parser = object_name,
        required = true
    )]
    clusters: Vec<String>,

    /// Do not ask for a confirmation
    #[arg(long, short)]
    yes: bool,

    /// Show the Releases that would be changed, and store nothing
    #[arg(long, visible_alias = "dryrun")]
    dry_run: bool,
}

pub(crate) async fn run(args: &CleanArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    let What::Clusters(args) = &args.what;
    let cluster = global.connect().await?;
    let output = global.output();
    for name in &args.clusters {
        let path = kinds::CLUSTER.path_of(None, name);
        if cluster.metadata_at(&path).await?.is_some() {
            return Err(Error::Impossible(format!(
                "cluster {name} exists; `kubectl baton clusters drain {name}` moves Releases out of it"
            )));
        }
    }
    let question = AllReleases {
        namespace: global.namespace().map(str::to_owned),
    };
    let Removals { changed, kept } = once(&cluster, &question).await?.without(&args.clusters);
    for release in kept {
        report(&format!(
            "note: {}/{} serves or is rolled out, and has no other clusters; it is not changed",
            release.namespace, release.name
        ));
    }
    if changed.is_empty() {
        report("No Releases to change.");
        return Ok(Exit::Fine);
    }
    output.print(&table(&changed).render(output))?;
    if args.dry_run {
        return Ok(Exit::Fine);
    }
    if !args.yes && !confirmed("changes the releases").await? {
        report("nothing was changed");
        return Ok(Exit::Negative);
    }
    for_each_target(&changed, global, remove).await
}

/// Changes the annotation of a Release.
async fn remove(cluster: &Cluster, removal: &Removal) -> Result<String, Error> {
    let Removal {
        release,
        resource_version,
        annotation,
    } = removal;
    let body = json!({ "metadata": {
        "resourceVersion": resource_version,
        "annotations": { ANNOTATION_RELEASE_CLUSTERS: annotation },
    } });
    let path = kinds::RELEASE.path_of(Some(&release.namespace), &release.name);
    let name = format!("release {}/{}", release.namespace, release.name);
    let write = Write::new(MediaType::MergePatch, false);
    match cluster.write(&path, write, &body).await {
        Ok(_) => Ok(format!("{name} changed")),
        Err(error) if error.is_code(409) => Err(Error::Impossible(format!(
            "{name} has changed since it was read; it was not changed"
        ))),
        Err(error) => Err(error.into()),
    }
}

fn table(removals: &[Removal]) -> Table {
    let mut table = Table::new(&[
        "NAMESPACE",
        "NAME",
        "OLD CLUSTER ANNOTATIONS",
        "NEW CLUSTER ANNOTATIONS",
    ]);
    for removal in removals {
        let release = &removal.release;
        let before = release.clusters.join(",");
        let (namespace, name) = (release.namespace.as_str(), release.name.as_str());
        table.row([namespace, name, &before, &removal.annotation]);
    }
    table
}
