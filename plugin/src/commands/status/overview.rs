//! `status` of several deployments: a line for each, with the problems of those that are not rolled
//! out.

use baton_cluster::lists::{found, once};
use baton_terminal::output::{Print as _, objects_none_found, report};
use baton_text::{
    output::format::document,
    overview::{lines, table, value},
};
use baton_view::overview::OverviewOf;

use super::StatusArgs;
use crate::{args::GlobalArgs, commands::Exit, error::Error};

/// Prints a line for each chain, Application and deployment to sites. The exit code is 0 if all are
/// rolled out or archived.
pub(super) async fn run(args: &StatusArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    let (cluster, selection) = args.selection.connect(global).await?;
    let output = global.output();
    let mut overview = once(&cluster, &OverviewOf(selection.clone())).await?;
    found(overview.missing.take())?;
    let mut lines = lines(&overview);
    let count = lines.len();
    let is_fine = lines.iter().all(|line| line.is_fine);
    let shown = |is_fine: bool| !args.unhealthy || !is_fine;
    lines.retain(|line| shown(line.is_fine));
    let text = match args.output {
        Some(form) => document(form, &value(&overview, shown)),
        None if count == 0 => {
            objects_none_found(selection.one_namespace());
            String::new()
        }
        None if lines.is_empty() => {
            report(&format!("All {count} are rolled out."));
            String::new()
        }
        None => table(lines, selection.all_namespaces).render(output),
    };
    output.print(&text)?;
    Ok(Exit::of(is_fine))
}
