//! The state and the helpers that all controllers share: requests, events, clock, and the error of
//! a pass.

use std::{sync::Arc, time::Duration};

use baton_apis::{conditions::EventReason, constants::API_VERSION};
use baton_engine::conditions::FAILURES_BEFORE_REPORT;
use baton_kubernetes::{
    account::Account,
    error::request_failure,
    events::{EventKind, EventMessage, EventPublisher},
    target::ObserveError,
};
use baton_records::{
    api::{Api, ApiError},
    creations::Repeated,
    key::{Key, OwnKind},
    record::ReadError,
};
use baton_runtime::{clock::Clock, controller::ReconcileError};
use baton_typed::key::{Key as TypedKey, Kind};
use k8s_openapi::api::core::v1::ObjectReference;
use tracing::info;

use super::repairs::Repairs;

/// The debounce of changes: they come in bursts, for example of all objects of a phase, and one
/// pass handles them together.
pub(crate) const BURST: Duration = Duration::from_millis(20);

/// The debounce for owners that are not the controller of an object.
///
/// The controller writes several objects in a pass, and wakes the revisions that lost objects at
/// the end. All others are woken by this delay, for example a revision that probes an object that a
/// newer one has repaired.
pub(crate) const CO_OWNED: Duration = Duration::from_secs(2);

/// The parts that all controllers share.
#[derive(Clone)]
pub(crate) struct Shared {
    /// Requests about objects of our own kinds.
    pub api: Api,
    pub events: Events,
    pub clock: Clock,
    pub repairs: Repairs,
    /// Name of the service account that writes the objects of namespaced revisions that do not name
    /// one.
    pub default_account: Option<Arc<str>>,
}

impl Shared {
    /// The service account that writes the objects of an owner; `None` for the manager itself.
    pub(crate) fn account(&self, namespace: &str, named: Option<&str>) -> Option<Account> {
        let name = named.or(self.default_account.as_deref())?;
        Account::new(namespace, name)
    }
}

/// The destination of Kubernetes Events.
#[derive(Clone)]
pub(crate) enum Events {
    Publish(EventPublisher),
    /// The log: an agent may write only statuses.
    Log,
}

impl Events {
    /// Publishes an event about an object of our own kinds.
    pub(crate) fn publish<K: OwnKind>(
        &self,
        key: &Key<K>,
        uid: &str,
        kind: EventKind,
        reason: impl Into<EventReason>,
        note: impl Into<EventMessage>,
    ) {
        let (reason, note) = (reason.into().as_str(), note.into());
        let Self::Publish(publisher) = self else {
            info!(object = %key, reason, note = note.text);
            return;
        };
        let subject = ObjectReference {
            api_version: Some(API_VERSION.to_owned()),
            kind: Some(key.kind.kind().to_owned()),
            name: Some(key.name.to_string()),
            namespace: (!key.namespace.is_empty()).then(|| key.namespace.to_string()),
            uid: Some(uid.to_owned()),
            ..ObjectReference::default()
        };
        publisher.publish(subject, kind, reason, note);
    }
}

impl Events {
    /// Publishes an event about a typed object, with this controller name.
    pub(crate) fn publish_about<K: Kind>(
        &self,
        reporter: &'static str,
        (key, object): (&TypedKey, &K),
        kind: EventKind,
        reason: impl Into<EventReason>,
        note: impl Into<EventMessage>,
    ) {
        let Self::Publish(publisher) = self else {
            return;
        };
        let subject = ObjectReference {
            api_version: Some(K::api_version(&()).into_owned()),
            kind: Some(key.kind.to_owned()),
            name: Some(key.name.to_string()),
            namespace: (!key.namespace.is_empty()).then(|| key.namespace.to_string()),
            uid: object.meta().uid.clone(),
            ..ObjectReference::default()
        };
        publisher.publish_as(reporter, subject, kind, reason.into().as_str(), note);
    }
}

/// The error of a pass.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The object itself, or one that it depends on, cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The kinds of children cannot be observed.
    #[error("observing objects: {0}")]
    Observe(#[from] ObserveError),
    /// A request about a revision, a phase, a slice or a deployment failed.
    #[error("{step}: {source}")]
    Record {
        step: &'static str,
        source: ApiError,
    },
    /// An object was created again and again.
    #[error("{kind}: {source}")]
    Repeated { kind: String, source: Repeated },
    /// A request about a typed object, or in another cluster, failed.
    #[error("{step}: {}", request_failure(source))]
    Request {
        step: &'static str,
        source: kube::Error,
    },
    /// An agent could not store that a phase has begun.
    #[error("storing that a phase has begun: {0}")]
    NotSaved(Box<dyn std::error::Error + Send + Sync>),
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The status already reports the error, and the pass is retried.
    #[error("{0}")]
    Reported(Box<dyn std::error::Error + Send + Sync>),
}

/// A refusal that a retry does not overcome.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("{kind} {name} was refused: {message}")]
    Slice {
        kind: &'static str,
        name: String,
        message: String,
    },
    #[error("The revision for site {site} was refused: {message}")]
    Revision { site: String, message: String },
    #[error("{kind} {name} has other content than the version. Delete it.")]
    OtherContent { kind: &'static str, name: String },
    #[error("{kind} {name} is being deleted, and is created again after that")]
    InDeletion { kind: &'static str, name: String },
    #[error("version {version} is not kept any more")]
    Version { version: String },
}

impl Error {
    /// The text for the status, if the error is a refusal, or if `failures` passes in a row have
    /// failed before: a single failed request is only retried.
    pub(crate) fn to_report(&self, failures: u32) -> Option<String> {
        let is_lasting = !self.is_change() && failures >= FAILURES_BEFORE_REPORT;
        self.refusal()
            .or_else(|| is_lasting.then(|| self.to_string()))
    }

    /// The text for the status, if the error is a refusal.
    pub(crate) fn refusal(&self) -> Option<String> {
        let is_refusal = match self {
            Self::Refused(_) | Self::Repeated { .. } => true,
            Self::Record { source, .. } => source.refusal().is_some() || self.repeated().is_some(),
            Self::Request { source, .. } => is_refused(source),
            _ => false,
        };
        is_refusal.then(|| self.to_string())
    }

    /// The repetition, if an object was created again and again.
    fn repeated(&self) -> Option<&Repeated> {
        match self {
            Self::Repeated { source, .. }
            | Self::Record {
                source: ApiError::Repeated { source, .. },
                ..
            } => Some(source),
            _ => None,
        }
    }
}

/// True if every further attempt would be refused as well.
fn is_refused(error: &kube::Error) -> bool {
    matches!(
        error,
        kube::Error::Api(status) if matches!(status.code, 400..500) && !matches!(status.code, 404 | 409 | 429)
    )
}

impl ReconcileError for Error {
    fn retry_after(&self) -> Option<Duration> {
        self.repeated().map(|repeated| repeated.wait)
    }

    fn is_change(&self) -> bool {
        match self {
            Self::Record { source, .. } => source.is_change(),
            // The object has changed or was deleted.
            Self::Request {
                source: kube::Error::Api(status),
                ..
            } => matches!(status.code, 404 | 409),
            _ => false,
        }
    }
}

/// Adds the step of a pass in which a request failed.
pub(crate) trait AtStep<T> {
    fn at_step(self, step: &'static str) -> Result<T, Error>;
}

impl<T> AtStep<T> for Result<T, ApiError> {
    fn at_step(self, step: &'static str) -> Result<T, Error> {
        self.map_err(|source| Error::Record { step, source })
    }
}

impl<T> AtStep<T> for Result<T, kube::Error> {
    fn at_step(self, step: &'static str) -> Result<T, Error> {
        self.map_err(|source| Error::Request { step, source })
    }
}
