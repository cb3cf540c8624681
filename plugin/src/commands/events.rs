//! `events`: what was reported about deployments, their revisions and the objects of those.

mod render;

use std::collections::BTreeMap;

use baton_view::object::text_at;
use clap::Args;
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::Exit;
use crate::{
    args::GlobalArgs,
    cluster::watches::Watches,
    connect::Cluster,
    error::Error,
    events::Subjects,
    output::{
        Output,
        format::{Format, objects},
        report,
    },
    selection::{Selection, SelectionArgs},
};
use render::{Event, Stream};

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
