//! The chart of an Application, rendered and checked as the manager does it for the next Release.

use std::path::PathBuf;

use baton_apis::{Application, Release, ReleaseEnvironment};
use baton_charts::{Charts, Credentials, Rendering, Settings};
use baton_cluster::Cluster;
use baton_engine::slice_parts;
use baton_releases::{
    application::next_release,
    chart::{self, Installation, scalable, workloads::Scalable},
};
use baton_view::lists::ListQuery;
use serde_json::Value;

use crate::{error::Error, installation::DEFINITIONS};

/// The next Release of an Application.
pub(crate) struct NextRelease {
    pub(crate) release: Release,
    /// Its objects as the manager installs them, or the reason that the manager refuses the chart.
    pub(crate) objects: Result<Vec<Value>, String>,
}

/// Renders the next Release of an Application that has these Releases. Without a cluster, objects of
/// custom kinds cannot be workloads.
///
/// # Errors
/// If the chart cannot be fetched or rendered here, so that it is unknown whether the manager would
/// accept it.
pub(crate) async fn render(
    cluster: Option<&Cluster>,
    application: &Application,
    releases: &[&Release],
    namespace: &str,
) -> Result<NextRelease, Error> {
    let charts = charts()?;
    let mut wanted = application.clone();
    let refused = |wanted: &Application, cause: String| NextRelease {
        release: next_release(wanted, releases),
        objects: Err(cause),
    };
    match charts.resolve(&wanted.spec.template.chart).await {
        Ok(version) => wanted.spec.template.chart.version = version,
        Err(error) if error.is_permanent() => return Ok(refused(&wanted, error.to_string())),
        Err(error) => return Err(unknown(&error)),
    }
    let release = next_release(&wanted, releases);
    let environment = &release.spec.environment;
    let rendering = Rendering {
        chart: &environment.chart,
        values: environment.values.as_ref(),
        name: release.metadata.name.as_deref().unwrap_or_default(),
        namespace,
    };
    let documents = match charts.render(rendering).await {
        Ok(documents) => documents,
        Err(error) if error.is_permanent() => return Ok(refused(&wanted, error.to_string())),
        Err(baton_charts::Error::Renderer(cause)) => return Err(unknown(&cause)),
        Err(error) => return Err(unknown(&error)),
    };
    let scalable = scalable(cluster, &documents).await?;
    let objects = objects(documents.objects, &release, &scalable, namespace);
    Ok(NextRelease { release, objects })
}

/// The documents of the chart of an environment, as helm renders it for a Release with this name.
///
/// # Errors
/// If the chart cannot be fetched or rendered.
pub(crate) async fn documents(
    environment: &ReleaseEnvironment,
    name: &str,
    namespace: &str,
) -> Result<Vec<Value>, Error> {
    let charts = charts()?;
    let mut chart = environment.chart.clone();
    chart.version = charts.resolve(&chart).await.map_err(impossible)?;
    let rendering = Rendering {
        chart: &chart,
        values: environment.values.as_ref(),
        name,
        namespace,
    };
    Ok(charts.render(rendering).await.map_err(impossible)?.objects)
}

/// The charts of repositories that need no credentials.
fn charts() -> Result<Charts, Error> {
    let charts = Charts::new(Settings::new(cache()), |_: &str| None::<Credentials>);
    charts.map_err(impossible)
}

#[expect(clippy::needless_pass_by_value, reason = "`map_err` passes a value")]
fn impossible(cause: impl ToString) -> Error {
    Error::Impossible(cause.to_string())
}

/// The objects that the manager installs, or the reason that it refuses the chart.
fn objects(
    documents: Vec<Value>,
    release: &Release,
    scalable: &Scalable,
    namespace: &str,
) -> Result<Vec<Value>, String> {
    let labels = release.metadata.labels.clone().unwrap_or_default();
    let installation = Installation {
        name: release.metadata.name.as_deref().unwrap_or_default(),
        labels: &labels,
        chart: &release.spec.environment.chart,
        scalable,
    };
    let content = chart::content(documents, installation).map_err(|error| error.to_string())?;
    let manifests = content.manifests.into_iter();
    let objects = manifests.map(|manifest| slice_parts::placed(manifest.object, namespace));
    Ok(objects.collect())
}

/// The custom kinds that can be scaled, by the definitions of the hub and of the chart.
async fn scalable(cluster: Option<&Cluster>, documents: &[Value]) -> Result<Scalable, Error> {
    if !scalable::needs_definitions(documents) {
        return Ok(Scalable::default());
    }
    let listed = match cluster {
        Some(cluster) => cluster.list_at(DEFINITIONS, &ListQuery::default()).await?,
        None => Vec::new(),
    };
    let listed = listed.into_iter().flat_map(serde_json::from_value);
    Ok(scalable::of_definitions(listed, documents))
}

fn unknown(cause: &impl ToString) -> Error {
    Error::Impossible(format!(
        "the chart cannot be checked here: {}; --no-chart leaves the check out",
        cause.to_string()
    ))
}

/// The folder of indexes and archives.
fn cache() -> PathBuf {
    let folder = |variable: &str| std::env::var_os(variable).map(PathBuf::from);
    let caches = folder("XDG_CACHE_HOME").filter(|folder| folder.is_absolute());
    let caches = caches.or_else(|| folder("HOME").map(|home| home.join(".cache")));
    let caches = caches.unwrap_or_else(std::env::temp_dir);
    caches.join("kubectl-baton").join("charts")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::applications::fixtures::{application, environment};

    #[test]
    fn a_chart_is_checked_as_by_the_manager() {
        let wanted: Application =
            serde_json::from_value(application(&environment("1.0.0", 1))).unwrap();
        let release = next_release(&wanted, &[]);
        let name = release.metadata.name.clone().unwrap();
        let deployment = |name: &str| {
            json!({
                "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name },
                "spec": {
                    "replicas": 2, "selector": { "matchLabels": { "app": "a" } },
                    "template": { "metadata": { "labels": { "app": "a" } }, "spec": {} },
                },
            })
        };
        let service = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": { "name": "web", "labels": { "shipper-lb": "production" } },
            "spec": { "selector": { "app": "a" } },
        });
        let checked =
            |documents: Vec<Value>| objects(documents, &release, &Scalable::default(), "ns");
        let fine = checked(vec![deployment(&name), service.clone()]).unwrap();
        assert_eq!(fine.len(), 2);
        assert_eq!(fine[0]["metadata"]["labels"]["shipper-release"], name);
        let refused = checked(vec![deployment("web"), service]).unwrap_err();
        assert!(refused.contains("{{.Release.Name}}"), "{refused}");
        let refused = checked(vec![deployment(&name)]).unwrap_err();
        assert!(refused.contains("one and only one v1.Service"), "{refused}");
    }
}
