//! How far a rollout is, and what it waits for.

use baton_apis::{
    ConditionStatus, Release, RolloutStep, ShipperCondition, StrategyState,
    conditions::shipper::{
        ABORTING, BLOCKED, RELEASE_SYNCED, REPLACED, ROLLING_OUT, SCHEDULED, STRATEGY_EXECUTED,
        VALID_HISTORY,
        reasons::{
            BROKEN_CHART_SPEC, DUPLICATE_CAPABILITY_REQUIREMENT, NO_REGIONS_SPECIFIED,
            WRONG_CHART_DEPLOYMENTS,
        },
    },
};
use baton_engine::texts::collapse_whitespace;
use baton_releases::{
    application::history::{History, Member},
    conditions::find,
    hash::environment_hash,
    strategy::{
        order::{Direction, Position},
        state,
    },
};
use baton_view::rollout::Outcome;

use super::{clusters::why, read::Observed};

/// How an Application or a Release is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) outcome: Outcome,
    /// Whether only a person makes it go on, by a promotion.
    pub(crate) waits_for_command: bool,
    /// The Release that the message is about; `None` for the Application.
    pub(crate) release: Option<String>,
    /// What it is or waits for, in one line.
    pub(crate) message: String,
}

impl Verdict {
    fn new(outcome: Outcome, message: impl Into<String>) -> Self {
        Self {
            outcome,
            waits_for_command: false,
            release: None,
            message: message.into(),
        }
    }

    /// The message with the Release that it is about.
    pub(crate) fn text(&self) -> String {
        match &self.release {
            Some(release) => format!("release {release} {}", self.message),
            None => self.message.clone(),
        }
    }

    fn underway(message: impl Into<String>) -> Self {
        Self::new(Outcome::Underway, message)
    }
}

/// Reasons of a Release that is not scheduled which only another Release is free of: its environment is immutable.
const FINAL: [&str; 4] = [
    BROKEN_CHART_SPEC,
    DUPLICATE_CAPABILITY_REQUIREMENT,
    NO_REGIONS_SPECIFIED,
    WRONG_CHART_DEPLOYMENTS,
];

/// Judges what a user named: an Application by its newest Release, or one of its Releases.
///
/// # Guarantees
/// `Done` only when the Release was made from the present template, is at its last step, and all that this step asks
/// for was reported to be there.
pub(crate) fn judge(observed: &Observed) -> Verdict {
    if let Some(name) = &observed.named {
        return match observed.release(name) {
            Some(release) => judge_release(observed, release),
            None => Verdict::new(Outcome::Failed, format!("release {name} has been deleted")),
        };
    }
    judge_application(observed)
}

/// Judges an Application by its newest Release, whatever the user named.
pub(crate) fn judge_application(observed: &Observed) -> Verdict {
    let Some(application) = &observed.application else {
        return Verdict::new(Outcome::Failed, "the application has been deleted");
    };
    if application.metadata.deletion_timestamp.is_some() {
        return Verdict::new(Outcome::Failed, "the application is being deleted");
    }
    if let Some(error) = observed.history().err() {
        return Verdict::underway(error.to_string());
    }
    let history = observed.known_history();
    let newest = history.as_ref().and_then(History::newest);
    let template = environment_hash(&application.spec.template);
    let Some(newest) = newest.filter(|newest| newest.hash() == template) else {
        let wait = match newest {
            None => "there is no release yet".to_owned(),
            Some(_) => "waiting for the release of the present template".to_owned(),
        };
        return Verdict::underway(with(wait, about(observed)));
    };
    let verdict = judge_release(observed, &newest.release);
    match about(observed) {
        // What keeps the Application from going on is no matter once all is done.
        Some(about) if verdict.outcome == Outcome::Underway => Verdict {
            message: with(verdict.message, Some(about)),
            ..verdict
        },
        _ => verdict,
    }
}

fn with(wait: String, about: Option<String>) -> String {
    match about {
        Some(about) => format!("{wait}; {about}"),
        None => wait,
    }
}

/// What the conditions of an Application say that nobody sees in its Releases.
pub(crate) fn about(observed: &Observed) -> Option<String> {
    let status = observed.application.as_ref()?.status.as_ref()?;
    let conditions = &status.conditions;
    let says = |type_: &str, status: ConditionStatus| {
        find(conditions, type_).filter(|condition| condition.status == status)
    };
    let found = says(BLOCKED, ConditionStatus::True)
        .or_else(|| says(VALID_HISTORY, ConditionStatus::False))
        .or_else(|| says(ABORTING, ConditionStatus::True))
        .or_else(|| says(RELEASE_SYNCED, ConditionStatus::False))
        // With a reason it is a failure; without one, nothing is under way.
        .or_else(|| {
            says(ROLLING_OUT, ConditionStatus::False).filter(|found| !found.reason.is_empty())
        });
    found.map(why)
}

/// Judges a Release by itself.
pub(crate) fn judge_release(observed: &Observed, release: &Release) -> Verdict {
    Verdict {
        release: release.metadata.name.clone(),
        ..judge_alone(observed, release)
    }
}

fn judge_alone(observed: &Observed, release: &Release) -> Verdict {
    let name = release.metadata.name.as_deref().unwrap_or_default();
    if release.metadata.deletion_timestamp.is_some() {
        let status = release.status.as_ref();
        let replaced = status.and_then(|status| find(&status.conditions, REPLACED));
        let why = replaced.map(|replaced| collapse_whitespace(&replaced.message));
        return Verdict::new(Outcome::Failed, with("is being deleted".to_owned(), why));
    }
    let history = observed.known_history();
    let members = history.as_ref().map_or_else(Vec::new, History::living);
    let place = members.iter().position(|member| member.name() == name);
    let newer = place.and_then(|place| members[place + 1..].first());
    if let Some(newer) = newer {
        return follower(release, members[place.unwrap_or_default()], newer);
    }
    if let Some(verdict) = refused(release) {
        return verdict;
    }
    let steps = steps(release);
    let target = release.spec.target_step;
    let Some(step) = step_at(release, target) else {
        let text = match steps.len() {
            0 => "has no steps in its strategy".to_owned(),
            _ => format!("has no step {target} in its strategy"),
        };
        return Verdict::new(Outcome::Failed, text);
    };
    let label = label(target, step);
    let is_last = is_last(release, target);
    let Some(waits) = waits(release, place.unwrap_or_default() > 0) else {
        let text = format!("waits for the manager to report on step {label}");
        return Verdict::underway(text);
    };
    let is_reached = achieved(release) == Some(target);
    let waits = match waits_for(waits) {
        Some(what) => {
            let failing = unsatisfied(release);
            let details = failing.into_iter().next().map(|text| format!(": {text}"));
            format!(
                "waits for {what} at step {label}{}",
                details.unwrap_or_default()
            )
        }
        None if is_reached && is_last => {
            return Verdict::new(Outcome::Done, format!("is complete, at step {label}"));
        }
        None if is_reached => {
            return Verdict {
                waits_for_command: true,
                ..Verdict::underway(format!("is at step {label} and waits to be promoted"))
            };
        }
        None => format!("waits for step {label} to be recorded"),
    };
    Verdict::underway(waits)
}

/// A Release that was replaced, or is being replaced.
fn follower(release: &Release, own: &Member<'_>, newer: &Member<'_>) -> Verdict {
    let newer = newer.name();
    if !own.is_complete() {
        let text = format!("never completed, and is replaced by {newer}");
        return Verdict::new(Outcome::Failed, text);
    }
    match refused(release) {
        Some(verdict) => verdict,
        None => Verdict::new(Outcome::Done, format!("is complete, and follows {newer}")),
    }
}

/// What keeps a Release from going through its strategy.
fn refused(release: &Release) -> Option<Verdict> {
    let status = release.status.as_ref()?;
    let says = |type_: &str, status_: ConditionStatus| {
        find(&status.conditions, type_).filter(|condition| condition.status == status_)
    };
    let tell = |what: &str, condition: &ShipperCondition| format!("{what}: {}", why(condition));
    if let Some(blocked) = says(BLOCKED, ConditionStatus::True) {
        return Some(Verdict::underway(tell("is blocked", blocked)));
    }
    if let Some(scheduled) = says(SCHEDULED, ConditionStatus::False) {
        let outcome = if FINAL.contains(&scheduled.reason.as_str()) {
            Outcome::Failed
        } else {
            Outcome::Underway
        };
        return Some(Verdict::new(outcome, tell("is not scheduled", scheduled)));
    }
    let failed = says(STRATEGY_EXECUTED, ConditionStatus::False)?;
    Some(Verdict::underway(tell(
        "cannot follow its strategy",
        failed,
    )))
}

/// The steps of the strategy of a Release.
pub(crate) fn steps(release: &Release) -> &[RolloutStep] {
    let strategy = release.spec.environment.strategy.as_ref();
    strategy.map_or(&[], |strategy| &strategy.steps)
}

/// The step of an index.
pub(crate) fn step_at(release: &Release, step: i32) -> Option<&RolloutStep> {
    usize::try_from(step)
        .ok()
        .and_then(|at| steps(release).get(at))
}

/// Whether a step is the last one.
pub(crate) fn is_last(release: &Release, step: i32) -> bool {
    usize::try_from(step).is_ok_and(|step| step + 1 == steps(release).len())
}

/// The step that a Release has reached.
pub(crate) fn achieved(release: &Release) -> Option<i32> {
    let status = release.status.as_ref()?;
    Some(status.achieved_step.as_ref()?.step)
}

/// `1 (50/50)`.
pub(crate) fn label(index: i32, step: &RolloutStep) -> String {
    match collapse_whitespace(&step.name) {
        name if name.is_empty() => index.to_string(),
        name => format!("{index} ({name})"),
    }
}

/// The step of an index as [`label`] has it, and its index alone where there is none.
pub(crate) fn label_at(release: &Release, index: i32) -> String {
    step_at(release, index).map_or_else(|| index.to_string(), |step| label(index, step))
}

/// What the newest Release waits for, by what was said of the step that it is to be at. `None`: nothing was.
fn waits(release: &Release, has_previous: bool) -> Option<StrategyState> {
    let status = release.status.as_ref()?;
    let conditions = &status.strategy.as_ref()?.conditions;
    let target = release.spec.target_step;
    if !conditions.iter().any(|condition| condition.step == target) {
        return None;
    }
    let position = Position::Head {
        previous: has_previous,
        direction: Direction::of(achieved(release), target),
    };
    Some(state(
        conditions,
        position,
        target,
        is_last(release, target),
    ))
}

/// What is waited for, in a word; `None` when that is at most a person.
fn waits_for(state: StrategyState) -> Option<&'static str> {
    let waits = [
        (state.waiting_for_installation, "installation"),
        (state.waiting_for_capacity, "capacity"),
        (state.waiting_for_traffic, "traffic"),
    ];
    let mut waits = waits.into_iter();
    let found = waits.find(|(status, _)| *status == ConditionStatus::True);
    found.map(|(_, what)| what)
}

/// The messages of those conditions of the strategy that do not hold at the present step.
pub(crate) fn unsatisfied(release: &Release) -> Vec<String> {
    let strategy = release.status.as_ref().and_then(|it| it.strategy.as_ref());
    let conditions = strategy.map_or(&[][..], |strategy| &strategy.conditions);
    let failing = conditions.iter().filter(|condition| {
        condition.status == ConditionStatus::False && condition.step == release.spec.target_step
    });
    failing
        .map(|condition| match collapse_whitespace(&condition.message) {
            message if message.is_empty() => condition.type_.clone(),
            message => message,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::applications::{
        fixtures::{
            application, at_step, condition, environment, mid_rollout, named, observed, release,
            strategy,
        },
        target::{AppKind, AppTarget},
    };

    /// Outcome, whether it waits for a promotion, and the text.
    fn judged(objects: &[Value]) -> (Outcome, bool, String) {
        let verdict = judge(&observed(objects));
        let text = verdict.text();
        (verdict.outcome, verdict.waits_for_command, text)
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
            // Sent on a moment ago.
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
    fn one_that_lost_pods_is_not_done() {
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
    fn an_application_says_what_keeps_it() {
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
    fn older_releases_are_done_once_they_were_complete() {
        let judged = |objects: &[Value], name: &str| {
            let target = AppTarget {
                kind: AppKind::Release,
                name: name.to_owned(),
            };
            let verdict = judge(&named(objects, &target));
            (verdict.outcome, verdict.text())
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
