//! `cargo dev bench`: measures the speed and the costs of the manager, compared with the bare API
//! server.
//!
//! Everything is measured in one run, on one machine that the API server, the manager and the bench
//! share. The bare objects are written before, between and after the rollouts, since the speed of a
//! machine varies.

mod bare;
mod error;
mod figures;
mod gateway;
mod goals;
mod idle;
mod load;
mod planner;
mod process;
mod published;
mod replay;
mod report;
mod requests;
mod served;
mod settle;
mod sites;
mod steps;
mod target;
mod traffic;
mod watch;

use std::path::PathBuf;
use std::process::ExitCode;

use baton_hack::bed::{self, Afterwards, Bed, Extent};
use baton_hack::charts::Repository;
use baton_hack::manager::{Cluster, Launch};
use baton_hack::paths::Dirs;
use baton_hack::{cargo, interrupt, tools};
use clap::{Parser, ValueEnum};
use kube::Client;

use self::error::Error;
use self::figures::Figures;
use self::gateway::Gateway;
use self::load::Shape;
use self::load::chains::Chains;
use self::load::fleet::Fleet;
use self::load::releases::fleet::ReleasesFleet;
use self::load::releases::{FIRST_VERSION, REGION, Releases};
use self::load::sites::Sites as Rollouts;
use self::process::Servers;
use self::published::Published;
use self::sites::Sites;
use self::steps::Steps;
use self::steps::releases::CLUSTER;
use self::target::{MANAGER_NAMESPACE, Target};

/// Measure how fast the manager is and what it costs, on a control plane started for it.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo dev bench", version, max_term_width = 110)]
struct Options {
    #[command(flatten)]
    shape: Shape,
    #[command(flatten)]
    chains: Chains,
    #[command(flatten)]
    fleet: Fleet,
    #[command(flatten)]
    releases: Releases,
    #[command(flatten)]
    releases_fleet: ReleasesFleet,
    #[command(flatten)]
    rollouts: Rollouts,
    /// Steps to measure.
    #[arg(long, value_enum, default_value_t = Scenario::Full)]
    scenario: Scenario,
    /// Measure this benchmark of another project, under the name that it has there. It determines the
    /// steps and the number of objects.
    #[arg(long, value_enum, value_name = "NAME", conflicts_with_all = [
        "scenario", "sets", "phases", "per_phase", "pad", "phase_class", "deployments", "edits",
        "cluster_objects", "sets_per_cluster",
    ])]
    like: Option<Published>,
    /// Write the JSON to this file; without it, the JSON follows the tables.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Leave the bed running afterwards, with all its objects.
    #[arg(long)]
    keep: bool,
    /// Name of the bed. Concurrent runs need different names, and slow each other down.
    #[arg(long, default_value = "bench")]
    bed: bed::Name,
    /// Measure this program instead of building the manager, for example one of another version.
    #[arg(long, value_name = "FILE")]
    manager: Option<PathBuf>,
    /// Variable for the manager's environment, such as `BATON_WORKERS=4`.
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    manager_env: Vec<(String, String)>,
}

/// The steps of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Scenario {
    /// Everything on one cluster.
    Full,
    /// Only the bare objects, the first and second revisions, and third ones with the same content;
    /// then the requests of each step again without the manager, as the bound for its rate.
    Rollout,
    /// Only lone ObjectSets, one after the other.
    Lone,
    /// Only chains: the first revision of each ObjectDeployment, and edits of its template.
    Chain,
    /// Only a fleet: connections to many clusters, delivery into them from one hub, and a restart
    /// (takes about five minutes, and starts `--clusters` control planes).
    Fleet,
    /// Only Releases of Applications: lone ones and many at once, in one step and in three, idle
    /// ones, and a restart.
    Releases,
    /// Only one Application that is rolled out over many clusters in three steps, and again in its next
    /// version (takes about ten minutes, and starts `--clusters` control planes with nodes).
    ReleasesFleet,
    /// Only sites: versions that one SiteDeployment rolls out to all of them, at once and in waves,
    /// sites that go offline meanwhile, and a restart (takes about ten minutes, and starts
    /// `--clusters` control planes).
    Sites,
}

fn main() -> ExitCode {
    interrupt::run(run(Options::parse().with_published()))
}

/// Starts a bed, measures, prints the figures and ends the bed.
///
/// The manager has ended when this returns or is dropped, and so has the bed unless `--keep` is
/// given. A missed goal is reported, and is no error: machines differ.
async fn run(options: Options) -> Result<ExitCode, Error> {
    let dirs = &Dirs::from_env()?;
    let binary = if let Some(binary) = &options.manager {
        binary.clone()
    } else {
        eprintln!("bench: building the manager as it is shipped");
        let [binary] = cargo::build(dirs, ["baton"], &["--release", "--package", "baton"]).await?;
        binary
    };
    bed::down(dirs, &options.bed)?;
    let afterwards = Afterwards::kept(options.keep);
    let clusters_have = match options.scenario {
        // No pods have to run.
        Scenario::Fleet | Scenario::Sites => Some(Extent::ControlPlane),
        Scenario::ReleasesFleet => Some(Extent::Full),
        Scenario::Full
        | Scenario::Rollout
        | Scenario::Lone
        | Scenario::Chain
        | Scenario::Releases => None,
    };
    // Pods run in the clusters, if there are any.
    let extent = clusters_have.map_or(Extent::Full, |_| Extent::ControlPlane);
    let bed = Bed::up_with(extent, dirs, &options.bed, None, afterwards).await?;
    bed.install(&dirs.crds()).await?;
    let sites = match clusters_have {
        Some(extent) => {
            let start = Sites::start(dirs, (&options.bed, extent), options.fleet, afterwards);
            Some(start.await?)
        }
        None => None,
    };
    let kubeconfig = bed.kubeconfig();
    let log = format!("{}-manager.log", options.bed);
    let launch = Launch {
        binary,
        cluster: Cluster::Kubeconfig(kubeconfig.clone()),
        log: dirs.cache.join("logs").join(log),
        env: options.manager_env.clone(),
    };
    let servers = Servers::of_bed(&kubeconfig);
    if options.scenario == Scenario::Releases {
        let figures = releases(dirs, &bed, &options, launch, servers).await?;
        print(&figures, &options)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let (Scenario::ReleasesFleet, Some(clusters)) = (options.scenario, &sites) {
        let measure = releases_fleet(dirs, &bed, &options, (launch, servers), clusters);
        let figures = Box::pin(measure).await?;
        print(&figures, &options)?;
        return Ok(ExitCode::SUCCESS);
    }
    let client = target::client(&kubeconfig).await?;
    let figures = match &sites {
        Some(sites) => {
            // The namespace is for the credentials of clusters, and later for the lease.
            Target::create(&client, MANAGER_NAMESPACE).await?;
            let servers = servers.and(sites.servers());
            if options.scenario == Scenario::Sites {
                rollouts_to_sites(client, &options, launch, servers, sites).await?
            } else {
                sites.join(&launch.binary, &kubeconfig).await?;
                fleet(client, &options, launch, servers, sites).await?
            }
        }
        None => measure(client, &options, launch, servers).await?,
    };
    print(&figures, &options)?;
    Ok(ExitCode::SUCCESS)
}

/// Measures a fleet whose clusters have joined.
async fn fleet(
    client: Client,
    options: &Options,
    launch: Launch,
    servers: Servers,
    sites: &Sites,
) -> Result<Figures, Error> {
    let shape = options.fleet.all(&options.shape);
    let mut steps = Steps::start(client, launch, servers, Figures::new(shape)).await?;
    steps.fleet(options.fleet, sites).await?;
    steps.finish().await
}

/// Measures rollouts to sites, each of which is a part of one of the clusters.
async fn rollouts_to_sites(
    client: Client,
    options: &Options,
    launch: Launch,
    servers: Servers,
    clusters: &Sites,
) -> Result<Figures, Error> {
    let Options {
        shape, rollouts, ..
    } = options;
    let (planes, kubeconfig) = clusters.planes();
    let kubeconfig = kubeconfig.unwrap_or_default();
    let gateway = Gateway::start(&kubeconfig, rollouts.names(), &planes)?;
    clusters.namespaces(rollouts.names()).await?;
    let figures = Figures::new(rollouts.all(shape));
    let mut steps = Steps::start(client, launch, servers, figures).await?;
    steps.sites(*rollouts, clusters, &gateway).await?;
    steps.finish_with_plans().await
}

/// Measures Releases, whose cluster is the hub itself.
async fn releases(
    dirs: &Dirs,
    bed: &Bed,
    options: &Options,
    mut launch: Launch,
    servers: Servers,
) -> Result<Figures, Error> {
    let (charts, client) = charts_and_hub(dirs, bed, &mut launch).await?;
    let kubeconfig = bed.kubeconfig();
    let hub = kubeconfig.as_path();
    let join = sites::join(&launch.binary, (CLUSTER, REGION), hub, hub).await;
    join.map_err(Error::Join)?;
    let shape = options.releases;
    let mut measured = figures::releases::Releases::new(shape);
    measured.bare = bare::releases::measure(&client, &servers, &shape, 1).await?;
    let mut figures = Figures::new(options.shape);
    figures.releases = Some(measured);
    let mut steps = Steps::start(client, launch, servers, figures).await?;
    steps.releases(shape, charts.url()).await?;
    steps.finish_with_bare_releases().await
}

/// Measures an Application whose clusters are parts of control planes.
async fn releases_fleet(
    dirs: &Dirs,
    bed: &Bed,
    options: &Options,
    (mut launch, servers): (Launch, Servers),
    clusters: &Sites,
) -> Result<Figures, Error> {
    let (charts, client) = charts_and_hub(dirs, bed, &mut launch).await?;
    let shape = options.releases_fleet;
    let names: Vec<String> = shape.names().collect();
    let (planes, kubeconfig) = clusters.planes();
    let gateway = Gateway::start(
        &kubeconfig.unwrap_or_default(),
        names.iter().cloned(),
        &planes,
    )?;
    clusters.namespaces(names.iter().cloned()).await?;
    let template = steps::releases::fleet::template(shape, &charts.url(), FIRST_VERSION);
    let bare = async |round| {
        bare::releases::measure_fleet(&client, &planes, &names, &template, round).await
    };
    let measured = figures::releases_fleet::ReleasesFleet::new(shape).with_bare(bare(1).await?);
    let mut figures = Figures::new(options.shape);
    figures.releases_fleet = Some(measured);
    let mut steps = Steps::start(client.clone(), launch, servers, figures).await?;
    steps
        .releases_fleet(shape, (clusters, &gateway), &charts.url())
        .await?;
    let mut figures = steps.finish().await?;
    let measured = figures.releases_fleet.take();
    let after = bare(2).await?;
    figures.releases_fleet = measured.map(|measured| measured.with_bare(after));
    Ok(figures)
}

/// Prepares a hub for Releases: the kinds, helm, a repository with charts, and the manager's namespace.
async fn charts_and_hub(
    dirs: &Dirs,
    bed: &Bed,
    launch: &mut Launch,
) -> Result<(Repository, Client), Error> {
    bed.install(&dirs.release_crds()).await?;
    let helm = tools::helm(dirs).await?;
    let charts = Repository::start(dirs).await?;
    let kubeconfig = bed.kubeconfig();
    // The cache is empty: charts that an earlier run has downloaded are not used.
    let cache = kubeconfig.with_file_name("chart-cache");
    for (name, path) in [("HELM_BIN", &helm), ("BATON_CHART_CACHE", &cache)] {
        let path = path.to_string_lossy().into_owned();
        launch.env.insert(0, (name.to_owned(), path));
    }
    let client = target::client(&kubeconfig).await?;
    // The namespace is for the credentials of clusters, and later for the lease.
    Target::create(&client, MANAGER_NAMESPACE).await?;
    Ok((charts, client))
}

async fn measure(
    client: Client,
    options: &Options,
    launch: Launch,
    servers: Servers,
) -> Result<Figures, Error> {
    let Options { shape, chains, .. } = options;
    let mut figures = Figures::new(*shape);
    Target::create(&client, MANAGER_NAMESPACE).await?;
    if options.scenario != Scenario::Lone {
        let first = bare::measure(&client, &servers, shape, 1).await?;
        figures.bare.push(first);
    }
    let mut steps = Steps::start(client, launch, servers, figures).await?;
    match options.scenario {
        Scenario::Full => {
            rollouts(&mut steps).await?;
            steps.idle().await?;
            steps.restart().await?;
            steps.lone().await?;
            steps.teardown().await?;
            // Chains come last, so that nothing else is measured beside the revisions that they
            // leave behind.
            steps.bare().await?;
            steps.chain(*chains).await?;
            steps.bare().await?;
        }
        Scenario::Rollout => {
            rollouts(&mut steps).await?;
            return steps.finish_with_bounds().await;
        }
        Scenario::Lone => steps.lone().await?,
        Scenario::Chain => {
            steps.chain(*chains).await?;
            steps.bare().await?;
        }
        // These scenarios are measured with their own clusters.
        Scenario::Fleet | Scenario::Releases | Scenario::ReleasesFleet | Scenario::Sites => {}
    }
    steps.finish().await
}

async fn rollouts(steps: &mut Steps) -> Result<(), Error> {
    steps.create().await?;
    steps.bare().await?;
    steps.handover().await?;
    steps.bare().await?;
    steps.unchanged().await?;
    steps.bare().await
}

fn print(figures: &Figures, options: &Options) -> Result<(), Error> {
    println!("{}", report::tables(figures));
    let json = report::json(figures)?;
    let Some(path) = &options.json else {
        println!("{json}");
        return Ok(());
    };
    std::fs::write(path, json + "\n").map_err(|source| Error::Write {
        path: path.clone(),
        source,
    })?;
    eprintln!("bench: figures written to {}", path.display());
    Ok(())
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn command_line_is_consistent() {
        Options::command().debug_assert();
    }

    /// `cargo dev bench --help` prints this snapshot, because a build of the bench takes minutes.
    #[test]
    fn the_help_is_known_without_a_build() {
        let mut command = Options::command().term_width(110);
        insta::assert_snapshot!("help", command.render_long_help());
    }

    #[test]
    fn a_variable_without_a_name_is_refused() {
        let pair = |name: &str, value: &str| Ok((name.to_owned(), value.to_owned()));
        assert_eq!(variable("A=b=c"), pair("A", "b=c"));
        assert_eq!(variable("A="), pair("A", ""));
        variable("=b").unwrap_err();
        variable("A").unwrap_err();
    }
}
