//! The charts of Releases. Each chart is rendered once.

use std::{collections::BTreeMap, sync::Arc};

use baton_apis::{Chart, Release};
use baton_charts::{Charts, Documents, Rendered, Rendering};
use baton_releases::{resolution::ResolutionError, scheduling::error::ScheduleError};
use baton_typed::key::Key;
use parking_lot::Mutex;

/// Resolves versions of charts and renders charts. Clones share the state.
#[derive(Clone)]
pub(crate) struct ChartSource {
    charts: Charts,
    /// The output of renderings that are not installed yet, by the uid of the Release.
    rendered: Arc<Mutex<BTreeMap<String, Rendered>>>,
}

/// Limit in bytes of the output that is stored for its installation, which follows at once. Further
/// charts are rendered again.
const CACHE_SIZE: usize = 16 << 20;

impl ChartSource {
    /// A source of charts from repositories.
    pub(crate) fn new(charts: Charts) -> Self {
        Self {
            charts,
            rendered: Arc::default(),
        }
    }

    /// The version of a chart for a namespace, resolved from its constraint.
    pub(crate) async fn resolve(
        &self,
        namespace: &str,
        chart: &Chart,
    ) -> Result<String, ResolutionError> {
        self.charts.of(namespace).resolve(chart).await
    }

    /// Renders the chart of a Release.
    pub(crate) async fn render(
        &self,
        key: &Key,
        release: &Release,
    ) -> Result<Documents, ScheduleError> {
        let environment = &release.spec.environment;
        let rendering = Rendering {
            chart: &environment.chart,
            values: environment.values.as_ref(),
            name: &key.name,
            namespace: &key.namespace,
        };
        Ok(self.charts.render(rendering).await?)
    }

    /// Stores the rendered chart of a Release for [`ChartSource::take_rendered`].
    pub(crate) fn store(&self, release: &Release, output: Rendered) {
        let Some(uid) = release.metadata.uid.clone() else {
            return;
        };
        let mut rendered = self.rendered.lock();
        let stored: usize = rendered.values().map(Rendered::size).sum();
        if stored + output.size() <= CACHE_SIZE {
            rendered.insert(uid, output);
        }
    }

    /// The rendered chart of a Release. Removes the stored result.
    pub(crate) async fn take_rendered(
        &self,
        key: &Key,
        release: &Release,
    ) -> Result<Documents, ScheduleError> {
        let uid = release.metadata.uid.as_deref().unwrap_or_default();
        let stored = self.rendered.lock().remove(uid);
        match stored {
            Some(output) => self.read(output).await,
            None => self.render(key, release).await,
        }
    }

    /// Reads the objects in the output of a rendering again.
    pub(crate) async fn read(&self, output: Rendered) -> Result<Documents, ScheduleError> {
        Ok(self.charts.read(output).await?)
    }

    /// Drops the stored result for a deleted Release.
    pub(crate) fn forget(&self, uid: &str) {
        self.rendered.lock().remove(uid);
    }
}
