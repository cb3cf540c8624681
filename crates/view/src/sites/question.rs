//! Deployments to sites and their applications, as questions to lists.

use std::marker::PhantomData;

use baton_apis::{
    SiteApplication, SiteDeployment,
    constants::{LABEL_SITE_APPLICATION, LABEL_SITE_DEPLOYMENT},
    kinds,
    url::escape,
};
use serde::{Deserialize as _, de::DeserializeOwned};
use serde_json::Value;

use super::{
    cluster,
    observed::Observed,
    overview::Overview,
    record::Records,
    revision::{self, SiteRevision},
    target::SiteTarget,
};
use crate::lists::{ListRequest, Lists, MissingObject, NoAnswer, Question};

/// A question about a deployment or an application, answered with a `T`: the object, or objects
/// that belong to it.
#[derive(Clone, Debug)]
pub struct SiteQuestion<T> {
    target: SiteTarget,
    namespace: String,
    answer: PhantomData<fn() -> T>,
}

impl<T> SiteQuestion<T> {
    /// A question about a named object in a namespace.
    #[must_use]
    pub fn new(target: &SiteTarget, namespace: &str) -> Self {
        Self {
            target: target.clone(),
            namespace: namespace.to_owned(),
            answer: PhantomData,
        }
    }

    /// The request for `ControllerRevisions` with these labels.
    fn records(&self, labels: String) -> ListRequest {
        let namespace = escape(&self.namespace);
        let path = format!("/apis/apps/v1/namespaces/{namespace}/controllerrevisions");
        ListRequest::labelled(path, labels)
    }

    /// A question about the same object with another answer.
    fn with<U>(&self) -> SiteQuestion<U> {
        SiteQuestion::new(&self.target, &self.namespace)
    }
}

impl<T: DeserializeOwned> SiteQuestion<T> {
    fn object(&self, lists: &Lists) -> Result<T, NoAnswer> {
        let SiteTarget { kind, name } = &self.target;
        let request = ListRequest::named(kind.path(Some(&self.namespace)), name);
        let Some(object) = lists.required(&request)?.first() else {
            return Err(NoAnswer::Missing(MissingObject::Object {
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

/// The deployment alone.
impl Question for SiteQuestion<SiteDeployment> {
    type Answer = SiteDeployment;

    fn answer(&self, lists: &Lists) -> Result<SiteDeployment, NoAnswer> {
        self.object(lists)
    }
}

/// The application alone.
impl Question for SiteQuestion<SiteApplication> {
    type Answer = SiteApplication;

    fn answer(&self, lists: &Lists) -> Result<SiteApplication, NoAnswer> {
        self.object(lists)
    }
}

/// A deployment with any number of sites, from the object and three lists. Without the right to
/// read Clusters and records, the revisions alone are used.
impl Question for SiteQuestion<Observed> {
    type Answer = Observed;

    // There are many sites, and their revisions and Clusters are small.
    const PAGE: u32 = 10_000;

    fn answer(&self, lists: &Lists) -> Result<Observed, NoAnswer> {
        let deployment = self.with::<SiteDeployment>().answer(lists)?;
        let labels = format!("{LABEL_SITE_DEPLOYMENT}={}", self.target.name);
        let revisions = kinds::OBJECT_SET.path(Some(&self.namespace));
        let revisions = lists.required(&ListRequest::labelled(revisions, &*labels));
        let placements = lists.optional(&self.records(labels));
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
        let records = lists.required(&self.records(labels))?;
        Ok(Records::from_objects(records.cloned()))
    }
}

/// The deployments that follow an application.
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

/// An application with its deployments and versions, from the object and two lists.
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
        lists::{List, Necessity},
        sites::fixtures::{mid_rollout, observed},
    };

    /// The answer from objects, the number of lists that each round has required, and the warnings.
    fn answered(objects: &[Value], refused: &str) -> (Observed, Vec<usize>, Vec<String>) {
        let target = SiteTarget::deployment("shop");
        let question = SiteQuestion::<Observed>::new(&target, "edge");
        let (mut lists, mut rounds) = (Lists::default(), Vec::new());
        loop {
            let answer = question.answer(&lists);
            let to_read = lists.take_requests();
            if let Ok(answer) = answer {
                return (answer, rounds, to_read.warnings.into_iter().collect());
            }
            let required = to_read
                .lists
                .values()
                .filter(|it| **it == Necessity::Required);
            rounds.push(required.count());
            for request in to_read.lists.into_keys() {
                let collection = request.path.rsplit('/').next().unwrap_or_default();
                let list = if collection == refused {
                    List::unreadable("forbidden".to_owned())
                } else {
                    let is_of = |object: &&Value| {
                        let kind = object["kind"].as_str().unwrap().to_lowercase();
                        format!("{kind}s") == collection
                    };
                    objects.iter().filter(is_of).cloned().collect()
                };
                lists.insert(request, list);
            }
        }
    }

    #[test]
    fn a_deployment_is_read_with_its_sites() {
        let mut objects = mid_rollout();
        let expected = format!("{:?}", observed(&objects));
        let (answer, rounds, warnings) = answered(&objects, "");
        assert_eq!(format!("{answer:?}"), expected);
        assert_eq!((rounds, warnings.len()), (vec![1, 2], 0));

        objects.push(json!({ "kind": "ObjectSet", "metadata": { "name": "odd" } }));
        let (answer, _, warnings) = answered(&objects, "clusters");
        assert_eq!(answer.clusters.unwrap_err(), "forbidden");
        let expected = "objectset odd is left out: it lacks the annotation baton.run/site";
        assert_eq!(warnings, [expected]);
    }
}
