//! `abort` of a deployment to sites: no further site gets its version.

use baton_apis::SiteDeployment;
use baton_cluster::Write;
use baton_kubernetes::wire::MediaType;
use baton_text::fleet::steer::refused;
use baton_view::sites::{steer, target::SiteTarget};

use super::AbortArgs;
use crate::{
    args::GlobalArgs,
    commands::{Exit, pause::note},
    error::Error,
    sites::read::read,
};

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
    let deployment: SiteDeployment = read(&cluster, target).await?;
    let abort = steer::abort(&deployment)
        .map_err(|refusal| Error::Impossible(refused(target, &refusal)))?;
    let what = format!("rollout {} of version {}", abort.rollout, abort.version);
    let name = target.full();
    let Some(patch) = &abort.patch else {
        global
            .output()
            .print(&format!("{name}: {what} is aborted already"))?;
        return Ok(Exit::Fine);
    };
    let write = Write::new(MediaType::JsonPatch, args.dry_run);
    let url = target.path(&cluster.namespace);
    let written = cluster.write(&url, write, patch).await;
    let overtaken = || format!("{target} has changed since it was read; nothing was aborted");
    written.map_err(|error| error.of_write(overtaken))?;
    global.output().print(&format!(
        "{name}: {what} aborted; sites that have it keep it, `kubectl baton rollback {target}` goes back{}",
        note(args.dry_run)
    ))?;
    Ok(Exit::Fine)
}
