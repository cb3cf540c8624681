//! The decisions about an Application: the next Release, a clean-up, and the status.
//!
//! A sync is a conversation. [`decide`] names the next [`Step`]. The caller carries the step out,
//! adds the result to the [`Answers`], and calls it again, until the step is to finish. No state is
//! stored between calls, so the same sync can be decided again after a crash.

pub mod error;
pub mod history;
mod release;
mod report;
#[cfg(test)]
mod tests;

use baton_apis::{
    Application, Chart, Release,
    conditions::{
        Reason,
        shipper::{ABORTING, BLOCKED, ROLLING_OUT},
    },
    constants::shipper::{
        ANNOTATION_BLOCK_OVERRIDE, ANNOTATION_CHART_NAME, ANNOTATION_CHART_VERSION_RAW,
        ANNOTATION_CHART_VERSION_RESOLVED, ANNOTATION_HIGHEST_OBSERVED_GENERATION,
    },
};
use baton_engine::{
    brake,
    chain_names::next_in_chain,
    rollout_blocks::{Blocks, tidied},
};
use jiff::Timestamp;

use self::{
    error::{CreateError, Refusal, SyncError},
    history::{CleanUp, History, HistoryEntry},
};
use crate::{
    blocks::Obstacle,
    conditions::Conditions,
    event::Event,
    hash::environment_hash,
    resolution::ResolutionError,
    texts::{Quoted, parse_number},
};

/// Number of completed Releases that are kept besides the newest one, by default.
const DEFAULT_HISTORY_LIMIT: i32 = 20;
/// Upper and lower limit of the number of completed Releases to keep.
const MAX_HISTORY_LIMIT: i32 = 1000;
const MIN_HISTORY_LIMIT: i32 = 1;

/// The facts that a decision about an Application is based on.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// The Application.
    pub application: &'a Application,
    /// The Releases with the label of the Application, in any order.
    pub releases: &'a [Release],
    /// The rollout blocks that apply to the Application.
    pub blocks: &'a Blocks,
    /// The results of the steps so far.
    pub answers: &'a Answers,
    /// The present time.
    pub now: Timestamp,
}

/// The results of the steps of a sync.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    /// The version of each requested chart.
    pub versions: Vec<(Chart, Result<String, ResolutionError>)>,
    /// True if the Releases were read from the server, and not from a cache.
    pub listed: bool,
    /// The result of the creation of the Release, once it was tried.
    pub created: Option<Result<(), Refusal>>,
}

/// The next step of a sync.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Find the version of a chart.
    Resolve(Chart),
    /// Read the Releases from the server, because a Release that was observed before is missing in
    /// the cache.
    List,
    /// Create a Release. If a Release with this name exists, the answer is a refusal only after the
    /// Releases were listed.
    Create(Box<Release>),
    /// Finish the sync.
    Finish(Box<Outcome>),
}

/// The end of a sync.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The wanted Application: annotations, spec and status may differ from the observed ones.
    pub application: Application,
    /// The Releases to delete.
    pub clean_up: CleanUp,
    /// Events to record, in order.
    pub events: Vec<Event>,
    /// The reason that the sync failed. It is returned after everything else is done.
    pub error: Option<SyncError>,
}

impl Outcome {
    /// True if annotations or spec have to be written.
    pub fn changes_main(&self, observed: &Application) -> bool {
        let wanted = &self.application;
        wanted.spec != observed.spec || wanted.metadata != observed.metadata
    }

    /// True if the status has to be written.
    pub fn changes_status(&self, observed: &Application) -> bool {
        self.application.status != observed.status
    }
}

/// Decides the next step for an Application.
///
/// # Guarantees
/// - A Release to create has a name and a generation of its own, and the newest Release is never
///   deleted.
/// - While a rollout block applies or the Application is paused, nothing is created or deleted, and
///   the template stays unchanged except for the version of its chart.
/// - An abort is never concluded from a cache alone.
/// - A Release that is being deleted counts as absent, except that its name stays taken.
/// - If there is nothing left to do, the Application equals the observed one.
pub fn decide(observed: &Observed<'_>) -> Step {
    if observed.application.metadata.deletion_timestamp.is_some() {
        // The Releases are deleted together with the Application; this is no abort.
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

/// The Release that is created next from the template of an Application with these Releases. A range
/// of versions in the template is not resolved.
pub fn next_release(application: &Application, releases: &[&Release]) -> Release {
    let history = History::numbered(releases.iter().copied());
    let newest = history.newest().map(|newest| newest.generation);
    let generation = newest.map_or(0, |newest| newest.saturating_add(1));
    release::next(application, &history, generation)
}

/// A sync in progress.
struct Sync<'a> {
    observed: &'a Observed<'a>,
    /// The wanted Application, except for its conditions.
    application: Application,
    conditions: Conditions,
    events: Vec<Event>,
}

/// The reason that a sync stops before its end.
enum Stop {
    /// Another step has to be done first.
    Next(Step),
    /// The sync failed.
    Error(SyncError),
}

impl From<SyncError> for Stop {
    fn from(error: SyncError) -> Self {
        Self::Error(error)
    }
}

impl Sync<'_> {
    /// Runs the whole sync.
    fn run(&mut self) -> Result<CleanUp, Stop> {
        self.correct();
        let mut history = History::read(self.observed.releases).map_err(SyncError::from)?;
        if history.starts_over() {
            // When these Releases are gone, the next sync creates the first Release again.
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
            // The annotation does not matter: there is no Release to go back to.
            None => self.highest_observed().ok().flatten(),
        };
        let newest = history.newest().map(|newest| newest.generation);
        if newest < highest && !self.observed.answers.listed {
            // A cache may be older than the Release that this controller has just created. An abort
            // because of this would undo a wanted change.
            return Err(Stop::Next(Step::List));
        }
        match history.newest() {
            Some(newest) if Some(newest.generation) < highest => self.abort(newest),
            newest => {
                let wanted = environment_hash(&self.application.spec.template);
                let next = match newest {
                    None => Some(0),
                    Some(newest) if newest.hash() != wanted => {
                        let after = self.generation_after(&history, newest, &wanted);
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

    /// Sets defaults, and corrects values that are out of range.
    fn correct(&mut self) {
        let overrides = self.annotation(ANNOTATION_BLOCK_OVERRIDE);
        if let Some(tidied) = overrides.map(tidied) {
            self.annotate(ANNOTATION_BLOCK_OVERRIDE, tidied);
        }
        let limit = &mut self.application.spec.revision_history_limit;
        let wanted = limit.unwrap_or(DEFAULT_HISTORY_LIMIT);
        *limit = Some(wanted.clamp(MIN_HISTORY_LIMIT, MAX_HISTORY_LIMIT));
    }

    /// Records the newest Release if it is not recorded yet, because the process ended after it
    /// created the Release.
    ///
    /// This also happens if the sync ends early: a deletion of the Release counts as an abort only
    /// once the Release is recorded.
    fn catch_up(&mut self, history: &History<'_>) {
        let newest = history.newest().map(|newest| newest.generation);
        if let (Ok(Some(highest)), Some(newest)) = (self.highest_observed(), newest)
            && newest > highest
        {
            self.observe(newest);
        }
    }

    /// Replaces the version range in the template by the resolved version, unless that is done
    /// already.
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

    /// Checks the rollout blocks and the pause.
    fn is_blocked(&mut self) -> bool {
        let overrides = self.annotation(ANNOTATION_BLOCK_OVERRIDE);
        let Obstacle { problem, event } = Obstacle::of(
            self.observed.blocks,
            overrides.unwrap_or_default(),
            Some(self.observed.application),
        );
        self.events.extend(event);
        match &problem {
            Some(text) => self
                .conditions
                .set(BLOCKED, true, Reason::RolloutsBlocked, text),
            None => self.conditions.set_plain(BLOCKED, false),
        }
        problem.is_some()
    }

    /// The newest Release was deleted: restores the template of the Release before it.
    fn abort(&mut self, newest: &HistoryEntry<'_>) {
        let environment = newest.release.spec.environment.clone();
        let version = environment.chart.version.clone();
        self.annotate(ANNOTATION_CHART_VERSION_RESOLVED, version);
        self.application.spec.template = environment;
        let name = Quoted(newest.name());
        let message = format!("abort in progress, returning state to release {name}");
        self.conditions.set(ABORTING, true, None, &message);
        self.conditions.set_plain(ROLLING_OUT, true);
    }

    /// The generation of the Release that follows the newest one, because the newest one differs from
    /// the template. `wanted` is the hash of the template.
    ///
    /// # Errors
    /// If there is no higher number, or if the content was created repeatedly and the next Release
    /// has to wait.
    fn generation_after(
        &self,
        history: &History<'_>,
        newest: &HistoryEntry<'_>,
        wanted: &str,
    ) -> Result<i64, CreateError> {
        if let Some(made) = release::repeated(newest, wanted) {
            let created = newest.release.metadata.creation_timestamp.as_ref();
            let many = usize::try_from(made).unwrap_or(usize::MAX);
            if let Some(until) = brake::until(many, created.map(|it| it.0), self.observed.now) {
                let hash = wanted.to_owned();
                return Err(CreateError::Repeated { made, hash, until });
            }
        }
        let living = history.living().into_iter();
        Ok(next_in_chain(
            living.map(|it| (it.name(), Some(it.generation))),
        )?)
    }

    /// Requests the creation of a Release with this generation from the template.
    fn create(&self, history: &History<'_>, generation: i64) -> Result<Release, Stop> {
        let first = history.newest().is_none();
        let chart = &self.application.spec.template.chart;
        // The version is resolved again, unless this sync has resolved it, because the repository
        // may have lost it. The answer is the same version or an error: with another version the
        // Release would differ from the template, and a further Release would follow.
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

    /// The resolved version of a chart, once it was requested. `failure` turns an error into the
    /// error of the sync.
    fn resolved(
        &self,
        chart: &Chart,
        failure: impl FnOnce(ResolutionError) -> SyncError,
    ) -> Result<String, Stop> {
        let answers = &self.observed.answers.versions;
        let answer = answers.iter().find(|(requested, _)| requested == chart);
        let (_, answer) = answer.ok_or_else(|| Stop::Next(Step::Resolve(chart.clone())))?;
        answer.clone().map_err(|error| Stop::Error(failure(error)))
    }

    /// The highest generation of a Release that was recorded.
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
    /// True if the version of the chart is the result of a resolution in this sync.
    fn found(&self, chart: &Chart) -> bool {
        self.versions.iter().any(|(requested, answer)| {
            (&requested.name, &requested.repo_url) == (&chart.name, &chart.repo_url)
                && answer.as_ref() == Ok(&chart.version)
        })
    }
}
