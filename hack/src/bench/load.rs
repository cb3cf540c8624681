//! What is written: ConfigMaps, and the revisions that consist of them.

pub mod chains;
pub mod fleet;

use std::collections::BTreeMap;
use std::convert::Infallible;

use baton_apis::constants::{API_VERSION, LABEL_CACHE, LABEL_CACHE_VALUE};
use clap::Args;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::Client;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::core::Request;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

/// Requests that are under way side by side. More gain nothing: the server is what is slow.
pub const SIDE_BY_SIDE: usize = 16;

/// How much is written.
#[derive(Debug, Clone, Copy, PartialEq, Args, Serialize)]
pub struct Shape {
    /// How many ObjectSets.
    #[arg(long, default_value_t = 200)]
    pub sets: usize,
    /// How many phases each of them has.
    #[arg(long, default_value_t = 2)]
    pub phases: usize,
    /// How many ConfigMaps each phase has.
    #[arg(long, default_value_t = 5)]
    pub per_phase: usize,
    /// Bytes of data of each ConfigMap.
    #[arg(long, default_value_t = 256)]
    pub pad: usize,
    /// The class that all phases are handed to, such as `default`. Without it they are run in-process.
    #[arg(long, value_name = "CLASS", value_parser = class)]
    pub phase_class: Option<&'static str>,
}

/// There is one in a run, and it lasts as long.
#[expect(clippy::unnecessary_wraps, reason = "the signature of a parser")]
fn class(text: &str) -> Result<&'static str, Infallible> {
    Ok(String::from(text).leak())
}

impl Shape {
    /// How many objects in all.
    #[must_use]
    pub fn objects(&self) -> usize {
        self.sets * self.phases * self.per_phase
    }

    /// A revision of the set with this number. Its objects are named after the set, so that each
    /// revision of it has the same ones.
    #[must_use]
    pub fn set(&self, number: usize, revision: u32) -> Value {
        let mut set = json!({
            "apiVersion": API_VERSION,
            "kind": "ObjectSet",
            "metadata": {"name": set_name(number, revision)},
            "spec": self.content(&base(number), revision),
        });
        if revision > 1 {
            let previous: Vec<Value> = (1..revision)
                .map(|older| json!({"name": set_name(number, older)}))
                .collect();
            set["spec"]["previous"] = previous.into();
        }
        set
    }

    /// What a revision consists of. The names of its objects begin with `base`.
    fn content(&self, base: &str, revision: u32) -> Value {
        json!({
            "phases": self.phases(base, revision),
            "availabilityProbes": [{
                "selector": {"kind": {"group": "", "kind": "ConfigMap"}},
                "probes": [{"fieldsEqual": {"fieldA": ".metadata.name", "fieldB": ".data.name"}}],
            }],
        })
    }

    fn phases(&self, base: &str, revision: u32) -> Vec<Value> {
        let phase = |phase| {
            let objects = (0..self.per_phase)
                .map(|object| json!({"object": self.child(base, phase, object, revision)}));
            let objects: Vec<Value> = objects.collect();
            let mut phase = json!({"name": format!("phase-{phase}"), "objects": objects});
            if let Some(class) = self.phase_class {
                phase["class"] = class.into();
            }
            phase
        };
        (0..self.phases).map(phase).collect()
    }

    /// An object as a user writes it.
    fn child(&self, base: &str, phase: usize, object: usize, revision: u32) -> Value {
        let name = format!("{base}-{phase}-{object}");
        // Other content in each revision, and in more of them than a history holds: content that
        // comes back would make a deployment look for another name.
        let letters = ('a'..='z').cycle().zip(1..=revision);
        let letter = letters.last().map_or(' ', |(letter, _)| letter);
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name},
            "data": {"name": name, "pad": String::from(letter).repeat(self.pad)},
        })
    }

    /// All objects of all sets in that revision, by name.
    #[must_use]
    pub fn children(&self, revision: u32) -> Vec<(String, Value)> {
        let mut objects = Vec::with_capacity(self.objects());
        for number in 0..self.sets {
            for phase in 0..self.phases {
                for object in 0..self.per_phase {
                    let child = self.child(&base(number), phase, object, revision);
                    let name = child["metadata"]["name"].as_str().unwrap_or_default();
                    objects.push((name.to_owned(), child));
                }
            }
        }
        objects
    }
}

/// What the names of a set's revisions and objects begin with.
fn base(number: usize) -> String {
    format!("set-{number:04}")
}

/// The name of a revision.
#[must_use]
pub fn set_name(number: usize, revision: u32) -> String {
    format!("{}-v{revision}", base(number))
}

/// A namespace of the bench on the API server.
#[derive(Clone)]
pub struct Target {
    client: Client,
    namespace: String,
}

impl Target {
    /// Creates the namespace.
    ///
    /// # Errors
    ///
    /// When the API server refuses it.
    pub async fn create(client: &Client, namespace: &str) -> kube::Result<Self> {
        let body =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        let target = Self {
            client: client.clone(),
            namespace: namespace.to_owned(),
        };
        target
            .post::<IgnoredAny>("/api/v1/namespaces", &body)
            .await?;
        Ok(target)
    }

    /// The path of the namespace's ObjectSets.
    #[must_use]
    pub fn sets(&self) -> String {
        format!(
            "/apis/{API_VERSION}/namespaces/{}/objectsets",
            self.namespace
        )
    }

    /// The path of its ConfigMaps.
    #[must_use]
    pub fn config_maps(&self) -> String {
        format!("/api/v1/namespaces/{}/configmaps", self.namespace)
    }

    /// Creates an ObjectSet, and returns when the server has answered.
    ///
    /// # Errors
    ///
    /// When the API server refuses it.
    pub async fn create_set(&self, body: &Value) -> kube::Result<Instant> {
        let mut body = body.clone();
        self.place(&mut body["spec"]);
        self.post::<IgnoredAny>(&self.sets(), &body).await?;
        Ok(Instant::now())
    }

    /// Objects of delegated phases name their namespace.
    pub fn place(&self, spec: &mut Value) {
        for phase in spec["phases"].as_array_mut().into_iter().flatten() {
            if phase.get("class").is_some() {
                for entry in phase["objects"].as_array_mut().into_iter().flatten() {
                    entry["object"]["metadata"]["namespace"] = self.namespace.as_str().into();
                }
            }
        }
    }

    /// Creates ObjectSets side by side, and returns when each was answered, by name.
    ///
    /// # Errors
    ///
    /// When the API server refuses one.
    pub async fn create_sets(&self, sets: &[Value]) -> kube::Result<BTreeMap<String, Instant>> {
        let create = async |set: &Value| {
            let name = set["metadata"]["name"].as_str().unwrap_or_default();
            Ok((name.to_owned(), self.create_set(set).await?))
        };
        stream::iter(sets)
            .map(create)
            .buffer_unordered(SIDE_BY_SIDE)
            .try_collect()
            .await
    }

    /// Deletes ObjectSets side by side.
    ///
    /// # Errors
    ///
    /// When the API server refuses one.
    pub async fn delete_sets(&self, names: &[String]) -> kube::Result<()> {
        let request = Request::new(self.sets());
        stream::iter(names)
            .map(Ok)
            .try_for_each_concurrent(SIDE_BY_SIDE, |name| {
                let params = DeleteParams::default();
                let delete = request
                    .delete(name, &params)
                    .map_err(kube::Error::BuildRequest);
                async { self.send(delete?).await }
            })
            .await
    }

    /// Waits until no ConfigMap of a manager is left in the namespace.
    ///
    /// # Errors
    ///
    /// When the API server does not list them.
    pub async fn without_children(&self) -> kube::Result<()> {
        let selector = format!("{LABEL_CACHE}={LABEL_CACHE_VALUE}");
        let params = ListParams::default().labels(&selector).limit(1);
        loop {
            let request = Request::new(self.config_maps())
                .list(&params)
                .map_err(kube::Error::BuildRequest)?;
            let list: Names = self.client.request(request).await?;
            if list.items.is_empty() {
                return Ok(());
            }
            sleep(POLL).await;
        }
    }

    /// Creates an object in the collection `path`, and returns what matters of the answer.
    ///
    /// # Errors
    ///
    /// When the API server refuses it.
    pub async fn post<T: DeserializeOwned>(&self, path: &str, body: &Value) -> kube::Result<T> {
        let body = serde_json::to_vec(body).map_err(kube::Error::SerdeError)?;
        let request = Request::new(path).create(&PostParams::default(), body);
        self.client
            .request(request.map_err(kube::Error::BuildRequest)?)
            .await
    }

    /// Sends a request whose answer does not matter as long as it is a success. It is not taken
    /// apart: what the bench itself computes, the machine does not have for the others.
    ///
    /// # Errors
    ///
    /// When the API server refuses it.
    pub async fn send(&self, request: http::Request<Vec<u8>>) -> kube::Result<()> {
        self.client.request::<IgnoredAny>(request).await.map(drop)
    }
}

/// How often it is looked whether something is gone.
const POLL: std::time::Duration = std::time::Duration::from_millis(50);

/// A list of which only the length matters.
#[derive(Deserialize)]
struct Names {
    items: Vec<IgnoredAny>,
}

#[cfg(test)]
mod tests {
    use baton_apis::{ObjectSet, ProbeFieldsEqual};

    use super::*;

    const SHAPE: Shape = Shape {
        sets: 3,
        phases: 2,
        per_phase: 5,
        pad: 256,
        phase_class: None,
    };

    fn objects(set: &ObjectSet) -> Vec<&Value> {
        let phases = set.spec.phases.iter().flatten();
        phases
            .flat_map(|phase| &phase.objects)
            .map(|entry| &entry.object)
            .collect()
    }

    #[test]
    fn sets_are_what_the_types_know() {
        let [first, second]: [ObjectSet; 2] =
            [1, 2].map(|revision| serde_json::from_value(SHAPE.set(1, revision)).unwrap());
        assert_eq!(first.metadata.name.as_deref(), Some("set-0001-v1"));
        assert_eq!(first.spec.previous, None);
        let previous = second.spec.previous.as_ref().unwrap();
        assert_eq!(previous[0].name, "set-0001-v1");
        let probes = first.spec.availability_probes.as_ref().unwrap();
        assert_eq!(
            probes[0].probes[0].fields_equal,
            Some(ProbeFieldsEqual {
                field_a: ".metadata.name".to_owned(),
                field_b: ".data.name".to_owned()
            })
        );
        assert_eq!(objects(&first).len(), 10);
        for (old, new) in objects(&first).into_iter().zip(objects(&second)) {
            assert_eq!(old["metadata"]["name"], new["metadata"]["name"]);
            assert_eq!(
                old["metadata"]["name"], old["data"]["name"],
                "the probe passes"
            );
            assert_ne!(old["data"]["pad"], new["data"]["pad"]);
            assert_eq!(old["data"]["pad"].as_str().unwrap().len(), 256);
        }
    }
}
