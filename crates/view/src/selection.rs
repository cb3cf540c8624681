//! The chains that a command is about: named ones, all chains of a namespace, or all chains.

use std::collections::BTreeMap;

use kube::core::{Selector, SelectorExt as _};

use crate::{
    chain::{
        Chain,
        kind::ChainKind,
        question::{AllChains, OneChain, of_revisions},
        target::Target,
    },
    lists::{ListRequest, Lists, MissingObject, NoAnswer, Question, join_all},
};

/// The choice of any number of chains.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// The objects that the user named; empty for all chains of the namespace.
    pub targets: Vec<Target>,
    /// The namespace to search.
    pub namespace: String,
    /// True for all chains, in all namespaces and cluster-scoped ones.
    pub all_namespaces: bool,
    /// Selects chains by their labels.
    pub selector: Option<Selector>,
    /// Selects revisions by their labels, in the syntax of the API; deployments are not read then.
    pub labels: Option<String>,
}

/// The chains of a selection.
#[derive(Clone, Debug, Default)]
pub struct Selected {
    /// The chains, without duplicates.
    pub chains: Vec<Chain>,
    /// The first object that was named and does not exist.
    pub missing: Option<MissingObject>,
}

impl Selection {
    /// The only namespace that is searched, for messages; `None` if all are.
    pub fn one_namespace(&self) -> Option<&str> {
        (!self.all_namespaces).then_some(&*self.namespace)
    }

    /// The chains of a namespace or of all namespaces, before labels are compared.
    fn all(&self, lists: &Lists) -> Result<Vec<Chain>, NoAnswer> {
        let all = |kind: ChainKind, namespace: Option<&str>| {
            let namespace = namespace.map(str::to_owned);
            AllChains { kind, namespace }.answer(lists)
        };
        if !self.all_namespaces {
            return all(ChainKind::ObjectDeployment, Some(&self.namespace));
        }
        let kinds = [
            ChainKind::ObjectDeployment,
            ChainKind::ClusterObjectDeployment,
        ];
        let chains = join_all(kinds.map(|kind| all(kind, None)))?;
        Ok(chains.into_iter().flatten().collect())
    }

    /// The chains of the named objects.
    fn named(&self, lists: &Lists) -> Result<Selected, NoAnswer> {
        let named = self.targets.iter().map(|target| {
            let question = OneChain::new(target, &self.namespace);
            let chain = question.answer(lists)?;
            Ok(chain.ok_or_else(|| question.missing()))
        });
        let mut selected = Selected::default();
        for chain in join_all(named)? {
            match chain {
                Ok(chain) => {
                    let chain = Chain {
                        named: None,
                        ..chain
                    };
                    let id = |chain: &Chain| Some((chain.revision_kind()?, chain.target()?));
                    if !selected.chains.iter().any(|other| id(other) == id(&chain)) {
                        selected.chains.push(chain);
                    }
                }
                Err(missing) => {
                    selected.missing.get_or_insert(missing);
                }
            }
        }
        Ok(selected)
    }
}

impl Question for Selection {
    type Answer = Selected;

    fn answer(&self, lists: &Lists) -> Result<Selected, NoAnswer> {
        let mut selected = if let Some(labels) = &self.labels {
            let path = ChainKind::ObjectSet.path(Some(&self.namespace));
            let revisions = lists.required(&ListRequest::labelled(path, labels))?;
            Selected {
                chains: of_revisions(lists, revisions.cloned()),
                missing: None,
            }
        } else if self.targets.is_empty() {
            Selected {
                chains: self.all(lists)?,
                missing: None,
            }
        } else {
            self.named(lists)?
        };
        if let Some(selector) = &self.selector {
            selected.chains.retain(|chain| has(chain, selector));
        }
        Ok(selected)
    }
}

/// True if a chain has the labels.
///
/// Labels of the deployment come first, then those of its template. A chain without a deployment
/// has the labels of its newest revision. The server cannot select by labels, as the revisions of a
/// matching deployment need not have them.
fn has(chain: &Chain, selector: &Selector) -> bool {
    let labels = if let Some(deployment) = &chain.deployment {
        let mut labels: BTreeMap<String, String> = deployment.spec.template.metadata.labels.clone();
        labels.extend(deployment.metadata.labels.clone().unwrap_or_default());
        labels
    } else {
        let newest = chain.newest();
        let labels = newest.and_then(|revision| revision.metadata.labels.clone());
        labels.unwrap_or_default()
    };
    selector.matches(&labels)
}

#[cfg(test)]
mod tests {
    use kube::core::Expression;
    use serde_json::{Value, json};

    use super::*;
    use crate::chain::from_objects;

    #[test]
    fn chains_have_the_labels_of_their_deployment_and_its_template() {
        let api = "package-operator.run/v1alpha1";
        let deployment = |labels: Value, template: Value| {
            let object = json!({
                "apiVersion": api, "kind": "ObjectDeployment",
                "metadata": {"name": "web", "namespace": "shop", "uid": "d", "labels": labels},
                "spec": {"selector": {}, "template": {"metadata": {"labels": template}, "spec": {}}},
            });
            from_objects(vec![object], Vec::new()).0.remove(0)
        };
        let set = |labels: Value| {
            let object = json!({
                "apiVersion": api, "kind": "ObjectSet",
                "metadata": {"name": "web", "namespace": "shop", "uid": "s", "labels": labels}, "spec": {},
            });
            from_objects(Vec::new(), vec![object]).0.remove(0)
        };
        let selector: Selector = [Expression::Equal("app".to_owned(), "web".to_owned())]
            .into_iter()
            .collect();
        for (chain, expected) in [
            (deployment(json!({"app": "web"}), json!({})), true),
            (deployment(json!({}), json!({"app": "web"})), true),
            (
                deployment(json!({"app": "other"}), json!({"app": "web"})),
                false,
            ),
            (deployment(json!({}), json!({})), false),
            (set(json!({"app": "web"})), true),
            (set(json!({"app": "api"})), false),
        ] {
            assert_eq!(has(&chain, &selector), expected, "{chain:?}");
        }
    }
}
