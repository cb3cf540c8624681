//! The fields that are read of objects in clusters. All other fields are dropped before an object
//! is stored.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use baton_apis::constants::shipper::{ANNOTATION_POD_DELETION_COST, LABEL_APP, LABEL_RELEASE};
use baton_engine::Gvk;
use baton_releases::{
    capacity::workload::{Scaling, Workload},
    chart::workloads::{ANNOTATION_REPLICAS, ANNOTATION_SCALING},
};
use baton_typed::store::Change;
use k8s_openapi::{
    api::{
        core::v1::{ContainerStatus, Pod, PodStatus, Service, ServiceSpec},
        discovery::v1::EndpointSlice,
    },
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use kube::{
    Resource,
    api::ObjectMeta,
    core::{NamespaceResourceScope, Selector, SelectorExt as _},
};
use serde::Deserialize;
use serde_json::{
    Map, Value, json,
    value::{RawValue, to_raw_value},
};

use super::{ChangedObject, ClusterChange};

/// Label of `EndpointSlices`: name of the Service.
pub(crate) const LABEL_SERVICE: &str = "kubernetes.io/service-name";

/// Deployments, the most frequent kind of workload in charts. Every cluster has this kind.
pub(crate) fn deployments() -> Gvk {
    Gvk::new("apps/v1", "Deployment")
}

/// A workload of any kind that can be scaled.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Scaled {
    pub metadata: ObjectMeta,
    /// The kept fields, as text: the maps of a parsed value need five times the memory.
    spec: Box<RawValue>,
    status: Box<RawValue>,
    /// True if an autoscaler of Kubernetes was the last to scale the workload.
    #[serde(skip)]
    pub is_autoscaled: bool,
}

/// Stores use only the metadata. The actual kind depends on the list that the object is from.
impl Resource for Scaled {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Workload".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "workloads".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl Scaled {
    /// Drops the fields that are not needed to scale the workload or to count its pods.
    pub(crate) fn trim(&mut self) {
        self.is_autoscaled = is_autoscaled(&self.metadata);
        trim_meta(
            &mut self.metadata,
            &[ANNOTATION_SCALING, ANNOTATION_REPLICAS],
        );
        self.spec = kept(&self.spec, &["replicas", "selector"]);
        self.status = kept(
            &self.status,
            &["availableReplicas", "observedGeneration", "conditions"],
        );
    }

    /// The value of an annotation, if the workload has it.
    pub(crate) fn annotation(&self, key: &str) -> Option<&str> {
        let annotations = self.metadata.annotations.as_ref()?;
        annotations.get(key).map(String::as_str)
    }

    /// The part of the workload that its capacity is decided on.
    pub(crate) fn workload(&self, scaling: Scaling) -> Workload {
        let metadata = json!({
            "name": self.metadata.name,
            "generation": self.metadata.generation,
        });
        // Both values are small: a few numbers and conditions.
        let (spec, status) = (parsed(&self.spec), parsed(&self.status));
        let object = json!({"metadata": metadata, "spec": spec, "status": status});
        Workload::of(&object, scaling)
    }

    /// True if all wanted pods are available.
    fn is_full(&self) -> bool {
        let workload = self.workload(Scaling::default());
        workload.is_observed() && workload.replicas == Some(workload.available)
    }

    /// The pods that the workload selects, among the pods of its Release.
    pub(crate) fn pods_of(&self, pods: &[Arc<Pod>]) -> Vec<Pod> {
        let spec = parsed(&self.spec);
        let selector = &spec["selector"];
        // The selector of a ReplicationController contains the labels directly.
        let is_nested = ["matchLabels", "matchExpressions"]
            .iter()
            .any(|key| selector.get(key).is_some());
        let selector = if is_nested {
            LabelSelector::deserialize(selector)
                .ok()
                .and_then(|selector| Selector::try_from(selector).ok())
        } else {
            let labels = BTreeMap::<String, String>::deserialize(selector).ok();
            labels.map(|labels| labels.into_iter().collect())
        };
        // The server refuses a workload that selects everything, so an empty selector is treated as
        // missing.
        let selector = selector.filter(|selector: &Selector| !selector.selects_all());
        let selected = pods.iter().filter(|pod| {
            let labels = pod.metadata.labels.as_ref();
            selector
                .as_ref()
                .zip(labels)
                .is_some_and(|(selector, labels)| selector.matches(labels))
        });
        selected.map(|pod| Pod::clone(pod)).collect()
    }
}

/// Drops all fields of a pod but its labels, its deletion cost and its status. Empty annotations
/// show that the pod has others.
pub(crate) fn trim_pod(pod: &mut Pod) {
    let is_annotated = pod.metadata.annotations.is_some();
    trim_meta(&mut pod.metadata, &[ANNOTATION_POD_DELETION_COST]);
    if is_annotated {
        pod.metadata.annotations.get_or_insert_default();
    }
    pod.spec = None;
    let Some(PodStatus {
        conditions,
        container_statuses,
        init_container_statuses,
        ..
    }) = pod.status.take()
    else {
        return;
    };
    let mut kept = PodStatus {
        conditions,
        container_statuses,
        init_container_statuses,
        ..PodStatus::default()
    };
    // The containers of a pod with a false condition are stored in full, for the report.
    let conditions = kept.conditions.iter().flatten();
    if !conditions
        .clone()
        .any(|condition| condition.status == "False")
    {
        let containers = kept
            .container_statuses
            .iter_mut()
            .chain(&mut kept.init_container_statuses);
        for container in containers.flatten() {
            trim_container(container);
        }
    }
    pod.status = Some(kept);
}

fn trim_container(container: &mut ContainerStatus) {
    let ContainerStatus {
        name,
        ready,
        restart_count,
        state,
        last_state,
        ..
    } = std::mem::take(container);
    *container = ContainerStatus {
        name,
        ready,
        restart_count,
        state,
        last_state,
        ..ContainerStatus::default()
    };
}

/// Drops all fields of a Service but its selector.
pub(crate) fn trim_service(service: &mut Service) {
    trim_meta(&mut service.metadata, &[]);
    service.status = None;
    service.spec = service.spec.take().map(|spec| ServiceSpec {
        selector: spec.selector,
        ..ServiceSpec::default()
    });
}

/// Drops all fields of an `EndpointSlice` but the pods and their readiness.
pub(crate) fn trim_slice(slice: &mut EndpointSlice) {
    trim_meta(&mut slice.metadata, &[]);
    slice.ports = None;
    for endpoint in slice.endpoints.iter_mut().flatten() {
        endpoint.addresses = Vec::new();
        endpoint.hints = None;
        endpoint.hostname = None;
        endpoint.node_name = None;
        endpoint.zone = None;
        endpoint.deprecated_topology = None;
        if let Some(target) = &mut endpoint.target_ref {
            target.uid = None;
            target.namespace = None;
        }
        if let Some(conditions) = &mut endpoint.conditions {
            conditions.serving = None;
        }
    }
}

/// True if the controller of autoscalers owns the number of pods. No other controller of Kubernetes
/// writes through the scale subresource.
fn is_autoscaled(meta: &ObjectMeta) -> bool {
    let mut entries = meta.managed_fields.iter().flatten();
    entries.any(|entry| {
        entry.manager.as_deref() == Some("kube-controller-manager")
            && entry.subresource.as_deref() == Some("scale")
    })
}

fn trim_meta(meta: &mut ObjectMeta, annotations: &[&str]) {
    let kept = meta.annotations.take().map(|mut all| {
        all.retain(|key, _| annotations.contains(&key.as_str()));
        all
    });
    *meta = ObjectMeta {
        name: meta.name.take(),
        namespace: meta.namespace.take(),
        uid: meta.uid.take(),
        resource_version: meta.resource_version.take(),
        generation: meta.generation,
        deletion_timestamp: meta.deletion_timestamp.take(),
        labels: meta.labels.take(),
        annotations: kept.filter(|kept| !kept.is_empty()),
        ..ObjectMeta::default()
    };
}

/// The object with these keys of another only.
fn kept(object: &RawValue, keys: &[&str]) -> Box<RawValue> {
    let all = parsed(object).as_object_mut().map(std::mem::take);
    let all = all.into_iter().flatten();
    let kept: Map<_, _> = all
        .filter(|(key, _)| keys.contains(&key.as_str()))
        .collect();
    to_raw_value(&kept).unwrap_or_default()
}

fn parsed(value: &RawValue) -> Value {
    // The text was parsed before.
    serde_json::from_str(value.get()).unwrap_or_default()
}

/// The value of a label; empty if there is none.
pub(crate) fn label<'a>(meta: &'a ObjectMeta, key: &str) -> &'a str {
    let labels = meta.labels.as_ref();
    labels
        .and_then(|labels| labels.get(key))
        .map_or("", String::as_str)
}

/// The changes for the application and Release that an object belongs to, and for those that it
/// belonged to before.
fn affected_releases<K: Resource>(
    change: &Change<K>,
    changed: impl Fn(String) -> ChangedObject,
) -> Vec<ClusterChange> {
    let concerned = |object: &K| {
        let meta = object.meta();
        let text = |key| label(meta, key).to_owned();
        ClusterChange {
            namespace: meta.namespace.clone().unwrap_or_default(),
            application: text(LABEL_APP),
            object: changed(text(LABEL_RELEASE)),
        }
    };
    let sides = [&change.old, &change.new].into_iter().flatten();
    let mut concerned: Vec<_> = sides.map(|object| concerned(object)).collect();
    concerned.dedup();
    concerned
}

/// The changes for a changed workload.
pub(crate) fn on_workload(change: &Change<Scaled>) -> Vec<ClusterChange> {
    let [was_full, is_full] =
        [&change.old, &change.new].map(|it| it.as_ref().is_some_and(|it| it.is_full()));
    let is_full = is_full && !was_full;
    affected_releases(change, |release| ChangedObject::Workload {
        release,
        is_full,
    })
}

/// The changes for a changed pod.
pub(crate) fn on_pod(change: &Change<Pod>) -> Vec<ClusterChange> {
    let (mut is_relabelled, mut is_other_state) = (true, true);
    if let (Some(old), Some(new)) = (&change.old, &change.new) {
        let is_other = old.metadata.uid != new.metadata.uid;
        is_relabelled = is_other || old.metadata.labels != new.metadata.labels;
        is_other_state = is_other || old.status != new.status;
    }
    if !is_relabelled && !is_other_state {
        return Vec::new();
    }
    affected_releases(change, |release| ChangedObject::Pod {
        release,
        is_relabelled,
        is_other_state,
    })
}

/// The changes for a changed Service.
pub(crate) fn on_service(change: &Change<Service>) -> Vec<ClusterChange> {
    if let (Some(old), Some(new)) = (&change.old, &change.new)
        && (&old.spec, &old.metadata.labels) == (&new.spec, &new.metadata.labels)
    {
        return Vec::new();
    }
    affected_releases(change, |_| ChangedObject::Balancer)
}

/// The changes for changed endpoints of a Service.
pub(crate) fn on_slice(change: &Change<EndpointSlice>) -> Vec<ClusterChange> {
    if let (Some(old), Some(new)) = (&change.old, &change.new)
        && (&old.endpoints, &old.metadata.labels) == (&new.endpoints, &new.metadata.labels)
    {
        return Vec::new();
    }
    affected_releases(change, |_| ChangedObject::Balancer)
}

#[cfg(test)]
mod tests {
    use serde_json::from_value;

    use super::*;

    fn pod(name: &str, labels: &Value, ready: &str) -> Pod {
        from_value(json!({
            "metadata": {
                "name": name, "namespace": "shop", "uid": name, "labels": labels, "annotations": {"a": "b"},
                "ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": "x"}],
            },
            "spec": {"containers": []},
            "status": {
                "podIP": "10.0.0.1",
                "conditions": [{"type": "Ready", "status": ready}],
                "containerStatuses": [{
                    "name": "app", "ready": true, "restartCount": 1, "image": "i", "imageID": "id",
                    "state": {"running": {}},
                }],
            },
        }))
        .unwrap()
    }

    fn release(name: &str) -> Value {
        json!({"shipper-app": "web", "shipper-release": name})
    }

    #[test]
    fn a_pod_is_cached_without_unused_fields() {
        let mut ready = pod("a", &release("web-1"), "True");
        trim_pod(&mut ready);
        let labels = BTreeMap::from([("shipper-app", "web"), ("shipper-release", "web-1")]);
        assert_eq!(
            json!(ready),
            json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": "a", "namespace": "shop", "uid": "a", "labels": labels, "annotations": {}},
                "status": {
                    "conditions": [{"type": "Ready", "status": "True"}],
                    "containerStatuses": [{
                        "name": "app", "ready": true, "restartCount": 1, "image": "", "imageID": "",
                        "state": {"running": {}},
                    }],
                },
            })
        );
        let mut sad = pod("a", &release("web-1"), "False");
        trim_pod(&mut sad);
        let containers = sad.status.unwrap().container_statuses.unwrap();
        assert_eq!(
            (&*containers[0].image, &*containers[0].image_id),
            ("i", "id")
        );
    }

    #[test]
    fn a_workload_selects_pods_by_its_own_rules() {
        let pods = [("a", "front"), ("b", "back")]
            .map(|(name, role)| Arc::new(pod(name, &json!({"role": role}), "True")));
        for (selector, expected) in [
            (json!({"matchLabels": {"role": "front"}}), &["a"][..]),
            (
                json!({"matchExpressions": [{"key": "role", "operator": "In", "values": ["back"]}]}),
                &["b"],
            ),
            (json!({"role": "back"}), &["b"]),
            (json!({}), &[]),
            (json!({"matchLabels": {}}), &[]),
            (json!("role=front"), &[]),
            (Value::Null, &[]),
        ] {
            let mut workload: Scaled = from_value(json!({
                "metadata": {"name": "w"},
                "spec": {"selector": selector, "replicas": 2, "template": {}},
                "status": {"availableReplicas": 1, "readyReplicas": 1},
            }))
            .unwrap();
            workload.trim();
            let found = workload.pods_of(&pods);
            let names: Vec<_> = found
                .iter()
                .map(|pod| pod.metadata.name.as_deref().unwrap())
                .collect();
            assert_eq!(names, expected, "{selector}");
            assert!(!workload.spec.get().contains("template"));
            let observed = workload.workload(Scaling::Steps);
            assert_eq!((observed.replicas, observed.available), (Some(2), 1));
        }
    }

    #[test]
    fn the_last_client_that_scaled_a_workload_shows_an_autoscaler() {
        for (manager, subresource, expected) in [
            ("kube-controller-manager", json!("scale"), true),
            ("kube-controller-manager", json!("status"), false),
            ("kubectl", json!("scale"), false),
            ("baton-releases", Value::Null, false),
        ] {
            let entry = json!({"manager": manager, "subresource": subresource});
            let workload = json!({"metadata": {"name": "w", "managedFields": [entry]}});
            let mut workload: Scaled = from_value(workload).unwrap();
            workload.trim();
            assert_eq!(workload.is_autoscaled, expected, "{manager}");
            assert_eq!(workload.metadata.managed_fields, None);
        }
    }

    #[test]
    fn a_change_of_a_pod_names_the_releases_that_it_affects() {
        let change = |old: Option<&Pod>, new: Option<&Pod>| {
            let side = |pod: Option<&Pod>| pod.cloned().map(Arc::new);
            let change = Change {
                old: side(old),
                new: side(new),
            };
            let all = on_pod(&change).into_iter().map(|change| {
                let ChangedObject::Pod {
                    release,
                    is_relabelled,
                    is_other_state,
                } = change.object
                else {
                    unreachable!("it is a pod");
                };
                (release, is_relabelled, is_other_state)
            });
            all.collect::<Vec<_>>()
        };
        let concerned = |release: &str, labels, state| (release.to_owned(), labels, state);
        let one = pod("a", &release("web-1"), "True");
        let sad = pod("a", &release("web-1"), "False");
        let mut enabled = one.clone();
        let labels = enabled.metadata.labels.as_mut().unwrap();
        labels.insert("shipper-traffic-status".to_owned(), "enabled".to_owned());
        let other = pod("a", &release("web-2"), "True");
        let mut again = one.clone();
        again.metadata.uid = Some("again".to_owned());
        for (old, new, expected) in [
            (None, Some(&one), vec![concerned("web-1", true, true)]),
            (Some(&one), None, vec![concerned("web-1", true, true)]),
            (Some(&one), Some(&one), vec![]),
            (
                Some(&one),
                Some(&sad),
                vec![concerned("web-1", false, true)],
            ),
            (
                Some(&one),
                Some(&enabled),
                vec![concerned("web-1", true, false)],
            ),
            (
                Some(&one),
                Some(&again),
                vec![concerned("web-1", true, true)],
            ),
            (
                Some(&one),
                Some(&other),
                vec![
                    concerned("web-1", true, false),
                    concerned("web-2", true, false),
                ],
            ),
        ] {
            assert_eq!(change(old, new), expected);
        }
    }

    #[test]
    fn a_workload_is_full_only_when_its_last_pod_becomes_available() {
        let workload = |replicas: i32, generation: i64, available: i32| -> Option<Arc<Scaled>> {
            let workload = from_value(json!({
                "metadata": {"name": "web", "namespace": "shop", "generation": 2},
                "spec": {"replicas": replicas},
                "status": {"observedGeneration": generation, "availableReplicas": available},
            }));
            Some(Arc::new(workload.unwrap()))
        };
        let mut before = None;
        for (now, expected) in [
            (workload(4, 1, 4), false),
            (workload(4, 2, 3), false),
            (workload(4, 2, 4), true),
            (workload(4, 2, 4), false),
            (workload(2, 2, 4), false),
            (workload(2, 2, 2), true),
            (None, false),
        ] {
            let (old, new) = (before.clone(), now.clone());
            let changes = on_workload(&Change { old, new });
            let [change] = &changes[..] else {
                panic!("{changes:?}");
            };
            let ChangedObject::Workload { is_full, .. } = &change.object else {
                panic!("{change:?}");
            };
            assert_eq!(*is_full, expected, "{before:?} -> {now:?}");
            before = now;
        }
    }
}
