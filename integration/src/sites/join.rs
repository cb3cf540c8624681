//! A site as an object of the hub: a Cluster and its Secret.

use serde_json::{Value, json};

use super::Site;
use super::leftovers::{LABEL_RUN, Leftovers, give_up_on_others};
use super::names::{CLUSTERS_NAMESPACE, reference, secret_reference};
use crate::cluster::Cluster;
use crate::dump;
use crate::endpoint::Endpoint;
use crate::namespace::{LABEL_TEST, TIMEOUT, TestNamespace};
use crate::network::network;
use crate::polls::Polls;

/// A site that has not joined the hub yet.
#[must_use]
pub struct Join<'a> {
    site: &'a Site,
    ns: &'a TestNamespace,
    name: String,
    spec: Value,
    /// The content of the Secret; made up unless it is set.
    secret: Option<Value>,
    annotations: Value,
}

/// A site that has joined the hub of a test's namespace.
///
/// The site has a namespace of the same name. When the value is dropped, the Cluster and the site's
/// namespace are removed in the background. If the test fails, the Cluster and the objects on the
/// site are printed first.
pub struct Joined {
    site: Site,
    hub: Cluster,
    ns: String,
    name: String,
}

impl Site {
    /// Starts to join the site to the hub of a test's namespace. By default the name is unique, and
    /// the manager pushes with all rights; both can be changed before [`Join::create`].
    pub fn join<'a>(&'a self, ns: &'a TestNamespace) -> Join<'a> {
        Join {
            site: self,
            ns,
            name: ns.unique(&format!("site-{}", self.index)),
            spec: json!({ "region": "tests", "apiMaster": self.url() }),
            secret: None,
            annotations: json!({}),
        }
    }
}

/// Joins the hub of a test's namespace under another name. The site is not used.
pub async fn join_hub(ns: &TestNamespace, site: &Site) -> Joined {
    let hub = Endpoint::of_bed(ns.cluster().kubeconfig());
    let secret = json!({ "tls.ca": hub.ca, "tls.crt": hub.certificate, "tls.key": hub.key });
    let join = site.join(ns).secret(secret).through(&hub.url());
    let joined = join.create().await;
    joined.becomes("Connected", "True").await;
    joined
}

impl Join<'_> {
    /// Sets another name, which must be unique to the test as well.
    pub fn named(mut self, name: &str) -> Self {
        self.name = self.ns.unique(name);
        self
    }

    /// Makes the hub connect to this URL instead of the API server's own.
    pub fn through(self, url: &str) -> Self {
        self.spec("apiMaster", url)
    }

    /// Sets the token that the hub uses.
    pub fn token(self, token: &str) -> Self {
        let ca = self.site.ca().to_owned();
        self.secret(json!({ "token": token, "ca.crt": ca }))
    }

    /// Sets the whole content of the Cluster's Secret: keys and texts.
    pub fn secret(mut self, content: Value) -> Self {
        self.secret = Some(content);
        self
    }

    /// Creates no Secret.
    pub fn without_secret(self) -> Self {
        self.secret(Value::Null)
    }

    /// Makes an agent deliver. The hub has neither a Secret nor an address of the cluster then.
    pub fn pull(mut self) -> Self {
        self.spec = json!({ "region": "tests", "connection": "Pull" });
        self.without_secret()
    }

    /// Sets a field of the Cluster's spec.
    pub fn spec(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.spec[field] = value.into();
        self
    }

    /// Sets an annotation of the Secret.
    pub fn secret_annotation(mut self, key: &str, value: &str) -> Self {
        self.annotations[key] = value.into();
        self
    }

    /// Creates the Cluster and its Secret on the hub, and the namespace on the site.
    pub async fn create(self) -> Joined {
        let joined = Joined {
            site: self.site.clone(),
            hub: self.ns.cluster().clone(),
            ns: self.ns.name().to_owned(),
            name: self.name,
        };
        let content = if let Some(content) = self.secret {
            content
        } else {
            let token = self.site.account().await.token().await;
            json!({ "token": token.text, "ca.crt": self.site.ca() })
        };
        self.site.namespace(self.ns.name()).await;
        if !content.is_null() {
            joined.create_secret(&content, &self.annotations).await;
        }
        let mut cluster = joined.reference();
        if self.spec["connection"] == "Pull" {
            joined.admit_agent().await;
        }
        // The label names the test's namespace; the Cluster is removed after that namespace.
        let run = std::process::id().to_string();
        cluster["metadata"]["labels"] = json!({ LABEL_TEST: joined.ns, LABEL_RUN: run });
        cluster["spec"] = self.spec;
        joined.hub.create(&cluster).await.unwrap();
        give_up_on_others(&joined.hub, &run).await;
        joined
    }
}

impl Joined {
    /// Returns the name of the Cluster.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the class of phases that are delivered into the site.
    #[must_use]
    pub fn class(&self) -> String {
        format!("cluster.{}", self.name)
    }

    /// Returns the site.
    #[must_use]
    pub fn site(&self) -> &Site {
        &self.site
    }

    /// Returns the identity of the Cluster.
    #[must_use]
    pub fn reference(&self) -> Value {
        reference(&self.name)
    }

    /// Returns the identity of the Secret.
    #[must_use]
    pub fn secret_reference(&self) -> Value {
        secret_reference(&self.name)
    }

    /// Returns the hub that the site has joined.
    pub(super) fn hub(&self) -> &Cluster {
        &self.hub
    }

    /// Returns the API server of the hub.
    #[must_use]
    pub fn hub_endpoint(&self) -> Endpoint {
        Endpoint::of_bed(self.hub.kubeconfig())
    }

    /// Creates the Secret (again), with these keys and texts.
    pub async fn create_secret(&self, content: &Value, annotations: &Value) {
        let home = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": CLUSTERS_NAMESPACE },
        });
        self.hub.apply(&home, "tests").await.unwrap();
        let mut secret = self.secret_reference();
        secret["metadata"]["annotations"] = annotations.clone();
        secret["stringData"] = content.clone();
        self.hub.create(&secret).await.unwrap();
    }

    /// Changes keys of the Secret, as a rotation of credentials does.
    pub async fn change_secret(&self, content: &Value) {
        let patch = json!({ "stringData": content });
        let secret = self.secret_reference();
        self.hub.merge(&secret, &patch).await.unwrap();
    }

    /// Deletes the Secret.
    pub async fn delete_secret(&self) {
        let deleted = self
            .hub
            .delete(&self.secret_reference(), "Background")
            .await;
        assert!(deleted, "{} had no Secret", self.name);
    }

    /// Merge-patches the spec of the Cluster.
    pub async fn change_spec(&self, patch: &Value) {
        let patch = json!({ "spec": patch });
        self.hub.merge(&self.reference(), &patch).await.unwrap();
    }

    /// Reads the Cluster.
    pub async fn read(&self) -> Option<Value> {
        self.hub.get(&self.reference()).await
    }

    /// Waits until a condition of the Cluster has this status, and returns it.
    pub async fn becomes(&self, kind: &str, status: &str) -> Value {
        self.until(&format!("{kind} to be {status}"), kind, |condition| {
            condition["status"] == status
        })
        .await
    }

    /// Waits until a condition of the Cluster has this reason, and returns it.
    pub async fn because(&self, kind: &str, reason: &str) -> Value {
        self.until(&format!("{kind} to be so by {reason}"), kind, |condition| {
            condition["reason"] == reason
        })
        .await
    }

    async fn until(&self, text: &str, kind: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let polls = Polls::start();
        loop {
            let cluster = self.read().await.unwrap_or_default();
            let conditions = cluster["status"]["conditions"].as_array();
            let mut conditions = conditions.into_iter().flatten();
            let condition = conditions.find(|condition| condition["type"] == kind);
            if let Some(condition) = condition.filter(|condition| holds(condition)) {
                return condition.clone();
            }
            assert!(
                polls.elapsed() <= TIMEOUT,
                "waited in vain for {text} on {}: {}",
                self.name,
                cluster["status"]
            );
            polls.pause().await;
        }
    }

    /// Removes the Cluster and its Secret from the hub. The delivered objects stay on the site.
    pub async fn leave(&self) {
        for object in [self.reference(), self.secret_reference()] {
            self.hub.delete(&object, "Background").await;
        }
    }

    /// Returns the output that explains a failed test.
    async fn dump(&self) -> String {
        let hub = Cluster::connect(self.hub.kubeconfig()).await;
        let cluster = hub.get(&self.reference()).await.unwrap_or_default();
        let site = self.site.cluster().await;
        let ended = dump::ended_of(&site);
        let objects = dump::objects_of(&site, &self.ns).await;
        let name = &self.name;
        format!(
            "--- Cluster {name}\n{cluster:#}\n{ended}--- on site {}\n{objects}",
            self.site.index
        )
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The dump runs on a thread of its own, because the runtime of the test cannot block
            // any more.
            let dump = std::thread::scope(|scope| {
                let work = scope.spawn(|| {
                    let runtime = tokio::runtime::Builder::new_current_thread()
                        .enable_all()
                        .build();
                    runtime.unwrap().block_on(self.dump())
                });
                work.join()
            });
            eprintln!(
                "{}",
                dump.unwrap_or_else(|_| "the site cannot be read".to_owned())
            );
        }
        let left = Leftovers {
            site: Some(self.site.clone()),
            hub: self.hub.kubeconfig().to_owned(),
            ns: self.ns.clone(),
            name: self.name.clone(),
        };
        // A panic in the task is printed and ends nothing else.
        network().spawn(left.clear());
    }
}
