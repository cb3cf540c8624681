//! The test bed: a real control plane on this machine.

mod api_server;
mod config;
mod ended;
mod error;
mod extent;
mod lease;
mod name;
mod ports;
mod processes;
mod snapshot;

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::process::Command;
use tokio::time::{sleep, timeout};

pub use self::api_server::Stop;
pub use self::ended::{Ended, ended};
pub use self::error::Error;
pub use self::extent::Extent;
pub use self::lease::Error as LeaseError;
pub use self::name::{InvalidName, Name};
pub use self::ports::{Error as PortsError, Ports};
pub use self::processes::Error as ProcessesError;
pub use self::snapshot::Snapshot;

use self::lease::Lease;
use crate::exec;
use crate::interrupt::print_line;
use crate::paths::Dirs;
use crate::tools::{Tool, Toolbox};

/// The server that ends if the API server is not healthy within 30 s. It is started again, because a
/// start takes longer on a loaded machine.
const IMPATIENT: &str = "kube-controller-manager";
/// Maximum number of these starts.
const MAX_RESTARTS: usize = 3;

/// The time that a bed may take to be ready. It takes some seconds, and longer on a loaded machine.
const TIMEOUT: Duration = Duration::from_mins(2);

/// The pause between two checks of a server that starts or ends.
const INTERVAL: Duration = Duration::from_millis(50);

/// Number of simulated nodes.
const NODES: &str = "2";

/// The effect on a bed when its [`Bed`] is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Afterwards {
    /// The bed ends, unless it existed before and had been left running on purpose.
    End,
    /// The bed runs until [`down`].
    Keep,
}

impl Afterwards {
    /// [`Self::Keep`] if the bed is to be kept, else [`Self::End`].
    #[must_use]
    pub fn kept(keep: bool) -> Self {
        if keep { Self::Keep } else { Self::End }
    }
}

/// A running bed.
///
/// # Guarantees
///
/// Only this process works with the bed as long as this value lives. When it is dropped, even
/// during the start, either the bed is ready and is to be kept, or all of its processes have ended
/// and its directory is removed.
///
/// # Caveats
///
/// A process that is killed (SIGKILL) cannot end its bed. The servers then run until the next
/// [`Bed::up`] or [`down`] of the same name, both of which end all processes of the bed.
#[derive(Debug)]
pub struct Bed {
    name: Name,
    dir: PathBuf,
    tools: Toolbox,
    afterwards: Afterwards,
    // Declared last, so that the bed has ended when the lease is released.
    _lease: Lease,
}

/// The properties of a bed that is ready. The file is written once the bed is ready; a bed without
/// the file is incomplete.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Ready {
    /// True if the bed is to outlive the task that started it. If not, and that task has ended, the
    /// bed is a leftover.
    kept: bool,
    ports: Ports,
    #[serde(default)]
    extent: Extent,
}

impl Ready {
    const FILE: &str = "ready.json";

    fn read(dir: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(dir.join(Self::FILE)).ok()?).ok()
    }

    fn write(&self, dir: &Path) -> Result<(), Error> {
        let path = dir.join(Self::FILE);
        let json = serde_json::to_vec(self).map_err(std::io::Error::from);
        json.and_then(|json| fs::write(&path, json))
            .map_err(|source| Error::File { path, source })
    }
}

impl Bed {
    /// Starts the bed `name` with all servers, and its API server on `port` if given.
    ///
    /// A running bed of that name that was kept is used as it is; leftovers are removed first.
    /// Progress is reported on the standard error.
    pub async fn up(
        dirs: &Dirs,
        name: &Name,
        port: Option<u16>,
        afterwards: Afterwards,
    ) -> Result<Self, Error> {
        Self::up_with(Extent::Full, dirs, name, port, afterwards).await
    }

    /// As [`Bed::up`], with the servers in `extent`. A kept bed with other servers is created
    /// again.
    pub async fn up_with(
        extent: Extent,
        dirs: &Dirs,
        name: &Name,
        port: Option<u16>,
        afterwards: Afterwards,
    ) -> Result<Self, Error> {
        let lease = Lease::acquire(&dirs.clusters(), name)?;
        let tools = Toolbox::prepare(dirs).await?;
        let dir = dirs.clusters().join(name.as_str());
        let mut bed = Self {
            name: name.clone(),
            dir,
            tools,
            afterwards: Afterwards::End,
            _lease: lease,
        };
        if bed.is_kept(extent).await? {
            eprintln!("bed {name}: running already");
            bed.afterwards = Afterwards::Keep;
            return Ok(bed);
        }
        if bed.sweep()? {
            eprintln!("bed {name}: removed the remains of an earlier one");
        }
        let started = Instant::now();
        eprintln!("bed {name}: starting a control plane");
        let ports = Ports::choose(port)?;
        bed.start(&ports, extent, dirs).await?;
        Ready {
            kept: afterwards == Afterwards::Keep,
            ports,
            extent,
        }
        .write(&bed.dir)?;
        bed.afterwards = afterwards;
        eprintln!(
            "bed {name}: ready after {:.1} s on https://127.0.0.1:{}",
            started.elapsed().as_secs_f32(),
            ports.api
        );
        Ok(bed)
    }

    /// The path of the kubeconfig of the bed's administrator.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        kubeconfig_of(&self.dir)
    }

    /// The ports that its servers listen on.
    #[must_use]
    pub fn ports(&self) -> Option<Ports> {
        Ready::read(&self.dir).map(|ready| ready.ports)
    }

    /// A kubectl command against this bed.
    #[must_use]
    pub fn kubectl(&self) -> Command {
        let mut command = Command::new(self.tools.path(Tool::Kubectl));
        command.arg("--kubeconfig").arg(self.kubeconfig());
        command
    }

    /// Applies the custom resource definitions in the directory `crds`, and waits until they are
    /// served.
    pub async fn install(&self, crds: &Path) -> Result<(), Error> {
        let mut apply = self.kubectl();
        apply
            .args(["apply", "--server-side", "--force-conflicts", "--filename"])
            .arg(crds);
        self.output(&mut apply).await?;
        let mut wait = self.kubectl();
        wait.args([
            "wait",
            "--for=condition=Established",
            "--timeout=30s",
            "--filename",
        ])
        .arg(crds);
        self.output(&mut wait).await?;
        Ok(())
    }

    /// Attaches `command` to this bed: it gets the kubeconfig by its environment, and it ends with
    /// the bed, even if this process is killed and another one ends the bed.
    pub fn attach(&self, command: &mut Command) {
        command
            .env("KUBECONFIG", self.kubeconfig())
            .env(processes::MARK, &self.dir);
    }

    /// The servers that have ended although the bed has not. Empty if processes cannot be listed.
    #[must_use]
    pub fn ended(&self) -> Vec<Ended> {
        ended(&self.kubeconfig())
    }

    /// Ends the bed now, even if it was to be kept.
    pub fn end(self) -> Result<(), Error> {
        self.sweep().map(drop)
    }

    /// True if the bed was kept, all of its servers run, and the API server is ready.
    async fn is_kept(&self, extent: Extent) -> Result<bool, Error> {
        let kept = Ready::read(&self.dir).is_some_and(|ready| ready.kept && ready.extent == extent);
        let complete = || {
            processes::complete(&self.dir, extent.components())
                .map_err(|source| self.processes(source))
        };
        if !kept {
            return Ok(false);
        }
        if !complete()? {
            self.ended().iter().for_each(|ended| eprintln!("{ended}"));
            return Ok(false);
        }
        let mut command = self.kubectl();
        command.args(["get", "--raw", "/readyz"]);
        let answer = timeout(Duration::from_secs(10), exec::output(&mut command)).await;
        Ok(answer.is_ok_and(|answer| answer.is_ok()))
    }

    async fn start(&self, ports: &Ports, extent: Extent, dirs: &Dirs) -> Result<(), Error> {
        let file = self.dir.join("kwokctl.yaml");
        let failed = |source| Error::File {
            path: file.clone(),
            source,
        };
        // Only the owner has access: the directory contains the administrator's key, and every user
        // of this machine can reach the API server.
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.dir)
            .map_err(failed)?;
        fs::write(&file, config::file(ports, extent, &self.tools)).map_err(failed)?;
        tokio::select! {
            started = timeout(TIMEOUT, self.run(&file, extent, dirs)) => match started {
                Ok(result) => result,
                Err(_) => Err(self.not_ready()),
            },
            // kwokctl would wait two minutes for a server that has ended.
            died = self.death() => Err(died),
        }
    }

    /// Creates the cluster and waits until a pod can be created; if there are nodes, it would run.
    async fn run(&self, config: &Path, extent: Extent, dirs: &Dirs) -> Result<(), Error> {
        let mut create = self.kwokctl(config, dirs);
        // An empty path, so that the user's own kubeconfig is not changed.
        create.args(["create", "cluster", "--kubeconfig", "", "--wait", "60s"]);
        self.output(&mut create).await?;
        // No pod can be created in the namespace before this service account exists.
        let mut account = self.kubectl();
        account.args([
            "wait",
            "--for=create",
            "serviceaccount/default",
            "--namespace=default",
            "--timeout=60s",
        ]);
        match extent {
            Extent::Full => {
                let nodes = self.nodes(config, dirs);
                tokio::try_join!(nodes, self.output(&mut account))?;
            }
            Extent::ControlPlane => {
                self.output(&mut account).await?;
            }
        }
        Ok(())
    }

    /// Creates the simulated nodes and waits until they are ready.
    async fn nodes(&self, config: &Path, dirs: &Dirs) -> Result<(), Error> {
        let mut scale = self.kwokctl(config, dirs);
        scale.args(["scale", "node", "--replicas", NODES]);
        self.output(&mut scale).await?;
        let mut nodes = self.kubectl();
        nodes.args([
            "wait",
            "--for=condition=Ready",
            "node",
            "--all",
            "--timeout=60s",
        ]);
        self.output(&mut nodes).await?;
        Ok(())
    }

    async fn output(&self, command: &mut Command) -> Result<String, Error> {
        exec::output(command).await.map_err(|source| Error::Exec {
            name: self.name.clone(),
            source,
        })
    }

    fn kwokctl(&self, config: &Path, dirs: &Dirs) -> Command {
        let mut command = Command::new(self.tools.path(Tool::Kwokctl));
        // kwokctl reads a variable with this prefix for each of its options, which would override
        // the configuration.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("KWOK_") {
                command.env_remove(name);
            }
        }
        // kwokctl downloads kubectl unless it is on the PATH.
        let kubectl = self.tools.path(Tool::Kubectl).parent().map(Path::to_owned);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths(kubectl.into_iter().chain(std::env::split_paths(&path)));
        command.env("PATH", path.unwrap_or_default());
        // kwokctl stores a cluster in `clusters/<name>` of this directory, which is where our beds
        // are.
        command.env("KWOK_WORKDIR", &dirs.cache);
        command
            .arg("--name")
            .arg(self.name.as_str())
            .arg("--config")
            .arg(config);
        command
    }

    /// Returns when one of the started servers has ended.
    async fn death(&self) -> Error {
        let mut restarts = 0;
        loop {
            sleep(Duration::from_millis(200)).await;
            match processes::dead(&self.dir) {
                Ok(dead) if dead.is_empty() => {}
                Ok(dead) if dead == [IMPATIENT] && restarts < MAX_RESTARTS => {
                    restarts += 1;
                    if let Err(error) = self.spawn(IMPATIENT) {
                        return error;
                    }
                }
                Ok(dead) => {
                    let component = dead[0];
                    return Error::Died {
                        name: self.name.clone(),
                        component,
                        log: ended::log(&self.dir, component),
                    };
                }
                Err(source) => return self.processes(source),
            }
        }
    }

    fn not_ready(&self) -> Error {
        Error::NotReady {
            name: self.name.clone(),
            log: ended::log(&self.dir, "kube-apiserver"),
        }
    }

    fn sweep(&self) -> Result<bool, Error> {
        processes::sweep(&self.dir).map_err(|source| self.processes(source))
    }

    fn processes(&self, source: ProcessesError) -> Error {
        Error::Processes {
            name: self.name.clone(),
            source,
        }
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        if self.afterwards == Afterwards::Keep {
            return;
        }
        match self.sweep() {
            Ok(true) => print_line(&format!("bed {}: ended", self.name)),
            Ok(false) => {}
            Err(error) => print_line(&format!("error: {error}")),
        }
    }
}

/// Ends the bed `name` and returns true if there was one.
pub fn down(dirs: &Dirs, name: &Name) -> Result<bool, Error> {
    let _lease = Lease::acquire(&dirs.clusters(), name)?;
    let dir = dirs.clusters().join(name.as_str());
    processes::sweep(&dir).map_err(|source| Error::Processes {
        name: name.clone(),
        source,
    })
}

/// The path of the kubeconfig of the running bed `name`.
pub fn kubeconfig(dirs: &Dirs, name: &Name) -> Result<PathBuf, Error> {
    let dir = dirs.clusters().join(name.as_str());
    let failed = |source| Error::Processes {
        name: name.clone(),
        source,
    };
    let not_running = || Error::NotRunning { name: name.clone() };
    let ready = Ready::read(&dir).ok_or_else(not_running)?;
    if processes::complete(&dir, ready.extent.components()).map_err(failed)? {
        return Ok(kubeconfig_of(&dir));
    }
    let mut ended = ended::in_dir(&dir).map_err(failed)?;
    Err(match ended.pop() {
        Some(ended) => Error::Ended {
            name: name.clone(),
            ended,
        },
        None => not_running(),
    })
}

/// The path where kwokctl writes the kubeconfig.
fn kubeconfig_of(dir: &Path) -> PathBuf {
    dir.join("kubeconfig.yaml")
}
