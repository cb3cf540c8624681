//! Secrets that are left out of a package, as they are in the cluster.

use baton_apis::constants::GROUP;
use baton_engine::{keep::is_kept, object::controller};
use baton_kubernetes::wire::escape;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::Value;

use crate::{
    connect::{Cluster, SIDE_BY_SIDE},
    error::Error,
    output::format::text_at,
    pack::manifest::Manifest,
};

/// Looks at the metadata of Secrets that are left out, and says which of them do not exist yet.
///
/// # Errors
/// When a revision has one of them: it would delete it, as the next one does not have it.
pub(crate) async fn check(cluster: &Cluster, left_out: &[Manifest]) -> Result<Vec<String>, Error> {
    let looked_at = stream::iter(left_out).map(async |secret| {
        let namespace = match secret.namespace.as_str() {
            "" => cluster.namespace.as_str(),
            namespace => namespace,
        };
        let path = format!(
            "/api/v1/namespaces/{}/secrets/{}",
            escape(namespace),
            escape(&secret.name)
        );
        match cluster.metadata_at(&path).await {
            Ok(found) => judge(&secret.title(), namespace, found.as_ref()),
            Err(error @ Error::Refused(_)) => Ok(Some(format!(
                "whether {} exists is not known: {error}",
                secret.title()
            ))),
            Err(error) => Err(error),
        }
    });
    let notes: Vec<Option<String>> = looked_at.buffered(SIDE_BY_SIDE).try_collect().await?;
    Ok(notes.into_iter().flatten().collect())
}

/// What is to be said about a Secret; an error if leaving it out would delete it.
fn judge(title: &str, namespace: &str, found: Option<&Value>) -> Result<Option<String>, Error> {
    let Some(found) = found else {
        return Ok(Some(format!(
            "{title} does not exist yet in namespace {namespace}"
        )));
    };
    let owner = controller(found).filter(|owner| {
        text_at(owner, "/apiVersion")
            .split('/')
            .next()
            .is_some_and(|group| group == GROUP)
    });
    match owner {
        Some(owner) if !is_kept([found]) => Err(Error::Impossible(format!(
            "{title} belongs to {}/{}, which would delete it with --no-secrets; nothing was written. To keep it: \
             kubectl annotate secret -n {namespace} {} baton.run/deletion=keep",
            text_at(owner, "/kind"),
            text_at(owner, "/name"),
            text_at(found, "/metadata/name"),
        ))),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_secret_that_a_revision_would_delete_is_not_left_out() {
        let secret = |annotations: Value, owner: Value| {
            json!({"metadata": {"name": "db", "namespace": "shop", "annotations": annotations,
                "ownerReferences": [owner]}})
        };
        let revision = json!({"apiVersion": "package-operator.run/v1alpha1", "kind": "ObjectSet", "name": "web-1",
            "uid": "u", "controller": true});
        let stranger = json!({"apiVersion": "external-secrets.io/v1", "kind": "ExternalSecret", "name": "db",
            "uid": "u", "controller": true});
        let mut owner_only = revision.clone();
        owner_only["controller"] = false.into();
        let said = |found: Option<Value>| judge("Secret/db", "shop", found.as_ref());
        let refused = said(Some(secret(json!({}), revision.clone()))).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "Secret/db belongs to ObjectSet/web-1, which would delete it with --no-secrets; nothing was written. To \
             keep it: kubectl annotate secret -n shop db baton.run/deletion=keep"
        );
        let kept = json!({"baton.run/deletion": "keep"});
        for found in [
            secret(kept, revision),
            secret(json!({}), stranger),
            secret(json!({}), owner_only),
            json!({"metadata": {"name": "db"}}),
        ] {
            assert_eq!(said(Some(found)).unwrap(), None);
        }
        let missing = said(None).unwrap();
        let expected = "Secret/db does not exist yet in namespace shop";
        assert_eq!(missing.as_deref(), Some(expected));
    }
}
