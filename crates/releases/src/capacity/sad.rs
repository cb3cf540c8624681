//! Pods that are not ready.

use std::collections::{BTreeMap, BTreeSet};

use baton_apis::SadPod;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

use crate::texts::Quoted;

/// Most pods in a report.
const MAX_PODS: usize = 5;

/// The pods with a condition that is false, each with the first one; sorted by name, at most five.
pub fn pods<'a>(pods: impl IntoIterator<Item = &'a Pod>) -> Vec<SadPod> {
    let mut sad: Vec<_> = pods.into_iter().filter_map(sad).collect();
    sad.sort_by(|a, b| a.name.cmp(&b.name));
    sad.truncate(MAX_PODS);
    sad
}

fn sad(pod: &Pod) -> Option<SadPod> {
    let status = pod.status.as_ref()?;
    let mut conditions = status.conditions.iter().flatten();
    let condition = conditions.find(|condition| condition.status == "False")?;
    Some(SadPod {
        name: pod.metadata.name.clone().unwrap_or_default(),
        containers: status.container_statuses.clone().unwrap_or_default(),
        init_containers: status.init_container_statuses.clone().unwrap_or_default(),
        condition: condition.clone(),
    })
}

/// The containers that are not ready: by name, with the number of pods and the reasons.
pub fn summary(pods: &[SadPod]) -> String {
    let mut containers: BTreeMap<&str, (BTreeSet<usize>, BTreeSet<&str>)> = BTreeMap::new();
    for (index, pod) in pods.iter().enumerate() {
        for container in pod.init_containers.iter().chain(&pod.containers) {
            if container.ready {
                continue;
            }
            let (places, reasons) = containers.entry(&container.name).or_default();
            places.insert(index);
            reasons.extend(reason(container));
        }
    }
    let one = |(name, (places, reasons)): (&str, (BTreeSet<usize>, BTreeSet<&str>))| {
        let reasons: Vec<_> = reasons.into_iter().collect();
        format!(
            "{}x{} containers with [{}]",
            places.len(),
            Quoted(name),
            reasons.join(" ")
        )
    };
    containers
        .into_iter()
        .map(one)
        .collect::<Vec<_>>()
        .join("; ")
}

/// The reason that a container waits, or else that it terminated.
fn reason(container: &ContainerStatus) -> Option<&str> {
    let state = container.state.as_ref()?;
    let waiting = state
        .waiting
        .as_ref()
        .and_then(|waiting| waiting.reason.as_deref());
    let ended = || {
        state
            .terminated
            .as_ref()
            .and_then(|ended| ended.reason.as_deref())
    };
    waiting.or_else(ended).filter(|reason| !reason.is_empty())
}
