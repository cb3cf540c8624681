//! The plugin for Headlamp, in Headlamp's frontend and a headless Chromium. `cargo dev headlamp --test`
//! runs these tests.

use std::process::Command;

use baton_integration::browser::Browser;
use baton_integration::endpoint::Endpoint;
use baton_integration::plugin::Running;
use baton_integration::prelude::*;

use crate::browser::{handover_is_seen, two_phases};
use crate::dashboard::login;

/// The variable with the program that serves Headlamp's frontend with the plugin.
const HOST: &str = "BATON_HEADLAMP";

/// Headlamp for a viewer with a token, and its address.
fn headlamp(ns: &TestNamespace, token: &str) -> (Running, String) {
    let program = std::env::var_os(HOST).expect("`cargo dev headlamp --test` runs these tests");
    let server = Endpoint::of_bed(ns.cluster().kubeconfig()).url();
    let mut command = Command::new("node");
    command.arg(program).args([&server, token]);
    let mut running = Running::start(command);
    let printed = running.writes("its address", |lines| lines.len() == 1);
    (running, printed[0].clone())
}

/// The address of the page of a deployment in Headlamp.
fn page(ns: &TestNamespace, address: &str, name: &str) -> String {
    let definition = "objectdeployments.package-operator.run";
    format!(
        "{address}/c/bed/customresources/{definition}/{}/{name}",
        ns.name()
    )
}

#[tokio::test]
#[ignore = "cargo dev headlamp --test runs it"]
async fn a_handover_is_seen_in_headlamp() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let web = ns.deployment("web").content(two_phases(&ns, "soup"));
    web.annotation("kubernetes.io/change-cause", "opening day")
        .create()
        .await;
    ns.existing("web").concluded().await;
    let token = login::account(&ns, "ann", true).await;
    let (_running, address) = headlamp(&ns, &token);
    let mut browser = Browser::start();
    assert_eq!(browser.open(&page(&ns, &address, "web")), 200);
    browser.see("ObjectDeployment: web");
    browser.see("rolled out and available");
    browser.see("opening day");
    handover_is_seen(&ns, &mut browser).await;
    browser.see("is rolled out and available");

    // Another rendering would undo the changes for the picture.
    browser.value("document.querySelector('baton-page').disconnectedCallback(), 0");
    browser.picture("headlamp-chain", ns.name());
    let name = "document.querySelector('baton-page').shadowRoot.querySelector('th a').textContent";
    let name = browser.value(name);
    browser.click(name.as_str().unwrap());
    browser.until("location.pathname.includes('objectsets.package-operator.run')");
    browser.see("is rolled out and available");
}

#[tokio::test]
#[ignore = "cargo dev headlamp --test runs it"]
async fn a_viewer_with_few_rights_sees_the_reason() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    // No script of the cluster runs, whatever its users write.
    let evil = "<img src=x onerror=alert(1)><script>alert(2)</script>\u{202e}";
    let content = ns.content().phase("kitchen", [configmap("menu")]);
    let web = ns.deployment("web").content(content);
    web.annotation("kubernetes.io/change-cause", evil)
        .create()
        .await;
    ns.existing("web").concluded().await;
    let token = login::account(&ns, "eve", false).await;
    let user = format!("system:serviceaccount:{}:eve", ns.name());
    let verbs = ["get", "list", "watch"];
    let ours =
        json!([{ "apiGroups": ["package-operator.run"], "resources": ["*"], "verbs": verbs }]);
    ns.grant(&user, ours).await;
    let (_running, address) = headlamp(&ns, &token);
    let mut browser = Browser::start();
    assert_eq!(browser.open(&page(&ns, &address, "web")), 200);
    browser.see("rolled out and available");
    browser.see("cannot list resource \"configmaps\"");
    browser.see("Events cannot be read");
    browser.see("alert(2)</script>\\u{202e}");
    let dialogs = browser.problems().into_iter();
    let dialogs: Vec<String> = dialogs.filter(|it| it.starts_with("dialog")).collect();
    assert_eq!(
        dialogs,
        Vec::<String>::new(),
        "a script of the cluster has run"
    );
}
