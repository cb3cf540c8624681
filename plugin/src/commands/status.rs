//! `status`: is it rolled out, and if not, why.

mod render;

use std::time::Duration;

use clap::Args;
use k8s_openapi::jiff::Timestamp;

use super::Exit;
use crate::{
    chain::{self, Chain},
    cli::{GlobalArgs, timeout},
    error::Error,
    output::{Document, document, duration, tell},
    progress::Progress,
    rollout::{Verdict, Wait, judge},
    target::TargetArg,
};

/// Tell whether a deployment or a revision is rolled out, and if not, why
///
/// Exit code 0: rolled out and available. 1: not, or not yet. 2: an error.
#[derive(Clone, Debug, Args)]
pub struct StatusArgs {
    #[command(flatten)]
    target: TargetArg,

    /// Wait until it is rolled out, its deadline has passed, or the time is up
    #[arg(long, short)]
    watch: bool,

    /// How long to wait, such as 90s or 1h30m; 0 is for ever
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = timeout, requires = "watch")]
    timeout: Duration,

    /// Print for programs
    #[arg(long, short, value_name = "FORMAT")]
    output: Option<Document>,
}

/// Prints the state, with `--watch` the one in which the wait ended.
///
/// # Errors
/// There is no such target, or it cannot be read.
pub async fn run(args: &StatusArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    let target = args.target.target()?;
    let cluster = global.connect().await?;
    let output = global.output();
    let chain = if args.watch {
        let mut progress = Progress::new();
        let timeout = Some(args.timeout).filter(|timeout| !timeout.is_zero());
        let wait = Wait::new(&cluster, &target, timeout);
        let is_over = |chain: &Chain| judge(chain).verdict != Verdict::Underway;
        let show = |chain: &Chain| {
            let rollout = judge(chain);
            progress.show(rollout.ready, rollout.of, &rollout.message);
        };
        let (chain, is_reached) = wait.until(is_over, show).await?;
        progress.finish();
        if !is_reached {
            let waited = duration(args.timeout);
            tell(&format!("error: not rolled out after {waited}"));
        }
        chain
    } else {
        chain::read(&cluster, &target).await?
    };
    let rollout = judge(&chain);
    let text = match args.output {
        Some(form) => document(form, &render::value(&chain, &rollout)),
        None => render::text(&chain, &rollout, Timestamp::now(), output),
    };
    output.print(&text)?;
    Ok(match rollout.verdict {
        Verdict::Done => Exit::Fine,
        Verdict::Underway | Verdict::Failed => Exit::Negative,
    })
}
