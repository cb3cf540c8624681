//! Deployments, and the revisions that they make.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use tokio::time::sleep;

use crate::cluster::Refused;
use crate::live::{controller, uid};
use crate::namespace::{INTERVAL, LABEL_TEST, Scope, TestNamespace};
use crate::revision::{Revision, Want};
use crate::set::SetBuilder;

/// How long anything about a deployment may take.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// What makes a revision's content: what a template and a revision have in common.
const CONTENT: [&str; 4] = [
    "phases",
    "availabilityProbes",
    "successDelaySeconds",
    "serviceAccountName",
];

/// A label on each revision of a deployment of a test, as its template says.
pub const LABEL_APP: &str = "app";

/// A deployment of a test, by its name.
///
/// What is read of it has the type of revisions: conditions and `controllerOf` look the same.
#[derive(Clone)]
pub struct TestDeployment<'a> {
    namespace: &'a TestNamespace,
    name: String,
}

/// A deployment that is not created yet.
#[must_use]
pub struct DeploymentBuilder<'a> {
    namespace: &'a TestNamespace,
    name: String,
    manifest: Value,
}

impl TestNamespace {
    /// A deployment to be created; in a cluster-scoped test its real name is made unique. Its
    /// revisions are selected by a label with its name.
    pub fn deployment(&self, name: &str) -> DeploymentBuilder<'_> {
        let labels = json!({ LABEL_APP: self.set_name(name) });
        let mut manifest = self.existing(name).reference();
        if self.scope() == Scope::Cluster {
            manifest["metadata"]["labels"] = json!({ LABEL_TEST: self.name() });
        }
        manifest["spec"] = json!({
            "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": {} },
        });
        DeploymentBuilder {
            namespace: self,
            name: name.to_owned(),
            manifest,
        }
    }

    /// A deployment that exists, or may come to.
    #[must_use]
    pub fn existing(&self, name: &str) -> TestDeployment<'_> {
        TestDeployment {
            namespace: self,
            name: self.set_name(name),
        }
    }

    /// The content of a revision to come, written like a revision.
    pub fn content(&self) -> SetBuilder<'_> {
        self.set("content")
    }
}

/// The content of a revision as a merge patch that leaves nothing of another content.
fn content_of(set: SetBuilder<'_>) -> Value {
    let spec = set.manifest()["spec"].take();
    let fields = CONTENT.map(|field| (field.to_owned(), spec[field].clone()));
    Map::from_iter(fields).into()
}

impl<'a> DeploymentBuilder<'a> {
    /// Sets the content of its first revision.
    pub fn content(mut self, set: SetBuilder<'_>) -> Self {
        if let Value::Object(mut content) = content_of(set) {
            content.retain(|_, value| !value.is_null());
            self.manifest["spec"]["template"]["spec"] = content.into();
        }
        self
    }

    /// Sets a field of the spec.
    pub fn spec(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.manifest["spec"][field] = value.into();
        self
    }

    /// Adds an annotation to the deployment itself.
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.manifest["metadata"]["annotations"][key] = value.into();
        self
    }

    /// Adds a label to its revisions.
    pub fn template_label(mut self, key: &str, value: &str) -> Self {
        self.manifest["spec"]["template"]["metadata"]["labels"][key] = value.into();
        self
    }

    /// The manifest as it would be created.
    #[must_use]
    pub fn manifest(self) -> Value {
        self.manifest
    }

    /// Creates it.
    pub async fn create(self) -> TestDeployment<'a> {
        let created = self.namespace.cluster().create(&self.manifest).await;
        if let Err(refused) = created {
            panic!("{} was refused: {refused:?}", self.name);
        }
        self.namespace.existing(&self.name)
    }
}

/// Conditions of a deployment whose newest content is rolled out.
const CONCLUDED: [Want<'_>; 3] = [
    Want::Because("Progressing", "False", "Idle"),
    Want::Because("Available", "True", "Available"),
    Want::Says("Available", "Latest Revision is Available."),
];

impl TestDeployment<'_> {
    /// Its real name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its identity.
    #[must_use]
    pub fn reference(&self) -> Value {
        let mut reference = json!({
            "apiVersion": "package-operator.run/v1alpha1",
            "metadata": { "name": self.name },
        });
        match self.namespace.scope() {
            Scope::Namespaced => {
                reference["kind"] = "ObjectDeployment".into();
                reference["metadata"]["namespace"] = self.namespace.name().into();
            }
            Scope::Cluster => reference["kind"] = "ClusterObjectDeployment".into(),
        }
        reference
    }

    /// The kind of its revisions.
    #[must_use]
    pub fn revision_kind(&self) -> &'static str {
        match self.namespace.scope() {
            Scope::Namespaced => "ObjectSet",
            Scope::Cluster => "ClusterObjectSet",
        }
    }

    /// Reads it; it exists.
    pub async fn read(&self) -> Revision {
        match self.namespace.cluster().get(&self.reference()).await {
            Some(json) => Revision { json },
            None => panic!("there is no deployment {}", self.name),
        }
    }

    /// Merge-patches it.
    pub async fn try_patch(&self, patch: &Value) -> Result<Revision, Refused> {
        let reference = self.reference();
        let json = self.namespace.cluster().merge(&reference, patch).await?;
        Ok(Revision { json })
    }

    /// Merge-patches it.
    pub async fn patch(&self, patch: &Value) -> Revision {
        self.try_patch(patch).await.unwrap()
    }

    /// Replaces the content of the template.
    pub async fn edit(&self, set: SetBuilder<'_>) -> Revision {
        let patch = json!({ "spec": { "template": { "spec": content_of(set) } } });
        self.patch(&patch).await
    }

    /// Pauses it.
    pub async fn pause(&self) -> Revision {
        self.patch(&json!({ "spec": { "paused": true } })).await
    }

    /// Ends its pause.
    pub async fn resume(&self) -> Revision {
        self.patch(&json!({ "spec": { "paused": false } })).await
    }

    /// Annotates it.
    pub async fn annotate(&self, key: &str, value: &str) -> Revision {
        let patch = json!({ "metadata": { "annotations": { key: value } } });
        self.patch(&patch).await
    }

    /// Deletes it; see [`Cluster::delete`](crate::cluster::Cluster::delete).
    pub async fn delete(&self, propagation: &str) {
        let cluster = self.namespace.cluster();
        assert!(cluster.delete(&self.reference(), propagation).await);
    }

    /// Waits until there is no such deployment.
    pub async fn gone(&self) {
        let cluster = self.namespace.cluster();
        let text = format!("the deployment {} to be gone", self.name);
        let gone = async || cluster.get(&self.reference()).await.is_none();
        let patient = self.namespace.within(PATIENCE);
        patient.eventually(&text, gone).await;
    }

    /// Waits until all of this holds for it at the same time, and returns it.
    pub async fn reaches(&self, wanted: &[Want<'_>]) -> Revision {
        let asked = Instant::now();
        loop {
            let deployment = self.read().await;
            if deployment.has(wanted) {
                return deployment;
            }
            if asked.elapsed() > PATIENCE {
                deployment.assert(wanted);
            }
            sleep(INTERVAL).await;
        }
    }

    /// Waits until its newest content is rolled out, and returns it. Its status may be older than
    /// what did not change its own spec; see [`concluded_as`](Self::concluded_as).
    pub async fn concluded(&self) -> Revision {
        self.reaches(&CONCLUDED).await
    }

    /// Waits until its newest content is rolled out as the revision of this number, and returns it.
    pub async fn concluded_as(&self, number: i64) -> Revision {
        let wanted = [&CONCLUDED[..], &[Want::Revision(number)]].concat();
        self.reaches(&wanted).await
    }

    /// Waits until a pass has seen it as it is now.
    pub async fn observed(&self) -> Revision {
        let asked = Instant::now();
        loop {
            let deployment = self.read().await;
            let observed = deployment.condition("Progressing").is_some_and(|reported| {
                reported["observedGeneration"] == generation(&deployment.json)
            });
            if observed {
                return deployment;
            }
            assert!(
                asked.elapsed() <= PATIENCE,
                "{} was to be observed, and is\n{}",
                self.name,
                deployment.status()
            );
            sleep(INTERVAL).await;
        }
    }

    /// The revisions that carry its name, whoever controls them, oldest first.
    pub async fn sets(&self) -> Vec<Revision> {
        let like = self.namespace.set_ref("any");
        let label = format!("package-operator.run/object-deployment={}", self.name);
        let sets = self.namespace.cluster().list(&like, &label).await;
        let mut sets: Vec<Revision> = sets
            .into_iter()
            .map(|mut json| {
                // Items of a list leave them out.
                json["apiVersion"] = like["apiVersion"].clone();
                json["kind"] = like["kind"].clone();
                Revision { json }
            })
            .collect();
        sets.sort_by_key(|set| (set.number(), set.name().to_owned()));
        sets
    }

    /// The revision of a number, which exists and is the only one of it.
    pub async fn set(&self, number: i64) -> Revision {
        let mut sets = self.sets().await;
        sets.retain(|set| set.number() == Some(number));
        match (sets.pop(), sets.pop()) {
            (Some(set), None) => set,
            (None, _) => panic!("{} has no revision {number}", self.name),
            (Some(one), Some(other)) => panic!(
                "{} and {} both are revision {number} of {}",
                one.name(),
                other.name(),
                self.name
            ),
        }
    }

    /// Waits until all of this holds for the revision of a number at the same time, and returns it.
    pub async fn set_reaches(&self, number: i64, wanted: &[Want<'_>]) -> Revision {
        let asked = Instant::now();
        loop {
            let mut sets = self.sets().await;
            sets.retain(|set| set.number() == Some(number));
            assert!(
                sets.len() < 2,
                "{} has two revisions {number}: {} and {}",
                self.name,
                sets[0].name(),
                sets[1].name()
            );
            if let Some(set) = sets.pop() {
                if set.has(wanted) {
                    return set;
                }
                if asked.elapsed() > PATIENCE {
                    set.assert(wanted);
                }
            }
            assert!(
                asked.elapsed() <= PATIENCE,
                "waited in vain for revision {number} of {}",
                self.name
            );
            sleep(INTERVAL).await;
        }
    }

    /// Waits until it has exactly the revisions of these numbers, and returns them.
    pub async fn has_sets(&self, numbers: &[i64]) -> Vec<Revision> {
        let asked = Instant::now();
        loop {
            let sets = self.sets().await;
            if sets
                .iter()
                .filter_map(Revision::number)
                .eq(numbers.iter().copied())
            {
                return sets;
            }
            let found: Vec<_> = sets.iter().map(|set| (set.number(), set.name())).collect();
            assert!(
                asked.elapsed() <= PATIENCE,
                "{} was to have exactly the revisions {numbers:?}, and has {found:?}",
                self.name
            );
            sleep(INTERVAL).await;
        }
    }
}

/// The life cycle state that is asked of a revision.
#[must_use]
pub fn lifecycle(set: &Revision) -> &str {
    match set.json["spec"]["lifecycleState"].as_str() {
        None | Some("") => "Active",
        Some(state) => state,
    }
}

/// The names in `spec.previous`.
#[must_use]
pub fn previous(set: &Revision) -> Vec<&str> {
    let previous = set.json["spec"]["previous"].as_array();
    let names = previous.into_iter().flatten();
    names.filter_map(|entry| entry["name"].as_str()).collect()
}

/// `metadata.generation`.
#[must_use]
pub fn generation(object: &Value) -> i64 {
    object["metadata"]["generation"]
        .as_i64()
        .unwrap_or_default()
}

/// An annotation; empty when there is none.
#[must_use]
pub fn annotation<'a>(object: &'a Value, key: &str) -> &'a str {
    let annotation = &object["metadata"]["annotations"][key];
    annotation.as_str().unwrap_or_default()
}

/// Whether one object is the managing owner of another, checked both ways: by the owner reference, and
/// by the full entry in the owner's `controllerOf`.
#[must_use]
pub fn is_owner(owner: &Value, object: &Value) -> bool {
    let by_reference = object["metadata"]["ownerReferences"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|reference| reference["controller"] == true && reference["uid"] == *uid(owner));
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let entry = json!({
        "kind": object["kind"],
        "group": group,
        "name": object["metadata"]["name"],
        "namespace": object["metadata"]["namespace"],
    });
    let by_entry = owner["status"]["controllerOf"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|other| {
            let same = |field: &str| {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                text(&other[field]) == text(&entry[field])
            };
            ["kind", "group", "name", "namespace"].into_iter().all(same)
        });
    let named = controller(object) == owner["metadata"]["name"];
    assert_eq!(by_reference, by_entry, "{owner}\nand\n{object}");
    assert!(!by_reference || named, "{owner}\nand\n{object}");
    by_reference
}
