//! The tour, step by step.

use std::io::{IsTerminal as _, stdout};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::cluster::{self, DemoCluster, Programs};
use super::expect::Snapshot;
use super::kubelet::Kubelet;
use super::releases::{self, BAKERY, OTHER};
use super::sites::{self, EDGE, EDGE_CONTEXT, TILL};
use super::steps::{CAFE, SHOP, Step};
use super::{Error, NAMESPACE};
use crate::manager::Manager;

/// The time that a step may take.
const TIMEOUT: Duration = Duration::from_mins(2);

/// The pause between two reads of the cluster.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The kinds that the steps about revisions check.
const KINDS: &str = "objectdeployments,objectsets,configmaps,deployments,services";

/// Runs all steps, up to the first that does not have the expected results.
pub(crate) async fn run(
    cluster: &DemoCluster,
    programs: &Programs,
    (manager, mut kubelet): (&mut Manager, Option<&mut Kubelet>),
) -> Result<(), Error> {
    let screen = Screen::detect();
    cluster.create_namespace().await?;
    let mut parts = vec![(About::Revisions, &SHOP[..]), (About::Revisions, &CAFE[..])];
    if cluster.has_others() {
        parts.push((About::Applications, &BAKERY[..]));
        parts.push((About::Sites, &TILL[..]));
    }
    for (about, part) in parts {
        let mut before = Snapshot::default();
        for (index, step) in part.iter().enumerate() {
            let number = format!("{}/{} {}", index + 1, part.len(), step.title);
            println!("{}\n", screen.heading(&number));
            let started = Instant::now();
            for (command, code) in step.acts {
                cluster.show(programs, command, *code).await?;
            }
            before = wait(
                about,
                step,
                (cluster, manager, kubelet.as_deref_mut()),
                &before,
            )
            .await?;
            println!("  done after {:.1} s\n", started.elapsed().as_secs_f64());
            println!("{}\n", textwrap::fill(step.narration, screen.width));
            for (command, code) in step.looks {
                cluster.show(programs, command, *code).await?;
            }
        }
    }
    Ok(())
}

/// The subject of a part.
#[derive(Clone, Copy)]
enum About {
    /// Revisions in one cluster.
    Revisions,
    /// Applications in two clusters.
    Applications,
    /// Sites in three clusters.
    Sites,
}

impl About {
    /// The objects that the steps may check.
    async fn look(self, cluster: &DemoCluster) -> Result<Snapshot, cluster::Error> {
        let of = |kinds| [kinds, "--namespace", NAMESPACE];
        match self {
            Self::Revisions => Ok(Snapshot::new(cluster.get(&of(KINDS)).await?)),
            Self::Applications => {
                let (hub, other) = (of(releases::KINDS), of(releases::KINDS_OF_OTHER));
                let (hub, other, clusters) = tokio::try_join!(
                    cluster.get(&hub),
                    cluster.get_in(OTHER, &other),
                    cluster.get(&["clusters.shipper.booking.com"]),
                )?;
                Ok(Snapshot::new(hub)
                    .with("", clusters)
                    .with(releases::OTHER_NAME, other))
            }
            Self::Sites => {
                let (hub, site) = (of(sites::KINDS), of(sites::KINDS_OF_SITE));
                let (hub, other, edge, clusters) = tokio::try_join!(
                    cluster.get(&hub),
                    cluster.get_in(OTHER, &site),
                    cluster.get_in(EDGE_CONTEXT, &site),
                    cluster.get(&["clusters.shipper.booking.com"]),
                )?;
                Ok(Snapshot::new(hub)
                    .with("", clusters)
                    .with(releases::OTHER_NAME, other)
                    .with(EDGE, edge))
            }
        }
    }
}

/// Waits until all expected results are reached. Returns the objects at that moment.
async fn wait(
    about: About,
    step: &Step,
    (cluster, manager, mut kubelet): (&DemoCluster, &mut Manager, Option<&mut Kubelet>),
    before: &Snapshot,
) -> Result<Snapshot, Error> {
    let mut unmet = Vec::new();
    let look = async {
        loop {
            if let Some(kubelet) = &mut kubelet {
                kubelet.follow(cluster).await?;
            }
            let now = about.look(cluster).await?;
            let expected = step.expected.iter();
            unmet = expected.filter_map(|one| one.unmet(&now, before)).collect();
            if unmet.is_empty() {
                return Ok::<_, cluster::Error>(now);
            }
            sleep(POLL_INTERVAL).await;
        }
    };
    let what = format!("the step {:?}", step.title);
    match manager.until(&what, TIMEOUT, look).await {
        Ok(now) => Ok(now?),
        Err(error) => Err(error.with_detail(&unmet.join("; ")).into()),
    }
}

/// The screen of the tour.
struct Screen {
    width: usize,
    styled: bool,
}

impl Screen {
    /// The terminal behind the standard output, if it is one.
    fn detect() -> Self {
        let terminal = stdout().is_terminal();
        let size = terminal.then(|| rustix::termios::tcgetwinsize(stdout()).ok());
        let width = size.flatten().map_or(100, |size| size.ws_col);
        Self {
            width: width.clamp(80, 120).into(),
            styled: terminal && std::env::var_os("NO_COLOR").is_none(),
        }
    }

    fn heading(&self, text: &str) -> String {
        let rule = "─".repeat(self.width.saturating_sub(text.chars().count() + 4));
        let (bold, plain) = if self.styled {
            ("\x1b[1m", "\x1b[0m")
        } else {
            ("", "")
        };
        format!("── {bold}{text}{plain} {rule}")
    }
}
