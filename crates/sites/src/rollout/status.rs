//! The status of a rollout.

use baton_apis::{
    EVERY_VERSION, SiteBatch, SiteDeploymentStatus,
    conditions::{ABORTED, AVAILABLE, PLACED, PROGRESSING, Reason, WAITING, shipper::BLOCKED},
};
use baton_engine::{condition_list::Conditions, readiness};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{
    Observed, Placement, Plan,
    abort::Abort,
    actions::left_behind,
    fleet::Fleet,
    latest_rollout::RolloutObstacle,
    placed::AFTERWARDS,
    step::{Situation, Step},
};
use crate::text;

/// Maximum length of the message of a condition, in bytes. It leaves room for all conditions and
/// the failing sites.
const MAX_MESSAGE: usize = 640;

/// Most sites that the message of a condition names.
const MAX_NAMED: usize = 5;

/// The status of a deployment, given its next step.
///
/// # Guarantees
/// - The status has at most 16 KiB as JSON, for any number of sites, if the names of sites are
///   label values.
/// - It only contains observed facts. Exceptions are the begin and the end of a rollout, which are
///   decided here.
pub(super) fn report(
    observed: &Observed<'_>,
    situation: &Situation<'_>,
    step: &Step,
    abort: Option<&Abort>,
) -> SiteDeploymentStatus {
    let course = situation.rollout;
    let mut conditions = Report::after(observed.status, observed.generation, observed.now);
    conditions.progressing(observed, situation, step, abort);
    conditions.available(situation.fleet);
    conditions.aborted(abort);
    conditions.placed(observed, situation.fleet);
    conditions.waiting(observed, step);
    conditions.blocked(observed);
    readiness::set_of_rollout(&mut conditions.list);
    let mut counts = situation.fleet.counts;
    if matches!(step, Step::Soaking(_)) {
        counts.soaking = count(situation.fleet.batch.available);
    }
    SiteDeploymentStatus {
        observed_generation: Some(observed.generation),
        rollout: (course.number > 0).then_some(course.number),
        application: (course.number > 0).then(|| course.version.application.to_owned()),
        version: (course.number > 0).then(|| course.version.version.to_owned()),
        previous_application: course
            .previous
            .map(|previous| previous.application)
            .filter(|previous| *previous != course.version.application)
            .map(str::to_owned),
        previous_version: course.previous.map(|previous| previous.version.to_owned()),
        completed_rollout: if situation.is_over(step) {
            Some(course.number)
        } else {
            course.completed
        },
        counts,
        batch: batch(situation, step),
        failing: situation.fleet.failing.clone(),
        conditions: conditions.list.into_list(),
    }
}

/// The status of a deployment that cannot be planned: `why` names the kind that cannot be listed,
/// and the cause. All other fields stay unchanged.
pub fn undecided(
    previous: &SiteDeploymentStatus,
    generation: i64,
    now: Timestamp,
    why: &str,
) -> SiteDeploymentStatus {
    let mut report = Report::after(previous, generation, now);
    report.set(PROGRESSING, "Unknown", Reason::ListFailed, why);
    report.into_status(previous)
}

impl Plan {
    /// Reports that the actions of the plan cannot be carried out, with the reason. They are
    /// retried.
    #[must_use]
    pub fn actions_failed(mut self, generation: i64, now: Timestamp, why: &str) -> Self {
        self.status = failed(&self.status, generation, now, why);
        self
    }
}

/// The status of a deployment for which a request is refused: `why` names the request and the
/// cause. The request is retried.
pub fn failed(
    previous: &SiteDeploymentStatus,
    generation: i64,
    now: Timestamp,
    why: &str,
) -> SiteDeploymentStatus {
    let mut report = Report::after(previous, generation, now);
    // A rollout that was aborted or waits for a user reports that instead.
    let reports_other = report.list.get(PROGRESSING).is_some_and(|it| {
        it.status == "Unknown" || (it.status == "False" && it.reason != Reason::Complete)
    });
    if reports_other {
        return previous.clone();
    }
    report.set(PROGRESSING, "True", Reason::RevisionRefused, why);
    report.into_status(previous)
}

/// The current batch. Its sites are listed when all of them were observed.
fn batch(situation: &Situation<'_>, step: &Step) -> Option<SiteBatch> {
    let fleet = situation.fleet;
    let new = |number: i32, sites: usize| SiteBatch {
        number,
        of: of(situation, number, fleet.to_come.saturating_sub(sites)),
        ..SiteBatch::default()
    };
    match step {
        _ if situation.is_over(step) => None,
        Step::Give { batch, sites } => Some(new(*batch, sites.len())),
        Step::NoSites | Step::Held(_) | Step::Aborted if !situation.rollout.is_new => {
            situation.status.batch.clone()
        }
        Step::NoSites
        | Step::Held(_)
        | Step::Aborted
        | Step::Underway
        | Step::OutOfReach
        | Step::Soaking(_)
        | Step::Complete => {
            let healthy_since = fleet.batch.since.filter(|_| fleet.batch.pending() == 0);
            Some(SiteBatch {
                sites: fleet.batch.listed.iter().map(ToString::to_string).collect(),
                healthy_since: healthy_since.map(Time),
                ..new(fleet.batch.number.max(1), 0)
            })
        }
    }
}

/// The number of batches, if `to_come` sites follow after the batch `number`.
fn of(situation: &Situation<'_>, number: i32, to_come: usize) -> i32 {
    let Ok(strategy) = situation.strategy else {
        return number;
    };
    let following = match strategy.wave(number.saturating_add(1)).limit {
        None => to_come.min(1),
        Some(limit) => to_come.div_ceil(limit),
    };
    number.saturating_add(count(following))
}

fn count(sites: usize) -> i32 {
    i32::try_from(sites).unwrap_or(i32::MAX)
}

struct Report {
    list: Conditions,
}

impl Report {
    fn after(previous: &SiteDeploymentStatus, generation: i64, now: Timestamp) -> Self {
        Self {
            list: Conditions::new(&previous.conditions, generation, now),
        }
    }

    /// The previous status with these conditions.
    fn into_status(mut self, previous: &SiteDeploymentStatus) -> SiteDeploymentStatus {
        readiness::set_of_rollout(&mut self.list);
        SiteDeploymentStatus {
            conditions: self.list.into_list(),
            ..previous.clone()
        }
    }

    fn set(&mut self, type_: &str, status: &str, reason: Reason, message: &str) {
        self.list
            .set(type_, status, reason, &text::line(message, MAX_MESSAGE));
    }

    fn progressing(
        &mut self,
        observed: &Observed<'_>,
        situation: &Situation<'_>,
        step: &Step,
        abort: Option<&Abort>,
    ) {
        let (fleet, version) = (situation.fleet, situation.rollout.version.version);
        let counts = &fleet.counts;
        let (status, reason, message) = match step {
            Step::Held(hold) => obstacle_condition(hold, observed),
            Step::NoSites => ("False", Reason::NoSites, "No site is placed.".to_owned()),
            Step::Aborted => {
                let number = situation.rollout.number;
                let mut text = format!("Rollout {number} of {version} was aborted.");
                let left: Vec<_> = left_behind(observed, situation, abort).collect();
                if !left.is_empty() {
                    let named: Vec<_> = left.iter().take(MAX_NAMED).map(|it| &***it).collect();
                    text = format!(
                        "{text} {} sites stay at it, because their earlier version is not kept, or they had none: {}{}",
                        left.len(),
                        named.join(", "),
                        if left.len() > MAX_NAMED { ", ..." } else { "." },
                    );
                }
                ("False", Reason::Aborted, text)
            }
            Step::Complete => {
                let text = format!(
                    "{} of {} sites have {version}.",
                    counts.updated, counts.sites
                );
                ("False", Reason::Complete, text)
            }
            Step::OutOfReach => {
                let text = format!("{version} waits for a site that can be reached.");
                ("True", Reason::RollingOut, text)
            }
            Step::Soaking(until) => {
                let batch = &fleet.batch;
                let text = format!(
                    "Wave {}: {} sites have to stay available until {until:.0}.",
                    batch.number, batch.available
                );
                ("True", Reason::Soaking, text)
            }
            Step::Give {
                batch: AFTERWARDS,
                sites,
            } => {
                let text = format!(
                    "{version} is brought to {} sites that were added later.",
                    sites.len()
                );
                ("True", Reason::RollingOut, text)
            }
            Step::Give { batch, .. } => {
                let text = format!("{version} is brought to wave {batch}.");
                ("True", Reason::RollingOut, text)
            }
            Step::Underway if situation.rollout.is_over() => {
                let text = format!(
                    "{} of {} sites have {version}; {} that were added later are in progress or wait in their queue.",
                    counts.updated, counts.sites, fleet.afterwards
                );
                ("True", Reason::RollingOut, text)
            }
            Step::Underway => ("True", Reason::RollingOut, underway(fleet)),
        };
        self.set(PROGRESSING, status, reason, &message);
    }

    fn available(&mut self, fleet: &Fleet<'_>) {
        let (available, in_reach) = (fleet.available, fleet.in_reach);
        let text = format!("{available} of {in_reach} sites that can be reached are available.");
        let (status, reason) = match (fleet.placed.len(), in_reach) {
            (0, _) => ("Unknown", Reason::NoSites),
            (_, 0) => ("Unknown", Reason::ClusterUnreachable),
            _ if available == in_reach => ("True", Reason::Available),
            _ => ("False", Reason::SitesUnavailable),
        };
        self.set(AVAILABLE, status, reason, &text);
    }

    fn aborted(&mut self, abort: Option<&Abort>) {
        match abort {
            Some(abort) => {
                let message = text::line(&abort.message, MAX_MESSAGE);
                self.list.copy(ABORTED, "True", &abort.reason, &message);
            }
            None => self.list.remove(ABORTED),
        }
    }

    fn placed(&mut self, observed: &Observed<'_>, fleet: &Fleet<'_>) {
        let sites = fleet.placed.len();
        let (status, reason, message) = match &observed.placement {
            Placement::Invalid(error) => ("False", Reason::InvalidExpression, error.clone()),
            Placement::Overlapping(text) => ("False", Reason::Overlapping, text.clone()),
            Placement::Placed(_) if sites == 0 => (
                "False",
                Reason::NoSites,
                "No site that the namespace may use matches.".to_owned(),
            ),
            Placement::Placed(None) => ("True", Reason::Placed, format!("{sites} sites.")),
            Placement::Placed(Some(text)) => {
                ("True", Reason::Placed, format!("{sites} sites. {text}"))
            }
        };
        self.set(PLACED, status, reason, &message);
    }

    fn blocked(&mut self, observed: &Observed<'_>) {
        match observed.blocks.condition() {
            Some((status, reason, message)) => self.set(BLOCKED, status, reason, &message),
            None => self.list.remove(BLOCKED),
        }
    }

    fn waiting(&mut self, observed: &Observed<'_>, step: &Step) {
        match step {
            Step::Held(hold @ (RolloutObstacle::NoApplication | RolloutObstacle::NoVersion)) => {
                let (_, reason, message) = obstacle_condition(hold, observed);
                self.set(WAITING, "True", reason, &message);
            }
            _ => self.list.remove(WAITING),
        }
    }
}

/// Status, reason and message of a rollout on hold.
fn obstacle_condition(
    hold: &RolloutObstacle,
    observed: &Observed<'_>,
) -> (&'static str, Reason, String) {
    let application = &observed.spec.application;
    match hold {
        RolloutObstacle::NoApplication => {
            let text = format!("There is no SiteApplication {application}.");
            ("False", Reason::ApplicationNotFound, text)
        }
        RolloutObstacle::NoVersion => {
            let text = match observed.spec.application_version.as_str() {
                EVERY_VERSION => format!("SiteApplication {application} has no version yet."),
                version => format!("SiteApplication {application} has no version {version}."),
            };
            ("False", Reason::VersionNotFound, text)
        }
        RolloutObstacle::Invalid(error) => ("False", Reason::InvalidStrategy, error.to_string()),
        RolloutObstacle::Paused => {
            let text = "No version is brought to sites while spec.paused is true.";
            ("Unknown", Reason::Paused, text.to_owned())
        }
        RolloutObstacle::Blocked(reason, text) => ("Unknown", *reason, text.clone()),
        RolloutObstacle::NoNumber(text) => ("False", Reason::NumbersExhausted, text.clone()),
        RolloutObstacle::Ending => {
            let text = "Revisions of the aborted rollout that have not begun are deleted first.";
            ("True", Reason::RollingOut, text.to_owned())
        }
    }
}

/// The message about the progress of the current batch.
fn underway(fleet: &Fleet<'_>) -> String {
    let (batch, late) = (&fleet.batch, fleet.late.queued + fleet.late.begun);
    let mut text = format!(
        "Wave {}: {} of {} sites available, {} in progress, {} waiting in their queue, {} failed, {} out of reach.",
        batch.number,
        batch.available,
        batch.members,
        batch.begun,
        batch.queued,
        batch.failed,
        batch.members - batch.online(),
    );
    if late > 0 {
        let late = format!(" {late} sites of earlier waves are not available yet.");
        text.push_str(&late);
    }
    if fleet.earlier > 0 {
        let earlier = format!(
            " {} sites have it from an earlier rollout and are in progress or wait in their queue.",
            fleet.earlier
        );
        text.push_str(&earlier);
    }
    text
}
