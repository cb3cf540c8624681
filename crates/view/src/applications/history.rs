//! Differences between Releases.

use baton_apis::{ReleaseEnvironment, constants::shipper::ANNOTATION_CHART_VERSION_RAW};
use baton_releases::hash::environment_hash;

use super::observed::Observed;

/// Name of the newest Release, if it was created from the present template.
pub fn current(observed: &Observed) -> Option<String> {
    let template = environment_hash(observed.template()?);
    let history = observed.known_history();
    let newest = history.newest()?;
    (newest.hash() == template).then(|| newest.name().to_owned())
}

/// True if the template of the Application is this environment, or was made from it: the manager
/// replaces a range of versions by a version.
pub fn wants(observed: &Observed, environment: &ReleaseEnvironment) -> bool {
    let (Some(application), Some(template)) = (&observed.application, observed.template()) else {
        return false;
    };
    let annotations = application.metadata.annotations.as_ref();
    let raw = annotations.and_then(|all| all.get(ANNOTATION_CHART_VERSION_RAW));
    let mut before = template.clone();
    if let Some(raw) = raw {
        before.chart.version.clone_from(raw);
    }
    let wanted = environment_hash(environment);
    environment_hash(template) == wanted || environment_hash(&before) == wanted
}

/// A part of an environment that differs from another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// The name of the chart, before and after.
    Chart(String, String),
    /// The version of the chart, before and after.
    Version(String, String),
    /// The repository of the chart.
    Repository,
    /// The values.
    Values,
    /// The requirements on clusters.
    Clusters,
    /// The steps.
    Strategy,
}

/// The parts in which two environments differ.
pub fn differences(from: &ReleaseEnvironment, to: &ReleaseEnvironment) -> Vec<Difference> {
    // Destructured without `..`, so that a new field cannot be forgotten.
    let ReleaseEnvironment {
        chart,
        values,
        cluster_requirements,
        strategy,
    } = to;
    let old = &from.chart;
    let name = Difference::Chart(old.name.clone(), chart.name.clone());
    let version = Difference::Version(old.version.clone(), chart.version.clone());
    let parts = [
        (old.name != chart.name, name),
        (old.version != chart.version, version),
        (old.repo_url != chart.repo_url, Difference::Repository),
        (from.values != *values, Difference::Values),
        (
            from.cluster_requirements != *cluster_requirements,
            Difference::Clusters,
        ),
        (from.strategy != *strategy, Difference::Strategy),
    ];
    let parts = parts.into_iter().filter(|(differs, _)| *differs);
    parts.map(|(_, difference)| difference).collect()
}
