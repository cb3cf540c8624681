//! The picture of an Application: its Releases, their state in each cluster, and the revisions that
//! install them.

use std::collections::{BTreeMap, BTreeSet};

use baton_apis::{Release, constants::CLASS_CLUSTER_PREFIX};
use baton_engine::texts::collapse_whitespace;
use baton_releases::{
    application::history::{HistoryEntry, is_complete},
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
    /// Name of the Application.
    pub name: String,
    /// Namespace of the Application.
    pub namespace: String,
    /// False if the Application was deleted and Releases remain.
    pub exists: bool,
    /// State of the Application, in one word.
    pub state: AppState,
    /// Remarks about the Application as a whole.
    #[serde(skip)]
    pub notes: Vec<ApplicationNote>,
    /// The Releases that get traffic of the Service, by cluster.
    pub service: Vec<ServicePicture>,
    /// The Releases, newest first. Releases without a generation come last.
    pub releases: Vec<ReleasePicture>,
}

/// A remark about an Application as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum ApplicationNote {
    /// The reason of the state.
    Reason(Reason),
    /// A condition of the Application, in words.
    Condition(String),
    /// These Releases have the same generation, so their order is a guess.
    SameGeneration(String, String, i64),
    /// The revisions cannot be read, for this reason.
    NoRevisions(String),
}

/// The state of an Application or a Release, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum AppState {
    /// The last step is complete.
    Complete,
    /// Waiting is of no use.
    Failed,
    /// The Release waits for a promotion.
    Waiting,
    /// The Release is on its way to the wanted step.
    RollingOut,
    /// The Release is being deleted.
    Deleting,
    /// The Application was deleted, and Releases remain.
    Gone,
    /// The Release has no generation, so its place in the order is unknown.
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
    /// Name of the Release.
    pub name: String,
    /// Percentage of the traffic.
    pub percent: u64,
}

/// A Release with its state in each cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReleasePicture {
    /// Name of the Release.
    pub name: String,
    /// Generation of the Release; `None` if it has none.
    pub generation: Option<i64>,
    /// Role of the Release in the present rollout; `None` if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// State of the Release, in one word.
    pub state: AppState,
    /// The wanted step.
    pub wanted_step: StepPicture,
    /// The step that was reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub achieved_step: Option<StepPicture>,
    /// True if the last step was reached once.
    pub complete: bool,
    /// True while the Release is being deleted.
    pub deleting: bool,
    /// The time of creation.
    pub created: Option<Timestamp>,
    /// The reason of the wait or the failure; `None` if the Release is complete.
    #[serde(skip)]
    pub reason: Option<Reason>,
    /// State of the Release in each cluster.
    pub clusters: Vec<ClusterPicture>,
}

/// The role of a Release in a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Role {
    /// The newest Release.
    Contender,
    /// The Release that the newest one replaces.
    Incumbent,
}

/// A step of a strategy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StepPicture {
    /// Index of the step, from 0 on.
    pub index: i32,
    /// Name of the step.
    pub name: String,
    /// The step as people read it: `1 (50/50)`.
    #[serde(skip)]
    pub label: String,
}

impl ReleasePicture {
    /// True if the Release has neither pods nor traffic in any cluster, and wants none.
    pub fn is_idle(&self) -> bool {
        self.clusters.iter().all(ClusterPicture::is_idle)
    }
}

/// Draws an Application. `chains` are the drawn revisions of its Releases, or the reason that they
/// cannot be read.
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
            let is_own = |it: &(Option<&HistoryEntry<'_>>, Role)| {
                it.0.map(HistoryEntry::name) == Some(&drawn.name)
            };
            drawn.role = roles.iter().find(|it| is_own(it)).map(|it| it.1);
            attach(&mut drawn, release, &revisions);
            drawn
        })
        .collect();
    // Newest first, and last those without a generation. Releases of the same generation keep their
    // order.
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
) -> Vec<ApplicationNote> {
    let mut notes = Vec::new();
    if verdict.release.is_some() {
        // The reason is shown with the Release that it is about.
        notes.extend(about(observed).map(ApplicationNote::Condition));
    } else {
        notes.push(ApplicationNote::Reason(verdict.reason));
        notes.extend(verdict.about.map(ApplicationNote::Condition));
    }
    let mut pairs = releases.windows(2);
    let twins = pairs.find_map(|pair| {
        let generation = pair[0].generation?;
        let is_same = pair[1].generation == Some(generation);
        let names = [&pair[0], &pair[1]].map(|release| release.name.clone());
        is_same.then_some((names, generation))
    });
    notes.extend(
        twins.map(|([a, b], generation)| ApplicationNote::SameGeneration(a, b, generation)),
    );
    notes.extend(unreadable.map(|why| ApplicationNote::NoRevisions(why.to_owned())));
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

/// Attaches revisions to the clusters where they install the Release. A revision with a class
/// belongs to the cluster of that class, one without to a cluster that is left.
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
        // Several clusters are left while their revisions do not exist yet: the name of the
        // revision decides.
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

/// The place for the revision of a cluster, if it is empty.
fn free_slot<'d>(
    drawn: &'d mut ReleasePicture,
    cluster: &str,
) -> Option<&'d mut Option<RevisionPicture>> {
    let mut clusters = drawn.clusters.iter_mut();
    let found = clusters.find(|drawn| drawn.name == cluster && drawn.revision.is_none());
    found.map(|drawn| &mut drawn.revision)
}

/// The cluster that the phases of a revision are delivered to; `None` for the cluster of the
/// revision.
fn class(revision: &RevisionPicture) -> Option<&str> {
    let mut phases = revision.phases.iter().flatten();
    phases.find_map(|phase| phase.class.strip_prefix(CLASS_CLUSTER_PREFIX))
}

fn service(releases: &[ReleasePicture]) -> Vec<ServicePicture> {
    let mut service: BTreeMap<&str, Vec<HolderPicture>> = BTreeMap::new();
    for release in releases {
        for cluster in release.clusters.iter().filter(|it| !it.name.is_empty()) {
            // A target without a wanted weight may not exist.
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
