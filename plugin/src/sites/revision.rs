//! A revision of a site, without what is the same in all sites.

use std::sync::Arc;

use baton_apis::{
    SiteEntry,
    conditions::{ARCHIVED, AVAILABLE, STARTED, SUCCEEDED, availability, reasons},
    constants::ANNOTATION_SITE,
};
use baton_sites::{
    chain::{self, Reported},
    rollout::{Beginning, RevisionState},
};
use baton_view::{object::text_at, tree::Health};
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use crate::output::report_once;

/// A revision of a site.
#[derive(Clone, Debug, Default)]
pub(crate) struct SiteRevision {
    pub(crate) name: String,
    /// Its number in the chain; zero until it has one.
    pub(crate) number: i64,
    pub(crate) entry: SiteEntry,
    pub(crate) created: Option<Timestamp>,
    /// Since when it is not held any more; `None` while it is, or nobody has said so.
    pub(crate) started: Option<Timestamp>,
    /// What was said of its health last.
    pub(crate) available: Option<Report>,
    /// When it was available for the first time.
    pub(crate) succeeded: Option<Timestamp>,
    /// Whether its objects are gone or belong to newer ones, or are to.
    pub(crate) is_archived: bool,
    pub(crate) is_deleting: bool,
}

/// The condition `Available`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) status: Health,
    pub(crate) reason: String,
    /// Why it is not true; empty where it is.
    pub(crate) message: String,
    pub(crate) since: Option<Timestamp>,
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
        let is_true = |type_| {
            let found = condition(object, type_);
            found.is_some_and(|found| text_at(found, "/status") == "True")
        };
        let true_since = |type_| {
            let found = condition(object, type_).filter(|_| is_true(type_))?;
            time_at(found, "/lastTransitionTime")
        };
        Some(Self {
            name: name.to_owned(),
            number: number(object),
            entry,
            created: time_at(object, "/metadata/creationTimestamp"),
            started: true_since(STARTED),
            available: condition(object, AVAILABLE).map(Report::read),
            succeeded: true_since(SUCCEEDED),
            is_archived: text_at(object, "/spec/lifecycleState") == "Archived" || is_true(ARCHIVED),
            is_deleting: !text_at(object, "/metadata/deletionTimestamp").is_empty(),
        })
    }

    pub(crate) fn is_available(&self) -> bool {
        let report = self.available.as_ref();
        report.is_some_and(|report| report.status == Health::True)
    }

    /// Whether it was left out of the queue for good.
    pub(crate) fn is_skipped(&self) -> bool {
        self.is_because_of(reasons::SKIPPED)
    }

    /// Whether it waits to begin, as far as is known.
    pub(crate) fn is_queued(&self) -> bool {
        let was_here = chain::beginning(self.reported(None, None), false) != Beginning::None;
        let is_over = self.is_archived || self.is_deleting || self.is_skipped();
        let waits = self.is_because_of(reasons::QUEUED);
        let is_unknown = self
            .available
            .as_ref()
            .is_none_or(|report| report.status == Health::Unknown);
        !is_over && !was_here && (waits || is_unknown)
    }

    /// Whether it has begun and is not archived: some of its objects may be in the site.
    pub(crate) fn is_live(&self) -> bool {
        !self.is_archived && !self.is_deleting && !self.is_skipped() && !self.is_queued()
    }

    /// How far it is, as the manager sees it; `online_since`: since when its site has been in touch.
    pub(crate) fn state(&self, online_since: Option<Timestamp>) -> RevisionState {
        let report = self.available.as_ref();
        let message = report.map(|report| report.message.as_str().into());
        chain::state(self.reported(message.as_ref(), online_since))
    }

    fn reported<'a>(
        &self,
        message: Option<&'a Arc<str>>,
        online_since: Option<Timestamp>,
    ) -> Reported<'a> {
        let report = self.available.as_ref();
        Reported {
            is_archived: self.is_archived,
            availability: report.map(|it| availability(it.status.as_str(), &it.reason)),
            since: report.and_then(|report| report.since),
            message,
            started: self.started,
            succeeded: self.succeeded,
            created: self.created,
            online_since,
        }
    }

    fn is_because_of(&self, reason: &str) -> bool {
        let report = self.available.as_ref();
        report.is_some_and(|report| report.reason == reason)
    }
}

impl Report {
    fn read(condition: &Value) -> Self {
        let status = Health::of_status(Some(text_at(condition, "/status")));
        Self {
            status,
            reason: text_at(condition, "/reason").to_owned(),
            message: match status {
                Health::True => String::new(),
                _ => text_at(condition, "/message").to_owned(),
            },
            since: time_at(condition, "/lastTransitionTime"),
        }
    }

    /// Why it is not available, for people.
    pub(crate) fn why(&self) -> String {
        match self.message.as_str() {
            "" => self.reason.clone(),
            message if self.reason.is_empty() => message.to_owned(),
            message => format!("{}: {message}", self.reason),
        }
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
        assert_eq!(started.started, Some(T0));
        let skipped = read(&given().available("False", reasons::SKIPPED, ""));
        assert!(!skipped.is_queued() && !skipped.is_live() && skipped.is_skipped());
        let failing = read(&given().available("False", reasons::PROBE_FAILURE, "x"));
        assert!(!failing.is_queued() && failing.is_live());
        assert_eq!(failing.available.unwrap().why(), "ProbeFailure: x");
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
