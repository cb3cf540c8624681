//! Manifests in few words.

use serde_json::{Map, Value, json};

/// An object as an entry of a phase: its manifest, and how a revision is to treat it. Also stands
/// for the object of its identity wherever one is read or changed.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The manifest.
    pub manifest: Value,
    options: Map<String, Value>,
}

/// An object of any kind.
#[must_use]
pub fn object(api_version: &str, kind: &str, name: &str) -> Entry {
    Entry {
        manifest: json!({ "apiVersion": api_version, "kind": kind, "metadata": { "name": name } }),
        options: Map::new(),
    }
}

/// A `ConfigMap` without data.
#[must_use]
pub fn configmap(name: &str) -> Entry {
    object("v1", "ConfigMap", name)
}

/// A `Secret` without data.
#[must_use]
pub fn secret(name: &str) -> Entry {
    object("v1", "Secret", name)
}

impl Entry {
    /// Sets a field by its JSON pointer, making the maps on the way.
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

    /// Puts it into a namespace.
    #[must_use]
    pub fn within(mut self, namespace: &str) -> Self {
        self.manifest["metadata"]["namespace"] = namespace.into();
        self
    }

    /// Adds the finalizer of a controller that never does its part.
    #[must_use]
    pub fn blocked(mut self) -> Self {
        self.manifest["metadata"]["finalizers"] = json!([BLOCKING_FINALIZER]);
        self
    }

    /// Adds an owner reference of a controller that nobody knows.
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

    /// Copies a condition of the object to the revision.
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

    /// Leaves fields to others once the object exists.
    #[must_use]
    pub fn create_only(mut self, paths: &[&str]) -> Self {
        self.options
            .insert("createOnlyFields".to_owned(), paths.into());
        self
    }

    /// The kind.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.manifest["kind"].as_str().unwrap_or_default()
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.manifest["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
    }

    /// As it stands in a phase or a slice.
    #[must_use]
    pub fn into_json(self) -> Value {
        let mut entry = self.options;
        entry.insert("object".to_owned(), self.manifest);
        entry.into()
    }
}

/// The finalizer that [`Entry::blocked`] adds.
pub const BLOCKING_FINALIZER: &str = "baton.run/test-blocks";

/// A controller that nobody knows.
#[must_use]
pub fn foreign_controller() -> Value {
    json!({
        "apiVersion": "3", "kind": "notus", "name": "notuse", "uid": "a",
        "controller": true, "blockOwnerDeletion": true,
    })
}

/// A probe entry: two fields of every object of a kind have to be equal.
#[must_use]
pub fn fields_equal(group: &str, kind: &str, a: &str, b: &str) -> Value {
    json!({
        "selector": { "kind": { "group": group, "kind": kind } },
        "probes": [{ "fieldsEqual": { "fieldA": a, "fieldB": b } }],
    })
}

/// A probe entry: every object of a kind has to report a condition as true.
#[must_use]
pub fn condition_probe(group: &str, kind: &str, type_: &str) -> Value {
    json!({
        "selector": { "kind": { "group": group, "kind": kind } },
        "probes": [{ "condition": { "type": type_, "status": "True" } }],
    })
}

/// A `ConfigMap` passes once it is annotated with its own name.
#[must_use]
pub fn name_annotation_probe() -> Value {
    fields_equal(
        "",
        "ConfigMap",
        ".metadata.name",
        ".metadata.annotations.name",
    )
}

/// A probe entry: a rule about every object of a kind has to hold.
#[must_use]
pub fn cel_probe(group: &str, kind: &str, rule: &str, message: &str) -> Value {
    json!({
        "selector": { "kind": { "group": group, "kind": kind } },
        "probes": [{ "cel": { "rule": rule, "message": message } }],
    })
}
