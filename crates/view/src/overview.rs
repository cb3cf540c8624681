//! The chains, Applications and deployments to sites of a selection, with their progress.

use std::collections::BTreeMap;

use baton_apis::{
    SiteDeployment,
    constants::{LABEL_SITE_DEPLOYMENT, shipper::LABEL_APP},
    kinds::{self, Kind},
};
use kube::core::SelectorExt as _;
use serde::Deserialize as _;
use serde_json::Value;

use crate::{
    applications::{
        observed::Observed,
        state::{self, Verdict},
        target::AppTarget,
    },
    chain::{Chain, member::Revision},
    content::{Slices, SlicesOf},
    lists::{Cause, List, ListRequest, Lists, MissingObject, NoAnswer, Question},
    object::text_at,
    rollout::{Outcome, Rollout, judge, written},
    selection::Selection,
};

/// The question for everything that rolls out.
#[derive(Clone, Debug, Default)]
pub struct OverviewOf(pub Selection);

/// Everything that rolls out.
#[derive(Debug, Default)]
pub struct Overview {
    /// The chains with their progress.
    pub chains: Vec<ChainRow>,
    /// The Applications with their progress. Empty if the user has named objects.
    pub applications: Vec<(Observed, Verdict)>,
    /// The deployments to sites. Empty if the user has named objects.
    pub sites: Vec<SiteDeployment>,
    /// The first object that was named and does not exist.
    pub missing: Option<MissingObject>,
}

/// A chain and the state of its rollout.
#[derive(Debug)]
pub struct ChainRow {
    /// The chain.
    pub chain: Chain,
    /// The progress of the chain.
    pub rollout: Rollout,
}

impl ChainRow {
    /// The progress of a chain; `slices` are those that were read of its judged revision.
    #[must_use]
    pub fn new(chain: Chain, slices: &Slices) -> Self {
        let mut rollout = judge(&chain, slices);
        if rollout.outcome == Outcome::Done
            && let Some(revision) = chain.subject()
        {
            // All wanted objects exist.
            let all = written(revision);
            (rollout.ready, rollout.of) = (all, all);
        }
        Self { chain, rollout }
    }

    /// True if the revisions are archived and have no deployment.
    pub fn is_archived(&self) -> bool {
        let newest = self.chain.newest();
        self.chain.deployment.is_none() && newest.is_some_and(Revision::is_archived)
    }

    /// True if the revisions belong to an Application or to a deployment to sites.
    pub fn is_part(&self) -> bool {
        let labels = self
            .chain
            .newest()
            .and_then(|it| it.metadata.labels.as_ref());
        let owners = [LABEL_APP, LABEL_SITE_DEPLOYMENT];
        labels.is_some_and(|labels| owners.iter().any(|owner| labels.contains_key(*owner)))
    }

    /// True if nothing is to be done.
    pub fn is_fine(&self) -> bool {
        self.rollout.outcome == Outcome::Done || self.is_archived()
    }
}

/// Slices are read only for chains that are not rolled out, to count their objects. A kind that is not
/// served has no objects, and one that the user may not list is left out with a warning.
impl Question for OverviewOf {
    type Answer = Overview;

    fn answer(&self, lists: &Lists) -> Result<Overview, NoAnswer> {
        let (selected, others) = (self.0.answer(lists), self.others(lists));
        let selected = selected?;
        if selected.missing.is_some() {
            return Ok(Overview {
                missing: selected.missing,
                ..Overview::default()
            });
        }
        let none = Slices::default();
        let is_open = |chain: &&Chain| judge(chain, &none).outcome != Outcome::Done;
        let open = selected
            .chains
            .iter()
            .filter(is_open)
            .filter_map(Chain::subject);
        // A user without the right to read slices gets everything but the number of objects.
        let slices = SlicesOf::optional(open).answer(lists);
        let (applications, sites) = others?;
        let slices = slices?;
        let row = |chain: Chain| ChainRow::new(chain, &slices);
        Ok(Overview {
            chains: selected.chains.into_iter().map(row).collect(),
            applications,
            sites,
            missing: None,
        })
    }

    fn trim(object: &mut Value) {
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("managedFields");
        }
    }
}

/// Applications and deployments to sites.
type Others = (Vec<(Observed, Verdict)>, Vec<SiteDeployment>);

impl OverviewOf {
    fn others(&self, lists: &Lists) -> Result<Others, NoAnswer> {
        if !self.0.targets.is_empty() {
            return Ok(Others::default());
        }
        let list = |kind: &Kind| {
            let request = ListRequest::all(kind.path(self.0.one_namespace()));
            let list = lists.optional(&request)?;
            match (&list.trouble, list.cause) {
                (None, _) | (_, Some(Cause::Unserved)) => {}
                (_, Some(Cause::Forbidden)) => {
                    lists.warn(format!("no right to list {}", kind.plural));
                }
                (Some(why), None) => {
                    let why = format!("cannot list {}: {why}", kind.plural);
                    return Err(NoAnswer::Unreadable(why));
                }
            }
            Ok(list)
        };
        let (applications, sites) = (list(&kinds::APPLICATION), list(&kinds::SITE_DEPLOYMENT));
        let (applications, sites) = (self.selected(applications?), self.selected(sites?));
        let of_applications = if applications.is_empty() {
            None
        } else {
            let (releases, targets) = (list(&kinds::RELEASE), list(&kinds::CAPACITY_TARGET));
            Some((releases?, targets?))
        };
        let applications = match of_applications {
            Some(of_applications) => assembled(lists, &applications, of_applications),
            None => Vec::new(),
        };
        Ok((applications, parsed(&sites, lists)))
    }

    /// The objects with the selected labels.
    fn selected<'a>(&self, list: &'a List) -> Vec<&'a Value> {
        let is_selected = |object: &&Value| {
            self.0.selector.as_ref().is_none_or(|selector| {
                let labels = &object["metadata"]["labels"];
                let labels = BTreeMap::<String, String>::deserialize(labels);
                selector.matches(&labels.unwrap_or_default())
            })
        };
        list.objects().filter(is_selected).collect()
    }
}

/// The Applications, each with its Releases and `CapacityTargets`.
fn assembled(
    lists: &Lists,
    applications: &[&Value],
    (releases, targets): (&List, &List),
) -> Vec<(Observed, Verdict)> {
    let place = |object: &Value, name: &Value| -> (String, String) {
        let namespace = text_at(object, "/metadata/namespace");
        (
            namespace.to_owned(),
            name.as_str().unwrap_or_default().to_owned(),
        )
    };
    let by_application = |objects: &List| {
        let mut lists: BTreeMap<(String, String), List> = BTreeMap::new();
        for object in objects.objects() {
            let place = place(object, &object["metadata"]["labels"][LABEL_APP]);
            lists.entry(place).or_default().insert(object.clone());
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

fn parsed(objects: &[&Value], lists: &Lists) -> Vec<SiteDeployment> {
    let parsed = objects.iter().filter_map(|object| {
        let parsed = SiteDeployment::deserialize(*object);
        parsed
            .inspect_err(|error| {
                let name = text_at(object, "/metadata/name");
                lists.warn(format!("sitedeploy/{name} cannot be read: {error}"));
            })
            .ok()
    });
    parsed.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The lines of Applications and deployments to sites, and the warnings, if the list of Applications
    /// is this one.
    fn ask(applications: &List) -> (Result<(usize, usize), NoAnswer>, Vec<String>) {
        let site = json!({
            "apiVersion": "baton.run/v1alpha1", "kind": "SiteDeployment",
            "metadata": {"name": "eu", "namespace": "shop"},
            "spec": {"application": "shop", "applicationVersion": "1", "placement": {}},
        });
        let question = OverviewOf(Selection {
            namespace: "shop".to_owned(),
            ..Selection::default()
        });
        let mut lists = Lists::default();
        loop {
            let answer = question.answer(&lists);
            let answer = answer.map(|it| (it.applications.len(), it.sites.len()));
            let to_read = lists.take_requests();
            if answer != Err(NoAnswer::Unread) {
                return (answer, to_read.warnings.into_iter().collect());
            }
            for request in to_read.lists.into_keys() {
                let list = match request.path.rsplit('/').next() {
                    Some("applications") => applications.clone(),
                    Some("sitedeployments") => [site.clone()].into_iter().collect(),
                    _ => List::default(),
                };
                lists.insert(request, list);
            }
        }
    }

    #[test]
    fn a_kind_is_left_out_only_if_it_is_absent_or_forbidden() {
        let failed = |cause| List::failed("it was so".to_owned(), cause);
        assert_eq!(ask(&List::default()), (Ok((0, 1)), vec![]));
        assert_eq!(ask(&failed(Some(Cause::Unserved))), (Ok((0, 1)), vec![]));
        let warning = "no right to list applications".to_owned();
        assert_eq!(
            ask(&failed(Some(Cause::Forbidden))),
            (Ok((0, 1)), vec![warning])
        );
        let why = NoAnswer::Unreadable("cannot list applications: it was so".to_owned());
        assert_eq!(ask(&failed(None)).0, Err(why));
    }
}
