//! The objects that divide the traffic of an application in a cluster: the Service that balances,
//! its endpoints, and the pods.

use std::sync::Arc;

use baton_apis::constants::shipper::{LABEL_APP, LABEL_LB, LABEL_RELEASE, LB_PRODUCTION};
use baton_releases::{
    targets::reasons::{Cause, Failure},
    texts::Quoted,
    traffic::{self, Weights, endpoints::Endpoints, label::is_enabled, selector::Selector},
};
use baton_typed::store::Store;
use k8s_openapi::api::core::v1::{Pod, Service};
use tokio::try_join;

use crate::controllers::releases::app_clusters::{
    cluster::AppCluster,
    objects::{LABEL_SERVICE, label},
    requests::RequestError,
};

/// The Service that balances the traffic of an application.
pub(super) struct Balancer {
    namespace: String,
    application: String,
    service: Arc<Service>,
    endpoints: Endpoints,
    services: Arc<Store<Service>>,
    pods: Arc<Store<Pod>>,
}

impl Balancer {
    /// Finds the Service.
    ///
    /// # Errors
    /// If there is not exactly one such Service, or an object cannot be read.
    pub(super) async fn find(
        cluster: &AppCluster,
        namespace: &str,
        application: &str,
    ) -> Result<Self, Failure> {
        let (services, slices, pods) =
            try_join!(cluster.services(), cluster.slices(), cluster.pods())?;
        let found = services.labelled(namespace, LABEL_APP, application);
        let [service] = &found[..] else {
            let selector = format!("{LABEL_APP}={application},{LABEL_LB}={LB_PRODUCTION}");
            let message = format!(
                "expected 1 /v1, Kind=Service for selector {}, got {} instead",
                Quoted(&selector),
                found.len()
            );
            return Err(Failure::new(Cause::Missing, message));
        };
        let name = service.metadata.name.as_deref().unwrap_or_default();
        let slices = slices.labelled(namespace, LABEL_APP, application);
        let slices = slices
            .iter()
            .filter(|slice| label(&slice.metadata, LABEL_SERVICE) == name);
        Ok(Self {
            namespace: namespace.to_owned(),
            application: application.to_owned(),
            endpoints: Endpoints::of_slices(slices.map(|slice| &**slice)),
            service: Arc::clone(service),
            services,
            pods,
        })
    }

    /// Name of the Service.
    pub(super) fn name(&self) -> &str {
        self.service.metadata.name.as_deref().unwrap_or_default()
    }

    /// Decides on the current pods.
    pub(super) fn decide<T>(
        &self,
        weights: &Weights,
        decision: impl FnOnce(traffic::Cluster<'_>) -> T,
    ) -> T {
        let found = self
            .pods
            .labelled(&self.namespace, LABEL_APP, &self.application);
        let pods: Vec<_> = found
            .iter()
            .map(|pod| traffic::Pod {
                name: pod.metadata.name.as_deref().unwrap_or_default(),
                release: label(&pod.metadata, LABEL_RELEASE),
                enabled: pod.metadata.labels.as_ref().is_some_and(is_enabled),
            })
            .collect();
        let spec = self.service.spec.as_ref();
        let selector = spec.and_then(|spec| spec.selector.as_ref());
        decision(traffic::Cluster {
            weights,
            pods: &pods,
            endpoints: &self.endpoints,
            selector: &selector.map_or(Selector::Label, Selector::of),
        })
    }

    /// Adds a pod to the traffic or removes it.
    pub(super) async fn set_traffic(
        &self,
        cluster: &AppCluster,
        pod: &str,
        enable: bool,
    ) -> Result<(), RequestError> {
        let Some(pod) = self.pods.get(&self.namespace, pod) else {
            return Err(RequestError::Changed);
        };
        if let Some(written) = cluster.set_traffic(&pod, enable).await? {
            self.pods.written(written);
        }
        Ok(())
    }

    /// Sets the selector of the Service.
    pub(super) async fn select(
        &self,
        cluster: &AppCluster,
        selector: &Selector,
    ) -> Result<(), RequestError> {
        let written = cluster.set_selector(&self.service, selector).await?;
        self.services.written(written);
        Ok(())
    }
}
