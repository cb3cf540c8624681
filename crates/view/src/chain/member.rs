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
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{kind::ChainKind, target::Target};

/// An object of one of our kinds.
#[derive(Clone, Debug)]
pub struct Member<S, T> {
    /// Which kind, of those with this spec.
    pub kind: ChainKind,
    /// Its metadata.
    pub metadata: ObjectMeta,
    /// Its spec.
    pub spec: S,
    /// Its status; the default one where nothing was reported.
    pub status: T,
    /// All of it, as the server has it.
    pub object: Value,
}

/// An `ObjectDeployment` or `ClusterObjectDeployment`.
pub type Deployment = Member<ObjectDeploymentSpec, ObjectDeploymentStatus>;

/// An `ObjectSet` or `ClusterObjectSet`.
pub type Revision = Member<ObjectSetSpec, ObjectSetStatus>;

/// A status with conditions.
pub trait Reported {
    /// The conditions.
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
    /// Reads an object as the server returned it.
    ///
    /// # Errors
    /// If it is of another kind, or not as the kind is.
    pub fn parse(object: Value) -> Result<Self, serde_json::Error> {
        use serde::de::Error as _;
        let name = || {
            let text = |pointer| object.pointer(pointer).and_then(Value::as_str);
            format!(
                "{} {}",
                text("/kind").unwrap_or("object"),
                text("/metadata/name").unwrap_or("without a name")
            )
        };
        let kind = ChainKind::of(&object)
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

    /// Its name.
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// Its UID.
    pub fn uid(&self) -> &str {
        self.metadata.uid.as_deref().unwrap_or_default()
    }

    /// Its namespace; `None` for a cluster-scoped one.
    pub fn namespace(&self) -> Option<&str> {
        self.metadata.namespace.as_deref()
    }

    /// Its URL path.
    pub fn path(&self) -> String {
        self.kind.path_of(self.namespace(), self.name())
    }

    /// As it can be typed: `od/web`, `os/web-1`.
    pub fn target(&self) -> Target {
        Target::new(self.kind, self.name())
    }

    /// True while it is being deleted.
    pub fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// The value of an annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        let annotations = self.metadata.annotations.as_ref()?;
        annotations.get(key).map(String::as_str)
    }

    /// The condition of a type.
    pub fn condition(&self, type_: &str) -> Option<&Condition> {
        find(self.status.conditions(), type_)
    }

    /// True if the condition of a type is.
    pub fn is_true(&self, type_: &str) -> bool {
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
    pub fn is_observed(&self) -> bool {
        let own = [conditions::AVAILABLE, conditions::PROGRESSING];
        own.iter().all(|type_| {
            self.condition(type_)
                .is_some_and(|condition| condition.observed_generation == self.metadata.generation)
        })
    }
}

impl Revision {
    /// Its number, once it has one.
    pub fn number(&self) -> Option<i64> {
        self.spec.revision.filter(|number| *number != 0)
    }

    /// True if it is archived, or is to be.
    pub fn is_archived(&self) -> bool {
        self.spec.lifecycle_state == LifecycleState::Archived || self.is_true(conditions::ARCHIVED)
    }

    /// Whether it was available once with all of its objects.
    pub fn has_succeeded(&self) -> bool {
        self.is_true(conditions::SUCCEEDED)
    }

    /// What it is doing.
    pub fn state(&self) -> State {
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
    pub fn change_cause(&self) -> Option<&str> {
        self.annotation(ANNOTATION_CHANGE_CAUSE)
            .filter(|cause| !cause.is_empty())
    }

    /// When it was created.
    pub fn created(&self) -> Option<Timestamp> {
        self.metadata.creation_timestamp.as_ref().map(|time| time.0)
    }

    /// The reference to its controller.
    pub fn controller(&self) -> Option<&OwnerReference> {
        let owners = self.metadata.owner_references.as_deref();
        let mut owners = owners.unwrap_or_default().iter();
        owners.find(|owner| owner.controller == Some(true))
    }

    /// The names in `spec.previous`.
    pub fn previous(&self) -> impl Iterator<Item = &str> {
        let previous = self.spec.previous.iter().flatten();
        previous.map(|previous| previous.name.as_str())
    }
}

/// What a revision is doing, in the order in which one reads it off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum State {
    /// Nobody has reported on it yet.
    #[default]
    Pending,
    /// All objects are written and pass their probes.
    Available,
    /// Some objects are missing or fail their probes.
    NotReady,
    /// Nothing is written.
    Paused,
    /// Its objects are being torn down.
    Archiving,
    /// Its objects are gone or handed over.
    Archived,
    /// It is being deleted.
    Deleting,
}

impl State {
    /// For people, as in the column STATE.
    pub fn as_str(self) -> &'static str {
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
