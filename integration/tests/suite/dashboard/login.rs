//! `baton dashboard`: pages for everybody who has a token, with the rights of each.

use std::ffi::OsString;
use std::net::SocketAddr;

use baton_integration::prelude::*;
use baton_integration::program::{Log, Program, free_address};
use tokio::net::TcpStream;

use super::Browser;

/// A dashboard behind the path `/baton`. Its kubeconfig has all rights, which no viewer gets.
pub(crate) fn dashboard(ns: &TestNamespace, purpose: &str) -> (Program, Browser) {
    let address = free_address();
    let program = dashboard_at(ns, purpose, address);
    let cookie = String::new();
    (program, Browser { address, cookie })
}

/// As [`dashboard`], at this address.
pub(crate) fn dashboard_at(ns: &TestNamespace, purpose: &str, address: SocketAddr) -> Program {
    let kubeconfig = ns.cluster().kubeconfig().into();
    let mut args: Vec<OsString> = vec!["dashboard".into(), "--kubeconfig".into(), kubeconfig];
    args.push(format!("--listen-addr={address}").into());
    args.push("--base-path=/baton/".into());
    args.push("--cluster-name=the bed".into());
    Program::start("/readyz", &Log::of(purpose), &args, &[])
}

/// The token of a new service account, with rights in its namespace or without any.
pub(crate) async fn account(ns: &TestNamespace, name: &str, has_rights: bool) -> String {
    ns.create(&object("v1", "ServiceAccount", name)).await;
    if has_rights {
        let user = format!("system:serviceaccount:{}:{name}", ns.name());
        let all =
            json!([{ "apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"] }]);
        ns.grant(&user, all).await;
    }
    ns.cluster().token(ns.name(), name).await
}

impl Browser {
    /// Sends the form of the login page. Returns the head and the body of the answer.
    async fn log_in(&mut self, token: &str) -> (String, String) {
        let form = format!("token={token}&next=/baton/clusters");
        let own = "Sec-Fetch-Site: same-origin\r\n";
        let (head, body) = self.post("/baton/login", own, &form).await;
        let cookies = head
            .lines()
            .filter_map(|line| line.strip_prefix("set-cookie: "));
        let kept = cookies.filter(|cookie| !cookie.contains("Max-Age=0"));
        let kept = kept.map(|cookie| cookie.split(';').next().unwrap());
        self.cookie = kept.collect::<Vec<_>>().join("; ");
        (head, body)
    }
}

#[tokio::test]
async fn viewers_with_the_same_rights_share_a_feed() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let content = |data: &str| {
        let map = configmap("menu").with("/data/dish", data);
        ns.content().phase("a", [map])
    };
    ns.deployment("web").content(content("soup")).create().await;
    ns.existing("web").concluded().await;
    let (program, nobody) = dashboard(&ns, "dashboard-sharing");
    let path = format!("/baton/chains/od/{}/web", ns.name());
    let mut browsers = Vec::new();
    for name in ["ann", "bob"] {
        let token = account(&ns, name, true).await;
        let mut browser = nobody.clone();
        let (head, _) = browser.log_in(&token).await;
        assert!(head.starts_with("HTTP/1.1 303"), "{head}");
        assert!(
            head.contains("location: /baton/login?done=1&next=%2Fbaton%2Fclusters"),
            "{head}"
        );
        // The server applies rights with a delay.
        ns.eventually("the page of the chain", async || {
            let (head, page) = browser.get(&path).await;
            head.starts_with("HTTP/1.1 200") && page.contains("rolled out and available")
        })
        .await;
        let (_, page) = browser.get(&path).await;
        let user = format!("system:serviceaccount:{}:{name}", ns.name());
        assert!(page.contains(&user) && page.contains("the bed"), "{page}");
        let events = browser.events(&path, &page).await;
        browsers.push((browser, events));
    }
    let figures = || {
        let metrics = program.metrics();
        (
            metrics.count("baton_dashboard_pages"),
            metrics.count("baton_dashboard_feeds"),
        )
    };
    ns.eventually("one feed for two viewers", async || figures() == (2, 1))
        .await;

    let requests = |program: &Program| program.metrics().count("baton_api_requests_total");
    let before = requests(&program);
    ns.existing("web").edit(content("stew")).await;
    for (_, events) in &mut browsers {
        events.contain(r#"<span class=\"number\">2</span>"#).await;
    }
    ns.existing("web").concluded_as(2).await;
    // Reviews of rights, for each viewer but the first; no list is read again.
    let spent = requests(&program) - before;
    assert!(spent <= 20, "{spent} requests");

    // The feed goes on with the token of the viewer who stays.
    let (_, mut stays) = browsers.pop().unwrap();
    drop(browsers);
    ns.eventually("one viewer", async || figures() == (1, 1))
        .await;
    ns.existing("web").edit(content("cake")).await;
    stays.contain(r#"<span class=\"number\">3</span>"#).await;
}

#[tokio::test]
async fn a_viewer_without_rights_sees_the_reason_and_nothing_else() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let secret = configmap("menu").with("/data/dish", "a-secret-recipe");
    ns.deployment("web")
        .content(ns.content().phase("a", [secret]))
        .create()
        .await;
    ns.existing("web").concluded().await;
    let (_program, mut eve) = dashboard(&ns, "dashboard-login");
    let path = format!("/baton/chains/od/{}/web", ns.name());

    // Without a token: the login page, which leads back, and files without content of the cluster.
    let (head, page) = eve.get(&path).await;
    assert!(head.starts_with("HTTP/1.1 401"), "{head}");
    assert!(
        page.contains(&format!(r#"name="next" value="{path}""#)),
        "{page}"
    );
    let (head, _) = eve.get("/baton/assets/dashboard.css").await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    for (given, why) in [
        ("made-up", "the API server does not accept the token"),
        ("a b", "a token has letters"),
        ("", "there is no token"),
    ] {
        let (head, page) = eve.log_in(given).await;
        assert!(
            head.starts_with("HTTP/1.1 401") && page.contains(why),
            "{head}\n{page}"
        );
        assert!(eve.cookie.is_empty());
    }

    let token = account(&ns, "eve", false).await;
    let (head, _) = eve
        .post("/baton/login", "", &format!("token={token}"))
        .await;
    assert!(
        head.starts_with("HTTP/1.1 403"),
        "a form of another page: {head}"
    );
    eve.log_in(&token).await;
    for path in ["/baton/", "/baton/clusters", &path] {
        let (head, page) = eve.get(path).await;
        assert!(head.starts_with("HTTP/1.1 403"), "{path}: {head}");
        assert!(page.contains("cannot list resource"), "{page}");
        assert!(!page.contains("recipe") && !page.contains("menu"), "{page}");
    }
    let (head, _) = eve.get("/").await;
    assert!(head.starts_with("HTTP/1.1 404"), "{head}");

    // A proxy that logs people in.
    let nobody = Browser {
        cookie: String::new(),
        ..eve.clone()
    };
    for (token, expected) in [(token.as_str(), "403"), ("made-up", "401")] {
        let header = format!("Authorization: Bearer {token}\r\n");
        let mut stream: TcpStream = nobody.request(&path, &header).await;
        let (head, page) = super::answer(&mut stream).await;
        assert!(head.starts_with(&format!("HTTP/1.1 {expected}")), "{head}");
        assert!(!page.contains("Log out"), "{page}");
    }

    let own = "Sec-Fetch-Site: same-origin\r\n";
    let (head, _) = eve.post("/baton/logout", own, "").await;
    assert!(
        head.contains("__Secure-baton-0=; Path=/baton/; Secure; HttpOnly"),
        "{head}"
    );
}
