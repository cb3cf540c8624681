//! `abort`: deletes the newest Release of an Application, so that the one before it comes back; or
//! stops the rollout of a deployment to sites.

mod site;

use baton_apis::kinds;
use baton_kubernetes::wire::MediaType;
use baton_text::{application::refusal::refused, output::report};
use baton_view::applications::{
    clusters::clusters,
    observed::Observed,
    steer::{self, Abort},
};
use clap::Args;
use http::Method;

use super::{Exit, pause::note};
use crate::{
    args::GlobalArgs,
    confirm,
    error::Error,
    subject::{Subject, SubjectKind},
    wait::application::read,
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
    let observed = read(&cluster, &target).await?;
    let application = observed.target();
    let abort = steer::abort(&observed, args.force)
        .map_err(|refusal| Error::Impossible(refused(&observed, &refusal)))?;
    if !args.yes && !args.dry_run && !confirmed(&observed, &abort).await? {
        report("nothing was deleted");
        return Ok(Exit::Negative);
    }
    let (release, mut options) = (&abort.release, abort.options.clone());
    if args.dry_run {
        options["dryRun"] = serde_json::json!(["All"]);
    }
    let path = kinds::RELEASE.path_of(Some(&cluster.namespace), release);
    let body = Some((MediaType::Json, &options));
    match cluster.send(Method::DELETE, &path, body).await {
        // The Release has changed since it was read.
        Err(error) if error.is_code(409) => Err(Error::Impossible(format!(
            "release {release} has changed since it was read; nothing was deleted"
        ))),
        answer => Ok(answer?),
    }?;
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
    let release = observed.release(&abort.release);
    let clusters = release.map_or_else(Vec::new, |release| clusters(observed, release));
    report(&format!(
        "Release {} is deleted, and {} comes back.",
        abort.release, abort.back_to
    ));
    for cluster in clusters {
        let pods = cluster
            .capacity
            .and_then(|capacity| capacity.available_pods);
        let percent = cluster.traffic.and_then(|traffic| traffic.service_percent);
        let percent = percent.map(|percent| format!(", which get {percent}% of the traffic"));
        if let Some(pods) = pods.filter(|pods| *pods > 0) {
            let percent = percent.unwrap_or_default();
            report(&format!("In {} it has {pods} pods{percent}.", cluster.name));
        }
    }
    confirm::confirmed("deletes the release").await
}
