//! Reports repairs: one event for each pass with repairs, and counters.
//!
//! For clients they are described in `docs/contract/status.md` and `docs/contract/metrics.md`.

use std::{
    collections::{BTreeMap, HashSet},
    fmt::Write as _,
    sync::Arc,
};

use baton_apis::{
    constants::ANNOTATION_REPAIRS,
    metrics::{REPAIRED_FIELDS, REPAIRED_OBJECTS},
};
use baton_engine::diff::drift::{Drift, Drifted, to_annotation};
use baton_kubernetes::events::EventMessage;
use baton_records::key::{Key, OwnKind};
use baton_runtime::metrics::Metrics;
use parking_lot::Mutex;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
};

/// Maximum length of an annotation of an event: it bounds the data in etcd if several controllers
/// change the same fields of many objects repeatedly.
const MAX_ANNOTATION: usize = 8 * 1024;
/// The length in bytes from which the text of an event names no further objects.
const MAX_NAMES: usize = 900;
/// Number of label combinations with their own series; all others share one series per kind.
const MAX_SERIES: usize = 1000;
/// Label value for combinations without their own series, and for managers that are not in the
/// list.
const OTHER: &str = "other";
/// Label value if several managers had changed an object.
const SEVERAL: &str = "several";
/// Label value if no manager is known to have changed an object.
const UNKNOWN: &str = "unknown";
/// Prefix of the manager names of all kubectl commands.
const KUBECTL: &str = "kubectl";
/// Managers that are counted by name, besides kubectl.
const MANAGERS: [&str; 7] = [
    "argocd-controller",
    "helm",
    "helm-controller",
    "kube-controller-manager",
    "kustomize-controller",
    "pulumi-kubernetes",
    "Terraform",
];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Labels {
    baton_kind: &'static str,
    baton_namespace: String,
    repaired_kind: String,
    manager: &'static str,
}

/// Counts repairs. A clone counts into the same series.
#[derive(Clone, Debug, Default)]
pub(crate) struct Repairs {
    objects: Family<Labels, Counter>,
    fields: Family<Labels, Counter>,
    counted: Arc<Mutex<HashSet<Labels>>>,
}

impl Repairs {
    /// Registers the families.
    pub(crate) fn register(metrics: &Metrics) -> Self {
        let repairs = Self::default();
        metrics.register(|registry| {
            let (objects, fields) = (repairs.objects.clone(), repairs.fields.clone());
            registry.register(REPAIRED_OBJECTS.name, REPAIRED_OBJECTS.help, objects);
            registry.register(REPAIRED_FIELDS.name, REPAIRED_FIELDS.help, fields);
        });
        repairs
    }

    /// Counts objects that an owner has repaired.
    pub(crate) fn count<K: OwnKind>(&self, owner: &Key<K>, repaired: &[Drifted]) {
        for object in repaired {
            let labels = self.bounded(Labels {
                baton_kind: owner.kind.kind(),
                baton_namespace: owner.namespace.to_string(),
                repaired_kind: match object.group.as_str() {
                    "" => object.kind.clone(),
                    group => format!("{}.{group}", object.kind),
                },
                manager: manager(&object.drift),
            });
            self.objects.get_or_create(&labels).inc();
            let fields = u64::try_from(object.drift.count()).unwrap_or(u64::MAX);
            self.fields.get_or_create(&labels).inc_by(fields);
        }
    }

    /// Returns these labels, or the shared ones if there are too many series.
    fn bounded(&self, labels: Labels) -> Labels {
        let mut counted = self.counted.lock();
        if counted.contains(&labels) {
            return labels;
        }
        if counted.len() < MAX_SERIES {
            counted.insert(labels.clone());
            return labels;
        }
        Labels {
            baton_namespace: OTHER.to_owned(),
            repaired_kind: OTHER.to_owned(),
            manager: OTHER,
            ..labels
        }
    }
}

/// The manager that had changed an object, by one of few names: clients choose the name of their
/// manager freely.
fn manager(drift: &Drift) -> &'static str {
    let label = |name: &str| {
        if name.starts_with(KUBECTL) {
            return KUBECTL;
        }
        let listed = MANAGERS.into_iter().find(|listed| *listed == name);
        listed.unwrap_or(OTHER)
    };
    let managers = drift.managers();
    let mut names = managers.into_iter().map(label);
    match names.next() {
        None => UNKNOWN,
        Some(first) if names.all(|name| name == first) => first,
        Some(_) => SEVERAL,
    }
}

/// The key by which repaired objects are sorted.
fn name(object: &Drifted) -> [&str; 4] {
    [&object.kind, &object.namespace, &object.name, &object.group]
}

/// The text of an event. A pass may have repaired thousands of objects, so only the first ones are
/// named.
fn text(repaired: &[Drifted]) -> String {
    let count = repaired.len();
    let mut text = format!("Repaired {count} object(s) that differed: ");
    for (shown, object) in repaired.iter().enumerate() {
        let key = object.key();
        let name = if object.drift.is_empty() {
            key.to_string()
        } else {
            format!("{key} ({})", object.drift)
        };
        if shown > 0 && text.len() + name.len() > MAX_NAMES {
            // Writing into a string cannot fail.
            let _ = write!(text, ", and {} more", count - shown);
            break;
        }
        if shown > 0 {
            text.push_str(", ");
        }
        text.push_str(&name);
    }
    text
}

/// The event for repaired objects.
pub(crate) fn note(mut repaired: Vec<Drifted>) -> EventMessage {
    repaired.sort_by(|a, b| name(a).cmp(&name(b)));
    EventMessage {
        text: text(&repaired),
        annotations: BTreeMap::from([(
            ANNOTATION_REPAIRS.to_owned(),
            to_annotation(&repaired, MAX_ANNOTATION),
        )]),
    }
}

#[cfg(test)]
mod tests {
    use baton_engine::diff::drift::{Change, Field, from_annotation};
    use baton_records::revision::{RevisionKey, RevisionKind};

    use super::*;

    fn drift(fields: &[(&str, &[&str])]) -> Drift {
        let field = |(path, managers): &(&str, &[&str])| Field {
            path: (*path).to_owned(),
            change: if managers.is_empty() {
                Change::Removed
            } else {
                Change::Set
            },
            managers: managers.iter().map(ToString::to_string).collect(),
            is_surplus: false,
        };
        let fields = fields.iter().map(field).collect();
        Drift {
            fields,
            ..Drift::default()
        }
    }

    fn object(group: &str, kind: &str, name: &str, drift: Drift) -> Drifted {
        Drifted {
            group: group.to_owned(),
            kind: kind.to_owned(),
            namespace: "shop".to_owned(),
            name: name.to_owned(),
            drift,
        }
    }

    fn owner(namespace: &str) -> RevisionKey {
        RevisionKey {
            kind: RevisionKind::ObjectSet,
            namespace: namespace.into(),
            name: "web-1".into(),
        }
    }

    #[test]
    fn managers_are_counted_under_few_names() {
        for (managers, expected) in [
            (&[][..], "unknown"),
            (&["kubectl-edit"], "kubectl"),
            (&["kubectl"], "kubectl"),
            (&["kubectl-edit", "kubectl-client-side-apply"], "kubectl"),
            (&["helm"], "helm"),
            (&["Mozilla"], "other"),
            (&["a", "b"], "other"),
            (&["helm", "b"], "several"),
        ] {
            assert_eq!(
                manager(&drift(&[(".a", managers)])),
                expected,
                "{managers:?}"
            );
        }
    }

    #[test]
    fn objects_and_fields_are_counted() {
        let metrics = Metrics::new();
        let repairs = Repairs::register(&metrics);
        let edited = drift(&[
            (".spec.a", &["kubectl-edit"]),
            (".spec.b", &["kubectl-edit"]),
        ]);
        let web = object("apps", "Deployment", "web", edited);
        repairs.count(&owner("shop"), &[web.clone(), web]);
        let deleted = object("", "ConfigMap", "a", Drift::deleted());
        repairs.count(&owner("shop"), &[deleted]);
        let labels = concat!(
            r#"{baton_kind="ObjectSet",baton_namespace="shop","#,
            r#"repaired_kind="Deployment.apps",manager="kubectl"}"#
        );
        let map = r#"{baton_kind="ObjectSet",baton_namespace="shop",repaired_kind="ConfigMap",manager="unknown"}"#;
        assert_eq!(
            metrics.series("baton_repaired_"),
            [
                format!("baton_repaired_fields_total{map} 0"),
                format!("baton_repaired_fields_total{labels} 4"),
                format!("baton_repaired_objects_total{map} 1"),
                format!("baton_repaired_objects_total{labels} 2"),
            ]
        );
    }

    #[test]
    fn series_are_bounded_whatever_namespaces_come_and_go() {
        let metrics = Metrics::new();
        let repairs = Repairs::register(&metrics);
        let map = object("", "ConfigMap", "a", drift(&[(".data", &["x"])]));
        for n in 0..MAX_SERIES + 5 {
            repairs.count(&owner(&format!("ns-{n}")), std::slice::from_ref(&map));
        }
        repairs.count(&owner("ns-0"), std::slice::from_ref(&map));
        let series = metrics.series("baton_repaired_objects_total");
        assert_eq!(series.len(), MAX_SERIES + 1);
        let shared = r#"baton_namespace="other",repaired_kind="other",manager="other"} 5"#;
        assert!(
            series.iter().any(|line| line.ends_with(shared)),
            "{series:?}"
        );
        assert!(
            series
                .iter()
                .any(|line| line.contains("\"ns-0\"") && line.ends_with(" 2"))
        );
    }

    #[test]
    fn an_event_over_many_objects_names_the_first() {
        let one = |n: usize| {
            let edited = drift(&[(".data.k", &["kubectl-edit"])]);
            object("", "ConfigMap", &format!("m{n:04}"), edited)
        };
        let note = note((0..5_000).rev().map(one).collect());
        let begin = "Repaired 5000 object(s) that differed: ConfigMap shop/m0000 (.data.k by kubectl-edit), ";
        assert!(note.text.starts_with(begin), "{}", note.text);
        let named = note.text.matches("shop/m").count();
        let end = format!("), and {} more", 5_000 - named);
        assert!(note.text.ends_with(&end) && named > 10, "{}", note.text);
        assert!(note.text.len() < 1024);
        let reported = from_annotation(&note.annotations[ANNOTATION_REPAIRS]);
        assert!(reported.len() > 10 && reported[1].name == "m0001");
    }

    #[test]
    fn an_event_names_the_fields_and_the_managers_that_changed_them() {
        let objects = vec![
            object("", "Secret", "b", drift(&[(".data.pin", &[])])),
            object(
                "",
                "ConfigMap",
                "a",
                drift(&[(".data.k", &["kubectl-edit"])]),
            ),
            object("", "Service", "c", Drift::default()),
            object("", "Service", "d", Drift::deleted()),
        ];
        let note = note(objects.clone());
        assert_eq!(
            note.text,
            "Repaired 4 object(s) that differed: ConfigMap shop/a (.data.k by kubectl-edit), Secret shop/b (.data.pin \
             removed), Service shop/c, Service shop/d (deleted)"
        );
        let reported = from_annotation(&note.annotations[ANNOTATION_REPAIRS]);
        assert_eq!(reported, [1, 0, 2, 3].map(|n: usize| objects[n].clone()));
    }
}
