//! Reading an Application with its Releases and their targets.

use baton_apis::{
    constants::shipper::LABEL_APP,
    kinds::{self, Kind},
};
use baton_engine::names::is_label_value;
use baton_terminal::error::is_not_served;
use baton_view::{
    applications::{
        observed::Observed,
        target::{AppKind, AppTarget},
    },
    lists::{ListQuery, ListRequest},
};
use http::Method;
use serde_json::Value;

use crate::{connect::Cluster, error::Error, output::report_once};

/// True if Releases can be labelled with the name of an Application; if not, it has none.
pub(crate) fn can_have_releases(application: &str) -> bool {
    is_label_value(application)
}

/// The collection of a kind that belongs to an Application.
pub(crate) fn source(kind: &'static Kind, namespace: &str, application: &str) -> ListRequest {
    let query = if *kind == kinds::APPLICATION {
        ListQuery::named(application)
    } else {
        ListQuery::labelled(format!("{LABEL_APP}={application}"))
    };
    ListRequest {
        path: kind.path(Some(namespace)),
        query,
    }
}

/// Reads what a user named.
///
/// # Errors
/// If it does not exist, the kinds are not served, or Applications or Releases cannot be read. That targets cannot be
/// read is kept with them.
pub(crate) async fn read(cluster: &Cluster, target: &AppTarget) -> Result<Observed, Error> {
    let namespace = cluster.namespace.as_str();
    let name = application_of(cluster, target).await?;
    let application = get(cluster, &kinds::APPLICATION, &name).await?;
    if application.is_none() && target.kind == AppKind::Application {
        return Err(not_found(target, namespace));
    }
    let releases = list(cluster, &kinds::RELEASE, &name).await?;
    let (installation, capacity, traffic) = futures::join!(
        list(cluster, &kinds::INSTALLATION_TARGET, &name),
        list(cluster, &kinds::CAPACITY_TARGET, &name),
        list(cluster, &kinds::TRAFFIC_TARGET, &name),
    );
    let targets = [installation, capacity, traffic];
    let targets = targets.map(|list| list.map_err(|error| error.to_string()));
    observe(
        target,
        (namespace, &name),
        application.as_ref(),
        &releases,
        &targets,
    )
}

/// An Application from what was listed. What cannot be parsed is reported and left out.
pub(super) fn observe(
    target: &AppTarget,
    place: (&str, &str),
    application: Option<&Value>,
    releases: &[Value],
    targets: &[Result<Vec<Value>, String>; 3],
) -> Result<Observed, Error> {
    let targets = targets.each_ref().map(|list| match list {
        Ok(objects) => Ok(objects.iter().collect()),
        Err(why) => Err(why.as_str()),
    });
    let releases: Vec<_> = releases.iter().collect();
    let observed = Observed::new(target, place, application, &releases, targets);
    let observed = observed.map_err(|error| {
        Error::Impossible(format!("application {} cannot be read: {error}", place.1))
    })?;
    for text in &observed.left_out {
        report_once(&format!("warning: {text}"));
    }
    Ok(observed)
}

/// The name of the Application: of a Release, that of its label.
async fn application_of(cluster: &Cluster, target: &AppTarget) -> Result<String, Error> {
    if target.kind == AppKind::Application {
        return Ok(target.name.clone());
    }
    let release = get(cluster, &kinds::RELEASE, &target.name).await?;
    let release = release.ok_or_else(|| not_found(target, &cluster.namespace))?;
    let label = &release["metadata"]["labels"][LABEL_APP];
    let name = label.as_str().filter(|name| !name.is_empty());
    name.map(str::to_owned).ok_or_else(|| {
        Error::Impossible(format!(
            "{target} belongs to no application: it lacks the label {LABEL_APP}"
        ))
    })
}

/// Reads an object of Shipper's kinds; `None` when there is none.
async fn get(cluster: &Cluster, kind: &'static Kind, name: &str) -> Result<Option<Value>, Error> {
    let path = kind.path_of(Some(&cluster.namespace), name);
    match cluster.send(Method::GET, &path, None).await {
        Ok(object) => Ok(Some(object)),
        Err(error) => match absent(cluster, kind, error) {
            error if error.is_code(404) => Ok(None),
            error => Err(error),
        },
    }
}

async fn list(
    cluster: &Cluster,
    kind: &'static Kind,
    application: &str,
) -> Result<Vec<Value>, Error> {
    if !can_have_releases(application) {
        return Ok(Vec::new());
    }
    let source = source(kind, &cluster.namespace, application);
    let found = cluster.list_at(&source.path, &source.query).await;
    found.map_err(|error| absent(cluster, kind, error))
}

/// Says that a kind is not served, if that is the error.
fn absent(cluster: &Cluster, kind: &'static Kind, error: Error) -> Error {
    match error {
        Error::Refused(status) if is_not_served(&status) => Error::NoReleases {
            server: cluster.server.clone(),
            kind: kind.plural,
        },
        error => error,
    }
}

/// As kubectl says it.
pub(crate) fn not_found(target: &AppTarget, namespace: &str) -> Error {
    Error::NotFound(format!(
        "{} {:?} not found in namespace {namespace:?}",
        target.kind.plural, target.name
    ))
}
