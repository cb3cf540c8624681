//! Reads a strategy: the sizes of its waves, the sites that are first, and its times, as numbers.

use baton_apis::{AfterCanary, OnError, SiteStrategy, StrategyType};
use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{Observed, Target, VersionName};
use crate::{
    duration::{self, DurationError},
    placement::{Expression, ParseError},
};

/// The progress deadline, by default.
const DEADLINE: SignedDuration = SignedDuration::from_mins(10);

/// The reason that a strategy cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A text is not a duration, or the duration is too long.
    #[error("strategy.{field}: {text:?} {source}")]
    Duration {
        /// Name of the field.
        field: &'static str,
        /// Text of the field.
        text: String,
        /// Parse error.
        source: DurationError,
    },
    /// Every site would fail as soon as it begins.
    #[error("strategy.progressDeadline: must be longer than zero")]
    NoDeadline,
    /// The health of sites would be unknown.
    #[error(
        "strategy.healthyTime: version {0} of the application has no availabilityProbes, so its health is unknown; add \
         probes, or leave healthyTime out"
    )]
    NoProbes(String),
    /// The expression of the canary is invalid.
    #[error("strategy.canary.matchSiteLabels: {0}")]
    Canary(#[from] ParseError),
    /// No site would get the version first.
    #[error("strategy.canary.matchSiteLabels: none of the {0} sites matches")]
    NoCanary(usize),
    /// The value is neither a number nor a percentage.
    #[error("strategy.rolling.sitesInParallel: {0} is neither a number from 1 nor 1% to 100%")]
    Parallel(String),
    /// A required part of the strategy is missing.
    #[error("strategy.{0} is required")]
    Missing(&'static str),
}

/// A strategy in numbers.
#[derive(Clone, Debug)]
pub(super) struct Strategy {
    canary: Option<Wave>,
    /// The batches after the canary, and sites after the rollout is over.
    pub(super) others: Wave,
    /// The longer of the healthy time of the strategy and the `successDelaySeconds` of the version.
    pub(super) healthy_time: SignedDuration,
    pub(super) on_error: OnError,
    /// Maximum number of failed sites; more abort the rollout.
    pub(super) max_failures: usize,
}

/// The size of a batch, and the choice of its sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wave {
    pub(super) is_canary: bool,
    /// True if only sites that the labels select are in the batch.
    pub(super) by_labels: bool,
    /// Maximum number of online sites; `None` for no limit.
    pub(super) limit: Option<usize>,
}

impl Strategy {
    /// The numbers of a strategy for a number of placed sites.
    pub(super) fn of(observed: &Observed<'_>, sites: usize) -> Result<Self, Error> {
        let spec = &observed.spec.strategy;
        let healthy_time = read("healthyTime", spec.healthy_time.as_deref())?;
        let deadline = read("progressDeadline", spec.progress_deadline.as_deref())?;
        if deadline.is_some_and(|it| it.is_zero()) {
            return Err(Error::NoDeadline);
        }
        let mut healthy_time = healthy_time.unwrap_or_default();
        if let Target::Version(version) = &observed.target
            && let Some(version) = observed.version(VersionName {
                version,
                application: &observed.spec.application,
            })
        {
            if !healthy_time.is_zero() && !version.has_probes {
                return Err(Error::NoProbes(version.version.to_string()));
            }
            healthy_time = healthy_time.max(version.success_delay);
        }
        let max_failures = match spec.on_error {
            OnError::Continue => spec
                .max_failures
                .map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(0)),
            OnError::Abort | OnError::Rollback => 0,
        };
        let is_rolling = match spec.type_ {
            StrategyType::AllAtOnce => false,
            StrategyType::Rolling => true,
            StrategyType::Canary => spec
                .canary
                .as_ref()
                .is_some_and(|it| it.then == AfterCanary::Rolling),
        };
        Ok(Self {
            canary: canary(spec)?,
            others: Wave {
                is_canary: false,
                by_labels: false,
                limit: if is_rolling {
                    Some(parallel(spec, sites)?)
                } else {
                    None
                },
            },
            healthy_time,
            on_error: spec.on_error,
            max_failures,
        })
    }

    /// The batch with this number, from 1.
    pub(super) fn wave(&self, batch: i32) -> Wave {
        self.canary.filter(|_| batch <= 1).unwrap_or(self.others)
    }
}

/// The expression that selects the first sites, if the strategy has one.
///
/// # Errors
/// If the expression is invalid. A plan reports this as `Progressing=False/InvalidStrategy`.
pub fn canary_expression(spec: &SiteStrategy) -> Result<Option<Expression>, ParseError> {
    let canary = spec
        .canary
        .as_ref()
        .filter(|_| spec.type_ == StrategyType::Canary);
    let text = canary.and_then(|canary| canary.match_site_labels.as_deref());
    text.map(Expression::parse).transpose()
}

/// The progress deadline. An invalid value counts as absent, because it is reported elsewhere.
pub fn deadline(spec: &SiteStrategy) -> SignedDuration {
    let reported = read("progressDeadline", spec.progress_deadline.as_deref());
    let reported = reported.ok().flatten().filter(|it| !it.is_zero());
    reported.unwrap_or(DEADLINE)
}

fn canary(spec: &SiteStrategy) -> Result<Option<Wave>, Error> {
    if spec.type_ != StrategyType::Canary {
        return Ok(None);
    }
    let canary = spec.canary.as_ref().ok_or(Error::Missing("canary"))?;
    let by_labels = canary_expression(spec)?.is_some();
    let limit = match canary.sites {
        _ if by_labels => None,
        Some(sites) => Some(usize::try_from(sites).unwrap_or(0).max(1)),
        None => return Err(Error::Missing("canary.sites")),
    };
    Ok(Some(Wave {
        is_canary: true,
        by_labels,
        limit,
    }))
}

/// The number of sites that get the version at a time; `sites` is the number of all, for a
/// percentage.
fn parallel(spec: &SiteStrategy, sites: usize) -> Result<usize, Error> {
    let rolling = spec.rolling.as_ref().ok_or(Error::Missing("rolling"))?;
    let (text, found) = match &rolling.sites_in_parallel {
        IntOrString::Int(number) => (number.to_string(), usize::try_from(*number).ok()),
        IntOrString::String(text) => {
            let percent = text
                .strip_suffix('%')
                .and_then(|number| number.parse().ok());
            let percent = percent.filter(|percent| (1..=100_usize).contains(percent));
            let of_all = |percent: usize| sites.saturating_mul(percent).div_ceil(100).max(1);
            (format!("{text:?}"), percent.map(of_all))
        }
    };
    found
        .filter(|found| *found > 0)
        .ok_or(Error::Parallel(text))
}

/// Parses a duration. An empty text counts as absent, because the schema admits it.
fn read(field: &'static str, text: Option<&str>) -> Result<Option<SignedDuration>, Error> {
    let text = text.filter(|text| !text.is_empty());
    let read = text.map(|text| {
        duration::parse(text).map_err(|source| Error::Duration {
            field,
            text: text.to_owned(),
            source,
        })
    });
    read.transpose()
}
