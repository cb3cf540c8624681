//! A deployment to sites as text: waves, with the sites that people want to see first.

use baton_sites::rollout::standing::SiteState;
use baton_terminal::time::age;
use k8s_openapi::jiff::Timestamp;

use super::{
    fleet::{Counts, Fleet},
    read::{Observed, status},
    state::{SitePicture, words},
    verdict::{Verdict, judge},
};
use crate::{
    output::{
        Output, Paint,
        table::{Cell, Table},
    },
    text::tree::{Branches, Node, place},
};

const HEADINGS: [&str; 6] = ["NAME", "SITES", "RUNS", "QUEUE", "SINCE", "MESSAGE"];

/// How many sites are shown one by one where there is room.
pub(crate) const SHOWN: usize = 20;

/// How much of it is drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FleetStyle {
    /// Only the sites at which something is waited for, and not only their turn, however few there are.
    pub(crate) unhealthy: bool,
    /// So many sites are shown one by one. If there are no more, all of them are.
    pub(crate) few: usize,
    pub(crate) now: Timestamp,
}

/// The text; every line ends with a newline.
pub(crate) fn render(
    observed: &Observed,
    fleet: &Fleet,
    style: FleetStyle,
    output: Output,
) -> String {
    let verdict = judge(&observed.deployment);
    let chosen = chosen(fleet, style);
    let name = Cell::painted(Paint::Strong, observed.target().to_string());
    let root = Node {
        name: name.and(paint(&verdict), format!(" {}", verdict.state)),
        cells: cells(Some(&fleet.counts)),
        message: message(observed, &verdict),
        children: waves(observed, fleet, &chosen, style.now),
    };
    let mut table = Table::new(&HEADINGS);
    place(root, "", "", Branches::of(output), &mut table);
    table.render(output) + &notes(observed, fleet, &chosen, output)
}

pub(crate) fn paint(verdict: &Verdict) -> Paint {
    use baton_view::rollout::Outcome;
    match verdict.outcome {
        Outcome::Done => Paint::Good,
        Outcome::Underway => Paint::Warn,
        Outcome::Failed => Paint::Bad,
    }
}

/// The sites that are shown one by one, in the order in which they are.
fn chosen(fleet: &Fleet, style: FleetStyle) -> Vec<&SitePicture> {
    if style.unhealthy || fleet.counts.total() > style.few {
        return fleet.worst(style.few);
    }
    let mut all: Vec<&SitePicture> = fleet.sites.iter().collect();
    all.sort_by_key(|site| (site.state, site.since.is_none(), site.since, &site.name));
    all
}

/// `rollout 3, 1.1.0 -> 1.2.0; what it waits for`
fn message(observed: &Observed, verdict: &Verdict) -> String {
    let about = about(observed);
    if about.is_empty() {
        return verdict.message.clone();
    }
    format!("{about}; {}", verdict.message)
}

/// `rollout 3, 1.1.0 -> 1.2.0`, as far as there is one.
pub(crate) fn about(observed: &Observed) -> String {
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

/// The waves with the chosen sites in them. Neighbours that are through and have no site to show are one line.
fn waves(observed: &Observed, fleet: &Fleet, chosen: &[&SitePicture], now: Timestamp) -> Vec<Node> {
    let batch = status(&observed.deployment).batch;
    let current = batch.as_ref().map(|batch| batch.number);
    let sites = |is_in: &dyn Fn(Option<i32>) -> bool| -> Vec<Node> {
        let of_wave = chosen.iter().filter(|site| is_in(site.wave));
        of_wave.map(|drawn| site(drawn, now)).collect()
    };
    let is_dull = |number: i32, counts: &Counts| {
        let is_shown = chosen.iter().any(|site| site.wave == Some(number));
        counts.is_settled() && !is_shown && Some(number) != current
    };
    let spans = fleet.spans(|wave| is_dull(wave.number, &wave.counts));
    let mut nodes: Vec<Node> = spans
        .into_iter()
        .map(|span| {
            let mut name = Cell::from(span.title());
            if let Some(batch) = batch.as_ref().filter(|batch| batch.number == span.last) {
                name = name.and(Paint::Accent, format!(" of {}", batch.of.max(batch.number)));
            }
            Node {
                name,
                cells: cells(Some(&span.counts)),
                message: span.counts.words(),
                children: sites(&|wave| wave.is_some_and(|it| span.first <= it && it <= span.last)),
            }
        })
        .collect();
    if fleet.later.total() > 0 {
        nodes.push(Node {
            name: Cell::from("in no wave yet"),
            cells: cells(Some(&fleet.later)),
            message: fleet.later.words(),
            children: sites(&|wave| wave.is_none()),
        });
    }
    nodes
}

fn site(drawn: &SitePicture, now: Timestamp) -> Node {
    let state = format!(" {}", words(drawn.state));
    let queue = match drawn.queue {
        0 => String::new(),
        queue => queue.to_string(),
    };
    let since = drawn
        .since
        .map_or_else(String::new, |_| age(drawn.since, now));
    Node {
        name: Cell::from("site ")
            .and(Paint::Strong, &drawn.name)
            .and(paint_of(drawn.state), state),
        cells: vec![
            Cell::default(),
            drawn.runs.clone().unwrap_or_default().into(),
            queue.into(),
            since.into(),
        ],
        message: drawn.message.clone(),
        children: Vec::new(),
    }
}

pub(crate) fn paint_of(state: SiteState) -> Paint {
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

/// The cells between name and message of a line about several sites.
fn cells(counts: Option<&Counts>) -> Vec<Cell> {
    let mut cells = vec![Cell::default(); HEADINGS.len() - 2];
    if let Some(counts) = counts {
        let (updated, all) = (counts.updated(), counts.total());
        let paint = if updated == all {
            Paint::Good
        } else {
            Paint::Warn
        };
        cells[0] = Cell::painted(paint, format!("{updated}/{all}"));
    }
    cells
}

/// What is not shown, and what is not known.
fn notes(observed: &Observed, fleet: &Fleet, chosen: &[&SitePicture], output: Output) -> String {
    let mut notes = Vec::new();
    let open = fleet.counts.open();
    let shown = chosen.iter().filter(|site| site.state.is_open()).count();
    if open > shown {
        notes.push(format!(
            "{shown} of {open} sites that need a look are shown; `-o json` has all, --site SITE looks into one"
        ));
    }
    if let Err(why) = &observed.clusters {
        notes.push(format!(
            "Clusters cannot be read, so that sites that are offline may be missed: {why}"
        ));
    }
    let notes = notes.iter().map(|note| output.wrap(note) + "\n");
    notes.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sites::fixtures::{NOW, mid_rollout, observed, ten_thousand};

    const STYLE: FleetStyle = FleetStyle {
        unhealthy: false,
        few: SHOWN,
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
        let observed = ten_thousand();
        let text = drawn(&observed, STYLE);
        assert!(text.lines().count() < 30, "{text}");
        insta::assert_snapshot!(text);
    }

    #[test]
    fn what_is_fine_is_left_out_where_that_is_asked_for() {
        let unhealthy = FleetStyle {
            unhealthy: true,
            ..STYLE
        };
        let text = drawn(&observed(&mid_rollout()), unhealthy);
        assert!(!text.contains("eu-3") && text.contains("eu-4"), "{text}");
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        let mut observed = observed(&mid_rollout());
        observed.clusters = Err("clusters is forbidden".to_owned());
        observed.deployment.status = None;
        let text = drawn(&observed, STYLE);
        assert!(
            text.ends_with("may be missed: clusters is forbidden\n"),
            "{text}"
        );
        assert!(text.contains("sitedeploy/shop Pending"), "{text}");
    }
}
