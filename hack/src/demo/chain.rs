//! The second part of the tour: a deployment makes the revisions, and the kubectl plugin shows them.

use std::path::PathBuf;
use std::process::Stdio;

use baton_apis::{LifecycleState, ObjectDeployment, ObjectSet};
use kube::Api;
use kube::api::ListParams;
use tokio::process::Command;
use tokio::time::{Instant, sleep};

use super::cluster::{self, Place, read};
use super::tables::Screen;
use super::tour::{LOOK, PATIENCE, SAMPLES};
use super::{Error, NAMESPACE};
use crate::bench::manager::{Cluster, Manager};
use crate::exec::Group;
use crate::paths::Dirs;

/// The deployment of the samples.
const DEPLOYMENT: &str = "cafe";

/// One step.
struct Step {
    title: &'static str,
    /// What is done, in this order.
    acts: &'static [Act],
    expected: Expected,
    narration: &'static str,
    /// What is looked at afterwards.
    looks: &'static [Act],
}

/// Something that is done or looked at.
#[derive(Clone, Copy)]
enum Act {
    /// A manifest is applied.
    Apply(&'static str),
    /// A command of the plugin that ends with this code.
    Baton(&'static [&'static str], i32),
}

use Act::{Apply, Baton};

/// How the deployment has to be afterwards.
#[derive(Clone, Copy, Debug)]
struct Expected {
    /// Number of the current revision.
    revision: i64,
    /// The status of `Progressing`.
    progressing: &'static str,
    /// Numbers of the revisions that are archived by now.
    archived: &'static [i64],
}

const STEPS: [Step; 4] = [
    Step {
        title: "A deployment makes the revisions",
        acts: &[Apply("10-deployment.yaml")],
        expected: Expected {
            revision: 1,
            progressing: "False",
            archived: &[],
        },
        narration: "Nobody wrote an ObjectSet by hand this time: the deployment made the first revision from its \
            template. The plugin shows the chain down to the objects, with what their probes say.",
        looks: &[Baton(&["tree", "cafe"], 0)],
    },
    Step {
        title: "Another template is another revision",
        acts: &[
            Baton(
                &["diff", "-f", "config/samples/11-deployment-in-place.yaml"],
                1,
            ),
            Apply("11-deployment-in-place.yaml"),
        ],
        expected: Expected {
            revision: 2,
            progressing: "False",
            archived: &[1],
        },
        narration: "Before anything is written, the diff tells what it would do. Then revision 2 took the three \
            objects over, and revision 1 was archived by itself when revision 2 was available.",
        looks: &[Baton(&["history", "cafe"], 0)],
    },
    Step {
        title: "One that fails",
        acts: &[Apply("12-deployment-failing.yaml")],
        expected: Expected {
            revision: 3,
            progressing: "True",
            archived: &[1],
        },
        narration: "The pods of revision 3 do not start, and its status says which object it waits for and why. \
            Revision 2 still has its pods and the service, so the cafe stays open.",
        looks: &[Baton(&["status", "cafe"], 1), Baton(&["tree", "cafe"], 0)],
    },
    Step {
        title: "Back to what worked",
        acts: &[Baton(&["rollback", "cafe"], 0)],
        expected: Expected {
            revision: 4,
            progressing: "False",
            archived: &[1, 2, 3],
        },
        narration: "The rollback is a new revision with the content of the last one that succeeded. It took the \
            objects over, and both the failed revision and the one before it were archived.",
        looks: &[Baton(&["history", "cafe"], 0), Baton(&["tree", "cafe"], 0)],
    },
];

/// The samples that are shown.
#[cfg(test)]
pub fn samples() -> impl Iterator<Item = &'static str> {
    let acts = STEPS.iter().flat_map(|step| step.acts);
    acts.filter_map(|act| match act {
        Apply(file) => Some(*file),
        Baton(..) => None,
    })
}

/// The plugin, and the cluster it is to talk to.
pub struct Plugin {
    /// The program.
    pub binary: PathBuf,
    /// The cluster.
    pub cluster: Cluster,
}

impl Plugin {
    /// Runs a command and shows what it prints.
    async fn run(&self, dirs: &Dirs, args: &[&str], expected: i32) -> Result<(), Error> {
        println!("$ kubectl baton -n {NAMESPACE} {}", args.join(" "));
        let mut command = Command::new(&self.binary);
        command
            .current_dir(&dirs.workspace)
            .args(["-n", NAMESPACE])
            .args(args)
            .stdin(Stdio::null());
        match &self.cluster {
            Cluster::Kubeconfig(path) => command.arg("--kubeconfig").arg(path),
            Cluster::Context(name) => command.arg("--context").arg(name),
        };
        let status = Group::spawn(&mut command)?.wait().await;
        let status = status.map_err(Error::Wait)?;
        println!();
        if status.code() == Some(expected) {
            return Ok(());
        }
        let command = args.join(" ");
        Err(Error::Plugin { command, status })
    }
}

/// Goes through all steps.
///
/// # Errors
///
/// When one does not come out as expected, with what is missing.
pub async fn run(
    dirs: &Dirs,
    place: &Place,
    manager: &mut Manager,
    plugin: &Plugin,
) -> Result<(), Error> {
    let screen = Screen::detect();
    for (index, step) in STEPS.iter().enumerate() {
        let number = format!("{}/{} {}", index + 1, STEPS.len(), step.title);
        println!("{}\n", screen.heading(&number));
        let started = Instant::now();
        for act in step.acts {
            perform(dirs, place, plugin, *act).await?;
        }
        wait(step, place, manager).await?;
        println!("  done after {:.1} s\n", started.elapsed().as_secs_f64());
        println!("{}\n", screen.wrap(step.narration));
        for act in step.looks {
            perform(dirs, place, plugin, *act).await?;
        }
    }
    Ok(())
}

async fn perform(dirs: &Dirs, place: &Place, plugin: &Plugin, act: Act) -> Result<(), Error> {
    match act {
        Apply(file) => {
            println!("$ kubectl apply -f {SAMPLES}/{file}");
            let manifest = read(&dirs.workspace.join(SAMPLES).join(file))?;
            Ok(place.apply(&manifest).await?)
        }
        Baton(args, expected) => plugin.run(dirs, args, expected).await,
    }
}

async fn wait(step: &Step, place: &Place, manager: &mut Manager) -> Result<(), Error> {
    let deployments: Api<ObjectDeployment> = Api::namespaced(place.client().clone(), NAMESPACE);
    let sets: Api<ObjectSet> = Api::namespaced(place.client().clone(), NAMESPACE);
    let mut unmet = String::new();
    let look = async {
        loop {
            let failed = cluster::request("reading the deployment");
            let deployment = deployments.get(DEPLOYMENT).await.map_err(failed)?;
            let failed = cluster::request("listing its revisions");
            let of_cafe = ListParams::default().labels("app=cafe");
            let sets = sets.list(&of_cafe).await.map_err(failed)?;
            match step.expected.unmet(&deployment, &sets.items) {
                None => return Ok::<_, Error>(()),
                Some(text) => unmet = text,
            }
            sleep(LOOK).await;
        }
    };
    let what = format!("the step {:?}", step.title);
    match manager.until(&what, PATIENCE, look).await {
        Ok(done) => done,
        Err(error) => Err(error.with_detail(&unmet).into()),
    }
}

impl Expected {
    /// Why it is not so; `None` when it is.
    fn unmet(self, deployment: &ObjectDeployment, sets: &[ObjectSet]) -> Option<String> {
        let status = deployment.status.clone().unwrap_or_default();
        let condition = |type_: &str| {
            let generation = deployment.metadata.generation;
            let mut conditions = status.conditions.iter();
            let found =
                conditions.find(|one| one.type_ == type_ && one.observed_generation == generation);
            found.map_or(("absent", ""), |one| (&one.status, &one.message))
        };
        let (available, _) = condition("Available");
        let (progressing, message) = condition("Progressing");
        let mut archived: Vec<i64> = sets
            .iter()
            .filter(|set| set.spec.lifecycle_state == LifecycleState::Archived)
            .filter(|set| {
                let status = set.status.as_ref();
                status.is_some_and(|status| status.controller_of.is_empty())
            })
            .filter_map(|set| set.spec.revision)
            .collect();
        archived.sort_unstable();
        let as_expected = status.revision == Some(self.revision)
            && available == "True"
            && progressing == self.progressing
            && (progressing == "False" || message.contains("is Unavailable"))
            && archived == self.archived;
        (!as_expected).then(|| {
            format!(
                "{DEPLOYMENT} is at revision {:?}, Available={available}, Progressing={progressing} \
                 ({message}), with {archived:?} archived, not {self:?}",
                status.revision
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;

    #[test]
    fn samples_are_what_the_types_know() {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for file in samples() {
            let manifest = read(&workspace.join(SAMPLES).join(file)).unwrap();
            assert_eq!(manifest["metadata"]["namespace"], NAMESPACE);
            let deployment: ObjectDeployment = serde_json::from_value(manifest).unwrap();
            assert_eq!(deployment.metadata.name.as_deref(), Some(DEPLOYMENT));
            assert_eq!(
                deployment.spec.selector.match_labels,
                Some(deployment.spec.template.metadata.labels)
            );
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        let deployment = |progressing: &str, observed: i64| {
            serde_json::from_value::<ObjectDeployment>(json!({
                "apiVersion": "package-operator.run/v1alpha1", "kind": "ObjectDeployment",
                "metadata": {"name": "cafe", "generation": 2},
                "spec": {"selector": {}, "template": {"metadata": {}, "spec": {}}},
                "status": {"revision": 2, "conditions": [
                    {"type": "Available", "status": "True", "observedGeneration": observed,
                     "reason": "a", "message": "b", "lastTransitionTime": "2026-01-01T00:00:00Z"},
                    {"type": "Progressing", "status": progressing, "observedGeneration": observed,
                     "reason": "a", "message": "b", "lastTransitionTime": "2026-01-01T00:00:00Z"},
                ]},
            }))
            .unwrap()
        };
        let expected = Expected {
            revision: 2,
            progressing: "False",
            archived: &[],
        };
        assert_eq!(expected.unmet(&deployment("False", 2), &[]), None);
        let stale = expected.unmet(&deployment("False", 1), &[]).unwrap();
        assert!(stale.contains("Available=absent"), "{stale}");
        let busy = expected.unmet(&deployment("True", 2), &[]).unwrap();
        assert!(busy.contains("Progressing=True"), "{busy}");
        let archived = Expected {
            archived: &[1],
            ..expected
        };
        assert!(archived.unmet(&deployment("False", 2), &[]).is_some());
    }
}
