//! The cause why a workload does not become ready, from its conditions and its pods, on one line.
//!
//! Nothing else of an object is quoted in a status. These texts are no content of the object:
//! built-in controllers and kubelets wrote them about their own work. A text that a container
//! writes itself, its termination message, is left out.
//!
//! Observable behaviour: `docs/contract/probes.md`, "Failure texts".

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{
    ObjectKey,
    object::{metadata, text},
    texts::{collapse_whitespace, truncate},
};

/// Greatest length of a text about one workload, in bytes.
const MAX_TEXT: usize = 256;

/// Reason of a container that waits between two attempts.
const BACK_OFF: &str = "CrashLoopBackOff";

/// True if objects of this kind run pods that their `spec.selector` selects.
pub fn runs_pods(group: &str, kind: &str) -> bool {
    matches!(
        (group, kind),
        (
            "apps",
            "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet"
        ) | ("batch", "Job")
    )
}

/// True if an object may fail its probes for a cause that no watch reports: the state of its pods,
/// or a storage class.
pub fn fails_unseen(group: &str, kind: &str) -> bool {
    runs_pods(group, kind) || (group, kind) == ("", "PersistentVolumeClaim")
}

/// The messages of failed probes with their cause.
pub fn with_reason(messages: &str, reason: &str) -> String {
    format!("{messages} ({reason})")
}

/// The cause in a message, of [`with_reason`]: the first one about a pod, else the one at the end.
pub fn cause_in(message: &str) -> Option<&str> {
    let of_pod = message.find("(pod ").map(|at| at + 1);
    if let Some(rest) = of_pod.and_then(|at| message.get(at..)) {
        let mut depth = 1_usize;
        let end = rest.find(|c| {
            match c {
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
            depth == 0
        });
        return Some(end.and_then(|end| rest.get(..end)).unwrap_or(rest));
    }
    let rest = message.strip_suffix(')')?;
    let mut depth = 1_usize;
    let start = rest.rfind(|c| {
        match c {
            ')' => depth += 1,
            '(' => depth -= 1,
            _ => {}
        }
        depth == 0
    });
    rest.get(start? + 1..)
}

/// The fault that the conditions of a workload report; `None` if it is only not ready yet.
pub fn own_reason(key: &ObjectKey, live: &Value) -> Option<String> {
    if !runs_pods(&key.group, &key.kind) {
        return None;
    }
    let conditions = list(live, "/status/conditions");
    let is_bad = |condition: &&Value| {
        matches!(
            (text(condition, "type"), text(condition, "status")),
            ("ReplicaFailure" | "Failed", "True") | ("Progressing", "False")
        )
    };
    let found = conditions.iter().find(is_bad)?;
    Some(bounded(&described(
        text(found, "reason"),
        text(found, "message"),
    )))
}

/// Names of pods by their fault.
type Reasons<'a> = BTreeMap<String, Vec<&'a str>>;

/// The most frequent fault of a workload's pods; `None` while they are only starting.
///
/// # Guarantees
/// The text does not change while a container repeats the same failure, and names the first of the
/// pods that fail so, in the order of names. Pods that have ended count only if no other pod has a
/// fault: evicted pods remain, although others have replaced them.
pub fn pods_reason<'a>(pods: impl IntoIterator<Item = &'a Value>) -> Option<String> {
    let (mut present, mut ended) = (Reasons::new(), Reasons::new());
    for pod in pods {
        if let Some(reason) = pod_reason(pod) {
            let of = if has_failed(pod) {
                &mut ended
            } else {
                &mut present
            };
            of.entry(reason).or_default().push(metadata(pod, "name"));
        }
    }
    let found = if present.is_empty() { ended } else { present };
    let count: usize = found.values().map(Vec::len).sum();
    let (reason, pods) = found
        .iter()
        .max_by(|a, b| a.1.len().cmp(&b.1.len()).then_with(|| b.0.cmp(a.0)))?;
    let pod = pods.iter().min()?;
    let more = match count - 1 {
        0 => String::new(),
        1 => " (and 1 more pod fails)".to_owned(),
        more => format!(" (and {more} more pods fail)"),
    };
    Some(bounded(&format!("pod {pod}: {reason}{more}")))
}

/// The fault of one pod; `None` while it starts, runs or ends.
pub fn pod_reason(pod: &Value) -> Option<String> {
    let is_ending = pod.pointer("/metadata/deletionTimestamp").is_some();
    let status = &pod["status"];
    let phase = text(status, "phase");
    if is_ending || phase == "Succeeded" {
        return None;
    }
    let unscheduled = list(pod, "/status/conditions").iter().find(|condition| {
        text(condition, "type") == "PodScheduled" && text(condition, "status") == "False"
    });
    if let Some(condition) = unscheduled {
        return Some(described("unschedulable", text(condition, "message")));
    }
    let failing = containers(pod).find(Container::is_failing);
    failing.map(Container::reason).or_else(|| {
        let described = || described(text(status, "reason"), text(status, "message"));
        has_failed(pod).then(described)
    })
}

/// True if a pod has ended for good, with a failure.
fn has_failed(pod: &Value) -> bool {
    text(&pod["status"], "phase") == "Failed"
}

/// The container of a pod that ended by itself and is started again; its log shows more.
pub fn crashed_container(pod: &Value) -> Option<&str> {
    let crashed =
        containers(pod).find(|container| container.is_failing() && container.exit().is_some())?;
    Some(text(crashed.status, "name"))
}

/// The status of a container.
#[derive(Clone, Copy)]
struct Container<'a> {
    status: &'a Value,
    /// True if it has to end before the others start.
    is_init: bool,
    /// True if it is started again after every end.
    is_restarted: bool,
}

fn containers(pod: &Value) -> impl Iterator<Item = Container<'_>> {
    let restarts = text(&pod["spec"], "restartPolicy") == "Always";
    let of = |path, is_init: bool| {
        let statuses = list(pod, path).iter();
        statuses.map(move |status| Container {
            status,
            is_init,
            is_restarted: restarts && !is_init,
        })
    };
    of("/status/initContainerStatuses", true).chain(of("/status/containerStatuses", false))
}

impl<'a> Container<'a> {
    /// The fault of the container; only for one that fails.
    fn reason(self) -> String {
        let name = text(self.status, "name");
        let message = text(&self.status["state"]["waiting"], "message");
        let why = match (self.exit(), self.waits_for()) {
            // A container that ends repeatedly is described by its last end, independent of its
            // present state.
            (Some((code, "" | "Error" | "Completed")), _) => format!("exited with code {code}"),
            (Some((code, reason)), _) => format!("exited with code {code} ({reason})"),
            // These two reasons alternate.
            (None, "ErrImagePull" | "ImagePullBackOff") => {
                let image = text(self.status, "image");
                format!("ImagePullBackOff: image {image} cannot be pulled")
            }
            (None, "") => "running, but not ready".to_owned(),
            // The message is left out because it counts seconds.
            (None, BACK_OFF) => BACK_OFF.to_owned(),
            (None, reason) => described(reason, message),
        };
        format!("container {name}: {why}")
    }

    /// True if the container is neither ready, nor done, nor starting for the first time.
    fn is_failing(&self) -> bool {
        let state = &self.status["state"];
        let is_done = state["terminated"]["exitCode"] == 0 && !self.is_restarted;
        if self.status["ready"] == true || is_done {
            return false;
        }
        let starts = ["", "ContainerCreating", "PodInitializing"];
        self.exit().is_some()
            || !starts.contains(&self.waits_for())
            || (!self.is_init && state["running"].is_object())
    }

    /// The reason why the container does not run yet; empty if it does not wait.
    fn waits_for(&self) -> &'a str {
        text(&self.status["state"]["waiting"], "reason")
    }

    /// Exit code and reason of the last unexpected end of the container.
    fn exit(&self) -> Option<(i64, &'a str)> {
        let ends = ["state", "lastState"].map(|state| &self.status[state]["terminated"]);
        let end = ends.into_iter().find(|end| end.is_object())?;
        let is_failure =
            |code: &i64| *code != 0 || self.is_restarted || self.waits_for() == BACK_OFF;
        let code = end["exitCode"].as_i64().filter(is_failure)?;
        Some((code, text(end, "reason")))
    }
}

pub(crate) fn list<'a>(object: &'a Value, path: &str) -> &'a [Value] {
    let list = object.pointer(path).and_then(Value::as_array);
    list.map_or(&[], Vec::as_slice)
}

fn described(reason: &str, message: &str) -> String {
    match (reason, message) {
        ("", "") => "failed".to_owned(),
        (reason, "") => reason.to_owned(),
        ("", message) => message.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    }
}

/// Puts a text on one line and limits its length.
fn bounded(text: &str) -> String {
    truncate(&collapse_whitespace(text), MAX_TEXT).into_owned()
}
