//! Ctrl-C and its like end a task by dropping it, so that whatever it started goes with it.

use std::future::Future;

use tokio::signal::unix::{SignalKind, signal};

/// A signal asked the task to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted {
    /// The number of the signal.
    signal: u8,
}

impl Interrupted {
    /// The exit code by which shells know a signal.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        128 + self.signal
    }
}

/// Runs `task` until it ends or SIGINT, SIGTERM or SIGHUP arrives.
///
/// # Guarantees
///
/// On a signal the task is dropped, with every [`Group`](crate::exec::Group) and
/// [`Bed`](crate::bed::Bed) that it holds, before this function returns. Further signals are
/// ignored meanwhile: giving up half-way would leave servers running.
///
/// # Errors
///
/// [`Interrupted`] when a signal came first.
pub async fn or_interrupted<T>(task: impl Future<Output = T>) -> Result<T, Interrupted> {
    tokio::select! {
        biased;
        interrupted = interruption() => Err(interrupted),
        done = task => Ok(done),
    }
}

async fn interruption() -> Interrupted {
    let wait = async |kind: SignalKind, number| {
        let Ok(mut stream) = signal(kind) else {
            return std::future::pending().await;
        };
        stream.recv().await;
        Interrupted { signal: number }
    };
    tokio::select! {
        interrupted = wait(SignalKind::interrupt(), 2) => interrupted,
        interrupted = wait(SignalKind::terminate(), 15) => interrupted,
        interrupted = wait(SignalKind::hangup(), 1) => interrupted,
    }
}
