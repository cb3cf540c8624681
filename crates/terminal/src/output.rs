//! Data on the standard output, messages on the standard error.

use std::io::{self, ErrorKind, Write as _};

/// Writes data to the standard output.
///
/// # Errors
/// For instance, if the output is full, or its reader is gone.
pub fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// As [`write()`], but it is no error if the reader is gone.
///
/// # Errors
/// For instance, if the output is full.
pub fn print(text: &str) -> io::Result<()> {
    match write(text) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

/// Writes a line to the standard error. Failures are ignored.
pub fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Runs `work`, and shows on the standard error that it runs, and if it succeeded.
///
/// # Errors
/// The error of `work`.
pub async fn task<T, E>(doing: &str, work: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    let mut out = io::stderr();
    // A closed standard error does not stop the work.
    let _ = write!(out, "{doing}... ").and_then(|()| out.flush());
    let result = work.await;
    say(if result.is_ok() { "done" } else { "failed" });
    result
}
