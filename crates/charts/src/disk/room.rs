//! Keeps the folder within its limit.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::Weak,
    time::SystemTime,
};

use super::{Disk, NEW, RENDERING, entries};

/// Unit in which files take bytes of a disk.
const BLOCK: u64 = 4096;

/// The part of the limit that is filled after a removal, so that not each write causes one.
const FILLED: (u64, u64) = (9, 10);

/// A file that may be removed.
struct Candidate {
    file: PathBuf,
    bytes: u64,
    used: SystemTime,
}

impl Disk {
    /// Notes that a file is used. Returns false if there is no such file.
    pub fn used(file: &Path) -> bool {
        let Ok(file) = File::open(file) else {
            return false;
        };
        // On a disk that cannot be written to, nothing is stored either, so nothing is removed.
        let _ = file.set_modified(SystemTime::now());
        true
    }

    /// Notes that a file of so many bytes was stored. If the folder takes more than its limit, files
    /// that were not used for the longest time are removed. Blocks while it reads the folder.
    ///
    /// # Guarantees
    /// - No file is removed that has a [`Turn`](super::Turn), or that is none of this program.
    /// - The folder is read once at first, and then once for each tenth of the limit that is stored.
    pub fn stored(&self, bytes: u64) {
        let is_full = {
            let mut state = self.state.lock();
            let stored = state
                .stored
                .map(|stored| stored.saturating_add(occupied(bytes)));
            state.stored = stored;
            stored.is_none_or(|stored| stored > self.limit)
        };
        if !is_full {
            return;
        }
        let Some(_measuring) = self.measuring.try_lock() else {
            return;
        };
        let (mut stored, mut candidates) = self.measured();
        if stored > self.limit {
            let before = stored;
            let (part, whole) = FILLED;
            candidates.sort_by_key(|candidate| candidate.used);
            for Candidate { file, bytes, .. } in candidates {
                if stored <= self.limit / whole * part {
                    break;
                }
                match self.remove(&file) {
                    Ok(true) => stored = stored.saturating_sub(bytes),
                    Ok(false) => {}
                    Err(error) => {
                        tracing::warn!(file = %file.display(), %error, "cannot remove a chart");
                    }
                }
            }
            let (removed, limit) = (before - stored, self.limit);
            tracing::info!(folder = %self.folder.display(), removed, limit, "removed charts that were not used");
        }
        self.state.lock().stored = Some(stored);
    }

    /// The bytes of the folder, and the files that may be removed. Removes empty folders.
    fn measured(&self) -> (u64, Vec<Candidate>) {
        let (mut stored, mut candidates) = (0, Vec::new());
        for folder in entries(&self.folder).filter(|folder| !folder.ends_with(RENDERING)) {
            // Only an empty folder can be removed.
            if fs::remove_dir(&folder).is_ok() {
                continue;
            }
            stored += BLOCK;
            for file in entries(&folder) {
                let Ok(facts) = fs::symlink_metadata(&file) else {
                    continue;
                };
                let bytes = occupied(facts.len());
                stored += bytes;
                if is_own(&file) && facts.is_file() {
                    let used = facts.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                    candidates.push(Candidate { file, bytes, used });
                }
            }
        }
        (stored, candidates)
    }

    /// Removes a file, and its folder if that is empty then. Returns false if the file is in use.
    fn remove(&self, file: &Path) -> io::Result<bool> {
        // Nobody gets a turn in between.
        let turns = self.turns.lock();
        if turns
            .get(file)
            .is_some_and(|turn| Weak::strong_count(turn) > 0)
        {
            return Ok(false);
        }
        fs::remove_file(file)?;
        drop(turns);
        if let Some(folder) = file.parent() {
            let _ = fs::remove_dir(folder);
        }
        Ok(true)
    }
}

/// Bytes that a file of this length takes.
fn occupied(bytes: u64) -> u64 {
    bytes.div_ceil(BLOCK).max(1).saturating_mul(BLOCK)
}

/// True for a complete index or archive.
fn is_own(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    !name.starts_with(NEW) && (name.ends_with(".tgz") || name.ends_with(".json"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A folder with files, each with the seconds since its last use.
    fn folder(files: &[(&str, u64)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, age) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "x").unwrap();
            let used = SystemTime::now() - Duration::from_secs(*age);
            File::open(&path).unwrap().set_modified(used).unwrap();
        }
        folder
    }

    fn left(folder: &Path) -> String {
        let mut left: Vec<_> = entries(folder).collect();
        left.extend(left.clone().iter().flat_map(|folder| entries(folder)));
        let mut left: Vec<_> = left
            .iter()
            .map(|path| path.strip_prefix(folder).unwrap().display().to_string())
            .collect();
        left.sort();
        left.join(" ")
    }

    #[test]
    fn files_that_were_not_used_for_the_longest_time_are_removed() {
        let files = [
            ("a/a-1.0.0.tgz", 50),
            ("a/index.json", 20),
            ("b/b-1.0.0.tgz", 60),
            ("c/.new-x", 90),
            ("c/c-1.0.0.tgz", 70),
            ("c/mine.txt", 90),
            ("rendering/chart-x.tgz", 90),
        ];
        let folder = folder(&files);
        // Three folders and six files.
        let disk = Disk::new(folder.path(), 9 * BLOCK);
        disk.stored(1);
        assert_eq!(disk.state.lock().stored, Some(9 * BLOCK));
        let in_use = folder.path().join("c/c-1.0.0.tgz");
        let turn = disk.turn(&in_use);
        assert!(Disk::used(&folder.path().join("b/b-1.0.0.tgz")));
        assert!(!Disk::used(&folder.path().join("b/b-2.0.0.tgz")));
        // The limit is exceeded by one file, and a tenth of it becomes free.
        fs::write(folder.path().join("b/b-3.0.0.tgz"), "x").unwrap();
        disk.stored(1);
        let foreign = "c c/.new-x c/c-1.0.0.tgz c/mine.txt rendering rendering/chart-x.tgz";
        let expected = format!("b b/b-1.0.0.tgz b/b-3.0.0.tgz {foreign}");
        assert_eq!(left(folder.path()), expected);
        drop(turn);

        let disk = Disk::new(folder.path(), 0);
        disk.stored(1);
        let foreign = "c c/.new-x c/mine.txt rendering rendering/chart-x.tgz";
        assert_eq!(left(folder.path()), foreign);
    }

    #[test]
    fn empty_folders_are_removed() {
        let folder = folder(&[("a/index.json", 1)]);
        fs::create_dir(folder.path().join("empty")).unwrap();
        Disk::new(folder.path(), 1 << 20).stored(1);
        assert_eq!(left(folder.path()), "a a/index.json");
    }

    #[test]
    fn a_file_takes_whole_blocks() {
        let occupied = [0, 1, BLOCK, BLOCK + 1].map(occupied);
        assert_eq!(occupied, [1, 1, 1, 2].map(|blocks| blocks * BLOCK));
    }
}
