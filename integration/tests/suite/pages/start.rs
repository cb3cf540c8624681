//! The pages of the part "Start".

use baton_integration::page::Page;
use baton_integration::prelude::*;
use baton_integration::svg::assert_picture;

#[tokio::test]
async fn the_first_revision_is_rolled_out_and_replaced() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let page = Page::open(&ns, "docs/start/first-revision.md").await;
    page.run().await;
    ns.reaches("web-v1", &[Is("Archived", "True")]).await;
    ns.reaches("web-v2", &[Is("Available", "True")]).await;
}

#[tokio::test]
async fn a_deployment_is_rolled_back() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let mut page = Page::open(&ns, "docs/start/deployments.md").await;
    page.run_blocks(2).await;
    let cafe = ns.existing("cafe");
    cafe.concluded_as(1).await;

    let path = |phase: usize| format!("/spec/template/spec/phases/{phase}/objects/0/object");
    let change = |cause: &str, changes: Vec<(String, Value)>| {
        let cause = (
            r"/metadata/annotations/kubernetes.io~1change-cause".to_owned(),
            json!(cause),
        );
        let changes = changes.into_iter().chain([cause]);
        let changes =
            changes.map(|(path, value)| json!({ "op": "add", "path": path, "value": value }));
        format!(
            "kubectl patch od cafe --type=json -p '{}'",
            changes.collect::<Value>()
        )
    };
    let menu = vec![(format!("{}/data/today", path(0)), json!("tea and cake"))];
    page.reader(&change("a new menu", menu));
    cafe.concluded_as(2).await;
    let kitchen = vec![
        (format!("{}/metadata/name", path(1)), json!("cafe-b")),
        (format!("{}/spec/minReadySeconds", path(1)), json!(500)),
        (format!("{}/data/today", path(0)), json!("coffee")),
    ];
    page.reader(&change("a new kitchen", kitchen));
    let tree = || ns.plugin(&["tree", "cafe", "--color=always"]).success();
    ns.eventually("the new kitchen to be unavailable", async || {
        let tree = tree();
        let parts = ["NotReady", "is False", "Latest Revision is Unavailable"];
        parts.iter().all(|part| tree.contains(part))
    })
    .await;
    assert_picture("handover", &tree());
    page.run().await;
    cafe.concluded_as(4).await;
    assert_picture("tree", &tree());
}
