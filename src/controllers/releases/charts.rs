//! The charts of Releases, each rendered once.

use std::{collections::BTreeMap, sync::Arc};

use baton_apis::{Chart, Release};
use baton_charts::{Charts, Rendering};
use baton_releases::{resolution::ResolutionError, scheduling::error::ScheduleError};
use baton_typed::key::Key;
use parking_lot::Mutex;
use serde_json::Value;

/// Versions of charts, and what they render to. Clones share everything.
#[derive(Clone)]
pub(crate) struct ChartSource {
    charts: Charts,
    /// What was rendered to schedule a Release and not installed yet, by the uid of the Release.
    rendered: Arc<Mutex<BTreeMap<String, Vec<Value>>>>,
}

/// Renderings that are kept for their installation, which follows at once. What is beyond is rendered again.
const KEPT: usize = 64;

impl ChartSource {
    /// Charts from repositories.
    pub(crate) fn new(charts: Charts) -> Self {
        Self {
            charts,
            rendered: Arc::default(),
        }
    }

    /// The version of a chart that is meant.
    pub(crate) async fn resolve(&self, chart: &Chart) -> Result<String, ResolutionError> {
        self.charts.resolve(chart).await
    }

    /// Renders the chart of a Release, and keeps that for [`ChartSource::take`].
    pub(crate) async fn render(
        &self,
        key: &Key,
        release: &Release,
    ) -> Result<Vec<Value>, ScheduleError> {
        let documents = self.render_now(key, release).await?;
        let mut rendered = self.rendered.lock();
        if let Some(uid) = release
            .metadata
            .uid
            .clone()
            .filter(|_| rendered.len() < KEPT)
        {
            rendered.insert(uid, documents.clone());
        }
        Ok(documents)
    }

    /// What the chart of a Release renders to, for its installation.
    pub(crate) async fn take(
        &self,
        key: &Key,
        release: &Release,
    ) -> Result<Vec<Value>, ScheduleError> {
        let uid = release.metadata.uid.as_deref().unwrap_or_default();
        let kept = self.rendered.lock().remove(uid);
        match kept {
            Some(documents) => Ok(documents),
            None => self.render_now(key, release).await,
        }
    }

    /// Lets go of what was rendered for a Release that is gone.
    pub(crate) fn forget(&self, uid: &str) {
        self.rendered.lock().remove(uid);
    }

    async fn render_now(&self, key: &Key, release: &Release) -> Result<Vec<Value>, ScheduleError> {
        let environment = &release.spec.environment;
        let rendering = Rendering {
            chart: &environment.chart,
            values: environment.values.as_ref(),
            name: &key.name,
            namespace: &key.namespace,
        };
        Ok(self.charts.render(rendering).await?)
    }
}
