//! A client of the API server that reads and writes plain JSON.

use std::path::{Path, PathBuf};

use http::{Method, Request};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, Config};
use serde_json::Value;

/// The cluster-scoped kinds that tests use.
const CLUSTER_SCOPED: [&str; 17] = [
    "Cluster",
    "ClusterObjectDeployment",
    "ClusterObjectSet",
    "ClusterObjectSetPhase",
    "ClusterObjectSlice",
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "Namespace",
    "PriorityClass",
    "SiteAssignment",
    "StorageClass",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
];

/// The answer of a server that refuses a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The HTTP status code.
    pub code: u16,
    /// The reason, in one word.
    pub reason: String,
    /// The explanation.
    pub message: String,
}

/// A connection to an API server.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    kubeconfig: PathBuf,
}

impl Cluster {
    /// Connects to the cluster of the test run.
    pub async fn shared() -> Self {
        let Some(path) = std::env::var_os("BATON_TEST_KUBECONFIG") else {
            panic!(
                "BATON_TEST_KUBECONFIG is not set: run the integration tests with `cargo dev test`"
            );
        };
        Self::connect(Path::new(&path)).await
    }

    /// Connects to the cluster of a kubeconfig.
    pub async fn connect(kubeconfig: &Path) -> Self {
        let config = Kubeconfig::read_from(kubeconfig);
        let config = config.unwrap_or_else(|error| panic!("{}: {error}", kubeconfig.display()));
        let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await;
        Self {
            client: Client::try_from(config.unwrap()).unwrap(),
            kubeconfig: kubeconfig.to_owned(),
        }
    }

    /// Returns the path of the kubeconfig.
    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Creates an object the way `kubectl create` does: unknown fields are refused.
    pub async fn create(&self, object: &Value) -> Result<Value, Refused> {
        let (collection, _) = path_and_name(object);
        let url = format!("{collection}?fieldValidation=Strict&fieldManager=kubectl-create");
        self.send(Method::POST, &url, "application/json", object)
            .await
    }

    /// Reads the object that has the identity of `object`.
    pub async fn get(&self, object: &Value) -> Option<Value> {
        found(
            self.send(Method::GET, &url(object), "application/json", &Value::Null)
                .await,
        )
    }

    /// Merge-patches an object, under the name of a field manager that no other client uses.
    pub async fn merge(&self, object: &Value, patch: &Value) -> Result<Value, Refused> {
        self.merge_at(object, "", patch).await
    }

    /// Merge-patches the status of an object.
    pub async fn merge_status(&self, object: &Value, patch: &Value) -> Result<Value, Refused> {
        self.merge_at(object, "/status", patch).await
    }

    async fn merge_at(&self, object: &Value, sub: &str, patch: &Value) -> Result<Value, Refused> {
        let url = format!(
            "{}{sub}?fieldValidation=Strict&fieldManager=a-user",
            url(object)
        );
        self.send(Method::PATCH, &url, "application/merge-patch+json", patch)
            .await
    }

    /// Replaces an object. If it has the `resourceVersion` that was read, the server refuses to
    /// overwrite the change of another client.
    pub async fn update(&self, object: &Value) -> Result<Value, Refused> {
        self.send(Method::PUT, &url(object), "application/json", object)
            .await
    }

    /// As [`Cluster::update`], under a manager's name.
    pub async fn update_as(&self, object: &Value, manager: &str) -> Result<Value, Refused> {
        let url = format!("{}?fieldManager={manager}", url(object));
        self.send(Method::PUT, &url, "application/json", object)
            .await
    }

    /// Replaces the status of an object whose status is a subresource.
    pub async fn update_status(&self, object: &Value) -> Result<Value, Refused> {
        let url = format!("{}/status", url(object));
        self.send(Method::PUT, &url, "application/json", object)
            .await
    }

    /// Returns the server's answer at a path.
    pub async fn read(&self, path: &str) -> Value {
        self.send(Method::GET, path, "application/json", &Value::Null)
            .await
            .unwrap()
    }

    /// Sends a dry run of the creation of an object, by POST.
    pub async fn try_post(&self, object: &Value) -> Result<Value, Refused> {
        let url = format!("{}?fieldValidation=Strict&dryRun=All", collection(object));
        self.send(Method::POST, &url, "application/json", object)
            .await
    }

    /// Sends a dry run of the creation of an object, by apply.
    pub async fn try_apply(&self, object: &Value) -> Result<Value, Refused> {
        let url = format!(
            "{}?fieldValidation=Ignore&fieldManager=tests&dryRun=All",
            url(object)
        );
        self.send(Method::PATCH, &url, "application/apply-patch+yaml", object)
            .await
    }

    /// Applies an object on the server side, forced, under a manager's name.
    pub async fn apply(&self, object: &Value, manager: &str) -> Result<Value, Refused> {
        let url = format!(
            "{}?fieldValidation=Strict&fieldManager={manager}&force=true",
            url(object)
        );
        self.send(Method::PATCH, &url, "application/apply-patch+yaml", object)
            .await
    }

    /// Merge-patches the scale of an object, as an autoscaler or `kubectl scale` does.
    pub async fn scale(&self, object: &Value, replicas: u32) -> Result<Value, Refused> {
        let patch = serde_json::json!({ "spec": { "replicas": replicas } });
        self.merge_at(object, "/scale", &patch).await
    }

    /// Deletes an object; `propagation` is `Background`, `Foreground` or `Orphan`. Returns true if
    /// the object existed.
    pub async fn delete(&self, object: &Value, propagation: &str) -> bool {
        let options = serde_json::json!({ "propagationPolicy": propagation });
        let url = url(object);
        found(
            self.send(Method::DELETE, &url, "application/json", &options)
                .await,
        )
        .is_some()
    }

    /// Deletes an object that must exist.
    pub async fn try_delete(&self, object: &Value) -> Result<Value, Refused> {
        let url = url(object);
        self.send(Method::DELETE, &url, "application/json", &Value::Null)
            .await
    }

    /// Lists the objects of the kind of `like`, in the namespace of `like`, or in all namespaces if
    /// it has none.
    pub async fn list(&self, like: &Value, labels: &str) -> Vec<Value> {
        match self.list_all(like, labels).await["items"].take() {
            Value::Array(items) => items,
            _ => Vec::new(),
        }
    }

    /// As [`Cluster::list`], with the metadata of the list.
    pub(crate) async fn list_all(&self, like: &Value, labels: &str) -> Value {
        let labels = labels.replace('=', "%3D");
        let url = format!("{}?labelSelector={labels}", collection(like));
        let list = self
            .send(Method::GET, &url, "application/json", &Value::Null)
            .await;
        list.unwrap()
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the column names and cells that `kubectl get` prints for an object.
    pub async fn table(&self, object: &Value) -> Value {
        let request = Request::get(url(object))
            .header("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
            .body(Vec::new());
        self.client.request(request.unwrap()).await.unwrap()
    }

    /// Returns a token of a service account.
    pub async fn token(&self, namespace: &str, account: &str) -> String {
        self.bound_token(namespace, account, &Value::Null).await
    }

    /// Returns a token of a service account that becomes invalid when an object is deleted.
    pub async fn bound_token(&self, namespace: &str, account: &str, to: &Value) -> String {
        let url = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
        let request = serde_json::json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": { "boundObjectRef": to },
        });
        let answer = self
            .send(Method::POST, &url, "application/json", &request)
            .await;
        let token = answer.unwrap()["status"]["token"].take();
        token.as_str().unwrap().to_owned()
    }

    /// True if the server accepts the client's credentials.
    pub async fn is_known(&self) -> bool {
        let answer = self
            .send(Method::GET, "/version", "application/json", &Value::Null)
            .await;
        !matches!(answer, Err(Refused { code: 401, .. }))
    }

    pub(crate) async fn send(
        &self,
        method: Method,
        url: &str,
        content: &str,
        body: &Value,
    ) -> Result<Value, Refused> {
        let body = match body {
            Value::Null => Vec::new(),
            body => serde_json::to_vec(body).unwrap(),
        };
        let request = Request::builder()
            .method(method)
            .uri(url)
            .header("Content-Type", content)
            .body(body);
        match self.client.request(request.unwrap()).await {
            Ok(value) => Ok(value),
            Err(kube::Error::Api(status)) => Err(Refused {
                code: status.code,
                reason: status.reason.clone(),
                message: status.message.clone(),
            }),
            Err(error) => panic!("{url}: {error}"),
        }
    }
}

fn found(answer: Result<Value, Refused>) -> Option<Value> {
    match answer {
        Ok(object) => Some(object),
        Err(Refused { code: 404, .. }) => None,
        Err(refused) => panic!("{refused:?}"),
    }
}

/// Returns the path of an object.
pub(crate) fn url(object: &Value) -> String {
    let (collection, name) = path_and_name(object);
    format!("{collection}/{name}")
}

/// Returns the path of the collection of an object.
pub(crate) fn collection(object: &Value) -> String {
    path_and_name(object).0
}

/// Returns the path of an object's collection, and the object's name.
fn path_and_name(object: &Value) -> (String, &str) {
    let text = |pointer: &str| {
        object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let (api_version, kind) = (text("/apiVersion"), text("/kind"));
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let plural = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind)).plural;
    let root = if group.is_empty() {
        format!("/api/{version}")
    } else {
        format!("/apis/{group}/{version}")
    };
    let collection = match text("/metadata/namespace") {
        namespace if !namespace.is_empty() && is_namespaced(kind) => {
            format!("{root}/namespaces/{namespace}/{plural}")
        }
        _ => format!("{root}/{plural}"),
    };
    (collection, text("/metadata/name"))
}

/// True if the objects of a kind have a namespace.
#[must_use]
pub fn is_namespaced(kind: &str) -> bool {
    !CLUSTER_SCOPED.contains(&kind)
}
