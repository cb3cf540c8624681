//! The effect of a file on an Application.

use baton_apis::{Application, kinds};
use baton_view::{
    applications::{
        compare::{environment, manifests},
        forecast::Change,
        target::AppTarget,
    },
    diff::{Section, Topic},
    object::text_at,
};
use serde_json::Value;

use super::compare::rendered;
use crate::{
    connect::Cluster, diff::check::check_apply, error::Error, subject::check_name,
    wait::application::read,
};

/// The effect of applying an Application from a file.
///
/// # Errors
/// If the file contains no valid Application, or the live Application cannot be read.
pub(crate) async fn forecast(cluster: &Cluster, object: &Value) -> Result<Vec<Section>, Error> {
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
    let change = Change::of(observed.as_ref(), &wanted);
    let topic = Topic::Application(&kinds::APPLICATION, namespace.to_owned(), name.to_owned());
    let first = Section::new(topic).fate(change.fate()).notes(change.notes);
    let path = kinds::APPLICATION.path_of(Some(&cluster.namespace), name);
    let first = check_apply(&cluster, object, &path, first).await?;
    let mut sections = vec![first];
    sections.extend(environment(change.before, &change.after));
    if let (Some(observed), Some((from, to))) = (&observed, &change.rendered)
        && let (Some(from), Some(to)) = (observed.release(from), observed.release(to))
    {
        let rendered = rendered(&cluster, &[from, to]).await;
        sections.extend(manifests(from, to, &rendered));
    }
    Ok(sections)
}

#[cfg(test)]
mod tests {
    use baton_view::{applications::observed::Observed, diff::outcome::DiffOutcome};

    use super::*;
    use crate::{
        applications::fixtures::{mid_rollout, observed},
        text::diff::note::note,
    };

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
