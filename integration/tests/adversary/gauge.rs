//! The memory of a process and its descendants: the proportional set size, which counts a page that
//! several processes share, such as the code of helm, once.

use std::collections::BTreeMap;
use std::fs;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Time between two readings.
const INTERVAL: Duration = Duration::from_millis(20);

/// The variable with the memory limit in MiB, set by `cargo dev adversary`.
const LIMIT: &str = "ADVERSARY_LIMIT_MIB";

/// The variable with the file that has the enforced limit, set by `cargo dev adversary`.
const ENFORCED: &str = "ADVERSARY_LIMIT_FILE";

/// Memory in MiB.
#[derive(Clone, Copy, Default)]
pub(crate) struct Reading {
    /// Of the process with its descendants.
    pub all: f64,
    /// Of the process itself.
    pub own: f64,
}

/// The memory of a process with its descendants, read until the test ends.
pub(crate) struct Gauge {
    pid: u32,
    peak: Arc<Mutex<Reading>>,
}

impl Gauge {
    pub(crate) fn start(pid: u32) -> Self {
        let peak = Arc::<Mutex<Reading>>::default();
        let shared = Arc::clone(&peak);
        std::thread::spawn(move || {
            loop {
                let now = read(pid);
                let mut peak = shared.lock().unwrap();
                if now.all > peak.all {
                    *peak = now;
                }
                drop(peak);
                std::thread::sleep(INTERVAL);
            }
        });
        Self { pid, peak }
    }

    /// The present memory.
    pub(crate) fn now(&self) -> Reading {
        read(self.pid)
    }

    pub(crate) fn reset(&self) {
        *self.peak.lock().unwrap() = Reading::default();
    }

    /// The peak since the last reset.
    pub(crate) fn peak(&self) -> Reading {
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

fn read(pid: u32) -> Reading {
    let mut parents = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|it| it.parse().ok()) else {
            continue;
        };
        if let Some(parent) = field(pid, "status", "PPid:") {
            parents.insert(pid, u32::try_from(parent).unwrap_or_default());
        }
    }
    let is_ours = |it: u32| {
        let ancestors = std::iter::successors(Some(it), |it| parents.get(it).copied());
        ancestors.take(16).any(|it| it == pid)
    };
    let mebibytes = |pid| {
        let kibibytes = field(pid, "smaps_rollup", "Pss:").unwrap_or_default();
        f64::from(u32::try_from(kibibytes).unwrap_or(u32::MAX)) / 1024.0
    };
    let ours = parents.keys().copied().filter(|it| is_ours(*it));
    let own = mebibytes(pid);
    let others = ours.filter(|it| *it != pid).map(mebibytes);
    Reading {
        all: own + others.sum::<f64>(),
        own,
    }
}

/// A number in a file of a process.
fn field(pid: u32, file: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/{file}")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}
