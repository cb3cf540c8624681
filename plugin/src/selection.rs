//! Which chains a command is about: those that were named, all of a namespace, or all there are.

use std::collections::BTreeSet;

use clap::Args;

use crate::{
    chain::{self, Chain, from_objects, position},
    cli::AllNamespaces,
    connect::{Cluster, Source},
    error::Error,
    live::Watches,
    target::{Kind, Target, parse_all},
};

/// The arguments of commands that are about any number of chains.
#[derive(Clone, Debug, Args)]
pub struct SelectionArgs {
    /// Deployments or revisions: od/NAME, cod/NAME, os/NAME, cos/NAME, or NAME
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,

    #[command(flatten)]
    all: AllNamespaces,
}

impl SelectionArgs {
    /// What they mean.
    ///
    /// # Errors
    /// The words name nothing, or do not go together with the flag.
    pub fn selection(&self) -> Result<Selection, Error> {
        let targets = parse_all(&self.targets)?;
        let all_namespaces = self.all.all_namespaces;
        if all_namespaces && !targets.is_empty() {
            return Err(Error::Usage(
                "a TARGET is looked for in one namespace; leave out either it or -A".to_owned(),
            ));
        }
        Ok(Selection {
            targets,
            all_namespaces,
        })
    }
}

/// Which chains.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// What the user named; nothing means everything in the namespace.
    pub targets: Vec<Target>,
    /// Everything in all namespaces, and outside of them.
    pub all_namespaces: bool,
}

/// A scope, by the kind of its deployments, with a namespace to look into; all of them where it is `None`.
pub type Place = (Kind, Option<String>);

impl Selection {
    /// Where to look.
    #[must_use]
    pub fn places(&self, cluster: &Cluster) -> BTreeSet<Place> {
        let place = |kind: Kind| {
            let namespace = cluster.namespace_of(kind).map(str::to_owned);
            (kind.deployment(), namespace)
        };
        if self.all_namespaces {
            let all = [Kind::ObjectDeployment, Kind::ClusterObjectDeployment];
            all.map(|kind| (kind, None)).into()
        } else if self.targets.is_empty() {
            [place(Kind::ObjectDeployment)].into()
        } else {
            let kinds = self.targets.iter().map(|target| target.candidates()[0]);
            kinds.map(place).collect()
        }
    }

    /// The one namespace that is looked into, for messages.
    #[must_use]
    pub fn namespace<'a>(&self, cluster: &'a Cluster) -> Option<&'a str> {
        (!self.all_namespaces).then_some(cluster.namespace.as_str())
    }

    /// Reads the chains.
    ///
    /// # Errors
    /// They cannot be read, or something that was named is not among them.
    pub async fn read(&self, cluster: &Cluster) -> Result<Vec<Chain>, Error> {
        let mut chains = Vec::new();
        for (kind, namespace) in self.places(cluster) {
            chains.extend(chain::read_all(cluster, kind, namespace.as_deref()).await?);
        }
        for target in &self.targets {
            if position(&chains, target).is_none() {
                let namespace = cluster.namespace_of(target.candidates()[0]);
                return Err(chain::not_found(target, namespace));
            }
        }
        Ok(self.choose(chains))
    }

    /// What to watch for the chains.
    #[must_use]
    pub fn sources(&self, cluster: &Cluster) -> Vec<Source> {
        let places = self.places(cluster).into_iter();
        let pairs = places.flat_map(|(kind, namespace)| {
            [kind.deployment(), kind.revision()]
                .map(|kind| Source::all(kind.path(namespace.as_deref())))
        });
        pairs.collect()
    }

    /// The chains as the watches of [`Selection::sources`] know them; those that were named and do not exist
    /// (any more) are left out.
    #[must_use]
    pub fn watched(&self, cluster: &Cluster, watches: &Watches) -> Vec<Chain> {
        let mut chains = Vec::new();
        for (kind, namespace) in self.places(cluster) {
            let objects = |kind: Kind| {
                let source = Source::all(kind.path(namespace.as_deref()));
                watches.objects(&source).cloned().collect()
            };
            let (deployments, revisions) = (objects(kind.deployment()), objects(kind.revision()));
            chains.extend(from_objects(deployments, revisions));
        }
        self.choose(chains)
    }

    /// The chains that are meant, each once.
    fn choose(&self, chains: Vec<Chain>) -> Vec<Chain> {
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
