//! One repository: its last good index, and the time of the next request for it. An index is good
//! if it was fetched and read, and has not lost all charts of the one before.

use std::{
    io::{self, Read as _, Seek as _, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use baton_engine::redact::shown_url;
use baton_kubernetes::memory::Memory;
use parking_lot::Mutex;
use tokio::{
    sync::{Mutex as AsyncMutex, watch},
    task::spawn_blocking,
    time::timeout,
};

use crate::{
    Credentials, Limits,
    address::Address,
    disk::Disk,
    http::{self, Authorization, Http},
    index::{Entry, Index},
    oci::{self, Reference, Session},
};

/// A repository, or a chart in a registry, whose tags are its index.
#[derive(Debug)]
pub struct Repository {
    /// Address of the repository.
    pub address: Address,
    /// Name of the chart in a registry; `None` for a repository, whose index lists all charts.
    chart: Option<String>,
    file: PathBuf,
    http: Http,
    limits: Limits,
    memory: Memory,
    disk: Disk,
    /// Locked by the task that reads the index of an earlier process.
    loading: AsyncMutex<()>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The last good index; `None` if there is none yet, or if it is only on disk.
    index: Option<Arc<Index>>,
    /// Bytes of memory of `index`, estimated.
    bytes: usize,
    /// True if `index` is not older than the one on disk.
    is_loaded: bool,
    /// The start and outcome of the last request.
    attempt: Option<(Instant, Result<(), String>)>,
    /// Closed when the running request ends.
    running: Option<watch::Receiver<()>>,
    used: Instant,
}

impl State {
    fn set(&mut self, index: Option<Arc<Index>>, is_loaded: bool) {
        self.bytes = index.as_ref().map_or(0, |index| index.bytes());
        (self.index, self.is_loaded) = (index, is_loaded);
    }

    /// True if a request is running. A request that was dropped, because the process ends, has
    /// closed its channel.
    fn is_busy(&self) -> bool {
        let running = self.running.as_ref();
        running.is_some_and(|running| running.has_changed().is_ok())
    }
}

impl Repository {
    /// Creates a repository. Does no I/O.
    pub fn new(
        address: Address,
        chart: Option<String>,
        file: PathBuf,
        http: Http,
        limits: Limits,
        (memory, disk): (Memory, Disk),
    ) -> Self {
        Self {
            address,
            chart,
            file,
            http,
            limits,
            memory,
            disk,
            loading: AsyncMutex::default(),
            state: Mutex::new(State {
                index: None,
                bytes: 0,
                is_loaded: false,
                attempt: None,
                running: None,
                used: Instant::now(),
            }),
        }
    }

    /// Time of the last call for the index.
    pub fn used(&self) -> Instant {
        self.state.lock().used
    }

    /// The bytes of memory of the index, estimated.
    pub fn bytes(&self) -> usize {
        self.state.lock().bytes
    }

    /// Removes the index from memory. The next call reads it from the disk.
    pub fn unload(&self) {
        self.state.lock().set(None, false);
    }

    /// The index, requested again if it is due. `lane` names the caller for fair turns.
    ///
    /// # Guarantees
    /// - Only one request runs at a time, for any number of callers; it continues when they are
    ///   gone.
    /// - A repository that responds is requested at most once every `refresh`. The caller waits for
    ///   the response, for `first_index` at most.
    /// - While the repository does not respond, the last good index is returned at once. An index
    ///   that has `cached`, a chart and its version, is also returned at once, because a version
    ///   does not change.
    ///
    /// # Errors
    /// If there is no good index yet. The error is a text for people.
    pub async fn index(
        self: &Arc<Self>,
        credentials: Option<Credentials>,
        cached: Option<(&str, &str)>,
        lane: &str,
    ) -> Result<Arc<Index>, String> {
        self.load(lane).await;
        let running = self.request(credentials, lane);
        let last = self.state.lock().index.clone();
        if let (Some(last), Some((chart, version))) = (last, cached)
            && last.entry(chart, version).is_some()
        {
            return Ok(last);
        }
        if let Some(mut running) = running {
            // The channel has no values. It is closed when the request ends, which is an error
            // here.
            let _ = timeout(self.limits.first_index, running.changed()).await;
        }
        let state = self.state.lock();
        if let Some(index) = &state.index {
            return Ok(Arc::clone(index));
        }
        let why = match &state.attempt {
            Some((_, Err(why))) if !state.is_busy() => {
                format!("failed to get chart repo index: {why}")
            }
            _ => "failed to get chart repo index and there is no index in cache: \
                  no response from chart repo yet"
                .to_owned(),
        };
        Err(why)
    }

    /// The failure of the last request; `None` if it succeeded.
    pub fn failure(&self) -> Option<String> {
        let state = self.state.lock();
        let (_, outcome) = state.attempt.as_ref()?;
        outcome.clone().err()
    }

    /// Starts a request if one is due. Returns the channel that is closed when the running request
    /// ends; `None` if the caller need not wait, because no request runs, or because the last one
    /// failed and there is an index.
    fn request(
        self: &Arc<Self>,
        credentials: Option<Credentials>,
        lane: &str,
    ) -> Option<watch::Receiver<()>> {
        let mut state = self.state.lock();
        state.used = Instant::now();
        let due = state.attempt.as_ref().is_none_or(|(at, outcome)| {
            // Without an index all callers wait, so a failed request is repeated earlier.
            let hurry = outcome.is_err() && state.index.is_none();
            let interval = self.limits.refresh / if hurry { 10 } else { 1 };
            at.elapsed() >= interval
        });
        if due && !state.is_busy() {
            let (done, running) = watch::channel(());
            state.running = Some(running);
            let (repository, lane) = (Arc::clone(self), lane.to_owned());
            tokio::spawn(async move {
                let _done = done;
                repository.refresh(credentials, &lane).await;
            });
        }
        let failing = state
            .attempt
            .as_ref()
            .is_some_and(|(_, outcome)| outcome.is_err());
        let running = state.running.clone();
        running.filter(|_| !(failing && state.index.is_some()))
    }

    async fn refresh(&self, credentials: Option<Credentials>, lane: &str) {
        let started = Instant::now();
        self.load(lane).await;
        Disk::used(&self.file);
        let outcome = match self.fetch(credentials, lane).await {
            Ok(index) => self.take(index).await,
            Err(why) => Err(why),
        };
        let mut state = self.state.lock();
        // A failure that lasts is logged once.
        let before = state.attempt.as_ref().map(|(_, outcome)| outcome);
        if let Err(why) = &outcome
            && before != Some(&outcome)
        {
            let repository = &*shown_url(&self.address.text);
            tracing::warn!(
                repository,
                why,
                "cannot update the index of the chart repository"
            );
        }
        state.attempt = Some((started, outcome));
        state.running = None;
    }

    async fn fetch(&self, credentials: Option<Credentials>, lane: &str) -> Result<Index, String> {
        self.disk.ready()?;
        if let Some(chart) = &self.chart {
            return self.tags(chart, credentials).await;
        }
        let authorization = credentials.as_ref().and_then(Authorization::new);
        let url = self.address.index();
        let response = self.http.get(&url, None, authorization.as_ref()).await;
        let response = response.map_err(|error| error.to_string())?;
        // A server that sends slowly takes disk and no memory.
        let folder = self.file.parent().unwrap_or(Path::new("."));
        let local = |bytes: u64, error: &io::Error| self.disk.failed(bytes, error);
        let mut text = Disk::temporary(folder).map_err(|error| local(0, &error))?;
        let (mut size, mut unwritten) = (0, None);
        let read = http::read(response, self.limits.index, |piece| {
            size += piece.len() as u64;
            let written = text.write_all(piece);
            written.inspect_err(|error| unwritten = Some(local(size, error)))
        });
        let read = read.await;
        if let Some(unwritten) = unwritten {
            return Err(unwritten);
        }
        read.map_err(|error| error.to_string())?;
        self.disk.wrote(size);
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        let share = self.memory.of_text(lane, size, self.limits.values);
        let share = share.await;
        let parsed = spawn_blocking(move || {
            let mut bytes = Vec::with_capacity(size);
            let read = text.rewind().and_then(|()| text.read_to_end(&mut bytes));
            read.map_err(|error| error.to_string())?;
            Index::parse(&bytes, share.bytes)
        });
        let parsed = parsed.await;
        parsed.map_err(|error| error.to_string())?
    }

    /// The tags of a chart in a registry, as an index.
    async fn tags(&self, chart: &str, credentials: Option<Credentials>) -> Result<Index, String> {
        let base = format!("{}/{chart}", self.address.text);
        let reference = |text: &str| {
            let url = url::Url::parse(text).map_err(|error| error.to_string())?;
            Reference::parse(&url)
        };
        let mut session = Session::new(&self.http, reference(&base)?, credentials);
        let versions = session.versions().await;
        let versions = versions.map_err(|error| error.to_string())?;
        let mut index = Index::default();
        if let Some(versions) = versions {
            let entries = versions.into_iter().map(|version| Entry {
                url: format!("{base}:{}", oci::tag(&version)),
                version,
                digest: None,
            });
            index.charts.insert(chart.to_owned(), entries.collect());
        }
        Ok(index)
    }

    /// Makes an index the last good one, and writes it to disk if it differs from the one before.
    async fn take(&self, index: Index) -> Result<(), String> {
        let previous = self.state.lock().index.clone();
        index.follows(previous.as_deref())?;
        if previous.as_deref() == Some(&index) {
            return Ok(());
        }
        let index = Arc::new(index);
        let (file, kept, disk) = (self.file.clone(), Arc::clone(&index), self.disk.clone());
        let written = spawn_blocking(move || {
            let text = serde_json::to_vec(&*kept).map_err(|error| (0, error.into()))?;
            let bytes = text.len() as u64;
            let written = replace(&file, |to| to.write_all(&text));
            written.map_err(|error| (bytes, error))?;
            disk.stored(bytes);
            Ok(())
        });
        let written = written
            .await
            .unwrap_or_else(|error| Err((0, io::Error::other(error))));
        if let Err((bytes, error)) = written {
            self.disk.failed(bytes, &error);
            // The index can be used nevertheless, until the process ends.
            tracing::warn!(file = %self.file.display(), %error, "cannot write an index to disk");
        }
        self.state.lock().set(Some(index), true);
        Ok(())
    }

    /// Reads the index on disk, unless a newer one is in memory.
    async fn load(&self, lane: &str) {
        let _turn = self.loading.lock().await;
        if self.state.lock().is_loaded {
            return;
        }
        let size = std::fs::metadata(&self.file).map_or(0, |file| file.len());
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        let share = self.memory.of_text(lane, size, self.limits.values);
        let share = share.await;
        let file = self.file.clone();
        let read = spawn_blocking(move || {
            let bytes = std::fs::read(&file).ok()?;
            let index = serde_json::from_slice(&bytes).ok();
            drop(share);
            index
        });
        let read = read.await.ok().flatten();
        let mut state = self.state.lock();
        if !state.is_loaded {
            state.set(read.map(Arc::new), true);
        }
    }
}

/// Writes a file as a whole or not at all, also if the process crashes.
///
/// # Errors
/// If the file cannot be written. The former file is unchanged then.
pub fn replace(
    file: &Path,
    write: impl FnOnce(&mut std::fs::File) -> io::Result<()>,
) -> io::Result<()> {
    let mut temporary = Disk::temporary(file.parent().unwrap_or(Path::new(".")))?;
    write(temporary.as_file_mut())?;
    temporary.as_file().sync_all()?;
    temporary.persist(file).map_err(|error| error.error)?;
    Ok(())
}
