//! Events as lines of one table that is continued.

use baton_text::{
    output::{
        Output, Paint,
        table::{Cell, Table},
    },
    time::age,
};
use baton_view::{
    events::{Occurrence, time},
    object::text_at,
};
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

const HEADINGS: [&str; 6] = [
    "NAMESPACE",
    "LAST SEEN",
    "TYPE",
    "REASON",
    "OBJECT",
    "MESSAGE",
];

#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) object: Value,
    last: Option<Timestamp>,
    first: Option<Timestamp>,
    count: i64,
}

impl Event {
    /// Reads the fields that decide the order of the event.
    pub(crate) fn new(object: Value) -> Self {
        let Occurrence { last, times } = Occurrence::of(&object);
        let mut pointers = ["/firstTimestamp", "/eventTime"].into_iter();
        Self {
            last,
            first: pointers.find_map(|pointer| time(&object, pointer)),
            count: times,
            object,
        }
    }

    /// The order of the event: by time, and stable within a second.
    pub(crate) fn order(&self) -> (Option<Timestamp>, String) {
        (self.last, self.text("/metadata/name").to_owned())
    }

    fn text(&self, pointer: &str) -> &str {
        text_at(&self.object, pointer)
    }

    fn row(&self, now: Timestamp) -> [Cell; 6] {
        let last = age(self.last, now);
        let age = if self.count > 1 {
            format!("{last} (x{} over {})", self.count, age(self.first, now))
        } else {
            last
        };
        let type_ = match self.text("/type") {
            type_ @ "Warning" => Cell::painted(Paint::Warn, type_),
            type_ => type_.into(),
        };
        let object = format!(
            "{}/{}",
            self.text("/involvedObject/kind"),
            self.text("/involvedObject/name")
        );
        [
            self.text("/metadata/namespace").into(),
            age.into(),
            type_,
            self.text("/reason").into(),
            object.into(),
            self.text("/message").into(),
        ]
    }
}

/// A table that is continued: headings come first, and columns never get narrower.
#[derive(Debug)]
pub(crate) struct Stream {
    with_namespaces: bool,
    widths: Option<Vec<usize>>,
}

impl Stream {
    pub(crate) fn new(with_namespaces: bool) -> Self {
        Self {
            with_namespaces,
            widths: None,
        }
    }

    /// The lines of further events; empty without events.
    pub(crate) fn add(&mut self, events: &[Event], now: Timestamp, output: Output) -> String {
        if events.is_empty() {
            return String::new();
        }
        let skip = usize::from(!self.with_namespaces);
        let mut table = match self.widths.take() {
            None => Table::new(&HEADINGS[skip..]),
            Some(widths) => Table::continued(&HEADINGS[skip..], widths),
        };
        for event in events {
            table.row(event.row(now).into_iter().skip(skip));
        }
        self.widths = Some(table.widths());
        table.render(output)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(name: &str, last: &str, count: i64) -> Event {
        Event::new(json!({
            "metadata": {"name": name, "namespace": "shop"},
            "involvedObject": {"kind": "ObjectSet", "name": "web-1"},
            "type": "Warning", "reason": "NotReady", "message": "a\n  b",
            "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": last, "count": count,
        }))
    }

    #[test]
    fn a_followed_table_has_one_header() {
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        let mut stream = Stream::new(false);
        let output = Output::plain();
        assert_eq!(stream.add(&[], now, output), "");
        let first = event("x", "2026-01-01T00:00:50Z", 3);
        assert_eq!(
            stream.add(&[first], now, output),
            "LAST SEEN           TYPE      REASON     OBJECT            MESSAGE\n\
             10s (x3 over 60s)   Warning   NotReady   ObjectSet/web-1   a b\n"
        );
        let second = event("y", "2026-01-01T00:01:00Z", 1);
        assert_eq!(
            stream.add(&[second], now, output),
            "0s                  Warning   NotReady   ObjectSet/web-1   a b\n"
        );
    }

    #[test]
    fn events_are_ordered_by_when_they_were_last_seen() {
        let series = Event::new(json!({
            "metadata": {"name": "s", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "eventTime": "2026-01-01T00:00:01.000000Z",
            "series": {"count": 4, "lastObservedTime": "2026-01-01T00:00:30.000000Z"},
        }));
        let mut events = [
            event("b", "2026-01-01T00:00:40Z", 1),
            series,
            event("a", "2026-01-01T00:00:40Z", 1),
        ];
        events.sort_by_key(Event::order);
        let names: Vec<&str> = events
            .iter()
            .map(|event| event.text("/metadata/name"))
            .collect();
        assert_eq!(names, ["s", "a", "b"]);
    }
}
