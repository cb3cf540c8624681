//! Which chains there are, as questions to lists.

use super::{Chain, from_objects, kind::ChainKind, pick, target::Target};
use crate::lists::{ListRequest, Lists, Missing, NoAnswer, Question};

/// All chains of the scope of a kind.
#[derive(Clone, Debug)]
pub struct AllChains {
    /// One of the kinds of the scope.
    pub kind: ChainKind,
    /// Where they are; `None` for all namespaces.
    pub namespace: Option<String>,
}

impl Question for AllChains {
    type Answer = Vec<Chain>;

    fn answer(&self, lists: &Lists) -> Result<Vec<Chain>, NoAnswer> {
        let all = |kind: ChainKind| ListRequest::all(kind.path(self.namespace.as_deref()));
        let deployments = lists.required(&all(self.kind.deployment()));
        let revisions = lists.required(&all(self.kind.revision()));
        let (chains, left_out) = from_objects(deployments?.cloned(), revisions?.cloned());
        for error in left_out {
            lists.warn(error.to_string());
        }
        Ok(chains)
    }
}

/// The chain of what a user named; `None` where that does not exist.
#[derive(Clone, Debug)]
pub struct OneChain {
    /// What was named.
    pub target: Target,
    /// Where it is looked for; `None` for cluster-scoped kinds.
    pub namespace: Option<String>,
}

impl OneChain {
    /// What does not exist where there is no answer.
    #[must_use]
    pub fn missing(&self) -> Missing {
        Missing::target(&self.target, self.namespace.as_deref())
    }
}

impl Missing {
    /// A deployment or a revision that does not exist.
    #[must_use]
    pub fn target(target: &Target, namespace: Option<&str>) -> Self {
        let kinds = target.candidates().into_iter();
        Self {
            plurals: kinds.map(|kind| kind.plural).collect(),
            name: target.name.clone(),
            namespace: namespace.map(str::to_owned),
        }
    }
}

impl Question for OneChain {
    type Answer = Option<Chain>;

    fn answer(&self, lists: &Lists) -> Result<Option<Chain>, NoAnswer> {
        let all = AllChains {
            kind: self.target.candidates()[0],
            namespace: self.namespace.clone(),
        };
        Ok(pick(all.answer(lists)?, &self.target))
    }
}
