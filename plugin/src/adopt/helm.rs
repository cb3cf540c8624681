//! The records of Helm: a Secret, or a `ConfigMap` if Helm is set up so, per revision of a release.

use baton_cluster::Cluster;
use baton_kubernetes::path;
use baton_view::{lists::ListQuery, object::text_at};
use http::Method;
use serde_json::Value;

use super::{
    FoundObjects, ObjectToAdopt, core_path,
    record::{RecordError, base64, packed_json},
};
use crate::{
    error::Error,
    pack::documents::{self, InputText},
};

/// A revision of a release.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Release {
    namespace: String,
    /// Name and version of the chart.
    chart: String,
    manifest: String,
    /// Hooks as `Job/migrate (pre-upgrade)`: they are not part of the manifest.
    hooks: Vec<String>,
}

/// The resources that Helm stores releases in; `true` if their values are in base64.
const STORES: [(&str, bool); 2] = [("secrets", true), ("configmaps", false)];

/// Reads the newest revision of a release in the namespace in use.
pub(crate) async fn read(cluster: &Cluster, name: &str) -> Result<FoundObjects, Error> {
    let namespace = &cluster.namespace;
    let query = ListQuery {
        labels: Some(format!("owner=helm,name={name}")),
        metadata_only: true,
        ..ListQuery::default()
    };
    for (plural, is_wrapped) in STORES {
        let path = core_path(cluster, plural)?;
        // Only metadata is read: old revisions are as large as new ones.
        let records = cluster.list_at(&path, &query).await?;
        if records.is_empty() {
            continue;
        }
        let (revision, record) = newest(name, &records).map_err(Error::Impossible)?;
        let record = text_at(record, "/metadata/name").to_owned();
        let path = path::object(&path, &record);
        let path = path.map_err(|error| Error::Impossible(error.to_string()))?;
        let object = cluster.send(Method::GET, &path, None).await?;
        let unreadable = |error: RecordError| {
            Error::Impossible(format!(
                "the record {record} of the Helm release {name} {error}"
            ))
        };
        let payload = text_at(&object, "/data/release").as_bytes().to_vec();
        let payload = if is_wrapped {
            base64(&payload).map_err(unreadable)?
        } else {
            payload
        };
        let release = decode(&payload).map_err(unreadable)?;
        return Ok(release.found(name, revision));
    }
    Err(Error::NotFound(format!(
        "there is no Helm release {name} in the namespace {namespace}"
    )))
}

/// The newest record of a release, if it is deployed.
fn newest<'r>(name: &str, records: &'r [Value]) -> Result<(u64, &'r Value), String> {
    let label = |record: &Value, label: &str| {
        let text = record.pointer(&format!("/metadata/labels/{label}"));
        text.and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let number = |record: &&Value| label(record, "version").parse::<u64>().unwrap_or_default();
    let newest = records.iter().max_by_key(number);
    let newest = newest.ok_or_else(|| format!("the Helm release {name} has no records"))?;
    let revision = number(&newest);
    match label(newest, "status").as_str() {
        "deployed" => Ok((revision, newest)),
        status @ ("failed" | "superseded") => Err(format!(
            "revision {revision} of the Helm release {name} is {status}: the objects in the cluster may be of this \
             revision or of an older one; first run `helm upgrade` or `helm rollback`"
        )),
        status if status.starts_with("pending-") => Err(format!(
            "revision {revision} of the Helm release {name} is {status}: helm still runs, or was interrupted; wait \
             until it ends, or first run `helm rollback`"
        )),
        status => Err(format!(
            "revision {revision} of the Helm release {name} is {status}, not deployed"
        )),
    }
}

/// Decodes a record: compressed JSON in base64.
fn decode(payload: &[u8]) -> Result<Release, RecordError> {
    let record = packed_json(payload)?;
    let manifest = record.get("manifest").and_then(Value::as_str);
    let text = |pointer| text_at(&record, pointer);
    let hooks = record.get("hooks").and_then(Value::as_array);
    let hooks = hooks.into_iter().flatten().map(|hook| {
        let events = hook.get("events").and_then(Value::as_array);
        let events = events.into_iter().flatten().filter_map(Value::as_str);
        let events: Vec<_> = events.collect();
        let (kind, name) = (text_at(hook, "/kind"), text_at(hook, "/name"));
        format!("{kind}/{name} ({})", events.join(", "))
    });
    Ok(Release {
        namespace: text("/namespace").to_owned(),
        chart: [
            text("/chart/metadata/name"),
            text("/chart/metadata/version"),
        ]
        .join(" ")
        .trim()
        .to_owned(),
        manifest: manifest.ok_or(RecordError::Missing("manifest"))?.to_owned(),
        hooks: hooks.collect(),
    })
}

impl Release {
    fn found(self, name: &str, revision: u64) -> FoundObjects {
        let source = format!("Helm release {name}");
        let parsed = documents::read(&InputText {
            name: source.as_str().into(),
            text: self.manifest,
        });
        let mut found = FoundObjects {
            title: match self.chart.as_str() {
                "" => format!("{source}, revision {revision}"),
                chart => format!("{source}, revision {revision} ({chart})"),
            },
            namespace: self.namespace,
            errors: parsed.errors.iter().map(ToString::to_string).collect(),
            notes: parsed.notes,
            ..FoundObjects::default()
        };
        for (location, document) in parsed.documents {
            for manifest in flat(document.value) {
                match ObjectToAdopt::of_manifest(location.clone(), manifest) {
                    Ok(member) => found.members.push(member),
                    Err(error) => found.errors.push(error),
                }
            }
        }
        if !self.hooks.is_empty() {
            found.notes.push(format!(
                "hooks of the release are left out: {}",
                self.hooks.join(", ")
            ));
        }
        found
    }
}

/// The objects of a list, or the object itself.
fn flat(mut value: Value) -> Vec<Value> {
    let is_list = text_at(&value, "/kind").ends_with("List");
    match value.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) if is_list => items.into_iter().flat_map(flat).collect(),
        Some(items) => {
            value["items"] = items;
            vec![value]
        }
        None => vec![value],
    }
}

#[cfg(test)]
mod tests {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    use serde_json::json;

    use super::*;

    fn record(version: &str, status: &str) -> Value {
        json!({"metadata": {
            "name": format!("sh.helm.release.v1.shop.v{version}"),
            "labels": {"owner": "helm", "name": "shop", "version": version, "status": status},
        }})
    }

    #[test]
    fn the_newest_helm_revision_is_used_if_it_is_deployed() {
        for (records, expected) in [
            (&[("1", "superseded"), ("2", "deployed")][..], "2"),
            // The order is by number, not by text.
            (&[("10", "deployed"), ("9", "superseded")], "10"),
            (
                &[("1", "deployed"), ("2", "failed")],
                "revision 2 of the Helm release shop is failed: the objects in the cluster may be of this revision or \
                 of an older one; first run `helm upgrade` or `helm rollback`",
            ),
            (
                &[("1", "deployed"), ("2", "pending-upgrade")],
                "revision 2 of the Helm release shop is pending-upgrade: helm still runs, or was interrupted; wait \
                 until it ends, or first run `helm rollback`",
            ),
            (
                &[("3", "uninstalled")],
                "revision 3 of the Helm release shop is uninstalled, not deployed",
            ),
            (
                &[("x", "")],
                "revision 0 of the Helm release shop is , not deployed",
            ),
        ] {
            let records: Vec<_> = records.iter().map(|(v, s)| record(v, s)).collect();
            let chosen = newest("shop", &records);
            let chosen = chosen.map_or_else(|error| error, |(number, _)| number.to_string());
            assert_eq!(chosen, expected);
        }
    }

    const MANIFEST: &str = "---
# Source: shop/templates/settings.yaml
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
---
# Source: shop/templates/more.yaml
apiVersion: v1
kind: List
items:
- {apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: other}}
---
# Source: shop/templates/bad.yaml
kind: ConfigMap
metadata: {name: bad}
";

    #[test]
    fn a_release_is_the_objects_of_its_manifest() {
        let payload = json!({
            "name": "shop", "namespace": "here", "manifest": MANIFEST, "version": 3,
            "chart": {"metadata": {"name": "shop", "version": "1.2.3"}},
            "hooks": [{"kind": "Job", "name": "migrate", "events": ["pre-upgrade", "pre-install"]}],
        });
        let release = decode(STANDARD.encode(payload.to_string()).as_bytes()).unwrap();
        let found = release.found("shop", 3);
        assert_eq!(found.title, "Helm release shop, revision 3 (shop 1.2.3)");
        assert_eq!(found.namespace, "here");
        let members: Vec<_> = found
            .members
            .iter()
            .map(|member| (member.title(), member.namespace.as_str()))
            .collect();
        assert_eq!(
            members,
            [
                ("ConfigMap/settings".to_owned(), ""),
                ("Deployment/web".to_owned(), "other")
            ]
        );
        assert_eq!(
            found.notes,
            ["hooks of the release are left out: Job/migrate (pre-upgrade, pre-install)"]
        );
        assert_eq!(
            found.errors,
            [
                "Helm release shop:14: document 3 (shop/templates/bad.yaml): an object without apiVersion, kind or name"
            ]
        );
    }

    #[test]
    fn a_record_without_a_manifest_is_no_release() {
        let error = decode(STANDARD.encode("{}").as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), "has no manifest");
    }
}
