//! `doctor`: checks the installation of Baton.

use baton_terminal::output::Print as _;
use baton_text::output::{
    Output, Paint,
    format::{DocumentFormat, document},
    table::{Cell, Table},
};
use clap::Args;
use serde_json::json;

use super::Exit;
use crate::{
    args::GlobalArgs,
    error::Error,
    installation::{
        doctor::examine,
        finding::{Finding, State},
    },
};

/// Check the installation of Baton, and show the way out of each fault
///
/// It checks the API server, the definitions, the admission policies, the leader with its version,
/// clock and helm, the rights of the manager, the clusters and their agents. It only reads. A check
/// that needs a right that you do not have is shown as Unknown. The exit code is 1 if something is
/// faulty.
#[derive(Clone, Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Service account of the manager
    #[arg(long, value_name = "NAME", default_value = "baton")]
    service_account: String,

    /// Format for programs, instead of a table
    #[arg(long, short, value_name = "FORMAT")]
    output: Option<DocumentFormat>,
}

pub(crate) async fn run(args: &DoctorArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    let cluster = global.connect().await?;
    let output = global.output();
    let findings = examine(&cluster, &args.service_account).await;
    let text = match args.output {
        Some(form) => document(form, &json!({ "findings": findings })),
        None => render(&findings, output),
    };
    output.print(&text)?;
    let is_fine = findings
        .iter()
        .all(|finding| finding.state != State::Faulty);
    Ok(Exit::of(is_fine))
}

fn render(findings: &[Finding], output: Output) -> String {
    let mut table = Table::new(&["STATE", "SUBJECT", "MESSAGE"]);
    for finding in findings {
        let state = match finding.state {
            State::Fine => Cell::painted(Paint::Good, "Fine"),
            State::Unknown => Cell::from("Unknown"),
            State::Doubtful => Cell::painted(Paint::Warn, "Doubtful"),
            State::Faulty => Cell::painted(Paint::Bad, "Faulty"),
        };
        let text = match &finding.way_out {
            Some(way_out) => format!("{}. {way_out}", finding.text.trim_end_matches('.')),
            None => finding.text.clone(),
        };
        table.row([state, Cell::from(&*finding.subject), Cell::from(text)]);
    }
    table.render(output)
}
