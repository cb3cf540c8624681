//! The metrics of a process, mostly the manager, read as Prometheus does.

use std::collections::BTreeMap;

use serde::Serialize;

/// Requests that change what users stored.
const WRITES: [&str; 6] = ["apply", "create", "delete", "patch", "status", "update"];

/// Requests whose number goes with the number of objects.
const ABOUT_OBJECTS: [&str; 6] = ["apply", "create", "delete", "dry-run", "get", "update"];

/// Requests whose number goes with the number of revisions. What is left goes with neither: watches,
/// lists, discovery, and the lease, which is renewed by the clock.
const ABOUT_SETS: [&str; 3] = ["event", "patch", "status"];

/// All series at one moment, by name and labels as they are exposed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metrics(BTreeMap<String, f64>);

impl Metrics {
    /// Reads the text format.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let series = lines.filter_map(|line| {
            // Label values may hold spaces; the value after them has none.
            let (series, value) = line.trim_end().rsplit_once(' ')?;
            Some((series.to_owned(), value.parse().ok()?))
        });
        Self(series.collect())
    }

    /// Requests sent to the API server so far; `None` when they are not counted at all, which must
    /// not look like a manager that is silent.
    #[must_use]
    pub fn requests(&self) -> Option<Requests> {
        let mut requests = Requests::default();
        for (labels, value) in self.family("baton_api_requests_total") {
            let verb = label(labels, "verb")?;
            *requests.0.entry(verb.to_owned()).or_default() += count(value);
        }
        (!requests.0.is_empty()).then_some(requests)
    }

    /// Reconciles that have ended so far.
    #[must_use]
    pub fn reconciles(&self) -> u64 {
        self.sum("baton_reconcile_total")
    }

    /// Revisions that wait for their reconcile.
    #[must_use]
    pub fn queue_depth(&self) -> u64 {
        self.sum("baton_queue_depth")
    }

    /// Whether it holds the lease.
    #[must_use]
    pub fn leads(&self) -> bool {
        self.sum("baton_leader") == 1
    }

    /// The counters of one name, by their labels.
    pub fn counts<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (Labels<'a>, u64)> {
        let family = self.family(name);
        family.map(|(labels, value)| (Labels(labels), count(value)))
    }

    fn sum(&self, name: &str) -> u64 {
        self.family(name).map(|(_, value)| count(value)).sum()
    }

    /// The series of one name, as labels and value.
    fn family<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (&'a str, f64)> {
        self.0.iter().filter_map(move |(series, value)| {
            let labels = series.strip_prefix(name)?;
            (labels.is_empty() || labels.starts_with('{')).then_some((labels, *value))
        })
    }
}

/// The labels of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Labels<'a>(&'a str);

impl<'a> Labels<'a> {
    /// The value of one of them.
    #[must_use]
    pub fn get(self, name: &str) -> Option<&'a str> {
        label(self.0, name)
    }
}

/// The value of a label in `{a="b",c="d"}`. Values with quotes are not needed here.
fn label<'a>(labels: &'a str, name: &str) -> Option<&'a str> {
    let mut pairs = labels.trim_matches(['{', '}']).split(',');
    pairs.find_map(|pair| {
        let (key, value) = pair.split_once('=')?;
        (key == name).then(|| value.trim_matches('"'))
    })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts are written as numbers, and are small"
)]
fn count(value: f64) -> u64 {
    value.round() as u64
}

/// Requests by verb.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Requests(BTreeMap<String, u64>);

impl Requests {
    /// What was sent since `earlier`. Verbs that were not used are left out.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let difference = |(verb, now): (&String, &u64)| {
            let sent = now.saturating_sub(earlier.of(verb));
            (sent > 0).then(|| (verb.clone(), sent))
        };
        Self(self.0.iter().filter_map(difference).collect())
    }

    /// The number for one verb.
    #[must_use]
    pub fn of(&self, verb: &str) -> u64 {
        self.0.get(verb).copied().unwrap_or_default()
    }

    /// Verbs and numbers.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(verb, number)| (verb.as_str(), *number))
    }

    /// Those that change what users stored.
    #[must_use]
    pub fn writes(&self) -> u64 {
        self.total(&WRITES)
    }

    /// Those whose number goes with the number of objects.
    #[must_use]
    pub fn about_objects(&self) -> u64 {
        self.total(&ABOUT_OBJECTS)
    }

    /// Those whose number goes with the number of revisions.
    #[must_use]
    pub fn about_sets(&self) -> u64 {
        self.total(&ABOUT_SETS)
    }

    fn total(&self, verbs: &[&str]) -> u64 {
        verbs.iter().map(|verb| self.of(verb)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# HELP baton_api_requests Requests.\n\
        baton_api_requests_total{verb=\"get\",code_class=\"2xx\"} 3\n\
        baton_api_requests_total{verb=\"get\",code_class=\"4xx\"} 1\n\
        baton_api_requests_total{verb=\"apply\",code_class=\"2xx\"} 2\n\
        baton_api_requests_total{verb=\"lease\",code_class=\"2xx\"} 9\n\
        baton_reconcile_total{controller=\"objectset\",outcome=\"changed\"} 4\n\
        baton_reconcile_total{controller=\"objectset\",outcome=\"waiting\"} 5\n\
        baton_reconcile_duration_seconds_sum{controller=\"objectset\"} 1.5\n\
        objects{gvk=\"apps/v1, Kind=Deployment\"} 5\n\
        baton_leader 1\n# EOF\n";

    #[test]
    fn requests_are_summed_over_how_they_ended() {
        let requests = Metrics::parse(TEXT).requests().unwrap();
        assert_eq!(requests.of("get"), 4);
        assert_eq!(requests.of("delete"), 0);
        assert_eq!(requests.writes(), 2);
        assert_eq!((requests.about_objects(), requests.about_sets()), (6, 0));
    }

    #[test]
    fn other_figures() {
        let metrics = Metrics::parse(TEXT);
        assert_eq!(
            (metrics.reconciles(), metrics.queue_depth(), metrics.leads()),
            (9, 0, true)
        );
        assert!(!Metrics::default().leads());
        assert_eq!(Metrics::parse("baton_reconcile_total 4\n").requests(), None);
    }

    #[test]
    fn the_difference_leaves_out_what_was_not_used() {
        let before = Metrics::parse(TEXT).requests().unwrap();
        let text = TEXT.replace("code_class=\"4xx\"} 1", "code_class=\"4xx\"} 3");
        let after = Metrics::parse(&text).requests().unwrap();
        assert_eq!(
            after.since(&before).iter().collect::<Vec<_>>(),
            [("get", 2)]
        );
    }

    #[test]
    fn every_write_goes_with_objects_or_sets() {
        for verb in WRITES {
            assert!(
                ABOUT_OBJECTS.contains(&verb) != ABOUT_SETS.contains(&verb),
                "{verb}"
            );
        }
    }
}
