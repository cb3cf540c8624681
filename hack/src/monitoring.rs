//! The rules and the dashboard in `config/monitoring`: promtool checks and tests them, and the
//! rules become manifests for the Prometheus Operator.

use std::path::{Path, PathBuf};
use std::{fs, io};

use serde_json::{Value, json};
use tokio::process::Command;

use crate::exec;
use crate::paths::Dirs;
use crate::tools;

/// The file with the rules for Prometheus.
pub(crate) const RULES: &str = "rules.yaml";
/// The file with test series, and the alerts that they have to fire.
const TESTS: &str = "rules.test.yaml";

/// The file with the dashboard for Grafana.
const DASHBOARD: &str = "dashboard.json";

/// The reason that the rules or the dashboard are invalid.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Tools(#[from] tools::Error),
    #[error(transparent)]
    Exec(#[from] exec::Error),
    #[error("{path}: {source}")]
    File { path: PathBuf, source: io::Error },
    #[error("config/monitoring/{DASHBOARD}: {0}")]
    Dashboard(#[from] serde_json::Error),
}

/// The arguments by which promtool checks a file of rules.
const CHECK: [&str; 4] = ["check", "rules", "--lint=all", "--lint-fatal"];

/// Checks the rules, runs their tests, and checks the queries of the dashboard.
pub(crate) async fn check(dirs: &Dirs) -> Result<(), Error> {
    let promtool = tools::promtool(dirs).await?;
    let directory = dirs.workspace.join("config/monitoring");
    promtool_on(&promtool, &directory, &CHECK, RULES).await?;
    promtool_on(&promtool, &directory, &["test", "rules"], TESTS).await?;

    let dashboard = directory.join(DASHBOARD);
    let text = fs::read_to_string(&dashboard).map_err(|source| Error::File {
        path: dashboard,
        source,
    })?;
    let rules = as_rules(&serde_json::from_str(&text)?);
    let name = "dashboard-rules.json";
    let path = dirs.cache.join(name);
    fs::create_dir_all(&dirs.cache)
        .and_then(|()| fs::write(&path, rules.to_string()))
        .map_err(|source| Error::File { path, source })?;
    promtool_on(&promtool, &dirs.cache, &CHECK, name).await
}

/// The queries of a dashboard as rules, since promtool cannot read dashboards. Variables are
/// replaced by valid values.
fn as_rules(dashboard: &Value) -> Value {
    let panels = dashboard["panels"].as_array();
    let targets = panels.into_iter().flatten().flat_map(|panel| {
        let targets = panel["targets"].as_array();
        targets.into_iter().flatten().map(|target| &target["expr"])
    });
    let rules = targets.enumerate().map(|(number, expr)| {
        let expr = expr.as_str().unwrap_or_default();
        let expr = expr
            .replace("$__rate_interval", "5m")
            .replace("$namespace", ".*");
        json!({ "record": format!("dashboard:expr:{number}"), "expr": expr })
    });
    let rules: Vec<Value> = rules.collect();
    json!({ "groups": [{ "name": "dashboard", "rules": rules }] })
}

async fn promtool_on(
    promtool: &Path,
    directory: &Path,
    words: &[&str],
    file: &str,
) -> Result<(), Error> {
    let mut command = Command::new(promtool);
    command.args(words).arg(file).current_dir(directory);
    exec::output(&mut command).await?;
    Ok(())
}

/// The rules as an object of the Prometheus Operator, and the object that makes it read the
/// manager's metrics.
pub(crate) fn manifests(rules: &Value, namespace: &str, labels: &Value) -> Vec<Value> {
    let object = |kind: &str, spec: Value| {
        json!({
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": kind,
            "metadata": { "name": "baton", "namespace": namespace, "labels": labels },
            "spec": spec,
        })
    };
    let endpoints = json!([{ "port": "metrics", "interval": "30s" }]);
    let monitor =
        json!({ "selector": { "matchLabels": labels }, "podMetricsEndpoints": endpoints });
    vec![
        object("PodMonitor", monitor),
        object("PrometheusRule", rules.clone()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_expression_of_the_dashboard_is_checked() {
        let dashboard = json!({ "panels": [
            { "targets": [{ "expr": "rate(a{n=~\"$namespace\"}[$__rate_interval])" }, { "expr": "b" }] },
            { "type": "row" },
            { "targets": [{ "expr": "c" }] },
        ]});
        let rules = as_rules(&dashboard);
        let rules = rules["groups"][0]["rules"].as_array().unwrap();
        let expressions: Vec<&str> = rules
            .iter()
            .map(|rule| rule["expr"].as_str().unwrap())
            .collect();
        assert_eq!(expressions, ["rate(a{n=~\".*\"}[5m])", "b", "c"]);
    }

    /// The operator silently drops fields that it does not know.
    #[test]
    fn the_operator_gets_the_rules_unchanged() {
        let rules = json!({ "groups": [{ "name": "x", "rules": [] }] });
        let labels = json!({ "app": "baton" });
        let [monitor, rule] = &manifests(&rules, "ns", &labels)[..] else {
            panic!("another number of manifests");
        };
        assert_eq!(rule["spec"], rules);
        assert_eq!(rule["metadata"]["namespace"], "ns");
        assert_eq!(monitor["spec"]["selector"]["matchLabels"], labels);
    }
}
