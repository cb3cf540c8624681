//! Flags and values that several commands share.

use std::{path::PathBuf, sync::Arc, time::Duration};

use baton_cluster::{Cluster, ClusterError, connect, connect_with};
use baton_terminal::{
    kubeconfig::{ConnectionArgs, in_cluster_config},
    output::{stdout, warn_once},
};
use baton_text::output::Output;
use clap::{Args, ColorChoice};
use jiff::SignedDuration;

use crate::error::Error;

/// The flags of all commands.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct GlobalArgs {
    /// Kubeconfig to use instead of KUBECONFIG and ~/.kube/config
    #[arg(long, alias = "kube-config", global = true, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig to use instead of the current one
    #[arg(
        long,
        alias = "management-cluster-context",
        global = true,
        value_name = "NAME"
    )]
    pub(crate) context: Option<String>,

    /// Namespace to use instead of that of the context
    #[arg(long, short, global = true, value_name = "NAME", value_parser = namespace)]
    pub(crate) namespace: Option<String>,

    /// User to impersonate
    #[arg(long = "as", global = true, value_name = "USER")]
    pub(crate) as_user: Option<String>,

    /// Use of colours: always, never, or auto: on a terminal, unless `NO_COLOR` is set
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        hide_possible_values = true
    )]
    pub(crate) color: ColorChoice,
}

impl GlobalArgs {
    /// Connects to the chosen cluster. No request is sent yet, unless the kubeconfig names a
    /// program that supplies credentials.
    pub(crate) async fn connect(&self) -> Result<Cluster, Error> {
        let connection = ConnectionArgs {
            kubeconfig: self.kubeconfig.clone(),
            context: self.context.clone(),
        };
        self.connect_by(&connection, self.namespace()).await
    }

    /// As [`Self::connect`], to another cluster, with a namespace in use.
    pub(crate) async fn connect_by(
        &self,
        connection: &ConnectionArgs,
        namespace: Option<&str>,
    ) -> Result<Cluster, Error> {
        let user = self.as_user.as_deref();
        Ok(connect(connection, namespace, user, Arc::new(warn_once)).await?)
    }

    /// As [`Self::connect`], to the cluster of the pod that this program runs in.
    pub(crate) fn connect_in_cluster(&self) -> Result<Cluster, Error> {
        let config = in_cluster_config().map_err(ClusterError::from)?;
        let user = self.as_user.as_deref();
        Ok(connect_with(
            config,
            self.namespace(),
            user,
            Arc::new(warn_once),
        )?)
    }

    /// The namespace of the flag. An empty one counts as none, as for kubectl.
    pub(crate) fn namespace(&self) -> Option<&str> {
        let namespace = self.namespace.as_deref();
        namespace.filter(|namespace| !namespace.is_empty())
    }

    /// Properties of the standard output.
    pub(crate) fn output(&self) -> Output {
        stdout(self.color)
    }
}

/// The flag of commands that can read all namespaces.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct AllNamespaces {
    /// Show objects of all namespaces, and cluster-scoped ones
    #[arg(long, short = 'A')]
    pub(crate) all_namespaces: bool,
}

/// Parses the name of a namespace, which becomes a part of URLs. An empty name is allowed, as in
/// kubectl.
pub(crate) fn namespace(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let well_formed = text.len() <= 63
        && text.chars().all(fits)
        && !text.starts_with('-')
        && !text.ends_with('-');
    if well_formed {
        Ok(text.to_owned())
    } else {
        Err("names of namespaces consist of up to 63 lower-case letters, digits and '-'".to_owned())
    }
}

/// Parses a duration as `kubectl --timeout` does: `90s`, `5m`, `1h30m`, and `0` for no limit.
pub(crate) fn timeout(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let duration: SignedDuration = text
        .parse()
        .map_err(|_| "expected a duration such as 90s, 5m or 1h30m".to_owned())?;
    Duration::try_from(duration).map_err(|_| "must not be negative".to_owned())
}

/// The name of the first flag that was given, if any.
pub(crate) fn given<'f>(flags: &[(bool, &'f str)]) -> Option<&'f str> {
    let given = flags.iter().find(|(is_given, _)| *is_given);
    given.map(|(_, flag)| *flag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_are_names() {
        for text in ["", "shop", "kube-system", "0"] {
            assert_eq!(namespace(text).unwrap(), text);
        }
        for text in ["Shop", "a/b", "a.b", "-a", "a-", "a b", &"a".repeat(64)] {
            namespace(text).unwrap_err();
        }
    }

    #[test]
    fn durations_are_those_of_kubectl() {
        for (text, seconds) in [
            ("0", 0),
            ("0s", 0),
            ("90s", 90),
            ("5m", 300),
            ("1h30m", 5400),
        ] {
            assert_eq!(timeout(text).unwrap(), Duration::from_secs(seconds));
        }
        assert_eq!(timeout("500ms").unwrap(), Duration::from_millis(500));
        for text in ["", "5", "-5s", "soon"] {
            timeout(text).unwrap_err();
        }
    }
}
