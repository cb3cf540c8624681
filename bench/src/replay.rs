//! Replays the requests that a manager sends in a rollout without a manager: the bound for its
//! rate.
//!
//! The bodies are taken from the objects that the manager has left behind: those of the first set,
//! with the names of the other sets filled in. The order is that of a manager: number and
//! finalizers of a revision first, then phase after phase, the first write of a phase alone and
//! without a dry run, and the statuses last. The replay decides nothing, watches nothing and does
//! not wait.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use baton_apis::constants::FIELD_MANAGER;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::header::{self, HeaderValue};
use kube::Client;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::core::Request;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::bare::{self, manage, owner};
use super::error::Error;
use super::figures::{Replayed, Timing, ratio};
use super::load::{Shape, base, set_name};
use super::process::Servers;
use super::target::{BuiltRequest, MAX_CONCURRENT, Target};

const NAMESPACE: &str = "bench-replay";

/// The header with which the manager requests answers.
const METADATA_ONLY: HeaderValue =
    HeaderValue::from_static("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1");

/// The revision whose objects are the templates; the one before it is used as well.
const LAST: u32 = 3;

struct Replay<'a> {
    target: Target,
    shape: &'a Shape,
    owners: [Value; 2],
    /// An available revision, and one that has lost all objects.
    sets: [Value; 2],
    /// Phase objects of the two revisions.
    phases: [Vec<Value>; 2],
    /// Events of the handover.
    events: Vec<Value>,
    sent: AtomicU64,
    /// Resource versions of the written objects, by name.
    versions: Mutex<HashMap<String, String>>,
}

/// The fields that are read of an answer.
#[derive(Deserialize)]
struct WrittenObject {
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    /// Empty in the answer to a dry run of a new object.
    #[serde(default)]
    resource_version: String,
}

/// Replays the three rollouts that a manager has left on a server, each between two bare
/// measurements. The manager has to be stopped before.
pub(crate) async fn measure(
    client: &Client,
    rolled_out: &Target,
    servers: &Servers,
    shape: &Shape,
    mut round: usize,
) -> Result<Vec<Replayed>, Error> {
    let replay = Replay::prepare(client, rolled_out, shape).await?;
    let mut before = bare::measure(client, servers, shape, round).await?;
    let mut replayed = Vec::new();
    for (revision, step) in (1..=LAST).zip(["create", "handover", "unchanged"]) {
        let server = servers.cpu();
        let timing = replay.roll_out(revision).await?;
        let timing = timing.with_server(servers.cpu() - server);
        round += 1;
        let after = bare::measure(client, servers, shape, round).await?;
        let to_bare = ratio(2.0 * timing.rate, before.rate + after.rate);
        before = after;
        let requests = replay.sent.swap(0, Ordering::Relaxed);
        eprintln!(
            "bench: {step}, requests alone: {:.0} objects/s, {to_bare:.2} x bare, {requests} requests",
            timing.rate
        );
        replayed.push(Replayed {
            step,
            requests,
            timing,
            to_bare,
        });
    }
    Ok(replayed)
}

impl<'a> Replay<'a> {
    async fn prepare(
        client: &Client,
        rolled_out: &Target,
        shape: &'a Shape,
    ) -> Result<Self, Error> {
        let target = Target::create(client, NAMESPACE).await?;
        let owners = [
            owner(&target, "owner-of-all-v1").await?,
            owner(&target, "owner-of-all-v2").await?,
        ];
        let items = async |path: String| {
            let list = Request::new(path).list(&ListParams::default());
            let mut list: Value = rolled_out.send(list).await?;
            Ok::<_, Error>(
                list["items"]
                    .as_array_mut()
                    .map(std::mem::take)
                    .unwrap_or_default(),
            )
        };
        let names = [set_name(0, LAST), set_name(0, LAST - 1)];
        let sets = items(rolled_out.sets()).await?;
        let set = |name: &String| {
            let mut sets = sets.iter();
            sets.find(|set| set["metadata"]["name"] == **name).cloned()
        };
        let phases = items(rolled_out.phase_objects()).await?;
        let of_set = |name: &String| {
            let is_its = |phase: &&Value| phase["metadata"]["ownerReferences"][0]["name"] == **name;
            phases.iter().filter(is_its).cloned().collect()
        };
        let mut events = items(rolled_out.events()).await?;
        let handed_over = set_name(0, 2);
        events.retain(|event| {
            let about = event["regarding"]["name"].as_str().unwrap_or_default();
            about.starts_with(&handed_over)
        });
        Ok(Self {
            sets: names.each_ref().map(|name| set(name).unwrap_or_default()),
            phases: names.each_ref().map(of_set),
            events,
            target,
            shape,
            owners,
            sent: AtomicU64::new(0),
            versions: Mutex::default(),
        })
    }

    /// Writes one revision of all sets.
    async fn roll_out(&self, revision: u32) -> Result<Timing, Error> {
        let started = Instant::now();
        stream::iter(0..self.shape.sets)
            .map(Ok)
            .try_for_each_concurrent(MAX_CONCURRENT, |set| self.set(set, revision))
            .await?;
        Ok(Timing::of(self.shape.objects(), started.elapsed()))
    }

    async fn set(&self, set: usize, revision: u32) -> Result<(), Error> {
        let name = set_name(set, revision);
        let bodies = [(name.clone(), self.shape.set(set, revision))].into();
        // The user's write.
        self.target.create_all(self.target.sets(), &bodies).await?;
        let [template, lost] = &self.sets;
        let set_up = json!({
            "metadata": { "finalizers": template["metadata"]["finalizers"] },
            "spec": { "revision": revision },
        });
        let path = Request::new(self.target.sets());
        self.send(path.patch(&name, &PatchParams::default(), &Patch::Merge(&set_up)))
            .await?;
        let objects = self.shape.children_of(set, revision);
        let phases = self.phases[0]
            .iter()
            .map(Some)
            .chain(std::iter::repeat(None));
        for (objects, phase) in objects.chunks(self.shape.per_phase).zip(phases) {
            if let Some(phase) = phase {
                let body = renamed(phase, LAST, set, revision);
                let body = json!({
                    "apiVersion": body["apiVersion"],
                    "kind": body["kind"],
                    "metadata": {
                        "name": body["metadata"]["name"],
                        "labels": body["metadata"]["labels"],
                        "finalizers": body["metadata"]["finalizers"],
                        "ownerReferences": [self.owners[0]],
                    },
                    "spec": body["spec"],
                });
                self.post(self.target.phase_objects(), &body).await?;
            }
            self.write(objects, revision).await?;
            if let Some(phase) = phase {
                let phase = renamed(phase, LAST, set, revision);
                self.status(self.target.phase_objects(), &phase).await?;
            }
        }
        let available = renamed(template, LAST, set, revision);
        self.status(self.target.sets(), &available).await?;
        if revision > 1 {
            let lost = renamed(lost, LAST - 1, set, revision - 1);
            self.status(self.target.sets(), &lost).await?;
            for phase in &self.phases[1] {
                let phase = renamed(phase, LAST - 1, set, revision - 1);
                self.status(self.target.phase_objects(), &phase).await?;
            }
            for (number, event) in self.events.iter().enumerate() {
                let mut event = renamed(event, 2, set, revision);
                event["metadata"] = json!({ "name": format!("{name}.{number}") });
                self.post(self.target.events(), &event).await?;
            }
        }
        Ok(())
    }

    /// Writes the objects of a phase. New ones are checked by POST, and those with unchanged content need
    /// no dry run.
    async fn write(&self, objects: &[(String, Value)], revision: u32) -> Result<(), Error> {
        let path = Request::new(self.target.config_maps());
        let apply = PatchParams::apply(FIELD_MANAGER);
        let dry_run = apply.clone().dry_run();
        let checked = PostParams {
            dry_run: true,
            field_manager: Some(FIELD_MANAGER.to_owned()),
        };
        let write = |name: &str, object: &Value| path.patch(name, &apply, &Patch::Apply(object));
        let check: &dyn Fn(&str, &Value) -> BuiltRequest = if revision == 1 {
            &|_, object| path.create(&checked, object.to_string().into_bytes())
        } else {
            &|name, object| path.patch(name, &dry_run, &Patch::Apply(object))
        };
        let send = async |objects: &[(String, Value)],
                          request: &dyn Fn(&str, &Value) -> BuiltRequest| {
            let requests = objects.iter().map(|(name, object)| {
                let mut object = object.clone();
                manage(&mut object, revision, &self.owners);
                request(name, &object)
            });
            let sent = stream::iter(requests).map(Ok::<_, Error>);
            sent.try_for_each_concurrent(MAX_CONCURRENT, |request| self.send(request))
                .await
        };
        if revision == LAST {
            return send(objects, &write).await;
        }
        let (first, others) = objects.split_at(1.min(objects.len()));
        send(first, &write).await?;
        send(others, check).await?;
        send(others, &write).await
    }

    async fn status(&self, collection: String, object: &Value) -> Result<(), Error> {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let version = self.versions.lock().get(name).cloned();
        let body = json!({
            "apiVersion": object["apiVersion"],
            "kind": object["kind"],
            "metadata": { "name": name, "resourceVersion": version },
            "status": object["status"],
        });
        let body = body.to_string().into_bytes();
        let path = Request::new(collection);
        self.send(path.replace_subresource("status", name, &PostParams::default(), body))
            .await
    }

    async fn post(&self, collection: String, body: &Value) -> Result<(), Error> {
        let body = body.to_string().into_bytes();
        self.send(Request::new(collection).create(&PostParams::default(), body))
            .await
    }

    async fn send(&self, request: BuiltRequest) -> Result<(), Error> {
        self.sent.fetch_add(1, Ordering::Relaxed);
        let request = request.map(|mut request| {
            let headers = request.headers_mut();
            headers.insert(header::ACCEPT, METADATA_ONLY);
            request
        });
        let WrittenObject { metadata } = self.target.send(request).await?;
        let Metadata {
            name,
            resource_version,
        } = metadata;
        self.versions.lock().insert(name, resource_version);
        Ok(())
    }
}

/// An object of the first set's revision, renamed to that of another set and revision.
fn renamed(template: &Value, from: u32, set: usize, revision: u32) -> Value {
    let namespace = |name| format!(r#""namespace":"{name}""#);
    let text = template
        .to_string()
        .replace(&set_name(0, from), &set_name(set, revision))
        .replace(&base(0), &base(set))
        .replace(&namespace("bench"), &namespace(NAMESPACE));
    serde_json::from_str(&text).unwrap_or_default()
}
