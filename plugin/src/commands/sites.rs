//! `sites`: the clusters of the inventory, with what deployments to sites have there.

use std::collections::BTreeMap;

use baton_apis::{
    constants::{LABEL_SITE, LABEL_SITE_DEPLOYMENT},
    kinds,
};
use baton_engine::names::is_label_value;
use baton_view::{
    lists::ListQuery,
    object::text_at,
    sites::{
        cluster::{self, Clusters, SiteCluster},
        inventory::Chains,
    },
};
use clap::Args;
use k8s_openapi::jiff::Timestamp;
use kube::core::Selector;
use serde_json::{Value, json};

use super::Exit;
use crate::{
    args::{AllNamespaces, GlobalArgs},
    connect::Cluster,
    error::Error,
    output::{
        format::{DocumentFormat, document},
        report,
    },
    selection::labels,
    sites::read::revision,
    subject::object_name,
    text::fleet::inventory::table,
};

/// List sites: clusters, whether they can be reached, and what deployments to sites have there
///
/// RUNS is the version of each deployment of the namespace, or with -A of all of them; QUEUE is how many wait there.
/// WINDOW is when the provider of the site has upgrades begin, and MESSAGE what the first version in the queue waits
/// for.
#[derive(Clone, Debug, Args)]
pub(crate) struct SitesArgs {
    /// Names of sites; all without any
    #[arg(value_name = "SITE", value_parser = object_name)]
    names: Vec<String>,

    #[command(flatten)]
    all: AllNamespaces,

    /// Only sites with these labels: a=b, a!=b, "a in (b,c)", a, !a; several are separated by commas
    #[arg(long, short = 'l', value_name = "LABELS", value_parser = labels::parse, conflicts_with = "names")]
    selector: Option<Selector>,

    /// Print for programs
    #[arg(long, short, value_name = "FORMAT")]
    output: Option<DocumentFormat>,
}

pub(crate) async fn run(args: &SitesArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    let cluster = global.connect().await?;
    let output = global.output();
    let (clusters, chains) = futures::join!(clusters(&cluster, args), chains(&cluster, args));
    let (clusters, chains) = (clusters?, chains?);
    if let Err(why) = &clusters {
        report(&format!(
            "warning: Clusters cannot be read, so that only sites with revisions are shown: {why}"
        ));
    }
    let lines = chains.lines(&clusters);
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

/// The sites that are asked for. Where nobody may read them, those that have revisions are shown, unless they are
/// chosen by labels.
async fn clusters(cluster: &Cluster, args: &SitesArgs) -> Result<Clusters, Error> {
    let query = ListQuery {
        labels: args.selector.as_ref().map(ToString::to_string),
        ..ListQuery::default()
    };
    let mut clusters = BTreeMap::new();
    let take = |object: Value| {
        let site = SiteCluster::read(&object);
        if args.names.is_empty() || args.names.contains(&site.name) {
            clusters.insert(site.name.clone(), site);
        }
    };
    match cluster.each_at(&cluster::path(), &query, take).await {
        Ok(()) => Ok(Ok(clusters)),
        Err(error @ Error::Refused(_)) if args.selector.is_none() => Ok(Err(error.to_string())),
        Err(error) => Err(error),
    }
}

/// The revisions of these sites, by one list.
async fn chains(cluster: &Cluster, args: &SitesArgs) -> Result<Chains, Error> {
    let is_everywhere = args.all.all_namespaces;
    let namespace = (!is_everywhere).then_some(cluster.namespace.as_str());
    let path = kinds::OBJECT_SET.path(namespace);
    // A name that is no value of a label cannot be asked for.
    let can_be_asked = args.names.iter().all(|name| is_label_value(name));
    let labels = if args.names.is_empty() || !can_be_asked {
        LABEL_SITE_DEPLOYMENT.to_owned()
    } else {
        format!("{LABEL_SITE} in ({})", args.names.join(","))
    };
    let query = ListQuery::labelled(labels);
    let mut chains = Chains::default();
    cluster
        .each_at(&path, &query, |object| {
            let namespace = text_at(&object, "/metadata/namespace");
            let namespace = is_everywhere.then(|| namespace.to_owned());
            if let Some(revision) = revision(&object) {
                chains.add(namespace, revision);
            }
        })
        .await?;
    Ok(chains)
}
