//! `rollback` of an Application: the environment of an older Release becomes its template, in all
//! clusters.

use baton_apis::kinds;
use baton_kubernetes::wire::MediaType;
use baton_terminal::time::duration;
use baton_view::{
    applications::{
        history::current,
        observed::Observed,
        state::judge,
        steer::{Rollback, rollback, step_outcome},
        target::AppTarget,
    },
    rollout::Outcome,
};

use super::RollbackArgs;
use crate::{
    args::GlobalArgs,
    commands::{Exit, pause::note},
    connect::{Cluster, Write},
    error::Error,
    output::report,
    text::application::{refusal::refused, verdict::message},
    wait::application::{read, watch_until},
};

pub(crate) async fn run(
    target: &AppTarget,
    args: &RollbackArgs,
    global: &GlobalArgs,
) -> Result<Exit, Error> {
    if let Some(name) = &args.name {
        return Err(Error::Usage(format!(
            "--name {name}: releases are named after their application"
        )));
    }
    if args.to_revision.is_some() && target.is_release() {
        let text = format!("{target} and --to-revision both choose a release; give one of the two");
        return Err(Error::Usage(text));
    }
    let cluster = global.connect().await?;
    let output = global.output();
    let (application, found) = write_template(&cluster, target, args).await?;
    let name = format!("application.shipper.booking.com/{}", application.name);
    if found.patch.is_none() {
        output.print(&format!(
            "{name} not rolled back: it has the environment of release {} already",
            found.release
        ))?;
        return Ok(Exit::Fine);
    }
    output.print(&format!(
        "{name} rolled back to generation {} ({}){}",
        found.generation,
        found.release,
        note(args.dry_run)
    ))?;
    if args.dry_run || args.no_wait {
        return Ok(Exit::Fine);
    }
    // The Release may not exist yet: `current` returns `None` until it is made.
    let (observed, arrived) = watch_until(&cluster, &application, args.timeout, |observed| {
        current(observed).and_then(|_| step_outcome(observed))
    })
    .await?;
    report_end(&observed, arrived, args.timeout, global)
}

/// Reports the end of a wait.
pub(crate) fn report_end(
    observed: &Observed,
    arrived: Option<Outcome>,
    timeout: std::time::Duration,
    global: &GlobalArgs,
) -> Result<Exit, Error> {
    let message = message(&judge(observed));
    match arrived {
        Some(Outcome::Done) => global.output().print(&message)?,
        Some(_) => report(&format!("error: {message}")),
        None => {
            let waited = duration(timeout);
            report(&format!(
                "error: the step is not achieved after {waited}: {message}"
            ));
        }
    }
    Ok(Exit::of(arrived == Some(Outcome::Done)))
}

/// Writes the environment. Tries again if only the status has changed since it was read.
async fn write_template(
    cluster: &Cluster,
    target: &AppTarget,
    args: &RollbackArgs,
) -> Result<(AppTarget, Rollback), Error> {
    let mut first: Option<Observed> = None;
    for round in 1.. {
        let observed = read(cluster, target).await?;
        if let Some(first) = &first
            && first.template() != observed.template()
        {
            return Err(Error::Impossible(format!(
                "{} has changed since it was read; nothing was rolled back",
                observed.target()
            )));
        }
        let found = rollback(&observed, args.to_revision, args.force)
            .map_err(|refusal| refused(&observed, &refusal))?;
        let Some(patch) = &found.patch else {
            return Ok((observed.target(), found));
        };
        let url = kinds::APPLICATION.path_of(Some(&cluster.namespace), &observed.name);
        let write = Write::new(MediaType::JsonPatch, args.dry_run);
        match cluster.write(&url, write, patch).await {
            Ok(_) => return Ok((observed.target(), found)),
            Err(error) if error.is_code(409) && round < super::ROUNDS => first = Some(observed),
            Err(error) => return Err(error),
        }
    }
    Err(Error::Impossible(format!(
        "{target} has changed during each attempt; nothing was rolled back"
    )))
}
