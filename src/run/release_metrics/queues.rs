//! The work queues of the controllers of releases.

use std::{fmt, sync::Arc};

use baton_apis::metrics::{
    QUEUE_LONGEST_WORK, QUEUE_UNFINISHED_WORK, QUEUE_WORK_ADDS, QUEUE_WORK_DEPTH,
    QUEUE_WORK_DURATION, QUEUE_WORK_LATENCY, QUEUE_WORK_RETRIES,
};
use baton_runtime::{
    controller::Controller,
    exposition::encode_named,
    metrics::Metrics,
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
    name: String,
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
            name: name.to_owned(),
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
            for (family, histogram) in [
                (QUEUE_WORK_LATENCY, &queue.latency),
                (QUEUE_WORK_DURATION, &queue.duration),
            ] {
                let name = family.of_queue(&queue.name);
                registry.register(name, family.help, histogram.clone());
            }
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
            for (family, count) in [
                (QUEUE_WORK_DEPTH, work.depth),
                (QUEUE_WORK_ADDS, work.adds),
                (QUEUE_WORK_RETRIES, work.retries),
            ] {
                let (name, count) = (family.of_queue(&queue.name), count.try_into());
                let gauge = ConstGauge::new(count.unwrap_or(i64::MAX));
                encode_named(&mut encoder, &name, &family, &gauge)?;
            }
            for (family, time) in [
                (QUEUE_UNFINISHED_WORK, work.unfinished),
                (QUEUE_LONGEST_WORK, work.longest),
            ] {
                let (name, gauge) = (family.of_queue(&queue.name), time.as_secs_f64());
                encode_named(&mut encoder, &name, &family, &ConstGauge::new(gauge))?;
            }
        }
        Ok(())
    }
}
