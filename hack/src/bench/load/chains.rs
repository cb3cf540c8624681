//! Chains of revisions: `ObjectDeployments`, and edits of their templates.

use std::collections::BTreeMap;

use baton_apis::constants::API_VERSION;
use clap::Args;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::Request;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{SIDE_BY_SIDE, Shape, Target};

/// How many chains, and how long they get. Their revisions are as those of the sets.
#[derive(Debug, Clone, Copy, PartialEq, Args, Serialize)]
pub struct Chains {
    /// How many chains, each of one ObjectDeployment.
    #[arg(long, default_value_t = 100)]
    pub deployments: usize,
    /// How often all of their templates are edited, each time when the last one has settled.
    #[arg(long, default_value_t = 10)]
    pub edits: u32,
}

/// The answer to a write of a deployment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Answer {
    /// When it came.
    pub at: Instant,
    /// The generation of the deployment since then.
    pub generation: i64,
}

impl Chains {
    /// The names of all deployments.
    pub fn names(self) -> impl Iterator<Item = String> {
        (0..self.deployments).map(|number| format!("chain-{number:04}"))
    }

    /// How many objects all deployments have at a time.
    #[must_use]
    pub fn objects(self, shape: &Shape) -> usize {
        self.deployments * shape.phases * shape.per_phase
    }
}

impl Shape {
    /// A deployment whose objects are named after it.
    #[must_use]
    pub fn deployment(&self, name: &str) -> Value {
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

    /// The merge patch that changes the data of all objects in a deployment's template to what they
    /// hold in that revision.
    #[must_use]
    pub fn edit(&self, name: &str, revision: u32) -> Value {
        let phases = self.phases(name, revision);
        json!({"spec": {"template": {"spec": {"phases": phases}}}})
    }
}

impl Target {
    /// The path of the namespace's `ObjectDeployments`.
    #[must_use]
    pub fn deployments(&self) -> String {
        let namespace = &self.namespace;
        format!("/apis/{API_VERSION}/namespaces/{namespace}/objectdeployments")
    }

    /// Creates deployments side by side. `bodies` and the answers are by name.
    ///
    /// # Errors
    ///
    /// When the API server refuses one.
    pub async fn create_deployments(
        &self,
        bodies: &BTreeMap<String, Value>,
    ) -> kube::Result<BTreeMap<String, Answer>> {
        let request = Request::new(self.deployments());
        self.write_deployments(bodies, |_, body| {
            request.create(&PostParams::default(), body.to_string().into_bytes())
        })
        .await
    }

    /// Edits deployments side by side by merge patches. `patches` and the answers are by name.
    ///
    /// # Errors
    ///
    /// When the API server refuses one.
    pub async fn edit_deployments(
        &self,
        patches: &BTreeMap<String, Value>,
    ) -> kube::Result<BTreeMap<String, Answer>> {
        let request = Request::new(self.deployments());
        self.write_deployments(patches, |name, patch| {
            request.patch(name, &PatchParams::default(), &Patch::Merge(patch))
        })
        .await
    }

    async fn write_deployments(
        &self,
        bodies: &BTreeMap<String, Value>,
        request: impl Fn(&str, &Value) -> Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> kube::Result<BTreeMap<String, Answer>> {
        #[derive(Deserialize)]
        struct Written {
            metadata: Metadata,
        }
        #[derive(Deserialize)]
        struct Metadata {
            generation: i64,
        }
        let write = async |(name, body): (&String, &Value)| {
            let request = request(name, body).map_err(kube::Error::BuildRequest)?;
            let Written { metadata } = self.client.request(request).await?;
            let answer = Answer {
                at: Instant::now(),
                generation: metadata.generation,
            };
            Ok((name.clone(), answer))
        };
        stream::iter(bodies)
            .map(write)
            .buffer_unordered(SIDE_BY_SIDE)
            .try_collect()
            .await
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
    fn deployments_are_what_the_types_know() {
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
        let mut seen = vec![data(&before)];
        // One more than a history of ten holds, and the current one.
        for revision in 2..=12 {
            let mut after = before.clone();
            let patch = SHAPE.edit("chain-0000", revision);
            after["spec"]["template"]["spec"]["phases"] =
                patch["spec"]["template"]["spec"]["phases"].clone();
            let data = data(&after);
            assert_eq!(data.len(), 10);
            for (old, new) in seen[0].iter().zip(&data) {
                assert_eq!(old["name"], new["name"], "the probe passes");
            }
            for earlier in &seen {
                for (old, new) in earlier.iter().zip(&data) {
                    assert_ne!(old["pad"], new["pad"], "revision {revision}");
                }
            }
            seen.push(data);
        }
    }
}
