//! Revisions in the description of a mirror.

use std::sync::Arc;

use baton_apis::{
    LifecycleState,
    conditions::{Reason, SUCCEEDED},
    constants::{LABEL_CHAIN, LABEL_OBJECT_DEPLOYMENT},
};
use baton_records::{
    record::{ReadError, Record},
    revision::{RevisionKind, RevisionRecord},
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The facts about a revision that an agent needs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Relative {
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) number: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    created: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deployment: Option<String>,
    /// Label of the chain of a Release or a site.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    chain: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    previous: Vec<String>,
    /// UIDs of the delegated phases: objects can name them as owners.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    phases: Vec<String>,
    /// True if the revision is paused after it has succeeded: then no writer creates its objects
    /// again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    keeps_paused: bool,
    /// True if the revision is paused.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_paused: bool,
}

impl Relative {
    fn of(record: &RevisionRecord) -> Self {
        Self {
            name: record.key.name.to_string(),
            uid: record.uid.to_string(),
            number: record.number.unwrap_or(0),
            created: record.created,
            deployment: record.deployment.as_deref().map(ToOwned::to_owned),
            chain: record.chain().map(ToOwned::to_owned),
            previous: Vec::new(),
            phases: Vec::new(),
            keeps_paused: record.lifecycle == LifecycleState::Paused && record.has_succeeded(),
            is_paused: record.lifecycle == LifecycleState::Paused,
        }
    }

    /// A revision from which objects may be taken over. Its own previous revisions are left out if
    /// a label shows its chain.
    pub(super) fn before(record: &RevisionRecord) -> Self {
        let previous = if record.is_unlabelled() {
            names(&record.previous)
        } else {
            Vec::new()
        };
        Self {
            phases: record.remote_phases.clone(),
            previous,
            ..Self::of(record)
        }
    }

    /// The revision of the phase, without its phases: those that matter have mirrors.
    pub(super) fn itself(record: &RevisionRecord) -> Self {
        Self {
            previous: names(&record.previous),
            ..Self::of(record)
        }
    }

    pub(super) fn record(
        &self,
        kind: RevisionKind,
        namespace: &str,
        version: u64,
    ) -> Result<RevisionRecord, ReadError> {
        let named = |key: &str, names: &[String]| -> Value {
            names.iter().map(|name| json!({ key: name })).collect()
        };
        let mut object = json!({
            "metadata": {
                "name": self.name,
                "namespace": namespace,
                "uid": self.uid,
                "resourceVersion": version.to_string(),
                "creationTimestamp": self.created,
            },
            "spec": {
                "revision": self.number,
                "previous": named("name", &self.previous),
                "lifecycleState": if self.is_paused { LifecycleState::Paused } else { LifecycleState::Active },
            },
            "status": { "remotePhases": self
                .phases
                .iter()
                .map(|uid| json!({ "name": "", "uid": uid }))
                .collect::<Value>() },
        });
        if self.keeps_paused {
            object["status"]["conditions"] = json!([Condition {
                type_: SUCCEEDED.to_owned(),
                status: "True".to_owned(),
                reason: Reason::RolloutSuccess.to_string(),
                message: String::new(),
                observed_generation: None,
                last_transition_time: Time(Timestamp::UNIX_EPOCH),
            }]);
        }
        for (label, value) in [
            (LABEL_OBJECT_DEPLOYMENT, &self.deployment),
            (LABEL_CHAIN, &self.chain),
        ] {
            if let Some(value) = value {
                object["metadata"]["labels"][label] = value.as_str().into();
            }
        }
        Record::read(kind, &object.to_string())
    }
}

fn names(previous: &[Arc<str>]) -> Vec<String> {
    previous.iter().map(ToString::to_string).collect()
}
