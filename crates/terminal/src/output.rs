//! The standard output for data, and the standard error for messages.
//!
//! Any user and any joined cluster may have written parts of these texts.

use std::{
    collections::BTreeSet,
    io::{self, ErrorKind, IsTerminal as _, Write as _},
    sync::{Mutex, PoisonError},
};

use anstream::AutoStream;
use baton_text::{output::Output, printable::printable};
use clap::ColorChoice;

/// The standard output of this process.
pub fn stdout(choice: ColorChoice) -> Output {
    let stdout = io::stdout();
    let env = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let size = stdout.is_terminal().then(crossterm::terminal::size);
    Output {
        colors: match choice {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => AutoStream::choice(&stdout) != anstream::ColorChoice::Never,
        },
        width: size
            .and_then(Result::ok)
            .map(|(columns, _)| columns)
            .filter(|columns| *columns > 0),
        ascii: !speaks_unicode(env),
    }
}

/// True if the locale admits more than ASCII, by the rules of POSIX. Without a locale, UTF-8 is
/// assumed, which current terminals understand.
fn speaks_unicode(env: impl Fn(&str) -> Option<String>) -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(env);
    locale.is_none_or(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}

/// Writes texts in the form of an [`Output`].
pub trait Print {
    /// Writes a text to the standard output, with a newline at its end. Writes nothing for an empty
    /// text.
    ///
    /// # Errors
    /// If the standard output cannot be written.
    fn print(self, text: &str) -> io::Result<()>;
}

impl Print for Output {
    fn print(self, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        let mut text = self.printable(text);
        if !text.ends_with('\n') {
            text.to_mut().push('\n');
        }
        write(&text)
    }
}

/// Writes data to the standard output, as it is.
///
/// # Errors
/// For instance, if the output is full, or its reader is gone.
pub fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Writes a text for people to the standard output, with [visible](printable) control characters.
/// It is no error if the reader is gone.
///
/// # Errors
/// For instance, if the output is full.
pub fn print(text: &str) -> io::Result<()> {
    match write(&printable(text, &[])) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

/// Writes a line to the standard error, with [visible](printable) control characters. Failures are
/// ignored.
pub fn report(line: &str) {
    let _ = writeln!(io::stderr(), "{}", printable(line, &[]));
}

/// Writes a warning to the standard error, once per process: watches would repeat it after every
/// change.
pub fn warn_once(warning: &str) {
    static REPORTED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut reported = REPORTED.lock().unwrap_or_else(PoisonError::into_inner);
    if reported.insert(warning.to_owned()) {
        report(&format!("warning: {warning}"));
    }
}

/// Reports on the standard error that nothing was found, as kubectl does; `None` means all namespaces.
pub fn objects_none_found(namespace: Option<&str>) {
    match namespace {
        Some(namespace) => report(&format!("No resources found in {namespace} namespace.")),
        None => report("No resources found"),
    }
}

/// Runs `work`, and shows on the standard error that it runs, and if it succeeded.
///
/// # Errors
/// The error of `work`.
pub async fn task<T, E>(doing: &str, work: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    let mut out = io::stderr();
    // A closed standard error does not stop the work.
    let _ = write!(out, "{}... ", printable(doing, &[])).and_then(|()| out.flush());
    let result = work.await;
    report(if result.is_ok() { "done" } else { "failed" });
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_locale_decides_about_unicode() {
        let speaks = |set: &[(&str, &str)]| {
            speaks_unicode(|name| {
                let found = set.iter().find(|(key, _)| *key == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        assert!(speaks(&[]));
        assert!(speaks(&[("LANG", "en_US.UTF-8")]));
        assert!(speaks(&[("LC_ALL", "C.utf8"), ("LANG", "C")]));
        assert!(!speaks(&[("LANG", "C")]));
        assert!(!speaks(&[("LC_ALL", "POSIX"), ("LANG", "en_US.UTF-8")]));
    }
}
