//! `status` of an Application or a Release: how far it is, and what it waits for.

use std::fmt::Write as _;

use baton_apis::{Release, ShipperCondition};
use baton_terminal::time::{age, duration};
use baton_view::rollout::Outcome;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::StatusArgs;
use crate::{
    applications::{
        bars::{NOUN, bars},
        clusters::{ClusterPicture, clusters},
        follow::watch_until,
        read::{Observed, read},
        state::{Verdict, achieved, judge, label_at, unsatisfied},
        target::AppTarget,
    },
    args::GlobalArgs,
    bars::Bars,
    commands::Exit,
    error::Error,
    output::{
        Output, Paint,
        format::document,
        report,
        table::{Cell, Table},
    },
};

/// Prints the state, with `--watch` the one in which the wait ended.
pub(crate) async fn run(
    target: &AppTarget,
    args: &StatusArgs,
    global: &GlobalArgs,
) -> Result<Exit, Error> {
    let cluster = global.connect().await?;
    let output = global.output();
    let observed = if args.watch {
        let mut shown = Bars::new(NOUN);
        let (observed, found) = watch_until(&cluster, target, args.timeout, |observed| {
            let verdict = judge(observed);
            if verdict.outcome != Outcome::Underway {
                return Some(());
            }
            shown.show(&bars(observed), &verdict.text());
            None
        })
        .await?;
        drop(shown);
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
    Ok(match verdict.outcome {
        Outcome::Done => Exit::Fine,
        Outcome::Underway | Outcome::Failed => Exit::Negative,
    })
}

/// The state for people; every line ends with a newline.
fn text(observed: &Observed, verdict: &Verdict, now: Timestamp, output: Output) -> String {
    let (paint, outcome) = match verdict.outcome {
        Outcome::Done => (Paint::Good, "complete"),
        Outcome::Underway if verdict.waits_for_command => (Paint::Warn, "waits to be promoted"),
        Outcome::Underway => (Paint::Warn, "not complete yet"),
        Outcome::Failed => (Paint::Bad, "not complete"),
    };
    let name = match &observed.named {
        Some(release) => format!("rel/{release}"),
        None => observed.target().to_string(),
    };
    let mut text = format!(
        "{} in namespace {}: {}\n",
        output.paint(Paint::Strong, &name),
        observed.namespace,
        output.paint(paint, outcome)
    );
    let _ = writeln!(text, "{}", output.wrap(&sentence(&verdict.text())));
    if verdict.waits_for_command {
        let line = format!("`kubectl baton promote {}` goes on", observed.target());
        let _ = writeln!(text, "{}", output.wrap(&line));
    }
    let Some(release) = observed.subject() else {
        return text + &conditions(observed, None, now, output);
    };
    let _ = writeln!(text, "\n{}", output.wrap(&about(observed, release, now)));
    let clusters = clusters(observed, release);
    if !clusters.is_empty() {
        text.push('\n');
        text.push_str(&cluster_table(&clusters).render(output));
    }
    text + &conditions(observed, Some(release), now, output)
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

/// The Release in one line.
fn about(observed: &Observed, release: &Release, now: Timestamp) -> String {
    let name = release.metadata.name.as_deref().unwrap_or_default();
    let created = release.metadata.creation_timestamp.as_ref();
    let releases = observed.releases();
    let generation = releases
        .iter()
        .find(|(_, other)| other.metadata.name == release.metadata.name)
        .and_then(|(generation, _)| *generation);
    let generation = generation.map_or_else(
        || "without a generation".to_owned(),
        |generation| format!("generation {generation}"),
    );
    let chart = &release.spec.environment.chart;
    let reached = achieved(release).map_or_else(
        || "none achieved".to_owned(),
        |step| format!("{} achieved", label_at(release, step)),
    );
    format!(
        "Release {name}: {generation}, chart {} {}, {} old, step {} wanted, {reached}",
        chart.name,
        chart.version,
        age(created.map(|time| time.0), now),
        label_at(release, release.spec.target_step),
    )
}

fn cluster_table(clusters: &[ClusterPicture]) -> Table {
    let mut table = Table::new(&[
        "CLUSTER", "CAPACITY", "PODS", "TRAFFIC", "SERVICE", "MESSAGE",
    ]);
    for cluster in clusters {
        let paint = if cluster.is_settled() {
            Paint::Good
        } else {
            Paint::Warn
        };
        let capacity = cluster.capacity;
        let capacity_text = capacity.map_or_else(|| "?".to_owned(), |capacity| capacity.text());
        let pods = capacity.map_or_else(|| "?".to_owned(), |capacity| capacity.pods());
        let traffic = cluster.traffic;
        let service = traffic.and_then(|traffic| traffic.service_percent);
        table.row([
            Cell::from(cluster.name.as_str()),
            Cell::painted(paint, capacity_text),
            Cell::from(pods.trim_end_matches(" pods")),
            Cell::painted(
                paint,
                traffic.map_or_else(|| "?".to_owned(), |traffic| traffic.text()),
            ),
            service
                .map_or_else(|| "-".to_owned(), |percent| format!("{percent}%"))
                .into(),
            cluster.message.as_str().into(),
        ]);
    }
    table
}

/// A condition with whose it is.
struct Row<'a> {
    of: String,
    type_: &'a str,
    status: String,
    reason: &'a str,
    since: Option<Timestamp>,
    message: &'a str,
}

impl<'a> Row<'a> {
    fn new(of: &str, condition: &'a ShipperCondition) -> Self {
        Self {
            of: of.to_owned(),
            type_: &condition.type_,
            status: condition.status.to_string(),
            reason: &condition.reason,
            since: condition.last_transition_time.as_ref().map(|time| time.0),
            message: &condition.message,
        }
    }
}

/// The conditions of the Application, of the Release, and of its strategy.
fn conditions(
    observed: &Observed,
    release: Option<&Release>,
    now: Timestamp,
    output: Output,
) -> String {
    let mut rows = Vec::new();
    let application = observed
        .application
        .as_ref()
        .filter(|_| observed.named.is_none());
    if let Some(status) = application.and_then(|application| application.status.as_ref()) {
        let of = observed.target().to_string();
        rows.extend(status.conditions.iter().map(|one| Row::new(&of, one)));
    }
    if let Some(status) = release.and_then(|release| release.status.as_ref()) {
        let of = format!(
            "rel/{}",
            release
                .and_then(|it| it.metadata.name.as_deref())
                .unwrap_or_default()
        );
        rows.extend(status.conditions.iter().map(|one| Row::new(&of, one)));
        let strategy = status
            .strategy
            .iter()
            .flat_map(|strategy| &strategy.conditions);
        rows.extend(strategy.map(|condition| Row {
            of: format!("step {}", condition.step),
            type_: &condition.type_,
            status: condition.status.to_string(),
            reason: &condition.reason,
            since: condition.last_transition_time.as_ref().map(|time| time.0),
            message: &condition.message,
        }));
    }
    if rows.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&["OF", "CONDITION", "STATUS", "REASON", "SINCE", "MESSAGE"]);
    for row in rows {
        table.row([
            row.of,
            row.type_.to_owned(),
            row.status,
            row.reason.to_owned(),
            age(row.since, now),
            row.message.to_owned(),
        ]);
    }
    format!("\n{}", table.render(output))
}

fn value(observed: &Observed, verdict: &Verdict) -> Value {
    let release = observed.subject();
    json!({
        "target": match &observed.named {
            Some(name) => format!("release.shipper.booking.com/{name}"),
            None => format!("application.shipper.booking.com/{}", observed.name),
        },
        "namespace": observed.namespace,
        "complete": verdict.outcome == Outcome::Done,
        "verdict": match verdict.outcome {
            Outcome::Done => "Complete",
            Outcome::Underway if verdict.waits_for_command => "WaitingForCommand",
            Outcome::Underway => "Underway",
            Outcome::Failed => "Failed",
        },
        "message": verdict.text(),
        "conditions": observed.application.as_ref().and_then(|it| it.status.as_ref()).map(|it| &it.conditions),
        "release": release.map(|release| json!({
            "name": release.metadata.name,
            "targetStep": release.spec.target_step,
            "achievedStep": achieved(release),
            "status": release.status,
            "waitingFor": unsatisfied(release),
            "clusters": clusters(observed, release),
        })),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::applications::fixtures::{NOW, mid_rollout, observed};

    #[test]
    fn the_state_on_one_screen() {
        let observed = observed(&mid_rollout());
        let text = text(&observed, &judge(&observed), NOW, Output::plain());
        insta::assert_snapshot!(text);
    }

    #[test]
    fn the_state_for_programs() {
        let observed = observed(&mid_rollout());
        let value = value(&observed, &judge(&observed));
        assert_eq!(value["verdict"], "Underway");
        assert_eq!(value["release"]["targetStep"], 1);
        assert_eq!(value["release"]["achievedStep"], 0);
        assert_eq!(
            value["release"]["clusters"][0]["capacity"]["availablePods"],
            2
        );
    }
}
