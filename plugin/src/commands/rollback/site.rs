//! `rollback` of a deployment to sites: all sites get an older version.

use baton_apis::SiteDeployment;
use baton_cluster::{Cluster, Write};
use baton_kubernetes::wire::MediaType;
use baton_text::{
    fleet::{
        line,
        steer::{not_kept, refused},
    },
    output::report,
};
use baton_view::sites::{
    record::Records,
    steer::{self, VersionRollback},
    target::SiteTarget,
    verdict::judge,
};

use super::RollbackArgs;
use crate::{
    args::GlobalArgs,
    commands::{Exit, conclude, pause::note},
    error::Error,
    sites::read::{read, watch},
    wait::applied::report_superseded,
};

pub(crate) async fn run(
    target: &SiteTarget,
    args: &RollbackArgs,
    global: &GlobalArgs,
) -> Result<Exit, Error> {
    if args.to_revision.is_some() {
        let text =
            "--to-revision is for the revisions of one chain; sites go back with --to-version";
        return Err(Error::Usage(text.to_owned()));
    }
    if let Some(name) = &args.name {
        return Err(Error::Usage(format!(
            "--name {name}: revisions of sites are named after their deployment"
        )));
    }
    let cluster = global.connect().await?;
    let output = global.output();
    let found = write_version(&cluster, target, args).await?;
    let (name, version) = (target.full(), &found.version);
    if found.patch.is_none() {
        output.print(&format!(
            "{name} not rolled back: its spec names version {version} already"
        ))?;
        return Ok(Exit::Fine);
    }
    output.print(&format!(
        "{name} rolled back to version {version}{}",
        note(args.dry_run)
    ))?;
    if found.followed {
        report(
            "note: it does not follow new versions any more; set spec.applicationVersion to \"*\" to do so again",
        );
    }
    if args.dry_run || args.waiting.no_wait {
        return Ok(Exit::Fine);
    }
    let observed = watch(&cluster, target, args.waiting.timeout).await?;
    if observed.deployment.spec.application_version != *version {
        report_superseded(target, "version");
        return Ok(Exit::Superseded);
    }
    let verdict = judge(&observed.deployment);
    let message = line(&observed, &verdict, ": ");
    conclude(verdict.outcome, &message, args.waiting.timeout, output)
}

/// Writes the version, if it is kept.
async fn write_version(
    cluster: &Cluster,
    target: &SiteTarget,
    args: &RollbackArgs,
) -> Result<VersionRollback, Error> {
    let deployment: SiteDeployment = read(cluster, target).await?;
    let found = steer::rollback(&deployment, args.to_version.as_deref(), args.force)
        .map_err(|refusal| Error::Impossible(refused(target, &refusal)))?;
    let Some(patch) = &found.patch else {
        return Ok(found);
    };
    // A version that is not kept would stop the rollout, which would wait for ever.
    let application = SiteTarget::application(&deployment.spec.application);
    let records: Records = read(cluster, &application).await?;
    if records.version(&found.version).is_none() {
        return Err(Error::NotFound(not_kept(&found.version, &records)));
    }
    let write = Write::new(MediaType::JsonPatch, args.dry_run);
    let url = target.path(&cluster.namespace);
    let written = cluster.write(&url, write, patch).await;
    let overtaken = || format!("{target} has changed since it was read; nothing was rolled back");
    written.map_err(|error| error.of_write(overtaken))?;
    Ok(found)
}
