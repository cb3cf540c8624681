//! Deployments and revisions as they were read from a server.

use baton_apis::{
    EndedObject, LifecycleState, ObjectDeploymentSpec, ObjectDeploymentStatus, ObjectSetSpec,
    ObjectSetStatus, conditions, constants::ANNOTATION_CHANGE_CAUSE,
};
use baton_engine::{
    ObjectKey,
    condition_list::{find, is_true},
};
use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, OwnerReference},
    jiff::Timestamp,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{kind::ChainKind, target::Target};

/// An object of one of our kinds.
#[derive(Clone, Debug)]
pub struct ChainObject<S, T> {
    /// Kind of the object, one of those with this spec.
    pub kind: ChainKind,
    /// Metadata of the object.
    pub metadata: ObjectMeta,
    /// Spec of the object.
    pub spec: S,
    /// Status of the object; the default value if nothing was reported.
    pub status: T,
    /// The whole object, as the server returned it.
    pub object: Value,
}

/// An `ObjectDeployment` or `ClusterObjectDeployment`.
pub type Deployment = ChainObject<ObjectDeploymentSpec, ObjectDeploymentStatus>;

/// An `ObjectSet` or `ClusterObjectSet`.
pub type Revision = ChainObject<ObjectSetSpec, ObjectSetStatus>;

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

impl<S, T> ChainObject<S, T>
where
    S: for<'de> Deserialize<'de> + Default,
    T: for<'de> Deserialize<'de> + Default + Reported,
{
    /// Reads an object as the server returned it.
    ///
    /// # Errors
    /// If the object is of another kind, or cannot be parsed as its kind.
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
        let kind = ChainKind::of(&object).ok_or_else(|| {
            serde_json::Error::custom(format!("{} is not of a kind of Baton", name()))
        })?;
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

    /// Name of the object.
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// UID of the object.
    pub fn uid(&self) -> &str {
        self.metadata.uid.as_deref().unwrap_or_default()
    }

    /// Namespace of the object; `None` for a cluster-scoped one.
    pub fn namespace(&self) -> Option<&str> {
        self.metadata.namespace.as_deref()
    }

    /// URL path of the object.
    pub fn path(&self) -> String {
        self.kind.path_of(self.namespace(), self.name())
    }

    /// The reference that users type: `od/web`, `os/web-1`.
    pub fn target(&self) -> Target {
        Target::new(self.kind, self.name())
    }

    /// True while the object is being deleted.
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

    /// True if the condition of a type has the status `True`.
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
    /// True if the status was reported for the present spec: every own condition has the present
    /// generation.
    pub fn is_observed(&self) -> bool {
        let own = [conditions::AVAILABLE, conditions::PROGRESSING];
        own.iter().all(|type_| {
            self.condition(type_)
                .is_some_and(|condition| condition.observed_generation == self.metadata.generation)
        })
    }
}

impl Revision {
    /// Number of the revision; `None` if none is assigned yet.
    pub fn number(&self) -> Option<i64> {
        self.spec.revision.filter(|number| *number != 0)
    }

    /// True if the revision is archived, or is to be.
    pub fn is_archived(&self) -> bool {
        self.spec.lifecycle_state == LifecycleState::Archived || self.is_true(conditions::ARCHIVED)
    }

    /// True if the revision was available once with all of its objects.
    pub fn has_succeeded(&self) -> bool {
        self.is_true(conditions::SUCCEEDED)
    }

    /// The recorded end of an object: see [`baton_engine::ended`].
    pub fn ended(&self, key: &ObjectKey) -> Option<&EndedObject> {
        let mut ended = self.status.ended.iter();
        ended.find(|it| {
            let namespace = it.namespace.as_deref().unwrap_or_default();
            let names = (&*it.group, &*it.kind, namespace, &*it.name);
            names == (&*key.group, &*key.kind, &*key.namespace, &*key.name)
        })
    }

    /// The state of the revision, in one word.
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

    /// The reason of the change, as the author noted it in [`ANNOTATION_CHANGE_CAUSE`].
    pub fn change_cause(&self) -> Option<&str> {
        self.annotation(ANNOTATION_CHANGE_CAUSE)
            .filter(|cause| !cause.is_empty())
    }

    /// The time of creation.
    pub fn created(&self) -> Option<Timestamp> {
        self.metadata.creation_timestamp.as_ref().map(|time| time.0)
    }

    /// The owner reference of the controller.
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

/// The state of a revision. The variants are in the order in which people read them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum State {
    /// Nothing was reported yet.
    #[default]
    Pending,
    /// All objects are written and pass their probes.
    Available,
    /// Some objects are missing or fail their probes.
    NotReady,
    /// The revision is paused, and nothing is written.
    Paused,
    /// The objects are being torn down.
    Archiving,
    /// The objects are gone or handed over.
    Archived,
    /// The revision is being deleted.
    Deleting,
}

impl State {
    /// The text for people, as in the column STATE.
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
