//! Sends a package to a server.

use std::pin::pin;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::Method;
use serde_json::Value;

use crate::{
    connect::{Cluster, Content, FIELD_MANAGER, escape},
    error::Error,
};

use super::build::Package;

/// Slices that are sent side by side.
const AT_ONCE: usize = 4;

/// How to send it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mode {
    /// Have the server check it without keeping it.
    pub dry_run: bool,
    /// Take fields over that others have set.
    pub force: bool,
}

/// What the server did with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// It did not exist.
    Created,
    /// It was different.
    Configured,
    /// It was the same.
    Unchanged,
}

impl Verb {
    /// As kubectl says it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Configured => "configured",
            Self::Unchanged => "unchanged",
        }
    }
}

/// Applies a package: the slices first, as whatever refers to them needs them. `report` is told of
/// each object as soon as it is done.
///
/// # Guarantees
/// Nothing is written before the server has accepted all of it in a dry run.
///
/// # Errors
/// What the server says; for a revision that exists with another content, what to do instead.
pub async fn apply(
    cluster: &Cluster,
    package: &Package,
    mode: Mode,
    mut report: impl FnMut(&str) -> Result<(), Error>,
) -> Result<(), Error> {
    let check = Mode {
        dry_run: true,
        ..mode
    };
    let modes: &[Mode] = if mode.dry_run {
        &[check]
    } else {
        &[check, mode]
    };
    for step in modes {
        let slices = stream::iter(&package.slices)
            .map(async |slice| Ok((slice, apply_slice(cluster, slice, *step).await?)))
            .buffered(AT_ONCE);
        let object = stream::once(async {
            let object = &package.object;
            Ok::<_, Error>((object, apply_one(cluster, object, *step).await?))
        });
        let mut done = pin!(slices.chain(object));
        while let Some((object, verb)) = done.try_next().await? {
            if *step == mode {
                let suffix = if mode.dry_run {
                    " (server dry run)"
                } else {
                    ""
                };
                report(&format!("{} {}{suffix}", title(object), verb.word()))?;
            }
        }
    }
    Ok(())
}

/// A slice that exists has the wanted content: its name is made from it, and it cannot change.
async fn apply_slice(cluster: &Cluster, slice: &Value, mode: Mode) -> Result<Verb, Error> {
    if cluster.get_at(&path(cluster, slice)).await?.is_some() {
        return Ok(Verb::Unchanged);
    }
    send(cluster, slice, mode).await.map(|_| Verb::Created)
}

async fn apply_one(cluster: &Cluster, object: &Value, mode: Mode) -> Result<Verb, Error> {
    let before = cluster.get_at(&path(cluster, object)).await?;
    let after = send(cluster, object, mode).await?;
    let version = |object: &Value| object.pointer("/metadata/resourceVersion").cloned();
    Ok(match before {
        None => Verb::Created,
        // A dry run gives no new version, so the rest is compared.
        Some(before) if mode.dry_run && same(&before, &after) => Verb::Unchanged,
        Some(before) if !mode.dry_run && version(&before) == version(&after) => Verb::Unchanged,
        Some(_) => Verb::Configured,
    })
}

async fn send(cluster: &Cluster, object: &Value, mode: Mode) -> Result<Value, Error> {
    let path = path(cluster, object);
    let dry_run = if mode.dry_run { "&dryRun=All" } else { "" };
    let url = format!(
        "{path}?fieldManager={FIELD_MANAGER}&force={}&fieldValidation=Strict{dry_run}",
        mode.force
    );
    let answer = cluster.send(Method::PATCH, &url, Some((Content::Apply, object)));
    answer.await.map_err(|error| explain(error, object))
}

/// Whether two states of an object differ in nothing but what every write changes.
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

fn text<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// `objectdeployment.package-operator.run/shop`, as kubectl names objects.
fn title(object: &Value) -> String {
    let group = text(object, "/apiVersion")
        .split('/')
        .next()
        .unwrap_or_default();
    let kind = text(object, "/kind").to_ascii_lowercase();
    format!("{kind}.{group}/{}", text(object, "/metadata/name"))
}

fn path(cluster: &Cluster, object: &Value) -> String {
    let kind = text(object, "/kind");
    let plural = format!("{}s", kind.to_ascii_lowercase());
    let prefix = format!("/apis/{}", text(object, "/apiVersion"));
    let name = escape(text(object, "/metadata/name"));
    if kind.starts_with("Cluster") {
        return format!("{prefix}/{plural}/{name}");
    }
    let namespace = match text(object, "/metadata/namespace") {
        "" => cluster.namespace.as_str(),
        namespace => namespace,
    };
    format!("{prefix}/namespaces/{}/{plural}/{name}", escape(namespace))
}

/// Says what to do about refusals that have one cause only.
fn explain(error: Error, object: &Value) -> Error {
    let Error::Refused(status) = &error else {
        return error;
    };
    let title = title(object);
    let name = text(object, "/metadata/name");
    if status.message.contains("is immutable") {
        return Error::Impossible(format!(
            "{title} exists with another content, and revisions do not change; make the next one: \
             --revision --name NEW-NAME --previous {name}"
        ));
    }
    if status.code == 409 {
        return Error::Impossible(format!(
            "{title}: {error}; --force-conflicts takes the fields over"
        ));
    }
    if status.code == 404
        && status
            .details
            .as_ref()
            .is_none_or(|details| details.name.is_empty())
    {
        return Error::Impossible(format!(
            "the API server does not serve {}; install Baton first",
            text(object, "/kind")
        ));
    }
    error
}
