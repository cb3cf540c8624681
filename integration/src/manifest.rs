//! Builders of manifests.

use serde_json::{Map, Value, json};

/// An object as an entry of a phase: its manifest, and the options of the revision for it. An entry
/// also identifies the object in reads and changes.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The manifest.
    pub manifest: Value,
    options: Map<String, Value>,
}

/// Returns an object of any kind.
#[must_use]
pub fn object(api_version: &str, kind: &str, name: &str) -> Entry {
    Entry {
        manifest: json!({ "apiVersion": api_version, "kind": kind, "metadata": { "name": name } }),
        options: Map::new(),
    }
}

/// Returns a `ConfigMap` without data.
#[must_use]
pub fn configmap(name: &str) -> Entry {
    object("v1", "ConfigMap", name)
}

/// Returns a `Secret` without data.
#[must_use]
pub fn secret(name: &str) -> Entry {
    object("v1", "Secret", name)
}

/// Returns the definition of a kind `Tool`, version `v1`, of a test's own group. `scope` is `Namespaced`
/// or `Cluster`.
#[must_use]
pub fn tool_definition(group: &str, scope: &str, schema: &Value) -> Entry {
    let names =
        json!({ "plural": "tools", "singular": "tool", "kind": "Tool", "listKind": "ToolList" });
    let version = json!({ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } });
    let spec = json!({ "group": group, "scope": scope, "names": names, "versions": [version] });
    let name = format!("tools.{group}");
    object("apiextensions.k8s.io/v1", "CustomResourceDefinition", &name).with("/spec", spec)
}

impl From<Value> for Entry {
    fn from(manifest: Value) -> Self {
        Self {
            manifest,
            options: Map::new(),
        }
    }
}

impl Entry {
    /// Sets a field by its JSON pointer, and creates the maps on the way.
    #[must_use]
    pub fn with(mut self, pointer: &str, value: impl Into<Value>) -> Self {
        let keys = pointer.split('/').skip(1);
        let field = keys.fold(&mut self.manifest, |at, key| {
            &mut at[key.replace("~1", "/").replace("~0", "~")]
        });
        *field = value.into();
        self
    }

    /// Sets a key of `data`.
    #[must_use]
    pub fn data(mut self, key: &str, value: &str) -> Self {
        self.manifest["data"][key] = value.into();
        self
    }

    /// Sets an annotation.
    #[must_use]
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.manifest["metadata"]["annotations"][key] = value.into();
        self
    }

    /// Sets a label.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.manifest["metadata"]["labels"][key] = value.into();
        self
    }

    /// Sets the namespace.
    #[must_use]
    pub fn within(mut self, namespace: &str) -> Self {
        self.manifest["metadata"]["namespace"] = namespace.into();
        self
    }

    /// Adds the finalizer of a controller that never removes it.
    #[must_use]
    pub fn blocked(mut self) -> Self {
        self.manifest["metadata"]["finalizers"] = json!([BLOCKING_FINALIZER]);
        self
    }

    /// Adds an owner reference to a controller that does not exist.
    #[must_use]
    pub fn foreign(mut self) -> Self {
        self.manifest["metadata"]["ownerReferences"] = json!([foreign_controller()]);
        self
    }

    /// Sets `collisionProtection`.
    #[must_use]
    pub fn collision(mut self, protection: &str) -> Self {
        self.options
            .insert("collisionProtection".to_owned(), protection.into());
        self
    }

    /// Maps a condition of the object to a condition of the revision.
    #[must_use]
    pub fn map(mut self, source: &str, destination: &str) -> Self {
        let mapping = json!({ "sourceType": source, "destinationType": destination });
        let mappings = self
            .options
            .entry("conditionMappings")
            .or_insert_with(|| json!([]));
        mappings.as_array_mut().unwrap().push(mapping);
        self
    }

    /// Sets `createOnlyFields`: a revision sets these fields only when it creates the object.
    #[must_use]
    pub fn create_only(mut self, paths: &[&str]) -> Self {
        self.options
            .insert("createOnlyFields".to_owned(), paths.into());
        self
    }

    /// Returns the kind.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.manifest["kind"].as_str().unwrap_or_default()
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.manifest["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
    }

    /// Returns the entry in the format of phases and slices.
    #[must_use]
    pub fn into_json(self) -> Value {
        let mut entry = self.options;
        entry.insert("object".to_owned(), self.manifest);
        entry.into()
    }
}

/// The finalizer that [`Entry::blocked`] adds.
pub const BLOCKING_FINALIZER: &str = "baton.run/test-blocks";

/// Returns an owner reference to a controller that does not exist.
#[must_use]
pub fn foreign_controller() -> Value {
    json!({
        "apiVersion": "3", "kind": "notus", "name": "notuse", "uid": "a",
        "controller": true, "blockOwnerDeletion": true,
    })
}

/// Returns a probe: two fields of every object of a kind must be equal.
#[must_use]
pub fn fields_equal(group: &str, kind: &str, a: &str, b: &str) -> Value {
    json!({
        "selector": { "kind": { "group": group, "kind": kind } },
        "probes": [{ "fieldsEqual": { "fieldA": a, "fieldB": b } }],
    })
}

/// Returns a probe: every object of a kind must report a condition as true.
#[must_use]
pub fn condition_probe(group: &str, kind: &str, type_: &str) -> Value {
    json!({
        "selector": { "kind": { "group": group, "kind": kind } },
        "probes": [{ "condition": { "type": type_, "status": "True" } }],
    })
}

/// Returns a probe: a `ConfigMap` must have an annotation whose value is its own name.
#[must_use]
pub fn name_annotation_probe() -> Value {
    fields_equal(
        "",
        "ConfigMap",
        ".metadata.name",
        ".metadata.annotations.name",
    )
}

/// Returns a probe: a rule must hold for every object of a kind.
#[must_use]
pub fn cel_probe(group: &str, kind: &str, rule: &str, message: &str) -> Value {
    json!({
        "selector": { "kind": { "group": group, "kind": kind } },
        "probes": [{ "cel": { "rule": rule, "message": message } }],
    })
}
