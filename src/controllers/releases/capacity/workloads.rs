//! The workloads of a Release in a cluster, with their pods.

use std::sync::Arc;

use baton_apis::{
    CapacityTarget, ClusterCapacityTarget,
    constants::shipper::{LABEL_APP, LABEL_RELEASE},
};
use baton_engine::Gvk;
use baton_releases::{
    capacity::{
        ReleaseWorkload,
        choice::{ANNOTATION_WORKLOADS, Candidate, choose, kinds},
        workload::{Scaling, Workload},
    },
    chart::workloads::{ANNOTATION_REPLICAS, ANNOTATION_SCALING},
    targets::reasons::{Cause, Failure},
    texts::Quoted,
};
use baton_typed::store::Store;
use futures::future::try_join_all;
use k8s_openapi::api::{autoscaling::v1::Scale, core::v1::Pod};

use crate::controllers::releases::app_clusters::{
    cluster::AppCluster,
    objects::{Scaled, label},
    requests::{RequestError, is_built_in},
};

/// The wanted capacity of a target in a cluster.
pub(crate) struct WantedCapacity {
    namespace: String,
    application: String,
    release: String,
    kinds: Vec<Gvk>,
    total: i32,
}

impl WantedCapacity {
    /// The capacity of a Release, given by namespace, application and name, from the annotation with
    /// the kinds of its workloads and the number of its pods.
    ///
    /// # Errors
    /// If the annotation is invalid.
    pub(crate) fn new(
        (namespace, application, release): (&str, &str, &str),
        annotation: Option<&str>,
        total: i32,
    ) -> Result<Self, Failure> {
        let kinds = kinds(annotation);
        Ok(Self {
            application: application.to_owned(),
            release: release.to_owned(),
            kinds: kinds.map_err(|error| Failure::new(Cause::Refused, error))?,
            total,
            namespace: namespace.to_owned(),
        })
    }

    /// Reads the target.
    ///
    /// # Errors
    /// If the target does not name its Release, or the annotation with the kinds of its workloads
    /// is invalid.
    pub(super) fn of(
        target: &CapacityTarget,
        cluster: &ClusterCapacityTarget,
    ) -> Result<Self, Failure> {
        let meta = &target.metadata;
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        let name = meta.name.as_deref().unwrap_or_default();
        let required = |key| {
            let value = label(meta, key);
            if value.is_empty() {
                let message = format!(
                    "CapacityTarget {} needs a {} label in order to select resources in the target clusters",
                    Quoted(&format!("{namespace}/{name}")),
                    Quoted(key)
                );
                return Err(Failure::new(Cause::Refused, message));
            }
            Ok(value)
        };
        let release = (namespace, required(LABEL_APP)?, required(LABEL_RELEASE)?);
        let annotations = meta.annotations.as_ref();
        let annotation = annotations.and_then(|all| all.get(ANNOTATION_WORKLOADS));
        Self::new(
            release,
            annotation.map(String::as_str),
            cluster.total_replica_count,
        )
    }

    /// The label selector of the workloads.
    fn selector(&self) -> String {
        format!(
            "{LABEL_APP}={},{LABEL_RELEASE}={}",
            self.application, self.release
        )
    }
}

/// A workload with its pods.
pub(super) struct FoundWorkload {
    kind: Gvk,
    object: Arc<Scaled>,
    store: Arc<Store<Scaled>>,
    /// The scale subresource; `None` for a built-in kind.
    scale: Option<Scale>,
    workload: Workload,
    total: i32,
    others: i32,
    pods: Vec<Pod>,
}

/// Finds the workloads of a Release.
///
/// # Errors
/// If the workloads differ from those in the chart, or an object cannot be read.
pub(super) async fn find(
    cluster: &AppCluster,
    wanted: &WantedCapacity,
) -> Result<Vec<FoundWorkload>, Failure> {
    let mut kinds = wanted.kinds.clone();
    kinds.sort();
    kinds.dedup();
    let stores = kinds.into_iter().map(|kind| async move {
        let store = cluster.workloads(&kind).await?;
        Ok((kind, store))
    });
    let stores = try_join_all(stores).await?;
    let pods = cluster.pods().await?;
    let mut objects = Vec::new();
    let mut others = Vec::new();
    for (kind, store) in &stores {
        for object in store.labelled(&wanted.namespace, LABEL_APP, &wanted.application) {
            if label(&object.metadata, LABEL_RELEASE) == wanted.release {
                objects.push((kind, store, object));
            } else {
                others.push((kind, object));
            }
        }
    }
    let others = &others;
    let candidates: Vec<_> = objects
        .iter()
        .map(|(kind, _, object)| Candidate {
            kind,
            name: object.metadata.name.as_deref().unwrap_or_default(),
            scaling: object.annotation(ANNOTATION_SCALING),
            replicas: object.annotation(ANNOTATION_REPLICAS),
        })
        .collect();
    let chosen = choose(&wanted.kinds, &candidates, wanted.total, &wanted.selector());
    let chosen = chosen.map_err(|error| Failure::new(Cause::Missing, error))?;
    let mut pods = pods.labelled(&wanted.namespace, LABEL_APP, &wanted.application);
    pods.retain(|pod| label(&pod.metadata, LABEL_RELEASE) == wanted.release);
    let pods = &pods;
    let found = chosen.into_iter().map(|chosen| {
        let (kind, store, object) = &objects[chosen.index];
        // A chart decides itself by its annotation.
        let is_decided = object.annotation(ANNOTATION_SCALING).is_some();
        let scaling = if object.is_autoscaled && !is_decided {
            Scaling::Autoscaler
        } else {
            chosen.scaling
        };
        async move {
            let mut found = FoundWorkload {
                kind: (*kind).clone(),
                object: Arc::clone(object),
                store: Arc::clone(store),
                scale: None,
                workload: object.workload(scaling),
                total: chosen.total,
                others: most_pods(object, others.iter().filter(|(of, _)| of == kind)),
                pods: object.pods_of(pods),
            };
            if !is_built_in(kind) {
                found.read_scale(cluster, pods, scaling).await?;
            }
            Ok(found)
        }
    });
    try_join_all(found).await
}

impl FoundWorkload {
    /// The input of the capacity decision. `scaled_to` is the percentage up to which the workload
    /// was scaled before an autoscaler took over.
    pub(super) fn part(&self, scaled_to: i32) -> ReleaseWorkload<'_> {
        ReleaseWorkload {
            workload: &self.workload,
            total: self.total,
            others: self.others,
            scaled_to,
            pods: &self.pods,
        }
    }

    /// Kind and name, for messages.
    pub(super) fn title(&self) -> String {
        format!("{} {}", self.kind.kind, Quoted(&self.workload.name))
    }

    /// Scales the workload if it is unchanged.
    pub(super) async fn scale(
        &self,
        cluster: &AppCluster,
        replicas: i32,
    ) -> Result<(), RequestError> {
        if let Some(scale) = &self.scale {
            let at = (&*self.object, scale);
            return cluster
                .write_scale(&self.kind, at, replicas)
                .await
                .map(drop);
        }
        let written = cluster.scale(&self.kind, &self.object, replicas).await?;
        self.store.written(written);
        Ok(())
    }

    /// Reads the scale of a workload whose kind is not built in. Only the subresource and the pods
    /// show the number of its pods and their state.
    async fn read_scale(
        &mut self,
        cluster: &AppCluster,
        pods: &[Arc<Pod>],
        scaling: Scaling,
    ) -> Result<(), Failure> {
        let scale = cluster.read_scale(&self.kind, &self.object).await;
        let scale = scale.map_err(|error| {
            Failure::new(
                Cause::Read,
                format!("cannot read the scale of {}: {error}", self.title()),
            )
        })?;
        let status = scale.status.as_ref();
        let selector = status.and_then(|status| status.selector.as_deref());
        self.pods = selected(selector.unwrap_or_default(), pods);
        let available = self.pods.iter().filter(|pod| is_available(pod)).count();
        self.workload = Workload {
            name: self.workload.name.clone(),
            // A missing number means 0.
            replicas: Some(
                scale
                    .spec
                    .as_ref()
                    .and_then(|spec| spec.replicas)
                    .unwrap_or(0),
            ),
            available: i32::try_from(available).unwrap_or(i32::MAX),
            scaling,
            ..Workload::default()
        };
        self.scale = Some(scale);
        Ok(())
    }
}

/// The greatest number of pods that the same workload of another Release is scaled to. The names of
/// both differ only in the name of the Release.
fn most_pods<'a>(object: &Scaled, others: impl Iterator<Item = &'a (&'a Gvk, Arc<Scaled>)>) -> i32 {
    let own_name = name_in_chart(object);
    let same = others.filter(|(_, other)| name_in_chart(other) == own_name);
    let replicas = same.filter_map(|(_, other)| other.workload(Scaling::default()).replicas);
    replicas.max().unwrap_or(0)
}

/// The name of a workload without that of its Release.
fn name_in_chart(object: &Scaled) -> String {
    let name = object.metadata.name.as_deref().unwrap_or_default();
    name.replace(label(&object.metadata, LABEL_RELEASE), "")
}

/// The pods that match a selector in text form. If the selector has rules other than equality, all
/// pods of the Release.
fn selected(selector: &str, pods: &[Arc<Pod>]) -> Vec<Pod> {
    let equal = selector.split(',').map(|rule| {
        let (key, value) = rule.split_once('=')?;
        let is_plain = !key.ends_with('!') && !key.contains(char::is_whitespace);
        is_plain.then(|| (key.trim(), value.trim_start_matches('=').trim()))
    });
    let equal: Option<Vec<_>> = equal.collect();
    let matches = |pod: &&Arc<Pod>| {
        let mut rules = equal.iter().flatten();
        rules.all(|(key, value)| label(&pod.metadata, key) == *value)
    };
    pods.iter()
        .filter(matches)
        .map(|pod| Pod::clone(pod))
        .collect()
}

/// True if a pod is ready and not being deleted.
fn is_available(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    pod.metadata.deletion_timestamp.is_none()
        && conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    fn pod(name: &str, role: &str) -> Arc<Pod> {
        let pod = json!({"metadata": {"name": name, "labels": {"app": "web", "role": role}}});
        Arc::new(from_value(pod).unwrap())
    }

    #[test]
    fn a_selector_as_text_selects_by_equality() {
        let pods = [pod("a", "front"), pod("b", "back")];
        for (selector, expected) in [
            ("app=web,role=front", &["a"][..]),
            ("role==back", &["b"]),
            ("app=other", &[]),
            ("role in (front)", &["a", "b"]),
            ("role!=front", &["a", "b"]),
            ("", &["a", "b"]),
        ] {
            let found = selected(selector, &pods);
            let names: Vec<_> = found
                .iter()
                .map(|pod| pod.metadata.name.as_deref().unwrap())
                .collect();
            assert_eq!(names, expected, "{selector}");
        }
    }

    #[test]
    fn a_target_without_the_label_of_its_release_is_refused() {
        let target: CapacityTarget = from_value(json!({
            "metadata": {"name": "web-1", "namespace": "shop", "labels": {"shipper-app": "web"}},
            "spec": {"clusters": []},
        }))
        .unwrap();
        let failure = WantedCapacity::of(&target, &ClusterCapacityTarget::default())
            .err()
            .unwrap();
        assert_eq!(
            failure.message,
            "CapacityTarget \"shop/web-1\" needs a \"shipper-release\" label in order to select resources in the \
             target clusters"
        );
    }
}
