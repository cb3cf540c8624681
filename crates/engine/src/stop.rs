//! Workloads that stop for a while: the form in which they run nothing, and the check that nothing
//! runs.
//!
//! Observable behaviour: `docs/contract/sites.md`, "Workloads that stop".

#[cfg(test)]
mod tests;

use baton_apis::{
    ObjectSetObject, SiteStop,
    constants::{ANNOTATION_STOPPED, LABEL_SERVICE},
};
use serde_json::{Value, json};

use crate::{
    Gvk, Request,
    diff::FieldPath,
    keep::is_kept,
    object::{annotation, is_terminating, map_mut, precondition, text},
};

/// The field that stops a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StopField {
    Replicas,
    Suspend,
    NodeSelector,
}

impl StopField {
    const ALL: [Self; 3] = [Self::Replicas, Self::Suspend, Self::NodeSelector];

    /// Returns the field that stops an object, if it is a workload.
    fn of(manifest: &Value) -> Option<Self> {
        let gvk = Gvk::new(text(manifest, "apiVersion"), text(manifest, "kind"));
        match (&*gvk.group, &*gvk.kind) {
            ("apps", "DaemonSet") => Some(Self::NodeSelector),
            ("batch", "Job" | "CronJob") => Some(Self::Suspend),
            ("apps", "Deployment" | "StatefulSet" | "ReplicaSet")
            | ("", "ReplicationController") => Some(Self::Replicas),
            _ => manifest["spec"]["replicas"]
                .is_i64()
                .then_some(Self::Replicas),
        }
    }

    fn path(self) -> &'static [&'static str] {
        match self {
            Self::Replicas => &["spec", "replicas"],
            Self::Suspend => &["spec", "suspend"],
            Self::NodeSelector => &["spec", "template", "spec", "nodeSelector"],
        }
    }

    /// The value with which the workload runs nothing.
    fn off(self) -> Value {
        match self {
            Self::Replicas => 0.into(),
            Self::Suspend => true.into(),
            // No node has this label.
            Self::NodeSelector => json!({ ANNOTATION_STOPPED: "true" }),
        }
    }
}

/// Changes the workloads that are to stop into the form in which they run nothing, and marks them
/// by an annotation.
///
/// # Guarantees
/// Only the mark and the field that stops the workload change. The field is set even if it is
/// create-only.
///
/// # Caveats
/// A Pod only gets the mark: it has no such form, and is deleted instead ([`is_bare_pod`]).
pub fn stop(objects: &mut [ObjectSetObject], which: &SiteStop) {
    for entry in objects {
        if !concerns(which, &entry.object) {
            continue;
        }
        let switch = StopField::of(&entry.object);
        if switch.is_none() && !is_bare_pod(&entry.object) {
            continue;
        }
        let path = switch.map_or(&[][..], StopField::path);
        // A malformed manifest is reported when it is prepared.
        let is_object = |value: &Value| value.is_null() || value.is_object();
        let mut parents = path.iter();
        parents.next_back();
        let mut node = &entry.object;
        if !parents.all(|key| {
            node = &node[*key];
            is_object(node)
        }) || !is_object(&entry.object["metadata"])
            || !is_object(&entry.object["metadata"]["annotations"])
        {
            continue;
        }
        if let Some(switch) = switch {
            let mut field = &mut entry.object;
            for key in path {
                field = &mut field[*key];
            }
            *field = switch.off();
        }
        map_mut(&mut entry.object["metadata"], "annotations")
            .insert(ANNOTATION_STOPPED.to_owned(), "true".into());
        entry.create_only_fields.retain(|path| {
            FieldPath::parse(path).map_or(true, |parsed| {
                switch.is_none_or(|it| !parsed.overlaps(it.path()))
            })
        });
    }
}

/// True if the manifest is one of those that are to stop.
fn concerns(which: &SiteStop, manifest: &Value) -> bool {
    match which {
        SiteStop::None => false,
        SiteStop::All => true,
        SiteStop::Services(names) => {
            let service = manifest["metadata"]["labels"][LABEL_SERVICE].as_str();
            service.is_some_and(|service| names.iter().any(|name| name == service))
        }
    }
}

/// True if the object is a Pod, which runs until it is deleted.
pub fn is_bare_pod(manifest: &Value) -> bool {
    text(manifest, "kind") == "Pod" && text(manifest, "apiVersion") == "v1"
}

/// True if a live Pod runs. A Pod that is to be kept is left alone, and so does not count.
fn runs(pod: &Value) -> bool {
    let phase = pod.pointer("/status/phase").and_then(Value::as_str);
    !matches!(phase, Some("Succeeded" | "Failed")) && !is_kept([pod])
}

/// The request that stops a live Pod; `None` if it does not run, or is being deleted.
pub fn end(pod: &Value) -> Option<Request> {
    let is_due = is_bare_pod(pod) && runs(pod) && !is_terminating(pod);
    is_due.then(|| Request::Delete(precondition(pod)))
}

/// True if the object is in the form in which it runs nothing.
pub fn is_stopped(object: &Value) -> bool {
    !annotation(object, ANNOTATION_STOPPED).is_empty()
}

/// True if a create-only field is written nevertheless, because it has to replace the value that
/// stopped the workload.
pub fn is_switched_on(live: &Value, path: &FieldPath) -> bool {
    is_stopped(live)
        && StopField::ALL
            .iter()
            .any(|switch| path.overlaps(switch.path()))
}

/// The observed pods of a workload that is to stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pods {
    /// Pods exist, or the workload's controller has not observed the change yet.
    Some,
    /// The workload's controller reports no pods, but does not count terminating ones. The pods
    /// match this `spec.selector`.
    Ask(Value),
    /// No pods exist, as far as can be observed.
    None,
}

/// The pods of a live workload, according to its status.
pub fn pods(live: &Value) -> Pods {
    if is_bare_pod(live) {
        return if runs(live) { Pods::Some } else { Pods::None };
    }
    let (spec, status) = (&live["spec"], &live["status"]);
    let (observed, generation) = (
        status["observedGeneration"].as_i64(),
        live["metadata"]["generation"].as_i64(),
    );
    let counts = ["replicas", "currentNumberScheduled", "numberMisscheduled"];
    let is_counted = counts.iter().any(|count| status[*count].as_i64() > Some(0));
    let is_active = match &status["active"] {
        Value::Number(count) => count.as_i64() != Some(0),
        Value::Array(jobs) => !jobs.is_empty(),
        _ => false,
    };
    if observed.is_some_and(|observed| Some(observed) < generation) || is_counted || is_active {
        return Pods::Some;
    }
    match &spec["selector"] {
        Value::Object(selector) if text(live, "kind") == "ReplicationController" => {
            Pods::Ask(json!({ "matchLabels": selector }))
        }
        selector @ Value::Object(_) => Pods::Ask(selector.clone()),
        _ => Pods::None,
    }
}
