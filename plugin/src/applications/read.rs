//! What is known of an Application: itself, its Releases, and their targets.

use std::{collections::BTreeMap, fmt::Debug};

use baton_apis::{
    Application, CapacityTarget, InstallationTarget, Release, ReleaseEnvironment, TrafficTarget,
    constants::shipper::LABEL_APP,
    kinds::{self, Kind},
};
use baton_engine::names::is_label_value;
use baton_releases::application::{
    error::GenerationError,
    history::{History, generation},
};
use baton_view::{
    lists::{ListQuery, ListRequest},
    object::text_at,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::target::{AppKind, AppTarget};
use crate::{connect::Cluster, error::Error, output::report_once};

/// An Application with everything that belongs to it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observed {
    /// Name of the Application.
    pub(crate) name: String,
    pub(crate) namespace: String,
    /// The Application; `None` when it is gone and Releases of it are left.
    pub(crate) application: Option<Application>,
    /// The same as the server has it.
    pub(crate) object: Value,
    /// The Release that the user named, where that was no Application.
    pub(crate) named: Option<String>,
    pub(crate) installation: Targets<InstallationTarget>,
    pub(crate) capacity: Targets<CapacityTarget>,
    pub(crate) traffic: Targets<TrafficTarget>,
    /// Those that have a generation.
    numbered: Vec<Release>,
    /// Those that have none, by name: nobody can tell where they belong.
    unnumbered: Vec<Release>,
    /// All Releases as the server has them, by name.
    objects: BTreeMap<String, Value>,
}

/// The targets of a kind.
#[derive(Clone, Debug)]
pub(crate) struct Targets<T> {
    by_name: BTreeMap<String, T>,
    /// Why they cannot be read.
    pub(crate) unreadable: Option<String>,
}

impl<T> Default for Targets<T> {
    fn default() -> Self {
        Self {
            by_name: BTreeMap::new(),
            unreadable: None,
        }
    }
}

impl<T> Targets<T> {
    /// That of a Release.
    pub(crate) fn of(&self, release: &str) -> Option<&T> {
        self.by_name.get(release)
    }

    /// Whether a Release has none, as far as can be known.
    pub(crate) fn lacks(&self, release: &str) -> bool {
        self.unreadable.is_none() && !self.by_name.contains_key(release)
    }
}

impl<T: DeserializeOwned> Targets<T> {
    /// From what a list returned; what cannot be parsed is reported and left out.
    pub(crate) fn from_objects(objects: Vec<Value>) -> Self {
        let parsed = objects.into_iter().filter_map(|object| {
            let name = text_at(&object, "/metadata/name").to_owned();
            Some((name, parse(object)?))
        });
        Self {
            by_name: parsed.collect(),
            unreadable: None,
        }
    }

    pub(crate) fn unreadable(why: String) -> Self {
        Self {
            unreadable: Some(why),
            ..Self::default()
        }
    }
}

impl Observed {
    /// From what the server holds.
    ///
    /// # Errors
    /// If the Application cannot be parsed. Releases that cannot be are reported and left out.
    pub(crate) fn new(
        target: &AppTarget,
        place: (&str, &str),
        application: Option<Value>,
        releases: Vec<Value>,
    ) -> Result<Self, Error> {
        let (namespace, name) = place;
        let object = application.unwrap_or_default();
        let application = match &object {
            Value::Null => None,
            object => Some(serde_json::from_value(object.clone()).map_err(|error| {
                Error::Impossible(format!("application {name} cannot be read: {error}"))
            })?),
        };
        let objects: BTreeMap<String, Value> = releases
            .into_iter()
            .map(|object| (text_at(&object, "/metadata/name").to_owned(), object))
            .collect();
        let releases = objects.values().cloned().filter_map(parse::<Release>);
        let (numbered, unnumbered): (Vec<_>, Vec<_>) =
            releases.partition(|release| generation(release).is_ok());
        Ok(Self {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            application,
            object,
            named: (target.kind == AppKind::Release).then(|| target.name.clone()),
            numbered,
            unnumbered,
            objects,
            ..Self::default()
        })
    }

    /// What can be typed for the Application.
    pub(crate) fn target(&self) -> AppTarget {
        AppTarget::application(&self.name)
    }

    /// The Releases in order, as far as they have one. `None` never comes up: all of them have a generation.
    pub(crate) fn known_history(&self) -> Option<History<'_>> {
        History::read(&self.numbered).ok()
    }

    /// The Releases in order.
    ///
    /// # Errors
    /// If one has no generation: the manager stands still then, and so does whoever would write.
    pub(crate) fn history(&self) -> Result<History<'_>, GenerationError> {
        if let Some(first) = self.unnumbered.first() {
            generation(first)?;
        }
        History::read(&self.numbered)
    }

    /// All Releases with their generations, the oldest first; those without one come last.
    pub(crate) fn releases(&self) -> Vec<(Option<i64>, &Release)> {
        let by_name: BTreeMap<Option<&str>, &Release> = self
            .numbered
            .iter()
            .map(|release| (release.metadata.name.as_deref(), release))
            .collect();
        let members = self.known_history();
        let members = members.iter().flat_map(History::members);
        let numbered = members.filter_map(|member| {
            let release = by_name.get(&Some(member.name()))?;
            Some((Some(member.generation), *release))
        });
        let unnumbered = self.unnumbered.iter().map(|release| (None, release));
        numbered.chain(unnumbered).collect()
    }

    /// A Release by its name.
    pub(crate) fn release(&self, name: &str) -> Option<&Release> {
        let mut all = self.numbered.iter().chain(&self.unnumbered);
        all.find(|release| release.metadata.name.as_deref() == Some(name))
    }

    /// A Release as the server has it; null when there is none.
    pub(crate) fn release_object(&self, name: &str) -> &Value {
        self.objects.get(name).unwrap_or(&Value::Null)
    }

    /// What the Application wants now.
    pub(crate) fn template(&self) -> Option<&ReleaseEnvironment> {
        let application = self.application.as_ref()?;
        Some(&application.spec.template)
    }

    /// The Release that a command is about: the named one, else the newest.
    pub(crate) fn subject(&self) -> Option<&Release> {
        if let Some(name) = &self.named {
            return self.release(name);
        }
        let history = self.known_history();
        let newest = history.as_ref().and_then(History::newest);
        newest.and_then(|newest| self.release(newest.name()))
    }
}

/// What of a kind belongs to an Application.
pub(crate) fn query(application: &str) -> ListQuery {
    ListQuery::labelled(format!("{LABEL_APP}={application}"))
}

/// Whether Releases can be labelled with the name of an Application; if not, it has none.
pub(crate) fn can_have_releases(application: &str) -> bool {
    is_label_value(application)
}

/// The collection of a kind that belongs to an Application.
pub(crate) fn source(kind: &'static Kind, namespace: &str, application: &str) -> ListRequest {
    let query = if *kind == kinds::APPLICATION {
        ListQuery::named(application)
    } else {
        query(application)
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
    let mut observed = Observed::new(target, (namespace, &name), application, releases)?;
    let (installation, capacity, traffic) = futures::join!(
        targets(cluster, &kinds::INSTALLATION_TARGET, &name),
        targets(cluster, &kinds::CAPACITY_TARGET, &name),
        targets(cluster, &kinds::TRAFFIC_TARGET, &name),
    );
    observed.installation = installation;
    observed.capacity = capacity;
    observed.traffic = traffic;
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
    let path = kind.path(Some(&cluster.namespace));
    let mut found = cluster.list_at(&path, &ListQuery::named(name)).await?;
    Ok(found.pop())
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
    cluster.list_at(&source.path, &source.query).await
}

async fn targets<T: DeserializeOwned>(
    cluster: &Cluster,
    kind: &'static Kind,
    application: &str,
) -> Targets<T> {
    match list(cluster, kind, application).await {
        Ok(objects) => Targets::from_objects(objects),
        Err(error) => Targets::unreadable(error.to_string()),
    }
}

/// As kubectl says it.
pub(crate) fn not_found(target: &AppTarget, namespace: &str) -> Error {
    Error::NotFound(format!(
        "{} {:?} not found in namespace {namespace:?}",
        target.kind.plural, target.name
    ))
}

fn parse<T: DeserializeOwned>(object: Value) -> Option<T> {
    let name = format!(
        "{} {}",
        text_at(&object, "/kind"),
        text_at(&object, "/metadata/name")
    );
    match serde_json::from_value(object) {
        Ok(object) => Some(object),
        Err(error) => {
            report_once(&format!("warning: {name} cannot be read: {error}"));
            None
        }
    }
}
