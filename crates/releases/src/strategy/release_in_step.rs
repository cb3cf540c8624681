//! A Release of a rollout, compared to the values of a step.

use std::cmp::Ordering;

use baton_apis::RolloutStep;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::{TargetKind, TargetPatch, Targets, name, order::TargetComparison, target};

/// A Release with its targets and their wanted values.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReleaseInStep<'a> {
    /// The present targets.
    pub(super) targets: Targets<'a>,
    /// Wanted percentage of all clusters in the `CapacityTarget`.
    pub(super) percent: i32,
    /// Wanted weight of all clusters in the `TrafficTarget`.
    pub(super) weight: u32,
}

impl<'a> ReleaseInStep<'a> {
    /// The wanted values for the Release that leads.
    pub(super) fn contender(targets: Targets<'a>, step: &RolloutStep) -> Self {
        Self {
            targets,
            percent: step.capacity.contender,
            weight: step.traffic.contender,
        }
    }

    /// The wanted values for the Release that follows.
    pub(super) fn incumbent(targets: Targets<'a>, step: &RolloutStep) -> Self {
        Self {
            targets,
            percent: step.capacity.incumbent,
            weight: step.traffic.incumbent,
        }
    }

    /// Compares the targets to the wanted values. `other` is the other Release of the rollout.
    pub(super) fn present(&self, other: Option<&Self>) -> TargetComparison {
        let clusters = &self.targets.capacity.spec.clusters;
        let capacity = clusters
            .iter()
            .map(|cluster| cluster.percent.cmp(&self.percent));
        let clusters = &self.targets.traffic.spec.clusters;
        let weight = clusters
            .iter()
            .map(|cluster| cluster.weight.cmp(&self.weight));
        let share = |weights: fn(&Self) -> u128| {
            let own = weights(self);
            (own, own + other.map_or(0, weights))
        };
        TargetComparison {
            capacity: together(capacity),
            weight: together(weight),
            share: compare(share(Self::weights), share(Self::wanted_weights)),
        }
    }

    /// The patch that sets the percentage of all clusters.
    pub(super) fn capacity_patch(&self) -> TargetPatch {
        let mut clusters = self.targets.capacity.spec.clusters.clone();
        for cluster in &mut clusters {
            cluster.percent = self.percent;
        }
        self.patch(
            TargetKind::Capacity,
            &self.targets.capacity.metadata,
            &json!(clusters),
        )
    }

    /// The patch that sets the weight of all clusters.
    pub(super) fn traffic_patch(&self) -> TargetPatch {
        let mut clusters = self.targets.traffic.spec.clusters.clone();
        for cluster in &mut clusters {
            cluster.weight = self.weight;
        }
        self.patch(
            TargetKind::Traffic,
            &self.targets.traffic.metadata,
            &json!(clusters),
        )
    }

    fn patch(&self, kind: TargetKind, of: &ObjectMeta, clusters: &Value) -> TargetPatch {
        TargetPatch {
            kind,
            name: name(self.targets.release).to_owned(),
            version: of.resource_version.clone(),
            body: json!({"spec": {"clusters": clusters}}),
        }
    }

    /// The next change by which the Release grows; `None` while it waits for a change, or if it
    /// does not have to grow.
    pub(super) fn growth(&self) -> Option<TargetPatch> {
        match self.present(None) {
            present if !present.grows() => None,
            TargetComparison {
                capacity: Ordering::Less,
                ..
            } => Some(self.capacity_patch()),
            _ => target::is_ready(self.targets.capacity).then(|| self.traffic_patch()),
        }
    }

    /// True if the Release has the wanted pods and traffic.
    pub(super) fn is_there(&self) -> bool {
        let present = self.present(None);
        (present.capacity, present.weight) == (Ordering::Equal, Ordering::Equal)
            && target::is_ready(self.targets.capacity)
            && target::is_ready(self.targets.traffic)
    }

    fn weights(&self) -> u128 {
        let clusters = &self.targets.traffic.spec.clusters;
        clusters
            .iter()
            .map(|cluster| u128::from(cluster.weight))
            .sum()
    }

    fn wanted_weights(&self) -> u128 {
        u128::from(self.weight) * self.targets.traffic.spec.clusters.len() as u128
    }
}

/// The comparison of several clusters. A cluster with too much decides, so that nothing is removed
/// too early.
fn together(clusters: impl Iterator<Item = Ordering>) -> Ordering {
    let mut found = Ordering::Equal;
    for cluster in clusters {
        match cluster {
            Ordering::Greater => return cluster,
            Ordering::Less => found = cluster,
            Ordering::Equal => {}
        }
    }
    found
}

/// Compares two fractions; zero of zero is zero.
fn compare((part, whole): (u128, u128), (other_part, other_whole): (u128, u128)) -> Ordering {
    let cross = |part: u128, whole: u128| part.saturating_mul(whole.max(1));
    cross(part, other_whole).cmp(&cross(other_part, whole))
}
