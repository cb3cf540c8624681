//! The way back: the objects stay as they are, without an owner, and their fields go back to the tool that had them.

use std::collections::BTreeSet;
use std::time::Duration;

use baton_apis::constants::{
    ANNOTATION_FORMER_MANAGERS, ANNOTATION_LAST_APPLIED, ANNOTATION_REVISION, FIELD_MANAGER,
    FORMER_FIELD_MANAGERS, LABEL_CACHE,
};
use baton_engine::object::text;
use baton_engine::{Gvk, ObjectKey};
use http::Method;
use serde_json::{Value, json};

use crate::chain::{self, Chain, Revision};
use crate::children::{Children, Detail, Found, Owner, owner};
use crate::connect::{Body, Cluster, Write};
use crate::content::{RevisionContent, Slices};
use crate::delegates::Delegates;
use crate::diff::describe;
use crate::error::Error;
use crate::output::format::name;
use crate::rollout::watch_until;
use crate::target::{Kind, Target};

/// Attempts for an object that changes in between.
const ROUNDS: usize = 5;

/// What a deployment holds.
pub(crate) struct Holding {
    chain: Chain,
    /// Objects that its revisions control, in the order of their phases.
    pub(crate) objects: Vec<(Gvk, ObjectKey)>,
}

/// Reads what a deployment of a name holds.
pub(crate) async fn read(cluster: &Cluster, name: &str) -> Result<Holding, Error> {
    let target = |kind| Target::new(kind, name);
    let chain = match chain::read(cluster, &target(Kind::ObjectDeployment)).await {
        Err(missing @ Error::NotFound(_)) => {
            let other = chain::read(cluster, &target(Kind::ClusterObjectDeployment)).await;
            // Of the two, the first is what is meant more often.
            other.map_err(|error| match error {
                Error::NotFound(_) => missing,
                error => error,
            })?
        }
        read => read?,
    };
    let live: Vec<&Revision> = chain
        .revisions
        .iter()
        .filter(|revision| !revision.is_archived())
        .collect();
    let slices = Slices::read(cluster, live.iter().copied()).await?;
    let contents: Vec<(&Revision, RevisionContent)> = live
        .into_iter()
        .map(|revision| (revision, slices.content(revision)))
        .collect();
    let delegated = contents.iter().flat_map(|(_, content)| &content.phases);
    if let Some(phase) = delegated.into_iter().find(|phase| phase.is_delegated()) {
        return Err(Error::Impossible(format!(
            "the phase {} is of the class {}, whose objects are not let go of like this",
            phase.name, phase.class
        )));
    }
    let wanted: Vec<_> = contents
        .iter()
        .map(|(revision, content)| (*revision, content))
        .collect();
    let children = Children::read(cluster, &wanted, Detail::AsProbed).await?;
    let mut seen = BTreeSet::new();
    let mut objects = Vec::new();
    for object in contents.iter().flat_map(|(_, content)| content.objects()) {
        match children.find(&object.key) {
            Found::Live(live) if is_held(live, &chain) => {
                if seen.insert(&object.key) {
                    objects.push((object.gvk.clone(), object.key.clone()));
                }
            }
            Found::Live(_) | Found::Missing => {}
            Found::Unreadable(why) => {
                let title = describe(&object.key);
                return Err(Error::Impossible(format!("{title}: {why}")));
            }
        }
    }
    Ok(Holding { chain, objects })
}

fn is_held(live: &Value, chain: &Chain) -> bool {
    matches!(
        owner(live, chain, &Delegates::default()),
        Owner::Revision { .. }
    )
}

impl Holding {
    /// As it can be typed.
    pub(crate) fn title(&self) -> String {
        let target = self.chain.target();
        target.map_or_else(String::new, |target| target.to_string())
    }

    /// Lets go of everything: deletes the deployment and its revisions, without what they hold, and hands the fields
    /// back. `report` is called for each step that is done.
    pub(crate) async fn undo(
        &self,
        cluster: &Cluster,
        timeout: Duration,
        mut report: impl FnMut(&str) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let deployment = self.chain.deployment.as_ref();
        if let Some(deployment) = deployment {
            orphan(cluster, &deployment.path(), deployment.uid()).await?;
            gone(cluster, &deployment.target(), timeout).await?;
            report(&format!("{} deleted", name(&deployment.object)))?;
        }
        for revision in &self.chain.revisions {
            orphan(cluster, &revision.path(), revision.uid()).await?;
        }
        for revision in &self.chain.revisions {
            gone(cluster, &revision.target(), timeout).await?;
            report(&format!("{} deleted", name(&revision.object)))?;
        }
        for (gvk, key) in &self.objects {
            let to = hand_back(cluster, gvk, key).await?;
            let title = describe(key);
            report(&match to {
                Some(manager) => format!("{title} left as it is, its fields to {manager}"),
                None => format!("{title} does not exist any more"),
            })?;
        }
        Ok(())
    }
}

/// Deletes a deployment or a revision without what it holds.
async fn orphan(cluster: &Cluster, path: &str, uid: &str) -> Result<(), Error> {
    let body = json!({"propagationPolicy": "Orphan", "preconditions": {"uid": uid}});
    match cluster
        .send(Method::DELETE, path, Some((Body::Json, &body)))
        .await
    {
        Err(error) if error.is_code(404) => Ok(()),
        answer => answer.map(drop),
    }
}

async fn gone(cluster: &Cluster, target: &Target, timeout: Duration) -> Result<(), Error> {
    let (_, is_gone) = watch_until(cluster, target, timeout, async |chain| {
        chain.is_none().then_some(())
    })
    .await?;
    is_gone.ok_or_else(|| {
        Error::Impossible(format!(
            "{target} is still being deleted; run this again, or find out what holds it"
        ))
    })
}

/// Takes what is ours off an object and gives the fields to its tool, which is returned; `None` if it is gone.
async fn hand_back(
    cluster: &Cluster,
    gvk: &Gvk,
    key: &ObjectKey,
) -> Result<Option<&'static str>, Error> {
    let Some(resource) = cluster.resource(gvk).await? else {
        return Ok(None);
    };
    let path = resource.path_of(key);
    let path = path.map_err(|error| Error::Impossible(error.to_string()))?;
    let mut rounds = ROUNDS;
    loop {
        rounds -= 1;
        let Some(live) = cluster.get_at(&path).await? else {
            return Ok(None);
        };
        let (manager, operation) = tool(&live);
        let change = handed_back(&live, manager, operation);
        match cluster
            .write(&path, Write::new(Body::JsonPatch, false), &change)
            .await
        {
            Ok(_) => return Ok(Some(manager)),
            // It has changed since it was read.
            Err(error) if (error.is_code(409) || error.is_code(422)) && rounds > 0 => {}
            Err(error) => return Err(error),
        }
    }
}

/// The tool that an object has been made with, and how it writes.
fn tool(live: &Value) -> (&'static str, &'static str) {
    let has = |pointer: &str| live.pointer(&format!("/metadata/{pointer}")).is_some();
    let annotation = |name: &str| {
        let annotations = live.pointer("/metadata/annotations");
        annotations.map_or("", |annotations| text(annotations, name))
    };
    let [client_side, server_side, _] = FORMER_FIELD_MANAGERS;
    if has("annotations/meta.helm.sh~1release-name") {
        ("helm", "Apply")
    } else if has("labels/kustomize.toolkit.fluxcd.io~1name") {
        ("kustomize-controller", "Apply")
    } else if has("labels/kapp.k14s.io~1app") {
        ("kapp", "Update")
    } else if has("annotations/argocd.argoproj.io~1tracking-id")
        || annotation(ANNOTATION_FORMER_MANAGERS).contains("argocd")
    {
        ("argocd-controller", "Update")
    } else if !annotation(ANNOTATION_LAST_APPLIED).is_empty() {
        (client_side, "Update")
    } else {
        (server_side, "Apply")
    }
}

/// The change that gives our fields to another manager, and takes our marks off.
fn handed_back(live: &Value, manager: &str, operation: &str) -> Value {
    let marks = [
        ("labels", LABEL_CACHE),
        ("annotations", ANNOTATION_REVISION),
        ("annotations", ANNOTATION_FORMER_MANAGERS),
    ];
    let mut patch = vec![json!({
        "op": "test", "path": "/metadata/resourceVersion", "value": live["metadata"]["resourceVersion"],
    })];
    for (field, mark) in marks {
        let pointer = format!("/metadata/{field}/{}", mark.replace('/', "~1"));
        if live.pointer(&pointer).is_some() {
            patch.push(json!({"op": "remove", "path": pointer}));
        }
    }
    let entries = live.pointer("/metadata/managedFields");
    let entries = entries.and_then(Value::as_array).into_iter().flatten();
    let is = |entry: &Value, manager: &str, operation: &str| {
        text(entry, "manager") == manager
            && text(entry, "operation") == operation
            && text(entry, "subresource").is_empty()
    };
    let has_one = entries.clone().any(|entry| is(entry, manager, operation));
    let entries = entries.filter_map(|entry| {
        let mut entry = entry.clone();
        if !is(&entry, FIELD_MANAGER, "Apply") {
            return Some(entry);
        }
        // It has gone on with an entry of its own meanwhile.
        if has_one {
            return None;
        }
        entry["manager"] = manager.into();
        entry["operation"] = operation.into();
        if let Some(metadata) = entry.pointer_mut("/fieldsV1/f:metadata") {
            for (field, mark) in marks {
                let texts = metadata.get_mut(format!("f:{field}"));
                if let Some(texts) = texts.and_then(Value::as_object_mut) {
                    texts.remove(&format!("f:{mark}"));
                }
            }
        }
        Some(entry)
    });
    let entries: Vec<Value> = entries.collect();
    if !entries.is_empty() {
        patch.push(json!({"op": "replace", "path": "/metadata/managedFields", "value": entries}));
    }
    patch.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn yaml(text: &str) -> Value {
        serde_saphyr::from_str(text).unwrap()
    }

    #[test]
    fn an_object_shows_which_tool_it_is_of() {
        for (metadata, expected) in [
            (
                "annotations: {meta.helm.sh/release-name: a}",
                ("helm", "Apply"),
            ),
            (
                "labels: {kustomize.toolkit.fluxcd.io/name: a}",
                ("kustomize-controller", "Apply"),
            ),
            ("labels: {kapp.k14s.io/app: '1'}", ("kapp", "Update")),
            (
                "annotations: {argocd.argoproj.io/tracking-id: a}",
                ("argocd-controller", "Update"),
            ),
            (
                "annotations: {baton.run/former-managers: argocd-controller}",
                ("argocd-controller", "Update"),
            ),
            (
                "annotations: {kubectl.kubernetes.io/last-applied-configuration: '{}'}",
                ("kubectl-client-side-apply", "Update"),
            ),
            ("name: a", ("kubectl", "Apply")),
        ] {
            let live = yaml(&format!("{{metadata: {{{metadata}}}}}"));
            assert_eq!(tool(&live), expected, "{metadata}");
        }
    }

    #[test]
    fn fields_go_back_without_our_marks() {
        let live = yaml(
            "
metadata:
  resourceVersion: '7'
  labels: {package-operator.run/cache: 'True', app: web}
  annotations: {package-operator.run/revision: '2'}
  managedFields:
  - {manager: kubelet, operation: Update}
  - manager: package-operator
    operation: Apply
    fieldsV1:
      f:metadata:
        f:labels: {'f:package-operator.run/cache': {}, 'f:app': {}}
        f:annotations: {'f:package-operator.run/revision': {}}
      f:data: {f:a: {}}
",
        );
        let expected = json!([
            {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
            {"op": "remove", "path": "/metadata/labels/package-operator.run~1cache"},
            {"op": "remove", "path": "/metadata/annotations/package-operator.run~1revision"},
            {"op": "replace", "path": "/metadata/managedFields", "value": [
                {"manager": "kubelet", "operation": "Update"},
                {"manager": "helm", "operation": "Apply", "fieldsV1": {
                    "f:metadata": {"f:labels": {"f:app": {}}, "f:annotations": {}}, "f:data": {"f:a": {}},
                }},
            ]},
        ]);
        assert_eq!(handed_back(&live, "helm", "Apply"), expected);
        let mut upgraded = live.clone();
        upgraded["metadata"]["managedFields"][0] = yaml("{manager: helm, operation: Apply}");
        let patch = handed_back(&upgraded, "helm", "Apply");
        assert_eq!(
            patch[3]["value"],
            json!([{"manager": "helm", "operation": "Apply"}])
        );
    }
}
