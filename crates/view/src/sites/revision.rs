//! A revision of a site, without the parts that are the same at all sites.

use std::sync::Arc;

use baton_apis::{SiteEntry, conditions::Reason, constants::ANNOTATION_SITE};
use baton_sites::{
    chain::Reported,
    rollout::{Revision, RevisionStart, RevisionState},
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::{Deserialize as _, Serialize, de::Error as _};
use serde_json::{Error, Value};

use crate::{
    lists::Lists,
    object::{text_at, time_at},
};

/// A revision of a site.
#[derive(Clone, Debug, Default)]
pub struct SiteRevision {
    /// Namespace of the revision.
    pub namespace: String,
    /// Name of the revision.
    pub name: String,
    /// Number of the revision; zero if none is assigned yet.
    pub number: i64,
    /// Content of the annotation: deployment, site, version and rollout.
    pub entry: Arc<SiteEntry>,
    /// Reported conditions. A revision that is to be archived counts as archived.
    pub reported: Reported,
    /// True while it is being deleted.
    pub is_deleting: bool,
}

/// The reason of a condition, and its message in the words of the manager; either may be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The reason.
    pub reason: String,
    /// The message.
    pub message: String,
}

impl SiteRevision {
    /// Reads an object as the server returned it.
    ///
    /// # Errors
    /// If the object does not name its site.
    pub fn read(object: &Value) -> Result<Self, Error> {
        let annotations = object.pointer("/metadata/annotations");
        let entry = annotations.and_then(|all| all.get(ANNOTATION_SITE)?.as_str());
        let lacks = || Error::custom(format!("it lacks the annotation {ANNOTATION_SITE}"));
        let invalid = |error| Error::custom(format!("{ANNOTATION_SITE}: {error}"));
        let entry = serde_json::from_str(entry.ok_or_else(lacks)?).map_err(invalid)?;
        let conditions = object["status"]["conditions"].as_array();
        let conditions = conditions.into_iter().flatten();
        let conditions: Vec<_> = conditions.flat_map(Condition::deserialize).collect();
        let created = time_at(object, "/metadata/creationTimestamp");
        let mut reported = Reported::of(&conditions, created);
        reported.is_archived |= text_at(object, "/spec/lifecycleState") == "Archived";
        Ok(Self {
            namespace: text_at(object, "/metadata/namespace").to_owned(),
            name: text_at(object, "/metadata/name").to_owned(),
            number: number(object),
            entry: Arc::new(entry),
            reported,
            is_deleting: !text_at(object, "/metadata/deletionTimestamp").is_empty(),
        })
    }

    /// Reads all objects of a list. Objects that do not name their site are left out with a
    /// warning.
    pub(super) fn read_all<'v>(
        objects: impl Iterator<Item = &'v Value>,
        lists: &Lists,
    ) -> impl Iterator<Item = Self> {
        objects.filter_map(|object| {
            let read = Self::read(object);
            let left_out = |error| {
                let name = text_at(object, "/metadata/name");
                lists.warn(format!("objectset {name} is left out: {error}"));
            };
            read.map_err(left_out).ok()
        })
    }

    /// True if the revision is available.
    pub fn is_available(&self) -> bool {
        self.reported.availability == Some(Reason::Available)
    }

    /// True if the revision was skipped in the queue, and never begins.
    pub fn is_skipped(&self) -> bool {
        self.reported.availability == Some(Reason::Skipped)
    }

    /// True if the revision is archived, being deleted or skipped: it writes no object any more.
    pub fn is_over(&self) -> bool {
        self.reported.is_archived || self.is_deleting || self.is_skipped()
    }

    /// True if the revision has not begun, as far as the status was reported.
    pub fn is_queued(&self) -> bool {
        let state = self.reported.state(None);
        let waits = matches!(state, RevisionState::Queued | RevisionState::Unknown);
        waits && !self.is_over() && self.reported.beginning() == RevisionStart::None
    }

    /// True if the revision has begun and is not archived: some of its objects may exist at the
    /// site.
    pub fn is_live(&self) -> bool {
        !self.is_over() && !self.is_queued()
    }

    /// The revision as the planner of rollouts reads it, at a site that is online since
    /// `online_since`.
    pub(super) fn planned(&self, online_since: Option<Timestamp>) -> Revision {
        Revision {
            name: self.name.as_str().into(),
            number: self.number,
            entry: Arc::clone(&self.entry),
            state: self.reported.state(online_since),
            beginning: self.reported.beginning(),
            is_deleting: self.is_deleting,
            is_archiving: self.reported.is_archived,
        }
    }

    /// Message of the condition `Available`; empty if the condition is true.
    pub fn message(&self) -> &str {
        self.reported.message.as_deref().unwrap_or_default()
    }

    /// The reason that the revision is not available.
    pub fn report(&self) -> Report {
        Report {
            reason: self
                .reported
                .availability
                .map_or_else(String::new, |reason| reason.to_string()),
            message: self.message().to_owned(),
        }
    }
}

/// Removes the fields of a revision that [`SiteRevision::read`] does not read, which are most of
/// them.
pub(super) fn trim(object: &mut Value) {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    // This function trims watched objects of other kinds as well.
    if object.pointer("/spec/phases").is_none() {
        return;
    }
    if let Some(spec) = object["spec"].as_object_mut() {
        spec.retain(|field, _| ["revision", "lifecycleState"].contains(&field.as_str()));
    }
    if let Some(status) = object["status"].as_object_mut() {
        status.retain(|field, _| ["revision", "conditions"].contains(&field.as_str()));
    }
}

fn number(object: &Value) -> i64 {
    let at = |pointer| object.pointer(pointer).and_then(Value::as_i64);
    let number = at("/spec/revision").filter(|number| *number != 0);
    number.or(at("/status/revision")).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sites::fixtures::{SiteRevisionFixture, T0};

    fn read(given: &SiteRevisionFixture) -> SiteRevision {
        SiteRevision::read(&given.object()).unwrap()
    }

    #[test]
    fn a_revision_that_has_not_started_is_queued() {
        let given = || SiteRevisionFixture::new("eu-1", 3, "1.2.0");
        let queued = read(&given().available("False", Reason::Queued, "behind version 1.1.0"));
        assert!(queued.is_queued() && !queued.is_live());
        // Nothing was reported, or the site cannot be reached.
        assert!(read(&given()).is_queued());
        assert!(read(&given().available("Unknown", "ClusterUnreachable", "")).is_queued());
        let started = read(
            &given()
                .started()
                .available("Unknown", "ClusterUnreachable", ""),
        );
        assert!(!started.is_queued() && started.is_live());
        assert_eq!(started.reported.started, Some(T0));
        let skipped = read(&given().available("False", Reason::Skipped, ""));
        assert!(!skipped.is_queued() && !skipped.is_live() && skipped.is_skipped());
        let failing = read(&given().available("False", Reason::ProbeFailure, "x"));
        assert!(!failing.is_queued() && failing.is_live());
        let report = failing.report();
        assert_eq!(
            (report.reason.as_str(), report.message.as_str()),
            ("ProbeFailure", "x")
        );
    }

    #[test]
    fn a_trimmed_revision_is_read_like_the_whole_one() {
        let mut object = SiteRevisionFixture::new("eu-1", 3, "1.2.0")
            .started()
            .available("False", Reason::ProbeFailure, "x")
            .object();
        let before = format!("{:?}", SiteRevision::read(&object));
        trim(&mut object);
        assert_eq!(object["spec"], serde_json::json!({ "revision": 3 }));
        assert_eq!(format!("{:?}", SiteRevision::read(&object)), before);
    }

    #[test]
    fn a_revision_without_a_valid_site_annotation_is_refused() {
        let mut object = SiteRevisionFixture::new("eu-1", 3, "1.2.0").object();
        object["metadata"]["annotations"][ANNOTATION_SITE] = "{".into();
        assert!(SiteRevision::read(&object).is_err());
        object["metadata"]["annotations"] = Value::Null;
        assert!(SiteRevision::read(&object).is_err());
    }
}
