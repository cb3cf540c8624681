//! A fleet of any size, for measurements and tests.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use baton_apis::{SiteDeploymentSpec, SiteDeploymentStatus, SiteStop};
use jiff::{SignedDuration, Timestamp};

use super::{
    Action, Beginning, Observed, Placement, Plan, Revision, RevisionState, Site, Target, Version,
    Versions, plan,
};

/// A deployment, and all that plans of its rollouts depend on.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The spec of the deployment.
    pub spec: SiteDeploymentSpec,
    /// Its generation.
    pub generation: i64,
    /// Its status.
    pub status: SiteDeploymentStatus,
    /// The versions that are kept.
    pub versions: Versions,
    /// The version to be brought.
    pub target: Target,
    /// What is known of the choice of sites.
    pub placement: Placement,
    /// The sites, by name.
    pub sites: BTreeMap<Arc<str>, Site>,
    /// The present time.
    pub now: Timestamp,
}

impl Sample {
    /// So many sites, placed and online and with nothing in them yet; version `1` is to be brought to all at once.
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
            now: Timestamp::constant(1_700_000_000, 0),
        };
        sample.bring("1");
        sample
    }

    /// Asks for a version, which is kept from now on.
    pub fn bring(&mut self, version: &str) {
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

    /// What a plan is made from.
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
            now: self.now,
        }
    }

    /// Carries a plan out: what is given is available at once, and what is deleted is gone.
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
                            beginning: Beginning::Begun,
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

    /// Plans and carries out until nothing is left to do.
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
