//! An application for sites: the deployments that bring it there, and the versions that are kept.

use baton_apis::{SiteApplication, SiteDeployment, conditions::KEPT};
use baton_engine::condition_list::find;
use baton_terminal::time::age;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    read::{application, deployments_of, status},
    record::Records,
    render::paint,
    target::{SiteKind, SiteTarget},
    verdict::judge,
};
use crate::{
    connect::Cluster,
    error::Error,
    output::{
        Output, Paint,
        table::{Cell, Table},
    },
    text::tree::{Branches, Node, place},
};

const HEADINGS: [&str; 4] = ["NAME", "SITES", "AGE", "MESSAGE"];

/// An application with what belongs to it.
#[derive(Clone, Debug)]
pub(crate) struct Overview {
    pub(crate) application: SiteApplication,
    pub(crate) deployments: Vec<SiteDeployment>,
    pub(crate) records: Records,
}

impl Overview {
    /// Reads it: the object, and two lists.
    ///
    /// # Errors
    /// If it does not exist or something of it cannot be read.
    pub(crate) async fn read(cluster: &Cluster, name: &str) -> Result<Self, Error> {
        let application = application(cluster, name).await?;
        let (deployments, records) =
            futures::join!(deployments_of(cluster, name), Records::read(cluster, name));
        Ok(Self {
            application,
            deployments: deployments?,
            records: records?,
        })
    }

    fn name(&self) -> &str {
        self.application
            .metadata
            .name
            .as_deref()
            .unwrap_or_default()
    }

    pub(crate) fn target(&self) -> SiteTarget {
        SiteTarget::new(SiteKind::Application, self.name())
    }

    /// Why the version of the spec cannot be brought to sites; `None` where it can, or nobody has said.
    pub(crate) fn problem(&self) -> Option<String> {
        let status = self.application.status.as_ref()?;
        let kept = find(&status.conditions, KEPT)?;
        (kept.status == "False").then(|| format!("{}: {}", kept.reason, kept.message))
    }

    /// Whether the version of the spec is kept.
    pub(crate) fn is_kept(&self) -> bool {
        let status = self.application.status.as_ref();
        let kept = status.and_then(|status| find(&status.conditions, KEPT));
        kept.is_some_and(|kept| {
            kept.status == "True"
                && kept.observed_generation == self.application.metadata.generation
        })
    }

    /// For people; every line ends with a newline.
    pub(crate) fn tree(&self, now: Timestamp, output: Output) -> String {
        let version = &self.application.spec.version;
        let problem = self.problem();
        let deployments = self.deployments.iter().map(deployment);
        let versions = self.records.versions().into_iter().map(|record| Node {
            name: Cell::from("version ").and(Paint::Strong, &record.version),
            cells: vec![Cell::default(), age(record.created, now).into()],
            message: self.bringers(&record.version),
            children: Vec::new(),
        });
        let mut name = Cell::painted(Paint::Strong, self.target().to_string());
        if problem.is_some() {
            name = name.and(Paint::Bad, " NotKept");
        }
        let root = Node {
            name,
            cells: vec![Cell::default(); HEADINGS.len() - 2],
            message: problem.unwrap_or_else(|| format!("version {version}")),
            children: deployments.chain(versions).collect(),
        };
        let mut table = Table::new(&HEADINGS);
        place(root, "", "", Branches::of(output), &mut table);
        table.render(output)
    }

    /// The deployments that bring a version to sites now.
    fn bringers(&self, version: &str) -> String {
        let names: Vec<&str> = self
            .deployments
            .iter()
            .filter(|it| status(it).version.as_deref() == Some(version))
            .filter_map(|it| it.metadata.name.as_deref())
            .collect();
        if names.is_empty() {
            String::new()
        } else {
            format!("brought to sites by {}", names.join(", "))
        }
    }

    /// For programs.
    pub(crate) fn value(&self) -> Value {
        let deployments = self.deployments.iter().map(|deployment| {
            let verdict = judge(deployment);
            json!({
                "name": deployment.metadata.name,
                "state": verdict.state,
                "message": verdict.message,
                "status": deployment.status,
            })
        });
        let versions = self.records.versions().into_iter();
        let versions = versions.map(|record| {
            json!({ "version": record.version, "edit": record.edit, "record": record.name })
        });
        json!({
            "name": self.name(),
            "namespace": self.application.metadata.namespace,
            "version": self.application.spec.version,
            "kept": self.is_kept(),
            "conditions": self.application.status.as_ref().map(|status| &status.conditions),
            "deployments": deployments.collect::<Vec<_>>(),
            "versions": versions.collect::<Vec<_>>(),
        })
    }
}

fn deployment(deployment: &SiteDeployment) -> Node {
    let verdict = judge(deployment);
    let status = status(deployment);
    let name = deployment.metadata.name.as_deref().unwrap_or_default();
    let counts = status.counts;
    let is_whole = counts.updated == counts.sites;
    let paint_of_counts = if is_whole { Paint::Good } else { Paint::Warn };
    let version = status
        .version
        .map_or_else(String::new, |version| format!(" {version}"));
    Node {
        name: Cell::from("sitedeploy/")
            .and(Paint::Strong, name)
            .and(Paint::Accent, version)
            .and(paint(&verdict), format!(" {}", verdict.state)),
        cells: vec![
            Cell::painted(
                paint_of_counts,
                format!("{}/{}", counts.updated, counts.sites),
            ),
            Cell::default(),
        ],
        message: verdict.message,
        children: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sites::fixtures::{NOW, condition};

    #[test]
    fn an_application_with_its_deployments_and_versions() {
        let parsed = |name: &str| -> SiteDeployment {
            serde_json::from_value(crate::sites::fixtures::deployment(name)).unwrap()
        };
        let record = |number: i64, version: &str| {
            json!({
                "metadata": { "name": format!("r{number}"), "creationTimestamp": "2025-12-31T01:00:00Z" },
                "revision": number, "data": { "version": version },
            })
        };
        let application = json!({
            "metadata": { "name": "shop", "namespace": "edge" },
            "spec": { "version": "1.2.0", "template": { "spec": { "phases": [] } } },
        });
        let mut overview = Overview {
            application: serde_json::from_value(application).unwrap(),
            deployments: vec![parsed("eu"), parsed("us")],
            records: Records::from_objects(vec![record(1, "1.1.0"), record(2, "1.2.0")]),
        };
        insta::assert_snapshot!(overview.tree(NOW, Output::plain()));
        assert_eq!(overview.value()["versions"][0]["record"], "r2");
        let refused = condition("Kept", "False", "InvalidWindow", "window 1 never opens");
        let refused = serde_json::from_value(json!({ "conditions": [refused] })).unwrap();
        overview.application.status = Some(refused);
        let text = overview.tree(NOW, Output::plain());
        assert!(text.contains("siteapp/shop NotKept"), "{text}");
        assert!(
            text.contains("InvalidWindow: window 1 never opens"),
            "{text}"
        );
    }
}
