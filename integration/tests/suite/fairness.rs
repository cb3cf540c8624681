//! The work of one tenant does not delay other tenants.

use std::time::Instant;

use baton_integration::exclusive::Exclusive;
use baton_integration::namespace::TIMEOUT;
use baton_integration::prelude::*;
use baton_integration::proxy::{Mode, Proxy};
use baton_integration::sites::{PUSH, Site};
use futures::{StreamExt as _, stream};

/// Number of failing revisions of a tenant.
const FAILING: usize = 120;

/// Number of revisions for a cluster: more than there are workers.
const STUCK: usize = 20;

/// Returns the resource version of an object. Versions increase with each write in the cluster, so
/// they give the order of writes.
fn version(object: &Value) -> u64 {
    let version = object["metadata"]["resourceVersion"].as_str();
    version.unwrap().parse().unwrap()
}

/// Returns the resource versions of the revisions in a namespace that report this reason.
async fn reports(ns: &TestNamespace, reason: &str) -> Vec<u64> {
    let like = ns.set_ref("any");
    let sets = ns.cluster().list(&like, "").await;
    let has_reason = |set: &&Value| {
        let conditions = set["status"]["conditions"].as_array();
        conditions
            .into_iter()
            .flatten()
            .any(|condition| condition["reason"] == reason)
    };
    sets.iter().filter(has_reason).map(version).collect()
}

/// Waits until this number of revisions in a namespace report this reason, and returns their
/// resource versions.
async fn all_reports(ns: &TestNamespace, reason: &str, count: usize) -> Vec<u64> {
    ns.within(TIMEOUT * 2)
        .eventually(reason, async || reports(ns, reason).await.len() == count)
        .await;
    reports(ns, reason).await
}

/// A manager that starts reconciles all revisions, and the tenant's come first in the list. Most of
/// them still wait when the revision of the other tenant is rolled out.
#[tokio::test]
async fn a_tenant_with_many_failing_revisions_delays_nobody_else() {
    let mut bed = Exclusive::acquire().await;
    let (first, second) = (
        bed.namespace(Scope::Namespaced).await,
        bed.namespace(Scope::Namespaced).await,
    );
    let (tenant, other) = if first.name() < second.name() {
        (first, second)
    } else {
        (second, first)
    };
    bed.take_manager().kill();
    let create = |at: usize| {
        // The dry run is refused.
        let bad = configmap("bad").data("no valid key!", "v");
        let set = tenant.set(&format!("bad-{at}")).phase("a", [bad]);
        async move {
            set.create().await;
        }
    };
    let create = stream::iter((0..FAILING).map(create)).buffer_unordered(8);
    create.collect::<()>().await;
    let good = other.set("good").phase("a", [configmap("good")]);
    good.create().await;

    bed.start_manager();
    let good = other.reaches("good", &[Is("Available", "True")]).await;
    let rolled_out = version(&good.json);
    let reports = all_reports(&tenant, "PreflightError", FAILING).await;
    let before = reports.iter().filter(|report| **report < rolled_out);
    let before = before.count();
    println!("{before} of {FAILING} had failed when the other one was rolled out");
    assert!(before < FAILING / 2, "{before} of {FAILING}");
}

/// More passes than there are workers are blocked by a cluster. Only they wait until the cluster is
/// reported as lost.
#[tokio::test]
async fn a_cluster_that_answers_nothing_delays_no_other_revision() {
    let bed = Exclusive::acquire().await;
    let tenant = bed.namespace(Scope::Namespaced).await;
    let other = bed.namespace(Scope::Namespaced).await;
    let site = Site::get(PUSH).await;
    let proxy = Proxy::start(site.address()).await;
    let joined = site.join(&tenant).through(&proxy.url()).create().await;
    joined.becomes("Connected", "True").await;
    let deliver = |name: &str| {
        let set = tenant.set(name);
        set.delegated("a", &joined.class(), [configmap(name)])
    };
    // The objects of the cluster are watched from now on.
    deliver("first").available().await;

    proxy.set(Mode::BlackHole).await;
    for at in 0..STUCK {
        deliver(&format!("stuck-{at}")).create().await;
    }
    let has_swallowed = |facts: &baton_integration::proxy::Facts| facts.swallowed > 0;
    proxy.until("requests to be swallowed", has_swallowed).await;
    let good = other.set("good");
    let good = good.delegated("a", "default", [configmap("good")]);
    let good = good.available().await;
    // The revision that was delivered before is lost like the others.
    let lost = all_reports(&tenant, "ClusterUnreachable", STUCK + 1).await;
    let rolled_out = version(&good.json);
    assert!(
        lost.iter().all(|lost| rolled_out < *lost),
        "{rolled_out} {lost:?}"
    );
}

/// Number of targets of a tenant, and of the clusters of each. None of the clusters exists.
const TARGETS: usize = 6;
const CLUSTERS: usize = 1_000;

/// Time limit of a lone revision of another tenant. A build without optimizations takes about ten
/// times as long as a release; the goal there is one second.
const LONE: Duration = Duration::from_secs(10);

#[tokio::test]
async fn targets_with_unknown_clusters_delay_nobody_else() {
    let bed = Exclusive::acquire().await;
    let tenant = bed.namespace(Scope::Namespaced).await;
    let other = bed.namespace(Scope::Namespaced).await;
    let clusters = (0..CLUSTERS).map(|at| json!({ "name": format!("none-{at}"), "weight": 1 }));
    let clusters: Value = clusters.collect();
    let create = |at: usize| {
        let name = format!("target-{at}");
        let target = object("shipper.booking.com/v1alpha1", "TrafficTarget", &name)
            .label("shipper-app", "web")
            .label("shipper-release", &name)
            .with("/spec", json!({ "clusters": clusters }));
        let tenant = &tenant;
        async move { tenant.create(&target).await }
    };
    let flood = async {
        let create = stream::iter((0..TARGETS).map(create)).buffer_unordered(4);
        create.for_each(async |_| {}).await;
    };
    let lone = async {
        let mut longest = Duration::ZERO;
        for at in 0..20 {
            let name = format!("lone-{at}");
            let started = Instant::now();
            let set = other.set(&name).phase("a", [configmap(&name)]);
            set.available().await;
            longest = longest.max(started.elapsed());
        }
        longest
    };
    let ((), longest) = futures::join!(flood, lone);
    println!("a lone revision took {longest:?} at most");
    assert!(longest < LONE, "{longest:?}");
    let reported = async || {
        let like = object("shipper.booking.com/v1alpha1", "TrafficTarget", "any");
        let targets = tenant.cluster().list(&tenant.reference(&like), "").await;
        let is_reported = |it: &Value| {
            let clusters = it["status"]["clusters"].as_array();
            clusters.is_some_and(|clusters| clusters.len() == CLUSTERS)
        };
        targets.iter().filter(|it| is_reported(it)).count() == TARGETS
    };
    tenant
        .eventually("all clusters to be reported", reported)
        .await;
}
