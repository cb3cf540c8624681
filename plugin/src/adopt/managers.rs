//! The writers of an object, from its `managedFields`.

use std::collections::BTreeSet;

use baton_apis::constants::FORMER_FIELD_MANAGERS;
use baton_engine::{diff::legacy::entries, object::text};
use serde_json::Value;

/// The fields of the metadata that mark objects of a tool. A field manager that owns one of them
/// belongs to the tool, with any name: plugins and operators that embed Helm have other names.
const MARKS: [(&str, &str); 5] = [
    ("f:annotations", "f:meta.helm.sh/release-name"),
    ("f:annotations", "f:argocd.argoproj.io/tracking-id"),
    ("f:annotations", "f:kapp.k14s.io/identity"),
    ("f:labels", "f:kapp.k14s.io/app"),
    ("f:labels", "f:kustomize.toolkit.fluxcd.io/name"),
];

/// Field managers of tools whose marks may be missing: Argo CD tracks objects by a label that other
/// tools use too.
const TOOLS: [&str; 4] = [
    "argocd-controller",
    "argocd-application-controller",
    "kapp",
    "kustomize-controller",
];

/// Field managers of Kubernetes, which creates objects for those of users, and completes them.
const OF_KUBERNETES: [&str; 8] = [
    "cloud-controller-manager",
    "k3s",
    "k0s",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kwok",
];

/// The managers whose fields the revision takes over with an object, sorted.
///
/// These are the standard ones, those that the user named, and those with marks of a tool on
/// the object. Without a record of the last apply, all commands of kubectl are included.
pub(crate) fn former(live: &Value, asked: &[String], has_record: bool) -> Vec<String> {
    let mut former: BTreeSet<String> = asked.iter().cloned().collect();
    former.extend(FORMER_FIELD_MANAGERS.map(str::to_owned));
    let tools = entries(live).iter().filter(|entry| {
        let manager = text(entry, "manager");
        let is_kubectl = !has_record && manager.starts_with("kubectl");
        text(entry, "subresource").is_empty()
            && (is_kubectl || TOOLS.contains(&manager) || has_mark(entry))
    });
    former.extend(tools.map(|entry| text(entry, "manager").to_owned()));
    former.into_iter().collect()
}

/// The managers that own fields of an object and are not standard ones, so that an annotation has
/// to name them.
pub(crate) fn to_name<'m>(live: &Value, former: &'m [String]) -> impl Iterator<Item = &'m String> {
    let managers: BTreeSet<String> = entries(live)
        .iter()
        .map(|entry| text(entry, "manager").to_owned())
        .collect();
    former
        .iter()
        .filter(move |name| managers.contains(*name) && !FORMER_FIELD_MANAGERS.contains(&&***name))
}

/// True if only Kubernetes itself has written an object: it was created for another object.
pub(crate) fn is_of_kubernetes(live: &Value) -> bool {
    let entries = entries(live);
    !entries.is_empty()
        && entries
            .iter()
            .all(|entry| OF_KUBERNETES.contains(&text(entry, "manager")))
}

/// The writers of an object without Kubernetes, for people.
pub(crate) fn writers(live: &Value) -> BTreeSet<&str> {
    let managers = entries(live)
        .iter()
        .filter(|entry| text(entry, "subresource").is_empty());
    managers
        .map(|entry| text(entry, "manager"))
        .filter(|manager| !OF_KUBERNETES.contains(manager))
        .collect()
}

fn has_mark(entry: &Value) -> bool {
    let metadata = entry.get("fieldsV1").and_then(|it| it.get("f:metadata"));
    let has = |(field, mark): &(&str, &str)| metadata?.get(field)?.get(mark);
    MARKS.iter().any(|mark| has(mark).is_some())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn live(entries: &[(&str, &str)]) -> Value {
        let entries = entries.iter().map(|(manager, fields)| {
            let fields: Value = serde_saphyr::from_str(fields).unwrap();
            json!({"manager": manager, "operation": "Update", "fieldsV1": fields})
        });
        json!({"metadata": {"managedFields": entries.collect::<Vec<_>>()}})
    }

    #[test]
    fn tools_are_recognised_by_name_or_by_their_annotations() {
        let helm = "{f:metadata: {f:annotations: {'f:meta.helm.sh/release-name': {}}}}";
        let flux = "{f:metadata: {f:labels: {'f:kustomize.toolkit.fluxcd.io/name': {}}}}";
        for (entries, has_record, expected) in [
            (&[("helm", helm)][..], true, &[][..]),
            (
                &[("terraform", helm), ("cainjector", "{f:webhooks: {}}")],
                true,
                &["terraform"],
            ),
            (
                &[("my-flux", flux), ("argocd-controller", "{}")],
                true,
                &["argocd-controller", "my-flux"],
            ),
            (
                &[("kubectl-edit", "{}"), ("kubectl-create", "{}")],
                true,
                &[],
            ),
            (
                &[("kubectl-edit", "{}"), ("kubectl-create", "{}")],
                false,
                &["kubectl-create", "kubectl-edit"],
            ),
            (&[("mine", "{}"), ("theirs", "{}")], false, &["mine"]),
        ] {
            let live = live(entries);
            let former = former(&live, &["mine".to_owned(), "absent".to_owned()], has_record);
            let named: Vec<_> = to_name(&live, &former).collect();
            assert_eq!(named, expected, "{entries:?}");
            for manager in FORMER_FIELD_MANAGERS {
                assert!(former.iter().any(|name| name == manager));
            }
        }
    }

    #[test]
    fn entries_of_subresources_do_not_identify_a_tool() {
        let mut scaled = live(&[("kubectl", "{}"), ("kubectl-scale", "{}")]);
        scaled["metadata"]["managedFields"][1]["subresource"] = "scale".into();
        let former = former(&scaled, &[], false);
        assert!(!former.contains(&"kubectl-scale".to_owned()));
    }

    #[test]
    fn objects_of_kubernetes_are_recognised_by_their_managers() {
        let components = [("kube-controller-manager", "{}"), ("kubelet", "{}")];
        assert!(is_of_kubernetes(&live(&components)));
        assert!(!is_of_kubernetes(&live(&[components[0], ("helm", "{}")])));
        // The writers are unknown.
        assert!(!is_of_kubernetes(&live(&[])));
        assert!(writers(&live(&[components[0], ("x", "{}")])).contains("x"));
    }
}
