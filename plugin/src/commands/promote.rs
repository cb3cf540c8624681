//! `promote`: moves the newest Release of an Application to its next step.

use baton_terminal::output::Print as _;
use std::time::Duration;

use baton_steering::{
    note,
    releases::{promote, read},
};
use baton_view::applications::{
    steer::{StepChoice, step_outcome},
    target::AppTarget,
};
use clap::Args;

use super::Exit;
use crate::{
    args::{GlobalArgs, timeout},
    error::Error,
    subject::{Subject, SubjectKind},
    wait::{application::watch_until, release::report_end},
};

/// Continue the rollout of an Application: go to the next step, or to another one
///
/// Changes the target step of the newest Release, and waits until that step is achieved; the exit
/// code is 1 if it is not. Steps are counted from 0. Without --force, a step has to be achieved
/// before the next one, and no step is skipped. Going back to an earlier step is always possible.
#[derive(Clone, Debug, Args)]
pub(crate) struct PromoteArgs {
    /// Application: app/NAME or NAME; or its newest Release: rel/NAME
    #[arg(value_name = "APPLICATION", required = true, num_args = 1..=2)]
    words: Vec<String>,
    #[command(flatten)]
    to: ToArgs,

    /// Check the change on the server, and store nothing
    #[arg(long)]
    dry_run: bool,

    /// Do not wait until the step is achieved
    #[arg(long, conflicts_with = "timeout")]
    no_wait: bool,

    /// Longest time to wait, such as 90s or 1h30m; 0 for no limit
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = timeout)]
    timeout: Duration,
}

/// The step to go to.
#[derive(Clone, Copy, Debug, Args)]
struct ToArgs {
    /// Step to go to. Default: the one after the achieved step
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i32).range(0..))]
    step: Option<i32>,

    /// Go to the last step, and skip the steps before it
    #[arg(long, conflicts_with = "step")]
    full: bool,

    /// Leave a step that is not achieved, and allow to skip steps
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
    let (choice, dry_run) = (args.to.choice(), args.dry_run);
    let promotion = promote(&cluster, &observed, choice, args.to.force, dry_run).await?;
    let name = format!("release.shipper.booking.com/{}", promotion.release);
    let label = &promotion.label;
    if promotion.patch.is_none() {
        output.print(&format!("{name} is sent to step {label} already"))?;
        return Ok(Exit::Fine);
    }
    output.print(&format!(
        "{name} sent to step {label}{}",
        note(args.dry_run)
    ))?;
    if args.dry_run || args.no_wait {
        return Ok(Exit::Fine);
    }
    // The Application may want another Release meanwhile, or have a template that no Release can be
    // created from. The step is that of this Release.
    let release = AppTarget::release(&promotion.release);
    let (observed, arrived) = watch_until(&cluster, &release, args.timeout, |observed| {
        let subject = observed.subject();
        // The state before the promotion does not count.
        let is_outdated = subject.is_some_and(|it| it.spec.target_step != promotion.step);
        (!is_outdated).then(|| step_outcome(observed)).flatten()
    })
    .await?;
    Ok(report_end(&observed, arrived, args.timeout, output)?.into())
}
