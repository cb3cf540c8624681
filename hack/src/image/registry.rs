//! A registry of images on this machine, for trials.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use super::Error;
use crate::exec::Group;
use crate::paths::Dirs;
use crate::tools::{self, Tool};

/// Longest time for the start, in tenths of a second.
const STARTS: usize = 100;

/// A running registry without TLS. It ends when this value is dropped.
pub(crate) struct Registry {
    /// Its host and port.
    pub(crate) address: String,
    _group: Group,
}

impl Registry {
    /// Starts a registry that stores its content in a folder.
    pub(crate) async fn start(dirs: &Dirs, folder: &Path) -> Result<Self, Error> {
        let file = folder.join("registry.yaml");
        let failed = |source| Error::File {
            path: file.clone(),
            source,
        };
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
        let address = free.local_addr().map_err(failed)?;
        drop(free);
        let storage = folder.join("registry");
        let settings = format!(
            "version: 0.1\nlog: {{level: error}}\n\
             storage: {{filesystem: {{rootdirectory: {:?}}}}}\nhttp: {{addr: {:?}}}\n",
            storage.display().to_string(),
            address.to_string(),
        );
        fs::write(&file, settings).map_err(failed)?;
        let log_file = folder.join("registry.log");
        let log = fs::File::create(&log_file).map_err(failed)?;
        let program = tools::path(Tool::Registry, dirs).await?;
        let mut command = Command::new(program);
        command
            .arg("serve")
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            // It reports each blob that a push asks for.
            .stderr(log);
        let mut group = Group::spawn(&mut command)?;
        for _ in 0..STARTS {
            if TcpStream::connect(address).is_ok() {
                return Ok(Self {
                    _group: group,
                    address: address.to_string(),
                });
            }
            if !matches!(group.child().try_wait(), Ok(None)) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Err(Error::Registry { log: log_file })
    }
}
