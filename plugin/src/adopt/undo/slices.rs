//! Slices of a deployment, which remain if their owners are deleted without their objects.

use std::collections::BTreeSet;

use baton_apis::constants::LABEL_OBJECT_DEPLOYMENT;
use baton_cluster::{Cluster, lists};
use baton_engine::object::{owner_references, text};
use baton_kubernetes::wire::MediaType;
use baton_view::{
    chain::{Chain, kind::ChainKind},
    lists::ListQuery,
    object::text_at,
};
use http::Method;
use serde_json::{Value, json};

use crate::{error::Error, pack::build::LABEL_SLICE_OWNER};

/// Labels that name the deployment that a slice was created for, set by the manager and by `pack`.
const OF_DEPLOYMENT: [&str; 2] = [LABEL_OBJECT_DEPLOYMENT, LABEL_SLICE_OWNER];

/// The slices of deployments of a kind.
pub(super) struct Collection<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) kind: ChainKind,
}

impl Collection<'_> {
    fn path(&self) -> String {
        self.kind.slice().path(self.cluster.namespace_of(self.kind))
    }

    async fn read(&self) -> Result<Vec<Value>, Error> {
        let query = ListQuery {
            metadata_only: true,
            ..ListQuery::default()
        };
        Ok(self.cluster.list_at(&self.path(), &query).await?)
    }

    /// Names of the existing slices that a chain names, or that were created for its deployment.
    pub(super) async fn of(
        &self,
        chain: &Chain,
        deployment: &str,
    ) -> Result<BTreeSet<String>, Error> {
        let wanted: BTreeSet<&str> = named(chain).collect();
        let slices = self.read().await?;
        let names = slices.iter().filter_map(|slice| {
            let name = text_at(slice, "/metadata/name");
            (wanted.contains(name) || is_made_for(slice, deployment)).then(|| name.to_owned())
        });
        Ok(names.collect())
    }

    /// The slices in `names` that are not needed once the objects with UIDs in `gone` are deleted:
    /// they have no other owner, and no chain names them.
    pub(super) async fn free(
        &self,
        names: &BTreeSet<String>,
        gone: &BTreeSet<&str>,
    ) -> Result<Vec<Value>, Error> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let chains = lists::chains(
            self.cluster,
            self.kind,
            self.cluster.namespace_of(self.kind),
        )
        .await?;
        let wanted: BTreeSet<&str> = chains.iter().flat_map(named).collect();
        let mut slices = self.read().await?;
        slices.retain(|slice| {
            let name = text_at(slice, "/metadata/name");
            let mut owners = owner_references(slice).iter();
            // Garbage collection may not have removed the references yet.
            let is_free = owners.all(|owner| gone.contains(text(owner, "uid")));
            names.contains(name) && !wanted.contains(name) && is_free
        });
        Ok(slices)
    }

    /// The name that kubectl prints.
    pub(super) fn title(&self, slice: &Value) -> String {
        let kind = self.kind.slice();
        format!(
            "{}.{}/{}",
            kind.singular(),
            kind.group,
            text_at(slice, "/metadata/name")
        )
    }

    /// Deletes a slice, unless it has changed since it was read.
    pub(super) async fn delete(&self, slice: &Value) -> Result<(), Error> {
        let path = format!("{}/{}", self.path(), text_at(slice, "/metadata/name"));
        let metadata = &slice["metadata"];
        let body = json!({"preconditions": {
            "uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"],
        }});
        let body = Some((MediaType::Json, &body));
        match self.cluster.send(Method::DELETE, &path, body).await {
            Err(error) if error.is_code(404) => Ok(()),
            answer => Ok(answer.map(drop)?),
        }
    }
}

/// The slices that a deployment and its revisions name.
fn named(chain: &Chain) -> impl Iterator<Item = &str> {
    let template = chain.deployment.iter();
    let template = template.map(|deployment| &deployment.spec.template.spec.phases);
    let revisions = chain.revisions.iter().map(|revision| &revision.spec.phases);
    let phases = template.chain(revisions).flatten().flatten();
    phases.flat_map(|phase| phase.slices.iter().map(String::as_str))
}

fn is_made_for(slice: &Value, deployment: &str) -> bool {
    let labels = slice.pointer("/metadata/labels");
    labels.is_some_and(|labels| {
        OF_DEPLOYMENT
            .iter()
            .any(|label| text(labels, label) == deployment)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::selection::from_objects;

    #[test]
    fn slices_are_found_by_name_or_by_label() {
        let content =
            json!({"phases": [{"name": "a", "slices": ["x"]}, {"name": "b", "slices": ["y"]}]});
        let own = json!({"apiVersion": "package-operator.run/v1alpha1", "metadata": {"name": "shop", "uid": "d"}});
        let mut deployment = own.clone();
        deployment["kind"] = "ObjectDeployment".into();
        deployment["spec"] = json!({"selector": {}, "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"phases": [{"name": "a", "slices": ["next"]}]},
        }});
        let mut revision = own;
        revision["kind"] = "ObjectSet".into();
        revision["metadata"] = json!({"name": "shop-a", "uid": "s", "ownerReferences": [{
            "apiVersion": "package-operator.run/v1alpha1", "kind": "ObjectDeployment", "name": "shop", "uid": "d",
            "controller": true,
        }]});
        revision["spec"] = content;
        revision["spec"]["lifecycleState"] = "Archived".into();
        let chains = from_objects(vec![deployment], vec![revision]);
        assert_eq!(named(&chains[0]).collect::<Vec<_>>(), ["next", "x", "y"]);
        for (labels, expected) in [
            (
                json!({"package-operator.run/object-deployment": "shop"}),
                true,
            ),
            (json!({"slices.package-operator.run/owner": "shop"}), true),
            (
                json!({"slices.package-operator.run/owner": "shop-2"}),
                false,
            ),
            (json!({"app": "shop"}), false),
        ] {
            let slice = json!({"metadata": {"labels": labels}});
            assert_eq!(is_made_for(&slice, "shop"), expected, "{slice}");
        }
    }
}
