//! `rollback` of an Application: the environment of an older Release becomes its template, in all
//! clusters.

use baton_apis::kinds;
use baton_cluster::{Cluster, Write};
use baton_kubernetes::wire::MediaType;
use baton_text::application::refusal::refused;
use baton_view::applications::{
    observed::Observed,
    steer::{Rollback, rollback},
    target::AppTarget,
};

use super::RollbackArgs;
use crate::{
    args::GlobalArgs,
    commands::{Exit, pause::note},
    error::Error,
    wait::{application::read, release::ReleaseWait},
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
    let (release, generation) = (&found.release, found.generation);
    output.print(&match &found.patch {
        Some(_) => {
            let note = note(args.dry_run);
            format!("{name} rolled back to generation {generation} ({release}){note}")
        }
        None => {
            format!("{name} not rolled back: it has the environment of release {release} already")
        }
    })?;
    if args.dry_run || args.waiting.no_wait || found.patch.is_none() && !args.waiting.full {
        return Ok(Exit::Fine);
    }
    let wait = ReleaseWait {
        application,
        wanted: found.environment,
        timeout: args.waiting.timeout,
        full: args.waiting.full,
    };
    Ok(wait.end(&cluster, output).await?.into())
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
            .map_err(|refusal| Error::Impossible(refused(&observed, &refusal)))?;
        let Some(patch) = &found.patch else {
            return Ok((observed.target(), found));
        };
        let url = kinds::APPLICATION.path_of(Some(&cluster.namespace), &observed.name);
        let write = Write::new(MediaType::JsonPatch, args.dry_run);
        match cluster.write(&url, write, patch).await {
            Ok(_) => return Ok((observed.target(), found)),
            Err(error) if error.is_code(409) && round < super::ROUNDS => first = Some(observed),
            Err(error) => return Err(error.into()),
        }
    }
    Err(Error::Impossible(format!(
        "{target} has changed during each attempt; nothing was rolled back"
    )))
}
