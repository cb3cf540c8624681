//! The rights of the manager, as the API server reviews them.

use std::collections::BTreeSet;

use baton_apis::rights;
use baton_cluster::{Cluster, MAX_CONCURRENT};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::Method;
use serde_json::{Value, json};

use super::finding::{Finding, State};
use baton_kubernetes::wire::MediaType;

use crate::error::Error;

const PATH: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
const SUBJECT: &str = "rights of the manager";
/// Number of missing rights that are named.
const SHOWN: usize = 6;

/// Reviews the rights for the manager's own work. Those on the objects of revisions are a choice of
/// the administrator. `clusters` is the namespace with the credentials of clusters, if it is known.
///
/// # Errors
/// If the user may not review the rights of others.
pub(super) async fn check(
    cluster: &Cluster,
    namespace: &str,
    clusters: Option<&str>,
    account: &str,
) -> Result<Finding, Error> {
    let user = format!("system:serviceaccount:{namespace}:{account}");
    let groups = [
        "system:serviceaccounts".to_owned(),
        format!("system:serviceaccounts:{namespace}"),
        "system:authenticated".to_owned(),
    ];
    let reviewed = stream::iter(wanted(namespace, clusters)).map(|attributes| {
        let (user, groups) = (&user, &groups);
        async move {
            let spec = json!({"user": user, "groups": groups, "resourceAttributes": attributes});
            let body = json!({
                "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec,
            });
            let answer = cluster.send(Method::POST, PATH, Some((MediaType::Json, &body)));
            let is_allowed = answer.await?["status"]["allowed"] == true;
            Ok::<_, Error>((!is_allowed).then_some(attributes))
        }
    });
    let denied: Vec<Option<Value>> = reviewed
        .buffer_unordered(MAX_CONCURRENT)
        .try_collect()
        .await?;
    let denied: BTreeSet<String> = denied.iter().flatten().map(title).collect();
    if denied.is_empty() {
        let secrets = match clusters {
            Some(_) => "",
            None => {
                "; its rights to the Secrets of clusters are not reviewed, as no manager names their namespace"
            }
        };
        let text = format!("{user} has all that it needs for its own work{secrets}");
        return Ok(Finding::new(SUBJECT, State::Fine, text));
    }
    let text = format!("{user} may not {}", some_of(&denied));
    let way_out = "Apply config/rbac, with the Role baton-clusters in the namespace of the Secrets of clusters; \
        --service-account names another account.";
    Ok(Finding::new(SUBJECT, State::Faulty, text).way_out(way_out))
}

/// The first rights, and the number of the others.
fn some_of(denied: &BTreeSet<String>) -> String {
    let first: Vec<_> = denied.iter().take(SHOWN).map(String::as_str).collect();
    match denied.len().saturating_sub(SHOWN) {
        0 => first.join(", "),
        more => format!("{}, and {more} more", first.join(", ")),
    }
}

/// The attributes of all reviews: one for each verb on each resource.
fn wanted(namespace: &str, clusters: Option<&str>) -> Vec<Value> {
    let everywhere = rights::manager().into_iter().map(|rule| (rule, ""));
    let own = rights::lease().into_iter().map(|rule| (rule, namespace));
    let of_clusters = clusters.into_iter().flat_map(|namespace| {
        let rules = rights::credentials().into_iter();
        rules.map(move |rule| (rule, namespace))
    });
    let all = everywhere.chain(own).chain(of_clusters);
    all.flat_map(|(rule, namespace)| attributes(&rule, namespace))
        .collect()
}

fn attributes(rule: &Value, namespace: &str) -> Vec<Value> {
    let texts = |field: &str| {
        let all = rule[field].as_array().into_iter().flatten();
        all.filter_map(Value::as_str)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let mut attributes = Vec::new();
    for group in texts("apiGroups") {
        for resource in texts("resources") {
            let (resource, subresource) = resource.split_once('/').unwrap_or((&resource, ""));
            for verb in texts("verbs") {
                attributes.push(json!({
                    "group": group, "resource": resource, "subresource": subresource,
                    "verb": verb, "namespace": namespace,
                }));
            }
        }
    }
    attributes
}

/// A right as `kubectl auth can-i` has it.
fn title(attributes: &Value) -> String {
    let text = |field: &str| attributes[field].as_str().unwrap_or_default();
    let mut title = format!("{} {}", text("verb"), text("resource"));
    for (before, field) in [(".", "group"), ("/", "subresource"), (" in ", "namespace")] {
        if !text(field).is_empty() {
            title = format!("{title}{before}{}", text(field));
        }
    }
    title
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_verb_on_each_resource_is_reviewed() {
        let rule = json!({
            "apiGroups": ["g"], "resources": ["a", "b/status"], "verbs": ["get", "patch"],
        });
        let titles: Vec<_> = attributes(&rule, "n").iter().map(title).collect();
        let expected = [
            "get a.g in n",
            "patch a.g in n",
            "get b.g/status in n",
            "patch b.g/status in n",
        ];
        assert_eq!(titles, expected);
        let without = wanted("n", None).len();
        assert!(without > 50, "{without}");
        let all = wanted("n", Some("c"));
        let secrets: Vec<_> = all[without..].iter().map(title).collect();
        let expected = [
            "get secrets in c",
            "list secrets in c",
            "watch secrets in c",
        ];
        assert_eq!(secrets, expected);
    }

    #[test]
    fn a_few_missing_rights_are_named() {
        let all = |count: usize| (0..count).map(|at| format!("get {at}")).collect();
        assert_eq!(some_of(&all(2)), "get 0, get 1");
        let text = some_of(&all(8));
        assert!(text.ends_with("get 5, and 2 more"), "{text}");
    }
}
