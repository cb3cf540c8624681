//! Deployments and revisions as they were read from a server.

use baton_apis::{
    LifecycleState, ObjectDeploymentSpec, ObjectDeploymentStatus, ObjectSetSpec, ObjectSetStatus,
    conditions, constants::ANNOTATION_CHANGE_CAUSE,
};
use baton_engine::condition_list::{find, is_true};
use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, OwnerReference},
    jiff::Timestamp,
};
use serde::Deserialize;
use serde_json::Value;

use crate::target::{Kind, Target};

/// An object of one of our kinds.
#[derive(Clone, Debug)]
pub(crate) struct Member<S, T> {
    /// Which kind, of those with this spec.
    pub(crate) kind: Kind,
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: S,
    pub(crate) status: T,
    /// All of it, as the server has it.
    pub(crate) object: Value,
}

/// An `ObjectDeployment` or `ClusterObjectDeployment`.
pub(crate) type Deployment = Member<ObjectDeploymentSpec, ObjectDeploymentStatus>;

/// An `ObjectSet` or `ClusterObjectSet`.
pub(crate) type Revision = Member<ObjectSetSpec, ObjectSetStatus>;

pub(crate) trait Reported {
    fn conditions(&self) -> &[Condition];
}

impl Reported for ObjectDeploymentStatus {
    fn conditions(&self) -> &[Condition] {
        &self.conditions
    }
}

impl Reported for ObjectSetStatus {
    fn conditions(&self) -> &[Condition] {
        &self.conditions
    }
}

impl<S, T> Member<S, T>
where
    S: for<'de> Deserialize<'de> + Default,
    T: for<'de> Deserialize<'de> + Default + Reported,
{
    pub(crate) fn parse(object: Value) -> Result<Self, serde_json::Error> {
        use serde::de::Error as _;
        let name = || {
            let text = |pointer| object.pointer(pointer).and_then(Value::as_str);
            format!(
                "{} {}",
                text("/kind").unwrap_or("object"),
                text("/metadata/name").unwrap_or("without a name")
            )
        };
        let kind = Kind::of(&object)
            .ok_or_else(|| serde_json::Error::custom(format!("{} is none of our kinds", name())))?;
        let parts = Parts::<S, T>::deserialize(&object).map_err(|error| {
            serde_json::Error::custom(format!("{} is left out: {error}", name()))
        })?;
        Ok(Self {
            kind,
            metadata: parts.metadata,
            spec: parts.spec,
            status: parts.status.unwrap_or_default(),
            object,
        })
    }

    pub(crate) fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    pub(crate) fn uid(&self) -> &str {
        self.metadata.uid.as_deref().unwrap_or_default()
    }

    /// Its namespace; `None` for a cluster-scoped one.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.metadata.namespace.as_deref()
    }

    pub(crate) fn path(&self) -> String {
        self.kind.path_of(self.namespace(), self.name())
    }

    /// As it can be typed: `od/web`, `os/web-1`.
    pub(crate) fn target(&self) -> Target {
        Target::new(self.kind, self.name())
    }

    pub(crate) fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    pub(crate) fn annotation(&self, key: &str) -> Option<&str> {
        let annotations = self.metadata.annotations.as_ref()?;
        annotations.get(key).map(String::as_str)
    }

    pub(crate) fn condition(&self, type_: &str) -> Option<&Condition> {
        find(self.status.conditions(), type_)
    }

    pub(crate) fn is_true(&self, type_: &str) -> bool {
        is_true(self.status.conditions(), type_)
    }
}

#[derive(Deserialize)]
#[serde(bound = "S: Deserialize<'de> + Default, T: Deserialize<'de>")]
struct Parts<S, T> {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: S,
    status: Option<T>,
}

impl Deployment {
    /// Whether the status describes the present spec: every own condition carries the present generation.
    pub(crate) fn is_observed(&self) -> bool {
        let own = [conditions::AVAILABLE, conditions::PROGRESSING];
        own.iter().all(|type_| {
            self.condition(type_)
                .is_some_and(|condition| condition.observed_generation == self.metadata.generation)
        })
    }
}

impl Revision {
    /// Its number, once it has one.
    pub(crate) fn number(&self) -> Option<i64> {
        self.spec.revision.filter(|number| *number != 0)
    }

    pub(crate) fn is_archived(&self) -> bool {
        self.spec.lifecycle_state == LifecycleState::Archived || self.is_true(conditions::ARCHIVED)
    }

    /// Whether it was available once with all of its objects.
    pub(crate) fn has_succeeded(&self) -> bool {
        self.is_true(conditions::SUCCEEDED)
    }

    pub(crate) fn state(&self) -> State {
        if self.is_deleting() {
            State::Deleting
        } else if self.is_true(conditions::ARCHIVED) {
            State::Archived
        } else if self.spec.lifecycle_state == LifecycleState::Archived {
            State::Archiving
        } else if self.spec.lifecycle_state == LifecycleState::Paused {
            State::Paused
        } else if self.is_true(conditions::AVAILABLE) {
            State::Available
        } else if self.condition(conditions::AVAILABLE).is_some() {
            State::NotReady
        } else {
            State::Pending
        }
    }

    /// Why it was made, as its maker noted in [`ANNOTATION_CHANGE_CAUSE`].
    pub(crate) fn change_cause(&self) -> Option<&str> {
        self.annotation(ANNOTATION_CHANGE_CAUSE)
            .filter(|cause| !cause.is_empty())
    }

    pub(crate) fn created(&self) -> Option<Timestamp> {
        self.metadata.creation_timestamp.as_ref().map(|time| time.0)
    }

    pub(crate) fn controller(&self) -> Option<&OwnerReference> {
        let owners = self.metadata.owner_references.as_deref();
        let mut owners = owners.unwrap_or_default().iter();
        owners.find(|owner| owner.controller == Some(true))
    }

    /// The names in `spec.previous`.
    pub(crate) fn previous(&self) -> impl Iterator<Item = &str> {
        let previous = self.spec.previous.iter().flatten();
        previous.map(|previous| previous.name.as_str())
    }
}

/// What a revision is doing, in the order in which one reads it off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Nobody has reported on it yet.
    Pending,
    /// All objects are written and pass their probes.
    Available,
    NotReady,
    Paused,
    /// Its objects are being torn down.
    Archiving,
    /// Its objects are gone or handed over.
    Archived,
    Deleting,
}

impl State {
    /// For people, as in the column STATE.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Available => "Available",
            Self::NotReady => "NotReady",
            Self::Paused => "Paused",
            Self::Archiving => "Archiving",
            Self::Archived => "Archived",
            Self::Deleting => "Deleting",
        }
    }
}
