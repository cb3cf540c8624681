//! CPU time, memory and start time of this process, read from `/proc` at each scrape.
//!
//! On systems without `/proc` (macOS) these series are absent, and all others are present.

use std::fmt;

use baton_apis::metrics::{PROCESS_CPU, PROCESS_MEMORY, PROCESS_MEMORY_MAX, PROCESS_START};
use jiff::Timestamp;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::exposition::encode_family;

/// The unit of times in `/proc/PID/stat`. The kernel scales the times in user space to 100 Hz on
/// every architecture that Rust supports, for any tick of its own.
const TICKS_PER_SECOND: f64 = 100.0;

/// Reads the figures of the process at each scrape.
#[derive(Debug)]
pub(super) struct ProcessCollector {
    started: Timestamp,
}

impl ProcessCollector {
    /// A collector for a process that starts now.
    pub(super) fn new() -> Self {
        Self {
            started: Timestamp::now(),
        }
    }
}

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let started = ConstGauge::new(self.started.as_second());
        encode_family(&mut encoder, &PROCESS_START, &started)?;
        if let Some(seconds) = read("/proc/self/stat").as_deref().and_then(cpu_seconds) {
            encode_family(&mut encoder, &PROCESS_CPU, &ConstCounter::new(seconds))?;
        }
        let status = read("/proc/self/status").unwrap_or_default();
        for (field, family) in [("VmRSS", PROCESS_MEMORY), ("VmHWM", PROCESS_MEMORY_MAX)] {
            if let Some(bytes) = memory_bytes(&status, field) {
                encode_family(&mut encoder, &family, &ConstGauge::new(bytes))?;
            }
        }
        Ok(())
    }
}

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// User plus system time from the content of `/proc/PID/stat`.
fn cpu_seconds(stat: &str) -> Option<f64> {
    // The second field is the command in parentheses, which may contain spaces and parentheses
    // itself.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_ascii_whitespace().skip(11);
    let user: u32 = times.next()?.parse().ok()?;
    let system: u32 = times.next()?.parse().ok()?;
    Some((f64::from(user) + f64::from(system)) / TICKS_PER_SECOND)
}

/// One `Vm...` line from the content of `/proc/PID/status`, in bytes.
fn memory_bytes(status: &str, field: &str) -> Option<i64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    let kibibytes: i64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_found_behind_any_command_name() {
        let tail = " S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0";
        for command in ["(baton)", "(a b) c)", "(()"] {
            let stat = format!("42 {command}{tail}");
            assert_eq!(cpu_seconds(&stat), Some(3.0), "{stat}");
        }
        assert_eq!(cpu_seconds(""), None);
        assert_eq!(cpu_seconds("42 (baton) S 1 2"), None);
    }

    #[test]
    fn memory_is_read_by_field() {
        let status = "Name:\tbaton\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n";
        assert_eq!(memory_bytes(status, "VmRSS"), Some(1 << 20));
        assert_eq!(memory_bytes(status, "VmHWM"), Some(2 << 20));
        assert_eq!(memory_bytes(status, "VmSwap"), None);
    }

    #[test]
    fn this_process_has_figures() {
        let stat = read("/proc/self/stat").unwrap();
        assert!(cpu_seconds(&stat).is_some(), "{stat}");
        let status = read("/proc/self/status").unwrap();
        assert!(memory_bytes(&status, "VmRSS").unwrap() > 0);
    }
}
