//! The manager as a child process.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::time::{sleep, timeout};

use super::metrics::Metrics;
use crate::cargo;
use crate::exec::{self, Group};
use crate::paths::Dirs;

/// How long a manager may take to be ready.
const START: Duration = Duration::from_secs(30);

/// How long it may take to end when asked to.
const STOP: Duration = Duration::from_secs(30);

/// How long its endpoints may take to answer.
const ANSWER: Duration = Duration::from_secs(5);

/// How much of its log an error shows.
const LOG_LINES: usize = 20;

/// Why the manager is not there, or does not do what it should.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Cargo, or the manager, does not run.
    #[error(transparent)]
    Exec(#[from] exec::Error),
    /// It does not build.
    #[error("building {0} failed")]
    Build(String),
    /// Its log, or the address for its endpoints, cannot be had.
    #[error("{what}: {source}")]
    Prepare {
        /// What is needed.
        what: String,
        /// What went wrong.
        source: std::io::Error,
    },
    /// It has ended by itself.
    #[error("the manager has ended ({status}) while waiting for {what}; its log ends with:\n{log}")]
    Ended {
        /// How it ended.
        status: ExitStatus,
        /// What was waited for.
        what: String,
        /// The end of its log.
        log: String,
    },
    /// Something did not happen in time.
    #[error("waited {} s for {what}{detail}; the manager's log ends with:\n{log}", limit.as_secs())]
    Late {
        /// What was waited for.
        what: String,
        /// How far it got.
        detail: String,
        /// For how long.
        limit: Duration,
        /// The end of the manager's log.
        log: String,
    },
    /// Its endpoints do not answer, or not with what is needed.
    #[error("cannot read the manager's metrics: {0}")]
    Metrics(String),
    /// The kubeconfig of its cluster is of no use.
    #[error("cannot use the kubeconfig: {0}")]
    Kubeconfig(#[from] KubeconfigError),
    /// There is no client for its cluster.
    #[error("cannot make a client for the cluster: {}", reason(.0))]
    Client(#[source] Box<kube::Error>),
    /// The operating system does not tell about it.
    #[error("cannot wait for the manager: {0}")]
    Wait(#[source] std::io::Error),
}

impl Error {
    /// The same with how far it got, if it is about something that is late.
    #[must_use]
    pub fn with_detail(self, text: &str) -> Self {
        match self {
            Self::Late {
                what, limit, log, ..
            } => Self::Late {
                what,
                detail: format!(" ({text})"),
                limit,
                log,
            },
            other => other,
        }
    }
}

/// How to run a manager.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The program.
    pub binary: PathBuf,
    /// Which cluster it works on.
    pub cluster: Cluster,
    /// The file for what it writes; emptied when it is launched.
    pub log: PathBuf,
    /// Variables of its environment.
    pub env: Vec<(String, String)>,
}

/// A cluster, as the manager is told about it.
#[derive(Debug, Clone)]
pub enum Cluster {
    /// By a kubeconfig of its own.
    Kubeconfig(PathBuf),
    /// By the name of a context in the user's kubeconfig.
    Context(String),
}

impl Cluster {
    /// A client for it.
    ///
    /// # Errors
    ///
    /// When the kubeconfig cannot be used.
    pub async fn client(&self) -> Result<Client, Error> {
        let config = match self {
            Self::Kubeconfig(path) => {
                let kubeconfig = Kubeconfig::read_from(path)?;
                Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?
            }
            Self::Context(name) => {
                let options = KubeConfigOptions {
                    context: Some(name.clone()),
                    ..KubeConfigOptions::default()
                };
                Config::from_kubeconfig(&options).await?
            }
        };
        Client::try_from(config).map_err(|error| Error::Client(Box::new(error)))
    }
}

/// Where a manager answers.
#[derive(Debug, Clone, Copy)]
pub struct Endpoints {
    metrics: SocketAddr,
    health: SocketAddr,
}

impl Endpoints {
    /// Its metrics at this moment.
    ///
    /// # Errors
    ///
    /// When it does not answer.
    pub async fn metrics(self) -> Result<Metrics, Error> {
        let text = get(self.metrics, "/metrics")
            .await
            .map_err(Error::Metrics)?;
        Ok(Metrics::parse(&text))
    }

    /// Whether it says that it is ready.
    pub async fn ready(self) -> bool {
        get(self.health, "/readyz").await.is_ok()
    }
}

/// A running manager.
///
/// # Guarantees
///
/// It has ended when this value is dropped.
#[derive(Debug)]
pub struct Manager {
    group: Group,
    pid: u32,
    endpoints: Endpoints,
    log: PathBuf,
}

impl Manager {
    /// Starts one and does not wait for it.
    ///
    /// # Errors
    ///
    /// When the program or its log file cannot be had.
    pub fn launch(launch: &Launch) -> Result<Self, Error> {
        let failed = |source| Error::Prepare {
            what: launch.log.display().to_string(),
            source,
        };
        launch
            .log
            .parent()
            .map_or(Ok(()), fs::create_dir_all)
            .map_err(failed)?;
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
        // What this task inherited is not to configure the manager.
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy();
            let own = name.starts_with("BATON_") || name.starts_with("PKO_");
            if own || matches!(&*name, "LOG_LEVEL" | "POD_NAMESPACE") {
                command.env_remove(&*name);
            }
        }
        match &launch.cluster {
            Cluster::Kubeconfig(path) => command.arg("--kubeconfig").arg(path),
            Cluster::Context(name) => command.arg("--context").arg(name),
        };
        command.envs(launch.env.iter().map(|(key, value)| (key, value)));
        let mut group = Group::spawn(&mut command)?;
        let pid = group.child().id().unwrap_or_default();
        Ok(Self {
            group,
            pid,
            endpoints,
            log: launch.log.clone(),
        })
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Where it answers.
    #[must_use]
    pub fn endpoints(&self) -> Endpoints {
        self.endpoints
    }

    /// Waits until it is ready.
    ///
    /// # Errors
    ///
    /// When it ends instead, or takes too long.
    pub async fn ready(&mut self) -> Result<(), Error> {
        let endpoints = self.endpoints;
        let ready = async {
            while !endpoints.ready().await {
                sleep(Duration::from_millis(10)).await;
            }
        };
        self.until("the manager to be ready", START, ready).await
    }

    /// Runs `task`, which waits for `what`, as long as the manager runs and the time is not up.
    ///
    /// # Errors
    ///
    /// With the end of the manager's log when it has ended or the time is up.
    pub async fn until<T>(
        &mut self,
        what: &str,
        limit: Duration,
        task: impl Future<Output = T>,
    ) -> Result<T, Error> {
        tokio::select! {
            done = timeout(limit, task) => done.map_err(|_| self.late(what, limit)),
            status = self.group.wait() => Err(Error::Ended {
                status: status.map_err(Error::Wait)?,
                what: what.to_owned(),
                log: tail(&self.log),
            }),
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

    /// Asks it to end, and waits until it has.
    ///
    /// # Errors
    ///
    /// When it does not end, or not with success.
    pub async fn stop(&mut self) -> Result<(), Error> {
        if let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) {
            // A failure means that it has ended by itself, which its exit status tells.
            let _ = kill_process(pid, Signal::TERM);
        }
        let what = "the manager to end after SIGTERM";
        let status = match timeout(STOP, self.group.wait()).await {
            Ok(status) => status.map_err(Error::Wait)?,
            Err(_) => return Err(self.late(what, STOP)),
        };
        if status.success() {
            return Ok(());
        }
        Err(Error::Ended {
            status,
            what: what.to_owned(),
            log: tail(&self.log),
        })
    }
}

/// Builds the binary `name` with the arguments `args` of `cargo build`, and returns where it is.
///
/// # Errors
///
/// When it does not build. Cargo tells why on the standard error.
pub async fn build(dirs: &Dirs, name: &str, args: &[&str]) -> Result<PathBuf, Error> {
    let mut command = cargo::command(dirs);
    command
        .args([
            "build",
            "--bin",
            name,
            "--message-format=json-render-diagnostics",
        ])
        .args(args)
        .stdout(Stdio::piped());
    let mut group = Group::spawn(&mut command)?;
    let messages = exec::read(group.child().stdout.take())
        .await
        .map_err(Error::Wait)?;
    let status = group.wait().await.map_err(Error::Wait)?;
    let built = status.success().then(|| executable(&messages)).flatten();
    built.ok_or_else(|| Error::Build(name.to_owned()))
}

/// The last executable that cargo reports.
fn executable(messages: &str) -> Option<PathBuf> {
    let path = |line: &str| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        message["executable"].as_str().map(PathBuf::from)
    };
    messages.lines().filter_map(path).next_back()
}

/// What a person wants to know of a failed request: the words of the server, or the innermost cause.
#[must_use]
pub fn reason(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        return status.message.clone();
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

fn tail(log: &Path) -> String {
    match fs::read(log) {
        Ok(bytes) => exec::tail(&String::from_utf8_lossy(&bytes), LOG_LINES),
        Err(error) => format!("({}: {error})", log.display()),
    }
}

/// An address that nobody listens on. Somebody may until the manager does; it says so then.
fn free_address() -> Result<SocketAddr, Error> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .map_err(|source| Error::Prepare {
            what: "no free port on 127.0.0.1".to_owned(),
            source,
        })
}

/// The body of a successful answer.
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

    #[test]
    fn only_a_success_has_a_body() {
        assert_eq!(body("HTTP/1.0 200 OK\r\na: b\r\n\r\nok\n"), Some("ok\n"));
        assert_eq!(body("HTTP/1.0 503 No\r\n\r\nnot ready\n"), None);
        assert_eq!(body(""), None);
    }

    #[test]
    fn the_executable_is_found_among_the_messages() {
        let messages = "{\"executable\":null}\n{\"executable\":\"/t/baton\"}\n{\"reason\":\"x\"}\n";
        assert_eq!(executable(messages), Some("/t/baton".into()));
        assert_eq!(executable("no json"), None);
    }

    #[test]
    fn a_reason_is_one_line() {
        let status = kube::core::Status::failure("no such thing", "NotFound");
        assert_eq!(reason(&kube::Error::Api(Box::new(status))), "no such thing");
        let broken = std::io::Error::other(std::io::Error::other("connection refused"));
        assert_eq!(
            reason(&kube::Error::ReadEvents(broken)),
            "connection refused"
        );
    }

    #[tokio::test]
    async fn a_manager_that_ends_is_told_with_its_log() {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("baton");
        fs::write(&script, "#!/bin/sh\necho no such cluster >&2\nexit 3\n").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&script, mode).unwrap();
        let mut manager = Manager::launch(&Launch {
            binary: script,
            cluster: Cluster::Context("nowhere".to_owned()),
            log: dir.path().join("logs").join("manager.log"),
            env: vec![],
        })
        .unwrap();
        let error = manager.ready().await.unwrap_err().to_string();
        assert!(
            error.contains("no such cluster") && error.contains('3'),
            "{error}"
        );
    }
}
