//! Errors in one line for people.

use std::{fmt, io, path::PathBuf, time::Duration};

use baton_terminal::{error::innermost, kubeconfig::ConfigError};

use super::rights::Right;
use crate::name::NameError;

/// One of the two clusters, as the subject of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ClusterRole {
    /// The cluster in which the manager runs.
    Hub,
    /// The cluster that phases are delivered into.
    Target,
}

impl fmt::Display for ClusterRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hub => "hub",
            Self::Target => "target",
        })
    }
}

/// One of the two clusters, with the URL of its API server.
#[derive(Clone, Debug)]
pub(super) struct ClusterAddress {
    pub side: ClusterRole,
    pub url: String,
}

impl fmt::Display for ClusterAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the {} at {}", self.side, self.url)
    }
}

/// The reason that a command about clusters failed. The text contains the causes, so
/// `source` returns none.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("{0}")]
    Usage(String),
    #[error("{side}: {}", cause.with_flags(prefix(*side)))]
    Config {
        side: ClusterRole,
        cause: Box<ConfigError>,
    },
    #[error("{at}: the client cannot be set up: {}", innermost(cause))]
    Client {
        at: ClusterAddress,
        cause: Box<kube::Error>,
    },
    #[error("{at} cannot be reached: {}", innermost(cause))]
    Unreachable {
        at: ClusterAddress,
        cause: Box<kube::Error>,
    },
    #[error(
        "{at} does not accept the credentials of the kubeconfig (401 Unauthorized); renew them, or choose others with \
         --{}context",
        prefix(at.side)
    )]
    Unauthorized { at: ClusterAddress },
    #[error("{at} refused: {message}")]
    Refused { at: ClusterAddress, message: String },
    #[error("{at} does not allow you to {}", list(missing))]
    Lacking {
        at: ClusterAddress,
        missing: Vec<Right>,
    },
    #[error(
        "{at} does not serve all custom resources of this version; install their definitions there first: kubectl \
         apply --server-side -f config/crds"
    )]
    NotInstalled { at: ClusterAddress },
    #[error(
        "{at} has no namespace {namespace}; install Baton there first, or name its clusters namespace with --namespace"
    )]
    NoClustersNamespace {
        at: ClusterAddress,
        namespace: String,
    },
    #[error(
        "hub and target are the same cluster ({hub} and {target}); choose the target with --context or --kubeconfig, \
         the hub with --hub-context or --hub-kubeconfig, or pass --allow-same"
    )]
    Same { hub: String, target: String },
    #[error(
        "{at} is joined as {found}, not as {wanted}; choose another target with --context, or remove {found} first"
    )]
    JoinedAsAnother {
        at: ClusterAddress,
        found: String,
        wanted: String,
    },
    #[error(
        "{name} is a {found} cluster on the hub, and two connections at once would mean two writers; remove it first \
         (baton cluster remove {name}), or join it again {}",
        if found == "Pull" { "with --pull" } else { "without --pull" }
    )]
    OtherConnection { name: String, found: String },
    #[error(
        "siteassignment {name} on the hub was not written by `baton cluster join`, so it is not changed; edit it, or \
         join without --for-namespaces and --for-all"
    )]
    ForeignAssignment { name: String },
    #[error("{object} on the {side} is being deleted; run the command again when it is gone")]
    Terminating { side: ClusterRole, object: String },
    #[error(
        "{at} did not create a token in secret {secret} within {} s; its controller manager must run the token \
         controller",
        limit.as_secs()
    )]
    NoToken {
        at: ClusterAddress,
        secret: String,
        limit: Duration,
    },
    #[error(
        "{url} does not accept the credentials made at {made_at}: {cause}; give the address of that cluster with \
         --{flag}"
    )]
    WrongServer {
        url: String,
        made_at: String,
        flag: &'static str,
        cause: String,
    },
    #[error("{at} has none of {}; choose the cluster that was joined", missing.join(", "))]
    NotJoined {
        at: ClusterAddress,
        missing: Vec<String>,
    },
    #[error("{at} has no cluster {name}")]
    NoSuchCluster { at: ClusterAddress, name: String },
    #[error(
        "{count} {} of class cluster.{name}: {}; delete or archive their revisions first, or go on with --force, \
         which leaves their objects in the cluster",
        if *count == 1 { "phase is" } else { "phases are" },
        some(first, *count)
    )]
    InUse {
        name: String,
        count: usize,
        first: Vec<String>,
    },
    #[error("cannot read {}: {cause}", path.display())]
    Read { path: PathBuf, cause: io::Error },
    #[error("{} is not a list of clusters: {cause}", path.display())]
    File { path: PathBuf, cause: String },
    #[error("{cause}. {}", state(done, missing))]
    Halfway {
        cause: Box<Error>,
        done: Vec<String>,
        missing: Vec<String>,
    },
    #[error(
        "the phases in namespace {namespace} on the hub are created again and again, because a manager still treats \
         the cluster as joined; run the command again"
    )]
    Unforgotten { namespace: String },
    #[error("{failed} of {total} clusters could not be joined")]
    Some { failed: usize, total: usize },
    #[error("cannot write as YAML: {0}")]
    Yaml(#[from] serde_saphyr::ser::Error),
    #[error("cannot write to standard output: {0}")]
    Output(io::Error),
}

/// The prefix of a cluster's flags: those of the hub have one.
fn prefix(side: ClusterRole) -> &'static str {
    match side {
        ClusterRole::Hub => "hub-",
        ClusterRole::Target => "",
    }
}

/// The text of rights, with the verbs for the same objects joined.
fn list(rights: &[Right]) -> String {
    let groups = rights.chunk_by(|one, next| one.object() == next.object());
    let groups = groups.map(|group| {
        let verbs: Vec<&str> = group.iter().map(|right| right.verb).collect();
        let object = group.first().map(Right::object).unwrap_or_default();
        format!("{} {object}", verbs.join(" and "))
    });
    groups.collect::<Vec<_>>().join(", ")
}

/// The first names, and the number of the others.
fn some(first: &[String], count: usize) -> String {
    let more = count.saturating_sub(first.len());
    let names = first.join(", ");
    if more == 0 {
        names
    } else {
        format!("{names} and {more} more")
    }
}

/// The text of what was done and what was not.
fn state(done: &[String], missing: &[String]) -> String {
    if done.is_empty() {
        return "Nothing was changed".to_owned();
    }
    let mut text = format!("Done before that: {}", done.join(", "));
    if !missing.is_empty() {
        text = format!("{text}; not done: {}", missing.join(", "));
    }
    format!("{text}. Running the command again continues from there")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggested_flags_are_those_of_the_affected_cluster() {
        let error = |side| {
            let cause = Box::new(ConfigError::UnknownContext {
                origin: "FILE".to_owned(),
                context: "x".to_owned(),
                contexts: vec!["a".to_owned()],
            });
            Error::Config { side, cause }.to_string()
        };
        assert_eq!(
            error(ClusterRole::Hub),
            r#"hub: the kubeconfig FILE has no context "x"; choose one of ["a"] with --hub-context"#
        );
        assert_eq!(
            error(ClusterRole::Target),
            r#"target: the kubeconfig FILE has no context "x"; choose one of ["a"] with --context"#
        );
        let cause = Box::new(ConfigError::ContextWithoutFile {
            context: "x".to_owned(),
        });
        let error = Error::Config {
            side: ClusterRole::Hub,
            cause,
        };
        assert_eq!(
            error.to_string(),
            "hub: --hub-context \"x\" needs a kubeconfig and none was found; give one with --hub-kubeconfig or \
             KUBECONFIG"
        );
    }

    #[test]
    fn an_error_after_the_first_write_lists_the_completed_steps() {
        let error = |done: &[&str], missing: &[&str]| {
            let owned = |items: &[&str]| {
                items
                    .iter()
                    .map(|item| (*item).to_owned())
                    .collect::<Vec<_>>()
            };
            let cause = Box::new(Error::Usage("it broke".to_owned()));
            let (done, missing) = (owned(done), owned(missing));
            Error::Halfway {
                cause,
                done,
                missing,
            }
            .to_string()
        };
        assert_eq!(
            error(&["namespace a", "secret b"], &["cluster c"]),
            "it broke. Done before that: namespace a, secret b; not done: cluster c. Running the command again \
             continues from there"
        );
        assert_eq!(error(&[], &["cluster c"]), "it broke. Nothing was changed");
    }

    #[test]
    fn rights_to_the_same_objects_are_listed_together() {
        let right = |verb, resource: &str, namespace: &str| Right {
            verb,
            group: String::new(),
            resource: resource.to_owned(),
            namespace: namespace.to_owned(),
            name: "a".to_owned(),
        };
        let error = Error::Lacking {
            at: ClusterAddress {
                side: ClusterRole::Target,
                url: "https://a".to_owned(),
            },
            missing: vec![
                right("create", "namespaces", ""),
                right("create", "secrets", "b"),
                right("patch", "secrets", "b"),
            ],
        };
        assert_eq!(
            error.to_string(),
            "the target at https://a does not allow you to create namespaces, create and patch secrets in namespace b"
        );
    }

    #[test]
    fn only_the_first_of_many_phases_are_listed() {
        let error = |count| {
            let first = vec!["shop/a".to_owned(), "b".to_owned()];
            let name = "eu".to_owned();
            Error::InUse { name, count, first }.to_string()
        };
        assert!(error(2).starts_with("2 phases are of class cluster.eu: shop/a, b; delete"));
        assert!(error(7).contains(": shop/a, b and 5 more; delete"));
    }
}
