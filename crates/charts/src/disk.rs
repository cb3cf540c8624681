//! The folder on disk. After a failed write, nothing is fetched for a while. Files that were not used
//! for the longest time are removed when the folder takes more bytes than allowed.

mod room;

use std::{
    collections::HashMap,
    fmt::Display,
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Weak},
    time::{Duration, Instant, SystemTime},
};

use baton_kubernetes::backoff::Backoff;
use parking_lot::Mutex;
use tempfile::NamedTempFile;
use tokio::sync::Mutex as AsyncMutex;

/// The pauses after failed writes.
const BACKOFF: Backoff = Backoff::up_to(Duration::from_secs(30));

/// Age at which a temporary file belongs to no download and no rendering: both have a time limit.
const LEFTOVER: Duration = Duration::from_mins(10);

/// Prefix of the names of files that are not complete.
pub const NEW: &str = ".new-";

/// Folder of the files of renderings.
const RENDERING: &str = "rendering";

/// The folder of indexes, archives and renderings. Clones share the state.
///
/// # Guarantees
/// - After a failed write, [`Disk::ready`] refuses until a pause has passed. The pause doubles with
///   each failure, up to 30 s. So a full disk causes no loop of downloads, for any number of charts.
/// - Temporary files that an earlier process has left behind are removed before the first write, and
///   after a failed one.
/// - After [`Disk::stored`], the files take no more bytes than the limit, besides those that have a
///   [`Turn`].
#[derive(Clone, Debug)]
pub struct Disk {
    folder: Arc<Path>,
    /// Limit in bytes of the files.
    limit: u64,
    state: Arc<Mutex<State>>,
    /// The files that are fetched or read.
    turns: Arc<Mutex<HashMap<PathBuf, Weak<AsyncMutex<()>>>>>,
    /// Locked by the task that measures the folder.
    measuring: Arc<Mutex<()>>,
}

/// The lock of a file: the task that has it fetches the file, the others wait. While it exists, the
/// file is not removed to make room.
pub type Turn = Arc<AsyncMutex<()>>;

#[derive(Debug, Default)]
struct State {
    is_swept: bool,
    failure: Option<Failure>,
    /// Bytes of the files; `None` if they were not measured yet.
    stored: Option<u64>,
}

#[derive(Debug)]
struct Failure {
    text: String,
    /// Number of failures in a row.
    count: u32,
    /// Time of the next attempt.
    until: Instant,
    /// Number of bytes that could not be written.
    bytes: u64,
}

impl Disk {
    /// Creates a handle. Nothing is read or written.
    pub fn new(folder: &Path, limit: u64) -> Self {
        Self {
            folder: folder.into(),
            limit,
            state: Arc::default(),
            turns: Arc::default(),
            measuring: Arc::default(),
        }
    }

    /// The turn of a file.
    pub fn turn(&self, file: &Path) -> Turn {
        let mut turns = self.turns.lock();
        turns.retain(|_, turn| turn.strong_count() > 0);
        if let Some(turn) = turns.get(file).and_then(Weak::upgrade) {
            return turn;
        }
        let turn = Arc::default();
        turns.insert(file.to_owned(), Arc::downgrade(&turn));
        turn
    }

    /// A new file in a folder, which is created if it is missing.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn temporary(folder: &Path) -> io::Result<NamedTempFile> {
        let create = || {
            fs::create_dir_all(folder)?;
            tempfile::Builder::new().prefix(NEW).tempfile_in(folder)
        };
        match create() {
            // The folder was empty, and was removed in between.
            Err(error) if error.kind() == io::ErrorKind::NotFound => create(),
            created => created,
        }
    }

    /// The folder of the files of renderings.
    pub fn rendering(&self) -> PathBuf {
        self.folder.join(RENDERING)
    }

    /// To be called before something is fetched.
    ///
    /// # Errors
    /// If the last write has failed, until the pause has passed. The text names the folder and the
    /// cause.
    pub fn ready(&self) -> Result<(), String> {
        let mut state = self.state.lock();
        let is_first = !std::mem::replace(&mut state.is_swept, true);
        let failure = state.failure.as_ref();
        let refusal = failure
            .filter(|failure| Instant::now() < failure.until)
            .map(|failure| failure.text.clone());
        drop(state);
        if is_first {
            self.sweep(LEFTOVER);
        }
        refusal.map_or(Ok(()), Err)
    }

    /// Notes that up to so many bytes could not be written. Returns the text of the error, which
    /// names the folder and the cause.
    pub fn failed(&self, bytes: u64, error: &dyn Display) -> String {
        let text = format!("cannot write to {}: {error}", self.folder.display());
        let now = Instant::now();
        let mut state = self.state.lock();
        let before = state.failure.take();
        let is_new = before.is_none();
        // Writes that fail together count once.
        let (count, until) = match &before {
            Some(before) if now < before.until => (before.count, before.until),
            before => {
                let count = before.as_ref().map_or(0, |it| it.count).saturating_add(1);
                (count, now + BACKOFF.delay(count))
            }
        };
        let bytes = before.map_or(bytes, |it| it.bytes.max(bytes));
        state.failure = Some(Failure {
            text: text.clone(),
            count,
            until,
            bytes,
        });
        drop(state);
        if is_new {
            tracing::warn!(
                cause = text,
                "the disk of charts fails; nothing is fetched for a while"
            );
            self.sweep(LEFTOVER);
        }
        text
    }

    /// Notes that so many bytes were written. A write that is shorter than the failed one proves
    /// nothing.
    pub fn wrote(&self, bytes: u64) {
        let mut state = self.state.lock();
        if state.failure.as_ref().is_some_and(|it| it.bytes <= bytes) {
            state.failure = None;
            tracing::info!(folder = %self.folder.display(), "the disk of charts works again");
        }
    }

    /// Removes temporary files of this age.
    fn sweep(&self, age: Duration) {
        for folder in entries(&self.folder) {
            let is_rendering = folder.ends_with(RENDERING);
            for file in entries(&folder) {
                let name = file.file_name().unwrap_or_default();
                let is_temporary =
                    is_rendering || name.as_encoded_bytes().starts_with(NEW.as_bytes());
                if !is_temporary || !is_older(&file, age) {
                    continue;
                }
                // The files of a rendering are in a folder.
                let removed = if file.is_dir() {
                    fs::remove_dir_all(&file)
                } else {
                    fs::remove_file(&file)
                };
                if let Err(error) = removed {
                    tracing::warn!(file = %file.display(), %error, "cannot remove a leftover");
                }
            }
        }
    }
}

/// The paths in a folder; none if it cannot be read.
fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path())
}

fn is_older(file: &Path, age: Duration) -> bool {
    let changed = fs::symlink_metadata(file).and_then(|file| file.modified());
    let passed = changed.map(|changed| SystemTime::now().duration_since(changed));
    passed.is_ok_and(|passed| passed.is_ok_and(|passed| passed >= age))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> io::Error {
        io::Error::from_raw_os_error(28)
    }

    #[test]
    fn nothing_is_fetched_for_a_while_after_a_failed_write() {
        let disk = Disk::new(Path::new("/charts"), 0);
        disk.ready().unwrap();
        let text = disk.failed(100, &full());
        assert!(
            text.starts_with("cannot write to /charts: No space left"),
            "{text}"
        );
        assert_eq!(disk.ready(), Err(text.clone()));
        // Writes that fail together count once.
        disk.failed(10, &full());
        let due = |disk: &Disk| {
            disk.state
                .lock()
                .failure
                .as_ref()
                .map(|it| (it.count, it.until))
        };
        let (count, until) = due(&disk).unwrap();
        assert_eq!(count, 1);
        assert!(until > Instant::now());

        let pass = |disk: &Disk| {
            let mut state = disk.state.lock();
            state.failure.as_mut().unwrap().until = Instant::now();
        };
        for expected in [2, 3] {
            pass(&disk);
            disk.ready().unwrap();
            disk.failed(100, &full());
            assert_eq!(due(&disk).unwrap().0, expected);
        }
        // A short file fits on a disk that is full for a long one.
        disk.wrote(99);
        assert_eq!(disk.ready(), Err(text));
        disk.wrote(100);
        disk.ready().unwrap();
    }

    #[test]
    fn leftovers_are_removed_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let (charts, rendering) = (folder.path().join("charts"), folder.path().join(RENDERING));
        for folder in [&charts, &rendering.join("render-a")] {
            fs::create_dir_all(folder).unwrap();
        }
        for file in [".new-a", "a-1.0.0.tgz", "index.json"] {
            fs::write(charts.join(file), "x").unwrap();
        }
        fs::write(rendering.join("chart-a.tgz"), "x").unwrap();
        let disk = Disk::new(folder.path(), 0);
        disk.ready().unwrap();
        let names = |folder: &Path| {
            let mut names: Vec<_> = entries(folder)
                .map(|it| it.file_name().unwrap().to_string_lossy().into_owned())
                .collect();
            names.sort();
            names.join(" ")
        };
        assert_eq!(names(&charts), ".new-a a-1.0.0.tgz index.json");
        assert_eq!(names(&rendering), "chart-a.tgz render-a");
        disk.sweep(Duration::ZERO);
        assert_eq!(names(&charts), "a-1.0.0.tgz index.json");
        assert_eq!(names(&rendering), "");
    }
}
