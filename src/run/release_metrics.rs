//! Metrics of releases under Shipper's names (section 9.3 of the contract).

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

/// Adds the families of releases to the metrics.
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

/// Seconds, none before their beginning.
fn elapsed(since: Timestamp, now: Timestamp) -> f64 {
    now.duration_since(since).as_secs_f64().max(0.0)
}
