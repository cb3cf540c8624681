//! A site whose etcd is restored from a backup, while the hub and an agent have observed later changes.

use baton_integration::fleet::{Fleet, settings, spec, with_own};
use baton_integration::prelude::*;
use baton_integration::sites::{PULL, PUSH, Site};

/// The time in which a site has its present version again.
const PATIENCE: Duration = Duration::from_secs(30);

/// The backup has the version before the present one, which is archived by now. The site gets its
/// present version back without a change in the hub, and loses what only the earlier version had.
async fn a_restored_site_gets_its_version_back(index: usize) {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let fleet = Fleet::new(&ns);
    let site = Site::alone(index).await;
    let join = site.join(&ns);
    let joined = if index == PULL { join.pull() } else { join };
    let joined = joined.create().await;
    let agent = if index == PULL {
        Some(joined.agent().start().await)
    } else {
        None
    };
    joined.becomes("Connected", "True").await;
    fleet.add(&joined).await;
    fleet.application(&spec("1.0.0", &with_own("1.0.0"))).await;
    fleet.deployment("web", json!({})).await;
    fleet.complete("web", "1.0.0", 1).await;
    let before = site.live(&ns, &settings()).await;
    let snapshot = site.snapshot().await;
    joined.becomes("Connected", "True").await;

    fleet.application(&spec("1.1.0", &with_own("1.1.0"))).await;
    fleet.complete("web", "1.1.0", 1).await;
    let [_, old] = with_own("1.0.0");
    let [_, new] = with_own("1.1.0");
    ns.eventually("the old object to be gone", async || {
        site.read(&ns, &old).await.is_none()
    })
    .await;
    site.restore(&snapshot).await;

    let has_both = async || {
        let version = fleet.version_in(&joined).await;
        version.as_deref() == Some("1.1.0") && site.read(&ns, &new).await.is_some()
    };
    ns.within(PATIENCE)
        .eventually("the present version to be back", has_both)
        .await;
    let is_gone = async || site.read(&ns, &old).await.is_none();
    ns.within(PATIENCE)
        .eventually("the object of the earlier version to be gone", is_gone)
        .await;
    fleet.complete("web", "1.1.0", 1).await;
    let after = site.live(&ns, &settings()).await;
    assert_eq!(uid(&after), uid(&before), "created again");
    fleet.application(&spec("1.2.0", &with_own("1.2.0"))).await;
    fleet.complete("web", "1.2.0", 1).await;
    drop(agent);
}

#[tokio::test]
async fn a_restored_push_site_gets_its_version_back() {
    a_restored_site_gets_its_version_back(PUSH).await;
}

#[tokio::test]
async fn a_restored_pull_site_gets_its_version_back() {
    a_restored_site_gets_its_version_back(PULL).await;
}
