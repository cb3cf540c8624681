//! Detects when the manager is calm, that is, has nothing left to do.

use std::time::Duration;

use baton_hack::metrics::Metrics;
use tokio::time::Instant;

use super::requests::Requests;

/// The time for which nothing may have happened.
const IDLE_TIME: Duration = Duration::from_secs(1);

/// Reads the manager's metrics until they stop changing: the manager leads, its queue is empty, and
/// for one second no reconcile has ended, no request about a revision or its objects was sent, and
/// no watch has begun.
#[derive(Debug)]
pub(crate) struct IdleDetector {
    /// Number of reconciles that have to come first. A manager that has just started is inactive
    /// before it begins.
    at_least: u64,
    last: Option<(u64, u64)>,
    since: Instant,
}

impl IdleDetector {
    /// Starts the detection at `now`.
    pub(crate) fn new(at_least: u64, now: Instant) -> Self {
        Self {
            at_least,
            last: None,
            since: now,
        }
    }

    /// Evaluates the metrics of `now`. Returns the beginning of the calm, once it has lasted long
    /// enough.
    pub(crate) fn evaluate(&mut self, metrics: &Metrics, now: Instant) -> Option<Instant> {
        let sent = Requests::of(metrics).map_or(0, |requests| {
            requests.about_objects() + requests.about_sets() + requests.by("watch")
        });
        let reconciles = metrics.count("baton_reconcile_total");
        let counts = Some((reconciles, sent));
        let busy = metrics.count("baton_leader") != 1
            || metrics.count("baton_queue_depth") > 0
            || reconciles < self.at_least
            || counts != self.last;
        self.last = counts;
        if busy {
            self.since = now;
        }
        (now.duration_since(self.since) >= IDLE_TIME).then_some(self.since)
    }

    /// The last metrics, for an error message.
    pub(crate) fn describe(&self) -> String {
        let (reconciles, requests) = self.last.unwrap_or_default();
        format!(
            "{reconciles} reconciles (at least {} expected), {requests} requests",
            self.at_least
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics(leads: u8, depth: u8, reconciles: u8, applied: u8) -> Metrics {
        Metrics::parse(&format!(
            "baton_leader {leads}\nbaton_queue_depth{{controller=\"o\"}} {depth}\n\
             baton_reconcile_total{{controller=\"o\",outcome=\"changed\"}} {reconciles}\n\
             baton_api_requests_total{{verb=\"apply\",code_class=\"2xx\"}} {applied}\n"
        ))
    }

    #[test]
    fn an_idle_period_starts_at_the_last_change() {
        let start = Instant::now();
        let at = |tenths: u64| start + Duration::from_millis(100 * tenths);
        let mut calm = IdleDetector::new(2, start);
        let looks = [
            (0, metrics(0, 0, 0, 0)),
            (20, metrics(0, 0, 0, 0)), // it does not lead yet
            (21, metrics(1, 3, 0, 0)), // and then has much to do
            (30, metrics(1, 3, 0, 0)),
            (31, metrics(1, 0, 1, 1)),
            (45, metrics(1, 0, 1, 1)), // too few reconciles
            (46, metrics(1, 0, 2, 1)),
            (50, metrics(1, 0, 2, 2)),
            (59, metrics(1, 0, 2, 2)),
        ];
        for (tenths, metrics) in looks {
            assert_eq!(calm.evaluate(&metrics, at(tenths)), None, "{tenths}");
        }
        assert_eq!(calm.evaluate(&metrics(1, 0, 2, 2), at(60)), Some(at(50)));
    }
}
