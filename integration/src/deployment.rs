//! Deployments, and the revisions that they create.

use serde_json::{Map, Value, json};

use crate::cluster::Refused;
use crate::live::{controller, uid};
use crate::namespace::{LABEL_TEST, Scope, TIMEOUT, TestNamespace};
use crate::polls::Polls;
use crate::revision::{Expectation, Revision};
use crate::set::SetBuilder;

/// The fields of a revision's content, which a template and a revision have in common.
const CONTENT: [&str; 4] = [
    "phases",
    "availabilityProbes",
    "successDelaySeconds",
    "serviceAccountName",
];

/// The label of a deployment's revisions, as its template sets it.
pub const LABEL_APP: &str = "app";

/// A deployment of a test, by name.
///
/// A deployment is read with the type of revisions, because the conditions and `controllerOf` have
/// the same form.
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
    /// Starts a deployment. In a cluster-scoped test its real name is made unique. Its revisions
    /// are selected by a label with that name.
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

    /// Returns a deployment by name. It may not exist yet.
    #[must_use]
    pub fn existing(&self, name: &str) -> TestDeployment<'_> {
        TestDeployment {
            namespace: self,
            name: self.set_name(name),
        }
    }

    /// Starts the content of a template, written like a revision.
    pub fn content(&self) -> SetBuilder<'_> {
        self.set("content")
    }
}

/// Returns the content of a revision as a merge patch that removes all other content.
fn content_of(set: SetBuilder<'_>) -> Value {
    let spec = set.manifest()["spec"].take();
    let fields = CONTENT.map(|field| (field.to_owned(), spec[field].clone()));
    Map::from_iter(fields).into()
}

impl<'a> DeploymentBuilder<'a> {
    /// Sets the content of the first revision.
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

    /// Adds a label to the revisions.
    pub fn template_label(mut self, key: &str, value: &str) -> Self {
        self.manifest["spec"]["template"]["metadata"]["labels"][key] = value.into();
        self
    }

    /// Returns the manifest without creating it.
    #[must_use]
    pub fn manifest(self) -> Value {
        self.manifest
    }

    /// Creates the deployment.
    pub async fn create(self) -> TestDeployment<'a> {
        let created = self.namespace.cluster().create(&self.manifest).await;
        if let Err(refused) = created {
            panic!("{} was refused: {refused:?}", self.name);
        }
        self.namespace.existing(&self.name)
    }
}

/// Conditions of a deployment whose newest content is rolled out.
pub const CONCLUDED: [Expectation<'_>; 3] = [
    Expectation::Because("Progressing", "False", "Idle"),
    Expectation::Because("Available", "True", "Available"),
    Expectation::Says("Available", "Latest Revision is Available."),
];

impl TestDeployment<'_> {
    /// Returns the real name of the deployment.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the identity of the deployment.
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

    /// Returns the kind of the deployment's revisions.
    #[must_use]
    pub fn revision_kind(&self) -> &'static str {
        match self.namespace.scope() {
            Scope::Namespaced => "ObjectSet",
            Scope::Cluster => "ClusterObjectSet",
        }
    }

    /// Reads the deployment, which must exist.
    pub async fn read(&self) -> Revision {
        match self.namespace.cluster().get(&self.reference()).await {
            Some(json) => Revision { json },
            None => panic!("there is no deployment {}", self.name),
        }
    }

    /// Merge-patches the deployment, and returns a refusal.
    pub async fn try_patch(&self, patch: &Value) -> Result<Revision, Refused> {
        let reference = self.reference();
        let json = self.namespace.cluster().merge(&reference, patch).await?;
        Ok(Revision { json })
    }

    /// Merge-patches the deployment, which must succeed.
    pub async fn patch(&self, patch: &Value) -> Revision {
        self.try_patch(patch).await.unwrap()
    }

    /// Replaces the content of the template.
    pub async fn edit(&self, set: SetBuilder<'_>) -> Revision {
        let patch = json!({ "spec": { "template": { "spec": content_of(set) } } });
        self.patch(&patch).await
    }

    /// Pauses the deployment.
    pub async fn pause(&self) -> Revision {
        self.patch(&json!({ "spec": { "paused": true } })).await
    }

    /// Ends the pause.
    pub async fn resume(&self) -> Revision {
        self.patch(&json!({ "spec": { "paused": false } })).await
    }

    /// Sets an annotation of the deployment.
    pub async fn annotate(&self, key: &str, value: &str) -> Revision {
        let patch = json!({ "metadata": { "annotations": { key: value } } });
        self.patch(&patch).await
    }

    /// Deletes the deployment; see [`Cluster::delete`](crate::cluster::Cluster::delete).
    pub async fn delete(&self, propagation: &str) {
        let cluster = self.namespace.cluster();
        assert!(cluster.delete(&self.reference(), propagation).await);
    }

    /// Waits until the deployment does not exist.
    pub async fn gone(&self) {
        let cluster = self.namespace.cluster();
        let text = format!("the deployment {} to be gone", self.name);
        let gone = async || cluster.get(&self.reference()).await.is_none();
        let patient = self.namespace.within(TIMEOUT);
        patient.eventually(&text, gone).await;
    }

    /// Waits until the deployment satisfies all conditions at the same time, and returns it.
    pub async fn reaches(&self, wanted: &[Expectation<'_>]) -> Revision {
        let polls = Polls::start();
        loop {
            let deployment = self.read().await;
            if deployment.has(wanted) {
                return deployment;
            }
            if polls.elapsed() > TIMEOUT {
                deployment.assert(wanted);
            }
            polls.pause().await;
        }
    }

    /// Waits until the newest content is rolled out, and returns the deployment. A change that does
    /// not touch the deployment's own spec may not be in the status yet; see
    /// [`concluded_as`](Self::concluded_as).
    pub async fn concluded(&self) -> Revision {
        self.reaches(&CONCLUDED).await
    }

    /// Waits until the newest content is rolled out as the revision of this number, and returns the
    /// deployment.
    pub async fn concluded_as(&self, number: i64) -> Revision {
        let wanted = [&CONCLUDED[..], &[Expectation::Revision(number)]].concat();
        self.reaches(&wanted).await
    }

    /// Waits until the status reports the current generation, and returns the deployment.
    pub async fn observed(&self) -> Revision {
        let polls = Polls::start();
        loop {
            let deployment = self.read().await;
            let observed = deployment.condition("Progressing").is_some_and(|reported| {
                reported["observedGeneration"] == generation(&deployment.json)
            });
            if observed {
                return deployment;
            }
            assert!(
                polls.elapsed() <= TIMEOUT,
                "{} was to be observed, and is\n{}",
                self.name,
                deployment.status()
            );
            polls.pause().await;
        }
    }

    /// Returns the revisions that carry the deployment's name, whatever controls them, oldest
    /// first.
    pub async fn sets(&self) -> Vec<Revision> {
        let like = self.namespace.set_ref("any");
        let label = format!("package-operator.run/object-deployment={}", self.name);
        let sets = self.namespace.cluster().list(&like, &label).await;
        let mut sets: Vec<Revision> = sets
            .into_iter()
            .map(|mut json| {
                // The server omits these fields in the items of a list.
                json["apiVersion"] = like["apiVersion"].clone();
                json["kind"] = like["kind"].clone();
                Revision { json }
            })
            .collect();
        sets.sort_by_key(|set| (set.number(), set.name().to_owned()));
        sets
    }

    /// Returns the revision of a number, which must exist and be the only one with this number.
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

    /// Waits until the revision of a number satisfies all conditions at the same time, and returns
    /// it.
    pub async fn set_reaches(&self, number: i64, wanted: &[Expectation<'_>]) -> Revision {
        let polls = Polls::start();
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
                if polls.elapsed() > TIMEOUT {
                    set.assert(wanted);
                }
            }
            assert!(
                polls.elapsed() <= TIMEOUT,
                "waited in vain for revision {number} of {}",
                self.name
            );
            polls.pause().await;
        }
    }

    /// Waits until the deployment has exactly the revisions of these numbers, and returns them.
    pub async fn has_sets(&self, numbers: &[i64]) -> Vec<Revision> {
        let polls = Polls::start();
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
                polls.elapsed() <= TIMEOUT,
                "{} was to have exactly the revisions {numbers:?}, and has {found:?}",
                self.name
            );
            polls.pause().await;
        }
    }
}

/// Returns the desired life cycle state of a revision.
#[must_use]
pub fn lifecycle(set: &Revision) -> &str {
    match set.json["spec"]["lifecycleState"].as_str() {
        None | Some("") => "Active",
        Some(state) => state,
    }
}

/// Returns the names in `spec.previous`.
#[must_use]
pub fn previous(set: &Revision) -> Vec<&str> {
    let previous = set.json["spec"]["previous"].as_array();
    let names = previous.into_iter().flatten();
    names.filter_map(|entry| entry["name"].as_str()).collect()
}

/// Returns `metadata.generation`.
#[must_use]
pub fn generation(object: &Value) -> i64 {
    object["metadata"]["generation"]
        .as_i64()
        .unwrap_or_default()
}

/// Returns an annotation, or an empty text if there is none.
#[must_use]
pub fn annotation<'a>(object: &'a Value, key: &str) -> &'a str {
    let annotation = &object["metadata"]["annotations"][key];
    annotation.as_str().unwrap_or_default()
}

/// True if one object is the controller of another. Checked both ways: by the owner reference, and
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
