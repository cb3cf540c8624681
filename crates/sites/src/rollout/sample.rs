//! A fleet of any size, for measurements and tests.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use baton_apis::{SiteDeploymentSpec, SiteDeploymentStatus, SiteStop};
use baton_engine::rollout_blocks::{Effect, Verdict};
use jiff::{SignedDuration, Timestamp};

use super::{
    Action, IsTaken, Observed, Placement, Plan, Revision, RevisionStart, RevisionState, Site,
    Target, Version, Versions, plan,
};

/// A deployment, with the whole input of its plans.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The spec of the deployment.
    pub spec: SiteDeploymentSpec,
    /// Generation of the deployment.
    pub generation: i64,
    /// Status of the deployment.
    pub status: SiteDeploymentStatus,
    /// Versions that are kept.
    pub versions: Versions,
    /// Version that the spec requests.
    pub target: Target,
    /// State of the placement.
    pub placement: Placement,
    /// Sites by name.
    pub sites: BTreeMap<Arc<str>, Site>,
    /// The effect of rollout blocks.
    pub blocks: Effect,
    /// The present time.
    pub now: Timestamp,
}

impl Sample {
    /// A number of sites, placed and online and without revisions; version `1` is requested for all
    /// at once.
    #[must_use]
    pub fn new(sites: usize) -> Self {
        let site = Site {
            is_placed: true,
            is_online: true,
            ..Site::default()
        };
        let sites = (0..sites).map(|at| (format!("site-{at:05}").into(), site.clone()));
        let mut sample = Self {
            spec: SiteDeploymentSpec {
                application: "shop".to_owned(),
                ..SiteDeploymentSpec::default()
            },
            generation: 1,
            status: SiteDeploymentStatus::default(),
            versions: BTreeMap::new(),
            target: Target::NoVersion,
            placement: Placement::Placed(None),
            sites: sites.collect(),
            blocks: Effect::NotObeyed,
            now: Timestamp::constant(1_700_000_000, 0),
        };
        sample.request_version("1");
        sample
    }

    /// Requests a version, which is kept from now on.
    pub fn request_version(&mut self, version: &str) {
        let name: Arc<str> = version.into();
        let application = self.spec.application.as_str();
        self.versions
            .entry(application.into())
            .or_default()
            .entry(Arc::clone(&name))
            .or_insert_with(|| Version {
                version: Arc::clone(&name),
                edit: format!("{version}-a").into(),
                phases: vec!["base".to_owned(), "apps".to_owned()],
                stop: SiteStop::None,
                has_probes: true,
                success_delay: SignedDuration::ZERO,
            });
        self.target = Target::Version(name);
    }

    /// The fleet as the input of a plan.
    pub fn observed(&self) -> Observed<'_> {
        Observed {
            name: "shop",
            uid: "2f0e3d5c",
            generation: self.generation,
            spec: &self.spec,
            status: &self.status,
            target: self.target.clone(),
            versions: &self.versions,
            placement: self.placement.clone(),
            sites: &self.sites,
            revision_name: |deployment, site, number| format!("{deployment}-{site}-{number}"),
            is_taken: IsTaken(&|_| false),
            blocks: &self.blocks,
            now: self.now,
        }
    }

    /// Creates or deletes a rollout block that the deployment obeys.
    pub fn block(&mut self, exists: bool) {
        let blocked = Verdict::Blocked("shop/frozen".to_owned());
        let verdict = if exists { blocked } else { Verdict::Free };
        self.blocks = Effect::Judged(verdict);
    }

    /// Carries out a plan: given revisions are available at once, and deleted ones are gone.
    pub fn carry_out(&mut self, plan: Plan) {
        self.status = plan.status;
        let mut gone = BTreeSet::new();
        let mut archived = BTreeSet::new();
        for action in plan.actions {
            match action {
                Action::Give {
                    site,
                    number,
                    name,
                    entry,
                    ..
                } => {
                    let entry = Arc::new(entry.to(&site));
                    if let Some(site) = self.sites.get_mut(&site) {
                        site.chain.push(Revision {
                            name,
                            number,
                            entry,
                            state: RevisionState::Available(self.now),
                            beginning: RevisionStart::Begun,
                            is_deleting: false,
                            is_archiving: false,
                        });
                    }
                }
                Action::Archive { revision } => {
                    archived.insert(revision);
                }
                Action::Withdraw { revision }
                | Action::Forget { revision }
                | Action::TearDown { revision } => {
                    gone.insert(revision);
                }
            }
        }
        for site in self.sites.values_mut() {
            site.chain.retain(|revision| !gone.contains(&revision.name));
            for revision in &mut site.chain {
                if archived.contains(&revision.name) {
                    revision.state = RevisionState::Archived;
                    revision.is_archiving = true;
                }
            }
        }
    }

    /// Plans and carries out plans until there is nothing left to do.
    pub fn roll_out(&mut self) {
        loop {
            let plan = plan(&self.observed());
            if plan.actions.is_empty() && plan.status == self.status {
                return;
            }
            self.carry_out(plan);
        }
    }
}
