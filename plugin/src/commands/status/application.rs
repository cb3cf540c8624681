//! `status` of an Application or a Release: its progress, and the reason that it waits.

use baton_terminal::output::{Print as _, report};
use baton_text::{
    application::status::{text, value},
    output::format::document,
    time::duration,
};
use baton_view::{
    applications::{state::judge, target::AppTarget},
    rollout::Outcome,
};
use k8s_openapi::jiff::Timestamp;

use super::StatusArgs;
use crate::{
    args::GlobalArgs,
    commands::Exit,
    error::Error,
    wait::application::{read, watch_until},
};

/// Prints the state; with `--watch`, the one at the end of the wait.
pub(crate) async fn run(
    target: &AppTarget,
    args: &StatusArgs,
    global: &GlobalArgs,
) -> Result<Exit, Error> {
    let cluster = global.connect().await?;
    let output = global.output();
    let observed = if args.watch {
        let (observed, found) = watch_until(&cluster, target, args.timeout, |observed| {
            (judge(observed).outcome != Outcome::Underway).then_some(())
        })
        .await?;
        if found.is_none() {
            let waited = duration(args.timeout);
            report(&format!("error: not complete after {waited}"));
        }
        observed
    } else {
        read(&cluster, target).await?
    };
    let verdict = judge(&observed);
    let text = match args.output {
        Some(form) => document(form, &value(&observed, &verdict)),
        None => text(&observed, &verdict, Timestamp::now(), output),
    };
    output.print(&text)?;
    Ok(Exit::of(verdict.outcome == Outcome::Done))
}
