//! `pack --application`: makes an Application of Shipper from a chart.

use std::path::PathBuf;

use baton_apis::{
    Application, Chart, ClusterRequirements, RegionRequirement, ReleaseEnvironment, RolloutStep,
    RolloutStrategy, StepCapacity, StepTraffic, constants::shipper::API_VERSION,
};
use baton_cluster::Cluster;
use baton_engine::names::is_label_value;
use baton_releases::versions::Constraint;
use clap::{Args, ValueEnum};
use serde::Deserialize as _;
use serde_json::{Map, Value, json};

use crate::{
    applications::chart,
    args::GlobalArgs,
    error::Error,
    pack::{documents, input, source_location::InputErrors},
    subject::check_name,
};

/// The parts of an Application.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Application")]
pub(super) struct ApplicationArgs {
    /// Make an Application of Shipper instead, from a chart in a repository
    #[arg(long, requires_all = ["chart", "repo", "region"], conflicts_with_all = [
        "inputs", "filename", "kustomize", "recursive", "no_hooks", "no_secrets", "revision", "previous", "cluster",
        "scope", "service_account", "success_delay", "site", "progress_deadline", "change_cause", "phase_order",
        "probe", "no_probes", "field_manager", "force", "if_revision", "rollback_on_failure",
    ])]
    pub(super) application: bool,

    /// Name of the chart
    #[arg(long, value_name = "NAME", requires = "application")]
    chart: Option<String>,

    /// Version of the chart, or a range such as ~1.2. Default: the highest version
    #[arg(long, value_name = "VERSION", requires = "application")]
    chart_version: Option<String>,

    /// URL of the repository of the chart
    #[arg(long, value_name = "URL", requires = "application")]
    repo: Option<String>,

    /// Region to deliver to, with the number of clusters there; may be repeated
    #[arg(
        long,
        value_name = "NAME[=COUNT]",
        value_delimiter = ',',
        value_parser = region,
        requires = "application"
    )]
    region: Vec<RegionRequirement>,

    /// Capability that the clusters must have; may be repeated
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        requires = "application"
    )]
    capability: Vec<String>,

    /// Steps of the rollout: all-in has one step; vanguard has one pod without traffic, then half
    /// of everything, then all
    #[arg(
        long,
        value_name = "STRATEGY",
        default_value = "all-in",
        requires = "application"
    )]
    strategy: Strategy,

    /// Do not render and check the chart, which needs helm
    #[arg(long, requires = "application")]
    no_chart: bool,

    /// File with values for the chart; later files take precedence
    #[arg(long, value_name = "FILE", requires = "application")]
    values: Vec<PathBuf>,
}

/// Named strategies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Strategy {
    /// One step, with everything.
    AllIn,
    /// Three steps: one pod without traffic, half of everything, everything.
    Vanguard,
}

impl Strategy {
    fn steps(self) -> Vec<RolloutStep> {
        let step = |name: &str, capacity: (i32, i32), traffic: (u32, u32)| RolloutStep {
            name: name.to_owned(),
            capacity: StepCapacity {
                incumbent: capacity.0,
                contender: capacity.1,
            },
            traffic: StepTraffic {
                incumbent: traffic.0,
                contender: traffic.1,
            },
        };
        let full = step("full on", (0, 100), (0, 100));
        match self {
            Self::AllIn => vec![full],
            Self::Vanguard => vec![
                step("staging", (100, 1), (100, 0)),
                step("50/50", (50, 50), (50, 50)),
                full,
            ],
        }
    }
}

/// A region with a number of clusters.
fn region(text: &str) -> Result<RegionRequirement, String> {
    let (name, replicas) = match text.split_once('=') {
        Some((name, count)) => {
            let count = count.parse::<i32>().ok().filter(|count| *count > 0);
            let count = count.ok_or("the number of clusters must be at least 1")?;
            (name, Some(count))
        }
        None => (text, None),
    };
    if name.is_empty() {
        return Err("the name of the region is missing".to_owned());
    }
    Ok(RegionRequirement {
        name: name.to_owned(),
        replicas,
    })
}

impl ApplicationArgs {
    /// Checks the chart of an Application as the manager does, unless the flags leave that out.
    ///
    /// # Errors
    /// If the manager would refuse the chart, or the chart cannot be rendered here.
    pub(super) async fn check(
        &self,
        made: &Value,
        cluster: Option<&Cluster>,
        global: &GlobalArgs,
    ) -> Result<(), Error> {
        if self.no_chart {
            return Ok(());
        }
        let application = Application::deserialize(made);
        let application = application.map_err(|error| Error::Impossible(error.to_string()))?;
        let namespace = cluster.map(|cluster| cluster.namespace.as_str());
        let namespace = namespace.or(global.namespace()).unwrap_or("default");
        let next = chart::render(cluster, &application, &[], namespace).await?;
        next.objects.map(drop).map_err(Error::Foreseen)
    }

    /// Makes the Application; the default of `name` is the name of the chart.
    ///
    /// # Errors
    /// If an argument is invalid, or a file of values cannot be read.
    pub(super) async fn make(
        &self,
        name: Option<&str>,
        history_limit: Option<i32>,
        global: &GlobalArgs,
    ) -> Result<Value, Error> {
        let mut values = None;
        for path in &self.values {
            merge(values.get_or_insert_with(Map::new), read(path).await?);
        }
        let environment = self.environment(values)?;
        let name = name.unwrap_or(&environment.chart.name);
        check_name(name)?;
        // The name is the value of a label on Releases and their objects.
        if !is_label_value(name) {
            return Err(usage(format!(
                "--name: {name:?} is too long: names of applications have up to 63 characters"
            )));
        }
        let mut metadata = json!({ "name": name });
        if let Some(namespace) = global.namespace() {
            metadata["namespace"] = namespace.into();
        }
        let mut spec = json!({});
        if let Some(limit) = history_limit {
            if !(1..=1000).contains(&limit) {
                let text = "--history-limit: an application can keep 1 to 1000 releases";
                return Err(usage(text.to_owned()));
            }
            spec["revisionHistoryLimit"] = limit.into();
        }
        spec["template"] = json!(environment);
        // Null values are left out, as some readers do not take them for absent ones.
        if let Some(template) = spec["template"].as_object_mut() {
            template.retain(|key, value| key != "values" || !value.is_null());
        }
        Ok(json!({
            "apiVersion": API_VERSION,
            "kind": "Application",
            "metadata": metadata,
            "spec": spec,
        }))
    }

    fn environment(&self, values: Option<Map<String, Value>>) -> Result<ReleaseEnvironment, Error> {
        let chart = self.chart.clone().unwrap_or_default();
        if chart.trim().is_empty() {
            return Err(usage(
                "--chart: the name of the chart is missing".to_owned(),
            ));
        }
        let repo_url = self.repo.clone().unwrap_or_default();
        let scheme = repo_url.split_once("://").map(|(scheme, _)| scheme);
        if !matches!(scheme, Some("http" | "https" | "oci")) {
            return Err(usage(format!(
                "--repo: {repo_url:?} is not a URL that begins with https://, http:// or oci://"
            )));
        }
        let version = self.chart_version.clone().unwrap_or_else(|| "*".to_owned());
        Constraint::parse(&version).map_err(|error| usage(format!("--chart-version: {error}")))?;
        for (at, region) in self.region.iter().enumerate() {
            let name = &region.name;
            if self.region[..at].iter().any(|other| other.name == *name) {
                return Err(usage(format!("--region: {name} is given twice")));
            }
        }
        for (at, capability) in self.capability.iter().enumerate() {
            if self.capability[..at].contains(capability) {
                return Err(usage(format!("--capability: {capability} is given twice")));
            }
        }
        Ok(ReleaseEnvironment {
            chart: Chart {
                name: chart,
                version,
                repo_url,
            },
            values: values.map(|it| Value::Object(it).into()),
            cluster_requirements: ClusterRequirements {
                regions: Some(self.region.clone()),
                capabilities: self.capability.clone(),
            },
            strategy: Some(RolloutStrategy {
                steps: self.strategy.steps(),
                ..RolloutStrategy::default()
            }),
        })
    }
}

fn usage(text: String) -> Error {
    Error::Usage(text)
}

/// The values in a file, which has a map or is empty.
async fn read(path: &std::path::Path) -> Result<Map<String, Value>, Error> {
    let refuse = |errors: InputErrors| Error::Usage(errors.to_string());
    let inputs = vec![input::Input::Path(path.to_owned())];
    let sources = input::read_aside(inputs, false).await.map_err(refuse)?;
    let mut values = Map::new();
    for source in &sources {
        let found = documents::read(source);
        if !found.errors.is_empty() {
            return Err(refuse(InputErrors(found.errors)));
        }
        for (location, document) in found.documents {
            match document.value {
                Value::Object(map) => merge(&mut values, map),
                _ => {
                    return Err(usage(format!(
                        "{location}: the values of a chart must be a map"
                    )));
                }
            }
        }
    }
    Ok(values)
}

/// Merges values into others, as Helm does: maps are merged, and anything else replaces the old
/// value. Unlike in a merge patch, a `null` stays: it removes a default of the chart.
fn merge(values: &mut Map<String, Value>, over: Map<String, Value>) {
    for (key, value) in over {
        match (values.get_mut(&key), value) {
            (Some(Value::Object(below)), Value::Object(over)) => merge(below, over),
            (_, value) => {
                values.insert(key, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct TestArgs {
        #[command(flatten)]
        pack: super::super::PackArgs,
    }

    const CHART: [&str; 8] = [
        "pack",
        "--application",
        "--chart",
        "nginx",
        "--repo",
        "https://charts.example.com",
        "--region",
        "eu=2,us",
    ];

    async fn make(more: &[&str]) -> Result<Value, String> {
        let line = CHART.iter().chain(more);
        let line = TestArgs::try_parse_from(line).map_err(|error| error.to_string())?;
        let pack = line.pack;
        let global = GlobalArgs::default();
        let name = pack.result.name.as_deref();
        let made = pack
            .application
            .make(name, pack.result.history_limit, &global);
        made.await.map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn a_chart_becomes_an_application() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let first = file("a.yaml", "replicaCount: 3\nimage: {name: nginx, tag: a}\n");
        let second = file("b.yaml", "image: {tag: b}\nlist: [1]\n");
        let line = [
            "--name",
            "shop",
            "--chart-version",
            "~1.2",
            "--strategy",
            "vanguard",
            "--capability",
            "gpu",
            "--values",
            &first,
            "--values",
            &second,
            "--history-limit",
            "3",
        ];
        let made = make(&line).await.unwrap();
        insta::assert_snapshot!(serde_saphyr::to_string(&made).unwrap());
        let list = file("c.yaml", "- a\n");
        let refused = make(&["--values", &list]).await.unwrap_err();
        assert!(
            refused.ends_with("the values of a chart must be a map"),
            "{refused}"
        );
    }

    #[tokio::test]
    async fn defaults_are_few() {
        let made = make(&[]).await.unwrap();
        assert_eq!(made["metadata"], json!({ "name": "nginx" }));
        let template = &made["spec"]["template"];
        assert_eq!(template["chart"]["version"], "*");
        assert_eq!(template.get("values"), None);
        assert_eq!(template["strategy"]["steps"].as_array().unwrap().len(), 1);
    }

    #[tokio::test]
    async fn invalid_flags_of_an_application_are_refused() {
        for (more, expected) in [
            (&["--chart-version", "abc"][..], "--chart-version"),
            (&["--region", "eu"], "eu is given twice"),
            (&["--region", "asia=0"], "at least 1"),
            (&["--region", "=2"], "the name of the region is missing"),
            (&["--capability", "a,a"], "a is given twice"),
            (&["--name", "Shop"], "cannot be a name"),
            (&["--name", &"a".repeat(64)], "up to 63"),
            (&["--history-limit", "0"], "1 to 1000"),
            (&["--strategy", "slow"], "invalid value"),
            (&["--values", "/nowhere/values.yaml"], "/nowhere"),
            (&["some.yaml"], "cannot be used with"),
            (&["--apply", "--if-revision=2"], "cannot be used with"),
        ] {
            let refused = make(more).await.unwrap_err();
            assert!(refused.contains(expected), "{more:?}: {refused}");
        }
        let without = TestArgs::try_parse_from(["pack", "--application"]).unwrap_err();
        assert!(without.to_string().contains("--chart"), "{without}");
        let alone = TestArgs::try_parse_from(["pack", "a.yaml", "--chart", "x"]).unwrap_err();
        assert!(alone.to_string().contains("--application"), "{alone}");
    }
}
