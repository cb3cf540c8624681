//! `abort`: deletes the newest Release of an Application, so that the one before it comes back; or
//! stops the rollout of a deployment to sites.

mod site;

use baton_steering::{note, releases};
use baton_terminal::output::{Print as _, report};
use baton_view::applications::{observed::Observed, steer::Abort};
use clap::Args;

use super::Exit;
use crate::{
    args::GlobalArgs,
    confirm,
    error::Error,
    subject::{Subject, SubjectKind},
};

/// Abort the rollout of an Application, or of a deployment to sites
///
/// The newest Release of an Application is deleted, and the Application gets the environment of the
/// Release before it, which must have completed. Objects that only the deleted Release has are
/// deleted at once, and objects that both have are handed back. A Release that is complete is
/// deleted only with --force, because the one before it has no pods any more; use `kubectl baton
/// rollback` to go back without an interruption.
///
/// For a deployment to sites (sitedeploy/NAME), no further site gets the version, and queued
/// revisions of it are removed. Sites that have the version keep it, so the command asks no
/// question; use `kubectl baton rollback` to go back there.
#[derive(Clone, Debug, Args)]
pub(crate) struct AbortArgs {
    /// Application: app/NAME or NAME; or its newest Release: rel/NAME; or deployment to sites:
    /// sitedeploy/NAME
    #[arg(value_name = "APPLICATION", required = true, num_args = 1..=2)]
    words: Vec<String>,

    /// Do not ask for a confirmation
    #[arg(long, short)]
    yes: bool,

    /// Delete a Release even if it is complete
    #[arg(long)]
    force: bool,

    /// Check the change on the server, and store nothing
    #[arg(long)]
    dry_run: bool,
}

pub(crate) async fn run(args: &AbortArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    let allowed = [SubjectKind::Application, SubjectKind::SiteDeployment];
    let target = match Subject::parse(&args.words, &allowed)? {
        Subject::SiteDeployment(target) => return site::run(&target, args, global).await,
        subject => subject.application()?,
    };
    let cluster = global.connect().await?;
    let observed = releases::read(&cluster, &target).await?;
    let application = observed.target();
    let abort = releases::plan_abort(&observed, args.force)?;
    if !args.yes && !args.dry_run && !confirmed(&observed, &abort).await? {
        report("nothing was deleted");
        return Ok(Exit::Negative);
    }
    releases::abort(&cluster, &abort, args.dry_run).await?;
    global.output().print(&format!(
        "release.shipper.booking.com/{} deleted, {application} goes back to {}{}",
        abort.release,
        abort.back_to,
        note(args.dry_run)
    ))?;
    Ok(Exit::Fine)
}

/// Shows what the deletion of a Release takes away, and asks the user for a confirmation.
async fn confirmed(observed: &Observed, abort: &Abort) -> Result<bool, Error> {
    for line in releases::effects(observed, abort) {
        report(&line);
    }
    confirm::confirmed("deletes the release").await
}
