//! Applications of Argo CD: their status lists their objects.

use baton_cluster::Cluster;
use baton_engine::Gvk;
use baton_view::object::text_at;
use serde_json::Value;

use super::{FoundObjects, ObjectToAdopt, whole};
use crate::error::Error;

/// The default namespace of Argo CD's Applications.
pub(crate) const NAMESPACE: &str = "argocd";

pub(crate) async fn read(
    cluster: &Cluster,
    namespace: &str,
    name: &str,
) -> Result<FoundObjects, Error> {
    let gvk = Gvk::new("argoproj.io/v1alpha1", "Application");
    let object = super::custom(cluster, &gvk, namespace, name).await?;
    Ok(found(&object, name))
}

fn found(application: &Value, name: &str) -> FoundObjects {
    let source = format!("Argo CD Application {name}");
    let mut found = FoundObjects {
        title: match text_at(application, "/status/sync/revision") {
            "" => source.clone(),
            revision => format!("{source}, {revision}"),
        },
        namespace: text_at(application, "/spec/destination/namespace").to_owned(),
        ..FoundObjects::default()
    };
    let resources = application.pointer("/status/resources");
    let resources = resources.and_then(Value::as_array).into_iter().flatten();
    for resource in resources {
        let text = |field| text_at(resource, field);
        let title = format!("{}/{}", text("/kind"), text("/name"));
        if resource["hook"] == true {
            found
                .notes
                .push(format!("{title} is left out, because it is a hook"));
            continue;
        }
        if resource["requiresPruning"] == true {
            found.notes.push(format!(
                "{title} is left out: its source does not contain it any more, and Argo CD would prune it"
            ));
            continue;
        }
        let gvk = Gvk {
            group: text("/group").to_owned(),
            version: text("/version").to_owned(),
            kind: text("/kind").to_owned(),
        };
        match ObjectToAdopt::referred(whole(&source), &gvk, text("/namespace"), text("/name")) {
            Ok(member) => found.members.push(member),
            Err(error) => found.errors.push(error),
        }
    }
    if found.members.is_empty() && found.errors.is_empty() {
        found.errors.push(format!(
            "{source} has no objects in its status; synchronise it first"
        ));
    }
    // A destination is given by URL or by name. Argo CD has one of each for its own cluster.
    let destination = |field: &str| text_at(application, &format!("/spec/destination/{field}"));
    let is_here = ["", "https://kubernetes.default.svc"].contains(&destination("server"))
        && ["", "in-cluster"].contains(&destination("name"));
    if !is_here {
        found.notes.push(format!(
            "{source} may deliver into another cluster; only this cluster is searched for its objects"
        ));
    }
    if application
        .pointer("/spec/syncPolicy/automated")
        .is_some_and(|it| !it.is_null())
    {
        found.notes.push(format!(
            "{source} synchronises automatically, and would revert changes of later revisions: remove \
             spec.syncPolicy.automated"
        ));
    }
    let finalizers = application.pointer("/metadata/finalizers");
    let finalizers = finalizers.and_then(Value::as_array).into_iter().flatten();
    if finalizers
        .filter_map(Value::as_str)
        .any(|finalizer| finalizer.starts_with("resources-finalizer.argocd.argoproj.io"))
    {
        found.notes.push(format!(
            "{source} deletes its objects when it is deleted: first remove its finalizer \
             resources-finalizer.argocd.argoproj.io"
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn yaml(text: &str) -> Value {
        serde_saphyr::from_str(text).unwrap()
    }

    #[test]
    fn an_application_lists_its_objects() {
        let found = found(
            &yaml(
                "
metadata: {name: shop, finalizers: [resources-finalizer.argocd.argoproj.io]}
spec:
  destination: {server: 'https://kubernetes.default.svc', namespace: shop}
  syncPolicy: {automated: {selfHeal: true}}
status:
  sync: {revision: 4f2a}
  resources:
  - {group: apps, version: v1, kind: Deployment, namespace: shop, name: web, status: Synced}
  - {version: v1, kind: Namespace, name: shop}
  - {group: batch, version: v1, kind: Job, namespace: shop, name: migrate, hook: true}
  - {version: v1, kind: Service, namespace: shop, name: old, requiresPruning: true}
  - {version: v1, kind: Service}
",
            ),
            "shop",
        );
        assert_eq!(found.title, "Argo CD Application shop, 4f2a");
        let members: Vec<_> = found
            .members
            .iter()
            .map(|member| {
                (
                    member.gvk.api_version(),
                    member.title(),
                    member.namespace.as_str(),
                )
            })
            .collect();
        assert_eq!(
            members,
            [
                ("apps/v1".to_owned(), "Deployment/web".to_owned(), "shop"),
                ("v1".to_owned(), "Namespace/shop".to_owned(), ""),
            ]
        );
        assert_eq!(
            found.errors,
            ["Argo CD Application shop: an object without apiVersion, kind or name"]
        );
        let begins: Vec<_> = found.notes.iter().map(|note| &note[..20]).collect();
        assert_eq!(
            begins,
            [
                "Job/migrate is left ",
                "Service/old is left ",
                "Argo CD Application ",
                "Argo CD Application "
            ],
            "{:?}",
            found.notes
        );
    }

    #[test]
    fn an_application_that_was_never_synchronised_has_nothing() {
        let empty = found(&yaml("{spec: {destination: {name: elsewhere}}}"), "shop");
        assert_eq!(
            empty.errors,
            ["Argo CD Application shop has no objects in its status; synchronise it first"]
        );
        assert!(
            empty.notes[0].contains("another cluster"),
            "{:?}",
            empty.notes
        );
    }
}
