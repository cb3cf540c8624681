//! The other manifests besides the custom resource definitions: access rights and policies.

mod webhook;

pub(super) use webhook::configuration as webhook;

use baton_apis::{
    constants::{
        ANNOTATION_ALLOW_DELETION, POLICIES,
        shipper::{self, ANNOTATION_BLOCK_OVERRIDE},
    },
    kinds, rights,
};
use serde_json::{Value, json};

const NAMESPACE: &str = "baton-system";
const SERVICE_ACCOUNT: &str = "baton";
const LABELS: [(&str, &str); 1] = [("app.kubernetes.io/name", "baton")];

/// Manifests that belong together in one file.
pub(super) struct Group {
    /// Path below `config/`.
    pub(super) path: String,
    /// Comment above the first manifest.
    pub(super) comment: &'static str,
    /// The manifests.
    pub(super) manifests: Vec<Value>,
}

const MANAGER_COMMENT: &str = "\
# The rights of the manager for its own work. They do not depend on the content of revisions.
";

const CHILDREN_COMMENT: &str = "\
# The rights of the manager on the objects inside of revisions. A revision may contain objects of
# any kind, so these rights are close to those of an administrator. Every user who may create an
# ObjectSet can use them within its namespace. A user who may create a ClusterObjectSet can use them
# everywhere.
#
# To restrict them, replace the first rule by the groups and resources that your revisions contain,
# with the same verbs. `list` and `watch` are needed cluster-wide. Without the second rule, revisions
# may only grant rights that the manager has itself. A revision with an object that needs more is not
# rolled out, and its condition `Available` names the missing right.
";

const CLUSTERS_COMMENT: &str = "\
# The credentials of other clusters: Secrets named after the Clusters, in the namespace given by
# `--clusters-namespace`, by default that of the manager. The manager reads no other Secrets for its
# own work. If the Secrets are in another namespace, move both objects there.
";

const LEADER_COMMENT: &str = "\
# The lease that makes one replica the leader.
";

const TENANTS_COMMENT: &str = "\
# A replacement of `config/rbac/children.yaml`, for a manager without own rights to write the objects
# of revisions: it reads the kinds in use, and writes with the rights of service accounts. To allow
# the use of the accounts of a namespace, create a binding in it:
#
#   kubectl create rolebinding baton-tenant --clusterrole=baton-tenant \\
#     --serviceaccount=baton-system:baton --namespace=NAMESPACE
#
# Add the kinds that your revisions contain to the first role; `list` and `watch` are needed
# cluster-wide. Run the manager with --default-service-account, so that revisions without an
# account use that one. ClusterObjectSets are written with the manager's own rights: bind the rights
# that they need.
";

const AGENT_COMMENT: &str = "\
# The rights of an agent in its cluster. The chart contains them; `baton cluster join --pull` prints
# them with all other objects of the agent.
";

const MONITORING_COMMENT: &str = "\
# For clusters with the Prometheus Operator: reads the manager's metrics, and has the rules of
# rules.yaml. The Prometheus has to select both, by their labels or those of the namespace.
";

const POLICY_COMMENT: &str = "\
# Refuses to delete the definitions of Baton's kinds: with a definition, all objects of its kind are
# deleted, and through them the workloads that they control. To delete a definition, annotate it with
# baton.run/allow-deletion=true first.
";

const ENVIRONMENTS_COMMENT: &str = "\
# Refuses to change the environment of a Release. If the manager has another service account, change
# its name here.
";

const BLOCKS_COMMENT: &str = "\
# Refuses to create, delete or change the spec of an Application or a Release while a RolloutBlock of
# its namespace, or of rollout-blocks-global, exists that its annotation does not override. The API
# server decides, so the block holds while the manager is down. The manager and the controllers of the
# control plane are exempt. If the manager has another service account, change its name here.
";

/// The admission policy that protects the custom resource definitions with these names.
pub(super) fn policy(definitions: &[String]) -> Group {
    let name = POLICIES[0];
    let allowed = format!(
        "has(oldObject.metadata.annotations) && '{ANNOTATION_ALLOW_DELETION}' in oldObject.metadata.annotations && \
         oldObject.metadata.annotations['{ANNOTATION_ALLOW_DELETION}'] == 'true'"
    );
    let message = format!(
        "'the deletion of this definition deletes all objects of its kind, and the workloads that they control; to \
         allow it, run `kubectl annotate crd ' + oldObject.metadata.name + ' {ANNOTATION_ALLOW_DELETION}=true`'"
    );
    let is_ours = format!("oldObject.metadata.name in {}", json!(definitions));
    let policy = admission(
        "Policy",
        name,
        &json!({
            "failurePolicy": "Fail",
            "matchConditions": [{ "name": "definition-of-baton", "expression": is_ours }],
            "matchConstraints": { "resourceRules": [{
                "apiGroups": ["apiextensions.k8s.io"],
                "apiVersions": ["*"],
                "operations": ["DELETE"],
                "resources": ["customresourcedefinitions"],
            }] },
            "validations": [{
                "expression": allowed, "messageExpression": message, "reason": "Forbidden",
            }],
        }),
    );
    Group {
        path: "policy/definitions.yaml".to_owned(),
        comment: POLICY_COMMENT,
        manifests: vec![policy, binding(name, "", json!(null))],
    }
}

/// Puts an admission policy in force, with parameters unless they are null.
fn binding(policy: &str, suffix: &str, parameters: Value) -> Value {
    let spec = json!({ "policyName": policy, "validationActions": ["Deny"] });
    let mut binding = admission("PolicyBinding", &format!("{policy}{suffix}"), &spec);
    if !parameters.is_null() {
        binding["spec"]["paramRef"] = parameters;
    }
    binding
}

/// An object of the kind `ValidatingAdmission...`.
fn admission(kind: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": format!("ValidatingAdmission{kind}"),
        "metadata": { "name": name, "labels": labels() },
        "spec": spec,
    })
}

/// The user name of the manager.
fn manager() -> String {
    format!("system:serviceaccount:{NAMESPACE}:{SERVICE_ACCOUNT}")
}

/// The user names that rollout blocks and their overrides do not concern: the manager and the controllers
/// of the control plane.
fn exempt() -> [String; 4] {
    [
        manager(),
        "system:serviceaccount:kube-system:generic-garbage-collector".to_owned(),
        "system:serviceaccount:kube-system:namespace-controller".to_owned(),
        // Controllers without service accounts of their own.
        "system:kube-controller-manager".to_owned(),
    ]
}

/// The admission policy that keeps the environments of Releases.
pub(super) fn environments() -> Group {
    let name = POLICIES[2];
    let manager = manager();
    let policy = admission(
        "Policy",
        name,
        &json!({
            "failurePolicy": "Fail",
            "matchConstraints": { "resourceRules": [{
                "apiGroups": [shipper::GROUP],
                "apiVersions": ["*"],
                "operations": ["UPDATE"],
                "resources": ["releases"],
            }] },
            "matchConditions": [{
                "name": "not-by-the-manager",
                "expression": format!("request.userInfo.username != '{manager}'"),
            }],
            "validations": [{
                "expression": "object.spec.environment == oldObject.spec.environment",
                "message": shipper::ENVIRONMENT_IS_CONSTANT,
                "reason": "Forbidden",
            }],
        }),
    );
    Group {
        path: "policy/release-environment.yaml".to_owned(),
        comment: ENVIRONMENTS_COMMENT,
        manifests: vec![policy, binding(name, "", json!(null))],
    }
}

/// The admission policy by which RolloutBlocks hold while the manager is down.
pub(super) fn blocks() -> Group {
    let name = POLICIES[1];
    let annotations = "variables.subject.metadata.annotations";
    let overrides = format!(
        "(has({annotations}) && '{ANNOTATION_BLOCK_OVERRIDE}' in {annotations} ? \
         {annotations}['{ANNOTATION_BLOCK_OVERRIDE}'] : '').split(',')"
    );
    let policy = admission(
        "Policy",
        name,
        &json!({
            "failurePolicy": "Fail",
            "paramKind": { "apiVersion": shipper::API_VERSION, "kind": kinds::ROLLOUT_BLOCK.name },
            "matchConstraints": { "resourceRules": [{
                "apiGroups": [shipper::GROUP],
                "apiVersions": ["*"],
                "operations": ["CREATE", "UPDATE", "DELETE"],
                "resources": ["applications", "releases"],
            }] },
            "matchConditions": [
                {
                    "name": "changes-the-spec",
                    "expression": "request.operation != 'UPDATE' || object.spec != oldObject.spec",
                },
                {
                    "name": "not-by-a-controller",
                    "expression": format!("!(request.userInfo.username in {})", json!(exempt())),
                },
            ],
            "variables": [
                {
                    "name": "subject",
                    "expression": "request.operation == 'DELETE' ? oldObject : object",
                },
                { "name": "overrides", "expression": overrides },
                {
                    "name": "block",
                    "expression": "params.metadata.namespace + '/' + params.metadata.name",
                },
            ],
            "validations": [{
                // A block applies no more from the begin of its deletion.
                "expression": "has(params.metadata.deletionTimestamp) || variables.block in variables.overrides",
                "messageExpression":
                    "'rollout block(s) with name(s) \"' + variables.block + '\" exist: ' + params.spec.message",
                "reason": "Forbidden",
            }],
        }),
    );
    let own = json!({ "selector": {}, "parameterNotFoundAction": "Allow" });
    let mut global = own.clone();
    global["namespace"] = shipper::NAMESPACE_GLOBAL_BLOCKS.into();
    Group {
        path: "policy/rollout-blocks.yaml".to_owned(),
        comment: BLOCKS_COMMENT,
        manifests: vec![
            policy,
            binding(name, "", own),
            binding(name, "-global", global),
        ],
    }
}

/// The manifests for the Prometheus Operator.
pub(super) fn monitoring(rules: &Value) -> Group {
    Group {
        path: "monitoring/prometheus-operator.yaml".to_owned(),
        comment: MONITORING_COMMENT,
        manifests: crate::monitoring::manifests(rules, NAMESPACE, &labels()),
    }
}

/// The rights of an agent in its cluster, for the chart.
pub(super) fn agent() -> Group {
    let mut manifests = role("ClusterRole", "baton-agent", rights::delivery());
    // Its binding is for the account of the manager.
    manifests.truncate(1);
    Group {
        path: "agent/rights.yaml".to_owned(),
        comment: AGENT_COMMENT,
        manifests,
    }
}

/// The rights of the manager if tenants are isolated, instead of its rights on children.
pub(super) fn tenants() -> Group {
    let mut manifests = role("ClusterRole", "baton-children", rights::reading());
    let mut impersonation = role("ClusterRole", "baton-tenant", rights::impersonation());
    // The role is bound only in the namespaces of tenants, so its binding is dropped.
    impersonation.truncate(1);
    manifests.extend(impersonation);
    Group {
        path: "tenants/children.yaml".to_owned(),
        comment: TENANTS_COMMENT,
        manifests,
    }
}

/// The rights of the manager, in files by purpose.
pub(super) fn roles() -> [Group; 5] {
    let group = |name, comment, manifests| Group {
        path: format!("rbac/{name}.yaml"),
        comment,
        manifests,
    };
    let mut manager = vec![service_account()];
    manager.extend(role("ClusterRole", "baton-manager", rights::manager()));
    let children = role("ClusterRole", "baton-children", rights::children());
    let clusters = role("Role", "baton-clusters", rights::credentials());
    let leader = role("Role", "baton-leader-election", rights::lease());
    [
        group("manager", MANAGER_COMMENT, manager),
        group("children", CHILDREN_COMMENT, children),
        group("clusters", CLUSTERS_COMMENT, clusters),
        group("leader-election", LEADER_COMMENT, leader),
        webhook::certificate(),
    ]
}

fn labels() -> Value {
    LABELS.into_iter().collect()
}

fn service_account() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": { "name": SERVICE_ACCOUNT, "namespace": NAMESPACE, "labels": labels() },
    })
}

/// A role, in the manager's namespace if it is a `Role`, and its binding to the manager's service account.
fn role(kind: &str, name: &str, rules: Vec<Value>) -> Vec<Value> {
    let object = |kind: &str| {
        let mut object = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": kind,
            "metadata": { "name": name, "labels": labels() },
        });
        if !kind.starts_with("Cluster") {
            object["metadata"]["namespace"] = NAMESPACE.into();
        }
        object
    };
    let mut role = object(kind);
    role["rules"] = rules.into();
    let mut binding = object(&format!("{kind}Binding"));
    binding["roleRef"] =
        json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name });
    binding["subjects"] =
        json!([{ "kind": "ServiceAccount", "name": SERVICE_ACCOUNT, "namespace": NAMESPACE }]);
    vec![role, binding]
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::{
        admissionregistration::v1::{
            ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
            ValidatingWebhookConfiguration,
        },
        apps::v1::Deployment,
        core::v1::{Namespace, Service, ServiceAccount},
        policy::v1::PodDisruptionBudget,
        rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
    };
    use serde::{Serialize, de::DeserializeOwned};

    use super::*;

    /// Parsing into the typed form would drop a misspelt field.
    #[test]
    fn manifests_contain_only_known_fields() {
        fn check<T: Serialize + DeserializeOwned>(manifest: &Value) {
            let typed: T = serde_json::from_value(manifest.clone()).unwrap();
            assert_eq!(&serde_json::to_value(typed).unwrap(), manifest);
        }
        let install = include_str!("../../../config/install.yaml");
        let documents = install.split("\n---\n").skip(1);
        let mut manifests: Vec<Value> = documents
            .map(|document| serde_saphyr::from_str(document).unwrap())
            .collect();
        manifests.extend(tenants().manifests);
        manifests.extend(agent().manifests);
        for manifest in &manifests {
            match manifest["kind"].as_str().unwrap() {
                "Namespace" => check::<Namespace>(manifest),
                "Service" => check::<Service>(manifest),
                "ValidatingWebhookConfiguration" => {
                    check::<ValidatingWebhookConfiguration>(manifest);
                }
                "ServiceAccount" => check::<ServiceAccount>(manifest),
                "ClusterRole" => check::<ClusterRole>(manifest),
                "ClusterRoleBinding" => check::<ClusterRoleBinding>(manifest),
                "Role" => check::<Role>(manifest),
                "RoleBinding" => check::<RoleBinding>(manifest),
                "ValidatingAdmissionPolicy" => check::<ValidatingAdmissionPolicy>(manifest),
                "ValidatingAdmissionPolicyBinding" => {
                    check::<ValidatingAdmissionPolicyBinding>(manifest);
                }
                "Deployment" => check::<Deployment>(manifest),
                "PodDisruptionBudget" => check::<PodDisruptionBudget>(manifest),
                // Compared with the types by another test.
                "CustomResourceDefinition" => {}
                kind => panic!("no check for {kind}"),
            }
        }
    }
}
