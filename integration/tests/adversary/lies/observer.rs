//! The changes of the user's objects in all places, and what is wrong with them.

use std::collections::BTreeSet;

use baton_integration::prelude::*;
use baton_integration::recording::State;

/// Number of writes of an object for each version: the new revision takes it over, and the one before
/// gives it up.
const WRITES: usize = 2;

/// An effect of a lie on an object, a site or a rollout. None of them may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    /// An object of the last version does not exist.
    Lost,
    /// An object was deleted and created again.
    Recreated,
    /// A site without a version is reported to have it.
    Skipped,
    /// An object was written more often than its versions require, or got an earlier version again.
    AppliedTwice,
    /// An object of an earlier version exists.
    LeftOver,
    /// A version was not rolled out in time, or the manager has ended.
    StoodStill,
}

impl Column {
    pub(crate) const ALL: [Self; 6] = [
        Self::Lost,
        Self::Recreated,
        Self::Skipped,
        Self::AppliedTwice,
        Self::LeftOver,
        Self::StoodStill,
    ];

    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Recreated => "re-created",
            Self::Skipped => "skipped",
            Self::AppliedTwice => "applied twice",
            Self::LeftOver => "left over",
            Self::StoodStill => "stood still",
        }
    }
}

/// The content of the cells of a row.
#[derive(Default)]
pub(crate) struct Findings(pub(crate) Vec<(Column, String)>);

impl Findings {
    pub(crate) fn add(&mut self, column: Column, text: String) {
        println!("  {}: {text}", column.text());
        self.0.push((column, text));
    }

    pub(crate) fn of(&self, column: Column) -> impl Iterator<Item = &String> {
        let of_column = self.0.iter().filter(move |(of, _)| *of == column);
        of_column.map(|(_, text)| text)
    }
}

/// The objects of a kind in a namespace of a control plane, and their states since the beginning.
pub(crate) struct Observer {
    name: &'static str,
    cluster: Cluster,
    like: Value,
    /// `None` while the server is stopped.
    recording: Option<Recording>,
    states: Vec<State>,
    /// Number of states at the time of the backup.
    kept: usize,
    /// Number of states whose writes are not judged.
    ignored: usize,
}

impl Observer {
    /// Starts to record the objects of the kind and namespace of `like`.
    pub(crate) async fn start(name: &'static str, cluster: Cluster, like: Value) -> Self {
        Self {
            name,
            recording: Some(Recording::start(&cluster, &like, "").await),
            cluster,
            like,
            states: Vec::new(),
            kept: 0,
            ignored: 0,
        }
    }

    /// Ends the recording before the server stops.
    pub(crate) async fn pause(&mut self) {
        let recorded = self.recording.take().unwrap().so_far().await;
        self.states.extend(recorded.states());
    }

    pub(crate) async fn resume(&mut self) {
        self.recording = Some(Recording::start(&self.cluster, &self.like, "").await);
    }

    /// Marks the present state as that of the backup. The server is stopped.
    pub(crate) fn keep(&mut self) {
        self.kept = self.states.len();
    }

    /// Forgets all that was after the backup. The server is stopped.
    pub(crate) fn forget(&mut self) {
        self.states.truncate(self.kept);
    }

    /// Judges only the states from now on.
    pub(crate) async fn judge_from_now(&mut self) {
        self.pause().await;
        self.ignored = self.states.len();
        self.resume().await;
    }

    /// Returns the present objects.
    pub(crate) async fn live(&self) -> State {
        let listed = self.cluster.list(&self.like, "").await.into_iter();
        let named = listed.map(|it| (it["metadata"]["name"].as_str().unwrap().to_owned(), it));
        named.filter(|(name, _)| is_of_user(name)).collect()
    }

    /// Returns the differences from the wanted objects.
    pub(crate) async fn differences(&self, wanted: &[Entry]) -> Vec<(Column, String)> {
        let live = self.live().await;
        let name = self.name;
        let mut found = Vec::new();
        for entry in wanted {
            let data = live.get(entry.name()).map(|it| &it["data"]);
            if data != Some(&entry.manifest["data"]) {
                let text = format!("{name}: {} has {data:?}", entry.name());
                found.push((Column::Lost, text));
            }
        }
        for other in live.keys() {
            if wanted.iter().all(|entry| entry.name() != other) {
                found.push((Column::LeftOver, format!("{name}: {other}")));
            }
        }
        found
    }

    /// Ends the recording, and adds what is wrong with the changes.
    pub(crate) async fn judge(&mut self, findings: &mut Findings) {
        self.pause().await;
        let judged = &self.states[self.ignored..];
        let names = judged.iter().flat_map(State::keys);
        let names: BTreeSet<_> = names.filter(|name| is_of_user(name)).collect();
        // A Service gets earlier selectors again in each handover.
        let has_versions = self.like["kind"] != "Service";
        for name in names {
            let states = || judged.iter().filter_map(|state| state.get(name));
            let uids: BTreeSet<_> = states().map(uid).collect();
            let place = self.name;
            if uids.len() > 1 {
                findings.add(Column::Recreated, format!("{place}: {name}"));
            }
            for text in repeated(states().filter(|_| has_versions)) {
                findings.add(Column::AppliedTwice, format!("{place}: {name}: {text}"));
            }
        }
    }
}

/// Kubernetes creates one object of its own in each namespace.
fn is_of_user(name: &str) -> bool {
    name != "kube-root-ca.crt"
}

/// Returns the contents that an object got again or in too many writes.
fn repeated<'a>(states: impl Iterator<Item = &'a Value>) -> Vec<String> {
    let mut contents: Vec<([&Value; 2], usize)> = Vec::new();
    let mut found = Vec::new();
    let mut version = &Value::Null;
    for state in states {
        let is_first = version.is_null();
        let before = std::mem::replace(&mut version, &state["metadata"]["resourceVersion"]);
        if before == version {
            continue;
        }
        let data = ["data", "spec"].map(|field| &state[field]);
        match contents.last_mut() {
            Some((last, writes)) if *last == data => *writes += 1,
            _ => {
                if contents.iter().any(|(content, _)| *content == data) {
                    found.push(format!("again {data:?}"));
                }
                contents.push((data, usize::from(!is_first)));
            }
        }
    }
    let often = contents.iter().filter(|(_, writes)| *writes > WRITES);
    found.extend(often.map(|(data, writes)| format!("{writes} writes of {data:?}")));
    found
}
