//! The dashboard in a headless Chromium. `cargo dev browser` runs these tests: they need npm and a
//! Chromium.

use baton_integration::browser::Browser;
use baton_integration::plugin::Running;
use baton_integration::prelude::*;
use baton_integration::set::SetBuilder;
use baton_integration::unmanaged;

use crate::dashboard::{answer, login};
use crate::{plugin_applications, plugin_sites};

/// A dashboard of the plugin, and the address of its pages without their paths.
fn dashboard(ns: &TestNamespace, browser: &mut Browser) -> (Running, String) {
    let mut plugin = ns.plugin_started(&["dashboard", "--no-browser", "--actions"]);
    let printed = plugin.writes("its address", |lines| lines.len() == 1);
    let address = printed[0].split("/?").next().unwrap().to_owned();
    assert_eq!(browser.open(&printed[0]), 200);
    browser.see("Overview");
    (plugin, address)
}

/// The content of a revision with four objects in two phases.
pub(crate) fn two_phases<'n>(ns: &'n TestNamespace, dish: &str) -> SetBuilder<'n> {
    let menu = configmap("menu").with("/data/dish", dish);
    let first = [menu, configmap("tables"), secret("recipe")];
    ns.content()
        .phase("kitchen", first)
        .phase("hall", [configmap("plates")])
}

/// Edits the deployment `web` with the content of [`two_phases`], whose page is open, and waits until all
/// objects have moved from one lane to the other.
pub(crate) async fn handover_is_seen(ns: &TestNamespace, browser: &mut Browser) {
    browser.value(
        "globalThis.moves = 0, Element.prototype.animate = () => { globalThis.moves += 1; }, 0",
    );
    ns.existing("web").edit(two_phases(ns, "stew")).await;
    browser.see("Revision 2");
    browser.until("globalThis.moves >= 4");
    ns.existing("web").concluded_as(2).await;
}

#[tokio::test]
#[ignore = "cargo dev browser runs it"]
async fn a_handover_is_seen_and_rolled_back() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let content = |dish: &str| two_phases(&ns, dish);
    ns.deployment("web").content(content("soup")).create().await;
    ns.existing("web").concluded().await;
    let mut browser = Browser::start();
    let (_plugin, address) = dashboard(&ns, &mut browser);
    browser.finds_no_fault();

    let page = format!("{address}/chains/od/{}/web", ns.name());
    assert_eq!(browser.open(&page), 200);
    browser.see("rolled out and available");
    browser.until("document.getElementById('live').textContent === 'live'");
    handover_is_seen(&ns, &mut browser).await;
    browser.see("rolled out and available");
    browser.finds_no_fault();
    browser.picture("dashboard-chain", ns.name());

    ns.existing("web").edit(content("cake")).await;
    ns.existing("web").concluded_as(3).await;
    browser.see("Revision 3");

    browser.click("Differences from the revision before");
    browser.see("-  dish: stew");
    browser.see("+  dish: cake");
    browser.finds_no_fault();
    assert_eq!(browser.open(&format!("{page}/diff?from=live")), 200);
    browser.see("There are no differences.");
    assert_eq!(browser.open(&format!("{page}/revision?number=1")), 200);
    browser.see("Manifests");
    browser.finds_no_fault();

    assert_eq!(browser.open(&page), 200);
    browser.click("Roll back");
    browser.see("The content of revision 2");
    browser.see("+  dish: stew");
    browser.finds_no_fault();
    browser.picture("dashboard-rollback", ns.name());
    browser.click("Roll back od/web");
    browser.see("rollback to revision 2");
    ns.existing("web").concluded_as(4).await;
    browser.see("Revision 4");
    browser.click("Pause");
    browser.click("Pause od/web");
    browser.see("Resume");
    browser.finds_no_fault();
}

#[tokio::test]
#[ignore = "cargo dev browser runs it"]
async fn an_application_is_shown_and_promoted() {
    let ns = unmanaged::namespace().await;
    plugin_applications::mid_rollout(&ns).await;
    let mut browser = Browser::start();
    let (_plugin, address) = dashboard(&ns, &mut browser);
    let page = format!("{address}/applications/{}/shop", ns.name());
    assert_eq!(browser.open(&page), 200);
    browser.see("Steps of release");
    browser.finds_no_fault();
    browser.picture("dashboard-application", ns.name());
    for change in ["Pause", "Abort", "Roll back", "Promote"] {
        assert_eq!(browser.open(&page), 200);
        browser.click(change);
        browser.see("Back to app/shop");
        browser.finds_no_fault();
    }
}

#[tokio::test]
#[ignore = "cargo dev browser runs it"]
async fn a_rollout_over_sites_is_shown() {
    let ns = unmanaged::namespace().await;
    plugin_sites::mid_rollout(&ns).await;
    let mut browser = Browser::start();
    let (_plugin, address) = dashboard(&ns, &mut browser);
    let page = format!("{address}/sites/{}/shop", ns.name());
    assert_eq!(browser.open(&page), 200);
    browser.see("Waves");
    browser.finds_no_fault();
    browser.picture("dashboard-sites", ns.name());
    assert_eq!(browser.open(&format!("{page}?state=all")), 200);
    browser.click(&format!("{}-a", ns.name()));
    browser.see("Revisions and queue");
    browser.see("Upgrade windows of the cluster");
    browser.finds_no_fault();
    assert_eq!(browser.open(&format!("{address}/clusters")), 200);
    browser.see("Connected");
    browser.finds_no_fault();
    for change in ["Pause", "Abort", "Roll back", "Select the sites again"] {
        assert_eq!(browser.open(&page), 200);
        browser.click(change);
        browser.see("Back to sitedeploy/shop");
        browser.finds_no_fault();
    }
}

#[tokio::test]
#[ignore = "cargo dev browser runs it"]
async fn a_viewer_logs_in_and_out() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    // No script of the cluster runs, whatever its users write.
    let evil = "<img src=x onerror=alert(1)><script>alert(2)</script>\u{202e}";
    let content = |dish: &str| {
        let map = configmap("menu")
            .annotation("a", evil)
            .with("/data/a", evil);
        ns.content().phase("a", [map.with("/data/dish", dish)])
    };
    let web = ns.deployment("web").content(content("soup"));
    web.annotation("kubernetes.io/change-cause", evil)
        .create()
        .await;
    ns.existing("web").concluded().await;
    let (mut program, viewer) = login::dashboard(&ns, "dashboard-browser");
    let path = format!("/baton/chains/od/{}/web", ns.name());
    let page = format!("http://localhost:{}{path}", viewer.address.port());
    let mut browser = Browser::start();
    assert_eq!(browser.open(&page), 401);
    browser.see("Log in");
    browser.finds_no_fault();
    browser.fill("Bearer token", "made-up");
    browser.click("Log in");
    browser.see("does not accept the token");
    for (name, has_rights, expected) in [
        ("ann", true, "rolled out and available"),
        ("eve", false, "You may not see this"),
    ] {
        let token = login::account(&ns, name, has_rights).await;
        ns.eventually("the rights of the account", async || {
            let header = format!("Authorization: Bearer {token}\r\n");
            let mut stream = viewer.request(&path, &header).await;
            let (head, _) = answer(&mut stream).await;
            head.starts_with("HTTP/1.1 200") == has_rights
        })
        .await;
        browser.fill("Bearer token", &token);
        browser.click("Log in");
        browser.see(expected);
        browser.see(&format!("system:serviceaccount:{}:{name}", ns.name()));
        browser.finds_no_fault();
        if has_rights {
            // A connection that was cut comes back, and the page is up to date then.
            browser.until("document.getElementById('live').textContent === 'live'");
            drop(program);
            browser.until("document.getElementById('live').textContent === 'reconnecting'");
            ns.existing("web").edit(content("stew")).await;
            ns.existing("web").concluded_as(2).await;
            program = login::dashboard_at(&ns, "dashboard-browser", viewer.address);
            browser.see("Revision 2");
            browser.until("document.getElementById('live').textContent === 'live'");
            browser.finds_no_fault();
        }
        browser.click("Log out");
        browser.see("Log in");
        assert_eq!(browser.open(&page), 401);
    }
    drop(program);
}
