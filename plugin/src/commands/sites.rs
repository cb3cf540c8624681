//! `sites`: the clusters of the inventory, with the versions that run there.

use baton_cluster::lists::once;
use baton_terminal::output::{Print as _, report};
use baton_text::{
    fleet::inventory::table,
    output::format::{DocumentFormat, document},
};
use baton_view::sites::inventory::Inventory;
use clap::Args;
use k8s_openapi::jiff::Timestamp;
use kube::core::Selector;
use serde_json::json;

use super::Exit;
use crate::{
    args::{AllNamespaces, GlobalArgs},
    error::Error,
    selection::labels,
    subject::object_name,
};

/// List sites: clusters, their connection, and the versions that deployments run there
///
/// RUNS is the version of each deployment of the namespace, or of all namespaces with -A. QUEUE is
/// the number of revisions that wait at the site. WINDOW is the state of the provider's upgrade
/// windows, and MESSAGE the reason that the newest version is not available, or else that the first
/// revision in the queue waits.
#[derive(Clone, Debug, Args)]
pub(crate) struct SitesArgs {
    /// Names of sites; all sites if none is given
    #[arg(value_name = "SITE", value_parser = object_name)]
    names: Vec<String>,

    #[command(flatten)]
    all: AllNamespaces,

    /// Only sites with these labels: a=b, a!=b, "a in (b,c)", a, !a; separate several by commas
    #[arg(long, short = 'l', value_name = "LABELS", value_parser = labels::parse, conflicts_with = "names")]
    selector: Option<Selector>,

    /// Format for programs, instead of a table
    #[arg(long, short, value_name = "FORMAT")]
    output: Option<DocumentFormat>,
}

pub(crate) async fn run(args: &SitesArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    let cluster = global.connect().await?;
    let output = global.output();
    let namespace = (!args.all.all_namespaces).then(|| cluster.namespace.clone());
    let question = Inventory {
        names: args.names.clone(),
        labels: args.selector.as_ref().map(ToString::to_string),
        namespace,
    };
    let (lines, trouble) = once(&cluster, &question).await?;
    if let Some(why) = trouble {
        report(&format!(
            "warning: Clusters cannot be read, so only sites with revisions are shown: {why}"
        ));
    }
    for name in &args.names {
        if !lines.iter().any(|line| line.cluster.name == *name) {
            return Err(Error::NotFound(format!("there is no site {name:?}")));
        }
    }
    match args.output {
        Some(form) => output.print(&document(form, &json!({ "sites": lines })))?,
        None if lines.is_empty() => report("No sites found."),
        None => output.print(&table(&lines, output, Timestamp::now()))?,
    }
    Ok(Exit::Fine)
}
