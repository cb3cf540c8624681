//! The file of a backup: one JSON or YAML document with a version and a checksum.

use std::{
    fmt::Write as _,
    fs,
    io::{self, Write as _},
    path::Path,
};

use baton_text::output::format::{DocumentFormat, document};
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tempfile::NamedTempFile;

const FORMAT: &str = "baton.run/backup";
const VERSION: u64 = 1;

/// The objects of a hub at one time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Backup {
    /// UID of the namespace `kube-system` of the hub.
    pub(crate) hub: String,
    /// The time of the backup.
    pub(crate) created: String,
    /// Names, labels and annotations of the namespaces of the objects.
    pub(crate) namespaces: Vec<Value>,
    /// The objects.
    pub(crate) objects: Vec<Value>,
}

/// The head of the file. A file of another version may have other fields.
#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    format: String,
    #[serde(default)]
    version: u64,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Document {
    format: String,
    version: u64,
    hub: String,
    created: String,
    checksum: String,
    namespaces: Vec<Value>,
    objects: Vec<Value>,
}

/// The reason that a file is no usable backup.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    #[error("cannot be read: {0}")]
    Unreadable(io::Error),
    #[error("cannot be written: {0}")]
    Unwritable(io::Error),
    #[error("is no backup, or is cut off: {0}")]
    Malformed(String),
    #[error("is no backup of Baton; a backup of shipperctl cannot be restored")]
    Foreign,
    #[error("has the format version {0}; this program reads version {VERSION}")]
    Version(u64),
    #[error("is damaged: its checksum is {found}, and not {stated}")]
    Damaged { stated: String, found: String },
}

impl Backup {
    /// The checksum of everything but itself.
    pub(crate) fn checksum(&self) -> String {
        // Keys are sorted, so the text is the same for equal objects.
        let content = json!([
            FORMAT,
            VERSION,
            self.hub,
            self.created,
            self.namespaces,
            self.objects
        ]);
        let found = digest(&SHA256, content.to_string().as_bytes());
        let mut text = "sha256:".to_owned();
        for byte in found.as_ref() {
            // Writing into a string cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        text
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// If the text is no complete and undamaged backup of this version.
    pub(crate) fn parse(text: &str) -> Result<Self, FileError> {
        let malformed = |error: String| FileError::Malformed(error);
        let value: Value = if text.trim_start().starts_with('{') {
            serde_json::from_str(text).map_err(|error| malformed(error.to_string()))?
        } else {
            // The limits are for texts of strangers. The file has the size of a hub.
            let options = serde_saphyr::options! { budget: None };
            serde_saphyr::from_str_with_options(text, options)
                .map_err(|error| malformed(error.to_string()))?
        };
        if value.is_array() {
            return Err(FileError::Foreign);
        }
        let head = Head::deserialize(&value).map_err(|error| malformed(error.to_string()))?;
        if head.format != FORMAT {
            return Err(FileError::Foreign);
        }
        if head.version != VERSION {
            return Err(FileError::Version(head.version));
        }
        let document: Document =
            serde_json::from_value(value).map_err(|error| malformed(error.to_string()))?;
        let backup = Self {
            hub: document.hub,
            created: document.created,
            namespaces: document.namespaces,
            objects: document.objects,
        };
        let (stated, found) = (document.checksum, backup.checksum());
        if stated != found {
            return Err(FileError::Damaged { stated, found });
        }
        Ok(backup)
    }

    /// The text of the file.
    fn text(&self, form: DocumentFormat) -> String {
        let document_ = Document {
            format: FORMAT.to_owned(),
            version: VERSION,
            hub: self.hub.clone(),
            created: self.created.clone(),
            checksum: self.checksum(),
            namespaces: self.namespaces.clone(),
            objects: self.objects.clone(),
        };
        document(form, &json!(document_))
    }

    /// Reads a file.
    ///
    /// # Errors
    /// As [`Backup::parse`], and if the file cannot be read.
    pub(crate) fn read(file: &Path) -> Result<Self, FileError> {
        let text = fs::read_to_string(file).map_err(FileError::Unreadable)?;
        Self::parse(&text)
    }

    /// Writes a file that only its owner can read, and reads it back. An existing file is replaced
    /// when the new one is complete.
    ///
    /// # Errors
    /// If the file cannot be written, or does not contain this backup then.
    pub(crate) fn write(&self, file: &Path, form: DocumentFormat) -> Result<(), FileError> {
        let parent = file
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty());
        let folder = parent.unwrap_or(Path::new("."));
        let mut new = NamedTempFile::new_in(folder).map_err(FileError::Unwritable)?;
        let text = self.text(form);
        let written = new.write_all(text.as_bytes());
        written
            .and_then(|()| new.as_file().sync_all())
            .map_err(FileError::Unwritable)?;
        Self::read(new.path())?;
        new.persist(file)
            .map_err(|error| FileError::Unwritable(error.error))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backup() -> Backup {
        Backup {
            hub: "11111111-1111-1111-1111-111111111111".to_owned(),
            created: "2026-11-29T04:00:00Z".to_owned(),
            namespaces: vec![json!({ "name": "shop", "labels": { "team": "a" } })],
            objects: vec![json!({
                "apiVersion": "v1", "kind": "Any", "metadata": { "name": "1e3", "uid": "u" },
                "spec": { "text": "no\n\ttab\n", "zero": 0.5, "empty": {}, "none": null,
                    "big": 9_007_199_254_740_993_i64 },
            })],
        }
    }

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        for form in [DocumentFormat::Json, DocumentFormat::Yaml] {
            let file = folder.path().join("backup");
            backup().write(&file, form).unwrap();
            assert_eq!(Backup::read(&file).unwrap(), backup());
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_large_hub_fits() {
        let metadata: Vec<_> = (0..400_000).map(|at| json!({ "name": at })).collect();
        let backup = Backup {
            objects: vec![json!(metadata)],
            ..backup()
        };
        let text = backup.text(DocumentFormat::Yaml);
        assert_eq!(Backup::parse(&text).unwrap(), backup);
    }

    /// No prefix of a file, and no file with another byte, is accepted.
    #[test]
    fn a_damaged_file_is_refused() {
        for form in [DocumentFormat::Json, DocumentFormat::Yaml] {
            let text = backup().text(form);
            for end in 0..text.trim_end().len() {
                Backup::parse(&text[..end]).unwrap_err();
            }
            for (at, letter) in text.char_indices().filter(|(_, it)| it.is_ascii_digit()) {
                let other = if letter == '7' { "8" } else { "7" };
                let damaged = [&text[..at], other, &text[at + 1..]].concat();
                Backup::parse(&damaged).unwrap_err();
            }
        }
    }

    #[test]
    fn other_files_are_refused_by_their_cause() {
        for (text, expected) in [
            ("", "is no backup"),
            ("- application: {}\n", "a backup of shipperctl"),
            ("kind: List\n", "no backup of Baton"),
            (
                r#"{"format": "baton.run/backup", "version": 2, "parts": []}"#,
                "format version 2; this program reads version 1",
            ),
            (
                r#"{"format": "baton.run/backup", "version": 1, "parts": []}"#,
                "unknown field",
            ),
        ] {
            let error = Backup::parse(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
    }
}
