//! The admission webhook: an override annotation that names a RolloutBlock which does not exist.

use baton_apis::constants::shipper::ANNOTATION_BLOCK_OVERRIDE;
use baton_apis::constants::{LABEL_OBEY_ROLLOUT_BLOCKS, WEBHOOK};
use baton_hack::paths::Dirs;
use baton_integration::application::{ALL_IN, TestApplication, reason};
use baton_integration::exclusive::Exclusive;
use baton_integration::manager::HEARTBEAT;
use baton_integration::prelude::*;
use baton_integration::program::free_address;

use crate::releases_blocks::{blocked, refusal, set_override};

/// The namespace of the manager, which has the certificate.
const HOME: &str = "baton-system";

/// Returns the configuration of the installation, for a manager outside of the cluster.
fn configuration(address: &str) -> Entry {
    let path = Dirs::from_env()
        .unwrap()
        .workspace
        .join("config/policy/webhook.yaml");
    let text = std::fs::read_to_string(path).unwrap();
    let document = text.split("---\n").nth(1).unwrap();
    let mut manifest: Value = serde_saphyr::from_str(document).unwrap();
    for webhook in manifest["webhooks"].as_array_mut().unwrap() {
        webhook["clientConfig"] = json!({ "url": format!("https://{address}/validate") });
    }
    object(
        "admissionregistration.k8s.io/v1",
        "ValidatingWebhookConfiguration",
        WEBHOOK,
    )
    .with("/webhooks", manifest["webhooks"].clone())
}

/// Returns an edit that overrides a block which does not exist, another one for each number.
fn edit(ns: &TestNamespace) -> impl Fn(u64) -> Value {
    let namespace = ns.name().to_owned();
    move |number| {
        let name = format!("{namespace}/missing-{number}");
        json!({ "metadata": { "annotations": { ANNOTATION_BLOCK_OVERRIDE: name } } })
    }
}

/// Starts the manager again, with the webhook.
fn restart(bed: &mut Exclusive, address: &str) {
    drop(bed.take_manager());
    start(bed, address);
}

/// Starts a manager with the webhook.
fn start(bed: &mut Exclusive, address: &str) {
    let flag = format!("--webhook-addr={address}");
    bed.spawn_manager(&["--leader-elect=false", HEARTBEAT, &flag]);
}

#[tokio::test]
async fn an_override_of_a_missing_block_is_refused() {
    let mut bed = Exclusive::acquire().await;
    let ns = &bed.namespace(Scope::Namespaced).await;
    let cluster = ns.cluster();
    // Other tests of the bed have objects there.
    let home = object("v1", "Namespace", HOME).manifest;
    cluster.apply(&home, "tests").await.unwrap();
    let address = free_address().to_string();
    ns.create_elsewhere(&configuration(&address)).await;
    restart(&mut bed, &address);
    let app = TestApplication::new(ns, "web").await;
    app.apply(app.environment("0.0.1", 1, ALL_IN)).await;
    app.completed(0).await;
    let live = ns.live(&app.entry()).await;
    let missing =
        |text: &str| text.contains("rollout block with name \"") && text.contains("/missing-");
    let text = refusal(ns, &live, edit(ns)).await;
    assert!(missing(&text) && text.contains("does not exist"), "{text}");

    // The answer does not depend on the manager's cache.
    for number in 0..10 {
        let name = blocked(ns, &format!("new-{number}")).await;
        set_override(ns, &live, &name).await;
    }
    let both = format!("{0}/new-0,{0}/missing", ns.name());
    let annotations = json!({ ANNOTATION_BLOCK_OVERRIDE: both });
    let patch = json!({ "metadata": { "annotations": annotations } });
    let text = cluster.merge(&live, &patch).await.unwrap_err().message;
    let names = format!("\"{}/missing\" does not exist", ns.name());
    assert!(
        text.contains(&names),
        "only the missing block is named: {text}"
    );
    set_override(ns, &live, "").await;

    // Deployments obey blocks only by their label.
    let deployment = |name: &str, label: &str| {
        let content = ns.content().phase("a", [configmap(name)]);
        let deployment = ns.deployment(name).content(content);
        let overriding = format!("{}/missing", ns.name());
        let deployment = deployment.annotation(ANNOTATION_BLOCK_OVERRIDE, &overriding);
        let mut manifest = deployment.manifest();
        manifest["metadata"]["labels"][LABEL_OBEY_ROLLOUT_BLOCKS] = label.into();
        manifest
    };
    cluster.create(&deployment("free", "false")).await.unwrap();
    let obeying = deployment("obeying", "true");
    let text = cluster.create(&obeying).await.unwrap_err().message;
    assert!(text.contains(&names), "{text}");

    // A restore creates the blocks after the objects that override them.
    let mut restored = obeying;
    let annotations = &mut restored["metadata"]["annotations"];
    annotations["baton.run/restored-from"] = "sha256:1".into();
    cluster.create(&restored).await.unwrap();

    // A restart uses the stored certificate. One that is due is renewed, and both are trusted.
    let secret = object("v1", "Secret", WEBHOOK).within(HOME).manifest;
    let configured = configuration(&address).manifest;
    let bundles = async || {
        let webhooks = cluster.get(&configured).await.unwrap()["webhooks"].clone();
        let webhooks = webhooks.as_array().unwrap().clone();
        let bundles = webhooks
            .iter()
            .map(|it| it["clientConfig"]["caBundle"].clone());
        bundles.collect::<Vec<_>>()
    };
    let (stored, trusted) = (cluster.get(&secret).await.unwrap(), bundles().await);
    assert_eq!(trusted, vec![stored["data"]["ca.crt"].clone(); 2]);
    restart(&mut bed, &address);
    refusal(ns, &live, edit(ns)).await;
    assert_eq!(cluster.get(&secret).await.unwrap(), stored);
    let due = json!({ "metadata": { "annotations": { "baton.run/renew-after": "2026-01-01T00:00:00Z" } } });
    cluster.merge(&secret, &due).await.unwrap();
    restart(&mut bed, &address);
    refusal(ns, &live, edit(ns)).await;
    let renewed = cluster.get(&secret).await.unwrap();
    assert_ne!(renewed["data"]["tls.crt"], stored["data"]["tls.crt"]);
    assert_eq!(bundles().await, vec![renewed["data"]["ca.crt"].clone(); 2]);

    // Without a manager the edit passes, and the next manager holds the Application.
    drop(bed.take_manager());
    cluster.merge(&live, &edit(ns)(99)).await.unwrap();
    start(&mut bed, &address);
    let text = format!(
        "rollout block with name \"{}/missing-99\" does not exist",
        ns.name()
    );
    ns.object_becomes(&app.entry(), "blocked", |live| {
        reason(live, "Blocked")[1] == text
    })
    .await;
    set_override(ns, &live, "").await;
    cluster.delete(&secret, "Background").await;
}
