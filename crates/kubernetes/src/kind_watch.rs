//! Notices kinds that come, go or change, by watching the metadata of custom resource definitions.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Weak},
    time::Duration,
};

use baton_engine::Gvk;
use kube::Client;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use crate::{
    definition::{self, PATH},
    discovery::Discovery,
    informers::Informers,
    metadata::Metadata,
    watch::{Event, Failing, WatchSpec, run},
};

/// A new kind is announced before it is served: discovery follows the definition's conditions
/// after a while, and more so where several API servers run. So it is invalidated a few times.
const RETRIES: [Duration; 4] = [
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_millis(1_500),
    Duration::from_secs(4),
];

/// Takes the group whose kinds may have changed.
type Report = Arc<dyn Fn(String) + Send + Sync>;

/// The names of the definitions that exist; `None` until that is known.
pub(crate) type Names = watch::Sender<Option<BTreeSet<String>>>;

/// How long the first list of definitions may take for those who need it.
const PATIENCE: Duration = Duration::from_secs(10);

/// The definition of a kind that is served in no version, if there is one: its objects may exist nevertheless.
///
/// # Errors
/// When the definitions of its group cannot be read; the text says why.
pub(crate) async fn defining(
    client: &Client,
    names: &Names,
    gvk: &Gvk,
) -> Result<Option<String>, String> {
    let mut names = names.subscribe();
    let candidates: Vec<String> = match timeout(PATIENCE, names.wait_for(Option::is_some)).await {
        Ok(Ok(names)) => names
            .iter()
            .flatten()
            .filter(|name| group(name).is_some_and(|group| group == gvk.group))
            .cloned()
            .collect(),
        _ => return Err("custom resource definitions cannot be listed".to_owned()),
    };
    for name in candidates {
        if defines(client, &name, &gvk.kind).await? {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// Whether a definition is that of a kind.
async fn defines(client: &Client, name: &str, kind: &str) -> Result<bool, String> {
    #[derive(Deserialize)]
    struct Definition {
        spec: Spec,
    }
    #[derive(Deserialize)]
    struct Spec {
        names: KindNames,
    }
    #[derive(Deserialize)]
    struct KindNames {
        kind: String,
    }
    let Some(definition) = definition::read(client, name).await? else {
        return Ok(false);
    };
    serde_json::from_slice::<Definition>(&definition)
        .map(|definition| definition.spec.names.kind == kind)
        .map_err(|error| format!("reading CustomResourceDefinition {name}: {error}"))
}

/// Watches for ever.
pub(crate) async fn watch(
    client: Client,
    discovery: Arc<Discovery>,
    informers: Weak<Informers>,
    names: Arc<Names>,
    report: Report,
) {
    let spec = WatchSpec {
        metadata_only: true,
        ..WatchSpec::new(PATH.to_owned())
    };
    let mut definitions = Definitions::default();
    let mut failing = Failing::default();
    run(client, spec, move |event| {
        if let Some(cause) = failing.begins(&event) {
            tracing::warn!(
                cause,
                "cannot watch custom resource definitions, trying again"
            );
        }
        let is_unknown = matches!(event, Event::Failed(_) | Event::Forbidden(_));
        let groups = definitions.changed_by(&event);
        names.send_if_modified(|names| {
            // Where nobody may list them, what discovery says has to do.
            let now = (definitions.listed || is_unknown).then(|| definitions.names());
            let changes = now.is_some() && *names != now && (definitions.listed || names.is_none());
            if changes {
                *names = now;
            }
            changes
        });
        for group in groups {
            announce(group, &discovery, &informers, &report);
        }
    })
    .await;
}

fn announce(
    group: String,
    discovery: &Arc<Discovery>,
    informers: &Weak<Informers>,
    report: &Report,
) {
    tracing::debug!(group, "kinds changed");
    discovery.invalidate(&group);
    report(group.clone());
    let (discovery, informers) = (Arc::clone(discovery), Weak::clone(informers));
    let report = Arc::clone(report);
    tokio::spawn(async move {
        for pause in RETRIES {
            sleep(pause).await;
            let awaited = informers
                .upgrade()
                .is_some_and(|informers| informers.awaited(&group));
            if !awaited {
                return;
            }
            discovery.invalidate(&group);
            report(group.clone());
        }
    });
}

/// The definitions by name, each with a version.
#[derive(Default)]
struct Definitions {
    known: HashMap<String, u64>,
    listing: HashMap<String, u64>,
    listed: bool,
}

impl Definitions {
    fn names(&self) -> BTreeSet<String> {
        self.known.keys().cloned().collect()
    }

    /// The groups whose kinds may have changed.
    fn changed_by(&mut self, event: &Event<'_>) -> Vec<String> {
        let mut names = Vec::new();
        match event {
            Event::ListStarted => self.listing.clear(),
            Event::Listed(definition) => self.listing.extend(read(definition)),
            Event::ListDone { .. } => {
                let before = std::mem::replace(&mut self.known, std::mem::take(&mut self.listing));
                // Nothing was believed before the first list.
                if self.listed {
                    let gone = before.keys().filter(|name| !self.known.contains_key(*name));
                    let new = self.known.iter().filter(|(name, version)| {
                        before.get(*name).is_none_or(|before| before != *version)
                    });
                    names.extend(gone.cloned());
                    names.extend(new.map(|(name, _)| name.clone()));
                }
                self.listed = true;
            }
            Event::Upsert(definition) => {
                if let Some((name, version)) = read(definition)
                    && self.known.insert(name.clone(), version) != Some(version)
                {
                    names.push(name);
                }
            }
            Event::Deleted(definition) => {
                if let Some((name, _)) = read(definition) {
                    self.known.remove(&name);
                    names.push(name);
                }
            }
            Event::Bookmark(_) | Event::Unserved | Event::Failed(_) | Event::Forbidden(_) => {}
        }
        let mut groups: Vec<String> = names.iter().filter_map(|name| group(name)).collect();
        groups.sort_unstable();
        groups.dedup();
        groups
    }
}

fn read(definition: &RawValue) -> Option<(String, u64)> {
    let metadata = Metadata::of(definition.get()).ok()?;
    Some((metadata.name.to_string(), metadata.version()))
}

/// A definition is named `<plural>.<group>`; the API server insists on it.
fn group(name: &str) -> Option<String> {
    name.split_once('.').map(|(_, group)| group.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(name: &str, version: u64) -> Box<RawValue> {
        let text = format!(r#"{{"metadata":{{"name":"{name}","resourceVersion":"{version}"}}}}"#);
        RawValue::from_string(text).unwrap()
    }

    #[test]
    fn groups_that_changed_are_found() {
        let mut definitions = Definitions::default();
        let a = definition("as.x.y", 1);
        let a2 = definition("as.x.y", 2);
        let b = definition("bs.z", 3);
        let c = definition("cs.x.y", 4);
        let steps = [
            (Event::ListStarted, ""),
            (Event::Listed(&a), ""),
            (
                Event::ListDone {
                    resource_version: 2,
                },
                "",
            ),
            (Event::Upsert(&a), ""),
            (Event::Upsert(&a2), "x.y"),
            (Event::Upsert(&b), "z"),
            (Event::Deleted(&b), "z"),
            (Event::Upsert(&b), "z"),
            (Event::ListStarted, ""),
            (Event::Listed(&a), ""),
            (Event::ListStarted, ""),
            (Event::Listed(&a2), ""),
            (Event::Listed(&c), ""),
            (
                Event::ListDone {
                    resource_version: 9,
                },
                "x.y z",
            ),
            (Event::Unserved, ""),
        ];
        for (at, (event, expected)) in steps.iter().enumerate() {
            assert_eq!(
                definitions.changed_by(event).join(" "),
                *expected,
                "step {at}"
            );
        }
    }
}
