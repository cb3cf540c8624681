//! The events of the objects of one Release over time: they show where the time of a rollout is
//! spent.

use std::collections::BTreeMap;

use kube::Client;
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::release::Release;
use crate::figures::releases::Moment;
use crate::target::Target;
use crate::watch::{ObjectEvent, Watch, Watched};

impl Watched for Value {
    fn name(&self) -> &str {
        self["metadata"]["name"].as_str().unwrap_or_default()
    }
}

/// Describes the state of an object in short.
type Digest = fn(&Value) -> String;

/// The kinds that are watched, with the description of their state.
const KINDS: [(&str, Digest); 11] = [
    ("Application", |_| "there".to_owned()),
    ("Release", release),
    ("InstallationTarget", installation),
    ("CapacityTarget", capacity),
    ("TrafficTarget", traffic),
    ("ObjectSlice", |_| "there".to_owned()),
    ("ObjectSet", |it| conditions(it, &["Available"])),
    ("Deployment", deployment),
    ("Service", service),
    ("Pods", |_| String::new()),
    ("Addresses", |_| String::new()),
];

/// Watches on all kinds of which Releases consist. They end when this is dropped.
pub(super) struct Profiler {
    events: UnboundedReceiver<(usize, ObjectEvent<Value>)>,
    _tasks: JoinSet<()>,
}

impl Profiler {
    /// Starts the watches, and returns when each kind was listed.
    pub(super) async fn start(client: &Client, target: &Target) -> Self {
        let (sender, sights) = unbounded_channel();
        let mut tasks = JoinSet::new();
        for (kind, path) in paths(target).into_iter().enumerate() {
            let mut watch = Watch::<Value>::start(client, path);
            let sender = sender.clone();
            tasks.spawn(async move {
                while let Some(sight) = watch.next().await {
                    if sender.send((kind, sight)).is_err() {
                        return;
                    }
                }
            });
        }
        let mut profiler = Self {
            events: sights,
            _tasks: tasks,
        };
        profiler.settle().await;
        profiler
    }

    /// Waits for the lists: there are objects of each kind already.
    async fn settle(&mut self) {
        let mut listed = [false; KINDS.len()];
        while listed.contains(&false) {
            match self.events.recv().await {
                Some((kind, _)) => listed[kind] = true,
                None => return,
            }
        }
    }

    /// The events of an application since then, each state once.
    pub(super) fn moments(&mut self, application: &str, started: Instant) -> Vec<Moment> {
        let mut states = States::new(application);
        while let Ok((kind, sight)) = self.events.try_recv() {
            states.take(kind, sight, started);
        }
        states.moments
    }
}

fn paths(target: &Target) -> [String; KINDS.len()] {
    [
        target.shipper("applications"),
        target.shipper("releases"),
        target.shipper("installationtargets"),
        target.shipper("capacitytargets"),
        target.shipper("traffictargets"),
        target.slices(),
        target.sets(),
        target.deployments_of_apps(),
        target.services(),
        target.pods(),
        target.endpoint_slices(),
    ]
}

/// The last state of each object; for pods and addresses, their number.
struct States {
    application: String,
    last: BTreeMap<(usize, String), String>,
    objects: BTreeMap<(usize, String), Value>,
    moments: Vec<Moment>,
}

impl States {
    fn new(application: &str) -> Self {
        Self {
            application: application.to_owned(),
            last: BTreeMap::new(),
            objects: BTreeMap::new(),
            moments: vec![],
        }
    }

    fn take(&mut self, kind: usize, sight: ObjectEvent<Value>, started: Instant) {
        let ObjectEvent { name, at, object } = sight;
        let Some(object) = object.filter(|_| name.starts_with(&self.application)) else {
            return;
        };
        let (kind_name, digest) = KINDS[kind];
        let (name, state) = match kind_name {
            "Pods" | "Addresses" => {
                self.objects.insert((kind, name), object);
                let all = self.objects.iter().filter(|((of, _), _)| *of == kind);
                let all: Vec<&Value> = all.map(|(_, object)| object).collect();
                let state = if kind_name == "Pods" {
                    pods(&all)
                } else {
                    addresses(&all)
                };
                (String::new(), state)
            }
            _ => (name, digest(&object)),
        };
        if self.last.get(&(kind, name.clone())) == Some(&state) {
            return;
        }
        self.last.insert((kind, name), state.clone());
        self.moments.push(Moment {
            milliseconds: 1000.0 * at.saturating_duration_since(started).as_secs_f64(),
            kind: kind_name,
            state,
        });
    }
}

fn release(object: &Value) -> String {
    let described = serde_json::from_value(object.clone()).ok();
    described.map_or_else(String::new, |release: Release| {
        let complete = if release.is_complete() {
            ", complete"
        } else {
            ""
        };
        format!("{}{complete}", release.describe())
    })
}

fn installation(object: &Value) -> String {
    conditions(object, &["Operational", "Ready"])
}

fn capacity(object: &Value) -> String {
    let of = |clusters: &Value, field: &str| clusters[0][field].to_string();
    let wanted = of(&object["spec"]["clusters"], "percent");
    let achieved = of(&object["status"]["clusters"], "achievedPercent");
    let conditions = conditions(object, &["Operational", "Ready"]);
    format!("{wanted} % wanted, {achieved} % achieved; {conditions}")
}

fn traffic(object: &Value) -> String {
    let of = |clusters: &Value, field: &str| clusters[0][field].to_string();
    let wanted = of(&object["spec"]["clusters"], "weight");
    let achieved = of(&object["status"]["clusters"], "achievedTraffic");
    let conditions = conditions(object, &["Operational", "Ready"]);
    format!("weight {wanted} wanted, {achieved} achieved; {conditions}")
}

fn deployment(object: &Value) -> String {
    let status = |field: &str| object["status"][field].as_u64().unwrap_or_default();
    let wanted = &object["spec"]["replicas"];
    format!("{wanted} wanted, {} available", status("availableReplicas"))
}

fn service(object: &Value) -> String {
    format!("selects {}", object["spec"]["selector"])
}

fn pods(all: &[&Value]) -> String {
    let is_ready = |pod: &&&Value| condition(pod, "Ready") == "True";
    let enabled = "shipper-traffic-status";
    let has_traffic = |pod: &&&Value| pod["metadata"]["labels"][enabled] == "enabled";
    format!(
        "{}, {} ready, {} with traffic",
        all.len(),
        all.iter().filter(is_ready).count(),
        all.iter().filter(has_traffic).count()
    )
}

fn addresses(all: &[&Value]) -> String {
    let endpoints = all.iter().filter_map(|slice| slice["endpoints"].as_array());
    let ready = endpoints
        .flatten()
        .filter(|it| it["conditions"]["ready"] == true);
    format!("{} ready", ready.count())
}

/// These conditions, if there are any.
fn conditions(object: &Value, types: &[&str]) -> String {
    let reported = types.iter().map(|type_| match condition(object, type_) {
        "" => format!("no {type_}"),
        status => format!("{type_} {status}"),
    });
    reported.collect::<Vec<_>>().join(", ")
}

fn condition<'v>(object: &'v Value, type_: &str) -> &'v str {
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    let found = conditions.find(|condition| condition["type"] == type_);
    found
        .and_then(|it| it["status"].as_str())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    #[test]
    fn each_state_of_an_application_is_reported_once() {
        let started = Instant::now();
        let mut states = States::new("a");
        let kind = |name: &str| KINDS.iter().position(|(kind, _)| *kind == name).unwrap();
        let pod = |ready: &str| {
            json!({
                "metadata": {"name": "a-pod", "labels": {"shipper-traffic-status": "enabled"}},
                "status": {"conditions": [{"type": "Ready", "status": ready}]},
            })
        };
        let deployment = json!({
            "metadata": {"name": "a-1"}, "spec": {"replicas": 2}, "status": {"availableReplicas": 1},
        });
        let sights = [
            ("Pods", pod("False")),
            ("Pods", pod("True")),
            ("Pods", pod("True")),
            ("Deployment", deployment.clone()),
            ("Deployment", deployment),
            ("Deployment", json!({"metadata": {"name": "stranger"}})),
        ];
        for (number, (of, object)) in (1..).zip(sights) {
            let sight = ObjectEvent {
                name: object.name().to_owned(),
                at: started + Duration::from_millis(number),
                object: Some(object),
            };
            states.take(kind(of), sight, started);
        }
        let reported: Vec<_> = states
            .moments
            .iter()
            .map(|it| (it.milliseconds.round(), it.kind, &*it.state))
            .collect();
        assert_eq!(
            reported,
            [
                (1.0, "Pods", "1, 0 ready, 1 with traffic"),
                (2.0, "Pods", "1, 1 ready, 1 with traffic"),
                (4.0, "Deployment", "2 wanted, 1 available"),
            ]
        );
    }
}
