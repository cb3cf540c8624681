//! Metrics of releases under Shipper's names; `docs/contract/releases.md` lists them.

mod installations;
mod objects;
mod queues;
mod requests;
#[cfg(test)]
mod tests;

use baton_charts::Charts;
use baton_runtime::metrics::Metrics;
use jiff::Timestamp;

use crate::controllers::releases::Context;
use objects::Objects;
pub(crate) use queues::Queues;
pub(crate) use requests::Calls;

/// Adds the metric families of releases.
pub(crate) fn register(
    metrics: &Metrics,
    context: &Context,
    (calls, charts): (&Calls, &Charts),
    queues: Queues,
) {
    metrics.register(|registry| {
        installations::register(registry, &context.stores, &context.shared.clock);
        calls.register(registry);
        charts.register_metrics(registry);
        queues.register(registry);
        registry.register_collector(Box::new(Objects::of(context)));
    });
}

/// Seconds since a time; 0 if the time is in the future.
fn elapsed(since: Timestamp, now: Timestamp) -> f64 {
    now.duration_since(since).as_secs_f64().max(0.0)
}
