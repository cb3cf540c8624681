//! `drift`: what was repaired, and what is otherwise in the cluster than its revision wants and not repaired.

mod render;
mod repaired;
mod standing;

use baton_engine::diff::drift::Drift;
use clap::Args;
use k8s_openapi::jiff::Timestamp;

use super::Exit;
use crate::{
    args::GlobalArgs,
    cluster::lists,
    error::Error,
    output::{
        format::{DocumentFormat, document},
        objects_none_found, report,
    },
    selection::SelectionArgs,
};

/// Show what others have changed of the objects of revisions, and who
///
/// Of objects that were repaired: when, how often, which fields, and the managers that had changed them, as far as the
/// API server still has the events, which it usually keeps for an hour. Of objects that are otherwise now, because
/// their revision is paused or refused or the manager does not run: the same, found by a comparison with the cluster.
/// Values are never shown. Objects in other clusters are known by their events only.
///
/// Without TARGET, everything in the namespace. Needs a list of events, and of each kind in use; what may not be
/// listed is told as a warning.
///
/// Exit code 0: no drift in what could be compared. 1: there is some, or was. 2: an error.
#[derive(Clone, Debug, Args)]
pub(crate) struct DriftArgs {
    #[command(flatten)]
    selection: SelectionArgs,

    /// Print for programs
    #[arg(long, short, value_name = "FORMAT")]
    output: Option<DocumentFormat>,
}

/// An object that others have changed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    /// Namespace of the object, or of the event where no object is known; empty outside of namespaces.
    namespace: String,
    /// The object as `Kind.group/name`.
    object: String,
    /// Whose it is, as `Kind/name`.
    owner: String,
    /// What was changed.
    drift: Drift,
    /// What became of it.
    state: State,
}

#[derive(Clone, Debug, PartialEq)]
enum State {
    /// It was put right, so many times, and last at this time.
    Repaired { last: Option<Timestamp>, times: i64 },
    /// It was put right, as the text of an event says that tells no more.
    Told {
        last: Option<Timestamp>,
        times: i64,
        text: String,
    },
    /// It is so now, for this reason.
    Standing(String),
}

pub(crate) async fn run(args: &DriftArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    let (cluster, selection) = args.selection.connect(global).await?;
    let output = global.output();
    let chains = lists::selected(&cluster, &selection).await?;
    let (repaired, standing) = futures::join!(
        repaired::find(&cluster, &chains),
        standing::find(&cluster, &chains)
    );
    let mut standing = standing?;
    let mut warnings = standing.warnings;
    let mut rows = match repaired {
        Err(error @ Error::Refused(_)) => {
            warnings.push(format!("what was repaired is not known: {error}"));
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

/// What is said where no drift was found: it may be where nobody could look.
fn none_found(warnings: &[String]) -> &'static str {
    if warnings.is_empty() {
        "No drift found."
    } else {
        "No drift found in what could be compared."
    }
}

/// Whether the rows are of more than one namespace.
fn is_wide(rows: &[Row]) -> bool {
    let mut namespaces = rows.iter().map(|row| row.namespace.as_str());
    let first = namespaces.next();
    namespaces.any(|other| Some(other) != first)
}
