//! The metrics that the manager exposes, and handles that count into them.
//!
//! Names and labels of the `package_operator_*` families are those of Package Operator, so that dashboards and alerts
//! written for it keep working. Everything else is called `baton_*` or, for the process, as Prometheus has it.
//! Every label has a bounded set of values, except names of ObjectSets, whose series go with the object.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Metric, Registry};

use super::object_sets::{ObjectSetFigures, ObjectSetSeries};
use super::outcomes::{EventOutcome, ReconcileOutcome};
use super::process::ProcessCollector;
use super::requests::{CodeClass, Verb};

/// Package Operator's constant id of its one cache.
const CACHE_OWNER: &str = "123-456";

/// Bucket bounds in seconds: a pass without a write takes about a millisecond, one with a webhook up to 30 s.
const SECONDS: [f64; 14] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OwnerLabel {
    owner: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct KindLabels {
    owner: &'static str,
    gvk: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ControllerLabel {
    controller: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReconcileLabels {
    controller: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabels {
    verb: &'static str,
    code_class: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OutcomeLabel {
    outcome: &'static str,
}

/// Every metric of the process. A clone is a handle to the same counters.
#[derive(Clone, Debug)]
pub struct Metrics {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    registry: Registry,
    object_sets: ObjectSetSeries,
    cache_informers: Gauge,
    cache_objects: Family<KindLabels, Gauge>,
    reconciles: Family<ReconcileLabels, Counter>,
    reconcile_duration: Family<ControllerLabel, Histogram>,
    queue_depth: Family<ControllerLabel, Gauge>,
    queue_latency: Family<ControllerLabel, Histogram>,
    /// One counter per [`Verb`] and [`CodeClass`], looked up by discriminant on the way of every request.
    api_requests: [[Counter; CodeClass::ALL.len()]; Verb::ALL.len()],
    events: [Counter; EventOutcome::ALL.len()],
    leader: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// A fresh registry with every family in it.
    #[must_use]
    pub fn new() -> Self {
        let mut registry = Registry::default();
        let r = &mut registry;
        // The registry appends `_total` to counters only: the two gauges of the cache are called that upstream.
        let informers: Family<OwnerLabel, Gauge> = add(
            r,
            "package_operator_managed_cache_informers_total",
            "Kinds that are watched at the moment",
            Family::default(),
        );
        let requests: Family<RequestLabels, Counter> = add(
            r,
            "baton_api_requests",
            "Requests sent to API servers",
            Family::default(),
        );
        let events: Family<OutcomeLabel, Counter> = add(
            r,
            "baton_events",
            "Kubernetes Events by what became of them",
            Family::default(),
        );
        let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        r.register("baton_build", "Version of this process", version);
        r.register_collector(Box::new(ProcessCollector::new()));
        let inner = Inner {
            object_sets: ObjectSetSeries::register(r),
            cache_informers: informers.get_or_create_owned(&OwnerLabel { owner: CACHE_OWNER }),
            cache_objects: add(
                r,
                "package_operator_managed_cache_objects_total",
                "Objects in the cache per kind",
                Family::default(),
            ),
            reconciles: add(
                r,
                "baton_reconcile",
                "Reconciles by outcome",
                Family::default(),
            ),
            reconcile_duration: add(
                r,
                "baton_reconcile_duration_seconds",
                "Time one reconcile takes",
                Family::new_with_constructor(seconds),
            ),
            queue_depth: add(
                r,
                "baton_queue_depth",
                "Objects that wait for their reconcile",
                Family::default(),
            ),
            queue_latency: add(
                r,
                "baton_queue_latency_seconds",
                "Time objects wait for their reconcile",
                Family::new_with_constructor(seconds),
            ),
            api_requests: Verb::ALL.map(|verb| {
                CodeClass::ALL.map(|class| {
                    requests.get_or_create_owned(&RequestLabels {
                        verb: verb.as_str(),
                        code_class: class.as_str(),
                    })
                })
            }),
            events: EventOutcome::ALL.map(|outcome| {
                events.get_or_create_owned(&OutcomeLabel {
                    outcome: outcome.as_str(),
                })
            }),
            leader: add(
                r,
                "baton_leader",
                "1 while this process may write",
                Gauge::default(),
            ),
            registry,
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Everything in `OpenMetrics` text.
    ///
    /// # Errors
    ///
    /// Fails when a value cannot be written in that format, which none of ours can bring about.
    pub fn render(&self) -> Result<String, fmt::Error> {
        let mut text = String::with_capacity(16 * 1024);
        encode(&mut text, &self.inner.registry)?;
        Ok(text)
    }

    /// The series of the controller for one kind; `name` is the kind in lower case. Look it up once, not per pass.
    #[must_use]
    pub fn controller(&self, name: &'static str) -> ControllerMetrics {
        let label = ControllerLabel { controller: name };
        ControllerMetrics {
            reconciles: ReconcileOutcome::ALL.map(|outcome| {
                self.inner.reconciles.get_or_create_owned(&ReconcileLabels {
                    controller: name,
                    outcome: outcome.as_str(),
                })
            }),
            duration: self.inner.reconcile_duration.get_or_create_owned(&label),
            depth: self.inner.queue_depth.get_or_create_owned(&label),
            latency: self.inner.queue_latency.get_or_create_owned(&label),
        }
    }

    /// Reports an ObjectSet. Cheap when nothing changed since the last report of that set.
    pub fn report_object_set(&self, figures: &ObjectSetFigures) {
        self.inner.object_sets.report(figures);
    }

    /// Removes every series of an ObjectSet that is gone; `namespace` is empty for a ClusterObjectSet.
    pub fn forget_object_set(&self, namespace: &str, name: &str) {
        self.inner.object_sets.forget(namespace, name);
    }

    /// Reports how many kinds are watched.
    pub fn set_cache_informers(&self, count: usize) {
        self.inner.cache_informers.set(gauge_value(count));
    }

    /// Reports how many objects of a kind the cache holds. `gvk` as [`gvk_label`] writes it.
    pub fn set_cache_objects(&self, gvk: &str, count: usize) {
        let labels = KindLabels {
            owner: CACHE_OWNER,
            gvk: gvk.to_owned(),
        };
        self.inner
            .cache_objects
            .get_or_create(&labels)
            .set(gauge_value(count));
    }

    /// Removes the series of a kind that is not watched any more.
    pub fn forget_cache_objects(&self, gvk: &str) {
        self.inner.cache_objects.remove(&KindLabels {
            owner: CACHE_OWNER,
            gvk: gvk.to_owned(),
        });
    }

    /// Reports whether this process holds the lease.
    pub fn set_leader(&self, leads: bool) {
        self.inner.leader.set(i64::from(leads));
    }

    /// Counts one request.
    pub fn count_api_request(&self, verb: Verb, class: CodeClass) {
        self.api_counter(verb, class).inc();
    }

    /// Requests of `verb` so far, however they ended.
    #[must_use]
    pub fn api_requests(&self, verb: Verb) -> u64 {
        CodeClass::ALL
            .into_iter()
            .map(|class| self.api_requests_by_class(verb, class))
            .sum()
    }

    /// Requests of `verb` so far that ended in `class`.
    #[must_use]
    pub fn api_requests_by_class(&self, verb: Verb, class: CodeClass) -> u64 {
        self.api_counter(verb, class).get()
    }

    /// Requests so far that change what users stored, see [`Verb::is_write`].
    #[must_use]
    pub fn api_writes(&self) -> u64 {
        let writes = Verb::ALL.into_iter().filter(|verb| verb.is_write());
        writes.map(|verb| self.api_requests(verb)).sum()
    }

    fn api_counter(&self, verb: Verb, class: CodeClass) -> &Counter {
        &self.inner.api_requests[verb as usize][class as usize]
    }

    /// Counts what became of one Kubernetes Event.
    pub fn count_event(&self, outcome: EventOutcome) {
        self.inner.events[outcome as usize].inc();
    }

    /// Kubernetes Events with that outcome so far.
    #[must_use]
    pub fn events(&self, outcome: EventOutcome) -> u64 {
        self.inner.events[outcome as usize].get()
    }
}

/// The series of one controller.
#[derive(Clone, Debug)]
pub struct ControllerMetrics {
    reconciles: [Counter; ReconcileOutcome::ALL.len()],
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

    /// Reconciles with that outcome so far.
    #[must_use]
    pub fn reconciles(&self, outcome: ReconcileOutcome) -> u64 {
        self.reconciles[outcome as usize].get()
    }

    /// Reports how many objects wait.
    pub fn set_queue_depth(&self, depth: usize) {
        self.depth.set(gauge_value(depth));
    }

    /// Reports how long an object had waited when its reconcile began.
    pub fn waited(&self, duration: Duration) {
        self.latency.observe(duration.as_secs_f64());
    }
}

/// A kind as the label `gvk` has it: `apps/v1, Kind=Deployment`, and `/v1, Kind=ConfigMap` in the core group.
#[must_use]
pub fn gvk_label(group: &str, version: &str, kind: &str) -> String {
    format!("{group}/{version}, Kind={kind}")
}

/// Registers a metric and gives it back.
fn add<M: Metric + Clone>(registry: &mut Registry, name: &str, help: &str, metric: M) -> M {
    registry.register(name, help, metric.clone());
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

    /// The lines of a family, without comments and in order.
    fn series(metrics: &Metrics, prefix: &str) -> Vec<String> {
        let text = metrics.render().unwrap();
        let mut lines: Vec<String> = text
            .lines()
            .filter(|line| line.starts_with(prefix))
            .map(str::to_owned)
            .collect();
        lines.sort();
        lines
    }

    fn figures(name: &str) -> ObjectSetFigures {
        ObjectSetFigures {
            namespace: "shop".to_owned(),
            name: name.to_owned(),
            instance: String::new(),
            image: String::new(),
            created: 1_700_000_000,
            succeeded: None,
        }
    }

    #[test]
    fn object_set_series_have_upstreams_names_and_labels() {
        let metrics = Metrics::new();
        metrics.report_object_set(&ObjectSetFigures {
            instance: "i".to_owned(),
            image: "quay.io/a:b".to_owned(),
            succeeded: Some(1_700_000_009),
            ..figures("web-1")
        });
        assert_eq!(
            series(&metrics, "package_operator_object_set"),
            [
                r#"package_operator_object_set_created_timestamp_seconds{pko_name="web-1",pko_namespace="shop",pko_package_instance="i"} 1700000000"#,
                r#"package_operator_object_set_succeeded_timestamp_seconds{pko_name="web-1",pko_namespace="shop",pko_package_instance="i",image="quay.io/a:b"} 1700000009"#,
            ]
        );
        let text = metrics.render().unwrap();
        assert!(
            text.contains("# TYPE package_operator_object_set_created_timestamp_seconds gauge\n"),
            "{text}"
        );
    }

    #[test]
    fn a_set_that_is_archived_relabelled_or_gone_leaves_no_series_behind() {
        let metrics = Metrics::new();
        let succeeded = "package_operator_object_set_succeeded";
        metrics.report_object_set(&ObjectSetFigures {
            succeeded: Some(7),
            ..figures("web-1")
        });
        metrics.report_object_set(&ObjectSetFigures {
            succeeded: Some(8),
            ..figures("web-2")
        });
        assert_eq!(series(&metrics, succeeded).len(), 2);

        metrics.report_object_set(&ObjectSetFigures {
            image: "x".to_owned(),
            succeeded: Some(7),
            ..figures("web-1")
        });
        assert_eq!(series(&metrics, succeeded).len(), 2);
        metrics.report_object_set(&figures("web-1"));
        assert_eq!(series(&metrics, succeeded).len(), 1);

        metrics.forget_object_set("shop", "web-1");
        metrics.forget_object_set("shop", "web-2");
        metrics.forget_object_set("shop", "never-seen");
        assert_eq!(
            series(&metrics, "package_operator_object_set"),
            Vec::<String>::new()
        );
    }

    #[test]
    fn cache_gauges_keep_their_odd_names() {
        let metrics = Metrics::new();
        metrics.set_cache_informers(2);
        metrics.set_cache_objects(&gvk_label("apps", "v1", "Deployment"), 3);
        metrics.set_cache_objects(&gvk_label("", "v1", "ConfigMap"), 4);
        assert_eq!(
            series(&metrics, "package_operator_managed_cache"),
            [
                r#"package_operator_managed_cache_informers_total{owner="123-456"} 2"#,
                r#"package_operator_managed_cache_objects_total{owner="123-456",gvk="/v1, Kind=ConfigMap"} 4"#,
                r#"package_operator_managed_cache_objects_total{owner="123-456",gvk="apps/v1, Kind=Deployment"} 3"#,
            ]
        );
        let text = metrics.render().unwrap();
        assert!(
            text.contains("# TYPE package_operator_managed_cache_objects_total gauge\n"),
            "{text}"
        );

        metrics.forget_cache_objects("/v1, Kind=ConfigMap");
        assert_eq!(
            series(&metrics, "package_operator_managed_cache_objects").len(),
            1
        );
    }

    #[test]
    fn a_controller_counts_by_outcome() {
        let metrics = Metrics::new();
        let controller = metrics.controller("objectset");
        controller.reconciled(ReconcileOutcome::Changed, Duration::from_millis(3));
        controller.reconciled(ReconcileOutcome::Changed, Duration::from_mins(1));
        controller.set_queue_depth(5);
        controller.waited(Duration::ZERO);
        assert_eq!(controller.reconciles(ReconcileOutcome::Changed), 2);
        // A second look-up is another handle to the same series.
        assert_eq!(
            metrics
                .controller("objectset")
                .reconciles(ReconcileOutcome::Changed),
            2
        );

        assert_eq!(
            series(
                &metrics,
                r#"baton_reconcile_total{controller="objectset",outcome="changed""#
            ),
            [r#"baton_reconcile_total{controller="objectset",outcome="changed"} 2"#]
        );
        let durations = series(&metrics, "baton_reconcile_duration_seconds");
        assert!(durations.contains(
            &r#"baton_reconcile_duration_seconds_count{controller="objectset"} 2"#.to_owned()
        ));
        let within =
            r#"baton_reconcile_duration_seconds_bucket{le="0.005",controller="objectset"} 1"#
                .to_owned();
        assert!(durations.contains(&within), "{durations:#?}");
        assert_eq!(
            series(&metrics, "baton_queue_depth"),
            [r#"baton_queue_depth{controller="objectset"} 5"#]
        );
        assert!(!series(&metrics, "baton_queue_latency_seconds").is_empty());
    }

    #[test]
    fn only_writes_count_as_writes() {
        let metrics = Metrics::new();
        for verb in Verb::ALL {
            metrics.count_api_request(verb, CodeClass::Success);
        }
        metrics.count_api_request(Verb::Apply, CodeClass::Refused);
        assert_eq!(metrics.api_requests(Verb::Apply), 2);
        assert_eq!(metrics.api_writes(), 7);
        let applied = series(
            &metrics,
            r#"baton_api_requests_total{verb="apply",code_class="4xx""#,
        );
        assert_eq!(
            applied,
            [r#"baton_api_requests_total{verb="apply",code_class="4xx"} 1"#]
        );
    }

    #[test]
    fn the_process_describes_itself() {
        let metrics = Metrics::new();
        metrics.set_leader(true);
        assert_eq!(series(&metrics, "baton_leader"), ["baton_leader 1"]);
        assert_eq!(series(&metrics, "baton_build_info").len(), 1);
        for name in [
            "process_cpu_seconds_total",
            "process_resident_memory_bytes",
            "process_start_time_seconds",
        ] {
            assert_eq!(series(&metrics, name).len(), 1, "{name}");
        }
        assert!(metrics.render().unwrap().ends_with("# EOF\n"));
    }
}
