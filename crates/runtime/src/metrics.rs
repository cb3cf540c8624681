//! The metrics that the manager exposes, and handles that count into them.
//!
//! Names and labels of the `package_operator_*` families are those of Package Operator, so that
//! dashboards and alerts written for it keep working. Other families are named `baton_*` or, for
//! the process, as in Prometheus. Every label has a bounded set of values, except names of
//! ObjectSets, whose series are removed with the object.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Metric, Registry};

use crate::outcomes::ReconcileOutcome;
use crate::process::ProcessCollector;
use baton_apis::metrics::{self as list, MetricFamily};
use baton_kubernetes::{events::EventMetrics, request_metrics::RequestMetrics};

/// Bucket bounds in seconds: a pass without a write takes about a millisecond, one with a webhook up to 30 s.
const SECONDS: [f64; 14] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ControllerLabel {
    controller: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReconcileLabels {
    controller: &'static str,
    outcome: &'static str,
}

/// All metrics of the process. A clone is a handle to the same counters.
#[derive(Clone, Debug)]
pub struct Metrics {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    registry: Mutex<Registry>,
    reconciles: Family<ReconcileLabels, Counter>,
    reconcile_panics: Family<ControllerLabel, Counter>,
    reconcile_duration: Family<ControllerLabel, Histogram>,
    queue_depth: Family<ControllerLabel, Gauge>,
    queue_latency: Family<ControllerLabel, Histogram>,
    requests: RequestMetrics,
    events: EventMetrics,
    leader: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Creates a registry with all families.
    #[must_use]
    pub fn new() -> Self {
        let mut registry = Registry::default();
        let r = &mut registry;
        let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        r.register(list::BUILD.name, list::BUILD.help, version);
        r.register_collector(Box::new(ProcessCollector::new()));
        let inner = Inner {
            reconciles: add(r, list::RECONCILES, Family::default()),
            reconcile_panics: add(r, list::RECONCILE_PANICS, Family::default()),
            reconcile_duration: add(
                r,
                list::RECONCILE_DURATION,
                Family::new_with_constructor(seconds),
            ),
            queue_depth: add(r, list::QUEUE_DEPTH, Family::default()),
            queue_latency: add(
                r,
                list::QUEUE_LATENCY,
                Family::new_with_constructor(seconds),
            ),
            requests: RequestMetrics::register(r),
            events: EventMetrics::register(r),
            leader: add(r, list::LEADER, Gauge::default()),
            registry: Mutex::new(registry),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Renders all metrics as `OpenMetrics` text.
    ///
    /// # Errors
    ///
    /// If a value cannot be written in that format, which is impossible for the values of the
    /// manager.
    pub fn render(&self) -> Result<String, fmt::Error> {
        let mut text = String::with_capacity(16 * 1024);
        encode(&mut text, &self.inner.registry.lock())?;
        Ok(text)
    }

    /// The lines of [`Metrics::render`] that begin with a prefix, in order, for tests.
    ///
    /// # Panics
    /// If [`Metrics::render`] fails.
    #[must_use]
    #[allow(
        clippy::expect_used,
        reason = "none of our values can bring an error about"
    )]
    pub fn series(&self, prefix: &str) -> Vec<String> {
        let text = self.render().expect("every value can be written");
        let lines = text.lines().filter(|line| line.starts_with(prefix));
        let mut lines: Vec<String> = lines.map(str::to_owned).collect();
        lines.sort();
        lines
    }

    /// The series of the controller for one kind; `name` is the kind in lower case. Call it once,
    /// not per pass.
    pub fn controller(&self, name: &'static str) -> ControllerMetrics {
        let label = ControllerLabel { controller: name };
        ControllerMetrics {
            reconciles: ReconcileOutcome::ALL.map(|outcome| {
                self.inner.reconciles.get_or_create_owned(&ReconcileLabels {
                    controller: name,
                    outcome: outcome.as_str(),
                })
            }),
            panics: self.inner.reconcile_panics.get_or_create_owned(&label),
            duration: self.inner.reconcile_duration.get_or_create_owned(&label),
            depth: self.inner.queue_depth.get_or_create_owned(&label),
            latency: self.inner.queue_latency.get_or_create_owned(&label),
        }
    }

    /// Adds families; `register` returns handles to them.
    pub fn register<T>(&self, register: impl FnOnce(&mut Registry) -> T) -> T {
        register(&mut self.inner.registry.lock())
    }

    /// Sets the metric that reports if this process holds the lease.
    pub fn set_leader(&self, leads: bool) {
        self.inner.leader.set(i64::from(leads));
    }

    /// The counters of requests, for the clients of the process.
    pub fn requests(&self) -> &RequestMetrics {
        &self.inner.requests
    }

    /// The counters of Kubernetes Events, for their publisher.
    pub fn events(&self) -> &EventMetrics {
        &self.inner.events
    }
}

/// The series of one controller.
#[derive(Clone, Debug)]
pub struct ControllerMetrics {
    reconciles: [Counter; ReconcileOutcome::ALL.len()],
    panics: Counter,
    duration: Histogram,
    depth: Gauge,
    latency: Histogram,
}

impl ControllerMetrics {
    /// Counts a reconcile that took `duration`.
    pub fn reconciled(&self, outcome: ReconcileOutcome, duration: Duration) {
        self.reconciles[outcome as usize].inc();
        self.duration.observe(duration.as_secs_f64());
    }

    /// Counts a reconcile that panicked.
    pub fn panicked(&self) {
        self.panics.inc();
    }

    /// Number of reconciles with this outcome so far.
    pub fn reconciles(&self, outcome: ReconcileOutcome) -> u64 {
        self.reconciles[outcome as usize].get()
    }

    /// Sets the number of waiting objects.
    pub fn set_queue_depth(&self, depth: usize) {
        self.depth.set(gauge_value(depth));
    }

    /// Durations of reconciles, in seconds.
    pub fn duration(&self) -> &Histogram {
        &self.duration
    }

    /// Waiting times of objects until their reconcile began, in seconds.
    pub fn latency(&self) -> &Histogram {
        &self.latency
    }

    /// Observes the time that an object waited until its reconcile began.
    pub fn waited(&self, duration: Duration) {
        self.latency.observe(duration.as_secs_f64());
    }
}

/// Registers a metric and returns it.
fn add<M: Metric + Clone>(registry: &mut Registry, family: MetricFamily, metric: M) -> M {
    registry.register(family.name, family.help, metric.clone());
    metric
}

fn seconds() -> Histogram {
    Histogram::new(SECONDS)
}

fn gauge_value(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_counts_by_outcome() {
        let metrics = Metrics::new();
        let controller = metrics.controller("objectset");
        controller.reconciled(ReconcileOutcome::Changed, Duration::from_millis(3));
        controller.reconciled(ReconcileOutcome::Changed, Duration::from_mins(1));
        controller.set_queue_depth(5);
        controller.waited(Duration::ZERO);
        assert_eq!(controller.reconciles(ReconcileOutcome::Changed), 2);
        // A second call returns another handle to the same series.
        assert_eq!(
            metrics
                .controller("objectset")
                .reconciles(ReconcileOutcome::Changed),
            2
        );

        assert_eq!(
            metrics.series(r#"baton_reconcile_total{controller="objectset",outcome="changed""#),
            [r#"baton_reconcile_total{controller="objectset",outcome="changed"} 2"#]
        );
        let durations = metrics.series("baton_reconcile_duration_seconds");
        assert!(durations.contains(
            &r#"baton_reconcile_duration_seconds_count{controller="objectset"} 2"#.to_owned()
        ));
        let within =
            r#"baton_reconcile_duration_seconds_bucket{le="0.005",controller="objectset"} 1"#
                .to_owned();
        assert!(durations.contains(&within), "{durations:#?}");
        assert_eq!(
            metrics.series("baton_queue_depth"),
            [r#"baton_queue_depth{controller="objectset"} 5"#]
        );
        assert!(!metrics.series("baton_queue_latency_seconds").is_empty());
    }

    #[test]
    fn the_process_describes_itself() {
        let metrics = Metrics::new();
        metrics.set_leader(true);
        assert_eq!(metrics.series("baton_leader"), ["baton_leader 1"]);
        assert_eq!(metrics.series("baton_build_info").len(), 1);
        for name in [
            "process_cpu_seconds_total",
            "process_resident_memory_bytes",
            "process_start_time_seconds",
        ] {
            assert_eq!(metrics.series(name).len(), 1, "{name}");
        }
        assert!(metrics.render().unwrap().ends_with("# EOF\n"));
    }
}
