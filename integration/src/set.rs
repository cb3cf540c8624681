//! Builders of revisions.

use serde_json::{Value, json};

use crate::cluster::{Refused, is_namespaced};
use crate::manifest::Entry;
use crate::namespace::{Scope, TestNamespace};
use crate::revision::{Expectation, Revision};

/// A revision that is not created yet.
#[must_use]
pub struct SetBuilder<'a> {
    namespace: &'a TestNamespace,
    name: String,
    manifest: Value,
}

impl<'a> SetBuilder<'a> {
    pub(crate) fn new(namespace: &'a TestNamespace, name: &str) -> Self {
        let manifest = namespace.set_ref(name);
        Self {
            namespace,
            name: name.to_owned(),
            manifest,
        }
    }

    /// Sets the number.
    pub fn revision(self, number: i64) -> Self {
        self.spec("revision", number)
    }

    /// Sets the predecessors.
    pub fn previous(self, names: &[&str]) -> Self {
        let names = names
            .iter()
            .map(|name| json!({ "name": self.namespace.set_name(name) }));
        let names: Vec<Value> = names.collect();
        self.spec("previous", names)
    }

    /// Adds a phase.
    pub fn phase(self, name: &str, objects: impl IntoIterator<Item = Entry>) -> Self {
        self.phase_with_slices(name, objects, &[])
    }

    /// Adds a phase that has objects of its own and, after them, those of slices.
    pub fn phase_with_slices(
        mut self,
        name: &str,
        objects: impl IntoIterator<Item = Entry>,
        slices: &[&str],
    ) -> Self {
        let objects = objects
            .into_iter()
            .map(|entry| self.namespace.with_namespace(entry).into_json());
        let mut phase = json!({ "name": name, "objects": objects.collect::<Vec<_>>() });
        if !slices.is_empty() {
            let slices = slices.iter().map(|slice| self.namespace.set_name(slice));
            phase["slices"] = slices.collect::<Vec<_>>().into();
        }
        push(&mut self.manifest["spec"]["phases"], phase);
        self
    }

    /// Adds a phase that is delegated to the controller of a class. Its objects name their
    /// namespace.
    pub fn delegated(
        mut self,
        name: &str,
        class: &str,
        objects: impl IntoIterator<Item = Entry>,
    ) -> Self {
        let objects = objects
            .into_iter()
            .map(|entry| self.namespace.here(entry).into_json());
        let objects: Vec<Value> = objects.collect();
        let phase = json!({ "name": name, "class": class, "objects": objects });
        push(&mut self.manifest["spec"]["phases"], phase);
        self
    }

    /// Delegates the last phase to the controller of a class, unless the class is empty.
    pub fn class(mut self, class: &str) -> Self {
        let phases = self.manifest["spec"]["phases"].as_array_mut();
        if let Some(phase) = phases.and_then(|phases| phases.last_mut()) {
            phase["class"] = class.into();
        }
        self
    }

    /// Adds a phase of a class. If the class is empty, the manager itself runs the phase.
    pub fn phase_of(
        self,
        class: &str,
        name: &str,
        objects: impl IntoIterator<Item = Entry>,
    ) -> Self {
        if class.is_empty() {
            self.phase(name, objects)
        } else {
            self.delegated(name, class, objects)
        }
    }

    /// Adds an entry of availability probes.
    pub fn probe(mut self, probe: Value) -> Self {
        push(&mut self.manifest["spec"]["availabilityProbes"], probe);
        self
    }

    /// Sets the desired life cycle state.
    pub fn lifecycle(self, state: &str) -> Self {
        self.spec("lifecycleState", state)
    }

    /// Adds a label to the revision itself.
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.manifest["metadata"]["labels"][key] = value.into();
        self
    }

    /// Adds an annotation to the revision itself.
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.manifest["metadata"]["annotations"][key] = value.into();
        self
    }

    /// Sets a field of the spec.
    pub fn spec(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.manifest["spec"][field] = value.into();
        self
    }

    /// Returns the manifest without creating it.
    #[must_use]
    pub fn manifest(self) -> Value {
        self.manifest
    }

    /// Creates the revision.
    pub async fn create(self) -> Revision {
        let name = self.manifest["metadata"]["name"].clone();
        match self.try_create().await {
            Ok(revision) => revision,
            Err(refused) => panic!("{name} was refused: {refused:?}"),
        }
    }

    /// Creates the revision and waits until it satisfies all conditions at the same time.
    pub async fn reaching(self, wanted: &[Expectation<'_>]) -> Revision {
        let (namespace, name) = (self.namespace, self.name.clone());
        self.create().await;
        namespace.reaches(&name, wanted).await
    }

    /// Creates the revision and waits until it is available.
    pub async fn available(self) -> Revision {
        self.reaching(&[Expectation::Is("Available", "True")]).await
    }

    /// Creates the revision, or returns the server's refusal.
    pub async fn try_create(self) -> Result<Revision, Refused> {
        let json = self.namespace.cluster().create(&self.manifest).await?;
        Ok(Revision { json })
    }
}

impl TestNamespace {
    /// Starts a revision. In a cluster-scoped test its real name is made unique.
    pub fn set(&self, name: &str) -> SetBuilder<'_> {
        SetBuilder::new(self, name)
    }

    /// Starts a numbered revision of a chain: `v1`, `v2` and so on, each with the previous one as
    /// its predecessor.
    pub fn revision(&self, number: i64) -> SetBuilder<'_> {
        let set = self.set(&format!("v{number}")).revision(number);
        match number {
            1 => set,
            _ => set.previous(&[&format!("v{}", number - 1)]),
        }
    }

    /// Creates a slice, with the scope of the test's revisions.
    pub async fn create_slice(&self, name: &str, objects: impl IntoIterator<Item = Entry>) {
        let objects = objects
            .into_iter()
            .map(|entry| self.with_namespace(entry).into_json());
        let mut slice = self.slice_ref(name);
        slice["objects"] = objects.collect::<Vec<_>>().into();
        self.cluster().create(&slice).await.unwrap();
    }

    /// Returns the identity of a slice.
    #[must_use]
    pub fn slice_ref(&self, name: &str) -> Value {
        let mut slice = self.set_ref(name);
        slice["kind"] = match self.scope() {
            Scope::Namespaced => "ObjectSlice",
            Scope::Cluster => "ClusterObjectSlice",
        }
        .into();
        slice
    }

    /// Returns the identity of the object of a delegated phase.
    #[must_use]
    pub fn phase_ref(&self, set: &str, phase: &str) -> Value {
        let mut reference = self.set_ref(&format!("{set}-{phase}"));
        reference["kind"] = match self.scope() {
            Scope::Namespaced => "ObjectSetPhase",
            Scope::Cluster => "ClusterObjectSetPhase",
        }
        .into();
        reference
    }

    /// Reads the object of a delegated phase.
    pub async fn phase_object(&self, set: &str, phase: &str) -> Option<Revision> {
        let reference = self.phase_ref(set, phase);
        let json = self.cluster().get(&reference).await?;
        Some(Revision { json })
    }

    /// Puts an entry into the test's namespace, unless the entry names one or its kind has none. A
    /// namespaced revision sets the namespace of its objects itself, so nothing changes there.
    pub(crate) fn with_namespace(&self, entry: Entry) -> Entry {
        match self.scope() {
            Scope::Namespaced => entry,
            Scope::Cluster => self.here(entry),
        }
    }

    /// Puts an entry into the test's namespace as [`Self::place`] does, but in both scopes.
    pub(crate) fn here(&self, entry: Entry) -> Entry {
        let elsewhere = entry.manifest["metadata"].get("namespace").is_some();
        if elsewhere || !is_namespaced(entry.kind()) {
            entry
        } else {
            entry.within(self.name())
        }
    }
}

fn push(list: &mut Value, item: Value) {
    match list {
        Value::Array(items) => items.push(item),
        other => *other = json!([item]),
    }
}
