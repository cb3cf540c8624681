//! An Application by watches: what [`super::read`] reads, again after every change.

use std::time::Duration;

use baton_apis::kinds::{self, Kind};
use baton_view::{
    applications::{observed::Observed, state::judge, target::AppTarget},
    lists::ListRequest,
};
use serde_json::Value;

use super::read::{can_have_releases, observe, read, source};
use crate::{
    connect::Cluster,
    error::Error,
    live::Watches,
    text::application::{
        bars::{NOUN, bars},
        verdict::message,
    },
    wait::{self, Follow, bars::Bars},
};

/// All collections that an Application is read from.
const ALL: [&Kind; 5] = [
    &kinds::APPLICATION,
    &kinds::RELEASE,
    &kinds::INSTALLATION_TARGET,
    &kinds::CAPACITY_TARGET,
    &kinds::TRAFFIC_TARGET,
];

/// Follows what a user named.
pub(crate) struct Follower {
    watches: Watches,
    target: AppTarget,
    last: Observed,
}

impl Follower {
    /// Reads it once, then starts watching. The state that was read is in [`Follower::last`].
    ///
    /// # Errors
    /// Those of [`read`]: a watch would retry where an error has to be reported.
    pub(crate) async fn start(cluster: &Cluster, target: &AppTarget) -> Result<Self, Error> {
        let last = read(cluster, target).await?;
        let mut watches = Watches::new(cluster);
        let is_watched =
            |kind: &&Kind| **kind == kinds::APPLICATION || can_have_releases(&last.name);
        watches.set(
            ALL.into_iter()
                .filter(is_watched)
                .map(|kind| source(kind, &last.namespace, &last.name)),
        );
        Ok(Self {
            watches,
            target: target.clone(),
            last,
        })
    }

    fn source(&self, kind: &'static Kind) -> ListRequest {
        source(kind, &self.last.namespace, &self.last.name)
    }

    fn objects(&self, kind: &'static Kind) -> Vec<Value> {
        let source = self.source(kind);
        self.watches.objects(&source).cloned().collect()
    }

    fn list(&self, kind: &'static Kind) -> Result<Vec<Value>, String> {
        match self.watches.trouble(&self.source(kind)) {
            Some(why) => Err(why.to_owned()),
            None => Ok(self.objects(kind)),
        }
    }
}

impl Follow for Follower {
    type Seen = Observed;

    fn last(&self) -> &Observed {
        &self.last
    }

    async fn next(&mut self) -> bool {
        self.watches.changed().await;
        if self.trouble().is_some() {
            return true;
        }
        let (namespace, name) = (self.last.namespace.clone(), self.last.name.clone());
        let application = self.objects(&kinds::APPLICATION).pop();
        let releases = self.objects(&kinds::RELEASE);
        // One that cannot be parsed is as it was.
        let place = (namespace.as_str(), name.as_str());
        let targets = [
            &kinds::INSTALLATION_TARGET,
            &kinds::CAPACITY_TARGET,
            &kinds::TRAFFIC_TARGET,
        ];
        let targets = targets.map(|kind| self.list(kind));
        let Ok(now) = observe(
            &self.target,
            place,
            application.as_ref(),
            &releases,
            &targets,
        ) else {
            return true;
        };
        self.last = now;
        match &self.last.named {
            Some(name) => self.last.release(name).is_some(),
            None => self.last.application.is_some(),
        }
    }

    /// Of targets that cannot be watched the picture tells.
    fn trouble(&self) -> Option<&str> {
        let mut sources = [&kinds::APPLICATION, &kinds::RELEASE].into_iter();
        sources.find_map(|kind| self.watches.trouble(&self.source(kind)))
    }
}

/// Watches an Application until `look` returns something, or the time is up (zero: no limit), and shows how
/// far its clusters are. Returns the last state and what was found.
///
/// # Errors
/// Those of [`read`], and that what was named is gone.
pub(crate) async fn watch_until<T>(
    cluster: &Cluster,
    target: &AppTarget,
    timeout: Duration,
    mut look: impl FnMut(&Observed) -> Option<T>,
) -> Result<(Observed, Option<T>), Error> {
    let mut follower = Follower::start(cluster, target).await?;
    let mut shown = Bars::new(NOUN);
    let found = wait::until(&mut follower, target, timeout, None, async |observed| {
        let found = look(observed);
        if found.is_none() {
            shown.show(&bars(observed), &message(&judge(observed)));
        }
        found
    });
    let found = found.await?;
    Ok((follower.last, found))
}
