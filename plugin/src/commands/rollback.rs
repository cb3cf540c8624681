//! `rollback`: the content of an earlier revision becomes the next revision.

pub(crate) mod application;
mod site;

use baton_terminal::output::Print as _;
use std::time::Duration;

use baton_cluster::Cluster;
use baton_steering::rollback::apply::{RollbackOptions, RollbackResult, roll_back};
use baton_view::{chain::target::Target, rollout::Rollout};
use clap::Args;

use super::Exit;
use crate::{
    args::{GlobalArgs, timeout},
    error::Error,
    subject::{Subject, SubjectKind, TargetArg, object_name},
    wait::{applied::AppliedWait, chain::follow_unless_refused},
};

/// Roll back: make the content of an earlier revision the next revision
///
/// The default is the newest revision before the current one that has succeeded and has another
/// content. Waits until the new revision is rolled out, with the exit codes of `pack --apply --wait`: 1
/// if it is not rolled out, and 4 if another template was applied meanwhile. Warns first about
/// everything that is deleted along with objects that the new revision will delete; --dry-run only
/// shows that. If the server or the manager would refuse an object, nothing is written, and the exit
/// code is 3, unless --force is given.
///
/// For an Application of Shipper (app/NAME), the environment of an earlier Release becomes the
/// template, with chart and values, in all clusters; rel/NAME names the Release. Waits for the
/// first step of the new Release, or with --full for the last one.
///
/// For a deployment to sites (sitedeploy/NAME), an older version goes to the sites in waves, as any
/// other. The default is the version that was rolled out before. Waits until all sites that can be
/// reached have it.
#[derive(Clone, Debug, Args)]
pub(crate) struct RollbackArgs {
    /// Deployment or revision to roll back
    #[command(flatten)]
    target: TargetArg,

    /// Revision to go back to; for an Application, the generation of the Release
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i64).range(0..))]
    to_revision: Option<i64>,

    /// For a deployment to sites: version to go back to, which has to be kept
    #[arg(long, value_name = "VERSION", conflicts_with = "to_revision")]
    to_version: Option<String>,

    /// Allow a revision that has never succeeded, or of which an object would be refused, and change
    /// a paused deployment
    #[arg(long)]
    force: bool,

    /// Name of the new revision, for a chain without a deployment. Default: web-v3 is followed by
    /// web-v4
    #[arg(long, value_name = "NAME", value_parser = object_name)]
    name: Option<String>,

    /// Check the change on the server, and store nothing
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    waiting: WaitingArgs,
}

/// The end that the command waits for.
#[derive(Clone, Debug, Args)]
struct WaitingArgs {
    /// For an Application: go to the last step of the new Release at once, and wait for it
    #[arg(long, conflicts_with_all = ["no_wait", "to_version"])]
    full: bool,

    /// Wait until the new revision is rolled out, which is the default
    #[arg(long, conflicts_with = "dry_run")]
    wait: bool,

    /// Do not wait until the new revision is rolled out
    #[arg(long, conflicts_with_all = ["timeout", "wait"])]
    no_wait: bool,

    /// Longest time to wait, such as 90s or 1h30m; 0 for no limit
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = timeout)]
    timeout: Duration,
}

pub(crate) async fn run(args: &RollbackArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    let allowed = [
        SubjectKind::Chain,
        SubjectKind::Application,
        SubjectKind::SiteDeployment,
    ];
    let subject = Subject::parse(&args.target.words, &allowed)?;
    if args.waiting.full && subject.kind() != SubjectKind::Application {
        let text = "--full is for Applications, whose Releases have steps";
        return Err(Error::Usage(text.to_owned()));
    }
    if let Subject::SiteDeployment(target) = &subject {
        return site::run(target, args, global).await;
    }
    refuse_version(args)?;
    let target = match subject {
        Subject::Application(target) => return application::run(&target, args, global).await,
        subject => subject.chain()?,
    };
    let cluster = global.connect().await?;
    let output = global.output();
    let done = roll_back(&cluster, &target, &args.wanted()).await?;
    output.print(&done.line)?;
    let Some(follow) = done
        .follow
        .as_ref()
        .filter(|_| !args.waiting.no_wait && !args.dry_run)
    else {
        return Ok(Exit::Fine);
    };
    let wait = AppliedWait {
        target: follow,
        applied: &done.applied,
        timeout: args.waiting.timeout,
    };
    let (end, chain, _) = wait.end(&cluster, output).await?;
    done.settle(&cluster, &chain).await?;
    Ok(end.into())
}

/// Refuses a version for an object that has none.
fn refuse_version(args: &RollbackArgs) -> Result<(), Error> {
    match &args.to_version {
        Some(version) => Err(Error::Usage(format!(
            "--to-version {version} is for deployments to sites; use --to-revision"
        ))),
        None => Ok(()),
    }
}

impl RollbackArgs {
    fn wanted(&self) -> RollbackOptions {
        RollbackOptions {
            to_revision: self.to_revision,
            force: self.force,
            name: self.name.clone(),
            dry_run: self.dry_run,
            only: None,
        }
    }
}

/// Waits until the rollback is rolled out.
pub(crate) async fn arrive(
    cluster: &Cluster,
    done: &RollbackResult,
    follow: &Target,
    timeout: Duration,
) -> Result<Rollout, Error> {
    let (chain, rollout) = follow_unless_refused(cluster, follow, timeout).await?;
    done.settle(cluster, &chain).await?;
    Ok(rollout)
}
