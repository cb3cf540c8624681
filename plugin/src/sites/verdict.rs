//! How far a rollout over sites is, by what was reported of the deployment: nothing else is read for that.

use baton_apis::{
    SiteDeployment,
    conditions::{ABORTED, AVAILABLE, PLACED, PROGRESSING, STALLED, WAITING, reasons},
};
use baton_engine::{condition_list::find, texts::collapse_whitespace};
use baton_view::rollout::Outcome;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::read::status;

/// How a rollout over sites is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) outcome: Outcome,
    /// In one word.
    pub(crate) state: &'static str,
    /// What it is or waits for, in one line.
    pub(crate) message: String,
}

impl Verdict {
    fn new(outcome: Outcome, state: &'static str, message: impl Into<String>) -> Self {
        Self {
            outcome,
            state,
            message: message.into(),
        }
    }
}

/// Judges a deployment to sites.
///
/// # Guarantees
/// `Done` only for a status that was reported for the present spec, and when all sites that can be reached have the
/// version and are available.
pub(crate) fn judge(deployment: &SiteDeployment) -> Verdict {
    if deployment.metadata.deletion_timestamp.is_some() {
        return Verdict::new(Outcome::Failed, "Deleting", "it is being deleted");
    }
    let status = status(deployment);
    if status.observed_generation != deployment.metadata.generation {
        let message = "waiting for the manager to report on the present spec";
        return Verdict::new(Outcome::Underway, "Pending", message);
    }
    let is = |type_: &str, value: &str| {
        let found = find(&status.conditions, type_);
        found.filter(|condition| condition.status == value)
    };
    if let Some(aborted) = is(ABORTED, "True") {
        return Verdict::new(Outcome::Failed, "Aborted", said(aborted));
    }
    if let Some(waiting) = is(WAITING, "True") {
        return Verdict::new(Outcome::Underway, "Waiting", said(waiting));
    }
    if let Some(placed) = is(PLACED, "False")
        && placed.reason != reasons::OVERLAPPING
    {
        return Verdict::new(Outcome::Failed, "NotPlaced", said(placed));
    }
    let Some(progressing) = find(&status.conditions, PROGRESSING) else {
        let message = "waiting for the manager to report on it";
        return Verdict::new(Outcome::Underway, "Pending", message);
    };
    if deployment.spec.paused {
        return Verdict::new(Outcome::Underway, "Paused", said(progressing));
    }
    if progressing.reason == reasons::COMPLETE {
        // Unknown when no site can be reached: then nothing was seen of the version.
        return match is(AVAILABLE, "False").or_else(|| is(AVAILABLE, "Unknown")) {
            None => Verdict::new(Outcome::Done, "Complete", complete(deployment)),
            Some(available) => Verdict::new(Outcome::Underway, "NotAvailable", said(available)),
        };
    }
    let state = match progressing.reason.as_str() {
        reasons::SOAKING => "Soaking",
        _ if progressing.status == "False" => "Stopped",
        _ => "RollingOut",
    };
    match is(STALLED, "True") {
        Some(stalled) => Verdict::new(Outcome::Failed, state, said(stalled)),
        None => Verdict::new(Outcome::Underway, state, said(progressing)),
    }
}

/// `version 1.3.0 is in all 100 sites`, as far as they can be reached.
fn complete(deployment: &SiteDeployment) -> String {
    let status = status(deployment);
    let version = status.version.unwrap_or_default();
    let (all, updated) = (status.counts.sites, status.counts.updated);
    if updated >= all {
        return format!("version {version} is in all {all} sites");
    }
    format!(
        "version {version} is in {updated} of {all} sites; {} offline",
        match status.counts.offline {
            1 => "1 is".to_owned(),
            offline => format!("{offline} are"),
        }
    )
}

/// What a condition says, in one line.
fn said(condition: &Condition) -> String {
    match collapse_whitespace(&condition.message) {
        message if message.is_empty() => condition.reason.clone(),
        message => message,
    }
}

#[cfg(test)]
mod tests {
    use baton_apis::SiteDeploymentStatus;
    use serde_json::Value;

    use super::*;
    use crate::sites::fixtures::{condition, deployment};

    fn judged(conditions: &[Value], change: impl Fn(&mut SiteDeployment)) -> (Outcome, String) {
        let mut deployment: SiteDeployment = serde_json::from_value(deployment("shop")).unwrap();
        let status = deployment
            .status
            .get_or_insert(SiteDeploymentStatus::default());
        status.conditions = serde_json::from_value(conditions.into()).unwrap();
        change(&mut deployment);
        let verdict = judge(&deployment);
        (
            verdict.outcome,
            format!("{}: {}", verdict.state, verdict.message),
        )
    }

    #[test]
    fn a_rollout_is_judged_by_what_was_reported() {
        use Outcome::{Done, Failed, Underway};
        let complete = || condition("Progressing", "False", reasons::COMPLETE, "");
        let rolling = || condition("Progressing", "True", reasons::ROLLING_OUT, "wave 2 of 3");
        let missing = || condition("Waiting", "True", reasons::VERSION_NOT_FOUND, "no 9.9");
        let keep = |_: &mut SiteDeployment| {};
        for (conditions, expected, text) in [
            (vec![], Underway, "Pending: waiting for the manager"),
            (vec![rolling()], Underway, "RollingOut: wave 2 of 3"),
            (
                vec![condition("Progressing", "True", reasons::SOAKING, "")],
                Underway,
                "Soaking: Soaking",
            ),
            (
                vec![complete()],
                Done,
                "Complete: version 1.2.0 is in 3 of 10 sites; 1 is offline",
            ),
            (
                vec![
                    complete(),
                    condition("Available", "False", "X", "eu-1 is not"),
                ],
                Underway,
                "NotAvailable: eu-1 is not",
            ),
            (
                vec![
                    complete(),
                    condition("Available", "Unknown", "X", "all 3 are offline"),
                ],
                Underway,
                "NotAvailable: all 3 are offline",
            ),
            (
                vec![
                    condition("Progressing", "False", "Aborted", ""),
                    condition("Aborted", "True", reasons::SITE_FAILED, "eu-4\n failed"),
                ],
                Failed,
                "Aborted: eu-4 failed",
            ),
            (
                vec![condition("Progressing", "False", "X", ""), missing()],
                Underway,
                "Waiting: no 9.9",
            ),
            (
                vec![
                    condition("Placed", "False", "InvalidExpression", "at 4"),
                    rolling(),
                ],
                Failed,
                "NotPlaced: at 4",
            ),
            (
                vec![
                    condition("Placed", "False", "Overlapping", "other"),
                    rolling(),
                ],
                Underway,
                "RollingOut: wave",
            ),
            (
                vec![
                    condition("Progressing", "False", "InvalidStrategy", "x"),
                    condition("Stalled", "True", "InvalidStrategy", "no canary"),
                ],
                Failed,
                "Stopped: no canary",
            ),
        ] {
            let (outcome, message) = judged(&conditions, keep);
            assert_eq!(outcome, expected, "{message}");
            assert!(message.starts_with(text), "{message}");
        }
        let stale = judged(&[complete()], |it| it.metadata.generation = Some(99));
        assert_eq!(stale.0, Underway);
        let paused = judged(&[rolling()], |it| it.spec.paused = true);
        assert_eq!(paused.1, "Paused: wave 2 of 3");
        let deleted = judged(&[complete()], |it| {
            it.metadata.deletion_timestamp = it.metadata.creation_timestamp.clone();
        });
        assert_eq!(deleted.0, Failed);
        let all = judged(&[complete()], |it| {
            it.status.as_mut().unwrap().counts.updated = 10;
        });
        assert_eq!(all.1, "Complete: version 1.2.0 is in all 10 sites");
    }
}
