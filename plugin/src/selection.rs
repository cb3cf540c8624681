//! The chains that a command is about: named ones, all chains of a namespace, or all chains.

pub(crate) mod labels;

use baton_cluster::Cluster;
use baton_view::selection::Selection;
use clap::Args;
use kube::core::Selector;

use crate::{
    args::{AllNamespaces, GlobalArgs},
    error::{Error, SubjectError},
    subject::{Subject, SubjectKind},
};

/// The arguments of commands for any number of chains.
#[derive(Clone, Debug, Args)]
pub(crate) struct SelectionArgs {
    /// Deployments or revisions: od/NAME, cod/NAME, os/NAME, cos/NAME, or NAME
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,

    #[command(flatten)]
    all: AllNamespaces,

    /// Only deployments with these labels, on themselves or in their template, and revisions with
    /// them that have no deployment: a=b, a!=b, "a in (b,c)", a, !a; separate several by commas
    #[arg(long, short = 'l', value_name = "LABELS", value_parser = labels::parse)]
    selector: Option<Selector>,
}

impl SelectionArgs {
    /// The only object that was named; `None` for any other number of deployments and revisions.
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

    /// Connects to the cluster. Returns the selected chains besides.
    pub(crate) async fn connect(&self, global: &GlobalArgs) -> Result<(Cluster, Selection), Error> {
        let targets = Subject::parse_chains(&self.targets)?;
        if !targets.is_empty() {
            self.check_flags()?;
        }
        let cluster = global.connect().await?;
        let selection = Selection {
            targets,
            namespace: cluster.namespace.clone(),
            all_namespaces: self.all.all_namespaces,
            selector: self.selector.clone(),
            labels: None,
        };
        Ok((cluster, selection))
    }

    /// Refuses flags that cannot be combined with a target.
    fn check_flags(&self) -> Result<(), Error> {
        if self.all.all_namespaces {
            return Err(only_one_namespace());
        }
        if self.selector.is_some() {
            let text = "a TARGET and -l cannot be used together";
            return Err(Error::Usage(text.to_owned()));
        }
        Ok(())
    }
}

fn only_one_namespace() -> Error {
    let text = "a TARGET and -A cannot be used together, as a TARGET is in one namespace";
    Error::Usage(text.to_owned())
}

/// Assembles chains from objects as lists return them.
#[cfg(test)]
pub(crate) fn from_objects(
    deployments: Vec<serde_json::Value>,
    revisions: Vec<serde_json::Value>,
) -> Vec<baton_view::chain::Chain> {
    baton_view::chain::from_objects(deployments, revisions).0
}
