//! Data on the standard output, messages on the standard error.

use std::io::{self, ErrorKind, Write as _};

/// Writes data to the standard output.
///
/// # Errors
/// The output is full, or its reader has gone, for instance.
pub fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// As [`write()`], but a reader that has gone is no error.
///
/// # Errors
/// The output is full, for instance.
pub fn print(text: &str) -> io::Result<()> {
    match write(text) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

/// Writes a line to the standard error. Whether anybody reads it makes no difference.
pub fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Shows on the standard error what is being done, and whether it succeeded.
///
/// # Errors
/// That of the work.
pub async fn task<T, E>(doing: &str, work: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    let mut out = io::stderr();
    // A closed standard error does not stop the work.
    let _ = write!(out, "{doing}... ").and_then(|()| out.flush());
    let result = work.await;
    say(if result.is_ok() { "done" } else { "failed" });
    result
}
