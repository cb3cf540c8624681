//! Reads collections by watches, and updates them after every change.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    mem,
    pin::pin,
    sync::Arc,
    time::Duration,
};

use baton_terminal::error::innermost;
use baton_view::lists::{Cause, List, ListRequest, Lists};
use futures::StreamExt as _;
use kube::{
    Api, Resource,
    core::{
        ApiResource, DynamicObject, DynamicResourceScope, GroupVersionKind, PartialObjectMeta,
        Status,
    },
    runtime::{
        watcher,
        watcher::{DefaultBackoff, Event},
    },
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use tokio::{
    sync::{
        Semaphore,
        mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    },
    task::AbortHandle,
    time::{Instant, sleep, timeout_at},
};

use crate::{
    error::{ClusterError, answer},
    lists::ends_reading,
    requests::{Cluster, MAX_CONCURRENT},
};

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
    cluster: Cluster,
    sender: UnboundedSender<(ListRequest, Change)>,
    receiver: UnboundedReceiver<(ListRequest, Change)>,
    /// The complete collections.
    pub(crate) lists: Lists,
    watched: BTreeMap<ListRequest, Watch>,
    /// Removes the fields of an object that the question does not read.
    trim: fn(&mut Value),
    /// The number of objects in a page of a list.
    page: u32,
    /// The time of the first change of the present burst.
    changed_at: Option<Instant>,
    /// The errors of collections without objects.
    failures: BTreeMap<ListRequest, ClusterError>,
    /// Permits for first lists. Each of them needs a connection.
    first_lists: Arc<Semaphore>,
    /// Named objects that were read, as they cannot be watched.
    read_once: BTreeSet<ListRequest>,
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
    Failed {
        /// In a few words.
        reason: String,
        cause: Option<Cause>,
        error: ClusterError,
        /// True if the server only asks to wait.
        is_busy: bool,
    },
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Watches {
    /// Creates watches on no collection; `trim` removes the fields of an object that the question does
    /// not read, and `page` is the number of objects in a page of a list.
    pub(crate) fn new(cluster: &Cluster, trim: fn(&mut Value), page: u32) -> Self {
        let (sender, receiver) = unbounded_channel();
        Self {
            cluster: cluster.clone(),
            sender,
            receiver,
            lists: Lists::default(),
            watched: BTreeMap::new(),
            trim,
            page,
            changed_at: None,
            failures: BTreeMap::new(),
            first_lists: Arc::new(Semaphore::new(MAX_CONCURRENT)),
            read_once: BTreeSet::new(),
        }
    }

    /// Watches exactly these collections: starts new watches, ends those of other collections, and
    /// continues the rest.
    pub(crate) fn set(&mut self, wanted: impl IntoIterator<Item = ListRequest>) {
        let wanted: BTreeSet<ListRequest> = wanted.into_iter().collect();
        self.watched.retain(|request, _| wanted.contains(request));
        self.lists.retain(|request| wanted.contains(request));
        self.failures.retain(|request, _| wanted.contains(request));
        self.add(wanted);
    }

    /// Watches these collections as well, except those of immutable objects.
    pub(crate) fn add(&mut self, wanted: impl IntoIterator<Item = ListRequest>) {
        for request in wanted {
            let is_read = request.query.is_immutable || self.read_once.contains(&request);
            if !is_read && !self.watched.contains_key(&request) {
                let watch = self.start(&request);
                self.watched.insert(request, watch);
            }
        }
    }

    /// Ends the watch on a named object that was read, and cannot be watched.
    pub(crate) fn read_once(&mut self, request: ListRequest) {
        self.watched.remove(&request);
        self.read_once.insert(request);
    }

    /// True if all collections were listed, or their lists have failed.
    pub(crate) fn is_complete(&self) -> bool {
        let mut watched = self.watched.keys();
        watched.all(|request| self.lists.get(request).is_some())
    }

    /// Waits until all collections are complete, or until a list has failed that is required. If no list
    /// at all could be read, the first failed connection ends the wait.
    ///
    /// # Errors
    /// The error of such a list.
    pub(crate) async fn completed(
        &mut self,
        is_required: impl Fn(&ListRequest) -> bool,
    ) -> Result<(), (ListRequest, ClusterError)> {
        loop {
            let is_read = |(_, list): (&ListRequest, &List)| list.trouble.is_none();
            let has_read = self.lists.iter().any(is_read);
            let ends = |request: &ListRequest, error: &ClusterError| {
                is_required(request) || !has_read && ends_reading(error)
            };
            let mut failures = self.failures.iter();
            let fatal = failures.find(|(request, error)| ends(request, error));
            if let Some(request) = fatal.map(|(request, _)| request.clone())
                && let Some(error) = self.failures.remove(&request)
            {
                return Err((request, error));
            }
            if self.is_complete() {
                self.changed_at = None;
                return Ok(());
            }
            // There always is a change, as for `changed`.
            while let Some((request, change)) = self.receiver.recv().await
                && !self.note(&request, change)
            {}
        }
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
                self.failures.remove(request);
            }
            (Change::Seen(Event::Apply(object)), Some(list)) => list.insert(object),
            (Change::Seen(Event::Delete(object)), Some(list)) => list.remove(&object),
            // There are no changes before the first list. While the server only asks to wait, the objects
            // that were listed are as current as before.
            (Change::Seen(Event::Apply(_) | Event::Delete(_)), None)
            | (Change::Failed { is_busy: true, .. }, Some(_)) => return false,
            // There are no objects of a kind that is not served.
            (
                Change::Failed {
                    reason,
                    cause: cause @ (None | Some(Cause::Forbidden)),
                    ..
                },
                Some(list),
            ) => {
                (list.trouble, list.cause) = (Some(reason), cause);
            }
            (
                Change::Failed {
                    reason,
                    cause,
                    error,
                    ..
                },
                _,
            ) => {
                let list = List::failed(reason, cause);
                self.lists.insert(request.clone(), list);
                self.failures.insert(request.clone(), error);
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
            page_size: Some(self.page),
            ..watcher::Config::default()
        };
        let (cluster, path) = (self.cluster.clone(), request.path.clone());
        let (sender, own) = (self.sender.clone(), request.clone());
        // The receiver is dropped when the program ends.
        let send = {
            let own = own.clone();
            move |change| drop(sender.send((own.clone(), change)))
        };
        let (client, trim) = (cluster.client.clone(), self.trim);
        let failed = move |error| failed(error, &cluster, &own.path);
        let first = Arc::clone(&self.first_lists);
        let task = if query.metadata_only {
            let api = api::<PartialObjectMeta<DynamicObject>>(client, &path);
            tokio::spawn(watch(api, config, trim, first, failed, send))
        } else {
            let api = api::<DynamicObject>(client, &path);
            tokio::spawn(watch(api, config, trim, first, failed, send))
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
/// list shows that the server responds. The first list waits for its turn in `first`.
async fn watch<K>(
    api: Api<K>,
    config: watcher::Config,
    trim: fn(&mut Value),
    first: Arc<Semaphore>,
    failed: impl Fn(watcher::Error) -> Option<Change>,
    send: impl Fn(Change),
) where
    K: Resource + Clone + Debug + DeserializeOwned + Serialize + Send + 'static,
{
    let mut pauses = DefaultBackoff::default();
    let mut turn = first.acquire_owned().await.ok();
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
            if matches!(event, Event::InitDone) {
                drop(turn.take());
            }
            send(Change::Seen(match event {
                Event::Init => Event::Init,
                Event::InitApply(object) => Event::InitApply(json(object)),
                Event::InitDone => Event::InitDone,
                Event::Apply(object) => Event::Apply(json(object)),
                Event::Delete(object) => Event::Delete(json(object)),
            }));
        };
        drop(turn.take());
        if let Some(change) = failure.and_then(&failed) {
            send(change);
        }
        sleep(pauses.next().unwrap_or_default()).await;
    }
}

/// The change for a failure of the watch on the collection at a path; `None` if the server only asks to
/// list again.
fn failed(error: watcher::Error, cluster: &Cluster, path: &str) -> Option<Change> {
    use kube::Error::{Api, HyperError, ReadEvents};
    use watcher::Error::{
        InitialListFailed, NoResourceVersion, WatchError, WatchFailed, WatchStartFailed,
    };
    let refused = |status: &Status| {
        let details = status.details.as_ref();
        let is_busy = details.is_some_and(|details| details.retry_after_seconds > 0);
        match status.code {
            404 => Some(("not served".to_owned(), Some(Cause::Unserved), false)),
            403 => Some((answer(status), Some(Cause::Forbidden), false)),
            410 => None,
            _ => Some((answer(status), None, is_busy)),
        }
    };
    let broken = || Some(("the API server's answer broke off".to_owned(), None, false));
    let failed = |error: &kube::Error, is_list: bool| match error {
        Api(status) => refused(status),
        // The way in which the connection ended does not matter to the user.
        HyperError(_) => broken(),
        ReadEvents(_) if !is_list => broken(),
        error => {
            let cause = innermost(error);
            let reason = format!("no answer from the API server: {cause}");
            Some((reason, None, false))
        }
    };
    let (words, error) = match error {
        WatchError(status) => (refused(&status), Api(status)),
        InitialListFailed(error) => (failed(&error, true), error),
        WatchStartFailed(error) | WatchFailed(error) => (failed(&error, false), error),
        NoResourceVersion => {
            let reason = NoResourceVersion.to_string();
            let error = ClusterError::Impossible(format!("cannot watch {path}: {reason}"));
            return Some(Change::Failed {
                reason,
                cause: None,
                error,
                is_busy: false,
            });
        }
    };
    let (reason, cause, is_busy) = words?;
    Some(Change::Failed {
        reason,
        cause,
        error: cluster.failure_at(path, error),
        is_busy,
    })
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, io};

    use http::{Request, Response};
    use kube::client::Body;
    use watcher::Error::{InitialListFailed, WatchError, WatchFailed};

    use super::*;

    #[tokio::test]
    async fn failures_are_named_in_a_few_words() {
        let silent = |_: Request<Body>| async { Ok::<_, Infallible>(Response::new(Body::empty())) };
        let client = kube::Client::new(tower::service_fn(silent), "shop");
        let warn = Arc::new(|_: &str| {});
        let cluster = Cluster::new(client, "shop".to_owned(), "a server".to_owned(), warn);
        let text = |error: watcher::Error| match failed(error, &cluster, "/api/v1/pods") {
            Some(Change::Failed { reason, .. }) => reason,
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
        assert_eq!(text(WatchError(status(404, "").boxed())), "not served");
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
