//! `rollback` of a deployment to sites: all sites get an older version.

use baton_steering::{note, sites};
use baton_terminal::output::{Print as _, report};
use baton_text::fleet::line;
use baton_view::sites::{target::SiteTarget, verdict::judge};

use super::RollbackArgs;
use crate::{
    args::GlobalArgs,
    commands::{Exit, conclude},
    error::Error,
    sites::read::watch,
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
    let version = args.to_version.as_deref();
    let (force, dry_run) = (args.force, args.dry_run);
    let found = sites::roll_back(&cluster, target, version, force, None, dry_run).await?;
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
