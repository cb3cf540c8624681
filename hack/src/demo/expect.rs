//! The expected results of a step.

use std::collections::BTreeMap;

use serde_json::Value;

/// The objects of the tour's namespace at one moment, by `Kind/name`; objects of another cluster by
/// `us-1:Kind/name`.
#[derive(Debug, Default)]
pub(crate) struct Snapshot(BTreeMap<String, Value>);

/// An expected result. Objects are named as `Kind/name`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Expect {
    /// An object has a condition with this status, observed in its latest generation.
    Is(&'static str, &'static str, &'static str),
    /// The reason and the message of a condition of an object contain this.
    Says(&'static str, &'static str, &'static str),
    /// A field of an object, given by its JSON pointer, has this value.
    Field(&'static str, &'static str, &'static str),
    /// Two pods of a Deployment are ready, and have this image.
    Pods(&'static str, &'static str),
    /// A revision controls no objects any more.
    ControlsNothing(&'static str),
    /// An object is controlled by the ObjectSet of this name.
    Controlled(&'static str, &'static str),
    /// An object is the same as before the step.
    Kept(&'static str),
    /// An object does not exist.
    Gone(&'static str),
    /// A Release waits at the step with this name, which it has reached completely.
    At(&'static str, &'static str),
    /// A Release is complete, and waits for nothing.
    Complete(&'static str),
    /// A Deployment has exactly this number of pods, and all of them are ready.
    Runs(&'static str, u64),
    /// This number of pods gets traffic by a Service.
    Serves(&'static str, usize),
    /// The revisions of the deployment `cafe` with these numbers are archived, and no others.
    Archived(&'static [i64]),
}

use Expect::{
    Archived, At, Complete, Controlled, ControlsNothing, Field, Gone, Is, Kept, Pods, Runs, Says,
    Serves,
};

impl Snapshot {
    pub(crate) fn new(objects: Vec<Value>) -> Self {
        Self::default().with("", objects)
    }

    /// Adds objects of another cluster.
    pub(crate) fn with(mut self, cluster: &str, objects: Vec<Value>) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let key = |object: &Value| {
            let colon = if cluster.is_empty() { "" } else { ":" };
            let (kind, name) = (&object["kind"], &object["metadata"]["name"]);
            format!("{cluster}{colon}{}/{}", text(kind), text(name))
        };
        self.0
            .extend(objects.into_iter().map(|object| (key(&object), object)));
        self
    }

    fn at(&self, object: &str, pointer: &str) -> &Value {
        let found = self
            .0
            .get(object)
            .and_then(|object| object.pointer(pointer));
        found.unwrap_or(&Value::Null)
    }

    fn list(&self, object: &str, pointer: &str) -> impl Iterator<Item = &Value> {
        self.at(object, pointer).as_array().into_iter().flatten()
    }

    /// Number of ready pods of a Service, by its `EndpointSlices`.
    fn addresses(&self, service: &str) -> usize {
        let (cluster, name) = service.split_once("Service/").unwrap_or_default();
        let prefix = format!("{cluster}EndpointSlice/");
        let slices = self.0.iter().filter(|(key, slice)| {
            key.starts_with(&prefix)
                && slice["metadata"]["labels"]["kubernetes.io/service-name"] == name
        });
        let endpoints = slices.filter_map(|(_, slice)| slice["endpoints"].as_array());
        let ready = endpoints
            .flatten()
            .filter(|it| it["conditions"]["ready"] == true);
        ready.count()
    }

    fn condition(&self, object: &str, type_: &str) -> &Value {
        let mut conditions = self.list(object, "/status/conditions");
        conditions
            .find(|one| one["type"] == type_)
            .unwrap_or(&Value::Null)
    }
}

impl Expect {
    /// The reason that the result is not reached; `None` if it is.
    pub(crate) fn unmet(self, now: &Snapshot, before: &Snapshot) -> Option<String> {
        let found = match self {
            Is(object, type_, status) => {
                let found = now.condition(object, type_);
                let is_latest =
                    &found["observedGeneration"] == now.at(object, "/metadata/generation");
                (!is_latest || found["status"] != status).then(|| found.to_string())
            }
            Says(object, type_, text) => {
                let found = now.condition(object, type_);
                let found = format!(
                    "{}: {}",
                    text_of(&found["reason"]),
                    text_of(&found["message"])
                );
                (!found.contains(text)).then_some(found)
            }
            Field(object, pointer, value) => differs(now.at(object, pointer), value),
            Pods(object, image) => {
                let found = now.at(object, "/spec/template/spec/containers/0/image");
                differs(found, image)
                    .or_else(|| differs(now.at(object, "/status/readyReplicas"), "2"))
            }
            ControlsNothing(object) => {
                let controls = now.list(object, "/status/controllerOf").count();
                (controls > 0).then(|| format!("{controls} objects"))
            }
            Controlled(object, set) => {
                let mut owners = now.list(object, "/metadata/ownerReferences");
                let owner = owners.find(|owner| owner["controller"] == true);
                differs(owner.map_or(&Value::Null, |owner| &owner["name"]), set)
            }
            At(release, step) => {
                let status = now.at(release, "/status");
                let target = now.at(release, "/spec/targetStep");
                let is_there = status["achievedStep"]["name"] == step
                    && &status["achievedStep"]["step"] == target
                    && status["strategy"]["state"]["waitingForCommand"] == "True";
                (!is_there).then(|| format!("sent to {target}, {}", progress(status)))
            }
            Complete(release) => {
                let status = now.at(release, "/status");
                let waits = status["strategy"]["state"].as_object();
                let is_complete = now.condition(release, "Complete")["status"] == "True"
                    && waits.is_some_and(|waits| waits.values().all(|state| state == "False"));
                (!is_complete).then(|| progress(status))
            }
            Runs(object, count) => {
                let fields = [
                    "/spec/replicas",
                    "/status/replicas",
                    "/status/readyReplicas",
                ];
                let found = fields.map(|field| now.at(object, field).as_u64().unwrap_or_default());
                let runs = now.0.contains_key(object) && found == [count; 3];
                (!runs).then(|| format!("{found:?}"))
            }
            Serves(service, count) => {
                let found = now.addresses(service);
                (found != count).then(|| found.to_string())
            }
            Kept(object) => {
                let uid = |snapshot: &Snapshot| text_of(snapshot.at(object, "/metadata/uid"));
                let kept = now.0.contains_key(object) && uid(now) == uid(before);
                (!kept).then(|| uid(now))
            }
            Gone(object) => now.0.get(object).map(Value::to_string),
            Archived(numbers) => {
                let found = archived(now);
                (found != numbers).then(|| format!("{found:?}"))
            }
        };
        found.map(|found| format!("{self:?}, and not {found}"))
    }

    /// The object of the expectation.
    #[cfg(test)]
    pub(crate) fn object(self) -> Option<&'static str> {
        match self {
            Is(object, ..)
            | Says(object, ..)
            | Field(object, ..)
            | Pods(object, _)
            | ControlsNothing(object)
            | Controlled(object, _)
            | Kept(object)
            | Gone(object)
            | At(object, _)
            | Complete(object)
            | Runs(object, _)
            | Serves(object, _) => Some(object),
            Archived(_) => None,
        }
    }
}

/// The progress of a Release.
fn progress(status: &Value) -> String {
    let (achieved, strategy) = (&status["achievedStep"], &status["strategy"]);
    format!("at {achieved} with {strategy}, {}", status["conditions"])
}

/// The numbers of the archived revisions of `cafe`.
fn archived(now: &Snapshot) -> Vec<i64> {
    let sets = now.0.iter().filter(|(key, set)| {
        key.starts_with("ObjectSet/") && set["metadata"]["labels"]["app"] == "cafe"
    });
    let archived = sets.filter(|(key, _)| now.condition(key, "Archived")["status"] == "True");
    let mut numbers: Vec<i64> = archived
        .filter_map(|(_, set)| set["spec"]["revision"].as_i64())
        .collect();
    numbers.sort_unstable();
    numbers
}

fn differs(found: &Value, wanted: &str) -> Option<String> {
    Some(text_of(found)).filter(|found| found != wanted)
}

/// A value without quotes.
fn text_of(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(name: &str, archived: bool) -> Value {
        let condition = json!({"type": "Available", "status": "False", "observedGeneration": 2,
            "reason": "ProbeFailure", "message": "it is"});
        let archived_condition =
            json!({"type": "Archived", "status": if archived { "True" } else { "False" }});
        let controls = if archived { json!([]) } else { json!([{}]) };
        json!({
            "kind": "ObjectSet",
            "metadata": {"name": name, "generation": 2, "labels": {"app": "cafe"}},
            "spec": {"revision": 7},
            "status": {"conditions": [condition, archived_condition], "controllerOf": controls},
        })
    }

    fn settings(uid: &str) -> Value {
        json!({"kind": "ConfigMap", "data": {"greeting": "hello"}, "metadata": {"name": "settings", "uid": uid,
            "ownerReferences": [{"name": "v1"}, {"name": "v2", "controller": true}]}})
    }

    #[test]
    fn an_unmet_expectation_states_what_was_found() {
        let mut stale = set("stale", false);
        stale["metadata"]["generation"] = 3.into();
        let now = Snapshot::new(vec![
            set("v1", false),
            set("v2", true),
            stale,
            settings("u"),
        ]);
        let same = Snapshot::new(vec![settings("u")]);
        let other = Snapshot::new(vec![settings("other")]);
        let (v1, settings) = ("ObjectSet/v1", "ConfigMap/settings");
        for (expect, before, unmet) in [
            (Is(v1, "Available", "False"), &same, None),
            (
                Is(v1, "Available", "True"),
                &same,
                Some("\"status\":\"False\""),
            ),
            (Is(v1, "Succeeded", "True"), &same, Some("not null")),
            (
                Is("ObjectSet/stale", "Available", "False"),
                &same,
                Some("ProbeFailure"),
            ),
            (Says(v1, "Available", "ProbeFailure: it"), &same, None),
            (
                Says(v1, "Available", "WriteError"),
                &same,
                Some("not ProbeFailure: it is"),
            ),
            (Field(v1, "/spec/revision", "7"), &same, None),
            (
                Field(settings, "/data/greeting", "bye"),
                &same,
                Some("not hello"),
            ),
            (Pods("Deployment/shop", "a:1"), &same, Some("not null")),
            (ControlsNothing("ObjectSet/v2"), &same, None),
            (ControlsNothing(v1), &same, Some("1 objects")),
            (Controlled(settings, "v2"), &same, None),
            (Controlled(settings, "v1"), &same, Some("not v2")),
            (Kept(settings), &same, None),
            (Kept(settings), &other, Some("not u")),
            (Gone("Service/shop"), &same, None),
            (Gone(settings), &same, Some("settings")),
            (Archived(&[7]), &same, None),
            (Archived(&[]), &same, Some("not [7]")),
        ] {
            let found = expect.unmet(&now, before);
            let as_expected = match (&found, unmet) {
                (None, None) => true,
                (Some(found), Some(unmet)) => found.contains(unmet),
                _ => false,
            };
            assert!(as_expected, "{expect:?}: {found:?}");
        }
    }

    /// A Release at a step; with `waits` it waits for a command, otherwise for capacity.
    fn release(name: &str, step: i64, waits: bool) -> Value {
        let state = |is: bool| if is { "True" } else { "False" };
        json!({
            "kind": "Release",
            "metadata": {"name": name},
            "spec": {"targetStep": step},
            "status": {
                "achievedStep": {"step": 1, "name": "half"},
                "conditions": [{"type": "Complete", "status": "True"}],
                "strategy": {"state": {
                    "waitingForCapacity": state(step != 1), "waitingForCommand": state(waits),
                }},
            },
        })
    }

    #[test]
    fn expectations_about_releases_and_pods_are_checked() {
        let pods = |ready: u64| {
            json!({"kind": "Deployment", "metadata": {"name": "d"}, "spec": {"replicas": 2},
                "status": {"replicas": 2, "readyReplicas": ready}})
        };
        let none = json!({"kind": "Deployment", "metadata": {"name": "none"}, "spec": {"replicas": 0}, "status": {}});
        let endpoint = |ready: bool| json!({"conditions": {"ready": ready}});
        let slice = |service: &str| {
            json!({"kind": "EndpointSlice", "endpoints": [endpoint(true), endpoint(false), endpoint(true)],
                "metadata": {"name": service, "labels": {"kubernetes.io/service-name": service}}})
        };
        let hub = vec![
            release("waits", 1, true),
            release("sent", 2, true),
            release("done", 1, false),
            pods(2),
            none,
            slice("s"),
        ];
        let now = Snapshot::new(hub).with("us-1", vec![pods(1), slice("s"), slice("other")]);
        let before = Snapshot::default();
        for (expect, unmet) in [
            (At("Release/waits", "half"), None),
            (At("Release/waits", "all"), Some("sent to 1, at {")),
            (At("Release/sent", "half"), Some("sent to 2")),
            (
                At("Release/done", "half"),
                Some("\"waitingForCommand\":\"False\""),
            ),
            (At("Release/lost", "half"), Some("sent to null")),
            (Complete("Release/done"), None),
            (Complete("Release/waits"), Some("waitingForCommand")),
            (Complete("Release/lost"), Some("at null")),
            (Runs("Deployment/d", 2), None),
            (Runs("us-1:Deployment/d", 2), Some("not [2, 2, 1]")),
            (Runs("Deployment/none", 0), None),
            (Runs("Deployment/lost", 0), Some("not [0, 0, 0]")),
            (Serves("Service/s", 2), None),
            (Serves("us-1:Service/s", 2), None),
            (Serves("us-1:Service/s", 4), Some("not 2")),
            (Serves("Service/other", 2), Some("not 0")),
        ] {
            let found = expect.unmet(&now, &before);
            let as_expected = match (&found, unmet) {
                (None, None) => true,
                (Some(found), Some(unmet)) => found.contains(unmet),
                _ => false,
            };
            assert!(as_expected, "{expect:?}: {found:?}");
        }
    }
}
