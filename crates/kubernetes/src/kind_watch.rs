//! Reports kinds that are added, removed or changed, by a watch on the metadata of custom resource
//! definitions.

use std::{
    collections::BTreeSet,
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
    collection::{Collection, Extent, Unserved},
    definition::{self, PATH},
    discovery::Discovery,
    informers::Informers,
    metadata::Metadata,
    watch::{Event, Failing, WatchSpec, run},
};

/// Pauses before discovery is invalidated again. A new kind is announced before it is served:
/// discovery follows the conditions of the definition after a while, and later where several API
/// servers run.
const RETRIES: [Duration; 4] = [
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_millis(1_500),
    Duration::from_secs(4),
];

/// Limit of the custom resource definitions of a cluster.
const MAX_DEFINITIONS: usize = 20_000;

/// Receives the group whose kinds may have changed.
type Report = Arc<dyn Fn(String) + Send + Sync>;

/// The names of the existing definitions; `None` while they are unknown.
pub(crate) type Names = watch::Sender<Option<BTreeSet<String>>>;

/// Time limit of callers that wait for the first list of definitions.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The name of the definition of a kind that is served in no version, if there is one: objects of
/// the kind may exist nevertheless.
///
/// # Errors
/// If the definitions of the group cannot be read; the text states the cause.
pub(crate) async fn defining(
    client: &Client,
    names: &Names,
    gvk: &Gvk,
) -> Result<Option<String>, String> {
    let mut names = names.subscribe();
    let candidates: Vec<String> = match timeout(TIMEOUT, names.wait_for(Option::is_some)).await {
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

/// True if a definition is that of a kind.
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

/// Watches forever.
pub(crate) async fn watch(
    client: Client,
    discovery: Arc<Discovery>,
    informers: Weak<Informers>,
    names: Arc<Names>,
    report: Report,
) {
    let spec = WatchSpec {
        metadata_only: true,
        max_objects: MAX_DEFINITIONS,
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
        let groups = definitions.changed_by(&event);
        names.send_if_modified(|names| {
            let now = definitions.names();
            let changes = *names != now;
            *names = now;
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

/// The versions of the definitions by name.
struct Definitions {
    definitions: Collection<String, u64>,
    /// True if the definitions may not be listed. Then discovery is the only source.
    is_forbidden: bool,
}

impl Default for Definitions {
    fn default() -> Self {
        Self {
            definitions: Collection::new(Unserved::Unknown),
            is_forbidden: false,
        }
    }
}

impl Definitions {
    /// The names of the definitions, as far as they may be listed; `None` while they are unknown.
    fn names(&self) -> Option<BTreeSet<String>> {
        let is_known = *self.definitions.extent() == Extent::All || self.is_forbidden;
        is_known.then(|| self.definitions.items().keys().cloned().collect())
    }

    /// The groups whose kinds may have changed.
    fn changed_by(&mut self, event: &Event<'_>) -> BTreeSet<String> {
        // Before the first list, no kind counts as absent.
        let was_complete = self.definitions.was_complete();
        let changes = self.definitions.process(event, version);
        self.is_forbidden = match event {
            Event::ListStarted | Event::Listed(_) => self.is_forbidden,
            _ => matches!(event, Event::Forbidden(_)),
        };
        let changes = changes.iter().filter(|_| was_complete);
        changes.filter_map(|change| group(&change.key)).collect()
    }
}

fn version(definition: &RawValue) -> Option<u64> {
    let metadata = Metadata::of(definition.get()).ok()?;
    Some(metadata.version())
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
            let groups = Vec::from_iter(definitions.changed_by(event));
            assert_eq!(groups.join(" "), *expected, "step {at}");
        }
    }

    /// Otherwise a kind whose objects are to be removed would count as one that does not exist.
    #[test]
    fn definitions_are_unknown_if_the_list_fails_but_not_if_forbidden() {
        let mut definitions = Definitions::default();
        let a = definition("as.x.y", 1);
        for (event, expected) in [
            (Event::ListStarted, None),
            (Event::Failed("reset"), None),
            (Event::ListStarted, None),
            (Event::Forbidden("no right"), Some("")),
            (Event::ListStarted, Some("")),
            (Event::Listed(&a), Some("")),
            (
                Event::ListDone {
                    resource_version: 2,
                },
                Some("as.x.y"),
            ),
            // The watch continues where it was.
            (Event::Failed("reset"), Some("as.x.y")),
            (Event::ListStarted, Some("as.x.y")),
            (Event::Failed("reset"), None),
            (Event::ListStarted, None),
            (Event::Forbidden("no right"), Some("as.x.y")),
            (Event::Unserved, None),
        ] {
            definitions.changed_by(&event);
            let names = definitions.names();
            let names = names.map(|names| Vec::from_iter(names).join(" "));
            assert_eq!(names.as_deref(), expected, "{event:?}");
        }
    }
}
