//! Ends a task by dropping it on Ctrl-C or a similar signal, so that everything that the task has
//! started ends as well.

use std::fmt::Display;
use std::future::Future;
use std::io::Write as _;
use std::process::ExitCode;

use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

/// Runs `task` until it ends or SIGINT, SIGTERM or SIGHUP arrives. An error is reported on the
/// standard error.
///
/// # Guarantees
///
/// On a signal the task is dropped, with every [`Group`](crate::exec::Group) and
/// [`Bed`](crate::bed::Bed) that it has, before this function returns. Further signals are ignored
/// meanwhile, since an interrupted cleanup would leave servers running.
pub fn run<E: Display>(task: impl Future<Output = Result<ExitCode, E>>) -> ExitCode {
    let runtime = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failure(&format!("cannot start the runtime: {error}")),
    };
    runtime.block_on(async {
        tokio::select! {
            biased;
            signal = interruption() => {
                // An interruption by the user is no error. Shells recognize the signal by this exit
                // code.
                print_line("interrupted");
                ExitCode::from(128 + signal)
            }
            done = task => done.unwrap_or_else(|error| failure(&error)),
        }
    })
}

/// Writes a line to the standard error and ignores errors: a pager that was ended by the same
/// Ctrl-C must not prevent the cleanup.
pub(crate) fn print_line(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

fn failure(error: &impl Display) -> ExitCode {
    eprintln!("error: {error}");
    ExitCode::FAILURE
}

/// The number of the first signal that arrives.
async fn interruption() -> u8 {
    let wait = async |kind: SignalKind, number| {
        let Ok(mut stream) = signal(kind) else {
            return std::future::pending().await;
        };
        stream.recv().await;
        number
    };
    tokio::select! {
        number = wait(SignalKind::interrupt(), 2) => number,
        number = wait(SignalKind::terminate(), 15) => number,
        number = wait(SignalKind::hangup(), 1) => number,
    }
}
