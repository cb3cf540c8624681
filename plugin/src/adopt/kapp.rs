//! Apps of kapp: a `ConfigMap` has the label by which the objects of the app are found.

use baton_cluster::{Cluster, served::Served};
use baton_engine::Gvk;
use baton_kubernetes::path;
use baton_view::object::text_at;
use serde_json::Value;

use super::{
    FoundObjects, core_path,
    record::{RecordError, json},
    selected::{Labels, gather, is_following},
};
use crate::error::Error;

/// The suffix of the `ConfigMap` names of current versions of kapp.
const SUFFIX: &str = ".apps.k14s.io";

#[derive(Clone, Debug, PartialEq, Eq)]
struct App {
    /// Label selector: `kapp.k14s.io/app=1700000000`.
    selector: String,
    /// Groups and kinds of the objects, if the record has them.
    kinds: Vec<(String, String)>,
    /// Namespaces of the objects, if the record has them.
    namespaces: Vec<String>,
}

pub(crate) async fn read(
    cluster: &Cluster,
    served: &[Served],
    name: &str,
) -> Result<FoundObjects, Error> {
    let namespace = &cluster.namespace;
    let Some(record) = record(cluster, name).await? else {
        return Err(Error::NotFound(format!(
            "there is no app {name} of kapp in the namespace {namespace}"
        )));
    };
    let app = decode(text_at(&record, "/data/spec"))
        .map_err(|error| Error::Impossible(format!("the record of the kapp app {name} {error}")))?;
    let source = format!("kapp app {name}");
    let mut found = FoundObjects {
        title: source.clone(),
        namespace: namespace.clone(),
        ..FoundObjects::default()
    };
    let is_used = |kind: &&Served| {
        let Gvk { group, kind, .. } = &kind.gvk;
        app.kinds.is_empty() || app.kinds.iter().any(|(of, own)| of == group && own == kind)
    };
    let real = served.iter().filter(|kind| kind.is_real);
    let kinds: Vec<_> = real
        .filter(|kind| !is_following(kind))
        .filter(is_used)
        .collect();
    let (inside, outside): (Vec<_>, Vec<_>) =
        kinds.into_iter().partition(|kind| kind.is_namespaced());
    let labels = Labels {
        selector: &app.selector,
        source: &source,
        are_kinds_named: !app.kinds.is_empty(),
    };
    // Cluster-scoped objects are listed once.
    gather(cluster, &outside, labels, &mut found).await?;
    let mut namespaces = app.namespaces;
    if namespaces.is_empty() {
        namespaces.push(namespace.clone());
    }
    for namespace in namespaces {
        let there = cluster.within(&namespace);
        gather(&there, &inside, labels, &mut found).await?;
    }
    Ok(found)
}

/// Reads the `ConfigMap` of an app, under the name of current or of earlier versions of kapp.
async fn record(cluster: &Cluster, name: &str) -> Result<Option<Value>, Error> {
    let collection = core_path(cluster, "configmaps")?;
    for name in [format!("{name}{SUFFIX}"), name.to_owned()] {
        let path = path::object(&collection, &name);
        let path = path.map_err(|error| Error::Usage(error.to_string()))?;
        let object = cluster.get_at(&path).await?;
        let is_record = |object: &Value| !text_at(object, "/data/spec").is_empty();
        if object.as_ref().is_some_and(is_record) {
            return Ok(object);
        }
    }
    Ok(None)
}

fn decode(text: &str) -> Result<App, RecordError> {
    let spec = json(text.as_bytes())?;
    let key = Some(text_at(&spec, "/labelKey")).filter(|key| !key.is_empty());
    let key = key.ok_or(RecordError::Missing("labelKey"))?;
    let value = Some(text_at(&spec, "/labelValue")).filter(|value| !value.is_empty());
    let value = value.ok_or(RecordError::Missing("labelValue"))?;
    let list = |pointer| spec.pointer(pointer).and_then(Value::as_array);
    let kinds = list("/usedGKs").into_iter().flatten().map(|kind| {
        let text = |field| text_at(kind, field).to_owned();
        (text("/Group"), text("/Kind"))
    });
    let namespaces = list("/lastChange/namespaces").into_iter().flatten();
    // Cluster-scoped objects are listed anyway.
    let namespaces = namespaces
        .filter_map(Value::as_str)
        .filter(|namespace| crate::args::namespace(namespace).is_ok())
        .filter(|namespace| !namespace.is_empty());
    Ok(App {
        selector: format!("{key}={value}"),
        kinds: kinds.collect(),
        namespaces: namespaces.map(str::to_owned).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_kinds_and_namespaces_are_read_from_an_app() {
        let text = r#"{"labelKey":"kapp.k14s.io/app","labelValue":"1700","lastChange":{"startedAt":"x",
            "namespaces":["shop","other","(cluster)",""]},"usedGKs":[{"Group":"apps","Kind":"Deployment"},
            {"Group":"","Kind":"ConfigMap"}]}"#;
        let app = decode(text).unwrap();
        assert_eq!(app.selector, "kapp.k14s.io/app=1700");
        let kind = |group: &str, kind: &str| (group.to_owned(), kind.to_owned());
        assert_eq!(
            app.kinds,
            [kind("apps", "Deployment"), kind("", "ConfigMap")]
        );
        assert_eq!(app.namespaces, ["shop", "other"]);
        let old = decode(r#"{"labelKey":"a","labelValue":"b"}"#).unwrap();
        assert!(old.kinds.is_empty() && old.namespaces.is_empty());
    }

    #[test]
    fn an_invalid_app_is_refused() {
        for (text, expected) in [
            ("x", "is not JSON: wrong syntax at line 1, column 1"),
            ("{}", "has no labelKey"),
            (r#"{"labelKey":"a"}"#, "has no labelValue"),
            (r#"{"labelKey":"a","labelValue":7}"#, "has no labelValue"),
        ] {
            assert_eq!(decode(text).unwrap_err().to_string(), expected);
        }
    }
}
