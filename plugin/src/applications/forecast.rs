//! The effect of a file on an Application.

use std::collections::BTreeMap;

use baton_apis::{Application, ApplicationSpec, Release, kinds};
use baton_cluster::Cluster;
use baton_view::{
    applications::{
        compare::{environment, manifests},
        forecast::Change,
        observed::Observed,
        target::AppTarget,
    },
    diff::{
        Section, Topic,
        note::{ObjectNote, ReleaseNote},
        outcome::DiffOutcome,
    },
    object::text_at,
};
use serde_json::Value;

use super::{chart, compare::rendered};
use crate::{diff::check::check_apply, error::Error, subject::check_name, wait::application::read};

/// The effect of applying an Application from a file. If it creates a Release, its chart is rendered
/// and checked, unless `with_chart` is false.
///
/// # Errors
/// If the file contains no valid Application, the live Application cannot be read, or the chart
/// cannot be rendered here.
pub(crate) async fn forecast(
    cluster: &Cluster,
    object: &Value,
    with_chart: bool,
) -> Result<Vec<Section>, Error> {
    let name = text_at(object, "/metadata/name");
    if name.is_empty() {
        return Err(Error::Usage("an application has no name".to_owned()));
    }
    check_name(name)?;
    let wanted: Application = serde_json::from_value(object.clone())
        .map_err(|error| Error::Usage(format!("application {name}: {error}")))?;
    let namespace = text_at(object, "/metadata/namespace");
    let cluster = cluster.within(namespace);
    let observed = match read(&cluster, &AppTarget::application(name)).await {
        Ok(observed) => Some(observed),
        Err(Error::NotFound(_)) => None,
        Err(error) => return Err(error),
    };
    let mut change = Change::of(observed.as_ref(), &wanted);
    let is_rendered = with_chart && change.is_to_be_rendered();
    if is_rendered {
        change
            .notes
            .retain(|note| *note != ObjectNote::Release(ReleaseNote::NotRendered));
    }
    let topic = Topic::Application(&kinds::APPLICATION, namespace.to_owned(), name.to_owned());
    let first = Section::new(topic)
        .fate(change.fate())
        .notes(std::mem::take(&mut change.notes));
    let path = kinds::APPLICATION.path_of(Some(&cluster.namespace), name);
    let first = check_apply(&cluster, object, &path, first).await?;
    let mut sections = vec![first];
    sections.extend(environment(change.before, &change.after));
    if let (Some(observed), Some((from, to))) = (&observed, &change.rendered)
        && let (Some(from), Some(to)) = (observed.release(from), observed.release(to))
    {
        let rendered = rendered(&cluster, &[from, to]).await;
        sections.extend(manifests(Some(from), to, &rendered));
    }
    // An Application that the server refuses has no Release.
    if is_rendered && !sections[0].is_refused() {
        let release = Application {
            spec: ApplicationSpec {
                template: change.after.clone(),
                ..wanted.spec.clone()
            },
            ..wanted.clone()
        };
        sections.extend(next_manifests(&cluster, observed.as_ref(), &release).await?);
    }
    Ok(sections)
}

/// The differences of the manifests of the next Release from those of the newest one, or the reason
/// that the manager refuses the chart.
async fn next_manifests(
    cluster: &Cluster,
    observed: Option<&Observed>,
    wanted: &Application,
) -> Result<Vec<Section>, Error> {
    let releases: Vec<&Release> = observed.map_or_else(Vec::new, |observed| {
        observed
            .releases()
            .into_iter()
            .map(|(_, release)| release)
            .collect()
    });
    let next = chart::render(Some(cluster), wanted, &releases, &cluster.namespace).await?;
    let objects = match next.objects {
        Ok(objects) => objects,
        Err(cause) => {
            return Ok(vec![
                Section::new(Topic::Manifests).fate(DiffOutcome::Refused(cause)),
            ]);
        }
    };
    let newest = observed.and_then(|observed| {
        let newest = observed.known_history().newest()?.name().to_owned();
        observed.release(&newest)
    });
    let mut known = match newest {
        Some(newest) => rendered(cluster, &[newest]).await,
        None => Ok(BTreeMap::new()),
    };
    if let Ok(known) = &mut known {
        let name = next.release.metadata.name.clone();
        known.insert(name.unwrap_or_default(), objects);
    }
    Ok(manifests(newest, &next.release, &known))
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_text::diff::note::note;

    use crate::applications::fixtures::{mid_rollout, observed};

    fn notes(change: &Change<'_>) -> Vec<String> {
        change.notes.iter().map(note).collect()
    }

    fn application(observed: &Observed) -> Application {
        observed.application.clone().unwrap()
    }

    #[test]
    fn an_environment_that_exists_already_creates_no_release() {
        let observed = observed(&mid_rollout());
        let change = Change::of(Some(&observed), &application(&observed));
        assert_eq!(change.fate(), DiffOutcome::Unchanged);
        assert_eq!(
            notes(&change),
            ["release shop-new-0 has this environment already, so no release is created"]
        );
    }

    #[test]
    fn a_range_is_no_change() {
        let observed = observed(&mid_rollout());
        let mut wanted = application(&observed);
        wanted.spec.template.chart.version = "~1".to_owned();
        let change = Change::of(Some(&observed), &wanted);
        assert_eq!(change.fate(), DiffOutcome::Unchanged);
        assert_eq!(
            notes(&change)[0],
            "version ~1 was 1.1.0 the last time; it is looked up again"
        );
        wanted.spec.template.chart.name = "other".to_owned();
        let change = Change::of(Some(&observed), &wanted);
        assert_eq!(change.after.chart.version, "~1");
        assert_eq!(change.fate(), DiffOutcome::Changed);
    }

    #[test]
    fn an_older_environment_has_known_manifests() {
        let observed = observed(&mid_rollout());
        let mut wanted = application(&observed);
        let old = observed.release("shop-old-0").unwrap();
        wanted.spec.template = old.spec.environment.clone();
        wanted.spec.revision_history_limit = Some(3);
        let change = Change::of(Some(&observed), &wanted);
        assert_eq!(
            change.rendered,
            Some(("shop-new-0".to_owned(), "shop-old-0".to_owned()))
        );
        insta::assert_snapshot!(notes(&change).join("\n"));
    }

    #[test]
    fn a_new_application_is_added() {
        let wanted = application(&observed(&mid_rollout()));
        let change = Change::of(None, &wanted);
        assert_eq!(change.fate(), DiffOutcome::Added);
        assert!(notes(&change)[0].starts_with("it creates the first release"));
    }
}
