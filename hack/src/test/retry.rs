//! Runs test binaries for cargo, and repeats failed tests that need the bed, one at a time.
//!
//! Cargo calls this for each binary (`runner` in its configuration), with the directory and the
//! environment that the tests expect. A test that fails and then passes alone is flaky: its output
//! is stored, and the binary passes.

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::{env, fs};

use clap::Args;

use crate::exec;

/// The packages whose tests need a bed. Tests of others are not repeated: the inputs that a
/// property test has found would be lost in a second run.
const ON_BED: [&str; 2] = ["baton-hack", "baton-integration"];

/// With more failed tests than this, something is broken, and repeating all of them would take
/// long.
const MAX_RETRIED: usize = 10;

/// The exit code of a test binary with failed tests.
const FAILED: i32 = 101;

/// Maximum length of the cause of a failure in the summary, in lines and in characters of a line.
const MAX_CAUSE: (usize, usize) = (12, 400);

/// The test binary that cargo wants to run, with its arguments.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Directory for the output of flaky tests.
    kept: PathBuf,
    /// The binary to run.
    program: PathBuf,
    /// The arguments of the binary.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

/// The reason that a binary did not run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("cannot run {program}: {source}")]
    Run { program: PathBuf, source: io::Error },
    #[error("cannot keep the output of a flaky test: {0}")]
    Keep(#[from] io::Error),
    #[error(transparent)]
    InPlace(#[from] exec::Error),
}

/// A test that failed once and passed alone.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Flaky {
    pub(super) name: String,
    /// The output of the failed run.
    pub(super) output: PathBuf,
}

impl Flaky {
    /// The message of the first panic in the output, with its place, cut to [`MAX_CAUSE`]. Empty if
    /// the output cannot be read or has no panic.
    pub(super) fn cause(&self) -> String {
        cause(&fs::read_to_string(&self.output).unwrap_or_default())
    }
}

/// See [`Flaky::cause`].
fn cause(output: &str) -> String {
    let (most_lines, most_characters) = MAX_CAUSE;
    let lines = output.lines();
    lines
        .skip_while(|line| !line.contains("panicked at "))
        .take_while(|line| !line.starts_with("note: run with `RUST_BACKTRACE"))
        .take_while(|line| line.trim() != "stack backtrace:")
        .take(most_lines)
        .map(|line| line.chars().take(most_characters).collect())
        .collect::<Vec<String>>()
        .join("\n")
}

/// Runs the binary, and its failed tests once more.
pub(crate) fn run(options: &Options) -> Result<ExitCode, Error> {
    let Options {
        kept,
        program,
        args,
    } = options;
    let package = env::var("CARGO_PKG_NAME").unwrap_or_default();
    if !ON_BED.contains(&&*package) {
        return Err(exec::in_place(Command::new(program).args(args)).into());
    }
    let run = |args: &[OsString]| {
        let source = match run_forwarded(Command::new(program).args(args)) {
            Ok(run) => return Ok(run),
            Err(source) => source,
        };
        let program = program.clone();
        Err(Error::Run { program, source })
    };
    let first = run(args)?;
    let failed = failed(&first.output);
    let is_at_end = first.status.code() == Some(FAILED);
    if !is_at_end || failed.is_empty() || failed.len() > MAX_RETRIED {
        return Ok(exec::exit_code(first.status));
    }
    eprintln!("\nfailed tests once more, one at a time: {}", failed.len());
    let second = run(&alone(&failed))?;
    for name in flaky(&failed, &second) {
        let log = format!("target/tmp/{}-*.log", first.id);
        let output = output_of(&first.output, name, &failed);
        store_output(kept, name, &format!("all logs: {log}\n\n{output}"))?;
    }
    Ok(exec::exit_code(second.status))
}

/// The stored outputs in a directory, in the order of their names.
pub(super) fn kept(dir: &Path) -> Vec<Flaky> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let flaky = entries.filter_map(|entry| {
        let output = entry.path();
        let name = output.file_stem()?.to_str()?.replace('.', "::");
        Some(Flaky { name, output })
    });
    let mut flaky: Vec<Flaky> = flaky.collect();
    flaky.sort_by(|a, b| a.name.cmp(&b.name));
    flaky
}

/// Stores the output of a test in a file with its name, as [`kept`] reads it.
fn store_output(dir: &Path, name: &str, output: &str) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    let file = format!("{}.txt", name.replace("::", "."));
    fs::write(dir.join(file), output)
}

/// A run of a binary.
struct Run {
    id: u32,
    status: ExitStatus,
    /// Standard output of the run.
    output: String,
}

/// Runs a command, and forwards its standard output as it is written.
fn run_forwarded(command: &mut Command) -> io::Result<Run> {
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let mut output = Vec::new();
    if let Some(mut pipe) = child.stdout.take() {
        let mut chunk = [0; 8192];
        loop {
            let read = pipe.read(&mut chunk)?;
            if read == 0 {
                break;
            }
            let mut out = io::stdout().lock();
            out.write_all(&chunk[..read])?;
            out.flush()?;
            output.extend_from_slice(&chunk[..read]);
        }
    }
    Ok(Run {
        id: child.id(),
        status: child.wait()?,
        output: String::from_utf8_lossy(&output).into_owned(),
    })
}

/// The arguments to run only these tests, one at a time. The filters of the first run are not
/// needed any more.
fn alone(names: &[&str]) -> Vec<OsString> {
    let options = ["--exact", "--include-ignored", "--test-threads=1"];
    options.iter().chain(names).map(OsString::from).collect()
}

/// The failed tests, from the list at the end of the output. Empty if the output is incomplete.
fn failed(output: &str) -> Vec<&str> {
    let Some((_, list)) = output.rsplit_once("\nfailures:\n") else {
        return Vec::new();
    };
    let (names, result) = list.split_once("\n\n").unwrap_or_default();
    let names: Vec<&str> = names.lines().map(str::trim_start).collect();
    let is_whole = result.starts_with("test result: ")
        && result.contains(&format!(" {} failed;", names.len()));
    if is_whole { names } else { Vec::new() }
}

/// The failed tests that passed in their second run.
fn flaky<'a>(first: &[&'a str], second: &Run) -> Vec<&'a str> {
    let again = failed(&second.output);
    if again.is_empty() && !second.status.success() {
        // The second run ended early.
        return Vec::new();
    }
    let passed = first.iter().filter(|name| !again.contains(name));
    passed.copied().collect()
}

/// The output of a failed test: from its headline to the next one, or to the list of failed tests.
fn output_of<'a>(output: &'a str, name: &str, failed: &[&str]) -> &'a str {
    let headline = |name: &str| format!("\n---- {name} stdout ----\n");
    let Some((_, text)) = output.split_once(&headline(name)) else {
        return "";
    };
    let next = failed.iter().filter_map(|name| text.find(&headline(name)));
    let end = next.chain(text.rfind("\nfailures:\n")).min();
    text[..end.unwrap_or(text.len())].trim_end()
}

#[cfg(test)]
mod tests;
