//! The effect of a changed spec on an Application.

use baton_apis::{
    Application, ReleaseEnvironment,
    constants::shipper::{
        ANNOTATION_CHART_NAME, ANNOTATION_CHART_VERSION_RAW, ANNOTATION_CHART_VERSION_RESOLVED,
    },
};
use baton_releases::{application::history::History, hash::environment_hash};

use super::observed::Observed;
use crate::diff::{
    note::{ObjectNote, ReleaseNote},
    outcome::DiffOutcome,
};

/// The effect of a changed spec on an Application.
#[derive(Debug)]
pub struct Change<'a> {
    /// The present environment.
    pub before: Option<&'a ReleaseEnvironment>,
    /// The wanted environment; a version range of the chart is resolved if the Application recorded
    /// the version.
    pub after: ReleaseEnvironment,
    /// Notes on the effect.
    pub notes: Vec<ObjectNote>,
    /// True if the revision history limit changes.
    changes_limit: bool,
    /// The newest Release, and an older one with the wanted environment, whose manifests exist
    /// already.
    pub rendered: Option<(String, String)>,
}

impl<'a> Change<'a> {
    /// Compares the wanted Application with the present one, if it exists.
    #[must_use]
    pub fn of(observed: Option<&'a Observed>, wanted: &Application) -> Self {
        let before = observed.and_then(Observed::template);
        let mut change = Self {
            before,
            after: wanted.spec.template.clone(),
            notes: Vec::new(),
            changes_limit: false,
            rendered: None,
        };
        if let Some(observed) = observed {
            change.resolve(observed);
            change.limit(observed, wanted);
        }
        change.releases(observed);
        change
    }

    /// Replaces a version range by its resolved version, so that the range itself is no difference.
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
            self.notes.push(ObjectNote::Release(ReleaseNote::Resolved(
                raw.to_owned(),
                resolved.to_owned(),
            )));
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
            self.notes.push(ObjectNote::Changed {
                field: "revisionHistoryLimit",
                from: before.iter().map(ToString::to_string).collect(),
                to: vec![limit.to_string()],
            });
        }
    }

    /// Adds notes on the effect on the Releases.
    fn releases(&mut self, observed: Option<&Observed>) {
        let hash = environment_hash(&self.after);
        let mut note = |note| self.notes.push(ObjectNote::Release(note));
        let history = observed.map(Observed::known_history);
        let Some(newest) = history.as_ref().and_then(History::newest) else {
            return note(ReleaseNote::First(hash));
        };
        let name = newest.name().to_owned();
        if newest.hash() == hash {
            return note(ReleaseNote::Same(name));
        }
        let members = history.as_ref().map_or(&[][..], History::members);
        let same = members.iter().rev().find(|member| member.hash() == hash);
        note(ReleaseNote::New(newest.generation.saturating_add(1), hash));
        if !newest.is_complete() {
            note(ReleaseNote::GivenUp(name.clone()));
        }
        note(match same {
            Some(same) => ReleaseNote::HadTheSame(same.name().to_owned(), same.generation),
            None => ReleaseNote::NotRendered,
        });
        self.rendered = same.map(|same| (name, same.name().to_owned()));
    }

    /// True if a Release is created whose manifests no Release has yet.
    pub fn is_to_be_rendered(&self) -> bool {
        let mut notes = self.notes.iter();
        notes.any(|note| match note {
            ObjectNote::Release(note) => {
                matches!(note, ReleaseNote::First(_) | ReleaseNote::NotRendered)
            }
            _ => false,
        })
    }

    /// The outcome of the Application.
    pub fn fate(&self) -> DiffOutcome {
        match self.before {
            None => DiffOutcome::Added,
            Some(before) if *before != self.after || self.changes_limit => DiffOutcome::Changed,
            Some(_) => DiffOutcome::Unchanged,
        }
    }
}
