//! What goes wrong, in one line for a person.

use std::{error::Error as StdError, fmt, io, path::PathBuf, time::Duration};

use super::{name::NameError, rights::Right};
use crate::cli::kubeconfig::ConfigError;

/// Which of the two clusters something is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// The cluster in which the manager runs.
    Hub,
    /// The cluster that phases are delivered into.
    Target,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hub => "hub",
            Self::Target => "target",
        })
    }
}

/// Why clusters could not be joined, listed or removed.
///
/// What they hold of other errors is part of their text already, so it is not told again as a source.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A name does not fit.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The flags do not go together.
    #[error("{0}")]
    Usage(String),
    /// Which cluster to talk to is unclear.
    #[error("{side}: {}", cause.with_flags(prefix(*side)))]
    Config {
        /// Of which cluster.
        side: Side,
        /// What is wrong.
        cause: Box<ConfigError>,
    },
    /// The kubeconfig cannot be made into a client.
    #[error("the {side} at {url} cannot be connected to: {}", innermost(cause))]
    Client {
        /// Which cluster.
        side: Side,
        /// URL of its API server.
        url: String,
        /// Why.
        cause: Box<kube::Error>,
    },
    /// No answer came.
    #[error("the {side} at {url} cannot be reached: {}", innermost(cause))]
    Unreachable {
        /// Which cluster.
        side: Side,
        /// URL of its API server.
        url: String,
        /// Why.
        cause: Box<kube::Error>,
    },
    /// The server does not know who we are.
    #[error(
        "the {side} at {url} does not accept the credentials of the kubeconfig (401 Unauthorized); renew them, or choose others with --{}context",
        prefix(*side)
    )]
    Unauthorized {
        /// Which cluster.
        side: Side,
        /// URL of its API server.
        url: String,
    },
    /// The server refused a request. Its own words name the right that is missing, or what is wrong.
    #[error("the {side} at {url} refused: {message}")]
    Refused {
        /// Which cluster.
        side: Side,
        /// URL of its API server.
        url: String,
        /// What it said.
        message: String,
    },
    /// Something is going to be refused.
    #[error("the {side} at {url} does not allow you to {}", told(missing))]
    Lacking {
        /// Which cluster.
        side: Side,
        /// URL of its API server.
        url: String,
        /// What is missing, in the order of the work.
        missing: Vec<Right>,
    },
    /// The hub has no Clusters.
    #[error(
        "the hub at {url} does not serve clusters.shipper.booking.com; install the custom resource definitions there first: kubectl apply --server-side -f config/crds"
    )]
    NotInstalled {
        /// URL of its API server.
        url: String,
    },
    /// The namespace of the Secrets does not exist.
    #[error(
        "the hub at {url} has no namespace {namespace}; install Baton there first, or name its clusters namespace with --namespace"
    )]
    NoClustersNamespace {
        /// URL of its API server.
        url: String,
        /// What was looked for.
        namespace: String,
    },
    /// The same cluster twice.
    #[error(
        "hub and target are the same cluster ({hub} and {target}); choose the target with --context or --kubeconfig, the hub with --hub-context or --hub-kubeconfig, or say --allow-same"
    )]
    Same {
        /// URL of the hub's API server.
        hub: String,
        /// URL of the target's API server.
        target: String,
    },
    /// The target belongs to another Cluster.
    #[error(
        "the target at {url} is joined as {found}, not as {wanted}; choose another target with --context, or remove {found} first"
    )]
    JoinedAsAnother {
        /// URL of its API server.
        url: String,
        /// What it is joined as.
        found: String,
        /// What was asked for.
        wanted: String,
    },
    /// A push cluster is to become a pull cluster, or the other way round.
    #[error(
        "{name} is a {found} cluster on the hub, and both ways at once would make two writers; remove it first (baton cluster remove {name}), or join it as it is, {}",
        if found == "Pull" { "with --pull" } else { "without --pull" }
    )]
    OtherConnection {
        /// The cluster.
        name: String,
        /// How it is connected.
        found: String,
    },
    /// Something that is needed is being deleted.
    #[error("{object} on the {side} is being deleted; run the command again when it is gone")]
    Terminating {
        /// Which cluster.
        side: Side,
        /// What.
        object: String,
    },
    /// Nobody fills the Secret of the token.
    #[error(
        "the {side} at {url} did not make a token in secret {secret} within {} s; its controller manager has to run the token controller",
        limit.as_secs()
    )]
    NoToken {
        /// Which cluster.
        side: Side,
        /// URL of its API server.
        url: String,
        /// Namespace and name of the Secret.
        secret: String,
        /// How long it was waited for.
        limit: Duration,
    },
    /// The token of a cluster does not open the server at the address that was to be written down.
    #[error(
        "the credentials made at {made_at} do not open {url}: {cause}; give the address of that very cluster with --{flag}"
    )]
    WrongServer {
        /// The address that was to be written down.
        url: String,
        /// Where the token comes from.
        made_at: String,
        /// The flag that sets the address.
        flag: &'static str,
        /// What the server said, or why there is no connection.
        cause: String,
    },
    /// There is nothing to remove.
    #[error("the hub at {url} has no cluster {name}")]
    NoSuchCluster {
        /// URL of its API server.
        url: String,
        /// What was looked for.
        name: String,
    },
    /// The cluster is in use.
    #[error(
        "{count} {} of class cluster.{name}: {}; delete or archive their revisions first, or go on with --force, which leaves their objects in the cluster",
        if *count == 1 { "phase is" } else { "phases are" },
        some(first, *count)
    )]
    InUse {
        /// The cluster.
        name: String,
        /// How many phases.
        count: usize,
        /// The first of them.
        first: Vec<String>,
    },
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is not a list of clusters.
    #[error("{} is not a list of clusters: {cause}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong, with the place.
        cause: String,
    },
    /// Something went wrong after the first write.
    #[error("{cause}. {}", state(done, missing))]
    Halfway {
        /// What.
        cause: Box<Error>,
        /// What was written before.
        done: Vec<String>,
        /// What was still to be written.
        missing: Vec<String>,
    },
    /// What an agent reads keeps coming back.
    #[error(
        "the phases in namespace {namespace} on the hub keep coming back, as a manager still takes the cluster for one of its own; run the command again"
    )]
    Unforgotten {
        /// The namespace of the agent.
        namespace: String,
    },
    /// Some clusters of a list failed; each was told about.
    #[error("{failed} of {total} clusters could not be joined")]
    Some {
        /// How many failed.
        failed: usize,
        /// How many there are.
        total: usize,
    },
    /// A manifest could not be written down.
    #[error("cannot write as YAML: {0}")]
    Yaml(#[from] serde_saphyr::ser::Error),
    /// Nobody reads what is printed.
    #[error("cannot write to standard output: {0}")]
    Output(io::Error),
}

/// The flags of the hub have a prefix.
fn prefix(side: Side) -> &'static str {
    match side {
        Side::Hub => "hub-",
        Side::Target => "",
    }
}

/// An error, its cause, the cause of that, and so on.
fn causes<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    fn next<'a>(error: &&'a (dyn StdError + 'static)) -> Option<&'a (dyn StdError + 'static)> {
        let error = *error;
        match error.downcast_ref::<io::Error>() {
            // Its source is that of the error inside.
            Some(io) => io.get_ref().map(|inner| inner as _),
            None => error.source(),
        }
    }
    std::iter::successors(Some(error), next)
}

/// Whether one of the causes is an I/O error of this kind.
pub(super) fn is_io(error: &(dyn StdError + 'static), kind: io::ErrorKind) -> bool {
    causes(error)
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|io| io.kind() == kind)
}

/// The last cause: those around it only say that a request failed.
pub(super) fn innermost(error: &(dyn StdError + 'static)) -> String {
    if is_io(error, io::ErrorKind::TimedOut) {
        return "no answer in time".to_owned();
    }
    causes(error)
        .last()
        .map(|cause| one_line(&cause.to_string()))
        .unwrap_or_default()
}

/// Without line breaks.
pub(super) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Rights about the same objects in one go.
fn told(rights: &[Right]) -> String {
    let groups = rights.chunk_by(|one, next| one.object() == next.object());
    let groups = groups.map(|group| {
        let verbs: Vec<&str> = group.iter().map(|right| right.verb).collect();
        let object = group.first().map(Right::object).unwrap_or_default();
        format!("{} {object}", verbs.join(" and "))
    });
    groups.collect::<Vec<_>>().join(", ")
}

/// The first names, and how many more there are.
fn some(first: &[String], count: usize) -> String {
    let more = count.saturating_sub(first.len());
    let names = first.join(", ");
    if more == 0 {
        names
    } else {
        format!("{names} and {more} more")
    }
}

/// What is there and what is not.
fn state(done: &[String], missing: &[String]) -> String {
    if done.is_empty() {
        return "Nothing was changed".to_owned();
    }
    let mut text = format!("Done before that: {}", done.join(", "));
    if !missing.is_empty() {
        text = format!("{text}; not done: {}", missing.join(", "));
    }
    format!("{text}. Running the command again goes on from there")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_those_of_the_cluster_that_is_meant() {
        let error = |side| {
            let cause = Box::new(ConfigError::UnknownContext {
                origin: "FILE".to_owned(),
                context: "x".to_owned(),
                known: vec!["a".to_owned()],
            });
            Error::Config { side, cause }.to_string()
        };
        assert_eq!(
            error(Side::Hub),
            r#"hub: the kubeconfig FILE has no context "x"; choose one of ["a"] with --hub-context"#
        );
        assert_eq!(
            error(Side::Target),
            r#"target: the kubeconfig FILE has no context "x"; choose one of ["a"] with --context"#
        );
        let cause = Box::new(ConfigError::ContextWithoutFile {
            context: "x".to_owned(),
        });
        let error = Error::Config {
            side: Side::Hub,
            cause,
        };
        assert_eq!(
            error.to_string(),
            "hub: --hub-context \"x\" needs a kubeconfig and none was found; give one with --hub-kubeconfig or KUBECONFIG"
        );
    }

    #[test]
    fn nothing_half_done_is_left_unsaid() {
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
            "it broke. Done before that: namespace a, secret b; not done: cluster c. Running the command again goes on from there"
        );
        assert_eq!(error(&[], &["cluster c"]), "it broke. Nothing was changed");
    }

    #[test]
    fn causes_are_found_inside_of_each_other() {
        let inner = io::Error::new(io::ErrorKind::InvalidData, "a bad\ncertificate");
        let outer = kube::Error::ReadEvents(io::Error::other(inner));
        assert_eq!(innermost(&outer), "a bad certificate");
        assert!(is_io(&outer, io::ErrorKind::InvalidData));
        let late = kube::Error::ReadEvents(io::Error::new(io::ErrorKind::TimedOut, "x"));
        assert_eq!(innermost(&late), "no answer in time");
    }

    #[test]
    fn rights_are_told_together() {
        let right = |verb, resource: &str, namespace: &str| Right {
            verb,
            group: String::new(),
            resource: resource.to_owned(),
            namespace: namespace.to_owned(),
            name: "a".to_owned(),
        };
        let error = Error::Lacking {
            side: Side::Target,
            url: "https://a".to_owned(),
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
    fn of_many_phases_the_first_are_named() {
        let error = |count| {
            let first = vec!["shop/a".to_owned(), "b".to_owned()];
            let name = "eu".to_owned();
            Error::InUse { name, count, first }.to_string()
        };
        assert!(error(2).starts_with("2 phases are of class cluster.eu: shop/a, b; delete"));
        assert!(error(7).contains(": shop/a, b and 5 more; delete"));
    }
}
