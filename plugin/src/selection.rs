//! Which chains a command is about: those that were named, all of a namespace, or all there are.

pub(crate) mod labels;

use std::collections::BTreeSet;

use baton_view::{
    chain::{Chain, kind::ChainKind, position, target::Target},
    lists::{ListQuery, ListRequest},
};
use clap::Args;
use kube::core::Selector;

use crate::{
    args::AllNamespaces,
    cluster::lists::{self, from_objects},
    cluster::watches::Watches,
    connect::Cluster,
    error::Error,
    subject::{Subject, SubjectError, SubjectKind},
};

/// The arguments of commands that are about any number of chains.
#[derive(Clone, Debug, Args)]
pub(crate) struct SelectionArgs {
    /// Deployments or revisions: od/NAME, cod/NAME, os/NAME, cos/NAME, or NAME
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,

    #[command(flatten)]
    all: AllNamespaces,

    /// Only deployments with these labels, on themselves or in their template, and revisions without a deployment that
    /// have them: a=b, a!=b, "a in (b,c)", a, !a; several are separated by commas
    #[arg(long, short = 'l', value_name = "LABELS", value_parser = labels::parse)]
    selector: Option<Selector>,
}

impl SelectionArgs {
    /// The one thing that was named; `None` for any other number of deployments and revisions.
    pub(crate) fn one(&self, allowed: &[SubjectKind]) -> Result<Option<Subject>, Error> {
        let mut subjects = Subject::parse_all(&self.targets, allowed)?;
        if subjects.len() == 1 {
            self.check_flags()?;
            return Ok(subjects.pop());
        }
        if subjects.iter().all(|it| matches!(it, Subject::Chain(_))) {
            return Ok(None);
        }
        Err(SubjectError::NotOne(self.targets.join(" ")).into())
    }

    pub(crate) fn selection(&self) -> Result<Selection, Error> {
        let targets = Subject::parse_chains(&self.targets)?;
        if !targets.is_empty() {
            self.check_flags()?;
        }
        Ok(Selection {
            targets,
            all_namespaces: self.all.all_namespaces,
            selector: self.selector.clone(),
            labels: None,
        })
    }

    /// Refuses flags that do not go with a target.
    fn check_flags(&self) -> Result<(), Error> {
        if self.all.all_namespaces {
            return Err(only_one_namespace());
        }
        if self.selector.is_some() {
            let text = "a TARGET is chosen by its name; leave out either it or -l";
            return Err(Error::Usage(text.to_owned()));
        }
        Ok(())
    }
}

fn only_one_namespace() -> Error {
    let text = "a TARGET is looked for in one namespace; leave out either it or -A";
    Error::Usage(text.to_owned())
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    /// What the user named; nothing means everything in the namespace.
    pub(crate) targets: Vec<Target>,
    /// Everything in all namespaces, and outside of them.
    pub(crate) all_namespaces: bool,
    /// Only the chains that have these labels.
    pub(crate) selector: Option<Selector>,
    /// Only the revisions that have these labels, in the syntax of the API; no deployments then.
    pub(crate) labels: Option<String>,
}

/// A scope, by the kind of its deployments, with a namespace to look into; all of them where it is `None`.
pub(crate) type SearchScope = (ChainKind, Option<String>);

impl Selection {
    pub(crate) fn places(&self, cluster: &Cluster) -> BTreeSet<SearchScope> {
        let place = |kind: ChainKind| {
            let namespace = cluster.namespace_of(kind).map(str::to_owned);
            (kind.deployment(), namespace)
        };
        if self.all_namespaces {
            let all = [
                ChainKind::ObjectDeployment,
                ChainKind::ClusterObjectDeployment,
            ];
            all.map(|kind| (kind, None)).into()
        } else if self.targets.is_empty() {
            [place(ChainKind::ObjectDeployment)].into()
        } else {
            let kinds = self.targets.iter().map(|target| target.candidates()[0]);
            kinds.map(place).collect()
        }
    }

    /// The one namespace that is looked into, for messages.
    pub(crate) fn namespace<'a>(&self, cluster: &'a Cluster) -> Option<&'a str> {
        (!self.all_namespaces).then_some(cluster.namespace.as_str())
    }

    /// The revisions in the namespace that have the labels, where labels are asked for.
    fn labelled(&self, cluster: &Cluster) -> Option<ListRequest> {
        let labels = self.labels.clone()?;
        Some(ListRequest {
            path: ChainKind::ObjectSet.path(Some(&cluster.namespace)),
            query: ListQuery::labelled(labels),
        })
    }

    pub(crate) async fn read(&self, cluster: &Cluster) -> Result<Vec<Chain>, Error> {
        if let Some(source) = self.labelled(cluster) {
            let revisions = cluster.list_at(&source.path, &source.query).await?;
            return Ok(from_objects(Vec::new(), revisions));
        }
        let mut chains = Vec::new();
        for (kind, namespace) in self.places(cluster) {
            chains.extend(lists::chains(cluster, kind, namespace.as_deref()).await?);
        }
        for target in &self.targets {
            if position(&chains, target).is_none() {
                let namespace = cluster.namespace_of(target.candidates()[0]);
                return Err(lists::not_found(target, namespace));
            }
        }
        Ok(self.choose(chains))
    }

    /// What to watch for the chains.
    pub(crate) fn sources(&self, cluster: &Cluster) -> Vec<ListRequest> {
        if let Some(source) = self.labelled(cluster) {
            return vec![source];
        }
        let places = self.places(cluster).into_iter();
        let pairs = places.flat_map(|(kind, namespace)| {
            [kind.deployment(), kind.revision()]
                .map(|kind| ListRequest::all(kind.path(namespace.as_deref())))
        });
        pairs.collect()
    }

    /// The chains as the watches of [`Selection::sources`] know them; those that were named and do not exist
    /// (any more) are left out.
    pub(crate) fn watched(&self, cluster: &Cluster, watches: &Watches) -> Vec<Chain> {
        if let Some(source) = self.labelled(cluster) {
            let revisions = watches.objects(&source).cloned().collect();
            return from_objects(Vec::new(), revisions);
        }
        let mut chains = Vec::new();
        for (kind, namespace) in self.places(cluster) {
            let objects = |kind: ChainKind| {
                let source = ListRequest::all(kind.path(namespace.as_deref()));
                watches.objects(&source).cloned().collect()
            };
            let (deployments, revisions) = (objects(kind.deployment()), objects(kind.revision()));
            chains.extend(from_objects(deployments, revisions));
        }
        self.choose(chains)
    }

    /// The chains that are meant, each once.
    fn choose(&self, mut chains: Vec<Chain>) -> Vec<Chain> {
        if let Some(selector) = &self.selector {
            chains.retain(|chain| labels::has(chain, selector));
        }
        if self.targets.is_empty() {
            return chains;
        }
        let mut chosen = Vec::new();
        for target in &self.targets {
            if let Some((index, _)) = position(&chains, target)
                && !chosen.contains(&index)
            {
                chosen.push(index);
            }
        }
        let mut chains: Vec<Option<Chain>> = chains.into_iter().map(Some).collect();
        let chosen = chosen.into_iter();
        chosen.filter_map(|index| chains[index].take()).collect()
    }
}
