//! An Application: its clusters as rows, its Releases as columns, and the steps of the rollout.

use baton_apis::{Release, RolloutStep, kinds, url::escape};
use baton_releases::blocks::is_paused;
use baton_text::{
    application::{
        pods, state_word,
        verdict::{message, notes, reason, troubles},
        weights,
    },
    output::Paint,
    status::sentence,
};
use baton_view::{
    applications::{
        clusters::ClusterPicture,
        observed::Observed,
        picture::{AppPicture, ReleasePicture, Role, picture},
        question::OneApplication,
        state::judge,
        target::AppTarget,
    },
    lists::{Lists, NoAnswer, Question},
    tree::Health,
};
use maud::{Markup, html};

use crate::{
    action::{Action, link},
    html::{Text, address, ago, badge, headings, table},
    page::{Around, Page},
    regions::{Regions, id},
    subject::are_names,
};

/// The page of an Application.
#[derive(Clone, Debug)]
pub struct ApplicationPage(OneApplication);

impl ApplicationPage {
    /// The page of a named Application; `None` if it cannot be a name.
    pub fn new(namespace: &str, name: &str) -> Option<Self> {
        let question = OneApplication {
            target: AppTarget {
                kind: &kinds::APPLICATION,
                name: name.to_owned(),
            },
            namespace: namespace.to_owned(),
        };
        are_names(namespace, name).then_some(Self(question))
    }
}

impl Question for ApplicationPage {
    type Answer = Observed;

    fn answer(&self, lists: &Lists) -> Result<Observed, NoAnswer> {
        self.0.answer(lists)
    }
}

impl Page for ApplicationPage {
    fn name(&self) -> String {
        self.0.target.to_string()
    }

    fn question(&self) -> String {
        format!("{} {}", self.0.target, self.0.namespace)
    }

    fn content(&self, observed: &Observed, around: Around<'_>, regions: &mut Regions) -> Markup {
        let drawn = picture(observed, Ok(&[]));
        let verdict = judge(observed);
        let (paint, words) = state_word(drawn.state);
        let remarks = notes(&drawn.notes);
        let page = address(
            around.base,
            "applications",
            &drawn.namespace,
            &self.0.target.name,
        );
        let head = html! {
            div #head {
                h1 { (Text(&observed.target().to_string())) }
                p.facts { (badge(paint, words)) " namespace " (Text(&drawn.namespace)) }
                p.message { (Text(&sentence(&message(&verdict)))) }
                @if !remarks.is_empty() { p.message { (Text(&remarks)) } }
                @if around.has_actions { (changes(observed, &page)) }
            }
        };
        let head = regions.add("head".to_owned(), head);
        let contender = drawn
            .releases
            .iter()
            .find(|release| release.role == Some(Role::Contender));
        let steps = contender.and_then(|drawn| Some((drawn, observed.release(&drawn.name)?)));
        let steps = steps.map(|(drawn, release)| steps_table(drawn, release));
        let steps = regions.add(
            "steps".to_owned(),
            html! { div #steps { @if let Some(steps) = steps { (steps) } } },
        );
        let clusters = cluster_table(&drawn, regions);
        let releases = regions.add(
            "releases".to_owned(),
            release_table(observed, &drawn, &page, around),
        );
        html! { (head) (steps) (clusters) (releases) }
    }
}

/// The links to changes.
fn changes(observed: &Observed, page: &str) -> Markup {
    let is_paused = observed.application.as_ref().is_some_and(is_paused);
    html! {
        p.links {
            @if is_paused {
                (link(page, Action::Resume, &[], "Resume"))
            } @else {
                (link(page, Action::Pause, &[], "Pause"))
            }
            " " (link(page, Action::Promote, &[], "Promote"))
            " " (link(page, Action::Abort, &[], "Abort"))
            " " (link(page, Action::Rollback, &[], "Roll back"))
        }
    }
}

/// The steps of the strategy of the newest Release.
fn steps_table(drawn: &ReleasePicture, release: &Release) -> Markup {
    let strategy = release.spec.environment.strategy.as_ref();
    let steps: &[RolloutStep] = strategy.map_or(&[], |strategy| &strategy.steps);
    let achieved = drawn.achieved_step.as_ref().map(|step| step.index);
    let rows: Vec<Markup> = (0..)
        .zip(steps)
        .map(|(index, step)| {
            let is_wanted = drawn.wanted_step.index == index;
            html! {
                tr aria-current=[is_wanted.then_some("step")] {
                    th scope="row" { (index) " " (Text(&step.name)) }
                    td { (step.capacity.contender) "% new, " (step.capacity.incumbent) "% old" }
                    td { (step.traffic.contender) " new, " (step.traffic.incumbent) " old" }
                    td {
                        @if achieved == Some(index) { (badge(Paint::Good, "achieved")) " " }
                        @if is_wanted && achieved != Some(index) { (badge(Paint::Warn, "wanted")) }
                    }
                }
            }
        })
        .collect();
    html! {
        section {
            h2 #steps-title { "Steps of release " (Text(&drawn.name)) }
            (table("steps", "steps-title", &headings(["Step", "Capacity", "Traffic", "State"]), &rows))
        }
    }
}

/// The Releases that have pods or traffic somewhere, or a role in the rollout.
fn shown(drawn: &AppPicture) -> Vec<&ReleasePicture> {
    let releases = drawn.releases.iter();
    releases
        .filter(|release| release.role.is_some() || !release.is_idle())
        .collect()
}

/// The names of the clusters of Releases, in order.
fn names<'a>(releases: &[&'a ReleasePicture]) -> Vec<&'a str> {
    let clusters = releases.iter().flat_map(|release| &release.clusters);
    let mut names: Vec<&str> = clusters.map(|cluster| cluster.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn cluster_table(drawn: &AppPicture, regions: &mut Regions) -> Markup {
    let releases = shown(drawn);
    let names = names(&releases);
    let rows: Vec<Markup> = names
        .iter()
        .map(|name| {
            let region = id(&["cluster", name]);
            let service = drawn
                .service
                .iter()
                .find(|service| service.cluster == *name);
            let row = html! {
                tr #(region) {
                    th scope="row" { @if name.is_empty() { "this cluster" } @else { (Text(name)) } }
                    @for release in &releases {
                        @let cluster = release.clusters.iter().find(|it| it.name == *name);
                        td { @if let Some(cluster) = cluster { (cell(cluster)) } }
                    }
                    td {
                        @for holder in service.into_iter().flat_map(|service| &service.releases) {
                            div { (holder.percent) "% " (Text(&holder.name)) }
                        }
                    }
                }
            };
            regions.add(region, row)
        })
        .collect();
    let mut headings = vec![html! { "Cluster" }];
    headings.extend(releases.iter().map(|release| {
        html! { (Text(&release.name)) @if let Some(role) = release.role { " " (role_badge(role)) } }
    }));
    headings.push(html! { "Traffic of the Service" });
    html! {
        section {
            h2 #clusters { "Clusters" }
            @if rows.is_empty() {
                p { "No release has a cluster." }
            } @else {
                (table("clusters", "clusters", &headings, &rows))
            }
        }
    }
}

fn role_badge(role: Role) -> Markup {
    match role {
        Role::Contender => badge(Paint::Accent, "contender"),
        Role::Incumbent => badge(Paint::Dim, "incumbent"),
    }
}

/// A Release in a cluster: pods and traffic, there and wanted.
fn cell(cluster: &ClusterPicture) -> Markup {
    let good = |is_there| if is_there { Paint::Good } else { Paint::Warn };
    let trouble = troubles(&cluster.troubles);
    html! {
        @if let Some(capacity) = cluster.capacity {
            div {
                @let available = capacity.available_pods.unwrap_or_default();
                progress max=(capacity.wanted_pods.max(available).max(1)) value=(available) aria-hidden="true" {}
                " " (badge(good(capacity.is_there()), &pods(capacity)))
            }
        }
        @if let Some(traffic) = cluster.traffic {
            div { "traffic " (badge(good(traffic.is_there()), &weights(traffic))) }
        }
        @match cluster.installed {
            Health::True => {}
            Health::False => { div { (badge(Paint::Bad, "not installed")) } }
            Health::Unknown => { div { (badge(Paint::Warn, "unknown")) } }
        }
        @if !trouble.is_empty() { div.message { (Text(&trouble)) } }
    }
}

const RELEASES: [&str; 7] = [
    "Generation",
    "Release",
    "State",
    "Chart",
    "Step",
    "Age",
    "Message",
];

/// All Releases, the newest first.
fn release_table(
    observed: &Observed,
    drawn: &AppPicture,
    page: &str,
    around: Around<'_>,
) -> Markup {
    let rows: Vec<Markup> = drawn
        .releases
        .iter()
        .map(|release| {
            let (paint, words) = state_word(release.state);
            let chart = observed.release(&release.name).map(|it| &it.spec.environment.chart);
            html! {
                tr {
                    td { @if let Some(generation) = release.generation { (generation) } }
                    th scope="row" {
                        a href=(revisions_of(around.base, &drawn.namespace, &release.name)) { (Text(&release.name)) }
                    }
                    td { (badge(paint, words)) }
                    td { @if let Some(chart) = chart { (Text(&chart.name)) " " (Text(&chart.version)) } }
                    td { (Text(&release.wanted_step.label)) }
                    td { (ago(release.created, around.now)) }
                    td.message {
                        @if let Some(why) = &release.reason { (Text(&reason(why))) }
                        @if let (true, Some(of)) = (around.has_actions, release.generation) {
                            @if release.role != Some(Role::Contender) {
                                " " (link(page, Action::Rollback, &[("to", &of.to_string())], "Roll back to it"))
                            }
                        }
                    }
                }
            }
        })
        .collect();
    html! {
        section #releases {
            h2 #releases-title { "Releases" }
            @if rows.is_empty() {
                p { "There is no release yet." }
            } @else {
                (table("releases", "releases-title", &headings(RELEASES), &rows))
            }
        }
    }
}

/// The address of the overview of the revisions that install a Release: their names begin with its name.
fn revisions_of(base: &str, namespace: &str, release: &str) -> String {
    let (namespace, release) = (escape(namespace), escape(release));
    format!("{base}/?namespace={namespace}&parts=1&q={release}")
}
