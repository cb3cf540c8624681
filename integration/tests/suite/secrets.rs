//! Secrets whose manifests have `stringData`: the server stores it as `data`.

use baton_integration::exclusive::Exclusive;
use baton_integration::prelude::*;
use baton_integration::takeover::Shape;

use crate::requests::{Count, settle};

alternating_scopes! {
    a_key_that_a_revision_drops_or_renames_is_removed;
    keys_of_an_earlier_manager_are_removed;
}

/// Returns a Secret with these texts.
fn texts(name: &str, texts: Value) -> Entry {
    secret(name).with("/stringData", texts)
}

/// The keys of a Secret, sorted.
fn keys(live: &Value) -> Vec<&str> {
    let keys = live["data"].as_object().into_iter().flatten();
    keys.map(|(key, _)| &**key).collect()
}

async fn a_key_that_a_revision_drops_or_renames_is_removed(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let contents = [
        json!({ "user": "a", "pin": "b" }),
        json!({ "user": "a" }),
        json!({ "user": "c", "pin": "b" }),
        json!({ "login": "c", "pin": "b" }),
    ];
    for class in ["", "default"] {
        let entry = |content: &Value| texts(&format!("cred{class}"), content.clone());
        let mut previous: Vec<String> = Vec::new();
        for (number, content) in (1..).zip(&contents) {
            let name = format!("cred{class}-{number}");
            let names: Vec<_> = previous.iter().map(String::as_str).collect();
            ns.set(&name)
                .revision(number)
                .previous(&names)
                .phase_of(class, "a", [entry(content)])
                .reaching(&[Is("Available", "True"), No("InTransition")])
                .await;
            let live = ns.live(&entry(content)).await;
            let mut wanted: Vec<_> = content.as_object().unwrap().keys().collect();
            wanted.sort();
            assert_eq!(keys(&live), wanted, "{name}");
            previous.push(name);
        }
        // The key of another manager stays.
        let live = entry(&contents[3]);
        ns.merge(&live, &json!({ "stringData": { "extra": "x" } }))
            .await;
        let names: Vec<_> = previous.iter().map(String::as_str).collect();
        let last = texts(&format!("cred{class}"), json!({ "login": "d" }));
        let name = format!("cred{class}-5");
        ns.set(&name)
            .revision(5)
            .previous(&names)
            .phase_of(class, "a", [last.clone()])
            .reaching(&[Is("Available", "True"), No("InTransition")])
            .await;
        assert_eq!(
            ns.live(&last).await["data"],
            json!({ "login": "ZA==", "extra": "eA==" })
        );
    }
}

/// Another manager, or an earlier release, has applied the texts, and owns them as `stringData`.
async fn keys_of_an_earlier_manager_are_removed(scope: Scope) {
    let mut bed = Exclusive::acquire().await;
    let ns = bed.namespace(scope).await;
    bed.take_manager().kill();
    let entry = |shape: Shape, content| texts(&format!("cred-{}", shape.word()), content);
    let first = |shape| entry(shape, json!({ "user": "a", "pin": "b" }));
    let name = |shape: Shape, number| format!("{}-{number}", shape.word());
    for shape in Shape::ALL {
        let set = ns
            .set(&name(shape, 1))
            .revision(1)
            .phase("a", [first(shape)]);
        ns.left_behind(set, shape).create().await;
    }
    let mut before = Vec::new();
    for shape in Shape::ALL {
        before.push(ns.live(&first(shape)).await);
    }
    bed.start_manager();
    for shape in Shape::ALL {
        ns.reaches(&name(shape, 1), &[Phase("Available")]).await;
    }
    settle(&ns, &bed).await;
    for (shape, before) in Shape::ALL.into_iter().zip(&before) {
        let after = ns.live(&first(shape)).await;
        assert_eq!(
            after["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"],
            "{shape:?}"
        );
    }

    for shape in Shape::ALL {
        ns.set(&name(shape, 2))
            .revision(2)
            .previous(&[&name(shape, 1)])
            .phase("a", [entry(shape, json!({ "user": "a" }))])
            .create()
            .await;
    }
    for shape in Shape::ALL {
        ns.reaches(
            &name(shape, 2),
            &[Is("Available", "True"), No("InTransition")],
        )
        .await;
        assert_eq!(
            ns.live(&first(shape)).await["data"],
            json!({ "user": "YQ==" }),
            "{shape:?}"
        );
    }
    settle(&ns, &bed).await;
    let count = Count::start(&bed);
    settle(&ns, &bed).await;
    let counts = count.so_far(&bed);
    for verb in ["apply", "dry-run", "patch"] {
        assert_eq!(counts.get(verb), None, "{counts:?}");
    }
}
