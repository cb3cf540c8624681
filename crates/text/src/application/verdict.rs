//! Sentences about Applications and Releases.

use baton_view::applications::{
    clusters::Trouble,
    observed::ReleaseTargetKind,
    picture::ApplicationNote,
    state::{Reason, Verdict},
};

/// The state or the reason of a wait in one line, with the Release that it is about.
pub fn message(verdict: &Verdict) -> String {
    let mut text = reason(&verdict.reason);
    if let Some(release) = &verdict.release {
        text = format!("release {release} {text}");
    }
    match &verdict.about {
        Some(about) => format!("{text}; {about}"),
        None => text,
    }
}

/// A reason, in words; that of a Release follows its name.
pub fn reason(reason: &Reason) -> String {
    match reason {
        Reason::ReleaseGone(name) => format!("release {name} has been deleted"),
        Reason::Gone => "the application has been deleted".to_owned(),
        Reason::ApplicationDeleting => "the application is being deleted".to_owned(),
        Reason::NoOrder(why) => why.clone(),
        Reason::NoRelease => "there is no release yet".to_owned(),
        Reason::TemplateChanged => "waiting for the release of the present template".to_owned(),
        Reason::Deleting(None) => "is being deleted".to_owned(),
        Reason::Deleting(Some(why)) => format!("is being deleted; {why}"),
        Reason::NoGeneration => "has no generation, so its place is unknown".to_owned(),
        Reason::Replaced(newer) => format!("never completed, and is replaced by {newer}"),
        Reason::Follows(newer) => format!("is complete, and follows {newer}"),
        Reason::Blocked(why) => format!("is blocked: {why}"),
        Reason::NotScheduled(why) => format!("is not scheduled: {why}"),
        Reason::StrategyFailed(why) => format!("cannot follow its strategy: {why}"),
        Reason::NoSteps => "has no steps in its strategy".to_owned(),
        Reason::NoStep(step) => format!("has no step {step} in its strategy"),
        Reason::Unreported(step) => format!("waits for the manager to report on step {step}"),
        Reason::WaitsFor(part, step, None) => format!("waits for {} at step {step}", word(*part)),
        Reason::WaitsFor(part, step, Some(detail)) => {
            format!("waits for {} at step {step}: {detail}", word(*part))
        }
        Reason::Complete(step) => format!("is complete, at step {step}"),
        Reason::WaitsForCommand(step) => format!("is at step {step} and waits to be promoted"),
        Reason::Unrecorded(step) => format!("waits for step {step} to be recorded"),
    }
}

/// Remarks about an Application as a whole.
pub fn notes(notes: &[ApplicationNote]) -> String {
    let texts = notes.iter().map(|note| match note {
        ApplicationNote::Reason(why) => reason(why),
        ApplicationNote::Condition(text) => text.clone(),
        ApplicationNote::SameGeneration(first, second, generation) => {
            format!("releases {first} and {second} both have generation {generation}")
        }
        ApplicationNote::NoRevisions(why) => format!("its revisions cannot be read: {why}"),
    });
    texts.collect::<Vec<_>>().join("; ")
}

/// The problems of a Release in a cluster.
pub fn troubles(troubles: &[Trouble]) -> String {
    let texts = troubles.iter().map(|trouble| match trouble {
        Trouble::NoTargets => "the release has no targets".to_owned(),
        Trouble::Unreadable(part, why) => format!("the {} cannot be read: {why}", kind(*part)),
        Trouble::Missing(part) => format!("there is no {}", kind(*part)),
        Trouble::NotNamed(part) => format!("the {} does not name it", kind(*part)),
        Trouble::Reported(part, text) => format!("{}: {text}", word(*part)),
        Trouble::NotOfRelease => "the release does not name this cluster".to_owned(),
    });
    texts.collect::<Vec<_>>().join("; ")
}

fn word(part: ReleaseTargetKind) -> &'static str {
    match part {
        ReleaseTargetKind::Installation => "installation",
        ReleaseTargetKind::Capacity => "capacity",
        ReleaseTargetKind::Traffic => "traffic",
    }
}

fn kind(part: ReleaseTargetKind) -> &'static str {
    match part {
        ReleaseTargetKind::Installation => "InstallationTarget",
        ReleaseTargetKind::Capacity => "CapacityTarget",
        ReleaseTargetKind::Traffic => "TrafficTarget",
    }
}

#[cfg(test)]
mod tests {
    use baton_apis::kinds;
    use baton_view::{
        applications::{state::judge, target::AppTarget},
        rollout::Outcome,
    };
    use serde_json::{Value, json};

    use super::*;
    use crate::application::fixtures::{
        application, at_step, condition, environment, mid_rollout, named, observed, release,
        strategy,
    };

    /// The outcome, true if the Release waits for a promotion, and the text.
    fn judged(objects: &[Value]) -> (Outcome, bool, String) {
        let verdict = judge(&observed(objects));
        let text = message(&verdict);
        (verdict.outcome, verdict.waits_for_command(), text)
    }

    /// An Application with one Release.
    fn alone(target_step: i64, status: &Value) -> Vec<Value> {
        let environment = environment("1.1.0", 6);
        vec![
            application(&environment),
            release("new", 0, target_step, &environment, status),
        ]
    }

    #[test]
    fn a_rollout_is_judged_by_its_newest_release() {
        let environment = environment("1.1.0", 6);
        let underway = |text: &str| (Outcome::Underway, false, text.to_owned());
        let failed = |text: &str| (Outcome::Failed, false, text.to_owned());
        let is = |type_: &str, status: &str, reason: &str, message: &str| {
            let condition = condition(type_, status, reason, message);
            json!({ "conditions": [condition] })
        };
        let last = at_step(2, "full on");
        let mut installed = at_step(0, "staging");
        installed["strategy"]["conditions"] = json!([strategy(
            "ContenderAchievedInstallation",
            false,
            0,
            "pending"
        )]);
        let mut achieved_only = at_step(0, "staging");
        achieved_only["strategy"] = Value::Null;
        for (objects, expected) in [
            (
                vec![application(&environment)],
                underway("there is no release yet"),
            ),
            (
                alone(0, &json!({})),
                underway("release shop-new-0 waits for the manager to report on step 0 (staging)"),
            ),
            (
                alone(0, &Value::Null),
                underway("release shop-new-0 waits for the manager to report on step 0 (staging)"),
            ),
            (
                alone(0, &achieved_only),
                underway("release shop-new-0 waits for the manager to report on step 0 (staging)"),
            ),
            (
                alone(0, &installed),
                underway("release shop-new-0 waits for installation at step 0 (staging): pending"),
            ),
            (
                alone(0, &at_step(0, "staging")),
                (
                    Outcome::Underway,
                    true,
                    "release shop-new-0 is at step 0 (staging) and waits to be promoted".to_owned(),
                ),
            ),
            // The step was changed a moment ago.
            (
                alone(1, &at_step(0, "staging")),
                underway("release shop-new-0 waits for the manager to report on step 1 (50/50)"),
            ),
            (
                alone(2, &last),
                (
                    Outcome::Done,
                    false,
                    "release shop-new-0 is complete, at step 2 (full on)".to_owned(),
                ),
            ),
            (
                alone(3, &last),
                failed("release shop-new-0 has no step 3 in its strategy"),
            ),
            (
                alone(
                    0,
                    &is("Blocked", "True", "RolloutsBlocked", "block a/b exists"),
                ),
                underway("release shop-new-0 is blocked: RolloutsBlocked: block a/b exists"),
            ),
            (
                alone(
                    0,
                    &is(
                        "Scheduled",
                        "False",
                        "NotEnoughClustersInRegion",
                        "one\n of two",
                    ),
                ),
                underway(
                    "release shop-new-0 is not scheduled: NotEnoughClustersInRegion: one of two",
                ),
            ),
            (
                alone(0, &is("Scheduled", "False", "NoRegionsSpecified", "")),
                failed("release shop-new-0 is not scheduled: NoRegionsSpecified"),
            ),
            (
                alone(0, &is("StrategyExecuted", "False", "", "")),
                underway(
                    "release shop-new-0 cannot follow its strategy: StrategyExecuted is False",
                ),
            ),
        ] {
            assert_eq!(judged(&objects), expected);
        }
    }

    #[test]
    fn a_release_that_lost_pods_is_not_complete() {
        let mut last = at_step(2, "full on");
        last["strategy"]["conditions"][0] =
            strategy("ContenderAchievedCapacity", false, 2, "1 of 6");
        let text = "release shop-new-0 waits for capacity at step 2 (full on): 1 of 6";
        assert_eq!(
            judged(&alone(2, &last)),
            (Outcome::Underway, false, text.to_owned())
        );
    }

    #[test]
    fn an_unfinished_rollout_is_reported_with_its_obstacle() {
        let mut objects = mid_rollout();
        objects[0]["spec"]["template"] = environment("~2", 6);
        objects[0]["status"]["conditions"] = json!([condition(
            "RollingOut",
            "False",
            "ChartVersionResolutionFailed",
            "no chart version found"
        )]);
        let (outcome, _, text) = judged(&objects);
        assert_eq!(outcome, Outcome::Underway);
        assert_eq!(
            text,
            "waiting for the release of the present template; ChartVersionResolutionFailed: no chart version found"
        );
        objects[2]["metadata"]["annotations"] = json!({});
        let (_, _, text) = judged(&objects);
        assert!(text.contains("release.generation"), "{text}");
        let mut objects = mid_rollout();
        objects[2]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        let (outcome, _, text) = judged(&objects);
        assert_eq!(
            (outcome, text.as_str()),
            (
                Outcome::Underway,
                "waiting for the release of the present template"
            )
        );
        objects[0]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        assert_eq!(judged(&objects).0, Outcome::Failed);
    }

    #[test]
    fn older_releases_are_done_once_they_have_completed() {
        let judged = |objects: &[Value], name: &str| {
            let target = AppTarget {
                kind: &kinds::RELEASE,
                name: name.to_owned(),
            };
            let verdict = judge(&named(objects, &target));
            (verdict.outcome, message(&verdict))
        };
        let mut objects = mid_rollout();
        assert_eq!(
            judged(&objects, "shop-old-0"),
            (
                Outcome::Done,
                "release shop-old-0 is complete, and follows shop-new-0".to_owned()
            )
        );
        assert_eq!(judged(&objects, "shop-new-0").0, Outcome::Underway);
        assert_eq!(
            judged(&objects, "shop-gone-0"),
            (
                Outcome::Failed,
                "release shop-gone-0 has been deleted".to_owned()
            )
        );
        objects[1]["status"] = json!({});
        assert_eq!(
            judged(&objects, "shop-old-0"),
            (
                Outcome::Failed,
                "release shop-old-0 never completed, and is replaced by shop-new-0".to_owned()
            )
        );
    }
}
