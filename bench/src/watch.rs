//! Watches of objects, as cheap as possible.
//!
//! The bench shares the machine with the measured processes, so only the few fields that matter are
//! parsed of each event.

use std::collections::BTreeSet;
use std::pin::pin;
use std::time::Duration;

use futures::TryStreamExt as _;
use kube::Client;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::core::Request;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

/// An object at a moment.
#[derive(Debug, Clone)]
pub(crate) struct ObjectEvent<T = Object> {
    pub(crate) name: String,
    pub(crate) at: Instant,
    /// `None` if it is deleted.
    pub(crate) object: Option<T>,
}

/// The fields that are read of the objects of a kind.
pub(crate) trait Watched: Clone + DeserializeOwned + Send + 'static {
    /// The name of the object.
    fn name(&self) -> &str;
}

impl Watched for Object {
    fn name(&self) -> &str {
        &self.metadata.name
    }
}

/// The fields that are read of an object.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Object {
    pub(crate) metadata: Metadata,
    #[serde(default)]
    pub(crate) spec: Spec,
    #[serde(default)]
    pub(crate) status: Status,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Metadata {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) generation: i64,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Spec {
    /// The number of an ObjectSet.
    pub(crate) revision: u32,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Status {
    conditions: Vec<Condition>,
    pub(crate) controller_of: Vec<IgnoredAny>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Condition {
    #[serde(rename = "type")]
    type_: String,
    pub(crate) status: String,
    #[serde(default)]
    pub(crate) reason: String,
    #[serde(default)]
    pub(crate) message: String,
    #[serde(default)]
    pub(crate) observed_generation: i64,
}

impl Condition {
    /// True if the condition reports that a pod is ready.
    pub(crate) fn is_ready(&self) -> bool {
        self.is("Ready")
    }

    /// The problem, if the condition is false and has a reason.
    pub(crate) fn problem(&self) -> Option<String> {
        let is_one = self.status == "False" && !self.reason.is_empty();
        is_one.then(|| {
            let text = format!("{}: {} {}", self.type_, self.reason, self.message);
            text.trim_end().to_owned()
        })
    }

    /// True if the condition has this type and is true.
    pub(crate) fn is(&self, type_: &str) -> bool {
        self.type_ == type_ && self.status == "True"
    }
}

impl Object {
    pub(crate) fn condition(&self, type_: &str) -> Option<&Condition> {
        let mut conditions = self.status.conditions.iter();
        conditions.find(|condition| condition.type_ == type_)
    }

    pub(crate) fn is_true(&self, type_: &str) -> bool {
        let condition = self.condition(type_);
        condition.is_some_and(|condition| condition.status == "True")
    }
}

/// A watch on the objects of a collection. It ends when this value is dropped.
#[derive(Debug)]
pub(crate) struct Watch<T = Object> {
    events: UnboundedReceiver<ObjectEvent<T>>,
    task: JoinHandle<()>,
}

impl<T: Watched> Watch<T> {
    /// Starts to watch the collection at `path`.
    pub(crate) fn start(client: &Client, path: String) -> Self {
        let (sender, sights) = unbounded_channel();
        let client = client.clone();
        let task = tokio::spawn(async move {
            let mut existing = BTreeSet::new();
            // Runs until the receiver is dropped.
            while follow(&client, &path, &sender, &mut existing)
                .await
                .is_some()
            {
                sleep(Duration::from_millis(100)).await;
            }
        });
        Self {
            events: sights,
            task,
        }
    }

    /// The next event; `None` after the end of the watch, which does not occur.
    pub(crate) async fn next(&mut self) -> Option<ObjectEvent<T>> {
        self.events.recv().await
    }
}

impl<T> Drop for Watch<T> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Deserialize)]
struct List<T> {
    metadata: ListMeta,
    items: Vec<T>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMeta {
    resource_version: String,
}

/// Lists and then watches until the connection ends. `None` if the receiver was dropped.
async fn follow<T: Watched>(
    client: &Client,
    path: &str,
    sender: &UnboundedSender<ObjectEvent<T>>,
    existing: &mut BTreeSet<String>,
) -> Option<()> {
    let send = |name: String, object: Option<T>| {
        let at = Instant::now();
        sender.send(ObjectEvent { name, at, object }).ok()
    };
    let list = Request::new(path).list(&ListParams::default()).ok()?;
    let Ok(list) = client.request::<List<T>>(list).await else {
        return Some(());
    };
    let names = list.items.iter().map(|item| item.name().to_owned());
    let present: BTreeSet<String> = names.collect();
    for gone in existing.difference(&present) {
        send(gone.clone(), None)?;
    }
    for item in list.items {
        send(item.name().to_owned(), Some(item))?;
    }
    *existing = present;

    let version = list.metadata.resource_version;
    let watch = Request::new(path).watch(&WatchParams::default(), &version);
    let Ok(events) = client.request_events::<T>(watch.ok()?).await else {
        return Some(());
    };
    let mut events = pin!(events);
    while let Ok(Some(event)) = events.try_next().await {
        match event {
            WatchEvent::Added(item) | WatchEvent::Modified(item) => {
                let name = item.name().to_owned();
                existing.insert(name.clone());
                send(name, Some(item))?;
            }
            WatchEvent::Deleted(item) => {
                existing.remove(item.name());
                send(item.name().to_owned(), None)?;
            }
            WatchEvent::Bookmark(_) => {}
            WatchEvent::Error(_) => return Some(()),
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_needed_fields_of_an_object_are_parsed() {
        let read = |json: &str| serde_json::from_str::<Object>(json).unwrap();
        let fresh = read(r#"{"metadata":{"name":"a","uid":"1"},"spec":{"phases":[]}}"#);
        assert!(!fresh.is_true("Available") && fresh.status.controller_of.is_empty());
        let done = read(
            r#"{"metadata":{"name":"a"},"status":{"phase":"Available","conditions":[
            {"type":"Succeeded","status":"True"},{"type":"Available","status":"True","reason":"Available"}],
            "controllerOf":[{"kind":"ConfigMap","name":"x"},{"kind":"ConfigMap","name":"y"}]}}"#,
        );
        assert!(done.is_true("Available"));
        assert_eq!(done.status.controller_of.len(), 2);
        let failing = read(
            r#"{"metadata":{"name":"a"},"status":{"conditions":[{"type":"Available","status":"False"}]}}"#,
        );
        assert!(!failing.is_true("Available"));
    }
}
