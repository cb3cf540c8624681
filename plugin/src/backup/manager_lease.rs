//! The leases of managers, which a restore holds so that no manager writes meanwhile.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use baton_cluster::Cluster;
use baton_kubernetes::{lease::LEASE_NAME, wire::MediaType};
use baton_terminal::output::report;
use baton_view::{lists::ListQuery, object::text_at};
use http::Method;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{error::Error, installation::RESTORE as HOLDER};

const API: &str = "/apis/coordination.k8s.io/v1";

/// Time in seconds for which managers leave the lease to a restore that has not created anything.
const BRIEF: u64 = 600;

/// Time in seconds for which managers leave the lease to a restore that has begun to create objects. If
/// it is interrupted, a manager would complete a part of the objects on its own.
const LONG: u64 = 24 * 3600;

/// Number of attempts to write a lease that its holder renews.
const ATTEMPTS: usize = 10;

/// Leases, held by this process.
pub(super) struct Held<'a> {
    cluster: &'a Cluster,
    holder: String,
    leases: Vec<Value>,
}

/// Takes the leases of all managers, or else the one in `namespace`, in which a manager may start. When
/// this returns, no manager that had a lease writes any more: it has noticed the loss, or its time is
/// up.
///
/// # Errors
/// If the leases cannot be read or written.
pub(super) async fn take<'a>(cluster: &'a Cluster, namespace: &str) -> Result<Held<'a>, Error> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let unique = now.unwrap_or_default().as_nanos();
    let mut held = Held {
        cluster,
        holder: format!("{HOLDER}-{unique}"),
        leases: Vec::new(),
    };
    let all = format!("{API}/leases");
    let found = cluster
        .list_at(&all, &ListQuery::of_one(LEASE_NAME))
        .await?;
    let mut longest = None;
    for lease in found {
        longest = longest.max(remaining(&lease["spec"]));
        let lease = held.write(&lease, BRIEF).await?;
        held.leases.push(lease);
    }
    if held.leases.is_empty() {
        held.leases.extend(held.create(namespace).await?);
    }
    if longest.is_none() {
        report(
            "note: no manager holds a lease; a manager that runs with --leader-elect=false has to be stopped",
        );
    }
    if let Some(wait) = longest {
        report(&format!(
            "waiting {} s, until the manager has stopped",
            wait.as_secs()
        ));
        sleep(wait).await;
    }
    Ok(held)
}

/// The time for which the holder of a lease may still write after another one has taken it.
fn remaining(spec: &Value) -> Option<Duration> {
    let holder = text_at(spec, "/holderIdentity");
    let duration = spec["leaseDurationSeconds"]
        .as_u64()
        .filter(|seconds| *seconds > 0);
    let is_manager = !holder.is_empty() && !holder.starts_with(HOLDER);
    is_manager.then(|| Duration::from_secs(duration.unwrap_or(15)))
}

fn collection(namespace: &str) -> String {
    format!("{API}/namespaces/{namespace}/leases")
}

fn path(lease: &Value) -> String {
    let namespace = text_at(lease, "/metadata/namespace");
    format!("{}/{LEASE_NAME}", collection(namespace))
}

/// The record of a holder. An empty one gives the lease back.
fn record(holder: &str, seconds: u64, before: &Value) -> Value {
    let now = format!("{:.6}", Timestamp::now());
    let transitions = before["leaseTransitions"].as_i64().unwrap_or_default();
    json!({
        "holderIdentity": holder,
        "leaseDurationSeconds": seconds,
        "acquireTime": now,
        "renewTime": now,
        "leaseTransitions": transitions + i64::from(before["holderIdentity"] != holder),
    })
}

impl Held<'_> {
    /// Keeps the leases if this process ends: objects are created from now on.
    ///
    /// # Errors
    /// If a lease cannot be written.
    pub(super) async fn keep(&mut self) -> Result<(), Error> {
        for at in 0..self.leases.len() {
            self.leases[at] = self.write(&self.leases[at], LONG).await?;
        }
        Ok(())
    }

    /// Gives the leases back: a manager that waits for one starts at once.
    ///
    /// # Errors
    /// If a lease cannot be written.
    pub(super) async fn release(mut self) -> Result<(), Error> {
        self.holder.clear();
        for lease in &self.leases {
            self.write(lease, 1).await?;
        }
        Ok(())
    }

    /// Writes this process into a lease, in the state that the lease has now.
    async fn write(&self, lease: &Value, seconds: u64) -> Result<Value, Error> {
        let path = path(lease);
        let mut lease = lease.clone();
        for _ in 0..ATTEMPTS {
            lease["spec"] = record(&self.holder, seconds, &lease["spec"]);
            let body = Some((MediaType::Json, &lease));
            match self.cluster.send(Method::PUT, &path, body).await {
                Err(error) if error.is_code(409) => {}
                written => return Ok(written?),
            }
            lease = self.cluster.get_at(&path).await?.unwrap_or(lease);
        }
        Err(Error::Impossible(format!(
            "the lease {path} is changed again and again"
        )))
    }

    /// Creates the lease; `None` if the namespace does not exist, so that no manager runs in it.
    async fn create(&self, namespace: &str) -> Result<Option<Value>, Error> {
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": { "name": LEASE_NAME, "namespace": namespace },
            "spec": record(&self.holder, BRIEF, &Value::Null),
        });
        let body = Some((MediaType::Json, &lease));
        match self
            .cluster
            .send(Method::POST, &collection(namespace), body)
            .await
        {
            Err(error) if error.is_code(404) => Ok(None),
            created => Ok(Some(created?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manager_may_write_for_the_time_of_its_lease() {
        let restore = format!("{HOLDER}-1");
        for (spec, expected) in [
            (json!({}), None),
            (
                json!({ "holderIdentity": "", "leaseDurationSeconds": 1 }),
                None,
            ),
            (
                json!({ "holderIdentity": restore, "leaseDurationSeconds": LONG }),
                None,
            ),
            (
                json!({ "holderIdentity": "a", "leaseDurationSeconds": 20 }),
                Some(20),
            ),
            (json!({ "holderIdentity": "a" }), Some(15)),
        ] {
            assert_eq!(
                remaining(&spec),
                expected.map(Duration::from_secs),
                "{spec}"
            );
        }
    }
}
