//! Everything that rolls out: chains, Applications and deployments to sites.

use baton_apis::kinds;
use baton_engine::names::is_label;
use baton_text::overview::{Line, lines};
use baton_view::{
    chain::kind::ChainKind,
    lists::{Lists, NoAnswer, Question},
    overview::{Overview, OverviewOf},
    selection::Selection,
};
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;

use crate::{
    html::{Part, Text, address, ago, badge, chain_address, headings, ready, table},
    page::{Around, Page},
    regions::{Regions, id},
};

const HEADINGS: [&str; 7] = [
    "Namespace",
    "Name",
    "Revision",
    "State",
    "Since",
    "Ready",
    "Message",
];

/// The lines to show. It is kept in the address.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct OverviewFilter {
    /// The only namespace; all if it is absent or empty.
    namespace: Option<String>,
    /// `open` for those that are not rolled out; all if it is absent or empty.
    state: Option<String>,
    /// Part of the names.
    q: Option<String>,
    /// Present if the chains of Applications and of deployments to sites are shown as well.
    parts: Option<String>,
    /// The page of the table, from 1 on.
    page: Option<usize>,
}

/// The page of everything that rolls out.
#[derive(Clone, Debug)]
pub struct OverviewPage {
    filter: OverviewFilter,
}

impl OverviewPage {
    /// The page with a filter; `None` if the namespace cannot be a name.
    pub fn new(filter: OverviewFilter) -> Option<Self> {
        let namespace = filter.namespace.as_deref().unwrap_or_default();
        (namespace.is_empty() || is_label(namespace)).then_some(Self { filter })
    }

    fn of(&self) -> OverviewOf {
        let namespace = self.filter.namespace.clone().unwrap_or_default();
        OverviewOf(Selection {
            all_namespaces: namespace.is_empty(),
            namespace,
            ..Selection::default()
        })
    }

    fn is_shown(&self, line: &Line) -> bool {
        let part = self.filter.q.as_deref().unwrap_or_default();
        let is_of_state = self.filter.state.as_deref() != Some("open") || !line.is_fine;
        let is_whole = self.filter.parts.is_some() || !line.is_part;
        is_of_state && is_whole && line.target.contains(part)
    }
}

impl Question for OverviewPage {
    type Answer = Overview;

    fn answer(&self, lists: &Lists) -> Result<Overview, NoAnswer> {
        self.of().answer(lists)
    }

    fn trim(object: &mut Value) {
        OverviewOf::trim(object);
    }
}

impl Page for OverviewPage {
    fn name(&self) -> String {
        "Overview".to_owned()
    }

    fn question(&self) -> String {
        format!(
            "overview {}",
            self.filter.namespace.as_deref().unwrap_or_default()
        )
    }

    fn key(&self) -> String {
        format!("{:?}", self.filter)
    }

    fn content(&self, answer: &Overview, around: Around<'_>, regions: &mut Regions) -> Markup {
        let all = lines(answer);
        let whole = all.iter().filter(|line| !line.is_part);
        let open = whole.clone().filter(|line| !line.is_fine).count();
        let shown: Vec<&Line> = all.iter().filter(|line| self.is_shown(line)).collect();
        let part = Part::of(&shown, self.filter.page);
        let rows: Vec<Markup> = part
            .shown
            .iter()
            .map(|line| row(line, around, regions))
            .collect();
        let counts = html! {
            p #counts { (whole.count()) " rollouts, " (open) " not rolled out; " (shown.len()) " selected" }
        };
        let counts = regions.add("counts".to_owned(), counts);
        html! {
            h1 #overview { "Overview" }
            (self.form())
            (counts)
            @if rows.is_empty() {
                p { "Nothing is selected." }
            } @else {
                (table("rollouts", "overview", &headings(HEADINGS), &rows))
                (self.pager(&part))
            }
        }
    }
}

impl OverviewPage {
    fn pager(&self, part: &Part<'_, &Line>) -> Markup {
        let OverviewFilter {
            namespace,
            state,
            q,
            parts,
            page: _,
        } = &self.filter;
        let filter = [
            ("namespace", namespace),
            ("state", state),
            ("q", q),
            ("parts", parts),
        ];
        part.pager(
            "Pages of rollouts",
            &filter.map(|(name, value)| (name, value.as_deref())),
        )
    }

    fn form(&self) -> Markup {
        let OverviewFilter {
            namespace,
            state,
            q,
            parts,
            page: _,
        } = &self.filter;
        let is_open = state.as_deref() == Some("open");
        html! {
            form.filter method="get" {
                label { "Namespace " input name="namespace" value=(Text(namespace.as_deref().unwrap_or_default())); }
                label { "Name contains " input type="search" name="q" value=(Text(q.as_deref().unwrap_or_default())); }
                label { "State "
                    select name="state" {
                        option value="" selected[!is_open] { "all" }
                        option value="open" selected[is_open] { "not rolled out" }
                    }
                }
                label {
                    input type="checkbox" name="parts" value="1" checked[parts.is_some()];
                    " with the chains of Applications and sites"
                }
                button { "Show" }
            }
        }
    }
}

fn row(line: &Line, around: Around<'_>, regions: &mut Regions) -> Markup {
    let region = id(&["row", &line.namespace, &line.target]);
    let content = html! {
        tr #(region) {
            td { (Text(&line.namespace)) }
            th scope="row" { a href=[page_of(around.base, line)] { (Text(&line.target)) } }
            td { (Text(&line.revision)) }
            td { (badge(line.paint, line.verdict)) }
            td { (ago(line.since, around.now)) }
            td { (ready(line.ready, line.of)) }
            td.message { (Text(&line.message)) }
        }
    };
    regions.add(region, content)
}

/// The address of the page of a line, by the kind in its target.
fn page_of(base: &str, line: &Line) -> Option<String> {
    let (kind, name) = line.target.split_once('/')?;
    if kind == kinds::APPLICATION.shortest() {
        return Some(address(base, "applications", &line.namespace, name));
    }
    if kind == kinds::SITE_DEPLOYMENT.shortest() {
        return Some(address(base, "sites", &line.namespace, name));
    }
    let kind = ChainKind::ALL
        .into_iter()
        .find(|it| it.shortest() == kind)?;
    let namespace = kind.is_namespaced.then_some(line.namespace.as_str());
    Some(chain_address(base, kind, namespace, name))
}
