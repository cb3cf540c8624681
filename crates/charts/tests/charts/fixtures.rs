//! A repository, a folder for indexes and archives, and the pinned helm.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton_apis::Chart;
use baton_charts::{Charts, Credentials, Limits, Settings};
use baton_hack::charts::{Repository, pack_files};
use baton_hack::paths::Dirs;
use baton_hack::tools;
use tempfile::TempDir;

pub struct Fixture {
    pub repository: Repository,
    pub cache: TempDir,
    /// The credentials for all repositories.
    pub credentials: Arc<Mutex<Option<Credentials>>>,
    pub limits: Limits,
    pub settings: Settings,
}

impl Fixture {
    pub async fn new() -> Self {
        let dirs = Dirs::from_env().unwrap();
        let cache = tempfile::tempdir().unwrap();
        let mut settings = Settings::new(cache.path().to_owned());
        settings.helm = Some(tools::helm(&dirs).await.unwrap());
        let limits = Limits {
            // While other tests run, a first index may take its time.
            first_index: Duration::from_secs(30),
            render: Duration::from_mins(1),
            ..Limits::default()
        };
        Self {
            repository: Repository::start(&dirs).await.unwrap(),
            cache,
            credentials: Arc::default(),
            limits,
            settings,
        }
    }

    /// The charts of a newly started process.
    pub fn charts(&self) -> Charts {
        let credentials = Arc::clone(&self.credentials);
        let settings = Settings {
            limits: self.limits.clone(),
            ..self.settings.clone()
        };
        Charts::new(settings, move |_: &str| credentials.lock().unwrap().clone()).unwrap()
    }

    /// As [`Self::charts`], with an index that is requested each time.
    pub fn fresh(&mut self) -> Charts {
        self.limits.refresh = Duration::ZERO;
        self.charts()
    }

    pub fn chart(&self, version: &str) -> Chart {
        chart(&self.repository.url(), "test-nginx", version)
    }

    /// Adds a chart made of these files and a `Chart.yaml`.
    pub fn add(&self, name: &str, files: &[(&str, &str)]) -> Chart {
        let metadata = format!("apiVersion: v2\nname: {name}\nversion: 1.0.0\n");
        self.add_with(name, &metadata, files)
    }

    /// Adds a chart made of these files.
    pub fn add_with(&self, name: &str, metadata: &str, files: &[(&str, &str)]) -> Chart {
        let files = [("Chart.yaml", metadata)]
            .into_iter()
            .chain(files.iter().copied());
        let files: Vec<_> = files
            .map(|(path, content)| (Path::new(name).join(path), content.as_bytes()))
            .collect();
        let files = files
            .iter()
            .map(|(path, content)| (path.as_path(), *content));
        self.repository
            .add(name, "1.0.0", pack_files(files).unwrap());
        chart(&self.repository.url(), name, "1.0.0")
    }
}

pub fn chart(repo_url: &str, name: &str, version: &str) -> Chart {
    Chart {
        name: name.into(),
        version: version.into(),
        repo_url: repo_url.into(),
    }
}
