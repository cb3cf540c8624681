//! `status` of a deployment to sites, or of an application for sites.

use baton_cluster::Cluster;
use baton_terminal::output::Print as _;
use baton_text::{
    fleet::{
        application,
        status::{text, value},
    },
    output::format::document,
    status::{condition_table, special},
};
use baton_view::{
    rollout::Outcome,
    sites::{
        fleet::Fleet, observed::Observed, overview::Overview, target::SiteTarget, verdict::judge,
    },
};
use k8s_openapi::jiff::Timestamp;

use super::{StatusArgs, report_timeout};
use crate::{
    args::GlobalArgs,
    commands::Exit,
    error::Error,
    sites::read::{read, watch},
};

/// Prints the state; with `--watch`, the one at the end of the wait.
pub(crate) async fn run(
    target: &SiteTarget,
    args: &StatusArgs,
    global: &GlobalArgs,
) -> Result<Exit, Error> {
    let cluster = global.connect().await?;
    if target.is_application() {
        return of_application(&cluster, target, args, global).await;
    }
    let output = global.output();
    let observed: Observed = if args.watch {
        watch(&cluster, target, args.timeout).await?
    } else {
        read(&cluster, target).await?
    };
    let (verdict, now) = (judge(&observed.deployment), Timestamp::now());
    if args.watch && verdict.outcome == Outcome::Underway {
        report_timeout(args.timeout);
    }
    let fleet = Fleet::of(&observed, now);
    let text = match args.output {
        Some(form) => document(form, &value(&observed, &fleet, &verdict)),
        None => text(&observed, &fleet, &verdict, now, output),
    };
    output.print(&text)?;
    Ok(Exit::of(verdict.outcome == Outcome::Done))
}

/// The state of an application: if its version is kept, and the progress of its deployments.
async fn of_application(
    cluster: &Cluster,
    target: &SiteTarget,
    args: &StatusArgs,
    global: &GlobalArgs,
) -> Result<Exit, Error> {
    if args.watch {
        let text = "--watch follows a rollout; name a deployment to sites as sitedeploy/NAME";
        return Err(Error::Usage(text.to_owned()));
    }
    let (overview, now) = (read::<Overview>(cluster, target).await?, Timestamp::now());
    let output = global.output();
    let text = if let Some(form) = args.output {
        document(form, &application::value(&overview))
    } else {
        application::render(&overview, now, output)
            + &condition_table(&special(target, overview.conditions()), now, output)
    };
    output.print(&text)?;
    let mut verdicts = overview.deployments.iter().map(judge);
    let are_done = verdicts.all(|verdict| verdict.outcome == Outcome::Done);
    Ok(Exit::of(overview.is_kept() && are_done))
}
