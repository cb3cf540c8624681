//! Server-sent events with the changes of a page.
//!
//! | event | data |
//! |---|---|
//! | `page` | the whole content, when more than regions has changed |
//! | `regions` | the regions that have changed, by their ids |
//! | `alive` | the same word; sent when there was no other event for a while |
//! | `again` | the browser has to open the page again; the connection ends |
//! | `failed` | the reason that the page cannot be read now; the connection ends |
//! | `ended` | the reason that the page will not change any more; the connection ends |

use std::{collections::BTreeMap, convert::Infallible, sync::Arc, time::Duration};

use axum::response::sse::Event;
use baton_pages::regions::Rendered;
use baton_text::printable::printable;
use futures::{Stream, stream};
use serde::Serialize;
use tokio::{
    sync::watch,
    time::{Instant, timeout_at},
};

use crate::{
    failure::Failure,
    feed::{Content, Shown},
    feeds::{Admission, OpenPage},
};

/// The longest time without an event. The script takes a longer silence for a broken connection.
const SILENCE: Duration = Duration::from_secs(15);

/// The data of an event.
#[derive(Serialize)]
struct Change<'a> {
    /// The name of the content after the change.
    version: &'a str,
    /// The reason that the content is not up to date.
    trouble: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    page: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    regions: BTreeMap<&'a str, &'a str>,
}

/// A browser, with the content that it has of a page.
struct Viewer {
    page: OpenPage,
    contents: watch::Receiver<Content>,
    /// The name of the content that it had before the first event.
    version: String,
    shown: Option<Arc<Rendered>>,
    trouble: Option<String>,
    has_ended: bool,
}

/// The events of a page from the content `version` on.
pub(crate) fn events(
    page: OpenPage,
    version: String,
) -> impl Stream<Item = Result<Event, Infallible>> + Send {
    let mut contents = page.contents();
    // The first content may be another one than that of the loaded page.
    contents.mark_changed();
    let viewer = Viewer {
        page,
        contents,
        version,
        shown: None,
        trouble: None,
        has_ended: false,
    };
    stream::unfold(viewer, async |mut viewer| {
        let event = viewer.next().await?;
        Some((Ok(event), viewer))
    })
}

impl Viewer {
    async fn next(&mut self) -> Option<Event> {
        // Contents that the browser has already are no events.
        let end = Instant::now() + SILENCE;
        loop {
            if self.has_ended {
                return None;
            }
            match timeout_at(end, self.contents.changed()).await {
                Err(_) => return Some(Event::default().event("alive").data("alive")),
                Ok(Err(_)) => return None,
                Ok(Ok(())) => {}
            }
            let content = self.contents.borrow_and_update().clone();
            match content {
                Content::Nothing => {}
                Content::Ended(failure) => return Some(self.end(&failure)),
                // Without a change there is nothing to review.
                Content::Shown(shown) if self.has(&shown) => {}
                Content::Shown(shown) => match self.page.admit(&shown).await {
                    Ok(Admission::Granted) => {
                        if let Some(event) = self.change(shown) {
                            return Some(event);
                        }
                    }
                    Ok(Admission::Elsewhere) => {
                        self.has_ended = true;
                        return Some(Event::default().event("again").data("again"));
                    }
                    Err(failure) => return Some(self.end(&failure)),
                },
            }
        }
    }

    /// True if the browser shows a content already.
    fn has(&self, shown: &Shown) -> bool {
        let is_same = self.shown.is_some() && *self.version == *shown.version;
        is_same && self.trouble == trouble(shown)
    }

    /// The last event.
    fn end(&mut self, failure: &Failure) -> Event {
        self.has_ended = true;
        let name = if failure.is_lasting() {
            "ended"
        } else {
            "failed"
        };
        Event::default()
            .event(name)
            .data(printable(&failure.message, &[]))
    }

    /// The event for a content; `None` if the browser has it. The first event is always sent, as the
    /// browser may show that it is not up to date.
    fn change(&mut self, shown: Shown) -> Option<Event> {
        let trouble = trouble(&shown);
        let has_content = *self.version == *shown.version;
        let is_same = self.shown.is_some() && has_content && self.trouble == trouble;
        let Shown {
            rendered: now,
            version,
            ..
        } = shown;
        let regions = match &self.shown {
            Some(before) => now.since(before),
            None => has_content.then(BTreeMap::new),
        };
        let event = (!is_same).then(|| {
            let is_whole = regions.is_none();
            let change = Change {
                version: &version,
                trouble: trouble.as_deref(),
                title: is_whole.then_some(&now.title),
                page: is_whole.then(|| now.html()),
                regions: regions.unwrap_or_default(),
            };
            let data = serde_json::to_string(&change).unwrap_or_default();
            let name = if is_whole { "page" } else { "regions" };
            Event::default().event(name).id(&*version).data(data)
        });
        version.as_ref().clone_into(&mut self.version);
        self.trouble = trouble;
        self.shown = Some(now);
        event
    }
}

/// The reason that a content is not up to date, as it is shown.
fn trouble(shown: &Shown) -> Option<String> {
    let text = shown.trouble.as_deref()?;
    Some(printable(text, &[]).into_owned())
}
