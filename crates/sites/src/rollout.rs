//! Which sites get a version next, what is taken back, and what is reported.
//!
//! A plan is made in the steps that [`plan`] names: what the strategy asks for, which rollout it is, how all sites are,
//! whether the rollout ends early, what comes next, and from these the status and the actions. Which sites are in which
//! batch is read from their revisions; the status adds what these cannot say: the number and the version of the
//! rollout, that it was aborted, and which batch is under way. (Contract `sites.md`.)

mod abort;
mod actions;
mod course;
pub mod current;
pub mod failure;
mod fleet;
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

use std::{collections::BTreeMap, sync::Arc};

use baton_apis::{SiteDeploymentSpec, SiteDeploymentStatus, SiteEntry, SiteStop};
use jiff::{SignedDuration, Timestamp};

pub use self::status::undecided;
use self::{
    abort::Abort,
    course::Course,
    current::CurrentRollout,
    fleet::{Fleet, earlier},
    order::Seed,
    step::{Situation, Step},
    strategy::Strategy,
};

/// What a plan is made from.
#[derive(Clone, Debug)]
pub struct Observed<'a> {
    /// Name of the deployment.
    pub name: &'a str,
    /// Its UID.
    pub uid: &'a str,
    /// Its generation.
    pub generation: i64,
    /// Its spec.
    pub spec: &'a SiteDeploymentSpec,
    /// Its status, as it was reported last.
    pub status: &'a SiteDeploymentStatus,
    /// The version to be brought.
    pub target: Target,
    /// Versions that are kept of its application, and of others of which its sites have some: a rollback goes back to
    /// one of them.
    pub versions: &'a Versions,
    /// What was found out about the placement.
    pub placement: Placement,
    /// The sites that the deployment has: those placed, and those that only have revisions, by name.
    pub sites: &'a BTreeMap<Arc<str>, Site>,
    /// How a revision is named, from the deployment, the site and the number. The same number has the same name, so a
    /// revision that was made already is not made twice.
    pub revision_name: fn(deployment: &str, site: &str, number: i64) -> String,
    /// The present time.
    pub now: Timestamp,
}

/// The version that the spec asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// There is no application of that name.
    NoApplication,
    /// The application has no such version.
    NoVersion,
    /// This one.
    Version(Arc<str>),
}

/// Versions by the name of their application, and by [`Version::version`].
pub type Versions = BTreeMap<Arc<str>, BTreeMap<Arc<str>, Version>>;

/// Names a version. Those of different applications have nothing to do with each other, whatever they are called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct VersionName<'a> {
    /// The version.
    pub version: &'a str,
    /// Its application.
    pub application: &'a str,
}

impl<'a> VersionName<'a> {
    /// That of what a revision of a site brings.
    #[must_use]
    pub fn of(entry: &'a SiteEntry) -> Self {
        Self {
            version: &entry.version,
            application: &entry.application,
        }
    }
}

/// What the status of a deployment with this spec says that is brought, and what was before.
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
    /// The version.
    pub version: Arc<str>,
    /// Its newest edit.
    pub edit: Arc<str>,
    /// Names of its phases, in order.
    pub phases: Vec<String>,
    /// Which workloads of the version before stop for it.
    pub stop: SiteStop,
    /// Whether it has probes: without, nothing is known of its health.
    pub has_probes: bool,
    /// How long sites of a wave have to stay available at least, whatever the strategy says.
    pub success_delay: SignedDuration,
}

/// What is known of the choice of sites.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// The sites were chosen; the text names sites that another deployment wanted as well.
    Placed(Option<String>),
    /// The expression cannot be understood, and why; the last choice stays in force.
    Invalid(String),
    /// Some sites belong to another deployment; the text says which.
    Overlapping(String),
}

/// A site.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Site {
    /// Whether it is placed. One that is not has its revisions taken away.
    pub is_placed: bool,
    /// Whether it can be reached now.
    pub is_online: bool,
    /// Since when, without interruption, as far as that is known. A later time than the true one gives what is under
    /// way there more time; an earlier one makes it fail for what an interruption held up.
    pub online_since: Option<Timestamp>,
    /// Whether its labels match [`strategy::canary_expression`], if there is one: it is one of those that come first.
    pub is_canary: bool,
    /// Its revisions, the oldest first, archived ones included.
    pub chain: Vec<Revision>,
}

/// A revision of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision {
    /// Its name.
    pub name: Arc<str>,
    /// Its number in the chain.
    pub number: i64,
    /// What it says of itself.
    pub entry: Arc<SiteEntry>,
    /// How far it is.
    pub state: RevisionState,
    /// Whether it has begun in its site, as far as is known; also of one that is archived.
    pub beginning: Beginning,
    /// Whether it is being deleted.
    pub is_deleting: bool,
    /// Whether its life cycle state is `Archived` already.
    pub is_archiving: bool,
}

/// Whether a revision has begun in its site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// It has not, as far as is known.
    None,
    /// Older workloads stop for it. It has written nothing.
    Stopping,
    /// It has, and may have written something.
    Begun,
}

/// How far a revision of a site is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RevisionState {
    /// Given, and not begun as far as is known.
    Queued,
    /// Left out of the queue for good.
    Skipped,
    /// Begun, or kept from it by something else than its place in the queue, and not available yet; how long that may
    /// take is decided here.
    Started {
        /// Since when that is so.
        since: Timestamp,
        /// Why it is not available, for people, as far as it has said so.
        message: Option<Arc<str>>,
    },
    /// Available since then.
    Available(Timestamp),
    /// Refused (`reasons::REFUSALS`), or not available any more after it once was: the reason and the text of the
    /// condition.
    Failing {
        /// The reason, in one word.
        reason: &'static str,
        /// Why, for people.
        message: Arc<str>,
    },
    /// Nothing is known of it now: its site cannot be reached.
    Unknown,
    /// Its objects are gone or belong to newer ones.
    Archived,
}

/// What is to be done, in this order, and what is to be said.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The status to write. One that aborts is written before anything else is done.
    pub status: SiteDeploymentStatus,
    /// Whether `status` has to be written before the actions.
    pub status_first: bool,
    /// The actions. Those of a site stand together: what is withdrawn there is given again behind it.
    pub actions: Vec<Action>,
    /// When to plan again although nothing changes.
    pub again_at: Option<Timestamp>,
}

/// What is to be done, and what is to be said.
///
/// # Guarantees
/// - Planning again from the same state gives the same plan, whoever asks. Where nothing is to be done and nothing
///   changed, the status equals the one before.
/// - The status and the actions may be carried out in part, in their order, and the rest be lost with a restart: the
///   next plan does what is left. A number that is given again has the same name.
/// - Nothing of a rollout that was aborted is given to a site that has not got it.
///
/// # Caveats
/// - Status, sites and revisions have to be at least as new as what was written last for this deployment.
/// - Versions of earlier rollouts that wait are withdrawn and given again where a change of what runs goes before them.
///   A manager that ends in between, and after they are gone, gives the site the version of the rollout alone.
pub fn plan(observed: &Observed<'_>) -> Plan {
    let sites = observed
        .sites
        .values()
        .filter(|site| site.is_placed)
        .count();
    let strategy = Strategy::of(observed, sites);
    let course = Course::of(observed, strategy.as_ref());
    let current = CurrentRollout {
        rollout: course.number,
        version: course.version,
        batch: course.batch,
        soaking: None,
        is_first_by_labels: strategy.as_ref().is_ok_and(|it| it.wave(1).by_labels),
        deadline: strategy::deadline(&observed.spec.strategy),
        now: observed.now,
    };
    let fleet = Fleet::survey(observed, &current);
    let situation = Situation {
        status: observed.status,
        course: &course,
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
        Some(why) => plan.hindered(observed.generation, observed.now, &why),
        None => plan,
    }
}

/// When time alone changes something.
fn again_at(fleet: &Fleet<'_>, step: &Step) -> Option<Timestamp> {
    let soaked = match step {
        Step::Soaking(until) => Some(*until),
        _ => None,
    };
    earlier(fleet.deadline, soaked)
}

/// What revisions say of themselves that bring the same to sites: one for all of them, as there are thousands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Brought(Arc<SiteEntry>);

impl Brought {
    /// What the revision of a site says of itself.
    pub fn to(&self, site: &str) -> SiteEntry {
        SiteEntry {
            site: site.to_owned(),
            ..SiteEntry::clone(&self.0)
        }
    }

    /// The version, and which edit of it.
    pub fn content(&self) -> (VersionName<'_>, &str) {
        (VersionName::of(&self.0), &self.0.edit)
    }
}

/// Something to be done about a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Make the next revision of its chain.
    Give {
        /// The site.
        site: Arc<str>,
        /// Its number.
        number: i64,
        /// Its name.
        name: Arc<str>,
        /// What it says of itself.
        entry: Brought,
        /// Names of the revisions that it takes over from, the newest first: all that are not archived, those that the
        /// same plan gives or withdraws included.
        previous: Vec<Arc<str>>,
    },
    /// Delete a revision that has not begun, so that it never does. One that has begun meanwhile hands back.
    Withdraw {
        /// The revision.
        revision: Arc<str>,
    },
    /// Archive a revision.
    Archive {
        /// The revision.
        revision: Arc<str>,
    },
    /// Delete an archived revision that is beyond the history limit.
    Forget {
        /// The revision.
        revision: Arc<str>,
    },
    /// Delete a revision of a site that is no longer placed.
    TearDown {
        /// The revision.
        revision: Arc<str>,
    },
}
