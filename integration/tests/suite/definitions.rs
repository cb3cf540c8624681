//! Upgrades of custom resource definitions: one that would lose data of stored objects is refused, by the revision and
//! by the plugin, unless the definition is annotated.

use std::fs;

use baton_integration::prelude::*;
use tempfile::TempDir;

const ALLOW: &str = "baton.run/allow-data-loss";

const REFUSED: Expectation<'static> = Because("Available", "False", "PreflightError");

/// The kind of a test, and one object of it.
struct Tools<'a> {
    ns: &'a TestNamespace,
    group: String,
}

impl<'a> Tools<'a> {
    fn new(ns: &'a TestNamespace) -> Self {
        let group = format!("{}.example.com", ns.name());
        Self { ns, group }
    }

    /// The definition of the kind; `spec` has these fields.
    fn crd(&self, fields: &Value) -> Entry {
        self.crd_of(
            &json!({ "type": "object", "properties": fields }),
            "Namespaced",
        )
    }

    fn crd_of(&self, spec: &Value, scope: &str) -> Entry {
        let schema = json!({ "type": "object", "properties": { "spec": spec } });
        tool_definition(&self.group, scope, &schema)
    }

    fn tool(&self, spec: Value) -> Entry {
        object(&format!("{}/v1", self.group), "Tool", "t").with("/spec", spec)
    }

    /// A revision with the definition, and another object in the same phase.
    fn content(&self, crd: Entry) -> baton_integration::set::SetBuilder<'a> {
        let established = condition_probe(
            "apiextensions.k8s.io",
            "CustomResourceDefinition",
            "Established",
        );
        self.ns.content().phase("a", [crd]).probe(established)
    }

    /// Rolls the first revision out, and stores an object.
    async fn deployed(&self, fields: &Value, spec: Value) -> TestDeployment<'a> {
        let content = self.content(self.crd(fields));
        let web = self.ns.deployment("tools").content(content).create().await;
        web.concluded().await;
        self.ns.create(&self.tool(spec)).await;
        web
    }
}

#[tokio::test]
async fn an_upgrade_that_drops_a_used_field_is_refused_until_it_is_allowed() {
    let ns = TestNamespace::new(Scope::Cluster).await;
    let tools = Tools::new(&ns);
    let (color, size) = (json!({ "type": "string" }), json!({ "type": "integer" }));
    let both = json!({ "color": color, "size": size, "count": size });
    let web = tools
        .deployed(&both, json!({ "color": "red", "size": 1 }))
        .await;
    // No stored object uses this field.
    let unused = tools.crd(&json!({ "color": color, "size": size }));
    web.edit(tools.content(unused.clone())).await;
    web.concluded_as(2).await;

    let crd = ns.live(&unused).await;
    let next = tools.crd(&json!({ "size": size }));
    let beside = configmap("beside").within(ns.name());
    let content = tools.content(next.clone()).phase("a2", [beside.clone()]);
    web.edit(content).await;
    let refused = web.set_reaches(3, &[REFUSED]).await;
    let expected = format!(
        "Phase \"a\", CustomResourceDefinition /tools.{}: the change would lose data of stored objects: version v1: \
             .spec.color is removed (it affects Tool {}/t); with the annotation {ALLOW}=true on the \
             CustomResourceDefinition, it is made nevertheless",
        tools.group,
        ns.name()
    );
    assert_eq!(refused.message("Available"), expected);
    assert_eq!(refused.controller_of(), [""; 0]);
    // Definition, objects and the previous revision are as they were.
    assert_eq!(ns.live(&next).await["spec"], crd["spec"]);
    let tool = tools.tool(json!({}));
    assert_eq!(
        ns.live(&tool).await["spec"],
        json!({ "color": "red", "size": 1 })
    );
    assert_eq!(ns.get(&beside).await, None);
    let previous = web.set(2).await;
    previous.assert(&[Is("Available", "True")]);
    assert_eq!(lifecycle(&previous), "Active");

    let allowed = json!({ "metadata": { "annotations": { ALLOW: "true" } } });
    ns.merge(&next, &allowed).await;
    web.concluded_as(3).await;
    assert_eq!(ns.live(&tool).await["spec"], json!({ "size": 1 }));
}

/// One revision for each loss, all refused; the manifest can allow the last one.
#[tokio::test]
async fn each_kind_of_loss_is_refused_and_named() {
    let ns = TestNamespace::new(Scope::Cluster).await;
    let tools = Tools::new(&ns);
    let fields = json!({ "color": { "type": "string", "enum": ["red", "blue"] }, "name": { "type": "string" } });
    let web = tools.deployed(&fields, json!({ "color": "red" })).await;
    let with = |pointer: &str, value: Value| {
        let mut fields = fields.clone();
        fields["color"][pointer] = value;
        tools.crd(&fields)
    };
    let required = json!({ "type": "object", "properties": fields, "required": ["name"] });
    let mut number = 2;
    for (crd, expected) in [
        (
            with("enum", json!(["red"])),
            ".spec.color has a narrower enum",
        ),
        (
            with("pattern", json!("^r")),
            ".spec.color has a narrower pattern",
        ),
        (
            tools.crd(&json!({ "color": { "type": "integer" }, "name": { "type": "string" } })),
            "the type of .spec.color changes from string to integer",
        ),
        (
            tools.crd_of(&required, "Namespaced"),
            ".spec.name becomes required, and has no default",
        ),
        (
            tools.crd_of(
                &json!({ "type": "object", "properties": fields }),
                "Cluster",
            ),
            "spec.scope: Invalid value",
        ),
    ] {
        web.edit(tools.content(crd)).await;
        let refused = web.set_reaches(number, &[REFUSED]).await;
        let message = refused.message("Available");
        assert!(message.contains(expected), "{message}");
        assert!(message.contains(ALLOW), "{message}");
        number += 1;
    }
    web.set(1).await.assert(&[Is("Available", "True")]);
    let allowed = with("enum", json!(["red"])).annotation(ALLOW, "true");
    web.edit(tools.content(allowed)).await;
    web.concluded_as(number).await;
}

/// A definition that is deleted and created again takes all objects of its kind with it.
#[tokio::test]
async fn a_definition_is_not_recreated_without_permission() {
    let ns = TestNamespace::new(Scope::Cluster).await;
    let tools = Tools::new(&ns);
    let fields = json!({ "color": { "type": "string" } });
    let web = tools.deployed(&fields, json!({ "color": "red" })).await;
    let spec = json!({ "type": "object", "properties": fields });
    let crd = tools
        .crd_of(&spec, "Cluster")
        .annotation("baton.run/update", "recreate");
    let before = ns.live(&crd).await;
    web.edit(tools.content(crd.clone())).await;
    let refused = web.set_reaches(2, &[REFUSED]).await;
    let message = refused.message("Available");
    assert!(
        message.contains("because all objects of its kind would be deleted"),
        "{message}"
    );
    assert_eq!(uid(&ns.live(&crd).await), uid(&before));
    ns.live(&tools.tool(json!({}))).await;
}

#[tokio::test]
async fn a_delegated_phase_refuses_a_loss() {
    let ns = TestNamespace::new(Scope::Cluster).await;
    let tools = Tools::new(&ns);
    let content = |crd| {
        let established = condition_probe(
            "apiextensions.k8s.io",
            "CustomResourceDefinition",
            "Established",
        );
        ns.content()
            .phase("a", [crd])
            .class("default")
            .probe(established)
    };
    let first = tools.crd(&json!({ "color": { "type": "string" } }));
    let web = ns
        .deployment("tools")
        .content(content(first))
        .create()
        .await;
    web.concluded().await;
    ns.create(&tools.tool(json!({ "color": "red" }))).await;
    web.edit(content(tools.crd(&json!({})))).await;
    let refused = web.set_reaches(2, &[REFUSED]).await;
    let message = refused.message("Available");
    assert!(
        message.contains(".spec.color is removed (it affects Tool "),
        "{message}"
    );
    assert_eq!(
        ns.live(&tools.tool(json!({}))).await["spec"]["color"],
        "red"
    );
}

/// The plugin shows the refusal before anything is written, for an upgrade and for a rollback.
#[tokio::test]
async fn diff_pack_and_rollback_show_a_loss_before_they_write() {
    let ns = TestNamespace::new(Scope::Cluster).await;
    let tools = Tools::new(&ns);
    let color = json!({ "color": { "type": "string" } });
    let web = tools.deployed(&color, json!({ "color": "red" })).await;
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("given.yaml");
    let file = path.to_str().unwrap();
    let loss = "version v1: .spec.color is removed (it affects Tool ";
    let target = format!("cod/{}", web.name());

    let given = ns
        .deployment("tools")
        .content(tools.content(tools.crd(&json!({}))));
    fs::write(&path, given.manifest().to_string()).unwrap();
    let ran = ns.plugin(&["diff", "-f", file]);
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(ran.stdout.contains(loss), "{ran:?}");
    fs::write(
        &path,
        tools.crd(&json!({})).into_json()["object"].to_string(),
    )
    .unwrap();
    let packed = ns.plugin(&[
        "pack",
        file,
        "--name",
        web.name(),
        "--cluster",
        "--apply",
        "--force-conflicts",
    ]);
    assert_eq!(packed.code, 3, "{packed:?}");
    assert!(format!("{packed:?}").contains(loss), "{packed:?}");
    web.has_sets(&[1]).await;

    // The second revision adds a field, which a stored object uses.
    let mut more = color.clone();
    more["size"] = json!({ "type": "integer" });
    let rule = json!([{ "rule": "self != 'green'" }]);
    more["color"]["x-kubernetes-validations"] = rule;
    let second = tools.crd(&more);
    let given = ns
        .deployment("tools")
        .content(tools.content(second.clone()));
    fs::write(&path, given.manifest().to_string()).unwrap();
    let ran = ns.plugin(&["diff", "-f", file]);
    assert_eq!(ran.code, 1, "{ran:?}");
    let note = "version v1: .spec.color has a new rule: self != 'green'";
    assert!(ran.stdout.contains(note), "{ran:?}");
    web.edit(tools.content(second.clone())).await;
    web.concluded_as(2).await;
    ns.merge(&tools.tool(json!({})), &json!({ "spec": { "size": 1 } }))
        .await;
    let refused = ns.plugin(&["rollback", &target]);
    assert_eq!(refused.code, 3, "{refused:?}");
    assert!(
        format!("{refused:?}").contains(".spec.size is removed (it affects Tool "),
        "{refused:?}"
    );
    web.has_sets(&[1, 2]).await;

    let allowed = json!({ "metadata": { "annotations": { ALLOW: "true" } } });
    ns.merge(&second, &allowed).await;
    ns.plugin(&["rollback", &target]).done();
    web.concluded_as(3).await;
    assert_eq!(
        ns.live(&tools.tool(json!({}))).await["spec"],
        json!({ "color": "red" })
    );
}
