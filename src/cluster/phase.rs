//! Delegated phases as they are kept.

use baton_apis::{
    ObjectSetPhaseSpec, ObjectSetPhaseStatus,
    constants::{
        ANNOTATION_ABANDON, CLASS_AGENT, CLASS_CLUSTER_PREFIX, LABEL_PHASE_CLASS,
        NAMESPACE_CLUSTER_PREFIX,
    },
};
use serde::Deserialize;

use super::{
    item::{Item, ItemKind, Items},
    key::{Key, Resource},
    record::{ReadError, RevisionKey, RevisionKind},
};

/// The delegated phases of revisions of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PhaseKind(pub RevisionKind);

impl Resource for PhaseKind {
    fn kind(self) -> &'static str {
        match self.0 {
            RevisionKind::ObjectSet => "ObjectSetPhase",
            RevisionKind::ClusterObjectSet => "ClusterObjectSetPhase",
        }
    }

    fn plural(self) -> &'static str {
        match self.0 {
            RevisionKind::ObjectSet => "objectsetphases",
            RevisionKind::ClusterObjectSet => "clusterobjectsetphases",
        }
    }
}

impl ItemKind for PhaseKind {
    type Spec = ObjectSetPhaseSpec;
    type Status = ObjectSetPhaseStatus;
}

/// A delegated phase's identity.
pub type PhaseKey = Key<PhaseKind>;
/// What is kept of a delegated phase.
pub type PhaseRecord = Item<PhaseKind>;
/// All delegated phases.
pub type Phases = Items<PhaseKind>;

impl PhaseKey {
    /// The phase object of a name beside a revision.
    #[must_use]
    pub fn of(revision: &RevisionKey, name: &str) -> Self {
        revision.beside(PhaseKind(revision.kind), name)
    }

    /// A revision beside it.
    #[must_use]
    pub fn revision(&self, name: &str) -> RevisionKey {
        self.beside(self.kind.0, name)
    }
}

impl PhaseRecord {
    /// The class that the phase is handed to; empty when there is none.
    #[must_use]
    pub fn class(&self) -> &str {
        self.labels
            .get(LABEL_PHASE_CLASS)
            .map_or("", String::as_str)
    }

    /// The cluster that the phase is delivered into, if its class names one.
    #[must_use]
    pub fn cluster(&self) -> Option<&str> {
        self.class().strip_prefix(CLASS_CLUSTER_PREFIX)
    }

    /// The cluster whose agent it is there for, if it stands for a phase of another place.
    #[must_use]
    pub fn agent(&self) -> Option<&str> {
        let cluster = self.key.namespace.strip_prefix(NAMESPACE_CLUSTER_PREFIX);
        cluster.filter(|_| self.class() == CLASS_AGENT)
    }

    /// Whether it is to be paused, without a look at its manifests.
    ///
    /// # Errors
    /// When the API server let a spec pass that is none of ours.
    pub fn is_paused(&self) -> Result<bool, ReadError> {
        #[derive(Deserialize)]
        struct Spec {
            #[serde(default)]
            paused: bool,
        }
        let spec = serde_json::from_str::<Spec>(self.raw_spec());
        spec.map(|spec| spec.paused).map_err(ReadError::of("spec"))
    }

    /// Whether its objects are given up while their cluster cannot be reached.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        self.annotations
            .get(ANNOTATION_ABANDON)
            .is_some_and(|value| value == "true")
    }
}
