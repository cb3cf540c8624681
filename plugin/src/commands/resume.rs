//! `resume`: the end of a pause.

use clap::Args;

use super::{
    Exit,
    pause::{TargetsArg, switch},
};
use baton_steering::pausing::Action;

use crate::{args::GlobalArgs, error::Error};

/// Resume deployments, revisions, deployments to sites or Applications that are paused
#[derive(Clone, Debug, Args)]
pub(crate) struct ResumeArgs {
    /// Deployments or revisions to resume
    #[command(flatten)]
    pub(crate) targets: TargetsArg,
}

pub(crate) async fn run(args: &ResumeArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    switch(&args.targets, global, Action::Resume).await
}
