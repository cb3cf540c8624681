//! A subcommand of `baton` as a child process.

#[cfg(target_os = "linux")]
mod stalled;

use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::thread::sleep;
use std::time::{Duration, Instant};

use baton_hack::metrics::Metrics;
use rustix::process::{Pid, Signal, kill_process};

#[cfg(target_os = "linux")]
pub use self::stalled::Stalled;
use crate::guard::{Guard, beside_tests};
use crate::namespace::TIMEOUT;

/// Number of ports that are tried. Another process may take a free port before the program does.
const ATTEMPTS: usize = 3;

/// Environment variables in addition to those of the test process.
pub type Variables = [(&'static str, OsString)];

/// A running program, with ports of its own for metrics and health.
///
/// # Guarantees
///
/// The process ends when this value is dropped, and when the test process ends in any way.
#[derive(Debug)]
pub struct Program {
    child: Mutex<Child>,
    metrics: SocketAddr,
    health: SocketAddr,
    log: Log,
    _guard: Guard,
}

/// The file with the standard error of programs. Programs with the same purpose append to the same
/// file.
#[derive(Clone, Debug)]
pub struct Log(PathBuf);

impl Log {
    /// Returns the log of a purpose. The file is created when a program starts.
    #[must_use]
    pub fn of(purpose: &str) -> Self {
        Self(temporary(&format!("{purpose}.log")))
    }

    /// Returns the path of the log.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the last lines that contain a text.
    #[must_use]
    pub fn about(&self, text: &str, lines: usize) -> String {
        let log = std::fs::read(&self.0).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let found: Vec<&str> = log.lines().filter(|line| line.contains(text)).collect();
        found[found.len().saturating_sub(lines)..].join("\n")
    }
}

impl Program {
    /// Starts a program and waits until a path of its health endpoint reports success.
    #[must_use]
    pub fn start(path: &str, log: &Log, args: &[OsString], env: &Variables) -> Self {
        for _ in 1..ATTEMPTS {
            if let Ok(program) = Self::try_start(path, log, args, env) {
                return program;
            }
        }
        Self::try_start(path, log, args, env).unwrap_or_else(|problem| panic!("{problem}"))
    }

    fn try_start(
        path: &str,
        log: &Log,
        args: &[OsString],
        env: &Variables,
    ) -> Result<Self, String> {
        let program = Self::spawn(log, args, env);
        let start = Instant::now();
        loop {
            if program.answers(path) {
                return Ok(program);
            }
            let problem = match program.exited() {
                Some(status) => format!("it has ended while starting ({status})"),
                None if start.elapsed() > TIMEOUT => format!("{path} does not answer well"),
                None => {
                    sleep(Duration::from_millis(10));
                    continue;
                }
            };
            let last = log.about("", 20);
            return Err(format!(
                "baton {args:?}: {problem}; its log ends with:\n{last}"
            ));
        }
    }

    /// Starts a program and does not wait for it. `args` are the subcommand and its flags, except
    /// for the log level and the addresses.
    #[must_use]
    pub fn spawn(log: &Log, args: &[OsString], env: &Variables) -> Self {
        let stderr = OpenOptions::new()
            .create(true)
            .append(true)
            .open(log.path());
        let stderr = stderr.unwrap_or_else(|error| panic!("{}: {error}", log.path().display()));
        let (metrics, health) = (free_address(), free_address());
        let program =
            std::env::var_os("BATON_BIN").map_or_else(|| beside_tests("baton"), PathBuf::from);
        let mut command = Command::new(&program);
        // Variables that the tests inherit must not configure the program.
        for (name, _) in std::env::vars_os() {
            if is_configuration(&name) {
                command.env_remove(name);
            }
        }
        let child = command
            .envs(env.iter().map(|(name, value)| (name, value)))
            .args(args)
            .arg("--log-level=debug")
            .arg(format!("--metrics-addr={metrics}"))
            .arg(format!("--health-addr={health}"))
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
            log: log.clone(),
            _guard: guard,
        }
    }

    /// Returns the process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.lock().unwrap().id()
    }

    /// Returns the current metrics.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        Metrics::parse(&self.scrape("*/*"))
    }

    /// Returns the text of the current metrics, in a format with one of these media types.
    #[must_use]
    pub fn scrape(&self, accept: &str) -> String {
        match http_get(self.metrics, "/metrics", accept) {
            Ok(text) => text,
            Err(error) => panic!(
                "cannot read the metrics of the program with the log {}: {error}",
                self.log.path().display()
            ),
        }
    }

    /// True if the program reports that it is ready.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.answers("/readyz")
    }

    fn answers(&self, path: &str) -> bool {
        http_get(self.health, path, "*/*").is_ok()
    }

    /// Returns the exit status, if the program has ended.
    #[must_use]
    pub fn exited(&self) -> Option<ExitStatus> {
        self.child.lock().unwrap().try_wait().unwrap()
    }

    /// Asks the program to end (SIGTERM), and returns its exit status.
    #[must_use]
    pub fn terminate(self) -> ExitStatus {
        self.signal(Signal::TERM);
        let start = Instant::now();
        loop {
            if let Some(status) = self.exited() {
                return status;
            }
            assert!(
                start.elapsed() < TIMEOUT,
                "the program with the log {} does not end on SIGTERM",
                self.log.path().display()
            );
            sleep(Duration::from_millis(10));
        }
    }

    /// Stops the program (SIGSTOP) until [`Program::go_on`].
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    /// Continues the program after [`Program::freeze`].
    pub fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    /// Stops one thread while the others continue, until the returned value is dropped.
    #[cfg(target_os = "linux")]
    #[must_use]
    pub fn stall(&self, thread: &str) -> Stalled<'_> {
        Stalled::new(self, thread)
    }

    /// Bytes of resident memory: now, and at most since [`Program::forget_peak`] or the start. The
    /// processes that it has started do not count.
    #[must_use]
    pub fn memory(&self) -> (u64, u64) {
        let metrics = self.metrics();
        (
            metrics.count("process_resident_memory_bytes"),
            metrics.count("process_resident_memory_max_bytes"),
        )
    }

    /// Makes the present memory the most so far. Only Linux can do that.
    pub fn forget_peak(&self) {
        let id = self.child.lock().unwrap().id();
        std::fs::write(format!("/proc/{id}/clear_refs"), "5").unwrap();
    }

    fn signal(&self, signal: Signal) {
        let id = self.child.lock().unwrap().id();
        kill_process(Pid::from_raw(id.try_into().unwrap()).unwrap(), signal).unwrap();
    }

    /// Returns the log of the program.
    #[must_use]
    pub fn log(&self) -> &Log {
        &self.log
    }
}

impl Drop for Program {
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

/// Returns the path of a file of this test process, in the directory of build products.
#[must_use]
pub fn temporary(name: &str) -> PathBuf {
    let dir = beside_tests("..").join("tmp");
    std::fs::create_dir_all(&dir).unwrap();
    dir.join(format!("{}-{name}", std::process::id()))
}

/// Returns an address of this machine that is free now.
#[must_use]
pub fn free_address() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap()
}

/// Returns the body of a successful answer.
fn http_get(address: SocketAddr, path: &str, accept: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    write!(
        stream,
        "GET {path} HTTP/1.0\r\nHost: baton\r\nAccept: {accept}\r\n\r\n"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    if head.split(' ').nth(1) == Some("200") {
        Ok(body.to_owned())
    } else {
        Err(io::Error::other(answer))
    }
}
