//! Kubernetes Events, for people who run `kubectl describe`.
//!
//! # Guarantees
//!
//! - [`EventPublisher::publish`] never waits and never fails: what does not fit into the queue is dropped and counted.
//! - The same event about the same object is written once in five minutes; repetitions are counted into its series.
//! - An object that produces ever new events is cut off after a burst and earns one write per minute.
//! - One request at a time, so that events take next to nothing from the reconciles.
//!
//! The recorder of kube-runtime was looked at and not taken: it takes two events with one reason for the same event
//! whatever they say, so that of a handover of many objects only the first note would be kept; and once an event is
//! gone from the server, its repetitions fail.

mod filter;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tower::util::rng::{HasherRng, Rng as _};
use tracing::{debug, warn};

use crate::telemetry::metrics::Metrics;
use crate::telemetry::outcomes::EventOutcome;
use filter::{Filter, Verdict};

/// Who reports, as `kubectl describe` shows it under `From`.
const CONTROLLER: &str = "baton";
/// What was being done, a field that the API wants and nothing shows.
const ACTION: &str = "Reconcile";
/// Where events about cluster-scoped objects go, by the rule of the API.
const CLUSTER_NAMESPACE: &str = "default";

/// Events that wait for their turn.
const QUEUE: usize = 512;
/// How long one event may take.
const REQUEST: Duration = Duration::from_secs(10);
/// How long the end of the process may be put off for events.
const FLUSH: Duration = Duration::from_secs(2);

/// Limits of the API, in bytes.
const NOTE_LIMIT: usize = 1024;
const INSTANCE_LIMIT: usize = 128;
/// What of the object's name goes into that of the event, which may have 253 characters.
const NAME_LIMIT: usize = 230;

/// How serious an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// Something went as it should.
    Normal,
    /// Somebody may want to look.
    Warning,
}

impl EventKind {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// Publishes events in the background. A clone feeds the same queue.
#[derive(Clone, Debug)]
pub struct EventPublisher {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    queue: mpsc::Sender<Message>,
    filter: Mutex<Filter>,
    metrics: Metrics,
    writer: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
enum Message {
    Write(Box<Draft>),
    Stop,
}

/// An event that passed the filter.
#[derive(Debug)]
struct Draft {
    regarding: ObjectReference,
    kind: EventKind,
    reason: &'static str,
    note: String,
    serial: u64,
    /// How often it happened; 1 when it was not written before.
    count: i32,
    at: Timestamp,
}

impl EventPublisher {
    /// A publisher that reports as `instance`, the identity of this process. Call it inside of a tokio runtime.
    #[must_use]
    pub fn new(client: Client, instance: &str, metrics: &Metrics) -> Self {
        let (queue, messages) = mpsc::channel(QUEUE);
        let writer = Writer {
            client,
            instance: truncated(instance, INSTANCE_LIMIT).to_owned(),
            series: HasherRng::new().next_u64(),
            metrics: metrics.clone(),
            warned: false,
        };
        let writer = tokio::spawn(writer.run(messages));
        Self {
            inner: Arc::new(Inner {
                queue,
                filter: Mutex::default(),
                metrics: metrics.clone(),
                writer: Mutex::new(Some(writer)),
            }),
        }
    }

    /// Publishes an event about an object, unless it was said a short time ago. Returns at once.
    ///
    /// `reason` is a word in `CamelCase` from a small set; `note` is cut after 1024 bytes.
    pub fn publish(
        &self,
        regarding: ObjectReference,
        kind: EventKind,
        reason: &'static str,
        note: String,
    ) {
        let inner = &self.inner;
        // Room first: an event that the filter has let through counts as written.
        let Ok(place) = inner.queue.try_reserve() else {
            return inner.metrics.count_event(EventOutcome::Dropped);
        };
        let note = shortened(note);
        let verdict = inner
            .filter
            .lock()
            .offer(&regarding, kind, reason, &note, Instant::now());
        let (serial, count) = match verdict {
            Verdict::First { serial } => (serial, 1),
            Verdict::Again { serial, count } => (serial, count),
            Verdict::Duplicate => return inner.metrics.count_event(EventOutcome::Duplicate),
            Verdict::Spam => return inner.metrics.count_event(EventOutcome::Spam),
        };
        let at = Timestamp::now();
        place.send(Message::Write(Box::new(Draft {
            regarding,
            kind,
            reason,
            note,
            serial,
            count,
            at,
        })));
    }

    /// Writes what waits, for two seconds at most, and ends. Events published later are dropped.
    pub async fn shutdown(&self) {
        let writer = self.inner.writer.lock().take();
        let Some(mut writer) = writer else {
            return;
        };
        let flushed = timeout(FLUSH, async {
            // An error means that the writer has ended already.
            let _ = self.inner.queue.send(Message::Stop).await;
            let _ = (&mut writer).await;
        });
        if flushed.await.is_err() {
            debug!("some events were not written before the end");
            writer.abort();
        }
    }
}

/// Writes one event after the other.
struct Writer {
    client: Client,
    instance: String,
    /// A random number of this process; with the serial of an event it makes the name unique.
    series: u64,
    metrics: Metrics,
    warned: bool,
}

impl Writer {
    async fn run(mut self, mut messages: mpsc::Receiver<Message>) {
        while let Some(Message::Write(draft)) = messages.recv().await {
            let outcome = match timeout(REQUEST, self.write(&draft)).await {
                Ok(Ok(())) => EventOutcome::Published,
                Ok(Err(error)) => {
                    self.tell(&draft, &error);
                    EventOutcome::Failed
                }
                Err(_elapsed) => {
                    debug!(reason = draft.reason, "no answer to an event");
                    EventOutcome::Failed
                }
            };
            self.metrics.count_event(outcome);
        }
    }

    /// Warns once when events are forbidden altogether; a namespace on its way out refuses them too, and that is normal.
    fn tell(&mut self, draft: &Draft, error: &kube::Error) {
        let forbidden = matches!(error, kube::Error::Api(status) if status.code == 403 && !status.message.contains("being terminated"));
        if forbidden && !self.warned {
            self.warned = true;
            warn!(%error, "events cannot be written; apply config/rbac to see them");
        } else {
            debug!(reason = draft.reason, %error, "an event was not written");
        }
    }

    async fn write(&self, draft: &Draft) -> Result<(), kube::Error> {
        let event = self.event(draft);
        let namespace = event
            .metadata
            .namespace
            .as_deref()
            .unwrap_or(CLUSTER_NAMESPACE);
        let events: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        if draft.count > 1 {
            let name = event.metadata.name.as_deref().unwrap_or_default();
            let series = json!({ "count": draft.count, "lastObservedTime": MicroTime(draft.at) });
            let patch = Patch::Merge(json!({ "series": series }));
            match events
                .patch_metadata(name, &PatchParams::default(), &patch)
                .await
            {
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                written => return written.map(drop),
            }
        }
        events
            .create(&PostParams::default(), &event)
            .await
            .map(drop)
    }

    fn event(&self, draft: &Draft) -> Event {
        let regarding = &draft.regarding;
        let namespace = regarding
            .namespace
            .as_deref()
            .filter(|namespace| !namespace.is_empty());
        let object = truncated(regarding.name.as_deref().unwrap_or(CONTROLLER), NAME_LIMIT);
        // Cut in the middle, a name may end in what must not stand before a dot.
        let object = object.trim_end_matches(['.', '-']);
        let number = self.series.wrapping_add(draft.serial);
        Event {
            metadata: ObjectMeta {
                name: Some(format!("{object}.{number:016x}")),
                namespace: Some(namespace.unwrap_or(CLUSTER_NAMESPACE).to_owned()),
                ..ObjectMeta::default()
            },
            action: Some(ACTION.to_owned()),
            event_time: Some(MicroTime(draft.at)),
            note: Some(draft.note.clone()),
            reason: Some(draft.reason.to_owned()),
            regarding: Some(regarding.clone()),
            reporting_controller: Some(CONTROLLER.to_owned()),
            reporting_instance: Some(self.instance.clone()),
            type_: Some(draft.kind.as_str().to_owned()),
            ..Event::default()
        }
    }
}

/// The first bytes of a text, up to a whole character.
fn truncated(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
}

/// A note that the API takes, with a mark where it was cut.
fn shortened(note: String) -> String {
    const MARK: &str = "...";
    if note.len() <= NOTE_LIMIT {
        return note;
    }
    format!("{}{MARK}", truncated(&note, NOTE_LIMIT - MARK.len()))
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use http_body_util::BodyExt as _;
    use kube::client::Body;
    use serde_json::Value;
    use tower::BoxError;

    use super::*;

    /// A server that takes down what it is sent, and answers with `status` or never.
    #[derive(Clone, Default)]
    struct Server {
        requests: Arc<Mutex<Vec<(String, Value)>>>,
        patch_status: Option<u16>,
        silent: bool,
    }

    impl Server {
        fn publisher(&self, metrics: &Metrics) -> EventPublisher {
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

    fn say(publisher: &EventPublisher, note: &str) {
        publisher.publish(
            set("web-1", Some("shop")),
            EventKind::Normal,
            "Handover",
            note.to_owned(),
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_is_created_beside_its_object() {
        let (server, metrics) = (Server::default(), Metrics::new());
        let publisher = server.publisher(&metrics);
        say(&publisher, "took 3 objects over");
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
        assert_eq!(metrics.events(EventOutcome::Published), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn repetitions_are_counted_into_the_series() {
        for (patch_status, last) in [(None, "PATCH"), (Some(404), "POST")] {
            let server = Server {
                patch_status,
                ..Server::default()
            };
            let metrics = Metrics::new();
            let publisher = server.publisher(&metrics);
            say(&publisher, "x");
            say(&publisher, "x");
            say(&publisher, "y");
            tokio::time::sleep(Duration::from_mins(6)).await;
            say(&publisher, "x");
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
            assert_eq!(metrics.events(EventOutcome::Duplicate), 1);
            assert_eq!(metrics.events(EventOutcome::Published), 3);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_server_holds_nobody_up() {
        let (server, metrics) = (
            Server {
                silent: true,
                ..Server::default()
            },
            Metrics::new(),
        );
        let publisher = server.publisher(&metrics);
        let start = Instant::now();
        for index in 0..QUEUE + 7 {
            publisher.publish(
                set(&format!("web-{index}"), Some("shop")),
                EventKind::Normal,
                "Handover",
                String::new(),
            );
        }
        assert_eq!(start.elapsed(), Duration::ZERO);
        assert_eq!(metrics.events(EventOutcome::Dropped), 7);
        publisher.shutdown().await;
        assert!(
            start.elapsed() <= Duration::from_secs(3),
            "{:?}",
            start.elapsed()
        );

        say(&publisher, "too late");
        assert_eq!(metrics.events(EventOutcome::Dropped), 8);
        publisher.shutdown().await;
    }

    #[test]
    fn texts_are_cut_at_whole_characters() {
        assert_eq!(shortened("short".to_owned()), "short");
        assert_eq!(shortened("x".repeat(1024)).len(), 1024);
        let cut = shortened("ä".repeat(1000));
        assert!(
            cut.len() <= 1024 && cut.ends_with("ä..."),
            "{} bytes",
            cut.len()
        );
    }

    #[tokio::test]
    async fn names_of_events_are_valid_however_long_the_objects_is() {
        let client = Client::new(
            tower::service_fn(|_| async { Ok::<_, BoxError>(Response::new(Body::empty())) }),
            "x",
        );
        let (instance, metrics) = ("me".to_owned(), Metrics::new());
        let writer = Writer {
            client,
            instance,
            series: u64::MAX,
            metrics,
            warned: false,
        };
        for name in [
            "web".to_owned(),
            "a".repeat(253),
            format!("{}.-.{}", "a".repeat(228), "b".repeat(20)),
        ] {
            let draft = Draft {
                regarding: set(&name, None),
                kind: EventKind::Normal,
                reason: "Handover",
                note: String::new(),
                serial: 1,
                count: 1,
                at: Timestamp::now(),
            };
            let made = writer.event(&draft).metadata.name.unwrap();
            assert!(
                made.len() <= 253 && made.ends_with(".0000000000000000"),
                "{made}"
            );
            assert!(!made.contains("..") && !made.contains("-."), "{made}");
        }
    }
}
