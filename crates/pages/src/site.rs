//! One site of a deployment: its revisions, its queue, and the time line of its upgrade windows.

use baton_apis::UpgradeWindow;
use baton_sites::window::Windows;
use baton_text::{
    fleet::{note, state, state_paint},
    output::Paint,
};
use baton_view::{
    chain::kind::ChainKind,
    sites::{
        cluster::SiteCluster, fleet::Fleet, observed::Observed, revision::SiteRevision,
        state::SitePicture,
    },
    tree::Health,
};
use k8s_openapi::jiff::{SignedDuration, Timestamp, ToSpan as _};
use maud::{Markup, html};

use crate::{
    html::{Text, ago, badge, chain_address, headings, table},
    page::Around,
};

const REVISIONS: [&str; 6] = [
    "Revision", "Version", "Rollout", "State", "Created", "Message",
];

/// The step of the time line.
const STEP: SignedDuration = SignedDuration::from_mins(15);
/// The number of steps of the time line: two days.
const STEPS: i32 = 192;
/// The width of a step in units of the drawing.
const WIDTH: i32 = 5;

/// The content about a site; a remark if the deployment has nothing to do with it.
pub(crate) fn content(observed: &Observed, name: &str, around: Around<'_>) -> Markup {
    let fleet = Fleet::of(observed, around.now);
    let sites = fleet.sorted(|site| site.name == name);
    let cluster = observed.clusters.as_ref().ok().and_then(|it| it.get(name));
    let chain = observed.chains.get(name).map(Vec::as_slice);
    html! {
        div #site {
            h2 { "Site " (Text(name)) }
            @match sites.first() {
                Some(site) => (facts(site, around)),
                None => p { "The deployment does not select this site." },
            }
            @if let Some(cluster) = cluster { (connection(cluster, around)) }
            (revisions(chain.unwrap_or_default(), around))
            @if let Some(cluster) = cluster { (windows(&cluster.windows, around.now)) }
        }
    }
}

fn facts(site: &SitePicture, around: Around<'_>) -> Markup {
    html! {
        p.facts {
            (badge(state_paint(site.state), state(site.state)))
            @if let Some(wave) = site.wave { " wave " (wave) }
            @if let Some(version) = &site.runs { " runs " (Text(version)) }
            @if site.since.is_some() { " since " (ago(site.since, around.now)) }
        }
        p.message { (Text(&note(site))) }
    }
}

fn connection(cluster: &SiteCluster, around: Around<'_>) -> Markup {
    let (paint, words) = match cluster.connected {
        Health::True => (Paint::Good, "connected"),
        Health::False => (Paint::Bad, "not connected"),
        Health::Unknown => (Paint::Warn, "unknown"),
    };
    html! {
        p.facts {
            "Cluster: " (badge(paint, words)) " " (Text(&cluster.reason)) " " (ago(cluster.since, around.now))
            " " (Text(&cluster.connection)) " " (Text(&cluster.region))
        }
    }
}

/// The revisions of the site, the newest first: those of the queue are not begun yet.
fn revisions(chain: &[SiteRevision], around: Around<'_>) -> Markup {
    let rows: Vec<Markup> = chain
        .iter()
        .rev()
        .map(|one| revision(one, around))
        .collect();
    html! {
        section {
            h3 #revisions { "Revisions and queue" }
            @if rows.is_empty() {
                p { "The site has no revision of this deployment." }
            } @else {
                (table("revisions", "revisions", &headings(REVISIONS), &rows))
            }
        }
    }
}

fn revision(revision: &SiteRevision, around: Around<'_>) -> Markup {
    let (paint, words) = if revision.is_deleting {
        (Paint::Warn, "being deleted")
    } else if revision.is_skipped() {
        (Paint::Dim, "skipped")
    } else if revision.is_over() {
        (Paint::Dim, "archived")
    } else if revision.is_queued() {
        (Paint::Warn, "queued")
    } else if revision.is_available() {
        (Paint::Good, "available")
    } else {
        (Paint::Warn, "rolling out")
    };
    let kind = ChainKind::ObjectSet;
    let namespace = Some(revision.namespace.as_str());
    let address = chain_address(around.base, kind, namespace, &revision.name);
    html! {
        tr {
            th scope="row" { a href=(address) { (Text(&revision.name)) } }
            td { (Text(&revision.entry.version)) }
            td { (revision.entry.rollout) }
            td { (badge(paint, words)) }
            td { (ago(revision.reported.created, around.now)) }
            td.message { (Text(revision.message())) }
        }
    }
}

/// The time line of the next two days, with the times at which upgrades may begin.
fn windows(windows: &[UpgradeWindow], now: Timestamp) -> Markup {
    if windows.is_empty() {
        return html! { p { "The cluster has no upgrade windows: upgrades may begin at any time." } };
    }
    let compiled = match Windows::compile(windows) {
        Ok(compiled) => compiled,
        Err(why) => {
            return html! { p.message { "Its upgrade windows are not valid: " (Text(&why.to_string())) } };
        }
    };
    let at = |step: i32| {
        now.checked_add(STEP.checked_mul(step).unwrap_or_default())
            .unwrap_or(now)
    };
    let open: Vec<(i32, i32)> = spans((0..STEPS).map(|step| compiled.is_open(at(step))));
    let next = compiled.next_opening(now);
    let view = format!("0 0 {} 24", STEPS * WIDTH);
    html! {
        section {
            h3 { "Upgrade windows of the cluster" }
            p {
                @match next {
                    Some(next) if next <= now => "Open now.",
                    Some(next) => { "Closed. The next one opens at " (format!("{next:.0}")) "." },
                    None => "No window opens in the next year.",
                }
            }
            svg.windows viewBox=(view) role="img" aria-label="The windows of the next two days" {
                rect.ground x="0" y="4" width=(STEPS * WIDTH) height="12" {}
                @for (from, to) in &open {
                    rect.open x=(from * WIDTH) y="4" width=((to - from) * WIDTH) height="12" {
                        title { (format!("{:.0}", at(*from))) " to " (format!("{:.0}", at(*to))) }
                    }
                }
                @for hours in [0, 12, 24, 36] {
                    text x=(hours * 4 * WIDTH) y="24" { (hour(now, hours)) }
                }
            }
        }
    }
}

/// The time in some hours, for the time line.
fn hour(now: Timestamp, hours: i32) -> String {
    let at = now.checked_add(hours.hours()).unwrap_or(now);
    at.strftime("%a %H:%M UTC").to_string()
}

/// The ranges of steps at which a state holds.
fn spans(holds: impl Iterator<Item = bool>) -> Vec<(i32, i32)> {
    let mut spans: Vec<(i32, i32)> = Vec::new();
    for (step, _) in (0..).zip(holds).filter(|(_, holds)| *holds) {
        match spans.last_mut() {
            Some((_, end)) if *end == step => *end = step + 1,
            _ => spans.push((step, step + 1)),
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_steps_are_joined() {
        let of = |text: &str| spans(text.chars().map(|it| it == 'x'));
        assert_eq!(of(""), []);
        assert_eq!(of("..xx.x"), [(2, 4), (5, 6)]);
        assert_eq!(of("xxx"), [(0, 3)]);
    }
}
