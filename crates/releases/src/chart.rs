//! What a chart has to contain, and what becomes of its objects (sections 3.3, 4.2 and 4.3 of the contract).
//!
//! A chart has a workload, whose pods are scaled and get traffic, and a Service that balances between them. Everything
//! else is installed as it is, with labels.

mod balancer;
mod object;
pub mod order;
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

/// What is installed: an `InstallationTarget`, as far as its objects show it.
#[derive(Clone, Copy, Debug)]
pub struct Installation<'a> {
    /// Its name, which is that of its Release.
    pub name: &'a str,
    /// Its labels.
    pub labels: &'a BTreeMap<String, String>,
    /// The chart, for messages.
    pub chart: &'a Chart,
    /// Kinds with a scale subresource that are not built in.
    pub scalable: &'a Scalable,
}

/// An object to be installed.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// The object, without a namespace: it is that of the `InstallationTarget`.
    pub object: Value,
    /// Dotted paths of the fields that belong to others once the object is there.
    pub create_only: Vec<String>,
}

/// The objects of a chart, and what is scaled.
#[derive(Clone, Debug, PartialEq)]
pub struct Content {
    /// The objects, in the order in which they are installed.
    pub manifests: Vec<Manifest>,
    /// The workloads, with the number of pods that the chart asks for; at least one.
    pub workloads: Vec<Workload>,
}

/// Why a chart cannot be installed. Nothing but another chart, other values or other labels helps.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Error {
    /// What was rendered is no object, or one with fields of another type than Kubernetes has.
    #[error("could not decode manifest: {0}")]
    Decode(String),
    /// There is not one workload.
    #[error("chart {chart} should have exactly 1 Deployment object, but it has {found}")]
    Deployments {
        /// Name and version of the chart.
        chart: String,
        /// How many Deployments it has.
        found: usize,
    },
    /// A workload says in an unknown way who scales it, or cannot be scaled.
    #[error("{kind} {} cannot be scaled: {why}", Quoted(.name))]
    Scaling {
        /// Kind of the workload.
        kind: String,
        /// Its name.
        name: String,
        /// What is wrong.
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
        /// Its name.
        name: String,
    },
    /// There is not one Service that balances.
    #[error(
        "one and only one v1.Service object with label \"shipper-lb\" is required, but {found} found instead"
    )]
    Balancers {
        /// How many there are.
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
    /// It is not clear what to do about it.
    #[error(
        "Unexpected value for label \"enable-helm-release-workaround\": {}. Expected values: true/false.",
        Quoted(.0)
    )]
    Workaround(String),
}

/// Makes of what a chart renders to what is installed.
///
/// # Guarantees
/// - Labels of the `InstallationTarget` take precedence over those of the chart.
/// - Workloads start without pods, and selectors of workloads tell Releases apart.
/// - The Service that balances selects pods of the application that are to have traffic, and no others.
///
/// # Errors
/// If the chart breaks a rule. Nothing of it is to be installed then.
pub fn content(documents: Vec<Value>, installation: Installation) -> Result<Content, Error> {
    let mut objects = documents
        .into_iter()
        .map(Object::decode)
        .collect::<Result<Vec<_>, _>>()?;
    let workloads = workloads::find(&objects, installation.chart, installation.scalable)?;
    for workload in &workloads {
        // Within a name as it is rendered, the name of the Release has to be.
        if !workload.name.contains(installation.name) {
            return Err(Error::WorkloadName {
                kind: workload.kind.clone(),
                name: workload.name.clone(),
            });
        }
    }
    let balancer = balancer::find(&objects)?;
    let mut labels = installation.labels.clone();
    labels.insert(LABEL_OWNED_BY.to_owned(), installation.name.to_owned());
    let mut create_only = vec![Vec::new(); objects.len()];
    for workload in &workloads {
        create_only[workload.place].push(workload.path.clone());
        workloads::decorate(&mut objects[workload.place], &workload.path, &labels)?;
        if workloads.len() > 1 {
            workloads::note_replicas(&mut objects[workload.place], workload.replicas)?;
        }
    }
    create_only[balancer] = balancer::decorate(&mut objects[balancer], installation)?;
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

/// What a chart asks for, from what it renders to under any name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// How many pods.
    pub replicas: i32,
    /// The annotation [`choice::ANNOTATION_WORKLOADS`] of its `CapacityTarget`.
    pub workloads: Option<String>,
}

/// What a chart asks for, from what it renders to under any name.
///
/// # Errors
/// If it has not one workload.
pub fn asked(documents: Vec<Value>, chart: &Chart, scalable: &Scalable) -> Result<Asked, Error> {
    let objects = documents
        .into_iter()
        .map(Object::decode)
        .collect::<Result<Vec<_>, _>>()?;
    let workloads = workloads::find(&objects, chart, scalable)?;
    let replicas = workloads.iter().map(|workload| workload.replicas);
    Ok(Asked {
        replicas: replicas.fold(0, i32::saturating_add),
        workloads: choice::annotation(&workloads),
    })
}
