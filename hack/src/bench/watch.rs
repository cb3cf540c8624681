//! What happens to objects, say ObjectSets, seen as cheaply as possible.
//!
//! The bench shares the machine with what it measures, so of each event only the few fields that
//! matter are taken out of the text.

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

/// The fields of an object that are read.
pub trait Item: Clone + DeserializeOwned + Send + 'static {
    /// What they say.
    type State: Send;

    /// The name of the object.
    fn name(&self) -> &str;

    /// Its state.
    fn state(&self) -> Self::State;
}

/// Something that was seen.
#[derive(Debug, Clone, PartialEq)]
pub struct Sight<S = State> {
    /// The name of the object.
    pub name: String,
    /// When it was seen.
    pub at: Instant,
    /// Its state then; `None` when it is gone.
    pub state: Option<S>,
}

/// The state of an ObjectSet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    /// Whether its condition `Available` is true.
    pub available: bool,
    /// How many objects it controls.
    pub controls: usize,
}

/// A watch on the objects of a kind in a namespace. It ends when this value is dropped.
#[derive(Debug)]
pub struct Watch<I: Item = ObjectSet> {
    sights: UnboundedReceiver<Sight<I::State>>,
    task: JoinHandle<()>,
}

impl<I: Item> Watch<I> {
    /// Begins to watch. `path` is that of the collection.
    #[must_use]
    pub fn start(client: &Client, path: String) -> Self {
        let (sender, sights) = unbounded_channel();
        let client = client.clone();
        let task = tokio::spawn(async move {
            let mut known = BTreeSet::new();
            // Until nobody listens any more.
            while follow::<I>(&client, &path, &sender, &mut known)
                .await
                .is_some()
            {
                sleep(Duration::from_millis(100)).await;
            }
        });
        Self { sights, task }
    }

    /// The next thing that happens; `None` when the watch has ended, which it does not.
    pub async fn next(&mut self) -> Option<Sight<I::State>> {
        self.sights.recv().await
    }
}

impl<I: Item> Drop for Watch<I> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Lists and then watches until the connection ends. `None` when nobody listens any more.
async fn follow<I: Item>(
    client: &Client,
    path: &str,
    sender: &UnboundedSender<Sight<I::State>>,
    known: &mut BTreeSet<String>,
) -> Option<()> {
    let Ok(list) = Request::new(path).list(&ListParams::default()) else {
        return None;
    };
    let Ok(list) = client.request::<List<I>>(list).await else {
        return Some(());
    };
    let present: BTreeSet<String> = list
        .items
        .iter()
        .map(|item| item.name().to_owned())
        .collect();
    for gone in known.difference(&present) {
        sender.send(sight(gone.clone(), None)).ok()?;
    }
    for item in list.items {
        sender.send(present_as(&item)).ok()?;
    }
    *known = present;

    let version = list.metadata.resource_version;
    let Ok(watch) = Request::new(path).watch(&WatchParams::default(), &version) else {
        return None;
    };
    let Ok(events) = client.request_events::<I>(watch).await else {
        return Some(());
    };
    let mut events = pin!(events);
    while let Ok(Some(event)) = events.try_next().await {
        let seen = match event {
            WatchEvent::Added(item) | WatchEvent::Modified(item) => {
                known.insert(item.name().to_owned());
                present_as(&item)
            }
            WatchEvent::Deleted(item) => {
                known.remove(item.name());
                sight(item.name().to_owned(), None)
            }
            WatchEvent::Bookmark(_) => continue,
            WatchEvent::Error(_) => return Some(()),
        };
        sender.send(seen).ok()?;
    }
    Some(())
}

fn present_as<I: Item>(item: &I) -> Sight<I::State> {
    sight(item.name().to_owned(), Some(item.state()))
}

fn sight<S>(name: String, state: Option<S>) -> Sight<S> {
    Sight {
        name,
        at: Instant::now(),
        state,
    }
}

#[derive(Deserialize)]
struct List<I> {
    metadata: ListMeta,
    items: Vec<I>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMeta {
    resource_version: String,
}

/// What is read of an ObjectSet.
#[derive(Clone, Deserialize)]
pub struct ObjectSet {
    metadata: Meta,
    #[serde(default)]
    status: Status,
}

#[derive(Clone, Deserialize)]
struct Meta {
    name: String,
}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    conditions: Vec<Condition>,
    controller_of: Vec<IgnoredAny>,
}

#[derive(Clone, Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
}

impl Item for ObjectSet {
    type State = State;

    fn name(&self) -> &str {
        &self.metadata.name
    }

    fn state(&self) -> State {
        let mut conditions = self.status.conditions.iter();
        let available = conditions
            .any(|condition| condition.type_ == "Available" && condition.status == "True");
        State {
            available,
            controls: self.status.controller_of.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(json: &str) -> State {
        serde_json::from_str::<ObjectSet>(json).unwrap().state()
    }

    #[test]
    fn little_is_taken_out_of_an_event() {
        let fresh = r#"{"metadata":{"name":"a","uid":"1"},"spec":{"phases":[]}}"#;
        assert_eq!(
            state(fresh),
            State {
                available: false,
                controls: 0
            }
        );
        let done = r#"{"metadata":{"name":"a"},"status":{"phase":"Available","conditions":[
            {"type":"Succeeded","status":"True"},{"type":"Available","status":"True","reason":"Available"}],
            "controllerOf":[{"kind":"ConfigMap","name":"x"},{"kind":"ConfigMap","name":"y"}]}}"#;
        assert_eq!(
            state(done),
            State {
                available: true,
                controls: 2
            }
        );
        let failing = r#"{"metadata":{"name":"a"},"status":{"conditions":[{"type":"Available","status":"False"}]}}"#;
        assert_eq!(
            state(failing),
            State {
                available: false,
                controls: 0
            }
        );
    }
}
