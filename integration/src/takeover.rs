//! The objects that Package Operator leaves behind in a cluster, written without Package Operator:
//! by the same requests, under the same names of field managers.
//!
//! No manager may run meanwhile. The state is that after a successful rollout: finalizers, labels,
//! annotations, owner references and status of the revision, and its objects, whose fields are
//! owned in one of several [`Shape`]s.

use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::cluster::{Cluster, Refused, url};
use crate::namespace::{Scope, TestNamespace};
use crate::revision::Revision;
use crate::set::SetBuilder;

/// The field manager that Package Operator applies with, and that we apply with.
pub const MANAGER: &str = "package-operator";
/// The name of Package Operator's process: the field manager of all its other requests, and of all
/// requests of early releases.
pub const PROCESS: &str = "package-operator-manager";
/// The field manager that early releases applied with in other clusters (the misspelling is
/// theirs).
pub const REMOTE: &str = "remote-phase-manger";

/// A way in which Package Operator became the owner of an object's fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Applied under the present name, as for phases that the manager itself delivers.
    Applied,
    /// Created or replaced under the present name, as for delegated phases.
    Posted,
    /// Created or replaced under the name of the process.
    EarlyUpdate,
    /// Applied under the name of an early release.
    EarlyApply,
    /// Created by an early release, changed under the present name, and applied later.
    Mixed,
}

impl Shape {
    /// All shapes.
    pub const ALL: [Self; 5] = [
        Self::Applied,
        Self::Posted,
        Self::EarlyUpdate,
        Self::EarlyApply,
        Self::Mixed,
    ];

    /// Returns a word for the names of objects of this shape.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Posted => "posted",
            Self::EarlyUpdate => "early-update",
            Self::EarlyApply => "early-apply",
            Self::Mixed => "mixed",
        }
    }

    /// Returns the manager and operation of the managed fields of an object of this shape, sorted.
    #[must_use]
    pub fn entries(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Applied => &[(MANAGER, "Apply")],
            Self::Posted => &[(MANAGER, "Update")],
            Self::EarlyUpdate => &[(PROCESS, "Update")],
            Self::EarlyApply => &[(REMOTE, "Apply")],
            Self::Mixed => &[(MANAGER, "Apply"), (MANAGER, "Update"), (PROCESS, "Update")],
        }
    }
}

/// Returns the manager and operation of the managed fields that belong to Package Operator or to
/// us, sorted.
#[must_use]
pub fn entries(live: &Value) -> Vec<(&str, &str)> {
    let mut entries: Vec<_> = live["metadata"]["managedFields"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|entry| entry["subresource"].is_null())
        .filter_map(|entry| Some((entry["manager"].as_str()?, entry["operation"].as_str()?)))
        .filter(|(manager, _)| [MANAGER, PROCESS, REMOTE].contains(manager))
        .collect();
    entries.sort_unstable();
    entries
}

/// A revision and its objects, to be written in the state in which Package Operator leaves them.
#[must_use]
pub struct LeftBehind<'a> {
    ns: &'a TestNamespace,
    set: Value,
    shape: Shape,
}

impl TestNamespace {
    /// Starts a revision that Package Operator has rolled out. Its number must be given. Objects
    /// that exist are taken over from the previous revisions.
    pub fn left_behind(&self, set: SetBuilder<'_>, shape: Shape) -> LeftBehind<'_> {
        LeftBehind {
            ns: self,
            set: set.manifest(),
            shape,
        }
        .labelled("left-behind")
        .hashed("6c8b4d9f57")
    }

    /// Creates a deployment whose newest revision, made from this template, was rolled out by
    /// Package Operator. The template hash is that of Package Operator, which no other program can
    /// compute.
    ///
    /// # Guarantees
    /// The selector of the deployment matches the labels of the template.
    pub async fn deployment_left_behind(
        &self,
        name: &str,
        template: Value,
        hash: &str,
    ) -> Result<Value, Refused> {
        let labels = template["metadata"]["labels"].clone();
        let mut deployment = self.set_ref(name);
        deployment["kind"] = match self.scope() {
            Scope::Namespaced => "ObjectDeployment",
            Scope::Cluster => "ClusterObjectDeployment",
        }
        .into();
        deployment["spec"] = json!({ "selector": { "matchLabels": labels }, "template": template });
        let cluster = self.cluster();
        let mut deployment = cluster.create_as(&deployment, PROCESS).await?;
        deployment["status"] = json!({
            "templateHash": hash,
            "revision": 1,
            "conditions": [
                condition(&deployment, "Available", "True", "Available", "Latest Revision is Available."),
                condition(&deployment, "Progressing", "False", "Idle", "Update concluded."),
            ],
        });
        cluster.replace_status_as(&deployment, PROCESS).await
    }
}

impl LeftBehind<'_> {
    /// Makes this deployment the controller of the revision, with this hash of the template.
    pub fn made_by(self, deployment: &Value, hash: &str) -> Self {
        let name = deployment["metadata"]["name"].as_str().unwrap_or_default();
        let mut made = self.labelled(name).hashed(hash);
        made.set["metadata"]["ownerReferences"] = json!([{
            "apiVersion": deployment["apiVersion"], "kind": deployment["kind"], "name": name,
            "uid": deployment["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
        }]);
        made
    }

    fn labelled(mut self, deployment: &str) -> Self {
        self.set["metadata"]["labels"]["package-operator.run/object-deployment"] =
            deployment.into();
        self
    }

    fn hashed(mut self, hash: &str) -> Self {
        self.set["metadata"]["annotations"]["package-operator.run/hash"] = hash.into();
        self
    }

    /// Writes the revision, its objects, and its status.
    pub async fn create(self) -> Revision {
        let Self { ns, set, shape } = self;
        let cluster = ns.cluster();
        let set = cluster.create_as(&set, PROCESS).await.unwrap();
        let finalizers = [
            "package-operator.run/cached",
            "package-operator.run/metrics",
        ];
        let patch = json!({ "metadata": { "finalizers": finalizers } });
        let mut set = cluster.merge_as(&set, &patch, PROCESS).await.unwrap();
        let phases = set["spec"]["phases"].as_array().cloned();
        let objects = phases
            .iter()
            .flatten()
            .filter_map(|phase| phase["objects"].as_array())
            .flatten()
            .map(|entry| &entry["object"]);
        let mut controlled = Vec::new();
        for object in objects {
            let mut object = object.clone();
            if object["metadata"]["namespace"].is_null() {
                object["metadata"]["namespace"] = ns.name().into();
            }
            let live = write(cluster, complete(cluster, object, &set).await, shape).await;
            let api_version = live["apiVersion"].as_str().unwrap();
            let (group, _) = api_version.split_once('/').unwrap_or_default();
            controlled.push(json!({
                "kind": live["kind"], "group": group, "version": "",
                "name": live["metadata"]["name"], "namespace": live["metadata"]["namespace"],
            }));
        }
        let available = "Object is available and passes all probes.";
        let succeeded =
            "ObjectSet rolled out all objects successfully and was Available at least once.";
        set["status"] = json!({
            "revision": set["spec"]["revision"],
            "controllerOf": controlled,
            "conditions": [
                condition(&set, "Available", "True", "Available", available),
                condition(&set, "Succeeded", "True", "RolloutSuccess", succeeded),
            ],
        });
        let json = cluster.replace_status_as(&set, PROCESS).await.unwrap();
        Revision { json }
    }
}

/// Adds the metadata that a revision writes to its objects; the owners of a live object stay as
/// plain owners.
async fn complete(cluster: &Cluster, mut object: Value, set: &Value) -> Value {
    let labels = &mut object["metadata"]["labels"];
    labels["package-operator.run/cache"] = "True".into();
    for origin in [
        "package-operator.run/package",
        "package-operator.run/instance",
    ] {
        if let Some(value) = set["metadata"]["labels"].get(origin) {
            labels[origin] = value.clone();
        }
    }
    object["metadata"]["annotations"]["package-operator.run/revision"] =
        set["spec"]["revision"].to_string().into();
    let live = cluster.get(&object).await.unwrap_or_default();
    let mut owners = live["metadata"]["ownerReferences"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    for owner in &mut owners {
        owner["controller"] = false.into();
    }
    owners.push(json!({
        "apiVersion": set["apiVersion"], "kind": set["kind"], "name": set["metadata"]["name"],
        "uid": set["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
    }));
    object["metadata"]["ownerReferences"] = owners.into();
    object
}

/// Writes an object in the way that results in a shape. An object that exists keeps the entries of
/// earlier writes as well.
async fn write(cluster: &Cluster, object: Value, shape: Shape) -> Value {
    let is_new = cluster.get(&object).await.is_none();
    let live = match shape {
        Shape::Applied => cluster.apply(&object, MANAGER).await.unwrap(),
        Shape::EarlyApply => cluster.apply(&object, REMOTE).await.unwrap(),
        Shape::Posted => put(cluster, &object, MANAGER).await,
        Shape::EarlyUpdate => put(cluster, &object, PROCESS).await,
        Shape::Mixed => {
            let mut first = object.clone();
            first["metadata"]["annotations"]["package-operator.run/revision"] = "0".into();
            put(cluster, &first, PROCESS).await;
            let number = &object["metadata"]["annotations"]["package-operator.run/revision"];
            let patch = json!({ "metadata": { "annotations": { "package-operator.run/revision": number } } });
            cluster.merge_as(&object, &patch, MANAGER).await.unwrap();
            cluster.apply(&object, MANAGER).await.unwrap()
        }
    };
    if is_new {
        assert_eq!(entries(&live), shape.entries(), "{live}");
    }
    live
}

/// Creates an object, or replaces the fields of an existing object that the manifest has.
async fn put(cluster: &Cluster, object: &Value, manager: &str) -> Value {
    let Some(mut live) = cluster.get(object).await else {
        return cluster.create_as(object, manager).await.unwrap();
    };
    for field in ["labels", "annotations", "ownerReferences"] {
        live["metadata"][field] = object["metadata"][field].clone();
    }
    for (field, value) in object.as_object().unwrap() {
        if field != "metadata" {
            live[field] = value.clone();
        }
    }
    cluster.replace_as(&live, manager).await.unwrap()
}

fn condition(of: &Value, type_: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({
        "type": type_, "status": status, "reason": reason, "message": message,
        "observedGeneration": of["metadata"]["generation"],
        "lastTransitionTime": Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
    })
}

impl Cluster {
    /// Creates an object under a manager's name.
    pub async fn create_as(&self, object: &Value, manager: &str) -> Result<Value, Refused> {
        let url = url(object);
        let (collection, _) = url.rsplit_once('/').unwrap();
        self.write_as(
            Method::POST,
            collection,
            "application/json",
            object,
            manager,
        )
        .await
    }

    /// Replaces an object (PUT) under a manager's name.
    pub async fn replace_as(&self, object: &Value, manager: &str) -> Result<Value, Refused> {
        self.write_as(
            Method::PUT,
            &url(object),
            "application/json",
            object,
            manager,
        )
        .await
    }

    /// Replaces the status of an object under a manager's name.
    pub async fn replace_status_as(&self, object: &Value, manager: &str) -> Result<Value, Refused> {
        let url = format!("{}/status", url(object));
        self.write_as(Method::PUT, &url, "application/json", object, manager)
            .await
    }

    /// Merge-patches an object under a manager's name.
    pub async fn merge_as(
        &self,
        object: &Value,
        patch: &Value,
        manager: &str,
    ) -> Result<Value, Refused> {
        let content = "application/merge-patch+json";
        self.write_as(Method::PATCH, &url(object), content, patch, manager)
            .await
    }

    async fn write_as(
        &self,
        method: Method,
        url: &str,
        content: &str,
        body: &Value,
        manager: &str,
    ) -> Result<Value, Refused> {
        let url = format!("{url}?fieldValidation=Strict&fieldManager={manager}");
        self.send(method, &url, content, body).await
    }
}
