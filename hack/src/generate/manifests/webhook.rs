//! The admission webhook of the manager: its configuration, its Service, and the rights for its
//! certificate.

use baton_apis::{
    constants::{
        ANNOTATION_RESTORED_FROM, BATON_GROUP, GROUP, LABEL_OBEY_ROLLOUT_BLOCKS, WEBHOOK,
        shipper::{self, ANNOTATION_BLOCK_OVERRIDE},
    },
    rights,
};
use serde_json::{Value, json};

use super::{Group, LABELS, NAMESPACE, exempt, labels, role};

const COMMENT: &str = "\
# Refuses an override annotation that names a RolloutBlock which does not exist. The API server asks
# the manager, and only about requests that set the annotation, except for those of a restore. While no
# manager answers, such requests pass, and the controllers hold the object: its condition `Blocked`
# names the block. The manager sets the certificate. If the manager has another service account, change
# its name here.
";

const RIGHTS_COMMENT: &str = "\
# The certificate of the webhook: its Secret, and its place in the configuration of the webhook.
";

/// The port of the webhook in the pods.
const PORT: &str = "webhook";

/// The configuration of the webhook and its Service.
pub(in super::super) fn configuration() -> Group {
    let releases = json!([rule(shipper::GROUP, &["applications", "releases"])]);
    let deployments = json!([
        rule(GROUP, &["objectdeployments", "clusterobjectdeployments"]),
        rule(BATON_GROUP, &["sitedeployments"]),
    ]);
    let obeying = json!({ "matchExpressions": [
        { "key": LABEL_OBEY_ROLLOUT_BLOCKS, "operator": "Exists" },
        { "key": LABEL_OBEY_ROLLOUT_BLOCKS, "operator": "NotIn", "values": ["false"] },
    ] });
    let mut deployments = webhook("deployments", &deployments);
    deployments["objectSelector"] = obeying;
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": { "name": WEBHOOK, "labels": labels() },
        "webhooks": [webhook("releases", &releases), deployments],
    });
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": { "name": WEBHOOK, "namespace": NAMESPACE, "labels": labels() },
        "spec": {
            "selector": LABELS.into_iter().collect::<Value>(),
            "ports": [{ "name": PORT, "port": 443, "targetPort": PORT }],
        },
    });
    Group {
        path: "policy/webhook.yaml".to_owned(),
        comment: COMMENT,
        manifests: vec![configuration, service],
    }
}

/// The rights for the certificate.
pub(super) fn certificate() -> Group {
    let mut manifests = role("ClusterRole", "baton-webhook", rights::webhook());
    manifests.extend(role("Role", "baton-webhook", rights::webhook_certificate()));
    Group {
        path: "rbac/webhook.yaml".to_owned(),
        comment: RIGHTS_COMMENT,
        manifests,
    }
}

/// A webhook. Its name never changes: the manager owns a field of the entry with the name, so an upgrade
/// by server-side apply would leave an incomplete entry.
fn webhook(name: &str, rules: &Value) -> Value {
    let wanted = overrides_of("object");
    let before = overrides_of("oldObject");
    // A restore creates the blocks last, as the policies would refuse what they block.
    let is_new = format!("!('{ANNOTATION_RESTORED_FROM}' in object.metadata.annotations)");
    let sets = format!(
        "{wanted} != '' && (request.operation == 'CREATE' ? {is_new} : {wanted} != {before})"
    );
    json!({
        "name": format!("{name}.overrides.{BATON_GROUP}"),
        "admissionReviewVersions": ["v1"],
        "clientConfig": {
            "service": { "name": WEBHOOK, "namespace": NAMESPACE, "path": "/validate", "port": 443 },
        },
        "failurePolicy": "Ignore",
        "matchConditions": [
            { "name": "sets-overrides", "expression": sets },
            {
                "name": "not-by-a-controller",
                "expression": format!("!(request.userInfo.username in {})", json!(exempt())),
            },
        ],
        "rules": rules,
        "sideEffects": "None",
        "timeoutSeconds": 5,
    })
}

/// The override annotation of an object; empty if it has none.
fn overrides_of(object: &str) -> String {
    let annotations = format!("{object}.metadata.annotations");
    format!(
        "(has({annotations}) && '{ANNOTATION_BLOCK_OVERRIDE}' in {annotations} ? \
         {annotations}['{ANNOTATION_BLOCK_OVERRIDE}'] : '')"
    )
}

fn rule(group: &str, resources: &[&str]) -> Value {
    json!({
        "apiGroups": [group],
        "apiVersions": ["*"],
        "operations": ["CREATE", "UPDATE"],
        "resources": resources,
        "scope": "*",
    })
}
