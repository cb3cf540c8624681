//! The Releases of an Application as a table.

use crate::time::age;
use baton_apis::Release;
use baton_releases::{
    application::history::is_complete, hash::environment_hash, strategy::achieved,
};
use baton_view::applications::{
    history::{Difference, current, differences},
    observed::Observed,
    state::label_at,
};
use k8s_openapi::jiff::Timestamp;

use crate::output::{
    Output, Paint,
    table::{Cell, Table},
};

/// One line per Release, oldest first. An asterisk marks the newest one if it was created from the
/// present template.
pub fn table(observed: &Observed, output: Output, now: Timestamp) -> String {
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

/// The reached and the wanted step, as in `0 (staging) -> 1 (50/50)`.
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
    match is_complete(release) {
        true => Cell::painted(Paint::Good, "True"),
        false if release.metadata.deletion_timestamp.is_some() => {
            Cell::painted(Paint::Warn, "Deleting")
        }
        false => Cell::painted(Paint::Warn, "False"),
    }
}

/// The parts of the environment that differ from the Release before.
fn changes(before: Option<&Release>, release: &Release) -> String {
    let Some(before) = before else {
        return "<none>".to_owned();
    };
    let changes = differences(&before.spec.environment, &release.spec.environment);
    let words = changes.iter().map(|change| match change {
        Difference::Chart(before, after) => format!("chart {before} -> {after}"),
        Difference::Version(before, after) => format!("version {before} -> {after}"),
        Difference::Repository => "repository".to_owned(),
        Difference::Values => "values".to_owned(),
        Difference::Clusters => "clusters".to_owned(),
        Difference::Strategy => "strategy".to_owned(),
    });
    match &words.collect::<Vec<_>>()[..] {
        [] => "same".to_owned(),
        words => words.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::application::fixtures::{NOW, environment, mid_rollout, observed, release};

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
