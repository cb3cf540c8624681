//! Downloads archives from a repository to the disk.

use std::{
    io::{self, Write as _},
    path::Path,
};

use baton_apis::Chart;
use reqwest::Response;
use ring::digest::{Context, SHA256};
use tokio::task::spawn_blocking;
use url::Url;

use crate::{
    Error, Inner,
    address::{Address, hex, same_origin},
    archive,
    disk::Disk,
    http::{self, Authorization},
    index::Entry,
    oci::{Reference, Session},
};

impl Inner {
    /// Fetches an archive, checks it, and moves it to its place.
    ///
    /// # Guarantees
    /// - The file is created as a whole, after all checks have passed.
    /// - Credentials of the repository are sent to its own host only: an index may name any other.
    ///
    /// # Errors
    /// [`Error::Fetch`], [`Error::Corrupted`], and [`Error::Repository`] if the file cannot be
    /// written.
    pub(crate) async fn download(
        &self,
        address: &Address,
        chart: &Chart,
        entry: &Entry,
        file: &Path,
    ) -> Result<(), Error> {
        let fetch = |url: &str, cause: String| Error::Fetch {
            chart: Chart {
                repo_url: url.to_owned(),
                ..chart.clone()
            },
            cause,
        };
        let url = address.archive(&entry.url);
        let url = url.map_err(|cause| fetch(&entry.url, cause))?;
        let failed = |cause: String| fetch(url.as_str(), cause);
        let refused = |cause: String| failed(self.explained(address, cause));
        let local =
            |bytes: u64, error: &io::Error| Error::Repository(self.disk.failed(bytes, error));
        let (response, digest) = self.ask(address, &url, entry).await.map_err(refused)?;

        let folder = file.parent().unwrap_or(Path::new("."));
        let new = Disk::temporary(folder);
        let mut new = new.map_err(|error| local(0, &error))?;
        let mut context = Context::new(&SHA256);
        let (mut bytes, mut unwritten) = (0, None);
        let read = http::read(response, self.settings.limits.packed, |piece| {
            context.update(piece);
            bytes += piece.len() as u64;
            let written = new.write_all(piece);
            written.inspect_err(|error| unwritten = Some(local(bytes, error)))
        });
        let read = read.await;
        if let Some(unwritten) = unwritten {
            return Err(unwritten);
        }
        read.map_err(|error| failed(error.to_string()))?;
        let found = hex(context.finish().as_ref());
        if digest.as_ref().is_some_and(|digest| *digest != found) {
            let digest = digest.unwrap_or_default();
            return Err(failed(format!(
                "its digest is {found}, but the repository states {digest}"
            )));
        }
        let limits = self.settings.limits.clone();
        let checked = spawn_blocking(move || {
            use std::io::{BufReader, Seek as _};
            new.rewind()?;
            let inspection = archive::inspect(BufReader::new(new.as_file()), &limits);
            new.as_file().sync_all()?;
            Ok((new, inspection))
        });
        let checked = checked.await.map_err(io::Error::other);
        let checked = checked.and_then(|checked| checked);
        let (new, inspection) = checked.map_err(|error| local(bytes, &error))?;
        let corrupted = |cause: String| Error::Corrupted {
            chart: chart.clone(),
            cause,
        };
        let inspection = inspection.map_err(|error| corrupted(error.to_string()))?;
        if inspection.name != chart.name || inspection.version != chart.version {
            let (name, version) = (inspection.name, inspection.version);
            let cause = format!("it contains the chart {name:?} in version {version:?}");
            return Err(corrupted(cause));
        }
        let persisted = new.persist(file);
        persisted.map_err(|error| local(bytes, &error.error))?;
        self.disk.wrote(bytes);
        let disk = self.disk.clone();
        let _ = spawn_blocking(move || disk.stored(bytes)).await;
        Ok(())
    }

    /// Sends the request for an archive. Returns the response, and the expected digest, if there is
    /// one.
    async fn ask(
        &self,
        address: &Address,
        url: &Url,
        entry: &Entry,
    ) -> Result<(Response, Option<String>), String> {
        let credentials = || {
            let own = same_origin(&address.url, url);
            own.then(|| self.credentials(address)).flatten()
        };
        if url.scheme() == "oci" {
            let mut session = Session::new(&self.http, Reference::parse(url)?, credentials());
            let blob = session.blob().await.map_err(|error| error.to_string())?;
            // The index of a repository may name a registry, and state a digest as well.
            if entry
                .digest
                .as_ref()
                .is_some_and(|digest| *digest != blob.digest)
            {
                let (found, digest) = (&blob.digest, entry.digest.as_deref().unwrap_or_default());
                return Err(format!(
                    "its digest is {found}, but the repository states {digest}"
                ));
            }
            let response = session.get(&blob.url, None).await;
            let response = response.map_err(|error| error.to_string())?;
            return Ok((response, Some(blob.digest)));
        }
        if address.url.scheme() == "https" && url.scheme() == "http" && entry.digest.is_none() {
            return Err(
                "its URL is HTTP without TLS, and the index has no digest of it".to_owned(),
            );
        }
        let authorization = credentials().as_ref().and_then(Authorization::new);
        let response = self.http.get(url, None, authorization.as_ref()).await;
        let response = response.map_err(|error| error.to_string())?;
        Ok((response, entry.digest.clone()))
    }
}
