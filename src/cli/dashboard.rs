//! Flags of `baton dashboard`.

use std::path::PathBuf;

use baton_runtime::server::ListenAddr;
use baton_terminal::kubeconfig::ConnectionArgs;
use clap::{ArgAction, Args};
use http::HeaderName;

use super::{
    default_log_level, env_var,
    values::{BasePath, LogFilter, LogFormat},
    yes_or_no,
};

/// Flags of `baton dashboard`.
#[derive(Clone, Debug, Args)]
#[command(mut_arg("actions", yes_or_no))]
pub(crate) struct DashboardArgs {
    /// The cluster to show. The credentials of its kubeconfig are not used.
    #[command(flatten)]
    pub connection: ConnectionArgs,

    /// Address for browsers: ":PORT" or "IP:PORT"
    #[arg(
        long,
        env = "BATON_LISTEN_ADDR",
        hide_env_values = true,
        default_value = ":8080",
        value_name = "ADDRESS"
    )]
    pub listen_addr: ListenAddr,

    /// Address for /metrics, in the same form; "0" turns it off
    #[arg(
        long,
        env = "BATON_METRICS_ADDR",
        hide_env_values = true,
        default_value = "0",
        value_name = "ADDRESS"
    )]
    pub metrics_addr: ListenAddr,

    /// Address for /healthz and /readyz, in the same form; "0" turns it off
    #[arg(
        long,
        env = "BATON_HEALTH_ADDR",
        hide_env_values = true,
        default_value = ":8081",
        value_name = "ADDRESS"
    )]
    pub health_addr: ListenAddr,

    /// Certificate for HTTPS, in the PEM format; it is read again every minute
    ///
    /// Without it, the pages are served over HTTP, for a proxy that adds TLS.
    #[arg(
        long,
        env = "BATON_TLS_CERT_FILE",
        hide_env_values = true,
        value_name = "FILE",
        requires = "tls_key_file"
    )]
    pub tls_cert_file: Option<PathBuf>,

    /// Key of the certificate, in the PEM format
    #[arg(
        long,
        env = "BATON_TLS_KEY_FILE",
        hide_env_values = true,
        value_name = "FILE",
        requires = "tls_cert_file"
    )]
    pub tls_key_file: Option<PathBuf>,

    /// Path before those of all pages, behind an ingress with other programs: `/baton`
    #[arg(
        long,
        env = "BATON_BASE_PATH",
        hide_env_values = true,
        default_value = "",
        value_name = "PATH"
    )]
    pub base_path: BasePath,

    /// Name of the cluster on the pages [default: the URL of its API server]
    #[arg(
        long,
        env = "BATON_CLUSTER_NAME",
        hide_env_values = true,
        value_name = "NAME"
    )]
    pub cluster_name: Option<String>,

    /// Header in which a proxy sends the bearer tokens of viewers, such as X-Forwarded-Access-Token
    ///
    /// The proxy has to remove this header from the requests of browsers. Without the header, viewers
    /// log in with a token on a page.
    #[arg(
        long,
        env = "BATON_TOKEN_HEADER",
        hide_env_values = true,
        default_value = "authorization",
        value_name = "NAME"
    )]
    pub token_header: HeaderName,

    /// Let the pages pause, resume, roll back, promote and abort, with the rights of their viewers
    ///
    /// They also abandon objects that cannot be deleted, and select sites again. Each change has a page
    /// with its effects and a button that names the object. Without this flag, no
    /// page changes anything.
    #[arg(long, env = "BATON_ACTIONS", default_value_t = false, action = ArgAction::Set)]
    pub actions: bool,

    /// Log level, as of `baton manager`
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
