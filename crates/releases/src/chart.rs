//! The rules for charts, and the changes to their objects.
//!
//! A chart has a workload, whose pods are scaled and get traffic, and a Service that balances
//! between the pods. All other objects are installed unchanged, with additional labels.

mod autoscaler;
mod balancer;
pub mod hooks;
mod object;
pub mod order;
pub mod scalable;
mod shared;
#[cfg(test)]
mod tests;
pub mod workloads;

use std::collections::BTreeMap;

use baton_apis::{Chart, constants::shipper::LABEL_OWNED_BY};
use serde_json::Value;
use thiserror::Error;

use crate::{capacity::choice, texts::Quoted};
use object::{Object, merge};
use workloads::{Scalable, Workload};

/// The parts of an `InstallationTarget` that influence its objects.
#[derive(Clone, Copy, Debug)]
pub struct Installation<'a> {
    /// Name of the target, equal to the name of its Release.
    pub name: &'a str,
    /// Labels of the target.
    pub labels: &'a BTreeMap<String, String>,
    /// The chart, for messages.
    pub chart: &'a Chart,
    /// Kinds with a scale subresource that are not built in.
    pub scalable: &'a Scalable,
}

/// An object to be installed.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// The object, without a namespace: it is installed in the namespace of the
    /// `InstallationTarget`.
    pub object: Value,
    /// Dotted paths of the fields that other clients may change once the object exists.
    pub create_only: Vec<String>,
}

/// The objects of a chart, and its workloads.
#[derive(Clone, Debug, PartialEq)]
pub struct Content {
    /// The objects, in the order in which they are installed.
    pub manifests: Vec<Manifest>,
    /// The workloads, with the number of pods that the chart requests; at least one.
    pub workloads: Vec<Workload>,
}

/// The reason that a chart cannot be installed. Only another chart, other values or other labels
/// help.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Error {
    /// A rendered document is not an object, or has a field of another type than in Kubernetes.
    #[error("could not decode manifest: {0}")]
    Decode(String),
    /// The chart does not have exactly one workload.
    #[error("chart {chart} should have exactly 1 Deployment object, but it has {found}")]
    Deployments {
        /// Name and version of the chart.
        chart: String,
        /// Number of Deployments in the chart.
        found: usize,
    },
    /// The scaling annotation of a workload has an unknown value, or the workload cannot be scaled.
    #[error("{kind} {} cannot be scaled: {why}", Quoted(.name))]
    Scaling {
        /// Kind of the workload.
        kind: String,
        /// Name of the workload.
        name: String,
        /// Description of the error.
        why: String,
    },
    /// Workloads of several Releases would have the same name.
    #[error(
        "{kind} {} has invalid name. The name of the {kind} should be templated with {{{{.Release.Name}}}}.",
        Quoted(.name)
    )]
    WorkloadName {
        /// Kind of the workload.
        kind: String,
        /// Name of the workload.
        name: String,
    },
    /// The chart does not have exactly one Service that balances.
    #[error(
        "one and only one v1.Service object with label \"shipper-lb\" is required, but {found} found instead"
    )]
    Balancers {
        /// Number of these Services.
        found: usize,
    },
    /// The Service that balances selects the pods of one Release.
    #[error(
        "The selector of Service {} contains the label \"release\". This will break shipper traffic shifting logic. \
         Consider removing it from the chart, or setting the label \"enable-helm-release-workaround\" of the \
         Application to \"true\".",
        Quoted(.service)
    )]
    HelmRelease {
        /// Name of the Service.
        service: String,
    },
    /// The Service that balances would be another one, or select other pods, for each Release.
    #[error(
        "Service {}: {field} {} changes with each Release. Remove the hash of the Release from it: the name of the \
         Release may be used in full, or not at all.",
        Quoted(.service), Quoted(.value)
    )]
    PerRelease {
        /// Name of the Service.
        service: String,
        /// The field.
        field: String,
        /// Value of the field.
        value: String,
    },
    /// The value of the label for the workaround is unknown.
    #[error(
        "Unexpected value for label \"enable-helm-release-workaround\": {}. Expected values: true/false.",
        Quoted(.0)
    )]
    Workaround(String),
}

/// Turns the rendered documents of a chart into the objects to install.
///
/// # Guarantees
/// - Labels of the `InstallationTarget` take precedence over those of the chart.
/// - Workloads start without pods, and their selectors distinguish Releases.
/// - The Service that balances is the same object for all Releases of an Application, and selects
///   exactly the pods of the application that should have traffic.
/// - Hooks that no installation and no upgrade runs are left out.
///
/// # Errors
/// If the chart breaks a rule. Then none of its objects may be installed.
pub fn content(documents: Vec<Value>, installation: Installation) -> Result<Content, Error> {
    let mut objects = decode(documents)?;
    let workloads = workloads::find(&objects, installation.chart, installation.scalable)?;
    for workload in &workloads {
        // The rendered name has to contain the name of the Release.
        if !workload.name.contains(installation.name) {
            return Err(Error::WorkloadName {
                kind: workload.kind.clone(),
                name: workload.name.clone(),
            });
        }
    }
    let balancer = balancer::find(&objects)?;
    shared::share(&mut objects, balancer, &workloads, installation)?;
    let mut labels = installation.labels.clone();
    labels.insert(LABEL_OWNED_BY.to_owned(), installation.name.to_owned());
    let mut create_only = vec![Vec::new(); objects.len()];
    for workload in &workloads {
        create_only[workload.index].push(workload.path.clone());
        workloads::scale_to_zero_and_label(&mut objects[workload.index], &workload.path, &labels)?;
        workloads::note_scaling(&mut objects[workload.index], workload.scaling)?;
        if workloads.len() > 1 {
            workloads::note_replicas(&mut objects[workload.index], workload.replicas)?;
        }
    }
    create_only[balancer] = balancer::select_by_traffic(&mut objects[balancer], installation)?;
    let mut manifests = Vec::new();
    for (mut object, create_only) in objects.into_iter().zip(create_only) {
        merge(object.map(&["metadata", "labels"])?, &labels);
        object.map(&["metadata"])?.remove("namespace");
        manifests.push((
            order::key(&object.kind, &object.name),
            object.value,
            create_only,
        ));
    }
    manifests.sort_by(|(a, ..), (b, ..)| a.cmp(b));
    let manifest = |(_, object, create_only)| Manifest {
        object,
        create_only,
    };
    Ok(Content {
        manifests: manifests.into_iter().map(manifest).collect(),
        workloads,
    })
}

/// The number of pods and the workloads that a chart requests, independent of the name of the
/// Release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChartRequest {
    /// Number of pods.
    pub replicas: i32,
    /// Annotation [`choice::ANNOTATION_WORKLOADS`] of the `CapacityTarget`.
    pub workloads: Option<String>,
}

/// Reads the request of a chart from its rendered documents; the name of the Release does not
/// matter.
///
/// # Errors
/// If the chart does not have exactly one workload.
pub fn chart_request(
    documents: Vec<Value>,
    chart: &Chart,
    scalable: &Scalable,
) -> Result<ChartRequest, Error> {
    let workloads = workloads::find(&decode(documents)?, chart, scalable)?;
    let replicas = workloads.iter().map(|workload| workload.replicas);
    Ok(ChartRequest {
        replicas: replicas.fold(0, i32::saturating_add),
        workloads: choice::annotation(&workloads),
    })
}

/// Reads documents as objects, and leaves out the hooks that no installation and no upgrade runs.
fn decode(documents: Vec<Value>) -> Result<Vec<Object>, Error> {
    let objects = documents.into_iter().map(Object::decode);
    let is_installed = |object: &Object| {
        let annotation = |key: &str| object.at(&["metadata", "annotations", key]).as_str();
        hooks::of(annotation).is_ok()
    };
    objects
        .filter(|object| object.as_ref().map_or(true, is_installed))
        .collect()
}
