//! `resume`: the end of a pause.

use clap::Args;

use super::{
    Exit,
    pause::{TargetsArg, Wish, switch},
};
use crate::{cli::GlobalArgs, error::Error};

/// Resume deployments or revisions that are paused
#[derive(Clone, Debug, Args)]
pub struct ResumeArgs {
    /// What to resume
    #[command(flatten)]
    pub targets: TargetsArg,
}

/// Resumes.
///
/// # Errors
/// There is no such target, it cannot be resumed, or the server refuses.
pub async fn run(args: &ResumeArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    switch(&args.targets, global, Wish::Resumed).await
}
