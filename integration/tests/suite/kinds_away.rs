//! Kinds whose server is down: only the revisions that contain them notice it.

use baton_integration::exclusive::Exclusive;
use baton_integration::prelude::*;

/// Returns an API service without a server, and an object of a kind of its group.
fn dead_api(ns: &TestNamespace) -> (Entry, Entry) {
    let group = format!("{}.example", ns.name());
    let service = object(
        "apiregistration.k8s.io/v1",
        "APIService",
        &format!("v1.{group}"),
    )
    .with(
        "/spec",
        json!({
            "group": group, "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 15,
            "insecureSkipTLSVerify": true, "service": { "name": "nobody", "namespace": ns.name() },
        }),
    );
    (service, object(&format!("{group}/v1"), "Thing", "thing"))
}

const AWAY: [Expectation<'_>; 2] = [
    Because("Available", "Unknown", "ListFailed"),
    Says("Available", "Kind=Thing"),
];

#[tokio::test]
async fn a_dead_aggregated_api_concerns_only_the_revisions_with_its_kinds() {
    let mut bed = Exclusive::acquire().await;
    let ns = bed.namespace(Scope::Namespaced).await;
    let (api, thing) = dead_api(&ns);
    ns.create_elsewhere(&api).await;
    let data = |name: &str| configmap(name).data("k", "v");
    let (first, beside, other) = (data("first"), data("beside"), data("other"));
    ns.set("with")
        .revision(1)
        .phase("a", [first.clone()])
        .phase("b", [thing.clone(), beside.clone()])
        .phase("c", [data("later")])
        .create()
        .await;
    let of_default = [
        thing.clone().within(ns.name()),
        data("delegated").within(ns.name()),
    ];
    ns.set("delegated")
        .revision(1)
        .delegated("a", "default", of_default)
        .create()
        .await;
    ns.set("without")
        .revision(1)
        .phase("a", [other.clone()])
        .available()
        .await;
    for restarts in [false, true] {
        if restarts {
            drop(bed.take_manager());
            bed.start_manager();
        }
        for set in ["with", "delegated"] {
            ns.reaches(set, &AWAY).await;
        }
        ns.live(&data("delegated")).await;
        for object in [&first, &beside, &other] {
            ns.merge(object, &json!({ "data": { "k": "drifted" } }))
                .await;
            ns.object_becomes(object, "repaired", |live| live["data"]["k"] == "v")
                .await;
        }
        assert_eq!(ns.get(&data("later")).await, None);
        ns.reaches("without", &[Is("Available", "True")]).await;
    }
    // Nothing of the kind was written, so the deletions do not wait for the kind.
    for set in ["with", "delegated"] {
        ns.delete_set(set, "Background").await;
    }
    assert_eq!(ns.get(&first).await, None);
    assert!(ns.cluster().delete(&api.manifest, "Background").await);
}

/// A webhook converts the objects of the kind.
#[tokio::test]
async fn a_kind_whose_server_fails_later_is_unknown_until_it_answers_again() {
    let bed = Exclusive::acquire().await;
    let ns = bed.namespace(Scope::Namespaced).await;
    let group = format!("{}.example", ns.name());
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let version = |name: &str, storage: bool| {
        let schema = json!({ "openAPIV3Schema": schema });
        json!({ "name": name, "served": true, "storage": storage, "schema": schema })
    };
    let name = format!("things.{group}");
    let crd = object("apiextensions.k8s.io/v1", "CustomResourceDefinition", &name).with(
        "/spec",
        json!({
            "group": group, "scope": "Namespaced",
            "names": { "plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList" },
            "versions": [version("v1", true), version("v1alpha1", false)],
        }),
    );
    ns.create_elsewhere(&crd).await;
    let thing = object(&format!("{group}/v1alpha1"), "Thing", "thing").with("/spec/size", 1);
    let beside = configmap("beside").data("k", "v");
    ns.revision(1)
        .phase("a", [thing.clone(), beside.clone()])
        .create()
        .await;
    let kind = format!("Thing.{group} thing");
    let all = [
        Is("Available", "True"),
        Controls(&[&kind, "ConfigMap beside"]),
    ];
    ns.reaches("v1", &all).await;

    let client = json!({ "url": "https://127.0.0.1:1/", "caBundle": Value::Null });
    let webhook = json!({ "clientConfig": client, "conversionReviewVersions": ["v1"] });
    let dead = json!({ "strategy": "Webhook", "webhook": webhook });
    ns.merge(&crd, &json!({ "spec": { "conversion": dead } }))
        .await;
    let reported = ns.reaches("v1", &AWAY).await;
    let mut controlled = reported.controller_of();
    controlled.sort();
    assert_eq!(
        controlled,
        ["ConfigMap beside", &kind],
        "the last report stays"
    );
    ns.merge(&beside, &json!({ "data": { "k": "drifted" } }))
        .await;
    ns.object_becomes(&beside, "repaired", |live| live["data"]["k"] == "v")
        .await;

    let none = json!({ "strategy": "None", "webhook": Value::Null });
    ns.merge(&crd, &json!({ "spec": { "conversion": none } }))
        .await;
    ns.reaches("v1", &all).await;
}
