//! The state and the helpers that all controllers share: requests, events, clock, and how a pass ends early.

use std::{sync::Arc, time::Duration};

use baton_apis::constants::API_VERSION;
use baton_kubernetes::{
    account::Account,
    events::{EventKind, EventPublisher, Note},
    target::ObserveError,
};
use baton_records::{
    api::{Api, ApiError},
    key::{Key, OwnKind},
    record::ReadError,
};
use baton_runtime::{clock::Clock, controller::ReconcileError};
use baton_typed::key::{Key as TypedKey, Kind};
use k8s_openapi::api::core::v1::ObjectReference;
use tracing::info;

use super::repairs::Repairs;

/// Changes come in bursts, say of all objects of a phase: they are worked on together.
pub(crate) const BURST: Duration = Duration::from_millis(20);

/// Objects that a revision only co-owns are written to by their new controller, several in a pass. A revision that
/// objects were taken from is woken at the end of that pass; this is for the others, such as one that probes what a
/// newer one repaired.
pub(crate) const CO_OWNED: Duration = Duration::from_secs(2);

/// The parts that all controllers share.
#[derive(Clone)]
pub(crate) struct Shared {
    /// Requests about objects of our own kinds.
    pub api: Api,
    pub events: Events,
    pub clock: Clock,
    pub repairs: Repairs,
    /// Name of the service accounts that objects of namespaced revisions are written as which name none.
    pub default_account: Option<Arc<str>>,
}

impl Shared {
    /// The service account that the objects of an owner are written as; `None` for the manager itself.
    pub(crate) fn account(&self, namespace: &str, named: Option<&str>) -> Option<Account> {
        let name = named.or(self.default_account.as_deref())?;
        Account::new(namespace, name)
    }
}

/// Where Kubernetes Events go.
#[derive(Clone)]
pub(crate) enum Events {
    Publish(EventPublisher),
    /// To the log: an agent may write nothing but statuses.
    Log,
}

impl Events {
    /// Publishes an event about an object of ours.
    pub(crate) fn publish<K: OwnKind>(
        &self,
        key: &Key<K>,
        uid: &str,
        kind: EventKind,
        reason: &'static str,
        note: impl Into<Note>,
    ) {
        let note = note.into();
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
    /// Publishes an event about a typed object, as a controller of this name.
    pub(crate) fn publish_about<K: Kind>(
        &self,
        reporter: &'static str,
        (key, object): (&TypedKey, &K),
        kind: EventKind,
        reason: &'static str,
        note: impl Into<Note>,
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
        publisher.publish_as(reporter, subject, kind, reason, note);
    }
}

/// The cause that a pass ended early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The object itself, or one that it depends on.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The kinds of children.
    #[error("observing objects: {0}")]
    Observe(#[from] ObserveError),
    /// A request about a revision, a phase, a slice or a deployment.
    #[error("{step}: {source}")]
    Record {
        step: &'static str,
        source: ApiError,
    },
    /// A request about a typed object, or in another cluster.
    #[error("{step}: {source}")]
    Request {
        step: &'static str,
        source: kube::Error,
    },
    /// The beginning of a phase could not be stored by an agent.
    #[error("noting that a phase has begun: {0}")]
    NotSaved(Box<dyn std::error::Error + Send + Sync>),
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The status reports it already, and it is to be tried again.
    #[error("{0}")]
    Reported(Box<dyn std::error::Error + Send + Sync>),
}

/// A refusal that another try does not overcome.
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
    #[error("version {version} is not kept any more")]
    Version { version: String },
}

impl Error {
    /// The text of a refusal, for the status.
    pub(crate) fn refusal(&self) -> Option<String> {
        let is_refusal = match self {
            Self::Refused(_) => true,
            Self::Record { source, .. } => source.refusal().is_some(),
            _ => false,
        };
        is_refusal.then(|| self.to_string())
    }
}

impl ReconcileError for Error {
    fn is_change(&self) -> bool {
        match self {
            Self::Record { source, .. } => source.is_change(),
            // The object is not what it was, or is gone.
            Self::Request {
                source: kube::Error::Api(status),
                ..
            } => matches!(status.code, 404 | 409),
            _ => false,
        }
    }
}

/// Says in which step of a pass a request failed.
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
