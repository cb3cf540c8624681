//! Every bad revision can be ended. Revisions are drawn from a grammar of bad manifests, rolled
//! out, archived and deleted. None of them stays, and the objects of others are unchanged.

use baton_integration::prelude::*;
use baton_integration::seed::{SEED, first_seed};
use futures::future::join_all;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

alternating_scopes! {
    every_random_revision_can_be_ended;
}

/// Number of revisions in a run.
const REVISIONS: usize = 20;

/// Objects of other clients, which revisions also contain.
const STRANGERS: [&str; 2] = ["unowned", "owned"];

/// Draws parts of revisions.
struct Grammar<'a> {
    ns: &'a TestNamespace,
    random: StdRng,
}

impl Grammar<'_> {
    fn pick<T: Clone>(&mut self, list: &[T]) -> T {
        list[self.random.random_range(0..list.len())].clone()
    }

    fn one_in(&mut self, chance: u32) -> bool {
        self.random.random_range(0..chance) == 0
    }

    /// Draws a manifest, usually a bad one; `name` is unique.
    fn manifest(&mut self, name: &str) -> Value {
        let mut manifest = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": { "k": "v" },
            "metadata": { "name": name, "namespace": self.ns.name() },
        });
        if self.one_in(3) {
            return manifest;
        }
        let long = "a".repeat(300);
        let patches = [
            json!({ "metadata": { "name": self.pick(&STRANGERS) } }),
            json!({ "metadata": { "name": format!("{name}\n") } }),
            json!({ "metadata": { "name": format!("{name} b") } }),
            json!({ "metadata": { "name": format!("{name}?watch=1") } }),
            json!({ "metadata": { "name": name.to_uppercase() } }),
            json!({ "metadata": { "name": long } }),
            json!({ "metadata": { "name": null, "generateName": name } }),
            json!({ "metadata": { "namespace": "nowhere-at-all" } }),
            json!({ "metadata": { "namespace": null } }),
            json!({ "metadata": { "labels": { "not a label!": "v" } } }),
            json!({ "metadata": { "ownerReferences": [
                { "apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "x", "controller": true },
            ] } }),
            json!({ "metadata": { "uid": "made-up", "resourceVersion": "7" } }),
            json!({ "data": { "not a key!": "v" } }),
            json!({ "data": ["no", "map"] }),
            json!({ "data": { "k": 7 } }),
            json!({ "unknown": { "field": true } }),
            json!({ "apiVersion": "v7" }),
            json!({ "apiVersion": "nobody.example/v1", "kind": "Nothing" }),
            json!({ "apiVersion": "apps/v1beta1", "kind": "Deployment" }),
            json!({ "apiVersion": "v1?watch=1" }),
            json!({ "apiVersion": "authorization.k8s.io/v1", "kind": "LocalSubjectAccessReview" }),
            json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview" }),
            json!({ "apiVersion": "v1", "kind": "Binding", "target": { "name": "x" } }),
            json!({ "apiVersion": "v1", "kind": "ComponentStatus" }),
            json!({ "kind": "PriorityClass", "apiVersion": "scheduling.k8s.io/v1", "value": "many" }),
        ];
        let patch = self.pick(&patches);
        json_patch::merge(&mut manifest, &patch);
        manifest
    }

    fn object(&mut self, name: &str) -> Value {
        let mut entry = json!({ "object": self.manifest(name) });
        if self.one_in(8) {
            entry["createOnlyFields"] = json!([".data.k"]);
        }
        if self.one_in(8) {
            entry["conditionMappings"] =
                json!([{ "sourceType": "Ready", "destinationType": "a.b/Ready" }]);
        }
        entry
    }

    fn phase(&mut self, set: &str, number: usize) -> Value {
        let class = [
            "",
            "",
            "",
            "default",
            "default",
            "cluster.nowhere",
            "nobody",
        ];
        let names = ["a", "b", "deploy web", "50%", "..", "Upper", ""];
        let name = self.pick(&names);
        let mut phase = json!({ "name": name, "class": self.pick(&class) });
        let objects = 0..self.random.random_range(0..4);
        let objects = objects.map(|object| {
            // Sometimes an object occurs twice.
            let object = if self.one_in(10) { 0 } else { object };
            self.object(&format!("{set}-{number}-{object}"))
        });
        phase["objects"] = objects.collect::<Vec<_>>().into();
        if self.one_in(8) {
            phase["slices"] = json!(["missing"]);
        }
        phase
    }

    /// Draws a revision, which the server may refuse.
    fn revision(&mut self, number: usize) -> Value {
        let name = format!("r{number}");
        let phases = 0..self.random.random_range(1..4);
        let phases: Vec<_> = phases.map(|at| self.phase(&name, at)).collect();
        let mut set = self.ns.set(&name).spec("phases", phases);
        if self.one_in(4) {
            let previous = self.pick(&[number, number + 1, 1000]);
            set = set.previous(&[&format!("r{previous}")]);
        } else {
            set = set.revision(1);
        }
        if self.one_in(6) {
            let rule = self.pick(&["self.x ==", "'text'", "self.data.k == 'never'"]);
            set = set.probe(cel_probe("", "ConfigMap", rule, "never"));
        }
        set.manifest()
    }
}

/// The way in which a revision ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Archived,
    Deleted,
    /// Deleted during its archival or after it.
    Both,
}

/// Ends a revision, and waits until it is gone.
async fn end(ns: &TestNamespace, name: &str, end: End) {
    if end != End::Deleted {
        ns.set_lifecycle(name, "Archived").await;
    }
    if end == End::Archived {
        ns.reaches(name, &[Is("Archived", "True"), Controls(&[])])
            .await;
    }
    let set = ns.set_ref(name);
    ns.cluster().delete(&set, "Background").await;
    let text = format!("{name}, to be {end:?}, to be gone");
    ns.eventually(&text, async || ns.cluster().get(&set).await.is_none())
        .await;
}

/// Returns all objects with the manager's label.
async fn managed(ns: &TestNamespace) -> Vec<String> {
    let mut found = Vec::new();
    for kind in ["ConfigMap", "Secret"] {
        let kind = object("v1", kind, "").within(ns.name()).manifest;
        let objects = ns.cluster().list(&kind, "package-operator.run/cache=True");
        found.extend(objects.await.iter().map(Value::to_string));
    }
    found
}

async fn every_random_revision_can_be_ended(scope: Scope) {
    let seed = first_seed();
    println!("{SEED}={seed}");
    let ns = TestNamespace::new(scope).await;
    let strangers = STRANGERS.map(|name| configmap(name).data("k", "theirs"));
    ns.create(&strangers[0]).await;
    let controller = json!([{ "apiVersion": "3", "kind": "notus", "name": "x", "uid": "a", "controller": true }]);
    let owned = strangers[1]
        .clone()
        .with("/metadata/ownerReferences", controller);
    // Garbage collection deletes an object whose owner does not exist; a finalizer holds it.
    let owned = owned.with("/metadata/finalizers", json!(["baton.run/test-keeps"]));
    ns.create(&owned).await;
    let before = join_all(strangers.iter().map(|it| ns.live(it))).await;

    let mut grammar = Grammar {
        ns: &ns,
        random: StdRng::seed_from_u64(seed),
    };
    let mut names = Vec::new();
    for number in 0..REVISIONS {
        let manifest = grammar.revision(number);
        // A revision that the schema refuses is skipped.
        if ns.cluster().create(&manifest).await.is_ok() {
            names.push(format!("r{number}"));
        }
    }
    assert!(
        names.len() > REVISIONS / 4,
        "too much is refused: {names:?}"
    );
    let reported = async |name: &String| {
        let set = ns.read_set(name).await;
        let conditions = set.json["status"]["conditions"].as_array();
        conditions.is_some_and(|conditions| !conditions.is_empty())
    };
    for name in &names {
        let text = format!("a condition of {name}");
        ns.eventually(&text, async || reported(name).await).await;
    }

    let ends: Vec<End> = names
        .iter()
        .map(|_| grammar.pick(&[End::Archived, End::Deleted, End::Both]))
        .collect();
    join_all(
        names
            .iter()
            .zip(ends)
            .map(|(name, how)| end(&ns, name, how)),
    )
    .await;

    assert_eq!(managed(&ns).await, [""; 0]);
    let after = join_all(strangers.iter().map(|it| ns.live(it))).await;
    for (before, after) in before.iter().zip(&after) {
        // Garbage collection may have marked the object without an existing owner for deletion.
        let content =
            |object: &Value| (object["data"].clone(), object["metadata"]["labels"].clone());
        assert_eq!(content(before), content(after));
        assert_eq!(uid(before), uid(after));
        assert!(!has_manager(after, "package-operator"), "{after}");
    }
    ns.merge(
        &strangers[1],
        &json!({ "metadata": { "finalizers": null } }),
    )
    .await;
    let kind = ns.phase_ref("x", "y");
    let left = ns.cluster().list(&kind, "").await;
    let left: Vec<_> = left
        .iter()
        .filter(|phase| {
            phase["metadata"]["name"]
                .as_str()
                .is_some_and(|name| name.starts_with(&ns.set_name("r")))
        })
        .collect();
    assert!(left.is_empty(), "{left:?}");
}
