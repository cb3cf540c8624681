//! Chains, as questions to lists.

use baton_apis::constants::LABEL_OBJECT_DEPLOYMENT;
use baton_engine::names::is_label_value;
use serde_json::Value;

use super::{Chain, from_objects, kind::ChainKind, pick, target::Target};
use crate::{
    content::{Slices, SlicesOf},
    lists::{List, ListRequest, Lists, MissingObject, NoAnswer, Question, join_all},
};

/// All chains of the scope of a kind.
#[derive(Clone, Debug)]
pub struct AllChains {
    /// One of the kinds of the scope.
    pub kind: ChainKind,
    /// Namespace of the chains; `None` for all namespaces.
    pub namespace: Option<String>,
}

impl Question for AllChains {
    type Answer = Vec<Chain>;

    fn answer(&self, lists: &Lists) -> Result<Vec<Chain>, NoAnswer> {
        let all = |kind: ChainKind| ListRequest::all(kind.path(self.namespace.as_deref()));
        let deployments = lists.required(&all(self.kind.deployment()));
        let revisions = lists.required(&all(self.kind.revision()));
        Ok(of_objects(
            lists,
            deployments?.cloned(),
            revisions?.cloned(),
        ))
    }
}

/// Assembles chains from objects as lists return them. Warns about objects that cannot be parsed
/// and are left out.
fn of_objects(lists: &Lists, deployments: Vec<Value>, revisions: Vec<Value>) -> Vec<Chain> {
    let (chains, left_out) = from_objects(deployments, revisions);
    for error in left_out {
        lists.warn(error.to_string());
    }
    chains
}

/// Assembles chains of revisions alone, without their deployments.
pub(crate) fn of_revisions(lists: &Lists, revisions: Vec<Value>) -> Vec<Chain> {
    of_objects(lists, Vec::new(), revisions)
}

/// The chain of the object that a user named; `None` if the object does not exist.
#[derive(Clone, Debug)]
pub struct OneChain {
    /// The named object.
    pub target: Target,
    /// The namespace to search; `None` for cluster-scoped kinds.
    pub namespace: Option<String>,
}

impl OneChain {
    /// The named object, in this namespace if its kind is namespaced.
    #[must_use]
    pub fn new(target: &Target, namespace: &str) -> Self {
        let is_namespaced = target.candidates()[0].is_namespaced;
        Self {
            target: target.clone(),
            namespace: is_namespaced.then(|| namespace.to_owned()),
        }
    }

    /// The error for an object that does not exist.
    pub fn missing(&self) -> MissingObject {
        MissingObject::target(&self.target, self.namespace.as_deref())
    }
}

impl MissingObject {
    /// The error for a deployment or a revision that does not exist.
    #[must_use]
    pub fn target(target: &Target, namespace: Option<&str>) -> Self {
        let kinds = target.candidates().into_iter();
        Self::Object {
            plurals: kinds.map(|kind| kind.plural).collect(),
            name: target.name.clone(),
            namespace: namespace.map(str::to_owned),
        }
    }
}

impl OneChain {
    /// The chain of a deployment, by the label with its name that its revisions carry; `None` if
    /// all revisions have to be read.
    fn of_deployment(&self, lists: &Lists) -> Result<Option<Chain>, NoAnswer> {
        let (kind, name) = (self.target.candidates()[0], &self.target.name);
        if !kind.is_deployment() || !is_label_value(name) {
            return Ok(None);
        }
        let path = |kind: ChainKind| kind.path(self.namespace.as_deref());
        let revisions = path(kind.revision());
        let labels = format!("{LABEL_OBJECT_DEPLOYMENT}={name}");
        let own = lists.required(&ListRequest::of_one(path(kind), name));
        let labelled = lists.required(&ListRequest::labelled(&*revisions, labels));
        let (own, labelled) = (own?, labelled?);
        if own.first().is_none() {
            return Ok(None);
        }
        let chain = |revisions| pick(of_objects(lists, own.cloned(), revisions), &self.target);
        let Some(labelled_chain) = chain(labelled.cloned()) else {
            return Ok(None);
        };
        let Some(deployment) = &labelled_chain.deployment else {
            return Ok(None);
        };
        // Any user can remove the label. The manager uses the controller reference, and reports
        // the revisions that it found.
        let status = &deployment.status;
        let others = status.controller_of.iter().map(|it| &it.name);
        let others = others.filter(|name| labelled_chain.by_name(name).is_none());
        let others = others.map(|name| lists.required(&ListRequest::of_one(&*revisions, name)));
        let others = join_all(others)?.into_iter().flat_map(List::objects);
        let all = labelled.objects().chain(others).cloned().collect();
        let whole = chain(all).unwrap_or_default();
        let is_known = |number| whole.by_number(number).is_some();
        Ok(status.revision.is_none_or(is_known).then_some(whole))
    }
}

impl OneChain {
    /// The chain of a cluster-scoped deployment with the name; `None` if the user may not read it.
    fn of_cluster(&self, lists: &Lists) -> Result<Option<Chain>, NoAnswer> {
        let target = Target::new(ChainKind::ClusterObjectDeployment, &self.target.name);
        let deployments = ChainKind::ClusterObjectDeployment.path(None);
        let own = lists.optional(&ListRequest::of_one(deployments, &target.name))?;
        if own.first().is_none() {
            return Ok(None);
        }
        let namespace = None;
        Self { target, namespace }.answer(lists)
    }
}

impl Question for OneChain {
    type Answer = Option<Chain>;

    fn answer(&self, lists: &Lists) -> Result<Option<Chain>, NoAnswer> {
        if let Some(chain) = self.of_deployment(lists)? {
            return Ok(Some(chain));
        }
        let all = AllChains {
            kind: self.target.candidates()[0],
            namespace: self.namespace.clone(),
        };
        match pick(all.answer(lists)?, &self.target) {
            None if self.target.kind.is_none() => self.of_cluster(lists),
            chain => Ok(chain),
        }
    }
}

/// A chain with the slices of the revision that is judged.
pub struct OneRollout(pub OneChain);

impl Question for OneRollout {
    type Answer = Option<(Chain, Slices)>;

    fn answer(&self, lists: &Lists) -> Result<Self::Answer, NoAnswer> {
        let Some(chain) = self.0.answer(lists)? else {
            return Ok(None);
        };
        // A user without the right to read slices gets everything but the number of objects.
        let slices = SlicesOf::optional(chain.subject()).answer(lists)?;
        Ok(Some((chain, slices)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PATH: &str = "/apis/package-operator.run/v1alpha1/namespaces/shop";

    /// A revision of the deployment `web`; without a controller if the UID is empty.
    fn set(number: i64, owner: &str) -> Value {
        let mut set = json!({
            "apiVersion": "package-operator.run/v1alpha1", "kind": "ObjectSet",
            "metadata": {"name": format!("web-{number}"), "namespace": "shop", "uid": format!("u{number}")},
            "spec": {"revision": number},
        });
        if !owner.is_empty() {
            set["metadata"]["ownerReferences"] = json!([{
                "apiVersion": "package-operator.run/v1alpha1", "kind": "ObjectDeployment",
                "name": "web", "uid": owner, "controller": true,
            }]);
        }
        set
    }

    /// The revisions of the chain of a target, and the requests for them in the order of rounds.
    /// Only the first of the revisions has the label.
    fn read(
        target: &str,
        reported: &[&str],
        number: i64,
        sets: &[Value],
    ) -> (Vec<String>, Vec<String>) {
        let status = reported.iter().map(
            |name| json!({"name": name, "kind": "ObjectSet", "group": "package-operator.run", "version": ""}),
        );
        let deployment = json!({
            "apiVersion": "package-operator.run/v1alpha1", "kind": "ObjectDeployment",
            "metadata": {"name": "web", "namespace": "shop", "uid": "d1"},
            "spec": {"selector": {}, "template": {"metadata": {}, "spec": {}}},
            "status": {"revision": number, "controllerOf": status.collect::<Vec<_>>()},
        });
        let target = Target {
            kind: None,
            name: target.to_owned(),
        };
        let question = OneChain::new(&target, "shop");
        let (mut lists, mut requests) = (Lists::default(), Vec::new());
        loop {
            let answer = question.answer(&lists);
            let unread = lists.take_requests().lists.into_keys();
            let unread: Vec<ListRequest> = unread.filter(|it| lists.get(it).is_none()).collect();
            if let Ok(chain) = answer {
                let chain = chain.unwrap_or_default();
                let names = chain.revisions.iter().map(|it| it.name().to_owned());
                return (names.collect(), requests);
            }
            assert!(!unread.is_empty());
            for request in unread {
                let all = if request.path.ends_with("/objectsets") {
                    sets
                } else {
                    std::slice::from_ref(&deployment)
                };
                let labels = &request.query.labels;
                let of = all
                    .iter()
                    .take(if labels.is_some() { 1 } else { all.len() });
                let name = request.query.fields.as_deref();
                let name = name.and_then(|it| it.strip_prefix("metadata.name="));
                let found = of.filter(|it| name.is_none_or(|name| it["metadata"]["name"] == name));
                let found: List = found.cloned().collect();
                let collection = request.path.strip_prefix(PATH).unwrap_or(&request.path);
                requests.push(match (name, labels) {
                    (Some(name), _) => format!("{collection}/{name}"),
                    (None, Some(labels)) => {
                        format!("{collection}?{}", labels.split('/').next_back().unwrap())
                    }
                    (None, None) => collection.to_owned(),
                });
                lists.insert(request, found);
            }
        }
    }

    #[test]
    fn a_name_alone_finds_a_cluster_scoped_deployment() {
        let deployment = json!({
            "apiVersion": "package-operator.run/v1alpha1", "kind": "ClusterObjectDeployment",
            "metadata": {"name": "web", "uid": "d1"},
            "spec": {"selector": {}, "template": {"metadata": {}, "spec": {}}},
        });
        for (kind, name, is_found) in [
            (None, "web", true),
            (None, "other", false),
            (Some(ChainKind::ObjectDeployment), "web", false),
        ] {
            let name = name.to_owned();
            let question = OneChain::new(&Target { kind, name }, "shop");
            let mut lists = Lists::default();
            let chain = loop {
                match question.answer(&lists) {
                    Ok(chain) => break chain,
                    Err(_) => {
                        for request in lists.take_requests().lists.into_keys() {
                            let is_it = request.path.ends_with("/clusterobjectdeployments")
                                && question.target.name == "web";
                            let found: List =
                                is_it.then(|| deployment.clone()).into_iter().collect();
                            lists.insert(request, found);
                        }
                    }
                }
            };
            let target = chain.and_then(|chain| chain.target());
            let target = target.map(|target| target.to_string());
            assert_eq!(target.as_deref(), is_found.then_some("cod/web"));
        }
    }

    #[test]
    fn revisions_of_a_deployment_are_read_by_their_label() {
        let narrow = [
            "/objectdeployments/web",
            "/objectsets?object-deployment=web",
        ];
        let sets = [set(2, "d1"), set(1, "d1"), set(3, "")];
        let (names, requests) = read("web", &["web-2"], 2, &sets);
        assert_eq!(
            (names, &requests[..]),
            (vec!["web-2".to_owned()], &narrow.map(str::to_owned)[..])
        );
        // The label was removed from a revision that the manager reports.
        let (names, requests) = read("web", &["web-1", "web-2"], 2, &sets);
        assert_eq!(
            (names.len(), &*requests[2], requests.len()),
            (2, "/objectsets/web-1", 3)
        );
        // A revision that is reported and not controlled by the deployment does not belong to it.
        assert_eq!(read("web", &["web-2", "web-3"], 2, &sets).0, ["web-2"]);
        // The newest revision is neither labelled nor reported.
        let (names, requests) = read("web", &["web-2"], 1, &sets);
        assert_eq!(
            (names.len(), &requests[2..]),
            (
                2,
                &["/objectdeployments".to_owned(), "/objectsets".to_owned()][..]
            )
        );
    }

    #[test]
    fn all_revisions_are_read_for_one_without_a_deployment() {
        let sets = [set(2, "d1"), set(1, "d1"), set(3, "")];
        let (names, requests) = read("web-3", &[], 2, &sets);
        assert_eq!((names, requests.len()), (vec!["web-3".to_owned()], 4));
    }
}
