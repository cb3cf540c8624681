//! Fields that a controller of the control plane, or a known injector, sets by design.
//!
//! Where a manifest leaves such a field empty, its author leaves the field to the controller. An
//! apply of the empty value would undo the work of the controller, and the two would repeat this
//! for ever. So the field does not belong to the revision.
//!
//! Observable behaviour: `docs/contract/revisions.md`, "Fields that controllers set".

use k8s_openapi::ByteString;
use serde_json::Value;

use crate::{Gvk, diff::FieldPath, object::text};

/// Stands for each item of a list in the path of a [`Row`].
const EACH: &str = "*";

/// The way in which a revision leaves a field to its controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leave {
    /// The field is left out of the manifest. A value that an older revision has set stays until
    /// the controller replaces it.
    CreateOnly,
    /// As above, but the server requires the field, so the manifest keeps it.
    Required,
    /// The field is left out of the manifest. A value that an older revision has set is removed.
    Out,
}

/// A field that a controller sets.
struct Row {
    group: &'static str,
    kinds: &'static [&'static str],
    path: &'static [&'static str],
    leave: Leave,
}

const fn row(
    group: &'static str,
    kinds: &'static [&'static str],
    path: &'static [&'static str],
    leave: Leave,
) -> Row {
    Row {
        group,
        kinds,
        path,
        leave,
    }
}

const WEBHOOKS: &[&str] = &[
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
];
const CA_BUNDLE: &str = "caBundle";

/// Fields that belong to a controller where a manifest leaves them empty.
#[rustfmt::skip]
const ROWS: [Row; 18] = [
    // Injectors of certificates, such as that of cert-manager.
    row("admissionregistration.k8s.io", WEBHOOKS, &["webhooks", EACH, "clientConfig", CA_BUNDLE], Leave::Out),
    row(
        "apiextensions.k8s.io",
        &["CustomResourceDefinition"],
        &["spec", "conversion", "webhook", "clientConfig", CA_BUNDLE],
        Leave::CreateOnly,
    ),
    row("apiregistration.k8s.io", &["APIService"], &["spec", CA_BUNDLE], Leave::CreateOnly),
    // Injectors and generators of data. The keys of an older revision are no longer wanted.
    row("", &["ConfigMap", "Secret"], &["data"], Leave::Out),
    row("", &["ConfigMap"], &["binaryData"], Leave::Out),
    row("", &["Secret"], &["stringData"], Leave::Out),
    // Allocators of the API server.
    row("", &["Service"], &["spec", "clusterIP"], Leave::CreateOnly),
    row("", &["Service"], &["spec", "clusterIPs"], Leave::CreateOnly),
    row("", &["Service"], &["spec", "healthCheckNodePort"], Leave::CreateOnly),
    row("", &["Service"], &["spec", "ports", EACH, "nodePort"], Leave::Out),
    // The binder of volumes.
    row("", &["PersistentVolumeClaim"], &["spec", "volumeName"], Leave::CreateOnly),
    row("", &["PersistentVolume"], &["spec", "claimRef"], Leave::CreateOnly),
    // The scheduler.
    row("", &["Pod"], &["spec", "nodeName"], Leave::CreateOnly),
    // Controllers of tokens and of pull secrets.
    row("", &["ServiceAccount"], &["secrets"], Leave::Out),
    row("", &["ServiceAccount"], &["imagePullSecrets"], Leave::Out),
    row("", &["Secret"], &["data", "tls.crt"], Leave::Required),
    row("", &["Secret"], &["data", "tls.key"], Leave::Required),
    row("", &["Secret"], &["data", "token"], Leave::Required),
];

/// Leaves the fields of a manifest to the controllers that set them.
///
/// Returns the fields that are create-only, and removes all fields that the server does not require
/// from the manifest. `gvk` is the
/// kind of the manifest. The manifest is that of a revision, with the texts of a Secret encoded.
pub fn leave_to_controllers(gvk: &Gvk, manifest: &mut Value) -> Vec<FieldPath> {
    let mut create_only = Vec::new();
    for row in &ROWS {
        if row.group != gvk.group || !row.kinds.contains(&&*gvk.kind) || !applies(row, manifest) {
            continue;
        }
        match row.leave {
            Leave::Out => remove_empty(manifest, row.path, row.path),
            Leave::CreateOnly | Leave::Required => {
                let mut path = row.path.iter();
                let value = path.try_fold(&*manifest, |value, key| value.get(key));
                if value.is_some_and(|value| is_empty(row.path, value)) {
                    create_only.push(FieldPath::of(row.path));
                    if row.leave == Leave::CreateOnly {
                        remove_empty(manifest, row.path, row.path);
                    }
                }
            }
        }
    }
    // The control plane replaces any rules, so they belong to it whatever the manifest contains.
    if gvk.group == "rbac.authorization.k8s.io"
        && gvk.kind == "ClusterRole"
        && manifest
            .get("aggregationRule")
            .is_some_and(|rule| !rule.is_null())
    {
        create_only.push(FieldPath::of(&["rules"]));
        if let Some(manifest) = manifest.as_object_mut() {
            manifest.remove("rules");
        }
    }
    create_only
}

/// True if the controller sets the field in an object of this type.
fn applies(row: &Row, manifest: &Value) -> bool {
    match (row.kinds, row.path) {
        // A Service without an address has to state this when its type changes.
        (["Service"], _) => manifest["spec"]["type"] != "ExternalName",
        // The server requires these keys, so an empty value is the only way to leave them open. In
        // a Secret of another type, an empty value may be what its readers need.
        (["Secret"], ["data", "token"]) => {
            text(manifest, "type") == "kubernetes.io/service-account-token"
        }
        (["Secret"], ["data", _]) => text(manifest, "type") == "kubernetes.io/tls",
        _ => true,
    }
}

/// Removes the empty values at the rest of a path.
fn remove_empty(value: &mut Value, rest: &[&str], path: &[&str]) {
    match (rest, value) {
        ([EACH, rest @ ..], Value::Array(items)) => {
            for item in items {
                remove_empty(item, rest, path);
            }
        }
        ([key], Value::Object(fields))
            if fields.get(*key).is_some_and(|value| is_empty(path, value)) =>
        {
            fields.remove(*key);
        }
        ([key, rest @ ..], Value::Object(fields)) => {
            if let Some(below) = fields.get_mut(*key) {
                remove_empty(below, rest, path);
            }
        }
        _ => {}
    }
}

/// True if the value at a path of a [`Row`] leaves the field open.
fn is_empty(path: &[&str], value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(_) => false,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) if path.last() == Some(&CA_BUNDLE) => is_blank_bundle(text, value),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.iter().all(|item| is_empty(path, item)),
        Value::Object(fields) => fields.is_empty(),
    }
}

/// True if a bundle has no certificate. Generators write `Cg==`, a line break, as a placeholder.
fn is_blank_bundle(text: &str, value: &Value) -> bool {
    let decoded = serde_json::from_value(value.clone());
    text.trim().is_empty() || decoded.is_ok_and(|ByteString(bytes)| bytes.trim_ascii().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::fixtures;

    fn yaml(text: &str) -> Value {
        fixtures::yaml(text)
    }

    fn left(manifest: &str) -> (String, Value) {
        let mut manifest = yaml(manifest);
        let gvk = Gvk::new(text(&manifest, "apiVersion"), text(&manifest, "kind"));
        let paths = leave_to_controllers(&gvk, &mut manifest);
        let paths: Vec<_> = paths.iter().map(ToString::to_string).collect();
        let fields = manifest.as_object_mut().unwrap();
        for field in ["apiVersion", "kind"] {
            fields.remove(field);
        }
        (paths.join(" "), manifest)
    }

    #[track_caller]
    fn check(kind: &str, fields: &str, create_only: &str, rest: &str) {
        let (api_version, kind) = kind.rsplit_once('/').unwrap();
        let manifest = format!("{{apiVersion: {api_version}, kind: {kind}, {fields}}}");
        let expected = (create_only.to_owned(), yaml(&format!("{{{rest}}}")));
        assert_eq!(left(&manifest), expected, "{manifest}");
    }

    /// The manifest stays as it is.
    #[track_caller]
    fn check_same(kind: &str, fields: &str, paths: &str) {
        check(kind, fields, paths, fields);
    }

    #[test]
    fn rules_of_an_aggregated_role_belong_to_the_control_plane() {
        let role = "rbac.authorization.k8s.io/v1/ClusterRole";
        let aggregated = "aggregationRule: {clusterRoleSelectors: [{matchLabels: {a: b}}]}";
        for rules in ["rules: []", "rules: null", "rules: [{verbs: [get]}]"] {
            check(
                role,
                &format!("{aggregated}, {rules}"),
                ".rules",
                aggregated,
            );
            check_same(role, rules, "");
            check_same(role, &format!("aggregationRule: null, {rules}"), "");
        }
        // An older revision may have set rules.
        check_same(role, aggregated, ".rules");
        check_same(
            "rbac.authorization.k8s.io/v1/Role",
            &format!("{aggregated}, rules: []"),
            "",
        );
    }

    #[test]
    fn empty_bundles_belong_to_an_injector() {
        for kind in WEBHOOKS {
            check(
                &format!("admissionregistration.k8s.io/v1/{kind}"),
                "webhooks: [{name: a, clientConfig: {caBundle: '', url: x}}, {name: b, clientConfig: {caBundle: \
                 'Cg=='}}, {name: c, clientConfig: {caBundle: Q0E=}}, {name: d}, null]",
                "",
                "webhooks: [{name: a, clientConfig: {url: x}}, {name: b, clientConfig: {}}, {name: c, clientConfig: \
                 {caBundle: Q0E=}}, {name: d}, null]",
            );
        }
        let path = ".spec.conversion.webhook.clientConfig.caBundle";
        for (bundle, expected) in [("''", path), ("null", path), ("Cg==", path), ("Q0E=", "")] {
            let with = |client| {
                format!("spec: {{conversion: {{webhook: {{clientConfig: {{{client}}}}}}}}}")
            };
            let fields = with(format!("caBundle: {bundle}, url: x"));
            let rest = if expected.is_empty() {
                fields.clone()
            } else {
                with("url: x".to_owned())
            };
            check(
                "apiextensions.k8s.io/v1/CustomResourceDefinition",
                &fields,
                expected,
                &rest,
            );
        }
        for (spec, expected) in [
            ("{caBundle: ''}", ".spec.caBundle"),
            ("{caBundle: Q0E=}", ""),
            ("{}", ""),
            ("null", ""),
        ] {
            let fields = format!("spec: {spec}");
            let rest = if expected.is_empty() {
                &fields
            } else {
                "spec: {}"
            };
            check(
                "apiregistration.k8s.io/v1/APIService",
                &fields,
                expected,
                rest,
            );
        }
    }

    #[test]
    fn empty_maps_of_data_belong_to_the_manager_that_fills_them() {
        for (fields, rest) in [
            ("data: {}", ""),
            ("data: null", ""),
            ("data: {a: ''}", "data: {a: ''}"),
            ("data: {a: x}", "data: {a: x}"),
        ] {
            check("v1/ConfigMap", fields, "", rest);
            check("v1/Secret", fields, "", rest);
            check_same("example.com/v1/ConfigMap", fields, "");
        }
        check(
            "v1/ConfigMap",
            "binaryData: {}, data: {a: x}",
            "",
            "data: {a: x}",
        );
        check("v1/Secret", "stringData: {}, data: {}", "", "");
        // The server requires these keys.
        let tls = "type: kubernetes.io/tls, data: {tls.crt: '', tls.key: ''}";
        check_same("v1/Secret", tls, r".data.tls\.crt .data.tls\.key");
        let tls = "type: kubernetes.io/tls, data: {tls.crt: eA==, tls.key: eA==, token: ''}";
        check_same("v1/Secret", tls, "");
        let token = "type: kubernetes.io/service-account-token, data: {token: '', tls.crt: ''}";
        check_same("v1/Secret", token, ".data.token");
        check_same(
            "v1/Secret",
            "type: Opaque, data: {tls.crt: '', token: ''}",
            "",
        );
    }

    #[test]
    fn empty_fields_belong_to_their_allocators() {
        check(
            "v1/Service",
            "spec: {clusterIP: '', clusterIPs: [''], healthCheckNodePort: 0, ports: [{port: 80, nodePort: 0}, {port: \
             81, nodePort: 30081}]}",
            ".spec.clusterIP .spec.clusterIPs .spec.healthCheckNodePort",
            "spec: {ports: [{port: 80}, {port: 81, nodePort: 30081}]}",
        );
        check_same(
            "v1/Service",
            "spec: {clusterIP: None, clusterIPs: [None]}",
            "",
        );
        // The empty address belongs to the type.
        check_same(
            "v1/Service",
            "spec: {type: ExternalName, clusterIP: ''}",
            "",
        );
        let claim = "spec: {volumeName: '', storageClassName: ''}";
        check(
            "v1/PersistentVolumeClaim",
            claim,
            ".spec.volumeName",
            "spec: {storageClassName: ''}",
        );
        check_same("v1/PersistentVolumeClaim", "spec: {volumeName: pv}", "");
        let volume = "spec: {claimRef: {}}";
        check("v1/PersistentVolume", volume, ".spec.claimRef", "spec: {}");
        check(
            "v1/Pod",
            "spec: {nodeName: ''}",
            ".spec.nodeName",
            "spec: {}",
        );
        check(
            "v1/ServiceAccount",
            "secrets: [], imagePullSecrets: []",
            "",
            "",
        );
        let account = "imagePullSecrets: [{name: a}]";
        check_same("v1/ServiceAccount", account, "");
    }

    #[test]
    fn paths_of_create_only_fields_do_not_lead_into_lists() {
        for row in &ROWS {
            let leads_into_list = row.path.contains(&EACH);
            assert!(
                !leads_into_list || row.leave == Leave::Out,
                "{:?}",
                row.path
            );
            if row.leave != Leave::Out {
                let path = FieldPath::of(row.path);
                assert_eq!(path.to_string().parse(), Ok(path));
            }
        }
    }
}
