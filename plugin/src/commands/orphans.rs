//! `orphans`: objects with Baton's label and without a controller.

mod find;
mod render;

use baton_terminal::output::{Print as _, objects_none_found, report};
use baton_text::output::format::{Format, objects};
use clap::Args;
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::Exit;
use crate::{
    args::{AllNamespaces, GlobalArgs},
    error::Error,
};

/// Find objects that a revision has written and that have no controller any more
///
/// These are objects of any kind with the label package-operator.run/cache=True that have no
/// controller, or one that does not exist. Kinds that may not be listed are named on standard
/// error. With -o json, only metadata is printed.
///
/// In a namespace, to delete them: kubectl baton orphans -o name | xargs -r kubectl delete
#[derive(Clone, Debug, Args)]
pub(crate) struct OrphansArgs {
    /// All namespaces, and cluster-scoped objects
    #[command(flatten)]
    all: AllNamespaces,

    /// Format for programs, instead of a table
    #[arg(long, short, value_name = "FORMAT", value_enum)]
    output: Option<Format>,
}

pub(crate) async fn run(args: &OrphansArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    let cluster = global.connect().await?;
    let output = global.output();
    let namespace = (!args.all.all_namespaces).then_some(cluster.namespace.as_str());
    let found = find::find(&cluster, namespace).await?;
    for warning in &found.warnings {
        report(&format!("warning: {warning}"));
    }
    let text = match args.output {
        Some(format) => {
            let found: Vec<Value> = found.orphans.into_iter().map(|o| o.object).collect();
            objects(format, &found, false)
        }
        None if found.orphans.is_empty() => {
            objects_none_found(namespace);
            String::new()
        }
        None => render::table(&found.orphans, namespace.is_none(), Timestamp::now()).render(output),
    };
    output.print(&text)?;
    Ok(Exit::Fine)
}
