//! Sentences about a rollout over sites, and its tree: waves, with the sites to show first.

pub mod application;
#[cfg(test)]
#[path = "../../view/src/sites/fixtures.rs"]
pub(crate) mod fixtures;
pub mod history;
pub mod inventory;
pub mod status;
pub mod steer;

use crate::time::{age, duration};
use baton_sites::rollout::standing::SiteState;
// The fixtures use these modules.
#[cfg(test)]
use baton_view::sites::{cluster, observed, revision};
use baton_view::sites::{
    fleet::{Counts, Fleet, Span},
    observed::{Observed, status},
    revision::Report,
    state::{SitePicture, StateReason},
    verdict::{Reason, Verdict, judge},
};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    status::paint,
    tree::{self, Node, draw},
};
use crate::output::{Output, Paint, table::Cell};

const HEADINGS: [&str; 6] = ["NAME", "SITES", "RUNS", "QUEUE", "SINCE", "MESSAGE"];

/// The number of sites that are shown one by one if there is room.
pub const MAX_SHOWN: usize = 20;

/// The parts of a fleet to draw.
#[derive(Clone, Copy, Debug)]
pub struct FleetStyle {
    /// True if only the sites for which the rollout waits are shown one by one. Sites whose turn has
    /// not come are counted only.
    pub unhealthy: bool,
    /// Maximum number of sites that are shown one by one. If the fleet has no more sites, all of them
    /// are shown.
    pub few: usize,
    /// The present time.
    pub now: Timestamp,
}

/// Renders the tree; every line ends with a newline.
pub fn render(observed: &Observed, fleet: &Fleet, style: FleetStyle, output: Output) -> String {
    let verdict = judge(&observed.deployment);
    let chosen = chosen(fleet, style);
    let name = Cell::painted(Paint::Strong, observed.target().to_string());
    let root = Node {
        name: name.and(paint(verdict.outcome), format!(" {}", verdict.state)),
        cells: cells(&fleet.counts),
        message: line(observed, &verdict, "; "),
        children: waves(observed, fleet, &chosen, style.now),
    };
    draw(&HEADINGS, [root], output) + &notes(observed, fleet, &chosen, output)
}

/// The sites that are shown one by one, in order.
fn chosen(fleet: &Fleet, style: FleetStyle) -> Vec<&SitePicture> {
    if style.unhealthy || fleet.counts.total() > style.few {
        return fleet.worst(style.few);
    }
    fleet.sorted(|_| true)
}

/// The rollout and the reason that it waits, as in `rollout 3, 1.1.0 -> 1.2.0: REASON`, separated
/// by `before`.
pub fn line(observed: &Observed, verdict: &Verdict, before: &str) -> String {
    match about(observed) {
        about if about.is_empty() => message(verdict),
        about => format!("{about}{before}{}", message(verdict)),
    }
}

/// The rollout and its versions, as in `rollout 3, 1.1.0 -> 1.2.0`; empty before the first one.
fn about(observed: &Observed) -> String {
    let status = status(&observed.deployment);
    let (Some(rollout), Some(version)) = (status.rollout, status.version) else {
        return String::new();
    };
    let paused = if observed.deployment.spec.paused {
        ", paused"
    } else {
        ""
    };
    match status.previous_version {
        Some(previous) => format!("rollout {rollout}, {previous} -> {version}{paused}"),
        None => format!("rollout {rollout}, {version}{paused}"),
    }
}

/// The waves with their chosen sites.
fn waves(observed: &Observed, fleet: &Fleet, chosen: &[&SitePicture], now: Timestamp) -> Vec<Node> {
    let batch = status(&observed.deployment).batch;
    let sites = |is_in: &dyn Fn(&SitePicture) -> bool| -> Vec<Node> {
        let of_wave = chosen.iter().filter(|site| is_in(site));
        of_wave.map(|drawn| site(drawn, now)).collect()
    };
    let spans = fleet.spans(chosen).into_iter();
    let mut nodes: Vec<Node> = spans
        .map(|span| {
            let mut name = Cell::from(title(&span));
            if let Some(batch) = batch.as_ref().filter(|batch| batch.number == span.last) {
                name = name.and(Paint::Accent, format!(" of {}", batch.of.max(batch.number)));
            }
            Node {
                name,
                cells: cells(&span.counts),
                message: words(&span.counts),
                children: sites(&|site| {
                    site.wave
                        .is_some_and(|it| span.first <= it && it <= span.last)
                }),
            }
        })
        .collect();
    let rest = [
        ("already up to date", &fleet.already, true),
        ("in no wave yet", &fleet.later, false),
    ];
    for (name, counts, is_updated) in rest {
        if counts.total() > 0 {
            nodes.push(Node {
                name: name.into(),
                cells: cells(counts),
                message: words(counts),
                children: sites(&|site| {
                    site.wave.is_none() && site.state.is_updated() == is_updated
                }),
            });
        }
    }
    nodes
}

fn site(drawn: &SitePicture, now: Timestamp) -> Node {
    let state = format!(" {}", state(drawn.state));
    Node {
        name: Cell::from("site ")
            .and(Paint::Strong, &drawn.name)
            .and(state_paint(drawn.state), state),
        cells: vec![
            Cell::default(),
            drawn.runs.clone().unwrap_or_default().into(),
            some(drawn.queue),
            since(drawn.since, now),
        ],
        message: note(drawn),
        children: Vec::new(),
    }
}

/// The meaning of the state of a site.
pub fn state_paint(state: SiteState) -> Paint {
    match state {
        SiteState::Failed => Paint::Bad,
        SiteState::InFlight | SiteState::Offline | SiteState::Soaking => Paint::Warn,
        SiteState::Window | SiteState::Queued | SiteState::Leaving | SiteState::ToCome => {
            Paint::Dim
        }
        SiteState::RolledBack => Paint::Accent,
        SiteState::Updated => Paint::Good,
    }
}

/// The cells between name and message in a line for several sites.
fn cells(counts: &Counts) -> Vec<Cell> {
    let mut cells = vec![Cell::default(); HEADINGS.len() - 2];
    cells[0] = tree::counts(counts.count(SiteState::is_updated), counts.total());
    cells
}

/// The cell of a number; empty for zero.
fn some(number: usize) -> Cell {
    match number {
        0 => Cell::default(),
        number => number.to_string().into(),
    }
}

/// The cell of the age of a time; empty if the time is not known.
fn since(then: Option<Timestamp>, now: Timestamp) -> Cell {
    then.map_or_else(Cell::default, |_| age(then, now).into())
}

/// Notes about sites that are not shown, and about lists that cannot be read.
fn notes(observed: &Observed, fleet: &Fleet, chosen: &[&SitePicture], output: Output) -> String {
    let mut notes = Vec::new();
    let open = fleet.counts.count(SiteState::is_open);
    let shown = chosen.iter().filter(|site| site.state.is_open()).count();
    if open > shown {
        notes.push(format!(
            "{shown} of {open} sites that are not updated are shown; `-o json` prints all, and --site SITE shows one"
        ));
    }
    if let Err(why) = &observed.clusters {
        notes.push(format!(
            "Clusters cannot be read, so sites that are offline may be missing: {why}"
        ));
    }
    let notes = notes.iter().map(|note| output.wrap(note) + "\n");
    notes.collect()
}

/// The tree as a value for programs.
pub fn value(observed: &Observed, fleet: &Fleet) -> Value {
    let status = status(&observed.deployment);
    let verdict = judge(&observed.deployment);
    let mut sites = json!(fleet);
    for (value, site) in sites["sites"]
        .as_array_mut()
        .into_iter()
        .flatten()
        .zip(&fleet.sites)
    {
        value["message"] = note(site).into();
    }
    json!({
        "name": observed.name(),
        "namespace": observed.deployment.metadata.namespace,
        "state": verdict.state,
        "message": message(&verdict),
        "rollout": status.rollout,
        "version": status.version,
        "previousVersion": status.previous_version,
        "paused": observed.deployment.spec.paused,
        "fleet": sites,
    })
}

/// The reason of a verdict, in one line.
pub fn message(verdict: &Verdict) -> String {
    match &verdict.reason {
        Reason::Deleting => "it is being deleted".to_owned(),
        Reason::SpecUnobserved => {
            "waiting for the manager to report on the present spec".to_owned()
        }
        Reason::Unobserved => "waiting for the manager to report on it".to_owned(),
        Reason::Complete {
            version,
            updated,
            sites,
            ..
        } if updated >= sites => format!("version {version} is in all {sites} sites"),
        Reason::Complete {
            version,
            updated,
            sites,
            offline,
        } => {
            let are = if *offline == 1 { "is" } else { "are" };
            format!("version {version} is in {updated} of {sites} sites; {offline} {are} offline")
        }
        Reason::Reported(message) => message.clone(),
    }
}

/// The state of a site in a sentence.
pub fn state(state: SiteState) -> &'static str {
    match state {
        SiteState::Failed => "failed",
        SiteState::InFlight => "in flight",
        SiteState::Offline => "offline",
        SiteState::Window => "waiting for a window",
        SiteState::Queued => "queued",
        SiteState::Leaving => "leaving",
        SiteState::ToCome => "to come",
        SiteState::Soaking => "soaking",
        SiteState::RolledBack => "rolled back",
        SiteState::Updated => "updated",
    }
}

/// The counts in words: `2 failed, 3 in flight, 4 updated`.
pub fn words(counts: &Counts) -> String {
    let parts = counts.iter();
    let parts: Vec<String> = parts
        .map(|(one, count)| format!("{count} {}", state(one)))
        .collect();
    parts.join(", ")
}

/// The title of a span: `wave 3`, `waves 1 to 40`.
pub fn title(span: &Span) -> String {
    let wave = if span.first == span.last {
        "wave"
    } else {
        "waves"
    };
    format!("{wave} {}", numbers(span))
}

/// The numbers of a span: `3`, `1 to 40`.
fn numbers(span: &Span) -> String {
    if span.first == span.last {
        span.first.to_string()
    } else {
        format!("{} to {}", span.first, span.last)
    }
}

/// The reason of the state of a site; empty when all is well.
pub fn note(site: &SitePicture) -> String {
    match &site.note {
        None => String::new(),
        Some(StateReason::Leaving) => {
            "not placed any more: its objects are being deleted".to_owned()
        }
        Some(StateReason::Reported(report)) => why(report),
        Some(StateReason::Late(deadline, report)) => {
            let deadline = duration(deadline.unsigned_abs());
            format!("not available after {deadline}: {}", why(report))
        }
        Some(StateReason::Lost(report)) => format!("not available any more: {}", why(report)),
    }
}

/// A report in one line: `ProbeFailure: no pods`.
fn why(Report { reason, message }: &Report) -> String {
    match (reason.as_str(), message.as_str()) {
        (reason, "") => reason.to_owned(),
        ("", message) => message.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    }
}

#[cfg(test)]
mod tests {
    use baton_apis::{SiteDeployment, SiteDeploymentStatus, conditions::Reason};
    use baton_view::rollout::Outcome;

    use fixtures::{NOW, condition, deployment, mid_rollout, observed, ten_thousand};

    use super::*;

    const STYLE: FleetStyle = FleetStyle {
        unhealthy: false,
        few: MAX_SHOWN,
        now: NOW,
    };

    fn drawn(observed: &Observed, style: FleetStyle) -> String {
        let fleet = Fleet::of(observed, NOW);
        render(observed, &fleet, style, Output::plain())
    }

    #[test]
    fn a_rollout_in_its_middle() {
        insta::assert_snapshot!(drawn(&observed(&mid_rollout()), STYLE));
    }

    #[test]
    fn a_narrow_terminal() {
        let observed = observed(&mid_rollout());
        let narrow = Output {
            width: Some(80),
            ..Output::plain()
        };
        let fleet = Fleet::of(&observed, NOW);
        insta::assert_snapshot!(render(&observed, &fleet, STYLE, narrow));
    }

    #[test]
    fn ten_thousand_sites_are_counts_and_the_worst() {
        let text = drawn(&ten_thousand(), STYLE);
        assert!(text.lines().count() < 30, "{text}");
        insta::assert_snapshot!(text);
    }

    #[test]
    fn healthy_sites_are_left_out_on_request() {
        let unhealthy = FleetStyle {
            unhealthy: true,
            ..STYLE
        };
        let text = drawn(&observed(&mid_rollout()), unhealthy);
        assert!(!text.contains("eu-3") && text.contains("eu-4"), "{text}");
    }

    #[test]
    fn unreadable_clusters_and_a_missing_status_are_reported() {
        let mut observed = observed(&mid_rollout());
        observed.clusters = Err("clusters is forbidden".to_owned());
        observed.deployment.status = None;
        let text = drawn(&observed, STYLE);
        assert!(
            text.ends_with("may be missing: clusters is forbidden\n"),
            "{text}"
        );
        assert!(text.contains("sitedeploy/shop Pending"), "{text}");
    }

    fn judged(conditions: &[Value], change: impl Fn(&mut SiteDeployment)) -> (Outcome, String) {
        let mut deployment: SiteDeployment = serde_json::from_value(deployment("shop")).unwrap();
        let status = deployment
            .status
            .get_or_insert(SiteDeploymentStatus::default());
        status.conditions = serde_json::from_value(conditions.into()).unwrap();
        change(&mut deployment);
        let verdict = judge(&deployment);
        (
            verdict.outcome,
            format!("{}: {}", verdict.state, message(&verdict)),
        )
    }

    #[test]
    fn a_rollout_is_judged_by_its_reported_status() {
        use Outcome::{Done, Failed, Underway};
        let complete = || condition("Progressing", "False", Reason::Complete, "");
        let rolling = || condition("Progressing", "True", Reason::RollingOut, "wave 2 of 3");
        let missing = || condition("Waiting", "True", Reason::VersionNotFound, "no 9.9");
        let keep = |_: &mut SiteDeployment| {};
        for (conditions, expected, text) in [
            (vec![], Underway, "Pending: waiting for the manager"),
            (vec![rolling()], Underway, "RollingOut: wave 2 of 3"),
            (
                vec![condition("Progressing", "True", Reason::Soaking, "")],
                Underway,
                "Soaking: Soaking",
            ),
            (
                vec![complete()],
                Done,
                "Complete: version 1.2.0 is in 3 of 10 sites; 1 is offline",
            ),
            (
                vec![
                    complete(),
                    condition("Available", "False", "X", "eu-1 is not"),
                ],
                Underway,
                "NotAvailable: eu-1 is not",
            ),
            (
                vec![
                    complete(),
                    condition("Available", "Unknown", "X", "all 3 are offline"),
                ],
                Underway,
                "NotAvailable: all 3 are offline",
            ),
            (
                vec![
                    condition("Progressing", "False", "Aborted", ""),
                    condition("Aborted", "True", Reason::SiteFailed, "eu-4\n failed"),
                ],
                Failed,
                "Aborted: eu-4 failed",
            ),
            (
                vec![condition("Progressing", "False", "X", ""), missing()],
                Underway,
                "Waiting: no 9.9",
            ),
            (
                vec![
                    condition("Placed", "False", "InvalidExpression", "at 4"),
                    rolling(),
                ],
                Failed,
                "NotPlaced: at 4",
            ),
            (
                vec![
                    condition("Placed", "False", "Overlapping", "other"),
                    rolling(),
                ],
                Underway,
                "RollingOut: wave",
            ),
            (
                vec![
                    condition("Progressing", "False", "InvalidStrategy", "x"),
                    condition("Stalled", "True", "InvalidStrategy", "no canary"),
                ],
                Failed,
                "Stopped: no canary",
            ),
        ] {
            let (outcome, message) = judged(&conditions, keep);
            assert_eq!(outcome, expected, "{message}");
            assert!(message.starts_with(text), "{message}");
        }
        let stale = judged(&[complete()], |it| it.metadata.generation = Some(99));
        assert_eq!(stale.0, Underway);
        let paused = judged(&[rolling()], |it| it.spec.paused = true);
        assert_eq!(paused.1, "Paused: wave 2 of 3");
        let deleted = judged(&[complete()], |it| {
            it.metadata.deletion_timestamp = it.metadata.creation_timestamp.clone();
        });
        assert_eq!(deleted.0, Failed);
        let all = judged(&[complete()], |it| {
            it.status.as_mut().unwrap().counts.updated = 10;
        });
        assert_eq!(all.1, "Complete: version 1.2.0 is in all 10 sites");
    }
}
