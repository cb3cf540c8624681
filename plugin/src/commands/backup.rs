//! `backup`: a file with the objects of a hub, and its restore.

use std::path::{Path, PathBuf};

use baton_apis::{constants::shipper::LABEL_APP, kinds};
use baton_terminal::output::{Print as _, report};
use baton_text::output::{format::DocumentFormat, table::Table};
use baton_view::object::text_at;
use clap::{Args, Subcommand};

use super::Exit;
use crate::{
    args::{self, GlobalArgs},
    backup::{
        collect::collect,
        counts,
        file::{Backup, FileError},
        restore::Restore,
    },
    confirm::confirmed,
    error::Error,
};

/// Back up the objects of Baton and Shipper in a hub, or restore them
#[derive(Clone, Debug, Args)]
pub(crate) struct BackupArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Clone, Debug, Subcommand)]
enum Action {
    Create(CreateArgs),
    Restore(RestoreArgs),
}

/// Write all objects of all namespaces to a file, while the manager runs
///
/// The file has Applications, Releases and their targets, deployments, revisions with their slices
/// and phases, applications and deployments of sites with their versions, blocks, assignments, and
/// Clusters without credentials, all with their status. Slices can contain Secrets, so only the user
/// who runs the command may read the file.
#[derive(Clone, Debug, Args)]
#[command(visible_alias = "prepare")]
struct CreateArgs {
    /// The file to write
    #[arg(long, short = 'f', value_name = "FILE", default_value = "backup.yaml")]
    file: PathBuf,

    /// Format of the file
    #[arg(long, value_name = "FORMAT", default_value = "yaml")]
    format: DocumentFormat,

    /// List the Releases of the file
    #[arg(long, short)]
    verbose: bool,

    /// Connect to the cluster of the pod in which the command runs, even if there is a kubeconfig
    #[arg(long)]
    use_in_cluster_config: bool,
}

/// Create the objects of a file in a hub that has none
///
/// No manager writes meanwhile: the command takes its lease, and gives it back at the end. The objects
/// in other clusters are taken over as they are, and rollouts continue at their step. If the command
/// fails after it has begun to create objects, run it again: it continues. Join the clusters again
/// before or after it, because the file has no credentials.
#[derive(Clone, Debug, Args)]
struct RestoreArgs {
    /// The file to read
    #[arg(long, short = 'f', value_name = "FILE", default_value = "backup.yaml")]
    file: PathBuf,

    /// Format of the file; it is recognized without this flag
    #[arg(long, value_name = "FORMAT", hide = true)]
    format: Option<DocumentFormat>,

    /// List the Releases of the file
    #[arg(long, short)]
    verbose: bool,

    /// Namespace in which the manager will run, if no manager holds a lease
    #[arg(long, value_name = "NAME", default_value = "baton-system", value_parser = args::namespace)]
    manager_namespace: String,

    /// Do not ask for a confirmation
    #[arg(long, short)]
    yes: bool,

    /// Show the number of objects that would be created, and create nothing
    #[arg(long)]
    dry_run: bool,
}

pub(crate) async fn run(args: &BackupArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    match &args.action {
        Action::Create(args) => create(args, global).await,
        Action::Restore(args) => restore(args, global).await,
    }
}

async fn create(args: &CreateArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    let cluster = if args.use_in_cluster_config {
        // Flags before the command are unknown to a conflict of this one.
        if global.kubeconfig.is_some() || global.context.is_some() {
            return Err(Error::Usage(
                "--use-in-cluster-config cannot be used with --kubeconfig or --context".to_owned(),
            ));
        }
        global.connect_in_cluster()?
    } else {
        global.connect().await?
    };
    let backup = collect(&cluster).await?;
    let output = global.output();
    if args.verbose {
        output.print(&releases(&backup).render(output))?;
    }
    for line in counts(&backup.objects) {
        output.print(&line)?;
    }
    let file = args.file.display();
    backup
        .write(&args.file, args.format)
        .map_err(|error| of(&args.file, &error))?;
    output.print(&format!("Backup objects stored in \"{file}\""))?;
    Ok(Exit::Fine)
}

async fn restore(args: &RestoreArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    let backup = Backup::read(&args.file).map_err(|error| of(&args.file, &error))?;
    let cluster = global.connect().await?;
    let output = global.output();
    let restore = Restore::plan(&cluster, &backup).await?;
    if args.verbose {
        output.print(&releases(&backup).render(output))?;
    }
    let lines = restore.summary();
    if lines.is_empty() {
        output.print("all objects exist; their statuses are completed")?;
    }
    for line in lines {
        output.print(&line)?;
    }
    if args.dry_run {
        report("nothing was restored (dry run)");
        return Ok(Exit::Fine);
    }
    if !args.yes && !confirmed("restores the objects").await? {
        report("nothing was restored");
        return Ok(Exit::Negative);
    }
    restore.run(&args.manager_namespace).await?;
    output.print(&format!("the backup of {} is restored", backup.created))?;
    Ok(Exit::Fine)
}

/// The Releases of a backup, by namespace and name.
fn releases(backup: &Backup) -> Table {
    let releases = backup.objects.iter().filter(|it| kinds::RELEASE.is_of(it));
    let mut rows: Vec<_> = releases
        .map(|release| {
            let application = &release["metadata"]["labels"][LABEL_APP];
            [
                text_at(release, "/metadata/namespace"),
                text_at(release, "/metadata/name"),
                application.as_str().unwrap_or_default(),
            ]
        })
        .collect();
    rows.sort_unstable();
    let mut table = Table::new(&["NAMESPACE", "RELEASE NAME", "OWNING APPLICATION"]);
    for row in rows {
        table.row(row);
    }
    table
}

fn of(file: &Path, error: &FileError) -> Error {
    Error::Usage(format!("{}: {error}", file.display()))
}
