//! `status` of a deployment to sites, or of an application for sites.

use std::fmt::Write as _;

use baton_apis::conditions::GENERAL;
use baton_sites::rollout::standing::SiteState;
use baton_terminal::time::duration;
use baton_view::rollout::Outcome;
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Condition, jiff::Timestamp};
use serde_json::{Value, json};

use super::StatusArgs;
use crate::{
    args::GlobalArgs,
    bars::Bars,
    commands::Exit,
    connect::Cluster,
    error::Error,
    output::{
        Output, Paint,
        format::document,
        report,
        table::{Cell, Table},
    },
    sites::{
        bars::{NOUN, bars},
        fleet::{Counts, Fleet},
        follow::watch_until,
        overview::Overview,
        read::{Observed, read, status},
        render::about,
        target::{SiteKind, SiteTarget},
        verdict::{Verdict, judge},
    },
    text::status::condition_table,
};

/// Prints the state, with `--watch` the one in which the wait ended.
pub(crate) async fn run(
    target: &SiteTarget,
    args: &StatusArgs,
    global: &GlobalArgs,
) -> Result<Exit, Error> {
    let cluster = global.connect().await?;
    if target.kind == SiteKind::Application {
        return of_application(&cluster, target, args, global).await;
    }
    let output = global.output();
    let observed = if args.watch {
        let mut shown = Bars::new(NOUN);
        let (observed, found) = watch_until(&cluster, target, args.timeout, |observed| {
            let verdict = judge(&observed.deployment);
            if verdict.outcome != Outcome::Underway {
                return Some(());
            }
            let fleet = Fleet::of(observed, Timestamp::now());
            shown.show(&bars(observed, &fleet), &line(observed, &verdict));
            None
        })
        .await?;
        drop(shown);
        if found.is_none() {
            let waited = duration(args.timeout);
            report(&format!("error: not rolled out after {waited}"));
        }
        observed
    } else {
        read(&cluster, target).await?
    };
    let (verdict, now) = (judge(&observed.deployment), Timestamp::now());
    let fleet = Fleet::of(&observed, now);
    let text = match args.output {
        Some(form) => document(form, &value(&observed, &fleet, &verdict)),
        None => text(&observed, &fleet, &verdict, now, output),
    };
    output.print(&text)?;
    Ok(exit(&verdict))
}

fn exit(verdict: &Verdict) -> Exit {
    match verdict.outcome {
        Outcome::Done => Exit::Fine,
        Outcome::Underway | Outcome::Failed => Exit::Negative,
    }
}

/// What is waited for, in one line.
pub(crate) fn line(observed: &Observed, verdict: &Verdict) -> String {
    match about(observed) {
        about if about.is_empty() => verdict.message.clone(),
        about => format!("{about}: {}", verdict.message),
    }
}

/// The state for people; every line ends with a newline.
fn text(
    observed: &Observed,
    fleet: &Fleet,
    verdict: &Verdict,
    now: Timestamp,
    output: Output,
) -> String {
    let (paint, outcome) = match verdict.outcome {
        Outcome::Done => (Paint::Good, "rolled out"),
        Outcome::Underway => (Paint::Warn, "not rolled out yet"),
        Outcome::Failed => (Paint::Bad, "not rolled out"),
    };
    let target = observed.target();
    let namespace = observed.deployment.metadata.namespace.as_deref();
    let mut text = format!(
        "{} in namespace {}: {}\n",
        output.paint(Paint::Strong, &target.to_string()),
        namespace.unwrap_or_default(),
        output.paint(paint, outcome)
    );
    let _ = writeln!(text, "{}", output.wrap(&line(observed, verdict)));
    if verdict.state == "Aborted" {
        let line = format!("`kubectl baton rollback {target}` goes back to the version before");
        let _ = writeln!(text, "{}", output.wrap(&line));
    }
    if !fleet.waves.is_empty() {
        text.push('\n');
        text.push_str(&wave_table(observed, fleet).render(output));
    }
    let status = status(&observed.deployment);
    if !status.failing.is_empty() {
        let mut table = Table::new(&["FAILING SITE", "REASON", "MESSAGE"]);
        for failing in &status.failing {
            table.row([
                Cell::painted(Paint::Strong, &failing.name),
                Cell::painted(Paint::Bad, &failing.reason),
                failing.message.as_str().into(),
            ]);
        }
        text.push('\n');
        text.push_str(&table.render(output));
    }
    text + &conditions(&target, &status.conditions, now, output)
}

/// How many sites of each wave are in which state.
fn wave_table(observed: &Observed, fleet: &Fleet) -> Table {
    let status = status(&observed.deployment);
    let current = status.batch.as_ref().map(|batch| batch.number);
    let mut table = Table::new(&[
        "",
        "WAVE",
        "SITES",
        "UPDATED",
        "SOAKING",
        "IN FLIGHT",
        "WINDOW",
        "QUEUED",
        "OFFLINE",
        "FAILED",
    ]);
    let row = |is_current: bool, title: &str, counts: &Counts| {
        let count = |state: SiteState, paint: Option<Paint>| match counts.of(state) {
            0 => Cell::from("-"),
            count => Cell::default().and(paint, count.to_string()),
        };
        [
            Cell::from(if is_current { "*" } else { "" }),
            title.into(),
            counts.total().to_string().into(),
            match counts.updated() {
                0 => Cell::from("-"),
                updated => Cell::painted(Paint::Good, updated.to_string()),
            },
            count(SiteState::Soaking, None),
            count(SiteState::InFlight, Some(Paint::Warn)),
            count(SiteState::Window, None),
            count(SiteState::Queued, None),
            count(SiteState::Offline, Some(Paint::Warn)),
            count(SiteState::Failed, Some(Paint::Bad)),
        ]
    };
    for span in fleet.spans(|wave| wave.counts.is_settled() && Some(wave.number) != current) {
        let title = span.title();
        let (_, numbers) = title.split_once(' ').unwrap_or_default();
        table.row(row(Some(span.last) == current, numbers, &span.counts));
    }
    if fleet.later.total() > 0 {
        table.row(row(false, "later", &fleet.later));
    }
    table
}

/// The conditions but for those that repeat others.
fn conditions(
    target: &SiteTarget,
    conditions: &[Condition],
    now: Timestamp,
    output: Output,
) -> String {
    let is_special = |condition: &&Condition| !GENERAL.contains(&&*condition.type_);
    let rows: Vec<(String, &Condition)> = conditions
        .iter()
        .filter(is_special)
        .map(|condition| (target.to_string(), condition))
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    format!("\n{}", condition_table(&rows, now).render(output))
}

fn value(observed: &Observed, fleet: &Fleet, verdict: &Verdict) -> Value {
    json!({
        "target": observed.target().full(),
        "namespace": observed.deployment.metadata.namespace,
        "rolledOut": verdict.outcome == Outcome::Done,
        "state": verdict.state,
        "message": verdict.message,
        "status": observed.deployment.status,
        "waves": fleet.waves,
        "later": fleet.later,
    })
}

/// The state of an application: whether its version is kept, and of what becomes of it.
async fn of_application(
    cluster: &Cluster,
    target: &SiteTarget,
    args: &StatusArgs,
    global: &GlobalArgs,
) -> Result<Exit, Error> {
    if args.watch {
        let text = "--watch follows a rollout; name a deployment to sites as sitedeploy/NAME";
        return Err(Error::Usage(text.to_owned()));
    }
    let (overview, now) = (
        Overview::read(cluster, &target.name).await?,
        Timestamp::now(),
    );
    let output = global.output();
    let text = if let Some(form) = args.output {
        document(form, &overview.value())
    } else {
        let status = overview.application.status.as_ref();
        let own = status.map_or(&[][..], |status| &status.conditions);
        overview.tree(now, output) + &conditions(target, own, now, output)
    };
    output.print(&text)?;
    let mut verdicts = overview.deployments.iter().map(judge);
    let are_done = verdicts.all(|verdict| verdict.outcome == Outcome::Done);
    let is_fine = overview.is_kept() && are_done;
    Ok(if is_fine { Exit::Fine } else { Exit::Negative })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sites::fixtures::{NOW, mid_rollout, observed, ten_thousand};

    fn shown(observed: &Observed) -> String {
        let fleet = Fleet::of(observed, NOW);
        let verdict = judge(&observed.deployment);
        text(observed, &fleet, &verdict, NOW, Output::plain())
    }

    #[test]
    fn the_state_on_one_screen() {
        insta::assert_snapshot!(shown(&observed(&mid_rollout())));
    }

    #[test]
    fn many_waves_are_a_few_lines() {
        let text = shown(&ten_thousand());
        assert!(text.contains("1 to 40"), "{text}");
        assert!(text.lines().count() < 20, "{text}");
    }

    #[test]
    fn the_state_for_programs() {
        let observed = observed(&mid_rollout());
        let fleet = Fleet::of(&observed, NOW);
        let value = value(&observed, &fleet, &judge(&observed.deployment));
        assert_eq!(value["state"], "RollingOut");
        assert_eq!(value["waves"][1]["counts"]["Failed"], 1);
        assert_eq!(value["status"]["counts"]["updated"], 3);
    }
}
