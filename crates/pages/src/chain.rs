//! A chain: revisions as lanes, phases as columns, and the objects in the lane of their owner.

mod objects;

use std::collections::BTreeSet;

use baton_apis::LifecycleState;
use baton_text::{
    rollout::message,
    status::{paint, sentence, special, words},
    tree::state_paint,
};
use baton_view::{
    chain::{
        Chain,
        member::Revision,
        question::{OneChain, OneRollout},
    },
    content::Slices,
    lists::{Lists, NoAnswer, Question},
    rollout::judge,
    selection::Selection,
    tree::{
        ChainPicture, PhasePicture, RevisionPicture,
        question::{Tree, TreeOf},
    },
};
use maud::{Markup, html};
use serde_json::Value;

use self::objects::cell;
use crate::{
    action::{Action, link},
    events::{self, events},
    html::{Text, ago, badge, chain_address, conditions, headings, ready, table},
    page::{Around, Page},
    regions::{Regions, id},
    subject::ChainSubject,
};

/// The number of revisions that are shown, besides older ones that are not archived.
const MAX_LANES: usize = 100;

/// The number of phases that are shown.
const MAX_COLUMNS: usize = 100;

/// The page of the chain of a deployment or a revision.
#[derive(Clone, Debug)]
pub struct ChainPage(ChainSubject);

impl ChainPage {
    /// The page of a named object.
    pub fn new(subject: ChainSubject) -> Self {
        Self(subject)
    }

    fn tree(&self) -> TreeOf {
        TreeOf {
            selection: Selection {
                targets: vec![self.0.target.clone()],
                namespace: self.0.namespace.clone().unwrap_or_default(),
                ..Selection::default()
            },
            ..TreeOf::default()
        }
    }
}

/// The chain with its objects, and the slices of the judged revision.
pub struct ChainAnswer {
    picture: ChainPicture,
    chain: Chain,
    slices: Slices,
    /// The events about the chain and its objects, or the reason that they cannot be read.
    events: Result<Vec<Value>, String>,
}

impl Question for ChainPage {
    type Answer = ChainAnswer;

    fn answer(&self, lists: &Lists) -> Result<ChainAnswer, NoAnswer> {
        let question = OneChain::new(
            &self.0.target,
            self.0.namespace.as_deref().unwrap_or_default(),
        );
        let missing = question.missing();
        let (tree, rollout) = (
            self.tree().answer(lists),
            OneRollout(question).answer(lists),
        );
        let Tree {
            chains,
            missing: none,
        } = tree?;
        let (Some(picture), Some((chain, slices)), None) =
            (chains.into_iter().next(), rollout?, none)
        else {
            return Err(NoAnswer::Missing(missing));
        };
        let events = events(&picture, &chain, lists)?;
        Ok(ChainAnswer {
            picture,
            chain,
            slices,
            events,
        })
    }

    fn trim(object: &mut Value) {
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("managedFields");
        }
        events::trim(object);
    }
}

impl Page for ChainPage {
    fn name(&self) -> String {
        self.0.target.to_string()
    }

    fn question(&self) -> String {
        format!("{} {:?}", self.0.target, self.0.namespace)
    }

    fn content(&self, answer: &ChainAnswer, around: Around<'_>, regions: &mut Regions) -> Markup {
        let ChainAnswer {
            picture,
            chain,
            slices,
            events,
        } = answer;
        let rollout = judge(chain, slices);
        let subject = chain.subject();
        let head = html! {
            div #head {
                h1 { (Text(&self.0.target.to_string())) }
                p.facts {
                    (badge(paint(rollout.outcome), words(rollout.outcome)))
                    @if let Some(namespace) = &self.0.namespace { " namespace " (Text(namespace)) }
                    @if rollout.of > 0 { " " (ready(rollout.ready, rollout.of)) " objects ready" }
                }
                p.message { (Text(&sentence(&message(&rollout)))) }
                (self.changes(chain, around))
            }
        };
        let head = regions.add("head".to_owned(), head);
        let page = self.0.address(around.base);
        let lanes = lanes(picture, chain, &page, around, regions);
        let deployment = chain.asked_deployment();
        let deployment = deployment.map(|it| (it.target(), &it.status.conditions));
        let revision = subject.map(|it| (it.target(), &it.status.conditions));
        let all = deployment.iter().chain(&revision);
        let all: Vec<_> = all
            .flat_map(|(target, conditions)| special(target, conditions))
            .collect();
        let below = html! {
            div #below {
                @if let Some(revision) = subject { (waiting(revision)) }
                (conditions(&all, around.now))
            }
        };
        let below = regions.add("below".to_owned(), below);
        let events = regions.add("events".to_owned(), events::section(events, around.now));
        html! { (head) (lanes) (below) (events) }
    }
}

impl ChainPage {
    /// The links to changes and to comparisons.
    fn changes(&self, chain: &Chain, around: Around<'_>) -> Markup {
        let page = self.0.address(around.base);
        let rollback = rollback_address(chain, around).unwrap_or_else(|| page.clone());
        let deployment = chain.asked_deployment();
        let subject = chain.subject();
        let is_paused = match deployment {
            Some(deployment) => deployment.spec.paused,
            None => subject.is_some_and(|it| it.spec.lifecycle_state == LifecycleState::Paused),
        };
        let is_ending = deployment.is_none()
            && subject.is_some_and(|it| {
                let is_archived = it.spec.lifecycle_state == LifecycleState::Archived;
                !it.is_archived() && (it.is_deleting() || is_archived)
            });
        html! {
            @if around.has_reports {
                p.links {
                    a href={ (page) "/revision" } { "Manifests" } " "
                    a href={ (page) "/diff" } { "Differences from the revision before" } " "
                    a href={ (page) "/diff?from=live" } { "Differences from the cluster" }
                }
            }
            @if around.has_actions {
                p.links {
                    @if is_paused {
                        (link(&page, Action::Resume, &[], "Resume"))
                    } @else {
                        (link(&page, Action::Pause, &[], "Pause"))
                    }
                    " " (link(&rollback, Action::Rollback, &[], "Roll back"))
                    @if is_ending { " " (link(&page, Action::Abandon, &[], "Abandon its objects")) }
                }
            }
        }
    }
}

/// The address of the deployment that is rolled back in the place of its revisions; `None` without one.
fn rollback_address(chain: &Chain, around: Around<'_>) -> Option<String> {
    let deployment = chain.deployment.as_ref()?;
    let (kind, namespace) = (deployment.kind, deployment.namespace());
    Some(chain_address(
        around.base,
        kind,
        namespace,
        deployment.name(),
    ))
}

/// The objects that a revision waits for.
fn waiting(revision: &Revision) -> Markup {
    let headings = headings(["Phase", "Object", "Reason", "Message"]);
    let rows: Vec<Markup> = revision
        .status
        .waiting_for
        .iter()
        .map(|one| {
            html! {
                tr {
                    td { (Text(&one.phase)) }
                    th scope="row" { (Text(&one.kind)) "/" (Text(&one.name)) }
                    td { (Text(&one.reason)) }
                    td.message { (Text(&one.message)) }
                }
            }
        })
        .collect();
    html! {
        @if !rows.is_empty() {
            section {
                h2 #waiting { "Waiting for" }
                (table("waiting", "waiting", &headings, &rows))
            }
        }
    }
}

/// The names of all phases, those of newer revisions first.
fn columns(picture: &ChainPicture) -> Vec<&str> {
    let phases = picture
        .revisions
        .iter()
        .flat_map(|revision| revision.phases.iter().flatten());
    let mut seen = BTreeSet::new();
    let names = phases.map(|phase| phase.name.as_str());
    let names = names.filter(|name| seen.insert(*name));
    names.take(MAX_COLUMNS).collect()
}

/// The table of revisions and phases.
fn lanes(
    picture: &ChainPicture,
    chain: &Chain,
    page: &str,
    around: Around<'_>,
    regions: &mut Regions,
) -> Markup {
    let columns = columns(picture);
    let all = picture.revisions.iter().enumerate();
    let shown: Vec<&RevisionPicture> = all
        .filter(|(at, revision)| *at < MAX_LANES || revision.phases.is_some())
        .map(|(_, revision)| revision)
        .collect();
    let hidden = picture.revisions.len() - shown.len();
    let rows: Vec<Markup> = shown
        .into_iter()
        .map(|revision| {
            lane(
                (picture, chain, page),
                (revision, &columns),
                around,
                regions,
            )
        })
        .collect();
    let mut headings = vec![html! { "Revision" }];
    headings.extend(
        columns
            .iter()
            .map(|column| html! { "Phase " (Text(column)) }),
    );
    html! {
        section {
            h2 #revisions { "Revisions" }
            @if rows.is_empty() {
                p { "There is no revision yet." }
            } @else {
                (table("lanes", "revisions", &headings, &rows))
            }
            @if hidden > 0 {
                p.dim { (hidden) " older revisions, which are archived, are not shown. "
                    "`kubectl baton history` lists them." }
            }
        }
    }
}

fn lane(
    (picture, chain, page): (&ChainPicture, &Chain, &str),
    (revision, columns): (&RevisionPicture, &[&str]),
    around: Around<'_>,
    regions: &mut Regions,
) -> Markup {
    let head = regions.add(
        id(&["revision", &revision.name]),
        revision_head((picture, chain, page), revision, around),
    );
    let phases = revision.phases.as_deref();
    let cells: Vec<Markup> = columns
        .iter()
        .take_while(|_| phases.is_some())
        .map(|column| {
            let phases = phases.unwrap_or_default().iter();
            // Several phases may have the same name.
            let of_column: Vec<&PhasePicture> =
                phases.filter(|phase| phase.name == *column).collect();
            if of_column.is_empty() {
                return html! { td {} };
            }
            let region = id(&["cell", &revision.name, column]);
            let content = html! {
                td #(region) {
                    @for (at, phase) in of_column.into_iter().enumerate() {
                        (cell(phase, &format!("{region}_{at}")))
                    }
                }
            };
            regions.add(region, content)
        })
        .collect();
    html! {
        tr {
            (head)
            @if phases.is_none() && !columns.is_empty() {
                td.dim colspan=(columns.len()) { "archived" }
            } @else {
                @for cell in &cells { (cell) }
            }
        }
    }
}

fn revision_head(
    (picture, chain, page): (&ChainPicture, &Chain, &str),
    revision: &RevisionPicture,
    around: Around<'_>,
) -> Markup {
    let member = chain.by_name(&revision.name);
    let kind = member.map(|member| member.kind);
    let address = kind.map(|kind| {
        chain_address(
            around.base,
            kind,
            picture.namespace.as_deref(),
            &revision.name,
        )
    });
    html! {
        th #(id(&["revision", &revision.name])) scope="row" {
            span.number { @if let Some(of) = revision.revision { (of) } @else { "?" } }
            " "
            a href=[address] { (Text(&revision.name)) }
            " " (badge(state_paint(revision.state), revision.state.as_str()))
            @if revision.phases.is_some() {
                " " (ready(count(revision.healthy), count(revision.objects)))
            }
            @if let Some(created) = member.and_then(Revision::created) {
                " " span.dim { (ago(Some(created), around.now)) " old" }
            }
            @if let Some(version) = &revision.version { div { "Version " (Text(version)) } }
            @if let Some(release) = &revision.release { div { "Release " (Text(release)) } }
            @if let Some(cause) = member.and_then(Revision::change_cause) { div.cause { (Text(cause)) } }
            @if !revision.message.is_empty() { div.message { (Text(&revision.message)) } }
            @if let Some(of) = revision.revision { (revision_links(chain, of, page, around)) }
        }
    }
}

/// The links of a revision: its manifests, its differences from the one before, and the way back to it.
fn revision_links(chain: &Chain, of: i64, page: &str, around: Around<'_>) -> Markup {
    let oldest = chain.revisions.iter().find_map(Revision::number);
    let current = chain
        .current()
        .or(chain.newest())
        .and_then(Revision::number);
    let rollback = rollback_address(chain, around);
    let rollback = rollback.as_deref().unwrap_or(page);
    html! {
        div.links {
            @if around.has_reports {
                a href={ (page) "/revision?number=" (of) } { "Manifests" }
                @if oldest != Some(of) { " " a href={ (page) "/diff?to=" (of) } { "Differences" } }
            }
            @if around.has_actions && current != Some(of) {
                " " (link(rollback, Action::Rollback, &[("to", &of.to_string())], "Roll back to it"))
            }
        }
    }
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
