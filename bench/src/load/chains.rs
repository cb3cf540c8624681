//! Chains of revisions: `ObjectDeployments`, and edits of their templates.

use std::collections::BTreeMap;

use baton_apis::constants::API_VERSION;
use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};

use super::Shape;

/// The number and length of chains. Their revisions have the shape of the sets.
#[derive(Debug, Clone, Copy, PartialEq, Args, Serialize)]
pub(crate) struct Chains {
    /// Number of chains, each of one ObjectDeployment
    #[arg(long, default_value_t = 100)]
    pub(crate) deployments: usize,
    /// Number of edits of all templates, each after the last one has settled
    #[arg(long, default_value_t = 10)]
    pub(crate) edits: u32,
}

impl Chains {
    /// The names of all deployments.
    pub(crate) fn names(self) -> impl Iterator<Item = String> {
        (0..self.deployments).map(|number| format!("chain-{number:04}"))
    }

    /// The bodies of all deployments, by name.
    pub(crate) fn bodies(self, body: impl Fn(&str) -> Value) -> BTreeMap<String, Value> {
        let with_body = |name: String| {
            let body = body(&name);
            (name, body)
        };
        self.names().map(with_body).collect()
    }

    /// Number of objects that all deployments have at a time.
    pub(crate) fn objects(self, shape: &Shape) -> usize {
        self.deployments * shape.phases * shape.per_phase
    }
}

impl Shape {
    /// A deployment whose objects are named after it.
    pub(crate) fn deployment(&self, name: &str) -> Value {
        let labels = json!({"app": name});
        json!({
            "apiVersion": API_VERSION,
            "kind": "ObjectDeployment",
            "metadata": {"name": name},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": self.content(name, 1),
                },
            },
        })
    }

    /// The merge patch that sets the data of all objects in a deployment's template to those of
    /// that revision.
    pub(crate) fn edit(&self, name: &str, revision: u32) -> Value {
        let phases = self.phases(name, revision);
        json!({"spec": {"template": {"spec": {"phases": phases}}}})
    }
}

#[cfg(test)]
mod tests {
    use baton_apis::ObjectDeployment;

    use super::*;

    const SHAPE: Shape = Shape {
        sets: 1,
        phases: 2,
        per_phase: 5,
        pad: 16,
        phase_class: None,
    };

    /// The data of all objects in the template.
    fn data(deployment: &Value) -> Vec<Value> {
        let deployment: ObjectDeployment = serde_json::from_value(deployment.clone()).unwrap();
        let phases = deployment.spec.template.spec.phases.into_iter().flatten();
        phases
            .flat_map(|phase| phase.objects)
            .map(|entry| entry.object["data"].clone())
            .collect()
    }

    #[test]
    fn generated_deployments_parse_as_object_deployments() {
        let chains = Chains {
            deployments: 2,
            edits: 1,
        };
        assert_eq!(chains.objects(&SHAPE), 20);
        let names: Vec<String> = chains.names().collect();
        assert_eq!(names, ["chain-0000", "chain-0001"]);
        let body = SHAPE.deployment(&names[1]);
        let deployment: ObjectDeployment = serde_json::from_value(body).unwrap();
        let labels = &deployment.spec.template.metadata.labels;
        assert_eq!(deployment.spec.selector.match_labels.as_ref(), Some(labels));
        assert_eq!(deployment.spec.revision_history_limit, 10);
        let probes = deployment.spec.template.spec.availability_probes.unwrap();
        assert!(probes[0].probes[0].fields_equal.is_some());
    }

    #[test]
    fn an_edit_changes_the_data_of_every_object_and_nothing_else() {
        let before = SHAPE.deployment("chain-0000");
        let mut rounds = vec![data(&before)];
        // One revision more than a history of ten and the current one.
        for revision in 2..=12 {
            let mut after = before.clone();
            let patch = SHAPE.edit("chain-0000", revision);
            after["spec"]["template"]["spec"]["phases"] =
                patch["spec"]["template"]["spec"]["phases"].clone();
            let data = data(&after);
            assert_eq!(data.len(), 10);
            for (old, new) in rounds[0].iter().zip(&data) {
                assert_eq!(old["name"], new["name"], "the probe passes");
            }
            for earlier in &rounds {
                for (old, new) in earlier.iter().zip(&data) {
                    assert_ne!(old["pad"], new["pad"], "revision {revision}");
                }
            }
            rounds.push(data);
        }
    }
}
