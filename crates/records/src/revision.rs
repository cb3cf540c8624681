//! The stored form of revisions.

mod chain;
mod queries;
pub mod site;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use baton_apis::{
    LifecycleState, ObjectSetSpec, ObjectSetStatus, PreviousRevisionReference,
    RemotePhaseReference,
    conditions::{ARCHIVED, AVAILABLE, DISPUTED, READY, Reason, SUCCEEDED},
    constants::{
        ANNOTATION_ABANDON, ANNOTATION_CHANGE_CAUSE, ANNOTATION_HASH, ANNOTATION_LOST_HUBS,
        ANNOTATION_ON_DELETION, ANNOTATION_PACKAGE_SOURCE_IMAGE, ANNOTATION_PAUSED_BY_PARENT,
        ANNOTATION_PREFLIGHT, ANNOTATION_SITE, ANNOTATION_TEMPLATE_METADATA, LABEL_CHAIN,
        LABEL_INSTANCE, LABEL_OBJECT_DEPLOYMENT, LABEL_PACKAGE, ON_DELETION_HAND_BACK,
        shipper::LABEL_RELEASE,
    },
    kinds::{self, Kind},
};
use baton_engine::{
    chain::ChainLink,
    condition_list::{find, is_true},
};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

use self::site::SiteOf;
use crate::{
    key::{Key, OwnKind},
    record::{Metadata, ReadError, Record, RecordKind, parse},
    store::Store,
};

/// The two kinds of revisions, with all their differences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RevisionKind {
    /// Namespaced.
    ObjectSet,
    /// Cluster-scoped.
    ClusterObjectSet,
}

impl RevisionKind {
    /// Both kinds.
    pub const ALL: [Self; 2] = [Self::ObjectSet, Self::ClusterObjectSet];
}

impl OwnKind for RevisionKind {
    fn names(self) -> &'static Kind {
        match self {
            Self::ObjectSet => &kinds::OBJECT_SET,
            Self::ClusterObjectSet => &kinds::CLUSTER_OBJECT_SET,
        }
    }
}

/// The identity of a revision.
pub type RevisionKey = Key<RevisionKind>;
/// The record of a revision.
pub type RevisionRecord = Record<RevisionKind>;
/// The store of all revisions.
pub type Revisions = Store<RevisionKind>;

/// The fields of a revision that controllers look up.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct RevisionFields {
    /// Time of its creation.
    pub created: Option<Timestamp>,
    /// Name of the package, by its label.
    pub package: Option<String>,
    /// Name of the package instance, by its label.
    pub instance: Option<String>,
    /// Name of the deployment that made the revision, by its label.
    pub deployment: Option<Arc<str>>,
    /// The Release that the revision installs, and the chain of these revisions, by its labels.
    pub release: Option<Box<ReleaseOf>>,
    /// The site of the revision, and its progress there.
    pub site: Option<Box<SiteOf>>,
    /// The notes of a deployment on the revision.
    pub notes: Notes,
    /// Image of the package that the revision is from.
    pub image: Option<String>,
    /// True if objects that cannot be deleted are to be left behind.
    pub is_abandoned: bool,
    /// True if the deletion of the revision hands objects back to older revisions that contain them
    /// as well.
    pub hands_back: bool,
    /// The extent of the checks before the first write, as the annotation states it.
    pub preflight: Option<Box<str>>,
    /// UIDs of the hubs that do not exist any more, and of owners of such hubs, as the annotation
    /// lists them.
    pub lost_hubs: Option<Box<str>>,
    /// The service account that the revision names.
    pub service_account: Option<Box<str>>,
    /// Number of the revision, if it has one.
    pub number: Option<i64>,
    /// Desired life cycle state.
    pub lifecycle: LifecycleState,
    /// The revisions from which objects are taken over.
    pub previous: Vec<Arc<str>>,
    /// The slices that the phases use.
    pub slices: Vec<String>,
    /// UIDs of the delegated phases.
    pub remote_phases: Vec<String>,
    /// The metadata that delegated phases inherit; `None` without delegated phases, or if the
    /// revision is archived.
    pub inherited: Option<Box<Inherited>>,
    /// True if the condition `Archived` is true, which is final.
    pub archived: bool,
    /// True if the status has the condition `Archived=True`, or both `Ready` and one of `Available` and
    /// `Archived`. The same applies to each status that Baton writes later.
    pub is_reported: bool,
    /// The condition `Available` in one word: `Available` if it is true, else its reason, or
    /// `Other` for a reason of another implementation.
    pub availability: Option<Reason>,
    /// True if objects are disputed: another manager changes them as often as they are repaired.
    pub disputed: bool,
}

/// The Release that a revision installs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReleaseOf {
    /// Name of the Release.
    pub release: String,
    /// Label of its chain.
    pub chain: String,
}

/// The metadata that phase objects get from their revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inherited {
    /// Labels of the revision.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the revision.
    pub annotations: BTreeMap<String, String>,
}

/// The notes on a revision of the deployment that creates revisions of its kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// Hash of the template of the revision, as the maker of the revision computed it.
    pub hash: Option<String>,
    /// Digest of the metadata of that template, if Baton made the revision or adopted it.
    pub digest: Option<String>,
    /// The cause of the change, as its author wrote it.
    pub change_cause: Option<String>,
    /// True if the deployment paused the revision.
    pub paused_by_parent: bool,
    /// Labels of the revision; stored only if it has the label of a deployment, and lacks a
    /// controller or `digest`.
    pub labels: BTreeMap<String, String>,
}

impl Notes {
    fn extract(
        annotations: &mut HashMap<String, String>,
        labels: HashMap<String, String>,
        is_owned: bool,
    ) -> Self {
        let digest = annotations.remove(ANNOTATION_TEMPLATE_METADATA);
        let is_known =
            (is_owned && digest.is_some()) || !labels.contains_key(LABEL_OBJECT_DEPLOYMENT);
        let paused_by_parent = annotations
            .get(ANNOTATION_PAUSED_BY_PARENT)
            .is_some_and(|value| value == "true");
        Self {
            hash: annotations.remove(ANNOTATION_HASH),
            digest,
            change_cause: annotations.remove(ANNOTATION_CHANGE_CAUSE),
            paused_by_parent,
            labels: if is_known {
                BTreeMap::new()
            } else {
                labels.into_iter().collect()
            },
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    lifecycle_state: LifecycleState,
    service_account_name: Option<Box<str>>,
    revision: Option<i64>,
    previous: Option<Vec<PreviousRevisionReference>>,
    phases: Option<Vec<Phase>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Phase {
    class: String,
    slices: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    conditions: Vec<Condition>,
    remote_phases: Vec<RemotePhaseReference>,
}

#[derive(Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
    #[serde(default)]
    reason: String,
}

/// Indexes over the names that revisions mention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RevisionIndex {
    /// The revisions listed as previous; they need not exist.
    Previous,
    /// The slices in use.
    Slice,
    /// Name of the deployment that created the revision.
    Deployment,
    /// UID of the controller.
    Controller,
    /// Label of the chain of revisions of Releases, or of a site.
    Chain,
    /// Name of the `SiteDeployment` that created the revision.
    SiteDeployment,
    /// Name of the `SiteApplication` whose version the revision delivers.
    SiteApplication,
}

impl RecordKind for RevisionKind {
    type Spec = ObjectSetSpec;
    type Status = ObjectSetStatus;
    type Fields = RevisionFields;
    type Index = RevisionIndex;

    fn fields(
        self,
        metadata: Metadata,
        has_controller: bool,
        spec: Option<&RawValue>,
        status: Option<&RawValue>,
    ) -> Result<RevisionFields, ReadError> {
        let raw_status = status;
        let spec: Spec = parse(self, "spec", spec)?;
        let status: Status = parse(self, "status", status)?;
        let Metadata {
            creation_timestamp,
            labels,
            mut annotations,
            ..
        } = metadata;
        let is_true = |type_: &str| {
            let mut conditions = status.conditions.iter();
            conditions.any(|condition| condition.type_ == type_ && condition.status == "True")
        };
        let (archived, disputed) = (is_true(ARCHIVED), is_true(DISPUTED));
        let has = |type_: &str| status.conditions.iter().any(|it| it.type_ == type_);
        let is_reported = is_report(archived, has);
        let mut conditions = status.conditions.iter();
        let available = conditions.find(|condition| condition.type_ == AVAILABLE);
        let availability = available.map(|it| Reason::of_state(&it.status, &it.reason));
        let phases = spec.phases.unwrap_or_default();
        let delegates = !archived && phases.iter().any(|phase| !phase.class.is_empty());
        let inherited = delegates.then(|| {
            Box::new(Inherited {
                labels: labels.clone().into_iter().collect(),
                annotations: annotations.clone().into_iter().collect(),
            })
        });
        let deployment = labels.get(LABEL_OBJECT_DEPLOYMENT);
        let site = SiteOf::read(self, &labels, &annotations, creation_timestamp, raw_status)?;
        let chain = labels.get(LABEL_CHAIN).filter(|_| site.is_none());
        let release = chain.map(|chain| {
            Box::new(ReleaseOf {
                release: labels.get(LABEL_RELEASE).cloned().unwrap_or_default(),
                chain: chain.clone(),
            })
        });
        let previous = spec.previous.unwrap_or_default().into_iter();
        let remote_phases = status.remote_phases.into_iter();
        Ok(RevisionFields {
            created: creation_timestamp,
            package: labels.get(LABEL_PACKAGE).cloned(),
            instance: labels.get(LABEL_INSTANCE).cloned(),
            deployment: deployment.map(|name| name.as_str().into()),
            release,
            site,
            notes: Notes::extract(&mut annotations, labels, has_controller),
            image: annotations.remove(ANNOTATION_PACKAGE_SOURCE_IMAGE),
            is_abandoned: is_abandoned(&annotations),
            hands_back: annotations
                .get(ANNOTATION_ON_DELETION)
                .is_some_and(|value| value == ON_DELETION_HAND_BACK),
            preflight: annotations.remove(ANNOTATION_PREFLIGHT).map(Into::into),
            lost_hubs: annotations.remove(ANNOTATION_LOST_HUBS).map(Into::into),
            service_account: spec.service_account_name,
            number: spec.revision.filter(|number| *number != 0),
            lifecycle: spec.lifecycle_state,
            previous: previous.map(|previous| previous.name.into()).collect(),
            slices: phases.into_iter().flat_map(|phase| phase.slices).collect(),
            remote_phases: remote_phases.map(|phase| phase.uid).collect(),
            inherited,
            archived,
            is_reported,
            availability,
            disputed,
        })
    }

    fn status_changed(fields: &mut RevisionFields, status: &ObjectSetStatus) {
        fields.archived = is_true(&status.conditions, ARCHIVED);
        let has = |type_: &str| find(&status.conditions, type_).is_some();
        fields.is_reported = is_report(fields.archived, has);
        if fields.archived {
            fields.inherited = None;
        }
        let available = find(&status.conditions, AVAILABLE);
        fields.availability = available.map(|it| Reason::of_state(&it.status, &it.reason));
        fields.disputed = is_true(&status.conditions, DISPUTED);
        if let Some(site) = &mut fields.site {
            site.status_changed(status);
        }
        let remote_phases = status.remote_phases.iter();
        fields.remote_phases = remote_phases.map(|phase| phase.uid.clone()).collect();
    }

    fn is_reported(fields: &RevisionFields) -> bool {
        fields.is_reported
    }

    fn copy_status(fields: &mut RevisionFields, from: &RevisionFields) {
        fields.archived = from.archived;
        fields.is_reported = from.is_reported;
        if fields.archived {
            fields.inherited = None;
        }
        fields.availability.clone_from(&from.availability);
        fields.disputed = from.disputed;
        if let (Some(site), Some(from)) = (&mut fields.site, &from.site) {
            site.copy_status(from);
        }
        fields.remote_phases.clone_from(&from.remote_phases);
    }

    /// The manifests of an archived revision are not read again, and its status contains no other
    /// facts.
    fn is_tombstone(fields: &RevisionFields) -> bool {
        fields.archived
    }

    fn references(record: &RevisionRecord) -> Vec<(RevisionIndex, &str)> {
        use RevisionIndex::{
            Chain, Controller, Deployment, Previous, SiteApplication, SiteDeployment, Slice,
        };
        let previous = record.previous.iter().map(|name| (Previous, &**name));
        let slices = record.slices.iter().map(|slice| (Slice, slice.as_str()));
        let deployment = record.deployment.iter().map(|name| (Deployment, &**name));
        let controller = record.controller.iter().map(|uid| (Controller, &**uid));
        let chain = record.release.iter().map(|of| (Chain, &*of.chain));
        let site = record.site.iter().flat_map(|of| {
            let entry = &of.entry;
            [
                (Chain, &*of.chain),
                (SiteDeployment, entry.deployment.as_str()),
                (SiteApplication, entry.application.as_str()),
            ]
        });
        previous
            .chain(slices)
            .chain(deployment)
            .chain(controller)
            .chain(chain)
            .chain(site)
            .collect()
    }

    fn further_uids(fields: &RevisionFields) -> &[String] {
        &fields.remote_phases
    }

    /// Shares the strings that a chain has in common: with a history of ten revisions the names
    /// alone would take more memory than the rest of an archived one.
    fn share(record: &mut RevisionRecord, kept: &HashMap<RevisionKey, Arc<RevisionRecord>>) {
        let key = record.key.clone();
        let mut before = None;
        for name in &mut record.previous {
            if let Some(sibling) = kept.get(&key.sibling(name)) {
                *name = sibling.key.name.clone();
                before = Some(sibling);
            }
        }
        let Some(before) = before else { return };
        record.key.namespace = before.key.namespace.clone();
        if record.deployment == before.deployment {
            record.deployment.clone_from(&before.deployment);
        }
        if let (Some(own), Some(other)) = (&mut record.site, &before.site) {
            own.share(other);
        }
        if record.controller == before.controller {
            record.controller.clone_from(&before.controller);
        }
    }
}

/// True if a status with conditions of these types is a report; see [`RevisionFields::is_reported`].
fn is_report(is_archived: bool, has: impl Fn(&str) -> bool) -> bool {
    is_archived || (has(READY) && (has(AVAILABLE) || has(ARCHIVED)))
}

fn is_abandoned(annotations: &HashMap<String, String>) -> bool {
    annotations
        .get(ANNOTATION_ABANDON)
        .is_some_and(|value| value == "true")
}

impl RevisionRecord {
    /// The revision with a number that is not written yet.
    pub fn with_number(&self, number: i64) -> Arc<Self> {
        let mut record = self.clone();
        record.number = Some(number);
        Arc::new(record)
    }

    /// True if the revision no longer takes part in its chain: it is archived or being deleted.
    pub fn is_closed(&self) -> bool {
        self.archived || self.deleting
    }

    /// True if the revision keeps its objects: it is neither archived, nor to be archived, nor
    /// being deleted.
    pub fn is_in_force(&self) -> bool {
        !self.is_closed() && self.lifecycle != LifecycleState::Archived
    }

    /// True if the revision was once available with all of its objects, by its status.
    pub fn has_succeeded(&self) -> bool {
        self.status()
            .is_ok_and(|status| find(&status.conditions, SUCCEEDED).is_some())
    }

    /// True if its delegated phases wait in the queue of a site.
    pub fn has_site(&self) -> bool {
        let inherited = self.inherited.as_ref();
        inherited.is_some_and(|inherited| inherited.annotations.contains_key(ANNOTATION_SITE))
    }

    /// True if the revision shares its slices with the revisions of other clusters. Its maker sets the
    /// owners of such a slice, in one write for all of them; any other revision makes itself an owner.
    pub fn has_shared_slices(&self) -> bool {
        let is_elsewhere = self.release.is_some() && self.inherited.is_some();
        self.site.is_some() || is_elsewhere
    }

    /// The label of the chain with its value, as a selector of its revisions; `None` for a revision
    /// without such a label.
    pub fn chain_selector(&self) -> Option<String> {
        let of_deployment = self.deployment.as_deref();
        let of_deployment = of_deployment.map(|name| format!("{LABEL_OBJECT_DEPLOYMENT}={name}"));
        of_deployment.or_else(|| Some(format!("{LABEL_CHAIN}={}", self.chain()?)))
    }

    /// The label of the chain, if it is the chain of a Release or a site.
    pub fn chain(&self) -> Option<&str> {
        let of_release = self.release.as_ref().map(|of| &*of.chain);
        of_release.or_else(|| self.site.as_ref().map(|of| &*of.chain))
    }

    /// The facts about the revision that the numbering needs.
    pub fn link(&self) -> ChainLink {
        ChainLink {
            number: self.number,
            previous: self.previous.iter().map(ToString::to_string).collect(),
            is_closed: self.is_closed(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Revisions from lines of `name number previous,previous state`. Also the last one, with
    /// metadata of its own.
    fn chain(lines: &[&str], of_last: &Value) -> (Revisions, Arc<RevisionRecord>) {
        let revisions = Revisions::default();
        for (at, line) in (1..).zip(lines) {
            let [name, number, previous, state] =
                line.split(' ').collect::<Vec<_>>().try_into().unwrap();
            let previous = previous.split(',').map(|name| json!({ "name": name }));
            let mut object = json!({
                "metadata": {"name": name, "namespace": "shop", "uid": format!("u-{name}"),
                    "resourceVersion": at.to_string(), "labels": {}},
                "spec": {"previous": previous.collect::<Vec<_>>()},
            });
            if let Ok(number @ 1..) = number.parse::<i64>() {
                object["spec"]["revision"] = number.into();
            }
            match state {
                "archived" => {
                    object["status"] =
                        json!({"conditions": [{"type": "Archived", "status": "True"}]});
                }
                "archiving" => object["spec"]["lifecycleState"] = "Archived".into(),
                "paused" => object["spec"]["lifecycleState"] = "Paused".into(),
                "made" => {
                    object["metadata"]["labels"] = json!({ LABEL_OBJECT_DEPLOYMENT: "web" });
                }
                "deleted" => {
                    object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
                }
                _ => {}
            }
            if at == lines.len() {
                for (field, value) in of_last.as_object().unwrap() {
                    object["metadata"][field] = value.clone();
                }
            }
            let record = Record::read(RevisionKind::ObjectSet, &object.to_string());
            revisions.observe(record.unwrap());
        }
        let last = format!("u-{}", lines.last().unwrap().split(' ').next().unwrap());
        let last = revisions.by_uid(&last).unwrap();
        (revisions, last)
    }

    fn names(found: &[Arc<RevisionRecord>]) -> String {
        let names: Vec<_> = found.iter().map(|one| one.key.name.to_string()).collect();
        names.join(" ")
    }

    /// A Release in the cluster of the hub has one revision, which makes itself an owner of its slices. If
    /// its target did so as well, the server would refuse one of the two writes each time.
    #[test]
    fn revisions_of_several_clusters_share_slices() {
        let of_release = json!({ LABEL_CHAIN: "c", LABEL_RELEASE: "r" });
        for (labels, class, expected) in [
            (json!({}), "", false),
            (json!({}), "default", false),
            (of_release.clone(), "", false),
            (of_release, "cluster.a", true),
        ] {
            let mut phase = json!({"name": "a", "slices": ["s"]});
            if !class.is_empty() {
                phase["class"] = class.into();
            }
            let object = json!({
                "metadata": {"name": "w", "namespace": "shop", "uid": "u", "resourceVersion": "1",
                    "labels": labels},
                "spec": {"phases": [phase]},
            });
            let record = Record::read(RevisionKind::ObjectSet, &object.to_string()).unwrap();
            assert_eq!(record.has_shared_slices(), expected, "{object}");
        }
    }

    #[test]
    fn only_older_revisions_that_are_not_archived_are_heirs() {
        let heirs = |lines: &[&str], annotation: &str, deleting: bool| {
            let mut of_last = json!({ "annotations": { ANNOTATION_ON_DELETION: annotation } });
            if deleting {
                of_last["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            }
            let (revisions, last) = chain(lines, &of_last);
            names(&revisions.heirs(&last))
        };
        let three = ["a 1 - -", "b 2 a -", "c 3 b -"];
        for (annotation, deleting, expected) in [
            ("hand-back", true, "b a"),
            ("hand-back", false, ""),
            ("delete", true, ""),
        ] {
            assert_eq!(
                heirs(&three, annotation, deleting),
                expected,
                "{annotation}"
            );
        }
        for (lines, expected) in [
            (&["a 1 - -", "b 2 a archived", "c 3 b -"][..], "a"),
            (&["a 1 - -", "b 2 a archiving", "c 3 b -"], "a"),
            (&["a 1 - -", "b 2 a deleted", "c 3 b -"], "a"),
            (&["a 1 - paused", "c 3 a -"], "a"),
            // The revision in between is deleted, and with it the list of its previous revisions.
            (&["a 1 - -", "c 3 b -"], ""),
            (&["a 1 - -", "b 2 - -", "c 3 b,a -"], "b a"),
            // A revision without a number has never written; one with a higher number never handed
            // anything over.
            (&["a 0 - -", "b 7 - -", "d 3 - -", "c 3 a,b,d -"], ""),
            (&["a 1 c -", "c 3 a -"], "a"),
            // Revisions of one deployment need not list each other.
            (&["a 1 - made", "b 2 - -", "c 3 - made"], "a"),
        ] {
            assert_eq!(heirs(lines, "hand-back", true), expected, "{lines:?}");
        }
    }

    /// The revisions before the last one of a chain, and those after the first.
    #[test]
    fn a_chain_is_followed_over_any_number_of_steps() {
        for (lines, before, newer) in [
            (&["a 1 - -", "b 2 a -", "c 3 b -"][..], "b a", "b c"),
            (&["a 1 - -", "b 2 a archived", "c 3 b -"], "a", "c"),
            (&["a 1 - -", "b 2 a archiving", "c 3 b -"], "b a", "c"),
            (&["a 1 - -", "b 2 a deleted", "c 3 b paused"], "b a", "c"),
            (&["a 1 - -", "c 3 b -"], "", ""),
            (&["a 1 - made", "b 2 - -", "c 3 - made"], "a", "c"),
            (&["a 1 c -", "c 3 a -"], "a", "c"),
            // A revision without a number has not begun.
            (&["a 1 - -", "c 0 a -"], "a", ""),
        ] {
            let (revisions, last) = chain(lines, &json!({}));
            assert_eq!(
                names(&revisions.unfinished_before(&last)),
                before,
                "{lines:?}"
            );
            let first = revisions.by_uid("u-a").unwrap();
            assert_eq!(names(&revisions.newer(&first)), newer, "{lines:?}");
        }
    }

    /// The echo of our own write changes nothing, so the answer has to update the fields as an
    /// event would.
    #[test]
    fn the_fields_of_a_record_follow_our_own_status_write() {
        let object = json!({"metadata": {
            "name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "5",
        }});
        let mut record = Record::read(RevisionKind::ObjectSet, &object.to_string()).unwrap();
        let revisions = Revisions::default();
        revisions.observe(record.clone());
        assert_eq!(record.availability, None);
        let condition = json!({
            "type": "Available", "status": "False", "reason": "ProbeFailure", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        });
        let status =
            json!({"remotePhases": [{"name": "web-a", "uid": "p"}], "conditions": [condition]});
        record.resource_version = 6;
        let set = record.set_status(&serde_json::from_value(status).unwrap());
        set.unwrap();
        assert_eq!(record.availability, Some(Reason::ProbeFailure));
        revisions.updated(record, "test");
        assert_eq!(&*revisions.by_uid("p").unwrap().uid, "u");
    }
}
