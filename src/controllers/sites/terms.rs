//! Passes the terms for upgrades, which are in the specs of applications and deployments, to the
//! controllers that begin upgrades.

use std::sync::Arc;

use baton_apis::{SiteApplication, SiteDeployment, SiteEntry, SiteStrategy};
use baton_sites::{
    rollout::strategy::deadline,
    terms::{OwnerTerms, StartObstacle},
};
use baton_typed::{key::Kind, store::Change};

use super::{Stores, uid};
use crate::delivery::{
    observed::Observed,
    terms::{SiteTermsChange, TermsSource},
};

/// Makes the terms of applications, and the probes of their versions, available from now on, and
/// reports changes of the terms.
pub(crate) fn publish(stores: &Arc<Stores>, observed: &Arc<Observed>) {
    let finding = Arc::clone(stores);
    observed
        .site_terms
        .find_by(move |namespace, entry, owner| find(&finding, namespace, entry, owner));
    let finding = Arc::clone(stores);
    observed
        .site_terms
        .find_probes_by(move |namespace, entry| finding.probes(namespace, entry));
    let receiver = Arc::downgrade(observed);
    let publish = move |change: Option<SiteTermsChange>| {
        if let (Some(observed), Some(change)) = (receiver.upgrade(), change) {
            observed.site_terms.changes.emit(&change);
        }
    };
    let applications = publish.clone();
    stores
        .applications
        .changes
        .subscribe(move |change| applications(of_application(change)));
    stores
        .deployments
        .changes
        .subscribe(move |change| publish(of_deployment(change)));
}

fn find(stores: &Stores, namespace: &str, entry: &SiteEntry, owner: Option<&str>) -> OwnerTerms {
    if !stores.applications.is_complete() || !stores.deployments.is_complete() {
        // An application that is missing in the store may exist. If it counted as deleted, phases
        // that it holds back would begin.
        return OwnerTerms {
            hold: Some(StartObstacle::Unknown),
            ..OwnerTerms::default()
        };
    }
    let application = stores.applications.get(namespace, &entry.application);
    let gone = || OwnerTerms {
        is_gone: true,
        ..OwnerTerms::default()
    };
    let mut terms = application.map_or_else(gone, |it| owner_terms(&it));
    let deployment = stores.deployments.get(namespace, &entry.deployment);
    // A revision without owner was left behind, or was not created by a deployment.
    let is_leaving = owner.is_some_and(|owner| {
        let found = deployment.as_ref().filter(|it| uid(&***it) == owner);
        found.is_none_or(|it| is_leaving(it))
    });
    terms.hold = is_leaving.then_some(StartObstacle::Leaving);
    terms.progress_deadline = deployment.map(|it| progress_deadline(&it.spec.strategy));
    terms
}

/// The terms of an application.
fn owner_terms(application: &SiteApplication) -> OwnerTerms {
    let spec = &application.spec;
    OwnerTerms {
        hold: None,
        is_gone: false,
        windows: spec.upgrade_windows.clone(),
        skip_patch_versions: spec.upgrade.skip_patch_versions,
        windows_apply_to_edits: spec.upgrade.windows_apply_to_edits,
        progress_deadline: None,
    }
}

fn is_leaving(deployment: &SiteDeployment) -> bool {
    deployment.metadata.deletion_timestamp.is_some()
}

/// Seconds after which a site that is not available counts as failed.
fn progress_deadline(strategy: &SiteStrategy) -> u32 {
    u32::try_from(deadline(strategy).as_secs()).unwrap_or(u32::MAX)
}

fn of_application(change: &Change<SiteApplication>) -> Option<SiteTermsChange> {
    changed(change, owner_terms, TermsSource::Application)
}

fn of_deployment(change: &Change<SiteDeployment>) -> Option<SiteTermsChange> {
    let part = |it: &SiteDeployment| (progress_deadline(&it.spec.strategy), is_leaving(it));
    changed(change, part, TermsSource::Deployment)
}

/// The change of the terms, if they differ.
fn changed<K: Kind, T: PartialEq>(
    change: &Change<K>,
    part: impl Fn(&K) -> T,
    of: impl Fn(String) -> TermsSource,
) -> Option<SiteTermsChange> {
    let [old, new] = [&change.old, &change.new].map(|side| side.as_deref().map(&part));
    let meta = change.object()?.meta();
    let namespace = meta.namespace.clone()?;
    let by = of(meta.name.clone()?);
    (old != new).then_some(SiteTermsChange { namespace, by })
}
