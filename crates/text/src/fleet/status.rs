//! The state of a deployment to sites on one screen, and as a value for programs.

use std::fmt::Write as _;

use baton_sites::rollout::standing::SiteState;
use baton_view::{
    rollout::Outcome,
    sites::{
        fleet::{Counts, Fleet},
        observed::{Observed, status},
        verdict::{State, Verdict},
    },
};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::{line, message, numbers};
use crate::{
    output::{
        Output, Paint,
        table::{Cell, Table},
    },
    status::{condition_table, special, title_line, words},
};

/// Renders the state for people; every line ends with a newline.
pub fn text(
    observed: &Observed,
    fleet: &Fleet,
    verdict: &Verdict,
    now: Timestamp,
    output: Output,
) -> String {
    let target = observed.target();
    let namespace = observed.deployment.metadata.namespace.as_deref();
    let mut text = title_line(
        &target,
        namespace,
        verdict.outcome,
        words(verdict.outcome),
        output,
    );
    let _ = writeln!(text, "{}", output.wrap(&line(observed, verdict, ": ")));
    if verdict.state == State::Aborted {
        let line = format!("`kubectl baton rollback {target}` goes back to the version before");
        let _ = writeln!(text, "{}", output.wrap(&line));
    }
    if !fleet.waves.is_empty() || fleet.already.total() > 0 {
        text.push('\n');
        text.push_str(&wave_table(fleet).render(output));
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
    text + &condition_table(&special(&target, &status.conditions), now, output)
}

/// The number of sites in each state, by wave.
fn wave_table(fleet: &Fleet) -> Table {
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
            match counts.count(SiteState::is_updated) {
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
    for span in fleet.spans(&[]) {
        let is_current = Some(span.last) == fleet.current;
        table.row(row(is_current, &numbers(&span), &span.counts));
    }
    for (title, counts) in [("already", &fleet.already), ("later", &fleet.later)] {
        if counts.total() > 0 {
            table.row(row(false, title, counts));
        }
    }
    table
}

/// The state as a value for programs.
pub fn value(observed: &Observed, fleet: &Fleet, verdict: &Verdict) -> Value {
    json!({
        "target": observed.target().full(),
        "namespace": observed.deployment.metadata.namespace,
        "rolledOut": verdict.outcome == Outcome::Done,
        "state": verdict.state,
        "message": message(verdict),
        "status": observed.deployment.status,
        "waves": fleet.waves,
        "already": fleet.already,
        "later": fleet.later,
    })
}

#[cfg(test)]
mod tests {
    use baton_view::sites::verdict::judge;

    use super::{
        super::fixtures::{NOW, mid_rollout, observed, ten_thousand},
        *,
    };

    fn text_of(observed: &Observed) -> String {
        let fleet = Fleet::of(observed, NOW);
        let verdict = judge(&observed.deployment);
        text(observed, &fleet, &verdict, NOW, Output::plain())
    }

    #[test]
    fn the_state_on_one_screen() {
        insta::assert_snapshot!(text_of(&observed(&mid_rollout())));
    }

    #[test]
    fn many_waves_are_a_few_lines() {
        let text = text_of(&ten_thousand());
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
