//! The clusters that phases deliver into, by contexts of the kubeconfig that the user names for them.

use std::str::FromStr;

use baton_steering::diff::phase_clusters::PhaseClusters;
use baton_terminal::kubeconfig::ConnectionArgs;

use crate::{args::GlobalArgs, error::Error};

/// `NAME=CONTEXT`: the name of a Cluster, and the context of the kubeconfig to reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClusterContext {
    name: String,
    context: String,
}

impl FromStr for ClusterContext {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((name, context)) if !name.is_empty() && !context.is_empty() => Ok(Self {
                name: name.to_owned(),
                context: context.to_owned(),
            }),
            _ => Err(
                "is not NAME=CONTEXT, the name of a Cluster and a context of the kubeconfig"
                    .to_owned(),
            ),
        }
    }
}

/// Makes a client for each cluster; sends no request yet.
pub(crate) async fn connect(
    global: &GlobalArgs,
    contexts: &[ClusterContext],
) -> Result<PhaseClusters, Error> {
    let home = global.connect().await?;
    let namespace = home.namespace.clone();
    let mut places = PhaseClusters::only(home);
    for ClusterContext { name, context } in contexts {
        let connection = ConnectionArgs {
            kubeconfig: global.kubeconfig.clone(),
            context: Some(context.clone()),
        };
        let cluster = global.connect_by(&connection, Some(&namespace)).await?;
        if !places.add(name, cluster) {
            return Err(Error::Usage(format!(
                "--cluster-context: {name} is named twice"
            )));
        }
    }
    Ok(places)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_are_named_by_cluster() {
        let parsed: ClusterContext = "eu-1=admin@eu=1".parse().unwrap();
        assert_eq!((&*parsed.name, &*parsed.context), ("eu-1", "admin@eu=1"));
        for text in ["", "eu-1", "=x", "eu-1="] {
            assert!(text.parse::<ClusterContext>().is_err(), "{text}");
        }
    }
}
