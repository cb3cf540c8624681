//! A deployment to sites by watches: what [`super::read`] reads, again after every change; or the deployment alone.

use std::time::Duration;

use baton_apis::SiteDeployment;
use baton_view::{
    lists::{ListQuery, ListRequest},
    rollout::Outcome,
};
use k8s_openapi::jiff::Timestamp;

use super::{
    bars::{NOUN, bars},
    cluster,
    fleet::Fleet,
    read::{self, Observed, parse, placements, revisions},
    render::line,
    revision::{SiteRevision, trim},
    target::SiteTarget,
    verdict::judge,
};
use crate::{
    cluster::watches::Watches,
    connect::Cluster,
    error::Error,
    wait::{self, Follow, bars::Bars},
};

/// Follows a deployment with its sites.
pub(crate) struct FleetFollower {
    deployment: DeploymentFollower,
    last: Observed,
}

/// Follows a deployment itself: one object, however many sites it has.
pub(crate) struct DeploymentFollower {
    watches: Watches,
    target: SiteTarget,
    namespace: String,
    last: SiteDeployment,
}

impl FleetFollower {
    /// Reads it once, then starts watching.
    ///
    /// # Errors
    /// Those of [`read::read`]: a watch would retry where an error has to be reported.
    pub(crate) async fn start(cluster: &Cluster, target: &SiteTarget) -> Result<Self, Error> {
        let last = read::read(cluster, target).await?;
        let mut deployment = DeploymentFollower::of(cluster, target, last.deployment.clone());
        let own = deployment.own();
        let revisions = deployment.revisions();
        let others = [deployment.placements(), clusters()];
        deployment
            .watches
            .set([own, revisions].into_iter().chain(others));
        Ok(Self { deployment, last })
    }
}

impl Follow for FleetFollower {
    type Seen = Observed;

    fn last(&self) -> &Observed {
        &self.last
    }

    async fn next(&mut self) -> bool {
        if !self.deployment.next().await {
            return false;
        }
        let following = &self.deployment;
        if self.trouble().is_some() {
            return true;
        }
        let watches = &following.watches;
        let clusters = match watches.trouble(&clusters()) {
            Some(why) => Err(why.to_owned()),
            None => Ok(cluster::by_name(watches.objects(&clusters()))),
        };
        self.last = Observed::new(
            following.last.clone(),
            watches
                .objects(&following.revisions())
                .filter_map(SiteRevision::read),
            clusters,
            watches.objects(&following.placements()),
        );
        true
    }

    /// Of Clusters that cannot be watched the picture tells.
    fn trouble(&self) -> Option<&str> {
        let following = &self.deployment;
        let of_revisions = following.watches.trouble(&following.revisions());
        following.trouble().or(of_revisions)
    }
}

impl DeploymentFollower {
    /// Reads it once, then starts watching.
    ///
    /// # Errors
    /// If it cannot be read: a watch would retry where an error has to be reported.
    pub(crate) async fn start(cluster: &Cluster, target: &SiteTarget) -> Result<Self, Error> {
        let last = read::deployment(cluster, target).await?;
        let mut follower = Self::of(cluster, target, last);
        follower.watches.set([follower.own()]);
        Ok(follower)
    }

    fn of(cluster: &Cluster, target: &SiteTarget, last: SiteDeployment) -> Self {
        Self {
            watches: Watches::trimmed(cluster, trim),
            target: target.clone(),
            namespace: cluster.namespace.clone(),
            last,
        }
    }

    fn own(&self) -> ListRequest {
        ListRequest {
            path: self.target.kind.path(Some(&self.namespace)),
            query: ListQuery::named(&self.target.name),
        }
    }

    fn revisions(&self) -> ListRequest {
        revisions(&self.namespace, &self.target.name)
    }

    fn placements(&self) -> ListRequest {
        placements(&self.namespace, &self.target.name)
    }
}

impl Follow for DeploymentFollower {
    type Seen = SiteDeployment;

    fn last(&self) -> &SiteDeployment {
        &self.last
    }

    async fn next(&mut self) -> bool {
        self.watches.changed().await;
        if self.trouble().is_some() {
            return true;
        }
        let own = self.own();
        let Some(object) = self.watches.objects(&own).next() else {
            return false;
        };
        // One that cannot be parsed is as it was.
        if let Ok(now) = parse(object.clone(), &self.target) {
            self.last = now;
        }
        true
    }

    fn trouble(&self) -> Option<&str> {
        self.watches.trouble(&self.own())
    }
}

fn clusters() -> ListRequest {
    ListRequest::all(cluster::path())
}

/// Watches a deployment with its sites until its rollout is done or has failed, or the time is up (zero: no limit), and
/// shows how far its waves are. Returns the last state and what became of the rollout.
///
/// # Errors
/// Those of [`read::read`], and that the deployment is gone.
pub(crate) async fn watch(
    cluster: &Cluster,
    target: &SiteTarget,
    timeout: Duration,
) -> Result<(Observed, Option<Outcome>), Error> {
    let mut follower = FleetFollower::start(cluster, target).await?;
    let mut shown = Bars::new(NOUN);
    let found = wait::until(&mut follower, target, timeout, None, async |observed| {
        let verdict = judge(&observed.deployment);
        if verdict.outcome != Outcome::Underway {
            return Some(verdict.outcome);
        }
        let fleet = Fleet::of(observed, Timestamp::now());
        shown.show(&bars(observed, &fleet), &line(observed, &verdict));
        None
    });
    let found = found.await?;
    Ok((follower.last, found))
}
