//! Programs whose time of day is off by some seconds. Everything else about them is unchanged.
//! Linux only.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::program::temporary;

/// The clock of programs, which a test shifts while they run.
#[derive(Debug)]
pub struct ShiftedClock {
    /// The file with the number of seconds.
    shift: PathBuf,
}

impl ShiftedClock {
    /// Returns a clock that is ahead by this number of seconds.
    #[must_use]
    pub fn ahead(seconds: i64) -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let shift = temporary(&format!("shift-{number}"));
        let clock = Self { shift };
        clock.set(seconds);
        clock
    }

    /// Sets the clock ahead by this number of seconds from now on, or back.
    pub fn set(&self, seconds: i64) {
        // A program must not read a part of the number.
        let new = self.shift.with_extension("new");
        std::fs::write(&new, seconds.to_string()).unwrap();
        std::fs::rename(&new, &self.shift).unwrap();
    }

    /// Returns the environment variables of a program with this clock.
    #[must_use]
    pub fn variables(&self) -> Vec<(&'static str, OsString)> {
        vec![
            ("LD_PRELOAD", library().into()),
            ("CLOCK_SHIFT", self.shift.clone().into()),
        ]
    }
}

impl Drop for ShiftedClock {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.shift);
    }
}

/// Returns the library that shifts the clock, compiled with `cc`, which also links Rust programs.
fn library() -> &'static PathBuf {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let source = temporary("clock.c");
        let library = temporary("clock.so");
        std::fs::write(&source, include_str!("clock/shift.c")).unwrap();
        let made = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .args([&library, &source])
            .output()
            .unwrap_or_else(|error| panic!("cc: {error}"));
        let reported = String::from_utf8_lossy(&made.stderr);
        assert!(made.status.success(), "cc: {reported}");
        library
    })
}
