//! `rollback` of an Application: the environment of an older Release becomes its template, in all
//! clusters.

use baton_steering::{note, releases};
use baton_terminal::output::Print as _;
use baton_view::applications::target::AppTarget;

use super::RollbackArgs;
use crate::{args::GlobalArgs, commands::Exit, error::Error, wait::release::ReleaseWait};

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
    let (to, dry_run) = (args.to_revision, args.dry_run);
    let rolled = releases::roll_back(&cluster, target, to, args.force, None, dry_run).await?;
    let (application, found) = rolled;
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
