//! The stored facts about a revision that was created for a site.

use std::{collections::HashMap, sync::Arc};

use baton_apis::{
    ObjectSetStatus, SiteEntry,
    constants::{ANNOTATION_SITE, LABEL_CHAIN},
};
use baton_sites::chain::Reported;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::Deserialize;
use serde_json::value::RawValue;
use tracing::warn;

use super::RevisionKind;
use crate::record::{ReadError, parse};

/// The site of a revision, and its progress there.
#[derive(Clone, Debug, PartialEq)]
pub struct SiteOf {
    /// The place of the revision in the queue of the site.
    pub entry: Arc<SiteEntry>,
    /// Label of the chain; empty if the label was removed.
    pub chain: Arc<str>,
    /// The conditions of the revision.
    pub reported: Reported,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    conditions: Vec<Condition>,
}

impl SiteOf {
    /// Reads the metadata and the status. `None` for a revision that is for no site, or whose
    /// annotation cannot be read.
    ///
    /// # Errors
    /// If the status is none of this kind.
    pub(super) fn read(
        kind: RevisionKind,
        labels: &HashMap<String, String>,
        annotations: &HashMap<String, String>,
        created: Option<Timestamp>,
        status: Option<&RawValue>,
    ) -> Result<Option<Box<Self>>, ReadError> {
        let Some(annotation) = annotations.get(ANNOTATION_SITE) else {
            return Ok(None);
        };
        let entry = match serde_json::from_str(annotation) {
            Ok(entry) => Arc::new(entry),
            Err(error) => {
                warn!(
                    annotation,
                    %error,
                    "the annotation {ANNOTATION_SITE} of a revision cannot be parsed: its SiteDeployment ignores the \
                     revision"
                );
                return Ok(None);
            }
        };
        let status: Status = parse(kind, "status", status)?;
        let chain = labels.get(LABEL_CHAIN).map_or("", String::as_str);
        Ok(Some(Box::new(Self {
            entry,
            chain: chain.into(),
            reported: Reported::of(&status.conditions, created),
        })))
    }

    /// Copies the conditions of another record of the same revision.
    pub(super) fn copy_status(&mut self, from: &Self) {
        self.reported.clone_from(&from.reported);
    }

    /// Updates the conditions from a new status.
    pub(super) fn status_changed(&mut self, status: &ObjectSetStatus) {
        self.reported = Reported::of(&status.conditions, self.reported.created);
    }

    /// Shares memory with another revision of the same chain.
    pub(super) fn share(&mut self, other: &Self) {
        if self.chain == other.chain {
            self.chain.clone_from(&other.chain);
        }
        if self.entry == other.entry {
            self.entry.clone_from(&other.entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use baton_apis::conditions::Reason;
    use serde_json::{Value, json};

    use super::*;
    use crate::{record::Record, revision::RevisionRecord};

    fn revision(annotation: &str, conditions: &Value) -> RevisionRecord {
        let object = json!({
            "metadata": {
                "name": "edge-1", "namespace": "shop", "uid": "u", "resourceVersion": "5",
                "labels": {"baton.run/chain": "c", "baton.run/site-deployment": "edge"},
                "annotations": {"baton.run/site": annotation},
            },
            "status": {"conditions": conditions},
        });
        Record::read(RevisionKind::ObjectSet, &object.to_string()).unwrap()
    }

    fn entry() -> String {
        let entry = SiteEntry {
            deployment: "edge".to_owned(),
            site: "eu".to_owned(),
            ..SiteEntry::default()
        };
        json!(entry).to_string()
    }

    fn condition(type_: &str, status: &str, time: &str) -> Value {
        json!({
            "type": type_, "status": status, "reason": "Because", "message": "of something",
            "lastTransitionTime": time,
        })
    }

    #[test]
    fn a_site_revision_is_read_with_its_progress() {
        let time = |text: &str| text.parse::<Timestamp>().unwrap();
        let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z");
        let conditions = json!([
            condition("Available", "False", late),
            condition("baton.run/Started", "True", early),
            condition("Succeeded", "True", early),
        ]);
        let mut record = revision(&entry(), &conditions);
        let site = record.site.clone().unwrap();
        assert_eq!((&*site.entry.site, &*site.chain), ("eu", "c"));
        let expected = Reported {
            availability: Some(Reason::Other),
            since: Some(time(late)),
            message: Some("of something".into()),
            started: Some(time(early)),
            succeeded: Some(time(early)),
            ..Reported::default()
        };
        assert_eq!(site.reported, expected);
        let mut stopping = condition("baton.run/Started", "True", early);
        stopping["reason"] = "Stopping".into();
        let stopping = revision(&entry(), &json!([stopping])).site.clone();
        let stopping = stopping.unwrap().reported;
        assert!(stopping.is_stopping && stopping.started.is_some());
        // The chain is that of a site, not of a Release.
        assert_eq!(record.release, None);

        // The answer to a write of ours updates the fields as an event would.
        let status = json!({"conditions": [condition("Available", "True", early)]});
        record
            .set_status(&serde_json::from_value(status).unwrap())
            .unwrap();
        let expected = Reported {
            availability: Some(Reason::Available),
            since: Some(time(early)),
            ..Reported::default()
        };
        assert_eq!(record.site.as_ref().unwrap().reported, expected);
    }

    #[test]
    fn a_revision_with_an_invalid_site_annotation_has_no_site() {
        assert_eq!(revision("{", &json!([])).site, None);
    }
}
