//! Renderings of charts: helm's output, and the objects in it.

use std::{
    fs::File,
    io::{self, BufReader},
    ops::Deref,
    path::Path,
    sync::Arc,
};

use baton_apis::{Chart, Raw};
use baton_kubernetes::memory::Share;
use serde_json::Value;
use tempfile::NamedTempFile;
use tokio::task::spawn_blocking;

use crate::{Charts, Error, Inner, archive, helm, manifests, secrecy::Message};

/// The inputs of a rendering.
#[derive(Clone, Copy, Debug)]
pub struct Rendering<'a> {
    /// The chart to render.
    pub chart: &'a Chart,
    /// Values over the defaults of the chart: `None` or a map.
    pub values: Option<&'a Raw<Value>>,
    /// `.Release.Name`.
    pub name: &'a str,
    /// `.Release.Namespace`.
    pub namespace: &'a str,
}

/// The output of a rendering: its text, without the values that it stands for.
#[derive(Clone, Debug)]
pub struct Rendered {
    chart: Chart,
    namespace: String,
    printed: Arc<str>,
}

impl Rendered {
    /// Number of bytes of the text.
    #[must_use]
    pub fn size(&self) -> usize {
        self.printed.len()
    }
}

/// The objects of a chart. They count as memory in use until this is dropped: see
/// [`Settings::memory`](crate::Settings::memory).
#[derive(Debug)]
pub struct Documents {
    /// The objects, in the order of helm's output.
    pub objects: Vec<Value>,
    /// The output that they were read from.
    pub rendered: Rendered,
    /// The memory of the objects.
    _share: Share,
}

impl Documents {
    /// The output of the rendering. The objects no longer take memory, so that they can be read again
    /// with [`Charts::read`] after a wait for another process.
    #[must_use]
    pub fn into_rendered(self) -> Rendered {
        self.rendered
    }
}

impl Deref for Documents {
    type Target = [Value];

    fn deref(&self) -> &[Value] {
        &self.objects
    }
}

impl Charts {
    /// Renders a chart, and returns its objects. The chart is fetched first if necessary.
    ///
    /// The objects are those of `crds/`, templates and dependencies. Hooks are among them as
    /// ordinary objects. The order is that of helm's output, for
    /// [`baton_releases::chart::content`].
    ///
    /// # Guarantees
    /// - A chart gets no more memory, time and output than [limits](crate::Limits) allow, no network, and no
    ///   access to this process.
    /// - When this function returns or is dropped, the process of the rendering and its files are
    ///   gone.
    /// - Namespaces take turns: if another namespace has a thousand charts that hang, this
    ///   rendering waits only for those that run already and for one more.
    ///
    /// # Caveats
    /// Two renderings of the same chart may differ: charts can use random numbers and the time.
    ///
    /// # Errors
    /// All errors.
    pub async fn render(&self, rendering: Rendering<'_>) -> Result<Documents, Error> {
        let inner = &self.inner;
        let Rendering {
            chart,
            values,
            name,
            namespace,
        } = rendering;
        let broken = |cause: String| Error::Broken {
            chart: chart.clone(),
            cause,
        };
        let values = match values {
            None => "{}",
            Some(values) if values.text() == "null" => "{}",
            Some(values) if values.text().trim_start().starts_with('{') => values.text(),
            Some(_) => return Err(broken("the values are not a map".to_owned())),
        };
        let helm = inner.settings.helm.as_deref();
        let helm = helm::find(helm, std::env::var_os("PATH").as_deref());
        let helm = helm.map_err(Error::Renderer)?;
        let (file, in_use) = self.of(namespace).archive_in_use(chart).await?;
        let permit = inner.renders.acquire(namespace).await;
        let folder = inner.disk.rendering();
        let rewritten = inner.rewritten(&file, &folder).await;
        drop(in_use);
        let rewritten = rewritten.map_err(Error::Repository)?;
        let template = helm::Template {
            archive: rewritten.path(),
            values: values.as_bytes(),
            name,
            namespace,
        };
        let printed = helm::template(&helm, &folder, template, &inner.settings.limits).await;
        let printed = match printed {
            Ok(printed) => printed,
            Err(helm::Error::Start(why)) => return Err(Error::Renderer(why)),
            Err(helm::Error::Chart(cause)) => return Err(broken(cause)),
            Err(helm::Error::Refused(words)) => {
                return Err(broken(inner.public(rewritten, words).await));
            }
        };
        drop((permit, rewritten));
        self.read(Rendered {
            chart: chart.clone(),
            namespace: namespace.to_owned(),
            printed: printed.into(),
        })
        .await
    }

    /// Reads the objects in the output of a rendering. Waits for the memory that they may take;
    /// namespaces take turns.
    ///
    /// # Errors
    /// [`Error::Broken`], also if the objects take more memory than
    /// [`Limits::values`](crate::Limits::values) allows.
    pub async fn read(&self, rendered: Rendered) -> Result<Documents, Error> {
        let (memory, most) = (&self.inner.memory, self.inner.settings.limits.values);
        let share = memory.of_text(&rendered.namespace, rendered.size(), most);
        let mut share = share.await;
        let (printed, most) = (Arc::clone(&rendered.printed), share.bytes);
        let read = spawn_blocking(move || manifests::read(&printed, most)).await;
        let read = read.map_err(|error| Error::Renderer(error.to_string()))?;
        let (objects, bytes) = read.map_err(|cause| Error::Broken {
            chart: rendered.chart.clone(),
            cause,
        })?;
        share.shrink(bytes);
        Ok(Documents {
            objects,
            rendered,
            _share: share,
        })
    }
}

impl Inner {
    /// Reads an archive on disk to its end, and writes the archive that helm gets into a folder. An
    /// archive that is no longer good is removed, so that it is fetched again.
    async fn rewritten(&self, file: &Path, folder: &Path) -> Result<NamedTempFile, String> {
        let limits = self.settings.limits.clone();
        let (file, folder, disk) = (file.to_owned(), folder.to_owned(), self.disk.clone());
        let rewritten = spawn_blocking(move || {
            let packed =
                File::open(&file).map_err(|error| format!("{}: {error}", file.display()))?;
            let mut to = temporary(&folder).map_err(|error| disk.failed(0, &error))?;
            let inspection = archive::rewrite(BufReader::new(packed), &limits, to.as_file_mut());
            let inspection = inspection.map_err(|error| {
                if let archive::Error::Write(error) = error {
                    return disk.failed(0, &error);
                }
                let removed = std::fs::remove_file(&file).err();
                let removed = removed.map(|error| error.to_string());
                let removed = removed.as_deref().unwrap_or("it is removed");
                format!("{}: {error}; {removed}", file.display())
            })?;
            if !inspection.left_out.is_empty() {
                let (file, schemas) = (file.display(), inspection.left_out);
                tracing::info!(
                    %file,
                    ?schemas,
                    "values are not validated by schemas that refer to other files or URLs"
                );
            }
            Ok(to)
        });
        let rewritten = rewritten.await;
        rewritten.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// The parts of helm's messages about this archive that may be shown.
    async fn public(&self, archive: NamedTempFile, words: String) -> String {
        let limits = self.settings.limits.clone();
        let read = spawn_blocking(move || {
            let mut message = Message::of(&words);
            if let Ok(packed) = archive.reopen() {
                // A text that cannot be read is not known to be public.
                let learn = |path: &str, content: &str| message.learn(path, content);
                let _ = archive::visit_texts(BufReader::new(packed), &limits, learn);
            }
            message.into_text()
        });
        read.await.unwrap_or_else(|error| error.to_string())
    }
}

/// A new file for an archive in a folder, which is created if it is missing.
fn temporary(folder: &Path) -> io::Result<NamedTempFile> {
    std::fs::create_dir_all(folder)?;
    let builder = &mut tempfile::Builder::new();
    builder.prefix("chart-").suffix(".tgz").tempfile_in(folder)
}
