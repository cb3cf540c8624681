//! `drift`: repaired changes, and present differences between revisions and the cluster.

mod render;
mod repaired;
mod report;

use baton_cluster::{ClusterError, lists};
use baton_engine::diff::drift::Drift;
use baton_terminal::output::{Print as _, objects_none_found, report};
use baton_text::output::format::{DocumentFormat, document};
use clap::Args;
use k8s_openapi::jiff::Timestamp;

use super::Exit;
use crate::{args::GlobalArgs, error::Error, selection::SelectionArgs};

/// Show changes that others have made to the objects of revisions, and who made them
///
/// For objects that were repaired: the time, the number of repairs, the fields, and the managers
/// that had changed them. This needs the events, which an API server usually stores for an hour.
/// For objects that differ now, because their revision is paused or refused or the manager does not
/// run: the same, found by a comparison with the cluster. Values are never shown. For objects in
/// other clusters, only events are used.
///
/// Without TARGET, shows everything in the namespace. Needs the right to list events and each kind
/// in use; warns about kinds that may not be listed.
///
/// Exit code 0: no drift among the compared objects. 1: there is or was drift. 2: an error.
#[derive(Clone, Debug, Args)]
pub(crate) struct DriftArgs {
    #[command(flatten)]
    selection: SelectionArgs,

    /// Format for programs, instead of a table
    #[arg(long, short, value_name = "FORMAT")]
    output: Option<DocumentFormat>,
}

/// An object that others have changed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    /// Namespace of the object, or of the event if the object is unknown; empty for cluster-scoped
    /// objects.
    namespace: String,
    /// The object as `Kind.group/name`.
    object: String,
    /// The controller of the object as `Kind/name`.
    owner: String,
    /// The changed fields, and their managers.
    drift: Drift,
    /// The outcome of the change.
    state: State,
}

#[derive(Clone, Debug, PartialEq)]
enum State {
    /// The object was repaired so many times, last at this time.
    Repaired { last: Option<Timestamp>, times: i64 },
    /// The object was repaired, as the text of an event without details reports.
    Reported {
        last: Option<Timestamp>,
        times: i64,
        text: String,
    },
    /// The object differs now, for this reason.
    Standing(String),
}

pub(crate) async fn run(args: &DriftArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    let (cluster, selection) = args.selection.connect(global).await?;
    let output = global.output();
    let chains = lists::selected(&cluster, &selection).await?;
    let (repaired, standing) = futures::join!(
        repaired::find(&cluster, &chains),
        report::find(&cluster, &chains)
    );
    let mut standing = standing?;
    let mut warnings = standing.warnings;
    let mut rows = match repaired {
        Err(error @ Error::Cluster(ClusterError::Refused(_))) => {
            warnings.push(format!("repairs cannot be read: {error}"));
            Vec::new()
        }
        rows => rows?,
    };
    for warning in &warnings {
        report(&format!("warning: {warning}"));
    }
    rows.append(&mut standing.rows);
    let is_wide = selection.all_namespaces || is_wide(&rows);
    let text = match args.output {
        Some(form) => document(form, &render::value(&rows, &warnings)),
        None if chains.is_empty() => {
            objects_none_found(selection.one_namespace());
            String::new()
        }
        None if rows.is_empty() => {
            report(none_found(&warnings));
            String::new()
        }
        None => render::table(&rows, is_wide, Timestamp::now()).render(output),
    };
    output.print(&text)?;
    Ok(Exit::of(rows.is_empty()))
}

/// The message if no drift was found: drift is still possible in objects that could not be read.
fn none_found(warnings: &[String]) -> &'static str {
    if warnings.is_empty() {
        "No drift found."
    } else {
        "No drift found among the compared objects."
    }
}

/// True if the rows are of several namespaces.
fn is_wide(rows: &[Row]) -> bool {
    let mut namespaces = rows.iter().map(|row| row.namespace.as_str());
    let first = namespaces.next();
    namespaces.any(|other| Some(other) != first)
}
