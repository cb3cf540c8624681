//! Reading what a list or watch answers, borrowed from the bytes that came in.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::fault::Fault;

/// The version to resume from.
///
/// Versions are wanted when a watch ends, objects arrive all the time: the last one is copied as it
/// is (into the same buffer) and parsed at the end, so that no object is scanned just for this.
#[derive(Debug, Default)]
pub(super) struct Position {
    version: String,
    last: Vec<u8>,
    moved: bool,
}

impl Position {
    pub(super) fn at(version: String) -> Self {
        Self {
            version,
            ..Self::default()
        }
    }

    pub(super) fn note(&mut self, object: &str) {
        self.last.clear();
        self.last.extend_from_slice(object.as_bytes());
        self.moved = true;
    }

    /// Whether anything was noted since the last call.
    pub(super) fn moved(&mut self) -> bool {
        std::mem::take(&mut self.moved)
    }

    pub(super) fn version(&mut self) -> Result<&str, Fault> {
        if !self.last.is_empty() {
            let last = std::mem::take(&mut self.last);
            let text = String::from_utf8_lossy(&last);
            self.version = version_of(&text)?.into_owned();
        }
        Ok(&self.version)
    }
}

pub(super) fn version_of(object: &str) -> Result<Cow<'_, str>, Fault> {
    let object: Versioned<'_> =
        serde_json::from_str(object).map_err(|error| Fault::garbled("object", &error))?;
    Ok(object.metadata.resource_version)
}

/// Versions of one resource are integers that compare; since 1.35 that is part of the API.
pub(crate) fn number(version: &str) -> u64 {
    version.parse().unwrap_or_default()
}

#[derive(Deserialize)]
pub(super) struct Page<'a> {
    #[serde(borrow)]
    pub(super) metadata: ListMeta<'a>,
    #[serde(borrow)]
    pub(super) items: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
pub(super) struct ListMeta<'a> {
    #[serde(borrow, default, rename = "resourceVersion")]
    pub(super) resource_version: Cow<'a, str>,
    #[serde(borrow, rename = "continue")]
    pub(super) next: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
pub(super) struct Line<'a> {
    #[serde(rename = "type")]
    pub(super) kind: &'a str,
    #[serde(borrow)]
    pub(super) object: &'a RawValue,
}

#[derive(Deserialize)]
struct Versioned<'a> {
    #[serde(borrow)]
    metadata: Version<'a>,
}

#[derive(Deserialize)]
struct Version<'a> {
    #[serde(borrow, rename = "resourceVersion")]
    resource_version: Cow<'a, str>,
}

/// Cuts a stream into lines of any length. A line that arrives in one piece is not copied, and no
/// byte is searched twice.
#[derive(Debug, Default)]
pub(super) struct Lines {
    partial: Vec<u8>,
}

impl Lines {
    /// What a buffer may keep after a long line.
    const KEEP: usize = 64 * 1024;

    pub(super) fn feed<E>(
        &mut self,
        mut chunk: &[u8],
        mut each: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Some(end) = chunk.iter().position(|byte| *byte == b'\n') {
            let (line, rest) = chunk.split_at(end);
            chunk = rest.get(1..).unwrap_or_default();
            if self.partial.is_empty() {
                if !line.is_empty() {
                    each(line)?;
                }
            } else {
                self.partial.extend_from_slice(line);
                let result = each(&self.partial);
                self.partial.clear();
                self.partial.shrink_to(Self::KEEP);
                result?;
            }
        }
        self.partial.extend_from_slice(chunk);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(chunks: &[&str]) -> Vec<String> {
        let mut lines = Lines::default();
        let mut seen = Vec::new();
        for chunk in chunks {
            lines
                .feed(chunk.as_bytes(), |line| {
                    seen.push(String::from_utf8_lossy(line).into_owned());
                    Ok::<_, ()>(())
                })
                .unwrap();
        }
        seen
    }

    #[test]
    fn cuts_lines_wherever_the_chunks_end() {
        assert_eq!(cut(&["a\nb\n"]), ["a", "b"]);
        assert_eq!(cut(&["a", "b\n", "c"]), ["ab"]);
        assert_eq!(cut(&["a\n\n", "\nb", "", "c\nd", "\n"]), ["a", "bc", "d"]);
        let long = "x".repeat(3_000_000);
        assert_eq!(
            cut(&[&long, &long, "\ny\n"]),
            [format!("{long}{long}"), "y".to_owned()]
        );
    }

    #[test]
    fn a_long_line_does_not_keep_its_memory() {
        let mut lines = Lines::default();
        let long = vec![b'x'; 3_000_000];
        lines.feed(&long, |_| Ok::<_, ()>(())).unwrap();
        lines.feed(b"\n", |_| Ok::<_, ()>(())).unwrap();
        assert!(lines.partial.capacity() <= Lines::KEEP);
    }
}
