//! Stops and starts the API server of a bed while the rest of the bed runs.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use tokio::time::{sleep, timeout};

use super::{Bed, Error, TIMEOUT, processes};
use crate::exec;

/// The name that kwokctl gives to the server.
const NAME: &str = "kube-apiserver";

/// The way to stop a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// By SIGTERM: the server finishes its requests, and closes the watches.
    Orderly,
    /// By SIGKILL, as when a machine fails: the connections are reset.
    Abrupt,
}

/// The fields of kwokctl's configuration that are needed to start a server again.
#[derive(Deserialize)]
struct Noted {
    components: Vec<Component>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Component {
    name: String,
    binary: PathBuf,
    args: Vec<String>,
    work_dir: PathBuf,
}

impl Bed {
    /// Stops only the API server. Returns when its port is free.
    pub async fn stop_api_server(&self, how: Stop) -> Result<(), Error> {
        self.stop(NAME, how).await
    }

    /// Stops a server, if it runs. Returns when it has released its ports and files.
    pub(super) async fn stop(&self, name: &str, how: Stop) -> Result<(), Error> {
        let Some(pid) = processes::running(&self.dir, name).map_err(|e| self.processes(e))? else {
            return Ok(());
        };
        let signal = match how {
            Stop::Orderly => Signal::TERM,
            Stop::Abrupt => Signal::KILL,
        };
        // The server may have ended by itself.
        let _ = Pid::from_raw(pid).map(|pid| kill_process(pid, signal));
        let start = Instant::now();
        while !processes::is_gone(pid) {
            if start.elapsed() > TIMEOUT {
                let source = processes::Error::Stubborn { pids: vec![pid] };
                return Err(self.processes(source));
            }
            sleep(super::INTERVAL).await;
        }
        Ok(())
    }

    /// Starts the API server with its previous arguments, and waits until it is ready. A running
    /// API server is left alone.
    pub async fn start_api_server(&self) -> Result<(), Error> {
        let running = processes::running(&self.dir, NAME).map_err(|e| self.processes(e))?;
        if running.is_none() {
            self.spawn(NAME)?;
        }
        let ready = async {
            loop {
                let mut ask = self.kubectl();
                ask.args(["get", "--raw", "/readyz"]);
                if exec::output(&mut ask).await.is_ok() {
                    return;
                }
                sleep(super::INTERVAL).await;
            }
        };
        tokio::select! {
            ready = timeout(TIMEOUT, ready) => ready.map_err(|_| self.not_ready()),
            died = self.death() => Err(died),
        }
    }

    /// Starts a server as kwokctl does: detached from this process, with its process id in the file
    /// that [`processes`] reads.
    pub(super) fn spawn(&self, name: &str) -> Result<(), Error> {
        let noted = self.dir.join("kwok.yaml");
        let at = |path: &Path| {
            let path = path.to_owned();
            move |source| Error::File { path, source }
        };
        let text = fs::read_to_string(&noted).map_err(at(&noted))?;
        let component = component(&text, name).map_err(at(&noted))?;
        let log = self.dir.join("logs").join(name).with_extension("log");
        let output = OpenOptions::new().create(true).append(true).open(&log);
        let output = output.map_err(at(&log))?;
        let errors = output.try_clone().map_err(at(&log))?;
        let child = Command::new(&component.binary)
            .args(&component.args)
            .current_dir(&component.work_dir)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            // A signal to the group of the present task must not end the server.
            .process_group(0)
            .spawn()
            .map_err(at(&component.binary))?;
        let pid = self.dir.join("pids").join(name).with_extension("pid");
        fs::write(&pid, child.id().to_string()).map_err(at(&pid))
    }
}

/// The configuration of one server, as kwokctl wrote it.
fn component(text: &str, name: &str) -> io::Result<Component> {
    // The stages of simulated nodes and pods follow as further documents.
    let text = text.split("\n---\n").next().unwrap_or_default();
    let noted: Noted = serde_saphyr::from_str(text).map_err(io::Error::other)?;
    let mut components = noted.components.into_iter();
    components
        .find(|component| component.name == name)
        .ok_or_else(|| io::Error::other(format!("there is no {name} in it")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_of_a_server_is_read_from_the_configuration() {
        let text = "components:\n\
            - name: etcd\n  binary: /b/bin/etcd\n  args: []\n  workDir: /b\n\
            - name: kube-apiserver\n  binary: /b/bin/kube-apiserver\n  args:\n  - --secure-port=1\n  \
            metric: {host: h}\n  workDir: /b\nkind: KwokctlConfiguration\n---\nkind: Stage\n";
        let found = component(text, NAME).unwrap();
        assert_eq!(found.binary, Path::new("/b/bin/kube-apiserver"));
        assert_eq!(found.args, ["--secure-port=1"]);
        assert_eq!(found.work_dir, Path::new("/b"));
        let missing = component(text, "kwok-controller").err().unwrap();
        assert!(missing.to_string().contains("kwok-controller"), "{missing}");
    }
}
