//! The version of a chart, resolved by the index of its repository.

use std::fmt;

use baton_apis::Chart;
use baton_engine::redact::shown_url;

use crate::{
    texts::Quoted,
    versions::{ImproperConstraint, highest},
};

/// The reason that a chart has no version, with the chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolutionError {
    /// The requested chart.
    pub chart: Chart,
    /// Reason of the failure.
    pub cause: Cause,
}

/// The reason that a chart has no version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The version is neither a version nor a range of versions.
    Improper(ImproperConstraint),
    /// The repository does not have the chart.
    NoSuchChart,
    /// The repository has the chart, but no requested version of it.
    NoSuchVersion,
    /// The repository cannot be used; a message for people.
    Repository(String),
    /// The last good index lacks the chart or its version, and the repository has failed since.
    Outdated {
        /// The missing part.
        missing: Box<Cause>,
        /// Failure of the repository, for people.
        failure: String,
    },
}

impl Cause {
    /// The cause, if the last request to the repository has failed.
    #[must_use]
    pub fn after_failure(self, failure: Option<String>) -> Self {
        match (self, failure) {
            (missing @ (Self::NoSuchChart | Self::NoSuchVersion), Some(failure)) => {
                let missing = Box::new(missing);
                Self::Outdated { missing, failure }
            }
            (cause, _) => cause,
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Improper(improper) => improper.fmt(f),
            Self::NoSuchChart => f.write_str("no chart name found"),
            Self::NoSuchVersion => f.write_str("no chart version found"),
            Self::Repository(text) => f.write_str(text),
            Self::Outdated { missing, failure } => write!(
                f,
                "{missing} in the last index, and the repository has failed since: {failure}"
            ),
        }
    }
}

/// Resolves the version of a chart. `versions` are the versions of the chart in the index of the
/// repository; `None` if the index lacks the chart.
///
/// # Errors
/// If no version matches, with the chart.
pub fn resolve<'a>(
    chart: &Chart,
    versions: Option<&[&'a str]>,
) -> Result<&'a str, ResolutionError> {
    let found = highest(&chart.version, versions.unwrap_or_default());
    let cause = match (found, versions) {
        (Err(improper), _) => Cause::Improper(improper),
        (Ok(Some(version)), _) => return Ok(version),
        (Ok(None), None) => Cause::NoSuchChart,
        (Ok(None), Some(_)) => Cause::NoSuchVersion,
    };
    Err(ResolutionError {
        chart: chart.clone(),
        cause,
    })
}

impl ResolutionError {
    /// True if a retry cannot succeed unless the object changes.
    pub fn is_permanent(&self) -> bool {
        matches!(self.cause, Cause::Improper(_))
    }
}

impl fmt::Display for ResolutionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let chart = Coordinates(&self.chart);
        match &self.cause {
            Cause::Improper(improper) => write!(f, "broken shipper chart spec {chart}: {improper}"),
            cause => write!(f, "failed to resolve chart version {chart}: {cause}"),
        }
    }
}

impl std::error::Error for ResolutionError {}

/// A chart in a message: `[name: "<n>", version: "<v>", repo: "<u>"]`.
#[derive(Clone, Copy, Debug)]
pub struct Coordinates<'a>(pub &'a Chart);

impl fmt::Display for Coordinates<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Chart {
            name,
            version,
            repo_url,
        } = self.0;
        let repo_url = shown_url(repo_url);
        let [name, version, repo] = [&**name, &**version, &*repo_url].map(Quoted);
        write!(f, "[name: {name}, version: {version}, repo: {repo}]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unresolved_version_is_reported_with_the_chart() {
        let index: &[&str] = &["0.0.1", "0.0.2"];
        for (version, versions, expected) in [
            ("~0.0.0", Some(index), Ok("0.0.2")),
            (
                ">1",
                Some(index),
                Err((
                    "failed to resolve chart version [name: \"nginx\", version: \">1\", \
                     repo: \"https://charts\"]: no chart version found",
                    false,
                )),
            ),
            (
                "1",
                None,
                Err((
                    "failed to resolve chart version [name: \"nginx\", version: \"1\", \
                     repo: \"https://charts\"]: no chart name found",
                    false,
                )),
            ),
            (
                "1, \"b\"",
                None,
                Err((
                    "broken shipper chart spec [name: \"nginx\", version: \"1, \\\"b\\\"\", \
                     repo: \"https://charts\"]: improper constraint:  \"b\"",
                    true,
                )),
            ),
        ] {
            let chart = Chart {
                name: "nginx".into(),
                version: version.into(),
                repo_url: "https://charts".into(),
            };
            let found = resolve(&chart, versions)
                .map_err(|error| (error.to_string(), error.is_permanent()));
            let expected = expected.map_err(|(text, permanent)| (text.to_owned(), permanent));
            assert_eq!(found, expected);
        }
        let down = ResolutionError {
            chart: Chart::default(),
            cause: Cause::Repository("the repository is down".into()),
        };
        assert_eq!(
            down.to_string(),
            "failed to resolve chart version [name: \"\", version: \"\", repo: \"\"]: the repository is down"
        );
        assert!(!down.is_permanent());
    }
}
