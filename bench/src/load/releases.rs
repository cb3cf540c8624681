//! Shipper's Applications, and the environments of their Releases.

pub(crate) mod fleet;

use std::collections::BTreeMap;

use baton_apis::constants::shipper;
use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};

/// The region of the only cluster that Releases go to.
pub(crate) const REGION: &str = "bench";

/// The chart of the test repository.
const CHART: &str = "test-nginx";

/// The first version of the chart.
pub(crate) const FIRST_VERSION: &str = "0.0.1";

/// The next version of the chart.
pub(crate) const NEXT_VERSION: &str = "0.0.2";

/// The number of Applications.
#[derive(Debug, Clone, Copy, PartialEq, Args, Serialize)]
pub(crate) struct Releases {
    /// Number of Applications that are rolled out concurrently
    #[arg(long, default_value_t = 20, value_parser = super::at_least_one)]
    pub(crate) applications: usize,
    /// Number of Applications that are rolled out one after the other
    #[arg(long, default_value_t = 10, value_parser = super::at_least_one)]
    pub(crate) lone_applications: usize,
    /// Number of further Applications with one pod, during the idle time and the restart
    #[arg(long, default_value_t = 500)]
    pub(crate) idle_applications: usize,
    /// Number of pods of each of the other Applications
    #[arg(long, default_value_t = 4, value_parser = super::at_least_one)]
    pub(crate) pods: usize,
}

/// The strategy of a rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strategy {
    /// In one step.
    AllIn,
    /// One pod without traffic, then half of the pods with half of the traffic, then all.
    ThreeSteps,
}

impl Strategy {
    /// The steps: name, and percentages of pods and traffic of the new Release.
    fn steps(self) -> &'static [(&'static str, u32, u32)] {
        match self {
            Self::AllIn => &[("full on", 100, 100)],
            Self::ThreeSteps => &[("staging", 1, 0), ("50/50", 50, 50), ("full on", 100, 100)],
        }
    }

    /// The number of pods of the new Release in each step.
    pub(crate) fn pods(self, all: usize) -> impl Iterator<Item = usize> {
        let percent = self.steps().iter().map(|(_, capacity, _)| *capacity);
        percent.map(move |percent| (all * percent as usize).div_ceil(100))
    }

    /// Number of times that a Release has to be sent to the next step.
    pub(crate) fn promotions(self) -> usize {
        self.steps().len() - 1
    }
}

/// The template of Applications.
#[derive(Debug, Clone)]
pub(crate) struct Template {
    /// The URL of the chart's repository.
    pub(crate) repository: String,
    pub(crate) strategy: Strategy,
    pub(crate) pods: usize,
    /// The version of the chart.
    pub(crate) version: &'static str,
    /// Number of clusters in the region.
    pub(crate) clusters: usize,
}

impl Template {
    /// The environment of a Release.
    pub(crate) fn environment(&self, application: &str) -> Value {
        let step = |(name, capacity, traffic): &(&str, u32, u32)| {
            json!({
                "name": name,
                "capacity": {"incumbent": 100 - capacity, "contender": capacity},
                "traffic": {"incumbent": 100 - traffic, "contender": traffic},
            })
        };
        let steps: Vec<Value> = self.strategy.steps().iter().map(step).collect();
        json!({
            "chart": {"name": CHART, "version": self.version, "repoUrl": self.repository},
            // The name of the Service is derived from this value, and the namespace has many
            // Services.
            "values": {"replicaCount": self.pods, "nameOverride": application},
            "clusterRequirements": {"regions": [{"name": REGION, "replicas": self.clusters}]},
            "strategy": {"steps": steps},
        })
    }

    /// An Application as a user writes it.
    pub(crate) fn application(&self, name: &str) -> Value {
        json!({
            "apiVersion": shipper::API_VERSION,
            "kind": "Application",
            "metadata": {"name": name},
            "spec": {"template": self.environment(name)},
        })
    }

    /// Applications with these names.
    pub(crate) fn bodies(&self, names: &[String]) -> BTreeMap<String, Value> {
        let body = |name: &String| (name.clone(), self.application(name));
        names.iter().map(body).collect()
    }
}

/// Names of the given number of Applications.
pub(crate) fn names(base: &str, count: usize) -> Vec<String> {
    let numbers = 0..count;
    numbers
        .map(|number| format!("{base}-{number:03}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use baton_apis::Application;

    use super::*;

    #[test]
    fn generated_applications_parse_as_applications() {
        let template = Template {
            repository: "http://127.0.0.1:1/charts".to_owned(),
            strategy: Strategy::ThreeSteps,
            pods: 4,
            version: FIRST_VERSION,
            clusters: 1,
        };
        let bodies = template.bodies(&names("a", 2));
        assert_eq!(bodies.keys().collect::<Vec<_>>(), ["a-000", "a-001"]);
        let application: Application = serde_json::from_value(bodies["a-001"].clone()).unwrap();
        let environment = &application.spec.template;
        let steps = environment
            .strategy
            .as_ref()
            .map(|strategy| &strategy.steps);
        assert_eq!(steps.map(Vec::len), Some(3));
        assert_eq!(environment.chart.version, "0.0.1");
    }

    #[test]
    fn a_step_has_at_least_its_part_of_the_pods() {
        let pods = |strategy: Strategy, all| strategy.pods(all).collect::<Vec<_>>();
        assert_eq!(pods(Strategy::AllIn, 4), [4]);
        assert_eq!(pods(Strategy::ThreeSteps, 4), [1, 2, 4]);
        assert_eq!(pods(Strategy::ThreeSteps, 1), [1, 1, 1]);
        assert_eq!(Strategy::ThreeSteps.promotions(), 2);
    }
}
