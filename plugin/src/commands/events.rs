//! `events`: events about deployments, their revisions and the objects of those.

mod render;

use std::{cell::RefCell, collections::BTreeMap};

use baton_view::{
    lists::{List, Lists, MissingObject, NoAnswer, Question, join_all},
    object::text_at,
    selection::Selection,
};
use clap::Args;
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::Exit;
use crate::{
    args::GlobalArgs,
    cluster::lists::{self, once},
    connect::Cluster,
    error::Error,
    events::Subjects,
    output::{
        Output,
        format::{Format, objects},
        report,
    },
    selection::SelectionArgs,
    wait::follower::Follower,
};
use render::{Event, Stream};

/// Show the events about deployments, all of their revisions, and the objects of those
///
/// Without TARGET, shows those about everything in the namespace. Events are sorted by the time of
/// their last occurrence.
#[derive(Clone, Debug, Args)]
pub(crate) struct EventsArgs {
    #[command(flatten)]
    selection: SelectionArgs,

    /// Continue with new events until Ctrl-C
    #[arg(long, short)]
    watch: bool,

    /// Format for programs, instead of a table
    #[arg(
        long,
        short,
        value_name = "FORMAT",
        value_enum,
        conflicts_with = "watch"
    )]
    output: Option<Format>,
}

/// Shows the events once, or continues with new ones.
pub(crate) async fn run(args: &EventsArgs, global: &GlobalArgs) -> Result<Exit, Error> {
    let (cluster, selection) = args.selection.connect(global).await?;
    let output = global.output();
    let question = EventsOf {
        selection,
        about: RefCell::default(),
    };
    if args.watch {
        return watch(&cluster, question, output).await;
    }
    let found = once(&cluster, &question).await?;
    lists::found(found.missing)?;
    let mut events: Vec<Event> = found.events.into_iter().map(Event::new).collect();
    events.sort_by_key(Event::order);
    match args.output {
        Some(format) => {
            let found: Vec<Value> = events.into_iter().map(|event| event.object).collect();
            output.print(&objects(format, &found, false))?;
        }
        None if events.is_empty() => report("No events found."),
        None => {
            let mut stream = Stream::new(found.is_wide);
            output.print(&stream.add(&events, Timestamp::now(), output))?;
        }
    }
    Ok(Exit::Fine)
}

/// The events about chains.
struct EventsOf {
    selection: Selection,
    /// The objects that events were requested for.
    about: RefCell<Subjects>,
}

struct EventList {
    events: Vec<Value>,
    /// True if the events are of several namespaces.
    is_wide: bool,
    missing: Option<MissingObject>,
}

impl Question for EventsOf {
    type Answer = EventList;

    fn answer(&self, lists: &Lists) -> Result<EventList, NoAnswer> {
        let selected = self.selection.answer(lists)?;
        let mut about = self.about.borrow_mut();
        about.add(lists, &selected.chains)?;
        let sources = about.sources();
        let events = join_all(sources.iter().map(|source| lists.required(source)))?;
        let events = events.into_iter().flat_map(List::objects);
        Ok(EventList {
            events: events.filter(|event| about.has(event)).cloned().collect(),
            is_wide: self.selection.all_namespaces || about.is_wide(),
            missing: selected.missing,
        })
    }
}

async fn watch(cluster: &Cluster, question: EventsOf, output: Output) -> Result<Exit, Error> {
    let mut follower = Follower::start(cluster, question).await?;
    lists::found(follower.last().missing.clone())?;
    let mut stream = Stream::new(follower.last().is_wide);
    let mut printed: BTreeMap<String, String> = BTreeMap::new();
    let mut reported: Option<String> = None;
    loop {
        follower.next().await;
        let present = &follower.last().events;
        let mut new: Vec<Event> = present
            .iter()
            .filter(|event| printed.get(uid(event)).map(String::as_str) != Some(version(event)))
            .map(|event| Event::new(event.clone()))
            .collect();
        new.sort_by_key(Event::order);
        output.print(&stream.add(&new, Timestamp::now(), output))?;
        printed = present
            .iter()
            .map(|event| (uid(event).to_owned(), version(event).to_owned()))
            .collect();
        if let Some(text) = follower.trouble()
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
