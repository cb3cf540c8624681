//! Following chains by watches: what [`crate::chain::read`] reads, again after every change.

use std::{collections::BTreeMap, time::Duration};

use baton::cluster::watch::{self, Event, WatchSpec};
use serde_json::{Value, value::RawValue};
use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    task::AbortHandle,
    time::{Instant, timeout_at},
};

use crate::{
    chain::{self, Chain},
    connect::{Cluster, Source},
    error::Error,
    output::place,
    target::Target,
};

/// Changes come in bursts; the picture is taken once a burst has ended, or after [`LONGEST`].
const QUIET: Duration = Duration::from_millis(50);
/// A steady stream of changes does not hold the picture back for longer.
const LONGEST: Duration = Duration::from_millis(300);
/// Objects per page of a list.
const PAGE: u32 = 500;

/// Watched collections, and what is in them.
///
/// # Guarantees
/// Once [`Watches::changed`] has returned, every source is complete: it was listed, or could not be.
/// Dropped, all watches end.
pub struct Watches {
    client: kube::Client,
    sender: UnboundedSender<(Source, Change)>,
    receiver: UnboundedReceiver<(Source, Change)>,
    sources: BTreeMap<Source, State>,
    /// When the first change of the present burst came.
    changed_at: Option<Instant>,
}

#[derive(Debug)]
struct State {
    /// By namespace and name.
    objects: BTreeMap<(String, String), Value>,
    /// What a list under way has told so far.
    listing: Option<BTreeMap<(String, String), Value>>,
    is_complete: bool,
    trouble: Option<String>,
    task: AbortHandle,
}

#[derive(Debug)]
enum Change {
    ListStarted,
    Listed(Value),
    ListDone,
    Upsert(Value),
    Deleted(Value),
    /// Nothing has changed, and the watch gets through.
    Alive,
    Failed(String),
    Unserved,
}

impl Drop for State {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Watches {
    /// Watches nothing yet.
    #[must_use]
    pub fn new(cluster: &Cluster) -> Self {
        let (sender, receiver) = unbounded_channel();
        Self {
            client: cluster.client.clone(),
            sender,
            receiver,
            sources: BTreeMap::new(),
            changed_at: None,
        }
    }

    /// Watches exactly these collections from now on: starts what is new and ends what is not among them. The
    /// others go on undisturbed.
    pub fn set(&mut self, wanted: impl IntoIterator<Item = Source>) {
        let wanted: Vec<Source> = wanted.into_iter().collect();
        self.sources.retain(|source, _| wanted.contains(source));
        for source in wanted {
            if !self.sources.contains_key(&source) {
                let state = self.start(&source);
                self.sources.insert(source, state);
            }
        }
    }

    /// Whether all sources have been listed, or could not be.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.sources.values().all(|state| state.is_complete)
    }

    /// Waits for a change and for the end of the burst it belongs to; the first time, and after
    /// [`Watches::set`], until all is complete.
    ///
    /// Dropped while it waits, nothing is lost: the next call goes on.
    pub async fn changed(&mut self) {
        loop {
            let change = match self.changed_at {
                Some(first) if self.is_complete() => {
                    let end = (first + LONGEST).min(Instant::now() + QUIET);
                    match timeout_at(end, self.receiver.recv()).await {
                        Ok(change) if Instant::now() < first + LONGEST => change,
                        Ok(change) => {
                            self.take_in(change);
                            break;
                        }
                        Err(_) => break,
                    }
                }
                _ => self.receiver.recv().await,
            };
            self.take_in(change);
        }
        self.changed_at = None;
    }

    /// Takes in a change, if there is one: a sender is kept here, so the channel never closes.
    fn take_in(&mut self, change: Option<(Source, Change)>) {
        if let Some((source, change)) = change
            && self.note(&source, change)
        {
            self.changed_at.get_or_insert_with(Instant::now);
        }
    }

    /// The objects of a source.
    pub fn objects(&self, source: &Source) -> impl Iterator<Item = &Value> {
        let state = self.sources.get(source);
        state.into_iter().flat_map(|state| state.objects.values())
    }

    /// Why a source cannot be listed or watched at the moment; its objects are as they were last seen.
    #[must_use]
    pub fn trouble(&self, source: &Source) -> Option<&str> {
        self.sources.get(source)?.trouble.as_deref()
    }

    /// Takes in a change; whether it makes a difference.
    fn note(&mut self, source: &Source, change: Change) -> bool {
        let Some(state) = self.sources.get_mut(source) else {
            return false;
        };
        match change {
            Change::ListStarted => {
                state.listing = Some(BTreeMap::new());
                false
            }
            Change::Listed(object) => {
                let listing = state.listing.get_or_insert_default();
                listing.insert(place(&object), object);
                false
            }
            Change::ListDone => {
                state.objects = state.listing.take().unwrap_or_default();
                state.is_complete = true;
                state.trouble = None;
                true
            }
            Change::Upsert(object) => {
                state.trouble = None;
                state.objects.insert(place(&object), object);
                true
            }
            Change::Deleted(object) => {
                state.objects.remove(&place(&object));
                true
            }
            Change::Alive => state.trouble.take().is_some(),
            Change::Failed(why) => {
                state.is_complete = true;
                state.trouble = Some(why);
                true
            }
            Change::Unserved => {
                state.objects.clear();
                state.is_complete = true;
                state.trouble = Some("not served".to_owned());
                true
            }
        }
    }

    fn start(&self, source: &Source) -> State {
        let spec = WatchSpec {
            path: source.path.clone(),
            label_selector: source.query.labels.clone(),
            field_selector: source.query.fields.clone(),
            metadata_only: source.query.metadata_only,
            page_size: PAGE,
            resumes: true,
        };
        let (sender, own) = (self.sender.clone(), source.clone());
        let client = self.client.clone();
        let task = tokio::spawn(async move {
            watch::run(client, spec, |event| {
                if let Some(change) = change(&event) {
                    // The receiver is gone when the program ends.
                    let _ = sender.send((own.clone(), change));
                }
            })
            .await;
        });
        State {
            objects: BTreeMap::new(),
            listing: None,
            is_complete: false,
            trouble: None,
            task: task.abort_handle(),
        }
    }
}

fn change(event: &Event<'_>) -> Option<Change> {
    let parse = |raw: &RawValue| serde_json::from_str(raw.get()).ok();
    Some(match event {
        Event::ListStarted => Change::ListStarted,
        Event::Listed(raw) => Change::Listed(parse(raw)?),
        Event::ListDone { .. } => Change::ListDone,
        Event::Upsert(raw) => Change::Upsert(parse(raw)?),
        Event::Deleted(raw) => Change::Deleted(parse(raw)?),
        Event::Bookmark(_) => Change::Alive,
        Event::Unserved => Change::Unserved,
        Event::Failed(why) => Change::Failed(brief(why)),
    })
}

/// Of a failed connection the innermost cause: the layers around it say only that it failed.
fn brief(why: &str) -> String {
    const NO_ANSWER: &str = "no answer from the API server: ";
    if why.starts_with("reading the API server's answer: ") {
        // How it ended, with a close in good order or without, is of no use to anybody.
        return "the API server's answer broke off".to_owned();
    }
    let layers = why.strip_prefix(NO_ANSWER);
    match layers.and_then(|layers| layers.rsplit(": ").next()) {
        Some(cause) => format!("{NO_ANSWER}{cause}"),
        None => why.to_owned(),
    }
}

/// Follows the chain of one target.
pub struct Follower {
    watches: Watches,
    deployments: Source,
    revisions: Source,
    target: Target,
    last: Option<Chain>,
}

impl Follower {
    /// Starts watching the deployments and the revisions of the scope and the namespace of a target.
    ///
    /// # Errors
    /// They cannot be read: refused, no answer, our kinds are not served.
    pub async fn start(cluster: &Cluster, target: &Target) -> Result<(Self, Option<Chain>), Error> {
        let kind = target.candidates()[0];
        let namespace = cluster.namespace_of(kind);
        // A list first: a watch would go on trying where an error has to be told.
        let chains = chain::read_all(cluster, kind, namespace).await?;
        let deployments = Source::all(kind.deployment().path(namespace));
        let revisions = Source::all(kind.revision().path(namespace));
        let mut watches = Watches::new(cluster);
        watches.set([deployments.clone(), revisions.clone()]);
        let chain = chain::pick(chains, target);
        let follower = Self {
            watches,
            deployments,
            revisions,
            target: target.clone(),
            last: chain.clone(),
        };
        Ok((follower, chain))
    }

    /// The chain after the next change; `None` when what the target names is gone, or not there yet. While the
    /// watches do not get through it is as it was seen last: what cannot be read has not gone.
    pub async fn next(&mut self) -> Option<Chain> {
        self.watches.changed().await;
        let objects = |source| self.watches.objects(source).cloned().collect();
        let chains = chain::from_objects(objects(&self.deployments), objects(&self.revisions));
        let now = chain::pick(chains, &self.target);
        if now.is_some() || self.trouble().is_none() {
            self.last = now;
        }
        self.last.clone()
    }

    /// Why the watches do not get through at the moment.
    #[must_use]
    pub fn trouble(&self) -> Option<&str> {
        self.watches
            .trouble(&self.deployments)
            .or_else(|| self.watches.trouble(&self.revisions))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_told_in_a_few_words() {
        assert_eq!(
            brief(
                "no answer from the API server: ServiceError: tcp connect error: Connection refused (os error 111)"
            ),
            "no answer from the API server: Connection refused (os error 111)"
        );
        assert_eq!(
            brief(
                "reading the API server's answer: ServiceError: error reading a body from connection: peer closed connection \
                 without sending TLS close_notify: https://docs.rs/rustls/latest/rustls/manual/_03_howto/index.html#unexpected-eof"
            ),
            "the API server's answer broke off"
        );
        let refused = "secrets is forbidden: User \"x\" cannot watch resource";
        assert_eq!(brief(refused), refused);
    }
}
