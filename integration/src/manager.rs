//! The manager as a child process.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, OnceLock};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::guard::{Guard, beside_tests};
use crate::metrics::Metrics;

/// How long a manager may take to have its caches filled, and to end when asked to.
const PATIENCE: Duration = Duration::from_secs(20);

/// A free port may be taken by somebody else before the manager has it; then others are tried.
const ATTEMPTS: usize = 3;

/// A running manager.
///
/// # Guarantees
///
/// It is gone when this value is dropped, and when the test process has ended in any way.
#[derive(Debug)]
pub struct Manager {
    child: Mutex<Child>,
    metrics: SocketAddr,
    health: SocketAddr,
    log: Log,
    _guard: Guard,
}

/// What a manager writes to its standard error.
#[derive(Clone, Debug)]
pub struct Log(PathBuf);

impl Log {
    /// The last lines that contain a text.
    #[must_use]
    pub fn about(&self, text: &str, lines: usize) -> String {
        let log = std::fs::read(&self.0).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let found: Vec<&str> = log.lines().filter(|line| line.contains(text)).collect();
        found[found.len().saturating_sub(lines)..].join("\n")
    }
}

impl Manager {
    /// The one that all tests of this process share, on the cluster of the test run.
    pub fn shared(kubeconfig: &Path) -> &'static Self {
        static SHARED: OnceLock<Manager> = OnceLock::new();
        let manager = SHARED.get_or_init(|| Self::start(kubeconfig, "shared"));
        assert!(
            manager.exited().is_none(),
            "the manager has ended by itself; its log is {}",
            manager.log.0.display()
        );
        manager
    }

    /// Starts one and waits until it is ready. Its log is named after what it is for.
    #[must_use]
    pub fn start(kubeconfig: &Path, purpose: &str) -> Self {
        for _ in 1..ATTEMPTS {
            if let Ok(manager) = Self::try_start(kubeconfig, purpose) {
                return manager;
            }
        }
        Self::try_start(kubeconfig, purpose).unwrap_or_else(|problem| panic!("{problem}"))
    }

    fn try_start(kubeconfig: &Path, purpose: &str) -> Result<Self, String> {
        let manager = Self::spawn(kubeconfig, purpose, &["--leader-elect=false"]);
        let asked = Instant::now();
        loop {
            if http_get(manager.health, "/readyz").is_ok() {
                return Ok(manager);
            }
            let problem = match manager.exited() {
                Some(status) => format!("the manager has ended while starting ({status})"),
                None if asked.elapsed() > PATIENCE => "the manager is not ready".to_owned(),
                None => {
                    sleep(Duration::from_millis(10));
                    continue;
                }
            };
            return Err(format!(
                "{problem}; its log ends with:\n{}",
                manager.log.about("", 20)
            ));
        }
    }

    /// Starts one with further flags and does not wait for it.
    #[must_use]
    pub fn spawn(kubeconfig: &Path, purpose: &str, flags: &[&str]) -> Self {
        let log = temporary(&format!("manager-{purpose}.log"));
        let stderr = OpenOptions::new().create(true).append(true).open(&log);
        let stderr = stderr.unwrap_or_else(|error| panic!("{}: {error}", log.display()));
        let (metrics, health) = (free_address(), free_address());
        let program =
            std::env::var_os("BATON_BIN").map_or_else(|| beside_tests("baton"), PathBuf::from);
        let mut command = Command::new(&program);
        // What the tests inherit is not to configure the manager.
        for (name, _) in std::env::vars_os() {
            if is_configuration(&name) {
                command.env_remove(name);
            }
        }
        let child = command
            .args(["manager", "--log-level=debug", "--kubeconfig"])
            .arg(kubeconfig)
            .arg(format!("--metrics-addr={metrics}"))
            .arg(format!("--health-addr={health}"))
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr)
            .spawn();
        let child = child.unwrap_or_else(|error| {
            panic!(
                "cannot run {} (BATON_BIN names another one): {error}",
                program.display()
            )
        });
        let guard = Guard::over_process(child.id());
        Self {
            child: Mutex::new(child),
            metrics,
            health,
            log: Log(log),
            _guard: guard,
        }
    }

    /// Its metrics at this moment.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        match http_get(self.metrics, "/metrics") {
            Ok(text) => Metrics::parse(&text),
            Err(error) => panic!("cannot read the manager's metrics: {error}"),
        }
    }

    /// Whether it says that it is ready.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        http_get(self.health, "/readyz").is_ok()
    }

    /// How it has ended, if it has.
    #[must_use]
    pub fn exited(&self) -> Option<ExitStatus> {
        self.child.lock().unwrap().try_wait().unwrap()
    }

    /// Kills it (SIGKILL), and returns when it is gone.
    pub fn kill(self) {
        drop(self);
    }

    /// Asks it to end (SIGTERM), and returns how it did.
    #[must_use]
    pub fn terminate(self) -> ExitStatus {
        let id = self.child.lock().unwrap().id();
        kill_process(Pid::from_raw(id.try_into().unwrap()).unwrap(), Signal::TERM).unwrap();
        let asked = Instant::now();
        loop {
            if let Some(status) = self.exited() {
                return status;
            }
            assert!(
                asked.elapsed() < PATIENCE,
                "the manager does not end on SIGTERM"
            );
            sleep(Duration::from_millis(10));
        }
    }

    /// Its log.
    #[must_use]
    pub fn log(&self) -> &Log {
        &self.log
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        if let Ok(child) = self.child.get_mut() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn is_configuration(variable: &OsStr) -> bool {
    let name = variable.to_string_lossy();
    ["BATON_", "PKO_"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
        || ["KUBECONFIG", "LOG_LEVEL", "POD_NAMESPACE"].contains(&&*name)
}

/// A file of this test process, in the directory of build products.
#[must_use]
pub fn temporary(name: &str) -> PathBuf {
    let dir = beside_tests("..").join("tmp");
    std::fs::create_dir_all(&dir).unwrap();
    dir.join(format!("{}-{name}", std::process::id()))
}

fn free_address() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap()
}

/// The body of a successful answer.
fn http_get(address: SocketAddr, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: manager\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    if head.split(' ').nth(1) == Some("200") {
        Ok(body.to_owned())
    } else {
        Err(io::Error::other(answer))
    }
}
