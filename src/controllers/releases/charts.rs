//! The charts of Releases. Each chart is rendered once.

use std::{collections::BTreeMap, sync::Arc};

use baton_apis::{Chart, Release};
use baton_charts::{Charts, Rendering};
use baton_releases::{resolution::ResolutionError, scheduling::error::ScheduleError};
use baton_typed::key::Key;
use parking_lot::Mutex;
use serde_json::Value;

/// Resolves versions of charts and renders charts. Clones share the state.
#[derive(Clone)]
pub(crate) struct ChartSource {
    charts: Charts,
    /// Rendered objects that are not installed yet, by the uid of the Release.
    rendered: Arc<Mutex<BTreeMap<String, Vec<Value>>>>,
}

/// Number of renderings that are stored for their installation, which follows at once. Further ones
/// are rendered again.
const CACHE_SIZE: usize = 64;

impl ChartSource {
    /// A source of charts from repositories.
    pub(crate) fn new(charts: Charts) -> Self {
        Self {
            charts,
            rendered: Arc::default(),
        }
    }

    /// The version of a chart, resolved from its constraint.
    pub(crate) async fn resolve(&self, chart: &Chart) -> Result<String, ResolutionError> {
        self.charts.resolve(chart).await
    }

    /// Renders the chart of a Release, and stores the result for [`ChartSource::take_rendered`].
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
            .filter(|_| rendered.len() < CACHE_SIZE)
        {
            rendered.insert(uid, documents.clone());
        }
        Ok(documents)
    }

    /// The rendered chart of a Release. Removes the stored result.
    pub(crate) async fn take_rendered(
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

    /// Drops the stored result for a deleted Release.
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
