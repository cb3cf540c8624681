//! The events about a chain and its objects.

use baton_apis::constants::GROUP;
use baton_text::output::Paint;
use baton_view::{
    chain::Chain,
    events::{Occurrence, Subjects},
    lists::{List, Lists, NoAnswer, join_all},
    object::text_at,
    tree::ChainPicture,
};
use k8s_openapi::jiff::Timestamp;
use maud::{Markup, html};
use serde_json::{Value, json};

use crate::html::{Text, ago, badge, headings, table};

const HEADINGS: [&str; 5] = ["Last seen", "Times", "Reason", "Object", "Message"];

/// The number of events that are shown.
const MAX_EVENTS: usize = 30;

/// The events about the objects of a chain, or the reason that they cannot be read.
pub(crate) fn events(
    picture: &ChainPicture,
    chain: &Chain,
    lists: &Lists,
) -> Result<Result<Vec<Value>, String>, NoAnswer> {
    let mut about = Subjects::default();
    if let Some(deployment) = &chain.deployment {
        let namespace = deployment.namespace();
        about.insert(GROUP, deployment.kind.name, namespace, deployment.name());
    }
    for revision in &chain.revisions {
        about.add_revision(revision);
    }
    let phases = picture
        .revisions
        .iter()
        .flat_map(|it| it.phases.iter().flatten());
    for object in phases.flat_map(|phase| &phase.objects) {
        let namespace = Some(object.namespace.as_str()).filter(|it| !it.is_empty());
        about.insert(&object.group, &object.kind, namespace, &object.name);
    }
    let sources = about.sources();
    let lists = join_all(sources.iter().map(|source| lists.optional(source)))?;
    if let Some(why) = lists.iter().find_map(|list| list.trouble.clone()) {
        return Ok(Err(why));
    }
    let events = lists.into_iter().flat_map(List::objects);
    Ok(Ok(events
        .filter(|event| about.has(event))
        .cloned()
        .collect()))
}

/// Removes the fields of events that are not shown: a namespace can have many.
pub(crate) fn trim(object: &mut Value) {
    if text_at(object, "/involvedObject/kind").is_empty() {
        return;
    }
    let metadata = &object["metadata"];
    object["metadata"] = json!({
        "name": metadata["name"], "namespace": metadata["namespace"],
        "creationTimestamp": metadata["creationTimestamp"],
    });
}

/// The newest events, the newest first.
pub(crate) fn section(events: &Result<Vec<Value>, String>, now: Timestamp) -> Markup {
    let rows = match events {
        Ok(events) => rows(events, now),
        Err(why) => {
            return html! {
                section #events { p.message { "Events cannot be read: " (Text(why)) } }
            };
        }
    };
    html! {
        section #events {
            @if !rows.is_empty() {
                h2 #events-title { "Events" }
                (table("events", "events-title", &headings(HEADINGS), &rows))
            }
        }
    }
}

fn rows(events: &[Value], now: Timestamp) -> Vec<Markup> {
    let mut sorted: Vec<(Occurrence, &Value)> = events
        .iter()
        .map(|event| (Occurrence::of(event), event))
        .collect();
    sorted.sort_by_key(|(seen, event)| (seen.last, text_at(event, "/metadata/name")));
    let newest = sorted.iter().rev().take(MAX_EVENTS);
    newest
        .map(|(seen, event)| {
            let text = |pointer: &str| text_at(event, pointer);
            let paint = (text("/type") == "Warning").then_some(Paint::Warn);
            html! {
                tr {
                    td { (ago(seen.last, now)) }
                    td { (seen.times) }
                    td { (badge(paint, text("/reason"))) }
                    th scope="row" {
                        (Text(text("/involvedObject/kind"))) "/" (Text(text("/involvedObject/name")))
                    }
                    td.message { (Text(text("/message"))) }
                }
            }
        })
        .collect()
}
