//! Releases with their targets for tests.

use baton_apis::*;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::ReleaseWithTargets;

/// A Release with all of its targets.
#[derive(Clone, Debug)]
pub struct Parts {
    pub release: Release,
    pub installation: InstallationTarget,
    pub capacity: CapacityTarget,
    pub traffic: TrafficTarget,
}

impl Parts {
    /// An installed Release whose targets are all ready in the given clusters.
    pub fn new(
        name: &str,
        steps: &[RolloutStep],
        clusters: &[&str],
        percent: i32,
        weight: u32,
    ) -> Self {
        let metadata = ObjectMeta {
            name: Some(name.into()),
            namespace: Some("ns".into()),
            generation: Some(1),
            ..Default::default()
        };
        let mut release = Release::new(name, ReleaseSpec::default());
        release.metadata = metadata.clone();
        release.spec.environment.strategy = Some(RolloutStrategy {
            steps: steps.to_vec(),
            ..RolloutStrategy::default()
        });
        let mut installation = InstallationTarget::new(name, InstallationTargetSpec::default());
        installation.metadata = metadata.clone();
        installation.status = Some(InstallationTargetStatus {
            conditions: ready(None),
            ..Default::default()
        });
        let cluster = |cluster: &&str| ClusterCapacityTarget {
            name: (*cluster).into(),
            percent,
            total_replica_count: 10,
        };
        let mut capacity = CapacityTarget::new(
            name,
            CapacityTargetSpec {
                clusters: clusters.iter().map(cluster).collect(),
            },
        );
        capacity.metadata = metadata.clone();
        capacity.status = Some(CapacityTargetStatus {
            observed_generation: Some(1),
            conditions: ready(None),
            ..Default::default()
        });
        let cluster = |cluster: &&str| ClusterTrafficTarget {
            name: (*cluster).into(),
            weight,
        };
        let mut traffic = TrafficTarget::new(
            name,
            TrafficTargetSpec {
                clusters: clusters.iter().map(cluster).collect(),
            },
        );
        traffic.metadata = metadata;
        traffic.status = Some(TrafficTargetStatus {
            observed_generation: Some(1),
            conditions: ready(None),
            ..Default::default()
        });
        Self {
            release,
            installation,
            capacity,
            traffic,
        }
    }

    pub fn at(mut self, target: i32, achieved: Option<i32>) -> Self {
        self.release.spec.target_step = target;
        self.achieve(achieved);
        self
    }

    pub fn achieve(&mut self, achieved: Option<i32>) {
        self.status().achieved_step = achieved.map(|step| AchievedStep {
            step,
            name: String::new(),
        });
    }

    pub fn status(&mut self) -> &mut ReleaseStatus {
        self.release.status.get_or_insert_default()
    }

    /// Makes the `CapacityTarget` not ready, for this reason.
    pub fn lacks_capacity(mut self, message: &str) -> Self {
        self.capacity.status.as_mut().unwrap().conditions = ready(Some(message));
        self
    }

    /// Makes the `TrafficTarget` not ready, for this reason.
    pub fn lacks_traffic(mut self, message: &str) -> Self {
        self.traffic.status.as_mut().unwrap().conditions = ready(Some(message));
        self
    }

    /// Changes the spec of the `CapacityTarget` without a new status.
    pub fn capacity_unobserved(mut self) -> Self {
        self.capacity.metadata.generation = Some(2);
        self
    }

    pub fn member(&self) -> ReleaseWithTargets<'_> {
        ReleaseWithTargets {
            release: &self.release,
            installation: Some(&self.installation),
            capacity: Some(&self.capacity),
            traffic: Some(&self.traffic),
        }
    }
}

/// The condition `Ready`: false with the message `unready` if there is one, otherwise true.
pub fn ready(unready: Option<&str>) -> Vec<ShipperCondition> {
    vec![ShipperCondition {
        type_: "Ready".into(),
        status: unready.is_none().into(),
        message: unready.unwrap_or_default().into(),
        ..Default::default()
    }]
}

/// A step: name, capacity and traffic, each for the incumbent and the contender.
pub fn step(name: &str, capacity: (i32, i32), traffic: (u32, u32)) -> RolloutStep {
    RolloutStep {
        name: name.into(),
        capacity: StepCapacity {
            incumbent: capacity.0,
            contender: capacity.1,
        },
        traffic: StepTraffic {
            incumbent: traffic.0,
            contender: traffic.1,
        },
    }
}

/// A strategy in three steps.
pub fn vanguard() -> Vec<RolloutStep> {
    vec![
        step("staging", (100, 1), (100, 0)),
        step("50/50", (50, 50), (50, 50)),
        step("full on", (0, 100), (0, 100)),
    ]
}

/// A strategy in one step.
pub fn all_in() -> Vec<RolloutStep> {
    vec![step("full on", (0, 100), (0, 100))]
}
