//! The owners of the fields of a live object that a revision does not want.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::fields::{Marker, OnPath, is_leaf, subtract};
use super::legacy::{entries, is_legacy_entry, wanted_part};
use super::{is_apply, texts::stored_fields};
use crate::object::text;

/// Managers of Kubernetes itself. Their fields outside of the status are bookkeeping, except for
/// the scale subresource.
pub(super) const BUILT_IN: [&str; 5] = [
    "cloud-controller-manager",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
];

/// The fields of other managers in a live object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Others {
    /// Paths by manager. If a manager writes through a subresource, its name ends with the
    /// subresource.
    pub by_manager: BTreeMap<String, Vec<String>>,
    /// Number of fields that are bookkeeping of Kubernetes' own controllers.
    pub built_in: usize,
}

/// The unwanted fields that others have set in a live object, without its status. Fields without an
/// owner, such as defaults, are not included, nor are the fields of `former` managers, which become
/// ours.
pub fn others(live: &Value, wanted: &Value, former: &[String]) -> Others {
    let is_former = |entry: &Value| former.iter().any(|name| name == text(entry, "manager"));
    let is_others =
        |entry: &&Value| !is_apply(entry) && !is_legacy_entry(entry) && !is_former(entry);
    let ours: Vec<_> = entries(live).iter().filter(|it| is_apply(it)).collect();
    let mut found = Others::default();
    for entry in entries(live).iter().filter(is_others) {
        let (manager, through) = (text(entry, "manager"), text(entry, "subresource"));
        let Some(fields) = stored_fields(entry, live).filter(|_| through != "status") else {
            continue;
        };
        let mut fields = fields.into_owned();
        fields.remove("f:status");
        if let Some(part) = wanted_part(&fields, wanted) {
            subtract(&mut fields, &part);
        }
        for ours in ours.iter().filter_map(|entry| stored_fields(entry, live)) {
            subtract(&mut fields, &ours);
        }
        let mut paths = Vec::new();
        list(OnPath::ROOT, &fields, &mut paths);
        if BUILT_IN.contains(&manager) && through.is_empty() {
            found.built_in += paths.len();
        } else if !paths.is_empty() {
            let name = match through {
                "" => manager.to_owned(),
                through => format!("{manager} ({through})"),
            };
            found.by_manager.entry(name).or_default().extend(paths);
        }
    }
    found
}

/// Lists the paths of a set; a value that is owned as a whole has one path.
fn list(path: OnPath<'_>, node: &Map<String, Value>, found: &mut Vec<String>) {
    for (text, below) in node {
        let path = match Marker::parse(text) {
            Marker::This => continue,
            Marker::Field(name) => path.field(name),
            _ => path.marker(text),
        };
        let Some(below) = below.as_object() else {
            continue;
        };
        if is_leaf(below) || below.contains_key(".") {
            found.push(path.in_full().to_string());
        } else {
            list(path, below, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::diff::tests::yaml;

    #[test]
    fn fields_are_named_by_who_set_them() {
        let env = r#"{f:l: {'k:{"name":"b"}': {.: {}, f:name: {}, f:v: {}}}}"#;
        let mut live = yaml("{apiVersion: v1, kind: Test, metadata: {}}");
        let entries = [
            ("package-operator", "Apply", "", "{f:x: {}, f:both: {}}"),
            ("package-operator", "Update", "", "{f:old: {}}"),
            ("kubectl-edit", "Update", "", env),
            ("argocd", "Apply", "", "{f:x: {}, f:both: {}, f:wanted: {}}"),
            ("former", "Apply", "", "{f:former: {}}"),
            ("kube-controller-manager", "Update", "status", "{f:s: {}}"),
            (
                "kube-controller-manager",
                "Update",
                "scale",
                "{f:replicas: {}}",
            ),
            (
                "kube-controller-manager",
                "Update",
                "",
                "{f:node: {}, f:other: {}}",
            ),
            ("kubectl-edit", "Update", "", "{f:w: {}, f:z: {f:deep: {}}}"),
        ];
        let entries = entries.map(|(manager, operation, through, fields)| {
            json!({"manager": manager, "operation": operation, "subresource": through, "apiVersion": "v1",
                "fieldsV1": {"f:spec": yaml(fields)}})
        });
        live["metadata"]["managedFields"] = entries.to_vec().into();
        let wanted = yaml("{spec: {x: 1, both: 1, wanted: 1}}");
        let found = others(&live, &wanted, &["former".to_owned()]);
        let expected = [
            ("kube-controller-manager (scale)", vec![".spec.replicas"]),
            (
                "kubectl-edit",
                vec![r#".spec.l[{"name":"b"}]"#, ".spec.w", ".spec.z.deep"],
            ),
        ];
        let by_manager = found.by_manager.iter();
        let by_manager =
            by_manager.map(|(name, paths)| (&**name, paths.iter().map(|it| &**it).collect()));
        assert_eq!(by_manager.collect::<Vec<(&str, Vec<&str>)>>(), expected);
        assert_eq!(found.built_in, 2);
    }

    /// A Secret's wanted texts are stored as bytes in `data`; a manager that changed those has
    /// changed a wanted field.
    #[test]
    fn the_texts_of_a_secret_are_its_data() {
        let live = yaml(
            "{apiVersion: v1, kind: Secret, metadata: {managedFields: [{manager: x, operation: Update, apiVersion: \
                 v1, fieldsV1: {f:data: {f:a: {}, f:b: {}}}}]}}",
        );
        let wanted = yaml("{apiVersion: v1, kind: Secret, data: {a: dGV4dA==}}");
        let found = others(&live, &wanted, &[]);
        assert_eq!(found.by_manager["x"], [".data.b"]);
    }

    #[test]
    fn an_object_of_ours_alone_has_no_fields_of_others() {
        let live = yaml(
            "{metadata: {managedFields: [{manager: package-operator, operation: Apply, fieldsV1: {f:a: {}}}]}}",
        );
        assert_eq!(others(&live, &yaml("{}"), &[]), Others::default());
        assert_eq!(others(&yaml("{}"), &yaml("{}"), &[]), Others::default());
    }
}
