//! The resources that a process uses, as the kernel reports them in `/proc`.

use std::fs;
use std::path::Path;

use serde::Serialize;

/// The unit of times in `/proc/PID/stat`. The kernel scales the values for user space to 100 Hz on
/// every architecture that Rust supports.
const TICKS_PER_SECOND: f64 = 100.0;

/// The resources that a process has used at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Usage {
    /// Seconds of processor time since its start, user and system.
    pub(crate) cpu: f64,
    /// Processor seconds of the processes that it has started and that have ended.
    pub(crate) children: f64,
    /// Resident memory in MiB.
    pub(crate) rss: f64,
    /// Peak of the resident memory in MiB, since its start or [`reset_peak`].
    pub(crate) peak: f64,
}

/// The resources that the process has used; `None` if there is no `/proc`.
pub(crate) fn usage(pid: u32) -> Option<Usage> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let (cpu, children) = cpu_seconds(&stat)?;
    Some(Usage {
        cpu,
        children,
        rss: mebibytes(&status, "VmRSS:")?,
        peak: mebibytes(&status, "VmHWM:")?,
    })
}

/// The API server and its storage.
#[derive(Debug, Clone)]
pub(crate) struct Servers(Vec<u32>);

impl Servers {
    /// The servers of the bed with this kubeconfig, which is in the bed's directory.
    pub(crate) fn of_bed(kubeconfig: &Path) -> Self {
        let pid = |name: &str| {
            let file = kubeconfig.parent()?.join("pids").join(name);
            let pid = fs::read_to_string(file.with_extension("pid")).ok()?;
            pid.trim().parse().ok()
        };
        Self(
            ["kube-apiserver", "etcd"]
                .into_iter()
                .filter_map(pid)
                .collect(),
        )
    }

    /// These servers and others.
    pub(crate) fn and(mut self, others: impl IntoIterator<Item = Self>) -> Self {
        self.0
            .extend(others.into_iter().flat_map(|servers| servers.0));
        self
    }

    /// Seconds of processor time that they have used since their start.
    pub(crate) fn cpu(&self) -> f64 {
        self.0
            .iter()
            .filter_map(|pid| usage(*pid))
            .map(|usage| usage.cpu)
            .sum()
    }
}

/// Resets the peak of the resident memory, if the kernel permits it.
pub(crate) fn reset_peak(pid: u32) {
    let _ = fs::write(format!("/proc/{pid}/clear_refs"), "5");
}

/// Processor seconds of the process, and of the processes that it has waited for.
fn cpu_seconds(stat: &str) -> Option<(f64, f64)> {
    // The name of the program, in parentheses, may contain spaces and parentheses.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<f64>().ok();
    let own = ticks()? + ticks()?;
    let children = ticks()? + ticks()?;
    Some((own / TICKS_PER_SECOND, children / TICKS_PER_SECOND))
}

fn mebibytes(status: &str, field: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kibibytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_parsed_after_any_process_name() {
        let stat = "42 (a b) c) S 1 42 42 0 -1 4194560 100 0 0 0 250 50 7 8 20 0 4 0 1000";
        assert_eq!(cpu_seconds(stat), Some((3.0, 0.15)));
        assert_eq!(cpu_seconds("42 (x) S 1"), None);
    }

    #[test]
    fn memory_is_read_in_mebibytes() {
        let status = "VmPeak:\t  9999 kB\nVmHWM:\t    3072 kB\nVmRSS:\t    1536 kB\n";
        assert_eq!(mebibytes(status, "VmHWM:"), Some(3.0));
        assert_eq!(mebibytes(status, "VmRSS:"), Some(1.5));
        assert_eq!(mebibytes(status, "VmSwap:"), None);
    }

    #[test]
    fn the_memory_of_the_own_process_is_found() {
        if cfg!(target_os = "linux") {
            let usage = usage(std::process::id()).unwrap();
            assert!(usage.peak >= usage.rss && usage.rss > 0.0, "{usage:?}");
        }
        assert_eq!(usage(0), None);
    }

    #[test]
    fn servers_of_a_bed_are_found() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("pids")).unwrap();
        fs::write(dir.path().join("pids/etcd.pid"), "17\n").unwrap();
        let servers = Servers::of_bed(&dir.path().join("kubeconfig.yaml"));
        assert_eq!(servers.0, [17]);
        assert_eq!(servers.clone().and([servers]).0, [17, 17]);
    }
}
