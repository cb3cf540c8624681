//! `cargo dev demo`: the main job as a tour, on a cluster of its own or on one that is there.

mod chain;
mod cluster;
mod picture;
mod tables;
mod tour;

use std::future::pending;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use clap::Args;

use self::chain::Plugin;
use self::cluster::Place;
use crate::bed::{self, Afterwards, Bed};
use crate::bench::manager::{self, Cluster, Launch, Manager};
use crate::exec;
use crate::paths::Dirs;

/// The namespace of the samples.
const NAMESPACE: &str = "baton-demo";

/// The name of the bed.
const BED: &str = "demo";

/// How to show it.
#[derive(Debug, Args)]
pub struct Options {
    /// Use the cluster of this context of your kubeconfig instead of starting one.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// End after the tour, instead of leaving the cluster up for playing with it.
    #[arg(long)]
    once: bool,
}

/// Why the tour ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no bed.
    #[error(transparent)]
    Bed(#[from] bed::Error),
    /// The name of the bed is none.
    #[error(transparent)]
    Name(#[from] bed::InvalidName),
    /// The manager does not do what it should.
    #[error(transparent)]
    Manager(#[from] manager::Error),
    /// The cluster cannot be used, or refused something.
    #[error(transparent)]
    Cluster(#[from] cluster::Error),
    /// The plugin does not run.
    #[error(transparent)]
    Exec(#[from] exec::Error),
    /// The plugin runs and its end is not known.
    #[error("cannot wait for the plugin: {0}")]
    Wait(#[source] std::io::Error),
    /// The plugin says something else than it should.
    #[error("kubectl baton {command} ended unexpectedly ({status})")]
    Plugin {
        /// What was asked of it.
        command: String,
        /// How it ended.
        status: ExitStatus,
    },
}

/// Shows the tour.
///
/// # Guarantees
///
/// The manager has ended when this returns or is dropped, and so has the bed. A cluster that was
/// there before keeps running; when the tour ends by itself, only the custom resource definitions are
/// left on it.
///
/// # Errors
///
/// When a step does not come out as expected.
pub async fn run(dirs: &Dirs, options: &Options) -> Result<(), Error> {
    // Declared before the manager, so that it ends after it.
    let (bed, cluster) = if let Some(name) = &options.context {
        (None, Cluster::Context(name.clone()))
    } else {
        let bed = Bed::up(dirs, &BED.parse()?, None, Afterwards::End).await?;
        let cluster = Cluster::Kubeconfig(bed.kubeconfig());
        (Some(bed), cluster)
    };
    let mut place = Place::new(cluster.client().await?);
    place.inspect().await?;
    eprintln!("demo: building the manager and the kubectl plugin");
    // The same selection as for the tests, so that nothing is built twice.
    let binary = manager::build(dirs, "baton", &["--workspace"]).await?;
    let plugin = Plugin {
        binary: manager::build(dirs, "kubectl-baton", &["--workspace"]).await?,
        cluster: cluster.clone(),
    };
    place.install(&dirs.crds()).await?;
    let log = dirs.cache.join("logs").join("demo-manager.log");
    eprintln!("demo: the manager's log is {}", log.display());
    let mut manager = Manager::launch(&Launch {
        binary,
        cluster,
        log: log.clone(),
        env: vec![],
    })?;
    manager.ready().await?;
    place.clear(&mut manager).await?;

    tour::run(dirs, &place, &mut manager).await?;
    chain::run(dirs, &place, &mut manager, &plugin).await?;

    if !options.once {
        let kubeconfig = bed.as_ref().map(Bed::kubeconfig);
        let own = farewell(options.context.as_deref(), kubeconfig, &plugin.binary);
        println!("{own}");
        println!("The manager's log: {}", log.display());
        return Ok(manager.until("Ctrl-C", Duration::MAX, pending()).await?);
    }
    if bed.is_none() {
        place.clear(&mut manager).await?;
    }
    manager.stop().await?;
    if bed.is_none() {
        place.leave().await?;
    }
    println!("Every step came out as expected.");
    Ok(())
}

/// What to try when the tour is over.
fn farewell(context: Option<&str>, kubeconfig: Option<PathBuf>, plugin: &Path) -> String {
    let kubectl = context.map_or("kubectl".to_owned(), |name| {
        format!("kubectl --context {name}")
    });
    let mut lines = match kubeconfig {
        None => vec!["The manager runs until Ctrl-C. In another terminal:\n".to_owned()],
        Some(path) => vec![
            "The cluster stays up until Ctrl-C. In another terminal:\n".to_owned(),
            format!("  export KUBECONFIG={}\n", path.display()),
        ],
    };
    if let Some(directory) = plugin.parent() {
        lines.push(format!("  export PATH={}:$PATH\n", directory.display()));
    }
    let tries = [
        (
            "what there is",
            "get objectdeployments,objectsets,deployments,services,configmaps",
        ),
        ("the chain, live", "baton tree cafe -w"),
        (
            "a forced new revision of the same content",
            "baton restart cafe",
        ),
        (
            "a revision, its conditions and events",
            "describe objectset shop-v5",
        ),
        (
            "drift is repaired",
            "set image deployment/shop shop=registry.example/shop:9.9",
        ),
        ("what is deleted comes back", "delete service shop"),
        (
            "a revision goes with its objects, last phase first",
            "delete objectset shop-v5",
        ),
    ];
    for (why, command) in tries {
        // A plugin's name has to stand right behind kubectl.
        let command = match (command.strip_prefix("baton "), context) {
            (Some(rest), None) => format!("kubectl baton -n {NAMESPACE} {rest}"),
            (Some(rest), Some(name)) => {
                format!("kubectl baton --context {name} -n {NAMESPACE} {rest}")
            }
            (None, _) => format!("{kubectl} -n {NAMESPACE} {command}"),
        };
        lines.push(format!("  # {why}\n  {command}\n"));
    }
    lines.push(match context {
        None => format!(
            "Without a kubectl of your own: cargo dev kubectl --bed {BED} -n {NAMESPACE} get objectsets"
        ),
        Some(_) => format!(
            "Before Ctrl-C, while the manager is there to take things down:\n\n  \
             {kubectl} delete namespace {NAMESPACE}\n"
        ),
    });
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_farewell_names_the_cluster() {
        let plugin = Path::new("/t/kubectl-baton");
        let own = farewell(None, Some("/b/kubeconfig.yaml".into()), plugin);
        assert!(
            own.contains("export KUBECONFIG=/b/kubeconfig.yaml\n"),
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
        let other = farewell(Some("kind"), None, plugin);
        assert!(!other.contains("KUBECONFIG"), "{other}");
        assert!(
            other.contains("kubectl --context kind delete namespace baton-demo"),
            "{other}"
        );
    }
}
