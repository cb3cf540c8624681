//! The index of a repository, which lists its charts.

mod read;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, de::DeserializeSeed as _};
use serde_saphyr::with_deserializer_from_str_with_options;

use self::read::{FileSeed, Memory};

/// The parts of an index that are read; also its form on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Index {
    /// The charts by name, each with its versions in the order of the index.
    pub charts: BTreeMap<String, Vec<Entry>>,
}

/// The entry of an index for one version of a chart.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Entry {
    /// Version of the chart.
    pub version: String,
    /// URL of the archive, absolute or relative to the repository.
    pub url: String,
    /// The SHA-256 of the archive in hexadecimal digits, if the repository states it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

impl Index {
    /// Reads an index file.
    ///
    /// # Guarantees
    /// - Versions without a URL are left out. An error in one entry does not refuse the others.
    /// - Reading takes about `most` bytes of memory at most.
    ///
    /// # Errors
    /// If the file is empty, no index, too large, or without an API version. The error is the text of
    /// Shipper.
    pub fn parse(bytes: &[u8], most: usize) -> Result<Self, String> {
        let failed = |why: &str| format!("failed to load index file: {why}");
        let text = str::from_utf8(bytes).map_err(|error| failed(&error.to_string()))?;
        if text.trim().is_empty() {
            return Err(failed("no index content"));
        }
        let memory = Memory::new(most);
        let file = if text.trim_start().starts_with('{') {
            let json = &mut serde_json::Deserializer::from_str(text);
            let file = FileSeed(&memory).deserialize(&mut *json);
            let file = file.and_then(|file| json.end().map(|()| file));
            file.map_err(|error| unreadable(Some((error.line(), error.column()))))
        } else {
            let yaml = with_deserializer_from_str_with_options(text, options(text.len()), |yaml| {
                FileSeed(&memory).deserialize(yaml)
            });
            yaml.map_err(|error| unreadable(position(&error)))
        };
        let file = file.map_err(|error| {
            failed(&if memory.is_exhausted() {
                format!("its charts take more than {most} bytes of memory")
            } else {
                error
            })
        })?;
        if file.api_version.is_none_or(|version| version.is_empty()) {
            return Err(failed("no API version specified"));
        }
        Ok(Self {
            charts: file.entries,
        })
    }

    /// The bytes of memory that the index takes, estimated.
    pub fn bytes(&self) -> usize {
        let charts = self.charts.iter();
        let charts = charts.map(|(name, entries)| chart_bytes(name) + entries_bytes(entries));
        charts.sum()
    }

    /// Checks that the index may replace the previous one.
    ///
    /// # Errors
    /// If the index has no charts, and the previous one had some. The error is a text for people.
    pub fn follows(&self, previous: Option<&Self>) -> Result<(), String> {
        if self.charts.is_empty() && previous.is_some_and(|index| !index.charts.is_empty()) {
            return Err("failed to load index file: the new index has no entries".to_owned());
        }
        Ok(())
    }

    /// The versions of a chart; `None` if there is no such chart.
    pub fn versions(&self, chart: &str) -> Option<Vec<&str>> {
        let entries = self.charts.get(chart)?.iter();
        Some(entries.map(|entry| entry.version.as_str()).collect())
    }

    /// The entry of a version of a chart; the first one if a version is repeated.
    pub fn entry(&self, chart: &str, version: &str) -> Option<&Entry> {
        let mut entries = self.charts.get(chart)?.iter();
        entries.find(|entry| entry.version == version)
    }
}

/// The bytes of memory that a chart takes in an index, without its versions, estimated.
fn chart_bytes(name: &str) -> usize {
    // Entries of a map, and the allocations of the name and the list.
    name.len() + 160
}

fn entries_bytes(entries: &[Entry]) -> usize {
    entries.iter().map(Entry::bytes).sum()
}

impl Entry {
    /// The bytes of memory that the entry takes in a list, estimated.
    fn bytes(&self) -> usize {
        // The allocator adds to each text.
        let texts =
            self.version.len() + self.url.len() + self.digest.as_ref().map_or(0, String::len);
        2 * size_of::<Self>() + texts + 3 * 16
    }
}

/// Limits of the parser for a text of this length. Values behind aliases count as well, so that a
/// short text cannot become a large value in memory.
fn options(length: usize) -> serde_saphyr::Options {
    let nodes = length.max(10_000);
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: 2 * nodes,
            max_nodes: nodes,
            max_total_scalar_bytes: 2 * nodes,
        },
        with_snippet: false,
    }
}

/// The position at which reading ended. The text there is not reported: a user who may name a
/// repository must not read by it what only the manager can reach.
fn unreadable(position: Option<(usize, usize)>) -> String {
    match position {
        Some((line, column)) => format!("it is not an index: line {line}, column {column}"),
        None => "it is not an index".to_owned(),
    }
}

fn position(error: &serde_saphyr::Error) -> Option<(usize, usize)> {
    let position = error.location()?;
    let number = |number| usize::try_from(number).ok();
    Some((number(position.line())?, number(position.column())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 8 << 20;

    const GOOD: &str = "\
apiVersion: v1
generated: 2026-01-01T00:00:00Z
entries:
  nginx:
  - {name: nginx, version: 0.0.2, urls: [nginx-0.0.2.tgz, https://mirror/x.tgz], digest: ABCD}
  - {name: nginx, version: 1.0, urls: [nginx-1.0.tgz], created: 2026-01-01, digest: sha256:ef}
  - {name: nginx, version: 0.0.0, urls: []}
  -
  redis:
";

    fn versions(text: &str, chart: &str) -> Option<Vec<String>> {
        let index = Index::parse(text.as_bytes(), MOST).unwrap();
        let versions = index.versions(chart)?;
        Some(versions.into_iter().map(str::to_owned).collect())
    }

    #[test]
    fn only_versions_that_can_be_fetched_are_listed() {
        assert_eq!(versions(GOOD, "nginx").unwrap(), ["0.0.2", "1.0"]);
        assert_eq!(versions(GOOD, "redis").unwrap(), Vec::<String>::new());
        assert_eq!(versions(GOOD, "none"), None);
        let index = Index::parse(GOOD.as_bytes(), MOST).unwrap();
        let entry = index.entry("nginx", "0.0.2").unwrap();
        assert_eq!(entry.url, "nginx-0.0.2.tgz");
        assert_eq!(entry.digest.as_deref(), Some("abcd"));
        assert_eq!(
            index.entry("nginx", "1.0").unwrap().digest.as_deref(),
            Some("ef")
        );
    }

    #[test]
    fn an_index_may_be_json() {
        let text = r#"{"apiVersion":"v1","entries":{"a":[{"version":"1.0.0","urls":["a"]}]}}"#;
        assert_eq!(versions(text, "a").unwrap(), ["1.0.0"]);
    }

    #[test]
    fn an_invalid_index_is_refused_with_the_message_of_the_contract() {
        for (text, error) in [
            ("", "no index content"),
            (" \n", "no index content"),
            ("entries: {}", "no API version specified"),
            ("apiVersion: ''\nentries: {}", "no API version specified"),
        ] {
            let expected = format!("failed to load index file: {error}");
            assert_eq!(Index::parse(text.as_bytes(), MOST).unwrap_err(), expected);
        }
        for bytes in [
            &b"<html>no</html>"[..],
            b"apiVersion: v1\nentries: [",
            b"\xff\xfe",
            b"[]",
            b"{\"apiVersion\": \"v1\", \"entries\": 3}",
            b"{\"apiVersion\": \"v1\", \"entries\": \"secret\"}",
            b"apiVersion: v1\nentries: secret",
            b"secret",
            b"secret: [",
        ] {
            let error = Index::parse(bytes, MOST).unwrap_err();
            assert!(error.starts_with("failed to load index file: "), "{error}");
            assert!(
                !error.contains('\n') && !error.contains("secret"),
                "{error}"
            );
        }
    }

    #[test]
    fn an_empty_index_does_not_replace_one_with_entries() {
        let full = Index::parse(GOOD.as_bytes(), MOST).unwrap();
        let empty = Index::parse(b"apiVersion: v1\nentries: {}", MOST).unwrap();
        assert_eq!(empty.follows(None), Ok(()));
        assert_eq!(empty.follows(Some(&empty)), Ok(()));
        assert_eq!(full.follows(Some(&full)), Ok(()));
        assert!(empty.follows(Some(&full)).is_err());
    }

    #[test]
    fn an_index_with_too_many_nested_aliases_is_refused() {
        use std::fmt::Write as _;
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..9 {
            let list = vec![format!("*a{}", level - 1); 10].join(", ");
            writeln!(bomb, "a{level}: &a{level} [{list}]").unwrap();
        }
        Index::parse(format!("apiVersion: v1\n{bomb}").as_bytes(), MOST).unwrap_err();
    }

    #[test]
    fn a_large_index_is_read() {
        use std::fmt::Write as _;
        let mut text = "apiVersion: v1\nentries:\n".to_owned();
        for chart in 0..200 {
            writeln!(text, "  chart-{chart}:").unwrap();
            for version in 0..100 {
                let urls = format!("urls: [c-{chart}-{version}.tgz]");
                let rest = "keywords: [a, b, c], maintainers: [{name: n, email: e}]";
                writeln!(text, "  - {{version: 1.{version}.0, {urls}, {rest}}}").unwrap();
            }
        }
        assert_eq!(versions(&text, "chart-199").unwrap().len(), 100);
    }

    #[test]
    fn an_index_survives_a_round_trip_to_disk() {
        let index = Index::parse(GOOD.as_bytes(), MOST).unwrap();
        let text = serde_json::to_vec(&index).unwrap();
        assert_eq!(serde_json::from_slice::<Index>(&text).unwrap(), index);
    }

    /// Only what can be fetched takes memory; an index of many short texts is refused.
    #[test]
    fn an_index_takes_limited_memory() {
        let nulls = format!(
            "apiVersion: v1\nentries: {{a: [{}]}}",
            "null, ".repeat(10_000)
        );
        assert_eq!(Index::parse(nulls.as_bytes(), 1000).unwrap().bytes(), 161);
        let urls = format!(
            "apiVersion: v1\nentries: {{a: [{{version: 1.0.0, urls: [{}]}}]}}",
            "a, ".repeat(10_000)
        );
        let parsed = Index::parse(urls.as_bytes(), 1000).unwrap();
        assert_eq!(parsed.entry("a", "1.0.0").unwrap().url, "a");
        let charts: Vec<_> = (0..100).map(|number| format!("  c{number}:")).collect();
        let charts = charts.join("\n");
        let charts = format!("apiVersion: v1\nentries:\n{charts}");
        let versions = "  - {version: '1', urls: [a]}\n".repeat(100);
        let versions = format!("apiVersion: v1\nentries:\n  a:\n{versions}");
        let alias = "&e {version: '1', urls: [a]}, *e, ".repeat(50);
        let aliases = format!("apiVersion: v1\nentries: {{a: [{alias}]}}");
        let json = r#"{"version":"1","urls":["a"]},"#.repeat(99);
        let json = format!(r#"{{"apiVersion":"v1","entries":{{"a":[{json}{{}}]}}}}"#);
        for text in [charts, versions, aliases, json] {
            let expected =
                "failed to load index file: its charts take more than 1000 bytes of memory";
            assert_eq!(Index::parse(text.as_bytes(), 1000).unwrap_err(), expected);
            Index::parse(text.as_bytes(), 100_000).unwrap();
        }
    }
}
