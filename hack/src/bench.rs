//! `cargo dev bench`: how fast the manager is, and what it costs, compared with the bare API server.
//!
//! Everything is measured in one run, on one machine that the API server, the manager and the bench
//! share. The objects without a manager are written before, between and after the rollouts, since no
//! machine is equally fast all the time.

mod bare;
mod calm;
mod figures;
mod goals;
mod load;
pub(crate) mod manager;
mod metrics;
mod process;
mod report;
mod served;
mod settle;
mod sites;
mod steps;
mod watch;

use std::convert::Infallible;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use kube::Client;

use self::figures::Figures;
use self::load::Shape;
use self::load::chains::Chains;
use self::load::fleet::Fleet;
use self::manager::{Cluster, Launch};
use self::process::Servers;
use self::sites::Sites;
use self::steps::Steps;
use crate::bed::{self, Afterwards, Bed, Extent};
use crate::exec;
use crate::paths::Dirs;

/// Where the manager keeps its lease and looks for the credentials of clusters.
const MANAGER_NAMESPACE: &str = "baton-system";

/// What to measure.
#[derive(Debug, Args)]
pub struct Options {
    /// How much is written.
    #[command(flatten)]
    shape: Shape,
    /// How long chains get.
    #[command(flatten)]
    chains: Chains,
    /// How large a fleet is.
    #[command(flatten)]
    fleet: Fleet,
    /// What is done with it.
    #[arg(long, value_enum, default_value_t = Scenario::Full)]
    scenario: Scenario,
    /// Write the JSON to this file; otherwise it follows the tables.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Leave the bed running afterwards, with what is on it.
    #[arg(long)]
    keep: bool,
    /// The name of the bed. Runs side by side need different ones, and disturb each other.
    #[arg(long, default_value = "bench")]
    bed: bed::Name,
    /// Measure this program instead of building the manager, such as one of another version.
    #[arg(long, value_name = "FILE")]
    manager: Option<PathBuf>,
    /// A variable for the manager's environment, such as `BATON_WORKERS=4`.
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    manager_env: Vec<(String, String)>,
}

/// The steps of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Scenario {
    /// Everything on one cluster.
    Full,
    /// Only the bare objects, the first and the second revisions.
    Rollout,
    /// Only lone ObjectSets, one after the other.
    Lone,
    /// Only chains: the first revision of each ObjectDeployment, and edits of its template.
    Chain,
    /// Only a fleet: connections to many clusters, delivery into them from one hub, and a restart
    /// (about five minutes, and as many control planes as `--clusters` says).
    Fleet,
    /// No manager at all: what a dry run and a write of each object take at least.
    Bounds,
}

/// Why there are no figures.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no bed.
    #[error(transparent)]
    Bed(#[from] bed::Error),
    /// The manager does not do what it should.
    #[error(transparent)]
    Manager(#[from] manager::Error),
    /// The name of the bed is too long for those of a fleet.
    #[error(transparent)]
    Name(#[from] bed::InvalidName),
    /// A cluster does not join.
    #[error("a cluster of the fleet cannot join: {0}")]
    Join(#[source] exec::Error),
    /// The API server refused a request of the bench itself.
    #[error("a request of the bench failed: {}", manager::reason(.0))]
    Request(#[source] Box<kube::Error>),
    /// The optimised bench does not run.
    #[error("cannot run {path}: {source}")]
    Again {
        /// The program.
        path: PathBuf,
        /// What went wrong.
        source: std::io::Error,
    },
    /// The figures cannot be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        source: std::io::Error,
    },
    /// The figures are no JSON.
    #[error("cannot put the figures into JSON: {0}")]
    Json(#[from] serde_json::Error),
}

impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        Self::Request(Box::new(error))
    }
}

/// Starts a bed, measures, prints the figures and ends the bed.
///
/// # Guarantees
///
/// The manager has ended when this returns or is dropped, and so has the bed unless it is to be kept.
/// Whether goals were reached is told, and no error: machines differ.
///
/// # Errors
///
/// When something could not be measured.
pub async fn run(dirs: &Dirs, options: &Options) -> Result<(), Error> {
    if cfg!(debug_assertions) {
        let Err(error) = optimised(dirs).await;
        return Err(error);
    }
    let binary = if let Some(binary) = &options.manager {
        binary.clone()
    } else {
        say("building the manager as it is shipped");
        manager::build(dirs, "baton", &["--release", "--package", "baton"]).await?
    };
    bed::down(dirs, &options.bed)?;
    let afterwards = if options.keep {
        Afterwards::Keep
    } else {
        Afterwards::End
    };
    let is_fleet = options.scenario == Scenario::Fleet;
    let extent = if is_fleet {
        // Nothing runs pods.
        Extent::ControlPlane
    } else {
        Extent::Full
    };
    let bed = Bed::up_with(extent, dirs, &options.bed, None, afterwards).await?;
    bed.install(&dirs.crds()).await?;
    let sites = if is_fleet {
        Some(Sites::start(dirs, &options.bed, options.fleet, afterwards).await?)
    } else {
        None
    };
    let cluster = Cluster::Kubeconfig(bed.kubeconfig());
    let launch = Launch {
        binary,
        cluster: cluster.clone(),
        log: dirs
            .cache
            .join("logs")
            .join(format!("{}-manager.log", options.bed)),
        env: options.manager_env.clone(),
    };
    let servers = Servers::of_bed(bed.kubeconfig().parent().unwrap_or(&dirs.cache));
    let client = cluster.client().await?;
    let figures = match &sites {
        Some(sites) => {
            // Where the credentials are, and later the lease.
            load::Target::create(&client, MANAGER_NAMESPACE).await?;
            sites.join(&launch.binary, &bed.kubeconfig()).await?;
            fleet(client, options, launch, servers, sites).await?
        }
        None => measure(client, options, launch, servers).await?,
    };
    print(&figures, options)
}

/// Measures a fleet that has joined.
async fn fleet(
    client: Client,
    options: &Options,
    launch: Launch,
    servers: Servers,
    sites: &Sites,
) -> Result<Figures, Error> {
    let shape = options.fleet.all(&options.shape);
    let servers = servers.and(sites.servers());
    let figures = Figures::new(shape);
    let mut steps = Steps::start(client, shape, launch, servers, figures).await?;
    steps.fleet(options.fleet, sites).await?;
    steps.finish().await
}

async fn measure(
    client: Client,
    options: &Options,
    launch: Launch,
    servers: Servers,
) -> Result<Figures, Error> {
    let Options {
        shape,
        chains,
        fleet: _,
        scenario,
        json: _,
        keep: _,
        bed: _,
        manager: _,
        manager_env: _,
    } = options;
    let mut figures = Figures::new(*shape);
    if *scenario == Scenario::Bounds {
        figures.bounds = bare::bounds(&client, &servers, shape).await?;
        return Ok(figures);
    }
    load::Target::create(&client, MANAGER_NAMESPACE).await?;
    if *scenario != Scenario::Lone {
        let first = bare::measure(&client, &servers, shape, 1).await?;
        figures.bare.push(first);
    }
    let mut steps = Steps::start(client, *shape, launch, servers, figures).await?;
    match scenario {
        Scenario::Full => {
            rollouts(&mut steps).await?;
            steps.idle().await?;
            steps.restart().await?;
            steps.lone().await?;
            steps.teardown().await?;
            // Last: nothing else is measured beside the revisions that it leaves.
            steps.bare().await?;
            steps.chain(*chains).await?;
            steps.bare().await?;
        }
        Scenario::Rollout => rollouts(&mut steps).await?,
        Scenario::Lone => steps.lone().await?,
        Scenario::Chain => {
            steps.chain(*chains).await?;
            steps.bare().await?;
        }
        // The former is measured with clusters of its own, the latter needs no manager.
        Scenario::Fleet | Scenario::Bounds => {}
    }
    steps.finish().await
}

async fn rollouts(steps: &mut Steps) -> Result<(), Error> {
    steps.create().await?;
    steps.bare().await?;
    steps.handover().await?;
    steps.bare().await
}

fn print(figures: &Figures, options: &Options) -> Result<(), Error> {
    println!("{}", report::tables(figures));
    let json = report::json(figures)?;
    match &options.json {
        None => println!("{json}"),
        Some(path) => {
            let written = std::fs::write(path, json + "\n");
            written.map_err(|source| Error::Write {
                path: path.clone(),
                source,
            })?;
            say(&format!("figures written to {}", path.display()));
        }
    }
    Ok(())
}

/// Builds this program with optimisation, and runs it in place of this process. A bench that is slow
/// itself would measure itself: it shares the machine with the API server and the manager.
async fn optimised(dirs: &Dirs) -> Result<Infallible, Error> {
    say("building the bench with optimisation");
    let args = ["--release", "--package", "baton-hack"];
    let path = manager::build(dirs, "baton-hack", &args).await?;
    let source = std::process::Command::new(&path)
        .args(std::env::args_os().skip(1))
        .exec();
    Err(Error::Again { path, source })
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

/// Tells of the progress.
fn say(text: &str) {
    eprintln!("bench: {text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_have_a_name() {
        let pair = |name: &str, value: &str| Ok((name.to_owned(), value.to_owned()));
        assert_eq!(variable("A=b=c"), pair("A", "b=c"));
        assert_eq!(variable("A="), pair("A", ""));
        variable("=b").unwrap_err();
        variable("A").unwrap_err();
    }
}
