//! The flags of `baton cluster`, which installs Baton, and lists, joins and removes clusters.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, builder::NonEmptyStringValueParser};

use crate::{name::ClusterName, url::ServerUrl};
use baton_terminal::{kubeconfig::ConnectionArgs, values::Namespace};

/// Name of the service account of the hub in a target.
pub const HUB: &str = "baton-hub";

/// Flags of `baton cluster`.
#[derive(Clone, Debug, Args)]
pub struct ClusterArgs {
    /// The command.
    #[command(subcommand)]
    pub command: ClusterCommand,
}

/// The commands of `baton cluster`.
#[derive(Clone, Debug, Subcommand)]
pub enum ClusterCommand {
    /// Install Baton in the hub
    ///
    /// Creates the definitions, the namespaces, the access rights, the admission policies and the manager of
    /// config/install.yaml. Run again, it changes only what differs. Roles with rules that another client has
    /// written stay as they are.
    Setup(Box<SetupArgs>),
    /// Let the hub deliver phases into a cluster
    ///
    /// Creates what the hub needs in the target cluster (namespace, service account, access rights, token), and the
    /// Cluster and its Secret in the hub. With --pull it writes only to the hub, and prints the manifest of an agent
    /// that connects to the hub. Run again, it changes only what differs.
    ///
    /// If the manager runs with --require-site-assignments, as in config/install.yaml, no namespace may deliver into
    /// the cluster until --for-namespaces or --for-all is given, or a SiteAssignment is created.
    Join(Box<JoinArgs>),
    /// List the clusters of the hub
    List(ListArgs),
    /// Revoke the token of a cluster, and replace it by another one
    ///
    /// Deletes the service account whose token connects the hub and the cluster, and creates it again with a new token.
    /// The old token is revoked first; an API server may cache it for ten seconds more. Then the Secret of the
    /// Cluster gets the new token. With an agent, the account is on the hub; the command prints the manifest of
    /// the agent with the new token, or applies it in the target with --apply. All settings of the cluster stay.
    Rotate(Box<RotateArgs>),
    /// Remove a cluster from the hub
    ///
    /// Deletes the Cluster, its Secret, its SiteAssignment and the namespace of its agent in the hub; and in the target
    /// cluster, if one is named, the objects that joining created there. Objects that revisions have delivered stay.
    Remove(Box<RemoveArgs>),
}

/// Flags of `baton cluster setup`.
#[derive(Clone, Debug, Args)]
pub struct SetupArgs {
    /// The word that follows in the command of shipperctl.
    #[arg(value_parser = ["management"], hide = true)]
    pub what: Option<String>,

    /// Image of the manager [default: that of this version]
    #[arg(long, value_name = "IMAGE", value_parser = NonEmptyStringValueParser::new())]
    pub image: Option<String>,

    /// Service account of the manager
    #[arg(
        long,
        visible_alias = "management-cluster-service-account",
        value_name = "NAME",
        default_value = "baton"
    )]
    pub service_account: Namespace,

    /// Namespace whose RolloutBlocks apply to all namespaces; the manager has no other
    #[arg(
        long,
        short = 'g',
        value_name = "NAME",
        default_value = "rollout-blocks-global"
    )]
    pub rollout_blocks_global_namespace: Namespace,

    /// Admit changes if the API server cannot evaluate a policy, instead of refusing them
    #[arg(
        long,
        value_name = "true|false",
        num_args = 0..=1,
        require_equals = true,
        default_value_t = false,
        default_missing_value = "true",
        hide_default_value = true,
        hide_possible_values = true
    )]
    pub webhook_ignore: bool,

    /// Kubeconfig of the hub, as --hub-kubeconfig
    #[arg(
        long,
        alias = "kube-config",
        value_name = "FILE",
        conflicts_with = "hub_kubeconfig",
        hide = true
    )]
    pub kubeconfig: Option<PathBuf>,

    /// Print what would be done, and change nothing
    #[arg(long)]
    pub dry_run: bool,

    /// The hub.
    #[command(flatten)]
    pub hub: HubArgs,
}

/// Flags of `baton cluster join`.
#[derive(Clone, Debug, Args)]
pub struct JoinArgs {
    /// Name of the cluster; its phases have the class "cluster.NAME". Without a name, the clusters of the file
    /// clusters.yaml are joined
    pub name: Option<ClusterName>,

    /// Join the clusters that a file lists: applicationClusters[] of name, context, region, apiMaster, capabilities,
    /// scheduler, connection. The hub is in the kubeconfig of --kubeconfig as well, unless --hub-kubeconfig is given
    #[arg(
        long,
        short,
        value_name = "FILE",
        conflicts_with_all = ["name", "context", "region", "capability", "server", "pull"]
    )]
    pub file: Option<PathBuf>,

    /// Region that the cluster is in [default: "default"]
    #[arg(long, value_name = "NAME", requires = "name")]
    pub region: Option<String>,

    /// Capability that the cluster offers; may be given several times
    #[arg(long, value_name = "NAME", requires = "name")]
    pub capability: Vec<String>,

    /// URL of the target's API server, as the hub reaches it [default: that of the target's context]
    #[arg(long, value_name = "URL", requires = "name")]
    pub server: Option<ServerUrl>,

    /// Let an agent in the target connect to the hub, instead of the hub to the target; prints the agent's manifest,
    /// which holds its token
    #[arg(long, conflicts_with = "server", requires = "name")]
    pub pull: bool,

    /// With --pull: apply the agent's manifest in the target, instead of printing it
    #[arg(long)]
    pub apply: bool,

    /// The agent, where there is one.
    #[command(flatten)]
    pub agent: AgentManifestArgs,

    /// The namespaces that may deliver into the cluster.
    #[command(flatten)]
    pub admission: AdmissionArgs,

    /// Rights of the hub or the agent in the target. With "trusted" it writes whatever revisions
    /// contain; with "tenants" it reads the usual kinds, and writes with the rights of service
    /// accounts only, in the namespaces of --for-namespaces, which are created if they do not
    /// exist. Rights that were changed by hand are not changed, unless this flag is given [default:
    /// as joined before, else trusted]
    #[arg(long, value_name = "trusted|tenants", hide_possible_values = true)]
    pub rights: Option<RightsMode>,

    /// Service account of the hub in the target; it is the same in all targets, so that a second Cluster for a target
    /// is found
    #[arg(
        long,
        visible_alias = "application-cluster-service-account",
        value_name = "NAME",
        default_value = HUB,
        value_parser = [HUB],
        hide_possible_values = true
    )]
    pub service_account: String,

    /// Print what would be done, and change nothing
    #[arg(long)]
    pub dry_run: bool,

    /// The hub.
    #[command(flatten)]
    pub hub: HubArgs,

    /// The target.
    #[command(flatten)]
    pub target: TargetArgs,
}

/// Flags that say which namespaces of the hub may deliver into a cluster.
#[derive(Clone, Debug, Default, Args)]
pub struct AdmissionArgs {
    /// Let these namespaces of the hub deliver into the cluster, and no others: writes a SiteAssignment
    #[arg(
        long,
        value_name = "NAME,NAME",
        value_delimiter = ',',
        conflicts_with = "for_all"
    )]
    pub for_namespaces: Vec<Namespace>,

    /// Let all namespaces of the hub deliver into the cluster: writes a SiteAssignment
    #[arg(long)]
    pub for_all: bool,
}

/// The rights of a deliverer, the hub or the agent, in a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum RightsMode {
    /// Write whatever revisions contain.
    #[default]
    Trusted,
    /// Read the usual kinds, and write with the rights of service accounts only.
    Tenants,
}

/// Flags about the agent in a cluster. What is not given stays as it was given before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub struct AgentManifestArgs {
    /// URL of the hub's API server, as the agent reaches it [default: that of the hub's context]
    #[arg(long, value_name = "URL", help_heading = "Agent")]
    pub hub_server: Option<ServerUrl>,

    /// Image of the agent [default: that of this version]
    #[arg(
        long,
        value_name = "IMAGE",
        value_parser = NonEmptyStringValueParser::new(),
        help_heading = "Agent"
    )]
    pub agent_image: Option<String>,

    /// Volume for the state that the agent uses while the hub is unreachable: a claim of the default storage class,
    /// or a directory that is deleted with the pod [default: claim]
    #[arg(
        long,
        value_name = "claim|empty-dir",
        hide_possible_values = true,
        help_heading = "Agent"
    )]
    pub state_volume: Option<StateVolume>,

    /// Only the Secret of the agent and its namespace, for a cluster where the Helm chart installs the agent
    #[arg(long, help_heading = "Agent")]
    pub only_secret: bool,
}

impl AgentManifestArgs {
    /// True if any of the flags was given.
    pub fn is_given(&self) -> bool {
        *self != Self::default()
    }
}

/// The volume in which an agent stores its state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum StateVolume {
    /// In a volume that outlives the pod.
    #[default]
    Claim,
    /// In a volume that outlives the container, and is deleted with the pod.
    EmptyDir,
}

/// Flags of `baton cluster list`.
#[derive(Clone, Debug, Args)]
pub struct ListArgs {
    /// Output format
    #[arg(
        long,
        short,
        value_enum,
        value_name = "FORMAT",
        default_value = "table"
    )]
    pub output: ListFormat,

    /// The hub.
    #[command(flatten)]
    pub hub: HubArgs,
}

/// The form of a list of clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ListFormat {
    /// One line per cluster
    Table,
    /// With server, capabilities, last contact, and why it is not connected
    Wide,
    /// As the hub has them, as JSON
    Json,
    /// As the hub has them, as YAML
    Yaml,
    /// cluster.shipper.booking.com/NAME, one per line
    Name,
}

/// Flags of `baton cluster rotate`.
#[derive(Clone, Debug, Args)]
pub struct RotateArgs {
    /// Name of the cluster
    pub name: ClusterName,

    /// With an agent: apply its manifest in the target, instead of printing it
    #[arg(long)]
    pub apply: bool,

    /// Print what would be done, and change nothing
    #[arg(long)]
    pub dry_run: bool,

    /// The hub.
    #[command(flatten)]
    pub hub: HubArgs,

    /// The target.
    #[command(flatten)]
    pub target: TargetArgs,
}

/// Flags of `baton cluster remove`.
#[derive(Clone, Debug, Args)]
pub struct RemoveArgs {
    /// Name of the cluster
    pub name: ClusterName,

    /// Remove the cluster even if phases are delivered into it; their objects stay there
    #[arg(long)]
    pub force: bool,

    /// Print what would be done, and change nothing
    #[arg(long)]
    pub dry_run: bool,

    /// The hub.
    #[command(flatten)]
    pub hub: HubArgs,

    /// The target, for the removal of the objects that joining created there.
    #[command(flatten)]
    pub target: TargetArgs,
}

/// Flags that choose the hub: the cluster in which the manager runs.
#[derive(Clone, Debug, Args)]
pub struct HubArgs {
    /// Kubeconfig of the hub, instead of KUBECONFIG, ~/.kube/config, or the service account of the pod
    #[arg(
        long,
        env = "BATON_HUB_KUBECONFIG",
        hide_env_values = true,
        value_name = "FILE",
        help_heading = "Hub"
    )]
    pub hub_kubeconfig: Option<PathBuf>,

    /// Context of the hub, instead of the current one
    #[arg(
        long,
        visible_alias = "management-cluster-context",
        env = "BATON_HUB_CONTEXT",
        hide_env_values = true,
        value_name = "NAME",
        help_heading = "Hub"
    )]
    pub hub_context: Option<String>,

    /// Namespace on the hub with the Secrets of the clusters, as the manager's --clusters-namespace [default:
    /// baton-system]
    #[arg(
        long,
        short,
        alias = "shipper-system-namespace",
        env = "BATON_CLUSTERS_NAMESPACE",
        hide_env_values = true,
        default_value = "baton-system",
        hide_default_value = true,
        value_name = "NAME",
        help_heading = "Hub"
    )]
    pub namespace: Namespace,
}

impl HubArgs {
    /// The hub as a choice of one cluster.
    pub fn connection(&self) -> ConnectionArgs {
        ConnectionArgs {
            kubeconfig: self.hub_kubeconfig.clone(),
            context: self.hub_context.clone(),
        }
    }
}

/// Flags that choose the target: the cluster that phases are delivered into.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Target")]
pub struct TargetArgs {
    /// The kubeconfig and context of the target.
    #[command(flatten)]
    pub connection: ConnectionArgs,

    /// Allow hub and target to be the same cluster
    #[arg(long)]
    pub allow_same: bool,
}

impl TargetArgs {
    /// True if a target was named. Without, the target is the cluster of the current context.
    pub fn is_named(&self) -> bool {
        self.connection.kubeconfig.is_some() || self.connection.context.is_some()
    }
}
