//! Checks an archive of a chart, and writes the archive that helm reads.
//!
//! Helm reads archives and schemas by other programs than this one, which may find other content in
//! the same bytes: a sparse file, a second key, a number that does not fit. So helm gets an archive
//! that is written here from what was read.

mod schema;

use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
    io::{self, Read, Write},
};

use baton_yaml::Memory;
use flate2::{Compression, read::MultiGzDecoder, write::GzEncoder};
use serde_json::Value;
use tar::{Builder, EntryType, Header};

use crate::Limits;

/// Limit of the nesting of archives of dependencies.
const MAX_DEPTH: usize = 8;

/// Limit in bytes of a file whose content is read.
const MOST_METADATA: u64 = 4 << 20;

/// Limit in bytes of the memory of the values of such a file.
const MOST_VALUES: usize = 8 << 20;

/// The facts about the chart of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// Name of the chart.
    pub name: String,
    /// Version of the chart.
    pub version: String,
    /// Paths of the schemas that are left out, because they refer to other files or URLs. For these
    /// helm would read files of this machine, or send requests to any address that the chart names.
    pub left_out: Vec<String>,
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
    /// A schema of values cannot be read.
    #[error("{0:?} is no JSON: line {1}, column {2}")]
    Schema(String, usize, usize),
    /// Dependencies are nested too deeply.
    #[error("archives of dependencies are nested too deeply")]
    Nested,
    /// The other archive cannot be written, which is no fault of this one.
    #[error("{0}")]
    Write(String),
}

/// Reads an archive to its end.
///
/// # Guarantees
/// As for [`rewrite`].
///
/// # Errors
/// If the file is no archive of a chart, or is unsafe to unpack.
pub fn inspect(packed: impl Read, limits: &Limits) -> Result<Inspection, Error> {
    rewrite(packed, limits, io::sink())
}

/// Reads an archive to its end, and writes an archive of its files, and of those schemas of values
/// that refer to nothing outside of themselves.
///
/// # Guarantees
/// - No more is unpacked than `limits` allow, archives of dependencies included. At most one
///   dependency of each level is in memory.
/// - The written archive has only files within one folder, each once. Its schemas are written from
///   the values that were read.
///
/// # Errors
/// If the file is no archive of a chart, or is unsafe to unpack, or if writing fails. What was
/// written is of no use then.
pub fn rewrite(packed: impl Read, limits: &Limits, to: impl Write) -> Result<Inspection, Error> {
    let reader = Reader {
        bytes: Cell::new(limits.unpacked),
        files: Cell::new(limits.files),
        limits,
        left_out: RefCell::default(),
    };
    let mut to = Output {
        inner: to,
        error: None,
    };
    let found = reader.chart(packed, &mut to, 0);
    if let Some(error) = to.error {
        return Err(Error::Write(error));
    }
    let (name, version) = found?;
    Ok(Inspection {
        name,
        version,
        left_out: reader.left_out.into_inner(),
    })
}

/// Calls a function with the path and content of each template, `Chart.yaml` and `requirements.yaml`
/// of an archive that [`rewrite`] has written, those of its dependencies included.
///
/// # Errors
/// If the archive cannot be read, or exceeds a limit.
pub fn visit_texts(
    packed: impl Read,
    limits: &Limits,
    mut visit: impl FnMut(&str, &str),
) -> io::Result<()> {
    let left = Cell::new(limits.unpacked);
    visit_within(&mut { packed }, &left, limits, "", 0, &mut visit)
}

/// True for a file whose texts may be quoted: a template, or one about the chart.
fn is_public(path: &str) -> bool {
    let about_chart = ["/Chart.yaml", "/requirements.yaml"];
    path.contains("/templates/") || about_chart.iter().any(|end| path.ends_with(end))
}

fn visit_within(
    packed: &mut dyn Read,
    left: &Cell<u64>,
    limits: &Limits,
    folder: &str,
    depth: usize,
    visit: &mut dyn FnMut(&str, &str),
) -> io::Result<()> {
    let inner = MultiGzDecoder::new(packed);
    let mut archive = tar::Archive::new(Bounded { inner, left });
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = format!("{folder}{}", String::from_utf8_lossy(&entry.path_bytes()));
        if is_public(&path) {
            let content = read(&mut entry, MOST_METADATA)?;
            visit(&path, &String::from_utf8_lossy(&content));
        } else if is_dependency(&path) && depth < MAX_DEPTH {
            let archive = read(&mut entry, limits.packed)?;
            let folder = path.rfind('/').map_or("", |at| &path[..=at]);
            visit_within(
                &mut archive.as_slice(),
                left,
                limits,
                folder,
                depth + 1,
                visit,
            )?;
        }
    }
    Ok(())
}

/// The remaining limits, and the facts found so far.
struct Reader<'l> {
    bytes: Cell<u64>,
    files: Cell<usize>,
    limits: &'l Limits,
    left_out: RefCell<Vec<String>>,
}

impl Reader<'_> {
    /// Copies the chart of an archive. Returns its name and version.
    fn chart(
        &self,
        packed: impl Read,
        to: impl Write,
        depth: usize,
    ) -> Result<(String, String), Error> {
        if depth > MAX_DEPTH {
            return Err(Error::Nested);
        }
        // All unpacked bytes count, also those between files.
        let unpacked = Bounded {
            inner: MultiGzDecoder::new(packed),
            left: &self.bytes,
        };
        let mut archive = tar::Archive::new(unpacked);
        let mut copy = Builder::new(GzEncoder::new(to, Compression::fast()));
        let mut metadata = None;
        let mut folder: Option<String> = None;
        let mut paths = BTreeSet::new();
        let failed = |error| self.failed(&error);
        for entry in archive.entries().map_err(failed)? {
            let mut entry = entry.map_err(failed)?;
            let Some((path, top, inner)) = self.file(&entry)? else {
                continue;
            };
            if let Some(folder) = folder.as_ref().filter(|folder| **folder != top) {
                return Err(Error::Folders(folder.clone(), top));
            }
            folder = Some(top);
            if inner == "Chart.yaml" {
                let content = read(&mut entry, MOST_METADATA).map_err(failed)?;
                append(&mut copy, &path, &content).map_err(failed)?;
                metadata = Some(content);
            } else if schema::is_schema(&inner) {
                let content = read(&mut entry, MOST_METADATA).map_err(failed)?;
                match schema::for_helm(&path, &content)? {
                    Some(content) => append(&mut copy, &path, &content).map_err(failed)?,
                    None => self.left_out.borrow_mut().push(path.clone()),
                }
            } else if is_dependency(&inner) {
                let archive = read(&mut entry, self.limits.packed).map_err(failed)?;
                let mut content = Vec::new();
                // Other types would make this function generic without an end.
                let (from, to) = (&mut archive.as_slice(), &mut content);
                self.chart(from as &mut dyn Read, to as &mut dyn Write, depth + 1)?;
                append(&mut copy, &path, &content).map_err(failed)?;
            } else {
                let size = entry.size();
                let content = Exact {
                    inner: &mut entry,
                    left: size,
                };
                append_from(&mut copy, &path, size, content).map_err(failed)?;
            }
            if !paths.insert(inner) {
                return Err(Error::Twice(path));
            }
        }
        io::copy(&mut archive.into_inner(), &mut io::sink()).map_err(failed)?;
        let packed = copy.into_inner().and_then(GzEncoder::finish);
        packed.map_err(failed)?;
        identity(&metadata.ok_or(Error::NoChart)?)
    }

    /// The path of a file, its top folder, and its path within that folder; `None` for an entry
    /// without content.
    fn file(
        &self,
        entry: &tar::Entry<'_, impl Read>,
    ) -> Result<Option<(String, String, String)>, Error> {
        let kind = entry.header().entry_type();
        if kind == EntryType::XGlobalHeader {
            return Ok(None);
        }
        let left = self.files.get().checked_sub(1);
        self.files
            .set(left.ok_or(Error::TooMany(self.limits.files))?);
        let path = entry.path_bytes().into_owned();
        let path = String::from_utf8(path)
            .map_err(|error| Error::Path(String::from_utf8_lossy(error.as_bytes()).into()))?;
        let (top, inner) = split(&path)?;
        match kind {
            EntryType::Directory => Ok(None),
            EntryType::Regular => Ok(Some((path, top, inner))),
            kind => Err(Error::Kind(path, name_of(kind))),
        }
    }

    fn failed(&self, error: &io::Error) -> Error {
        match error.kind() {
            io::ErrorKind::FileTooLarge => Error::TooBig(self.limits.unpacked),
            _ => Error::Unreadable(error.to_string()),
        }
    }
}

/// Writes a file to an archive.
fn append(copy: &mut Builder<impl Write>, path: &str, content: &[u8]) -> io::Result<()> {
    append_from(copy, path, content.len() as u64, content)
}

/// Writes a file of this size to an archive.
fn append_from(
    copy: &mut Builder<impl Write>,
    path: &str,
    size: u64,
    content: impl Read,
) -> io::Result<()> {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Regular);
    header.set_mode(0o644);
    header.set_size(size);
    copy.append_data(&mut header, path, content)
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
///
/// # Errors
/// [`Error::Metadata`], which quotes no value.
pub fn identity(metadata: &[u8]) -> Result<(String, String), Error> {
    let text = str::from_utf8(metadata).map_err(|error| Error::Metadata(error.to_string()))?;
    let mut memory = Memory::new(MOST_VALUES);
    let document = baton_yaml::read_within(text, &mut memory)
        .into_iter()
        .next();
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

/// A writer that stores its error, to distinguish it from the errors of the archive that is read.
struct Output<W> {
    inner: W,
    error: Option<String>,
}

impl<W> Output<W> {
    fn note<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        result.map_err(|error| {
            let kind = error.kind();
            self.error.get_or_insert_with(|| error.to_string());
            kind.into()
        })
    }
}

impl<W: Write> Write for Output<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes);
        // Callers try this one again.
        if matches!(&written, Err(error) if error.kind() == io::ErrorKind::Interrupted) {
            return written;
        }
        self.note(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.inner.flush();
        self.note(flushed)
    }
}

/// A reader of exactly so many bytes, which fails if there are fewer.
struct Exact<R> {
    inner: R,
    left: u64,
}

impl<R: Read> Read for Exact<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).map_or(buffer.len(), |left| left.min(buffer.len()));
        let count = self.inner.read(&mut buffer[..most])?;
        if count == 0 && most > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests;
