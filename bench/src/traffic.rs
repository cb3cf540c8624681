//! The bytes that the API server receives and sends, as it counts them itself.

use std::collections::BTreeMap;

use baton_apis::constants::{BATON_GROUP, GROUP, shipper};
use baton_hack::metrics;
use kube::Client;
use serde::Serialize;

use super::served::{exposed, family};

/// Bytes by resource, for all clients.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Traffic(BTreeMap<String, Bytes>);

/// Bytes about a resource and its subresources.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Bytes {
    /// Bodies of requests.
    pub(crate) sent: u64,
    /// Answers, except for watches.
    pub(crate) answered: u64,
    /// Events of watches.
    pub(crate) watched: u64,
}

/// Selects one of the counts.
type Field = fn(&mut Bytes) -> &mut u64;

/// The metrics family of each count.
const FAMILIES: [(&str, Field); 3] = [
    ("apiserver_request_body_size_bytes_sum", |bytes| {
        &mut bytes.sent
    }),
    ("apiserver_response_sizes_sum", |bytes| &mut bytes.answered),
    ("apiserver_watch_events_sizes_sum", |bytes| {
        &mut bytes.watched
    }),
];

impl Traffic {
    /// The bytes that the API server has counted since its start.
    pub(crate) async fn read(client: &Client) -> kube::Result<Self> {
        Ok(Self::parse(&exposed(client).await?))
    }

    fn parse(text: &str) -> Self {
        let mut traffic = Self::default();
        for (name, field) in FAMILIES {
            let family = family(text, name);
            for (labels, value) in family.family(name) {
                let label = |name| labels.get(name).unwrap_or_default();
                let (group, resource) = (label("group"), label("resource"));
                let is_own = [GROUP, BATON_GROUP, shipper::GROUP].contains(&group);
                let is_event = resource == "events";
                if is_own || is_event {
                    // Some families have the subresource behind a slash, others in a label of its
                    // own.
                    let resource = resource.split('/').next().unwrap_or_default();
                    *field(traffic.0.entry(resource.to_owned()).or_default()) +=
                        metrics::count(value);
                }
            }
        }
        traffic
    }

    /// The bytes counted since `earlier`.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let difference = self.0.iter().filter_map(|(resource, now)| {
            let before = earlier.0.get(resource).copied().unwrap_or_default();
            let bytes = Bytes {
                sent: now.sent.saturating_sub(before.sent),
                answered: now.answered.saturating_sub(before.answered),
                watched: now.watched.saturating_sub(before.watched),
            };
            (bytes != Bytes::default()).then(|| (resource.clone(), bytes))
        });
        Self(difference.collect())
    }

    /// The bytes by resource.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, Bytes)> {
        self.0
            .iter()
            .map(|(resource, bytes)| (resource.as_str(), *bytes))
    }

    /// The bytes of all resources.
    pub(crate) fn all(&self) -> Bytes {
        self.0.values().fold(Bytes::default(), |sum, bytes| Bytes {
            sent: sum.sent + bytes.sent,
            answered: sum.answered + bytes.answered,
            watched: sum.watched + bytes.watched,
        })
    }
}

impl Bytes {
    /// The bytes in both directions.
    pub(crate) fn all(self) -> u64 {
        self.sent + self.answered + self.watched
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_counted_by_resource_and_direction() {
        let line = |family: &str, labels: &str, bytes: u64| {
            format!(
                "{family}{{component=\"apiserver\",group=\"{GROUP}\",{labels},version=\"v1alpha1\"}} {bytes}\n"
            )
        };
        let text = [
            line(
                "apiserver_request_body_size_bytes_sum",
                "resource=\"objectsets\",verb=\"create\"",
                100,
            ),
            line(
                "apiserver_response_sizes_sum",
                "resource=\"objectsets\",verb=\"GET\"",
                30,
            ),
            line(
                "apiserver_response_sizes_sum",
                "resource=\"objectsets\",verb=\"LIST\"",
                50,
            ),
            line(
                "apiserver_response_sizes_bucket",
                "resource=\"objectsets\",verb=\"LIST\"",
                9,
            ),
            line(
                "apiserver_watch_events_sizes_sum",
                "resource=\"objectsetphases\"",
                7,
            ),
            "apiserver_response_sizes_sum{group=\"\",resource=\"pods\",verb=\"LIST\"} 5\n"
                .to_owned(),
        ]
        .concat();
        let traffic = Traffic::parse(&text);
        let bytes = |sent, answered, watched| Bytes {
            sent,
            answered,
            watched,
        };
        let all: Vec<_> = traffic.iter().collect();
        let expected = [
            ("objectsetphases", bytes(0, 0, 7)),
            ("objectsets", bytes(100, 80, 0)),
        ];
        assert_eq!(all, expected);
        assert_eq!(traffic.all().all(), 187);
        let earlier = Traffic::parse(&line(
            "apiserver_response_sizes_sum",
            "resource=\"objectsets\",verb=\"GET\"",
            30,
        ));
        assert_eq!(traffic.since(&earlier).all(), bytes(100, 50, 7));
    }
}
