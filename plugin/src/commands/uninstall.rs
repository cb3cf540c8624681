//! `uninstall`: removes all objects of Baton, and keeps the objects that they manage.

mod plan;
mod steps;

use std::time::Duration;

use baton_terminal::output::{Print as _, report};
use clap::Args;

use self::plan::Plan;
use super::Exit;
use crate::{
    args::{GlobalArgs, timeout},
    backup::collect,
    error::Error,
};

/// Remove all objects of Baton from the cluster, and keep the objects that they manage
///
/// Shows the objects of Baton, the objects that stay, and what is lost: the history of revisions,
/// and with it every rollback. With --apply, deployments are given back as by `adopt --undo`, other
/// revisions release their objects, and the definitions of kinds without objects are deleted. No
/// managed object is deleted and no pod is restarted. A manager has to run until the command ends.
///
/// Applications and joined clusters are not removed: the command names the commands that do it, and
/// is run again after them. The exit code is 3, and nothing is changed, if an Application or a handover
/// comes first or no manager leads, and 1 if clusters or definitions with objects are left.
#[derive(Clone, Debug, Args)]
pub(crate) struct UninstallArgs {
    /// Remove the objects, instead of showing them
    #[arg(long)]
    apply: bool,

    /// Longest time to wait for the manager at each step, such as 90s or 1h30m; 0 for no limit
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = timeout, requires = "apply")]
    timeout: Duration,
}

pub(crate) async fn run(args: &UninstallArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    if global.namespace().is_some() {
        let text = "uninstall concerns the whole cluster, and takes no --namespace";
        return Err(Error::Usage(text.to_owned()));
    }
    let cluster = global.connect().await?;
    let output = global.output();
    let plan = Plan::of(&collect::objects(&cluster).await?);
    for line in plan.lines() {
        output.print(&line)?;
    }
    if !args.apply {
        if let Some(reason) = plan.obstacle() {
            report(&format!("note: {reason}"));
        }
        report(
            "nothing was changed; --apply removes the objects of Baton, and none that they manage",
        );
        return Ok(Exit::Fine);
    }
    if let Some(reason) = plan.obstacle() {
        return Err(Error::Foreseen(format!("nothing was changed: {reason}")));
    }
    steps::carry_out(
        &plan,
        &cluster,
        args.timeout,
        |line| Ok(output.print(line)?),
    )
    .await
}
