//! What each cluster has of a Release: pods and traffic, wanted and there, and what is missing.

use std::collections::{BTreeMap, BTreeSet};

use baton_apis::{
    ConditionStatus, Release, ShipperCondition,
    conditions::shipper::{OPERATIONAL, READY},
    constants::shipper::ANNOTATION_RELEASE_CLUSTERS,
};
use baton_engine::texts::collapse_whitespace;
use baton_releases::capacity::desired_replicas;
use baton_view::tree::{Health, RevisionPicture};
use serde::Serialize;

use super::read::Observed;

/// A Release in a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClusterPicture {
    pub(crate) name: String,
    /// Whether its objects are installed.
    pub(crate) installed: Health,
    /// Its pods; `None` when nobody has said how many there are to be.
    pub(crate) capacity: Option<Capacity>,
    /// Its traffic; `None` when nobody has said how much it is to be.
    pub(crate) traffic: Option<Traffic>,
    /// What is not as it should be.
    pub(crate) message: String,
    /// The revision that installs it, if that could be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) revision: Option<RevisionPicture>,
}

/// Pods of a Release in a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Capacity {
    pub(crate) wanted_percent: i32,
    /// `None` until somebody has reported.
    pub(crate) achieved_percent: Option<i32>,
    pub(crate) wanted_pods: i32,
    /// `None` until somebody has reported.
    pub(crate) available_pods: Option<i32>,
}

/// Traffic of a Release in a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Traffic {
    pub(crate) wanted_weight: u32,
    /// `None` until somebody has reported.
    pub(crate) achieved_weight: Option<u32>,
    /// The part of the traffic of the Service that it gets now, in percent; `None` where that is unknown, or nobody
    /// gets any.
    pub(crate) service_percent: Option<u64>,
}

impl ClusterPicture {
    /// Whether pods and traffic are as they are wanted.
    pub(crate) fn is_settled(&self) -> bool {
        let capacity = self
            .capacity
            .is_some_and(|capacity| capacity.available_pods == Some(capacity.wanted_pods));
        let traffic = self
            .traffic
            .is_some_and(|traffic| traffic.achieved_weight == Some(traffic.wanted_weight));
        capacity && traffic && self.message.is_empty()
    }

    /// Whether it has nothing there, and is to have nothing.
    pub(crate) fn is_idle(&self) -> bool {
        let capacity = self
            .capacity
            .is_none_or(|all| all.wanted_percent == 0 && all.available_pods.unwrap_or(0) == 0);
        let traffic = self
            .traffic
            .is_none_or(|all| all.wanted_weight == 0 && all.achieved_weight.unwrap_or(0) == 0);
        capacity && traffic && self.message.is_empty()
    }
}

impl Capacity {
    /// `40% of 50%`, as far as it is known.
    pub(crate) fn text(&self) -> String {
        let achieved = self.achieved_percent;
        let achieved = achieved.map_or_else(|| "?".to_owned(), |percent| format!("{percent}%"));
        format!("{achieved} of {}%", self.wanted_percent)
    }

    /// `2/3 pods`, as far as it is known.
    pub(crate) fn pods(&self) -> String {
        let available = self.available_pods;
        let available = available.map_or_else(|| "?".to_owned(), |pods| pods.to_string());
        format!("{available}/{} pods", self.wanted_pods)
    }
}

impl Traffic {
    /// `10 of 50`, as far as it is known.
    pub(crate) fn text(&self) -> String {
        let achieved = self.achieved_weight;
        let achieved = achieved.map_or_else(|| "?".to_owned(), |weight| weight.to_string());
        format!("{achieved} of {}", self.wanted_weight)
    }
}

/// What the clusters of a Release have of it, by name.
pub(crate) fn clusters(observed: &Observed, release: &Release) -> Vec<ClusterPicture> {
    Arriving::of(observed).clusters(observed, release)
}

/// The sum of the weights that all Releases have got, by cluster.
#[derive(Debug)]
pub(crate) struct Arriving(BTreeMap<String, u64>);

impl Arriving {
    pub(crate) fn of(observed: &Observed) -> Self {
        let releases = observed.releases().into_iter();
        let names = releases.filter_map(|(_, release)| release.metadata.name.as_deref());
        let targets = names.filter_map(|name| observed.traffic.of(name)?.status.as_ref());
        let mut sums: BTreeMap<String, u64> = BTreeMap::new();
        for cluster in targets.flat_map(|status| &status.clusters) {
            *sums.entry(cluster.name.clone()).or_default() += u64::from(cluster.achieved_traffic);
        }
        Self(sums)
    }

    /// As [`clusters`], for who asks for several Releases.
    pub(crate) fn clusters(&self, observed: &Observed, release: &Release) -> Vec<ClusterPicture> {
        let name = release.metadata.name.as_deref().unwrap_or_default();
        names(observed, release, name)
            .into_iter()
            .map(|cluster| picture(observed, name, cluster, self))
            .collect()
    }
}

/// All clusters that the Release or one of its targets names.
fn names<'a>(observed: &'a Observed, release: &'a Release, name: &str) -> BTreeSet<&'a str> {
    let annotations = release.metadata.annotations.as_ref();
    let chosen = annotations.and_then(|all| all.get(ANNOTATION_RELEASE_CLUSTERS));
    let chosen = chosen.map_or("", String::as_str).split(',').map(str::trim);
    let installation = observed.installation.of(name).into_iter();
    let capacity = observed.capacity.of(name).into_iter();
    let traffic = observed.traffic.of(name).into_iter();
    chosen
        .chain(installation.flat_map(|it| it.spec.clusters.iter().map(String::as_str)))
        .chain(capacity.flat_map(|it| it.spec.clusters.iter().map(|one| one.name.as_str())))
        .chain(traffic.flat_map(|it| it.spec.clusters.iter().map(|one| one.name.as_str())))
        .filter(|name| !name.is_empty())
        .collect()
}

fn picture(
    observed: &Observed,
    release: &str,
    cluster: &str,
    arriving: &Arriving,
) -> ClusterPicture {
    let mut troubles = Vec::new();
    let has_none = observed.installation.lacks(release)
        && observed.capacity.lacks(release)
        && observed.traffic.lacks(release);
    if has_none {
        return ClusterPicture {
            name: cluster.to_owned(),
            message: "the release has no targets".to_owned(),
            ..ClusterPicture::default()
        };
    }
    let installed = match observed.installation.of(release) {
        None => {
            missing(
                "InstallationTarget",
                observed.installation.unreadable.as_deref(),
                &mut troubles,
            );
            Health::Unknown
        }
        Some(target) => {
            let status = target.status.as_ref();
            let found = status.and_then(|it| it.clusters.iter().find(|one| one.name == cluster));
            let conditions = found.map_or(&[][..], |found| &found.conditions);
            complain("installation", conditions, &mut troubles);
            let message = found.map_or("", |found| &found.message);
            if troubles.is_empty() && found.is_some_and(|found| found.status == "Failed") {
                troubles.push(format!("installation: {message}"));
            }
            let ready = conditions.iter().find(|one| one.type_ == READY);
            ready.map_or(Health::Unknown, |ready| match ready.status {
                ConditionStatus::True => Health::True,
                ConditionStatus::False => Health::False,
                ConditionStatus::Unknown => Health::Unknown,
            })
        }
    };
    let capacity = capacity(observed, release, cluster, &mut troubles);
    let mut traffic = traffic(observed, release, cluster, &mut troubles);
    if let Some(traffic) = &mut traffic {
        let all = arriving.0.get(cluster).copied().unwrap_or(0);
        let own = traffic.achieved_weight.map(u64::from);
        traffic.service_percent = own.and_then(|own| (own * 100).checked_div(all));
    }
    ClusterPicture {
        name: cluster.to_owned(),
        installed,
        capacity,
        traffic,
        message: troubles.join("; "),
        revision: None,
    }
}

fn capacity(
    observed: &Observed,
    release: &str,
    cluster: &str,
    troubles: &mut Vec<String>,
) -> Option<Capacity> {
    let Some(target) = observed.capacity.of(release) else {
        missing(
            "CapacityTarget",
            observed.capacity.unreadable.as_deref(),
            troubles,
        );
        return None;
    };
    let status = target.status.as_ref();
    let status = status.and_then(|it| it.clusters.iter().find(|one| one.name == cluster));
    let conditions = status.map_or(&[][..], |status| &status.conditions);
    complain("capacity", conditions, troubles);
    let mut wanted = target.spec.clusters.iter();
    let Some(wanted) = wanted.find(|one| one.name == cluster) else {
        troubles.push("the CapacityTarget does not name it".to_owned());
        return None;
    };
    Some(Capacity {
        wanted_percent: wanted.percent,
        achieved_percent: status.map(|status| status.achieved_percent),
        wanted_pods: desired_replicas(wanted.total_replica_count, wanted.percent),
        available_pods: status.map(|status| status.available_replicas),
    })
}

fn traffic(
    observed: &Observed,
    release: &str,
    cluster: &str,
    troubles: &mut Vec<String>,
) -> Option<Traffic> {
    let Some(target) = observed.traffic.of(release) else {
        missing(
            "TrafficTarget",
            observed.traffic.unreadable.as_deref(),
            troubles,
        );
        return None;
    };
    let status = target.status.as_ref();
    let status = status.and_then(|it| it.clusters.iter().find(|one| one.name == cluster));
    let conditions = status.map_or(&[][..], |status| &status.conditions);
    complain("traffic", conditions, troubles);
    let mut wanted = target.spec.clusters.iter();
    let Some(wanted) = wanted.find(|one| one.name == cluster) else {
        troubles.push("the TrafficTarget does not name it".to_owned());
        return None;
    };
    Some(Traffic {
        wanted_weight: wanted.weight,
        achieved_weight: status.map(|status| status.achieved_traffic),
        service_percent: None,
    })
}

fn missing(kind: &str, unreadable: Option<&str>, troubles: &mut Vec<String>) {
    troubles.push(match unreadable {
        Some(why) => format!("the {kind} cannot be read: {why}"),
        None => format!("there is no {kind}"),
    });
}

/// Adds what does not hold. That a cluster cannot be worked in explains all the rest.
fn complain(what: &str, conditions: &[ShipperCondition], troubles: &mut Vec<String>) {
    let fails = |type_: &str| {
        let mut failing = conditions.iter();
        failing.find(|one| one.type_ == type_ && one.status != ConditionStatus::True)
    };
    if let Some(condition) = fails(OPERATIONAL).or(fails(READY)) {
        troubles.push(format!("{what}: {}", why(condition)));
    }
}

/// What a condition says, in one line: its message, its reason before it where that says more.
pub(crate) fn why(condition: &ShipperCondition) -> String {
    let message = collapse_whitespace(&condition.message);
    match (condition.reason.as_str(), message.is_empty()) {
        ("", true) => format!("{} is {}", condition.type_, condition.status),
        ("", false) => message,
        (reason, true) => reason.to_owned(),
        (reason, false) => format!("{reason}: {message}"),
    }
}
