//! Programs whose time of day is off by some seconds. Everything else about them is unchanged.
//! Linux only.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use crate::program::temporary;

/// Returns the environment variables that shift the clock of a program.
#[must_use]
pub fn shifted(seconds: i64) -> Vec<(&'static str, OsString)> {
    vec![
        ("LD_PRELOAD", library().into()),
        ("CLOCK_SHIFT", seconds.to_string().into()),
    ]
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
