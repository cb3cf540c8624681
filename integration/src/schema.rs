//! Schemas of earlier releases, for tests of content that those releases accepted.

use serde_json::{Value, json};

use crate::manifest::{Entry, object};
use crate::namespace::{Scope, TestNamespace};
use crate::set::SetBuilder;

/// The schema of a test's revisions, replaced by one that accepts more.
///
/// The schema applies to the whole cluster, so the test must have the cluster to itself.
#[must_use = "the schema has to be restored"]
pub struct LooseSchema<'a> {
    ns: &'a TestNamespace,
    crd: Entry,
    original: Value,
    /// A revision that only the loose schema accepts.
    probe: Value,
}

impl TestNamespace {
    /// Changes the schema of the fields of a revision's spec. Returns when the server accepts
    /// `set`, which it refuses with the present schema.
    pub async fn loosen_schema<'a>(
        &'a self,
        set: SetBuilder<'_>,
        loosen: impl FnOnce(&mut Value),
    ) -> LooseSchema<'a> {
        let plural = match self.scope() {
            Scope::Namespaced => "objectsets.package-operator.run",
            Scope::Cluster => "clusterobjectsets.package-operator.run",
        };
        let api_version = "apiextensions.k8s.io/v1";
        let crd = object(api_version, "CustomResourceDefinition", plural);
        let original = self.live(&crd).await["spec"].take();
        let mut spec = original.clone();
        let fields = "/versions/0/schema/openAPIV3Schema/properties/spec/properties";
        loosen(spec.pointer_mut(fields).unwrap());
        let mut probe = set.manifest();
        // A manager has no work for an archived revision.
        probe["spec"]["lifecycleState"] = "Archived".into();
        let schema = LooseSchema {
            ns: self,
            crd,
            original,
            probe,
        };
        schema.exchange(spec, true).await;
        schema
    }
}

impl LooseSchema<'_> {
    /// Restores the schema, and returns when it is in force.
    pub async fn restore(self) {
        self.exchange(self.original.clone(), false).await;
    }

    async fn exchange(&self, spec: Value, is_loose: bool) {
        let Self { ns, crd, probe, .. } = self;
        ns.merge(crd, &json!({ "spec": spec })).await;
        ns.eventually("the schema to be in force", async || {
            let created = ns.cluster().create(probe).await;
            if created.is_ok() {
                ns.cluster().delete(probe, "Background").await;
                ns.until_gone(probe).await;
            }
            created.is_ok() == is_loose
        })
        .await;
    }
}
