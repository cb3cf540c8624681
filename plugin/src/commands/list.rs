//! `list`: the Releases of Applications, by their clusters.

use baton_cluster::lists::once;
use baton_terminal::output::{Print as _, objects_none_found};
use baton_text::output::{
    format::{DocumentFormat, document},
    table::Table,
};
use baton_view::applications::scheduled::{AllReleases, ScheduledRelease};
use clap::{Args, Subcommand};
use serde_json::json;

use super::Exit;
use crate::{
    args::GlobalArgs,
    error::{Error, SubjectError},
    subject::object_name,
};

/// List the Releases of Shipper's Applications, by their clusters
///
/// The Releases of all namespaces are listed, or those of the namespace of -n.
#[derive(Clone, Debug, Args)]
pub(crate) struct ListArgs {
    /// The Releases to list.
    #[command(subcommand)]
    which: Which,
}

#[derive(Clone, Debug, Subcommand)]
enum Which {
    /// List all Releases
    #[command(visible_alias = "release")]
    Releases(Filter),
    /// List the newest Release of each Application
    #[command(visible_alias = "contender")]
    Contenders(Filter),
}

#[derive(Clone, Debug, Args)]
struct Filter {
    /// Only Releases that are scheduled on these clusters and on no others, separated by commas; an empty list
    /// selects all
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = name_or_nothing)]
    clusters: Vec<String>,

    /// Format for programs, instead of a table
    #[arg(long, short, value_name = "FORMAT")]
    output: Option<DocumentFormat>,
}

pub(crate) async fn run(args: &ListArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    let cluster = global.connect().await?;
    let output = global.output();
    let namespace = global.namespace().map(str::to_owned);
    let question = AllReleases {
        namespace: namespace.clone(),
    };
    let releases = once(&cluster, &question).await?;
    let (Which::Releases(filter) | Which::Contenders(filter)) = &args.which;
    let clusters: Vec<_> = filter
        .clusters
        .iter()
        .filter(|it| !it.is_empty())
        .cloned()
        .collect();
    let clusters = (!clusters.is_empty()).then_some(&clusters[..]);
    let found = match &args.which {
        Which::Releases(_) => releases.all(clusters),
        Which::Contenders(_) => releases.contenders(clusters),
    };
    match filter.output {
        Some(form) => output.print(&document(form, &json!(found)))?,
        None if found.is_empty() => objects_none_found(namespace.as_deref()),
        None => output.print(&table(&found).render(output))?,
    }
    Ok(Exit::Fine)
}

/// Parses an item of the list of clusters.
fn name_or_nothing(text: &str) -> Result<String, SubjectError> {
    match text {
        "" => Ok(String::new()),
        name => object_name(name),
    }
}

fn table(releases: &[ScheduledRelease]) -> Table {
    let mut table = Table::new(&["NAMESPACE", "NAME", "CLUSTERS ANNOTATION"]);
    for release in releases {
        let clusters = release.clusters.join(",");
        table.row([release.namespace.as_str(), &release.name, &clusters]);
    }
    table
}
