//! The patches that steer a rollout over sites.

use baton_apis::{
    EVERY_VERSION, SiteDeployment,
    conditions::{ABORTED, PROGRESSING, Reason},
};
use baton_engine::condition_list::{find, is_true};
use jiff::{Timestamp, Unit};
use serde_json::{Value, json};

use super::observed::status;

/// The reason that nothing is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The deployment is being deleted.
    Deleting,
    /// No other version was rolled out before this one.
    NothingEarlier {
        /// The version.
        version: String,
    },
    /// The deployment is paused.
    Paused,
    /// There is no rollout yet.
    NoRollout,
    /// The rollout is complete.
    Complete {
        /// Number of the rollout.
        rollout: i64,
        /// Version of the rollout.
        version: String,
    },
}

/// A version to go back to, with the patch.
#[derive(Clone, Debug, PartialEq)]
pub struct VersionRollback {
    /// The version to go back to.
    pub version: String,
    /// True if the deployment followed every version before, and stops to do so.
    pub followed: bool,
    /// The JSON patch; `None` if the spec of the deployment names the version already.
    pub patch: Option<Value>,
}

/// Decides about a rollback to a version, or to the previous version.
///
/// # Errors
/// If there is nothing to write, and the spec of the deployment does not name the version already.
pub fn rollback(
    deployment: &SiteDeployment,
    to_version: Option<&str>,
    force: bool,
) -> Result<VersionRollback, Refusal> {
    alive(deployment)?;
    let status = status(deployment);
    let version = match to_version {
        Some(version) => version.to_owned(),
        // The previous version of another application is no version of this application.
        None => status
            .previous_version
            .clone()
            .filter(|_| status.previous_application.is_none())
            .ok_or_else(|| Refusal::NothingEarlier {
                version: status.version.clone().unwrap_or_default(),
            })?,
    };
    let requested = &deployment.spec.application_version;
    if *requested == version {
        return Ok(VersionRollback {
            version,
            followed: false,
            patch: None,
        });
    }
    if deployment.spec.paused && !force {
        return Err(Refusal::Paused);
    }
    let patch = json!([
        { "op": "test", "path": "/metadata/uid", "value": deployment.metadata.uid },
        { "op": "test", "path": "/spec/applicationVersion", "value": requested },
        { "op": "replace", "path": "/spec/applicationVersion", "value": version },
    ]);
    Ok(VersionRollback {
        version,
        followed: requested == EVERY_VERSION,
        patch: Some(patch),
    })
}

/// A rollout to abort.
#[derive(Clone, Debug, PartialEq)]
pub struct Abort {
    /// Number of the rollout.
    pub rollout: i64,
    /// Version of the rollout.
    pub version: String,
    /// The JSON patch; `None` if the rollout is aborted already, or an abort was requested.
    pub patch: Option<Value>,
}

/// Decides about an abort of the present rollout.
///
/// # Errors
/// If there is nothing to write, and the rollout is not aborted already.
pub fn abort(deployment: &SiteDeployment) -> Result<Abort, Refusal> {
    alive(deployment)?;
    let status = status(deployment);
    let rollout = status.rollout.ok_or(Refusal::NoRollout)?;
    let version = status.version.clone().unwrap_or_default();
    if is_true(&status.conditions, ABORTED) || deployment.spec.abort_rollout == Some(rollout) {
        return Ok(Abort {
            rollout,
            version,
            patch: None,
        });
    }
    let progressing = find(&status.conditions, PROGRESSING);
    if progressing.is_some_and(|condition| condition.reason == Reason::Complete) {
        return Err(Refusal::Complete { rollout, version });
    }
    let patch = json!([
        { "op": "test", "path": "/metadata/uid", "value": deployment.metadata.uid },
        { "op": "add", "path": "/spec/abortRollout", "value": rollout },
    ]);
    Ok(Abort {
        rollout,
        version,
        patch: Some(patch),
    })
}

/// The merge patch that pauses or resumes a deployment; `None` if it is paused or resumed already.
///
/// # Errors
/// If the deployment is being deleted.
pub fn pause(deployment: &SiteDeployment, wanted: bool) -> Result<Option<Value>, Refusal> {
    alive(deployment)?;
    let differs = deployment.spec.paused != wanted;
    Ok(differs.then(|| json!({ "spec": { "paused": wanted } })))
}

/// The merge patch that makes the manager select the sites of a deployment again.
///
/// # Errors
/// If the deployment is being deleted.
pub fn redeploy(deployment: &SiteDeployment, now: Timestamp) -> Result<Value, Refusal> {
    alive(deployment)?;
    let time = now.round(Unit::Second).unwrap_or(now).to_string();
    // A second request within the same second has to differ from the first.
    let time = match &deployment.spec.redeploy {
        Some(before) if *before == time => now.to_string(),
        _ => time,
    };
    Ok(json!({ "spec": { "redeploy": time } }))
}

fn alive(deployment: &SiteDeployment) -> Result<(), Refusal> {
    match deployment.metadata.deletion_timestamp {
        Some(_) => Err(Refusal::Deleting),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;
    use crate::sites::fixtures::{NOW, condition};

    fn deployment() -> SiteDeployment {
        serde_json::from_value(crate::sites::fixtures::deployment("shop")).unwrap()
    }

    fn with(condition: Value) -> SiteDeployment {
        let mut deployment = deployment();
        let status = deployment.status.as_mut().unwrap();
        status.conditions = vec![serde_json::from_value(condition).unwrap()];
        deployment
    }

    #[test]
    fn a_rollback_asks_for_an_older_version() {
        let found = rollback(&deployment(), None, false).unwrap();
        assert_eq!((found.version.as_str(), found.followed), ("1.1.0", false));
        let patch = found.patch.unwrap();
        assert_eq!(patch[1]["value"], "1.2.0");
        assert_eq!(patch[2]["value"], "1.1.0");
        let same = rollback(&deployment(), Some("1.2.0"), false).unwrap();
        assert_eq!(same.patch, None);

        let mut following = deployment();
        following.spec.application_version = EVERY_VERSION.to_owned();
        assert!(rollback(&following, Some("1.0.0"), false).unwrap().followed);
        let mut paused = deployment();
        paused.spec.paused = true;
        assert_eq!(rollback(&paused, None, false), Err(Refusal::Paused));
        assert!(rollback(&paused, None, true).unwrap().patch.is_some());
        let mut first = deployment();
        first.status.as_mut().unwrap().previous_version = None;
        let mut other = deployment();
        other.status.as_mut().unwrap().previous_application = Some("other".to_owned());
        for first in [first, other] {
            let version = "1.2.0".to_owned();
            let refusal = Refusal::NothingEarlier { version };
            assert_eq!(rollback(&first, None, false), Err(refusal));
        }
    }

    #[test]
    fn the_present_rollout_is_aborted_once() {
        let found = abort(&deployment()).unwrap();
        assert_eq!((found.rollout, found.version.as_str()), (3, "1.2.0"));
        assert_eq!(found.patch.unwrap()[1]["value"], 3);
        let mut aborted_one = deployment();
        aborted_one.spec.abort_rollout = Some(3);
        assert_eq!(abort(&aborted_one).unwrap().patch, None);
        // The rollout before this one was aborted.
        aborted_one.spec.abort_rollout = Some(2);
        assert!(abort(&aborted_one).unwrap().patch.is_some());
        let aborted = with(condition("Aborted", "True", Reason::SiteFailed, ""));
        assert_eq!(abort(&aborted).unwrap().patch, None);
        let complete = with(condition("Progressing", "False", Reason::Complete, ""));
        assert!(matches!(abort(&complete), Err(Refusal::Complete { .. })));
        let mut new = deployment();
        new.status = None;
        assert_eq!(abort(&new), Err(Refusal::NoRollout));
    }

    #[test]
    fn pauses_and_redeployments_patch_only_their_fields() {
        let running = deployment();
        assert_eq!(pause(&running, false), Ok(None));
        let patch = pause(&running, true).unwrap().unwrap();
        assert_eq!(patch, json!({ "spec": { "paused": true } }));
        let mut deployment = deployment();
        let patch = redeploy(&deployment, NOW).unwrap();
        assert_eq!(patch["spec"]["redeploy"], "2026-01-01T01:00:00Z");
        deployment.spec.redeploy = Some("2026-01-01T01:00:00Z".to_owned());
        let later = NOW + SignedDuration::from_millis(7);
        let again = redeploy(&deployment, later).unwrap();
        assert_eq!(again["spec"]["redeploy"], "2026-01-01T01:00:00.007Z");
        deployment.metadata.deletion_timestamp = deployment.metadata.creation_timestamp.clone();
        assert_eq!(redeploy(&deployment, NOW), Err(Refusal::Deleting));
    }
}
