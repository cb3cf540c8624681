//! The tour: what is done, what has to come out, and what to say about it.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::cluster::{Place, read};
use super::picture::{Cast, Picture};
use super::tables::Screen;
use super::{Error, NAMESPACE};
use crate::bench::manager::Manager;
use crate::paths::Dirs;

/// Where the manifests are, in the workspace.
pub const SAMPLES: &str = "config/samples";

/// How long a step may take.
pub const PATIENCE: Duration = Duration::from_mins(2);

/// How often the cluster is looked at.
pub const LOOK: Duration = Duration::from_millis(100);

/// One step of the tour.
struct Step {
    title: &'static str,
    act: Act,
    expected: &'static [Expect],
    narration: &'static str,
}

/// What is done.
enum Act {
    /// A manifest is applied.
    Apply(&'static str),
    /// Revisions are archived.
    Archive(&'static [&'static str]),
}

/// Something that has to come out.
#[derive(Debug, Clone, Copy)]
enum Expect {
    /// A revision has a condition with this status.
    Is(&'static str, &'static str, &'static str),
    /// The condition `Available` of a revision has this reason.
    Because(&'static str, &'static str),
    /// The message of that condition contains this.
    Says(&'static str, &'static str),
    /// A revision has this number.
    Number(&'static str, i64),
    /// A revision has handed everything over.
    ControlsNothing(&'static str),
    /// An object is controlled by this revision.
    Controlled(&'static str, &'static str),
    /// An object has this in its content.
    Content(&'static str, &'static str),
    /// An object is the same as before the step.
    Kept(&'static str),
    /// An object does not exist.
    Gone(&'static str),
}

use Expect::{Because, Content, Controlled, ControlsNothing, Gone, Is, Kept, Number, Says};

const SETTINGS: &str = "ConfigMap/shop-config";
const PODS: &str = "Deployment/shop";
const PODS_B: &str = "Deployment/shop-b";
const PODS_C: &str = "Deployment/shop-c";
const SERVICE: &str = "Service/shop";

const STEPS: [Step; 8] = [
    Step {
        title: "Revision 1",
        act: Act::Apply("01-revision-1.yaml"),
        expected: &[
            Is("shop-v1", "Available", "True"),
            Is("shop-v1", "Succeeded", "True"),
            Number("shop-v1", 1),
            Controlled(SETTINGS, "shop-v1"),
            Controlled(PODS, "shop-v1"),
            Controlled(SERVICE, "shop-v1"),
            Content(PODS, "shop:1.0, 2/2 ready"),
        ],
        narration: "Nobody had these objects, so shop-v1 created them phase by phase: the settings, then the pods, \
            and the service only when the pods were ready.",
    },
    Step {
        title: "Revision 2, in place: the same objects with other content",
        act: Act::Apply("02-revision-2-in-place.yaml"),
        expected: &[
            Is("shop-v2", "Available", "True"),
            Is("shop-v2", "Succeeded", "True"),
            ControlsNothing("shop-v1"),
            Controlled(SETTINGS, "shop-v2"),
            Controlled(PODS, "shop-v2"),
            Controlled(SERVICE, "shop-v2"),
            Content(SETTINGS, "good morning"),
            Content(PODS, "shop:1.1, 2/2 ready"),
            Kept(SETTINGS),
            Kept(PODS),
            Kept(SERVICE),
        ],
        narration: "shop-v2 names shop-v1 as its previous revision, so it became the controller of the same three \
            objects and wrote its own content; none was deleted, and none was without an owner in between.",
    },
    Step {
        title: "Revision 1 goes into the archive",
        act: Act::Archive(&["shop-v1"]),
        expected: &[
            Is("shop-v1", "Archived", "True"),
            Is("shop-v2", "Available", "True"),
            Controlled(SETTINGS, "shop-v2"),
            Kept(SETTINGS),
            Kept(PODS),
            Kept(SERVICE),
        ],
        narration: "shop-v1 had handed everything over, so nothing was deleted: it gave up its place among the \
            owners, and stays as history.",
    },
    Step {
        title: "Revision 3, A/B, and it fails",
        act: Act::Apply("03-revision-3-failing.yaml"),
        expected: &[
            Is("shop-v3", "Available", "False"),
            Because("shop-v3", "ProbeFailure"),
            Says(
                "shop-v3",
                "baton-demo/shop-b: .status.condition[\"Available\"] is False",
            ),
            Number("shop-v3", 3),
            Is("shop-v2", "Available", "True"),
            Controlled(SETTINGS, "shop-v3"),
            Controlled(PODS_B, "shop-v3"),
            Controlled(PODS, "shop-v2"),
            Controlled(SERVICE, "shop-v2"),
            Content(SERVICE, "track=a"),
            Content(PODS, "2/2 ready"),
            Kept(SETTINGS),
            Kept(PODS),
            Kept(SERVICE),
        ],
        narration: "The image of shop-v3 does not start, so its pods fail the probe and its last phase is never \
            reached: the service, and with it the users, stay with shop-v2, while the settings, which both share, \
            have been handed over already.",
    },
    Step {
        title: "Revision 4, A/B, and it works",
        act: Act::Apply("04-revision-4-a-b.yaml"),
        expected: &[
            Is("shop-v4", "Available", "True"),
            Is("shop-v4", "Succeeded", "True"),
            Number("shop-v4", 4),
            Controlled(SETTINGS, "shop-v4"),
            Controlled(PODS_C, "shop-v4"),
            Controlled(SERVICE, "shop-v4"),
            Controlled(PODS, "shop-v2"),
            Controlled(PODS_B, "shop-v3"),
            ControlsNothing("shop-v1"),
            Content(SERVICE, "track=c"),
            Content(PODS_C, "shop:2.0, 2/2 ready"),
            Kept(SETTINGS),
            Kept(PODS),
            Kept(SERVICE),
        ],
        narration: "shop-v4 goes past the failed revision: it took the settings from shop-v3, started pods of its \
            own beside the others, and took the service from shop-v2 as soon as they were ready.",
    },
    Step {
        title: "Revisions 2 and 3 go into the archive",
        act: Act::Archive(&["shop-v2", "shop-v3"]),
        expected: &[
            Is("shop-v2", "Archived", "True"),
            Is("shop-v3", "Archived", "True"),
            Is("shop-v4", "Available", "True"),
            Gone(PODS),
            Gone(PODS_B),
            Kept(SETTINGS),
            Kept(PODS_C),
            Kept(SERVICE),
        ],
        narration: "Nobody had taken the pods of shop-v2 and shop-v3 over, so they were deleted with their \
            revisions; what shop-v4 controls was not touched.",
    },
    Step {
        title: "Rollback: the content of revision 1 as revision 5",
        act: Act::Apply("05-rollback.yaml"),
        expected: &[
            Is("shop-v5", "Available", "True"),
            Is("shop-v5", "Succeeded", "True"),
            Number("shop-v5", 5),
            Controlled(SETTINGS, "shop-v5"),
            Controlled(PODS, "shop-v5"),
            Controlled(SERVICE, "shop-v5"),
            Controlled(PODS_C, "shop-v4"),
            Content(SETTINGS, "greeting=hello"),
            Content(PODS, "shop:1.0, 2/2 ready"),
            Content(SERVICE, "track=a"),
            Kept(SETTINGS),
            Kept(PODS_C),
            Kept(SERVICE),
        ],
        narration: "There is no way back, only forward: shop-v5 has the content of shop-v1 and the highest number, \
            so it took the settings, started the old pods anew, and took the service when they were ready.",
    },
    Step {
        title: "Revision 4 goes into the archive",
        act: Act::Archive(&["shop-v4"]),
        expected: &[
            Is("shop-v4", "Archived", "True"),
            Is("shop-v5", "Available", "True"),
            Gone(PODS_C),
            Kept(SETTINGS),
            Kept(PODS),
            Kept(SERVICE),
        ],
        narration: "The pods of shop-v4 were deleted with it, and the shop is what it was in the beginning: the \
            settings and the service are still the very objects that shop-v1 created.",
    },
];

impl Act {
    /// The same by hand.
    fn commands(&self) -> Vec<String> {
        match self {
            Self::Apply(file) => vec![format!("kubectl apply -f {SAMPLES}/{file}")],
            Self::Archive(sets) => {
                let archive = |set: &&str| {
                    format!(
                        "kubectl -n {NAMESPACE} patch objectset {set} --type merge \
                         -p '{{\"spec\":{{\"lifecycleState\":\"Archived\"}}}}'"
                    )
                };
                sets.iter().map(archive).collect()
            }
        }
    }
}

impl Expect {
    /// Why it is not so; `None` when it is.
    fn unmet(self, now: &Picture, before: &Picture) -> Option<String> {
        let object = |key| now.object(key);
        match self {
            Is(set, type_, status) => {
                let condition = now.revision(set).and_then(|set| set.condition(type_));
                let found = condition.map_or("absent", |condition| &condition.status);
                (found != status).then(|| format!("{set} has {type_}={found}, not {status}"))
            }
            Because(set, reason) => {
                let condition = now.revision(set).and_then(|set| set.condition("Available"));
                let found = condition.map_or("absent", |condition| &condition.reason);
                (found != reason).then(|| format!("{set} has the reason {found}, not {reason}"))
            }
            Says(set, text) => {
                let found = now.revision(set).map_or("", |set| set.message());
                (!found.contains(text)).then(|| format!("{set} says {found:?}, not {text:?}"))
            }
            Number(set, number) => {
                let found = now.revision(set).and_then(|set| set.number);
                (found != Some(number))
                    .then(|| format!("{set} has the number {found:?}, not {number}"))
            }
            ControlsNothing(set) => {
                let found = now.revision(set).map_or(0, |set| set.controls);
                (found > 0).then(|| format!("{set} still controls {found} objects"))
            }
            Controlled(key, set) => {
                let found = object(key).and_then(|live| live.controller.as_deref());
                (found != Some(set)).then(|| {
                    format!(
                        "{key} is controlled by {}, not by {set}",
                        found.unwrap_or("nobody")
                    )
                })
            }
            Content(key, text) => {
                let found = object(key).map_or("absent", |live| &live.content);
                (!found.contains(text)).then(|| format!("{key} is {found:?}, not {text:?}"))
            }
            Kept(key) => {
                let uid = |picture: &Picture| picture.object(key).map(|live| live.uid.clone());
                (uid(now).is_none() || uid(now) != uid(before))
                    .then(|| format!("{key} is not the object that was there before"))
            }
            Gone(key) => object(key).map(|_| format!("{key} still exists")),
        }
    }
}

/// Goes through all steps.
///
/// # Errors
///
/// When one does not come out as expected, with what is missing.
pub async fn run(dirs: &Dirs, place: &Place, manager: &mut Manager) -> Result<(), Error> {
    let screen = Screen::detect();
    let samples = dirs.workspace.join(SAMPLES);
    place
        .apply(&read(&samples.join("00-namespace.yaml"))?)
        .await?;
    let mut cast = Cast::default();
    let mut before = Picture::default();
    for (index, step) in STEPS.iter().enumerate() {
        println!(
            "{}\n",
            screen.heading(&format!("{}/{} {}", index + 1, STEPS.len(), step.title))
        );
        for command in step.act.commands() {
            println!("$ {command}");
        }
        let started = Instant::now();
        match step.act {
            Act::Apply(file) => {
                let set = read(&samples.join(file))?;
                cast.add(&set);
                place.apply(&set).await?;
            }
            Act::Archive(sets) => {
                for set in sets {
                    place.archive(set).await?;
                }
            }
        }
        let picture = wait(step, place, manager, &cast, &before).await?;
        println!("  done after {:.1} s\n", started.elapsed().as_secs_f64());
        println!("{}\n", screen.wrap(step.narration));
        println!("{}\n", screen.revisions(&picture));
        println!("{}\n", screen.objects(&picture, &before));
        before = picture;
    }
    Ok(())
}

/// Waits until everything has come out, and returns how it looks then.
async fn wait(
    step: &Step,
    place: &Place,
    manager: &mut Manager,
    cast: &Cast,
    before: &Picture,
) -> Result<Picture, Error> {
    let mut unmet = Vec::new();
    let look = async {
        loop {
            let picture = Picture::take(place.client(), cast).await?;
            unmet = step
                .expected
                .iter()
                .filter_map(|one| one.unmet(&picture, before))
                .collect();
            if unmet.is_empty() {
                return Ok::<_, Error>(picture);
            }
            sleep(LOOK).await;
        }
    };
    match manager
        .until(&format!("the step {:?}", step.title), PATIENCE, look)
        .await
    {
        Ok(picture) => picture,
        Err(error) => Err(error.with_detail(&unmet.join("; ")).into()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use serde_json::Value;

    use super::super::picture::tests::{picture, set, settings};
    use super::*;

    fn samples() -> Vec<Value> {
        let samples = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("..")
            .join(SAMPLES);
        let files = STEPS.iter().filter_map(|step| match step.act {
            Act::Apply(file) => Some(file),
            Act::Archive(_) => None,
        });
        files
            .map(|file| read(&samples.join(file)).unwrap())
            .collect()
    }

    #[test]
    fn the_tour_shows_every_sample() {
        let shown: BTreeSet<&str> = STEPS
            .iter()
            .filter_map(|step| match step.act {
                Act::Apply(file) => Some(file),
                Act::Archive(_) => None,
            })
            .chain(["00-namespace.yaml"])
            .chain(super::super::chain::samples())
            .collect();
        let dir = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("..")
            .join(SAMPLES);
        for entry in std::fs::read_dir(dir).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(shown.contains(name.as_str()), "{name}");
        }
    }

    #[test]
    fn expectations_are_about_what_is_in_the_samples() {
        let samples = samples();
        let sets: Vec<&str> = samples
            .iter()
            .map(|set| set["metadata"]["name"].as_str().unwrap())
            .collect();
        let mut objects = BTreeSet::new();
        for set in &samples {
            assert_eq!(set["metadata"]["namespace"], NAMESPACE);
            serde_json::from_value::<baton_apis::ObjectSet>(set.clone()).unwrap();
            for phase in set["spec"]["phases"].as_array().unwrap() {
                for entry in phase["objects"].as_array().unwrap() {
                    let object = &entry["object"];
                    let text = |value: &Value| value.as_str().unwrap().to_owned();
                    objects.insert(format!(
                        "{}/{}",
                        text(&object["kind"]),
                        text(&object["metadata"]["name"])
                    ));
                }
            }
        }
        for expect in STEPS.iter().flat_map(|step| step.expected) {
            let (set, object) = match *expect {
                Is(set, ..)
                | Because(set, _)
                | Says(set, _)
                | Number(set, _)
                | ControlsNothing(set) => (Some(set), None),
                Controlled(object, set) => (Some(set), Some(object)),
                Content(object, _) | Kept(object) | Gone(object) => (None, Some(object)),
            };
            assert!(set.is_none_or(|set| sets.contains(&set)), "{expect:?}");
            assert!(
                object.is_none_or(|object| objects.contains(object)),
                "{expect:?}"
            );
        }
    }

    #[test]
    fn a_rollback_has_the_content_of_the_first_revision() {
        let samples = samples();
        let (first, last) = (&samples[0]["spec"], &samples[samples.len() - 1]["spec"]);
        assert_eq!(first["phases"], last["phases"]);
        assert_eq!(first["availabilityProbes"], last["availabilityProbes"]);
    }

    #[test]
    fn what_is_missing_is_named() {
        let now = picture(
            &[set("v1", 1, &[("Available", "False", "ProbeFailure")])],
            &[settings("u", &[("v1", true)])],
        );
        let then = picture(&[], &[settings("other", &[])]);
        let settings = "ConfigMap/settings";
        let check = |expect: Expect, expected: Option<&str>| {
            let unmet = expect.unmet(&now, &then);
            let as_expected = match (&unmet, expected) {
                (None, None) => true,
                (Some(unmet), Some(expected)) => unmet.contains(expected),
                _ => false,
            };
            assert!(as_expected, "{expect:?}: {unmet:?}");
        };
        check(Is("v1", "Available", "False"), None);
        check(
            Is("v1", "Available", "True"),
            Some("Available=False, not True"),
        );
        check(Is("v2", "Available", "True"), Some("absent"));
        check(Because("v1", "ProbeFailure"), None);
        check(Because("v1", "WriteError"), Some("ProbeFailure"));
        check(Says("v1", "it is"), None);
        check(Says("v2", "it is"), Some("says \"\""));
        check(Number("v1", 1), None);
        check(Number("v1", 2), Some("Some(1)"));
        check(ControlsNothing("v1"), Some("still controls 1"));
        check(Controlled(settings, "v1"), None);
        check(Controlled(settings, "v2"), Some("by v1, not by v2"));
        check(Controlled("Service/shop", "v2"), Some("by nobody"));
        check(Content(settings, "hello"), None);
        check(Content(settings, "good"), Some("greeting=hello"));
        check(Kept(settings), Some("not the object"));
        check(Kept("Service/shop"), Some("not the object"));
        check(Gone(settings), Some("still exists"));
        check(Gone("Service/shop"), None);
    }

    #[test]
    fn commands_can_be_copied() {
        assert_eq!(
            Act::Archive(&["v1"]).commands(),
            [
                r#"kubectl -n baton-demo patch objectset v1 --type merge -p '{"spec":{"lifecycleState":"Archived"}}'"#
            ]
        );
    }
}
