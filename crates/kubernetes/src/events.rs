//! Kubernetes Events, for people who run `kubectl describe`.
//!
//! # Guarantees
//!
//! - [`EventPublisher::publish`] never waits and never fails: an event that does not fit into the
//!   queue is dropped and counted.
//! - The same event about the same object is written once in five minutes; repetitions are counted
//!   in its series.
//! - An object with many different events may cause 25 writes at once, and then one write per
//!   minute; its other events are dropped.
//! - One request is sent at a time, so that events take little of the request rate of the
//!   reconciles. Namespaces take turns: a namespace with many events delays and displaces only its
//!   own events.
//!
//! The `Recorder` of kube (kube-runtime 5) is not used, not even behind this filter: it counts only
//! its own writes, by a key without the note, so suppressed repetitions and later notes are lost; a
//! repetition fails for six minutes once the server has deleted the event; and it does not shorten
//! the name of an event to the limit of the API.

mod filter;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use std::time::Duration;

use baton_apis::metrics;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
pub use kube::runtime::events::EventType as EventKind;
use kube::{Api, Client};
use parking_lot::Mutex;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};
use serde_json::json;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tower::util::rng::{HasherRng, Rng as _};
use tracing::{debug, info, warn};

use baton_engine::texts::shorten;

use crate::error::request_failure;
use crate::{answer::is_namespace_terminating, turns::Turns};
use filter::{Admission, Filter};

/// Shown by `kubectl describe` under `From`.
const CONTROLLER: &str = "baton";
/// A field that the API requires and no client shows.
const ACTION: &str = "Reconcile";
/// Namespace of events about cluster-scoped objects, by the rule of the API.
const CLUSTER_NAMESPACE: &str = "default";

/// Number of events that may wait, in all and per namespace.
const QUEUE: usize = 1024;
const NAMESPACE_QUEUE: usize = 256;
/// Time limit for writing one event.
const REQUEST: Duration = Duration::from_secs(10);
/// Time limit for writing the waiting events when the process ends.
const FLUSH: Duration = Duration::from_secs(2);

/// Limits of the API, in bytes.
const NOTE_LIMIT: usize = 1024;
const INSTANCE_LIMIT: usize = 128;
/// Length of the part of the object's name that the name of an event contains; that name may have
/// 253 characters.
const NAME_LIMIT: usize = 230;

crate::label_values! {
    /// The outcome of a Kubernetes Event, as the label `outcome` of `baton_events_total`.
    pub enum EventOutcome {
        /// Written to the API server.
        Published = "published",
        /// The same event was written a short time ago; this one is counted in the next write.
        Duplicate = "duplicate",
        /// The object had too many events in a short time.
        Spam = "spam",
        /// The queue was full, or the share of the namespace in it.
        Dropped = "dropped",
        /// The API server refused the event or could not be reached.
        Failed = "failed",
    }
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OutcomeLabel {
    outcome: &'static str,
}

/// Counts events by their outcome. A clone counts into the same series.
#[derive(Clone, Debug, Default)]
pub struct EventMetrics {
    counters: Arc<[Counter; EventOutcome::ALL.len()]>,
}

impl EventMetrics {
    /// Registers the family `baton_events_total`, with a series per outcome.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let family = Family::<OutcomeLabel, Counter>::default();
        registry.register(metrics::EVENTS.name, metrics::EVENTS.help, family.clone());
        let counters = EventOutcome::ALL.map(|outcome| {
            family.get_or_create_owned(&OutcomeLabel {
                outcome: outcome.as_str(),
            })
        });
        Self {
            counters: Arc::new(counters),
        }
    }

    fn count(&self, outcome: EventOutcome) {
        self.counters[outcome as usize].inc();
    }

    /// Number of events with this outcome so far.
    pub fn total(&self, outcome: EventOutcome) -> u64 {
        self.counters[outcome as usize].get()
    }
}

/// The message of an event.
#[derive(Clone, Debug, Default)]
pub struct EventMessage {
    /// Text for people; cut to 1024 bytes. Events with the same text are the same event.
    pub text: String,
    /// The same facts for programs, as annotations of the event.
    pub annotations: BTreeMap<String, String>,
}

impl From<String> for EventMessage {
    fn from(text: String) -> Self {
        let annotations = BTreeMap::new();
        Self { text, annotations }
    }
}

/// Publishes events in the background. A clone uses the same queue.
#[derive(Clone, Debug)]
pub struct EventPublisher {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    instance: String,
    /// A random number of this process; the name of an event is made unique by it and the serial.
    series: u64,
    backlog: Arc<Backlog>,
    filter: Mutex<Filter>,
    metrics: EventMetrics,
    writer: Mutex<Option<JoinHandle<()>>>,
}

/// Events that passed the filter, each with its number of occurrences, by their namespaces.
#[derive(Debug, Default)]
struct Backlog {
    waiting: Mutex<Turns<String, (Event, i32)>>,
    arrived: Notify,
    /// True if no more events are accepted.
    is_ending: AtomicBool,
}

impl Backlog {
    /// Waits for the next event; `None` if there are no more.
    async fn next(&self) -> Option<(Event, i32)> {
        loop {
            let next = self.waiting.lock().pop(|_| true);
            if let Some((_, next)) = next {
                return Some(next);
            }
            if self.is_ending.load(Ordering::Acquire) {
                return None;
            }
            self.arrived.notified().await;
        }
    }

    fn end(&self) {
        self.is_ending.store(true, Ordering::Release);
        self.arrived.notify_one();
    }
}

/// Prints the object of an event, for the log: `ObjectSet shop/web-1`.
struct Subject<'a>(&'a ObjectReference);

impl fmt::Display for Subject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let ObjectReference {
            kind,
            namespace,
            name,
            ..
        } = self.0;
        write!(f, "{} ", text(kind))?;
        if let Some(namespace) = namespace {
            write!(f, "{namespace}/")?;
        }
        f.write_str(&text(name))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.backlog.end();
    }
}

impl EventPublisher {
    /// Creates a publisher that reports as `instance`, the identity of this process. Must be called
    /// within a tokio runtime.
    #[must_use]
    pub fn new(client: Client, instance: &str, metrics: &EventMetrics) -> Self {
        let backlog = Arc::<Backlog>::default();
        let writer = Writer {
            client,
            metrics: metrics.clone(),
            warned: false,
        };
        let writer = tokio::spawn(writer.run(Arc::clone(&backlog)));
        Self {
            inner: Arc::new(Inner {
                instance: truncated(instance, INSTANCE_LIMIT).to_owned(),
                series: HasherRng::new().next_u64(),
                backlog,
                filter: Mutex::default(),
                metrics: metrics.clone(),
                writer: Mutex::new(Some(writer)),
            }),
        }
    }

    /// Publishes an event about an object, and writes it to the log, unless the same event was written
    /// a short time ago. Returns at once.
    ///
    /// `reason` is in `CamelCase`, from a small set.
    pub fn publish(
        &self,
        regarding: ObjectReference,
        kind: EventKind,
        reason: &'static str,
        note: impl Into<EventMessage>,
    ) {
        self.publish_as(CONTROLLER, regarding, kind, reason, note);
    }

    /// As [`EventPublisher::publish`], in the name of a controller from which clients expect the
    /// event.
    pub fn publish_as(
        &self,
        controller: &'static str,
        regarding: ObjectReference,
        kind: EventKind,
        reason: &'static str,
        note: impl Into<EventMessage>,
    ) {
        let EventMessage {
            text: mut note,
            annotations,
        } = note.into();
        let inner = &self.inner;
        // The free space in the queue is checked first, because the filter counts an event that it
        // has admitted as written.
        let lane = namespace_of(&regarding);
        let mut waiting = inner.backlog.waiting.lock();
        let is_ending = inner.backlog.is_ending.load(Ordering::Acquire);
        if is_ending || waiting.waiting(&lane) >= NAMESPACE_QUEUE {
            return inner.metrics.count(EventOutcome::Dropped);
        }
        shorten(&mut note, NOTE_LIMIT);
        let mut filter = inner.filter.lock();
        let admission = filter.decide(&regarding, kind, reason, &note, Instant::now());
        drop(filter);
        let (serial, count) = match admission {
            Admission::Write { serial, count } => (serial, count),
            Admission::Duplicate => return inner.metrics.count(EventOutcome::Duplicate),
            Admission::Spam => return inner.metrics.count(EventOutcome::Spam),
        };
        info!(object = %Subject(&regarding), reason, note);
        let mut metadata = metadata(&regarding, inner.series.wrapping_add(serial));
        metadata.annotations = (!annotations.is_empty()).then_some(annotations);
        let event = Event {
            metadata,
            action: Some(ACTION.to_owned()),
            event_time: Some(MicroTime(Timestamp::now())),
            note: Some(note),
            reason: Some(reason.to_owned()),
            regarding: Some(regarding),
            reporting_controller: Some(controller.to_owned()),
            reporting_instance: Some(inner.instance.clone()),
            type_: Some(match kind {
                EventKind::Normal => "Normal".to_owned(),
                EventKind::Warning => "Warning".to_owned(),
            }),
            ..Event::default()
        };
        waiting.push(lane, (event, count));
        if waiting.len() > QUEUE {
            // Drops an event of the namespace with the most waiting events.
            waiting.shed();
            inner.metrics.count(EventOutcome::Dropped);
        }
        drop(waiting);
        inner.backlog.arrived.notify_one();
    }

    /// Writes the waiting events, for two seconds at most, and ends. Events published later are
    /// dropped.
    pub async fn shutdown(&self) {
        let writer = self.inner.writer.lock().take();
        let Some(mut writer) = writer else {
            return;
        };
        self.inner.backlog.end();
        if timeout(FLUSH, &mut writer).await.is_err() {
            debug!("some events were not written before the shutdown");
            writer.abort();
        }
    }
}

/// Writes the events one after the other.
struct Writer {
    client: Client,
    metrics: EventMetrics,
    warned: bool,
}

impl Writer {
    async fn run(mut self, backlog: Arc<Backlog>) {
        while let Some((event, count)) = backlog.next().await {
            let reason = event.reason.as_deref();
            let outcome = match timeout(REQUEST, self.write(&event, count)).await {
                Ok(Ok(())) => EventOutcome::Published,
                Ok(Err(error)) => {
                    self.log(reason, &error);
                    if is_namespace_gone(&error) {
                        let lane = event.metadata.namespace.clone().unwrap_or_default();
                        for _ in backlog.waiting.lock().clear(&lane) {
                            self.metrics.count(EventOutcome::Failed);
                        }
                    }
                    EventOutcome::Failed
                }
                Err(_elapsed) => {
                    debug!(reason, "no answer to an event");
                    EventOutcome::Failed
                }
            };
            self.metrics.count(outcome);
        }
    }

    /// Warns once if events are forbidden altogether. A namespace that is being deleted also
    /// refuses them.
    fn log(&mut self, reason: Option<&str>, error: &kube::Error) {
        let cause = request_failure(error);
        let is_forbidden = matches!(
            error,
            kube::Error::Api(status) if status.code == 403 && !is_namespace_terminating(status)
        );
        if is_forbidden && !self.warned {
            self.warned = true;
            warn!(
                cause,
                "events cannot be written; apply config/rbac to allow it"
            );
        } else {
            debug!(reason, cause, "an event was not written");
        }
    }

    async fn write(&self, event: &Event, count: i32) -> Result<(), kube::Error> {
        let ObjectMeta {
            name, namespace, ..
        } = &event.metadata;
        let namespace = namespace.as_deref().unwrap_or(CLUSTER_NAMESPACE);
        let events: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        if count > 1 {
            let series = json!({ "count": count, "lastObservedTime": event.event_time });
            let patch = Patch::Merge(json!({ "series": series }));
            let name = name.as_deref().unwrap_or_default();
            match events
                .patch_metadata(name, &PatchParams::default(), &patch)
                .await
            {
                // The server has deleted the event.
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                written => return written.map(drop),
            }
        }
        events.create(&PostParams::default(), event).await.map(drop)
    }
}

/// True if events can no longer be written into the namespace.
fn is_namespace_gone(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else {
        return false;
    };
    let details = status.details.as_ref();
    let is_missing = status.code == 404 && details.is_some_and(|it| it.kind == "namespaces");
    is_missing || is_namespace_terminating(status)
}

/// Names an event after its object and a number.
fn metadata(regarding: &ObjectReference, number: u64) -> ObjectMeta {
    let object = truncated(regarding.name.as_deref().unwrap_or(CONTROLLER), NAME_LIMIT);
    // A name that was cut may end in characters that are not allowed before a dot.
    let object = object.trim_end_matches(['.', '-']);
    ObjectMeta {
        name: Some(format!("{object}.{number:016x}")),
        namespace: Some(namespace_of(regarding)),
        ..ObjectMeta::default()
    }
}

/// The namespace of the events about an object.
fn namespace_of(regarding: &ObjectReference) -> String {
    let namespace = regarding.namespace.as_deref();
    let namespace = namespace.filter(|namespace| !namespace.is_empty());
    namespace.unwrap_or(CLUSTER_NAMESPACE).to_owned()
}

/// The start of a text, cut at a character to at most `limit` bytes.
fn truncated(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use http_body_util::BodyExt as _;
    use kube::client::Body;
    use serde_json::Value;
    use tower::BoxError;

    use super::*;

    /// A server that records its requests, and answers with `status` or never.
    #[derive(Clone, Default)]
    struct Server {
        requests: Arc<Mutex<Vec<(String, Value)>>>,
        patch_status: Option<u16>,
        silent: bool,
    }

    impl Server {
        fn publisher(&self, metrics: &EventMetrics) -> EventPublisher {
            let server = self.clone();
            let service = tower::service_fn(move |request| server.clone().answer(request));
            EventPublisher::new(Client::new(service, "default"), "me", metrics)
        }

        async fn answer(self, request: Request<Body>) -> Result<Response<Body>, BoxError> {
            if self.silent {
                std::future::pending::<()>().await;
            }
            let (parts, body) = request.into_parts();
            let body: Value = serde_json::from_slice(&body.collect().await?.to_bytes())?;
            let is_patch = parts.method == http::Method::PATCH;
            let line = format!("{} {}", parts.method, parts.uri.path());
            self.requests.lock().push((line, body));
            let status = self.patch_status.filter(|_| is_patch).unwrap_or(200);
            let answer = if status == 200 {
                json!({"metadata": {}})
            } else {
                json!({"code": status, "reason": "NotFound"})
            };
            Ok(Response::builder()
                .status(status)
                .body(serde_json::to_vec(&answer)?.into())?)
        }

        fn lines(&self) -> Vec<String> {
            self.requests
                .lock()
                .iter()
                .map(|(line, _)| line.clone())
                .collect()
        }
    }

    fn set(name: &str, namespace: Option<&str>) -> ObjectReference {
        ObjectReference {
            api_version: Some("package-operator.run/v1alpha1".to_owned()),
            kind: Some("ObjectSet".to_owned()),
            name: Some(name.to_owned()),
            namespace: namespace.map(str::to_owned),
            uid: Some(format!("uid-of-{name}")),
            ..ObjectReference::default()
        }
    }

    fn publish_note(publisher: &EventPublisher, note: &str) {
        publisher.publish(
            set("web-1", Some("shop")),
            EventKind::Normal,
            "Handover",
            note.to_owned(),
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_is_created_beside_its_object() {
        let (server, metrics) = (Server::default(), EventMetrics::default());
        let publisher = server.publisher(&metrics);
        publish_note(&publisher, "took 3 objects over");
        publisher.publish(
            set("web", None),
            EventKind::Warning,
            "Collision",
            String::new(),
        );
        publisher.shutdown().await;

        let path = |namespace| format!("POST /apis/events.k8s.io/v1/namespaces/{namespace}/events");
        assert_eq!(server.lines(), [path("shop"), path("default")]);
        let event = server.requests.lock()[0].1.clone();
        for (pointer, expected) in [
            ("/action", "Reconcile"),
            ("/metadata/namespace", "shop"),
            ("/note", "took 3 objects over"),
            ("/reason", "Handover"),
            ("/regarding/uid", "uid-of-web-1"),
            ("/reportingController", "baton"),
            ("/reportingInstance", "me"),
            ("/type", "Normal"),
        ] {
            assert_eq!(event.pointer(pointer), Some(&json!(expected)), "{pointer}");
        }
        assert_eq!(metrics.total(EventOutcome::Published), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_has_the_annotations_of_its_note() {
        let (server, metrics) = (Server::default(), EventMetrics::default());
        let publisher = server.publisher(&metrics);
        let annotations = BTreeMap::from([("baton.run/x".to_owned(), "[]".to_owned())]);
        let text = "x".to_owned();
        let note = EventMessage { text, annotations };
        publisher.publish(set("web-1", Some("shop")), EventKind::Normal, "X", note);
        publisher.shutdown().await;
        let event = server.requests.lock()[0].1.clone();
        assert_eq!(event["metadata"]["annotations"]["baton.run/x"], "[]");
        assert_eq!(event["note"], "x");
    }

    #[tokio::test(start_paused = true)]
    async fn repetitions_are_counted_into_the_series() {
        for (patch_status, last) in [(None, "PATCH"), (Some(404), "POST")] {
            let server = Server {
                patch_status,
                ..Server::default()
            };
            let metrics = EventMetrics::default();
            let publisher = server.publisher(&metrics);
            publish_note(&publisher, "x");
            publish_note(&publisher, "x");
            publish_note(&publisher, "y");
            tokio::time::sleep(Duration::from_mins(6)).await;
            publish_note(&publisher, "x");
            publisher.shutdown().await;

            let requests = server.requests.lock();
            assert!(
                requests.last().unwrap().0.starts_with(last),
                "{requests:#?}"
            );
            let name = requests[0]
                .1
                .pointer("/metadata/name")
                .unwrap()
                .as_str()
                .unwrap();
            let (line, patch) = &requests[2];
            assert_eq!(
                *line,
                format!("PATCH /apis/events.k8s.io/v1/namespaces/shop/events/{name}")
            );
            assert_eq!(patch.pointer("/series/count"), Some(&json!(3)));
            assert_eq!(metrics.total(EventOutcome::Duplicate), 1);
            assert_eq!(metrics.total(EventOutcome::Published), 3);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn publishing_does_not_wait_for_a_silent_server() {
        let (server, metrics) = (
            Server {
                silent: true,
                ..Server::default()
            },
            EventMetrics::default(),
        );
        let publisher = server.publisher(&metrics);
        let start = Instant::now();
        for index in 0..NAMESPACE_QUEUE + 7 {
            publisher.publish(
                set(&format!("web-{index}"), Some("shop")),
                EventKind::Normal,
                "Handover",
                String::new(),
            );
        }
        assert_eq!(start.elapsed(), Duration::ZERO);
        assert_eq!(metrics.total(EventOutcome::Dropped), 7);
        publisher.shutdown().await;
        assert!(
            start.elapsed() <= Duration::from_secs(3),
            "{:?}",
            start.elapsed()
        );

        publish_note(&publisher, "too late");
        assert_eq!(metrics.total(EventOutcome::Dropped), 8);
        publisher.shutdown().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_namespace_with_many_events_delays_no_other() {
        let (server, metrics) = (Server::default(), EventMetrics::default());
        let publisher = server.publisher(&metrics);
        let publish = |name: String, namespace| {
            let about = set(&name, Some(namespace));
            publisher.publish(about, EventKind::Normal, "Handover", String::new());
        };
        for index in 0..2 * NAMESPACE_QUEUE {
            publish(format!("noisy-{index}"), "noisy");
        }
        publish("web-1".to_owned(), "shop");
        publisher.shutdown().await;
        let lines = server.lines();
        assert_eq!(lines.len(), NAMESPACE_QUEUE + 1);
        assert!(lines[1].contains("/namespaces/shop/"), "{}", lines[1]);
    }

    #[tokio::test(start_paused = true)]
    async fn many_namespaces_with_many_events_do_not_crowd_out_another() {
        let (server, metrics) = (Server::default(), EventMetrics::default());
        let publisher = server.publisher(&metrics);
        for index in 0..2 * QUEUE {
            let about = set(
                &format!("noisy-{index}"),
                Some(&format!("noisy-{}", index % 8)),
            );
            publisher.publish(about, EventKind::Normal, "Handover", String::new());
        }
        publisher.publish(
            set("web-1", Some("shop")),
            EventKind::Normal,
            "Handover",
            String::new(),
        );
        publisher.shutdown().await;
        let lines = server.lines();
        assert_eq!(lines.len(), QUEUE);
        assert!(lines.iter().any(|line| line.contains("/namespaces/shop/")));
    }

    #[test]
    fn names_of_events_are_valid_however_long_the_objects_is() {
        for name in [
            "web".to_owned(),
            "a".repeat(253),
            format!("{}.-.{}", "a".repeat(228), "b".repeat(20)),
        ] {
            let made = metadata(&set(&name, None), 0).name.unwrap();
            assert!(
                made.len() <= 253 && made.ends_with(".0000000000000000"),
                "{made}"
            );
            assert!(!made.contains("..") && !made.contains("-."), "{made}");
        }
    }

    #[test]
    fn the_log_names_the_object_of_an_event() {
        let subject = |namespace: Option<&str>| ObjectReference {
            kind: Some("ObjectSet".to_owned()),
            namespace: namespace.map(str::to_owned),
            name: Some("web-1".to_owned()),
            ..ObjectReference::default()
        };
        assert_eq!(
            Subject(&subject(Some("shop"))).to_string(),
            "ObjectSet shop/web-1"
        );
        assert_eq!(Subject(&subject(None)).to_string(), "ObjectSet web-1");
    }
}
