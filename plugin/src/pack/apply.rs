//! Sends a package to a server.

use std::pin::pin;

use baton_apis::kinds::Kind;
use baton_cluster::{Cluster, ClusterError, FIELD_MANAGER, Write, lists};
use baton_kubernetes::wire::MediaType;
use baton_terminal::error::is_not_served;
use baton_text::output::format::name;
use baton_view::{
    chain::{kind::ChainKind, member::Revision, target::Target},
    object::text_at,
};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::core::Status;
use serde_json::{Value, json};

use crate::error::Error;

use super::build::Package;

/// The number of slices that are sent concurrently.
const MAX_CONCURRENT: usize = 4;

/// Attempts for a deployment whose status changes in the meantime.
const ROUNDS: usize = 10;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mode {
    /// True if the server only checks the objects and does not store them.
    pub(crate) dry_run: bool,
    /// True if fields of other managers are taken over.
    pub(crate) force: bool,
    /// Number that the current revision of the deployment must have; `None` for any.
    pub(crate) if_revision: Option<i64>,
}

/// The action of the server on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Created,
    Configured,
    Unchanged,
}

impl Verb {
    /// The word that kubectl prints for the action.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Configured => "configured",
            Self::Unchanged => "unchanged",
        }
    }
}

/// Checks that the server accepts all objects of a package, by a dry run.
pub(crate) async fn check(cluster: &Cluster, package: &Package, mode: Mode) -> Result<(), Error> {
    let mode = Mode {
        dry_run: true,
        ..mode
    };
    apply(cluster, package, mode, |_| Ok(())).await.map(drop)
}

/// Applies a package: first the slices, because other objects refer to them.
///
/// `report` is called after each object. Returns the object that contains the package, as the
/// server returned it.
pub(crate) async fn apply(
    cluster: &Cluster,
    package: &Package,
    mode: Mode,
    mut report: impl FnMut(&str) -> Result<(), Error>,
) -> Result<Value, Error> {
    let slices = slices_with_owner(cluster, package).await?;
    let mut holder = Value::Null;
    {
        let sent = stream::iter(&slices)
            .map(async |slice| Ok((slice, apply_slice(cluster, slice, mode).await?)))
            .buffered(MAX_CONCURRENT);
        let object = stream::once(async {
            let (verb, answer) = apply_one(cluster, &package.object, mode).await?;
            holder = answer;
            Ok::<_, Error>((&package.object, verb))
        });
        let mut done = pin!(sent.chain(object));
        while let Some((object, verb)) = done.try_next().await? {
            let suffix = if mode.dry_run {
                " (server dry run)"
            } else {
                ""
            };
            report(&format!("{} {}{suffix}", name(object), verb.as_str()))?;
        }
    }
    // A slice of an earlier attempt, which nothing named, may have been deleted in the meantime.
    if !mode.dry_run {
        for slice in &slices {
            apply_slice(cluster, slice, mode).await?;
        }
    }
    Ok(holder)
}

/// The slices of a package. A deployment that exists owns them until its next revision does, so
/// that they are deleted with the deployment at the latest.
async fn slices_with_owner(cluster: &Cluster, package: &Package) -> Result<Vec<Value>, Error> {
    let mut slices = package.slices.clone();
    let is_deployment = ChainKind::of(&package.object).is_some_and(ChainKind::is_deployment);
    if slices.is_empty() || !is_deployment {
        return Ok(slices);
    }
    let Some(deployment) = cluster.metadata_at(&path(cluster, &package.object)).await? else {
        return Ok(slices);
    };
    let owner = json!([{
        "apiVersion": package.object["apiVersion"],
        "kind": package.object["kind"],
        "name": deployment["metadata"]["name"],
        "uid": deployment["metadata"]["uid"],
    }]);
    for slice in &mut slices {
        slice["metadata"]["ownerReferences"] = owner.clone();
    }
    Ok(slices)
}

/// Applies a slice. An existing one has the wanted content: its name depends on the content, and it
/// cannot change.
async fn apply_slice(cluster: &Cluster, slice: &Value, mode: Mode) -> Result<Verb, Error> {
    if cluster.get_at(&path(cluster, slice)).await?.is_some() {
        return Ok(Verb::Unchanged);
    }
    send(cluster, slice, mode).await.map(|_| Verb::Created)
}

async fn apply_one(cluster: &Cluster, object: &Value, mode: Mode) -> Result<(Verb, Value), Error> {
    let before = cluster.get_at(&path(cluster, object)).await?;
    let after = match mode.if_revision {
        Some(number) => send_to_revision(cluster, object, number, mode).await?,
        None => send(cluster, object, mode).await?,
    };
    let version = |object: &Value| object.pointer("/metadata/resourceVersion").cloned();
    let verb = match before {
        None => Verb::Created,
        // A dry run does not change the version, so the other fields are compared.
        Some(before) if mode.dry_run && same(&before, &after) => Verb::Unchanged,
        Some(before) if !mode.dry_run && version(&before) == version(&after) => Verb::Unchanged,
        Some(_) => Verb::Configured,
    };
    Ok((verb, after))
}

/// Applies a deployment in a state in which its current revision has this number.
///
/// # Errors
/// [`Error::Overtaken`] if the current revision has another number, or there is none.
async fn send_to_revision(
    cluster: &Cluster,
    object: &Value,
    number: i64,
    mode: Mode,
) -> Result<Value, Error> {
    let title = name(object);
    let overtaken = |state: String| {
        Error::Overtaken(format!(
            "{title} was not changed: {state}, not revision {number} as --if-revision requires"
        ))
    };
    let kind = ChainKind::of(object).expect("the result is a deployment");
    let target = Target::new(kind, text_at(object, "/metadata/name"));
    let within = match text_at(object, "/metadata/namespace") {
        "" => cluster.clone(),
        namespace => cluster.within(namespace),
    };
    for _ in 0..ROUNDS {
        let chain = lists::chain(&within, &target).await?;
        let current = chain.current().and_then(Revision::number);
        let deployment = chain.asked_deployment().filter(|_| current == Some(number));
        let Some(deployment) = deployment else {
            return Err(overtaken(match current {
                Some(current) => format!("its current revision is {current}"),
                None => "its present template has no revision yet".to_owned(),
            }));
        };
        let mut object = object.clone();
        object["metadata"]["resourceVersion"] =
            deployment.object["metadata"]["resourceVersion"].clone();
        match apply_as(cluster, &object, mode).await {
            // Most likely its status was written in the meantime.
            Err(Error::Cluster(ClusterError::Refused(status))) if is_stale(&status) => {}
            answer => return answer.map_err(|error| explain(error, &object)),
        }
    }
    Err(overtaken("it changes all the time".to_owned()))
}

/// True if an apply was refused because the object is no longer in the state that it names.
fn is_stale(status: &Status) -> bool {
    let details = status.details.as_ref();
    status.code == 409 && details.is_none_or(|details| details.causes.is_empty())
}

async fn send(cluster: &Cluster, object: &Value, mode: Mode) -> Result<Value, Error> {
    let answer = apply_as(cluster, object, mode).await;
    answer.map_err(|error| explain(error, object))
}

/// Applies an object, with force if only this program is in conflict with itself.
async fn apply_as(cluster: &Cluster, object: &Value, mode: Mode) -> Result<Value, Error> {
    let path = path(cluster, object);
    let apply = async |force: bool| {
        let options = format!("&force={force}&fieldValidation=Strict");
        let write = Write {
            content: MediaType::Apply,
            options: &options,
            dry_run: mode.dry_run,
        };
        cluster.write(&path, write, object).await
    };
    match apply(mode.force).await {
        Err(ClusterError::Refused(status)) if is_own_conflict(&status) => Ok(apply(true).await?),
        answer => Ok(answer?),
    }
}

/// True if an apply conflicts with this program only. For the server, the manager of patches, such
/// as those of a rollback, is not the manager of applies, even if both have the same name.
fn is_own_conflict(status: &Status) -> bool {
    let details = status.details.as_ref();
    let causes = details.map_or(&[][..], |details| &details.causes);
    let own = format!("conflict with \"{FIELD_MANAGER}\"");
    let is_own = |message: &str| {
        message == own
            || message
                .strip_prefix(&own)
                .is_some_and(|it| it.starts_with(' '))
    };
    status.code == 409 && !causes.is_empty() && causes.iter().all(|cause| is_own(&cause.message))
}

/// True if two states of an object differ only in fields that every write changes.
fn same(before: &Value, after: &Value) -> bool {
    let bare = |object: &Value| {
        let mut object = object.clone();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            for field in ["managedFields", "resourceVersion", "generation"] {
                metadata.remove(field);
            }
        }
        object
    };
    bare(before) == bare(after)
}

/// The path of an object of a package.
pub(crate) fn path(cluster: &Cluster, object: &Value) -> String {
    let kind = Kind::of(object).expect("the result is of kinds of Baton");
    let namespace = match text_at(object, "/metadata/namespace") {
        "" => cluster.namespace.as_str(),
        namespace => namespace,
    };
    kind.path_of(Some(namespace), text_at(object, "/metadata/name"))
}

/// Adds a remedy to refusals that have only one reason.
fn explain(error: Error, object: &Value) -> Error {
    let Error::Cluster(ClusterError::Refused(status)) = &error else {
        return error;
    };
    let title = name(object);
    let own = text_at(object, "/metadata/name");
    if status.message.contains("is immutable") {
        return Error::Impossible(format!(
            "{title} exists with other content, and a revision cannot be changed; create the next one: \
             --revision --name NEW-NAME --previous {own}"
        ));
    }
    if status.code == 409 {
        return Error::Impossible(format!(
            "{title}: {error}; --force-conflicts takes the fields over"
        ));
    }
    if is_not_served(status) {
        return Error::Impossible(format!(
            "the API server does not serve {}; install Baton first",
            text_at(object, "/kind")
        ));
    }
    error
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn conflicts_with_other_managers_are_not_our_own() {
        let ours = "conflict with \"kubectl-baton\" using package-operator.run/v1alpha1";
        let others = "conflict with \"kubectl-baton-fork\" using package-operator.run/v1alpha1";
        for (causes, expected) in [
            (&[ours][..], true),
            (&["conflict with \"kubectl-baton\"", ours], true),
            (&[others], false),
            (&[ours, others], false),
            (&[ours, "conflict with \"kubectl-edit\""], false),
            (&[], false),
        ] {
            let causes: Vec<_> = causes
                .iter()
                .map(|text| json!({"reason": "FieldManagerConflict", "message": text, "field": ".spec"}))
                .collect();
            let status = json!({"status": "Failure", "code": 409, "reason": "Conflict", "message": "",
                "details": {"causes": causes}});
            let status: Status = serde_json::from_value(status).unwrap();
            assert_eq!(is_own_conflict(&status), expected, "{causes:?}");
        }
    }
}
