//! The bare measurement: the same objects written without a manager, to see what the machine and
//! its API server can do.

pub(crate) mod releases;

use baton_apis::constants::{ANNOTATION_REVISION, FIELD_MANAGER, LABEL_CACHE, LABEL_CACHE_VALUE};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::Client;
use kube::api::{Patch, PatchParams};
use kube::core::Request;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::error::Error;
use super::figures::Timing;
use super::load::Shape;
use super::process::Servers;
use super::target::{MAX_CONCURRENT, Target};

/// Objects that only the bench writes, in their own namespace.
struct Bare<'a> {
    target: Target,
    servers: &'a Servers,
    shape: &'a Shape,
    owners: [Value; 2],
}

/// Writes the objects of the shape with a plain client, in a namespace for that round.
///
/// The objects are not deleted: the garbage collector would be busy for seconds, and slow the next
/// step down.
pub(crate) async fn measure(
    client: &Client,
    servers: &Servers,
    shape: &Shape,
    round: usize,
) -> Result<Timing, Error> {
    let namespace = format!("bench-bare-{round}");
    let bare = Bare::prepare(client, servers, shape, &namespace).await?;
    let timing = bare.write().await?;
    eprintln!("bench: bare {round}: {:.0} objects/s", timing.rate);
    Ok(timing)
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

    /// Writes all objects, each by one server-side apply.
    async fn write(&self) -> Result<Timing, Error> {
        let mut objects = self.shape.children(1);
        for (_, object) in &mut objects {
            manage(object, 1, &self.owners);
        }
        let request = Request::new(self.target.config_maps());
        let apply = PatchParams::apply(FIELD_MANAGER);
        let server = self.servers.cpu();
        let started = Instant::now();
        stream::iter(&objects)
            .map(Ok::<_, kube::Error>)
            .try_for_each_concurrent(MAX_CONCURRENT, async |(name, object)| {
                let request = request.patch(name, &apply, &Patch::Apply(object));
                self.target.send::<IgnoredAny>(request).await.map(drop)
            })
            .await?;
        let timing = Timing::of(objects.len(), started.elapsed());
        Ok(timing.with_server(self.servers.cpu() - server))
    }
}

/// An owner for the objects. It makes them as large as those of a manager, and the garbage
/// collector has to process them as well.
pub(crate) async fn owner(target: &Target, name: &str) -> kube::Result<Value> {
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let created: Value = target.post(&target.config_maps(), &body).await?;
    Ok(json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": name,
        "uid": created["metadata"]["uid"],
        "blockOwnerDeletion": true,
    }))
}

/// Gives an object the metadata that a manager writes in that revision; each revision adds an
/// owner.
pub(crate) fn manage(child: &mut Value, revision: u32, owners: &[Value]) {
    let owners = owners.iter().zip(1..=revision);
    let references = owners.map(|(owner, number)| {
        let mut reference = owner.clone();
        reference["controller"] = (number == revision).into();
        reference
    });
    let metadata = &mut child["metadata"];
    // The value has the length of the real one, but no manager watches it.
    let label = "x".repeat(LABEL_CACHE_VALUE.len());
    metadata["labels"] = json!({ LABEL_CACHE: label });
    metadata["annotations"] = json!({ ANNOTATION_REVISION: revision.to_string() });
    metadata["ownerReferences"] = references.collect();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_objects_have_owner_references_and_no_cache_label() {
        let owners = [json!({"name": "a"}), json!({"name": "b"})];
        let child = json!({"metadata": {"name": "c"}});
        let managed = |revision| {
            let mut child = child.clone();
            manage(&mut child, revision, &owners);
            child
        };
        let first = managed(1);
        assert_eq!(
            first["metadata"]["ownerReferences"],
            json!([{"name": "a", "controller": true}])
        );
        let second = managed(2);
        assert_eq!(
            second["metadata"]["ownerReferences"],
            json!([{"name": "a", "controller": false}, {"name": "b", "controller": true}])
        );
        assert_eq!(second["metadata"]["annotations"][ANNOTATION_REVISION], "2");
        assert_ne!(second["metadata"]["labels"][LABEL_CACHE], LABEL_CACHE_VALUE);
    }
}
