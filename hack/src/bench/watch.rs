//! What happens to ObjectSets, seen as cheaply as possible.
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
use serde::de::IgnoredAny;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

/// Something that was seen.
#[derive(Debug, Clone, PartialEq)]
pub struct Sight {
    /// The name of the ObjectSet.
    pub name: String,
    /// When it was seen.
    pub at: Instant,
    /// Its state then; `None` when it is gone.
    pub state: Option<State>,
}

/// The state of an ObjectSet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    /// Whether its condition `Available` is true.
    pub available: bool,
    /// How many objects it controls.
    pub controls: usize,
}

/// A watch on the ObjectSets of a namespace. It ends when this value is dropped.
#[derive(Debug)]
pub struct Watch {
    sights: UnboundedReceiver<Sight>,
    task: JoinHandle<()>,
}

impl Watch {
    /// Begins to watch. `path` is that of the collection.
    #[must_use]
    pub fn start(client: &Client, path: String) -> Self {
        let (sender, sights) = unbounded_channel();
        let client = client.clone();
        let task = tokio::spawn(async move {
            let mut known = BTreeSet::new();
            // Until nobody listens any more.
            while follow(&client, &path, &sender, &mut known).await.is_some() {
                sleep(Duration::from_millis(100)).await;
            }
        });
        Self { sights, task }
    }

    /// The next thing that happens; `None` when the watch has ended, which it does not.
    pub async fn next(&mut self) -> Option<Sight> {
        self.sights.recv().await
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Lists and then watches until the connection ends. `None` when nobody listens any more.
async fn follow(
    client: &Client,
    path: &str,
    sender: &UnboundedSender<Sight>,
    known: &mut BTreeSet<String>,
) -> Option<()> {
    let Ok(list) = Request::new(path).list(&ListParams::default()) else {
        return None;
    };
    let Ok(list) = client.request::<List>(list).await else {
        return Some(());
    };
    let present: BTreeSet<String> = list
        .items
        .iter()
        .map(|item| item.metadata.name.clone())
        .collect();
    for gone in known.difference(&present) {
        sender.send(sight(gone.clone(), None)).ok()?;
    }
    for item in list.items {
        sender.send(item.sight()).ok()?;
    }
    *known = present;

    let version = list.metadata.resource_version;
    let Ok(watch) = Request::new(path).watch(&WatchParams::default(), &version) else {
        return None;
    };
    let Ok(events) = client.request_events::<Item>(watch).await else {
        return Some(());
    };
    let mut events = pin!(events);
    while let Ok(Some(event)) = events.try_next().await {
        let seen = match event {
            WatchEvent::Added(item) | WatchEvent::Modified(item) => {
                known.insert(item.metadata.name.clone());
                item.sight()
            }
            WatchEvent::Deleted(item) => {
                known.remove(&item.metadata.name);
                sight(item.metadata.name, None)
            }
            WatchEvent::Bookmark(_) => continue,
            WatchEvent::Error(_) => return Some(()),
        };
        sender.send(seen).ok()?;
    }
    Some(())
}

fn sight(name: String, state: Option<State>) -> Sight {
    Sight {
        name,
        at: Instant::now(),
        state,
    }
}

#[derive(Deserialize)]
struct List {
    metadata: ListMeta,
    items: Vec<Item>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMeta {
    resource_version: String,
}

#[derive(Clone, Deserialize)]
struct Item {
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

impl Item {
    fn sight(self) -> Sight {
        let mut conditions = self.status.conditions.iter();
        let available = conditions
            .any(|condition| condition.type_ == "Available" && condition.status == "True");
        let state = State {
            available,
            controls: self.status.controller_of.len(),
        };
        sight(self.metadata.name, Some(state))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(json: &str) -> Option<State> {
        serde_json::from_str::<Item>(json).unwrap().sight().state
    }

    #[test]
    fn little_is_taken_out_of_an_event() {
        let fresh = r#"{"metadata":{"name":"a","uid":"1"},"spec":{"phases":[]}}"#;
        assert_eq!(
            state(fresh),
            Some(State {
                available: false,
                controls: 0
            })
        );
        let done = r#"{"metadata":{"name":"a"},"status":{"phase":"Available","conditions":[
            {"type":"Succeeded","status":"True"},{"type":"Available","status":"True","reason":"Available"}],
            "controllerOf":[{"kind":"ConfigMap","name":"x"},{"kind":"ConfigMap","name":"y"}]}}"#;
        assert_eq!(
            state(done),
            Some(State {
                available: true,
                controls: 2
            })
        );
        let failing = r#"{"metadata":{"name":"a"},"status":{"conditions":[{"type":"Available","status":"False"}]}}"#;
        assert_eq!(
            state(failing),
            Some(State {
                available: false,
                controls: 0
            })
        );
    }
}
