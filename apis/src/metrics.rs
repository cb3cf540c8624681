//! The metric families that the manager, the agents and the dashboard expose, as a closed list.
//!
//! Families are registered and encoded with the name and the help text of this list, and
//! `docs/reference/metrics.md` is generated from it. The source of the `package_operator_*` and
//! `shipper_*` names is `docs/contract/metrics.md` and `docs/contract/releases.md`.

/// The type of a metric family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MetricType {
    /// A count that only grows until the process restarts.
    Counter,
    /// A value at the time of the scrape.
    Gauge,
    /// Counts of observed values in buckets, with their sum.
    Histogram,
    /// A constant 1; the labels are the information.
    Info,
}

impl MetricType {
    /// The name of the type in the exposition formats.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Info => "info",
        }
    }
}

/// A family of metrics: series with one name and the same labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MetricFamily {
    /// The name without the suffix of its type. It may contain [`MetricFamily::QUEUE`].
    pub name: &'static str,
    /// The type.
    pub metric_type: MetricType,
    /// The names of the labels, sorted. A histogram has `le` as well.
    pub labels: &'static [&'static str],
    /// The meaning of a value, without a period at the end.
    pub help: &'static str,
}

impl MetricFamily {
    /// Stands in a name for the name of a work queue.
    pub const QUEUE: &'static str = "<queue>";

    /// The name of the family for a work queue.
    #[must_use]
    pub fn of_queue(&self, queue: &str) -> String {
        self.name.replace(Self::QUEUE, queue)
    }

    /// True if a family with this name, without a suffix, is of this entry.
    #[must_use]
    pub fn has_name(&self, name: &str) -> bool {
        match self.name.split_once(Self::QUEUE) {
            None => name == self.name,
            Some((prefix, suffix)) => name
                .strip_prefix(prefix)
                .and_then(|rest| rest.strip_suffix(suffix))
                .is_some_and(|queue| !queue.is_empty()),
        }
    }

    /// The names of its series, as they are used in queries.
    #[must_use]
    pub fn series(&self) -> Vec<String> {
        let suffixes: &[&str] = match self.metric_type {
            MetricType::Counter => &["_total"],
            MetricType::Gauge => &[""],
            MetricType::Histogram => &["_bucket", "_sum", "_count"],
            MetricType::Info => &["_info"],
        };
        let suffixes = suffixes.iter();
        suffixes
            .map(|suffix| format!("{}{suffix}", self.name))
            .collect()
    }
}

/// Declares a constant for each family, and the list of all.
macro_rules! families {
    ($($constant:ident = $metric_type:ident $name:literal [$($label:literal),*] $help:literal;)*) => {
        $(
            #[doc = concat!("The family `", $name, "`.")]
            pub const $constant: MetricFamily = MetricFamily {
                name: $name,
                metric_type: MetricType::$metric_type,
                labels: &[$($label),*],
                help: $help,
            };
        )*

        /// All families, in the order of the reference page.
        pub const FAMILIES: &[MetricFamily] = &[$($constant),*];
    };
}

families! {
    BUILD = Info "baton_build" ["version"] "Version of the process";
    LEADER = Gauge "baton_leader" [] "1 while the process may write, otherwise 0";
    RECONCILES = Counter "baton_reconcile" ["controller", "outcome"] "Reconciles by outcome";
    RECONCILE_PANICS = Counter "baton_reconcile_panics" ["controller"]
        "Reconciles that ended in a panic, which is a bug";
    RECONCILE_DURATION = Histogram "baton_reconcile_duration_seconds" ["controller"]
        "Time that a reconcile takes";
    QUEUE_DEPTH = Gauge "baton_queue_depth" ["controller"] "Objects that wait for their reconcile";
    QUEUE_LATENCY = Histogram "baton_queue_latency_seconds" ["controller"]
        "Time that objects wait for their reconcile";
    API_REQUESTS = Counter "baton_api_requests" ["code_class", "verb"] "Requests sent to API servers";
    EVENTS = Counter "baton_events" ["outcome"] "Kubernetes Events by outcome of their publication";
    REPAIRED_OBJECTS = Counter "baton_repaired_objects"
        ["baton_kind", "baton_namespace", "manager", "repaired_kind"]
        "Repairs of objects that another manager changed";
    REPAIRED_FIELDS = Counter "baton_repaired_fields"
        ["baton_kind", "baton_namespace", "manager", "repaired_kind"]
        "Fields that were repaired, once per repair";
    DEPLOYMENT_CONDITION = Gauge "baton_deployment_condition"
        ["baton_kind", "baton_name", "baton_namespace", "condition", "reason", "status"]
        "1 for the present status and reason of each condition of a deployment";
    DEPLOYMENT_REVISION = Gauge "baton_deployment_revision" ["baton_kind", "baton_name", "baton_namespace"]
        "Number of the current revision of a deployment";
    REVISIONS = Gauge "baton_revisions" ["baton_kind", "baton_namespace", "state"]
        "Revisions by state";
    DISPUTED = Gauge "baton_disputed_revisions" ["baton_kind", "baton_namespace"]
        "Revisions with objects that another manager changes as often as they are repaired";
    DASHBOARD_PAGES = Gauge "baton_dashboard_pages" []
        "Pages that viewers of the dashboard have open";
    DASHBOARD_FEEDS = Gauge "baton_dashboard_feeds" []
        "Questions that the dashboard follows by watches, for one or several open pages each";
    SITES = Gauge "baton_site_deployment_sites" ["baton_name", "baton_namespace", "state"]
        "Sites of a SiteDeployment by state";
    CLUSTER_CONNECTED = Gauge "baton_cluster_connected" ["baton_cluster"]
        "1 while the manager, or an agent, is connected to a cluster, otherwise 0";

    OBJECT_SET_CREATED = Gauge "package_operator_object_set_created_timestamp_seconds"
        ["pko_name", "pko_namespace", "pko_package_instance"]
        "Creation time of a revision, in seconds since 1970";
    OBJECT_SET_SUCCEEDED = Gauge "package_operator_object_set_succeeded_timestamp_seconds"
        ["image", "pko_name", "pko_namespace", "pko_package_instance"]
        "Time when a revision succeeded for the first time, in seconds since 1970";
    CACHE_INFORMERS = Gauge "package_operator_managed_cache_informers_total" ["owner"]
        "Kinds of child objects that are watched";
    CACHE_OBJECTS = Gauge "package_operator_managed_cache_objects_total" ["gvk", "owner"]
        "Child objects in the cache by kind";

    QUEUE_WORK_DEPTH = Gauge "shipper_<queue>_workqueue_depth" []
        "Objects that wait for their reconcile";
    QUEUE_WORK_ADDS = Gauge "shipper_<queue>_workqueue_adds" [] "Times that objects were queued";
    QUEUE_WORK_RETRIES = Gauge "shipper_<queue>_workqueue_retries" []
        "Failed reconciles that were queued again";
    QUEUE_WORK_LATENCY = Histogram "shipper_<queue>_workqueue_latency_seconds" []
        "Time that objects wait for their reconcile";
    QUEUE_WORK_DURATION = Histogram "shipper_<queue>_workqueue_duration_seconds" []
        "Time that a reconcile takes";
    QUEUE_UNFINISHED_WORK = Gauge "shipper_<queue>_workqueue_unfinished_work_seconds" []
        "Total time that the running reconciles have taken";
    QUEUE_LONGEST_WORK = Gauge "shipper_<queue>_workqueue_longest_running_processor_seconds" []
        "Time that the longest running reconcile has taken";
    REST_REQUESTS = Counter "shipper_rest_client_requests" ["code", "host", "method"]
        "Requests for kinds of Shipper";
    REST_LATENCY = Histogram "shipper_rest_client_latency_seconds" ["gvr", "host", "verb", "watch"]
        "Response time of requests for kinds of Shipper";
    CHART_REQUESTS = Counter "shipper_instrumented_client_requests" ["code", "method"]
        "Requests for charts and their indexes";
    CHART_LATENCY = Histogram "shipper_instrumented_client_latency_seconds" ["code", "method"]
        "Response time of requests for charts and their indexes";
    APPLICATIONS = Gauge "shipper_objects_applications" ["namespace"] "Applications by namespace";
    RELEASES = Gauge "shipper_objects_releases"
        ["cond_reason", "cond_status", "cond_type", "namespace", "shipper_app"]
        "Releases by condition";
    RELEASES_PER_CLUSTER = Gauge "shipper_objects_releases_per_cluster" ["cluster"]
        "Releases by cluster";
    RELEASE_DURATIONS = Histogram "shipper_objects_release_durations" ["cond_type"]
        "Time that conditions of the strategy of incomplete Releases have been false, in seconds";
    INSTALLATION_TARGETS = Gauge "shipper_objects_installationtargets" ["namespace"]
        "InstallationTargets by namespace";
    CAPACITY_TARGETS = Gauge "shipper_objects_capacitytargets" ["namespace"]
        "CapacityTargets by namespace";
    TRAFFIC_TARGETS = Gauge "shipper_objects_traffictargets" ["namespace"]
        "TrafficTargets by namespace";
    ROLLOUT_BLOCKS = Gauge "shipper_objects_rolloutblocks" ["namespace"]
        "RolloutBlocks by namespace";
    CLUSTERS = Gauge "shipper_objects_clusters" ["has_secret", "name", "schedulable"]
        "Clusters, each with the value 1";
    TIME_TO_INSTALLATION = Histogram "shipper_metrics_controller_time_to_installation" []
        "Seconds from the creation or last edit of an Application until its newest Release is installed";

    PROCESS_START = Gauge "process_start_time_seconds" []
        "Start time of the process, in seconds since 1970";
    PROCESS_CPU = Counter "process_cpu_seconds" [] "User and system CPU time of the process";
    PROCESS_MEMORY = Gauge "process_resident_memory_bytes" [] "Resident memory of the process";
    PROCESS_MEMORY_MAX = Gauge "process_resident_memory_max_bytes" []
        "Highest resident memory of the process so far";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_labels_sorted() {
        for (number, family) in FAMILIES.iter().enumerate() {
            let others = &FAMILIES[number + 1..];
            assert!(others.iter().all(|it| it.name != family.name), "{family:?}");
            assert!(family.labels.is_sorted(), "{family:?}");
            assert!(!family.help.ends_with('.'), "{family:?}");
        }
    }

    #[test]
    fn a_family_of_queues_has_the_names_of_all_queues() {
        let name = QUEUE_WORK_DEPTH.of_queue("releases");
        assert_eq!(name, "shipper_releases_workqueue_depth");
        assert!(QUEUE_WORK_DEPTH.has_name(&name));
        assert!(!QUEUE_WORK_ADDS.has_name(&name));
        assert!(!QUEUE_WORK_DEPTH.has_name("shipper__workqueue_depth"));
        assert_eq!(BUILD.series(), ["baton_build_info"]);
    }
}
