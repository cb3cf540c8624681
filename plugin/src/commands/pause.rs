//! `pause`: nothing is written or deleted until `resume`.

use std::ops::AsyncFn;

use baton_cluster::Cluster;
use baton_steering::{
    note,
    pausing::{Action, switched},
};
use baton_terminal::output::{Print as _, report};
use baton_text::output::format::name;
use baton_view::{
    applications::target::AppTarget, chain::target::Target, sites::target::SiteTarget,
};
use clap::Args;

use super::Exit;
use crate::{
    args::GlobalArgs,
    error::Error,
    subject::{Subject, SubjectKind},
};

/// Pause deployments or revisions: nothing is written or deleted until they are resumed
///
/// A paused deployment makes no revision and pauses those that it has; its template at that time is
/// rolled out when it is resumed. While a deployment to sites (sitedeploy/NAME) is paused, no
/// further site gets a version; sites that have a revision continue with it. While an Application
/// (app/NAME) is paused, it makes no Release, and its Releases keep their pods and their traffic.
#[derive(Clone, Debug, Args)]
pub(crate) struct PauseArgs {
    /// Deployments or revisions to pause
    #[command(flatten)]
    pub(crate) targets: TargetsArg,
}

/// The arguments of commands that pause or resume.
#[derive(Clone, Debug, Args)]
pub(crate) struct TargetsArg {
    /// Deployments or revisions: od/NAME, cod/NAME, os/NAME, cos/NAME, or NAME; or sitedeploy/NAME or
    /// app/NAME
    #[arg(value_name = "TARGET", required = true)]
    words: Vec<String>,

    /// Check the change on the server, and store nothing
    #[arg(long)]
    dry_run: bool,
}

pub(crate) async fn run(args: &PauseArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    switch(&args.targets, global, Action::Pause).await
}

pub(crate) async fn switch(
    args: &TargetsArg,
    global: &GlobalArgs,
    action: Action,
) -> Result<Exit, Error> {
    let allowed = [
        SubjectKind::Chain,
        SubjectKind::SiteDeployment,
        SubjectKind::Application,
    ];
    let subjects = Subject::parse_all(&args.words, &allowed)?;
    for_each_target(&subjects, global, async |cluster, subject| match subject {
        Subject::SiteDeployment(target) => {
            switch_sites(cluster, target, action, args.dry_run).await
        }
        Subject::Application(target) => {
            switch_application(cluster, target, action, args.dry_run).await
        }
        subject => {
            let target = subject.clone().chain()?;
            switch_one(cluster, &target, action, args.dry_run).await
        }
    })
    .await
}

/// Pauses or resumes one target, and reports that.
async fn switch_one(
    cluster: &Cluster,
    target: &Target,
    action: Action,
    dry_run: bool,
) -> Result<String, Error> {
    let (subject, is_changed) = switched(cluster, target, action, dry_run).await?;
    let name = name(subject.object());
    Ok(line(&name, action, is_changed, dry_run))
}

/// Pauses or resumes a deployment to sites.
async fn switch_sites(
    cluster: &Cluster,
    target: &SiteTarget,
    action: Action,
    dry_run: bool,
) -> Result<String, Error> {
    let is_changed =
        baton_steering::sites::pause(cluster, target, action == Action::Pause, dry_run).await?;
    Ok(line(&target.full(), action, is_changed, dry_run))
}

/// Pauses or resumes the rollout of an Application.
async fn switch_application(
    cluster: &Cluster,
    target: &AppTarget,
    action: Action,
    dry_run: bool,
) -> Result<String, Error> {
    if target.is_release() {
        let text = format!("{target}: only a whole Application can be paused or resumed");
        return Err(Error::Usage(text));
    }
    let is_changed =
        baton_steering::releases::pause(cluster, target, action == Action::Pause, dry_run).await?;
    let name = format!("application.shipper.booking.com/{}", target.name);
    Ok(line(&name, action, is_changed, dry_run))
}

/// The line about a target.
fn line(name: &str, action: Action, is_changed: bool, dry_run: bool) -> String {
    let (done, already) = action.words();
    if is_changed {
        format!("{name} {done}{}", note(dry_run))
    } else {
        format!("{name} {already}")
    }
}

/// Calls a function for each target, and prints the line that it returns. An error of one target
/// does not stop the others.
pub(crate) async fn for_each_target<T>(
    targets: &[T],
    global: &GlobalArgs,
    act: impl AsyncFn(&Cluster, &T) -> Result<String, Error>,
) -> Result<Exit, Error> {
    let cluster = global.connect().await?;
    let mut failure: Option<Error> = None;
    for target in targets {
        match act(&cluster, target).await {
            Ok(line) => global.output().print(&line)?,
            Err(error) => {
                if let Some(earlier) = failure.replace(error) {
                    report(&format!("error: {earlier}"));
                }
            }
        }
    }
    failure.map_or(Ok(Exit::Fine), Err)
}
