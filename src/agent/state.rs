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
//! - A file that is damaged is reported, and replaced by the state of the hub. Only time is lost: the
//!   hub has the whole state.
//! - A file of another cluster is reported, and neither used nor replaced: the other agent may need
//!   it.
//! - A file of another hub is reported and not replaced, unless a revision names that hub as lost. Until
//!   this agent has reached its hub, it continues with the file, as the address of a hub may change.
//!   Then the phases of the other hub are dropped, and their objects stay: no hub has deleted them.
//! - While a file cannot be written, the attempts become rare, and leave no incomplete file.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    os::unix::fs::{
        DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
    },
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use baton_apis::{ObjectSetPhaseStatus, conditions::Reason};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{json, value::RawValue};
use tokio::{
    task::spawn_blocking,
    time::{Instant, sleep},
};
use tracing::{info, warn};

use baton_fleet::{inventory::agents::FileReport, mirror::KIND};
use baton_kubernetes::backoff::Backoff;
use baton_records::record::{ReadError, Record};

use super::mirrors::{Mirrors, SavedMirror};
use crate::error::StateError;

/// Changes within this time are written together.
const BATCH_TIME: Duration = Duration::from_millis(200);
/// The longest pause after a failed write: a full disk stays full for some time.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_mins(5);
/// Limit of the length of a header.
const MAX_HEADER: u64 = 4096;
/// Modes of a directory and a file that only the agent can read.
const PRIVATE_DIRECTORY: u32 = 0o700;
const PRIVATE_FILE: u32 = 0o600;
/// Version of the format.
const FORMAT: u32 = 1;

#[derive(Deserialize, Serialize)]
struct Header {
    format: u32,
    cluster: String,
    /// UID of the hub. Empty if it is unknown, and in the files of earlier versions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    hub: String,
    /// CRC-32 of the UID of the hub and the second line.
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
    attempts: Arc<Mutex<Attempts>>,
    report: Arc<Mutex<Option<FileReport>>>,
}

/// The hub of the state to be written.
#[derive(Clone, Copy)]
struct Hub<'a> {
    /// UID of the hub; empty if it is unknown.
    uid: &'a str,
    /// True for the UID of another hub that does not exist any more.
    is_lost: &'a dyn Fn(&str) -> bool,
}

/// The attempts to write a file.
#[derive(Debug, Default)]
struct Attempts {
    /// True if the directory exists, and only the agent can read it.
    is_prepared: bool,
    /// Number of failed attempts in a row.
    failures: u32,
    /// Time of the next attempt, and the error of the last one, if it has failed.
    failing: Option<(Instant, String)>,
    /// The damage that was found at the start.
    damage: Option<String>,
}

impl StateFile {
    /// The state file of a cluster's agent, in a directory that is created if it does not exist.
    pub(crate) fn new(directory: &Path, cluster: &str) -> Self {
        Self {
            path: directory.join("mirrors.json").into(),
            cluster: cluster.into(),
            attempts: Arc::default(),
            report: Arc::default(),
        }
    }

    /// The state of the file, for people; `None` while it is unknown.
    pub(crate) fn report(&self) -> Option<FileReport> {
        self.report.lock().clone()
    }

    /// Notes that the file cannot be used.
    fn failed(&self, error: &StateError) {
        let (reason, remedy) = match error {
            StateError::OtherCluster { .. } => (
                Reason::StateOfOtherCluster,
                "the agent neither uses nor replaces it. Give each agent a volume of its own, or delete the file if \
                 the other agent is gone",
            ),
            StateError::OtherHub { .. } => (
                Reason::StateOfOtherHub,
                "the agent does not replace it, and leaves the objects of that hub alone. If that hub does not exist \
                 any more, delete the file, or name the hub in the annotation baton.run/lost-hubs",
            ),
            _ => (
                Reason::StateNotWritten,
                "the agent continues without it, and begins no phase of a site. Free or enlarge the disk, or let \
                 --state-dir name a directory that the agent can write to",
            ),
        };
        *self.report.lock() = Some(FileReport {
            is_stored: false,
            reason,
            message: format!("{error}; {remedy}"),
        });
    }

    /// Creates the directory, and removes the access of others to it.
    ///
    /// # Errors
    /// When the directory cannot be written to.
    fn prepare(&self) -> Result<(), StateError> {
        let directory = self.path.parent().unwrap_or_else(|| Path::new("."));
        let error = |source| StateError::File {
            path: directory.to_owned(),
            source,
        };
        let mut builder = DirBuilder::new();
        let made = builder.recursive(true).mode(PRIVATE_DIRECTORY);
        made.create(directory).map_err(error)?;
        close_directory(directory).map_err(error)?;
        // A directory that cannot be written to is reported at the start, and not when the hub is
        // unreachable.
        let probe = self.temporary_path();
        create(&probe).map_err(error)?;
        fs::remove_file(&probe).map_err(error)?;
        match close(&self.path, PRIVATE_FILE) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                let path = self.path.to_path_buf();
                Err(StateError::File { path, source })
            }
            _ => Ok(()),
        }
    }

    /// The path where a new state is written before it replaces the old one.
    fn temporary_path(&self) -> PathBuf {
        self.path.with_extension("json.new")
    }

    /// The stored mirrors; `None` if there is no state yet. A directory that cannot be written to is
    /// reported.
    ///
    /// # Errors
    /// When the state cannot be used.
    pub(crate) fn load(&self) -> Result<Option<Vec<SavedMirror>>, StateError> {
        let mut attempts = self.attempts.lock();
        match self.prepare() {
            Ok(()) => attempts.is_prepared = true,
            Err(error) => {
                warn!(%error, "the directory of the state cannot be written to");
                self.failed(&error);
            }
        }
        let loaded = self.try_load();
        match &loaded {
            Ok(_) => {}
            Err(error @ StateError::Damaged { .. }) => attempts.damage = Some(error.to_string()),
            Err(error) => self.failed(error),
        }
        loaded
    }

    fn try_load(&self) -> Result<Option<Vec<SavedMirror>>, StateError> {
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
            return Err(self.other_cluster(header));
        }
        let body = body.trim_ascii();
        if crc32fast::hash(&[header.hub.as_bytes(), body].concat()) != header.checksum {
            return Err(damaged("the checksum does not match".to_owned()));
        }
        read(body)
            .map(Some)
            .map_err(|error| damaged(error.to_string()))
    }

    /// Replaces the state. After a failure nothing is written for some time.
    ///
    /// # Errors
    /// When the file cannot be written, or the last attempt to write it failed a short time ago; the
    /// old one is unchanged then.
    fn save(
        &self,
        hub: Hub<'_>,
        mirrors: impl FnOnce() -> Vec<SavedMirror>,
    ) -> Result<(), StateError> {
        let mut attempts = self.attempts.lock();
        if let Some((next, error)) = &attempts.failing
            && Instant::now() < *next
        {
            return Err(StateError::Failing(error.clone()));
        }
        let saved = self.try_save(&mut attempts, hub, mirrors);
        if let Err(error) = &saved {
            attempts.is_prepared = false;
            attempts.failures = attempts.failures.saturating_add(1);
            let pause = Backoff::up_to(LONGEST_PAUSE).delay(attempts.failures);
            attempts.failing = Some((Instant::now() + pause, error.to_string()));
            self.failed(error);
            return saved;
        }
        attempts.failures = 0;
        attempts.failing = None;
        let (reason, message) = attempts.damage.as_ref().map_or_else(
            || (Reason::StateWritten, String::new()),
            |damage| {
                let text = format!(
                    "{damage}. It was replaced by the state of the hub when the agent started; check the disk"
                );
                (Reason::StateWasDamaged, text)
            },
        );
        *self.report.lock() = Some(FileReport {
            is_stored: true,
            reason,
            message,
        });
        saved
    }

    /// The time until the next attempt to write, after a failure.
    fn pause(&self) -> Duration {
        let attempts = self.attempts.lock();
        let next = attempts.failing.as_ref().map(|(next, _)| *next);
        next.map_or(BATCH_TIME, |next| {
            next.saturating_duration_since(Instant::now())
        })
    }

    /// Checks that an existing file is not that of another cluster, or of another hub that may
    /// exist. A damaged one is replaced. Returns the UID of the hub of the new file.
    fn check_owner(&self, hub: Hub<'_>) -> Result<String, StateError> {
        let own = hub.uid.to_owned();
        let Ok(file) = File::open(&self.path) else {
            return Ok(own);
        };
        let mut line = Vec::new();
        let mut start = BufReader::new(file.take(MAX_HEADER));
        let read = start.read_until(b'\n', &mut line);
        let Some(header) = serde_json::from_slice::<Header>(&line)
            .ok()
            .filter(|_| read.is_ok())
        else {
            return Ok(own);
        };
        if header.cluster != *self.cluster {
            return Err(self.other_cluster(header));
        }
        if own.is_empty() {
            return Ok(header.hub);
        }
        if header.hub.is_empty() || header.hub == own || (hub.is_lost)(&header.hub) {
            return Ok(own);
        }
        Err(StateError::OtherHub {
            path: self.path.to_path_buf(),
            found: header.hub,
            expected: own,
        })
    }

    fn other_cluster(&self, header: Header) -> StateError {
        StateError::OtherCluster {
            path: self.path.to_path_buf(),
            found: header.cluster,
            expected: self.cluster.to_string(),
        }
    }

    fn try_save(
        &self,
        attempts: &mut Attempts,
        hub: Hub<'_>,
        mirrors: impl FnOnce() -> Vec<SavedMirror>,
    ) -> Result<(), StateError> {
        if !attempts.is_prepared {
            self.prepare()?;
            attempts.is_prepared = true;
        }
        let hub = self.check_owner(hub)?;
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
                hub: hub.clone(),
                checksum: crc32fast::hash(&[hub.as_bytes(), &body].concat()),
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
        write().map_err(|source: io::Error| {
            // An incomplete file would fill the disk.
            let _ = fs::remove_file(self.temporary_path());
            StateError::File {
                path: self.path.to_path_buf(),
                source,
            }
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
    let mut is_failing = false;
    // The sender exists as long as `mirrors`.
    while changes.changed().await.is_ok() {
        sleep(BATCH_TIME).await;
        changes.borrow_and_update();
        match save(&file, &mirrors).await {
            Ok(()) => {
                if is_failing {
                    info!("the state is written again");
                    // They wait for the disk.
                    mirrors.wake_waiting();
                }
                is_failing = false;
            }
            Err(error) => {
                if !is_failing {
                    warn!(
                        %error,
                        "the state cannot be written, trying again; after a restart the previous state would be used"
                    );
                }
                is_failing = true;
                sleep(file.pause()).await;
                changes.mark_changed();
            }
        }
    }
}

/// Writes the current state. That of an agent that is refused belongs to another one, and is not
/// written.
///
/// # Errors
/// When the file cannot be written.
pub(crate) async fn save(file: &StateFile, mirrors: &Arc<Mirrors>) -> Result<(), StateError> {
    if mirrors.acceptance().is_refused() {
        return Ok(());
    }
    let (writer, mirrors) = (file.clone(), Arc::clone(mirrors));
    let write = move || {
        let hub = Hub {
            uid: &mirrors.hub(),
            is_lost: &|hub| mirrors.is_lost_hub(hub),
        };
        writer.save(hub, || mirrors.saved())
    };
    let written = spawn_blocking(write).await;
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

    const UNKNOWN: Hub<'_> = Hub {
        uid: "",
        is_lost: &|_| false,
    };

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
        let file = StateFile::new(&directory.path().join("state"), "edge");
        assert!(file.load().unwrap().is_none());
        let noted = ObjectSetPhaseStatus {
            content_hash: Some("h".to_owned()),
            ..ObjectSetPhaseStatus::default()
        };
        let noting = SavedMirror {
            noted: Some(noted.clone()),
            ..mirror("b\n")
        };
        file.save(UNKNOWN, || vec![mirror("a"), noting]).unwrap();
        let read = file.load().unwrap().unwrap();
        let read: Vec<_> = read.into_iter().map(|saved| saved.noted).collect();
        assert_eq!(read, [None, Some(noted)]);
        assert_eq!(names(&file), ["a", "b\n"]);
        file.save(UNKNOWN, Vec::new).unwrap();
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
        let file = StateFile::new(&path, "edge");
        file.save(UNKNOWN, || vec![mirror("a")]).unwrap();
        assert_eq!(modes(&file), (0o700, 0o600));
        // The modes that an earlier version left, and a file of an interrupted write.
        let widen =
            |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        widen(&file.path, 0o644);
        widen(&path, 0o755);
        fs::write(file.temporary_path(), "{").unwrap();
        widen(&file.temporary_path(), 0o666);
        let file = StateFile::new(&path, "edge");
        assert_eq!(names(&file), ["a"]);
        assert_eq!(modes(&file), (0o700, 0o600));
        fs::write(file.temporary_path(), "{").unwrap();
        widen(&file.temporary_path(), 0o666);
        file.save(UNKNOWN, Vec::new).unwrap();
        assert_eq!(modes(&file), (0o700, 0o600));
    }

    #[test]
    fn an_interrupted_write_changes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let file = StateFile::new(directory.path(), "edge");
        file.save(UNKNOWN, || vec![mirror("a")]).unwrap();
        fs::write(file.temporary_path(), "{").unwrap();
        assert_eq!(names(&file), ["a"]);
        let file = StateFile::new(directory.path(), "edge");
        assert_eq!(names(&file), ["a"]);
    }

    #[test]
    fn a_damaged_state_is_an_error() {
        for uid in ["", "c0ffee"] {
            let directory = tempfile::tempdir().unwrap();
            let file = StateFile::new(directory.path(), "edge");
            let hub = Hub { uid, ..UNKNOWN };
            file.save(hub, || vec![mirror("a")]).unwrap();
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
    }

    /// Status and reason of the report.
    fn reported(file: &StateFile) -> Option<(bool, Reason)> {
        file.report().map(|it| (it.is_stored, it.reason))
    }

    #[test]
    fn a_damaged_state_is_replaced_and_reported() {
        let directory = tempfile::tempdir().unwrap();
        let file = StateFile::new(directory.path(), "edge");
        assert_eq!(reported(&file), None);
        file.save(UNKNOWN, || vec![mirror("a")]).unwrap();
        assert_eq!(reported(&file), Some((true, Reason::StateWritten)));
        fs::write(&*file.path, "{").unwrap();
        let file = StateFile::new(directory.path(), "edge");
        assert!(file.load().is_err());
        file.save(UNKNOWN, || vec![mirror("b")]).unwrap();
        assert_eq!(names(&file), ["b"]);
        assert_eq!(reported(&file), Some((true, Reason::StateWasDamaged)));
        let message = file.report().unwrap().message;
        assert!(message.contains("mirrors.json is damaged"), "{message}");
        let file = StateFile::new(directory.path(), "edge");
        file.load().unwrap();
        file.save(UNKNOWN, Vec::new).unwrap();
        assert_eq!(
            reported(&file),
            Some((true, Reason::StateWritten)),
            "at the next start"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn the_state_of_another_cluster_is_neither_used_nor_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let other = StateFile::new(directory.path(), "other");
        other.save(UNKNOWN, || vec![mirror("a")]).unwrap();
        let file = StateFile::new(directory.path(), "edge");
        let error = file.load().unwrap_err().to_string();
        assert!(
            error.ends_with(r#"of cluster "other", not of "edge""#),
            "{error}"
        );
        let foreign = Some((false, Reason::StateOfOtherCluster));
        assert_eq!(reported(&file), foreign);
        assert!(file.save(UNKNOWN, Vec::new).is_err());
        assert_eq!(reported(&file), foreign);
        assert_eq!(names(&other), ["a"]);
        fs::remove_file(&*file.path).unwrap();
        tokio::time::advance(LONGEST_PAUSE).await;
        file.save(UNKNOWN, || vec![mirror("b")]).unwrap();
        assert_eq!(names(&file), ["b"]);
        assert_eq!(reported(&file), Some((true, Reason::StateWritten)));
    }

    /// The hub in the file before, that of the agent, and that of the file afterwards; none if the
    /// file is not replaced.
    #[tokio::test(start_paused = true)]
    async fn the_state_of_another_hub_is_not_replaced() {
        let is_lost = |hub: &str| hub == "lost";
        for (before, own, after) in [
            ("", "", Some("")),
            ("", "a", Some("a")),
            // An earlier version of the manager does not name its hub.
            ("a", "", Some("a")),
            ("a", "a", Some("a")),
            ("b", "a", None),
            ("lost", "a", Some("a")),
        ] {
            let directory = tempfile::tempdir().unwrap();
            let save = |uid: &str, name: &str| {
                let hub = Hub {
                    uid,
                    is_lost: &is_lost,
                };
                StateFile::new(directory.path(), "edge").save(hub, || vec![mirror(name)])
            };
            save(before, "old").unwrap();
            let saved = save(own, "new");
            let file = StateFile::new(directory.path(), "edge");
            let text = fs::read_to_string(&*file.path).unwrap();
            let header: Header = serde_json::from_str(text.lines().next().unwrap()).unwrap();
            let (hub, name) = after.map_or((before, "old"), |hub| (hub, "new"));
            assert_eq!((&*header.hub, names(&file)), (hub, vec![name.to_owned()]));
            assert_eq!(saved.is_ok(), after.is_some(), "{before} {own}");
        }
    }

    /// The text names both hubs and the remedy.
    #[test]
    fn the_state_of_another_hub_is_reported() {
        let directory = tempfile::tempdir().unwrap();
        let file = StateFile::new(directory.path(), "edge");
        let of = |uid| Hub { uid, ..UNKNOWN };
        file.save(of("there"), Vec::new).unwrap();
        assert!(file.save(of("here"), Vec::new).is_err());
        let foreign = Some((false, Reason::StateOfOtherHub));
        assert_eq!(reported(&file), foreign);
        let message = file.report().unwrap().message;
        for part in [
            "of the hub there, not of here",
            "delete the file",
            "baton.run/lost-hubs",
        ] {
            assert!(message.contains(part), "{message}");
        }
    }

    /// A file is in the place of the directory.
    #[tokio::test(start_paused = true)]
    async fn a_failing_disk_is_reported_and_tried_rarely() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "").unwrap();
        let file = StateFile::new(&path, "edge");
        assert!(file.load().is_err());
        assert_eq!(reported(&file), Some((false, Reason::StateNotWritten)));
        let error = file.save(UNKNOWN, Vec::new).unwrap_err().to_string();
        assert!(error.starts_with(&*path.to_string_lossy()), "{error}");
        let message = file.report().unwrap().message;
        assert!(
            message.starts_with(&error) && message.contains("--state-dir"),
            "{message}"
        );
        let mut tries = 0;
        for _ in 0..3_600 {
            tokio::time::advance(Duration::from_secs(1)).await;
            let failed = file.save(UNKNOWN, || {
                tries += 1;
                Vec::new()
            });
            assert_eq!(failed.unwrap_err().to_string(), error);
        }
        assert_eq!(tries, 0, "the mirrors are not read for nothing");
        assert!(file.attempts.lock().failures < 40, "{file:?}");
        fs::remove_file(&path).unwrap();
        tokio::time::advance(LONGEST_PAUSE).await;
        file.save(UNKNOWN, || vec![mirror("a")]).unwrap();
        assert_eq!(names(&file), ["a"]);
        assert_eq!(reported(&file), Some((true, Reason::StateWritten)));
        assert_eq!(modes(&file), (0o700, 0o600));
    }

    /// The place of the file is taken by a directory, so that the last step of a write fails.
    #[test]
    fn a_failed_write_leaves_no_incomplete_file() {
        let directory = tempfile::tempdir().unwrap();
        let file = StateFile::new(directory.path(), "edge");
        fs::create_dir(&*file.path).unwrap();
        assert!(file.save(UNKNOWN, || vec![mirror("a")]).is_err());
        assert!(!file.temporary_path().exists());
    }
}
