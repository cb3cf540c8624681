//! A local repository of charts with faults that can be switched on, for tests and the demo.

mod server;

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use flate2::Compression;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::archive;
use crate::paths::Dirs;

/// The reason that there is no repository.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages state it")]
pub enum Error {
    #[error("cannot pack {path}: {source}")]
    Pack { path: PathBuf, source: io::Error },
    #[error("{path}: the name of a chart's folder ends with `-` and its version")]
    Name { path: PathBuf },
    #[error("the repository of charts cannot listen on {address}: {source}")]
    Listen {
        address: SocketAddr,
        source: io::Error,
    },
}

/// A fault of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Connections end without an answer.
    Down,
    /// Answers are delayed by this time.
    Slow(Duration),
    /// Answers have this status.
    Status(u16),
    /// A version is missing in the index and cannot be downloaded.
    Lost {
        /// Name of the chart.
        name: String,
        /// The version.
        version: String,
    },
    /// The digests in the index do not match the archives; a registry serves archives that do not
    /// match their digests.
    WrongDigest,
    /// The index is empty.
    EmptyBody,
    /// The index contains no charts.
    NoEntries,
    /// The index is this text.
    Index(Arc<str>),
    /// Requests need this name and password: by basic authentication for the repository, by a token
    /// for the registry.
    Private {
        /// The name that is required.
        username: String,
        /// The password that is required.
        password: String,
    },
    /// The archives in the index have this URL, the part before `/NAME-VERSION.tgz`.
    Elsewhere(String),
    /// Archives are redirected to this URL, the part before `/NAME-VERSION.tgz`.
    Redirect(String),
}

/// A request to a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Path and query.
    pub path: String,
    /// The header with the credentials.
    pub authorization: Option<String>,
}

/// A repository at `http://127.0.0.1`, which is also a registry. It ends when this is dropped.
#[derive(Debug)]
pub struct Repository {
    address: SocketAddr,
    shared: Arc<Mutex<Shared>>,
    server: JoinHandle<()>,
}

/// The state of the server.
#[derive(Debug, Default)]
struct Shared {
    /// Scheme, host and port of the server.
    origin: String,
    /// Archives by name and version.
    archives: BTreeMap<(String, String), Vec<u8>>,
    faults: Vec<Fault>,
    requests: Vec<Request>,
}

impl Repository {
    /// Starts a repository with the charts of the tests: `test-nginx` in the versions 0.0.1 and
    /// 0.0.2.
    pub async fn start(dirs: &Dirs) -> Result<Self, Error> {
        Self::on_port(dirs, 0).await
    }

    /// As [`Repository::start`], on this port; 0 chooses a free one.
    pub async fn on_port(dirs: &Dirs, port: u16) -> Result<Self, Error> {
        Self::serve(&dirs.workspace.join("hack").join("charts"), port).await
    }

    /// Starts a repository with the charts in a folder, each in a subfolder `NAME-VERSION`.
    pub async fn of(folder: &Path) -> Result<Self, Error> {
        Self::serve(folder, 0).await
    }

    async fn serve(folder: &Path, port: u16) -> Result<Self, Error> {
        let mut shared = Shared::default();
        for path in entries(folder)? {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let chart = name.rsplit_once('-');
            let (name, version) = chart.ok_or_else(|| Error::Name { path: path.clone() })?;
            let key = (name.to_owned(), version.to_owned());
            shared.archives.insert(key, pack(&path, name)?);
        }
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let failed = |source| Error::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        shared.origin = format!("http://{address}");
        let shared = Arc::new(Mutex::new(shared));
        let server = tokio::spawn(server::run(listener, Arc::clone(&shared)));
        Ok(Self {
            address,
            shared,
            server,
        })
    }

    /// The URL of the repository.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/charts", self.address)
    }

    /// The URL of the same charts in a registry.
    #[must_use]
    pub fn registry(&self) -> String {
        format!("oci://{}/charts", self.address)
    }

    /// Adds or replaces an archive. The content is not checked.
    pub fn add(&self, name: &str, version: &str, archive: Vec<u8>) {
        let key = (name.to_owned(), version.to_owned());
        lock(&self.shared).archives.insert(key, archive);
    }

    /// Switches on another fault.
    pub fn fail(&self, fault: Fault) {
        lock(&self.shared).faults.push(fault);
    }

    /// Switches off all faults.
    pub fn recover(&self) {
        lock(&self.shared).faults.clear();
    }

    /// The requests so far, in order.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        lock(&self.shared).requests.clone()
    }

    /// Number of requests so far whose path ends with `end`.
    #[must_use]
    pub fn requests_for(&self, end: &str) -> usize {
        let shared = lock(&self.shared);
        let paths = shared.requests.iter().map(|request| &request.path);
        paths.filter(|path| path.ends_with(end)).count()
    }
}

impl Drop for Repository {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// Packs the folder of a chart. The same files result in the same bytes.
pub fn pack(folder: &Path, name: &str) -> Result<Vec<u8>, Error> {
    let files = files(folder, Path::new(name))?;
    let files = files
        .iter()
        .map(|(path, content)| (path.as_path(), content.as_slice()));
    pack_files(files).map_err(|source| Error::Pack {
        path: folder.to_owned(),
        source,
    })
}

/// Packs files, each with its path in the archive.
pub fn pack_files<'a>(files: impl Iterator<Item = (&'a Path, &'a [u8])>) -> io::Result<Vec<u8>> {
    let named = files.map(|(path, content)| (path.display().to_string(), content));
    archive::packed(named, 0, Compression::default())
}

/// The files of a folder, by their paths below another one.
pub(crate) fn files(folder: &Path, below: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>, Error> {
    let mut files = BTreeMap::new();
    collect(folder, below, &mut files)?;
    Ok(files)
}

fn collect(from: &Path, to: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) -> Result<(), Error> {
    for path in entries(from)? {
        let to = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            collect(&path, &to, files)?;
        } else {
            let content = std::fs::read(&path).map_err(|source| Error::Pack {
                path: path.clone(),
                source,
            })?;
            files.insert(to, content);
        }
    }
    Ok(())
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let read = std::fs::read_dir(folder).and_then(|entries| {
        let paths = entries.map(|entry| entry.map(|entry| entry.path()));
        paths.collect::<io::Result<Vec<_>>>()
    });
    read.map_err(|source| Error::Pack {
        path: folder.to_owned(),
        source,
    })
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
