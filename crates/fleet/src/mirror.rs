//! The objects on the hub for the phases of a cluster with an agent.
//!
//! RBAC has no label selectors, so an agent has a namespace of its own on the hub, and can read
//! only that namespace of the hub. Each phase of class `cluster.<name>`, of either scope, has a
//! mirror in it: an `ObjectSetPhase` with the same content, and an annotation that identifies the
//! phase, and describes the revisions around it, by which the agent decides to whom an object
//! belongs. The agent reads its phases from the mirrors, and delivers them as the manager would:
//! the owner in its cluster is the phase itself, not the mirror. So the direction of the connection
//! can be changed without a change of owners.
//!
//! `docs/contract/clusters.md` describes the effects that clients can observe.

mod relative;

use std::sync::Arc;

use baton_apis::{
    EndedObject, ObjectSetPhaseStatus,
    conditions::ARCHIVED,
    constants::{
        ANNOTATION_HEARTBEAT_SECONDS, ANNOTATION_HUB, ANNOTATION_ORIGIN, ANNOTATION_ROLLOUT,
        ANNOTATION_SITE, API_VERSION, CLASS_AGENT, FINALIZER_MIRROR, HEARTBEAT, LABEL_CHAIN,
        LABEL_PHASE_CLASS, NAMESPACE_CLUSTER_PREFIX,
    },
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use baton_engine::{condition_list::is_true, diff::content_fingerprint, revision::Reach};
use baton_records::{
    key::{Key, OwnKind as _},
    phase::{PhaseKey, PhaseKind, PhaseRecord},
    record::ReadError,
    revision::{RevisionKind, RevisionRecord},
};
use baton_sites::terms::Terms;

use self::relative::Relative;

/// The kind of all mirrors, for phases of both scopes.
pub const KIND: PhaseKind = PhaseKind(RevisionKind::ObjectSet);

/// Limit of the length of an object's name.
const LONGEST_NAME: usize = 253;

/// The phase of which a mirror is a copy.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Origin {
    kind: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    namespace: String,
    name: String,
    uid: String,
    /// Generation of the phase, for the conditions.
    generation: i64,
    /// Name of the service account that writes the objects: in the namespace of the phase, in the
    /// cluster of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    service_account: Option<String>,
    /// The revision of the phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    revision: Option<Relative>,
    /// The revisions from which the phase may take objects over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    before: Vec<Relative>,
    /// The part of the cluster in which its objects may be.
    #[serde(default, skip_serializing_if = "is_usual")]
    reach: Reach,
    /// UIDs of the phases that get its objects back when it is deleted; the first one that contains
    /// an object gets it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    heirs: Vec<String>,
    /// True if its revision has lost objects after it had all of them, and a newer one is paused.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    has_given: bool,
    /// Place of the phase in the queue of a site.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    site: Option<QueuePosition>,
    /// Objects of the phase that had ended before the mirror was made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ended: Vec<EndedObject>,
    /// UID of the hub, as it was known when the mirror was made.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    hub: String,
    /// The annotation about hubs that do not exist any more.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    lost_hubs: String,
}

/// The position of a phase in the queue of a site.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueuePosition {
    /// The annotation of its revision about the position, as it was written.
    entry: String,
    /// Label of the chain.
    chain: String,
    /// The terms for upgrades.
    #[serde(default)]
    terms: Terms,
    /// True if the phase had begun before the mirror was created: the manager had delivered it, or
    /// another mirror had existed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    has_begun: bool,
}

impl QueuePosition {
    /// The position of a phase; `None` for a phase that is not of a site.
    pub fn of(phase: &PhaseRecord, terms: Terms, has_begun: bool) -> Option<Self> {
        Some(Self {
            entry: phase.annotations.get(ANNOTATION_SITE)?.clone(),
            chain: phase.labels.get(LABEL_CHAIN).cloned().unwrap_or_default(),
            terms,
            has_begun,
        })
    }

    /// True if the phase had begun before the mirror was made.
    pub fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// The terms for upgrades.
    pub fn terms(&self) -> &Terms {
        &self.terms
    }
}

/// True for the default reach, which is left out of the annotation: the phase's own namespace.
fn is_usual(reach: &Reach) -> bool {
    *reach == Reach::default()
}

impl Origin {
    /// Describes a phase. `set` is its revision, and `before` are the revisions from which it may
    /// take objects over.
    #[must_use]
    pub fn of(
        phase: &PhaseRecord,
        set: Option<&RevisionRecord>,
        before: &[Arc<RevisionRecord>],
        reach: Reach,
    ) -> Self {
        Self {
            kind: phase.key.kind.kind().to_owned(),
            namespace: phase.key.namespace.to_string(),
            name: phase.key.name.to_string(),
            uid: phase.uid.to_string(),
            generation: phase.generation,
            service_account: None,
            revision: set.map(Relative::itself),
            before: before
                .iter()
                .map(|record| Relative::before(record))
                .collect(),
            reach,
            heirs: Vec::new(),
            has_given: false,
            site: None,
            ended: Vec::new(),
            hub: String::new(),
            lost_hubs: String::new(),
        }
    }

    /// States if the revision of the phase has lost objects after it had all of them, and a newer one is
    /// paused.
    #[must_use]
    pub fn giving(mut self, has_given: bool) -> Self {
        self.has_given = has_given;
        self
    }

    /// True if the revision of the phase has lost objects after it had all of them, and a newer one is
    /// paused.
    pub fn has_given(&self) -> bool {
        self.has_given
    }

    /// Sets the UID of the hub, and the annotation about hubs that do not exist any more.
    #[must_use]
    pub fn in_hub(mut self, hub: &str, lost_hubs: Option<&str>) -> Self {
        hub.clone_into(&mut self.hub);
        lost_hubs
            .unwrap_or_default()
            .clone_into(&mut self.lost_hubs);
        self
    }

    /// UID of the hub; empty if it was not known when the mirror was made.
    pub fn hub(&self) -> &str {
        &self.hub
    }

    /// The annotation about hubs that do not exist any more; empty if there is none.
    pub fn lost_hubs(&self) -> &str {
        &self.lost_hubs
    }

    /// Sets the objects of the phase that had ended before the mirror was made.
    #[must_use]
    pub fn with_ended(mut self, ended: Vec<EndedObject>) -> Self {
        self.ended = ended;
        self
    }

    /// The objects of the phase that had ended before the mirror was made.
    pub fn ended(&self) -> &[EndedObject] {
        &self.ended
    }

    /// Sets the place in the queue of a site.
    #[must_use]
    pub fn with_position(mut self, position: Option<QueuePosition>) -> Self {
        self.site = position;
        self
    }

    /// The place in the queue of a site, if there is one.
    pub fn queue_position(&self) -> Option<&QueuePosition> {
        self.site.as_ref()
    }

    /// Sets the phases that get the objects back, by their UIDs.
    #[must_use]
    pub fn handing_back(mut self, heirs: Vec<String>) -> Self {
        self.heirs = heirs;
        self
    }

    /// UIDs of the phases that get the objects back, in the order of preference.
    pub fn heirs(&self) -> impl Iterator<Item = &str> {
        self.heirs.iter().map(String::as_str)
    }

    /// Sets the service account that writes the objects. A cluster-scoped phase has none.
    #[must_use]
    pub fn acting_as(mut self, service_account: Option<&str>) -> Self {
        let is_namespaced = !self.namespace.is_empty();
        self.service_account = service_account
            .filter(|_| is_namespaced)
            .map(ToOwned::to_owned);
        self
    }

    /// Name of the service account that writes the objects; `None` for the agent itself.
    pub fn service_account(&self) -> Option<&str> {
        self.service_account.as_deref()
    }

    /// Reads the phase of which an object is the mirror.
    ///
    /// # Errors
    /// If the annotation of the object names no phase.
    pub fn read(mirror: &PhaseRecord) -> Result<Self, ReadError> {
        let text = mirror.annotations.get(ANNOTATION_ORIGIN);
        let origin: Self = serde_json::from_str(text.map_or("", String::as_str))
            .map_err(ReadError::of(KIND, "origin"))?;
        if origin.phase_kind().is_none() {
            let error = serde::de::Error::custom(format!("{} is not a kind of phase", origin.kind));
            return Err(ReadError::of(KIND, "origin")(error));
        }
        Ok(origin)
    }

    fn phase_kind(&self) -> Option<PhaseKind> {
        let mut kinds = RevisionKind::ALL.into_iter().map(PhaseKind);
        kinds.find(|kind| kind.kind() == self.kind)
    }

    /// Identity of the phase.
    pub fn key(&self) -> PhaseKey {
        Key {
            // [`Origin::read`] has checked the kind.
            kind: self.phase_kind().unwrap_or(KIND),
            namespace: self.namespace.as_str().into(),
            name: self.name.as_str().into(),
        }
    }

    /// UID of the phase.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// The part of the cluster in which the objects may be, if the phase has a namespace.
    pub fn reach(&self) -> &Reach {
        &self.reach
    }

    /// The phase itself, as its mirror describes it. Writes about the phase are sent to the mirror.
    pub fn phase(&self, mirror: &PhaseRecord) -> PhaseRecord {
        let controller = self.revision.as_ref().map(|set| set.uid.as_str().into());
        let mut phase = mirror.standing_for(
            self.key(),
            self.uid.as_str().into(),
            self.generation,
            controller,
        );
        if let Some(QueuePosition { entry, chain, .. }) = &self.site {
            phase
                .annotations
                .insert(ANNOTATION_SITE.to_owned(), entry.clone());
            phase.labels.insert(LABEL_CHAIN.to_owned(), chain.clone());
        }
        phase
    }

    /// UIDs of the described revisions.
    pub fn revision_uids(&self) -> impl Iterator<Item = &str> {
        self.relatives().map(|relative| relative.uid.as_str())
    }

    /// The described revisions as records of a version, so that newer descriptions replace older
    /// ones.
    ///
    /// # Errors
    /// If a description cannot be read.
    pub fn revisions(&self, version: u64) -> Result<Vec<RevisionRecord>, ReadError> {
        let kind = self.key().kind.0;
        self.relatives()
            .map(|relative| relative.record(kind, &self.namespace, version))
            .collect()
    }

    fn relatives(&self) -> impl Iterator<Item = &Relative> {
        self.revision.iter().chain(&self.before)
    }

    /// The text of the annotation.
    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// The namespace of a cluster's agent.
pub fn namespace(cluster: &str) -> String {
    format!("{NAMESPACE_CLUSTER_PREFIX}{cluster}")
}

/// The object whose status an agent writes as a sign of life.
pub fn heartbeat(cluster: &str) -> PhaseKey {
    mirror_key(cluster, HEARTBEAT)
}

/// The object with the part of the rollout of an Application that the agent of a cluster carries out.
pub fn rollout(cluster: &str, namespace: &str, application: &str) -> PhaseKey {
    let print = content_fingerprint(&json!([namespace, application]));
    mirror_key(cluster, &format!("rollout-{print:016x}"))
}

/// The cluster whose agent carries out the rollout that an object describes; `None` for all other
/// objects.
pub fn rollout_cluster(object: &PhaseRecord) -> Option<&str> {
    let is_rollout = object.annotations.contains_key(ANNOTATION_ROLLOUT);
    object.agent().filter(|_| is_rollout)
}

/// The manifest of the object with a part of a rollout.
pub fn rollout_manifest(key: &PhaseKey, task: &str) -> Value {
    object(key, ANNOTATION_ROLLOUT, task)
}

/// The key of the mirror of a phase. The UID distinguishes phases with one name in several
/// namespaces, and a phase that was created again.
pub fn key(cluster: &str, phase: &PhaseRecord) -> PhaseKey {
    key_of(cluster, &phase.key.name, &phase.uid)
}

/// As [`key`], by name and UID of the phase.
pub fn key_of(cluster: &str, name: &str, uid: &str) -> PhaseKey {
    let print = content_fingerprint(&json!(uid)) & 0xffff_ffff;
    let mut name = name.to_owned();
    name.truncate(name.floor_char_boundary(LONGEST_NAME - 9));
    mirror_key(cluster, &format!("{name}-{print:08x}"))
}

fn mirror_key(cluster: &str, name: &str) -> PhaseKey {
    Key {
        kind: KIND,
        namespace: namespace(cluster).into(),
        name: name.into(),
    }
}

/// The manifest of a mirror.
///
/// # Errors
/// If the spec of the phase is no JSON.
pub fn manifest(key: &PhaseKey, phase: &PhaseRecord, origin: &Origin) -> Result<Value, ReadError> {
    let mut manifest = object(key, ANNOTATION_ORIGIN, &origin.text());
    manifest["metadata"]["finalizers"] = json!([FINALIZER_MIRROR]);
    manifest["spec"] =
        serde_json::from_str(phase.raw_spec()).map_err(ReadError::of(KIND, "spec"))?;
    Ok(manifest)
}

/// The manifest of the heartbeat object, whose status is written with this period in seconds.
pub fn heartbeat_manifest(key: &PhaseKey, seconds: &str, hub: &str) -> Value {
    let mut manifest = object(key, ANNOTATION_HEARTBEAT_SECONDS, seconds);
    if !hub.is_empty() {
        manifest["metadata"]["annotations"][ANNOTATION_HUB] = hub.into();
    }
    manifest
}

/// The manifest of an object for an agent, with an empty list of objects.
fn object(key: &PhaseKey, annotation: &str, text: &str) -> Value {
    json!({
        "apiVersion": API_VERSION,
        "kind": key.kind.kind(),
        "metadata": {
            "name": &*key.name,
            "namespace": &*key.namespace,
            "labels": { LABEL_PHASE_CLASS: CLASS_AGENT },
            "annotations": { annotation: text },
        },
        "spec": { "revision": 0, "objects": [] },
    })
}

/// True if the status reports that the objects were taken away.
pub fn is_archived(status: &ObjectSetPhaseStatus) -> bool {
    is_true(&status.conditions, ARCHIVED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_apis::{
        LifecycleState::Paused, conditions::SUCCEEDED, constants::LABEL_OBJECT_DEPLOYMENT,
    };
    use baton_records::{
        phase::Phases,
        record::Record,
        revision::{ReleaseOf, Revisions},
    };

    fn phase(kind: RevisionKind, name: &str) -> PhaseRecord {
        let object = json!({
            "metadata": {
                "name": name, "namespace": "shop", "uid": "u-phase", "resourceVersion": "9", "generation": 3,
                "ownerReferences": [{"apiVersion": API_VERSION, "kind": "ObjectSet", "name": "web-2", "uid": "u-2",
                    "controller": true}],
            },
            "spec": {"revision": 2, "objects": [{"object": {"kind": "ConfigMap"}}], "paused": true},
            "status": {"conditions": []},
        });
        Record::read(PhaseKind(kind), &object.to_string()).unwrap()
    }

    fn set(name: &str, number: i64, previous: &[&str]) -> RevisionRecord {
        let previous: Vec<_> = previous.iter().map(|name| json!({"name": name})).collect();
        let object = json!({
            "metadata": {
                "name": name, "namespace": "shop", "uid": format!("u-{number}"), "resourceVersion": "7",
                "labels": {LABEL_OBJECT_DEPLOYMENT: "web"},
            },
            "spec": {"revision": number, "previous": previous, "phases": []},
            "status": {"remotePhases": [{"name": "x", "uid": format!("p-{number}")}]},
        });
        Record::read(RevisionKind::ObjectSet, &object.to_string()).unwrap()
    }

    fn mirrored(phase: &PhaseRecord, origin: &Origin) -> PhaseRecord {
        let mut object = manifest(&key("edge", phase), phase, origin).unwrap();
        object["metadata"]["uid"] = "u-mirror".into();
        object["metadata"]["resourceVersion"] = "12".into();
        Record::read(KIND, &object.to_string()).unwrap()
    }

    #[test]
    fn a_phase_is_read_back_from_its_mirror() {
        let phase = phase(RevisionKind::ObjectSet, "web-2-deploy");
        let own = set("web-2", 2, &["web-1"]);
        let before = [set("web-1", 1, &[]).into()];
        let origin = Origin::of(&phase, Some(&own), &before, Reach::default());
        let origin = origin.acting_as(Some("deployer"));
        assert!(
            !origin.text().contains("heirs"),
            "no report without a phase"
        );
        let origin = origin.handing_back(vec!["p-1".to_owned()]);
        let mirror = mirrored(&phase, &origin);
        assert_eq!(mirror.agent(), Some("edge"));
        assert_eq!(mirror.cluster(), None);
        let read = Origin::read(&mirror).unwrap();
        assert_eq!(read, origin);
        assert_eq!(read.service_account(), Some("deployer"));
        assert_eq!(read.heirs().collect::<Vec<_>>(), ["p-1"]);
        let back = read.phase(&mirror);
        assert_eq!(back.key, phase.key);
        assert_eq!(back.uid, phase.uid);
        assert_eq!(back.generation, 3);
        assert_eq!(back.controller.as_deref(), Some("u-2"));
        assert_eq!(back.spec().unwrap(), phase.spec().unwrap());
        assert!(back.is_paused().unwrap());

        let revisions = Revisions::default();
        for record in read.revisions(12).unwrap() {
            revisions.observe(record);
        }
        let own = revisions.by_uid("u-2").unwrap();
        assert_eq!(own.number, Some(2));
        assert_eq!(own.deployment.as_deref(), Some("web"));
        assert_eq!(own.previous.len(), 1);
        // An object of an older revision names the older phase as its owner.
        assert_eq!(revisions.by_uid("p-1").unwrap().key.name, "web-1".into());
        assert_eq!(revisions.before(&own).len(), 1);
        let phases = Phases::default();
        phases.observe(back);
        assert_eq!(phases.controlled_by(&own).len(), 1);
    }

    /// An agent compares revisions by their chain: by a label, or by the previous revisions of each.
    #[test]
    fn a_mirror_states_the_chain_of_each_revision() {
        let unlabelled = |name: &str, number, previous: &[&str]| {
            let mut set = set(name, number, previous);
            set.deployment = None;
            set
        };
        let of_chain = |name: &str, number, previous: &[&str]| {
            let mut set = unlabelled(name, number, previous);
            let (release, chain) = ("web".to_owned(), "web.edge".to_owned());
            set.release = Some(Box::new(ReleaseOf { release, chain }));
            set
        };
        let phase = phase(RevisionKind::ObjectSet, "web-3-deploy");
        let read = |own: &RevisionRecord, before: RevisionRecord| {
            let origin = Origin::of(&phase, Some(own), &[before.into()], Reach::default());
            let read = Origin::read(&mirrored(&phase, &origin)).unwrap();
            let [own, before] = read.revisions(12).unwrap().try_into().unwrap();
            (own, before)
        };
        let own = of_chain("web-3", 3, &["web-2"]);
        let (own, before) = read(&own, of_chain("web-2", 2, &["web-1"]));
        assert!(own.shares_label_with(&before));
        assert!(before.previous.is_empty(), "the label is enough");
        let own = unlabelled("web-3", 3, &["web-2"]);
        let (own, before) = read(&own, unlabelled("web-2", 2, &["web-1"]));
        assert!(own.is_unlabelled() && before.is_unlabelled());
        assert_eq!(*before.previous, ["web-1".into()]);
    }

    #[test]
    fn a_mirror_states_if_a_revision_is_paused_and_has_succeeded() {
        for (lifecycle, condition, expected) in [
            ("Paused", SUCCEEDED, true),
            ("Active", SUCCEEDED, false),
            ("Paused", "Paused", false),
        ] {
            let mut own = set("web-2", 2, &["web-1"]);
            let condition = json!({"type": condition, "status": "True", "reason": "x", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"});
            let status = serde_json::from_value(json!({ "conditions": [condition] })).unwrap();
            own.set_status(&status).unwrap();
            own.lifecycle = serde_json::from_value(lifecycle.into()).unwrap();
            let phase = phase(RevisionKind::ObjectSet, "web-2-deploy");
            let origin = Origin::of(&phase, Some(&own), &[], Reach::default());
            let read = Origin::read(&mirrored(&phase, &origin)).unwrap();
            let revision = read.revisions(12).unwrap().remove(0);
            assert_eq!(revision.lifecycle == Paused, lifecycle == "Paused");
            assert_eq!(
                revision.has_succeeded(),
                expected,
                "{lifecycle} {condition}"
            );
        }
    }

    /// A mirror without the field, such as one of an earlier version, allows only the namespace of
    /// the phase.
    #[test]
    fn a_mirror_states_the_reach_of_its_phase() {
        let phase = phase(RevisionKind::ObjectSet, "web");
        let further = Reach::Namespaces(["x".to_owned()].into());
        for (reach, text) in [
            (Reach::default(), None),
            (further, Some(r#""reach":{"namespaces":["x"]}"#)),
            (Reach::Cluster, Some(r#""reach":"cluster""#)),
        ] {
            let origin = Origin::of(&phase, None, &[], reach.clone());
            match text {
                Some(text) => assert!(origin.text().contains(text), "{}", origin.text()),
                None => assert!(!origin.text().contains("reach"), "{}", origin.text()),
            }
            let read = Origin::read(&mirrored(&phase, &origin)).unwrap();
            assert_eq!(*read.reach(), reach);
        }
    }

    #[test]
    fn mirrors_of_both_scopes_are_in_one_namespace() {
        let mut cluster_wide = phase(RevisionKind::ClusterObjectSet, "web");
        cluster_wide.key.namespace = "".into();
        let origin = Origin::of(&cluster_wide, None, &[], Reach::default());
        let origin = origin.acting_as(Some("deployer"));
        assert_eq!(origin.service_account(), None);
        let mirror = mirrored(&cluster_wide, &origin);
        assert_eq!(
            mirror.key.path().unwrap(),
            format!(
                "/apis/package-operator.run/v1alpha1/namespaces/baton-cluster-edge/objectsetphases/{}",
                mirror.key.name
            )
        );
        let back = Origin::read(&mirror).unwrap().phase(&mirror);
        assert_eq!(back.key.to_string(), "ClusterObjectSetPhase /web");
        assert_eq!(back.controller, None);
    }

    #[test]
    fn mirrors_of_phases_with_the_same_name_have_different_names() {
        let one = phase(RevisionKind::ObjectSet, "web");
        let mut other = one.clone();
        other.uid = "u-other".into();
        assert_ne!(key("edge", &one), key("edge", &other));
        let long = phase(RevisionKind::ObjectSet, &"x".repeat(253));
        assert_eq!(key("edge", &long).name.len(), 253);
        assert_ne!(key("edge", &one).name, heartbeat("edge").name);
    }

    #[test]
    fn an_object_without_a_valid_origin_is_no_mirror() {
        let phase = phase(RevisionKind::ObjectSet, "web");
        assert!(Origin::read(&phase).is_err());
        let mut mirror = mirrored(&phase, &Origin::of(&phase, None, &[], Reach::default()));
        for text in [
            "",
            "{}",
            r#"{"kind":"Pod","name":"x","uid":"u","generation":1}"#,
        ] {
            mirror
                .annotations
                .insert(ANNOTATION_ORIGIN.to_owned(), text.to_owned());
            let error = Origin::read(&mirror).unwrap_err().to_string();
            assert!(error.contains("origin"), "{error}");
        }
    }

    #[test]
    fn a_phase_survives_a_round_trip_through_text() {
        let mut phase = phase(RevisionKind::ObjectSet, "web");
        phase.controller = None;
        for deleting in [false, true] {
            phase.deleting = deleting;
            let text = phase.to_object().to_string();
            let back = Record::read(phase.key.kind, &text).unwrap();
            assert_eq!(format!("{back:?}"), format!("{phase:?}"));
        }
    }
}
