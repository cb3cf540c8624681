//! The picture of an Application: its Releases, what each cluster has of them, and the revisions that install them.

use std::collections::BTreeSet;

use baton_apis::{
    Release,
    constants::{CLASS_CLUSTER_PREFIX, shipper::ANNOTATION_RELEASE_CLUSTERS},
};
use baton_engine::texts::collapse_whitespace;
use baton_releases::application::history::{History, Member};
use baton_view::{
    rollout::Outcome,
    tree::{ChainPicture, RevisionPicture},
};
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;

use super::{
    clusters::{Arriving, ClusterPicture},
    read::Observed,
    state::{Verdict, about, achieved, judge_application, judge_release, label_at, step_at},
};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AppPicture {
    pub(crate) name: String,
    pub(crate) namespace: String,
    /// Whether it exists; if not, Releases of it are left.
    pub(crate) exists: bool,
    pub(crate) state: &'static str,
    /// What is to be said about it as a whole.
    pub(crate) message: String,
    /// Who gets the traffic of the Service, by cluster.
    pub(crate) service: Vec<ServicePicture>,
    /// The newest first; those without a generation come last.
    pub(crate) releases: Vec<ReleasePicture>,
}

/// Who gets the traffic in a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServicePicture {
    pub(crate) cluster: String,
    pub(crate) releases: Vec<HolderPicture>,
}

/// A Release that gets traffic.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HolderPicture {
    pub(crate) name: String,
    pub(crate) percent: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReleasePicture {
    pub(crate) name: String,
    pub(crate) generation: Option<i64>,
    /// `contender`: the newest one; `incumbent`: the one that it replaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) role: Option<&'static str>,
    pub(crate) state: &'static str,
    pub(crate) wanted_step: StepPicture,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) achieved_step: Option<StepPicture>,
    pub(crate) complete: bool,
    pub(crate) deleting: bool,
    pub(crate) created: Option<Timestamp>,
    /// What it waits for, or why it does not go on.
    pub(crate) message: String,
    pub(crate) clusters: Vec<ClusterPicture>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct StepPicture {
    pub(crate) index: i32,
    pub(crate) name: String,
    /// As people read it: `1 (50/50)`.
    #[serde(skip)]
    pub(crate) label: String,
}

impl ReleasePicture {
    /// Whether it has nothing anywhere, and is to have nothing.
    pub(crate) fn is_idle(&self) -> bool {
        self.clusters.iter().all(ClusterPicture::is_idle)
    }
}

/// Draws an Application, with the revisions of its Releases as [`baton_view::tree`] has drawn them, or why they could
/// not be.
pub(crate) fn picture(observed: &Observed, chains: Result<&[ChainPicture], &str>) -> AppPicture {
    let history = observed.known_history();
    let newest = history.as_ref().and_then(History::newest).map(Member::name);
    let incumbent = history.as_ref().and_then(History::incumbent);
    let incumbent = incumbent.map(Member::name);
    let revisions: Vec<&RevisionPicture> = chains
        .unwrap_or_default()
        .iter()
        .flat_map(|chain| &chain.revisions)
        .collect();
    let arriving = Arriving::of(observed);
    let mut releases: Vec<ReleasePicture> = observed
        .releases()
        .into_iter()
        .map(|(generation, release)| {
            let clusters = arriving.clusters(observed, release);
            let mut drawn = release_picture(observed, generation, release, clusters);
            drawn.role = match Some(drawn.name.as_str()) {
                own if own == newest => Some("contender"),
                own if own == incumbent => Some("incumbent"),
                _ => None,
            };
            attach(&mut drawn, release, &revisions);
            drawn
        })
        .collect();
    // Newest first, and behind them those of which nobody knows. Of the same generation, the order is that of before.
    releases.reverse();
    releases.sort_by_key(|release| std::cmp::Reverse(release.generation));
    let verdict = judge_application(observed);
    // What concerns one of its Releases is said there.
    let mut message = match verdict.release {
        Some(_) => about(observed).unwrap_or_default(),
        None => verdict.message.clone(),
    };
    if let Some(twins) = twins(&releases) {
        message = join(message, twins);
    }
    if let Err(why) = chains {
        message = join(message, format!("its revisions cannot be read: {why}"));
    }
    AppPicture {
        name: observed.name.clone(),
        namespace: observed.namespace.clone(),
        exists: observed.application.is_some(),
        state: application_state(observed, &verdict),
        message,
        service: service(&releases),
        releases,
    }
}

fn join(first: String, second: String) -> String {
    let both = [first, second];
    let both = both.into_iter().filter(|text| !text.is_empty());
    both.collect::<Vec<_>>().join("; ")
}

/// Says that Releases have the same generation, so that their order is a guess.
pub(crate) fn twins(releases: &[ReleasePicture]) -> Option<String> {
    let pair = releases
        .windows(2)
        .find(|pair| pair[0].generation.is_some() && pair[0].generation == pair[1].generation)?;
    let generation = pair[0].generation.unwrap_or_default();
    Some(format!(
        "releases {} and {} both have generation {generation}",
        pair[0].name, pair[1].name
    ))
}

fn application_state(observed: &Observed, verdict: &Verdict) -> &'static str {
    match &observed.application {
        None => "Gone",
        Some(application) if application.metadata.deletion_timestamp.is_some() => "Deleting",
        Some(_) => match verdict.outcome {
            Outcome::Done => "Complete",
            Outcome::Failed => "Failed",
            Outcome::Underway if verdict.waits_for_command => "Waiting",
            Outcome::Underway => "RollingOut",
        },
    }
}

fn release_picture(
    observed: &Observed,
    generation: Option<i64>,
    release: &Release,
    clusters: Vec<ClusterPicture>,
) -> ReleasePicture {
    let status = release.status.as_ref();
    let verdict = judge_release(observed, release);
    let complete = {
        let conditions = status.map_or(&[][..], |status| &status.conditions);
        baton_releases::conditions::is_true(conditions, baton_apis::conditions::shipper::COMPLETE)
    };
    let deleting = release.metadata.deletion_timestamp.is_some();
    let name = release.metadata.name.clone().unwrap_or_default();
    let step = |index: i32| StepPicture {
        index,
        name: step_at(release, index)
            .map_or_else(String::new, |step| collapse_whitespace(&step.name)),
        label: label_at(release, index),
    };
    let message = match verdict.outcome {
        Outcome::Done => String::new(),
        _ if generation.is_none() => "has no generation, so that its place is unknown".to_owned(),
        _ => verdict.message,
    };
    ReleasePicture {
        generation,
        role: None,
        state: match verdict.outcome {
            _ if deleting => "Deleting",
            _ if generation.is_none() => "Unknown",
            Outcome::Done => "Complete",
            Outcome::Failed => "Failed",
            Outcome::Underway if verdict.waits_for_command => "Waiting",
            Outcome::Underway => "RollingOut",
        },
        wanted_step: step(release.spec.target_step),
        achieved_step: achieved(release).map(step),
        complete,
        deleting,
        created: release
            .metadata
            .creation_timestamp
            .as_ref()
            .map(|time| time.0),
        message,
        clusters,
        name,
    }
}

/// Puts revisions to the clusters that they install the Release in: those of a class of their cluster by that, and the
/// one without to what is left.
fn attach(drawn: &mut ReleasePicture, release: &Release, revisions: &[&RevisionPicture]) {
    let own: Vec<&RevisionPicture> = revisions
        .iter()
        .filter(|revision| revision.release.as_ref() == Some(&drawn.name))
        .copied()
        .collect();
    let mut here = Vec::new();
    let mut taken: BTreeSet<String> = BTreeSet::new();
    for revision in own {
        let Some(cluster) = class(revision) else {
            here.push(revision);
            continue;
        };
        taken.insert(cluster.to_owned());
        let mut clusters = drawn.clusters.iter_mut();
        match clusters.find(|drawn| drawn.name == cluster && drawn.revision.is_none()) {
            Some(drawn) => drawn.revision = Some(revision.clone()),
            None => drawn.clusters.push(stranded(cluster, revision)),
        }
    }
    let annotations = release.metadata.annotations.as_ref();
    let chosen = annotations.and_then(|all| all.get(ANNOTATION_RELEASE_CLUSTERS));
    let chosen = chosen.map_or("", String::as_str);
    for revision in here {
        let free: Vec<&str> = chosen
            .split(',')
            .filter(|name| !name.is_empty() && !taken.contains(*name))
            .collect();
        // Several are free while the others have no revision yet: then the name tells.
        let named = free
            .iter()
            .filter(|cluster| revision.name.ends_with(&format!("-{cluster}")))
            .max_by_key(|cluster| cluster.len());
        let place = match (&free[..], named) {
            ([only], _) => Some((*only).to_owned()),
            (_, named) => named.map(|name| (*name).to_owned()),
        };
        let place = place.and_then(|name| {
            let mut clusters = drawn.clusters.iter_mut();
            clusters.find(|drawn| drawn.name == name && drawn.revision.is_none())
        });
        match place {
            Some(drawn) => {
                taken.insert(drawn.name.clone());
                drawn.revision = Some(revision.clone());
            }
            None => drawn.clusters.push(stranded("", revision)),
        }
    }
}

/// A revision in a cluster that the Release does not name; an empty name is that of the revision's own cluster.
fn stranded(cluster: &str, revision: &RevisionPicture) -> ClusterPicture {
    ClusterPicture {
        name: cluster.to_owned(),
        message: if cluster.is_empty() {
            String::new()
        } else {
            "the release does not name this cluster".to_owned()
        },
        revision: Some(revision.clone()),
        ..ClusterPicture::default()
    }
}

/// The cluster that the phases of a revision are delivered into; `None` for its own.
fn class(revision: &RevisionPicture) -> Option<&str> {
    let mut phases = revision.phases.iter().flatten();
    phases.find_map(|phase| phase.class.strip_prefix(CLASS_CLUSTER_PREFIX))
}

fn service(releases: &[ReleasePicture]) -> Vec<ServicePicture> {
    let names: BTreeSet<&str> = releases
        .iter()
        .flat_map(|release| &release.clusters)
        // Where nobody has said how much is wanted, there may be none to have.
        .filter(|cluster| !cluster.name.is_empty() && cluster.traffic.is_some())
        .map(|cluster| cluster.name.as_str())
        .collect();
    let holders = |name: &str| {
        let holders = releases.iter().filter_map(|release| {
            let cluster = release
                .clusters
                .iter()
                .find(|cluster| cluster.name == name)?;
            let percent = cluster.traffic?.service_percent?;
            (cluster.traffic?.achieved_weight? > 0).then(|| HolderPicture {
                name: release.name.clone(),
                percent,
            })
        });
        holders.collect()
    };
    names
        .into_iter()
        .map(|name| ServicePicture {
            cluster: name.to_owned(),
            releases: holders(name),
        })
        .collect()
}
