//! Servers that have ended although their bed has not.

use std::fmt;
use std::fs;
use std::path::Path;

use super::processes;
use crate::exec;

/// Number of log lines that are shown.
const LOG_LINES: usize = 12;

/// A server of a bed that was started and does not run any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// The name of the server, such as `kube-scheduler`.
    pub component: &'static str,
    /// The name of the bed.
    pub bed: String,
    /// The end of its log.
    pub log: String,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            component,
            bed,
            log,
        } = self;
        write!(
            f,
            "{component} of bed {bed} has ended; its log ends with:\n{log}"
        )
    }
}

/// The ended servers of the bed with this kubeconfig. Empty if the kubeconfig belongs to no bed, or
/// processes cannot be listed.
#[must_use]
pub fn ended(kubeconfig: &Path) -> Vec<Ended> {
    kubeconfig
        .parent()
        .and_then(|dir| in_dir(dir).ok())
        .unwrap_or_default()
}

/// The ended servers of the bed in `dir`.
pub(super) fn in_dir(dir: &Path) -> Result<Vec<Ended>, processes::Error> {
    let bed = dir.file_name().unwrap_or_default().to_string_lossy();
    let ended = |component| Ended {
        component,
        bed: bed.clone().into_owned(),
        log: log(dir, component),
    };
    Ok(processes::dead(dir)?.into_iter().map(ended).collect())
}

/// The end of the log of a server of the bed in `dir`.
pub(super) fn log(dir: &Path, component: &str) -> String {
    let path = dir.join("logs").join(component).with_extension("log");
    let text = fs::read(&path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    text.map_or_else(
        |error| format!("({}: {error})", path.display()),
        |text| exec::tail(&text, LOG_LINES),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_has_ended_is_named_with_its_bed_and_log() {
        let dir = tempfile::tempdir().unwrap();
        let bed = dir.path().join("test");
        assert_eq!(ended(&bed.join("kubeconfig.yaml")), [], "no bed");
        for folder in ["pids", "logs"] {
            fs::create_dir_all(bed.join(folder)).unwrap();
        }
        // This process runs, but is no server.
        let id = std::process::id().to_string();
        fs::write(bed.join("pids/kube-scheduler.pid"), id).unwrap();
        fs::write(
            bed.join("logs/kube-scheduler.log"),
            "a\nleaderelection lost\n",
        )
        .unwrap();
        let [found] = &ended(&bed.join("kubeconfig.yaml"))[..] else {
            panic!("one has ended");
        };
        assert_eq!(
            found.to_string(),
            "kube-scheduler of bed test has ended; its log ends with:\na\nleaderelection lost"
        );
    }
}
