//! `pack --apply --wait`: waits until the result is rolled out, or rolls it back.

use std::time::Duration;

use baton_apis::ReleaseEnvironment;
use baton_cluster::Cluster;
use baton_steering::{
    rollback::apply::{RollbackOptions, roll_back},
    version::SpecVersion,
};
use baton_terminal::output::{Print as _, report};
use baton_text::rollout::{failure, message, title};
use baton_view::{
    applications::target::AppTarget,
    chain::{Chain, kind::ChainKind, pick, target::Target},
    object::text_at,
    rollout::Outcome,
};
use clap::Args;
use serde::Deserialize as _;
use serde_json::Value;

use crate::{
    args::{GlobalArgs, timeout},
    commands::{Exit, rollback::arrive},
    error::Error,
    wait::{
        applied::{AppliedEnd, AppliedWait},
        release::ReleaseWait,
    },
};

/// The wait after `--apply`.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Rollout")]
pub(super) struct WaitArgs {
    /// Wait until the result is rolled out and available. The rollout has failed when its progress
    /// deadline has passed, the manager still refuses it after a retry, or the time is up
    #[arg(long, requires = "apply", conflicts_with = "dry_run")]
    wait: bool,

    /// Longest time to wait, such as 90s or 1h30m; 0 for no limit
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = timeout, requires = "wait")]
    timeout: Duration,

    /// After a failure, make the revision that was current before the next one, and wait for it
    /// too. The exit code is still 1. Does nothing if that revision never succeeded, or the
    /// deployment was changed in the meantime
    #[arg(long, requires = "wait", conflicts_with = "revision")]
    rollback_on_failure: bool,
}

/// The state before the apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Before {
    /// The state was not read.
    Unknown,
    Nothing,
    /// Number and title of the current revision.
    Revision(i64, String),
    /// Title of the current revision, which has never succeeded.
    Unproven(String),
    /// There were revisions, but none had the content of the template.
    Unsettled,
}

impl WaitArgs {
    /// Reads the state that a rollback would go back to. `chains` are all chains of the scope of
    /// the object.
    pub(super) fn before(
        &self,
        object: &Value,
        chains: Result<Vec<Chain>, Error>,
    ) -> Result<Before, Error> {
        if !self.rollback_on_failure {
            return Ok(Before::Unknown);
        }
        let chain = pick(chains?, &target(object)?);
        Ok(chain.as_ref().map_or(Before::Nothing, current))
    }

    /// Waits for the rollout and rolls back after a failure, if the flags ask for it.
    pub(super) async fn end(
        &self,
        cluster: &Cluster,
        applied: &Value,
        before: Before,
        global: &GlobalArgs,
    ) -> Result<Exit, Error> {
        if !self.wait {
            return Ok(Exit::Fine);
        }
        let (cluster, target) = named(cluster, applied)?;
        let wait = AppliedWait {
            target: &target,
            applied,
            timeout: self.timeout,
        };
        let (end, ..) = wait.end(&cluster, global.output()).await?;
        if end != AppliedEnd::NotRolledOut {
            return Ok(end.into());
        }
        if self.rollback_on_failure {
            let back = self.go_back(&cluster, &target, applied, &before, global);
            let line = back.await.unwrap_or_else(|error| {
                error.report_objects();
                format!("not rolled out, and not rolled back: {error}")
            });
            report(&format!("error: {line}"));
        }
        Ok(end.into())
    }

    /// Waits for the first step of an Application that was applied, if the flags ask for it.
    pub(super) async fn end_of_application(
        &self,
        cluster: &Cluster,
        applied: &Value,
        global: &GlobalArgs,
    ) -> Result<Exit, Error> {
        if !self.wait {
            return Ok(Exit::Fine);
        }
        let template = ReleaseEnvironment::deserialize(&applied["spec"]["template"]);
        let template = template.map_err(|error| Error::Impossible(error.to_string()))?;
        let wait = ReleaseWait {
            application: AppTarget::application(text_at(applied, "/metadata/name")),
            wanted: template,
            timeout: self.timeout,
            full: false,
        };
        let cluster = match text_at(applied, "/metadata/namespace") {
            "" => cluster.clone(),
            namespace => cluster.within(namespace),
        };
        Ok(wait.end(&cluster, global.output()).await?.into())
    }

    /// Rolls back, and reports the outcome in one line.
    async fn go_back(
        &self,
        cluster: &Cluster,
        target: &Target,
        applied: &Value,
        before: &Before,
        global: &GlobalArgs,
    ) -> Result<String, Error> {
        let (number, former) = match before {
            Before::Revision(number, title) => (*number, title),
            Before::Unknown | Before::Nothing => {
                let text = "not rolled out, and not rolled back: there was no revision before";
                return Ok(text.to_owned());
            }
            Before::Unsettled => {
                let text = "not rolled out, and not rolled back: the previous template was not rolled out yet";
                return Ok(text.to_owned());
            }
            Before::Unproven(title) => {
                return Ok(format!(
                    "not rolled out, and not rolled back: {title}, the previous one, has never succeeded"
                ));
            }
        };
        let wanted = RollbackOptions {
            to_revision: Some(number),
            only: Some(SpecVersion {
                uid: text_at(applied, "/metadata/uid").to_owned(),
                generation: applied["metadata"]["generation"].as_i64(),
            }),
            ..RollbackOptions::default()
        };
        let done = roll_back(cluster, target, &wanted).await?;
        let Some(follow) = &done.follow else {
            return Ok(format!(
                "not rolled out, and not rolled back: {former} has the same content"
            ));
        };
        global.output().print(&done.line)?;
        let rollout = arrive(cluster, &done, follow, self.timeout).await?;
        let message = message(&rollout);
        Ok(match rollout.outcome {
            Outcome::Done => format!("not rolled out; rolled back to {former}: {message}"),
            outcome => format!(
                "not rolled out; the rollback to {former} is written, but {}",
                failure(outcome, &message, self.timeout)
            ),
        })
    }
}

/// The revision that has the content of a chain's template.
fn current(chain: &Chain) -> Before {
    let Some(revision) = chain.current() else {
        return match chain.newest() {
            Some(_) => Before::Unsettled,
            None => Before::Nothing,
        };
    };
    match revision.number() {
        Some(number) if revision.has_succeeded() => Before::Revision(number, title(revision)),
        _ => Before::Unproven(title(revision)),
    }
}

fn target(object: &Value) -> Result<Target, Error> {
    let kind = ChainKind::of(object).ok_or_else(|| {
        let kind = text_at(object, "/kind");
        Error::Impossible(format!("--wait is not for the kind {kind}"))
    })?;
    Ok(Target::new(kind, text_at(object, "/metadata/name")))
}

/// The target of an object, and the cluster with the object's namespace in use.
fn named(cluster: &Cluster, object: &Value) -> Result<(Cluster, Target), Error> {
    let target = target(object)?;
    let cluster = match text_at(object, "/metadata/namespace") {
        "" => cluster.clone(),
        namespace => cluster.within(namespace),
    };
    Ok((cluster, target))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::selection::from_objects;

    #[test]
    fn the_rollout_before_an_apply_is_classified() {
        let (api, namespace) = ("package-operator.run/v1alpha1", "shop");
        let before = |phase: Option<&str>, succeeded: bool| {
            let deployment = json!({
                "apiVersion": api, "kind": "ObjectDeployment",
                "metadata": {"name": "web", "namespace": namespace, "uid": "d"},
                "spec": {"selector": {}, "template": {"metadata": {}, "spec": {"phases": [{"name": "a"}]}}},
            });
            let status = if succeeded { "True" } else { "False" };
            let sets = phase.map(|phase| {
                json!({
                    "apiVersion": api, "kind": "ObjectSet",
                    "metadata": {"name": "web-1", "namespace": namespace, "uid": "u", "ownerReferences": [
                        {"apiVersion": api, "kind": "ObjectDeployment", "name": "web", "uid": "d", "controller": true},
                    ]},
                    "spec": {"revision": 1, "phases": [{"name": phase}]},
                    "status": {"conditions": [{
                        "type": "Succeeded", "status": status, "reason": "RolloutSuccess", "message": "",
                        "lastTransitionTime": "2026-01-01T00:00:00Z",
                    }]},
                })
            });
            let chains = from_objects(vec![deployment], Vec::from_iter(sets));
            current(&chains[0])
        };
        let title = "revision 1 (web-1)".to_owned();
        for (phase, succeeded, expected) in [
            (None, false, Before::Nothing),
            (Some("other"), true, Before::Unsettled),
            (Some("a"), false, Before::Unproven(title.clone())),
            (Some("a"), true, Before::Revision(1, title)),
        ] {
            assert_eq!(before(phase, succeeded), expected);
        }
    }
}
