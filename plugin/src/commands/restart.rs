//! `restart`: a new revision with the same content.

use baton_apis::constants::ANNOTATION_RESTARTED_AT;
use baton_cluster::{Cluster, lists};
use baton_steering::{
    note,
    pausing::{Pausable, write},
    rollback::{standalone, write::cause},
};
use baton_text::output::format::name;
use baton_view::chain::{
    Chain,
    member::{Deployment, Revision},
    target::Target,
};
use clap::Args;
use k8s_openapi::jiff::{Timestamp, Unit};
use serde_json::{Value, json};

use super::{Exit, pause::for_each_target};
use crate::{args::GlobalArgs, error::Error, subject::Subject};

/// Roll the same content out again, as a new revision
///
/// Objects that are as wanted are not changed, and no pod is restarted; use `kubectl rollout
/// restart` on a workload for that. The template of a deployment is annotated with the time. In a
/// chain without a deployment, a new revision with the content of the newest one is created.
#[derive(Clone, Debug, Args)]
pub(crate) struct RestartArgs {
    /// Deployments or revisions to restart: od/NAME, cod/NAME, os/NAME, cos/NAME, or NAME
    #[arg(value_name = "TARGET", required = true)]
    words: Vec<String>,

    /// Check the change on the server, and store nothing
    #[arg(long)]
    dry_run: bool,
}

pub(crate) async fn run(args: &RestartArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    let dry_run = args.dry_run;
    let targets = Subject::parse_chains(&args.words)?;
    for_each_target(
        &targets,
        global,
        async |cluster, target| match Pausable::read(cluster, target).await? {
            Pausable::Deployment(deployment) => {
                let patch = patch(&deployment, Timestamp::now())?;
                let subject = Pausable::Deployment(deployment);
                write(cluster, &subject, &patch, dry_run).await?;
                Ok(format!(
                    "{} rolls its content out again{}",
                    name(subject.object()),
                    note(dry_run)
                ))
            }
            Pausable::Revision(_) => next_revision(cluster, target, dry_run).await,
        },
    )
    .await
}

/// Makes the next revision of a chain without a deployment.
async fn next_revision(cluster: &Cluster, target: &Target, dry_run: bool) -> Result<String, Error> {
    let chain = lists::chain(cluster, target).await?;
    let newest = newest(&chain, target)?;
    let next = standalone::next(&chain, newest, None, &cause(&newest.object, "restart of"))?;
    let created = standalone::create(cluster, newest.kind, &next, dry_run).await?;
    Ok(format!("{} created{}", name(&created), note(dry_run)))
}

/// The newest revision of a chain, if it is the one that the user named.
fn newest<'a>(chain: &'a Chain, target: &Target) -> Result<&'a Revision, Error> {
    standalone::check(chain, target)?;
    match chain.newest() {
        Some(newest) if newest.name() == target.name => Ok(newest),
        Some(newest) => Err(Error::Impossible(format!(
            "{target} is not the newest revision of its chain; that is {}. To go back to an earlier one, use \
                 `kubectl baton rollback`",
            newest.target()
        ))),
        None => Err(Error::NotFound(format!("{target} has no revision"))),
    }
}

/// The merge patch that makes a deployment roll its content out again.
fn patch(deployment: &Deployment, now: Timestamp) -> Result<Value, Error> {
    let name = name(&deployment.object);
    if deployment.metadata.deletion_timestamp.is_some() {
        return Err(Error::Impossible(format!("{name} is being deleted")));
    }
    if deployment.spec.paused {
        return Err(Error::Impossible(format!(
            "{name} is paused; resume it first"
        )));
    }
    let time = now.round(Unit::Second).unwrap_or(now);
    Ok(json!({
        "spec": { "template": { "metadata": {
            "annotations": { ANNOTATION_RESTARTED_AT: time.to_string() },
        } } },
    }))
}

#[cfg(test)]
mod tests {
    use clap::Command;

    use super::*;

    #[test]
    fn the_help_lists_the_kinds_that_the_command_accepts() {
        let command = RestartArgs::augment_args(Command::new("restart"));
        let help = command.clone().render_long_help().to_string();
        for kind in ["od", "cod", "os", "cos", "sitedeploy", "app"] {
            let word = format!("{kind}/NAME");
            let is_listed = help.split([' ', ',', ';', '\n']).any(|found| found == word);
            let is_accepted = Subject::parse_chains(&[format!("{kind}/web")]).is_ok();
            assert_eq!(is_listed, is_accepted, "{kind}: {help}");
        }
    }

    fn deployment(metadata: &str, spec: &str) -> Deployment {
        let text = format!(
            "{{apiVersion: package-operator.run/v1alpha1, kind: ObjectDeployment, metadata: {{name: web{metadata}}},
              spec: {{selector: {{}}, template: {{metadata: {{}}, spec: {{}}}}{spec}}}}}"
        );
        Deployment::parse(serde_saphyr::from_str(&text).unwrap()).unwrap()
    }

    #[test]
    fn a_restart_annotates_the_template() {
        let now: Timestamp = "2026-08-01T10:20:30.4Z".parse().unwrap();
        assert_eq!(
            patch(&deployment("", ""), now).unwrap().to_string(),
            r#"{"spec":{"template":{"metadata":{"annotations":{"baton.run/restartedAt":"2026-08-01T10:20:30Z"}}}}}"#
        );
        let refused = |deployment| patch(&deployment, now).unwrap_err().to_string();
        assert_eq!(
            refused(deployment("", ", paused: true")),
            "objectdeployment.package-operator.run/web is paused; resume it first"
        );
        assert_eq!(
            refused(deployment(
                ", deletionTimestamp: '2026-08-01T00:00:00Z'",
                ""
            )),
            "objectdeployment.package-operator.run/web is being deleted"
        );
    }
}
