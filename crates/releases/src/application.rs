//! What an Application needs: the next Release, a clean-up, a status (section 2 of the contract).
//!
//! One sync is a conversation. [`decide`] names the next [`Step`]; whoever carries it out decides again, with the
//! answer among the [`Answers`], until the step is to finish. Nothing is kept in between, so that the same sync may be
//! decided again after a crash.

pub mod error;
pub mod history;
mod release;
mod report;
#[cfg(test)]
mod tests;

use baton_apis::{
    Application, Chart, Release,
    conditions::shipper::{ABORTING, BLOCKED, ROLLING_OUT, reasons::ROLLOUTS_BLOCKED},
    constants::shipper::{
        ANNOTATION_BLOCK_OVERRIDE, ANNOTATION_CHART_NAME, ANNOTATION_CHART_VERSION_RAW,
        ANNOTATION_CHART_VERSION_RESOLVED, ANNOTATION_HIGHEST_OBSERVED_GENERATION,
    },
};
use baton_engine::{brake, chain_names::NoNextNumber};
use jiff::Timestamp;

use self::{
    error::{CreateError, Refusal, SyncError},
    history::{CleanUp, History, Member},
};
use crate::{
    blocks::{self, Verdict},
    conditions::Conditions,
    event::Event,
    hash::environment_hash,
    resolution::ResolutionError,
    texts::{Quoted, parse_number},
};

/// Completed Releases that are kept besides the newest one, where the Application does not say.
const DEFAULT_HISTORY_LIMIT: i32 = 20;
/// Most and fewest of them.
const MAX_HISTORY_LIMIT: i32 = 1000;
const MIN_HISTORY_LIMIT: i32 = 1;

/// Everything that the decision depends on.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// The Application.
    pub application: &'a Application,
    /// The Releases that are labelled with its name, in any order.
    pub releases: &'a [Release],
    /// The rollout blocks of its namespace and of all namespaces, as `namespace/name`.
    pub blocks: &'a [String],
    /// What the steps so far have brought.
    pub answers: &'a Answers,
    /// The present time.
    pub now: Timestamp,
}

/// What the steps of this sync have brought.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    /// By chart as it was asked for, its version.
    pub versions: Vec<(Chart, Result<String, ResolutionError>)>,
    /// Whether the Releases were read from the server, and not from a cache.
    pub listed: bool,
    /// Whether the Release was created, or why not.
    pub created: Option<Result<(), Refusal>>,
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Find the version that is meant of a chart.
    Resolve(Chart),
    /// Read the Releases from the server: one that was seen is missing in the cache.
    List,
    /// Create a Release. Where one of its name exists already, the Releases are to be listed before that is an answer.
    Create(Box<Release>),
    /// Finish the sync.
    Finish(Box<Outcome>),
}

/// How a sync ends.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The Application as it should be: annotations, spec and status may differ from what was observed.
    pub application: Application,
    /// The Releases to delete.
    pub clean_up: CleanUp,
    /// Events to record, in order.
    pub events: Vec<Event>,
    /// Why the sync failed. To be returned after everything else was done.
    pub error: Option<SyncError>,
}

impl Outcome {
    /// Whether annotations or spec have to be written.
    pub fn changes_main(&self, observed: &Application) -> bool {
        let wanted = &self.application;
        wanted.spec != observed.spec || wanted.metadata != observed.metadata
    }

    /// Whether the status has to be written.
    pub fn changes_status(&self, observed: &Application) -> bool {
        self.application.status != observed.status
    }
}

/// Decides what is to be done next for an Application.
///
/// # Guarantees
/// - A Release that is to be created has a name and a generation of its own, and the newest Release is never deleted.
/// - While a rollout block is in the way nothing is created or deleted, and the template stays as it is but for the
///   version of its chart.
/// - Nothing is taken for an abort by a cache alone.
/// - A Release that is being deleted counts as gone, except that its name stays taken.
/// - Where nothing is left to do, the Application equals the observed one.
pub fn decide(observed: &Observed<'_>) -> Step {
    if observed.application.metadata.deletion_timestamp.is_some() {
        // Its Releases go with it, and none of them is an abort.
        return Step::Finish(Box::new(Outcome {
            application: observed.application.clone(),
            clean_up: CleanUp::default(),
            events: Vec::new(),
            error: None,
        }));
    }
    let mut sync = Sync {
        observed,
        application: observed.application.clone(),
        conditions: {
            let status = observed.application.status.as_ref();
            let conditions = status.map(|status| status.conditions.as_slice());
            Conditions::new(conditions.unwrap_or_default(), observed.now)
        },
        events: Vec::new(),
    };
    match sync.run() {
        Ok(clean_up) => sync.finish(clean_up, None),
        Err(Stop::Next(step)) => step,
        Err(Stop::Error(error)) => {
            sync.report(&error);
            sync.finish(CleanUp::default(), Some(error))
        }
    }
}

/// A sync on its way.
struct Sync<'a> {
    observed: &'a Observed<'a>,
    /// The Application as it should be, but for its conditions.
    application: Application,
    conditions: Conditions,
    events: Vec<Event>,
}

/// Why a sync is not at its end.
enum Stop {
    /// Something else has to be done first.
    Next(Step),
    /// It failed.
    Error(SyncError),
}

impl From<SyncError> for Stop {
    fn from(error: SyncError) -> Self {
        Self::Error(error)
    }
}

impl Sync<'_> {
    /// The whole of it, in the order of section 2.1.
    fn run(&mut self) -> Result<CleanUp, Stop> {
        self.correct();
        let mut history = History::read(self.observed.releases).map_err(SyncError::from)?;
        if history.starts_over() {
            // The next sync, without them, makes the first Release again.
            return Ok(CleanUp::default());
        }
        self.catch_up(&history);
        self.resolve()?;
        if self.is_blocked() {
            self.wrap_up(&history);
            return Ok(CleanUp::default());
        }
        let highest = match history.newest() {
            Some(_) => self.highest_observed()?,
            // Whatever it says, there is nothing to go back to.
            None => self.highest_observed().ok().flatten(),
        };
        let newest = history.newest().map(|newest| newest.generation);
        if newest < highest && !self.observed.answers.listed {
            // A cache may be older than the Release that this controller has just created. To take that for an abort
            // would undo what somebody wants.
            return Err(Stop::Next(Step::List));
        }
        match history.newest() {
            Some(newest) if Some(newest.generation) < highest => self.abort(newest),
            newest => {
                let wanted = environment_hash(&self.application.spec.template);
                let next = match newest {
                    None => Some(0),
                    Some(newest) if newest.hash() != wanted => {
                        let after = self.generation_after(newest, &wanted);
                        let first = false;
                        Some(after.map_err(|cause| SyncError::Create { first, cause })?)
                    }
                    Some(_) => None,
                };
                if let Some(generation) = next {
                    let release = self.create(&history, generation)?;
                    history.push(release, generation);
                }
                self.wrap_up(&history);
            }
        }
        if let Some(newest) = history.newest() {
            self.observe(newest.generation);
        }
        let status = self.application.status.get_or_insert_default();
        status.history = history.names();
        let limit = self.application.spec.revision_history_limit;
        let limit = limit.and_then(|limit| usize::try_from(limit).ok());
        Ok(history.clean_up(limit.unwrap_or_default()))
    }

    /// Brings the Application into its bounds.
    fn correct(&mut self) {
        let overrides = self.annotation(ANNOTATION_BLOCK_OVERRIDE);
        if let Some(tidied) = overrides.map(blocks::tidied) {
            self.annotate(ANNOTATION_BLOCK_OVERRIDE, tidied);
        }
        let limit = &mut self.application.spec.revision_history_limit;
        let wanted = limit.unwrap_or(DEFAULT_HISTORY_LIMIT);
        *limit = Some(wanted.clamp(MIN_HISTORY_LIMIT, MAX_HISTORY_LIMIT));
    }

    /// Notes a newer Release that is not noted yet, because the process ended when it had made that one. Also where the
    /// sync ends early: deleting that one is an abort only once it is noted.
    fn catch_up(&mut self, history: &History<'_>) {
        let newest = history.newest().map(|newest| newest.generation);
        if let (Ok(Some(highest)), Some(newest)) = (self.highest_observed(), newest)
            && newest > highest
        {
            self.observe(newest);
        }
    }

    /// Replaces the range in the template by the version that it stands for, unless that was done already.
    fn resolve(&mut self) -> Result<(), Stop> {
        let chart = &self.application.spec.template.chart;
        let is_resolved = self.annotation(ANNOTATION_CHART_VERSION_RESOLVED)
            == Some(chart.version.as_str())
            && self.annotation(ANNOTATION_CHART_NAME) == Some(chart.name.as_str());
        if is_resolved {
            return Ok(());
        }
        let chart = chart.clone();
        let version = self.resolved(&chart, SyncError::Resolution)?;
        self.application
            .spec
            .template
            .chart
            .version
            .clone_from(&version);
        self.annotate(ANNOTATION_CHART_NAME, chart.name);
        self.annotate(ANNOTATION_CHART_VERSION_RAW, chart.version);
        self.annotate(ANNOTATION_CHART_VERSION_RESOLVED, version);
        Ok(())
    }

    /// Judges by the rollout blocks.
    fn is_blocked(&mut self) -> bool {
        let overrides = self.annotation(ANNOTATION_BLOCK_OVERRIDE);
        let verdict = Verdict::of(self.observed.blocks, overrides.unwrap_or_default());
        self.events.extend(verdict.event());
        let problem = verdict.problem();
        match &problem {
            Some(text) => self.conditions.set(BLOCKED, true, ROLLOUTS_BLOCKED, text),
            None => self.conditions.set_plain(BLOCKED, false),
        }
        problem.is_some()
    }

    /// The newest Release was deleted: goes back to the one before it (section 2.4).
    fn abort(&mut self, newest: &Member<'_>) {
        let environment = newest.release.spec.environment.clone();
        let version = environment.chart.version.clone();
        self.annotate(ANNOTATION_CHART_VERSION_RESOLVED, version);
        self.application.spec.template = environment;
        let name = Quoted(newest.name());
        let message = format!("abort in progress, returning state to release {name}");
        self.conditions.set(ABORTING, true, "", &message);
        self.conditions.set_plain(ROLLING_OUT, true);
    }

    /// The generation of the Release after the newest one, which is not what the template asks for.
    fn generation_after(&self, newest: &Member<'_>, wanted: &str) -> Result<i64, CreateError> {
        if let Some(made) = release::repeated(newest, wanted) {
            let created = newest.release.metadata.creation_timestamp.as_ref();
            let many = usize::try_from(made).unwrap_or(usize::MAX);
            if let Some(until) = brake::until(many, created.map(|it| it.0), self.observed.now) {
                let hash = wanted.to_owned();
                return Err(CreateError::Repeated { made, hash, until });
            }
        }
        let after = newest.generation.checked_add(1);
        after.ok_or_else(|| {
            let name = newest.name().to_owned();
            let number = newest.generation;
            CreateError::NoGeneration(NoNextNumber { name, number })
        })
    }

    /// Has the Release of a generation created from the template.
    fn create(&self, history: &History<'_>, generation: i64) -> Result<Release, Stop> {
        let first = history.newest().is_none();
        let chart = &self.application.spec.template.chart;
        // That the version is to be had is asked once more, unless it was found in this sync. The answer is that or
        // nothing: were it another version, the Release would differ from the template, and be followed by the next.
        if !self.observed.answers.found(chart) {
            self.resolved(chart, |error| SyncError::Create {
                first,
                cause: CreateError::Version(error),
            })?;
        }
        let release = release::next(&self.application, history, generation);
        match &self.observed.answers.created {
            None => Err(Stop::Next(Step::Create(Box::new(release)))),
            Some(Ok(())) => Ok(release),
            Some(Err(refusal)) => Err(Stop::Error(SyncError::Create {
                first,
                cause: CreateError::Refused(refusal.clone()),
            })),
        }
    }

    /// Ends the sync.
    fn finish(mut self, clean_up: CleanUp, error: Option<SyncError>) -> Step {
        self.publish_changes();
        let status = self.application.status.get_or_insert_default();
        status.conditions = self.conditions.into_list();
        Step::Finish(Box::new(Outcome {
            application: self.application,
            clean_up,
            events: self.events,
            error,
        }))
    }

    /// The version that the one of a chart stands for, once it was asked for. Its error is reported as `failure` has
    /// it.
    fn resolved(
        &self,
        chart: &Chart,
        failure: impl FnOnce(ResolutionError) -> SyncError,
    ) -> Result<String, Stop> {
        let answers = &self.observed.answers.versions;
        let answer = answers.iter().find(|(asked, _)| asked == chart);
        let (_, answer) = answer.ok_or_else(|| Stop::Next(Step::Resolve(chart.clone())))?;
        answer.clone().map_err(|error| Stop::Error(failure(error)))
    }

    /// The highest generation that was seen.
    fn highest_observed(&self) -> Result<Option<i64>, SyncError> {
        let text = self.annotation(ANNOTATION_HIGHEST_OBSERVED_GENERATION);
        let number = text.map(parse_number).transpose();
        number.map_err(|source| SyncError::BrokenObservedGeneration {
            application: self.name().to_owned(),
            source,
        })
    }

    fn observe(&mut self, generation: i64) {
        let generation = generation.to_string();
        self.annotate(ANNOTATION_HIGHEST_OBSERVED_GENERATION, generation);
    }

    fn name(&self) -> &str {
        let name = self.application.metadata.name.as_deref();
        name.unwrap_or_default()
    }

    fn annotation(&self, key: &str) -> Option<&str> {
        let annotations = self.application.metadata.annotations.as_ref();
        annotations?.get(key).map(String::as_str)
    }

    fn annotate(&mut self, key: &str, value: String) {
        let metadata = &mut self.application.metadata;
        let annotations = metadata.annotations.get_or_insert_default();
        annotations.insert(key.to_owned(), value);
    }
}

impl Answers {
    /// Whether a chart was found in this version.
    fn found(&self, chart: &Chart) -> bool {
        self.versions.iter().any(|(asked, answer)| {
            (&asked.name, &asked.repo_url) == (&chart.name, &chart.repo_url)
                && answer.as_ref() == Ok(&chart.version)
        })
    }
}
