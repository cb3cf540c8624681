//! The metrics of a process, mostly the manager, read in the text format of Prometheus.
//!
//! The parsers on crates.io split labels at commas, which occur in some of our values, or rely on
//! the type of a metric, which an API server does not repeat for each series.

use std::collections::BTreeMap;

/// The requests that the manager has sent, by verb and class of the status code.
const REQUESTS: &str = "baton_api_requests_total";

/// Verbs of requests that change what users stored.
const WRITES: [&str; 6] = ["apply", "create", "delete", "patch", "status", "update"];

/// All series at one moment, by name and labels in their text form.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics(BTreeMap<String, f64>);

impl Metrics {
    /// Reads the text format.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let series = lines.filter_map(|line| {
            // Label values may contain spaces; the number after them has none.
            let (series, value) = line.trim_end().rsplit_once(' ')?;
            Some((series.to_owned(), value.parse().ok()?))
        });
        Self(series.collect())
    }

    /// The series with this name.
    pub fn family(&self, name: &str) -> impl Iterator<Item = (Labels<'_>, f64)> {
        self.0.iter().filter_map(move |(series, value)| {
            let labels = series.strip_prefix(name)?;
            (labels.is_empty() || labels.starts_with('{')).then_some((Labels(labels), *value))
        })
    }

    /// The sum of the series with this name and all these labels; `None` if there are none.
    #[must_use]
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let found = self.family(name).filter(|(found, _)| {
            let mut labels = labels.iter();
            labels.all(|(key, value)| found.get(key) == Some(value))
        });
        found.map(|(_, value)| value).reduce(|sum, one| sum + one)
    }

    /// The sum of the series with this name and any labels, as a count.
    #[must_use]
    pub fn count(&self, name: &str) -> u64 {
        count(self.sum(name, &[]).unwrap_or_default())
    }

    /// Requests sent to the API server so far, by verb.
    #[must_use]
    pub fn requests_by_verb(&self) -> BTreeMap<String, u64> {
        let mut requests = BTreeMap::<String, u64>::new();
        for (labels, value) in self.family(REQUESTS) {
            let verb = labels.get("verb").unwrap_or_default();
            *requests.entry(verb.to_owned()).or_default() += count(value);
        }
        requests
    }

    /// Requests of one verb sent to the API server so far.
    #[must_use]
    pub fn requests(&self, verb: &str) -> u64 {
        count(self.sum(REQUESTS, &[("verb", verb)]).unwrap_or_default())
    }

    /// Requests of one verb that succeeded so far.
    #[must_use]
    pub fn successes(&self, verb: &str) -> u64 {
        let labels = [("verb", verb), ("code_class", "2xx")];
        count(self.sum(REQUESTS, &labels).unwrap_or_default())
    }

    /// Requests sent so far that changed what users stored.
    #[must_use]
    pub fn writes(&self) -> u64 {
        WRITES.iter().map(|verb| self.requests(verb)).sum()
    }
}

/// True if requests of this verb change what users stored.
#[must_use]
pub fn is_write(verb: &str) -> bool {
    WRITES.contains(&verb)
}

/// The labels of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Labels<'a>(&'a str);

impl<'a> Labels<'a> {
    /// The value of a label, as in `{a="b",c="d"}`. Values with quotes do not occur.
    #[must_use]
    pub fn get(self, name: &str) -> Option<&'a str> {
        let mut parts = self.0.trim_matches(['{', '}']).split('"');
        loop {
            let (key, value) = (parts.next()?, parts.next()?);
            if key.trim_start_matches(',').strip_suffix('=') == Some(name) {
                return Some(value);
            }
        }
    }
}

/// A counter as a whole number.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts are written as numbers, and are small"
)]
pub fn count(value: f64) -> u64 {
    value.round() as u64
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
        lone 1.5e9\n# EOF\n";

    #[test]
    fn series_are_found_by_name_and_labels() {
        let metrics = Metrics::parse(TEXT);
        let objects = |gvk| metrics.sum("objects", &[("gvk", gvk)]);
        assert_eq!(objects("apps/v1, Kind=Deployment"), Some(5.0));
        assert_eq!(objects("v1, Kind=Secret"), None);
        assert_eq!(metrics.sum("lone", &[]), Some(1.5e9));
        assert_eq!(metrics.count("baton_reconcile_total"), 9);
        assert_eq!(metrics.count("baton_queue_depth"), 0);
        let refused = [("verb", "get"), ("code_class", "4xx")];
        assert_eq!(metrics.sum(REQUESTS, &refused), Some(1.0));
    }

    #[test]
    fn requests_are_summed_over_status_codes() {
        let metrics = Metrics::parse(TEXT);
        assert_eq!((metrics.requests("get"), metrics.writes()), (4, 2));
        assert_eq!(
            (metrics.successes("get"), metrics.successes("list")),
            (3, 0)
        );
        let by_verb = metrics.requests_by_verb();
        let by_verb: Vec<_> = by_verb
            .iter()
            .map(|(verb, n)| (verb.as_str(), *n))
            .collect();
        assert_eq!(by_verb, [("apply", 2), ("get", 4), ("lease", 9)]);
    }
}
