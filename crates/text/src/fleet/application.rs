//! An application for sites as a tree, and the effect of another spec.

use crate::time::age;
use baton_apis::SiteDeployment;
use baton_view::sites::{observed::status, overview::Overview, verdict::judge};
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Condition, jiff::Timestamp};
use serde_json::{Value, json};

use super::message;
use crate::{
    output::{Output, Paint, table::Cell},
    status::paint,
    tree::{Node, counts, draw},
};

const HEADINGS: [&str; 4] = ["NAME", "SITES", "AGE", "MESSAGE"];

/// Renders the tree; every line ends with a newline.
pub fn render(overview: &Overview, now: Timestamp, output: Output) -> String {
    let problem = overview.problem();
    let deployments = overview.deployments.iter().map(deployment);
    let versions = overview.records.versions().into_iter().map(|record| Node {
        name: Cell::from("version ").and(Paint::Strong, &record.version),
        cells: vec![Cell::default(), age(record.created, now).into()],
        message: match overview.rollouts_of(&record.version).as_slice() {
            [] => String::new(),
            names => format!("brought to sites by {}", names.join(", ")),
        },
        children: Vec::new(),
    });
    let mut name = Cell::painted(Paint::Strong, overview.target().to_string());
    if problem.is_some() {
        name = name.and(Paint::Bad, " NotKept");
    }
    let root = Node {
        name,
        cells: vec![Cell::default(); HEADINGS.len() - 2],
        message: match problem {
            Some(Condition {
                reason, message, ..
            }) => format!("{reason}: {message}"),
            None => format!("version {}", overview.application.spec.version),
        },
        children: deployments.chain(versions).collect(),
    };
    draw(&HEADINGS, [root], output)
}

/// The application as a value for programs.
pub fn value(overview: &Overview) -> Value {
    let deployments = overview.deployments.iter().map(|deployment| {
        let verdict = judge(deployment);
        json!({
            "name": deployment.metadata.name,
            "state": verdict.state,
            "message": message(&verdict),
            "status": deployment.status,
        })
    });
    let versions = overview.records.versions().into_iter();
    let versions = versions.map(
        |record| json!({ "version": record.version, "edit": record.edit, "record": record.name }),
    );
    let application = &overview.application;
    json!({
        "name": overview.name(),
        "namespace": application.metadata.namespace,
        "version": application.spec.version,
        "kept": overview.is_kept(),
        "conditions": application.status.as_ref().map(|status| &status.conditions),
        "deployments": deployments.collect::<Vec<_>>(),
        "versions": versions.collect::<Vec<_>>(),
    })
}

fn deployment(deployment: &SiteDeployment) -> Node {
    let verdict = judge(deployment);
    let status = status(deployment);
    let name = deployment.metadata.name.as_deref().unwrap_or_default();
    let version = status
        .version
        .map_or_else(String::new, |version| format!(" {version}"));
    Node {
        name: Cell::from("sitedeploy/")
            .and(Paint::Strong, name)
            .and(Paint::Accent, version)
            .and(paint(verdict.outcome), format!(" {}", verdict.state)),
        cells: vec![
            counts(status.counts.updated, status.counts.sites),
            Cell::default(),
        ],
        message: message(&verdict),
        children: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use baton_view::sites::record::Records;

    use super::{
        super::fixtures::{self, NOW, condition},
        *,
    };

    #[test]
    fn an_application_with_its_deployments_and_versions() {
        let parsed = |name: &str| -> SiteDeployment {
            serde_json::from_value(fixtures::deployment(name)).unwrap()
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
        insta::assert_snapshot!(render(&overview, NOW, Output::plain()));
        assert_eq!(value(&overview)["versions"][0]["record"], "r2");
        let refused = condition("Kept", "False", "InvalidWindow", "window 1 never opens");
        let refused = serde_json::from_value(json!({ "conditions": [refused] })).unwrap();
        overview.application.status = Some(refused);
        let text = render(&overview, NOW, Output::plain());
        assert!(text.contains("siteapp/shop NotKept"), "{text}");
        assert!(
            text.contains("InvalidWindow: window 1 never opens"),
            "{text}"
        );
    }
}
