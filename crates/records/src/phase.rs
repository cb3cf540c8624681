//! The stored form of delegated phases.

use std::sync::Arc;

use baton_apis::{
    ObjectSetPhaseSpec, ObjectSetPhaseStatus,
    conditions::AVAILABLE,
    constants::{
        ANNOTATION_ABANDON, ANNOTATION_PHASE_CLASS, CLASS_AGENT, CLASS_CLUSTER_PREFIX,
        FINALIZER_CACHED, LABEL_PHASE_CLASS, NAMESPACE_CLUSTER_PREFIX,
    },
    kinds::{self, Kind},
};
use baton_engine::condition_list::find;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    belongs_to_revision::{BelongsToRevision, ByController, Tags},
    key::{Key, OwnKind},
    record::{ReadError, Record},
    revision::{RevisionKind, RevisionRecord},
    store::Store,
};

/// The kind of the phase objects of revisions of this kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PhaseKind(pub RevisionKind);

impl OwnKind for PhaseKind {
    fn names(self) -> &'static Kind {
        match self.0 {
            RevisionKind::ObjectSet => &kinds::OBJECT_SET_PHASE,
            RevisionKind::ClusterObjectSet => &kinds::CLUSTER_OBJECT_SET_PHASE,
        }
    }
}

impl BelongsToRevision for PhaseKind {
    type Spec = ObjectSetPhaseSpec;
    type Status = ObjectSetPhaseStatus;

    fn of_revisions(kind: RevisionKind) -> Self {
        Self(kind)
    }

    fn revision_kind(self) -> RevisionKind {
        self.0
    }

    /// The status of a mirror is the agent's, which writes it again by itself.
    fn is_report(tags: &Tags, has: impl Fn(&str) -> bool) -> bool {
        let class = tags.labels.get(LABEL_PHASE_CLASS);
        class.is_some_and(|class| class != CLASS_AGENT) && has(AVAILABLE)
    }

    fn has_condition(status: &ObjectSetPhaseStatus, type_: &str) -> bool {
        find(&status.conditions, type_).is_some()
    }
}

/// The identity of a delegated phase.
pub type PhaseKey = Key<PhaseKind>;
/// The record of a delegated phase.
pub type PhaseRecord = Record<PhaseKind>;
/// The store of all delegated phases.
pub type Phases = Store<PhaseKind>;

impl PhaseRecord {
    /// The class that delivers the phase; empty if there is none. After the first delivery, this is
    /// the class of that delivery, even if the label has changed.
    pub fn class(&self) -> &str {
        self.pinned_class().unwrap_or_else(|| self.labelled_class())
    }

    /// The class that the label names.
    pub fn labelled_class(&self) -> &str {
        let label = self.labels.get(LABEL_PHASE_CLASS);
        label.map_or("", String::as_str)
    }

    /// The class that was recorded before the first delivery; `None` before that.
    pub fn pinned_class(&self) -> Option<&str> {
        let noted = self.annotations.get(ANNOTATION_PHASE_CLASS);
        noted
            .filter(|_| self.has_finalizer(FINALIZER_CACHED))
            .map(String::as_str)
    }

    /// The cluster that the phase is delivered into, if its class names one.
    pub fn cluster(&self) -> Option<&str> {
        self.class().strip_prefix(CLASS_CLUSTER_PREFIX)
    }

    /// The cluster whose agent delivers the phase, if the object is a mirror.
    pub fn agent(&self) -> Option<&str> {
        let cluster = self.key.namespace.strip_prefix(NAMESPACE_CLUSTER_PREFIX);
        cluster.filter(|_| self.class() == CLASS_AGENT)
    }

    /// True if the phase is to be paused. The manifests are not parsed.
    ///
    /// # Errors
    /// If the spec cannot be parsed, although the API server has accepted it.
    pub fn is_paused(&self) -> Result<bool, ReadError> {
        #[derive(Default, Deserialize)]
        struct Spec {
            #[serde(default)]
            paused: bool,
        }
        Ok(self.part_of_spec::<Spec>()?.paused)
    }

    /// The service account that writes the objects, if the phase names one.
    ///
    /// # Errors
    /// If the spec cannot be parsed, although the API server has accepted it.
    pub fn service_account(&self) -> Result<Option<String>, ReadError> {
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Spec {
            #[serde(default)]
            service_account_name: Option<String>,
        }
        Ok(self.part_of_spec::<Spec>()?.service_account_name)
    }

    /// Number of the revision; 0 if it has none.
    pub fn revision_number(&self) -> i64 {
        #[derive(Default, Deserialize)]
        struct Spec {
            #[serde(default)]
            revision: i64,
        }
        self.part_of_spec::<Spec>().map_or(0, |spec| spec.revision)
    }

    /// All stored parts as an object that [`Record::read`] can read, without the owners.
    pub fn to_object(&self) -> Value {
        self.object_with(json!({ "labels": self.labels, "annotations": self.annotations }))
    }

    /// True if objects that cannot be removed are left behind (`baton.run/abandon`).
    pub fn is_abandoned(&self) -> bool {
        self.annotations
            .get(ANNOTATION_ABANDON)
            .is_some_and(|value| value == "true")
    }
}

impl Phases {
    /// The phase objects of a revision, in the order of their names.
    pub fn controlled_by(&self, revision: &RevisionRecord) -> Vec<Arc<PhaseRecord>> {
        self.mentioning(ByController, &PhaseKey::of(&revision.key, &revision.uid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The recorded class is valid only together with the finalizer: without the finalizer, nothing
    /// was delivered.
    #[test]
    fn a_phase_keeps_the_class_of_its_delivery() {
        for (noted, finalizer, expected) in [
            (None, "x", "new"),
            (None, FINALIZER_CACHED, "new"),
            (Some("cluster.old"), "x", "new"),
            (Some("cluster.old"), FINALIZER_CACHED, "cluster.old"),
        ] {
            let object = json!({"metadata": {
                "name": "web", "uid": "u", "resourceVersion": "1", "finalizers": [finalizer],
                "labels": {LABEL_PHASE_CLASS: "new"}, "annotations": noted.map(|class| json!({
                    ANNOTATION_PHASE_CLASS: class,
                })).unwrap_or(json!({})),
            }});
            let kind = PhaseKind(RevisionKind::ObjectSet);
            let phase = PhaseRecord::read(kind, &object.to_string()).unwrap();
            assert_eq!(phase.class(), expected, "{object}");
            assert_eq!(phase.labelled_class(), "new");
        }
    }
}
