//! The outcome of a cluster, from the status of its revision.

use baton_apis::conditions::{AVAILABLE, Reason};
use baton_engine::condition_list::find;
use baton_fleet::inventory::{ClusterLink, Contact};
use baton_records::revision::RevisionRecord;
use baton_releases::targets::{
    InstallationOutcome, Progress,
    reasons::{Cause, Failure},
};

use crate::controllers::releases::app_clusters::cause;

/// The outcome of a cluster, by its revision and its link.
pub(super) fn of(revision: &RevisionRecord, link: &ClusterLink) -> InstallationOutcome {
    match link {
        ClusterLink::Unknown => {
            return Err(Failure::new(
                Cause::NoCluster,
                "the Cluster does not exist any more",
            ));
        }
        // After a start, the status of the revision counts until the connection is up or has
        // failed.
        link if link.is_connecting() => {}
        ClusterLink::Down { message, .. } | ClusterLink::Pull(Contact::Lost { message, .. }) => {
            return Err(Failure::new(cause(link), message));
        }
        ClusterLink::Pull(_) | ClusterLink::Up(_) => {}
    }
    let status = match revision.status() {
        Ok(status) => status,
        Err(error) => return Err(Failure::new(Cause::Read, error)),
    };
    let Some(available) = find(&status.conditions, AVAILABLE) else {
        return Ok(Progress::InProgress(String::new()));
    };
    if available.status == "True" {
        return Ok(Progress::Installed);
    }
    match Reason::of_available(&available.reason) {
        Some(Reason::CollisionDetected | Reason::PreflightError | Reason::WriteError) => {
            Err(Failure::new(Cause::Refused, &available.message))
        }
        // All objects exist, and a newer Release controls the objects that this one does not.
        Some(Reason::NotInControl) => Ok(Progress::Installed),
        // A change of the revision wakes the target.
        Some(Reason::ClusterUnreachable | Reason::ListFailed) => {
            Err(Failure::new(Cause::NoClient, &available.message))
        }
        _ => Ok(Progress::InProgress(available.message.clone())),
    }
}

#[cfg(test)]
mod tests {
    use baton_records::{record::Record, revision::RevisionKind};
    use serde_json::json;

    use super::*;

    #[test]
    fn the_progress_of_a_cluster_follows_from_its_revision() {
        let failure = |cause, message: &str| Err(Failure::new(cause, message));
        for (status, reason, message, expected) in [
            ("True", "Available", "fine", Ok(Progress::Installed)),
            (
                "False",
                "CollisionDetected",
                "taken",
                failure(Cause::Refused, "taken"),
            ),
            (
                "False",
                "PreflightError",
                "bad",
                failure(Cause::Refused, "bad"),
            ),
            (
                "False",
                "ClusterUnreachable",
                "down",
                failure(Cause::NoClient, "down"),
            ),
            ("False", "NotInControl", "x", Ok(Progress::Installed)),
            (
                "Unknown",
                "Other",
                "x",
                Ok(Progress::InProgress("x".into())),
            ),
        ] {
            let object = json!({
                "metadata": {"name": "web-1", "namespace": "shop", "uid": "u", "resourceVersion": "5"},
                "status": {"conditions": [{
                    "type": "Available", "status": status, "reason": reason, "message": message,
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }]},
            });
            let record = Record::read(RevisionKind::ObjectSet, &object.to_string()).unwrap();
            let link = ClusterLink::Pull(Contact::Reported);
            assert_eq!(of(&record, &link), expected, "{reason}");
            let gone = of(&record, &ClusterLink::Unknown);
            assert_eq!(gone.unwrap_err().cause, Cause::NoCluster);
            let down = |reason| ClusterLink::Down {
                reason,
                message: "no answer".into(),
                since: jiff::Timestamp::UNIX_EPOCH,
            };
            assert_eq!(of(&record, &down(Reason::Connecting)), expected, "{reason}");
            let lost = of(&record, &down(Reason::Unreachable));
            assert_eq!(lost, failure(Cause::NoClient, "no answer"));
        }
    }
}
