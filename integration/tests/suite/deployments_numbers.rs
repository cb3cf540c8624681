//! The number of a deployment's revisions is bounded.

use baton_integration::deployment::LABEL_APP;
use baton_integration::prelude::*;

use crate::deployments_status::change_revisions;

/// Time in which a deployment must create no revision. Without a bound it creates dozens.
const QUIET: Duration = Duration::from_secs(4);

both_scopes! {
    no_revision_is_created_after_the_highest_number;
}

/// A revision with the labels of a deployment is adopted, and its number is the highest possible
/// one.
async fn no_revision_is_created_after_the_highest_number(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let cm = configmap("cm");
    let content = |version: &str| ns.content().phase("a", [cm.clone().data("k", version)]);
    let web = ns.deployment("web").content(content("1")).create().await;
    web.concluded().await;
    ns.set("forged")
        .label("package-operator.run/object-deployment", web.name())
        .label(LABEL_APP, web.name())
        .revision(i64::MAX)
        .phase("a", [configmap("forged")])
        .create()
        .await;

    let name = ns.set_name("forged");
    let why = format!(
        "{} {name} has the number 9223372036854775807",
        web.revision_kind()
    );
    web.reaches(&[
        Because("Progressing", "False", "NumbersExhausted"),
        Because("Stalled", "True", "NumbersExhausted"),
        Says("Progressing", &why),
        Is("Available", "True"),
    ])
    .await;
    web.edit(content("2")).await;
    ns.stays(QUIET, "nothing is made", async || {
        web.sets().await.len() == 2
    })
    .await;
    assert_eq!(ns.live(&cm).await["data"]["k"], "1");

    ns.delete_set("forged", "Background").await;
    web.concluded_as(2).await;
    assert_eq!(ns.live(&cm).await["data"]["k"], "2");
    web.set_reaches(1, &[Is("Archived", "True")]).await;
    web.has_sets(&[1, 2]).await;
}

/// A revision without a number reports an error if its predecessor has the highest possible number.
#[tokio::test]
async fn a_revision_after_the_highest_number_is_refused() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let high = ns.set("high").revision(i64::MAX);
    high.phase("a", [configmap("high")]).available().await;
    ns.set("next")
        .previous(&["high"])
        .phase("a", [configmap("next")])
        .create()
        .await;
    let why = "previous: high has the number 9223372036854775807";
    ns.reaches(
        "next",
        &[
            Because("Available", "False", "PreflightError"),
            Says("Available", why),
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
