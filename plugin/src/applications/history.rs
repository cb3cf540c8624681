//! The Releases of an Application as a table.

use baton_apis::{Release, ReleaseEnvironment, conditions::shipper::COMPLETE};
use baton_releases::{conditions::is_true, hash::environment_hash};
use baton_terminal::time::age;
use k8s_openapi::jiff::Timestamp;

use super::{
    read::Observed,
    state::{achieved, label_at},
};
use crate::output::{
    Output, Paint,
    table::{Cell, Table},
};

/// One line per Release, the oldest first. The newest is marked with an asterisk, if it was made from what the template
/// is now.
pub(crate) fn table(observed: &Observed, output: Output, now: Timestamp) -> String {
    let mut table = Table::new(&[
        "", "REVISION", "NAME", "CHART", "HASH", "STEP", "COMPLETE", "AGE", "CHANGE",
    ]);
    let releases = observed.releases();
    let current = current(observed);
    for (at, (generation, release)) in releases.iter().enumerate() {
        let name = release.metadata.name.as_deref().unwrap_or_default();
        let is_current = current.as_deref() == Some(name);
        let before = at.checked_sub(1).map(|at| releases[at].1);
        let change = match generation {
            Some(_) => changes(before, release),
            None => "<unknown>".to_owned(),
        };
        let created = release.metadata.creation_timestamp.as_ref();
        let chart = &release.spec.environment.chart;
        table.row([
            Cell::from(if is_current { "*" } else { "" }),
            generation
                .map_or_else(|| "<none>".to_owned(), |generation| generation.to_string())
                .into(),
            if is_current {
                Cell::painted(Paint::Strong, name)
            } else {
                name.into()
            },
            format!("{} {}", chart.name, chart.version).into(),
            environment_hash(&release.spec.environment).into(),
            step(release).into(),
            complete(release),
            age(created.map(|time| time.0), now).into(),
            change.into(),
        ]);
    }
    table.render(output)
}

/// The newest Release, if it was made from the template as it is.
pub(crate) fn current(observed: &Observed) -> Option<String> {
    let template = environment_hash(observed.template()?);
    let history = observed.known_history()?;
    let newest = history.newest()?;
    (newest.hash() == template).then(|| newest.name().to_owned())
}

/// `0 (staging) -> 1 (50/50)`: from the step that was reached to the one that is wanted.
fn step(release: &Release) -> String {
    let target = release.spec.target_step;
    let wanted = label_at(release, target);
    match achieved(release) {
        Some(achieved) if achieved == target => wanted,
        Some(achieved) => format!("{} -> {wanted}", label_at(release, achieved)),
        None => format!("-> {wanted}"),
    }
}

fn complete(release: &Release) -> Cell {
    let status = release.status.as_ref();
    let conditions = status.map_or(&[][..], |status| &status.conditions);
    match is_true(conditions, COMPLETE) {
        true => Cell::painted(Paint::Good, "True"),
        false if release.metadata.deletion_timestamp.is_some() => {
            Cell::painted(Paint::Warn, "Deleting")
        }
        false => Cell::painted(Paint::Warn, "False"),
    }
}

/// Which parts of the environment are others than in the Release before.
fn changes(before: Option<&Release>, release: &Release) -> String {
    match before {
        None => "<none>".to_owned(),
        Some(before) => {
            let changes = differences(&before.spec.environment, &release.spec.environment);
            if changes.is_empty() {
                "same".to_owned()
            } else {
                changes.join(", ")
            }
        }
    }
}

/// The parts in which two environments differ, in words.
pub(crate) fn differences(from: &ReleaseEnvironment, to: &ReleaseEnvironment) -> Vec<String> {
    // Taken apart without `..`, so that a new field cannot be forgotten.
    let ReleaseEnvironment {
        chart,
        values,
        cluster_requirements,
        strategy,
    } = to;
    let mut changes = Vec::new();
    let old = &from.chart;
    if old.name != chart.name {
        changes.push(format!("chart {} -> {}", old.name, chart.name));
    }
    if old.version != chart.version {
        changes.push(format!("version {} -> {}", old.version, chart.version));
    }
    if old.repo_url != chart.repo_url {
        changes.push("repository".to_owned());
    }
    let others = [
        ("values", from.values != *values),
        (
            "clusters",
            from.cluster_requirements != *cluster_requirements,
        ),
        ("strategy", from.strategy != *strategy),
    ];
    let others = others.into_iter().filter(|(_, differs)| *differs);
    changes.extend(others.map(|(what, _)| what.to_owned()));
    changes
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::applications::fixtures::{NOW, environment, mid_rollout, observed, release};

    #[test]
    fn releases_by_generation() {
        let mut objects = mid_rollout();
        let mut unknown = release("lost", 0, 0, &environment("1.1.0", 7), &json!({}));
        unknown["metadata"]["annotations"] = json!({});
        unknown["spec"]["environment"]["strategy"] = json!({ "steps": [] });
        objects.insert(1, unknown);
        insta::assert_snapshot!(table(&observed(&objects), Output::plain(), NOW));
    }

    #[test]
    fn a_template_without_its_release_marks_none() {
        let mut objects = mid_rollout();
        assert_eq!(current(&observed(&objects)).as_deref(), Some("shop-new-0"));
        objects[0]["spec"]["template"] = environment("2.0.0", 6);
        assert_eq!(current(&observed(&objects)), None);
    }
}
