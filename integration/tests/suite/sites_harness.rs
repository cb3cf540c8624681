//! What tests with several clusters rely on: sites, and networks that fail.

use baton_integration::prelude::*;
use baton_integration::proxy::{Mode, Proxy};
use baton_integration::sites::{PULL, PUSH, Site, Stop, kubeconfig};

/// A site is told apart from the hub by what it does not have, and has what cleans up.
#[tokio::test]
async fn a_site_joins_and_leaves_nothing_behind() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let hub = ns.cluster().clone();
    let site = Site::get(PUSH).await;
    let joined = site.join(&ns).create().await;
    let (cluster, secret) = (joined.reference(), joined.secret_reference());
    assert_eq!(
        joined.read().await.unwrap()["spec"]["apiMaster"],
        site.url()
    );
    assert!(hub.get(&secret).await.is_some());

    let owner = site_create(&site, &ns, &configmap("owner")).await;
    let reference = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid(&owner),
    }]);
    let dependent = configmap("dependent").with("/metadata/ownerReferences", reference);
    site_create(&site, &ns, &dependent).await;
    let connection = site.cluster().await;
    assert!(
        connection
            .delete(&ns.reference(&configmap("owner")), "Background")
            .await
    );
    ns.eventually("garbage to be collected", async || {
        site.read(&ns, &dependent).await.is_none()
    })
    .await;

    let home = object("v1", "Namespace", ns.name()).manifest;
    let other = TestNamespace::new(Scope::Namespaced).await;
    drop(joined);
    assert!(hub.get(&cluster).await.is_some(), "a teardown may need it");
    drop(ns);
    other
        .eventually("the site to be forgotten", async || {
            hub.get(&cluster).await.is_none()
                && hub.get(&secret).await.is_none()
                && connection.get(&home).await.is_none()
        })
        .await;
}

async fn site_create(site: &Site, ns: &TestNamespace, entry: &Entry) -> Value {
    let cluster = site.cluster().await;
    cluster.create(&ns.reference(entry)).await.unwrap()
}

#[tokio::test]
async fn tokens_end_one_by_one() {
    let site = Site::get(PUSH).await;
    let account = site.account().await;
    let (old, new) = (account.token().await, account.token().await);
    let expiring = account.expiring_token(Duration::from_secs(1));
    for token in [&old.text, &new.text, &expiring] {
        assert!(site.accepts(token).await, "{token}");
    }
    tokio::join!(account.revoke(&old), site.until_refused(&expiring));
    assert!(site.accepts(&new.text).await);
    assert!(!site.accepts("nonsense").await);
}

/// Rights are those of the account.
#[tokio::test]
async fn a_proxy_stands_for_the_server_behind_it() {
    let site = Site::get(PUSH).await;
    let rules = json!([{ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"] }]);
    let token = site.account_with(&rules).await.token().await;
    let proxy = Proxy::start(site.address()).await;
    let file = tempfile::NamedTempFile::new().unwrap();
    let config = kubeconfig(&proxy.url(), site.ca(), &token.text);
    std::fs::write(file.path(), config).unwrap();
    let through = Cluster::connect(file.path()).await;
    through.list(&configmap("").manifest, "").await;
    let denied = through
        .create(&configmap("cm").within("default").manifest)
        .await;
    assert_eq!(denied.unwrap_err().code, 403);
    let facts = proxy.facts();
    assert!(facts.to_server > 0 && facts.to_client > 0, "{facts:?}");

    // A client of its own, as kube keeps connections for later.
    proxy.set(Mode::Cut).await;
    proxy.set(Mode::Pass).await;
    let again = Cluster::connect(file.path()).await;
    again.list(&configmap("").manifest, "").await;
    assert!(proxy.facts().accepted > facts.accepted);
}

/// What was stored is there afterwards, and what cleans up works on.
#[tokio::test]
async fn an_api_server_restarts() {
    let mut site = Site::alone(PULL).await;
    let name = format!("restarts-{}", std::process::id());
    site.namespace(&name).await;
    let address = site.address();
    for how in [Stop::Orderly, Stop::Abrupt] {
        site.stop(how).await;
        let refused = tokio::net::TcpStream::connect(address).await;
        assert!(refused.is_err(), "{how:?}");
        site.start().await;
    }
    let cluster = site.cluster().await;
    let home = object("v1", "Namespace", &name).manifest;
    assert!(cluster.delete(&home, "Background").await);
    let asked = std::time::Instant::now();
    while cluster.get(&home).await.is_some() {
        assert!(asked.elapsed() < Duration::from_mins(1));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
