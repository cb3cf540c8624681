//! What the API server counts: the requests that it has answered.
//!
//! The manager's metrics do not tell which controller sent a request, and to what. The server knows
//! at least the resource.

use std::collections::{BTreeMap, BTreeSet};

use baton_apis::constants::GROUP;
use kube::Client;
use serde::Serialize;

use super::metrics::Metrics;

/// The verbs, in the order in which they are told. Lists and watches are not about single objects.
pub const VERBS: [&str; 7] = ["GET", "dry run", "POST", "APPLY", "PATCH", "PUT", "DELETE"];

/// Those that change something.
const WRITES: [&str; 5] = ["POST", "APPLY", "PATCH", "PUT", "DELETE"];

/// The resources beside our own whose requests are counted: the children, and events.
const OTHERS: [(&str, &str); 3] = [
    ("", "configmaps"),
    ("", "events"),
    ("events.k8s.io", "events"),
];

/// Requests by resource, with its subresource if there is one, and verb. All are counted, however
/// they ended and whoever sent them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Served(BTreeMap<String, BTreeMap<String, Count>>);

/// A number of requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    /// All of them.
    pub sent: u64,
    /// Those that did not end well.
    pub refused: u64,
}

impl Served {
    /// What the API server has answered since its start.
    ///
    /// # Errors
    ///
    /// When it does not tell.
    pub async fn read(client: &Client) -> kube::Result<Self> {
        let request = http::Request::get("/metrics").body(vec![]);
        let request = request.map_err(kube::Error::HttpError)?;
        Ok(Self::parse(&client.request_text(request).await?))
    }

    fn parse(text: &str) -> Self {
        const NAME: &str = "apiserver_request_total";
        // The histograms among them are a hundred times as long.
        let lines = text.lines().filter(|line| line.starts_with(NAME));
        let metrics = Metrics::parse(&lines.collect::<Vec<_>>().join("\n"));
        let mut served = Self::default();
        for (labels, number) in metrics.counts(NAME) {
            let label = |name| labels.get(name).unwrap_or_default();
            let (group, resource) = (label("group"), label("resource"));
            if group != GROUP && !OTHERS.contains(&(group, resource)) {
                continue;
            }
            let verb = match label("dry_run") {
                "" => label("verb"),
                _ => "dry run",
            };
            if !VERBS.contains(&verb) {
                continue;
            }
            let resource = match label("subresource") {
                "" => resource.to_owned(),
                subresource => format!("{resource}/{subresource}"),
            };
            let verbs = served.0.entry(resource).or_default();
            let count = verbs.entry(verb.to_owned()).or_default();
            count.sent += number;
            if !label("code").starts_with('2') {
                count.refused += number;
            }
        }
        served
    }

    /// What was answered since `earlier`. What was not asked for is left out.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut difference = self.clone();
        for (resource, verbs) in &mut difference.0 {
            for (verb, count) in &mut *verbs {
                let before = earlier.of(resource, verb);
                count.sent = count.sent.saturating_sub(before.sent);
                count.refused = count.refused.saturating_sub(before.refused);
            }
            verbs.retain(|_, count| count.sent > 0);
        }
        difference.0.retain(|_, verbs| !verbs.is_empty());
        difference
    }

    /// The same without so many requests of the bench, all of which went well.
    #[must_use]
    pub fn without(&self, resource: &str, verb: &str, sent: u64) -> Self {
        let count = Count { sent, refused: 0 };
        let verbs = BTreeMap::from([(verb.to_owned(), count)]);
        self.since(&Self(BTreeMap::from([(resource.to_owned(), verbs)])))
    }

    /// The resources about which there were requests.
    pub fn resources(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The verbs that were used, in the order of [`VERBS`].
    #[must_use]
    pub fn verbs(&self) -> Vec<&'static str> {
        let used: BTreeSet<&str> = self
            .0
            .values()
            .flat_map(|verbs| verbs.keys().map(String::as_str))
            .collect();
        VERBS
            .into_iter()
            .filter(|verb| used.contains(verb))
            .collect()
    }

    /// The number for one resource and verb.
    #[must_use]
    pub fn of(&self, resource: &str, verb: &str) -> Count {
        let verbs = self.0.get(resource);
        let count = verbs.and_then(|verbs| verbs.get(verb));
        count.copied().unwrap_or_default()
    }

    /// The number for one resource.
    #[must_use]
    pub fn about(&self, resource: &str) -> Count {
        let verbs = self.0.get(resource).into_iter().flatten();
        verbs.fold(Count::default(), |sum, (_, count)| Count {
            sent: sum.sent + count.sent,
            refused: sum.refused + count.refused,
        })
    }

    /// The writes on a resource.
    #[must_use]
    pub fn writes(&self, resource: &str) -> u64 {
        WRITES.map(|verb| self.of(resource, verb).sent).iter().sum()
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A line as the API server writes it.
    fn line(group: &str, resource: &str, verb: &str, code: u16, number: u64) -> String {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let (verb, dry_run) = match verb {
            "dry run" => ("APPLY", "All"),
            other => (other, ""),
        };
        format!(
            "apiserver_request_total{{code=\"{code}\",component=\"apiserver\",dry_run=\"{dry_run}\",\
             group=\"{group}\",resource=\"{resource}\",scope=\"resource\",\
             subresource=\"{subresource}\",verb=\"{verb}\",version=\"v1\"}} {number}\n"
        )
    }

    /// What an API server has answered: successes by resource and verb.
    pub fn served(counts: &[(&str, &str, u64)]) -> Served {
        let lines = counts.iter().map(|(resource, verb, number)| {
            let group = if *resource == "configmaps" { "" } else { GROUP };
            line(group, resource, verb, 200, *number)
        });
        Served::parse(&lines.collect::<String>())
    }

    #[test]
    fn requests_are_told_by_resource_and_verb() {
        let text = [
            "# HELP apiserver_request_total [STABLE] Counter of apiserver requests.\n".to_owned(),
            line("", "configmaps", "APPLY", 200, 3),
            line("", "configmaps", "APPLY", 201, 4),
            line("", "configmaps", "APPLY", 409, 1),
            line("", "configmaps", "dry run", 200, 8),
            line("", "configmaps", "WATCH", 200, 9),
            line(GROUP, "objectsets/status", "PUT", 200, 5),
            line("coordination.k8s.io", "leases", "PUT", 200, 90),
            line("events.k8s.io", "events", "POST", 201, 2),
            "apiserver_request_total_but_not_quite{verb=\"PUT\"} 7\n".to_owned(),
        ]
        .concat();
        let served = Served::parse(&text);
        let resources: Vec<&str> = served.resources().collect();
        assert_eq!(resources, ["configmaps", "events", "objectsets/status"]);
        assert_eq!(served.verbs(), ["dry run", "POST", "APPLY", "PUT"]);
        let applied = Count {
            sent: 8,
            refused: 1,
        };
        assert_eq!(served.of("configmaps", "APPLY"), applied);
        assert_eq!(served.about("configmaps").sent, 16);
        assert_eq!(served.writes("configmaps"), 8);
        assert_eq!(served.of("configmaps", "GET"), Count::default());
    }

    #[test]
    fn the_difference_leaves_out_what_was_there_and_what_the_bench_sent() {
        let before = served(&[
            ("objectsets", "POST", 5),
            ("objectdeployments", "PATCH", 10),
        ]);
        let after = served(&[
            ("objectsets", "POST", 5),
            ("objectdeployments", "PATCH", 30),
            ("objectdeployments/status", "PUT", 40),
        ]);
        let difference = after.since(&before);
        assert_eq!(difference.of("objectdeployments", "PATCH").sent, 20);
        assert_eq!(
            difference.without("objectdeployments", "PATCH", 20),
            served(&[("objectdeployments/status", "PUT", 40)])
        );
    }
}
