//! A revision of a site, without what is the same in all sites.

use std::sync::Arc;

use baton_apis::{
    SiteEntry,
    conditions::{AVAILABLE, reasons},
    constants::ANNOTATION_SITE,
};
use baton_sites::{
    chain::Reported,
    rollout::{Beginning, Revision, RevisionState},
};
use baton_view::object::text_at;
use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::Condition, jiff::Timestamp, serde::Deserialize as _,
};
use serde_json::Value;

use crate::output::report_once;

/// A revision of a site.
#[derive(Clone, Debug, Default)]
pub(crate) struct SiteRevision {
    pub(crate) name: String,
    /// Its number in the chain; zero until it has one.
    pub(crate) number: i64,
    pub(crate) entry: Arc<SiteEntry>,
    /// What it says of itself. One that is to be archived counts as if it were.
    pub(crate) reported: Reported,
    pub(crate) is_deleting: bool,
}

impl SiteRevision {
    /// From an object as the server has it. One that does not say which site it is of is reported and left out.
    pub(crate) fn read(object: &Value) -> Option<Self> {
        let name = text_at(object, "/metadata/name");
        let annotations = object.pointer("/metadata/annotations");
        let entry = annotations.and_then(|all| all.get(ANNOTATION_SITE)?.as_str());
        let entry = match entry.map(serde_json::from_str) {
            Some(Ok(entry)) => entry,
            Some(Err(error)) => return left_out(name, &format!("{ANNOTATION_SITE}: {error}")),
            None => return left_out(name, &format!("it lacks the annotation {ANNOTATION_SITE}")),
        };
        let conditions = object["status"]["conditions"].as_array();
        let conditions = conditions.into_iter().flatten();
        let conditions: Vec<_> = conditions.flat_map(Condition::deserialize).collect();
        let created = time_at(object, "/metadata/creationTimestamp");
        let mut reported = Reported::of(&conditions, created);
        reported.is_archived |= text_at(object, "/spec/lifecycleState") == "Archived";
        Some(Self {
            name: name.to_owned(),
            number: number(object),
            entry: Arc::new(entry),
            reported,
            is_deleting: !text_at(object, "/metadata/deletionTimestamp").is_empty(),
        })
    }

    pub(crate) fn is_available(&self) -> bool {
        self.reported.availability == Some(AVAILABLE)
    }

    /// Whether it was left out of the queue for good.
    pub(crate) fn is_skipped(&self) -> bool {
        self.reported.availability == Some(reasons::SKIPPED)
    }

    /// Whether its objects are gone or belong to newer ones, or are to; or it never gets any.
    pub(crate) fn is_over(&self) -> bool {
        self.reported.is_archived || self.is_deleting || self.is_skipped()
    }

    /// Whether it waits to begin, as far as is known.
    pub(crate) fn is_queued(&self) -> bool {
        let state = self.reported.state(None);
        let waits = matches!(state, RevisionState::Queued | RevisionState::Unknown);
        waits && !self.is_over() && self.reported.beginning() == Beginning::None
    }

    /// Whether it has begun and is not archived: some of its objects may be in the site.
    pub(crate) fn is_live(&self) -> bool {
        !self.is_over() && !self.is_queued()
    }

    /// As a plan of a rollout has it, in a site that has been in touch since `online_since`.
    pub(crate) fn seen(&self, online_since: Option<Timestamp>) -> Revision {
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

    /// What it said last, unless it is available.
    pub(crate) fn message(&self) -> &str {
        self.reported.message.as_deref().unwrap_or_default()
    }

    /// Why it is not available, for people.
    pub(crate) fn why(&self) -> String {
        why(
            self.reported.availability.unwrap_or_default(),
            self.message(),
        )
    }
}

/// A reason and its message, for people.
pub(crate) fn why(reason: &str, message: &str) -> String {
    match message {
        "" => reason.to_owned(),
        message if reason.is_empty() => message.to_owned(),
        message => format!("{reason}: {message}"),
    }
}

/// Takes away from a revision what [`SiteRevision::read`] does not look at: most of it.
pub(crate) fn trim(object: &mut Value) {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    // Watches of other kinds are trimmed by the same.
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

/// The condition of an object of a type.
pub(crate) fn condition<'v>(object: &'v Value, type_: &str) -> Option<&'v Value> {
    let conditions = object.pointer("/status/conditions")?.as_array()?;
    conditions
        .iter()
        .find(|condition| condition["type"] == type_)
}

/// The time at a JSON pointer, if there is one.
pub(crate) fn time_at(object: &Value, pointer: &str) -> Option<Timestamp> {
    text_at(object, pointer).parse().ok()
}

fn number(object: &Value) -> i64 {
    let at = |pointer| object.pointer(pointer).and_then(Value::as_i64);
    let number = at("/spec/revision").filter(|number| *number != 0);
    number.or(at("/status/revision")).unwrap_or(0)
}

fn left_out(name: &str, why: &str) -> Option<SiteRevision> {
    report_once(&format!("warning: objectset {name} is left out: {why}"));
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sites::fixtures::{Given, T0};

    fn read(given: &Given) -> SiteRevision {
        SiteRevision::read(&given.object()).unwrap()
    }

    #[test]
    fn what_has_not_begun_waits() {
        let given = || Given::new("eu-1", 3, "1.2.0");
        let queued = read(&given().available("False", reasons::QUEUED, "behind version 1.1.0"));
        assert!(queued.is_queued() && !queued.is_live());
        // Nobody has reported, or nobody can tell.
        assert!(read(&given()).is_queued());
        assert!(read(&given().available("Unknown", "ClusterUnreachable", "")).is_queued());
        let started = read(
            &given()
                .started()
                .available("Unknown", "ClusterUnreachable", ""),
        );
        assert!(!started.is_queued() && started.is_live());
        assert_eq!(started.reported.started, Some(T0));
        let skipped = read(&given().available("False", reasons::SKIPPED, ""));
        assert!(!skipped.is_queued() && !skipped.is_live() && skipped.is_skipped());
        let failing = read(&given().available("False", reasons::PROBE_FAILURE, "x"));
        assert!(!failing.is_queued() && failing.is_live());
        assert_eq!(failing.why(), "ProbeFailure: x");
    }

    #[test]
    fn what_is_trimmed_is_read_all_the_same() {
        let mut object = Given::new("eu-1", 3, "1.2.0")
            .started()
            .available("False", reasons::PROBE_FAILURE, "x")
            .object();
        let before = format!("{:?}", SiteRevision::read(&object));
        trim(&mut object);
        assert_eq!(object["spec"], serde_json::json!({ "revision": 3 }));
        assert_eq!(format!("{:?}", SiteRevision::read(&object)), before);
    }

    #[test]
    fn one_without_a_place_is_left_out() {
        let mut object = Given::new("eu-1", 3, "1.2.0").object();
        object["metadata"]["annotations"][ANNOTATION_SITE] = "{".into();
        assert!(SiteRevision::read(&object).is_none());
        object["metadata"]["annotations"] = Value::Null;
        assert!(SiteRevision::read(&object).is_none());
    }
}
