//! The work queues of the controllers of releases.

use std::{fmt, sync::Arc};

use baton_runtime::{
    controller::Controller,
    metrics::{Metrics, encode_family},
    queue::{Queue, Work},
};
use prometheus_client::{
    collector::Collector,
    encoding::DescriptorEncoder,
    metrics::{gauge::ConstGauge, histogram::Histogram},
    registry::Registry,
};

/// The queues of a process, under Shipper's names.
pub(crate) struct Queues {
    metrics: Metrics,
    named: Vec<NamedQueue>,
}

struct NamedQueue {
    prefix: String,
    latency: Histogram,
    duration: Histogram,
    work: Box<dyn Fn() -> Work + Send + Sync>,
}

impl Queues {
    /// Starts without queues; the controllers of added ones count into `metrics`.
    pub(crate) fn new(metrics: &Metrics) -> Self {
        Self {
            metrics: metrics.clone(),
            named: Vec::new(),
        }
    }

    /// Adds a queue for a controller, with the name that Shipper gives it.
    pub(crate) fn named<C: Controller>(&mut self, name: &str) -> Arc<Queue<C::Key>> {
        let queue = Arc::<Queue<C::Key>>::default();
        let counted = Arc::downgrade(&queue);
        let controller = self.metrics.controller(C::NAME);
        self.named.push(NamedQueue {
            prefix: format!("shipper_{name}_workqueue"),
            latency: controller.latency().clone(),
            duration: controller.duration().clone(),
            work: Box::new(move || {
                let queue = counted.upgrade();
                queue.map(|queue| queue.work()).unwrap_or_default()
            }),
        });
        queue
    }

    /// Registers the metrics of the queues.
    pub(super) fn register(self, registry: &mut Registry) {
        for queue in &self.named {
            let prefix = &queue.prefix;
            registry.register(
                format!("{prefix}_latency_seconds"),
                "Time objects wait for their reconcile",
                queue.latency.clone(),
            );
            registry.register(
                format!("{prefix}_duration_seconds"),
                "Time one reconcile takes",
                queue.duration.clone(),
            );
        }
        registry.register_collector(Box::new(self));
    }
}

impl fmt::Debug for Queues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Queues")
    }
}

impl Collector for Queues {
    /// Encodes counters as gauges: the format would append a suffix to the names of counters, which
    /// have to equal Shipper's.
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        for queue in &self.named {
            let work = (queue.work)();
            let prefix = &queue.prefix;
            for (name, help, count) in [
                ("depth", "Objects that wait for their reconcile", work.depth),
                ("adds", "Times that objects were queued", work.adds),
                (
                    "retries",
                    "Failed reconciles that were queued again",
                    work.retries,
                ),
            ] {
                let count = i64::try_from(count).unwrap_or(i64::MAX);
                encode_family(
                    &mut encoder,
                    &format!("{prefix}_{name}"),
                    help,
                    &ConstGauge::new(count),
                )?;
            }
            for (name, help, time) in [
                (
                    "unfinished_work_seconds",
                    "Time that reconciles under way have taken, added up",
                    work.unfinished,
                ),
                (
                    "longest_running_processor_seconds",
                    "Time that the longest reconcile under way has taken",
                    work.longest,
                ),
            ] {
                encode_family(
                    &mut encoder,
                    &format!("{prefix}_{name}"),
                    help,
                    &ConstGauge::new(time.as_secs_f64()),
                )?;
            }
        }
        Ok(())
    }
}
