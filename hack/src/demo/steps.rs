//! The steps of the tour: commands, expected results, and explanations.

use super::expect::Expect::{
    self, Archived, Controlled, ControlsNothing, Field, Gone, Is, Kept, Pods, Says,
};

/// The directory of the manifests, in the workspace.
pub(crate) const SAMPLES: &str = "config/samples";

/// A command, and its expected exit code.
pub(crate) type Command = (&'static str, i32);

/// One step.
pub(crate) struct Step {
    pub(crate) title: &'static str,
    pub(crate) acts: &'static [Command],
    pub(crate) expected: &'static [Expect],
    pub(crate) narration: &'static str,
    /// The commands that show the result.
    pub(crate) looks: &'static [Command],
}

const V1: &str = "ObjectSet/shop-v1";
const V2: &str = "ObjectSet/shop-v2";
const V3: &str = "ObjectSet/shop-v3";
const V4: &str = "ObjectSet/shop-v4";
const V5: &str = "ObjectSet/shop-v5";
const SETTINGS: &str = "ConfigMap/shop-config";
const PODS: &str = "Deployment/shop";
const PODS_B: &str = "Deployment/shop-b";
const PODS_C: &str = "Deployment/shop-c";
const SERVICE: &str = "Service/shop";
const DEPLOYMENT: &str = "ObjectDeployment/cafe";

const GREETING: &str = "/data/greeting";
const TRACK: &str = "/spec/selector/track";
const NUMBER: &str = "/spec/revision";
const CURRENT: &str = "/status/revision";

const TREE: Command = ("kubectl baton -n baton-demo tree", 0);
const TREE_OF_CAFE: Command = ("kubectl baton -n baton-demo tree cafe", 0);
const HISTORY_OF_CAFE: Command = ("kubectl baton -n baton-demo history cafe", 0);

/// The first part: revisions without a deployment.
pub(crate) const SHOP: [Step; 8] = [
    Step {
        title: "Revision 1",
        acts: &[("kubectl apply -f config/samples/01-revision-1.yaml", 0)],
        expected: &[
            Is(V1, "Available", "True"),
            Is(V1, "Succeeded", "True"),
            Field(V1, NUMBER, "1"),
            Controlled(SETTINGS, "shop-v1"),
            Controlled(PODS, "shop-v1"),
            Controlled(SERVICE, "shop-v1"),
            Pods(PODS, "registry.example/shop:1.0"),
        ],
        narration: "No other revision had these objects, so shop-v1 created them phase by phase: the settings, then \
            the pods, and the service only when the pods were ready.",
        looks: &[TREE],
    },
    Step {
        title: "Revision 2, in place: the same objects with other content",
        acts: &[(
            "kubectl apply -f config/samples/02-revision-2-in-place.yaml",
            0,
        )],
        expected: &[
            Is(V2, "Available", "True"),
            Is(V2, "Succeeded", "True"),
            ControlsNothing(V1),
            Controlled(SETTINGS, "shop-v2"),
            Controlled(PODS, "shop-v2"),
            Controlled(SERVICE, "shop-v2"),
            Field(SETTINGS, GREETING, "good morning"),
            Pods(PODS, "registry.example/shop:1.1"),
            Kept(SETTINGS),
            Kept(PODS),
            Kept(SERVICE),
        ],
        narration: "shop-v2 names shop-v1 as its previous revision, so it became the controller of the same three \
            objects and wrote its own content; none was deleted, and none was without an owner in between.",
        looks: &[TREE],
    },
    Step {
        title: "Revision 1 is archived",
        acts: &[(
            r#"kubectl -n baton-demo patch objectset shop-v1 --type merge -p {"spec":{"lifecycleState":"Archived"}}"#,
            0,
        )],
        expected: &[
            Is(V1, "Archived", "True"),
            Is(V2, "Available", "True"),
            Controlled(SETTINGS, "shop-v2"),
            Kept(SETTINGS),
            Kept(PODS),
            Kept(SERVICE),
        ],
        narration: "shop-v2 had taken over all objects of shop-v1, so none was deleted. shop-v1 is no longer an owner \
            of them, and stays in the history.",
        looks: &[TREE],
    },
    Step {
        title: "Revision 3, with another Deployment, fails",
        acts: &[(
            "kubectl apply -f config/samples/03-revision-3-failing.yaml",
            0,
        )],
        expected: &[
            Is(V3, "Available", "False"),
            Says(V3, "Available", "ProbeFailure: "),
            Says(
                V3,
                "Available",
                "baton-demo/shop-b: .status.condition[\"Available\"] is False",
            ),
            Field(V3, NUMBER, "3"),
            Is(V2, "Available", "True"),
            Controlled(SETTINGS, "shop-v3"),
            Controlled(PODS_B, "shop-v3"),
            Controlled(PODS, "shop-v2"),
            Controlled(SERVICE, "shop-v2"),
            Field(SERVICE, TRACK, "a"),
            Pods(PODS, "registry.example/shop:1.1"),
            Kept(SETTINGS),
            Kept(PODS),
            Kept(SERVICE),
        ],
        narration: "The image of shop-v3 does not start, so its Deployment fails the probe, and its last phase is \
            never reached. The Service still selects the pods of shop-v2. Only the ConfigMap, which both revisions \
            contain, was handed over.",
        looks: &[("kubectl baton -n baton-demo status os/shop-v3", 1), TREE],
    },
    Step {
        title: "Revision 4, with another Deployment, works",
        acts: &[("kubectl apply -f config/samples/04-revision-4-a-b.yaml", 0)],
        expected: &[
            Is(V4, "Available", "True"),
            Is(V4, "Succeeded", "True"),
            Field(V4, NUMBER, "4"),
            Controlled(SETTINGS, "shop-v4"),
            Controlled(PODS_C, "shop-v4"),
            Controlled(SERVICE, "shop-v4"),
            Controlled(PODS, "shop-v2"),
            Controlled(PODS_B, "shop-v3"),
            ControlsNothing(V1),
            Field(SERVICE, TRACK, "c"),
            Pods(PODS_C, "registry.example/shop:2.0"),
            Kept(SETTINGS),
            Kept(PODS),
            Kept(SERVICE),
        ],
        narration: "shop-v4 took the ConfigMap over from the failed revision shop-v3, created its own Deployment \
            beside the others, and took the Service over from shop-v2 as soon as its pods were ready.",
        looks: &[TREE],
    },
    Step {
        title: "Revisions 2 and 3 are archived",
        acts: &[(
            "kubectl -n baton-demo patch objectset shop-v2 shop-v3 --type merge \
             -p {\"spec\":{\"lifecycleState\":\"Archived\"}}",
            0,
        )],
        expected: &[
            Is(V2, "Archived", "True"),
            Is(V3, "Archived", "True"),
            Is(V4, "Available", "True"),
            Gone(PODS),
            Gone(PODS_B),
            Kept(SETTINGS),
            Kept(PODS_C),
            Kept(SERVICE),
        ],
        narration: "No revision had taken over the Deployments of shop-v2 and shop-v3, so they were deleted when their \
            revisions were archived. The objects of shop-v4 were not changed.",
        looks: &[TREE],
    },
    Step {
        title: "Rollback: the content of revision 1 as revision 5",
        acts: &[("kubectl apply -f config/samples/05-rollback.yaml", 0)],
        expected: &[
            Is(V5, "Available", "True"),
            Is(V5, "Succeeded", "True"),
            Field(V5, NUMBER, "5"),
            Controlled(SETTINGS, "shop-v5"),
            Controlled(PODS, "shop-v5"),
            Controlled(SERVICE, "shop-v5"),
            Controlled(PODS_C, "shop-v4"),
            Field(SETTINGS, GREETING, "hello"),
            Pods(PODS, "registry.example/shop:1.0"),
            Field(SERVICE, TRACK, "a"),
            Kept(SETTINGS),
            Kept(PODS_C),
            Kept(SERVICE),
        ],
        narration: "A rollback is a new revision: shop-v5 has the content of shop-v1 and the highest number, so it \
            took the ConfigMap over, created the old Deployment again, and took the Service over when its pods were \
            ready.",
        looks: &[TREE],
    },
    Step {
        title: "Revision 4 is archived",
        acts: &[(
            r#"kubectl -n baton-demo patch objectset shop-v4 --type merge -p {"spec":{"lifecycleState":"Archived"}}"#,
            0,
        )],
        expected: &[
            Is(V4, "Archived", "True"),
            Is(V5, "Available", "True"),
            Gone(PODS_C),
            Kept(SETTINGS),
            Kept(PODS),
            Kept(SERVICE),
        ],
        narration: "The Deployment of shop-v4 was deleted when shop-v4 was archived. The shop is as it was in the \
            beginning: the ConfigMap and the Service are still the objects that shop-v1 created.",
        looks: &[TREE],
    },
];

/// The second part: a deployment creates the revisions.
pub(crate) const CAFE: [Step; 4] = [
    Step {
        title: "A deployment creates the revisions",
        acts: &[("kubectl apply -f config/samples/10-deployment.yaml", 0)],
        expected: &[
            Field(DEPLOYMENT, CURRENT, "1"),
            Is(DEPLOYMENT, "Available", "True"),
            Is(DEPLOYMENT, "Progressing", "False"),
            Archived(&[]),
        ],
        narration: "This time no ObjectSet was written by hand: the deployment created the first revision from its \
            template. The plugin shows the chain down to the objects, with the results of their probes.",
        looks: &[TREE_OF_CAFE],
    },
    Step {
        title: "Another template is another revision",
        acts: &[
            (
                "kubectl baton -n baton-demo diff -f config/samples/11-deployment-in-place.yaml",
                1,
            ),
            (
                "kubectl apply -f config/samples/11-deployment-in-place.yaml",
                0,
            ),
        ],
        expected: &[
            Field(DEPLOYMENT, CURRENT, "2"),
            Is(DEPLOYMENT, "Available", "True"),
            Is(DEPLOYMENT, "Progressing", "False"),
            Archived(&[1]),
        ],
        narration: "Before the apply, the diff shows its effect. Then revision 2 took the three objects over, and the \
            deployment archived revision 1 when revision 2 was available.",
        looks: &[HISTORY_OF_CAFE],
    },
    Step {
        title: "A revision that fails",
        acts: &[(
            "kubectl apply -f config/samples/12-deployment-failing.yaml",
            0,
        )],
        expected: &[
            Field(DEPLOYMENT, CURRENT, "3"),
            Is(DEPLOYMENT, "Available", "True"),
            Is(DEPLOYMENT, "Progressing", "True"),
            Says(DEPLOYMENT, "Progressing", "is Unavailable"),
            Archived(&[1]),
        ],
        narration: "The pods of revision 3 do not start, and its status contains the object that it waits for, and the \
            reason. Revision 2 still controls its Deployment and the Service, so the cafe still gets its traffic.",
        looks: &[("kubectl baton -n baton-demo status cafe", 1), TREE_OF_CAFE],
    },
    Step {
        title: "Rollback to the last revision that succeeded",
        acts: &[("kubectl baton -n baton-demo rollback cafe", 0)],
        expected: &[
            Field(DEPLOYMENT, CURRENT, "4"),
            Is(DEPLOYMENT, "Available", "True"),
            Is(DEPLOYMENT, "Progressing", "False"),
            Archived(&[1, 2, 3]),
        ],
        narration: "The rollback is a new revision with the content of the last one that succeeded. It took the \
            objects over, and both the failed revision and the one before it were archived.",
        looks: &[HISTORY_OF_CAFE, TREE_OF_CAFE],
    },
];

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::path::{Path, PathBuf};

    use baton_apis::{Application, ObjectDeployment, ObjectSet, SiteApplication, SiteDeployment};
    use serde_json::{Value, from_value};

    use super::super::{CHARTS_PORT, NAMESPACE, releases::BAKERY, sites::TILL};
    use super::*;

    fn directory() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("..")
            .join(SAMPLES)
    }

    /// The manifests that the tour applies, by file name.
    fn samples() -> BTreeMap<&'static str, Value> {
        let acts = SHOP
            .iter()
            .chain(&CAFE)
            .chain(&BAKERY)
            .chain(&TILL)
            .flat_map(|step| step.acts);
        let files = acts
            .filter_map(|(command, _)| command.strip_prefix("kubectl apply -f config/samples/"));
        let read = |file| {
            let text = std::fs::read_to_string(directory().join(file)).unwrap();
            (file, serde_saphyr::from_str(&text).unwrap())
        };
        files.map(read).collect()
    }

    #[test]
    fn the_tour_shows_every_sample_but_assignments() {
        let shown = samples();
        // The namespace is created in any case, and assignments are not part of the tour.
        let left_out = ["00-namespace.yaml", "20-site-assignment.yaml"];
        for entry in std::fs::read_dir(directory()).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(
                left_out.contains(&name.as_str()) || shown.contains_key(name.as_str()),
                "{name}"
            );
        }
    }

    #[test]
    fn expectations_are_about_what_is_in_the_samples() {
        let mut objects = BTreeSet::new();
        for sample in samples().values() {
            let mut add = |object: &Value| {
                let kind = object["kind"].as_str().unwrap();
                objects.insert(format!(
                    "{kind}/{}",
                    object["metadata"]["name"].as_str().unwrap()
                ));
            };
            assert_eq!(sample["metadata"]["namespace"], NAMESPACE);
            add(sample);
            for phase in sample["spec"]["phases"].as_array().into_iter().flatten() {
                let entries = phase["objects"].as_array().unwrap();
                for entry in entries {
                    add(&entry["object"]);
                }
            }
        }
        let expected = SHOP.iter().chain(&CAFE).flat_map(|step| step.expected);
        for object in expected.filter_map(|expect| expect.object()) {
            assert!(objects.contains(object), "{object}");
        }
    }

    #[test]
    fn samples_parse_as_their_types() {
        for sample in samples().into_values() {
            match sample["kind"].as_str().unwrap() {
                "ObjectSet" => drop(from_value::<ObjectSet>(sample).unwrap()),
                "Application" => drop(from_value::<Application>(sample).unwrap()),
                "SiteApplication" => drop(from_value::<SiteApplication>(sample).unwrap()),
                "SiteDeployment" => drop(from_value::<SiteDeployment>(sample).unwrap()),
                _ => {
                    let deployment: ObjectDeployment = from_value(sample).unwrap();
                    assert_eq!(
                        deployment.spec.selector.match_labels,
                        Some(deployment.spec.template.metadata.labels)
                    );
                }
            }
        }
    }

    #[test]
    fn charts_come_from_the_repository_of_the_tour() {
        let url = format!("http://127.0.0.1:{CHARTS_PORT}/charts");
        let samples = samples().into_values();
        let applications: Vec<Value> = samples.filter(|it| it["kind"] == "Application").collect();
        assert_eq!(applications.len(), 3);
        for application in applications {
            assert_eq!(application["spec"]["template"]["chart"]["repoUrl"], url);
        }
    }

    #[test]
    fn a_rollback_has_the_content_of_the_first_revision() {
        let samples = samples();
        let (first, last) = (&samples["01-revision-1.yaml"], &samples["05-rollback.yaml"]);
        for part in ["phases", "availabilityProbes"] {
            assert_eq!(first["spec"][part], last["spec"][part]);
        }
    }
}
