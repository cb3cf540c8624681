//! The reasons that a Release is not scheduled.

use baton_apis::{Chart, conditions::Reason};

use crate::{resolution::Coordinates, texts::Quoted};

/// The reason that no clusters were chosen. Only a change of the Release or of the clusters helps.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectionError {
    /// The Release requests no region.
    #[error("No regions specified in clusterRequirements. Must list at least one region")]
    NoRegions,
    /// A region has too few clusters that accept Releases.
    #[error(
        "Not enough clusters in region {}. Required: {required} / Available: {available}",
        Quoted(.region)
    )]
    NotEnoughClusters {
        /// Name of the region.
        region: String,
        /// Requested number of clusters.
        required: i32,
        /// Existing number of clusters.
        available: usize,
    },
    /// Too few clusters of a region have the required capabilities.
    #[error(
        "Not enough clusters in region {} with required capabilities {}. \
         Required: {required} / Available: {available}",
        Quoted(.region), Quoted(&.capabilities.join(","))
    )]
    NotEnoughCapableClusters {
        /// Name of the region.
        region: String,
        /// Required capabilities.
        capabilities: Vec<String>,
        /// Requested number of clusters.
        required: i32,
        /// Existing number of clusters.
        available: usize,
    },
    /// A capability is required twice.
    #[error("Capability {} listed more than once in clusterRequirements", Quoted(.0))]
    DuplicateCapability(String),
}

impl SelectionError {
    /// The reason of the condition `Scheduled`.
    pub fn reason(&self) -> Reason {
        match self {
            Self::NoRegions => Reason::NoRegionsSpecified,
            Self::NotEnoughClusters { .. } => Reason::NotEnoughClustersInRegion,
            Self::NotEnoughCapableClusters { .. } => Reason::NotEnoughCapableClustersInRegion,
            Self::DuplicateCapability(_) => Reason::DuplicateCapabilityRequirement,
        }
    }
}

/// The reason that a Release is not scheduled. Messages of other components are passed on as text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// No clusters were chosen.
    #[error(transparent)]
    Selection(#[from] SelectionError),
    /// There are too few clusters, without those that the namespace may not deliver into.
    #[error("{cause}. Namespace {} may not deliver into: {}", Quoted(.namespace), .refused.join(", "))]
    Unassigned {
        /// The requirement that is not met.
        cause: SelectionError,
        /// The namespace of the Release.
        namespace: String,
        /// The clusters that are not assigned to it.
        refused: Vec<String>,
    },
    /// The chart cannot be fetched.
    #[error("{0}")]
    ChartFetch(String),
    /// The archive of the chart is invalid or unsafe.
    #[error("{0}")]
    CorruptedChart(String),
    /// The chart cannot be rendered.
    #[error("broken shipper chart spec {}: {cause}", Coordinates(.chart))]
    BrokenChart {
        /// The chart that cannot be rendered.
        chart: Chart,
        /// Message of the renderer.
        cause: String,
    },
    /// The number of Deployments in the chart is wrong.
    #[error("chart {name}-{version} should have exactly 1 Deployment object, but it has {found}")]
    WrongDeployments {
        /// Name of the chart.
        name: String,
        /// Version of the chart.
        version: String,
        /// Number of Deployments in the chart.
        found: usize,
    },
    /// Rollout blocks apply.
    #[error("{0}")]
    Blocked(String),
    /// The repository cannot be used.
    #[error("{0}")]
    Repository(String),
    /// The repository has not answered, and no index of it is cached.
    #[error("{0}")]
    NoIndex(String),
    /// A request failed.
    #[error("{0}")]
    Request(String),
    /// A target with the name of the Release has another owner.
    #[error("{kind} {} does not belong to {owner_kind} {}", Quoted(.name), Quoted(.owner))]
    WrongOwner {
        /// Kind of the target.
        kind: String,
        /// Namespace and name of the target.
        name: String,
        /// Kind of the object that should own it.
        owner_kind: String,
        /// Namespace and name of that object.
        owner: String,
    },
    /// The index of the repository lacks the version of the chart.
    #[error("{0}")]
    NoSuchVersion(String),
    /// Several errors at once.
    #[error("{} errors occurred: {}", .0.len(), listed(.0))]
    Several(Vec<ScheduleError>),
}

impl ScheduleError {
    /// The reason that no clusters were chosen for a namespace, which may not deliver into the clusters
    /// of `refused`.
    pub fn of_selection(cause: SelectionError, namespace: &str, refused: Vec<String>) -> Self {
        if refused.is_empty() {
            return Self::Selection(cause);
        }
        Self::Unassigned {
            cause,
            namespace: namespace.to_owned(),
            refused,
        }
    }

    /// Combines errors: a single error is returned unchanged, and no error is `None`.
    pub fn collect(mut errors: Vec<Self>) -> Option<Self> {
        match errors.len() {
            0 | 1 => errors.pop(),
            _ => Some(Self::Several(errors)),
        }
    }

    /// The reason of the condition `Scheduled`.
    pub fn reason(&self) -> Reason {
        match self {
            Self::Selection(cause) | Self::Unassigned { cause, .. } => cause.reason(),
            Self::ChartFetch(_) => Reason::ChartFetchFailure,
            Self::BrokenChart { .. } | Self::CorruptedChart(_) => Reason::BrokenChartSpec,
            Self::WrongDeployments { .. } => Reason::WrongChartDeployments,
            Self::Blocked(_) => Reason::RolloutBlock,
            Self::Repository(_) => Reason::ChartRepoInternal,
            Self::NoIndex(_) => Reason::NoCachedChartRepoIndex,
            Self::Request(_) => Reason::FailedAPICall,
            Self::WrongOwner { .. } => Reason::WrongOwner,
            Self::NoSuchVersion(_) => Reason::NoSuchVersion,
            Self::Several(_) => Reason::Several,
        }
    }

    /// True if a retry cannot succeed unless an object changes. A broken chart stays broken,
    /// because a version of a chart never changes. Of several errors all have to be permanent.
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::Selection(_)
            | Self::Unassigned { .. }
            | Self::BrokenChart { .. }
            | Self::CorruptedChart(_)
            | Self::WrongDeployments { .. }
            | Self::Blocked(_)
            | Self::WrongOwner { .. } => true,
            Self::ChartFetch(_)
            | Self::Repository(_)
            | Self::NoIndex(_)
            | Self::Request(_)
            | Self::NoSuchVersion(_) => false,
            Self::Several(errors) => errors.iter().all(Self::is_permanent),
        }
    }
}

fn listed(errors: &[ScheduleError]) -> String {
    let listed: Vec<_> = errors.iter().map(|error| format!("* {error}")).collect();
    listed.join(";")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the reason and message of an error; `again` is true if a retry may succeed.
    fn check(error: &ScheduleError, reason: &str, message: &str, again: bool) {
        assert_eq!(error.reason().as_str(), reason);
        assert_eq!(error.to_string(), message);
        assert_eq!(error.is_permanent(), !again, "{error}");
    }

    #[test]
    fn missing_clusters_have_the_reasons_and_messages_of_the_contract() {
        for (error, reason, message) in [
            (
                SelectionError::NoRegions,
                "NoRegionsSpecified",
                "No regions specified in clusterRequirements. Must list at least one region",
            ),
            (
                SelectionError::NotEnoughClusters {
                    region: "eu".into(),
                    required: 2,
                    available: 1,
                },
                "NotEnoughClustersInRegion",
                "Not enough clusters in region \"eu\". Required: 2 / Available: 1",
            ),
            (
                SelectionError::NotEnoughCapableClusters {
                    region: "eu".into(),
                    capabilities: vec!["b".into(), "a".into()],
                    required: 2,
                    available: 1,
                },
                "NotEnoughCapableClustersInRegion",
                "Not enough clusters in region \"eu\" with required capabilities \"b,a\". Required: 2 / Available: 1",
            ),
            (
                SelectionError::DuplicateCapability("gpu".into()),
                "DuplicateCapabilityRequirement",
                "Capability \"gpu\" listed more than once in clusterRequirements",
            ),
        ] {
            check(&error.into(), reason, message, false);
        }
    }

    #[test]
    fn broken_charts_have_the_reasons_and_messages_of_the_contract() {
        let broken = ScheduleError::BrokenChart {
            chart: Chart {
                name: "n".into(),
                version: "v".into(),
                repo_url: "u".into(),
            },
            cause: "text".into(),
        };
        let message = "broken shipper chart spec [name: \"n\", version: \"v\", repo: \"u\"]: text";
        check(&broken, "BrokenChartSpec", message, false);

        let wrong = ScheduleError::WrongDeployments {
            name: "nginx".into(),
            version: "0.0.1".into(),
            found: 2,
        };
        let message = "chart nginx-0.0.1 should have exactly 1 Deployment object, but it has 2";
        check(&wrong, "WrongChartDeployments", message, false);
    }

    #[test]
    fn errors_of_other_components_are_passed_on() {
        for (error, reason, again) in [
            (
                ScheduleError::ChartFetch as fn(String) -> _,
                "ChartFetchFailure",
                true,
            ),
            (ScheduleError::Repository, "ChartRepoInternal", true),
            (ScheduleError::NoIndex, "NoCachedChartRepoIndex", true),
            (ScheduleError::Request, "FailedAPICall", true),
            (ScheduleError::Blocked, "RolloutBlock", false),
            (ScheduleError::CorruptedChart, "BrokenChartSpec", false),
        ] {
            check(&error("text".into()), reason, "text", again);
        }
    }

    #[test]
    fn all_other_errors_have_a_reason_that_names_them() {
        let several = ScheduleError::Several(vec![
            ScheduleError::Request("a".into()),
            SelectionError::DuplicateCapability("b".into()).into(),
        ]);
        let owner = ScheduleError::WrongOwner {
            kind: "InstallationTarget".into(),
            name: "ns/r".into(),
            owner_kind: "Release".into(),
            owner: "ns/r".into(),
        };
        for (error, name, message, again) in [
            (
                owner,
                "WrongOwner",
                "InstallationTarget \"ns/r\" does not belong to Release \"ns/r\"",
                false,
            ),
            (
                ScheduleError::NoSuchVersion("text".into()),
                "NoSuchVersion",
                "text",
                true,
            ),
            (
                several,
                "Several",
                "2 errors occurred: * a;* Capability \"b\" listed more than once in clusterRequirements",
                true,
            ),
        ] {
            let reason = format!("unknown error {name}! tell Shipper devs to classify it");
            check(&error, &reason, message, again);
        }
    }

    #[test]
    fn a_single_error_is_not_wrapped() {
        let error = || ScheduleError::Request("a".into());
        assert_eq!(ScheduleError::collect(vec![]), None);
        assert_eq!(ScheduleError::collect(vec![error()]), Some(error()));
        let both = ScheduleError::collect(vec![error(), error()]);
        assert_eq!(both, Some(ScheduleError::Several(vec![error(), error()])));
    }
}
