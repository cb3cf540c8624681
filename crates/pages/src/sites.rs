//! A deployment to sites: its waves, and a grid of all sites.

use std::fmt::Write as _;

use baton_apis::url::escape;
use baton_sites::rollout::standing::SiteState;
use baton_text::{
    fleet::{history, line, note, state, state_paint, title, words},
    output::Paint,
    status::{paint, special},
};
use baton_view::{
    lists::{Lists, NoAnswer, Question},
    sites::{
        fleet::{Counts, Fleet},
        history::lines,
        observed::{Observed, status},
        question::SiteQuestion,
        state::SitePicture,
        target::SiteTarget,
        verdict::judge,
    },
};
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;

use crate::{
    action::{Action, link},
    html::{Part, Text, address, ago, badge, class, conditions, headings, table},
    page::{Around, Page},
    regions::Regions,
    site,
    subject::are_names,
};

const SITES: [&str; 7] = ["Site", "State", "Wave", "Runs", "Queue", "Since", "Message"];

/// The number of squares in the grid. A status can claim any number of sites.
const MAX_SQUARES: usize = 20_000;
/// The number of squares in a line of the grid.
const COLUMNS: usize = 100;
/// The size of a square with its gap, in units of the drawing.
const CELL: usize = 10;

/// All states, those to show first before others.
const STATES: [SiteState; 10] = [
    SiteState::Failed,
    SiteState::InFlight,
    SiteState::Offline,
    SiteState::Window,
    SiteState::Queued,
    SiteState::Leaving,
    SiteState::ToCome,
    SiteState::Soaking,
    SiteState::RolledBack,
    SiteState::Updated,
];

/// The name of a state in addresses and classes.
fn key(state: SiteState) -> String {
    format!("{state:?}")
}

/// The sites to list.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct SitesFilter {
    /// The state of the sites, or `all`; those that the rollout waits for if it is absent.
    state: Option<String>,
    /// Part of the names of the sites.
    q: Option<String>,
    /// The page of the list, from 1 on.
    page: Option<usize>,
    /// The only site to show, with its revisions.
    site: Option<String>,
}

/// The page of a deployment to sites.
#[derive(Clone)]
pub struct SitesPage {
    target: SiteTarget,
    namespace: String,
    filter: SitesFilter,
}

impl SitesPage {
    /// The page of a named deployment; `None` if it cannot be a name.
    pub fn new(namespace: &str, name: &str, filter: SitesFilter) -> Option<Self> {
        are_names(namespace, name).then(|| Self {
            target: SiteTarget::deployment(name),
            namespace: namespace.to_owned(),
            filter,
        })
    }
}

impl Question for SitesPage {
    type Answer = Observed;

    const PAGE: u32 = SiteQuestion::<Observed>::PAGE;

    fn answer(&self, lists: &Lists) -> Result<Observed, NoAnswer> {
        SiteQuestion::<Observed>::new(&self.target, &self.namespace).answer(lists)
    }

    fn trim(object: &mut Value) {
        SiteQuestion::<Observed>::trim(object);
    }
}

impl Page for SitesPage {
    fn name(&self) -> String {
        self.target.to_string()
    }

    fn question(&self) -> String {
        format!("{} {}", self.target, self.namespace)
    }

    fn key(&self) -> String {
        format!("{:?}", self.filter)
    }

    fn content(&self, observed: &Observed, around: Around<'_>, regions: &mut Regions) -> Markup {
        let verdict = judge(&observed.deployment);
        let fleet = Fleet::of(observed, around.now);
        let head = html! {
            div #head {
                h1 { (Text(&self.name())) }
                p.facts {
                    (badge(paint(verdict.outcome), &verdict.state.to_string()))
                    " namespace " (Text(&self.namespace))
                }
                p.message { (Text(&line(observed, &verdict, ": "))) }
                @if around.has_actions { (self.changes(observed, around)) }
                @if let Err(why) = &observed.clusters {
                    p.message { "Clusters cannot be read, so sites that are offline may be missing: " (Text(why)) }
                }
            }
        };
        let head = regions.add("head".to_owned(), head);
        if let Some(name) = &self.filter.site {
            let site = regions.add("site".to_owned(), site::content(observed, name, around));
            let page = address(around.base, "sites", &self.namespace, &self.target.name);
            return html! { (head) (site) p { a href=(page) { "All sites" } } };
        }
        let waves = regions.add("waves".to_owned(), waves(&fleet));
        let grid = regions.add("grid".to_owned(), grid(&fleet));
        let list = regions.add("list".to_owned(), self.list(&fleet, around));
        let status = status(&observed.deployment);
        let special = special(&self.target, &status.conditions);
        let below = html! {
            div #below { (history(observed, around)) (conditions(&special, around.now)) }
        };
        let below = regions.add("below".to_owned(), below);
        html! {
            (head) (waves) (grid)
            section {
                h2 #list-title { "Sites" }
                (self.form())
                (list)
            }
            (below)
        }
    }
}

impl SitesPage {
    /// The links to changes.
    fn changes(&self, observed: &Observed, around: Around<'_>) -> Markup {
        let page = &address(around.base, "sites", &self.namespace, &self.target.name);
        html! {
            p.links {
                @if observed.deployment.spec.paused {
                    (link(page, Action::Resume, &[], "Resume"))
                } @else {
                    (link(page, Action::Pause, &[], "Pause"))
                }
                " " (link(page, Action::Abort, &[], "Abort"))
                " " (link(page, Action::Rollback, &[], "Roll back"))
                " " (link(page, Action::Redeploy, &[], "Select the sites again"))
            }
        }
    }
}

/// The waves with the number of sites in each state.
fn waves(fleet: &Fleet) -> Markup {
    let spans = fleet.spans(&[]);
    let rows = spans
        .iter()
        .map(|span| (title(span), &span.counts, Some(span.last) == fleet.current));
    let rest = [
        ("already up to date", &fleet.already),
        ("in no wave yet", &fleet.later),
    ];
    let rest = rest.into_iter().filter(|(_, counts)| counts.total() > 0);
    let rest = rest.map(|(title, counts)| (title.to_owned(), counts, false));
    let rows: Vec<Markup> = rows
        .chain(rest)
        .map(|(title, counts, is_current)| {
            html! {
                tr aria-current=[is_current.then_some("step")] {
                    th scope="row" { (title) }
                    td { (counts.total()) }
                    td { (counts.count(SiteState::is_updated)) }
                    td { (bar(counts)) " " (words(counts)) }
                }
            }
        })
        .collect();
    html! {
        section #waves {
            h2 #waves-title { "Waves" }
            (table("waves", "waves-title", &headings(["Wave", "Sites", "Updated", "States"]), &rows))
        }
    }
}

const ROLLOUTS: [&str; 6] = ["Rollout", "Version", "Sites", "Run it", "Begun", "Note"];

/// The rollouts of the deployment, the newest first.
fn history(observed: &Observed, around: Around<'_>) -> Markup {
    let lines = lines(observed, None);
    let rows: Vec<Markup> = lines
        .iter()
        .rev()
        .map(|line| {
            html! {
                tr aria-current=[line.is_current.then_some("true")] {
                    td { @if let Some(rollout) = line.rollout { (rollout) } }
                    th scope="row" { (Text(&line.version)) }
                    td { (line.given) }
                    td { (line.runs.unwrap_or(0)) }
                    td { (ago(line.created, around.now)) }
                    td.message { (Text(&history::note(line))) }
                }
            }
        })
        .collect();
    html! {
        @if !rows.is_empty() {
            section {
                h2 #history { "Rollouts" }
                (table("rollouts", "history", &headings(ROLLOUTS), &rows))
            }
        }
    }
}

/// The states of sites as parts of a bar.
fn bar(counts: &Counts) -> Markup {
    let total = counts.total().max(1);
    let mut at = 0;
    let parts: Vec<(SiteState, usize, usize)> = counts
        .iter()
        .map(|(state, count)| {
            let begin = at * 200 / total;
            at += count;
            (state, begin, at * 200 / total - begin)
        })
        .collect();
    html! {
        svg.bar viewBox="0 0 200 10" aria-hidden="true" {
            @for (state, begin, width) in parts {
                rect.(class(Some(state_paint(state)))) x=(begin) y="0" width=(width) height="10" {}
            }
        }
    }
}

/// Sites as squares, in the order of their states. The squares of a state are one path, so that ten
/// thousand are drawn at once.
fn grid(fleet: &Fleet) -> Markup {
    let states: Vec<(SiteState, usize)> = fleet.counts.iter().collect();
    let total = fleet.counts.total();
    let drawn = total.min(MAX_SQUARES);
    let mut at = 0;
    let paths: Vec<(SiteState, String)> = states
        .iter()
        .map(|(state, count)| {
            let mut path = String::new();
            for index in at.min(drawn)..(at + count).min(drawn) {
                let (x, y) = (index % COLUMNS * CELL, index / COLUMNS * CELL);
                // Writing into a string cannot fail.
                let _ = write!(path, "M{x} {y}h8v8h-8z");
            }
            at += count;
            (*state, path)
        })
        .collect();
    let view = format!(
        "0 0 {} {}",
        COLUMNS * CELL,
        drawn.div_ceil(COLUMNS).max(1) * CELL
    );
    html! {
        section #grid {
            h2 #grid-title { (total) " sites" }
            ul.legend {
                @for (state, count) in &states {
                    li {
                        a href={ "?state=" (key(*state)) } {
                            span.square.own.(class(Some(state_paint(*state)))).(key(*state)) {}
                            " " (count) " " (baton_text::fleet::state(*state))
                        }
                    }
                }
            }
            @if total > drawn { p { "The first " (drawn) " of them:" } }
            svg.grid viewBox=(view) role="img" aria-label=(words(&fleet.counts)) {
                @for (state, path) in &paths {
                    path.(class(Some(state_paint(*state)))).(key(*state)) d=(path) {
                        title { (baton_text::fleet::state(*state)) }
                    }
                }
            }
        }
    }
}

impl SitesPage {
    /// True if a site is listed.
    fn is_listed(&self, site: &SitePicture) -> bool {
        let part = self.filter.q.as_deref().unwrap_or_default();
        let is_of_state = match self.filter.state.as_deref() {
            None | Some("") => site.state.is_open() || !part.is_empty(),
            Some("all") => true,
            Some(state) => key(site.state) == state,
        };
        is_of_state && site.name.contains(part)
    }

    /// The sites that the filter selects.
    fn list(&self, fleet: &Fleet, around: Around<'_>) -> Markup {
        let sites = fleet.sorted(|site| self.is_listed(site));
        let part = Part::of(&sites, self.filter.page);
        let listed = part.shown.iter();
        let rows: Vec<Markup> = listed.map(|site| site_row(site, around)).collect();
        let SitesFilter { state, q, .. } = &self.filter;
        html! {
            div #list {
                @if sites.is_empty() {
                    p { "No site is selected." }
                } @else {
                    (table("sites", "list-title", &headings(SITES), &rows))
                    (part.pager("Pages of sites", &[("state", state.as_deref()), ("q", q.as_deref())]))
                }
            }
        }
    }

    /// The filter. It is no part of a region: changes of the list do not touch what the user fills in.
    fn form(&self) -> Markup {
        let state_filter = self.filter.state.as_deref().unwrap_or_default();
        let part = self.filter.q.as_deref().unwrap_or_default();
        html! {
            form.filter method="get" {
                label { "Name contains " input type="search" name="q" value=(Text(part)); }
                label { "State "
                    select name="state" {
                        option value="" selected[state_filter.is_empty()] { "under way or failed" }
                        option value="all" selected[state_filter == "all"] { "all" }
                        @for one in STATES {
                            @let value = key(one);
                            option value=(value) selected[state_filter == value] { (state(one)) }
                        }
                    }
                }
                button { "Show" }
            }
        }
    }
}

fn site_row(site: &SitePicture, around: Around<'_>) -> Markup {
    let paint: Paint = state_paint(site.state);
    html! {
        tr {
            th scope="row" { a href={ "?site=" (escape(&site.name)) } { (Text(&site.name)) } }
            td { (badge(paint, state(site.state))) }
            td { @if let Some(wave) = site.wave { (wave) } }
            td { (Text(site.runs.as_deref().unwrap_or_default())) }
            td { @if site.queue > 0 { (site.queue) } }
            td { (ago(site.since, around.now)) }
            td.message { (Text(&note(site))) }
        }
    }
}
