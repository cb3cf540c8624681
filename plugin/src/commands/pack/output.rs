//! The destination of a package: the standard output or the server.

use baton_cluster::Cluster;
use baton_terminal::output::Print as _;
use baton_text::output::format::DocumentFormat;
use clap::Args;
use serde_json::Value;

use crate::{
    args::GlobalArgs,
    error::Error,
    pack::{
        apply::{self, Mode},
        build::Package,
    },
};

/// The destination.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Output")]
pub(super) struct OutputArgs {
    /// Format of the output
    #[arg(long, short, value_name = "FORMAT", default_value = "yaml")]
    pub(super) output: DocumentFormat,

    /// Send the result to the server by server-side apply instead of printing it. Warns first about
    /// everything that is deleted along with objects that will be deleted
    #[arg(long)]
    pub(super) apply: bool,

    /// Check the effect of --apply on the server, and store nothing
    #[arg(long, value_name = "WHERE", num_args = 0..=1, require_equals = true, default_missing_value = "server",
        requires = "apply", value_parser = ["server"])]
    dry_run: Option<String>,

    /// Apply the result although an object would be refused
    #[arg(long, requires = "apply")]
    pub(super) force: bool,

    /// Apply only if the current revision of the deployment has this number, so that the change of
    /// somebody else is not overwritten; the exit code is 4 if it has another one
    #[arg(long, value_name = "N", requires = "apply", conflicts_with_all = ["revision", "site"],
        value_parser = clap::value_parser!(i64).range(1..))]
    if_revision: Option<i64>,

    /// Take over fields that other managers have set
    #[arg(long, requires = "apply")]
    force_conflicts: bool,
}

impl OutputArgs {
    fn mode(&self) -> Mode {
        Mode {
            dry_run: self.dry_run.is_some(),
            force: self.force_conflicts,
            if_revision: self.if_revision,
        }
    }

    /// Checks that the server accepts all objects of a package.
    pub(super) async fn check(&self, cluster: &Cluster, package: &Package) -> Result<(), Error> {
        apply::check(cluster, package, self.mode()).await
    }

    /// Applies a package, and prints a line for each object.
    pub(super) async fn apply(
        &self,
        cluster: &Cluster,
        package: &Package,
        global: &GlobalArgs,
    ) -> Result<Value, Error> {
        let output = global.output();
        let print = |line: &str| Ok(output.print(line)?);
        apply::apply(cluster, package, self.mode(), print).await
    }
}
