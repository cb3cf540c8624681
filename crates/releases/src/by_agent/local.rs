//! The decisions of an agent about the Releases in its cluster.

use std::collections::BTreeMap;

use baton_apis::{
    AchievedStep, CapacityTarget, CapacityTargetSpec, ClusterCapacityTarget, ClusterTrafficTarget,
    InstallationTarget, InstallationTargetSpec, Release, ReleaseSpec, ReleaseStatus,
    RolloutStrategy, TrafficTarget, TrafficTargetSpec,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::ReleaseTask;
use crate::{
    capacity,
    strategy::{AchievedShares, Error, Neighbours, Plan, ReleaseWithTargets, TargetKind, plan},
    targets::{
        CapacityOutcome, Progress, TrafficOutcome, Update, capacity as report, installation,
        reasons::Vocabulary, traffic,
    },
    traffic::{Verdict, Weights},
};

/// A Release in the cluster of the agent.
#[derive(Clone, Debug)]
pub struct LocalRelease<'a> {
    /// The work.
    pub task: &'a ReleaseTask,
    /// The shares at present.
    pub shares: AchievedShares,
    /// The state of its objects.
    pub installation: Progress,
    /// The outcome of the shares.
    pub capacity: CapacityOutcome,
    /// The outcome of the shares.
    pub traffic: TrafficOutcome,
}

impl LocalRelease<'_> {
    /// True if the hub requests the shares.
    fn is_requested(&self) -> bool {
        self.task.step.is_none()
    }

    fn has_pods(&self) -> bool {
        let plan = self.capacity.as_ref();
        plan.is_ok_and(|plan| plan.verdict == capacity::Verdict::Ready)
    }

    fn has_traffic(&self) -> bool {
        let plan = self.traffic.as_ref();
        plan.is_ok_and(|plan| plan.verdict == Verdict::Ready)
    }

    /// The next change towards greater requested shares: pods first.
    fn growth(&self) -> Option<AchievedShares> {
        let (shares, wanted) = (self.shares, self.task.shares);
        if shares.percent < wanted.percent {
            let percent = wanted.percent;
            return Some(AchievedShares { percent, ..shares });
        }
        let weight = wanted.weight;
        let grows = shares.weight < weight && self.has_pods();
        grows.then_some(AchievedShares { weight, ..shares })
    }

    /// The next change towards smaller requested shares: traffic first.
    fn decrease(&self) -> Option<AchievedShares> {
        let (shares, wanted) = (self.shares, self.task.shares);
        if shares.weight > wanted.weight {
            let weight = wanted.weight;
            return Some(AchievedShares { weight, ..shares });
        }
        let percent = wanted.percent;
        let shrinks = shares.percent > percent && self.has_traffic();
        shrinks.then_some(AchievedShares { percent, ..shares })
    }

    /// True if the Release still gets pods or traffic.
    fn is_growing(&self) -> bool {
        let (shares, wanted) = (self.shares, self.task.shares);
        let is_less = shares.percent < wanted.percent || shares.weight < wanted.weight;
        is_less || (wanted.weight > 0 && !(self.has_pods() && self.has_traffic()))
    }
}

/// The next shares of one of the Releases of a task: the index of the Release, and its shares. `None`
/// if nothing is to be changed before something else happens. While the rollout `is_held`, no stage
/// begins.
///
/// # Guarantees
/// - Requested pods and traffic are added at once. They are removed when no other Release has to
///   get any: the agent may be ahead of the hub.
///
/// # Errors
/// If a step cannot be followed.
pub fn next(
    releases: &[LocalRelease<'_>],
    is_held: bool,
    now: Timestamp,
) -> Result<Option<(usize, AchievedShares)>, Error> {
    let requested = || {
        releases
            .iter()
            .enumerate()
            .filter(|(_, it)| it.is_requested())
    };
    let growth = requested().find_map(|(index, it)| Some((index, it.growth()?)));
    if growth.is_some() {
        return Ok(growth);
    }
    match led(releases, now)? {
        Led::Changes(index, shares) => return Ok((!is_held).then_some((index, shares))),
        Led::Waits => return Ok(None),
        Led::Settled => {}
    }
    if requested().any(|(_, it)| it.is_growing()) {
        return Ok(None);
    }
    Ok(requested().find_map(|(index, it)| Some((index, it.decrease()?))))
}

/// The state of the Releases with a step.
enum Led {
    /// The Release with this index gets other shares.
    Changes(usize, AchievedShares),
    /// A stage is not satisfied yet.
    Waits,
    /// The step is reached.
    Settled,
}

fn led(releases: &[LocalRelease<'_>], now: Timestamp) -> Result<Led, Error> {
    let led = releases.iter().filter_map(|it| Parts::of(it, now));
    let mut parts: Vec<_> = led.collect();
    let Some(head) = parts.len().checked_sub(1) else {
        return Ok(Led::Settled);
    };
    let previous = head.checked_sub(1);
    let previous = previous.map(|previous| parts[previous].member());
    let plan_of_head = plan(parts[head].member(), Neighbours::Head { previous }, now)?;
    if let Some((index, shares)) = changed(releases, &plan_of_head) {
        return Ok(Led::Changes(index, shares));
    }
    if !plan_of_head.is_settled {
        return Ok(Led::Waits);
    }
    for part in &mut parts {
        part.achieve();
    }
    for index in (0..head).rev() {
        let successor = Neighbours::Follower {
            successor: parts[index + 1].member(),
            successor_is_head: index + 1 == head,
        };
        let followed = plan(parts[index].member(), successor, now)?;
        if let Some((index, shares)) = changed(releases, &followed) {
            return Ok(Led::Changes(index, shares));
        }
    }
    Ok(Led::Settled)
}

/// The change of a plan.
fn changed(releases: &[LocalRelease<'_>], plan: &Plan) -> Option<(usize, AchievedShares)> {
    let patch = plan.target.as_ref()?;
    let index = releases.iter().position(|it| it.task.name == patch.name)?;
    let value = |field: &str| patch.body["spec"]["clusters"][0][field].as_i64();
    let shares = releases[index].shares;
    let shares = match patch.kind {
        TargetKind::Capacity => AchievedShares {
            percent: i32::try_from(value("percent")?).ok()?,
            ..shares
        },
        TargetKind::Traffic => AchievedShares {
            weight: u32::try_from(value("weight")?).ok()?,
            ..shares
        },
    };
    Some((index, shares))
}

/// A Release with targets for one cluster.
struct Parts {
    release: Release,
    installation: InstallationTarget,
    capacity: CapacityTarget,
    traffic: TrafficTarget,
}

/// The name of the only cluster.
const CLUSTER: &str = "local";

impl Parts {
    /// `None` if the hub requests the shares.
    fn of(local: &LocalRelease<'_>, now: Timestamp) -> Option<Self> {
        let step = local.task.step.clone()?;
        let metadata = ObjectMeta {
            name: Some(local.task.name.clone()),
            generation: Some(1),
            ..ObjectMeta::default()
        };
        let mut release = Release::new(&local.task.name, ReleaseSpec::default());
        release.metadata = metadata.clone();
        release.spec.environment.strategy = Some(RolloutStrategy {
            steps: vec![step],
            ..RolloutStrategy::default()
        });
        let later = AchievedStep {
            step: 1,
            ..AchievedStep::default()
        };
        release.status = Some(ReleaseStatus {
            achieved_step: local.task.is_backwards.then_some(later),
            ..ReleaseStatus::default()
        });
        let update = Update {
            vocabulary: Vocabulary::default(),
            now,
            ignores_offline: false,
        };
        let spec = InstallationTargetSpec {
            clusters: vec![CLUSTER.to_owned()],
            ..InstallationTargetSpec::default()
        };
        let mut installed = InstallationTarget::new(&local.task.name, spec);
        installed.metadata = metadata.clone();
        let outcomes = BTreeMap::from([(CLUSTER.to_owned(), Ok(local.installation.clone()))]);
        installed.status = Some(installation(&installed, Ok(&outcomes), update).status);
        let spec = CapacityTargetSpec {
            clusters: vec![ClusterCapacityTarget {
                name: CLUSTER.to_owned(),
                percent: local.shares.percent,
                total_replica_count: local.task.replicas,
            }],
        };
        let mut pods = CapacityTarget::new(&local.task.name, spec);
        pods.metadata = metadata.clone();
        let outcomes = BTreeMap::from([(CLUSTER.to_owned(), local.capacity.clone())]);
        pods.status = Some(report(&pods, &outcomes, update).status);
        let spec = TrafficTargetSpec {
            clusters: vec![ClusterTrafficTarget {
                name: CLUSTER.to_owned(),
                weight: local.shares.weight,
            }],
        };
        let mut share = TrafficTarget::new(&local.task.name, spec);
        share.metadata = metadata;
        let outcomes = BTreeMap::from([(CLUSTER.to_owned(), local.traffic.clone())]);
        share.status = Some(traffic(&share, &outcomes, update).status);
        Some(Self {
            release,
            installation: installed,
            capacity: pods,
            traffic: share,
        })
    }

    fn member(&self) -> ReleaseWithTargets<'_> {
        ReleaseWithTargets {
            release: &self.release,
            installation: Some(&self.installation),
            capacity: Some(&self.capacity),
            traffic: Some(&self.traffic),
        }
    }

    /// Notes that the Release has reached its step.
    fn achieve(&mut self) {
        let status = self.release.status.get_or_insert_default();
        status.achieved_step = Some(AchievedStep::default());
    }
}

/// The weights of all Releases of a task in the cluster, given their present shares.
pub fn weights<'a>(shares: impl IntoIterator<Item = (&'a str, AchievedShares)>) -> Weights {
    let weights = shares.into_iter();
    weights
        .map(|(name, shares)| (name.to_owned(), shares.weight))
        .collect()
}

/// The state of the objects of a Release, by the availability of the phases of its revision:
/// `None` for a phase without a report.
pub fn installed(phases: &[Option<(bool, String)>]) -> Progress {
    let missing = phases.iter().find_map(|phase| match phase {
        Some((true, _)) => None,
        Some((false, message)) => Some(message.clone()),
        None => Some(String::new()),
    });
    match missing {
        _ if phases.is_empty() => Progress::InProgress(String::new()),
        Some(message) => Progress::InProgress(message),
        None => Progress::Installed,
    }
}
