//! Sentences about the notes of a comparison.

use baton_view::{
    diff::note::{ObjectNote, ReleaseNote},
    sites::forecast::Effect,
};

use super::{
    object_title,
    outcome::{controlled, unseen},
};
use crate::output::format::first;

/// Maximum number of fields of one manager that are named.
const MAX_NAMED: usize = 8;

/// A note in one line.
pub fn note(note: &ObjectNote) -> String {
    match note {
        ObjectNote::Changed { field, from, to } => {
            format!("{field}: {} -> {}", list(from), list(to))
        }
        ObjectNote::Origin(origin) => origin.clone(),
        ObjectNote::Paused(target) => {
            format!("paused: this is rolled out after `kubectl baton resume {target}`")
        }
        ObjectNote::NoPrevious(names) => format!("previous: there is no {}", names.join(", no ")),
        ObjectNote::NotListed(count) => {
            format!("the {count} objects that are handed over unchanged are not listed")
        }
        ObjectNote::NotServed => "its kind is not served".to_owned(),
        ObjectNote::KindIsNew => "not checked: its kind is defined by the revision".to_owned(),
        ObjectNote::KindChanges => "not checked: its kind is changed by the revision".to_owned(),
        ObjectNote::NamespaceIsNew => {
            "checked only in part: the revision creates its namespace".to_owned()
        }
        ObjectNote::Unchecked => {
            "not checked by the server, for lack of the right to patch it".to_owned()
        }
        ObjectNote::AsWritten => {
            "compared as it is written, for lack of the right to patch it".to_owned()
        }
        ObjectNote::Refused(why) => format!("the server would refuse that: {why}"),
        ObjectNote::LosesData(why) => format!("a revision would be refused: {why}"),
        ObjectNote::Definition(note) => note.to_string(),
        ObjectNote::Unseen(why) => format!("not read: {}", unseen(why)),
        ObjectNote::RunsOnce => {
            "it is not run again, because an older revision has run the same content".to_owned()
        }
        ObjectNote::DeletedNow => "being deleted now".to_owned(),
        ObjectNote::Deleting => "being deleted".to_owned(),
        ObjectNote::ControlledBy(owner) => controlled(owner),
        ObjectNote::Phase(it) if it.status == "True" => {
            "its phase object reports that it is available".to_owned()
        }
        ObjectNote::Phase(it) => format!("its phase object reports {}: {}", it.reason, it.message),
        ObjectNote::Removes {
            tools,
            paths,
            unchecked,
        } => removes(tools, paths, unchecked.as_deref()),
        ObjectNote::SetBy(manager, paths) => {
            format!(
                "set by {manager}, and not changed: {}",
                first(paths, MAX_NAMED)
            )
        }
        ObjectNote::SetByKubernetes(count) => {
            let fields = if *count == 1 { "field" } else { "fields" };
            format!("{count} more {fields} set by controllers of Kubernetes")
        }
        ObjectNote::Was(key) => format!("in the first release it is {}", object_title(key)),
        ObjectNote::Release(note) => of_release(note),
        ObjectNote::Version(version, effect, deployments) => {
            of_version(version, *effect, deployments)
        }
    }
}

fn of_release(note: &ReleaseNote) -> String {
    match note {
        ReleaseNote::Resolved(range, version) => {
            format!("version {range} was {version} the last time; it is looked up again")
        }
        ReleaseNote::First(hash) => format!("it creates the first release, with hash {hash}"),
        ReleaseNote::Same(name) => {
            format!("release {name} has this environment already, so no release is created")
        }
        ReleaseNote::New(generation, hash) => {
            format!("it creates a release with generation {generation} and hash {hash}")
        }
        ReleaseNote::GivenUp(name) => {
            format!("the rollout of release {name} is given up")
        }
        ReleaseNote::HadTheSame(name, generation) => format!(
            "release {name} (generation {generation}) had the same environment: its manifests are shown"
        ),
        ReleaseNote::NotRendered => "its manifests are rendered when it is applied".to_owned(),
    }
}

fn list(texts: &[String]) -> String {
    if texts.is_empty() {
        "none".to_owned()
    } else {
        texts.join(", ")
    }
}

/// The fields that a take-over removes.
fn removes(tools: &[String], paths: &[String], unchecked: Option<&str>) -> String {
    let tools = match tools {
        [] => "an earlier release".to_owned(),
        tools => tools.join(", "),
    };
    let paths = first(paths, MAX_NAMED);
    match unchecked {
        None => format!("the take-over removes fields that {tools} applied: {paths}"),
        Some(why) => format!(
            "the take-over may remove fields that {tools} applied, which cannot be checked ({why}): {paths}"
        ),
    }
}

/// The effect on a version, and the deployments that bring the version to sites.
fn of_version(version: &str, effect: Effect, deployments: &[(String, i32)]) -> String {
    let text = match effect {
        Effect::Unchanged => return format!("version {version} is unchanged"),
        Effect::Edited { in_windows } => format!(
            "version {version} stays: the change reaches the sites that run it at once{}",
            if in_windows {
                ", in their upgrade windows"
            } else {
                ", without waves, and outside of upgrade windows too"
            }
        ),
        Effect::Restored => format!("version {version} comes back"),
        Effect::New => format!("version {version} is new"),
    };
    let deployments = deployments.iter();
    let names: Vec<String> = deployments
        .map(|(name, sites)| format!("{name} ({sites} sites)"))
        .collect();
    match names.as_slice() {
        [] => format!("{text}; no deployment brings it to sites"),
        names => format!("{text}; brought to sites by {}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use baton_apis::{SiteApplicationSpec, SiteDeployment};
    use baton_view::{
        chain::{kind::ChainKind, target::Target},
        children::Owner,
        sites::{forecast::rollouts_of, record::Records},
    };
    use serde_json::json;

    use super::*;
    use crate::fleet::fixtures;

    fn changed(field: &'static str, from: &[&str], to: &[&str]) -> ObjectNote {
        let [from, to] = [from, to].map(|side| side.iter().map(ToString::to_string).collect());
        ObjectNote::Changed { field, from, to }
    }

    #[test]
    fn changes_and_obstacles() {
        let target = Target::new(ChainKind::ObjectDeployment, "web");
        let owner = Owner::Stranger {
            kind: "ObjectSet".to_owned(),
            name: "web-v3".to_owned(),
        };
        let removed = |tools: &[&str], unchecked: Option<&str>| ObjectNote::Removes {
            tools: tools.iter().map(ToString::to_string).collect(),
            paths: vec![".data.a".to_owned()],
            unchecked: unchecked.map(str::to_owned),
        };
        for (one, expected) in [
            (
                changed("phase", &["config"], &["app"]),
                "phase: config -> app",
            ),
            (
                changed("createOnlyFields", &[], &[".data.a", ".data.b"]),
                "createOnlyFields: none -> .data.a, .data.b",
            ),
            (
                ObjectNote::Paused(target),
                "paused: this is rolled out after `kubectl baton resume od/web`",
            ),
            (
                ObjectNote::NoPrevious(vec!["gone".to_owned(), "lost".to_owned()]),
                "previous: there is no gone, no lost",
            ),
            (
                ObjectNote::NotListed(21),
                "the 21 objects that are handed over unchanged are not listed",
            ),
            (
                ObjectNote::ControlledBy(owner),
                "controlled by ObjectSet web-v3",
            ),
            (
                ObjectNote::ControlledBy(Owner::Nobody),
                "without a controller",
            ),
            (ObjectNote::Deleting, "being deleted"),
            (
                removed(&["helm", "kubectl"], None),
                "the take-over removes fields that helm, kubectl applied: .data.a",
            ),
            (
                removed(&[], Some("no")),
                "the take-over may remove fields that an earlier release applied, which cannot be checked (no): \
                 .data.a",
            ),
        ] {
            assert_eq!(note(&one), expected);
        }
    }

    fn spec(version: &str) -> SiteApplicationSpec {
        SiteApplicationSpec {
            version: version.to_owned(),
            ..SiteApplicationSpec::default()
        }
    }

    fn noted(version: &str, differs: bool, requested: &str) -> String {
        let record = |number: i64, version: &str| {
            json!({
                "metadata": { "name": format!("r-{number}") }, "revision": number,
                "data": { "version": version, "phases": [] },
            })
        };
        let records = Records::from_objects(vec![record(1, "1.0.0"), record(2, "1.1.0")]);
        let mut deployment: SiteDeployment =
            serde_json::from_value(fixtures::deployment("shop")).unwrap();
        deployment.spec.application_version = requested.to_owned();
        let found = Effect::of(&spec(version), &records, differs);
        let deployments = rollouts_of(&[deployment], version);
        note(&ObjectNote::Version(version.to_owned(), found, deployments))
    }

    #[test]
    fn the_future_of_versions() {
        assert_eq!(noted("1.1.0", false, "*"), "version 1.1.0 is unchanged");
        assert_eq!(
            noted("1.1.0", true, "*"),
            "version 1.1.0 stays: the change reaches the sites that run it at once, without waves, and outside of \
             upgrade windows too; brought to sites by shop (10 sites)"
        );
        assert_eq!(
            noted("1.2.0", true, "*"),
            "version 1.2.0 is new; brought to sites by shop (10 sites)"
        );
        assert_eq!(
            noted("1.2.0", true, "1.1.0"),
            "version 1.2.0 is new; no deployment brings it to sites"
        );
        assert_eq!(
            noted("1.0.0", true, "1.0.0"),
            "version 1.0.0 comes back; brought to sites by shop (10 sites)"
        );
    }
}
