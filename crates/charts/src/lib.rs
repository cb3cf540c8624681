//! Fetches charts from repositories and renders them.
//!
//! [`Charts`] offers all functions. It reads the indexes of repositories, fetches archives into a
//! folder, and has `helm` render them in a process with limits. `baton_releases::chart` decides
//! which of the objects are installed.

mod address;
mod archive;
mod disk;
mod download;
mod error;
#[cfg(test)]
mod fuzz;
mod helm;
mod http;
mod index;
mod isolation;
mod manifests;
mod metrics;
mod oci;
mod rendering;
mod repository;
mod secrecy;
mod settings;

use std::{cmp::Reverse, collections::HashMap, fmt, path::PathBuf, sync::Arc, time::Duration};

use baton_apis::Chart;
use baton_kubernetes::{memory::Memory, permits::Permits};
use baton_releases::resolution::{self, Cause, ResolutionError};
use parking_lot::Mutex;
use prometheus_client::registry::Registry;

pub use error::Error;
pub use rendering::{Documents, Rendered, Rendering};
pub use settings::{CredentialSource, Credentials, Limits, Settings, UnusableCredentials};

use address::{Address, file_name};
use disk::{Disk, Turn};
use http::Http;
use index::Index;
use repository::Repository;

/// Time for which an unused index stays in memory. It is also on disk.
const UNUSED: Duration = Duration::from_mins(10);

/// Limit in bytes of the indexes that stay in memory.
const INDEXES: usize = 32 << 20;

/// Number of archives that are fetched and checked at a time. Namespaces take turns.
const DOWNLOADS: usize = 16;

/// The charts of repositories. Clones share their state.
///
/// # Guarantees
/// - All methods can be called from any number of tasks. Concurrent calls for the same index or
///   archive share one request.
/// - No request is sent without a call, and for a while none after the disk has failed.
#[derive(Clone)]
pub struct Charts {
    inner: Arc<Inner>,
    /// The namespace that the work is done for; empty if it is unknown.
    namespace: Arc<str>,
}

struct Inner {
    settings: Settings,
    credentials: Box<dyn CredentialSource>,
    http: Http,
    disk: Disk,
    /// Repositories by URL; registries by URL and chart.
    repositories: Mutex<HashMap<String, Arc<Repository>>>,
    downloads: Arc<Permits>,
    renders: Arc<Permits>,
    memory: Memory,
}

impl fmt::Debug for Charts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Charts").field(&self.inner.settings).finish()
    }
}

/// TLS cannot be set up. The error is a text for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot set up TLS: {0}")]
pub struct SetupError(String);

impl Charts {
    /// Creates a handle. Nothing is requested, read or written.
    ///
    /// # Errors
    /// If TLS cannot be set up. If no certificates are trusted, only requests by HTTPS fail.
    pub fn new(settings: Settings, credentials: impl CredentialSource) -> Result<Self, SetupError> {
        let http = Http::new(&settings.limits).map_err(SetupError)?;
        let inner = Inner {
            renders: Permits::new(settings.renders.get()),
            memory: Memory::new(settings.memory),
            disk: Disk::new(&settings.cache, settings.limits.folder),
            settings,
            credentials: Box::new(credentials),
            http,
            repositories: Mutex::default(),
            downloads: Permits::new(DOWNLOADS),
        };
        Ok(Self {
            inner: Arc::new(inner),
            namespace: Arc::default(),
        })
    }

    /// The same charts, for the work of a namespace. Namespaces take turns for downloads and memory;
    /// otherwise hosts do.
    #[must_use]
    pub fn of(&self, namespace: &str) -> Self {
        Self {
            namespace: namespace.into(),
            ..self.clone()
        }
    }

    /// The lane of work about a repository.
    fn lane<'a>(&'a self, address: &'a Address) -> &'a str {
        if self.namespace.is_empty() {
            address.url.host_str().unwrap_or_default()
        } else {
            &self.namespace
        }
    }

    /// The index at the URL of a repository, as [`Inner::index`] returns it.
    async fn index_at(
        &self,
        repo_url: &str,
        chart: &str,
        version: Option<&str>,
    ) -> Result<Arc<Index>, Error> {
        let address = Address::parse(repo_url).map_err(Error::Repository)?;
        let lane = self.lane(&address);
        self.inner.index(&address, chart, version, lane).await
    }

    /// Adds the metrics of requests to a registry.
    pub fn register_metrics(&self, registry: &mut Registry) {
        self.inner.http.metrics.register(registry);
    }

    /// The versions of a chart in a repository, in the order of its index; `None` if the index does
    /// not have the chart. For [`baton_releases::resolution::resolve`].
    ///
    /// # Guarantees
    /// The answer is at most as old as [`Limits::refresh`] if the repository responds within
    /// [`Limits::first_index`]. Otherwise it is from the last good index, also of an earlier
    /// process.
    ///
    /// # Errors
    /// [`Error::NoIndex`], [`Error::Repository`].
    pub async fn versions(
        &self,
        repo_url: &str,
        chart: &str,
    ) -> Result<Option<Vec<String>>, Error> {
        let index = self.index_at(repo_url, chart, None).await?;
        let versions = index.versions(chart);
        Ok(versions.map(|versions| versions.into_iter().map(str::to_owned).collect()))
    }

    /// Resolves the version expression of a chart with the index. A version that the last good
    /// index has needs no newer index.
    ///
    /// # Errors
    /// The text of the error is that of Shipper. Errors of [`Self::versions`] are a
    /// [`Cause::Repository`].
    pub async fn resolve(&self, chart: &Chart) -> Result<String, ResolutionError> {
        let Chart {
            name,
            version,
            repo_url,
        } = chart;
        let exact = is_exact(version).then_some(&**version);
        let index = self.index_at(repo_url, name, exact).await;
        let index = index.map_err(|error| ResolutionError {
            chart: chart.clone(),
            cause: Cause::Repository(error.to_string()),
        })?;
        let resolved = resolution::resolve(chart, index.versions(name).as_deref());
        resolved
            .map(str::to_owned)
            .map_err(|error| ResolutionError {
                cause: error
                    .cause
                    .after_failure(self.inner.failure(repo_url, name)),
                ..error
            })
    }

    /// Fetches a chart, and returns the path of its archive. A range of versions is resolved first.
    ///
    /// # Guarantees
    /// - The archive has the digest that the index names, and the requested name and version.
    ///   Unpacking it would write no file outside of its folder.
    /// - An archive is fetched once. Later calls, also those after a restart, return it without a
    ///   request, whatever has changed in the repository, until it is removed: see
    ///   [`Limits::folder`].
    ///
    /// # Errors
    /// All but [`Error::Broken`] and [`Error::Renderer`].
    pub async fn archive(&self, chart: &Chart) -> Result<PathBuf, Error> {
        let (file, _) = self.archive_in_use(chart).await?;
        Ok(file)
    }

    /// As [`Self::archive`]. The archive is not removed while its turn exists.
    pub(crate) async fn archive_in_use(&self, chart: &Chart) -> Result<(PathBuf, Turn), Error> {
        let inner = &self.inner;
        let address = Address::parse(&chart.repo_url).map_err(Error::Repository)?;
        if is_exact(&chart.version)
            && let Ok(file) = inner.file(&address, chart)
        {
            let turn = inner.disk.turn(&file);
            if Disk::used(&file) {
                return Ok((file, turn));
            }
        }
        let lane = self.lane(&address);
        let index = inner.index(&address, &chart.name, None, lane).await?;
        let version = resolution::resolve(chart, index.versions(&chart.name).as_deref())?;
        let exact = Chart {
            version: version.to_owned(),
            ..chart.clone()
        };
        let file = inner
            .file(&address, &exact)
            .map_err(|cause| Error::Corrupted {
                chart: exact.clone(),
                cause,
            })?;
        let entry = index.entry(&exact.name, &exact.version);
        let entry = entry.ok_or_else(|| ResolutionError {
            chart: exact.clone(),
            cause: Cause::NoSuchVersion,
        })?;
        let turn = inner.disk.turn(&file);
        let locked = turn.lock().await;
        if !Disk::used(&file) {
            inner.disk.ready().map_err(Error::Repository)?;
            let _permit = inner.downloads.acquire(lane).await;
            inner.download(&address, &exact, entry, &file).await?;
        }
        drop(locked);
        Ok((file, turn))
    }
}

/// True if the text is one complete version. Shorter texts, such as `1.2`, are ranges.
fn is_exact(version: &str) -> bool {
    semver::Version::parse(version.trim_start_matches('v')).is_ok()
}

impl Inner {
    fn folder(&self, address: &Address) -> PathBuf {
        self.settings.cache.join(address.folder())
    }

    fn file(&self, address: &Address, chart: &Chart) -> Result<PathBuf, String> {
        let name = file_name(&chart.name, &chart.version)?;
        Ok(self.folder(address).join(name))
    }

    /// The index of a repository in which to look for a chart. If a version is given, the last good
    /// index is sufficient if it has this version.
    async fn index(
        &self,
        address: &Address,
        chart: &str,
        version: Option<&str>,
        lane: &str,
    ) -> Result<Arc<Index>, Error> {
        // In a registry, the name of the chart becomes a part of the path.
        if address.is_registry() && file_name(chart, "0").is_err() {
            return Ok(Arc::default());
        }
        let cached = version.map(|version| (chart, version));
        let repository = self.repository(address, chart);
        let credentials = self.credentials(address);
        let index = repository.index(credentials, cached, lane).await;
        self.unload_indexes();
        index.map_err(|why| Error::NoIndex(self.explained(address, why)))
    }

    /// The failure of the last request for an index.
    fn failure(&self, repo_url: &str, chart: &str) -> Option<String> {
        let address = Address::parse(repo_url).ok()?;
        let failure = self.repository(&address, chart).failure()?;
        Some(self.explained(&address, failure))
    }

    /// The credentials for a repository; `None` if there are none that can be used.
    fn credentials(&self, address: &Address) -> Option<Credentials> {
        self.credentials.find(&address.text).unwrap_or_default()
    }

    /// The cause of a failed request, with the reason that no credentials were sent, if there are
    /// unusable ones.
    fn explained(&self, address: &Address, cause: String) -> String {
        match self.credentials.find(&address.text) {
            Ok(_) => cause,
            Err(unusable) => format!("{cause}; no credentials are sent: {unusable}"),
        }
    }

    fn repository(&self, address: &Address, chart: &str) -> Arc<Repository> {
        let (chart, key, file) = if address.is_registry() {
            let key = format!("{}/{chart}", address.text);
            (Some(chart.to_owned()), key, format!("tags-{chart}.json"))
        } else {
            (None, address.text.clone(), "index.json".to_owned())
        };
        let mut repositories = self.repositories.lock();
        if let Some(repository) = repositories.get(&key) {
            return Arc::clone(repository);
        }
        repositories.retain(|_, repository| repository.used().elapsed() < UNUSED);
        let repository = Arc::new(Repository::new(
            address.clone(),
            chart,
            self.folder(address).join(file),
            self.http.clone(),
            self.settings.limits.clone(),
            (self.memory.clone(), self.disk.clone()),
        ));
        repositories.insert(key, Arc::clone(&repository));
        repository
    }

    /// Removes indexes from memory, those that were not used for the longest time first, until the
    /// others take no more than the limit.
    fn unload_indexes(&self) {
        let mut repositories: Vec<_> = {
            let repositories = self.repositories.lock();
            let bytes = repositories.values().map(|repository| repository.bytes());
            if bytes.sum::<usize>() <= INDEXES {
                return;
            }
            repositories.values().cloned().collect()
        };
        repositories.sort_by_key(|repository| Reverse(repository.used()));
        let mut bytes = 0;
        for repository in repositories {
            bytes += repository.bytes();
            if bytes > INDEXES {
                repository.unload();
            }
        }
    }
}
