//! The changes of the dashboard: a page with the effects, and a form that is bound to them.

use baton_integration::prelude::*;

use super::Browser;

/// The header that browsers add to forms of the same server.
const OWN: &str = "Sec-Fetch-Site: same-origin\r\n";

/// The hidden fields of the form that confirms a change.
fn form(page: &str) -> String {
    let form = page.split_once("<form class=\"confirm\"").unwrap().1;
    let form = form.split_once("</form>").unwrap().0;
    let fields = form.split("<input type=\"hidden\" name=\"").skip(1);
    let fields = fields.map(|field| {
        let (name, rest) = field.split_once("\" value=\"").unwrap();
        format!("{name}={}", rest.split_once('"').unwrap().0)
    });
    fields.collect::<Vec<_>>().join("&")
}

#[tokio::test]
async fn a_rollback_is_bound_to_the_state_that_was_shown() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let content = |dish: &str| {
        let menu = configmap("menu").with("/data/dish", dish);
        ns.content().phase("a", [menu])
    };
    ns.deployment("web").content(content("soup")).create().await;
    ns.existing("web").concluded().await;
    ns.existing("web").edit(content("stew")).await;
    ns.existing("web").concluded_as(2).await;
    let mut plugin = ns.plugin_started(&["dashboard", "--no-browser", "--actions"]);
    let printed = plugin.writes("its address", |lines| lines.len() == 1);
    let browser = Browser::open(&printed[0]).await;
    let page = format!("/chains/od/{}/web", ns.name());
    let address = format!("{page}/actions/rollback");
    let (head, preview) = browser.get(&address).await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}\n{preview}");
    assert!(preview.contains("The content of revision 1"), "{preview}");
    assert!(preview.contains("+  dish: soup"), "{preview}");
    let form = form(&preview);

    let (head, _) = browser.post(&address, "", &form).await;
    assert!(
        head.starts_with("HTTP/1.1 403"),
        "a form of another page: {head}"
    );
    let (head, _) = browser.post(&address, OWN, "to=1").await;
    assert!(
        head.starts_with("HTTP/1.1 409"),
        "a form without a state: {head}"
    );
    let (head, body) = browser.post(&address, OWN, &form).await;
    assert!(head.starts_with("HTTP/1.1 303"), "{head}\n{body}");
    assert!(head.contains(&format!("location: {page}")), "{head}");
    let deployment = ns.existing("web");
    deployment.concluded_as(3).await;
    // The cause is for this revision only.
    let live = deployment.read().await.json;
    let cause = &live["metadata"]["annotations"]["kubernetes.io/change-cause"];
    assert!(cause.is_null(), "{cause}");
    let (head, body) = browser.post(&address, OWN, &form).await;
    assert!(head.starts_with("HTTP/1.1 409"), "{head}");
    assert!(
        body.contains("od/web has changed since its page was made"),
        "{body}"
    );
}

#[tokio::test]
async fn nothing_is_changed_unless_that_is_switched_on() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let content = ns.content().phase("a", [configmap("menu")]);
    ns.deployment("web").content(content).create().await;
    ns.existing("web").concluded().await;
    let address = format!("/chains/od/{}/web/actions/pause", ns.name());
    for flags in [&["--actions"][..], &[]] {
        let mut plugin = ns.plugin_started(&[&["dashboard", "--no-browser"], flags].concat());
        let printed = plugin.writes("its address", |lines| lines.len() == 1);
        let browser = Browser::open(&printed[0]).await;
        let (head, preview) = browser.get(&address).await;
        if flags.is_empty() {
            assert!(head.starts_with("HTTP/1.1 404"), "{head}");
            let (head, _) = browser.post(&address, OWN, "").await;
            assert!(head.starts_with("HTTP/1.1 404"), "{head}");
            let (_, page) = browser.get(&format!("/chains/od/{}/web", ns.name())).await;
            assert!(!page.contains("/actions/"), "{page}");
            continue;
        }
        let (head, _) = browser.post(&address, OWN, &form(&preview)).await;
        assert!(head.starts_with("HTTP/1.1 303"), "{head}");
        let live = ns.existing("web").read().await.json;
        assert_eq!(live["spec"]["paused"], true);
        // It is paused now, and there is no form.
        let (head, page) = browser.get(&address).await;
        assert!(head.starts_with("HTTP/1.1 409"), "{head}");
        assert!(page.contains("od/web is already paused"), "{page}");
        // Another kind has no such change.
        let (head, _) = browser.get(&address.replace("pause", "promote")).await;
        assert!(head.starts_with("HTTP/1.1 400"), "{head}");
        let (head, _) = browser.get(&address.replace("pause", "delete")).await;
        assert!(head.starts_with("HTTP/1.1 404"), "{head}");
    }
}
