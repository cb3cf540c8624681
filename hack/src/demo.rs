//! `cargo dev demo`: a tour of the main job, on clusters of its own or on an existing one.

mod cluster;
mod expect;
mod kubelet;
mod releases;
mod sites;
mod steps;
mod tour;

use std::ffi::OsString;
use std::future::pending;
use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use clap::Args;
use tokio::process::{Child, Command};

use self::cluster::{ClusterAccess, DemoCluster, Programs};
use self::kubelet::Kubelet;
use crate::bed::{self, Afterwards, Bed};
use crate::cargo;
use crate::charts::{self, Repository};
use crate::manager::{self, Cluster, Launch, Manager};
use crate::paths::Dirs;
use crate::tools;

/// The namespace of the samples.
const NAMESPACE: &str = "baton-demo";

/// The name of the bed.
const BED: &str = "demo";

/// The name of the second bed, to which Applications are rolled out as well.
const OTHER_BED: &str = "demo-us";

/// The name of the bed at the edge, a site that an agent serves.
const EDGE_BED: &str = "demo-edge";

/// The port of the repository of charts. The samples contain it, and the names of Releases depend
/// on it.
const CHARTS_PORT: u16 = 8879;

/// The options of the tour.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Use the cluster of this context of your kubeconfig instead of starting three clusters. The
    /// parts about Applications and sites, which need several clusters, are left out.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Exit after the tour, instead of leaving the clusters running for your own experiments.
    #[arg(long)]
    once: bool,
}

/// The reason that the tour ended.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(crate) enum Error {
    Bed(#[from] bed::Error),
    Name(#[from] bed::InvalidName),
    Cargo(#[from] cargo::Error),
    Tools(#[from] tools::Error),
    Charts(#[from] charts::Error),
    Manager(#[from] manager::Error),
    Cluster(#[from] cluster::Error),
}

/// Shows the tour.
///
/// The manager has ended when this returns or is dropped, and so have the beds. An existing cluster
/// keeps running; after a complete tour only the custom resource definitions are left on it.
pub(crate) async fn run(dirs: &Dirs, options: &Options) -> Result<(), Error> {
    // Declared before the manager, so that the beds end after it.
    let own = match &options.context {
        Some(_) => None,
        None => Some(Own::start(dirs).await?),
    };
    let (kubectl, cluster, way) = match (&own, &options.context) {
        (Some(own), _) => (
            own.hub.kubectl().as_std().get_program().into(),
            Cluster::Kubeconfig(own.hub.kubeconfig()),
            ClusterAccess::First {
                kubeconfigs: own.kubeconfigs(),
                helm: own.helm.clone(),
            },
        ),
        (None, context) => {
            let name = context.clone().unwrap_or_default();
            (
                "kubectl".into(),
                Cluster::Context(name.clone()),
                ClusterAccess::Context(name),
            )
        }
    };
    let mut demo_cluster = DemoCluster::new(dirs, kubectl, way);
    demo_cluster.inspect().await?;
    eprintln!("demo: building the manager and the kubectl plugin");
    // The same selection as for the tests, so that nothing is built twice.
    let [baton, plugin] = cargo::build(dirs, ["baton", "kubectl-baton"], &["--workspace"]).await?;
    let programs = Programs { baton, plugin };
    demo_cluster.install().await?;
    let log = dirs.cache.join("logs").join("demo-manager.log");
    eprintln!("demo: the manager's log is {}", log.display());
    let mut env = vec![];
    if let Some(own) = &own {
        env.push(("HELM_BIN".to_owned(), own.helm.clone()));
        // With this period a lost site is detected within seconds.
        env.push(("BATON_AGENT_HEARTBEAT".to_owned(), "2".to_owned()));
    }
    let mut kubelet = own.as_ref().map(|own| {
        let log = log.with_file_name("demo-agent.log");
        Kubelet::new(programs.baton.clone(), own.edge.kubeconfig(), log)
    });
    let mut manager = Manager::start(&Launch {
        binary: programs.baton.clone(),
        cluster,
        log: log.clone(),
        env,
    })
    .await?;
    demo_cluster.delete_namespace(&mut manager).await?;

    tour::run(&demo_cluster, &programs, (&mut manager, kubelet.as_mut())).await?;

    if !options.once {
        let kubeconfigs = own.as_ref().map(Own::kubeconfigs);
        let context = options.context.as_deref();
        let text = closing_text(context, kubeconfigs.clone(), &programs.plugin);
        println!("{text}");
        println!("The manager's log: {}", log.display());
        println!("The same in a browser, with changes (Ctrl-C ends it as well):");
        // It ends when this is dropped.
        let _dashboard = dashboard(&programs.plugin, kubeconfigs, options.context.as_deref());
        let follow = async {
            match &mut kubelet {
                Some(kubelet) => kubelet.keep_following(&demo_cluster).await,
                None => pending().await,
            }
        };
        manager.until("Ctrl-C", Duration::MAX, follow).await??;
        return Ok(());
    }
    if own.is_none() {
        demo_cluster.delete_namespace(&mut manager).await?;
    }
    manager.stop().await?;
    if own.is_none() {
        demo_cluster.clean_up().await?;
    }
    println!("Every step had the expected result.");
    Ok(())
}

/// Opens the dashboard of the cluster in a browser; without a terminal, it only prints the address. If
/// that fails, it prints the reason itself.
fn dashboard(
    plugin: &Path,
    kubeconfigs: Option<OsString>,
    context: Option<&str>,
) -> io::Result<Child> {
    let mut command = Command::new(plugin);
    command
        .args(["dashboard", "--actions", "--namespace", NAMESPACE])
        .stdin(Stdio::null())
        .kill_on_drop(true);
    if let Some(list) = kubeconfigs {
        command.env("KUBECONFIG", list);
    }
    if let Some(context) = context {
        command.args(["--context", context]);
    }
    if !io::stdout().is_terminal() {
        command.arg("--no-browser");
    }
    command.spawn()
}

/// The tour's own clusters and charts, if no cluster is given.
struct Own {
    hub: Bed,
    other: Bed,
    edge: Bed,
    /// The field is only stored to keep the repository running.
    _charts: Repository,
    helm: String,
}

impl Own {
    async fn start(dirs: &Dirs) -> Result<Self, Error> {
        let charts = Repository::on_port(dirs, CHARTS_PORT).await?;
        let helm = tools::helm(dirs).await?.to_string_lossy().into_owned();
        let hub = Bed::up(dirs, &BED.parse()?, None, Afterwards::End).await?;
        let other = Bed::up(dirs, &OTHER_BED.parse()?, None, Afterwards::End).await?;
        let edge = Bed::up(dirs, &EDGE_BED.parse()?, None, Afterwards::End).await?;
        Ok(Self {
            hub,
            other,
            edge,
            _charts: charts,
            helm,
        })
    }

    /// The value of `KUBECONFIG`. The hub comes first, so its context is the current one.
    fn kubeconfigs(&self) -> OsString {
        let mut list = self.hub.kubeconfig().into_os_string();
        for bed in [&self.other, &self.edge] {
            list.push(":");
            list.push(bed.kubeconfig());
        }
        list
    }
}

/// Commands to try after the tour, each with a description.
const TRIES: [&str; 7] = [
    "all objects: get objectdeployments,objectsets,deployments,services,configmaps",
    "the chain, live: baton tree cafe -w",
    "a forced new revision of the same content: baton restart cafe",
    "a revision, its conditions and events: describe objectset shop-v5",
    "drift is repaired: set image deployment/shop shop=registry.example/shop:9.9",
    "a deleted object is created again: delete service shop",
    "a revision is deleted with its objects, last phase first: delete objectset shop-v5",
];

/// Further commands about Applications.
const TRIES_OF_APPLICATIONS: [&str; 4] = [
    "the next Release: apply -f config/samples/31-application-next.yaml",
    "its progress: baton status app/bakery --watch",
    "its next step: baton promote bakery",
    "the view of Shipper's clients: get applications,releases,capacitytargets,traffictargets",
];

/// Further commands about sites.
const TRIES_OF_SITES: [&str; 4] = [
    "the versions of each site, and its queue: baton sites",
    "the next version: apply -f config/samples/42-site-application-next.yaml",
    "its progress, wave by wave: baton status sitedeploy/till --watch",
    "the rollouts so far: baton history sitedeploy/till",
];

fn closing_text(context: Option<&str>, kubeconfigs: Option<OsString>, plugin: &Path) -> String {
    let context = context.map(|name| format!(" --context {name}"));
    let mut tries = TRIES.to_vec();
    let mut lines = match kubeconfigs {
        None => vec!["The manager runs until Ctrl-C. In another terminal:\n".to_owned()],
        Some(list) => {
            tries.extend(TRIES_OF_APPLICATIONS);
            tries.extend(TRIES_OF_SITES);
            let list = list.to_string_lossy();
            vec![
                "The clusters stay up until Ctrl-C. In another terminal:\n".to_owned(),
                format!("  export KUBECONFIG={list}\n"),
            ]
        }
    };
    if let Some(directory) = plugin.parent() {
        lines.push(format!("  export PATH={}:$PATH\n", directory.display()));
    }
    let selected = context.as_deref().unwrap_or_default();
    for (why, command) in tries.iter().filter_map(|line| line.split_once(": ")) {
        // The name of a plugin has to follow kubectl directly.
        let (baton, rest) = match command.strip_prefix("baton ") {
            Some(rest) => (" baton", rest),
            None => ("", command),
        };
        let line = format!("kubectl{baton}{selected} -n {NAMESPACE} {rest}");
        lines.push(format!("  # {why}\n  {line}\n"));
    }
    lines.push(match context {
        None => format!(
            "Without a kubectl of your own: cargo dev kubectl --bed {BED} -n {NAMESPACE} get objectsets"
        ),
        Some(selected) => format!(
            "Before Ctrl-C, while the manager still runs and can delete the objects:\n\n  kubectl{selected} delete \
             namespace {NAMESPACE}\n"
        ),
    });
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_message_names_the_cluster() {
        let plugin = Path::new("/t/kubectl-baton");
        let own = closing_text(None, Some("/b/kubeconfig.yaml:/c".into()), plugin);
        assert!(
            own.contains("export KUBECONFIG=/b/kubeconfig.yaml:/c\n"),
            "{own}"
        );
        assert!(
            own.contains("\n  kubectl baton -n baton-demo promote bakery\n"),
            "{own}"
        );
        assert!(
            own.contains("\n  kubectl -n baton-demo delete service shop\n"),
            "{own}"
        );
        assert!(own.contains("--bed demo"), "{own}");
        assert!(
            own.contains("\n  kubectl baton -n baton-demo tree cafe -w\n"),
            "{own}"
        );
        assert!(own.contains("export PATH=/t:$PATH\n"), "{own}");
        let other = closing_text(Some("kind"), None, plugin);
        assert!(!other.contains("KUBECONFIG"), "{other}");
        assert!(!other.contains("bakery"), "{other}");
        assert!(
            other.contains("kubectl --context kind delete namespace baton-demo"),
            "{other}"
        );
    }
}
