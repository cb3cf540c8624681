//! Parses the responses to lists and watches, borrowed from the received bytes.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::error::WatchError;
use crate::metadata::Metadata;

/// The version to resume from.
///
/// The version is needed only when a watch ends, but objects arrive all the time: the last object
/// is copied (into the same buffer) and parsed at the end, so that no object is scanned only for
/// its version.
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
        self.moved = true;
        if object.len() > MAX_KEPT_BYTES
            && let Ok(version) = version_of(object)
        {
            // Scanned at once: otherwise the buffer would always have the size of the longest
            // object.
            self.version = version.into_owned();
            return;
        }
        self.last.extend_from_slice(object.as_bytes());
    }

    /// True if an object was noted since the last call.
    pub(super) fn moved(&mut self) -> bool {
        std::mem::take(&mut self.moved)
    }

    pub(super) fn version(&mut self) -> Result<&str, WatchError> {
        if !self.last.is_empty() {
            let last = std::mem::take(&mut self.last);
            let text = String::from_utf8_lossy(&last);
            self.version = version_of(&text)?.into_owned();
        }
        Ok(&self.version)
    }
}

pub(super) fn version_of(object: &str) -> Result<Cow<'_, str>, WatchError> {
    match Metadata::of(object) {
        Ok(metadata) if !metadata.resource_version.is_empty() => Ok(metadata.resource_version),
        Ok(_) => Err(serde::de::Error::missing_field("resourceVersion")),
        Err(error) => Err(error),
    }
    .map_err(|error| WatchError::unreadable("object", &error))
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
pub(super) struct WatchLine<'a> {
    #[serde(rename = "type")]
    pub(super) kind: &'a str,
    #[serde(borrow)]
    pub(super) object: &'a RawValue,
}

/// Limit of the memory that a buffer keeps after a long object.
pub(super) const MAX_KEPT_BYTES: usize = 64 * 1024;

/// Splits a stream into lines of any length. A line that arrives in one piece is not copied, and no
/// byte is searched twice.
#[derive(Debug, Default)]
pub(super) struct Lines {
    partial: Vec<u8>,
}

impl Lines {
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
                self.partial.shrink_to(MAX_KEPT_BYTES);
                result?;
            }
        }
        self.partial.extend_from_slice(chunk);
        Ok(())
    }

    /// Length of the incomplete line.
    pub(super) fn begun(&self) -> usize {
        self.partial.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(chunks: &[&str]) -> Vec<String> {
        let mut lines = Lines::default();
        let mut texts = Vec::new();
        for chunk in chunks {
            lines
                .feed(chunk.as_bytes(), |line| {
                    texts.push(String::from_utf8_lossy(line).into_owned());
                    Ok::<_, ()>(())
                })
                .unwrap();
        }
        texts
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
    fn a_long_object_is_not_copied_for_its_version() {
        let mut position = Position::at("1".to_owned());
        let object = |version: u64, size: usize| {
            let data = "x".repeat(size);
            format!(r#"{{"data":"{data}","metadata":{{"resourceVersion":"{version}"}}}}"#)
        };
        for (version, size) in [(2, 10), (3, 1_000_000), (4, 10), (5, 1_000_000)] {
            position.note(&object(version, size));
            assert!(position.last.capacity() <= MAX_KEPT_BYTES);
            assert!(position.moved());
            if version % 2 == 1 {
                assert_eq!(position.version().unwrap(), version.to_string());
            }
        }
        position.note(&object(6, 10));
        assert_eq!(position.version().unwrap(), "6");
    }

    #[test]
    fn the_memory_of_a_long_line_is_released() {
        let mut lines = Lines::default();
        let long = vec![b'x'; 3_000_000];
        lines.feed(&long, |_| Ok::<_, ()>(())).unwrap();
        lines.feed(b"\n", |_| Ok::<_, ()>(())).unwrap();
        assert!(lines.partial.capacity() <= MAX_KEPT_BYTES);
    }
}
