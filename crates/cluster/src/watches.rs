//! Reads collections by watches, and updates them after every change.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    mem,
    pin::pin,
    time::Duration,
};

use baton_terminal::error::innermost;
use baton_view::lists::{Cause, List, ListRequest, Lists};
use futures::StreamExt as _;
use kube::{
    Api, Resource,
    core::{ApiResource, DynamicObject, DynamicResourceScope, GroupVersionKind, PartialObjectMeta},
    runtime::{
        watcher,
        watcher::{DefaultBackoff, Event},
    },
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    task::AbortHandle,
    time::{Instant, sleep, timeout_at},
};

use crate::requests::Cluster;

/// Changes come in bursts; a burst ends after this time without a change, or after [`MAX_BURST`].
const BURST_GAP: Duration = Duration::from_millis(50);
/// The longest burst, so that a steady stream of changes does not delay updates further.
const MAX_BURST: Duration = Duration::from_millis(300);

/// Watched collections, with their objects.
///
/// # Guarantees
/// Once [`Watches::changed`] has returned, every collection is complete: it was listed, or its list
/// has failed. All watches end when this value is dropped.
pub(crate) struct Watches {
    client: kube::Client,
    sender: UnboundedSender<(ListRequest, Change)>,
    receiver: UnboundedReceiver<(ListRequest, Change)>,
    /// The complete collections.
    pub(crate) lists: Lists,
    watched: BTreeMap<ListRequest, Watch>,
    /// Removes the fields of an object that the question does not read.
    trim: fn(&mut Value),
    /// The time of the first change of the present burst.
    changed_at: Option<Instant>,
}

#[derive(Debug)]
struct Watch {
    /// The objects of an unfinished list.
    listing: List,
    task: AbortHandle,
}

#[derive(Debug)]
enum Change {
    Seen(Event<Value>),
    Failed(String, Option<Cause>),
    Unserved,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Watches {
    /// Creates watches on no collection; `trim` removes the fields of an object that the question does
    /// not read.
    pub(crate) fn new(cluster: &Cluster, trim: fn(&mut Value)) -> Self {
        let (sender, receiver) = unbounded_channel();
        Self {
            client: cluster.client.clone(),
            sender,
            receiver,
            lists: Lists::default(),
            watched: BTreeMap::new(),
            trim,
            changed_at: None,
        }
    }

    /// Watches exactly these collections: starts new watches, ends those of other collections, and
    /// continues the rest.
    pub(crate) fn set(&mut self, wanted: impl IntoIterator<Item = ListRequest>) {
        let wanted: BTreeSet<ListRequest> = wanted.into_iter().collect();
        self.watched.retain(|request, _| wanted.contains(request));
        self.lists.retain(|request| wanted.contains(request));
        self.add(wanted);
    }

    /// Watches these collections as well, except those of immutable objects.
    pub(crate) fn add(&mut self, wanted: impl IntoIterator<Item = ListRequest>) {
        for request in wanted {
            if !request.query.is_immutable && !self.watched.contains_key(&request) {
                let watch = self.start(&request);
                self.watched.insert(request, watch);
            }
        }
    }

    /// True if all collections were listed, or their lists have failed.
    pub(crate) fn is_complete(&self) -> bool {
        let mut watched = self.watched.keys();
        watched.all(|request| self.lists.get(request).is_some())
    }

    /// Waits for a change and the end of its burst. The first call, and the first one after
    /// [`Watches::set`], wait until all collections are complete.
    ///
    /// Dropping the future loses no change: the next call goes on.
    pub(crate) async fn changed(&mut self) {
        loop {
            let change = match self.changed_at {
                Some(first) if self.is_complete() => {
                    let end = (first + MAX_BURST).min(Instant::now() + BURST_GAP);
                    match timeout_at(end, self.receiver.recv()).await {
                        Ok(change) if Instant::now() < first + MAX_BURST => change,
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

    /// Applies a change. There always is one: this value has a sender, so the channel never closes.
    fn take_in(&mut self, change: Option<(ListRequest, Change)>) {
        if let Some((request, change)) = change
            && self.note(&request, change)
        {
            self.changed_at.get_or_insert_with(Instant::now);
        }
    }

    /// The reason that a collection cannot be listed or watched at the moment, if so; its objects
    /// are those of the last read.
    pub(crate) fn trouble(&self, request: &ListRequest) -> Option<&str> {
        self.lists.get(request)?.trouble.as_deref()
    }

    /// Applies a change. Returns true if it makes a difference.
    fn note(&mut self, request: &ListRequest, change: Change) -> bool {
        let Some(watch) = self.watched.get_mut(request) else {
            return false;
        };
        let list = self.lists.get_mut(request);
        match (change, list) {
            (Change::Seen(Event::Init), _) => {
                watch.listing = List::default();
                return false;
            }
            (Change::Seen(Event::InitApply(object)), _) => {
                watch.listing.insert(object);
                return false;
            }
            (Change::Seen(Event::InitDone), _) => {
                let listed = mem::take(&mut watch.listing);
                self.lists.insert(request.clone(), listed);
            }
            (Change::Seen(Event::Apply(object)), Some(list)) => list.insert(object),
            (Change::Seen(Event::Delete(object)), Some(list)) => list.remove(&object),
            // There are no changes before the first list.
            (Change::Seen(Event::Apply(_) | Event::Delete(_)), None) => return false,
            (Change::Failed(reason, cause), Some(list)) => {
                (list.trouble, list.cause) = (Some(reason), cause);
            }
            (Change::Failed(reason, cause), None) => {
                let list = List::failed(reason, cause);
                self.lists.insert(request.clone(), list);
            }
            (Change::Unserved, _) => {
                let list = List::failed("not served".to_owned(), Some(Cause::Unserved));
                self.lists.insert(request.clone(), list);
            }
        }
        true
    }

    fn start(&self, request: &ListRequest) -> Watch {
        let query = &request.query;
        let named = query.name.as_ref();
        let config = watcher::Config {
            label_selector: query.labels.clone(),
            field_selector: named
                .map(|name| format!("metadata.name={name}"))
                .or_else(|| query.fields.clone()),
            ..watcher::Config::default()
        };
        let (client, path) = (self.client.clone(), &request.path);
        let (sender, own) = (self.sender.clone(), request.clone());
        // The receiver is dropped when the program ends.
        let send = move |change| drop(sender.send((own.clone(), change)));
        let trim = self.trim;
        let task = if query.metadata_only {
            let api = api::<PartialObjectMeta<DynamicObject>>(client, path);
            tokio::spawn(watch(api, config, trim, send))
        } else {
            let api = api::<DynamicObject>(client, path);
            tokio::spawn(watch(api, config, trim, send))
        };
        Watch {
            listing: List::default(),
            task: task.abort_handle(),
        }
    }
}

/// Resource and namespace of the collection at a path such as `/apis/apps/v1/namespaces/shop/deployments`.
fn collection(path: &str) -> (ApiResource, Option<&str>) {
    let segments: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let (group, version, rest) = match &segments[..] {
        ["apis", group, version, rest @ ..] => (*group, *version, rest),
        ["api", version, rest @ ..] => ("", *version, rest),
        _ => ("", "", &[][..]),
    };
    let (namespace, plural) = match rest {
        ["namespaces", namespace, plural] => (Some(*namespace), *plural),
        _ => (None, rest.first().copied().unwrap_or_default()),
    };
    // The URL does not contain the kind.
    let gvk = GroupVersionKind::gvk(group, version, "");
    (ApiResource::from_gvk_with_plural(&gvk, plural), namespace)
}

fn api<K>(client: kube::Client, path: &str) -> Api<K>
where
    K: Resource<DynamicType = ApiResource, Scope = DynamicResourceScope>,
{
    match collection(path) {
        (resource, Some(namespace)) => Api::namespaced_with(client, namespace, &resource),
        (resource, None) => Api::all_with(client, &resource),
    }
}

/// Lists and watches forever. A failed watch starts again with a list, because only the end of a
/// list shows that the server responds.
async fn watch<K>(api: Api<K>, config: watcher::Config, trim: fn(&mut Value), send: impl Fn(Change))
where
    K: Resource + Clone + Debug + DeserializeOwned + Serialize + Send + 'static,
{
    let mut pauses = DefaultBackoff::default();
    loop {
        let mut events = pin!(watcher(api.clone(), config.clone()));
        let failure = loop {
            let event = match events.next().await {
                Some(Ok(event)) => event,
                Some(Err(failure)) => break Some(failure),
                None => break None,
            };
            let json = |object: K| {
                let mut object = serde_json::to_value(object).unwrap_or_default();
                trim(&mut object);
                object
            };
            send(Change::Seen(match event {
                Event::Init => Event::Init,
                Event::InitApply(object) => Event::InitApply(json(object)),
                Event::InitDone => Event::InitDone,
                Event::Apply(object) => Event::Apply(json(object)),
                Event::Delete(object) => Event::Delete(json(object)),
            }));
        };
        if let Some(change) = failure.as_ref().and_then(failed) {
            send(change);
        }
        sleep(pauses.next().unwrap_or_default()).await;
    }
}

/// The change for a failure; `None` if the server only asks to wait or to list again.
fn failed(error: &watcher::Error) -> Option<Change> {
    use kube::Error::{Api, HyperError, ReadEvents};
    use watcher::Error::{
        InitialListFailed, NoResourceVersion, WatchError, WatchFailed, WatchStartFailed,
    };
    let status = match error {
        WatchError(status)
        | InitialListFailed(Api(status))
        | WatchStartFailed(Api(status))
        | WatchFailed(Api(status)) => status,
        // The way in which the connection ended does not matter to the user.
        InitialListFailed(HyperError(_)) | WatchFailed(HyperError(_) | ReadEvents(_)) => {
            let reason = "the API server's answer broke off".to_owned();
            return Some(Change::Failed(reason, None));
        }
        InitialListFailed(error) | WatchStartFailed(error) | WatchFailed(error) => {
            let cause = innermost(error);
            let reason = format!("no answer from the API server: {cause}");
            return Some(Change::Failed(reason, None));
        }
        NoResourceVersion => return Some(Change::Failed(error.to_string(), None)),
    };
    let details = status.details.as_ref();
    match status.code {
        404 => Some(Change::Unserved),
        410 => None,
        _ if details.is_some_and(|details| details.retry_after_seconds > 0) => None,
        code => {
            let cause = (code == 403).then_some(Cause::Forbidden);
            Some(Change::Failed(status.message.clone(), cause))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use kube::core::Status;
    use watcher::Error::{InitialListFailed, WatchError, WatchFailed};

    use super::*;

    #[test]
    fn failures_are_named_in_a_few_words() {
        let text = |error: watcher::Error| match failed(&error) {
            Some(Change::Failed(text, _)) => text,
            other => format!("{other:?}"),
        };
        let refused = io::Error::from_raw_os_error(111);
        assert_eq!(
            text(InitialListFailed(kube::Error::Service(Box::new(refused)))),
            "no answer from the API server: Connection refused (os error 111)"
        );
        let closed = io::Error::other("peer closed connection without sending TLS close_notify");
        assert_eq!(
            text(WatchFailed(kube::Error::ReadEvents(closed))),
            "the API server's answer broke off"
        );
        let status = |code, message| Status::failure(message, "").with_code(code);
        let forbidden = "secrets is forbidden: User \"x\" cannot watch resource";
        let refused = kube::Error::Api(status(403, forbidden).boxed());
        assert_eq!(text(InitialListFailed(refused)), forbidden);
        assert_eq!(text(WatchError(status(404, "").boxed())), "Some(Unserved)");
        assert_eq!(text(WatchError(status(410, "old").boxed())), "None");
    }

    #[test]
    fn paths_are_those_of_collections() {
        for path in [
            "/api/v1/namespaces",
            "/api/v1/namespaces/shop/pods",
            "/apis/apps/v1/deployments",
            "/apis/apps/v1/namespaces/shop/deployments",
        ] {
            let (resource, namespace) = collection(path);
            assert_eq!(DynamicObject::url_path(&resource, namespace), path);
        }
    }
}
