//! Carries out the actions of a plan.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use baton_apis::{
    LifecycleState, SiteDeployment, SiteEntry,
    conditions::Reason,
    constants::{
        ANNOTATION_LOST_HUBS, ANNOTATION_ON_DELETION, ANNOTATION_SITE, API_VERSION,
        CLASS_CLUSTER_PREFIX, FINALIZER_CACHED, FINALIZER_METRICS, LABEL_CHAIN, LABEL_SITE,
        LABEL_SITE_DEPLOYMENT, ON_DELETION_HAND_BACK,
    },
};
use baton_engine::names::is_label_value;
use baton_kubernetes::events::EventKind;
use baton_records::{
    api::ApiError,
    key::Key as RecordKey,
    revision::{RevisionKey, RevisionKind, RevisionRecord},
};
use baton_runtime::controller::Controller as _;
use baton_sites::{
    chain::label,
    rollout::{Action, VersionName},
    snapshot::Snapshot,
};
use baton_typed::key::Key;
use futures::{StreamExt as _, stream};
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::{SiteDeployments, events, observe::ObservedState};
use crate::{
    controllers::sites::{owner_reference, versions::Version},
    delivery::{
        lost_hubs,
        shared::{AtStep as _, Error, Refusal},
    },
};

/// Number of sites that are worked on concurrently.
pub(super) const MAX_CONCURRENT: usize = 16;
/// The limit of actions in a round. The next round has a new plan, so that a changed spec takes
/// effect.
const MAX_ACTIONS: usize = 512;

/// The snapshots of the versions to roll out, by version and edit.
type Versions<'a> = BTreeMap<(VersionName<'a>, &'a str), &'a Snapshot>;

impl SiteDeployments {
    /// Carries out a round of actions: those of a site in order, the sites concurrently.
    ///
    /// # Errors
    /// The first error. It stops the actions of its own site only.
    pub(super) async fn act(
        &self,
        key: &Key,
        deployment: &SiteDeployment,
        observed: &ObservedState,
        actions: &[Action],
    ) -> Result<(), Error> {
        let site_of = |action: &Action| self.site_of(key, action);
        let adds_version = |action: &Action| matches!(action, Action::Give { .. });
        let sites = first_actions(actions, MAX_ACTIONS, site_of, adds_version);
        let given: BTreeSet<_> = sites
            .iter()
            .flat_map(|actions| actions.iter())
            .filter_map(|action| match action {
                Action::Give { entry, .. } => Some(entry.content()),
                _ => None,
            })
            .collect();
        let versions = self
            .own_versions(deployment, &observed.versions, &given)
            .await?;
        let versions = &versions;
        let sites: Vec<_> = sites.into_iter().map(<[Action]>::to_vec).collect();
        let sites = stream::iter(sites.into_iter().map(|actions| async move {
            for action in &actions {
                self.act_once(key, deployment, versions, action).await?;
            }
            Ok(())
        }));
        let mut done = sites.buffer_unordered(MAX_CONCURRENT);
        let mut failure = Ok(());
        while let Some(result) = done.next().await {
            failure = failure.and(result);
        }
        failure
    }

    /// The snapshots of the wanted versions. The deployment becomes an owner of their records, so
    /// that they exist as long as the deployment, even if their application is deleted.
    pub(super) async fn own_versions<'a>(
        &self,
        deployment: &SiteDeployment,
        versions: &'a [Version],
        wanted: &BTreeSet<(VersionName<'_>, &str)>,
    ) -> Result<Versions<'a>, Error> {
        let mut found = BTreeMap::new();
        for version in versions {
            let Version {
                record, snapshot, ..
            } = version;
            let id = (version.name(), snapshot.edit.as_str());
            // The newest record of a version comes first.
            if wanted.contains(&id) && !found.contains_key(&id) {
                self.context
                    .settle_version(record, deployment, false, record.revision)
                    .await?;
                found.insert(id, snapshot);
            }
        }
        Ok(found)
    }

    /// The site of an action; `None` if the revision is already deleted.
    fn site_of(&self, key: &Key, action: &Action) -> Option<Arc<str>> {
        let revision = match action {
            Action::Give { site, .. } => return Some(Arc::clone(site)),
            Action::Withdraw { revision }
            | Action::Archive { revision }
            | Action::Forget { revision }
            | Action::TearDown { revision } => revision,
        };
        let record = self
            .context
            .observed
            .revisions
            .get(&revision_key(key, revision))?;
        record
            .site
            .as_ref()
            .map(|site| site.entry.site.as_str().into())
    }

    async fn act_once(
        &self,
        key: &Key,
        deployment: &SiteDeployment,
        versions: &Versions<'_>,
        action: &Action,
    ) -> Result<(), Error> {
        match action {
            Action::Give {
                site,
                number,
                name,
                entry,
                previous,
            } => {
                let Some(snapshot) = versions.get(&entry.content()) else {
                    let (VersionName { version, .. }, _) = entry.content();
                    let version = version.to_owned();
                    return Err(Refusal::Version { version }.into());
                };
                let entry = entry.to(site);
                let manifest = manifest(deployment, snapshot, (name, *number), &entry, previous);
                self.create_revision(key, deployment, (name, &entry), &manifest)
                    .await
            }
            Action::Archive { revision } => {
                let Some(record) = self.revision(key, revision) else {
                    return Ok(());
                };
                let api = &self.context.shared.api;
                let archived = api
                    .set_lifecycle(&record, LifecycleState::Archived, false)
                    .await;
                self.updated(archived.at_step("archiving a revision")?);
                Ok(())
            }
            Action::Withdraw { revision }
            | Action::Forget { revision }
            | Action::TearDown { revision } => {
                let record = self.revision(key, revision);
                let Some(record) = record.filter(|record| !record.deleting) else {
                    return Ok(());
                };
                let deleted = self.context.shared.api.delete(&record).await;
                self.updated(deleted.at_step("deleting a revision")?);
                Ok(())
            }
        }
    }

    async fn create_revision(
        &self,
        key: &Key,
        deployment: &SiteDeployment,
        (name, entry): (&Arc<str>, &SiteEntry),
        manifest: &Value,
    ) -> Result<(), Error> {
        let revision = revision_key(key, name);
        let made = self.context.shared.api.create(&revision, manifest).await;
        if let Some(message) = made.as_ref().err().and_then(ApiError::refusal) {
            let site = entry.site.clone();
            let refusal = Refusal::Revision { site, message };
            let events = &self.context.shared.events;
            let on = (key, deployment);
            events.publish_about(
                events::REPORTER,
                on,
                EventKind::Warning,
                Reason::RevisionRefused,
                refusal.to_string(),
            );
            return Err(refusal.into());
        }
        let made = made.at_step("creating a revision")?;
        self.context.observed.revisions.created(made, Self::NAME);
        Ok(())
    }

    fn revision(&self, key: &Key, name: &str) -> Option<Arc<RevisionRecord>> {
        self.context
            .observed
            .revisions
            .get(&revision_key(key, name))
    }

    fn updated(&self, record: RevisionRecord) {
        self.context.observed.revisions.updated(record, Self::NAME);
    }
}

/// The actions of the first sites, up to the site that reaches `most`. Sites that get no new
/// version come first: a revision elsewhere may be refused until objects are deleted there.
fn first_actions<A, S: PartialEq>(
    actions: &[A],
    most: usize,
    site_of: impl Fn(&A) -> Option<S>,
    adds_version: impl Fn(&A) -> bool,
) -> Vec<&[A]> {
    let sites = actions.chunk_by(|one, next| site_of(one) == site_of(next));
    let (adding, mut taken): (Vec<_>, Vec<_>) =
        sites.partition(|site| site.iter().any(&adds_version));
    taken.extend(adding);
    let mut count = 0;
    taken.retain(|site| {
        let has_room = count < most;
        count += site.len();
        has_room
    });
    taken
}

pub(super) fn revision_key(key: &Key, name: &str) -> RevisionKey {
    RecordKey {
        kind: RevisionKind::ObjectSet,
        namespace: key.namespace.clone(),
        name: name.into(),
    }
}

/// The manifest of a site's revision. It contains the finalizers, which saves a write. Its probes are
/// those of the version's record, which all sites share. When the revision is deleted, it hands
/// objects back to older revisions that want them.
fn manifest(
    deployment: &SiteDeployment,
    snapshot: &Snapshot,
    (name, number): (&str, i64),
    entry: &SiteEntry,
    previous: &[Arc<str>],
) -> Value {
    let mut labels = json!({
        LABEL_SITE_DEPLOYMENT: entry.deployment,
        LABEL_CHAIN: label(&entry.deployment, &entry.site),
    });
    // A site whose name is no valid label value cannot be selected by the label.
    if is_label_value(&entry.site) {
        labels[LABEL_SITE] = entry.site.as_str().into();
    }
    let class = format!("{CLASS_CLUSTER_PREFIX}{}", entry.site);
    let phases = snapshot.phases.iter();
    let phases = phases
        .map(|phase| json!({"name": phase.name, "class": class, "slices": phase.slices}))
        .collect::<Vec<_>>();
    let previous = previous.iter().map(|name| json!({"name": &**name}));
    let mut spec = json!({
        "revision": number,
        "previous": previous.collect::<Vec<_>>(),
        "phases": phases,
    });
    if let Some(account) = &snapshot.service_account_name {
        spec["serviceAccountName"] = account.as_str().into();
    }
    let mut annotations = json!({
        ANNOTATION_SITE: json!(entry).to_string(),
        ANNOTATION_ON_DELETION: ON_DELETION_HAND_BACK,
    });
    if let Some(lost_hubs) = lost_hubs::of_deployment(deployment.annotations()) {
        annotations[ANNOTATION_LOST_HUBS] = lost_hubs.into();
    }
    json!({
        "apiVersion": API_VERSION,
        "kind": "ObjectSet",
        "metadata": {
            "name": name,
            "namespace": deployment.metadata.namespace,
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [owner_reference(deployment, true)],
            "finalizers": [FINALIZER_CACHED, FINALIZER_METRICS],
        },
        "spec": spec,
    })
}

#[cfg(test)]
mod tests {
    use baton_apis::{ObjectSetProbe, SiteDeploymentSpec};
    use baton_sites::snapshot::SnapshotPhase;

    use super::*;

    /// The actions of a round with a limit of two, by site; a capital letter gives a version.
    #[test]
    fn a_round_begins_with_deletions_and_splits_no_site() {
        for (sites, expected) in [
            ("", ""),
            ("a", "a"),
            ("ab", "ab"),
            ("aabc", "aa"),
            ("abbbc", "abbb"),
            ("aaa", "aaa"),
            ("AAb", "bAA"),
            ("ABc", "cA"),
            ("ABcd", "cd"),
            ("AaB", "Aa"),
        ] {
            let actions: Vec<_> = sites.chars().collect();
            let site_of = |action: &char| Some(action.to_ascii_lowercase());
            let taken = first_actions(&actions, 2, site_of, char::is_ascii_uppercase);
            let taken: String = taken.concat().into_iter().collect();
            assert_eq!(taken, expected, "{sites}");
        }
    }

    /// The objects of a version are in slices that all sites share, so the revision stays small.
    #[test]
    fn the_manifest_of_a_site_revision_is_small() {
        let mut deployment = SiteDeployment::new(&"d".repeat(63), SiteDeploymentSpec::default());
        deployment.metadata.namespace = Some("n".repeat(63));
        let phases = (0..10).map(|at| SnapshotPhase {
            name: format!("{at}-{}", "p".repeat(30)),
            slices: vec!["s".repeat(57)],
        });
        let snapshot = Snapshot {
            phases: phases.collect(),
            availability_probes: vec![ObjectSetProbe::default()],
            ..Snapshot::default()
        };
        let entry = SiteEntry {
            deployment: "d".repeat(63),
            site: "s".repeat(55),
            application: "a".repeat(63),
            version: "v".repeat(63),
            edit: "0123456789abcdef".to_owned(),
            phases: snapshot.phases.iter().map(|it| it.name.clone()).collect(),
            ..SiteEntry::default()
        };
        let previous = vec![Arc::from("r".repeat(40)); 4];
        let manifest = manifest(&deployment, &snapshot, ("r", 1), &entry, &previous);
        let length = manifest.to_string().len();
        assert!(length < 4096, "{length}");
        assert_eq!(manifest["spec"]["availabilityProbes"], Value::Null);
        assert_eq!(
            manifest["spec"]["phases"][0]["class"],
            format!("cluster.{}", entry.site)
        );
    }
}
