//! Changes of a phase object's class and manifests, which are not allowed but may happen.

use baton_integration::agent::Agent;
use baton_integration::exclusive::Exclusive;
use baton_integration::prelude::*;
use baton_integration::sites::{PULL, PUSH, Site};

use crate::agent::settings;

const CHANGED: Expectation<'_> = Because("Available", "False", "SpecChanged");

async fn label(ns: &TestNamespace, class: &str) {
    let labels = json!({ "package-operator.run/phase-class": class });
    let patch = json!({ "metadata": { "labels": labels } });
    let phase = ns.phase_ref("v1", "a");
    ns.cluster().merge(&phase, &patch).await.unwrap();
}

/// Covers the class `default`, delivery into another cluster by the manager, and delivery by an
/// agent.
#[tokio::test]
async fn a_delivered_phase_keeps_its_class() {
    for (index, to) in [None, Some(PUSH), Some(PULL)].into_iter().enumerate() {
        let scope = [Scope::Namespaced, Scope::Cluster][index % 2];
        let ns = TestNamespace::new(scope).await;
        let site = Site::get(to.unwrap_or(PUSH)).await;
        let join = site.join(&ns);
        let join = if to == Some(PULL) { join.pull() } else { join };
        let joined = join.create().await;
        let mut _agent: Option<Agent> = None;
        if to == Some(PULL) {
            _agent = Some(joined.agent().start().await);
        }
        let class = to.map_or("default".to_owned(), |_| joined.class());
        let others = if to.is_none() {
            ["elsewhere".to_owned(), joined.class()]
        } else {
            ["elsewhere".to_owned(), "default".to_owned()]
        };
        ns.revision(1)
            .delegated("a", &class, [settings()])
            .available()
            .await;
        let live = async || match to {
            Some(_) => site.read(&ns, &settings()).await,
            None => ns.get(&settings()).await,
        };
        let before = uid(&live().await.unwrap()).to_owned();
        for other in &others {
            label(&ns, other).await;
            let text = format!(
                "the label names \"{other}\", and the objects are delivered by \"{class}\""
            );
            ns.reaches("v1", &[CHANGED, Says("Available", &text)]).await;
        }
        // With the old class the phase continues, and its object is the same.
        label(&ns, &class).await;
        ns.reaches("v1", &[Is("Available", "True")]).await;
        assert_eq!(uid(&live().await.unwrap()), before);
        label(&ns, &others[1]).await;
        ns.reaches("v1", &[CHANGED]).await;
        ns.delete_set("v1", "Background").await;
        assert_eq!(live().await, None, "{class}");
    }
}

/// Returns the identity of the definition of phase objects.
fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "objectsetphases.package-operator.run" },
    })
}

/// Returns the versions of a definition without the rule that compares manifests, as another
/// program's definition may have them.
fn without_rule(definition: &Value) -> Value {
    let mut versions = definition["spec"]["versions"].clone();
    let objects = "/0/schema/openAPIV3Schema/properties/spec/properties/objects";
    let objects = versions.pointer_mut(objects).unwrap();
    let rules = objects.as_object_mut().unwrap();
    assert!(rules.remove("x-kubernetes-validations").is_some());
    versions
}

/// Covers this cluster, another cluster, and an agent with a changed phase object or a changed
/// mirror.
#[tokio::test]
async fn changed_manifests_of_a_phase_are_not_rolled_out() {
    let bed = Exclusive::acquire().await;
    let hub = bed.cluster();
    let before = hub.get(&definition()).await.unwrap();
    let versions = json!({ "spec": { "versions": without_rule(&before) } });
    hub.merge(&definition(), &versions).await.unwrap();
    let ns = bed.namespace(Scope::Namespaced).await;
    let (pushed, pulled) = (Site::get(PUSH).await, Site::get(PULL).await);
    let push = pushed.join(&ns).create().await;
    let pull = pulled.join(&ns).pull().create().await;
    let _agent = pull.agent().start().await;
    for (name, class) in [
        ("here", "default".to_owned()),
        ("there", push.class()),
        ("far", pull.class()),
        ("mirrored", pull.class()),
    ] {
        let [kept, left_out] = [name, &format!("{name}-2")].map(configmap);
        ns.set(name)
            .revision(1)
            .delegated("a", &class, [kept.clone().data("k", "v"), left_out.clone()])
            .available()
            .await;
        let changed = if name == "mirrored" {
            let mirrors = pull.mirrored().await;
            let is_it = |mirror: &&Value| mirror["spec"].to_string().contains("mirrored");
            let metadata = &mirrors.iter().find(is_it).unwrap()["metadata"];
            let mut mirror = ns.phase_ref(name, "a");
            mirror["metadata"] =
                json!({ "name": metadata["name"], "namespace": metadata["namespace"] });
            mirror
        } else {
            ns.phase_ref(name, "a")
        };
        let found = hub.get(&changed).await.unwrap();
        let mut objects = found["spec"]["objects"].clone();
        objects[0]["object"]["data"]["k"] = "changed".into();
        objects.as_array_mut().unwrap().truncate(1);
        let patch = json!({ "spec": { "objects": objects } });
        // The server may not use the new definition at once.
        ns.eventually("the manifests to be changed", async || {
            hub.merge(&changed, &patch).await.is_ok()
        })
        .await;
        ns.reaches(name, &[CHANGED]).await;
        let live = async |entry: &Entry| match name {
            "here" => ns.get(entry).await,
            "there" => pushed.read(&ns, entry).await,
            _ => pulled.read(&ns, entry).await,
        };
        let now = live(&kept).await.unwrap();
        assert_eq!(now["data"], json!({ "k": "v" }), "{name}");
        // An object that the phase no longer names is removed nevertheless.
        ns.delete_set(name, "Background").await;
        assert_eq!(live(&kept).await, None, "{name}");
        assert_eq!(live(&left_out).await, None, "{name}");
    }
    let versions = json!({ "spec": { "versions": before["spec"]["versions"] } });
    hub.merge(&definition(), &versions).await.unwrap();
}
