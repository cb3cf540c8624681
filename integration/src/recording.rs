//! A recording of all changes of the objects of a kind, in their order.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::{StreamExt as _, pin_mut};
use http::Request;
use kube::core::WatchEvent;
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::cluster::{Cluster, collection};
use crate::namespace::TIMEOUT;

/// A change of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The object was created.
    Added,
    /// The object changed.
    Modified,
    /// The object was deleted.
    Deleted,
}

/// A change and its object.
#[derive(Clone, Debug)]
pub struct Event {
    /// The change.
    pub change: Change,
    /// The object after the change, or its last state if it was deleted.
    pub object: Value,
}

/// Objects by name.
pub type State = BTreeMap<String, Value>;

/// A watch that records every event. A poll sees only the current state of an object; a recording
/// has all states in between.
pub struct Recording {
    cluster: Cluster,
    like: Value,
    labels: String,
    start: State,
    events: Arc<Mutex<Vec<Event>>>,
    task: JoinHandle<()>,
}

/// The content of a [`Recording`].
#[derive(Clone, Debug)]
pub struct Recorded {
    /// The objects at the start.
    pub start: State,
    /// The changes since the start.
    pub events: Vec<Event>,
}

impl Recording {
    /// Starts to record the objects of the kind of `like`, in its namespace if it has one.
    pub async fn start(cluster: &Cluster, like: &Value, labels: &str) -> Self {
        let list = cluster.list_all(like, labels).await;
        let version = list["metadata"]["resourceVersion"].as_str().unwrap();
        let url = format!(
            "{}?watch=1&resourceVersion={version}&labelSelector={}",
            collection(like),
            labels.replace('=', "%3D")
        );
        let request = Request::get(url).body(Vec::new()).unwrap();
        let stream = cluster.client().request_events::<Value>(request).await;
        let stream = stream.unwrap();
        let events = Arc::new(Mutex::new(Vec::new()));
        let sink = events.clone();
        let task = tokio::spawn(async move {
            pin_mut!(stream);
            while let Some(event) = stream.next().await {
                let (change, object) = match event.unwrap() {
                    WatchEvent::Added(object) => (Change::Added, object),
                    WatchEvent::Modified(object) => (Change::Modified, object),
                    WatchEvent::Deleted(object) => (Change::Deleted, object),
                    WatchEvent::Bookmark(_) => continue,
                    WatchEvent::Error(status) => {
                        panic!("the recording was interrupted: {status:?}")
                    }
                };
                sink.lock().unwrap().push(Event { change, object });
            }
        });
        let items = list["items"].as_array().cloned().unwrap_or_default();
        Self {
            cluster: cluster.clone(),
            like: like.clone(),
            labels: labels.to_owned(),
            start: items.into_iter().map(named).collect(),
            events,
            task,
        }
    }

    /// Returns the recording up to the current state of the server.
    pub async fn so_far(&self) -> Recorded {
        let versions = |objects: &State| -> Vec<(String, Value)> {
            let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
            objects
                .iter()
                .map(|(name, object)| (name.clone(), version(object)))
                .collect()
        };
        let start = Instant::now();
        loop {
            let listed = self.cluster.list(&self.like, &self.labels).await;
            let listed: State = listed.into_iter().map(named).collect();
            let recorded = Recorded {
                start: self.start.clone(),
                events: self.events.lock().unwrap().clone(),
            };
            let last = recorded.states().pop().unwrap_or_default();
            if versions(&last) == versions(&listed) {
                return recorded;
            }
            assert!(!self.task.is_finished(), "the recording has ended");
            assert!(start.elapsed() <= TIMEOUT, "the recording lags behind");
            sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Recorded {
    /// Returns the objects at the start and after each event.
    #[must_use]
    pub fn states(&self) -> Vec<State> {
        let mut state = self.start.clone();
        let mut states = vec![state.clone()];
        for event in &self.events {
            let (name, object) = named(event.object.clone());
            match event.change {
                Change::Added | Change::Modified => state.insert(name, object),
                Change::Deleted => state.remove(&name),
            };
            states.push(state.clone());
        }
        states
    }

    /// Returns the number of changes by object name.
    #[must_use]
    pub fn changes(&self) -> BTreeMap<String, usize> {
        let mut changes = BTreeMap::new();
        for event in &self.events {
            let (name, _) = named(event.object.clone());
            *changes.entry(name).or_default() += 1;
        }
        changes
    }

    /// Returns the number of changes of one type.
    #[must_use]
    pub fn count(&self, change: Change) -> usize {
        self.events
            .iter()
            .filter(|event| event.change == change)
            .count()
    }
}

fn named(object: Value) -> (String, Value) {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    (name.to_owned(), object)
}
