//! The manager's metrics, read as Prometheus does.

use std::collections::BTreeMap;

/// All series at one moment, by name and labels as they are exposed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics(BTreeMap<String, f64>);

/// Verbs of requests that change what users stored.
const WRITES: [&str; 6] = ["apply", "create", "delete", "patch", "status", "update"];

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

    /// The sum of the series of a name that carry all these labels; nothing if there are none.
    #[must_use]
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let has = |series: &str| {
            let (family, rest) = series.split_once('{').unwrap_or((series, ""));
            let wanted = |(key, value): &(&str, &str)| rest.contains(&format!("{key}=\"{value}\""));
            family == name && labels.iter().all(wanted)
        };
        let found: Vec<f64> = self
            .0
            .iter()
            .filter(|(series, _)| has(series))
            .map(|(_, value)| *value)
            .collect();
        (!found.is_empty()).then(|| found.iter().sum())
    }

    /// Requests of one verb sent to the API server so far.
    #[must_use]
    pub fn requests(&self, verb: &str) -> u64 {
        let sum = self
            .sum("baton_api_requests_total", &[("verb", verb)])
            .unwrap_or(0.0);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a count of requests"
        )]
        let count = sum as u64;
        count
    }

    /// Requests sent so far that changed what users stored.
    #[must_use]
    pub fn writes(&self) -> u64 {
        WRITES.iter().map(|verb| self.requests(verb)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_found_by_name_and_labels() {
        let text = "# HELP baton_api_requests Requests.\n\
            baton_api_requests_total{verb=\"get\",code_class=\"2xx\"} 3\n\
            baton_api_requests_total{verb=\"get\",code_class=\"4xx\"} 1\n\
            baton_api_requests_total{verb=\"apply\",code_class=\"2xx\"} 2\n\
            objects{gvk=\"apps/v1, Kind=Deployment\"} 5\n\
            lone 1.5e9\n# EOF\n";
        let metrics = Metrics::parse(text);
        assert_eq!(metrics.requests("get"), 4);
        assert_eq!(metrics.writes(), 2);
        assert_eq!(
            metrics.sum("objects", &[("gvk", "apps/v1, Kind=Deployment")]),
            Some(5.0)
        );
        assert_eq!(metrics.sum("objects", &[("gvk", "v1, Kind=Secret")]), None);
        assert_eq!(metrics.sum("lone", &[]), Some(1.5e9));
    }
}
