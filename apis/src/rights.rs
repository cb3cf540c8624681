//! Access rights, as rules of roles: those that `config/rbac` grants to the manager, and those that joining a cluster
//! grants in it and to its agent.

use serde::Serialize;
use serde_json::{Value, json};

use crate::constants::{BATON_GROUP, GROUP, shipper};

const READ: [&str; 3] = ["get", "list", "watch"];
const ALL: [&str; 7] = [
    "get", "list", "watch", "create", "update", "patch", "delete",
];

fn rule(group: &str, resources: &[impl Serialize], verbs: &[&str]) -> Value {
    json!({ "apiGroups": [group], "resources": resources, "verbs": verbs })
}

/// What the manager needs for its own work, whatever the revisions contain.
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
        // Owner references with `blockOwnerDeletion` demand it on some clusters.
        rule(GROUP, &finalizers, &["update"]),
        // A Cluster has no status subresource, so `patch` is for its status.
        rule(
            shipper::GROUP,
            &["clusters"],
            &["get", "list", "watch", "patch"],
        ),
        // The status of most goes with the object; of two kinds it is a subresource.
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
            &["capacitytargets/status", "traffictargets/status"],
            &["get", "update", "patch"],
        ),
        rule(BATON_GROUP, &["siteassignments"], &READ),
        rule(BATON_GROUP, &["siteapplications", "sitedeployments"], &READ),
        rule(
            BATON_GROUP,
            &["siteapplications/status", "sitedeployments/status"],
            &["get", "update", "patch"],
        ),
        // Owner references with `blockOwnerDeletion` demand it on some clusters.
        rule(
            BATON_GROUP,
            &["siteapplications/finalizers", "sitedeployments/finalizers"],
            &["update"],
        ),
        // The versions of applications of sites, and which sites were chosen.
        rule("apps", &["controllerrevisions"], &ALL),
        // Their labels, by which assignments can select them.
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

/// What it takes to write objects with the rights of service accounts, within the namespaces it is granted for.
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

/// What it takes to watch the objects of tenants, which are written with the rights of service accounts, and to find
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

/// What it takes to write the objects inside of revisions, as oneself or as a service account.
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

/// What it takes to read the credentials of clusters.
pub fn credentials() -> Vec<Value> {
    vec![rule("", &["secrets"], &READ)]
}

/// What it takes to hold the lease that makes one replica the leader.
pub fn lease() -> Vec<Value> {
    let verbs = ["get", "list", "watch", "create", "update", "patch"];
    vec![rule("coordination.k8s.io", &["leases"], &verbs)]
}

/// What whoever delivers objects into a cluster needs there, be it the hub or the cluster's agent.
pub fn delivery() -> Vec<Value> {
    with_discovery(children())
}

/// As [`delivery`], for objects that are written with the rights of service accounts only. Which ones is granted by
/// [`impersonation`], namespace by namespace.
pub fn delivery_for_tenants() -> Vec<Value> {
    with_discovery(reading())
}

/// And the definitions of custom resources, and discovery, which some clusters take away from service accounts.
fn with_discovery(mut rules: Vec<Value>) -> Vec<Value> {
    let discovery = json!({
        "nonResourceURLs": ["/api", "/api/*", "/apis", "/apis/*", "/version"],
        "verbs": ["get"],
    });
    rules.extend([definitions(), discovery]);
    rules
}

/// What an agent may do on the hub, in the namespace of its cluster: read its phases and report their status. No
/// finalizers, no Events, no Secrets: its credentials are kept in a place that may be lost.
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
    fn an_agent_gets_what_it_needs_and_nothing_else() {
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

    /// Who may impersonate in one namespace only has no other way to write anything.
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

    /// Another cluster's objects are as free as those of the manager's own.
    #[test]
    fn objects_in_other_clusters_need_the_same_rights_as_those_of_the_own_one() {
        assert_eq!(delivery()[..3], children());
        assert_eq!(delivery_for_tenants()[..reading().len()], reading());
        assert_eq!(delivery()[3..], delivery_for_tenants()[reading().len()..]);
    }
}
