//! The state of a Release in each cluster: wanted and actual pods and traffic, and problems.

use std::collections::{BTreeMap, BTreeSet};

use baton_apis::{
    ConditionStatus, Release, ShipperCondition,
    conditions::shipper::{OPERATIONAL, READY},
    constants::shipper::ANNOTATION_RELEASE_CLUSTERS,
};
use baton_engine::texts::collapse_whitespace;
use baton_releases::{capacity::desired_replicas, conditions::find};
use serde::Serialize;

use super::observed::{Observed, ReleaseTargetKind, Targets};
use crate::tree::{Health, RevisionPicture};

/// A Release in a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterPicture {
    /// Name of the cluster; empty for the cluster of the revision, if the Release names none.
    pub name: String,
    /// `True` if the objects are installed.
    pub installed: Health,
    /// Pods in the cluster; `None` if no target has a wanted number.
    pub capacity: Option<Capacity>,
    /// Traffic in the cluster; `None` if no target has a wanted weight.
    pub traffic: Option<Traffic>,
    /// Problems in the cluster.
    #[serde(skip)]
    pub troubles: Vec<Trouble>,
    /// The revision that installs the Release, if it can be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<RevisionPicture>,
}

/// A problem of a Release in a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Trouble {
    /// The Release has no target of any kind.
    NoTargets,
    /// The target cannot be read, for this reason.
    Unreadable(ReleaseTargetKind, String),
    /// The target does not exist.
    Missing(ReleaseTargetKind),
    /// The target does not name the cluster.
    NotNamed(ReleaseTargetKind),
    /// The target reports this message about the cluster.
    Reported(ReleaseTargetKind, String),
    /// A revision installs the Release in this cluster, which the Release does not name.
    NotOfRelease,
}

/// Pods of a Release in a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Capacity {
    /// The wanted percentage of the pods.
    pub wanted_percent: i32,
    /// The reached percentage of the pods; `None` if it was not reported yet.
    pub achieved_percent: Option<i32>,
    /// The wanted number of pods.
    pub wanted_pods: i32,
    /// The number of available pods; `None` if it was not reported yet.
    pub available_pods: Option<i32>,
}

/// Traffic of a Release in a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Traffic {
    /// The wanted weight.
    pub wanted_weight: u32,
    /// The reached weight; `None` if it was not reported yet.
    pub achieved_weight: Option<u32>,
    /// Percentage of the Service's traffic that the Release gets now; `None` if it is unknown, or
    /// no Release gets any.
    pub service_percent: Option<u64>,
}

impl ClusterPicture {
    /// True if pods and traffic are as wanted.
    pub fn is_settled(&self) -> bool {
        self.troubles.is_empty()
            && self.capacity.is_some_and(Capacity::is_there)
            && self.traffic.is_some_and(Traffic::is_there)
    }

    /// True if the Release has neither pods nor traffic in the cluster, and wants none.
    pub fn is_idle(&self) -> bool {
        let capacity = self
            .capacity
            .is_none_or(|all| all.wanted_percent == 0 && all.available_pods.unwrap_or(0) == 0);
        let traffic = self
            .traffic
            .is_none_or(|all| all.wanted_weight == 0 && all.achieved_weight.unwrap_or(0) == 0);
        capacity && traffic && self.troubles.is_empty()
    }
}

impl Capacity {
    /// True if the pods are available.
    pub fn is_there(self) -> bool {
        self.available_pods == Some(self.wanted_pods)
    }
}

impl Traffic {
    /// True if the weight is reached.
    pub fn is_there(self) -> bool {
        self.achieved_weight == Some(self.wanted_weight)
    }
}

/// The clusters of a Release by name, each with the state of the Release there.
pub fn clusters(observed: &Observed, release: &Release) -> Vec<ClusterPicture> {
    TrafficSums::of(observed).clusters(observed, release)
}

/// The sum of the reached weights of all Releases, by cluster.
#[derive(Debug)]
pub(super) struct TrafficSums(BTreeMap<String, u64>);

impl TrafficSums {
    pub(super) fn of(observed: &Observed) -> Self {
        let releases = observed.releases().into_iter();
        let names = releases.filter_map(|(_, release)| release.metadata.name.as_deref());
        let targets = names.filter_map(|name| of(&observed.traffic, name)?.status.as_ref());
        let mut sums: BTreeMap<String, u64> = BTreeMap::new();
        for cluster in targets.flat_map(|status| &status.clusters) {
            *sums.entry(cluster.name.clone()).or_default() += u64::from(cluster.achieved_traffic);
        }
        Self(sums)
    }

    /// As [`clusters`], for several Releases.
    pub(super) fn clusters(&self, observed: &Observed, release: &Release) -> Vec<ClusterPicture> {
        let name = release.metadata.name.as_deref().unwrap_or_default();
        let clusters = names(observed, release, name).into_iter();
        let pictures = clusters.map(|cluster| {
            let release = ReleaseInCluster {
                observed,
                release: name,
                cluster,
                troubles: Vec::new(),
            };
            release.picture(self.0.get(cluster).copied().unwrap_or(0))
        });
        pictures.collect()
    }
}

/// The target of a Release, if it was read.
fn of<'t, T>(targets: &'t Targets<T>, release: &str) -> Option<&'t T> {
    targets.as_ref().ok()?.get(release)
}

/// True if a Release has no target. False if targets cannot be read.
fn lacks<T>(targets: &Targets<T>, release: &str) -> bool {
    targets.is_ok() && of(targets, release).is_none()
}

/// The clusters that the Release or one of its targets names.
fn names<'a>(observed: &'a Observed, release: &'a Release, name: &str) -> BTreeSet<&'a str> {
    let installation = of(&observed.installation, name).into_iter();
    let capacity = of(&observed.capacity, name).into_iter();
    let traffic = of(&observed.traffic, name).into_iter();
    chosen(release)
        .chain(installation.flat_map(|it| it.spec.clusters.iter().map(String::as_str)))
        .chain(capacity.flat_map(|it| it.spec.clusters.iter().map(|one| one.name.as_str())))
        .chain(traffic.flat_map(|it| it.spec.clusters.iter().map(|one| one.name.as_str())))
        .filter(|name| !name.is_empty())
        .collect()
}

/// The clusters that are selected for a Release.
pub(super) fn chosen(release: &Release) -> impl Iterator<Item = &str> {
    let annotations = release.metadata.annotations.as_ref();
    let chosen = annotations.and_then(|all| all.get(ANNOTATION_RELEASE_CLUSTERS));
    let names = chosen.map_or("", String::as_str).split(',').map(str::trim);
    names.filter(|name| !name.is_empty())
}

/// A Release in a cluster, before it is drawn.
struct ReleaseInCluster<'a> {
    observed: &'a Observed,
    /// Name of the Release.
    release: &'a str,
    /// Name of the cluster.
    cluster: &'a str,
    troubles: Vec<Trouble>,
}

impl<'a> ReleaseInCluster<'a> {
    /// Draws the Release in the cluster; `sum` is the weight of all Releases there.
    fn picture(mut self, sum: u64) -> ClusterPicture {
        let mut picture = ClusterPicture {
            name: self.cluster.to_owned(),
            ..ClusterPicture::default()
        };
        let all = self.observed;
        let lacks_all = lacks(&all.installation, self.release)
            && lacks(&all.capacity, self.release)
            && lacks(&all.traffic, self.release);
        if lacks_all {
            self.troubles.push(Trouble::NoTargets);
        } else {
            picture.installed = self.installed().unwrap_or_default();
            picture.capacity = self.capacity();
            picture.traffic = self.traffic(sum);
        }
        picture.troubles = self.troubles;
        picture
    }

    /// The target of the Release. A missing target is a problem.
    fn target<T>(&mut self, part: ReleaseTargetKind, targets: &'a Targets<T>) -> Option<&'a T> {
        let found = of(targets, self.release);
        if found.is_none() {
            let missing = Trouble::Missing(part);
            let why = targets.as_ref().err();
            let unreadable = why.map(|why| Trouble::Unreadable(part, why.clone()));
            self.troubles.push(unreadable.unwrap_or(missing));
        }
        found
    }

    fn installed(&mut self) -> Option<Health> {
        let target = self.target(ReleaseTargetKind::Installation, &self.observed.installation)?;
        let status = target.status.as_ref();
        let status = status?
            .clusters
            .iter()
            .find(|one| one.name == self.cluster)?;
        let has_failed = self.add_failure(ReleaseTargetKind::Installation, &status.conditions);
        if !has_failed && status.status == "Failed" {
            let trouble =
                Trouble::Reported(ReleaseTargetKind::Installation, status.message.clone());
            self.troubles.push(trouble);
        }
        let ready = find(&status.conditions, READY)?;
        Some(match ready.status {
            ConditionStatus::True => Health::True,
            ConditionStatus::False => Health::False,
            ConditionStatus::Unknown => Health::Unknown,
        })
    }

    fn capacity(&mut self) -> Option<Capacity> {
        let target = self.target(ReleaseTargetKind::Capacity, &self.observed.capacity)?;
        let status = target.status.as_ref();
        let status = status.and_then(|it| it.clusters.iter().find(|one| one.name == self.cluster));
        let conditions = status.map_or(&[][..], |status| &status.conditions);
        self.add_failure(ReleaseTargetKind::Capacity, conditions);
        let mut wanted = target.spec.clusters.iter();
        let wanted = wanted.find(|one| one.name == self.cluster);
        let wanted = self.named(ReleaseTargetKind::Capacity, wanted)?;
        Some(Capacity {
            wanted_percent: wanted.percent,
            achieved_percent: status.map(|status| status.achieved_percent),
            wanted_pods: desired_replicas(wanted.total_replica_count, wanted.percent),
            available_pods: status.map(|status| status.available_replicas),
        })
    }

    fn traffic(&mut self, sum: u64) -> Option<Traffic> {
        let target = self.target(ReleaseTargetKind::Traffic, &self.observed.traffic)?;
        let status = target.status.as_ref();
        let status = status.and_then(|it| it.clusters.iter().find(|one| one.name == self.cluster));
        let conditions = status.map_or(&[][..], |status| &status.conditions);
        self.add_failure(ReleaseTargetKind::Traffic, conditions);
        let mut wanted = target.spec.clusters.iter();
        let wanted = wanted.find(|one| one.name == self.cluster);
        let wanted = self.named(ReleaseTargetKind::Traffic, wanted)?;
        let achieved_weight = status.map(|status| status.achieved_traffic);
        Some(Traffic {
            wanted_weight: wanted.weight,
            achieved_weight,
            service_percent: achieved_weight
                .and_then(|own| (u64::from(own) * 100).checked_div(sum)),
        })
    }

    /// The wanted value of a target for the cluster. A missing value is a problem.
    fn named<T>(&mut self, part: ReleaseTargetKind, wanted: Option<T>) -> Option<T> {
        if wanted.is_none() {
            self.troubles.push(Trouble::NotNamed(part));
        }
        wanted
    }

    /// Adds the first condition that is not true as a problem, and returns true if there is one. A
    /// cluster that is not operational explains all other problems.
    fn add_failure(&mut self, part: ReleaseTargetKind, conditions: &[ShipperCondition]) -> bool {
        let fails =
            |type_| find(conditions, type_).filter(|found| found.status != ConditionStatus::True);
        let failing = fails(OPERATIONAL).or_else(|| fails(READY));
        let trouble = failing.map(|condition| Trouble::Reported(part, why(condition)));
        self.troubles.extend(trouble);
        failing.is_some()
    }
}

/// A condition in one line: its reason and its message.
pub(super) fn why(condition: &ShipperCondition) -> String {
    let message = collapse_whitespace(&condition.message);
    match (condition.reason.as_str(), message.is_empty()) {
        ("", true) => format!("{} is {}", condition.type_, condition.status),
        ("", false) => message,
        (reason, true) => reason.to_owned(),
        (reason, false) => format!("{reason}: {message}"),
    }
}
