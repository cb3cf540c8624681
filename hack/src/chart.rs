//! The Helm chart in `charts/baton`: it is the source of `config/install.yaml`, and is checked with
//! the pinned helm.

use std::path::PathBuf;

use tokio::process::Command;

use crate::paths::Dirs;
use crate::{exec, tools};

/// The kinds that come first, and the one that comes last; the rest keeps the order of helm.
const FIRST: [&str; 2] = ["Namespace", "CustomResourceDefinition"];
const LAST: &str = "Deployment";

/// The annotation by which `helm uninstall` keeps a definition.
const KEPT: &str = "  annotations:\n    helm.sh/resource-policy: keep\n";

/// The choices of values that are rendered for a check: each switches something on or off. The
/// rendering contains the text.
const VALUES: [(&[&str], &str); 9] = [
    (&[], "name: baton-manager"),
    (&["releases.enabled=false", "sites.enabled=false"], "640Mi"),
    (
        &["tenants.enabled=true", "manager.webhook=false"],
        "--default-service-account=default",
    ),
    (
        &[
            "manager.clustersNamespace=shipper-system",
            "manager.replicas=1",
            "manager.chartCache.existingClaim=charts",
        ],
        "  name: baton-clusters\n  namespace: shipper-system\n",
    ),
    (
        &[
            "networkPolicy.enabled=true",
            "podDisruptionBudget.enabled=false",
        ],
        "kind: NetworkPolicy",
    ),
    (
        &[
            "monitoring.podMonitor=true",
            "monitoring.serviceMonitor=true",
            "monitoring.prometheusRule=true",
            "monitoring.dashboard=true",
        ],
        "kind: PrometheusRule",
    ),
    (
        &[
            "manager.enabled=false",
            "agent.enabled=true",
            "agent.cluster=eu-1",
        ],
        "--cluster=eu-1",
    ),
    (
        &[
            "dashboard.enabled=true",
            "dashboard.actions=true",
            "dashboard.basePath=/baton",
            "dashboard.tlsSecret=dashboard",
            "dashboard.ingress.host=baton.example",
            "networkPolicy.enabled=true",
        ],
        "--tls-key-file=/etc/baton/tls/tls.key",
    ),
    (
        &[
            "agent.enabled=true",
            "agent.cluster=eu-1",
            "agent.claim=false",
            "agent.resources.limits.memory=512Mi",
            "agent.priorityClassName=system-cluster-critical",
        ],
        "memory: 512Mi",
    ),
];

/// The reason that the chart cannot be rendered.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// helm is missing.
    #[error(transparent)]
    Tools(#[from] tools::Error),
    /// helm refused the chart or the values.
    #[error(transparent)]
    Helm(#[from] exec::Error),
    /// The rendering of values lacks a text.
    #[error("the values {values:?} do not render {text:?}")]
    NotRendered {
        /// The values.
        values: String,
        /// The expected text.
        text: &'static str,
    },
    /// The chart does not refuse values that cannot work, or not for this reason.
    #[error("the chart does not refuse the values {values:?} with {message:?}: {answer}")]
    NotRefused {
        /// The values.
        values: String,
        /// The expected part of the message.
        message: &'static str,
        /// The error of helm; empty if it accepts the values.
        answer: String,
    },
}

/// The folder of the chart.
#[must_use]
pub fn folder(dirs: &Dirs) -> PathBuf {
    dirs.workspace.join("charts/baton")
}

/// The documents of `config/install.yaml`: those of the chart with its defaults and these values, with
/// the namespace, and without the annotations that only helm reads.
///
/// # Errors
/// If helm is missing or refuses the chart.
pub(crate) async fn install(dirs: &Dirs, values: &[&str]) -> Result<String, Error> {
    let values = [&["namespace.create=true"], values].concat();
    let rendered = template(dirs, NAMESPACE, &values).await?;
    let rendered = rendered.replace(KEPT, "");
    let mut documents: Vec<_> = documents(&rendered).collect();
    documents.sort_by_key(|document| {
        let kind = kind(document);
        let first = FIRST.iter().position(|first| *first == kind);
        (first.unwrap_or(FIRST.len()), kind == LAST)
    });
    let documents = documents.iter();
    Ok(documents.flat_map(|it| ["---\n", it, "\n"]).collect())
}

/// Namespaces and values that cannot work, with a part of the message by which the chart refuses them.
const REFUSED: [(&str, &[&str], &str); 8] = [
    (
        NAMESPACE,
        &["manager.chartCache.existingClaim=charts"],
        "set manager.replicas to 1",
    ),
    (
        NAMESPACE,
        &["agent.enabled=true"],
        "agent.cluster is the name",
    ),
    (
        NAMESPACE,
        &[
            "agent.enabled=true",
            "agent.cluster=eu-1",
            "tenants.enabled=true",
        ],
        "--rights tenants",
    ),
    (
        "shop",
        &["agent.enabled=true", "agent.cluster=eu-1"],
        "in the namespace baton-system",
    ),
    ("123", &[], "is no string in YAML"),
    (
        NAMESPACE,
        &["dashboard.basePath=baton/"],
        "/dashboard/basePath",
    ),
    (NAMESPACE, &["manager.replicas=two"], "/manager/replicas"),
    (NAMESPACE, &["misspelt=true"], "misspelt"),
];

/// The namespace of `config/install.yaml`.
const NAMESPACE: &str = "baton-system";

/// Checks that helm accepts the chart with each choice of values, finds no fault in it, and refuses
/// values that cannot work.
///
/// # Errors
/// If helm is missing, or names a fault.
pub(crate) async fn check(dirs: &Dirs) -> Result<(), Error> {
    for (values, text) in VALUES {
        if !template(dirs, NAMESPACE, values).await?.contains(text) {
            let values = values.join(",");
            return Err(Error::NotRendered { values, text });
        }
        let mut lint = helm(dirs, "lint").await?;
        lint.args(["--strict", "--quiet"]).args(set(values));
        exec::output(&mut lint).await?;
    }
    for (namespace, values, message) in REFUSED {
        let rendered = template(dirs, namespace, values).await;
        let answer = rendered.err().map(|error| error.to_string());
        if !answer
            .as_ref()
            .is_some_and(|answer| answer.contains(message))
        {
            return Err(Error::NotRefused {
                values: values.join(","),
                message,
                answer: answer.unwrap_or_default(),
            });
        }
    }
    Ok(())
}

/// Renders the chart for a namespace.
async fn template(dirs: &Dirs, namespace: &str, values: &[&str]) -> Result<String, Error> {
    let mut command = helm(dirs, "template").await?;
    command.args(["--namespace", namespace]).args(set(values));
    Ok(exec::output(&mut command).await?)
}

fn set<'a>(values: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    values.iter().flat_map(|value| ["--set", value])
}

/// helm without the settings of its user, for the chart.
pub(crate) async fn helm(dirs: &Dirs, task: &str) -> Result<Command, Error> {
    let home = dirs.workspace.join("target/helm");
    let mut command = Command::new(tools::helm(dirs).await?);
    for folder in ["CACHE", "CONFIG", "DATA"] {
        command.env(format!("HELM_{folder}_HOME"), home.join(folder));
    }
    command.arg(task).arg(folder(dirs));
    Ok(command)
}

/// The documents of a rendering, without the names of their templates and without empty ones.
fn documents(rendered: &str) -> impl Iterator<Item = String> {
    let all = rendered.split("---\n").map(|document| {
        let lines = document
            .lines()
            .filter(|line| !line.starts_with("# Source: "));
        lines.collect::<Vec<_>>().join("\n").trim().to_owned()
    });
    all.filter(|document| !kind(document).is_empty())
}

fn kind(document: &str) -> &str {
    let mut lines = document.lines();
    let kind = lines.find_map(|line| line.strip_prefix("kind: "));
    kind.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_in_the_order_of_an_installation() {
        let rendered = "---\n# Source: a.yaml\n# Why.\nkind: Role\n---\n# Source: a.yaml\n---\nkind: Namespace\n";
        let found: Vec<_> = documents(rendered).collect();
        assert_eq!(found, ["# Why.\nkind: Role", "kind: Namespace"]);
        assert_eq!(kind(&found[0]), "Role");
    }

    #[test]
    fn the_chart_has_the_version_of_the_programs() {
        let chart = include_str!("../../charts/baton/Chart.yaml");
        let chart: serde_json::Value = serde_saphyr::from_str(chart).unwrap();
        for field in ["version", "appVersion"] {
            assert_eq!(chart[field], env!("CARGO_PKG_VERSION"), "{field}");
        }
    }
}
