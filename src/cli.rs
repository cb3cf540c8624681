//! The command line: flags and their environment variables, parsed into validated types.

pub(crate) mod crds;
pub(crate) mod dashboard;
pub(crate) mod values;

use std::path::PathBuf;

use clap::{Arg, ArgAction, Args, Parser, Subcommand};

use baton_fleet::membership::args::ClusterArgs;
use baton_fleet::name::ClusterName;
use baton_runtime::server::ListenAddr;
use baton_terminal::{kubeconfig::ConnectionArgs, values::Namespace};
use crds::PrintCrdsArgs;
use dashboard::DashboardArgs;
use values::{AccountName, Identity, LogFilter, LogFormat, Workers};

/// Revisions for Kubernetes: ordered phases, probes, handover, rollback.
#[derive(Debug, Parser)]
#[command(name = "baton", version, propagate_version = true)]
pub(crate) struct Cli {
    /// The command to run.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands of the binary.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the manager: reconcile the revisions of one cluster until a signal stops it
    Manager(Box<ManagerArgs>),
    /// Run the agent of one cluster: deliver the phases that the hub assigns to the cluster until a
    /// signal stops it
    Agent(Box<AgentArgs>),
    /// Serve web pages of a cluster to viewers with bearer tokens until a signal stops it
    ///
    /// All requests to the API server have the token of a viewer: the process has no rights of its own.
    /// On your own machine, use `kubectl baton dashboard`.
    Dashboard(Box<DashboardArgs>),
    /// Install Baton in the hub, join other clusters to it, list them, and remove them
    #[command(visible_alias = "clusters")]
    Cluster(ClusterArgs),
    /// Print the custom resource definitions of this version, for kubectl apply
    PrintCrds(PrintCrdsArgs),
    /// Print the version; `kubectl baton version` prints those of a cluster
    Version,
}

/// Flags of `baton manager`.
#[derive(Clone, Debug, Args)]
#[command(mut_args(requirement))]
pub(crate) struct ManagerArgs {
    /// The cluster to connect to.
    #[command(flatten)]
    pub connection: ConnectionArgs,

    /// Flags of the process.
    #[command(flatten)]
    pub process: ProcessArgs,

    /// Namespace of the Secrets with the credentials of other clusters [default: that of
    /// --namespace]
    ///
    /// Each Secret has the name of its Cluster. A hub that was used with Shipper has its Secrets in
    /// `shipper-system`.
    #[arg(
        long,
        env = "BATON_CLUSTERS_NAMESPACE",
        hide_env_values = true,
        value_name = "NAMESPACE"
    )]
    pub clusters_namespace: Option<Namespace>,

    /// Let a namespace deliver only into clusters for which a SiteAssignment allows it
    ///
    /// Without this flag, a cluster that no SiteAssignment selects is open to all namespaces.
    /// Revisions without a namespace may always deliver everywhere. With this flag, the Secret of a
    /// cluster has to name its server in the annotation baton.run/server, which `baton cluster
    /// join` writes; without it, the annotation is optional.
    #[arg(
        long,
        env = "BATON_REQUIRE_SITE_ASSIGNMENTS",
        default_value_t = false,
        action = ArgAction::Set
    )]
    pub require_site_assignments: bool,

    /// Use only the oldest of the Clusters whose API servers have the same UID
    ///
    /// The others receive nothing, and neither does a Cluster with the UID of the hub. Do not set
    /// this flag if one API server is joined under several names on purpose. Without it, such
    /// Clusters are only reported, by their condition `Unique`.
    #[arg(
        long,
        env = "BATON_REQUIRE_UNIQUE_CLUSTERS",
        default_value_t = false,
        action = ArgAction::Set
    )]
    pub require_unique_clusters: bool,

    /// Number of revisions that are reconciled at the same time
    #[arg(
        long,
        env = "BATON_WORKERS",
        hide_env_values = true,
        default_value = "16",
        value_name = "N"
    )]
    pub workers: Workers,

    /// Period in seconds in which the agent of another cluster has to report; an agent that is
    /// silent for three periods is lost
    #[arg(
        long,
        env = "BATON_AGENT_HEARTBEAT",
        hide_env_values = true,
        default_value = "60",
        value_name = "SECONDS",
        value_parser = clap::value_parser!(u64).range(1..=3600),
    )]
    pub agent_heartbeat: u64,

    /// Service account that writes the objects of namespaced revisions that do not name one
    ///
    /// The account is looked up by this name in the namespace of the revision. Without this flag,
    /// the manager uses its own rights.
    #[arg(
        long,
        env = "BATON_DEFAULT_SERVICE_ACCOUNT",
        hide_env_values = true,
        value_name = "NAME"
    )]
    pub default_service_account: Option<AccountName>,

    /// Folder for downloaded charts and the indexes of their repositories [default: one in the
    /// folder for temporary files]
    ///
    /// With a persistent folder, everything that was downloaded once stays usable while its
    /// repository is down, up to 512 MiB: beyond that, what was not used for the longest time is
    /// removed. Charts are rendered by the program that `HELM_BIN` names, else by helm.
    #[arg(
        long,
        env = "BATON_CHART_CACHE",
        hide_env_values = true,
        value_name = "FOLDER"
    )]
    pub chart_cache: Option<PathBuf>,

    /// Address for the admission webhook over HTTPS, in the form of --metrics-addr; "0" turns it off
    ///
    /// The webhook refuses override annotations that name RolloutBlocks which do not exist. It needs
    /// the ValidatingWebhookConfiguration in config/policy and the rights in config/rbac. The manager
    /// makes its certificate and renews it.
    #[arg(
        long,
        env = "BATON_WEBHOOK_ADDR",
        hide_env_values = true,
        default_value = "0",
        value_name = "ADDRESS"
    )]
    pub webhook_addr: ListenAddr,

    /// True if `PKO_FORCE_ADOPTION` is set and not empty: every object is adopted, even if another
    /// controller owns it. It is not a flag, as it is meant only for the bootstrap job of Package
    /// Operator.
    #[arg(skip = env_var(baton_apis::constants::ENV_FORCE_ADOPTION).is_some())]
    pub force_adoption: bool,
}

/// Flags that the manager and the agent share.
#[derive(Clone, Debug, Args)]
#[command(mut_arg("leader_elect", yes_or_no))]
pub(crate) struct ProcessArgs {
    /// Namespace of the process itself, which contains its lease
    ///
    /// Without flag and variable, `PKO_NAMESPACE` and then `POD_NAMESPACE` are used.
    #[arg(
        long,
        env = "BATON_NAMESPACE",
        hide_env_values = true,
        default_value = default_namespace(env_var),
    )]
    pub namespace: Namespace,

    /// Address for /metrics: ":PORT" or "IP:PORT", with port 0 for a free port; "0" turns it off
    #[arg(
        long,
        env = "BATON_METRICS_ADDR",
        hide_env_values = true,
        default_value = ":8080",
        value_name = "ADDRESS"
    )]
    pub metrics_addr: ListenAddr,

    /// Address for /healthz and /readyz, in the same form
    #[arg(
        long,
        env = "BATON_HEALTH_ADDR",
        hide_env_values = true,
        default_value = ":8081",
        value_name = "ADDRESS"
    )]
    pub health_addr: ListenAddr,

    /// Wait for the lease before writing anything, so that only one process works at a time
    ///
    /// A manager uses the lease of Package Operator: while one of the two runs, the other does
    /// nothing.
    #[arg(
        long,
        env = "BATON_LEADER_ELECT",
        default_value_t = true,
        action = ArgAction::Set
    )]
    pub leader_elect: bool,

    /// Name of this process in the lease; has to be unique [default: host name and a random part]
    ///
    /// A process that finds its own name in the lease continues without waiting. If this is the
    /// name of the pod, a crashed container becomes the leader again at once.
    #[arg(
        long,
        env = "BATON_IDENTITY",
        hide_env_values = true,
        value_name = "NAME"
    )]
    pub identity: Option<Identity>,

    /// Log level: error, warn, info, debug, trace, off, or a filter such as
    /// `info,baton_kubernetes=debug`
    ///
    /// Without flag and variable, `LOG_LEVEL` is used.
    #[arg(
        long,
        env = "BATON_LOG_LEVEL",
        hide_env_values = true,
        default_value = default_log_level(env_var),
        value_name = "LEVEL",
    )]
    pub log_level: LogFilter,

    /// Log format
    #[arg(
        long,
        env = "BATON_LOG_FORMAT",
        hide_env_values = true,
        default_value = "text",
        value_name = "FORMAT"
    )]
    pub log_format: LogFormat,
}

/// Flags of `baton agent`.
#[derive(Clone, Debug, Args)]
pub(crate) struct AgentArgs {
    /// The cluster that the agent serves and runs in.
    #[command(flatten)]
    pub connection: ConnectionArgs,

    /// Flags of the process.
    #[command(flatten)]
    pub process: ProcessArgs,

    /// Name of the Cluster on the hub that the agent serves
    #[arg(
        long,
        env = "BATON_CLUSTER",
        hide_env_values = true,
        value_name = "NAME"
    )]
    pub cluster: ClusterName,

    /// Kubeconfig for the hub
    #[arg(
        long,
        env = "BATON_HUB_KUBECONFIG",
        hide_env_values = true,
        value_name = "FILE"
    )]
    pub hub_kubeconfig: PathBuf,

    /// Context of that kubeconfig to use instead of the current one
    #[arg(
        long,
        env = "BATON_HUB_CONTEXT",
        hide_env_values = true,
        value_name = "NAME"
    )]
    pub hub_context: Option<String>,

    /// Directory for the last state received from the hub, used while the hub is unreachable
    #[arg(
        long,
        env = "BATON_STATE_DIR",
        hide_env_values = true,
        default_value = "/var/lib/baton",
        value_name = "DIRECTORY"
    )]
    pub state_dir: PathBuf,
}

impl AgentArgs {
    /// The connection to the hub.
    #[must_use]
    pub(crate) fn hub(&self) -> ConnectionArgs {
        ConnectionArgs {
            kubeconfig: Some(self.hub_kubeconfig.clone()),
            context: self.hub_context.clone(),
        }
    }
}

impl ManagerArgs {
    /// Namespace of the Secrets with the credentials of other clusters.
    #[must_use]
    pub(crate) fn clusters_namespace(&self) -> &Namespace {
        let own = &self.process.namespace;
        self.clusters_namespace.as_ref().unwrap_or(own)
    }

    /// Folder of charts and indexes.
    #[must_use]
    pub(crate) fn chart_cache(&self) -> PathBuf {
        let given = self.chart_cache.clone();
        given.unwrap_or_else(|| std::env::temp_dir().join("chart-cache"))
    }
}

/// Lets the flags that begin with `--require` be given as by [`yes_or_no`].
fn requirement(flag: Arg) -> Arg {
    if flag.get_id().as_str().starts_with("require_") {
        yes_or_no(flag)
    } else {
        flag
    }
}

/// Lets a boolean flag also be given as `--flag=false`, as its default or its variable may be true.
fn yes_or_no(flag: Arg) -> Arg {
    flag.default_missing_value("true")
        .num_args(0..=1)
        .require_equals(true)
        .value_name("true|false")
        .hide_possible_values(true)
        .hide_env_values(true)
}

/// The value of an environment variable; `None` if it is unset or empty.
fn env_var(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn default_namespace(env: impl Fn(&str) -> Option<String>) -> String {
    env("PKO_NAMESPACE")
        .or_else(|| env("POD_NAMESPACE"))
        .unwrap_or_else(|| "baton-system".to_owned())
}

fn default_log_level(env: impl Fn(&str) -> Option<String>) -> String {
    env("LOG_LEVEL").unwrap_or_else(|| "info".to_owned())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use clap::CommandFactory as _;

    use super::*;

    fn manager(flags: &[&str]) -> Result<ManagerArgs, clap::Error> {
        let cli = Cli::try_parse_from(["baton", "manager"].iter().chain(flags))?;
        match cli.command {
            Command::Manager(args) => Ok(*args),
            command => panic!("{command:?}"),
        }
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn defaults_are_those_of_the_readme() {
        let args = manager(&[]).unwrap();
        assert_eq!(args.process.namespace.as_str(), "baton-system");
        assert_eq!(args.clusters_namespace().as_str(), "baton-system");
        assert_eq!(args.process.metrics_addr, ListenAddr::AnyAddress(8080));
        assert_eq!(args.process.health_addr, ListenAddr::AnyAddress(8081));
        assert!(args.process.leader_elect);
        assert_eq!(args.process.identity, None);
        assert_eq!(args.workers.get(), 16);
        assert_eq!(args.process.log_level, "info".parse().unwrap());
        assert_eq!(args.process.log_format, LogFormat::Text);
        assert_eq!(args.connection.kubeconfig, None);
        assert_eq!(args.connection.context, None);
        assert!(!args.force_adoption);
    }

    #[test]
    fn cluster_secrets_are_in_the_managers_namespace_by_default() {
        for (flags, expected) in [
            (&["--namespace=here"][..], "here"),
            (&["--namespace=here", "--clusters-namespace=there"], "there"),
        ] {
            let args = manager(flags).unwrap();
            assert_eq!(args.clusters_namespace().as_str(), expected, "{flags:?}");
        }
        manager(&["--clusters-namespace="]).unwrap_err();
    }

    #[test]
    fn every_flag_has_a_variable_named_after_it() {
        let command = Cli::command();
        let commands =
            ["manager", "agent", "dashboard"].map(|name| command.find_subcommand(name).unwrap());
        for argument in commands.into_iter().flat_map(clap::Command::get_arguments) {
            let Some(long) = argument
                .get_long()
                .filter(|long| !matches!(*long, "help" | "version"))
            else {
                continue;
            };
            let variable = format!("BATON_{}", long.to_uppercase().replace('-', "_"));
            assert_eq!(argument.get_env(), Some(OsStr::new(&variable)), "--{long}");
        }
    }

    #[test]
    fn leader_election_is_a_flag_or_a_value() {
        for (flags, expected) in [
            (&["--leader-elect"][..], true),
            (&["--leader-elect=true"], true),
            (&["--leader-elect=false"], false),
            (&["--leader-elect", "--workers=2"], true),
        ] {
            assert_eq!(
                manager(flags).unwrap().process.leader_elect,
                expected,
                "{flags:?}"
            );
        }
        manager(&["--leader-elect=maybe"]).unwrap_err();
        manager(&["--leader-elect", "false"]).unwrap_err();
    }

    #[test]
    fn fallback_variables_replace_unset_ones() {
        let none = |_: &str| None;
        let only = |name: &'static str, value: &'static str| {
            move |wanted: &str| (wanted == name).then(|| value.to_owned())
        };
        assert_eq!(default_namespace(none), "baton-system");
        assert_eq!(default_namespace(only("POD_NAMESPACE", "pods")), "pods");
        assert_eq!(default_namespace(only("PKO_NAMESPACE", "pko")), "pko");
        assert_eq!(default_log_level(none), "info");
        assert_eq!(default_log_level(only("LOG_LEVEL", "1")), "1");
    }

    #[test]
    fn an_invalid_flag_value_is_explained() {
        for (flag, expected) in [
            ("--metrics-addr=8080", "expected :PORT"),
            ("--workers=0", "expected a number from 1 to 1024"),
            (
                "--namespace=Shop",
                "a namespace is 1 to 63 lower-case letters",
            ),
            ("--log-level=verbose", "\"verbose\" is none of off, error"),
        ] {
            let error = manager(&[flag]).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
