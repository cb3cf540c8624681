//! What is scaled.

use std::collections::BTreeMap;

use baton_apis::Chart;
use serde_json::{Value, json};

use super::{
    Error,
    object::{Object, merge},
};
use crate::capacity::workload::Scaling;

/// Annotation on objects of a chart: the object is a workload, and who decides about the number of its pods:
/// `steps` or `autoscaler`. If any object has it, those that have it are the workloads of the chart.
pub const ANNOTATION_SCALING: &str = "baton.run/scaling";

/// Annotation on the workloads of a chart that has several: the number of pods that the chart asks for. In the cluster
/// nothing else tells of it, as workloads start without pods.
pub const ANNOTATION_REPLICAS: &str = "baton.run/replicas";

/// Kinds with a scale subresource that are not built in, by group and kind: the dotted path of their number of pods.
pub type Scalable = BTreeMap<(String, String), String>;

/// Where the kinds that are built in have the number of their pods.
const REPLICAS: &str = ".spec.replicas";

/// A workload of a chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Its `apiVersion`.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// The number of pods that the chart asks for.
    pub replicas: i32,
    /// The dotted path of that number.
    pub path: String,
    /// Who decides about the number.
    pub scaling: Scaling,
    /// Its place among the objects.
    pub(super) place: usize,
}

/// The workloads of a chart.
///
/// Without annotations it is the one Deployment, as with Shipper; in a chart without a Deployment, the one object that
/// can be scaled. Which ones it is to be of several, the chart has to say (W1).
pub(super) fn find(
    objects: &[Object],
    chart: &Chart,
    scalable: &Scalable,
) -> Result<Vec<Workload>, Error> {
    let marked = objects.iter().enumerate().filter_map(|(place, object)| {
        let mark = object
            .at(&["metadata", "annotations", ANNOTATION_SCALING])
            .as_str()?;
        Some(marked(place, object, mark, scalable))
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
        [(place, object)] => {
            let path = path(object, scalable).unwrap_or(REPLICAS);
            Ok(vec![workload(place, object, path, Scaling::Steps)?])
        }
        _ => Err(Error::Deployments {
            chart: format!("{}-{}", chart.name, chart.version),
            found: deployments.len(),
        }),
    }
}

/// A workload that the chart says is one.
fn marked(
    place: usize,
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
            let why = format!("the annotation {ANNOTATION_SCALING} has to be steps or autoscaler");
            return Err(refused(&why));
        }
    };
    let path = path(object, scalable);
    let path = path.ok_or_else(|| refused("the kind has no scale subresource"))?;
    workload(place, object, path, scaling)
}

fn workload(
    place: usize,
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
            why: format!("{path} is no number of pods"),
        })?,
        path: path.to_owned(),
        scaling,
        place,
    })
}

/// Where an object has the number of its pods, if it can be scaled.
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

/// Notes with each of several workloads how many pods the chart asks for.
pub(super) fn note_replicas(object: &mut Object, replicas: i32) -> Result<(), Error> {
    let annotations = object.map(&["metadata", "annotations"])?;
    annotations.insert(ANNOTATION_REPLICAS.to_owned(), json!(replicas.to_string()));
    Ok(())
}

fn keys(path: &str) -> impl Iterator<Item = &str> {
    path.split('.').filter(|key| !key.is_empty())
}

/// Takes the pods of a workload away, and tells them apart from those of other Releases by labels.
pub(super) fn decorate(
    object: &mut Object,
    path: &str,
    labels: &BTreeMap<String, String>,
) -> Result<(), Error> {
    let keys: Vec<_> = keys(path).collect();
    if let Some((last, above)) = keys.split_last() {
        object.map(above)?.insert((*last).to_owned(), json!(0));
    }
    // A kind that is not built in need not have a template of pods, nor a selector in this place.
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
