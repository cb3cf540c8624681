//! A wait for a rollout, on standard error: a bar per cluster on a terminal, else a line per change.

use std::{
    collections::BTreeMap,
    io::{IsTerminal as _, stderr},
    time::Duration,
};

use baton_kubernetes::error::collapse_whitespace;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{
    clusters::{ClusterPicture, clusters},
    read::Observed,
};
use crate::output::{Output, report};

/// How often the spinner moves by itself, so that one sees that the wait goes on.
const TICK: Duration = Duration::from_millis(120);
/// Clusters beyond these are counted: bars that do not fit on a terminal tear it apart.
const MOST: usize = 12;
/// Names of clusters and releases beyond this are cut.
const LONGEST: usize = 40;

/// A wait that is being shown. Dropped, it leaves nothing behind on a terminal.
pub(crate) struct Bars {
    terminal: Option<Terminal>,
    /// The lines that were written last, by what they are about.
    shown: BTreeMap<String, String>,
}

struct Terminal {
    all: MultiProgress,
    /// What is waited for.
    message: ProgressBar,
    clusters: BTreeMap<String, ProgressBar>,
    /// How many clusters have no bar.
    more: ProgressBar,
}

impl Bars {
    pub(crate) fn new() -> Self {
        let is_terminal =
            stderr().is_terminal() && std::env::var_os("TERM").is_some_and(|term| term != "dumb");
        Self {
            terminal: is_terminal.then(Terminal::new),
            shown: BTreeMap::new(),
        }
    }

    /// Shows what the clusters have of the Release that is waited for, and what it waits for.
    pub(crate) fn show(&mut self, observed: &Observed, message: &str) {
        let release = observed.subject();
        let clusters = release.map_or_else(Vec::new, |release| clusters(observed, release));
        let message = collapse_whitespace(message);
        if let Some(terminal) = &mut self.terminal {
            terminal.show(&clusters, &message);
            return;
        }
        for (about, line) in lines(&clusters, &message) {
            if self.shown.get(&about) != Some(&line) {
                report(&line);
                self.shown.insert(about, line);
            }
        }
    }
}

/// A line for what is waited for, and one per cluster, with what each is about.
fn lines(clusters: &[ClusterPicture], message: &str) -> Vec<(String, String)> {
    let mut lines = vec![(String::new(), message.to_owned())];
    lines.extend(clusters.iter().map(|cluster| {
        let name = collapse_whitespace(&cluster.name);
        (
            cluster.name.clone(),
            format!("{name}: {}", numbers(cluster)),
        )
    }));
    lines
}

/// `capacity 40% of 50% (2/3 pods), traffic 10 of 50`
fn numbers(cluster: &ClusterPicture) -> String {
    let capacity = cluster.capacity.map_or_else(
        || "capacity unknown".to_owned(),
        |capacity| format!("capacity {} ({})", capacity.text(), capacity.pods()),
    );
    let traffic = cluster.traffic.map_or_else(
        || "traffic unknown".to_owned(),
        |traffic| format!("traffic {}", traffic.text()),
    );
    format!("{capacity}, {traffic}")
}

impl Terminal {
    fn new() -> Self {
        let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
        let message = all.add(ProgressBar::new_spinner());
        message.set_style(style("{spinner} {elapsed} {wide_msg}"));
        message.enable_steady_tick(TICK);
        let more = all.add(ProgressBar::new_spinner());
        more.set_style(style("{wide_msg}"));
        Self {
            all,
            message,
            clusters: BTreeMap::new(),
            more,
        }
    }

    fn show(&mut self, clusters: &[ClusterPicture], message: &str) {
        self.message.set_message(printable(message));
        // Those that are not where they are to be come first, then the others by name.
        let mut shown: Vec<&ClusterPicture> = clusters.iter().collect();
        shown.sort_by_key(|cluster| (cluster.is_settled(), &cluster.name));
        let hidden = shown.len().saturating_sub(MOST);
        shown.truncate(MOST);
        let all = &self.all;
        self.clusters.retain(|name, bar| {
            let stays = shown.iter().any(|cluster| cluster.name == *name);
            if !stays {
                bar.finish_and_clear();
                all.remove(bar);
            }
            stays
        });
        for cluster in shown {
            let bar = self
                .clusters
                .entry(cluster.name.clone())
                .or_insert_with(|| {
                    let bar = all.insert_before(&self.more, ProgressBar::new(100));
                    bar.set_style(style("  {prefix} [{bar:24}] {wide_msg}"));
                    let name: String = printable(&cluster.name).chars().take(LONGEST).collect();
                    bar.set_prefix(name);
                    bar
                });
            let percent = cluster
                .capacity
                .and_then(|capacity| capacity.achieved_percent);
            let percent = u64::try_from(percent.unwrap_or(0)).unwrap_or(0);
            bar.set_position(percent.min(100));
            bar.set_message(printable(&numbers(cluster)));
        }
        match hidden {
            0 => self.more.set_message(String::new()),
            hidden => self
                .more
                .set_message(format!("  and {hidden} more clusters")),
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.message.finish_and_clear();
        self.more.finish_and_clear();
        for bar in self.clusters.values() {
            bar.finish_and_clear();
        }
    }
}

fn printable(text: &str) -> String {
    Output::plain().printable(text).into_owned()
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_spinner())
        .progress_chars("=> ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::applications::fixtures::{mid_rollout, observed};

    #[test]
    fn every_cluster_has_a_line() {
        let observed = observed(&mid_rollout());
        let release = observed.subject().unwrap();
        let lines = lines(&clusters(&observed, release), "waits");
        let lines: Vec<_> = lines.into_iter().map(|(_, line)| line).collect();
        assert_eq!(
            lines,
            [
                "waits",
                "north: capacity 40% of 50% (2/3 pods), traffic 0 of 0",
                "south: capacity 60% of 50% (3/3 pods), traffic 0 of 0",
            ]
        );
    }
}
