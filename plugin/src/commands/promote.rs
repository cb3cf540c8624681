//! `promote`: the newest Release of an Application goes to its next step.

use std::time::Duration;

use baton_apis::kinds;
use baton_kubernetes::wire::MediaType;
use baton_view::{
    applications::steer::{self, StepChoice, step_outcome},
    rollout::Outcome,
};
use clap::Args;

use super::{Exit, pause::note, rollback::application::report_end};
use crate::{
    args::{GlobalArgs, timeout},
    connect::Write,
    error::Error,
    subject::{Subject, SubjectKind},
    text::application::refusal::refused,
    wait::application::{read, watch_until},
};

/// Go on with the rollout of an Application: to the next step, or to another one
///
/// Changes the target step of the newest Release, and waits until that step is achieved; the exit code is 1 when that
/// does not happen. Steps are counted from 0. A step that is not achieved yet is not left, and none is left out, but
/// with --force. Going back to an earlier step is always possible.
#[derive(Clone, Debug, Args)]
pub(crate) struct PromoteArgs {
    /// An Application: app/NAME or NAME; or its newest Release: rel/NAME
    #[arg(value_name = "APPLICATION", required = true, num_args = 1..=2)]
    words: Vec<String>,
    #[command(flatten)]
    to: ToArgs,

    /// Let the server check the change, and change nothing
    #[arg(long)]
    dry_run: bool,

    /// Do not wait until the step is achieved
    #[arg(long, conflicts_with = "timeout")]
    no_wait: bool,

    /// How long to wait, such as 90s or 1h30m; 0 is for ever
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = timeout)]
    timeout: Duration,
}

/// Which step.
#[derive(Clone, Copy, Debug, Args)]
struct ToArgs {
    /// The step to go to; by default the one after the step that is achieved
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i32).range(0..))]
    step: Option<i32>,

    /// Go to the last step, whatever is between
    #[arg(long, conflicts_with = "step")]
    full: bool,

    /// Leave a step that is not achieved, and leave out steps
    #[arg(long)]
    force: bool,
}

impl ToArgs {
    fn choice(self) -> StepChoice {
        match self.step {
            Some(step) => StepChoice::Number(step),
            None if self.full => StepChoice::Last,
            None => StepChoice::Next,
        }
    }
}

pub(crate) async fn run(args: &PromoteArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    let target = Subject::parse(&args.words, &[SubjectKind::Application])?.application()?;
    let cluster = global.connect().await?;
    let output = global.output();
    let observed = read(&cluster, &target).await?;
    let application = observed.target();
    let promotion = steer::promote(&observed, args.to.choice(), args.to.force)
        .map_err(|refusal| refused(&observed, &refusal))?;
    let name = format!("release.shipper.booking.com/{}", promotion.release);
    let label = &promotion.label;
    let Some(patch) = &promotion.patch else {
        output.print(&format!("{name} is sent to step {label} already"))?;
        return Ok(Exit::Fine);
    };
    let url = kinds::RELEASE.path_of(Some(&cluster.namespace), &promotion.release);
    let write = Write::new(MediaType::JsonPatch, args.dry_run);
    let written = cluster.write(&url, write, patch).await;
    let overtaken = || {
        let release = &promotion.release;
        format!("release {release} was changed by somebody else just now; nothing was promoted")
    };
    written.map_err(|error| error.of_write(overtaken))?;
    output.print(&format!(
        "{name} sent to step {label}{}",
        note(args.dry_run)
    ))?;
    if args.dry_run || args.no_wait {
        return Ok(Exit::Fine);
    }
    let (observed, arrived) = watch_until(&cluster, &application, args.timeout, |observed| {
        let subject = observed.subject();
        let is_ours = subject.and_then(|it| it.metadata.name.as_ref()) == Some(&promotion.release);
        if !is_ours {
            // It was deleted, or another one came.
            return Some(Outcome::Failed);
        }
        let is_there = subject.is_some_and(|it| it.spec.target_step == promotion.step);
        is_there.then(|| step_outcome(observed)).flatten()
    })
    .await?;
    report_end(&observed, arrived, args.timeout, global)
}
