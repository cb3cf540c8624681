//! The pods of a workload, counted by their state.

use std::collections::BTreeMap;

use baton_apis::{
    CapacityReport, ConditionStatus, ReportBreakdown, ReportContainer, ReportContainerState,
    ReportExample, ReportOwner,
};
use k8s_openapi::api::core::v1::{ContainerState, ContainerStateTerminated, ContainerStatus, Pod};

/// The states of all containers with a name, by type and reason.
type States = BTreeMap<(&'static str, String), ReportContainerState>;

/// The pods with the same condition.
#[derive(Default)]
struct Group {
    pods: i32,
    containers: BTreeMap<String, States>,
}

/// The report about a workload.
pub fn of(workload: &str, pods: &[Pod]) -> CapacityReport {
    let mut pods: Vec<_> = pods.iter().collect();
    pods.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    let mut groups: BTreeMap<(&str, &str, &str), Group> = BTreeMap::new();
    for pod in pods {
        let Some(found) = &pod.status else {
            continue;
        };
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        for condition in found.conditions.iter().flatten() {
            let reason = condition.reason.as_deref().unwrap_or_default();
            let group = groups
                .entry((&condition.type_, &condition.status, reason))
                .or_default();
            group.pods = group.pods.saturating_add(1);
            for container in found.container_statuses.iter().flatten() {
                let counts = group.containers.entry(container.name.clone()).or_default();
                count(counts, name, container);
            }
        }
    }
    CapacityReport {
        owner: ReportOwner {
            name: workload.to_owned(),
        },
        breakdown: groups
            .into_iter()
            .map(|(key, group)| breakdown(key, group))
            .collect(),
    }
}

fn breakdown((type_, status, reason): (&str, &str, &str), group: Group) -> ReportBreakdown {
    let container = |(name, states): (String, States)| ReportContainer {
        name,
        states: states.into_values().collect(),
    };
    ReportBreakdown {
        type_: type_.to_owned(),
        status: match status {
            "True" => ConditionStatus::True,
            "False" => ConditionStatus::False,
            _ => ConditionStatus::Unknown,
        },
        reason: reason.to_owned(),
        count: group.pods,
        containers: group.containers.into_iter().map(container).collect(),
    }
}

/// Counts a container of a pod. The first container in a state becomes the example.
fn count(states: &mut States, pod: &str, container: &ContainerStatus) {
    let (type_, reason) = state(container.state.as_ref());
    let found = states
        .entry((type_, reason.to_owned()))
        .or_insert_with(|| ReportContainerState {
            type_: type_.to_owned(),
            reason: reason.to_owned(),
            count: 0,
            example: ReportExample {
                pod: pod.to_owned(),
                message: last_words(container),
            },
        });
    found.count = found.count.saturating_add(1);
}

/// Type and reason of a state. As in the API, a container without a state is waiting.
fn state(state: Option<&ContainerState>) -> (&'static str, &str) {
    let Some(state) = state else {
        return ("Waiting", "");
    };
    if state.running.is_some() {
        ("Running", "")
    } else if let Some(ended) = &state.terminated {
        ("Terminated", ended.reason.as_deref().unwrap_or_default())
    } else {
        let waiting = state.waiting.as_ref();
        (
            "Waiting",
            waiting
                .and_then(|waiting| waiting.reason.as_deref())
                .unwrap_or_default(),
        )
    }
}

/// The message of the last termination of a container, before a restart or now.
fn last_words(container: &ContainerStatus) -> String {
    let state = if container.restart_count > 0 {
        container.last_state.as_ref()
    } else {
        container.state.as_ref()
    };
    let Some(ended) = state.and_then(|state| state.terminated.as_ref()) else {
        return String::new();
    };
    let ContainerStateTerminated {
        message,
        signal,
        exit_code,
        ..
    } = ended;
    match (message.as_deref(), signal) {
        (Some(message), _) if !message.is_empty() => message.to_owned(),
        (_, Some(signal)) if *signal != 0 => format!("Terminated with signal {signal}"),
        _ => format!("Terminated with exit code {exit_code}"),
    }
}
