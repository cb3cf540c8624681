//! `give-back`: an Application goes back to Shipper.

use std::time::Duration;

use baton_terminal::output::{Print as _, report};
use clap::Args;

use super::Exit;
use crate::{
    adopt::shipper::InstalledApplication,
    args::{GlobalArgs, timeout},
    diff::phase_clusters::{self, ClusterContext},
    error::Error,
    subject::{Subject, SubjectKind},
};

/// Give an Application back to Shipper, with all of its objects
///
/// Shows the objects of the Application and their new owners; --apply gives them back. The manager
/// stops to write for the Application, the objects get the owners and marks of Shipper, and the
/// revisions are deleted without the objects. No object is deleted and no pod is restarted. Baton has
/// to run until the command ends. Start Shipper after it.
///
/// To let Baton run the Application again, stop Shipper and remove the annotation
/// baton.run/given-back.
#[derive(Clone, Debug, Args)]
pub(crate) struct GiveBackArgs {
    /// Application: app/NAME or NAME
    #[arg(value_name = "APPLICATION", required = true, num_args = 1..=2)]
    words: Vec<String>,

    /// Context of the kubeconfig for the Cluster NAME; for each cluster of the Application except the
    /// one with the Application
    #[arg(long, value_name = "NAME=CONTEXT")]
    cluster_context: Vec<ClusterContext>,

    /// Give the objects back, instead of showing them
    #[arg(long)]
    apply: bool,

    /// Longest time to wait for the manager at each step, such as 90s or 1h30m; 0 for no limit
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = timeout, requires = "apply")]
    timeout: Duration,
}

pub(crate) async fn run(args: &GiveBackArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    let target = Subject::parse(&args.words, &[SubjectKind::Application])?.application()?;
    if target.is_release() {
        let text = format!("{target}: only a whole Application can be given back");
        return Err(Error::Usage(text));
    }
    let places = phase_clusters::connect(global, &args.cluster_context).await?;
    let output = global.output();
    let installed = InstalledApplication::read(&places, &target).await?;
    if args.apply {
        let print = |line: &str| Ok(output.print(line)?);
        installed.give_back(args.timeout, print).await?;
        output.print(&format!("{target} is given back; start Shipper now"))?;
        return Ok(Exit::Fine);
    }
    for line in installed.preview().await? {
        output.print(&line)?;
    }
    report("nothing was changed; --apply gives the objects to Shipper");
    Ok(Exit::Fine)
}
