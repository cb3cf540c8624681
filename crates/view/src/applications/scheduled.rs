//! Releases by the clusters that they are scheduled on.

use std::collections::{BTreeMap, BTreeSet};

use baton_apis::{
    Release,
    constants::shipper::{ANNOTATION_RELEASE_CLUSTERS, LABEL_APP},
    kinds,
};
use baton_releases::{
    application::history::History,
    scheduling::{annotation, chosen},
};
use serde::Serialize;

use super::observed::parsed;
use crate::lists::{ListRequest, Lists, NoAnswer, Question};

/// The question for all Releases.
#[derive(Clone, Debug)]
pub struct AllReleases {
    /// The namespace; `None` for all namespaces.
    pub namespace: Option<String>,
}

/// Releases with their order in each Application.
#[derive(Clone, Debug, Default)]
pub struct Releases(Vec<Release>);

/// A Release with its clusters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ScheduledRelease {
    /// Namespace of the Release.
    pub namespace: String,
    /// Name of the Release.
    pub name: String,
    /// The clusters of its annotation, sorted; empty if it is not scheduled.
    pub clusters: Vec<String>,
}

/// A Release that loses clusters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    /// The Release, with the clusters that it has.
    pub release: ScheduledRelease,
    /// Version of the Release that was read.
    pub resource_version: Option<String>,
    /// The annotation without the removed clusters.
    pub annotation: String,
}

/// The effect of removing clusters from the annotations of Releases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removals {
    /// The Releases that lose clusters.
    pub changed: Vec<Removal>,
    /// Contenders and incumbents that would have no cluster left. They stay as they are: without
    /// clusters, the manager would choose others at once, without a rollout.
    pub kept: Vec<ScheduledRelease>,
}

impl Question for AllReleases {
    type Answer = Releases;

    fn answer(&self, lists: &Lists) -> Result<Releases, NoAnswer> {
        let path = kinds::RELEASE.path(self.namespace.as_deref());
        let list = lists.required(&ListRequest::all(path))?;
        Ok(Releases(parsed(list, lists).map(|(_, it)| it).collect()))
    }
}

impl Releases {
    /// All Releases that `is_meant` holds for, by namespace and name.
    fn select(&self, is_meant: impl Fn(&Release) -> bool) -> Vec<ScheduledRelease> {
        let releases = self.0.iter().filter(|release| is_meant(release));
        let found: BTreeSet<_> = releases.map(ScheduledRelease::of).collect();
        found.into_iter().collect()
    }

    /// All Releases, or those that are scheduled only on these clusters.
    pub fn all(&self, clusters: Option<&[String]>) -> Vec<ScheduledRelease> {
        self.select(|release| is_within(release, clusters))
    }

    /// As [`Releases::all`], but of each Application only the newest Release.
    pub fn contenders(&self, clusters: Option<&[String]>) -> Vec<ScheduledRelease> {
        let contenders: BTreeSet<_> = self
            .histories()
            .filter_map(|history| Some(owned_key(&history.newest()?.release)))
            .collect();
        self.select(|it| contenders.contains(&owned_key(it)) && is_within(it, clusters))
    }

    /// The effect of removing clusters from all annotations.
    pub fn without(&self, clusters: &[String]) -> Removals {
        let serving: BTreeSet<_> = self
            .histories()
            .flat_map(|history| {
                [history.newest(), history.incumbent()].map(|it| Some(owned_key(&it?.release)))
            })
            .flatten()
            .collect();
        let mut removals = Removals::default();
        for release in &self.0 {
            let scheduled = ScheduledRelease::of(release);
            let (removed, left): (Vec<_>, Vec<_>) = scheduled
                .clusters
                .iter()
                .cloned()
                .partition(|it| clusters.contains(it));
            if removed.is_empty() {
                continue;
            }
            if left.is_empty() && serving.contains(&owned_key(release)) {
                removals.kept.push(scheduled);
            } else {
                removals.changed.push(Removal {
                    release: scheduled,
                    resource_version: release.metadata.resource_version.clone(),
                    annotation: annotation(&left),
                });
            }
        }
        removals.changed.sort_by(|a, b| a.release.cmp(&b.release));
        removals.kept.sort();
        removals
    }

    /// The Releases of each Application in order.
    fn histories(&self) -> impl Iterator<Item = History<'_>> {
        let mut applications: BTreeMap<_, Vec<&Release>> = BTreeMap::new();
        for release in &self.0 {
            let labels = release.metadata.labels.as_ref();
            let application = labels.and_then(|all| all.get(LABEL_APP));
            let of = (release.metadata.namespace.as_deref(), application);
            applications.entry(of).or_default().push(release);
        }
        applications.into_values().map(History::numbered)
    }
}

impl ScheduledRelease {
    fn of(release: &Release) -> Self {
        let [namespace, name] = key(release).map(str::to_owned);
        let clusters = clusters(release).into_iter().map(str::to_owned).collect();
        Self {
            namespace,
            name,
            clusters,
        }
    }
}

/// Namespace and name of a Release.
fn key(release: &Release) -> [&str; 2] {
    let metadata = &release.metadata;
    [&metadata.namespace, &metadata.name].map(|it| it.as_deref().unwrap_or_default())
}

fn owned_key(release: &Release) -> [String; 2] {
    key(release).map(str::to_owned)
}

/// The clusters of a Release, sorted.
fn clusters(release: &Release) -> Vec<&str> {
    let annotations = release.metadata.annotations.as_ref();
    let text = annotations.and_then(|all| all.get(ANNOTATION_RELEASE_CLUSTERS));
    chosen(text.map_or("", String::as_str))
}

/// True if a Release is scheduled, on these clusters only; `None` stands for any clusters, and for
/// Releases that are not scheduled.
fn is_within(release: &Release, allowed: Option<&[String]>) -> bool {
    let Some(allowed) = allowed else { return true };
    let clusters = clusters(release);
    !clusters.is_empty()
        && clusters
            .iter()
            .all(|it| allowed.iter().any(|name| name == it))
}

#[cfg(test)]
mod tests {
    use baton_apis::constants::shipper::ANNOTATION_RELEASE_GENERATION;
    use serde_json::{Value, json};

    use super::*;

    /// Release `name` of the Application `app`, with a generation and clusters.
    fn release(app: &str, name: &str, generation: i64, complete: bool, clusters: &str) -> Value {
        json!({
            "metadata": {
                "namespace": "shop", "name": name, "resourceVersion": "7",
                "labels": { LABEL_APP: app },
                "annotations": {
                    ANNOTATION_RELEASE_GENERATION: generation.to_string(),
                    ANNOTATION_RELEASE_CLUSTERS: clusters,
                },
            },
            "spec": {},
            "status": { "conditions": [{
                "type": "Complete", "status": if complete { "True" } else { "False" },
            }] },
        })
    }

    fn releases() -> Releases {
        let all = [
            release("web", "web-0", 0, true, "old"),
            release("web", "web-1", 1, true, "old,eu"),
            release("web", "web-2", 2, false, "old"),
            release("api", "api-0", 0, true, "eu,us"),
            release("new", "new-0", 0, false, ""),
        ];
        Releases(all.map(|it| serde_json::from_value(it).unwrap()).into())
    }

    fn names(found: &[ScheduledRelease]) -> Vec<&str> {
        found.iter().map(|it| it.name.as_str()).collect()
    }

    fn list(names: &[&str]) -> Vec<String> {
        names.iter().map(|it| (*it).to_owned()).collect()
    }

    #[test]
    fn releases_are_selected_by_their_clusters() {
        let all = releases();
        for (clusters, of_all, contenders) in [
            (
                None,
                vec!["api-0", "new-0", "web-0", "web-1", "web-2"],
                vec!["api-0", "new-0", "web-2"],
            ),
            (Some(vec!["old"]), vec!["web-0", "web-2"], vec!["web-2"]),
            (Some(vec!["eu", "us"]), vec!["api-0"], vec!["api-0"]),
            (Some(vec!["eu"]), vec![], vec![]),
            (Some(vec![]), vec![], vec![]),
        ] {
            let clusters = clusters.map(|it| list(&it));
            assert_eq!(names(&all.all(clusters.as_deref())), of_all);
            assert_eq!(names(&all.contenders(clusters.as_deref())), contenders);
        }
    }

    #[test]
    fn releases_that_serve_keep_their_last_cluster() {
        let changed = |removals: &Removals| {
            let changed = removals.changed.iter();
            let parts = changed.map(|it| (it.release.name.clone(), it.annotation.clone()));
            parts.collect::<Vec<_>>()
        };
        let removals = releases().without(&list(&["old"]));
        let pair = |name: &str, left: &str| (name.to_owned(), left.to_owned());
        assert_eq!(changed(&removals), [pair("web-0", ""), pair("web-1", "eu")]);
        assert_eq!(names(&removals.kept), ["web-2"]);
        assert_eq!(removals.changed[0].resource_version.as_deref(), Some("7"));
        let removals = releases().without(&list(&["old", "eu"]));
        assert_eq!(changed(&removals), [pair("api-0", "us"), pair("web-0", "")]);
        assert_eq!(names(&removals.kept), ["web-1", "web-2"]);
        assert_eq!(releases().without(&list(&["none"])), Removals::default());
    }
}
