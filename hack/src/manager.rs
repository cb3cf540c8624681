//! The manager as a child process.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Signal, kill_process};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::time::{sleep, timeout};

use crate::exec::{self, Group};
use crate::metrics::Metrics;

/// The time that a manager may take to be ready.
const START: Duration = Duration::from_secs(30);

/// The time that it may take to end after SIGTERM.
const STOP: Duration = Duration::from_secs(30);

/// The time that its endpoints may take to answer.
const ANSWER: Duration = Duration::from_secs(5);

/// Number of log lines that an error shows.
const LOG_LINES: usize = 20;

/// The reason that the manager does not run, or does not do what is expected.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages state it")]
pub enum Error {
    #[error(transparent)]
    Exec(#[from] exec::Error),
    #[error("{what}: {source}")]
    Prepare {
        what: String,
        source: std::io::Error,
    },
    #[error("the manager has ended ({status}) while waiting for {what}; its log ends with:\n{log}")]
    Ended {
        status: ExitStatus,
        what: String,
        log: String,
    },
    #[error("waited {} s for {what}{detail}; the manager's log ends with:\n{log}", limit.as_secs())]
    Late {
        what: String,
        detail: String,
        limit: Duration,
        log: String,
    },
    #[error("cannot read the manager's metrics: {0}")]
    Metrics(String),
}

impl Error {
    /// Adds the progress so far, if the error is a timeout.
    #[must_use]
    pub fn with_detail(mut self, text: &str) -> Self {
        if let Self::Late { detail, .. } = &mut self {
            *detail = format!(" ({text})");
        }
        self
    }
}

/// The parameters of a manager process.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The program.
    pub binary: PathBuf,
    /// The cluster of the manager.
    pub cluster: Cluster,
    /// The log file; it is emptied at the start.
    pub log: PathBuf,
    /// Additional environment variables.
    pub env: Vec<(String, String)>,
}

/// A cluster, by its own kubeconfig or by a context of the user's.
#[derive(Debug, Clone)]
pub enum Cluster {
    /// The path of the kubeconfig.
    Kubeconfig(PathBuf),
    /// The name of the context.
    Context(String),
}

impl Cluster {
    /// Makes `command`, a manager, a plugin or a kubectl, use this cluster.
    pub fn select(&self, command: &mut Command) {
        match self {
            Self::Kubeconfig(path) => command.arg("--kubeconfig").arg(path),
            Self::Context(name) => command.arg("--context").arg(name),
        };
    }
}

/// The addresses of a manager's endpoints.
#[derive(Debug, Clone, Copy)]
pub struct Endpoints {
    metrics: SocketAddr,
    health: SocketAddr,
}

impl Endpoints {
    /// The current metrics.
    pub async fn metrics(self) -> Result<Metrics, Error> {
        let text = get(self.metrics, "/metrics").await;
        Ok(Metrics::parse(&text.map_err(Error::Metrics)?))
    }
}

/// A running manager.
///
/// # Guarantees
///
/// The manager has ended when this value is dropped.
#[derive(Debug)]
pub struct Manager {
    group: Group,
    endpoints: Endpoints,
    log: PathBuf,
}

impl Manager {
    /// Starts a manager, and waits until it is ready.
    pub async fn start(launch: &Launch) -> Result<Self, Error> {
        let failed = |source| Error::Prepare {
            what: launch.log.display().to_string(),
            source,
        };
        let dir = launch.log.parent();
        dir.map_or(Ok(()), fs::create_dir_all).map_err(failed)?;
        let stderr = File::create(&launch.log).map_err(failed)?;
        let stdout = stderr.try_clone().map_err(failed)?;
        let endpoints = Endpoints {
            metrics: free_address()?,
            health: free_address()?,
        };
        let mut command = Command::new(&launch.binary);
        command
            .arg("manager")
            .arg(format!("--metrics-addr={}", endpoints.metrics))
            .arg(format!("--health-addr={}", endpoints.health))
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(stderr);
        exec::without_settings(&mut command);
        launch.cluster.select(&mut command);
        command.envs(launch.env.iter().map(|(key, value)| (key, value)));
        let mut manager = Self {
            group: Group::spawn(&mut command)?,
            endpoints,
            log: launch.log.clone(),
        };
        let ready = async {
            while get(endpoints.health, "/readyz").await.is_err() {
                sleep(Duration::from_millis(10)).await;
            }
        };
        let what = "the manager to be ready";
        manager.until(what, START, ready).await?;
        Ok(manager)
    }

    /// The process id of the manager.
    #[must_use]
    pub fn pid(&self) -> u32 {
        let pid = self.group.pid().map(rustix::process::Pid::as_raw_nonzero);
        pid.map_or(0, |pid| pid.get().unsigned_abs())
    }

    /// The addresses of the manager's endpoints.
    #[must_use]
    pub fn endpoints(&self) -> Endpoints {
        self.endpoints
    }

    /// Runs `task`, which waits for `what`, until the manager ends or the time is up.
    pub async fn until<T>(
        &mut self,
        what: &str,
        limit: Duration,
        task: impl Future<Output = T>,
    ) -> Result<T, Error> {
        tokio::select! {
            done = timeout(limit, task) => done.map_err(|_| self.late(what, limit)),
            status = self.group.wait() => Err(self.ended(status?, what)),
        }
    }

    fn late(&self, what: &str, limit: Duration) -> Error {
        Error::Late {
            what: what.to_owned(),
            detail: String::new(),
            limit,
            log: tail(&self.log),
        }
    }

    fn ended(&self, status: ExitStatus, what: &str) -> Error {
        Error::Ended {
            status,
            what: what.to_owned(),
            log: tail(&self.log),
        }
    }

    /// Sends SIGTERM, and waits until the manager has ended.
    pub async fn stop(&mut self) -> Result<(), Error> {
        if let Some(pid) = self.group.pid() {
            // An error means that the manager has ended by itself, which its exit status shows.
            let _ = kill_process(pid, Signal::TERM);
        }
        let what = "the manager to end after SIGTERM";
        match timeout(STOP, self.group.wait()).await {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(status) => Err(self.ended(status?, what)),
            Err(_) => Err(self.late(what, STOP)),
        }
    }
}

fn tail(log: &Path) -> String {
    match fs::read(log) {
        Ok(bytes) => exec::tail(&String::from_utf8_lossy(&bytes), LOG_LINES),
        Err(error) => format!("({}: {error})", log.display()),
    }
}

/// A free address. Another process may use it before the manager does, which then fails to start.
fn free_address() -> Result<SocketAddr, Error> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .map_err(|source| Error::Prepare {
            what: "no free port on 127.0.0.1".to_owned(),
            source,
        })
}

/// The body of the answer to a GET request, which must be a success.
async fn get(address: SocketAddr, path: &str) -> Result<String, String> {
    let answer = async {
        let mut stream = TcpStream::connect(address).await?;
        let request = format!("GET {path} HTTP/1.0\r\nHost: manager\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok::<_, std::io::Error>(answer)
    };
    let answer = match timeout(ANSWER, answer).await {
        Ok(answer) => answer.map_err(|error| format!("{address}{path}: {error}"))?,
        Err(_) => return Err(format!("{address}{path}: no answer")),
    };
    body(&answer).map(str::to_owned).ok_or(answer)
}

/// The body of an HTTP response with status 200.
fn body(response: &str) -> Option<&str> {
    let (head, body) = response.split_once("\r\n\r\n")?;
    (head.split(' ').nth(1) == Some("200")).then_some(body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::write_program;

    #[test]
    fn only_a_successful_response_has_a_body() {
        assert_eq!(body("HTTP/1.0 200 OK\r\na: b\r\n\r\nok\n"), Some("ok\n"));
        assert_eq!(body("HTTP/1.0 503 No\r\n\r\nnot ready\n"), None);
        assert_eq!(body(""), None);
    }

    #[tokio::test]
    async fn the_error_about_a_manager_that_ends_shows_its_log() {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("baton");
        write_program(&script, "echo no such cluster >&2\nexit 3");
        let launch = Launch {
            binary: script,
            cluster: Cluster::Context("nowhere".to_owned()),
            log: dir.path().join("logs").join("manager.log"),
            env: vec![],
        };
        let error = Manager::start(&launch).await.unwrap_err().to_string();
        assert!(
            error.contains("no such cluster") && error.contains('3'),
            "{error}"
        );
    }
}
