//! The workloads of a chart.

use std::collections::BTreeMap;

use baton_apis::Chart;
use serde_json::{Value, json};

use super::{
    Error, autoscaler,
    object::{Object, merge},
};
use crate::capacity::workload::Scaling;

/// Annotation on objects of a chart: the object is a workload, and its number of pods is set by
/// `steps` or by an `autoscaler`.
///
/// If any object has the annotation, the objects with it are the workloads of the chart.
pub const ANNOTATION_SCALING: &str = "baton.run/scaling";

/// Annotation on the workloads of a chart with several workloads: the number of pods that the chart
/// requests. No other field in the cluster has this number, because workloads start without pods.
pub const ANNOTATION_REPLICAS: &str = "baton.run/replicas";

/// Kinds with a scale subresource that are not built in, by group and kind, with the dotted path of
/// the number of pods.
pub type Scalable = BTreeMap<(String, String), String>;

/// Path of the number of pods in built-in kinds.
const REPLICAS: &str = ".spec.replicas";

/// A workload of a chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// API version of the workload.
    pub api_version: String,
    /// Kind of the workload.
    pub kind: String,
    /// Name of the workload.
    pub name: String,
    /// Number of pods that the chart requests.
    pub replicas: i32,
    /// Dotted path of that number.
    pub path: String,
    /// The part of the system that sets that number in the cluster.
    pub scaling: Scaling,
    /// Index of the workload in the objects.
    pub(super) index: usize,
}

/// The workloads of a chart.
///
/// Without annotations it is the only Deployment, as in Shipper. In a chart without a Deployment it
/// is the only object that can be scaled. A chart with several workloads has to name them by
/// annotations. If the chart has an autoscaler for the workload, the autoscaler scales it, and the
/// chart requests at least as many pods as the autoscaler.
pub(super) fn find(
    objects: &[Object],
    chart: &Chart,
    scalable: &Scalable,
) -> Result<Vec<Workload>, Error> {
    let marked = objects.iter().enumerate().filter_map(|(index, object)| {
        let mark = object
            .at(&["metadata", "annotations", ANNOTATION_SCALING])
            .as_str()?;
        Some(marked(index, object, mark, scalable))
    });
    let marked = marked.collect::<Result<Vec<_>, _>>()?;
    if !marked.is_empty() {
        return Ok(marked);
    }
    let of_kind = |wanted: fn(&Object) -> bool| {
        let objects = objects.iter().enumerate();
        objects
            .filter(move |(_, object)| wanted(object))
            .collect::<Vec<_>>()
    };
    let deployments = of_kind(|object| object.is("apps/v1", "Deployment"));
    let candidates = if deployments.is_empty() {
        let others = of_kind(|object| object.kind != "Deployment");
        others
            .into_iter()
            .filter(|(_, object)| path(object, scalable).is_some())
            .collect()
    } else {
        deployments.clone()
    };
    match candidates[..] {
        [(index, object)] => {
            let path = path(object, scalable).unwrap_or(REPLICAS);
            let mut found = workload(index, object, path, Scaling::Steps)?;
            if let Some(least) = autoscaler::least_pods(objects, object) {
                found.replicas = found.replicas.max(least);
                found.scaling = Scaling::Autoscaler;
            }
            Ok(vec![found])
        }
        _ => Err(Error::Deployments {
            chart: format!("{}-{}", chart.name, chart.version),
            found: deployments.len(),
        }),
    }
}

/// A workload that the chart names by an annotation.
fn marked(
    index: usize,
    object: &Object,
    mark: &str,
    scalable: &Scalable,
) -> Result<Workload, Error> {
    let refused = |why: &str| Error::Scaling {
        kind: object.kind.clone(),
        name: object.name.clone(),
        why: why.to_owned(),
    };
    let scaling = match mark {
        "steps" => Scaling::Steps,
        "autoscaler" => Scaling::Autoscaler,
        _ => {
            let why = format!("the annotation {ANNOTATION_SCALING} must be steps or autoscaler");
            return Err(refused(&why));
        }
    };
    let path = path(object, scalable);
    let path = path.ok_or_else(|| refused("the kind has no scale subresource"))?;
    workload(index, object, path, scaling)
}

fn workload(
    index: usize,
    object: &Object,
    path: &str,
    scaling: Scaling,
) -> Result<Workload, Error> {
    let keys: Vec<_> = keys(path).collect();
    let replicas = match object.at(&keys) {
        Value::Null => Some(1),
        number => number
            .as_i64()
            .and_then(|number| i32::try_from(number).ok()),
    };
    let replicas = replicas.filter(|replicas| *replicas >= 0);
    Ok(Workload {
        api_version: object.api_version.clone(),
        kind: object.kind.clone(),
        name: object.name.clone(),
        replicas: replicas.ok_or_else(|| Error::Scaling {
            kind: object.kind.clone(),
            name: object.name.clone(),
            why: format!("{path} is not a number of pods"),
        })?,
        path: path.to_owned(),
        scaling,
        index,
    })
}

/// The path of the number of pods, if the object can be scaled.
fn path<'a>(object: &Object, scalable: &'a Scalable) -> Option<&'a str> {
    match (object.group(), object.kind.as_str()) {
        ("apps", "Deployment" | "StatefulSet" | "ReplicaSet") | ("", "ReplicationController") => {
            Some(REPLICAS)
        }
        (group, kind) => {
            let key = (group.to_owned(), kind.to_owned());
            scalable.get(&key).map(String::as_str)
        }
    }
}

/// Records that an autoscaler scales a workload.
pub(super) fn note_scaling(object: &mut Object, scaling: Scaling) -> Result<(), Error> {
    if scaling == Scaling::Autoscaler {
        let annotations = object.map(&["metadata", "annotations"])?;
        annotations.insert(ANNOTATION_SCALING.to_owned(), json!("autoscaler"));
    }
    Ok(())
}

/// Records the number of pods that the chart requests for one of several workloads.
pub(super) fn note_replicas(object: &mut Object, replicas: i32) -> Result<(), Error> {
    let annotations = object.map(&["metadata", "annotations"])?;
    annotations.insert(ANNOTATION_REPLICAS.to_owned(), json!(replicas.to_string()));
    Ok(())
}

fn keys(path: &str) -> impl Iterator<Item = &str> {
    path.split('.').filter(|key| !key.is_empty())
}

/// Scales a workload to zero, and adds the labels that distinguish its pods from those of other
/// Releases.
pub(super) fn scale_to_zero_and_label(
    object: &mut Object,
    path: &str,
    labels: &BTreeMap<String, String>,
) -> Result<(), Error> {
    let keys: Vec<_> = keys(path).collect();
    if let Some((last, above)) = keys.split_last() {
        object.map(above)?.insert((*last).to_owned(), json!(0));
    }
    // A kind that is not built in may lack a template of pods, or a selector at this path.
    let is_own = matches!(object.group(), "apps" | "");
    let selector: &[&str] = if object.is("v1", "ReplicationController") {
        &["spec", "selector"]
    } else {
        &["spec", "selector", "matchLabels"]
    };
    for (part, path) in [
        (&["spec", "selector"][..], selector),
        (
            &["spec", "template"],
            &["spec", "template", "metadata", "labels"],
        ),
    ] {
        if is_own || object.at(part).is_object() {
            object.texts(path)?;
            merge(object.map(path)?, labels);
        }
    }
    Ok(())
}
