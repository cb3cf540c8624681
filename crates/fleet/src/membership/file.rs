//! A file of clusters to join, in the format of shipperctl.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use baton_apis::ClusterConnection;
use baton_engine::texts::collapse_whitespace;
use serde::{Deserialize, de::IgnoredAny};
use serde_json::Value;

use super::{error::Error, spec::ClusterFields};
use crate::{name::ClusterName, url::ServerUrl};

/// The content of the file.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Clusters {
    /// A field of shipperctl, which does not use it either.
    #[serde(default, rename = "managementClusters")]
    _management_clusters: IgnoredAny,
    application_clusters: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Entry {
    name: String,
    context: Option<String>,
    region: String,
    api_master: Option<String>,
    capabilities: Option<Vec<String>>,
    scheduler: Option<Scheduler>,
    #[serde(default)]
    connection: ClusterConnection,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Scheduler {
    unschedulable: Option<bool>,
    weight: Option<i32>,
    identity: Option<String>,
}

/// A cluster to join.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ClusterToJoin {
    pub name: ClusterName,
    /// Name of the context.
    pub context: String,
    /// The given properties of the Cluster.
    pub fields: ClusterFields,
}

/// Reads a file of clusters.
pub(super) fn read(path: &Path) -> Result<Vec<ClusterToJoin>, Error> {
    let read = fs::read_to_string(path);
    let text = read.map_err(|cause| Error::Read {
        path: PathBuf::from(path),
        cause,
    })?;
    parse(&text).map_err(|cause| Error::File {
        path: PathBuf::from(path),
        cause,
    })
}

fn parse(text: &str) -> Result<Vec<ClusterToJoin>, String> {
    let file: Clusters = serde_saphyr::from_str(text)
        .map_err(|error| collapse_whitespace(&error.without_snippet().to_string()))?;
    let mut names = BTreeSet::new();
    let listed = file.application_clusters.into_iter().map(|entry| {
        let listed = entry.listed()?;
        if names.insert(listed.name.clone()) {
            Ok(listed)
        } else {
            Err(format!("{} is listed twice", listed.name))
        }
    });
    let listed: Vec<ClusterToJoin> = listed.collect::<Result<_, _>>()?;
    if listed.is_empty() {
        return Err("applicationClusters is empty".to_owned());
    }
    Ok(listed)
}

impl Entry {
    fn listed(self) -> Result<ClusterToJoin, String> {
        let name: ClusterName = self
            .name
            .parse()
            .map_err(|error: crate::name::NameError| error.to_string())?;
        if self.region.is_empty() {
            return Err(format!("{name} has no region"));
        }
        let api_master = self.api_master.as_deref().map(str::parse::<ServerUrl>);
        let api_master = api_master
            .transpose()
            .map_err(|error| format!("apiMaster of {name}: {error}"))?;
        Ok(ClusterToJoin {
            context: self.context.unwrap_or_else(|| name.to_string()),
            fields: ClusterFields {
                connection: self.connection,
                region: Some(self.region),
                api_master: api_master.map(|url| url.to_string()),
                capabilities: self.capabilities,
                scheduler: self.scheduler.map(Scheduler::value),
            },
            name,
        })
    }
}

impl Scheduler {
    /// The value of the field in a Cluster, without fields that are left out.
    fn value(self) -> Value {
        let fields = [
            ("unschedulable", self.unschedulable.map(Value::from)),
            ("weight", self.weight.map(Value::from)),
            ("identity", self.identity.map(Value::from)),
        ];
        let given = fields
            .into_iter()
            .filter_map(|(key, value)| Some((key.to_owned(), value?)));
        Value::Object(given.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn files_of_shipperctl_are_understood() {
        let text = "
managementClusters:
- name: kind-hub
  context: hub
applicationClusters:
- name: eu-1
  region: eu
- name: us-1
  context: gke_us
  region: us
  apiMaster: https://10.0.0.1:6443
  capabilities: [gpu]
  scheduler: {unschedulable: true, weight: 0}
  connection: Pull
";
        let listed = parse(text).unwrap();
        assert_eq!(listed.len(), 2);
        assert_eq!(listed[0].context, "eu-1");
        assert_eq!(
            listed[0].fields,
            ClusterFields {
                region: Some("eu".to_owned()),
                ..ClusterFields::default()
            }
        );
        assert_eq!(listed[1].context, "gke_us");
        assert_eq!(
            listed[1].fields,
            ClusterFields {
                connection: ClusterConnection::Pull,
                region: Some("us".to_owned()),
                api_master: Some("https://10.0.0.1:6443".to_owned()),
                capabilities: Some(vec!["gpu".to_owned()]),
                scheduler: Some(json!({ "unschedulable": true, "weight": 0 })),
            }
        );
    }

    #[test]
    fn mistakes_are_reported_in_one_line() {
        let entry = |text: &str| format!("applicationClusters: [{text}]");
        for (text, expected) in [
            (String::new(), "unexpected end of input"),
            (entry(""), "applicationClusters is empty"),
            (entry("{name: eu}"), "region"),
            (entry("{name: eu, region: ''}"), "eu has no region"),
            (entry("{name: EU, region: eu}"), "\"EU\" cannot be the name"),
            (
                entry("{name: a, region: eu}, {name: a, region: us}"),
                "a is listed twice",
            ),
            (
                entry("{name: a, region: eu, apiMaster: '10.0.0.1:6443'}"),
                "apiMaster of a: \"10.0.0.1:6443\" is not the URL",
            ),
            (entry("{name: a, region: eu, regoin: us}"), "regoin"),
            (entry("{name: a, region: eu, connection: pull}"), "pull"),
            ("[".to_owned(), "line 1"),
        ] {
            let error = parse(&text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = read(Path::new("no/such/file.yaml"))
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("cannot read no/such/file.yaml: No such file"),
            "{error}"
        );
    }
}
