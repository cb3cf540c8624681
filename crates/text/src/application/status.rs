//! The state of an Application or a Release on one screen, and as a value for programs.

use std::fmt::Write as _;

use crate::time::age;
use baton_apis::{Release, ShipperCondition, StrategyCondition};
use baton_releases::{application::history::generation, strategy::achieved};
use baton_view::{
    applications::{
        clusters::{ClusterPicture, clusters},
        observed::Observed,
        state::{Verdict, label_at, unsatisfied},
    },
    rollout::Outcome,
};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    cluster_values, good, or_unknown, pods,
    verdict::{message, troubles},
    weights,
};
use crate::{
    output::{
        Output,
        table::{Cell, Table},
    },
    status::{sentence, title_line},
};

/// Renders the state for people; every line ends with a newline.
pub fn text(observed: &Observed, verdict: &Verdict, now: Timestamp, output: Output) -> String {
    let words = match verdict.outcome {
        Outcome::Done => "complete",
        Outcome::Underway if verdict.waits_for_command() => "waits to be promoted",
        Outcome::Underway => "not complete yet",
        Outcome::Failed => "not complete",
    };
    let name = match &observed.named {
        Some(release) => format!("rel/{release}"),
        None => observed.target().to_string(),
    };
    let namespace = Some(observed.namespace.as_str());
    let mut text = title_line(&name, namespace, verdict.outcome, words, output);
    let _ = writeln!(text, "{}", output.wrap(&sentence(&message(verdict))));
    if verdict.waits_for_command() {
        let line = format!("`kubectl baton promote {}` goes on", observed.target());
        let _ = writeln!(text, "{}", output.wrap(&line));
    }
    let Some(release) = observed.subject() else {
        return text + &conditions(observed, None, now, output);
    };
    let _ = writeln!(text, "\n{}", output.wrap(&about(release, now)));
    let clusters = clusters(observed, release);
    if !clusters.is_empty() {
        text.push('\n');
        text.push_str(&cluster_table(&clusters).render(output));
    }
    text + &conditions(observed, Some(release), now, output)
}

/// The Release in one line.
fn about(release: &Release, now: Timestamp) -> String {
    let name = release.metadata.name.as_deref().unwrap_or_default();
    let created = release.metadata.creation_timestamp.as_ref();
    let generation = generation(release).map_or_else(
        |_| "without a generation".to_owned(),
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
    let mut table = Table::new(&["CLUSTER", "CAPACITY", "TRAFFIC", "SERVICE", "MESSAGE"]);
    for cluster in clusters {
        let paint = good(cluster.is_settled());
        let service = cluster.traffic.and_then(|traffic| traffic.service_percent);
        table.row([
            Cell::from(cluster.name.as_str()),
            Cell::painted(paint, or_unknown(cluster.capacity.map(pods))),
            Cell::painted(paint, or_unknown(cluster.traffic.map(weights))),
            service
                .map_or_else(|| "-".to_owned(), |percent| format!("{percent}%"))
                .into(),
            troubles(&cluster.troubles).into(),
        ]);
    }
    table
}

/// Conditions of the Application, the Release, and its strategy.
fn conditions(
    observed: &Observed,
    release: Option<&Release>,
    now: Timestamp,
    output: Output,
) -> String {
    let mut rows: Vec<(String, ShipperCondition)> = Vec::new();
    let mut add = |of: String, conditions: &[ShipperCondition]| {
        rows.extend(conditions.iter().map(|one| (of.clone(), one.clone())));
    };
    let application = observed.application.as_ref();
    let application = application.filter(|_| observed.named.is_none());
    if let Some(status) = application.and_then(|application| application.status.as_ref()) {
        add(observed.target().to_string(), &status.conditions);
    }
    if let Some(release) = release
        && let Some(status) = &release.status
    {
        let name = release.metadata.name.as_deref().unwrap_or_default();
        add(format!("rel/{name}"), &status.conditions);
        let strategy = status.strategy.iter();
        rows.extend(strategy.flat_map(|it| it.conditions.iter().cloned().map(of_step)));
    }
    if rows.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&["OF", "CONDITION", "STATUS", "REASON", "SINCE", "MESSAGE"]);
    for (of, condition) in rows {
        table.row([
            of,
            condition.type_,
            condition.status.to_string(),
            condition.reason,
            age(condition.last_transition_time.map(|time| time.0), now),
            condition.message,
        ]);
    }
    format!("\n{}", table.render(output))
}

/// A condition of the strategy in the form of other conditions, with the step that it is about.
fn of_step(condition: StrategyCondition) -> (String, ShipperCondition) {
    let StrategyCondition {
        type_,
        status,
        last_transition_time,
        reason,
        message,
        step,
    } = condition;
    let condition = ShipperCondition {
        type_,
        status,
        last_transition_time,
        reason,
        message,
    };
    (format!("step {step}"), condition)
}

/// The state as a value for programs.
pub fn value(observed: &Observed, verdict: &Verdict) -> Value {
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
            Outcome::Underway if verdict.waits_for_command() => "WaitingForCommand",
            Outcome::Underway => "Underway",
            Outcome::Failed => "Failed",
        },
        "message": message(verdict),
        "conditions": observed.application.as_ref().and_then(|it| it.status.as_ref()).map(|it| &it.conditions),
        "release": release.map(|release| json!({
            "name": release.metadata.name,
            "targetStep": release.spec.target_step,
            "achievedStep": achieved(release),
            "status": release.status,
            "waitingFor": unsatisfied(release),
            "clusters": cluster_values(&clusters(observed, release)),
        })),
    })
}

#[cfg(test)]
mod tests {
    use baton_view::applications::state::judge;

    use super::*;
    use crate::application::fixtures::{NOW, mid_rollout, observed};

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
