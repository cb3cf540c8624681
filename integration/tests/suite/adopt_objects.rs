//! The plugin's `adopt` of objects by name and by labels: the fields that are taken over, and
//! missing rights.

use baton_integration::prelude::*;

/// The field managers whose fields the revision takes over are determined for each object
/// separately.
#[tokio::test]
async fn an_edited_field_stays_although_its_manager_created_another_object() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let create = ["create", "--field-manager=kubectl-edit", "-f", "-"];
    let made = configmap("made").data("a", "1");
    let _ = ns.kubectl(&create, &made.manifest).await;
    let applied = configmap("applied").data("a", "1");
    let _ = ns.kubectl(&["apply", "-f", "-"], &applied.manifest).await;
    let patch = [
        "patch",
        "configmap",
        "applied",
        "--field-manager=kubectl-edit",
        "--type=merge",
        "-p",
    ];
    let _ = ns
        .kubectl(
            &[&patch[..], &[r#"{"data":{"edited":"1"}}"#]].concat(),
            &Value::Null,
        )
        .await;
    ns.plugin(&["adopt", "shop", "cm/made", "cm/applied", "--apply"])
        .done();
    ns.existing("shop").concluded().await;
    let former =
        |live: &Value| live["metadata"]["annotations"]["baton.run/former-managers"].clone();
    let live = ns.live(&applied).await;
    assert_eq!(live["data"], json!({"a": "1", "edited": "1"}));
    assert_eq!(former(&live), Value::Null);
    assert_eq!(former(&ns.live(&made).await), "kubectl-edit");
}

/// Missing rights to read an object, or to try the adoption in a dry run, are reported.
#[tokio::test]
async fn rights_that_are_missing_are_named() {
    let ns = TestNamespace::new(Scope::Namespaced).await;
    let map = configmap("settings").data("a", "1").label("team", "shop");
    ns.create(&map).await;
    let user = ns.unique("reader");
    let rules = json!([
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]},
        {"apiGroups": ["package-operator.run"], "resources": ["*"], "verbs": ["*"]},
    ]);
    ns.grant(&user, rules).await;
    let run = |args: &[&str]| ns.plugin(&[args, &["--as", &user]].concat());
    let adopt = ["adopt", "shop", "configmap/settings"];
    ns.eventually("the rights to be known", async || {
        !run(&adopt)
            .stderr
            .contains("cannot get resource \"configmaps\"")
    })
    .await;
    let secrets = run(&["adopt", "shop", "--helm", "shop"]).failed();
    assert!(
        secrets.contains("cannot list resource \"secrets\""),
        "{secrets}"
    );
    let patch = run(&adopt);
    assert_eq!(patch.code, 2, "{patch:?}");
    assert!(
        patch
            .stderr
            .contains("cannot patch resource \"configmaps\""),
        "{}",
        patch.stderr
    );
    // The command does not adopt a part of the selected objects.
    let selected = [
        "adopt",
        "shop",
        "-l",
        "team=shop",
        "--kinds",
        "configmap,secret",
    ];
    let errors = run(&selected).failed();
    assert_eq!(errors, "error: no right to list secrets\n");
}
