//! A namespace of the bench on the API server, and requests about it.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use baton_apis::constants::{API_VERSION, LABEL_CACHE, LABEL_CACHE_VALUE, shipper};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::Request;
use kube::{Client, Config};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::error::Error;
use super::watch::Object;

/// The namespace of the manager's lease and of the credentials of clusters.
pub(crate) const MANAGER_NAMESPACE: &str = "baton-system";

/// Number of concurrent requests. More do not help: the server is the bottleneck.
pub(crate) const MAX_CONCURRENT: usize = 16;

/// The pause between two checks if an object is deleted.
const POLL: Duration = Duration::from_millis(50);

/// The API server's answer to a write.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Answer {
    pub(crate) at: Instant,
    /// The generation of the object after the write.
    pub(crate) generation: i64,
}

/// A request, or the error if it is malformed.
pub(crate) type BuiltRequest = Result<http::Request<Vec<u8>>, kube::core::request::Error>;

/// Answers by the name of the object.
pub(crate) type Answers = BTreeMap<String, Answer>;

/// Makes a client for a kubeconfig.
pub(crate) async fn client(kubeconfig: &Path) -> Result<Client, Error> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
    Ok(Client::try_from(config)?)
}

#[derive(Clone)]
pub(crate) struct Target {
    client: Client,
    namespace: String,
}

impl Target {
    /// Creates the namespace.
    pub(crate) async fn create(client: &Client, namespace: &str) -> kube::Result<Self> {
        let metadata = json!({"name": namespace});
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
        let target = Self {
            client: client.clone(),
            namespace: namespace.to_owned(),
        };
        let _: IgnoredAny = target.post("/api/v1/namespaces", &body).await?;
        Ok(target)
    }

    /// The path of the namespace's ObjectSets.
    pub(crate) fn sets(&self) -> String {
        self.path(&format!("apis/{API_VERSION}"), "objectsets")
    }

    /// The path of its phase objects.
    pub(crate) fn phase_objects(&self) -> String {
        self.path(&format!("apis/{API_VERSION}"), "objectsetphases")
    }

    /// The path of its events.
    pub(crate) fn events(&self) -> String {
        self.path("apis/events.k8s.io/v1", "events")
    }

    /// The path of its ObjectDeployments.
    pub(crate) fn deployments(&self) -> String {
        self.path(&format!("apis/{API_VERSION}"), "objectdeployments")
    }

    /// The path of its slices.
    pub(crate) fn slices(&self) -> String {
        self.path(&format!("apis/{API_VERSION}"), "objectslices")
    }

    /// The path of its objects of one of Shipper's kinds.
    pub(crate) fn shipper(&self, plural: &str) -> String {
        self.path(&format!("apis/{}", shipper::API_VERSION), plural)
    }

    /// The path of its pods.
    pub(crate) fn pods(&self) -> String {
        self.path("api/v1", "pods")
    }

    /// The path of its Services.
    pub(crate) fn services(&self) -> String {
        self.path("api/v1", "services")
    }

    /// The path of the addresses of its Services.
    pub(crate) fn endpoint_slices(&self) -> String {
        self.path("apis/discovery.k8s.io/v1", "endpointslices")
    }

    /// The path of its Deployments of the group `apps`.
    pub(crate) fn deployments_of_apps(&self) -> String {
        self.path("apis/apps/v1", "deployments")
    }

    /// The path of its ConfigMaps.
    pub(crate) fn config_maps(&self) -> String {
        self.path("api/v1", "configmaps")
    }

    fn path(&self, api: &str, plural: &str) -> String {
        format!("/{api}/namespaces/{}/{plural}", self.namespace)
    }

    /// Creates the objects of a collection concurrently, by name.
    pub(crate) async fn create_all(
        &self,
        path: String,
        bodies: &BTreeMap<String, Value>,
    ) -> kube::Result<Answers> {
        let request = Request::new(path);
        let create = |_: &str, body: &Value| {
            let mut body = body.clone();
            self.set_namespace(&mut body);
            request.create(&PostParams::default(), body.to_string().into_bytes())
        };
        self.write(bodies, create).await
    }

    /// Adds the namespace to the objects of delegated phases, which need it.
    fn set_namespace(&self, set: &mut Value) {
        for phase in set["spec"]["phases"].as_array_mut().into_iter().flatten() {
            if phase.get("class").is_some() {
                for entry in phase["objects"].as_array_mut().into_iter().flatten() {
                    entry["object"]["metadata"]["namespace"] = self.namespace.as_str().into();
                }
            }
        }
    }

    /// Edits deployments concurrently by merge patches, by name.
    pub(crate) async fn edit_deployments(
        &self,
        patches: &BTreeMap<String, Value>,
    ) -> kube::Result<Answers> {
        let request = Request::new(self.deployments());
        let edit = |name: &str, patch: &Value| {
            request.patch(name, &PatchParams::default(), &Patch::Merge(patch))
        };
        self.write(patches, edit).await
    }

    async fn write(
        &self,
        bodies: &BTreeMap<String, Value>,
        request: impl Fn(&str, &Value) -> BuiltRequest,
    ) -> kube::Result<Answers> {
        let write = async |(name, body): (&String, &Value)| {
            let written: Object = self.send(request(name, body)).await?;
            let answer = Answer {
                at: Instant::now(),
                generation: written.metadata.generation,
            };
            Ok((name.clone(), answer))
        };
        let answers = stream::iter(bodies).map(write);
        answers.buffer_unordered(MAX_CONCURRENT).try_collect().await
    }

    /// Deletes ObjectSets concurrently.
    pub(crate) async fn delete_sets(&self, names: &[String]) -> kube::Result<()> {
        let request = Request::new(self.sets());
        stream::iter(names)
            .map(Ok)
            .try_for_each_concurrent(MAX_CONCURRENT, |name| {
                let delete = request.delete(name, &DeleteParams::default());
                async { self.send::<IgnoredAny>(delete).await.map(drop) }
            })
            .await
    }

    /// Waits until no ConfigMap of a manager is left in the namespace.
    pub(crate) async fn without_children(&self) -> kube::Result<()> {
        #[derive(Deserialize)]
        struct List {
            items: Vec<IgnoredAny>,
        }
        let selector = format!("{LABEL_CACHE}={LABEL_CACHE_VALUE}");
        let params = ListParams::default().labels(&selector).limit(1);
        loop {
            let request = Request::new(self.config_maps()).list(&params);
            let list: List = self.send(request).await?;
            if list.items.is_empty() {
                return Ok(());
            }
            sleep(POLL).await;
        }
    }

    /// Creates an object in the collection `path`, and returns the parsed answer.
    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &Value,
    ) -> kube::Result<T> {
        let body = body.to_string().into_bytes();
        let request = Request::new(path).create(&PostParams::default(), body);
        self.send(request).await
    }

    /// Sends a request. [`IgnoredAny`] is for answers of which only the success matters: processor
    /// time that the bench uses is missing for the measured processes.
    pub(crate) async fn send<T: DeserializeOwned>(&self, request: BuiltRequest) -> kube::Result<T> {
        let request = request.map_err(kube::Error::BuildRequest)?;
        self.client.request(request).await
    }
}
