//! The picture of an Application: its Releases, what each cluster has of them, and the revisions that install them.

use std::collections::{BTreeMap, BTreeSet};

use baton_apis::{Release, constants::CLASS_CLUSTER_PREFIX};
use baton_engine::texts::collapse_whitespace;
use baton_releases::{
    application::history::{Member, is_complete},
    strategy::achieved,
};
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;

use super::{
    clusters::{ClusterPicture, TrafficSums, Trouble, chosen},
    observed::Observed,
    state::{Reason, Verdict, about, judge_application, judge_release, label_at, step_at},
};
use crate::{
    rollout::Outcome,
    tree::{ChainPicture, RevisionPicture},
};

/// An Application with its Releases.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AppPicture {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// False if it is gone and Releases of it are left.
    pub exists: bool,
    /// Its state, in one word.
    pub state: AppState,
    /// Remarks about it as a whole.
    #[serde(skip)]
    pub notes: Vec<Note>,
    /// The Releases that get traffic of the Service, by cluster.
    pub service: Vec<ServicePicture>,
    /// The newest first; those without a generation come last.
    pub releases: Vec<ReleasePicture>,
}

/// Something about an Application as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Note {
    /// The reason of its state.
    Reason(Reason),
    /// A condition of it, in words.
    Condition(String),
    /// These Releases have the same generation, so that their order is a guess.
    SameGeneration(String, String, i64),
    /// Its revisions cannot be read, for this reason.
    NoRevisions(String),
}

/// The state of an Application or a Release, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum AppState {
    /// All of the last step is there.
    Complete,
    /// Waiting is of no use.
    Failed,
    /// It waits to be promoted.
    Waiting,
    /// It is on its way to the wanted step.
    RollingOut,
    /// It is being deleted.
    Deleting,
    /// It is gone, and Releases of it are left.
    Gone,
    /// It has no generation, so that its place among the others is unknown.
    Unknown,
}

impl AppState {
    fn of(verdict: &Verdict) -> Self {
        match verdict.outcome {
            Outcome::Done => Self::Complete,
            Outcome::Failed => Self::Failed,
            Outcome::Underway if verdict.waits_for_command() => Self::Waiting,
            Outcome::Underway => Self::RollingOut,
        }
    }
}

/// The Releases that get traffic in a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ServicePicture {
    /// Name of the cluster.
    pub cluster: String,
    /// The Releases that get traffic there.
    pub releases: Vec<HolderPicture>,
}

/// A Release that gets traffic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HolderPicture {
    /// Its name.
    pub name: String,
    /// Its part of the traffic.
    pub percent: u64,
}

/// A Release with what each cluster has of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReleasePicture {
    /// Its name.
    pub name: String,
    /// Its generation; `None` if it has none.
    pub generation: Option<i64>,
    /// `None` if it has no part in the present rollout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// Its state, in one word.
    pub state: AppState,
    /// The step that it is to be at.
    pub wanted_step: StepPicture,
    /// The step that it has reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub achieved_step: Option<StepPicture>,
    /// True if its last step was reached once.
    pub complete: bool,
    /// True while it is being deleted.
    pub deleting: bool,
    /// Its time of creation.
    pub created: Option<Timestamp>,
    /// The cause of its wait or its failure; `None` if it is complete.
    #[serde(skip)]
    pub reason: Option<Reason>,
    /// Its parts in clusters.
    pub clusters: Vec<ClusterPicture>,
}

/// The part of a Release in a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Role {
    /// The newest one.
    Contender,
    /// The one that the newest replaces.
    Incumbent,
}

/// A step of a strategy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StepPicture {
    /// Its index, which begins with 0.
    pub index: i32,
    /// Its name.
    pub name: String,
    /// As people read it: `1 (50/50)`.
    #[serde(skip)]
    pub label: String,
}

impl ReleasePicture {
    /// True if it has nothing anywhere, and is to have nothing.
    pub fn is_idle(&self) -> bool {
        self.clusters.iter().all(ClusterPicture::is_idle)
    }
}

/// Draws an Application, with the revisions of its Releases as [`crate::tree`] has drawn them, or why they could not
/// be.
pub fn picture(observed: &Observed, chains: Result<&[ChainPicture], &str>) -> AppPicture {
    let revisions: Vec<&RevisionPicture> = chains
        .unwrap_or_default()
        .iter()
        .flat_map(|chain| &chain.revisions)
        .collect();
    let history = observed.known_history();
    let roles = [
        (history.newest(), Role::Contender),
        (history.incumbent(), Role::Incumbent),
    ];
    let sums = TrafficSums::of(observed);
    let mut releases: Vec<ReleasePicture> = observed
        .releases()
        .into_iter()
        .map(|(generation, release)| {
            let clusters = sums.clusters(observed, release);
            let mut drawn = release_picture(observed, generation, release, clusters);
            let is_own =
                |it: &(Option<&Member<'_>>, Role)| it.0.map(Member::name) == Some(&drawn.name);
            drawn.role = roles.iter().find(|it| is_own(it)).map(|it| it.1);
            attach(&mut drawn, release, &revisions);
            drawn
        })
        .collect();
    // Newest first, and behind them those of which nobody knows. Of the same generation, the order is that of before.
    releases.reverse();
    releases.sort_by_key(|release| std::cmp::Reverse(release.generation));
    let verdict = judge_application(observed);
    let state = match &observed.application {
        None => AppState::Gone,
        Some(it) if it.metadata.deletion_timestamp.is_some() => AppState::Deleting,
        Some(_) => AppState::of(&verdict),
    };
    AppPicture {
        name: observed.name.clone(),
        namespace: observed.namespace.clone(),
        exists: observed.application.is_some(),
        state,
        notes: notes(observed, verdict, &releases, chains.err()),
        service: service(&releases),
        releases,
    }
}

fn notes(
    observed: &Observed,
    verdict: Verdict,
    releases: &[ReleasePicture],
    unreadable: Option<&str>,
) -> Vec<Note> {
    let mut notes = Vec::new();
    if verdict.release.is_some() {
        // The reason is said with the Release that it is about.
        notes.extend(about(observed).map(Note::Condition));
    } else {
        notes.push(Note::Reason(verdict.reason));
        notes.extend(verdict.about.map(Note::Condition));
    }
    let mut pairs = releases.windows(2);
    let twins = pairs.find_map(|pair| {
        let generation = pair[0].generation?;
        let is_same = pair[1].generation == Some(generation);
        let names = [&pair[0], &pair[1]].map(|release| release.name.clone());
        is_same.then_some((names, generation))
    });
    notes.extend(twins.map(|([a, b], generation)| Note::SameGeneration(a, b, generation)));
    notes.extend(unreadable.map(|why| Note::NoRevisions(why.to_owned())));
    notes
}

fn release_picture(
    observed: &Observed,
    generation: Option<i64>,
    release: &Release,
    clusters: Vec<ClusterPicture>,
) -> ReleasePicture {
    let verdict = judge_release(observed, release);
    let deleting = release.metadata.deletion_timestamp.is_some();
    let step = |index: i32| StepPicture {
        index,
        name: step_at(release, index)
            .map_or_else(String::new, |step| collapse_whitespace(&step.name)),
        label: label_at(release, index),
    };
    let created = release.metadata.creation_timestamp.as_ref();
    let name = release.metadata.name.clone().unwrap_or_default();
    ReleasePicture {
        generation,
        role: None,
        state: match generation {
            _ if deleting => AppState::Deleting,
            None => AppState::Unknown,
            Some(_) => AppState::of(&verdict),
        },
        wanted_step: step(release.spec.target_step),
        achieved_step: achieved(release).map(step),
        complete: is_complete(release),
        deleting,
        created: created.map(|time| time.0),
        reason: match verdict.outcome {
            Outcome::Done => None,
            _ if generation.is_none() => Some(Reason::NoGeneration),
            _ => Some(verdict.reason),
        },
        clusters,
        name,
    }
}

/// Puts revisions to the clusters that they install the Release in: those of a class of their cluster by that, and the
/// one without to what is left.
fn attach(drawn: &mut ReleasePicture, release: &Release, revisions: &[&RevisionPicture]) {
    let own = revisions.iter().copied();
    let own = own.filter(|revision| revision.release.as_ref() == Some(&drawn.name));
    let (elsewhere, here): (Vec<_>, Vec<_>) = own.partition(|revision| class(revision).is_some());
    let mut taken = BTreeSet::new();
    for revision in elsewhere {
        let cluster = class(revision).unwrap_or_default();
        taken.insert(cluster);
        match free_slot(drawn, cluster) {
            Some(slot) => *slot = Some(revision.clone()),
            None => drawn.clusters.push(ClusterPicture {
                name: cluster.to_owned(),
                troubles: vec![Trouble::NotOfRelease],
                revision: Some(revision.clone()),
                ..ClusterPicture::default()
            }),
        }
    }
    for revision in here {
        let free = chosen(release).filter(|name| !taken.contains(name));
        let free: Vec<&str> = free.collect();
        // Several are free while the others have no revision yet: then the name tells.
        let named = free.iter().copied();
        let named = named.filter(|cluster| revision.name.ends_with(&format!("-{cluster}")));
        let cluster = match free[..] {
            [only] => only,
            _ => named
                .max_by_key(|cluster| cluster.len())
                .unwrap_or_default(),
        };
        match free_slot(drawn, cluster) {
            Some(slot) => {
                taken.insert(cluster);
                *slot = Some(revision.clone());
            }
            None => drawn.clusters.push(ClusterPicture {
                revision: Some(revision.clone()),
                ..ClusterPicture::default()
            }),
        }
    }
}

/// The place for the revision in a cluster, if nothing is there yet.
fn free_slot<'d>(
    drawn: &'d mut ReleasePicture,
    cluster: &str,
) -> Option<&'d mut Option<RevisionPicture>> {
    let mut clusters = drawn.clusters.iter_mut();
    let found = clusters.find(|drawn| drawn.name == cluster && drawn.revision.is_none());
    found.map(|drawn| &mut drawn.revision)
}

/// The cluster that the phases of a revision are delivered into; `None` for its own.
fn class(revision: &RevisionPicture) -> Option<&str> {
    let mut phases = revision.phases.iter().flatten();
    phases.find_map(|phase| phase.class.strip_prefix(CLASS_CLUSTER_PREFIX))
}

fn service(releases: &[ReleasePicture]) -> Vec<ServicePicture> {
    let mut service: BTreeMap<&str, Vec<HolderPicture>> = BTreeMap::new();
    for release in releases {
        for cluster in release.clusters.iter().filter(|it| !it.name.is_empty()) {
            // Where nobody has said how much is wanted, there may be none to have.
            let Some(traffic) = cluster.traffic else {
                continue;
            };
            let holders = service.entry(&cluster.name).or_default();
            let name = release.name.clone();
            let percent = traffic.service_percent;
            let percent = percent.filter(|_| traffic.achieved_weight.is_some_and(|it| it > 0));
            holders.extend(percent.map(|percent| HolderPicture { name, percent }));
        }
    }
    let service = service.into_iter();
    let pictures = service.map(|(cluster, releases)| ServicePicture {
        cluster: cluster.to_owned(),
        releases,
    });
    pictures.collect()
}
