//! The metric series of single ObjectSets. They appear and disappear with the objects.
//!
//! For clients they are described in `docs/contract/metrics.md`.

use std::collections::HashMap;

use baton_apis::metrics::{OBJECT_SET_CREATED, OBJECT_SET_SUCCEEDED};
use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

// The prefix is part of the names that Package Operator exposes.
#[allow(clippy::struct_field_names)]
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct SetLabels {
    pko_name: String,
    pko_namespace: String,
    pko_package_instance: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct SucceededLabels {
    pko_name: String,
    pko_namespace: String,
    pko_package_instance: String,
    image: String,
}

/// The metrics of one ObjectSet or ClusterObjectSet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObjectSetFigures {
    /// Namespace of the object, empty for a ClusterObjectSet.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// The label `package-operator.run/instance`, or empty.
    pub instance: String,
    /// The annotation `package-operator.run/package-source-image`, or empty.
    pub image: String,
    /// Creation time, in seconds since the epoch.
    pub created: i64,
    /// Time of the transition to `Succeeded`, in seconds since the epoch; `None` if there was none,
    /// or the set is archived.
    pub succeeded: Option<i64>,
}

impl ObjectSetFigures {
    fn labels(&self) -> SetLabels {
        SetLabels {
            pko_name: self.name.clone(),
            pko_namespace: self.namespace.clone(),
            pko_package_instance: self.instance.clone(),
        }
    }

    fn succeeded_labels(&self) -> SucceededLabels {
        SucceededLabels {
            pko_name: self.name.clone(),
            pko_namespace: self.namespace.clone(),
            pko_package_instance: self.instance.clone(),
            image: self.image.clone(),
        }
    }
}

/// Namespace and name.
type Key = (Box<str>, Box<str>);

/// The last reported values of an ObjectSet, without namespace and name.
#[derive(Debug, PartialEq, Eq)]
struct Reported {
    instance: Box<str>,
    image: Box<str>,
    created: i64,
    succeeded: Option<i64>,
}

/// The two metric families, and the last reported values by namespace and name.
///
/// The labels of a set may change; its old series is removed then.
#[derive(Debug, Default)]
pub(crate) struct ObjectSetSeries {
    reported: Mutex<HashMap<Key, Reported>>,
    created: Family<SetLabels, Gauge>,
    succeeded: Family<SucceededLabels, Gauge>,
}

impl ObjectSetSeries {
    /// Registers the families under Package Operator's names.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let series = Self::default();
        let (created, succeeded) = (series.created.clone(), series.succeeded.clone());
        registry.register(OBJECT_SET_CREATED.name, OBJECT_SET_CREATED.help, created);
        registry.register(
            OBJECT_SET_SUCCEEDED.name,
            OBJECT_SET_SUCCEEDED.help,
            succeeded,
        );
        series
    }

    /// Updates the series of one ObjectSet and removes its series with older labels.
    pub(crate) fn report(&self, figures: &ObjectSetFigures) {
        let key = (
            figures.namespace.as_str().into(),
            figures.name.as_str().into(),
        );
        let now = Reported {
            instance: figures.instance.as_str().into(),
            image: figures.image.as_str().into(),
            created: figures.created,
            succeeded: figures.succeeded,
        };
        let mut reported = self.reported.lock();
        match reported.get(&key) {
            Some(last) if *last == now => return,
            Some(last) => self.remove(&key, last),
            None => {}
        }
        self.created
            .get_or_create(&figures.labels())
            .set(figures.created);
        if let Some(succeeded) = figures.succeeded {
            let series = self.succeeded.get_or_create(&figures.succeeded_labels());
            series.set(succeeded);
        }
        reported.insert(key, now);
    }

    /// Removes the series of one ObjectSet.
    pub(crate) fn forget(&self, namespace: &str, name: &str) {
        let key = (namespace.into(), name.into());
        let mut reported = self.reported.lock();
        if let Some(last) = reported.remove(&key) {
            self.remove(&key, &last);
        }
    }

    fn remove(&self, (namespace, name): &Key, last: &Reported) {
        let figures = ObjectSetFigures {
            namespace: namespace.to_string(),
            name: name.to_string(),
            instance: last.instance.to_string(),
            image: last.image.to_string(),
            created: last.created,
            succeeded: last.succeeded,
        };
        self.created.remove(&figures.labels());
        self.succeeded.remove(&figures.succeeded_labels());
    }
}

#[cfg(test)]
mod tests {
    use baton_runtime::metrics::Metrics;

    use super::*;

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
        let sets = metrics.register(ObjectSetSeries::register);
        sets.report(&ObjectSetFigures {
            instance: "i".to_owned(),
            image: "quay.io/a:b".to_owned(),
            succeeded: Some(1_700_000_009),
            ..figures("web-1")
        });
        assert_eq!(
            metrics.series("package_operator_object_set"),
            [
                concat!(
                    "package_operator_object_set_created_timestamp_seconds{",
                    r#"pko_name="web-1",pko_namespace="shop",pko_package_instance="i"} 1700000000"#
                ),
                concat!(
                    "package_operator_object_set_succeeded_timestamp_seconds{",
                    r#"pko_name="web-1",pko_namespace="shop",pko_package_instance="i","#,
                    r#"image="quay.io/a:b"} 1700000009"#
                ),
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
        let sets = metrics.register(ObjectSetSeries::register);
        let succeeded = "package_operator_object_set_succeeded";
        sets.report(&ObjectSetFigures {
            succeeded: Some(7),
            ..figures("web-1")
        });
        sets.report(&ObjectSetFigures {
            succeeded: Some(8),
            ..figures("web-2")
        });
        assert_eq!(metrics.series(succeeded).len(), 2);

        sets.report(&ObjectSetFigures {
            image: "x".to_owned(),
            succeeded: Some(7),
            ..figures("web-1")
        });
        assert_eq!(metrics.series(succeeded).len(), 2);
        sets.report(&figures("web-1"));
        assert_eq!(metrics.series(succeeded).len(), 1);

        sets.forget("shop", "web-1");
        sets.forget("shop", "web-2");
        sets.forget("shop", "never-seen");
        assert_eq!(
            metrics.series("package_operator_object_set"),
            Vec::<String>::new()
        );
    }
}
