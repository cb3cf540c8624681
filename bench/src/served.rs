//! The counts of the API server: the requests that it has answered.
//!
//! The manager's metrics count requests by verb; those of the server also contain the resource.

use std::collections::BTreeMap;

use baton_apis::constants::{BATON_GROUP, GROUP, shipper};
use baton_hack::metrics::{self, Metrics};
use kube::Client;
use serde::Serialize;

/// The verbs, in the order in which they are shown. Lists and watches are left out, as they are not
/// about single objects.
pub(crate) const VERBS: [&str; 7] = ["GET", "dry run", "POST", "APPLY", "PATCH", "PUT", "DELETE"];

/// The verbs of writes.
const WRITES: [&str; 5] = ["POST", "APPLY", "PATCH", "PUT", "DELETE"];

/// The other resources whose requests are counted, besides our own kinds: the children, the
/// credentials of clusters, the records of versions and of chosen sites, and events.
const OTHERS: [(&str, &str); 5] = [
    ("apps", "controllerrevisions"),
    ("", "configmaps"),
    ("", "secrets"),
    ("", "events"),
    ("events.k8s.io", "events"),
];

/// Built-in resources of Releases that other components write as well. Only requests with these
/// verbs are our own: the servers of a bed create, replace and patch statuses.
const SHARED: [(&str, &str); 3] = [("apps", "deployments"), ("", "services"), ("", "pods")];

/// See [`SHARED`].
const OF_RELEASES: [&str; 3] = ["dry run", "APPLY", "PATCH"];

/// Requests by resource, with its subresource if there is one, and verb. All requests are counted,
/// with any result and from any client.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Served(BTreeMap<String, BTreeMap<String, Count>>);

/// A number of requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Count {
    /// All of them.
    pub(crate) sent: u64,
    /// The number of failed requests.
    pub(crate) refused: u64,
}

impl Served {
    /// The requests that the API server has answered since its start.
    pub(crate) async fn read(client: &Client) -> kube::Result<Self> {
        Ok(Self::parse(&exposed(client).await?))
    }

    fn parse(text: &str) -> Self {
        const NAME: &str = "apiserver_request_total";
        let metrics = family(text, NAME);
        let mut served = Self::default();
        for (labels, value) in metrics.family(NAME) {
            let number = metrics::count(value);
            let label = |name| labels.get(name).unwrap_or_default();
            let (group, resource) = (label("group"), label("resource"));
            let is_shared = SHARED.contains(&(group, resource));
            let is_own = [GROUP, BATON_GROUP, shipper::GROUP].contains(&group);
            if !is_own && !is_shared && !OTHERS.contains(&(group, resource)) {
                continue;
            }
            let verb = match label("dry_run") {
                "" => label("verb"),
                _ => "dry run",
            };
            let is_of_others =
                is_shared && (!OF_RELEASES.contains(&verb) || label("subresource") == "status");
            if !VERBS.contains(&verb) || is_of_others {
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

    /// The requests answered since `earlier`. Unused resources and verbs are left out.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
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

    /// Subtracts the given number of requests of the bench, all of which succeeded.
    pub(crate) fn without(&self, resource: &str, verb: &str, sent: u64) -> Self {
        let count = Count { sent, refused: 0 };
        let verbs = BTreeMap::from([(verb.to_owned(), count)]);
        self.since(&Self(BTreeMap::from([(resource.to_owned(), verbs)])))
    }

    /// The resources with requests.
    pub(crate) fn resources(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The verbs that were used, in the order of [`VERBS`].
    pub(crate) fn verbs(&self) -> Vec<&'static str> {
        let is_used = |verb: &&str| self.0.values().any(|verbs| verbs.contains_key(*verb));
        VERBS.into_iter().filter(is_used).collect()
    }

    /// The number for one resource and verb.
    pub(crate) fn of(&self, resource: &str, verb: &str) -> Count {
        let verbs = self.0.get(resource);
        let count = verbs.and_then(|verbs| verbs.get(verb));
        count.copied().unwrap_or_default()
    }

    /// The number for one resource.
    pub(crate) fn about(&self, resource: &str) -> Count {
        let verbs = self.0.get(resource).into_iter().flatten();
        verbs.fold(Count::default(), |sum, (_, count)| sum.plus(*count))
    }

    /// The number for all resources.
    pub(crate) fn all(&self) -> Count {
        let counts = self.0.values().flat_map(BTreeMap::values);
        counts.fold(Count::default(), |sum, count| sum.plus(*count))
    }

    /// The writes on all resources.
    pub(crate) fn all_writes(&self) -> u64 {
        self.resources().map(|resource| self.writes(resource)).sum()
    }

    /// Adds the requests that another server has answered.
    pub(crate) fn plus(mut self, other: &Self) -> Self {
        for (resource, verbs) in &other.0 {
            let own = self.0.entry(resource.clone()).or_default();
            for (verb, count) in verbs {
                let sum = own.entry(verb.clone()).or_default();
                *sum = sum.plus(*count);
            }
        }
        self
    }

    /// The writes on a resource.
    pub(crate) fn writes(&self, resource: &str) -> u64 {
        WRITES.map(|verb| self.of(resource, verb).sent).iter().sum()
    }
}

impl Count {
    fn plus(self, other: Self) -> Self {
        Self {
            sent: self.sent + other.sent,
            refused: self.refused + other.refused,
        }
    }
}

/// Number of watches of a resource that are open at the API server now.
pub(crate) async fn watches(client: &Client, resource: &str) -> kube::Result<u64> {
    Ok(parse_watches(&exposed(client).await?, resource))
}

fn parse_watches(text: &str, resource: &str) -> u64 {
    const NAME: &str = "apiserver_longrunning_requests";
    let watches = [("resource", resource), ("verb", "WATCH")];
    metrics::count(family(text, NAME).sum(NAME, &watches).unwrap_or_default())
}

/// The metrics of an API server.
pub(crate) async fn exposed(client: &Client) -> kube::Result<String> {
    let request = http::Request::get("/metrics").body(vec![]);
    let request = request.map_err(kube::Error::HttpError)?;
    client.request_text(request).await
}

/// One family of an API server's metrics. Parsing only one saves time: the histograms are a hundred
/// times as long.
pub(crate) fn family(text: &str, name: &str) -> Metrics {
    let lines = text.lines().filter(|line| line.starts_with(name));
    Metrics::parse(&lines.collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A line in the format of the API server.
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

    /// The answers of an API server: successes by resource and verb.
    pub(crate) fn served(counts: &[(&str, &str, u64)]) -> Served {
        let lines = counts.iter().map(|(resource, verb, number)| {
            let group = if *resource == "configmaps" { "" } else { GROUP };
            line(group, resource, verb, 200, *number)
        });
        Served::parse(&lines.collect::<String>())
    }

    #[test]
    fn requests_are_counted_by_resource_and_verb() {
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
            line("apps", "deployments/status", "PATCH", 200, 7),
            line("", "pods", "POST", 201, 7),
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
    fn servers_are_counted_together() {
        let one = served(&[("configmaps", "APPLY", 3), ("objectsets", "GET", 1)]);
        let other = served(&[("configmaps", "APPLY", 4), ("configmaps", "dry run", 7)]);
        let sum = one.plus(&other);
        let expected = served(&[
            ("configmaps", "APPLY", 7),
            ("configmaps", "dry run", 7),
            ("objectsets", "GET", 1),
        ]);
        assert_eq!(sum, expected);
        assert_eq!((sum.all().sent, sum.all_writes()), (15, 7));
    }

    #[test]
    fn open_watches_of_a_resource_are_counted() {
        let line = |resource: &str, verb: &str, version: &str, number: u64| {
            format!(
                "apiserver_longrunning_requests{{component=\"apiserver\",group=\"g\",resource=\"{resource}\",\
                 scope=\"cluster\",subresource=\"\",verb=\"{verb}\",version=\"{version}\"}} {number}\n"
            )
        };
        let text = [
            line("gizmos", "WATCH", "v1", 3),
            line("gizmos", "WATCH", "v2", 4),
            line("gizmos", "CONNECT", "v1", 10),
            line("others", "WATCH", "v1", 20),
        ]
        .concat();
        assert_eq!(parse_watches(&text, "gizmos"), 7);
    }

    #[test]
    fn the_difference_omits_earlier_requests_and_those_of_the_bench() {
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
