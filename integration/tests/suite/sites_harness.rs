//! The fixtures of tests with several clusters: sites, and networks that fail.

use baton_integration::faults::{
    Answer, Faults, Gate, ObservedRequest, On, Status, Verb, WatchEnd,
};
use baton_integration::namespace::TIMEOUT;
use baton_integration::prelude::*;
use baton_integration::proxy::{Mode, Proxy};
use baton_integration::sites::{PULL, PUSH, Site, Stop, TemporaryKubeconfig};

/// A site has garbage collection, and a join leaves nothing behind on the site and on the hub.
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
async fn each_token_is_revoked_or_expires_separately() {
    let site = Site::get(PUSH).await;
    let account = site.account().await;
    let (old, new) = (account.token().await, account.token().await);
    let expiring = account.expiring_token(Duration::from_secs(5));
    for token in [&old.text, &new.text, &expiring] {
        assert!(site.accepts(token).await, "{token}");
    }
    tokio::join!(account.revoke(&old), site.until_refused(&expiring));
    assert!(site.accepts(&new.text).await);
    assert!(!site.accepts("nonsense").await);
}

/// A request through a proxy has the rights of its own account.
#[tokio::test]
async fn a_proxy_passes_requests_with_the_rights_of_their_account() {
    let site = Site::get(PUSH).await;
    let rules = json!([{ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"] }]);
    let token = site.account_with(&rules).await.token().await;
    let proxy = Proxy::start(site.address()).await;
    let endpoint = site.endpoint().at(proxy.address());
    let file = TemporaryKubeconfig::new(&endpoint.kubeconfig(&token.text));
    let through = Cluster::connect(file.path()).await;
    through.list(&configmap("").manifest, "").await;
    let denied = through
        .create(&configmap("cm").within("default").manifest)
        .await;
    assert_eq!(denied.unwrap_err().code, 403);
    let facts = proxy.facts();
    assert!(facts.to_server > 0 && facts.to_client > 0, "{facts:?}");

    // A new client is needed, because kube reuses connections.
    proxy.set(Mode::Cut).await;
    proxy.set(Mode::Pass).await;
    let again = Cluster::connect(file.path()).await;
    again.list(&configmap("").manifest, "").await;
    assert!(proxy.facts().accepted > facts.accepted);
}

/// A client receives each scripted answer as from a server, and the record shows if the server
/// carried out the request.
#[tokio::test]
async fn requests_are_answered_by_a_script() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let site = Site::get(PUSH).await;
    site.namespace(ns.name()).await;
    let token = site.account().await.token().await;
    let faults = Faults::start(site.endpoint()).await;
    let file = TemporaryKubeconfig::new(&faults.endpoint().kubeconfig(&token.text));
    let through = Cluster::connect(file.path()).await;
    let next = || On::verb(Verb::Create).path("/configmaps$").times(1);
    let create = async |name: &str| {
        let created = through.create(&ns.reference(&configmap(name))).await;
        created.map(drop).map_err(|refused| refused.code)
    };

    for (answer, code, exists) in [
        (Answer::conflict(), 409, false),
        (Answer::internal_error(), 500, false),
        (Answer::Lost(Status::internal_error()), 500, true),
    ] {
        let name = format!("cm-{code}-{exists}");
        let injection = faults.inject(next(), answer);
        assert_eq!(create(&name).await, Err(code));
        assert_eq!(site.read(&ns, &configmap(&name)).await.is_some(), exists);
        injection.used(1).await;
    }
    // The client of the tests honours this answer and repeats the request.
    faults.inject(next(), Answer::too_many_requests(1));
    assert_eq!(create("patient").await, Ok(()));
    let gate = Gate::default();
    let held = faults.inject(next(), Answer::Held(gate.clone()));
    let released = async {
        held.used(1).await;
        assert!(site.read(&ns, &configmap("held")).await.is_none());
        gate.open();
    };
    assert_eq!(tokio::join!(create("held"), released).0, Ok(()));

    let requests = faults.requests();
    let statuses: Vec<u16> = requests.iter().map(|request| request.status).collect();
    assert_eq!(statuses, [409, 500, 500, 429, 201, 201]);
    assert!(requests.iter().all(ObservedRequest::is_write));
    let done = requests
        .iter()
        .filter(|request| request.carried_out)
        .count();
    assert_eq!(done, 3);
    site.forget(ns.name()).await;
}

/// A connection that ends is an error, and a watch ends in each of the scripted ways.
#[tokio::test]
async fn scripted_faults_cut_answers_and_watches() {
    let site = Site::get(PUSH).await;
    let token = site.account().await.token().await;
    let faults = Faults::start(site.endpoint()).await;
    let file = TemporaryKubeconfig::new(&faults.endpoint().kubeconfig(&token.text));
    let config = kube::config::Kubeconfig::read_from(file.path()).unwrap();
    let config =
        kube::Config::from_custom_kubeconfig(config, &kube::config::KubeConfigOptions::default())
            .await;
    let client = kube::Client::try_from(config.unwrap()).unwrap();
    let list = "/api/v1/namespaces/default/configmaps";
    let ask = async |uri: &str| {
        let request = http::Request::get(uri).body(Vec::new()).unwrap();
        client.request_text(request).await
    };
    assert!(ask(list).await.is_ok());
    for answer in [
        Answer::HangUp { carried_out: false },
        Answer::HangUp { carried_out: true },
        Answer::CutBody(20),
    ] {
        faults.inject(On::verb(Verb::List).times(1), answer);
        assert!(ask(list).await.is_err());
    }
    assert!(ask(list).await.is_ok());

    let watch = &format!("{list}?watch=1");
    let status = Status::gone();
    faults.inject(On::verb(Verb::Watch).times(1), Answer::gone());
    let refused = ask(watch).await.unwrap_err();
    assert!(matches!(refused, kube::Error::Api(status) if status.code == 410));
    let how = WatchEnd::Error(status.clone());
    let answer = Answer::EndWatch { after: 1, how };
    faults.inject(On::verb(Verb::Watch).times(1), answer);
    let text = ask(watch).await.unwrap();
    let types: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["type"].take())
        .collect();
    assert_eq!(types, ["ADDED", "ERROR"]);

    // Watches that are open.
    for (how, good) in [
        (WatchEnd::Close, true),
        (WatchEnd::HangUp, false),
        (WatchEnd::Error(status), true),
    ] {
        let before = faults.requests().len();
        let end = async {
            let open = |requests: &[ObservedRequest]| requests.len() > before;
            faults.until("the watch to be open", open).await;
            faults.end_watches("/configmaps$", how.clone());
        };
        let (watched, ()) = tokio::join!(ask(watch), end);
        assert_eq!(watched.is_ok(), good, "{how:?}");
    }
}

/// The stored objects survive a restart of the API server, and garbage collection continues.
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
    let start = std::time::Instant::now();
    while cluster.get(&home).await.is_some() {
        assert!(start.elapsed() < TIMEOUT);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
