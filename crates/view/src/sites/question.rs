//! Deployments to sites and their applications, as questions to lists.

use std::marker::PhantomData;

use baton_apis::{SiteApplication, SiteDeployment, constants::LABEL_SITE_APPLICATION, kinds};
use serde::{Deserialize as _, de::DeserializeOwned};
use serde_json::Value;

use super::{
    cluster,
    observed::{Observed, placements, records_path, revisions},
    overview::Overview,
    record::Records,
    revision::{self, SiteRevision},
    target::SiteTarget,
};
use crate::lists::{ListRequest, Lists, Missing, NoAnswer, Question};

/// A question about a deployment or an application, answered with a `T`: the object itself, or what belongs to it.
#[derive(Clone, Debug)]
pub struct SiteQuestion<T> {
    target: SiteTarget,
    namespace: String,
    answer: PhantomData<fn() -> T>,
}

impl<T> SiteQuestion<T> {
    /// About what is named, in a namespace.
    #[must_use]
    pub fn new(target: &SiteTarget, namespace: &str) -> Self {
        Self {
            target: target.clone(),
            namespace: namespace.to_owned(),
            answer: PhantomData,
        }
    }

    /// About the same, with another answer.
    fn with<U>(&self) -> SiteQuestion<U> {
        SiteQuestion::new(&self.target, &self.namespace)
    }
}

impl<T: DeserializeOwned> SiteQuestion<T> {
    fn object(&self, lists: &Lists) -> Result<T, NoAnswer> {
        let SiteTarget { kind, name } = &self.target;
        let request = ListRequest::named(kind.path(Some(&self.namespace)), name);
        let Some(object) = lists.required(&request)?.first() else {
            return Err(NoAnswer::Missing(Missing {
                plurals: vec![kind.plural],
                name: name.clone(),
                namespace: Some(self.namespace.clone()),
            }));
        };
        T::deserialize(object).map_err(|error| {
            NoAnswer::Unreadable(format!("{} cannot be read: {error}", self.target))
        })
    }
}

/// A deployment itself.
impl Question for SiteQuestion<SiteDeployment> {
    type Answer = SiteDeployment;

    fn answer(&self, lists: &Lists) -> Result<SiteDeployment, NoAnswer> {
        self.object(lists)
    }
}

/// An application itself.
impl Question for SiteQuestion<SiteApplication> {
    type Answer = SiteApplication;

    fn answer(&self, lists: &Lists) -> Result<SiteApplication, NoAnswer> {
        self.object(lists)
    }
}

/// A deployment with its sites, however many: the object, and three lists. Without the right to read Clusters and
/// records it is known from the revisions alone.
impl Question for SiteQuestion<Observed> {
    type Answer = Observed;

    fn answer(&self, lists: &Lists) -> Result<Observed, NoAnswer> {
        let deployment = self.with::<SiteDeployment>().answer(lists)?;
        let (namespace, name) = (self.namespace.as_str(), self.target.name.as_str());
        let revisions = lists.required(&revisions(namespace, name));
        let placements = lists.optional(&placements(namespace, name));
        let clusters = lists.optional(&ListRequest::all(cluster::path()));
        let (revisions, placements, clusters) = (revisions?, placements?, clusters?);
        Ok(Observed::new(
            deployment,
            SiteRevision::read_all(revisions.objects(), lists),
            cluster::read(clusters),
            placements.objects(),
        ))
    }

    fn trim(object: &mut Value) {
        revision::trim(object);
    }
}

/// The versions of an application.
impl Question for SiteQuestion<Records> {
    type Answer = Records;

    fn answer(&self, lists: &Lists) -> Result<Records, NoAnswer> {
        let labels = format!("{LABEL_SITE_APPLICATION}={}", self.target.name);
        let request = ListRequest::labelled(records_path(&self.namespace), labels);
        Ok(Records::from_objects(lists.required(&request)?.cloned()))
    }
}

/// The deployments that bring an application to sites.
impl Question for SiteQuestion<Vec<SiteDeployment>> {
    type Answer = Vec<SiteDeployment>;

    fn answer(&self, lists: &Lists) -> Result<Vec<SiteDeployment>, NoAnswer> {
        let request = ListRequest::all(kinds::SITE_DEPLOYMENT.path(Some(&self.namespace)));
        let all = lists.required(&request)?.objects();
        let parsed = all.flat_map(SiteDeployment::deserialize);
        Ok(parsed
            .filter(|it| it.spec.application == self.target.name)
            .collect())
    }
}

/// An application with its deployments and versions: the object, and two lists.
impl Question for SiteQuestion<Overview> {
    type Answer = Overview;

    fn answer(&self, lists: &Lists) -> Result<Overview, NoAnswer> {
        let application = self.with::<SiteApplication>().answer(lists)?;
        let deployments = self.with::<Vec<SiteDeployment>>().answer(lists);
        let records = self.with::<Records>().answer(lists);
        Ok(Overview {
            application,
            deployments: deployments?,
            records: records?,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        lists::{List, Need},
        sites::{
            fixtures::{mid_rollout, observed},
            target::SiteKind,
        },
    };

    /// All lists of a cluster with these objects.
    fn lists(objects: &[Value], namespace: &str) -> Lists {
        let mut lists = Lists::default();
        let of = |kind: &str| -> List {
            let objects = objects.iter().filter(|object| object["kind"] == kind);
            objects.cloned().collect()
        };
        let deployments = kinds::SITE_DEPLOYMENT.path(Some(namespace));
        lists.insert(
            ListRequest::named(deployments, "shop"),
            of("SiteDeployment"),
        );
        lists.insert(revisions(namespace, "shop"), of("ObjectSet"));
        lists.insert(placements(namespace, "shop"), of("ControllerRevision"));
        lists.insert(ListRequest::all(cluster::path()), of("Cluster"));
        lists
    }

    #[test]
    fn a_deployment_is_read_with_its_sites() {
        let target = SiteTarget::new(SiteKind::Deployment, "shop");
        let question = SiteQuestion::<Observed>::new(&target, "edge");
        let none = Lists::default();
        assert_eq!(question.answer(&none).unwrap_err(), NoAnswer::Unread);
        assert_eq!(none.take_asked().lists.len(), 1);

        let mut objects = mid_rollout();
        let lists_of = lists(&objects, "edge");
        let expected = observed(&objects);
        let answer = question.answer(&lists_of).unwrap();
        assert_eq!(format!("{answer:?}"), format!("{expected:?}"));
        let asked = lists_of.take_asked();
        let required = asked.lists.values().filter(|need| **need == Need::Required);
        assert_eq!((asked.lists.len(), required.count()), (4, 2));
        assert!(asked.warnings.is_empty());

        objects.push(json!({ "kind": "ObjectSet", "metadata": { "name": "odd" } }));
        let mut lists = lists(&objects, "edge");
        let refused = List::unreadable("forbidden".to_owned());
        lists.insert(ListRequest::all(cluster::path()), refused);
        let answer = question.answer(&lists).unwrap();
        assert_eq!(answer.clusters.unwrap_err(), "forbidden");
        let warnings = lists.take_asked().warnings;
        assert!(
            warnings
                .iter()
                .all(|text| text.starts_with("objectset odd is left out: "))
        );
        assert_eq!(warnings.len(), 1);
    }
}
