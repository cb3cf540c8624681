//! Names that no server accepts. The schema or the manager refuses them, and they never delay the
//! end of a revision.

use baton_integration::exclusive::Exclusive;
use baton_integration::prelude::*;

/// Returns a phase in the format of a spec.
fn phase(name: &str, class: &str, slices: &[&str], object: &Value) -> Value {
    json!({ "name": name, "class": class, "slices": slices, "objects": [{ "object": object }] })
}

/// Returns phases with a name that the schema refuses in new revisions.
fn refused_by_the_schema(object: &Value) -> Vec<(Value, &'static str)> {
    let phase = |class, slices: &[&str]| phase("a", class, slices, object);
    vec![
        (phase("", &["a b"]), "no slice can have the name \"a b\"."),
        (phase("", &["?watch=1"]), "no slice can have the name"),
        (phase("", &[".."]), "no slice can have the name \"..\"."),
        (
            phase("", &["../configmaps/x"]),
            "no slice can have the name",
        ),
        (phase("", &["a\n"]), "no slice can have the name \"a\\n\"."),
        (phase("deploy web", &[]), "class \"deploy web\""),
        (phase("50%", &[]), "class \"50%\""),
        (phase("a\n", &[]), "class \"a\\n\""),
    ]
}

/// Returns phases with a name that only the manager or the server of the object refuses.
fn refused_by_the_manager(ns: &TestNamespace, object: &Value) -> Vec<(Value, &'static str)> {
    let named = |name: &str| {
        let mut object = object.clone();
        object["metadata"] = json!({ "name": name, "namespace": ns.name() });
        phase("a", "", &[], &object)
    };
    vec![
        (
            phase("deploy web", "default", &[], object),
            "ObjectSetPhase",
        ),
        (phase("50%", "default", &[], object), "ObjectSetPhase"),
        (named("a\n"), "ConfigMap"),
        (named(&"a".repeat(300)), "253"),
        (named(&"a".repeat(70_000)), "is too long"),
    ]
}

/// Waits until the revisions are refused, and ends one of each case by archival and one by
/// deletion.
async fn all_end(ns: &TestNamespace, cases: &[(Value, &'static str)]) {
    for (number, (_, text)) in cases.iter().enumerate() {
        let (archived, deleted) = (format!("archived-{number}"), format!("deleted-{number}"));
        for name in [&archived, &deleted] {
            let wanted = [
                Because("Available", "False", "PreflightError"),
                Says("Available", text),
            ];
            ns.reaches(name, &wanted).await;
        }
        // The server accepts the update although the schema refuses the name by now.
        ns.set_lifecycle(&archived, "Archived").await;
        ns.reaches(&archived, &[Is("Archived", "True")]).await;
        ns.delete_set(&archived, "Background").await;
        ns.delete_set(&deleted, "Background").await;
    }
}

async fn create(ns: &TestNamespace, cases: &[(Value, &'static str)]) {
    for (number, (phase, _)) in cases.iter().enumerate() {
        for name in ["archived", "deleted"] {
            let name = format!("{name}-{number}");
            let set = ns.set(&name).revision(1);
            set.spec("phases", json!([phase])).create().await;
        }
    }
}

fn manifest(ns: &TestNamespace) -> Value {
    ns.reference(&configmap("cm"))
}

both_scopes! {
    impossible_names_are_refused_by_the_schema;
    impossible_names_are_refused_and_block_no_teardown;
    impossible_names_older_than_the_schema_block_no_teardown;
}

async fn impossible_names_are_refused_by_the_schema(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    for (phase, _) in refused_by_the_schema(&manifest(&ns)) {
        let set = ns.set("v1").revision(1).spec("phases", json!([phase]));
        let refused = set.try_create().await.unwrap_err();
        assert_eq!(refused.reason, "Invalid", "{refused:?}");
        assert!(refused.message.contains("spec.phases[0]"), "{refused:?}");
    }
}

async fn impossible_names_are_refused_and_block_no_teardown(scope: Scope) {
    let ns = TestNamespace::new(scope).await;
    let cases = refused_by_the_manager(&ns, &manifest(&ns));
    create(&ns, &cases).await;
    all_end(&ns, &cases).await;
}

async fn impossible_names_older_than_the_schema_block_no_teardown(scope: Scope) {
    let bed = Exclusive::acquire().await;
    let ns = bed.namespace(scope).await;
    let cases = refused_by_the_schema(&manifest(&ns));
    let probe = ns.set("probe").spec("phases", json!([cases[0].0]));
    let schema = ns.loosen_schema(probe, |fields| {
        let fields = &mut fields["phases"]["items"]["properties"];
        fields["class"] = json!({ "type": "string" });
        fields["slices"]["items"] = json!({ "type": "string" });
    });
    let schema = schema.await;
    create(&ns, &cases).await;
    schema.restore().await;
    all_end(&ns, &cases).await;
}
