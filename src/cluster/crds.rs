//! Notices kinds that come, go or change, by watching the metadata of custom resource definitions.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::Duration,
};

use kube::Client;
use serde_json::value::RawValue;
use tokio::{sync::mpsc::UnboundedSender, time::sleep};

use super::{
    discovery::Discovery,
    informers::Informers,
    object::Parts,
    target::TargetEvent,
    watch::{Event, WatchSpec, run},
};
use crate::engine::Gvk;

const PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A new kind is announced before it is served: discovery follows the definition's conditions
/// after a while, and more so where several API servers run. So it is asked again some times.
const AGAIN: [Duration; 4] = [
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_millis(1_500),
    Duration::from_secs(4),
];

/// Watches for ever.
pub(crate) async fn watch(
    client: Client,
    discovery: Arc<Discovery>,
    informers: Weak<Informers>,
    events: UnboundedSender<TargetEvent>,
) {
    let spec = WatchSpec {
        path: PATH.to_owned(),
        label_selector: None,
        field_selector: None,
        metadata_only: true,
        page_size: 500,
        resumes: true,
    };
    let mut definitions = Definitions::default();
    run(client, spec, move |event| {
        if let Event::Failed(cause) = event {
            tracing::warn!(
                cause,
                "cannot watch custom resource definitions, trying again"
            );
        }
        for group in definitions.changed_by(&event) {
            tell(&group, &discovery, &informers, &events);
        }
    })
    .await;
}

fn tell(
    group: &str,
    discovery: &Arc<Discovery>,
    informers: &Weak<Informers>,
    events: &UnboundedSender<TargetEvent>,
) {
    tracing::debug!(group, "kinds changed");
    discovery.invalidate(group);
    // The receiver is gone when the manager shuts down.
    let _ = events.send(TargetEvent::KindsChanged {
        group: group.to_owned(),
    });
    let (group, informers) = (group.to_owned(), Weak::clone(informers));
    let (discovery, events) = (Arc::clone(discovery), events.clone());
    tokio::spawn(async move {
        for pause in AGAIN {
            sleep(pause).await;
            let awaited = informers
                .upgrade()
                .is_some_and(|informers| informers.awaited(&group));
            if !awaited {
                return;
            }
            discovery.invalidate(&group);
            let _ = events.send(TargetEvent::KindsChanged {
                group: group.clone(),
            });
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
            Event::Bookmark(_) | Event::Unserved | Event::Failed(_) => {}
        }
        let mut groups: Vec<String> = names.iter().filter_map(|name| group(name)).collect();
        groups.sort_unstable();
        groups.dedup();
        groups
    }
}

fn read(definition: &RawValue) -> Option<(String, u64)> {
    let gvk = Gvk::new("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    let parts = Parts::of(definition.get(), &gvk).ok()?;
    Some((parts.name.into_owned(), parts.resource_version))
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
    fn tells_groups_that_changed() {
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
