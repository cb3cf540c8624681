//! The agent of a pull cluster as a child process.
//!
//! ```ignore
//! let joined = site.join(&ns).pull().create().await;
//! let mut agent = joined.agent().start().await;
//! joined.becomes("Connected", "True").await;
//! ..
//! agent.kill();
//! ..
//! agent.start();                              // with the state of the previous run
//! ```
//!
//! For a network that fails, [`Setup::hub`] and [`Setup::site`] put a
//! [`Proxy`](crate::proxy::Proxy) or a fault injector ([`Faults`](crate::faults::Faults)) in front
//! of either API server. The agent's tokens are in files, as in a pod, and can be replaced while it
//! runs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use baton_hack::metrics::Metrics;
use tempfile::TempDir;

use crate::clock::ShiftedClock;
use crate::endpoint::Endpoint;
use crate::program::{Log, Program};
use crate::sites::Joined;

/// Number of lines of the log that are printed when a test fails.
const LOG_LINES: usize = 80;

/// The setup of an agent that is not started yet.
#[must_use]
pub struct Setup<'a> {
    joined: &'a Joined,
    hub: Endpoint,
    site: Endpoint,
    hub_token: Option<String>,
    site_token: Option<String>,
    lease: bool,
    clock: Option<i64>,
}

/// An agent with its own state directory. It runs or is stopped.
///
/// # Guarantees
///
/// The process ends when this value is dropped. If the test fails, the end of its log is printed.
#[derive(Debug)]
pub struct Agent {
    program: Option<Program>,
    cluster: String,
    /// True if the agent waits for its lease.
    lease: bool,
    /// The agent's clock, if a test sets it.
    clock: Option<ShiftedClock>,
    log: Log,
    dir: TempDir,
}

impl Joined {
    /// Sets up an agent with the rights that joining grants on the hub, and with all rights on the
    /// site. Without [`Setup::with_lease`] only one agent may run at a time.
    pub fn agent(&self) -> Setup<'_> {
        Setup {
            joined: self,
            hub: self.hub_endpoint(),
            site: self.site().endpoint().clone(),
            hub_token: None,
            site_token: None,
            lease: false,
            clock: None,
        }
    }
}

impl Setup<'_> {
    /// Sets the address at which the agent reaches the hub.
    pub fn hub(mut self, endpoint: &Endpoint) -> Self {
        self.hub = endpoint.clone();
        self
    }

    /// Sets the address at which the agent reaches its own cluster.
    pub fn site(mut self, endpoint: &Endpoint) -> Self {
        self.site = endpoint.clone();
        self
    }

    /// Sets the agent's first token for the hub.
    pub fn hub_token(mut self, token: &str) -> Self {
        self.hub_token = Some(token.to_owned());
        self
    }

    /// Sets the agent's first token for its own cluster.
    pub fn site_token(mut self, token: &str) -> Self {
        self.site_token = Some(token.to_owned());
        self
    }

    /// Makes the agent wait for the lease in its own cluster, so that several agents can be
    /// started.
    pub fn with_lease(mut self) -> Self {
        self.lease = true;
        self
    }

    /// Sets the agent's clock ahead by this number of seconds, which [`Agent::clock`] changes later.
    pub fn clock(mut self, seconds: i64) -> Self {
        self.clock = Some(seconds);
        self
    }

    /// Creates the agent's accounts and starts it.
    pub async fn start(self) -> Agent {
        let mut agent = self.prepare().await;
        agent.start();
        agent
    }

    /// Creates the agent's accounts, so that [`Agent::start`] can start it.
    pub async fn prepare(self) -> Agent {
        let hub_token = match self.hub_token {
            Some(token) => token,
            None => self.joined.admit_agent().await.token().await.text,
        };
        let site_token = match self.site_token {
            Some(token) => token,
            None => self.joined.site().account().await.token().await.text,
        };
        let cluster = self.joined.name().to_owned();
        let agent = Agent {
            program: None,
            log: Log::of(&format!("agent-{cluster}")),
            cluster,
            lease: self.lease,
            clock: self.clock.map(ShiftedClock::ahead),
            dir: tempfile::tempdir().unwrap(),
        };
        agent.replace_hub_token(&hub_token);
        agent.replace_site_token(&site_token);
        for (endpoint, side) in [(&self.hub, "hub"), (&self.site, "site")] {
            let config = endpoint.kubeconfig_with_file(&agent.token(side));
            std::fs::write(agent.kubeconfig(side), config).unwrap();
        }
        agent
    }
}

impl Agent {
    /// Starts the agent (again), with the state of its previous run, and returns when it is alive.
    /// It may be unable to reach either API server.
    pub fn start(&mut self) {
        assert!(self.program.is_none(), "it runs already");
        let mut args: Vec<OsString> = vec!["agent".into()];
        args.push(format!("--leader-elect={}", self.lease).into());
        args.push(format!("--cluster={}", self.cluster).into());
        for (flag, path) in [
            ("--hub-kubeconfig", self.kubeconfig("hub")),
            ("--kubeconfig", self.kubeconfig("site")),
            ("--state-dir", self.dir.path().join("state")),
        ] {
            args.extend([flag.into(), path.into()]);
        }
        let env = self.clock.as_ref();
        let env = env.map_or_else(Vec::new, ShiftedClock::variables);
        self.program = Some(Program::start("/healthz", &self.log, &args, &env));
    }

    /// Kills the agent (SIGKILL), and returns when it is gone.
    pub fn kill(&mut self) {
        drop(self.take());
    }

    /// Asks the agent to end (SIGTERM), and returns when it has ended successfully.
    pub fn stop(&mut self) {
        let status = self.take().terminate();
        assert!(status.success(), "the agent ended with {status}");
    }

    fn take(&mut self) -> Program {
        match self.program.take() {
            Some(program) => program,
            None => panic!("the agent does not run"),
        }
    }

    fn program(&self) -> &Program {
        match &self.program {
            Some(program) => program,
            None => panic!("the agent does not run"),
        }
    }

    /// Returns the agent's clock, which its setup must have set.
    #[must_use]
    pub fn clock(&self) -> &ShiftedClock {
        self.clock.as_ref().unwrap()
    }

    /// Returns the current metrics of the agent.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        self.program().metrics()
    }

    /// True if the agent reports that it is ready.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.program().is_ready()
    }

    /// Returns the log of all runs of the agent.
    #[must_use]
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Returns the path of the state file.
    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.dir.path().join("state").join("mirrors.json")
    }

    /// Replaces the token for the hub in its file, which the agent reads again by itself.
    pub fn replace_hub_token(&self, token: &str) {
        replace(&self.token("hub"), token);
    }

    /// Replaces the token for the agent's own cluster in its file, which the agent reads again by
    /// itself.
    pub fn replace_site_token(&self, token: &str) {
        replace(&self.token("site"), token);
    }

    fn token(&self, side: &str) -> PathBuf {
        self.dir.path().join(format!("{side}-token"))
    }

    fn kubeconfig(&self, side: &str) -> PathBuf {
        self.dir.path().join(format!("{side}.yaml"))
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        drop(self.program.take());
        if std::thread::panicking() {
            let log = self.log.about("", LOG_LINES);
            eprintln!("--- log of the agent of {}\n{log}", self.cluster);
        }
    }
}

/// Replaces a file as the kubelet does: a reader gets either the old content or the new one.
fn replace(path: &Path, content: &str) {
    let new = path.with_extension("new");
    std::fs::write(&new, content).unwrap();
    std::fs::rename(&new, path).unwrap();
}
