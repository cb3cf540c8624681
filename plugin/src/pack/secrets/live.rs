//! The Secrets that are left out of a package, as they are in the cluster.

use baton_apis::constants::GROUP;
use baton_cluster::{Cluster, ClusterError, MAX_CONCURRENT};
use baton_engine::{ObjectKey, keep::is_kept, object::controller};
use baton_kubernetes::path;
use baton_steering::diff::losses::PendingApply;
use baton_view::{chain::member::Revision, content::RevisionContent, object::text_at};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::Value;

use crate::{error::Error, pack::manifest::Manifest};

/// A Secret that the user may not read, with the error.
type UnreadableSecret<'a> = (&'a Manifest, ObjectKey, Error);

/// Reads the metadata of Secrets that are left out, and reports those that do not exist yet. If the
/// user may not read it, the previous revisions are searched for the Secret.
///
/// # Errors
/// If a revision has one of the Secrets: it would delete the Secret, as the next revision does not
/// have it.
pub(crate) async fn check(
    cluster: &Cluster,
    left_out: &[Manifest],
    next: &PendingApply,
) -> Result<Vec<String>, Error> {
    let looked_at = stream::iter(left_out).map(async |secret| {
        let key = key(cluster, secret);
        let path = path::within("/api/v1", &key.namespace, "secrets")
            .and_then(|secrets| path::object(&secrets, &key.name))
            .map_err(|error| Error::Impossible(error.to_string()))?;
        match cluster.metadata_at(&path).await {
            Ok(found) => judge(&secret.title(), &key.namespace, found.as_ref()).map(Ok),
            Err(error @ ClusterError::Refused(_)) => Ok(Err((secret, key, error.into()))),
            Err(error) => Err(error.into()),
        }
    });
    let looked_at: Vec<Result<Option<String>, UnreadableSecret<'_>>> =
        looked_at.buffered(MAX_CONCURRENT).try_collect().await?;
    let is_unseen = looked_at.iter().any(Result::is_err);
    let former = if is_unseen {
        next.former(cluster).await?
    } else {
        Vec::new()
    };
    let mut notes = Vec::new();
    for read in looked_at {
        match read {
            Ok(note) => notes.extend(note),
            Err((secret, key, error)) => {
                notes.push(judge_unseen(&secret.title(), &key, &error, &former)?);
            }
        }
    }
    Ok(notes)
}

fn key(cluster: &Cluster, secret: &Manifest) -> ObjectKey {
    let namespace = match secret.namespace.as_str() {
        "" => &cluster.namespace,
        namespace => namespace,
    };
    ObjectKey {
        group: String::new(),
        kind: "Secret".to_owned(),
        namespace: namespace.to_owned(),
        name: secret.name.clone(),
    }
}

/// The note about a Secret that may not be read; an error if a previous revision has it.
fn judge_unseen(
    title: &str,
    key: &ObjectKey,
    why: &Error,
    former: &[(Revision, RevisionContent)],
) -> Result<String, Error> {
    let has_it = |content: &RevisionContent| {
        let mut placed = content.placed().filter(|(phase, _)| phase.is_here());
        placed.any(|(_, object)| object.key == *key && !is_kept([&object.manifest]))
    };
    match former.iter().find(|(_, content)| has_it(content)) {
        Some((revision, _)) => Err(Error::Impossible(format!(
            "nothing was written, because {title} belongs to {}/{}, and would be deleted unless it has the annotation \
             baton.run/deletion=keep, which cannot be checked: {why}; apply this as a user who may read the Secret",
            revision.kind.name,
            revision.name(),
        ))),
        None => Ok(format!("cannot check that {title} exists: {why}")),
    }
}

/// The note about a Secret; an error if leaving it out would delete it.
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
    use crate::selection::from_objects;
    use baton_view::content::Slices;

    #[test]
    fn an_unreadable_secret_is_searched_in_revisions() {
        let key = |name: &str| ObjectKey {
            group: String::new(),
            kind: "Secret".to_owned(),
            namespace: "shop".to_owned(),
            name: name.to_owned(),
        };
        let secret = |name: &str, annotations: Value| {
            json!({"object": {"apiVersion": "v1", "kind": "Secret",
                "metadata": {"name": name, "annotations": annotations}}})
        };
        let kept = json!({"baton.run/deletion": "keep"});
        let set = json!({
            "apiVersion": "package-operator.run/v1alpha1", "kind": "ObjectSet",
            "metadata": {"name": "web-1", "namespace": "shop", "uid": "u"},
            "spec": {"revision": 1, "phases": [
                {"name": "a", "objects": [secret("db", json!({})), secret("kept", kept)]},
                {"name": "b", "class": "cluster.eu", "objects": [secret("far", json!({}))]},
            ]},
        });
        let revision = from_objects(Vec::new(), vec![set])
            .remove(0)
            .revisions
            .remove(0);
        let content = Slices::default().content(&revision);
        let former = [(revision, content)];
        let why = Error::Usage("forbidden".to_owned());
        let judged = |name: &str| {
            let judged = judge_unseen("the Secret", &key(name), &why, &former);
            judged.map_err(|error| error.to_string())
        };
        let refused = judged("db").unwrap_err();
        assert!(
            refused
                .starts_with("nothing was written, because the Secret belongs to ObjectSet/web-1"),
            "{refused}"
        );
        for name in ["kept", "far", "other"] {
            let note = "cannot check that the Secret exists: forbidden".to_owned();
            assert_eq!(judged(name), Ok(note), "{name}");
        }
    }

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
