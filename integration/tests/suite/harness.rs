//! The guarantees of the fixtures.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use baton_integration::guard::Guard;

/// No process of a test survives the test process.
#[test]
fn a_guard_ends_its_process_when_the_test_process_is_gone() {
    let mut child = Command::new("sleep")
        .arg("60")
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let mut guard = Guard::over_process(child.id());
    assert!(child.try_wait().unwrap().is_none());
    guard.close();
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        assert!(start.elapsed() < Duration::from_secs(10), "still there");
        std::thread::sleep(Duration::from_millis(10));
    }
}
