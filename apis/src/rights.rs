//! Access rights, as rules of roles: those of the manager, which are in `config/rbac`, and those
//! that joining a cluster grants, in that cluster and to its agent on the hub.

use serde::Serialize;
use serde_json::{Value, json};

use crate::constants::{BATON_GROUP, GROUP, WEBHOOK, shipper};

const READ: [&str; 3] = ["get", "list", "watch"];
const ALL: [&str; 7] = [
    "get", "list", "watch", "create", "update", "patch", "delete",
];

fn rule(group: &str, resources: &[impl Serialize], verbs: &[&str]) -> Value {
    json!({ "apiGroups": [group], "resources": resources, "verbs": verbs })
}

/// The rights for the manager's own work, independent of the content of revisions.
pub fn manager() -> Vec<Value> {
    let crds = crate::crds();
    let (mut plurals, mut statuses, mut finalizers) = (Vec::new(), Vec::new(), Vec::new());
    for crd in crds.iter().filter(|crd| crd.spec.group == GROUP) {
        let plural = crd.spec.names.plural.as_str();
        plurals.push(plural);
        finalizers.push(format!("{plural}/finalizers"));
        // Slices have no status.
        if crd.spec.versions.iter().any(|v| v.subresources.is_some()) {
            statuses.push(format!("{plural}/status"));
        }
    }
    vec![
        rule(GROUP, &plurals, &ALL),
        rule(GROUP, &statuses, &["get", "update", "patch"]),
        // Owner references with `blockOwnerDeletion` require this on some clusters.
        rule(GROUP, &finalizers, &["update"]),
        // A Cluster has no status subresource, so `patch` is for its status.
        rule(
            shipper::GROUP,
            &["clusters"],
            &["get", "list", "watch", "patch"],
        ),
        // The status of most kinds is written with the object; two kinds have a status subresource.
        rule(
            shipper::GROUP,
            &[
                "applications",
                "releases",
                "installationtargets",
                "capacitytargets",
                "traffictargets",
            ],
            &ALL,
        ),
        rule(
            shipper::GROUP,
            &["rolloutblocks"],
            &["get", "list", "watch", "update"],
        ),
        rule(
            shipper::GROUP,
            &["capacitytargets/status", "traffictargets/status"],
            &["get", "update", "patch"],
        ),
        rule(BATON_GROUP, &["siteassignments"], &READ),
        rule(BATON_GROUP, &["siteapplications", "sitedeployments"], &READ),
        // The overrides of a deleted rollout block are removed.
        rule(BATON_GROUP, &["sitedeployments"], &["patch"]),
        rule(
            BATON_GROUP,
            &["siteapplications/status", "sitedeployments/status"],
            &["get", "update", "patch"],
        ),
        // Owner references with `blockOwnerDeletion` require this on some clusters.
        rule(
            BATON_GROUP,
            &["siteapplications/finalizers", "sitedeployments/finalizers"],
            &["update"],
        ),
        // The versions of applications of sites, and the chosen sites.
        rule("apps", &["controllerrevisions"], &ALL),
        // The labels of namespaces, by which assignments can select them.
        rule("", &["namespaces"], &READ),
        definitions(),
        rule("events.k8s.io", &["events"], &["create", "patch"]),
    ]
}

fn definitions() -> Value {
    rule(
        "apiextensions.k8s.io",
        &["customresourcedefinitions"],
        &READ,
    )
}

/// The rights to write objects as service accounts, in the namespaces where they are granted.
pub fn impersonation() -> Vec<Value> {
    vec![rule("", &["serviceaccounts"], &["impersonate"])]
}

/// Kinds that revisions of tenants contain most often, by group.
const KINDS_OF_TENANTS: [(&str, &[&str]); 7] = [
    (
        "",
        &[
            "configmaps",
            "persistentvolumeclaims",
            "secrets",
            "serviceaccounts",
            "services",
        ],
    ),
    ("apps", &["daemonsets", "deployments", "statefulsets"]),
    ("autoscaling", &["horizontalpodautoscalers"]),
    ("batch", &["cronjobs", "jobs"]),
    ("networking.k8s.io", &["ingresses", "networkpolicies"]),
    ("policy", &["poddisruptionbudgets"]),
    ("rbac.authorization.k8s.io", &["rolebindings", "roles"]),
];

/// The rights to watch the objects of tenants, which are written as service accounts, and to find
/// out why workloads and claims fail.
pub fn reading() -> Vec<Value> {
    let kinds = KINDS_OF_TENANTS.into_iter();
    let kinds = kinds.map(|(group, resources)| rule(group, resources, &READ));
    let reasons = [
        rule("", &["pods"], &["list"]),
        rule("storage.k8s.io", &["storageclasses"], &READ),
    ];
    kinds.chain(reasons).collect()
}

/// The rights to write the objects in revisions, as the manager itself or as a service account.
pub fn children() -> Vec<Value> {
    let mut rules = impersonation();
    rules.extend([
        rule("*", &["*"], &ALL),
        rule(
            "rbac.authorization.k8s.io",
            &["roles", "clusterroles"],
            &["bind", "escalate"],
        ),
    ]);
    rules
}

/// The rights to read the credentials of clusters.
pub fn credentials() -> Vec<Value> {
    vec![rule("", &["secrets"], &READ)]
}

/// The rights to let the API server trust the certificate of the admission webhook.
pub fn webhook() -> Vec<Value> {
    let mut own = rule(
        "admissionregistration.k8s.io",
        &["validatingwebhookconfigurations"],
        &["get", "patch"],
    );
    own["resourceNames"] = json!([WEBHOOK]);
    vec![own]
}

/// The rights to store that certificate, in the namespace of the manager.
pub fn webhook_certificate() -> Vec<Value> {
    let mut own = rule("", &["secrets"], &["get", "update"]);
    own["resourceNames"] = json!([WEBHOOK]);
    // A role cannot limit creation to a name.
    vec![rule("", &["secrets"], &["create"]), own]
}

/// The rights to hold the lease that makes one replica the leader.
pub fn lease() -> Vec<Value> {
    let verbs = ["get", "list", "watch", "create", "update", "patch"];
    vec![rule("coordination.k8s.io", &["leases"], &verbs)]
}

/// The rights to deliver objects into a cluster, for the hub or for the agent of the cluster.
pub fn delivery() -> Vec<Value> {
    with_discovery(children())
}

/// As [`delivery`], if all objects are written as service accounts. The right to act as such an
/// account is [`impersonation`], which is granted namespace by namespace.
pub fn delivery_for_tenants() -> Vec<Value> {
    with_discovery(reading())
}

/// Adds the rights to read the definitions of custom resources, to read discovery, which some
/// clusters do not grant to service accounts, and to identify the cluster.
fn with_discovery(mut rules: Vec<Value>) -> Vec<Value> {
    let discovery = json!({
        "nonResourceURLs": ["/api", "/api/*", "/apis", "/apis/*", "/version"],
        "verbs": ["get"],
    });
    let identity = json!({
        "apiGroups": [""],
        "resources": ["namespaces"],
        "resourceNames": ["kube-system"],
        "verbs": ["get"],
    });
    rules.extend([definitions(), discovery, identity]);
    rules
}

/// The rights of an agent on the hub, in the namespace of its cluster: to read its phases and
/// report their status.
///
/// It has no rights to finalizers, Events or Secrets, because its credentials are stored in a place
/// that may be lost.
pub fn agent() -> Vec<Value> {
    vec![
        rule(GROUP, &["objectsetphases"], &READ),
        rule(GROUP, &["objectsetphases/status"], &["update", "patch"]),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_gets_only_the_rights_that_it_needs() {
        assert_eq!(
            json!(agent()),
            json!([
                {
                    "apiGroups": ["package-operator.run"],
                    "resources": ["objectsetphases"],
                    "verbs": ["get", "list", "watch"],
                },
                {
                    "apiGroups": ["package-operator.run"],
                    "resources": ["objectsetphases/status"],
                    "verbs": ["update", "patch"],
                },
            ])
        );
    }

    /// The manager has no right to write of its own. It writes as the service accounts that it may
    /// impersonate, which is granted namespace by namespace.
    #[test]
    fn tenants_are_served_without_rights_to_write() {
        let writes = |rule: &Value| {
            let verbs = rule["verbs"].as_array().unwrap();
            verbs
                .iter()
                .any(|verb| !READ.contains(&verb.as_str().unwrap()))
        };
        assert!(!reading().iter().any(writes));
        assert!(!delivery_for_tenants().iter().any(writes));
        assert_eq!(
            json!(impersonation()),
            json!([{ "apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["impersonate"] }])
        );
    }

    #[test]
    fn slices_have_no_status_to_write() {
        let rules = json!(manager()).to_string();
        assert!(rules.contains(r#""objectsets/status""#) && rules.contains(r#""objectslices""#));
        assert!(!rules.contains("slices/status"), "{rules}");
    }

    /// The manager needs the same rights to objects in another cluster as to those in its own.
    #[test]
    fn objects_in_other_clusters_need_the_same_rights_as_local_ones() {
        assert_eq!(delivery()[..3], children());
        assert_eq!(delivery_for_tenants()[..reading().len()], reading());
        assert_eq!(delivery()[3..], delivery_for_tenants()[reading().len()..]);
    }
}
