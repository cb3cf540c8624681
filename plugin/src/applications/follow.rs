//! An Application by watches: what [`super::read`] reads, again after every change.

use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::{
    read::{Observed, Targets, can_have_releases, read, source},
    target::{AppTarget, Plural},
};
use crate::{
    connect::{Cluster, ListRequest},
    error::Error,
    live::Watches,
    output::report,
};

/// All collections that an Application is read from.
const ALL: [Plural; 5] = [
    Plural::Applications,
    Plural::Releases,
    Plural::InstallationTargets,
    Plural::CapacityTargets,
    Plural::TrafficTargets,
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
            |plural: &Plural| *plural == Plural::Applications || can_have_releases(&last.name);
        watches.set(
            ALL.into_iter()
                .filter(is_watched)
                .map(|plural| source(plural, &last.namespace, &last.name)),
        );
        Ok(Self {
            watches,
            target: target.clone(),
            last,
        })
    }

    /// As it was seen last.
    pub(crate) fn last(&self) -> &Observed {
        &self.last
    }

    /// The state after the next change; `None` when what was named is gone. While the watches do not get through it is
    /// as it was seen last: what cannot be read has not gone.
    ///
    /// Dropped while it waits, nothing is lost: the next call goes on.
    pub(crate) async fn next(&mut self) -> Option<&Observed> {
        self.watches.changed().await;
        if self.trouble().is_some() {
            return Some(&self.last);
        }
        let (namespace, name) = (self.last.namespace.clone(), self.last.name.clone());
        let application = self.objects(Plural::Applications).pop();
        let releases = self.objects(Plural::Releases);
        // One that cannot be parsed is as it was.
        let place = (namespace.as_str(), name.as_str());
        let Ok(mut now) = Observed::new(&self.target, place, application, releases) else {
            return Some(&self.last);
        };
        now.installation = self.targets(Plural::InstallationTargets);
        now.capacity = self.targets(Plural::CapacityTargets);
        now.traffic = self.targets(Plural::TrafficTargets);
        self.last = now;
        let exists = match &self.last.named {
            Some(name) => self.last.release(name).is_some(),
            None => self.last.application.is_some(),
        };
        exists.then_some(&self.last)
    }

    /// Why Applications or Releases cannot be watched at the moment.
    pub(crate) fn trouble(&self) -> Option<&str> {
        let mut sources = [Plural::Applications, Plural::Releases].into_iter();
        sources.find_map(|plural| self.watches.trouble(&self.source(plural)))
    }

    fn source(&self, plural: Plural) -> ListRequest {
        source(plural, &self.last.namespace, &self.last.name)
    }

    fn objects(&self, plural: Plural) -> Vec<Value> {
        let source = self.source(plural);
        self.watches.objects(&source).cloned().collect()
    }

    fn targets<T: serde::de::DeserializeOwned>(&self, plural: Plural) -> Targets<T> {
        match self.watches.trouble(&self.source(plural)) {
            Some(why) => Targets::unreadable(why.to_owned()),
            None => Targets::from_objects(self.objects(plural)),
        }
    }
}

/// Watches an Application until `look` finds in it what is waited for, or the time is up (zero: no limit). Returns the
/// last state and what was found.
///
/// # Errors
/// Those of [`read`], and that what was named is gone.
pub(crate) async fn watch_until<T>(
    cluster: &Cluster,
    target: &AppTarget,
    timeout: Duration,
    mut look: impl FnMut(&Observed) -> Option<T>,
) -> Result<(Observed, Option<T>), Error> {
    let deadline = (!timeout.is_zero()).then(|| Instant::now() + timeout);
    let mut follower = Follower::start(cluster, target).await?;
    let mut reported: Option<String> = None;
    loop {
        if let Some(found) = look(follower.last()) {
            return Ok((follower.last, Some(found)));
        }
        let next = follower.next();
        let exists = match deadline {
            None => next.await.is_some(),
            Some(deadline) => match timeout_at(deadline, next).await {
                Ok(next) => next.is_some(),
                Err(_) => return Ok((follower.last, None)),
            },
        };
        if !exists {
            return Err(Error::NotFound(format!("{target} has been deleted")));
        }
        if let Some(text) = follower.trouble()
            && reported.as_deref() != Some(text)
        {
            report(&format!("warning: not up to date: {text}"));
            reported = Some(text.to_owned());
        }
    }
}
