//! `status`: the progress of a rollout, and the reason if it is not done.

mod application;
mod logs;
mod overview;
pub(crate) mod site;

use std::time::Duration;

use baton_terminal::output::{Print as _, report};
use baton_text as text;
use baton_text::{
    output::format::{DocumentFormat, document},
    time::duration,
};
use baton_view::{chain::target::Target, rollout::Outcome};
use clap::Args;
use k8s_openapi::jiff::Timestamp;

use super::Exit;
use crate::{
    args::{GlobalArgs, timeout},
    error::Error,
    selection::SelectionArgs,
    subject::{self, Subject},
    wait::chain::{follow, read},
};

/// Show if a deployment or a revision is rolled out, and if not, why
///
/// Without TARGET, or with several, prints a line for each: for all deployments, Applications and
/// deployments to sites in the namespace, or in all namespaces with -A; -l selects by labels.
///
/// For an Application of Shipper (app/NAME) or one of its Releases (rel/NAME): if it is complete,
/// and its state in each cluster. An Application that waits for a promotion is not complete.
///
/// For a deployment to sites (sitedeploy/NAME): the number of sites in each state, by wave, and the
/// reasons of failures. A deployment whose rollout was aborted is not rolled out. Offline sites are
/// not waited for. For an application for sites (siteapp/NAME): all deployments that deliver it to
/// sites.
///
/// Exit code 0: everything is rolled out and available. 1: something is not, or not yet. 2: an
/// error.
#[derive(Clone, Debug, Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    selection: SelectionArgs,

    /// With several, show only those that are not rolled out
    #[arg(long)]
    unhealthy: bool,

    /// Show the last line in the logs of crashed containers. Needs the right to read pods and their
    /// logs
    #[arg(long, conflicts_with = "unhealthy")]
    logs: bool,

    /// Wait until it is rolled out, its deadline has passed, or the time is up
    #[arg(long, short)]
    watch: bool,

    /// Longest time to wait, such as 90s or 1h30m; 0 for no limit
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = timeout, requires = "watch")]
    timeout: Duration,

    /// Format for programs, instead of text
    #[arg(long, short, value_name = "FORMAT")]
    output: Option<DocumentFormat>,
}

/// Prints the state; with `--watch`, the one at the end of the wait.
pub(crate) async fn run(args: &StatusArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    let refused = |text: &str| Err(Error::Usage(text.to_owned()));
    match args.selection.one(&subject::ALL)? {
        Some(Subject::Chain(target)) => of_chain(&target, args, global).await,
        Some(Subject::Application(_)) if args.logs => {
            refused("--logs is for a deployment or a revision, not for Applications")
        }
        Some(Subject::Application(target)) => application::run(&target, args, global).await,
        Some(Subject::SiteDeployment(_) | Subject::SiteApplication(_))
            if args.logs || args.unhealthy =>
        {
            refused(
                "--logs and --unhealthy are not for sites; `kubectl baton tree --site SITE` shows one",
            )
        }
        Some(Subject::SiteDeployment(target) | Subject::SiteApplication(target)) => {
            site::run(&target, args, global).await
        }
        None if args.watch => {
            refused("--watch needs exactly one TARGET; `kubectl baton tree --watch` takes several")
        }
        None if args.logs => refused("--logs needs exactly one TARGET"),
        None => overview::run(args, global).await,
    }
}

async fn of_chain(target: &Target, args: &StatusArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    let cluster = global.connect().await?;
    let output = global.output();
    let (chain, rollout) = if args.watch {
        let (chain, rollout) = follow(&cluster, target, args.timeout).await?;
        if rollout.outcome == Outcome::Underway {
            report_timeout(args.timeout);
        }
        (chain, rollout)
    } else {
        read(&cluster, target).await?
    };
    let logs = match chain.subject() {
        Some(subject) if args.logs => Some(logs::find(&cluster, subject).await),
        _ => None,
    };
    let text = if let Some(form) = args.output {
        let mut value = text::status::value(&chain, &rollout);
        if let Some(logs) = &logs {
            value["logs"] = logs::value(logs);
        }
        document(form, &value)
    } else {
        let text = text::status::text(&chain, &rollout, Timestamp::now(), output);
        text + &logs::text(logs.as_deref().unwrap_or_default(), output)
    };
    output.print(&text)?;
    Ok(Exit::of(rollout.outcome == Outcome::Done))
}

/// Reports that the time is up.
fn report_timeout(timeout: Duration) {
    report(&format!(
        "error: not rolled out after {}",
        duration(timeout)
    ));
}
