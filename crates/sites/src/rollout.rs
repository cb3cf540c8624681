//! The sites that get a version next, the revisions that are taken back, and the status.
//!
//! [`plan`] consists of steps: the numbers of the strategy, the course of the rollout, the state of
//! all sites, an abort, the next step, and from these the status and the actions. The members of
//! each batch are read from the revisions of sites. The status adds facts that revisions do not
//! have: the number and the version of the rollout, its abort, and the current batch.

mod abort;
mod actions;
pub mod current;
pub mod failure;
mod fleet;
mod latest_rollout;
mod order;
mod placed;
#[cfg(test)]
mod properties;
mod queue;
pub mod sample;
pub mod standing;
mod status;
mod step;
pub mod strategy;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod world;

use std::{collections::BTreeMap, fmt, sync::Arc};

use baton_apis::{
    SiteDeploymentSpec, SiteDeploymentStatus, SiteEntry, SiteStop, conditions::Reason,
};
use baton_engine::rollout_blocks::Effect;
use jiff::{SignedDuration, Timestamp};

pub use self::status::{failed, undecided};
use self::{
    abort::Abort,
    current::CurrentRollout,
    fleet::{Fleet, earlier},
    latest_rollout::LatestRollout,
    order::Seed,
    step::{Situation, Step},
    strategy::Strategy,
};
use crate::uptime::Uptime;

/// The facts that a plan of a rollout is based on.
#[derive(Clone, Debug)]
pub struct Observed<'a> {
    /// Name of the deployment.
    pub name: &'a str,
    /// UID of the deployment.
    pub uid: &'a str,
    /// Generation of the deployment.
    pub generation: i64,
    /// Spec of the deployment.
    pub spec: &'a SiteDeploymentSpec,
    /// Last reported status of the deployment.
    pub status: &'a SiteDeploymentStatus,
    /// Version that the spec requests.
    pub target: Target,
    /// The kept versions of the application, and of other applications that its sites have: a
    /// rollback restores one of them.
    pub versions: &'a Versions,
    /// State of the placement.
    pub placement: Placement,
    /// The sites of the deployment by name: those that are placed, and those that only have
    /// revisions.
    pub sites: &'a BTreeMap<Arc<str>, Site>,
    /// Names a revision by deployment, site and number. The same number always gets the same name,
    /// so a revision is not created twice.
    pub revision_name: fn(deployment: &str, site: &str, number: i64) -> String,
    /// Names of existing revisions, also of those that are not in the chains of the sites.
    pub is_taken: IsTaken<'a>,
    /// The effect of rollout blocks on the deployment.
    pub blocks: &'a Effect,
    /// The present time.
    pub now: Timestamp,
}

impl Observed<'_> {
    /// True if the deployment is paused or blocked: nothing is brought to a site or removed from one.
    fn is_held(&self) -> bool {
        self.spec.paused || self.blocks.hold().is_some()
    }
}

/// Returns true for the name of an existing revision.
#[derive(Clone, Copy)]
pub struct IsTaken<'a>(pub &'a dyn Fn(&str) -> bool);

impl fmt::Debug for IsTaken<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IsTaken")
    }
}

/// The version that the spec requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The application does not exist.
    NoApplication,
    /// The application does not have the version.
    NoVersion,
    /// The version exists.
    Version(Arc<str>),
}

/// Versions by the name of their application, and by [`Version::version`].
pub type Versions = BTreeMap<Arc<str>, BTreeMap<Arc<str>, Version>>;

/// The name of a version. Versions of different applications are unrelated, even if they have the
/// same name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct VersionName<'a> {
    /// Name of the version.
    pub version: &'a str,
    /// Name of the application.
    pub application: &'a str,
}

impl<'a> VersionName<'a> {
    /// The version of the entry of a revision.
    #[must_use]
    pub fn of(entry: &'a SiteEntry) -> Self {
        Self {
            version: &entry.version,
            application: &entry.application,
        }
    }
}

/// The current and the previous version in the status of a deployment with this spec.
pub fn reported<'a>(
    spec: &'a SiteDeploymentSpec,
    status: &'a SiteDeploymentStatus,
) -> [Option<VersionName<'a>>; 2] {
    let application = status.application.as_deref().unwrap_or(&spec.application);
    let before = status.previous_application.as_deref();
    let named = |version: &'a Option<String>, application| {
        let version = version.as_deref()?;
        Some(VersionName {
            version,
            application,
        })
    };
    [
        named(&status.version, application),
        named(&status.previous_version, before.unwrap_or(application)),
    ]
}

impl<'a> Observed<'a> {
    /// A version, if it is kept.
    fn version(&self, name: VersionName<'_>) -> Option<&'a Version> {
        self.versions.get(name.application)?.get(name.version)
    }
}

/// A version of an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// Name of the version.
    pub version: Arc<str>,
    /// Identifier of the newest edit.
    pub edit: Arc<str>,
    /// Names of the phases, in order.
    pub phases: Vec<String>,
    /// Workloads of the version before that stop for this version.
    pub stop: SiteStop,
    /// True if the version has probes; without probes its health is unknown.
    pub has_probes: bool,
    /// Minimum time for which sites of a wave have to stay available; a strategy can only extend it.
    pub success_delay: SignedDuration,
}

/// The state of the placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// The sites were chosen; the text names sites that another deployment wants as well.
    Placed(Option<String>),
    /// The expression is invalid, with the reason; the last placement stays in force.
    Invalid(String),
    /// Some sites belong to another deployment, which the text names.
    Overlapping(String),
}

/// A site as a plan sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Site {
    /// True if the site is placed. The revisions of other sites are deleted.
    pub is_placed: bool,
    /// True if the site can be reached now.
    pub is_online: bool,
    /// The times since which the site can be reached.
    pub uptime: Uptime,
    /// True if the labels of the site match [`strategy::canary_expression`], so that it belongs to
    /// the first sites.
    pub is_canary: bool,
    /// Revisions of the site, the oldest first, including archived ones.
    pub chain: Vec<Revision>,
}

/// A revision of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision {
    /// Name of the revision.
    pub name: Arc<str>,
    /// Number of the revision in the chain.
    pub number: i64,
    /// Entry of the revision.
    pub entry: Arc<SiteEntry>,
    /// State of the revision.
    pub state: RevisionState,
    /// Reports if the revision has begun in its site, as far as observed; also for an archived
    /// revision.
    pub beginning: RevisionStart,
    /// True if the revision is being deleted.
    pub is_deleting: bool,
    /// True if the life cycle state is already `Archived`.
    pub is_archiving: bool,
}

/// The beginning of a revision in its site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevisionStart {
    /// The revision has not begun, as far as observed.
    None,
    /// Older workloads stop for the revision. It has written nothing.
    Stopping,
    /// The revision has begun, and may have written objects.
    Begun,
}

/// The state of a revision of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RevisionState {
    /// The revision was given to the site, and has not begun as far as observed.
    Queued,
    /// The revision was skipped in the queue.
    Skipped,
    /// The revision has begun, or something else than its place in the queue prevents that; it is
    /// not available yet. The plan decides how long that may take.
    Started {
        /// Time since which this is the state.
        since: Timestamp,
        /// Reason that the revision is not available, for people, if it was reported.
        message: Option<Arc<str>>,
    },
    /// The revision has been available since this time.
    Available(Timestamp),
    /// The revision was refused (`Reason::REFUSALS`), or is not available any more: reason and
    /// message of the condition.
    Failing {
        /// Reason in one word.
        reason: Reason,
        /// Message for people.
        message: Arc<str>,
    },
    /// The current state is not known, because the site cannot be reached.
    Unknown,
    /// The objects of the revision are gone or belong to newer revisions.
    Archived,
}

/// The actions of a plan, in their order, and the status.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Status to write. A status with a new abort is written before anything else.
    pub status: SiteDeploymentStatus,
    /// True if `status` has to be written before the actions.
    pub status_first: bool,
    /// Actions, grouped by site: a revision is given again before it is withdrawn.
    pub actions: Vec<Action>,
    /// Time of the next plan if nothing changes.
    pub again_at: Option<Timestamp>,
}

/// Plans the next actions, and the status.
///
/// # Guarantees
/// - The same state always gives the same plan. If there is nothing to do and nothing has changed,
///   the status equals the previous one.
/// - The status and the actions may be carried out in part, in their order, and the rest may be
///   lost with a restart: the next plan does what is left. A number that is given again gets the
///   same name.
/// - Sites that have nothing of an aborted rollout get nothing of it.
///
/// # Caveats
/// - Status, sites and revisions have to be at least as new as the last write for this deployment.
pub fn plan(observed: &Observed<'_>) -> Plan {
    let sites = observed
        .sites
        .values()
        .filter(|site| site.is_placed)
        .count();
    let strategy = Strategy::of(observed, sites);
    let course = LatestRollout::of(observed, strategy.as_ref());
    let current = CurrentRollout {
        rollout: course.number,
        version: course.version,
        batch: course.batch,
        soaking: None,
        is_first_by_labels: strategy.as_ref().is_ok_and(|it| it.wave(1).by_labels),
        deadline: strategy::deadline(&observed.spec.strategy),
        failing: &observed.status.failing,
        now: observed.now,
    };
    let fleet = Fleet::survey(observed, &current);
    let situation = Situation {
        status: observed.status,
        rollout: &course,
        strategy: strategy.as_ref(),
        fleet: &fleet,
        current: &current,
        seed: Seed::new(observed.uid, course.version.version),
    };
    let abort = Abort::of(observed, &situation);
    let step = situation.next(abort.is_some());
    let status = status::report(observed, &situation, &step, abort.as_ref());
    let (actions, hindrance) = actions::of(observed, &situation, &step, abort.as_ref());
    let plan = Plan {
        status_first: course.is_new
            || abort.as_ref().is_some_and(|abort| abort.is_new)
            || (observed.status.batch.is_none() && status.batch.is_some()),
        status,
        actions,
        again_at: again_at(&fleet, &step),
    };
    match hindrance {
        Some(why) => plan.actions_failed(observed.generation, observed.now, &why),
        None => plan,
    }
}

/// The next time at which the plan changes without an event.
fn again_at(fleet: &Fleet<'_>, step: &Step) -> Option<Timestamp> {
    let soaked = match step {
        Step::Soaking(until) => Some(*until),
        _ => None,
    };
    earlier(fleet.deadline, soaked)
}

/// The common entry of revisions that bring the same version to sites. It is shared, because there
/// are thousands of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedEntry(Arc<SiteEntry>);

impl SharedEntry {
    /// The entry for the revision of a site.
    pub fn to(&self, site: &str) -> SiteEntry {
        SiteEntry {
            site: site.to_owned(),
            ..SiteEntry::clone(&self.0)
        }
    }

    /// The version, and the identifier of its edit.
    pub fn content(&self) -> (VersionName<'_>, &str) {
        (VersionName::of(&self.0), &self.0.edit)
    }
}

/// An action in a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Create the next revision of the chain.
    Give {
        /// Name of the site.
        site: Arc<str>,
        /// Number of the revision.
        number: i64,
        /// Name of the revision.
        name: Arc<str>,
        /// Entry of the revision.
        entry: SharedEntry,
        /// Names of the revisions that it takes objects over from, the newest first: all that are
        /// not archived, including those that the same plan gives or withdraws.
        previous: Vec<Arc<str>>,
    },
    /// Delete a revision that has not begun, so that it never begins. If it has begun in the
    /// meantime, it hands its objects back.
    Withdraw {
        /// Name of the revision.
        revision: Arc<str>,
    },
    /// Archive a revision.
    Archive {
        /// Name of the revision.
        revision: Arc<str>,
    },
    /// Delete an archived revision that is beyond the history limit.
    Forget {
        /// Name of the revision.
        revision: Arc<str>,
    },
    /// Delete a revision of a site that is no longer placed.
    TearDown {
        /// Name of the revision.
        revision: Arc<str>,
    },
}
