//! Everything that happens to the objects of a kind, in the order in which it happens.

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

/// How long a watch may lag behind.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a change did to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// It appeared.
    Added,
    /// It changed.
    Modified,
    /// It went.
    Deleted,
}

/// A change of one object.
#[derive(Clone, Debug)]
pub struct Event {
    /// What happened.
    pub deed: Deed,
    /// The object afterwards, or as it was last.
    pub object: Value,
}

/// Objects by name.
pub type State = BTreeMap<String, Value>;

/// A watch that forgets nothing. A wait that looks now and then sees what is there when it looks; this
/// one sees all that was there in between.
pub struct Recording {
    cluster: Cluster,
    like: Value,
    labels: String,
    start: State,
    events: Arc<Mutex<Vec<Event>>>,
    task: JoinHandle<()>,
}

/// The whole of a [`Recording`].
#[derive(Clone, Debug)]
pub struct Recorded {
    /// The objects at its beginning.
    pub start: State,
    /// What happened from then on.
    pub events: Vec<Event>,
}

impl Recording {
    /// Begins to record what happens to objects of the kind of `like`, in its namespace if it has one.
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
                let (deed, object) = match event.unwrap() {
                    WatchEvent::Added(object) => (Deed::Added, object),
                    WatchEvent::Modified(object) => (Deed::Modified, object),
                    WatchEvent::Deleted(object) => (Deed::Deleted, object),
                    WatchEvent::Bookmark(_) => continue,
                    WatchEvent::Error(status) => {
                        panic!("the recording was interrupted: {status:?}")
                    }
                };
                sink.lock().unwrap().push(Event { deed, object });
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

    /// All until now: what the server has at this moment has been recorded.
    pub async fn so_far(&self) -> Recorded {
        let versions = |objects: &State| -> Vec<(String, Value)> {
            let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
            objects
                .iter()
                .map(|(name, object)| (name.clone(), version(object)))
                .collect()
        };
        let asked = Instant::now();
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
            assert!(asked.elapsed() <= PATIENCE, "the recording lags behind");
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
    /// The objects at the beginning and after each event.
    #[must_use]
    pub fn states(&self) -> Vec<State> {
        let mut state = self.start.clone();
        let mut states = vec![state.clone()];
        for event in &self.events {
            let (name, object) = named(event.object.clone());
            match event.deed {
                Deed::Added | Deed::Modified => state.insert(name, object),
                Deed::Deleted => state.remove(&name),
            };
            states.push(state.clone());
        }
        states
    }

    /// How often objects changed, by name.
    #[must_use]
    pub fn changes(&self) -> BTreeMap<String, usize> {
        let mut changes = BTreeMap::new();
        for event in &self.events {
            let (name, _) = named(event.object.clone());
            *changes.entry(name).or_default() += 1;
        }
        changes
    }

    /// How often something of this kind happened.
    #[must_use]
    pub fn count(&self, deed: Deed) -> usize {
        self.events
            .iter()
            .filter(|event| event.deed == deed)
            .count()
    }
}

fn named(object: Value) -> (String, Value) {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    (name.to_owned(), object)
}
