//! `pack --apply --wait`: until what was applied is rolled out, or back to what was there before.

use std::time::Duration;

use clap::Args;
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use crate::{
    args::{GlobalArgs, timeout},
    chain::{self, Chain},
    commands::{
        Exit,
        rollback::{Seen, Wanted, arrive, roll},
        status::render,
    },
    connect::Cluster,
    error::Error,
    output::{Output, format::text_at, report},
    rollout::{Outcome, follow_unless_refused, title},
    target::{Kind, Target},
};

/// How it goes on after `--apply`.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Rollout")]
pub(super) struct WaitArgs {
    /// Wait until it is rolled out and available. It has failed when its progress deadline has passed, when the
    /// manager refuses it twice, or when the time is up
    #[arg(long, requires = "apply", conflicts_with = "dry_run")]
    wait: bool,

    /// How long to wait, such as 90s or 1h30m; 0 is for ever
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = timeout, requires = "wait")]
    timeout: Duration,

    /// If it fails, make the revision that was current before the next one, and wait for that too; the exit code is 1
    /// all the same. Not if that one never succeeded, or if somebody has changed the deployment since
    #[arg(long, requires = "wait", conflicts_with = "revision")]
    rollback_on_failure: bool,
}

/// What there was before something was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Before {
    /// Nobody has asked.
    Unknown,
    Nothing,
    /// The number and the title of the revision that was current.
    Revision(i64, String),
    /// As above, of one that has never succeeded.
    Unproven(String),
}

impl WaitArgs {
    /// Looks at what a rollback would go back to.
    pub(super) async fn before(&self, cluster: &Cluster, object: &Value) -> Result<Before, Error> {
        if !self.rollback_on_failure {
            return Ok(Before::Unknown);
        }
        let (cluster, target) = named(cluster, object)?;
        match chain::read(&cluster, &target).await {
            Ok(chain) => Ok(current(&chain)),
            Err(Error::NotFound(_)) => Ok(Before::Nothing),
            Err(error) => Err(error),
        }
    }

    /// Waits for what was applied, if that is asked for, and goes back if that is.
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
        let (chain, rollout) = follow_unless_refused(&cluster, &target, self.timeout).await?;
        if rollout.outcome == Outcome::Done {
            global.output().print(&rollout.message)?;
            return Ok(Exit::Fine);
        }
        let plain = Output {
            colors: false,
            ..global.output()
        };
        report(render::text(&chain, &rollout, Timestamp::now(), plain).trim_end());
        report(&format!("error: {}", rollout.failure(self.timeout)));
        if self.rollback_on_failure {
            let back = self.go_back(&cluster, &target, applied, &before, global);
            let line = back
                .await
                .unwrap_or_else(|error| format!("not rolled out, and not rolled back: {error}"));
            report(&format!("error: {line}"));
        }
        Ok(Exit::Negative)
    }

    /// Rolls back, and says in one line what has become of it all.
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
            Before::Unproven(title) => {
                return Ok(format!(
                    "not rolled out, and not rolled back: {title}, which was there before, has never succeeded"
                ));
            }
        };
        let wanted = Wanted {
            to_revision: Some(number),
            only: Some(Seen {
                uid: text_at(applied, "/metadata/uid").to_owned(),
                generation: applied["metadata"]["generation"].as_i64(),
            }),
            ..Wanted::default()
        };
        let done = roll(cluster, target, &wanted).await?;
        let Some(follow) = &done.follow else {
            return Ok(format!(
                "not rolled out, and not rolled back: {former} has the same content"
            ));
        };
        global.output().print(&done.line)?;
        let rollout = arrive(cluster, &done, follow, self.timeout).await?;
        Ok(match rollout.outcome {
            Outcome::Done => format!(
                "not rolled out; rolled back to {former}: {}",
                rollout.message
            ),
            Outcome::Underway | Outcome::Failed => format!(
                "not rolled out; the rollback to {former} is written, but {}",
                rollout.failure(self.timeout)
            ),
        })
    }
}

/// The revision that a chain's template was rolled out as.
fn current(chain: &Chain) -> Before {
    let Some(revision) = chain.current() else {
        return Before::Nothing;
    };
    match revision.number() {
        Some(number) if revision.has_succeeded() => Before::Revision(number, title(revision)),
        _ => Before::Unproven(title(revision)),
    }
}

/// The target that an object is, and the cluster with its namespace.
fn named(cluster: &Cluster, object: &Value) -> Result<(Cluster, Target), Error> {
    let kind = Kind::of(object).ok_or_else(|| {
        let kind = text_at(object, "/kind");
        Error::Impossible(format!("{kind} cannot be waited for"))
    })?;
    let target = Target::new(kind, text_at(object, "/metadata/name"));
    let cluster = match text_at(object, "/metadata/namespace") {
        "" => cluster.clone(),
        namespace => cluster.within(namespace),
    };
    Ok((cluster, target))
}
