//! The same objects without a manager: what the machine and its API server can do.

use std::collections::BTreeMap;

use baton_apis::constants::{ANNOTATION_REVISION, FIELD_MANAGER, LABEL_CACHE, LABEL_CACHE_VALUE};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::Client;
use kube::api::{Patch, PatchParams};
use kube::core::Request;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::figures::Timing;
use super::load::{SIDE_BY_SIDE, Shape, Target};
use super::process::Servers;
use super::{Error, say};

/// The bound that the others are compared with: no dry runs.
pub const PLAIN: &str = "create";
/// The bound for first revisions.
pub const CREATE: &str = "create, dry run first";
/// The bound for a handover.
pub const HANDOVER: &str = "change, dry run first";

/// How objects are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// By one server-side apply each.
    Plain,
    /// By a dry run and then the same again, as a careful manager does.
    Checked,
}

/// Objects that only the bench writes, in a namespace of their own.
struct Bare<'a> {
    target: Target,
    servers: &'a Servers,
    shape: &'a Shape,
    owners: [Value; 2],
}

/// Writes the objects of the shape with a plain client, in a namespace for that round.
///
/// They are left there: the garbage collector would clean up behind them for seconds, and the step
/// that comes next would pay for it.
///
/// # Errors
///
/// When the API server refuses one.
pub async fn measure(
    client: &Client,
    servers: &Servers,
    shape: &Shape,
    round: usize,
) -> Result<Timing, Error> {
    let namespace = format!("bench-bare-{round}");
    let bare = Bare::prepare(client, servers, shape, &namespace).await?;
    let timing = bare.write(1, Way::Plain).await?;
    say(&format!("bare {round}: {:.0} objects/s", timing.rate));
    Ok(timing)
}

/// The bounds for a manager that does nothing but a dry run and a write of each object: those for the
/// creation, and those for other content in objects that exist. By name.
///
/// # Errors
///
/// When the API server refuses an object.
pub async fn bounds(
    client: &Client,
    servers: &Servers,
    shape: &Shape,
) -> Result<Vec<(&'static str, Timing)>, Error> {
    let mut timings = Vec::new();
    for (namespace, way, names) in [
        ("bench-plain", Way::Plain, [PLAIN, "change"]),
        ("bench-checked", Way::Checked, [CREATE, HANDOVER]),
    ] {
        let bare = Bare::prepare(client, servers, shape, namespace).await?;
        for (revision, name) in (1..).zip(names) {
            let timing = bare.write(revision, way).await?;
            say(&format!("bound: {name}: {:.0} objects/s", timing.rate));
            timings.push((name, timing));
        }
    }
    Ok(timings)
}

impl<'a> Bare<'a> {
    async fn prepare(
        client: &Client,
        servers: &'a Servers,
        shape: &'a Shape,
        namespace: &str,
    ) -> Result<Self, Error> {
        let target = Target::create(client, namespace).await?;
        let owners = [
            owner(&target, "owner-of-all-v1").await?,
            owner(&target, "owner-of-all-v2").await?,
        ];
        Ok(Self {
            target,
            servers,
            shape,
            owners,
        })
    }

    async fn write(&self, revision: u32, way: Way) -> Result<Timing, Error> {
        let objects: Vec<(String, Value)> = self
            .shape
            .children(revision)
            .into_iter()
            .map(|(name, child)| (name, managed(child, revision, &self.owners)))
            .collect();
        let request = Request::new(self.target.config_maps());
        let apply = PatchParams::apply(FIELD_MANAGER);
        let dry_run = apply.clone().dry_run();
        let send = async |name: &str, object: &Value, params: &PatchParams| {
            let request = request.patch(name, params, &Patch::Apply(object));
            self.target
                .send(request.map_err(kube::Error::BuildRequest)?)
                .await
        };
        let server = self.servers.cpu();
        let started = Instant::now();
        stream::iter(&objects)
            .map(Ok::<_, kube::Error>)
            .try_for_each_concurrent(SIDE_BY_SIDE, async |(name, object)| {
                if way == Way::Checked {
                    send(name, object, &dry_run).await?;
                }
                send(name, object, &apply).await
            })
            .await?;
        let timing = Timing::of(objects.len(), started.elapsed());
        Ok(timing.with_server(self.servers.cpu() - server))
    }
}

/// An object that others name as their owner, so that they are as large as those of a manager and the
/// garbage collector has to look at them as well.
async fn owner(target: &Target, name: &str) -> kube::Result<Value> {
    #[derive(Deserialize)]
    struct Created {
        metadata: Uid,
    }
    #[derive(Deserialize)]
    struct Uid {
        uid: String,
    }
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let created: Created = target.post(&target.config_maps(), &body).await?;
    Ok(json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": name,
        "uid": created.metadata.uid,
        "blockOwnerDeletion": true,
    }))
}

/// The object as a manager writes it for that revision, with a further owner for each.
fn managed(mut child: Value, revision: u32, owners: &[Value]) -> Value {
    let mut references = Vec::new();
    for (owner, number) in owners.iter().zip(1..=revision) {
        let mut reference = owner.clone();
        reference["controller"] = (number == revision).into();
        references.push(reference);
    }
    let metadata = &mut child["metadata"];
    // As long as the true value, but no manager watches it.
    let label = "x".repeat(LABEL_CACHE_VALUE.len());
    metadata["labels"] = json!(BTreeMap::from([(LABEL_CACHE, label)]));
    metadata["annotations"] = json!(BTreeMap::from([(
        ANNOTATION_REVISION,
        revision.to_string()
    )]));
    metadata["ownerReferences"] = references.into();
    child
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_objects_have_owners_and_no_manager_sees_them() {
        let owners = [json!({"name": "a"}), json!({"name": "b"})];
        let child = json!({"metadata": {"name": "c"}});
        let first = managed(child.clone(), 1, &owners);
        assert_eq!(
            first["metadata"]["ownerReferences"],
            json!([{"name": "a", "controller": true}])
        );
        let second = managed(child, 2, &owners);
        assert_eq!(
            second["metadata"]["ownerReferences"],
            json!([{"name": "a", "controller": false}, {"name": "b", "controller": true}])
        );
        assert_eq!(second["metadata"]["annotations"][ANNOTATION_REVISION], "2");
        assert_ne!(second["metadata"]["labels"][LABEL_CACHE], LABEL_CACHE_VALUE);
    }
}
