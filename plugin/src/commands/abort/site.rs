//! `abort` of a deployment to sites: no further site gets its version.

use baton_steering::{note, sites};
use baton_terminal::output::Print as _;
use baton_view::sites::target::SiteTarget;

use super::AbortArgs;
use crate::{args::GlobalArgs, commands::Exit, error::Error};

pub(crate) async fn run(
    target: &SiteTarget,
    args: &AbortArgs,
    global: &GlobalArgs,
) -> Result<Exit, Error> {
    if args.force {
        let text = "--force is for Releases; for a deployment to sites, no revision that has begun is deleted";
        return Err(Error::Usage(text.to_owned()));
    }
    let cluster = global.connect().await?;
    let abort = sites::abort(&cluster, target, None, args.dry_run).await?;
    let what = format!("rollout {} of version {}", abort.rollout, abort.version);
    let name = target.full();
    if abort.patch.is_none() {
        global
            .output()
            .print(&format!("{name}: {what} is aborted already"))?;
        return Ok(Exit::Fine);
    }
    global.output().print(&format!(
        "{name}: {what} aborted; sites that have it keep it, `kubectl baton rollback {target}` goes back{}",
        note(args.dry_run)
    ))?;
    Ok(Exit::Fine)
}
