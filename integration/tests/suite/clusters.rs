//! Clusters that the manager connects to: their status, and the effect of their Secrets, addresses
//! and servers on the connection.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};

use baton_integration::endpoint::Endpoint;
use baton_integration::exclusive::Exclusive;
use baton_integration::prelude::*;
use baton_integration::proxy::{Mode, Proxy};
use baton_integration::sites::{Join, Joined, PULL, PUSH, Site};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::requests::settle;
use crate::rights::{ACCOUNT, NAMESPACE, apply_shipped_rights};

const SKIP_VERIFY: &str = "shipper.booking.com/cluster-secret.insecure-tls-skip-verify";

/// Waits until the cluster is not connected for this reason, and returns the message.
async fn lost(joined: &Joined, reason: &str) -> String {
    let condition = joined.because("Connected", reason).await;
    assert_eq!(condition["status"], "False", "{condition}");
    condition["message"].as_str().unwrap().to_owned()
}

/// Returns the CA of the hub, which signs no certificate of a site.
fn ca_of_the_hub(ns: &TestNamespace) -> String {
    Endpoint::of_bed(ns.cluster().kubeconfig()).ca
}

#[tokio::test]
async fn the_address_is_required_unless_the_connection_is_pull() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let cluster = |spec: Value| {
        json!({
            "apiVersion": "shipper.booking.com/v1alpha1", "kind": "Cluster",
            "metadata": { "name": ns.unique("admitted") }, "spec": spec,
        })
    };
    for spec in [
        json!({ "region": "a" }),
        json!({ "region": "a", "apiMaster": "" }),
        json!({ "region": "a", "connection": "Push" }),
    ] {
        let refused = ns.cluster().create(&cluster(spec)).await.unwrap_err();
        assert!(
            refused
                .message
                .contains("apiMaster is required unless connection is Pull"),
            "{}",
            refused.message
        );
    }
    let pull = cluster(json!({ "region": "a", "connection": "Pull" }));
    let made = ns.cluster().create(&pull).await.unwrap();
    assert_eq!(made["spec"]["capabilities"], json!([]));
    // The status is part of the main resource, as in Shipper.
    let status = json!({ "status": { "inService": true } });
    let merged = ns.cluster().merge(&pull, &status).await.unwrap();
    assert_eq!(merged["status"]["inService"], true);
    assert!(ns.cluster().delete(&pull, "Background").await);
}

#[tokio::test]
async fn a_cluster_that_answers_is_connected() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let site = Site::get(PUSH).await;
    // An address may lack the scheme and end with a slash.
    let address = format!("{}/", site.address());
    let joined = site.join(&ns).through(&address).create().await;
    let condition = joined.becomes("Connected", "True").await;
    assert_eq!(condition["reason"], "Connected");
    assert_eq!(condition["message"], "");
    let status = joined.read().await.unwrap()["status"].take();
    let version = status["serverVersion"].as_str().unwrap();
    assert!(version.starts_with("v1."), "{version}");
    assert!(status["lastContactTime"].is_string(), "{status}");

    // A status that another client has removed is reported again.
    let nothing = json!({ "status": null });
    let cluster = joined.reference();
    ns.cluster().merge(&cluster, &nothing).await.unwrap();
    joined.becomes("Connected", "True").await;
}

/// Each invalid cluster has its own reason, and none of them affects a valid cluster.
#[tokio::test]
async fn invalid_clusters_are_reported() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let site = Site::get(PUSH).await;
    let closed = Proxy::start(site.address()).await;
    closed.set(Mode::Cut).await;
    let token = site.account().await.token().await.text;
    let hub = Endpoint::of_bed(ns.cluster().kubeconfig());
    let join = |name: &str| site.join(&ns).named(name);
    let table: [(Join<'_>, &str, &str); 9] = [
        (
            join("no-secret").without_secret(),
            "NoSecret",
            "there is no Secret baton-system/",
        ),
        (
            join("no-keys").secret(json!({ "username": "hub" })),
            "InvalidSecret",
            "it has no credentials; add token, or tls.crt and tls.key",
        ),
        (
            join("no-pem").secret(json!({ "token": token, "ca.crt": "a CA" })),
            "InvalidSecret",
            "ca.crt contains no PEM certificate",
        ),
        (
            join("other-key").secret(
                json!({ "tls.crt": site.endpoint().certificate, "tls.key": hub.key, "tls.ca": site.ca() }),
            ),
            "InvalidSecret",
            "it cannot be used for TLS: ",
        ),
        (
            join("other-ca").secret(json!({ "token": token, "ca.crt": hub.ca })),
            "Unreachable",
            "check that the Secret contains the CA of this cluster",
        ),
        (
            join("other-token").token("nonsense"),
            "Unauthorized",
            "refuses the credentials in the Secret: Unauthorized",
        ),
        (
            join("other-certificate").secret(
                json!({ "tls.crt": hub.certificate, "tls.key": hub.key, "tls.ca": site.ca() }),
            ),
            "Unauthorized",
            "refuses the credentials in the Secret: Unauthorized",
        ),
        (
            join("nobody-there").through(&closed.url()),
            "Unreachable",
            "Connection refused",
        ),
        (
            join("no-url").through("ftp://nobody"),
            "InvalidSpec",
            "ftp is neither https nor http",
        ),
    ];
    let mut all = Vec::new();
    for (join, reason, text) in table {
        all.push((join.create().await, reason, text));
    }
    let good = site.join(&ns).create().await;
    good.becomes("Connected", "True").await;
    for (joined, reason, text) in &all {
        let message = lost(joined, reason).await;
        assert!(message.contains(text), "{}: {message}", joined.name());
        assert!(!message.contains('\n'), "{message}");
        assert!(!message.contains(&token), "{message}");
    }
}

/// Listens on a port, records all requests, and answers each with this text.
async fn listen(answer: &'static str) -> (u16, Arc<Mutex<String>>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let received = Arc::new(Mutex::new(String::new()));
    let all = Arc::clone(&received);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut buffer = vec![0; 8192];
            // A connection without a request is recorded as well.
            let read = stream.read(&mut buffer).await.unwrap_or(0);
            let text = String::from_utf8_lossy(&buffer[..read]).into_owned();
            *all.lock().unwrap() += &["connection: ", &text].concat();
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    (port, received)
}

/// A user who may change a Cluster cannot obtain its token by that.
#[tokio::test]
async fn credentials_go_to_no_other_server_and_nowhere_in_plain_text() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let site = Site::get(PUSH).await;
    let (port, received) = listen("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n").await;
    let address = |url: &str| json!({ "apiMaster": url });
    let joined = site
        .join(&ns)
        .secret_annotation("baton.run/server", &site.url())
        .create()
        .await;
    joined.becomes("Connected", "True").await;

    // This is no loopback address, although it leads to the listener.
    let plain = format!("http://0.0.0.0:{port}");
    joined.change_spec(&address(&plain)).await;
    let message = lost(&joined, "InvalidSpec").await;
    let text = "is not encrypted; credentials are sent over https only, except within the machine";
    assert_eq!(message, format!("spec.apiMaster \"{plain}\" {text}"));

    for other in [
        format!("https://127.0.0.1:{port}"),
        format!("http://127.0.0.1:{port}"),
    ] {
        joined.change_spec(&address(&other)).await;
        ns.eventually("the other server to be refused", async || {
            let condition = joined.because("Connected", "InvalidSecret").await;
            let message = condition["message"].as_str().unwrap_or_default();
            message.contains(&format!("Cluster names {other}/")) && message.contains(&site.url())
        })
        .await;
    }
    joined.change_spec(&address(&site.url())).await;
    joined.becomes("Connected", "True").await;
    assert_eq!(*received.lock().unwrap(), "");
}

#[tokio::test]
async fn a_redirection_is_not_followed() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let site = Site::get(PUSH).await;
    let (port, elsewhere) = listen("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n").await;
    let redirection = format!(
        "HTTP/1.1 307 Temporary Redirect\r\nlocation: http://127.0.0.1:{port}/version\r\ncontent-length: 0\r\n\
         connection: close\r\n\r\n"
    );
    let (redirecting, received) = listen(redirection.leak()).await;
    let joined = site
        .join(&ns)
        .token("hunter2")
        .through(&format!("http://127.0.0.1:{redirecting}"))
        .create()
        .await;
    joined.becomes("Connected", "False").await;
    ns.eventually("requests to the first server", async || {
        received.lock().unwrap().contains("Bearer hunter2")
    })
    .await;
    let message = joined.becomes("Connected", "False").await;
    assert_eq!(*elsewhere.lock().unwrap(), "", "{message}");
}

/// An attempt to connect ends after some seconds, and other clusters are connected meanwhile.
#[tokio::test]
async fn a_server_that_does_not_answer_blocks_no_other_cluster() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let site = Site::get(PUSH).await;
    let proxy = Proxy::start(site.address()).await;
    proxy.set(Mode::BlackHole).await;
    let mute = site.join(&ns).named("mute").through(&proxy.url());
    let mute = mute.create().await;
    proxy
        .until("the attempt to connect", |facts| facts.swallowed > 0)
        .await;
    let good = site.join(&ns).named("good").create().await;
    good.becomes("Connected", "True").await;
    let cluster = mute.read().await.unwrap();
    assert_eq!(cluster["status"]["conditions"][0]["reason"], "Connecting");
    let message = lost(&mute, "Unreachable").await;
    assert!(message.ends_with("no answer within 8 s"), "{message}");
    // The connection is a new one: the old ones stay dead.
    proxy.set(Mode::Pass).await;
    mute.becomes("Connected", "True").await;
}

/// New credentials are used at once, also by watches that are reopened. Neither the Cluster nor the
/// delivered objects are affected.
#[tokio::test]
async fn credentials_are_replaced_without_an_interruption() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let site = Site::get(PUSH).await;
    let account = site.account().await;
    let (old, new) = (account.token().await, account.token().await);
    let proxy = Proxy::start(site.address()).await;
    let join = site.join(&ns).token(&old.text).through(&proxy.url());
    let joined = join.create().await;
    let connected = joined.becomes("Connected", "True").await;
    let settings = configmap("cm").data("k", "v");
    let set = ns.revision(1);
    let set = set.delegated("a", &joined.class(), [settings.clone()]);
    set.create().await;
    let available = ns.reaches("v1", &[Is("Available", "True")]).await;
    let made = site.live(&ns, &settings).await;

    let there = site.cluster().await;
    let drift = async |value: &str| {
        let patch = json!({ "data": { "k": value } });
        let object = ns.reference(&settings);
        there.merge(&object, &patch).await.unwrap();
        ns.eventually("the drift to be repaired", async || {
            site.live(&ns, &settings).await["data"]["k"] == "v"
        })
        .await;
    };
    joined.change_secret(&json!({ "token": new.text })).await;
    account.revoke(&old).await;
    drift("once").await;
    proxy.set(Mode::ResetLivingAfter(0)).await;
    drift("twice").await;

    assert_eq!(joined.becomes("Connected", "True").await, connected);
    let log = ns.log().about(joined.name(), usize::MAX);
    let logged = |text: &str| log.lines().filter(|line| line.contains(text)).count();
    assert_eq!(
        (logged("credentials exchanged"), logged(" connected ")),
        (1, 1)
    );
    assert_eq!(uid(&site.live(&ns, &settings).await), uid(&made));
    let since = |revision: &Revision| {
        revision.condition("Available").unwrap()["lastTransitionTime"].clone()
    };
    let still = ns.reaches("v1", &[Is("Available", "True")]).await;
    assert_eq!(since(&still), since(&available));
}

#[tokio::test]
async fn revoked_credentials_are_reported_and_can_be_replaced() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let site = Site::get(PUSH).await;
    let account = site.account().await;
    let token = account.token().await;
    let proxy = Proxy::start(site.address()).await;
    let join = site.join(&ns).token(&token.text).through(&proxy.url());
    let joined = join.create().await;
    joined.becomes("Connected", "True").await;
    account.revoke(&token).await;
    // The reopened watches are refused, which is detected before the next check is due.
    proxy.set(Mode::ResetLivingAfter(0)).await;
    lost(&joined, "Unauthorized").await;
    let new = account.token().await;
    joined.change_secret(&json!({ "token": new.text })).await;
    joined.becomes("Connected", "True").await;
}

#[tokio::test]
async fn a_deleted_secret_ends_the_connection_until_it_is_back() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let site = Site::get(PUSH).await;
    let token = site.account().await.token().await.text;
    let proxy = Proxy::start(site.address()).await;
    let join = site.join(&ns).token(&token).through(&proxy.url());
    let joined = join.create().await;
    joined.becomes("Connected", "True").await;
    joined.delete_secret().await;
    lost(&joined, "NoSecret").await;
    proxy
        .until("the connections to end", |facts| facts.open == 0)
        .await;
    let content = json!({ "token": token, "ca.crt": site.ca() });
    joined.create_secret(&content, &json!({})).await;
    joined.becomes("Connected", "True").await;
}

#[tokio::test]
async fn a_changed_address_opens_a_new_connection() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let site = Site::get(PUSH).await;
    let (one, other) = tokio::join!(Proxy::start(site.address()), Proxy::start(site.address()));
    other.set(Mode::Cut).await;
    let joined = site.join(&ns).through(&one.url()).create().await;
    joined.becomes("Connected", "True").await;
    let move_to = async |url: &str| joined.change_spec(&json!({ "apiMaster": url })).await;
    move_to(&other.url()).await;
    let message = lost(&joined, "Unreachable").await;
    assert!(message.contains(&other.url()), "{message}");
    one.until("the connections to end", |facts| facts.open == 0)
        .await;
    other.set(Mode::Pass).await;
    joined.becomes("Connected", "True").await;
}

#[tokio::test]
async fn connections_end_when_their_cluster_is_deleted() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let site = Site::get(PUSH).await;
    let proxy = Proxy::start(site.address()).await;
    let joined = site.join(&ns).through(&proxy.url()).create().await;
    joined.becomes("Connected", "True").await;
    assert!(proxy.facts().open > 0);
    joined.leave().await;
    let facts = proxy
        .until("the connections to end", |facts| facts.open == 0)
        .await;
    // A check would be due after a second if the cluster still had a connection.
    ns.stays(
        Duration::from_millis(1_500),
        "no connection is made",
        async || proxy.facts().accepted == facts.accepted,
    )
    .await;
}

/// The annotation applies to a client certificate, but not to a token.
#[tokio::test]
async fn verification_of_a_server_certificate_can_be_skipped() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let site = Site::get(PUSH).await;
    let ca = ca_of_the_hub(&ns);
    let endpoint = site.endpoint();
    let content = json!({ "tls.crt": endpoint.certificate, "tls.key": endpoint.key, "tls.ca": ca });
    let join = site.join(&ns).named("certificate").secret(content);
    let joined = join.secret_annotation(SKIP_VERIFY, "True").create().await;
    let token = site.account().await.token().await.text;
    let join = site.join(&ns).named("token");
    let join = join.secret(json!({ "token": token, "ca.crt": ca }));
    let strict = join.secret_annotation(SKIP_VERIFY, "True").create().await;
    joined.becomes("Connected", "True").await;
    lost(&strict, "Unreachable").await;
    let verify = json!({ "metadata": { "annotations": { SKIP_VERIFY: "false" } } });
    let secret = joined.secret_reference();
    ns.cluster().merge(&secret, &verify).await.unwrap();
    lost(&joined, "Unreachable").await;
}

/// A restart writes no status, for a connected cluster and for an invalid one.
#[tokio::test]
async fn a_restart_writes_nothing_about_clusters() {
    let mut bed = Exclusive::acquire().await;
    let ns = bed.namespace(Scope::Namespaced).await;
    let site = Site::get(PUSH).await;
    let good = site.join(&ns).named("good").create().await;
    let bad = site.join(&ns).named("bad").without_secret().create().await;
    good.becomes("Connected", "True").await;
    lost(&bad, "NoSecret").await;
    settle(&ns, &bed).await;
    let before = (good.read().await, bad.read().await);
    let connections = |bed: &Exclusive| {
        let lines = bed.manager().log().about(good.name(), usize::MAX);
        let connected = |line: &&str| line.contains(" connected ");
        lines.lines().filter(connected).count()
    };
    let first = connections(&bed);
    assert!(first > 0);
    bed.take_manager().kill();
    bed.start_manager();
    ns.eventually("the manager to be connected again", async || {
        connections(&bed) > first
    })
    .await;
    settle(&ns, &bed).await;
    assert_eq!((good.read().await, bad.read().await), before);
    assert_eq!(bed.manager().metrics().writes(), 0);
}

/// With the shipped rights, the manager can read Secrets in one namespace only, without the rights
/// for the objects of revisions.
#[tokio::test]
async fn secrets_are_read_in_their_namespace_only() {
    let mut bed = Exclusive::acquire().await;
    let hub = bed.cluster().clone();
    apply_shipped_rights(&hub).await;
    let rbac = |kind: &str, name: &str| {
        let object = object("rbac.authorization.k8s.io/v1", kind, name);
        object.manifest
    };
    let children = rbac("ClusterRoleBinding", "baton-children");
    assert!(hub.delete(&children, "Background").await);
    bed.take_manager().kill();
    bed.start_manager_as(NAMESPACE, ACCOUNT).await;
    let ns = bed.namespace(Scope::Namespaced).await;
    let site = Site::get(PUSH).await;
    let joined = site.join(&ns).named("allowed").create().await;
    joined.becomes("Connected", "True").await;

    let binding = object(
        "rbac.authorization.k8s.io/v1",
        "RoleBinding",
        "baton-clusters",
    );
    assert!(
        hub.delete(&binding.within(NAMESPACE).manifest, "Background")
            .await
    );
    bed.take_manager().kill();
    // The manager starts without this right.
    bed.start_manager_as(NAMESPACE, ACCOUNT).await;
    let message = lost(&joined, "NoSecret").await;
    let secret = format!("cannot read Secret {NAMESPACE}/{}: ", joined.name());
    assert!(message.starts_with(&secret), "{message}");
    assert!(message.contains("is forbidden"), "{message}");

    apply_shipped_rights(&hub).await;
    joined.becomes("Connected", "True").await;
}

/// One API server under several names: by the manager, and by an agent. Deliveries continue.
#[tokio::test]
async fn clusters_with_one_uid_are_reported() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let site = Site::get(PULL).await;
    let first = site.join(&ns).named("first").create().await;
    let second = site.join(&ns).named("second").create().await;
    let pulled = site.join(&ns).named("pulled").pull().create().await;
    let _agent = pulled.agent().start().await;
    for joined in [&first, &second, &pulled] {
        let unique = joined.because("Unique", "UidInUse").await;
        assert_eq!(unique["status"], "False");
        let message = unique["message"].as_str().unwrap();
        assert!(message.contains("has the UID of Cluster \""), "{message}");
        let named = message.matches("Cluster \"").count();
        assert!((1..=3).contains(&named), "{message}");
        assert!(
            !message.contains(&format!("\"{}\"", joined.name())),
            "{message}"
        );
    }
    let object = configmap("cm").data("k", "v");
    let set = ns.revision(1).delegated("a", &second.class(), [object]);
    set.reaching(&[Is("Available", "True")]).await;
}

/// With `--require-unique-clusters` only the oldest of the Clusters with one UID is used. The others
/// receive nothing and lose nothing, until it is deleted or the flag is removed.
#[tokio::test]
async fn only_the_oldest_of_clusters_with_one_uid_is_used() {
    let mut bed = Exclusive::acquire().await;
    let ns = bed.namespace(Scope::Namespaced).await;
    let (site, elsewhere) = (Site::get(PULL).await, Site::get(PUSH).await);
    // Clusters of the same second are ordered by their names.
    let first = site.join(&ns).named("first").create().await;
    let pulled = site.join(&ns).named("pulled").pull().create().await;
    let second = site.join(&ns).named("second").create().await;
    let lone = elsewhere.join(&ns).named("lone").create().await;
    let _agent = pulled.agent().start().await;
    let object = |name: &str| configmap(name).data("k", "v");
    let deliver = async |name: &str, joined: &Joined| {
        let set = ns.set(name).revision(1);
        let set = set.delegated("a", &joined.class(), [object(name)]);
        set.create().await;
    };
    let available = [Is("Available", "True")];
    deliver("kept", &second).await;
    ns.reaches("kept", &available).await;
    let kept = site.live(&ns, &object("kept")).await;

    bed.take_manager().kill();
    bed.spawn_manager(&["--leader-elect=false", "--require-unique-clusters"]);
    let cause = format!(
        "It receives nothing, as Cluster \"{}\" is older",
        first.name()
    );
    for joined in [&pulled, &second] {
        let unique = joined.because("Unique", "UidRefused").await;
        let message = unique["message"].as_str().unwrap();
        assert!(message.ends_with(&cause), "{message}");
        joined.becomes("Connected", "True").await;
    }
    let used = first.because("Unique", "UidInUse").await;
    assert!(
        used["message"].as_str().unwrap().ends_with("stays in use"),
        "{used}"
    );
    for (name, joined) in [
        ("agent", &pulled),
        ("new", &second),
        ("first", &first),
        ("lone", &lone),
    ] {
        deliver(name, joined).await;
    }
    for name in ["first", "lone"] {
        ns.reaches(name, &available).await;
    }
    let refused = [
        Because("Available", "Unknown", "ClusterUnreachable"),
        Says("Available", &cause),
    ];
    for name in ["agent", "new", "kept"] {
        ns.reaches(name, &refused).await;
    }
    for name in ["agent", "new"] {
        assert_eq!(site.read(&ns, &object(name)).await, None, "{name}");
    }
    assert!(pulled.mirrored().await.is_empty());
    assert!(ns.cluster().delete(&ns.set_ref("kept"), "Background").await);
    ns.eventually("the deletion to wait", async || {
        let reported = ns.read_set("kept").await;
        let message = &reported.json["status"]["waitingFor"][0]["message"];
        message
            .as_str()
            .is_some_and(|text| text.contains(&cause) && text.contains("The deletion waits for it"))
    })
    .await;
    assert_eq!(site.live(&ns, &object("kept")).await, kept);

    ns.delete_set("first", "Background").await;
    first.leave().await;
    ns.reaches("agent", &available).await;
    let cause = format!(
        "It receives nothing, as Cluster \"{}\" is older",
        pulled.name()
    );
    ns.reaches("new", &[Says("Available", &cause)]).await;

    bed.take_manager().kill();
    bed.start_manager();
    ns.reaches("new", &available).await;
    ns.eventually("the deletion to end", async || {
        ns.cluster().get(&ns.set_ref("kept")).await.is_none()
    })
    .await;
    assert_eq!(site.read(&ns, &object("kept")).await, None);
    second.because("Unique", "UidInUse").await;
}
