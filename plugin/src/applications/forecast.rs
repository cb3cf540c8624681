//! What a file would make of an Application.

use baton_apis::{
    Application, ReleaseEnvironment,
    constants::shipper::{
        ANNOTATION_CHART_NAME, ANNOTATION_CHART_VERSION_RAW, ANNOTATION_CHART_VERSION_RESOLVED,
        API_VERSION,
    },
    kinds,
};
use baton_releases::{application::history::History, hash::environment_hash};
use baton_view::{
    applications::{observed::Observed, target::AppTarget},
    object::text_at,
};
use serde_json::Value;

use super::compare::{environment, manifests, rendered};
use crate::{
    connect::Cluster,
    diff::{Section, check::check_apply, fate::Fate},
    error::Error,
    subject::check_name,
    wait::application::read,
};

/// True if an object of a file is an Application.
pub(crate) fn is_application(object: &Value) -> bool {
    object["apiVersion"] == API_VERSION && object["kind"] == "Application"
}

/// The effect of applying an Application of a file.
///
/// # Errors
/// If the file does not hold one, or the one in the cluster cannot be read.
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
    let mut first = Section::new("application", format!("application {namespace}/{name}"));
    first = first.fate(change.fate());
    first.notes.clone_from(&change.notes);
    let path = kinds::APPLICATION.path_of(Some(&cluster.namespace), name);
    let first = check_apply(&cluster, object, &path, first).await?;
    let mut sections = vec![first];
    sections.extend(environment(change.before, &change.after));
    if let (Some(observed), Some((from, to))) = (&observed, &change.known)
        && let (Some(from), Some(to)) = (observed.release(from), observed.release(to))
    {
        let rendered = rendered(&cluster, &[from, to]).await;
        sections.extend(manifests(from, to, &rendered));
    }
    Ok(sections)
}

/// The future of an Application.
#[derive(Debug)]
struct Change<'a> {
    before: Option<&'a ReleaseEnvironment>,
    after: ReleaseEnvironment,
    notes: Vec<String>,
    /// True if another number of Releases is kept.
    changes_limit: bool,
    /// The newest Release, and an older one of the wanted environment: its manifests are known.
    known: Option<(String, String)>,
}

impl<'a> Change<'a> {
    fn of(observed: Option<&'a Observed>, wanted: &Application) -> Self {
        let before = observed.and_then(Observed::template);
        let mut change = Self {
            before,
            after: wanted.spec.template.clone(),
            notes: Vec::new(),
            changes_limit: false,
            known: None,
        };
        if let Some(observed) = observed {
            change.resolve(observed);
            change.limit(observed, wanted);
        }
        change.releases(observed);
        change
    }

    /// A range of versions has been replaced by a version: the range is no change then.
    fn resolve(&mut self, observed: &Observed) {
        let application = observed.application.as_ref();
        let annotations = application.and_then(|it| it.metadata.annotations.as_ref());
        let says = |key: &str| annotations.and_then(|all| all.get(key)).map(String::as_str);
        let chart = &mut self.after.chart;
        let (Some(raw), Some(resolved)) = (
            says(ANNOTATION_CHART_VERSION_RAW),
            says(ANNOTATION_CHART_VERSION_RESOLVED),
        ) else {
            return;
        };
        let is_raw = raw == chart.version && raw != resolved;
        if is_raw && says(ANNOTATION_CHART_NAME) == Some(chart.name.as_str()) {
            self.notes.push(format!(
                "version {raw} was {resolved} the last time; it is looked up again"
            ));
            resolved.clone_into(&mut chart.version);
        }
    }

    fn limit(&mut self, observed: &Observed, wanted: &Application) {
        let application = observed.application.as_ref();
        let before = application.and_then(|it| it.spec.revision_history_limit);
        if let Some(limit) = wanted.spec.revision_history_limit
            && before != Some(limit)
        {
            self.changes_limit = true;
            let before = before.map_or_else(|| "none".to_owned(), |limit| limit.to_string());
            self.notes
                .push(format!("revisionHistoryLimit: {before} -> {limit}"));
        }
    }

    /// The future of its Releases.
    fn releases(&mut self, observed: Option<&Observed>) {
        let hash = environment_hash(&self.after);
        let notes = &mut self.notes;
        let history = observed.map(Observed::known_history);
        let newest = history.as_ref().and_then(History::newest);
        let Some(newest) = newest else {
            notes.push(format!("it makes the first release, of hash {hash}"));
            return;
        };
        let name = newest.name();
        if newest.hash() == hash {
            notes.push(format!(
                "release {name} is what it asks for: no new release"
            ));
            return;
        }
        let generation = newest.generation.saturating_add(1);
        notes.push(format!(
            "it makes a release of generation {generation} and hash {hash}"
        ));
        if !newest.is_complete() {
            notes.push(format!(
                "release {name}, which is being rolled out, is given up"
            ));
        }
        let members = history.as_ref().map_or(&[][..], History::members);
        let same = members.iter().rev().find(|member| member.hash() == hash);
        notes.push(match same {
            Some(same) => format!(
                "release {} (generation {}) had the same: its manifests are shown",
                same.name(),
                same.generation
            ),
            None => "its manifests are rendered when it is applied".to_owned(),
        });
        self.known = same.map(|same| (name.to_owned(), same.name().to_owned()));
    }

    fn fate(&self) -> Fate {
        match self.before {
            None => Fate::Added,
            Some(before) if *before != self.after || self.changes_limit => Fate::Changed,
            Some(_) => Fate::Unchanged,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::applications::fixtures::{mid_rollout, observed};

    fn application(observed: &Observed) -> Application {
        observed.application.clone().unwrap()
    }

    #[test]
    fn what_is_there_already_makes_no_release() {
        let observed = observed(&mid_rollout());
        let change = Change::of(Some(&observed), &application(&observed));
        assert_eq!(change.fate(), Fate::Unchanged);
        assert_eq!(
            change.notes,
            ["release shop-new-0 is what it asks for: no new release"]
        );
    }

    #[test]
    fn a_range_is_no_change() {
        let observed = observed(&mid_rollout());
        let mut wanted = application(&observed);
        wanted.spec.template.chart.version = "~1".to_owned();
        let change = Change::of(Some(&observed), &wanted);
        assert_eq!(change.fate(), Fate::Unchanged);
        assert_eq!(
            change.notes[0],
            "version ~1 was 1.1.0 the last time; it is looked up again"
        );
        wanted.spec.template.chart.name = "other".to_owned();
        let change = Change::of(Some(&observed), &wanted);
        assert_eq!(change.after.chart.version, "~1");
        assert_eq!(change.fate(), Fate::Changed);
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
            change.known,
            Some(("shop-new-0".to_owned(), "shop-old-0".to_owned()))
        );
        insta::assert_snapshot!(change.notes.join("\n"));
    }

    #[test]
    fn a_new_application_is_added() {
        let wanted = application(&observed(&mid_rollout()));
        let change = Change::of(None, &wanted);
        assert_eq!(change.fate(), Fate::Added);
        assert!(change.notes[0].starts_with("it makes the first release"));
    }
}
