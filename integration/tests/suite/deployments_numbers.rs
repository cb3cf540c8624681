//! The number of a deployment's revisions is bounded.

use baton_apis::limits;
use baton_integration::deployment::LABEL_APP;
use baton_integration::prelude::*;

use crate::deployments_status::change_revisions;

/// Time in which a deployment must create no revision. Without a bound it creates dozens.
const QUIET: Duration = Duration::from_secs(4);

alternating_scopes! {
    a_forged_number_creates_no_revision;
}

/// A revision with the labels of a deployment and the highest number is not adopted. One that names
/// the deployment as its controller is reported, and no revision is created until it is deleted.
async fn a_forged_number_creates_no_revision(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let cm = configmap("cm");
    let content = |version: &str| ns.content().phase("a", [cm.clone().data("k", version)]);
    let web = ns.deployment("web").content(content("1")).create().await;
    web.concluded().await;
    let forged = |name: &str| {
        ns.set(name)
            .label("package-operator.run/object-deployment", web.name())
            .label(LABEL_APP, web.name())
            .revision(limits::NUMBER)
            .phase("a", [configmap(name)])
    };
    forged("labelled").available().await;
    web.edit(content("2")).await;
    web.concluded_as(2).await;

    let forged = forged("forged").create().await.json;
    let owner = web.read().await.json;
    let owner = json!([{
        "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": web.name(),
        "uid": owner["metadata"]["uid"], "controller": true,
    }]);
    let patch = json!({ "metadata": { "ownerReferences": owner } });
    ns.cluster().merge(&forged, &patch).await.unwrap();
    let name = ns.set_name("forged");
    let why = format!(
        "{} {name} has the number {}",
        web.revision_kind(),
        limits::NUMBER
    );
    web.reaches(&[
        Because("Progressing", "False", "NumbersExhausted"),
        Because("Stalled", "True", "NumbersExhausted"),
        Says("Progressing", &why),
        Is("Available", "True"),
    ])
    .await;
    web.edit(content("3")).await;
    ns.stays(QUIET, "nothing is made", async || {
        web.sets().await.len() == 4
    })
    .await;
    assert_eq!(ns.live(&cm).await["data"]["k"], "2");

    ns.delete_set("forged", "Background").await;
    web.concluded_as(3).await;
    assert_eq!(ns.live(&cm).await["data"]["k"], "3");
}

/// A revision without a number reports an error if its predecessor has the highest possible number.
#[tokio::test]
async fn a_revision_after_the_highest_number_is_refused() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let high = ns.set("high").revision(limits::NUMBER);
    high.phase("a", [configmap("high")]).available().await;
    ns.set("next")
        .previous(&["high"])
        .phase("a", [configmap("next")])
        .create()
        .await;
    let why = format!("previous: high has the number {}", limits::NUMBER);
    ns.reaches(
        "next",
        &[
            Because("Available", "False", "PreflightError"),
            Says("Available", &why),
        ],
    )
    .await;
    ns.delete_set("high", "Background").await;
    ns.reaches("next", &[Is("Available", "True")]).await;
}

/// The server changes every revision, so none matches the template.
#[tokio::test]
async fn a_revision_that_never_matches_is_recreated_with_a_growing_delay() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let garbled =
        "Object{metadata: Object.metadata{annotations: {'baton.run/template-metadata': 'x'}}}";
    let annotation = "/metadata/annotations/baton.run~1template-metadata";
    change_revisions(&ns, garbled, |set| {
        set.pointer(annotation).is_some_and(|value| value == "x")
    })
    .await;
    let content = ns.content().phase("a", [configmap("cm")]);
    let web = ns.deployment("web").content(content).create().await;
    web.reaches(&[
        Because("Progressing", "False", "RevisionRepeated"),
        Because("Stalled", "True", "RevisionRepeated"),
        Says(
            "Progressing",
            "The last 5 revisions were created from the current template",
        ),
    ])
    .await;
    web.has_sets(&[1, 2, 3, 4, 5]).await;
    // The deployment creates one more revision after a delay, and waits again.
    web.reaches(&[Says("Progressing", "The last 6 revisions")])
        .await;
    ns.stays(QUIET, "nothing is made", async || {
        web.sets().await.len() == 6
    })
    .await;
}
