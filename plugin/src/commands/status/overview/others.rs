//! Applications and deployments to sites in the overview.

use std::collections::BTreeMap;

use baton_apis::{
    SiteDeployment,
    constants::shipper::LABEL_APP,
    kinds::{self, Kind},
};
use baton_cluster::{Cluster, ClusterError};
use baton_text as text;
use baton_text::{
    application::verdict::message,
    fleet,
    output::{table::Cell, warn_once},
};
use baton_view::{
    applications::{
        clusters::clusters,
        observed::Observed,
        state::{self, Verdict},
        target::AppTarget,
    },
    lists::{List, ListQuery, Lists},
    object::text_at,
    rollout::Outcome,
    selection::Selection,
    sites::{self, observed::status, target::SiteTarget},
};
use kube::core::SelectorExt as _;
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::{Line, ready};
use crate::error::Error;

/// Applications and deployments to sites with their states.
#[derive(Debug, Default)]
pub(super) struct Others {
    applications: Vec<(Observed, Verdict)>,
    sites: Vec<SiteDeployment>,
}

impl Others {
    /// Reads the Applications and the deployments to sites of a selection; none if the user has named
    /// objects. A kind that is not served has no objects, and one that must not be read is left out
    /// with a warning.
    ///
    /// # Errors
    /// If a list fails otherwise.
    pub(super) async fn read(cluster: &Cluster, selection: &Selection) -> Result<Self, Error> {
        if !selection.targets.is_empty() {
            return Ok(Self::default());
        }
        let namespace = selection.one_namespace();
        let list = async |kind| list(cluster, kind, namespace).await;
        let (mut applications, mut sites) =
            tokio::try_join!(list(&kinds::APPLICATION), list(&kinds::SITE_DEPLOYMENT),)?;
        if let Some(selector) = &selection.selector {
            let is_selected = |object: &Value| {
                let labels = &object["metadata"]["labels"];
                let labels = BTreeMap::<String, String>::deserialize(labels);
                selector.matches(&labels.unwrap_or_default())
            };
            applications.retain(is_selected);
            sites.retain(is_selected);
        }
        let of_applications = if applications.is_empty() {
            Default::default()
        } else {
            tokio::try_join!(list(&kinds::RELEASE), list(&kinds::CAPACITY_TARGET))?
        };
        let lists = Lists::default();
        let others = Self {
            applications: assembled(&lists, &applications, of_applications),
            sites: parsed(&sites, &lists),
        };
        for warning in lists.take_requests().warnings {
            warn_once(&warning);
        }
        Ok(others)
    }

    pub(super) fn lines(&self) -> impl Iterator<Item = Line> {
        let applications = self.applications.iter();
        let applications = applications.map(|(observed, verdict)| application(observed, verdict));
        applications.chain(self.sites.iter().map(site_deployment))
    }

    /// Adds the objects to the overview for programs, if `shown` accepts that they are rolled out or
    /// not. Kinds without objects are left out.
    pub(super) fn add_to(&self, value: &mut Value, shown: impl Fn(bool) -> bool) {
        let applications = self.applications.iter();
        let applications = applications.filter(|(_, verdict)| shown(is_done(verdict.outcome)));
        let applications: Vec<Value> = applications
            .map(|(observed, verdict)| text::application::status::value(observed, verdict))
            .collect();
        let sites = self.sites.iter().filter_map(|deployment| {
            let verdict = sites::verdict::judge(deployment);
            let value = json!({
                "name": deployment.metadata.name,
                "namespace": deployment.metadata.namespace,
                "state": verdict.state,
                "message": fleet::message(&verdict),
                "status": deployment.status,
            });
            shown(is_done(verdict.outcome)).then_some(value)
        });
        let sites: Vec<Value> = sites.collect();
        if !applications.is_empty() {
            value["applications"] = applications.into();
        }
        if !sites.is_empty() {
            value["siteDeployments"] = sites.into();
        }
    }
}

/// The objects of a kind.
async fn list(
    cluster: &Cluster,
    kind: &Kind,
    namespace: Option<&str>,
) -> Result<Vec<Value>, Error> {
    let path = kind.path(namespace);
    match cluster.list_at(&path, &ListQuery::default()).await {
        Err(ClusterError::NotServed { .. }) => Ok(Vec::new()),
        Err(error) if error.is_code(403) => {
            warn_once(&format!("no right to list {}", kind.plural));
            Ok(Vec::new())
        }
        listed => Ok(listed?),
    }
}

/// The Applications, each with its Releases and `CapacityTargets`.
fn assembled(
    lists: &Lists,
    applications: &[Value],
    (releases, targets): (Vec<Value>, Vec<Value>),
) -> Vec<(Observed, Verdict)> {
    let place = |object: &Value, name: &Value| -> (String, String) {
        let namespace = text_at(object, "/metadata/namespace");
        (
            namespace.to_owned(),
            name.as_str().unwrap_or_default().to_owned(),
        )
    };
    let by_application = |objects: Vec<Value>| {
        let mut lists: BTreeMap<(String, String), List> = BTreeMap::new();
        for object in objects {
            let place = place(&object, &object["metadata"]["labels"][LABEL_APP]);
            lists.entry(place).or_default().insert(object);
        }
        lists
    };
    let (releases, targets) = (by_application(releases), by_application(targets));
    let none = List::default();
    let assembled = applications.iter().filter_map(|object| {
        let place = place(object, &object["metadata"]["name"]);
        let (namespace, name) = (place.0.as_str(), place.1.as_str());
        let target = AppTarget::application(name);
        let own = releases.get(&place).unwrap_or(&none);
        let targets = [&none, targets.get(&place).unwrap_or(&none), &none];
        match Observed::new(
            lists,
            &target,
            (namespace, name),
            Some(object),
            own,
            targets,
        ) {
            Ok(observed) => Some(observed),
            Err(error) => {
                lists.warn(format!("{target} cannot be read: {error}"));
                None
            }
        }
    });
    let judged = assembled.map(|observed| {
        let verdict = state::judge(&observed);
        (observed, verdict)
    });
    judged.collect()
}

fn parsed(objects: &[Value], lists: &Lists) -> Vec<SiteDeployment> {
    let parsed = objects.iter().filter_map(|object| {
        let parsed = SiteDeployment::deserialize(object);
        parsed
            .inspect_err(|error| {
                let name = text_at(object, "/metadata/name");
                lists.warn(format!("sitedeploy/{name} cannot be read: {error}"));
            })
            .ok()
    });
    parsed.collect()
}

fn is_done(outcome: Outcome) -> bool {
    outcome == Outcome::Done
}

fn verdict(outcome: Outcome) -> Cell {
    Cell::painted(text::status::paint(outcome), text::status::verdict(outcome))
}

fn application(observed: &Observed, state: &Verdict) -> Line {
    let history = observed.known_history();
    let generation = history.newest().map(|newest| newest.generation.to_string());
    let release = observed.subject();
    let clusters = release.map_or_else(Vec::new, |release| clusters(observed, release));
    let pods = clusters.iter().filter_map(|cluster| cluster.capacity);
    let (pods, wanted) = pods.fold((0, 0), |(pods, wanted), capacity| {
        let available = capacity.available_pods.unwrap_or_default();
        (pods + available, wanted + capacity.wanted_pods)
    });
    let is_fine = is_done(state.outcome);
    Line {
        namespace: observed.namespace.clone(),
        target: observed.target().to_string(),
        revision: generation.unwrap_or_default(),
        verdict: verdict(state.outcome),
        ready: ready(pods, wanted.unsigned_abs()),
        message: if is_fine {
            String::new()
        } else {
            message(state)
        },
        is_fine,
    }
}

fn site_deployment(deployment: &SiteDeployment) -> Line {
    let state = sites::verdict::judge(deployment);
    let status = status(deployment);
    let name = deployment.metadata.name.as_deref().unwrap_or_default();
    let counts = &status.counts;
    let is_fine = is_done(state.outcome);
    Line {
        namespace: deployment.metadata.namespace.clone().unwrap_or_default(),
        target: SiteTarget::deployment(name).to_string(),
        revision: status.version.unwrap_or_default(),
        verdict: verdict(state.outcome),
        ready: ready(counts.updated, counts.sites.unsigned_abs()),
        message: match (is_fine, deployment.spec.paused) {
            (true, true) => "paused".to_owned(),
            (true, false) => String::new(),
            (false, _) => fleet::message(&state),
        },
        is_fine,
    }
}

#[cfg(test)]
mod tests {
    use super::{super::table, *};
    use baton_text::output::Output;

    use crate::applications::fixtures;

    #[test]
    fn applications_and_deployments_to_sites_have_the_columns_of_deployments() {
        let observed = fixtures::observed(&fixtures::mid_rollout());
        let verdict = state::judge(&observed);
        let sites = vec![serde_json::from_value(crate::sites::fixtures::deployment("eu")).unwrap()];
        let others = Others {
            applications: vec![(observed, verdict)],
            sites,
        };
        let text = table(others.lines().collect(), true).render(Output::plain());
        insta::assert_snapshot!(text);
        let mut value = json!({});
        others.add_to(&mut value, |_| true);
        assert_eq!(value["applications"][0]["verdict"], "Underway");
        assert_eq!(value["siteDeployments"][0]["name"], "eu");
        others.add_to(&mut value, |is_fine| is_fine);
        assert_eq!(others.lines().filter(|line| line.is_fine).count(), 0);
    }
}
