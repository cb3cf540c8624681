//! The state that an agent stores on disk, to survive a restart while the hub is unreachable: the
//! mirrors as last observed, and the statuses that it has yet to report.
//!
//! The file has two lines: a header with the checksum of the second line, and the objects.
//!
//! # Guarantees
//! - The file is replaced as a whole: after a crash or a power cut it is the old one or the new
//!   one.
//! - Only the agent can read the file, as it contains Secrets: it has mode 0600 in a directory of
//!   mode 0700, from the first byte on, and also if they existed with other modes.
//! - A file that is damaged, or of another cluster, is reported and not used. Only time is lost:
//!   the hub has the whole state.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    io::{self, Write as _},
    os::unix::fs::{
        DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
    },
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use baton_apis::ObjectSetPhaseStatus;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{json, value::RawValue};
use tokio::{task::spawn_blocking, time::sleep};
use tracing::warn;

use baton_fleet::mirror::KIND;
use baton_records::record::{ReadError, Record};

use super::mirrors::{Mirrors, SavedMirror};
use crate::error::StateError;

/// Changes within this time are written together.
const BATCH_TIME: Duration = Duration::from_millis(200);
/// The pause after a failed write.
const PAUSE: Duration = Duration::from_secs(10);
/// Modes of a directory and a file that only the agent can read.
const PRIVATE_DIRECTORY: u32 = 0o700;
const PRIVATE_FILE: u32 = 0o600;
/// Version of the format.
const FORMAT: u32 = 1;

#[derive(Deserialize, Serialize)]
struct Header {
    format: u32,
    cluster: String,
    /// CRC-32 of the second line.
    checksum: u32,
}

/// The field that the agent adds to the object of a mirror. Earlier versions neither write nor read
/// it.
#[derive(Deserialize)]
struct AddedFields {
    #[serde(default)]
    noted: Option<ObjectSetPhaseStatus>,
}

/// The file in which an agent stores its state; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct StateFile {
    path: Arc<Path>,
    cluster: Arc<str>,
    /// Locked while the file is written.
    writing: Arc<Mutex<()>>,
}

impl StateFile {
    /// The state file of a cluster's agent, in a directory that is created if it does not exist.
    ///
    /// # Errors
    /// When the directory cannot be written to.
    pub(crate) fn new(directory: &Path, cluster: &str) -> Result<Self, StateError> {
        let error = |source| StateError::File {
            path: directory.to_owned(),
            source,
        };
        let mut builder = DirBuilder::new();
        let made = builder.recursive(true).mode(PRIVATE_DIRECTORY);
        made.create(directory).map_err(error)?;
        close_directory(directory).map_err(error)?;
        let file = Self {
            path: directory.join("mirrors.json").into(),
            cluster: cluster.into(),
            writing: Arc::default(),
        };
        // A directory that cannot be written to is reported at the start, and not when the hub is
        // unreachable.
        let probe = file.temporary_path();
        create(&probe).map_err(error)?;
        fs::remove_file(&probe).map_err(error)?;
        match close(&file.path, PRIVATE_FILE) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                let path = file.path.to_path_buf();
                Err(StateError::File { path, source })
            }
            _ => Ok(file),
        }
    }

    /// The path where a new state is written before it replaces the old one.
    fn temporary_path(&self) -> PathBuf {
        self.path.with_extension("json.new")
    }

    /// The stored mirrors; `None` if there is no state yet.
    ///
    /// # Errors
    /// When the state cannot be used.
    pub(crate) fn load(&self) -> Result<Option<Vec<SavedMirror>>, StateError> {
        let text = match fs::read(&*self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => {
                let path = self.path.to_path_buf();
                return Err(StateError::File { path, source });
            }
        };
        let damaged = |cause: String| StateError::Damaged {
            path: self.path.to_path_buf(),
            cause,
        };
        let end = text.iter().position(|byte| *byte == b'\n');
        let (header, body) =
            text.split_at(end.ok_or_else(|| damaged("it has no header".to_owned()))?);
        let header: Header =
            serde_json::from_slice(header).map_err(|error| damaged(error.to_string()))?;
        if header.format != FORMAT {
            return Err(damaged(format!("its format is {}", header.format)));
        }
        if header.cluster != *self.cluster {
            return Err(StateError::OtherCluster {
                path: self.path.to_path_buf(),
                found: header.cluster,
                expected: self.cluster.to_string(),
            });
        }
        let body = body.trim_ascii();
        if crc32fast::hash(body) != header.checksum {
            return Err(damaged("the checksum does not match".to_owned()));
        }
        read(body)
            .map(Some)
            .map_err(|error| damaged(error.to_string()))
    }

    /// Replaces the state.
    ///
    /// # Errors
    /// When the file cannot be written; the old one is unchanged then.
    pub(crate) fn save(
        &self,
        mirrors: impl FnOnce() -> Vec<SavedMirror>,
    ) -> Result<(), StateError> {
        let _writing = self.writing.lock();
        // Later changes are part of a later write.
        let objects = mirrors().into_iter().map(|saved| {
            let mut object = saved.mirror.to_object();
            if let Some(noted) = saved.noted {
                object["noted"] = json!(noted);
            }
            object
        });
        let objects: Vec<_> = objects.collect();
        let write = || {
            let body = serde_json::to_vec(&objects)?;
            let header = Header {
                format: FORMAT,
                cluster: self.cluster.to_string(),
                checksum: crc32fast::hash(&body),
            };
            let mut text = serde_json::to_vec(&header)?;
            text.push(b'\n');
            text.extend(body);
            text.push(b'\n');
            let aside = self.temporary_path();
            let mut file = create(&aside)?;
            file.write_all(&text)?;
            file.sync_all()?;
            fs::rename(&aside, &self.path)?;
            // The rename is on the disk once the directory is synced.
            self.path
                .parent()
                .map_or(Ok(()), |directory| File::open(directory)?.sync_all())
        };
        write().map_err(|source: io::Error| StateError::File {
            path: self.path.to_path_buf(),
            source,
        })
    }
}

/// Creates a file that only the agent can open. A file left by an interrupted write is not reused:
/// another process may have it open.
fn create(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    let options = options.write(true).create_new(true).mode(PRIVATE_FILE);
    options.open(path)
}

/// Removes the access of group and others to an existing path: an earlier version granted it, and a
/// kubelet grants it to the group whenever it mounts a volume.
fn close(path: &Path, mode: u32) -> io::Result<()> {
    let wider = fs::metadata(path)?.permissions().mode() & 0o777 & !mode;
    if wider == 0 {
        return Ok(());
    }
    fs::set_permissions(path, Permissions::from_mode(mode))
}

/// As [`close`], but a directory of another user, such as the root of a volume, stays as it is.
fn close_directory(path: &Path) -> io::Result<()> {
    match close(path, PRIVATE_DIRECTORY) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let owner = fs::metadata(path)?.uid();
            let directory = path.display();
            warn!(%directory, owner, "other users may list the state directory; use a directory inside of it");
            Ok(())
        }
        closed => closed,
    }
}

fn read(body: &[u8]) -> Result<Vec<SavedMirror>, ReadError> {
    let objects: Vec<&RawValue> =
        serde_json::from_slice(body).map_err(ReadError::of(KIND, "state"))?;
    let objects = objects.into_iter();
    objects
        .map(|object| {
            let beside = serde_json::from_str(object.get());
            let AddedFields { noted } = beside.map_err(ReadError::of(KIND, "state"))?;
            Ok(SavedMirror {
                mirror: Arc::new(Record::read(KIND, object.get())?),
                noted,
            })
        })
        .collect()
}

/// Writes the file after each change, forever.
pub(crate) async fn write_on_change(mirrors: Arc<Mirrors>, file: StateFile) {
    let mut changes = mirrors.changes();
    // The state may have changed before the first wait.
    changes.mark_changed();
    // The sender exists as long as `mirrors`.
    while changes.changed().await.is_ok() {
        sleep(BATCH_TIME).await;
        changes.borrow_and_update();
        if let Err(error) = save(&file, &mirrors).await {
            warn!(
                %error,
                "the state cannot be written, trying again; after a restart the previous state would be used"
            );
            sleep(PAUSE).await;
            changes.mark_changed();
        }
    }
}

/// Writes the current state.
///
/// # Errors
/// When the file cannot be written.
pub(crate) async fn save(file: &StateFile, mirrors: &Arc<Mirrors>) -> Result<(), StateError> {
    let (writer, mirrors) = (file.clone(), Arc::clone(mirrors));
    let written = spawn_blocking(move || writer.save(|| mirrors.saved())).await;
    written.unwrap_or_else(|error| {
        Err(StateError::File {
            path: file.path.to_path_buf(),
            source: io::Error::other(error),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mirror(name: &str) -> SavedMirror {
        let object = json!({
            "metadata": {"name": name, "namespace": "baton-cluster-edge", "uid": "u", "resourceVersion": "9"},
            "spec": {"revision": 2, "objects": []},
            "status": {"conditions": []},
        });
        SavedMirror {
            mirror: Arc::new(Record::read(KIND, &object.to_string()).unwrap()),
            noted: None,
        }
    }

    fn names(file: &StateFile) -> Vec<String> {
        let mirrors = file.load().unwrap().unwrap();
        mirrors
            .iter()
            .map(|it| it.mirror.key.name.to_string())
            .collect()
    }

    #[test]
    fn a_saved_state_is_loaded_again() {
        let directory = tempfile::tempdir().unwrap();
        let file = StateFile::new(&directory.path().join("state"), "edge").unwrap();
        assert!(file.load().unwrap().is_none());
        let noted = ObjectSetPhaseStatus {
            content_hash: Some("h".to_owned()),
            ..ObjectSetPhaseStatus::default()
        };
        let noting = SavedMirror {
            noted: Some(noted.clone()),
            ..mirror("b\n")
        };
        file.save(|| vec![mirror("a"), noting]).unwrap();
        let read = file.load().unwrap().unwrap();
        let read: Vec<_> = read.into_iter().map(|saved| saved.noted).collect();
        assert_eq!(read, [None, Some(noted)]);
        assert_eq!(names(&file), ["a", "b\n"]);
        file.save(Vec::new).unwrap();
        assert!(names(&file).is_empty());
    }

    /// Modes of the directory and of the file.
    fn modes(file: &StateFile) -> (u32, u32) {
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        (mode(file.path.parent().unwrap()), mode(&file.path))
    }

    #[test]
    fn the_state_file_is_readable_by_its_owner_only() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a/state");
        let file = StateFile::new(&path, "edge").unwrap();
        file.save(|| vec![mirror("a")]).unwrap();
        assert_eq!(modes(&file), (0o700, 0o600));
        // The modes that an earlier version left, and a file of an interrupted write.
        let widen =
            |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        widen(&file.path, 0o644);
        widen(&path, 0o755);
        fs::write(file.temporary_path(), "{").unwrap();
        widen(&file.temporary_path(), 0o666);
        let file = StateFile::new(&path, "edge").unwrap();
        assert_eq!(modes(&file), (0o700, 0o600));
        assert_eq!(names(&file), ["a"]);
        fs::write(file.temporary_path(), "{").unwrap();
        widen(&file.temporary_path(), 0o666);
        file.save(Vec::new).unwrap();
        assert_eq!(modes(&file), (0o700, 0o600));
    }

    #[test]
    fn an_interrupted_write_changes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let file = StateFile::new(directory.path(), "edge").unwrap();
        file.save(|| vec![mirror("a")]).unwrap();
        fs::write(file.temporary_path(), "{").unwrap();
        assert_eq!(names(&file), ["a"]);
        let file = StateFile::new(directory.path(), "edge").unwrap();
        assert_eq!(names(&file), ["a"]);
    }

    #[test]
    fn a_damaged_state_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let file = StateFile::new(directory.path(), "edge").unwrap();
        file.save(|| vec![mirror("a")]).unwrap();
        let whole = fs::read(&*file.path).unwrap();
        for at in 0..whole.len() - 1 {
            let mut text = whole.clone();
            text[at] ^= 1;
            fs::write(&*file.path, &text).unwrap();
            assert!(file.load().is_err(), "byte {at}");
            fs::write(&*file.path, &whole[..at]).unwrap();
            assert!(file.load().is_err(), "the first {at} bytes");
        }
    }

    #[test]
    fn the_state_of_another_cluster_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let other = StateFile::new(directory.path(), "other").unwrap();
        other.save(|| vec![mirror("a")]).unwrap();
        let file = StateFile::new(directory.path(), "edge").unwrap();
        let error = file.load().unwrap_err().to_string();
        assert!(
            error.ends_with(r#"of cluster "other", not of "edge""#),
            "{error}"
        );
    }

    #[test]
    fn a_directory_that_cannot_be_created_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "").unwrap();
        let error = StateFile::new(&file, "edge").unwrap_err().to_string();
        assert!(error.starts_with(&*file.to_string_lossy()), "{error}");
    }
}
