//! The clusters and sites, with the versions that run there.

use baton_text::output::Paint;
use baton_view::{
    lists::{Lists, NoAnswer, Question},
    sites::inventory::{Inventory, SiteLine},
    tree::Health,
};
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;

use crate::{
    html::{Part, Text, address, ago, badge, headings, table},
    page::{Around, Page},
    regions::{Regions, id},
};

const HEADINGS: [&str; 8] = [
    "Name",
    "Region",
    "Labels",
    "Connected",
    "Since",
    "Runs",
    "Queue",
    "Message",
];

/// The clusters to show. It is kept in the address.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ClustersFilter {
    /// Part of the names.
    q: Option<String>,
    /// The page of the table, from 1 on.
    page: Option<usize>,
}

/// The page of all clusters.
#[derive(Clone, Debug)]
pub struct ClustersPage(pub ClustersFilter);

impl ClustersPage {
    fn inventory() -> Inventory {
        Inventory {
            names: Vec::new(),
            labels: None,
            namespace: None,
        }
    }
}

impl Question for ClustersPage {
    type Answer = (Vec<SiteLine>, Option<String>);

    const PAGE: u32 = Inventory::PAGE;

    fn answer(&self, lists: &Lists) -> Result<Self::Answer, NoAnswer> {
        Self::inventory().answer(lists)
    }

    fn trim(object: &mut Value) {
        Inventory::trim(object);
    }
}

impl Page for ClustersPage {
    fn name(&self) -> String {
        "Clusters".to_owned()
    }

    fn question(&self) -> String {
        "clusters".to_owned()
    }

    fn key(&self) -> String {
        format!("{:?}", self.0)
    }

    fn content(&self, answer: &Self::Answer, around: Around<'_>, regions: &mut Regions) -> Markup {
        let (lines, unreadable) = answer;
        let wanted = self.0.q.as_deref().unwrap_or_default();
        let selected = lines
            .iter()
            .filter(|line| line.cluster.name.contains(wanted));
        let selected: Vec<&SiteLine> = selected.collect();
        let part = Part::of(&selected, self.0.page);
        let rows: Vec<Markup> = part
            .shown
            .iter()
            .map(|line| row(line, around, regions))
            .collect();
        html! {
            h1 #clusters { "Clusters" }
            @if let Some(why) = unreadable {
                p.message { "Clusters cannot be read, so these are the sites that revisions name: " (Text(why)) }
            }
            @if lines.is_empty() {
                p { "There are no clusters. `kubectl baton clusters join` adds one." }
            } @else {
                form.filter method="get" {
                    label { "Name contains " input type="search" name="q" value=(Text(wanted)); }
                    button { "Show" }
                }
                p { (lines.len()) " clusters, " (selected.len()) " selected" }
                (table("clusters", "clusters", &headings(HEADINGS), &rows))
                (part.pager("Pages of clusters", &[("q", self.0.q.as_deref())]))
            }
        }
    }
}

fn row(line: &SiteLine, around: Around<'_>, regions: &mut Regions) -> Markup {
    let site = &line.cluster;
    let region = id(&["site", &site.name]);
    let connected = match site.connected {
        Health::True => badge(Paint::Good, "connected"),
        Health::False => badge(Paint::Bad, &site.reason),
        Health::Unknown => badge(Paint::Warn, "unknown"),
    };
    let content = html! {
        tr #(region) {
            th scope="row" { (Text(&site.name)) }
            td { (Text(&site.region)) }
            td { @for (key, value) in &site.labels { span.label { (Text(key)) "=" (Text(value)) } " " } }
            td { (connected) }
            td { (ago(site.since, around.now)) }
            td {
                @for run in &line.runs {
                    div {
                        @if let Some(namespace) = &run.namespace {
                            a href=(address(around.base, "sites", namespace, &run.deployment)) {
                                (Text(&run.deployment))
                            }
                        } @else { (Text(&run.deployment)) }
                        " " (Text(run.version.as_deref().unwrap_or("-")))
                    }
                }
            }
            td { @if line.queue > 0 { (line.queue) } }
            td.message { (Text(&line.message)) }
        }
    };
    regions.add(region, content)
}
