//! The memory of a process and its descendants.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Time between two readings.
const INTERVAL: Duration = Duration::from_millis(20);

/// The variable with the memory limit in MiB, set by `cargo dev adversary`.
const LIMIT: &str = "ADVERSARY_LIMIT_MIB";

/// The variable with the file that has the enforced limit, set by `cargo dev adversary`.
const ENFORCED: &str = "ADVERSARY_LIMIT_FILE";

/// The resident memory of a process with its descendants, read until the test ends.
pub(crate) struct Gauge {
    pid: u32,
    peak: Arc<Mutex<f64>>,
}

impl Gauge {
    pub(crate) fn start(pid: u32) -> Self {
        let peak = Arc::new(Mutex::new(0.0_f64));
        let shared = Arc::clone(&peak);
        std::thread::spawn(move || {
            loop {
                let now = resident(pid);
                let mut peak = shared.lock().unwrap();
                *peak = peak.max(now);
                drop(peak);
                std::thread::sleep(INTERVAL);
            }
        });
        Self { pid, peak }
    }

    /// The memory in MiB.
    pub(crate) fn now(&self) -> f64 {
        resident(self.pid)
    }

    pub(crate) fn reset(&self) {
        *self.peak.lock().unwrap() = 0.0;
    }

    /// The peak in MiB since the last reset.
    pub(crate) fn peak(&self) -> f64 {
        *self.peak.lock().unwrap()
    }
}

/// The memory limit of the manager in MiB.
pub(crate) fn limit() -> Option<f64> {
    std::env::var(LIMIT).ok()?.parse().ok()
}

/// The limit, and whether the kernel enforces it.
pub(crate) fn limit_text() -> String {
    let limit = limit().map_or("none".to_owned(), |limit| format!("{limit:.0} MiB"));
    let enforced = std::env::var(ENFORCED).ok();
    let enforced = enforced.and_then(|file| fs::read_to_string(file).ok());
    match enforced {
        Some(bytes) => format!("{limit}, enforced ({} bytes)", bytes.trim()),
        None => format!("{limit}, not enforced"),
    }
}

/// The resident memory of a process and its descendants in MiB.
fn resident(pid: u32) -> f64 {
    let mut parents = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|it| it.parse().ok()) else {
            continue;
        };
        if let Some(parent) = field(&entry.path(), "PPid:") {
            parents.insert(pid, u32::try_from(parent).unwrap_or_default());
        }
    }
    let is_ours = |it: u32| {
        let ancestors = std::iter::successors(Some(it), |it| parents.get(it).copied());
        ancestors.take(16).any(|it| it == pid)
    };
    let ours = parents.keys().copied().filter(|it| is_ours(*it));
    let kibibytes = ours.filter_map(|it| field(&Path::new("/proc").join(it.to_string()), "VmRSS:"));
    let kibibytes: u64 = kibibytes.sum();
    f64::from(u32::try_from(kibibytes).unwrap_or(u32::MAX)) / 1024.0
}

/// A number of the status of a process.
fn field(process: &Path, name: &str) -> Option<u64> {
    let status = fs::read_to_string(process.join("status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}
