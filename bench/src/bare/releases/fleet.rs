//! The bare measurement of one Application in many clusters.

use std::time::Duration;

use futures::future::try_join_all;
use kube::Client;
use tokio::time::Instant;

use super::{BareApp, BareNamespace};
use crate::error::Error;
use crate::load::releases::Template;
use crate::load::releases::fleet::NAME;

/// Writes the objects of an Application with a plain client: once on the hub, and in a namespace of
/// that round for each of these clusters, which are distributed over the control planes in turn.
/// Each step ends when all clusters have reached it. Returns the time that it took.
///
/// Objects that a manager would reconcile after its start are deleted again.
pub(crate) async fn measure(
    hub: &Client,
    planes: &[Client],
    clusters: &[String],
    template: &Template,
    round: usize,
) -> Result<Duration, Error> {
    let hub = BareNamespace::create(hub, &format!("bench-bare-{round}")).await?;
    let create = async |(name, plane): (&String, &Client)| {
        BareNamespace::create(plane, &format!("{name}-bare-{round}")).await
    };
    let namespaces = clusters.iter().zip(planes.iter().cycle()).map(create);
    let namespaces = try_join_all(namespaces).await?;
    let started = Instant::now();
    hub.enter(NAME, template, clusters).await?;
    let mut apps = try_join_all(namespaces.iter().map(|it| it.install(NAME))).await?;
    for (step, pods) in template.strategy.pods(template.pods).enumerate() {
        if step > 0 {
            hub.promote(NAME, step).await?;
        }
        try_join_all(apps.iter_mut().map(|app| app.reach(pods))).await?;
    }
    try_join_all(apps.iter().map(BareApp::balance)).await?;
    let elapsed = started.elapsed();
    hub.clean_up().await?;
    eprintln!(
        "bench: bare {round}, all clusters: {:.3} s",
        elapsed.as_secs_f64()
    );
    Ok(elapsed)
}
