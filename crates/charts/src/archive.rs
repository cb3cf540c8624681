//! Checks an archive of a chart before helm reads it.

use std::{
    cell::Cell,
    collections::BTreeSet,
    io::{self, Read},
};

use flate2::read::MultiGzDecoder;
use serde_json::Value;
use tar::EntryType;

use crate::Limits;

/// Limit of the nesting of archives of dependencies.
const MAX_DEPTH: usize = 8;

/// Limit in bytes of a file whose content is read.
const MOST_METADATA: u64 = 4 << 20;

/// The facts about the chart of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// Name of the chart.
    pub name: String,
    /// Version of the chart.
    pub version: String,
    /// True if all schemas of values can be checked with the content of the archive. For other
    /// schemas helm would read files of this machine, or send requests to any address that the
    /// chart names.
    pub local_schemas: bool,
}

/// The reason that an archive is refused, for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The file is not compressed, is no archive, or is incomplete.
    #[error("cannot read the archive: {0}")]
    Unreadable(String),
    /// The unpacked archive exceeds this number of bytes.
    #[error("the archive unpacks to more than {0} bytes")]
    TooBig(u64),
    /// The archive exceeds this number of files.
    #[error("the archive has more than {0} files")]
    TooMany(usize),
    /// The archive contains another entry than a file or folder.
    #[error("{0:?} is a {1}; a chart may contain only files and folders")]
    Kind(String, &'static str),
    /// A file would be unpacked outside of its folder.
    #[error("{0:?} is not a path within a chart")]
    Path(String),
    /// A file would replace another one.
    #[error("{0:?} is in the archive twice")]
    Twice(String),
    /// The files are in several folders.
    #[error("the archive has files in {0:?} and in {1:?}; a chart must be one folder")]
    Folders(String, String),
    /// The archive contains no chart.
    #[error("Chart.yaml file is missing")]
    NoChart,
    /// The `Chart.yaml` cannot be read.
    #[error("cannot load Chart.yaml: {0}")]
    Metadata(String),
    /// Dependencies are nested too deeply.
    #[error("archives of dependencies are nested too deeply")]
    Nested,
}

/// Reads an archive to its end.
///
/// # Guarantees
/// No more is unpacked than `limits` allow, archives of dependencies included. At most one
/// dependency of each level is in memory.
///
/// # Errors
/// If the file is no archive of a chart, or is unsafe to unpack.
pub fn inspect(packed: impl Read, limits: &Limits) -> Result<Inspection, Error> {
    let reader = Reader {
        bytes: Cell::new(limits.unpacked),
        files: Cell::new(limits.files),
        limits,
        local_schemas: Cell::new(true),
    };
    let (name, version) = reader.chart(packed, 0)?;
    Ok(Inspection {
        name,
        version,
        local_schemas: reader.local_schemas.get(),
    })
}

/// The remaining limits, and the facts found so far.
struct Reader<'l> {
    bytes: Cell<u64>,
    files: Cell<usize>,
    limits: &'l Limits,
    local_schemas: Cell<bool>,
}

impl Reader<'_> {
    fn chart(&self, packed: impl Read, depth: usize) -> Result<(String, String), Error> {
        if depth > MAX_DEPTH {
            return Err(Error::Nested);
        }
        // All unpacked bytes count, also those between files.
        let unpacked = Bounded {
            inner: MultiGzDecoder::new(packed),
            left: &self.bytes,
        };
        let mut archive = tar::Archive::new(unpacked);
        let mut metadata = None;
        let mut folder: Option<String> = None;
        let mut paths = BTreeSet::new();
        let most = self.limits.unpacked;
        let failed = move |error: io::Error| match error.kind() {
            io::ErrorKind::FileTooLarge => Error::TooBig(most),
            _ => Error::Unreadable(error.to_string()),
        };
        for entry in archive.entries().map_err(failed)? {
            let mut entry = entry.map_err(failed)?;
            let kind = entry.header().entry_type();
            if kind == EntryType::XGlobalHeader {
                continue;
            }
            let left = self.files.get().checked_sub(1);
            self.files
                .set(left.ok_or(Error::TooMany(self.limits.files))?);
            let path = entry.path_bytes().into_owned();
            let path = String::from_utf8(path)
                .map_err(|error| Error::Path(String::from_utf8_lossy(error.as_bytes()).into()))?;
            let (top, inner) = split(&path)?;
            match kind {
                EntryType::Directory => continue,
                EntryType::Regular => {}
                kind => return Err(Error::Kind(path, name_of(kind))),
            }
            if let Some(folder) = folder.as_ref().filter(|folder| **folder != top) {
                return Err(Error::Folders(folder.clone(), top));
            }
            folder = Some(top);
            if inner == "Chart.yaml" {
                metadata = Some(read(&mut entry, MOST_METADATA).map_err(failed)?);
            } else if inner.ends_with("values.schema.json") {
                let schema = read(&mut entry, MOST_METADATA).map_err(failed)?;
                let local = self.local_schemas.get() && is_local(&schema);
                self.local_schemas.set(local);
            } else if is_dependency(&inner) {
                let archive = read(&mut entry, self.limits.packed).map_err(failed)?;
                // Another type of reader would make this function generic without an end.
                self.chart(&mut archive.as_slice() as &mut dyn Read, depth + 1)?;
            }
            if !paths.insert(inner) {
                return Err(Error::Twice(path));
            }
        }
        io::copy(&mut archive.into_inner(), &mut io::sink()).map_err(failed)?;
        identity(&metadata.ok_or(Error::NoChart)?)
    }
}

/// The top folder of a path, and the path within it.
fn split(path: &str) -> Result<(String, String), Error> {
    let refused = || Error::Path(path.to_owned());
    let trimmed = path
        .strip_prefix("./")
        .unwrap_or(path)
        .trim_end_matches('/');
    let odd = |part: &str| part.is_empty() || part == "." || part == "..";
    if trimmed.contains(['\\', '\0', ':']) || trimmed.split('/').any(odd) {
        return Err(refused());
    }
    match trimmed.split_once('/') {
        Some((top, inner)) => Ok((top.to_owned(), inner.to_owned())),
        None => Ok((trimmed.to_owned(), String::new())),
    }
}

/// True if helm unpacks a file of a chart as a chart.
fn is_dependency(inner: &str) -> bool {
    let mut parts = inner.rsplit('/');
    let file = parts.next().unwrap_or_default();
    parts.next() == Some("charts") && file.to_ascii_lowercase().ends_with(".tgz")
}

fn read(entry: &mut impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let left = &Cell::new(most);
    Bounded { inner: entry, left }.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The name and version in a `Chart.yaml`.
fn identity(metadata: &[u8]) -> Result<(String, String), Error> {
    let text = str::from_utf8(metadata).map_err(|error| Error::Metadata(error.to_string()))?;
    let document = baton_yaml::read(text).into_iter().next();
    let document = match document {
        Some(Ok(document)) => document.value,
        Some(Err(error)) => {
            let why = format!("line {}: {}", error.line, error.message);
            return Err(Error::Metadata(why));
        }
        None => Value::Null,
    };
    let field = |name: &str| match &document[name] {
        Value::String(text) if !text.is_empty() => Ok(text.clone()),
        // Without quotes, `1.2` is a number.
        Value::Number(number) => Ok(number.to_string()),
        _ => Err(Error::Metadata(format!(
            "chart.metadata.{name} is required"
        ))),
    };
    Ok((field("name")?, field("version")?))
}

/// True if a schema has no reference outside of itself.
fn is_local(schema: &[u8]) -> bool {
    fn check(value: &Value) -> bool {
        match value {
            Value::Object(map) => map.iter().all(|(key, value)| {
                let local = match (key.as_str(), value) {
                    ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(text)) => {
                        text.starts_with('#')
                    }
                    // Helm contains the drafts.
                    ("$schema", Value::String(text)) => {
                        let text = text.trim_start_matches("http").trim_start_matches('s');
                        text.starts_with("://json-schema.org/")
                    }
                    _ => true,
                };
                local && check(value)
            }),
            Value::Array(list) => list.iter().all(check),
            _ => true,
        }
    }
    // Helm refuses a schema that cannot be read.
    serde_json::from_slice(schema).map_or(true, |schema| check(&schema))
}

fn name_of(kind: EntryType) -> &'static str {
    match kind {
        EntryType::Symlink => "symbolic link",
        EntryType::Link => "hard link",
        EntryType::Char | EntryType::Block => "device",
        EntryType::Fifo => "pipe",
        _ => "special file of an unknown type",
    }
}

/// A reader that fails when the limit is exceeded.
struct Bounded<'c, R> {
    inner: R,
    left: &'c Cell<u64>,
}

impl<R: Read> Read for Bounded<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        match self.left.get().checked_sub(count as u64) {
            Some(left) => self.left.set(left),
            None => return Err(io::ErrorKind::FileTooLarge.into()),
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests;
