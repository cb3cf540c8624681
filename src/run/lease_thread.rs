//! The thread of the lease and the endpoints, which must not wait for a pass.
//!
//! A pass over a large revision computes for up to a second. While all threads of the process do
//! that, its lease would not be renewed and its health endpoint would not answer. These tasks
//! therefore have a thread of their own.

use std::{io, panic, thread};

use tokio::{
    runtime::{Builder, Handle},
    sync::oneshot,
    task::JoinSet,
};

/// A thread with its own runtime. The thread and its tasks end when this is dropped.
///
/// # Caveats
/// A client belongs to the runtime on which it was built: a client that is used on this thread has
/// to be built on it.
pub(crate) struct LeaseThread {
    handle: Handle,
    _stop: oneshot::Sender<()>,
}

impl LeaseThread {
    pub(crate) fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let run = move || {
            // An error means that the sender was dropped, which ends the thread as well.
            let _ = runtime.block_on(stopped);
        };
        thread::Builder::new().name("lease".to_owned()).spawn(run)?;
        Ok(Self {
            handle,
            _stop: stop,
        })
    }

    /// Runs a task on the thread. The task is cancelled when the future is dropped.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> T {
        let mut tasks = JoinSet::new();
        tasks.spawn_on(task, &self.handle);
        match tasks.join_next().await {
            Some(Ok(output)) => output,
            Some(Err(error)) if error.is_panic() => panic::resume_unwind(error.into_panic()),
            // The task is cancelled only if this future or the thread is dropped, and both outlive
            // this wait.
            Some(Err(_)) | None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read as _, Write as _},
        net::TcpStream,
        time::Duration,
    };

    use baton_runtime::{
        metrics::Metrics,
        server::{Readiness, serve},
    };

    use super::*;

    /// The only thread of the test's runtime waits for the answer, as if a pass kept it busy.
    #[tokio::test]
    async fn health_is_answered_while_all_other_threads_are_busy() {
        let thread = LeaseThread::start().unwrap();
        let any = "127.0.0.1:0".parse().unwrap();
        let servers = thread.run(async move {
            serve(&any, &any, Metrics::new(), Readiness::waiting_for("x")).await
        });
        let servers = servers.await.unwrap();
        let address = servers.health.unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        let patience = Some(Duration::from_secs(20));
        stream.set_read_timeout(patience).unwrap();
        let request = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        stream.write_all(request).unwrap();
        let mut answer = String::new();
        let read = stream.read_to_string(&mut answer);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{read:?} {answer}");
    }

    #[tokio::test]
    async fn work_on_the_lease_thread_is_cancelled_with_its_future() {
        let thread = LeaseThread::start().unwrap();
        let (alive, ended) = oneshot::channel::<()>();
        let run = thread.run(async move {
            std::future::pending::<()>().await;
            drop(alive);
        });
        assert!(
            tokio::time::timeout(Duration::from_millis(10), run)
                .await
                .is_err()
        );
        ended.await.unwrap_err();
    }
}
