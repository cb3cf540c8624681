//! The manifests beside the custom resource definitions: namespace, access rights, deployment.

use baton_apis::constants::{CLUSTER_GROUP, GROUP};
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
# What the manager needs for its own work, whatever the revisions contain.
";

const CHILDREN_COMMENT: &str = "\
# What the manager may do with the objects inside of revisions. A revision may contain objects of
# any kind, so as it stands this is close to the rights of an administrator, and whoever may create
# an ObjectSet can use them within the namespace, whoever may create a ClusterObjectSet everywhere.
#
# To narrow it, replace the first rule by the groups and resources that your revisions contain, with
# the same verbs. `list` and `watch` are needed cluster-wide. Without the second rule, revisions may
# only grant rights that the manager has itself. A revision that contains anything beyond is not
# rolled out, and its condition `Available` says which right is missing.
";

const CLUSTERS_COMMENT: &str = "\
# The credentials of other clusters: Secrets named after the Clusters, in the namespace given by
# `--clusters-namespace`, by default the manager's own. Nowhere else the manager reads Secrets for
# itself. With another namespace for them, move both objects there.
";

const LEADER_COMMENT: &str = "\
# The lease that makes one replica the leader.
";

/// What the manager may do, in files by purpose.
pub(super) fn rights() -> [Group; 4] {
    let group = |name, comment, manifests| Group {
        path: format!("rbac/{name}.yaml"),
        comment,
        manifests,
    };
    [
        group("manager", MANAGER_COMMENT, manager_rights()),
        group("children", CHILDREN_COMMENT, children_rights()),
        group("clusters", CLUSTERS_COMMENT, cluster_rights()),
        group("leader-election", LEADER_COMMENT, leader_rights()),
    ]
}

fn labels() -> Value {
    LABELS.into_iter().collect()
}

/// The namespace of the manager.
pub(super) fn namespace() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": NAMESPACE,
            "labels": {
                "app.kubernetes.io/name": "baton",
                "pod-security.kubernetes.io/enforce": "restricted",
            },
        },
    })
}

fn manager_rights() -> Vec<Value> {
    let plurals: Vec<String> = baton_apis::crds()
        .into_iter()
        .filter(|crd| crd.spec.group == GROUP)
        .map(|crd| crd.spec.names.plural)
        .collect();
    let subresources = |name: &str| -> Vec<String> {
        plurals
            .iter()
            .map(|plural| format!("{plural}/{name}"))
            .collect()
    };
    let rules = json!([
        {
            "apiGroups": [GROUP],
            "resources": plurals,
            "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"],
        },
        {
            "apiGroups": [GROUP],
            "resources": subresources("status"),
            "verbs": ["get", "update", "patch"],
        },
        {
            // Owner references with `blockOwnerDeletion` demand it on some clusters.
            "apiGroups": [GROUP],
            "resources": subresources("finalizers"),
            "verbs": ["update"],
        },
        {
            // A Cluster has no status subresource, so `patch` is for its status.
            "apiGroups": [CLUSTER_GROUP],
            "resources": ["clusters"],
            "verbs": ["get", "list", "watch", "patch"],
        },
        {
            "apiGroups": ["apiextensions.k8s.io"],
            "resources": ["customresourcedefinitions"],
            "verbs": ["get", "list", "watch"],
        },
        {
            "apiGroups": ["events.k8s.io"],
            "resources": ["events"],
            "verbs": ["create", "patch"],
        },
    ]);
    let account = json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": { "name": SERVICE_ACCOUNT, "namespace": NAMESPACE, "labels": labels() },
    });
    let [role, binding] = cluster_role("baton-manager", &rules);
    vec![account, role, binding]
}

fn children_rights() -> Vec<Value> {
    let rules = json!([
        {
            "apiGroups": ["*"],
            "resources": ["*"],
            "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"],
        },
        {
            "apiGroups": ["rbac.authorization.k8s.io"],
            "resources": ["roles", "clusterroles"],
            "verbs": ["bind", "escalate"],
        },
    ]);
    cluster_role("baton-children", &rules).into()
}

fn cluster_rights() -> Vec<Value> {
    let rules = json!([{
        "apiGroups": [""],
        "resources": ["secrets"],
        "verbs": ["get", "list", "watch"],
    }]);
    role("baton-clusters", &rules).into()
}

fn leader_rights() -> Vec<Value> {
    let rules = json!([{
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "verbs": ["get", "list", "watch", "create", "update", "patch"],
    }]);
    role("baton-leader-election", &rules).into()
}

/// A role in the manager's namespace and its binding to the manager's service account.
fn role(name: &str, rules: &Value) -> [Value; 2] {
    [
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": { "name": name, "namespace": NAMESPACE, "labels": labels() },
            "rules": rules,
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": { "name": name, "namespace": NAMESPACE, "labels": labels() },
            "roleRef": role_reference("Role", name),
            "subjects": [subject()],
        }),
    ]
}

/// A cluster role and its binding to the manager's service account.
fn cluster_role(name: &str, rules: &Value) -> [Value; 2] {
    [
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": { "name": name, "labels": labels() },
            "rules": rules,
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": { "name": name, "labels": labels() },
            "roleRef": role_reference("ClusterRole", name),
            "subjects": [subject()],
        }),
    ]
}

fn role_reference(kind: &str, name: &str) -> Value {
    json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name })
}

fn subject() -> Value {
    json!({ "kind": "ServiceAccount", "name": SERVICE_ACCOUNT, "namespace": NAMESPACE })
}

/// The manager itself.
pub(super) fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": "baton-manager", "namespace": NAMESPACE, "labels": labels() },
        "spec": {
            // One works, the other waits for the lease.
            "replicas": 2,
            "selector": { "matchLabels": labels() },
            "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": 1 } },
            "template": {
                "metadata": { "labels": labels() },
                "spec": {
                    "serviceAccountName": SERVICE_ACCOUNT,
                    "terminationGracePeriodSeconds": 30,
                    "securityContext": {
                        "runAsNonRoot": true,
                        "runAsUser": 65532,
                        "seccompProfile": { "type": "RuntimeDefault" },
                    },
                    "containers": [container()],
                },
            },
        },
    })
}

fn container() -> Value {
    let probe = |path: &str| json!({ "httpGet": { "path": path, "port": "health" } });
    json!({
        "name": "manager",
        "image": concat!("baton:", env!("CARGO_PKG_VERSION")),
        "args": ["manager", format!("--namespace={NAMESPACE}"), "--log-format=json"],
        // A container that crashed finds its own name in the lease and leads again at once.
        "env": [{
            "name": "BATON_IDENTITY",
            "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } },
        }],
        "ports": [
            { "name": "metrics", "containerPort": 8080 },
            { "name": "health", "containerPort": 8081 },
        ],
        "livenessProbe": probe("/healthz"),
        "readinessProbe": probe("/readyz"),
        "resources": {
            "requests": { "cpu": "100m", "memory": "64Mi" },
            "limits": { "memory": "256Mi" },
        },
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": { "drop": ["ALL"] },
            "readOnlyRootFilesystem": true,
        },
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::{
        apps::v1::Deployment,
        core::v1::{Namespace, ServiceAccount},
        rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
    };
    use serde::{Serialize, de::DeserializeOwned};

    use super::*;

    /// A misspelt field would be dropped by the typed form.
    #[test]
    fn manifests_hold_known_fields_only() {
        fn check<T: Serialize + DeserializeOwned>(manifest: &Value) {
            let typed: T = serde_json::from_value(manifest.clone()).unwrap();
            assert_eq!(&serde_json::to_value(typed).unwrap(), manifest);
        }
        let rights = rights().map(|group| group.manifests).concat();
        for manifest in rights.iter().chain([&namespace(), &deployment()]) {
            match manifest["kind"].as_str().unwrap() {
                "Namespace" => check::<Namespace>(manifest),
                "ServiceAccount" => check::<ServiceAccount>(manifest),
                "ClusterRole" => check::<ClusterRole>(manifest),
                "ClusterRoleBinding" => check::<ClusterRoleBinding>(manifest),
                "Role" => check::<Role>(manifest),
                "RoleBinding" => check::<RoleBinding>(manifest),
                "Deployment" => check::<Deployment>(manifest),
                kind => panic!("no check for {kind}"),
            }
        }
    }
}
