//! `events`: what was reported about deployments, their revisions and the objects of those.

mod render;

use std::collections::{BTreeMap, BTreeSet};

use baton_apis::constants::GROUP;
use baton_engine::{Gvk, delegated::names};
use clap::Args;
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::Exit;
use crate::{
    args::GlobalArgs,
    chain::Chain,
    connect::{Cluster, ListRequest},
    content::{FEW, Slices},
    error::Error,
    live::Watches,
    output::{
        Output,
        format::{Format, objects, text_at},
        report,
    },
    selection::{Selection, SelectionArgs},
};
use render::{Event, Stream};

/// Where the API keeps events about cluster-scoped objects.
const CLUSTER_NAMESPACE: &str = "default";

/// Show the events about deployments, all of their revisions, and the objects of those
///
/// Without TARGET, about everything in the namespace. Events are ordered by the time at which they were last seen.
#[derive(Clone, Debug, Args)]
pub(crate) struct EventsArgs {
    #[command(flatten)]
    selection: SelectionArgs,

    /// Go on with new events until Ctrl-C
    #[arg(long, short)]
    watch: bool,

    /// Print for programs
    #[arg(
        long,
        short,
        value_name = "FORMAT",
        value_enum,
        conflicts_with = "watch"
    )]
    output: Option<Format>,
}

/// Shows them once, or as they come.
pub(crate) async fn run(args: &EventsArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    let selection = args.selection.selection()?;
    let cluster = global.connect().await?;
    let output = global.output();
    let chains = selection.read(&cluster).await?;
    let mut about = Subjects::default();
    about.add(&cluster, &chains).await?;
    if args.watch {
        return watch(&cluster, &selection, about, output).await;
    }
    let mut events = Vec::new();
    for source in about.sources() {
        let found = cluster.list_at(&source.path, &source.query).await?;
        events.extend(found.into_iter().filter(|event| about.has(event)));
    }
    let mut events: Vec<Event> = events.into_iter().map(Event::new).collect();
    events.sort_by_key(Event::order);
    match args.output {
        Some(format) => {
            let found: Vec<Value> = events.into_iter().map(|event| event.object).collect();
            output.print(&objects(format, &found, false))?;
        }
        None if events.is_empty() => report("No events found."),
        None => {
            let mut stream = Stream::new(selection.all_namespaces || about.is_wide());
            output.print(&stream.add(&events, Timestamp::now(), output))?;
        }
    }
    Ok(Exit::Fine)
}

async fn watch(
    cluster: &Cluster,
    selection: &Selection,
    mut about: Subjects,
    output: Output,
) -> Result<Exit, Error> {
    let mut watches = Watches::new(cluster);
    let mut stream = Stream::new(selection.all_namespaces || about.is_wide());
    let mut printed: BTreeMap<String, String> = BTreeMap::new();
    let mut reported: Option<String> = None;
    loop {
        let chains = selection.sources(cluster);
        let events = about.sources();
        watches.set(chains.iter().cloned().chain(events.iter().cloned()));
        watches.changed().await;
        let known = about.len();
        about
            .add(cluster, &selection.watched(cluster, &watches))
            .await?;
        if about.len() > known && about.sources() != events {
            continue;
        }
        let present = events.iter().flat_map(|source| watches.objects(source));
        let present: Vec<&Value> = present.filter(|event| about.has(event)).collect();
        let mut new: Vec<Event> = present
            .iter()
            .filter(|event| printed.get(uid(event)).map(String::as_str) != Some(version(event)))
            .map(|event| Event::new((*event).clone()))
            .collect();
        new.sort_by_key(Event::order);
        output.print(&stream.add(&new, Timestamp::now(), output))?;
        printed = present
            .iter()
            .map(|event| (uid(event).to_owned(), version(event).to_owned()))
            .collect();
        let mut sources = chains.iter().chain(&events);
        if let Some(text) = sources.find_map(|source| watches.trouble(source))
            && reported.as_deref() != Some(text)
        {
            report(&format!("warning: not up to date: {text}"));
            reported = Some(text.to_owned());
        }
    }
}

fn uid(event: &Value) -> &str {
    text_at(event, "/metadata/uid")
}

fn version(event: &Value) -> &str {
    text_at(event, "/metadata/resourceVersion")
}

/// What events are looked for. It only grows: events outlive what they are about.
#[derive(Debug, Default)]
struct Subjects {
    /// Group, kind, namespace and name.
    keys: BTreeSet<(String, String, String, String)>,
    /// Revisions whose content was added, by UID.
    revisions: BTreeSet<String>,
}

impl Subjects {
    /// Adds deployments, revisions, and the objects of revisions.
    async fn add(&mut self, cluster: &Cluster, chains: &[Chain]) -> Result<(), Error> {
        for deployment in chains.iter().filter_map(|chain| chain.deployment.as_ref()) {
            let namespace = deployment.namespace();
            self.insert(GROUP, deployment.kind.name(), namespace, deployment.name());
        }
        let revisions = chains.iter().flat_map(|chain| &chain.revisions);
        let new: Vec<_> = revisions
            .filter(|revision| !self.revisions.contains(revision.uid()))
            .collect();
        let slices = Slices::read(cluster, new.iter().copied()).await?;
        for revision in new {
            let (kind, namespace) = (revision.kind.name(), revision.namespace());
            self.insert(GROUP, kind, namespace, revision.name());
            for phase in slices.content(revision).phases {
                if phase.is_delegated() {
                    for name in names(revision.name(), &phase.name) {
                        self.insert(GROUP, &format!("{kind}Phase"), namespace, &name);
                    }
                }
                for object in phase.objects {
                    let key = object.key;
                    self.keys
                        .insert((key.group, key.kind, key.namespace, key.name));
                }
            }
            self.revisions.insert(revision.uid().to_owned());
        }
        Ok(())
    }

    fn insert(&mut self, group: &str, kind: &str, namespace: Option<&str>, name: &str) {
        self.keys.insert((
            group.to_owned(),
            kind.to_owned(),
            namespace.unwrap_or_default().to_owned(),
            name.to_owned(),
        ));
    }

    fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether an event is about one of them.
    fn has(&self, event: &Value) -> bool {
        let text = |field: &str| event["involvedObject"][field].as_str().unwrap_or_default();
        let gvk = Gvk::new(text("apiVersion"), text("kind"));
        self.keys.contains(&(
            gvk.group,
            gvk.kind,
            text("namespace").to_owned(),
            text("name").to_owned(),
        ))
    }

    fn namespaces(&self) -> BTreeSet<&str> {
        let namespaces = self.keys.iter().map(|(_, _, namespace, _)| namespace);
        namespaces
            .map(|namespace| match namespace.as_str() {
                "" => CLUSTER_NAMESPACE,
                namespace => namespace,
            })
            .collect()
    }

    /// Whether the events are in more than one namespace.
    fn is_wide(&self) -> bool {
        self.namespaces().len() > 1
    }

    /// Where their events are: per namespace, or all at once where there are many.
    fn sources(&self) -> Vec<ListRequest> {
        let namespaces = self.namespaces();
        if namespaces.len() > FEW {
            return vec![ListRequest::all("/api/v1/events")];
        }
        namespaces
            .into_iter()
            .map(|namespace| ListRequest::all(format!("/api/v1/namespaces/{namespace}/events")))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use baton_apis::constants::API_VERSION;
    use serde_json::json;

    use super::*;

    #[test]
    fn events_are_matched_by_what_they_are_about() {
        let mut about = Subjects::default();
        about.insert("apps", "Deployment", Some("shop"), "web");
        about.insert(GROUP, "ClusterObjectSet", None, "infra-1");
        let event = |api_version: &str, kind: &str, namespace: &str, name: &str| {
            json!({"involvedObject": {
                "apiVersion": api_version, "kind": kind, "namespace": namespace, "name": name,
            }})
        };
        assert!(about.has(&event("apps/v1", "Deployment", "shop", "web")));
        assert!(about.has(&event("apps/v1beta1", "Deployment", "shop", "web")));
        assert!(!about.has(&event("apps/v1", "Deployment", "other", "web")));
        assert!(!about.has(&event("v1", "Deployment", "shop", "web")));
        let mut cluster = event(API_VERSION, "ClusterObjectSet", "", "infra-1");
        assert!(about.has(&cluster));
        cluster["involvedObject"]["namespace"] = Value::Null;
        assert!(about.has(&cluster));
    }

    #[test]
    fn events_are_looked_for_where_the_api_keeps_them() {
        let mut about = Subjects::default();
        about.insert("", "ConfigMap", Some("shop"), "a");
        about.insert("", "Namespace", None, "shop");
        let paths = |about: &Subjects| {
            let sources = about.sources().into_iter();
            sources.map(|source| source.path).collect::<Vec<_>>()
        };
        assert_eq!(
            paths(&about),
            [
                "/api/v1/namespaces/default/events",
                "/api/v1/namespaces/shop/events"
            ]
        );
        for n in 0..FEW {
            about.insert("", "ConfigMap", Some(&format!("n{n}")), "a");
        }
        assert_eq!(paths(&about), ["/api/v1/events"]);
    }
}
