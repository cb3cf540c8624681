//! The controller of `InstallationTargets`: creates a revision for each of the clusters, from the
//! rendered chart of the Release. Repairs, handovers and ordered deletion are part of every
//! revision.

mod hub;
mod outcome;
mod place;

use std::{collections::BTreeMap, sync::Arc};

use baton_apis::{
    Application, InstallationTarget, Release,
    constants::{
        ANNOTATION_CONTENT, ANNOTATION_LOST_HUBS, ANNOTATION_ON_DELETION, API_VERSION,
        CLASS_CLUSTER_PREFIX, FINALIZER_CACHED, FINALIZER_METRICS, LABEL_CHAIN,
        ON_DELETION_HAND_BACK,
        shipper::{self, LABEL_APP},
    },
    kinds,
};
use baton_engine::conditions::Requeue;
use baton_kubernetes::collection::Extent;
use baton_records::{
    api::ApiError,
    key::Key as RecordKey,
    revision::{RevisionKey, RevisionKind, RevisionRecord},
    store::Change as RecordChange,
};
use baton_releases::{
    chain,
    targets::{
        InstallationOutcome, Progress, Update, installation, is_incomplete,
        reasons::{Cause, Failure, Vocabulary},
    },
};
use baton_runtime::{
    controller::{Controller, Reconciled},
    outcomes::ReconcileOutcome,
    queue::Queue,
    source::Wake,
};
use baton_typed::{key::Key, store::Change};
use kube::ResourceExt as _;
use serde_json::{Value, json};

use self::hub::{Hub, ServerLocation};
use super::{
    AtStep as _, Context, Error, INCOMPLETE,
    app_clusters::{admit, concerns},
    charts::ChartSource,
    content::{Content, ContentError, ContentWriter},
    on_custody, on_release,
};
use crate::delivery::lost_hubs::{self, sync_lost_hubs};

/// Name of the controller in events.
const REPORTER: &str = "installation-controller";
/// The phases of a revision.
const DEFINITIONS: &str = "definitions";
const OBJECTS: &str = "objects";

/// Installs Releases in clusters.
pub(crate) struct Installations {
    context: Context,
    contents: ContentWriter,
    hub: Hub,
}

impl Installations {
    /// A controller without state.
    pub(crate) fn new(context: Context, charts: ChartSource) -> Self {
        let hub = Hub::new(
            Arc::clone(&context.observed),
            context.requests.client.clone(),
            context.inventory.secrets_namespace(),
        );
        let contents = ContentWriter {
            context: context.clone(),
            charts,
            writer: Self::NAME,
        };
        Self {
            context,
            contents,
            hub,
        }
    }
}

impl Controller for Installations {
    const NAME: &'static str = "installationtarget";

    type Key = Key;
    type Error = Error;

    fn watches(self: &Arc<Self>, queue: &Arc<Queue<Key>>) {
        let stores = &self.context.stores;
        queue.wake_on(&stores.installation_targets.changes, self, |_, change| {
            let target = change.object();
            target.map(|it| Wake::now(Key::of(kinds::INSTALLATION_TARGET.name, &**it)))
        });
        queue.wake_on(&stores.releases.changes, self, |this, change| {
            if let (Some(old), None) = (&change.old, &change.new) {
                this.contents
                    .charts
                    .forget(old.metadata.uid.as_deref().unwrap_or_default());
            }
            // The target may have been observed before its Release.
            let is_new = change.old.is_none();
            let release = change.new.as_ref().filter(|_| is_new);
            release.map(|it| Wake::now(Key::of(kinds::INSTALLATION_TARGET.name, &**it)))
        });
        queue.wake_on(&stores.releases.changes, self, |this, change| {
            on_release(&this.context.stores.installation_targets, change)
        });
        queue.wake_on(&stores.applications.changes, self, |this, change| {
            this.on_application(change)
        });
        let revisions = self.context.observed.revisions.changes();
        queue.wake_on(revisions, self, Self::on_revision);
        queue.wake_on(&self.context.observed.links, self, |this, cluster| {
            this.in_cluster(cluster)
        });
        queue.wake_on(&self.context.observed.assignments, self, |this, change| {
            let Context {
                stores, inventory, ..
            } = &this.context;
            stores.installation_targets.wake(|target| {
                let namespace = target.metadata.namespace.as_deref().unwrap_or_default();
                let mut clusters = target.spec.clusters.iter();
                clusters.any(|cluster| concerns(inventory, change, namespace, cluster))
            })
        });
    }

    async fn reconcile(&self, key: &Key, _failures: u32) -> Result<Reconciled, Error> {
        let stores = &self.context.stores;
        let Some(target) = stores.installation_targets.get(&key.namespace, &key.name) else {
            return Ok((ReconcileOutcome::Gone, Requeue::OnEvent));
        };
        // The status of the Release reports the cause.
        if stores.all.extent() != Extent::All {
            return Ok(INCOMPLETE);
        }
        // The revisions of a deleted target are deleted with the target; without a Release there is
        // nothing to install.
        let release = self.release(key, &target);
        let is_ours =
            target.metadata.deletion_timestamp.is_none() && !stores.is_given_back(&*target);
        let Some(release) = release.filter(|_| is_ours) else {
            return Ok((ReconcileOutcome::Unchanged, Requeue::OnEvent));
        };
        let Context {
            shared, observed, ..
        } = &self.context;
        let revisions = self.own_revisions(key, &target);
        let lost_hubs = self.lost_hubs(key, &target);
        let lost_hubs = lost_hubs.as_deref();
        sync_lost_hubs((shared, observed), Self::NAME, &revisions, lost_hubs).await?;
        let mut wanted = InstallationTarget::clone(&target);
        let mut failure = None;
        let mut again = false;
        let outcomes = match self.contents.of(key, &target, &release).await {
            Ok(content) => {
                let annotations = wanted.annotations_mut();
                annotations.insert(ANNOTATION_CONTENT.to_owned(), content.to_annotation());
                let installed = self.install(key, &target, &content).await;
                let Some((outcomes, failed)) = installed else {
                    return Ok((ReconcileOutcome::Conflict, Requeue::Backoff));
                };
                failure = failed;
                Ok(outcomes)
            }
            Err(ContentError::Chart {
                message,
                again: may,
            }) => {
                again = may;
                Err(message)
            }
            Err(ContentError::Request(error)) => return Err(error),
        };
        if let Ok(outcomes) = &outcomes
            && outcomes.values().all(Result::is_ok)
        {
            wanted.spec.can_override = false;
        }
        let update = Update {
            vocabulary: Vocabulary::default(),
            now: self.context.shared.clock.now(),
            ignores_offline: stores.ignores_offline(&*target),
        };
        let mut updated = installation(&target, outcomes.as_ref().map_err(String::as_str), update);
        if target.status.is_some() && outcomes.as_ref().is_ok_and(is_incomplete) {
            updated.events.clear();
        } else {
            wanted.status = Some(updated.status);
        }
        let changes = wanted != *target;
        if changes {
            let written = self.context.requests.replace(&wanted).await;
            let written = written.at_step("writing the InstallationTarget")?;
            stores.installation_targets.written(written);
        }
        let on = (key, &*target);
        self.context
            .shared
            .events
            .publish_on(REPORTER, on, updated.events);
        match (failure, outcomes) {
            (Some(error), _) => Err(error),
            (None, Err(message)) if again => Err(Error::Reported(message.into())),
            (None, Err(_)) => Ok((ReconcileOutcome::Blocked, Requeue::OnEvent)),
            (None, Ok(_)) if changes => Ok((ReconcileOutcome::Changed, Requeue::OnEvent)),
            (None, Ok(_)) => Ok((ReconcileOutcome::Unchanged, Requeue::OnEvent)),
        }
    }
}

impl Installations {
    /// Creates the missing revisions of all clusters, and deletes those of other clusters.
    ///
    /// Returns the outcome of each cluster, and the first error that is worth a retry; `None` if
    /// the target has changed since it was read.
    async fn install(
        &self,
        key: &Key,
        target: &InstallationTarget,
        content: &Content,
    ) -> Option<(BTreeMap<String, InstallationOutcome>, Option<Error>)> {
        let is_current = || {
            let targets = &self.context.stores.installation_targets;
            let now = targets.get(&key.namespace, &key.name);
            now.is_some_and(|now| means_the_same(&now, target))
        };
        let mut outcomes = BTreeMap::new();
        let mut failure = None;
        let revisions = self.own_revisions(key, target);
        for cluster in &target.spec.clusters {
            // Rendering a chart takes long, and so may each request.
            if !is_current() {
                return None;
            }
            let outcome = self.install_in(key, target, content, cluster).await;
            let outcome = outcome.unwrap_or_else(|error| {
                let reported = Failure::new(Cause::Write, &error);
                failure.get_or_insert(error);
                Err(reported)
            });
            outcomes.insert(cluster.clone(), outcome);
        }
        let with_new_ones = self.own_revisions(key, target);
        let owned = self.contents.own_slices(&with_new_ones).await;
        if let Err(error) = owned {
            failure.get_or_insert(error);
        }
        // The revisions of clusters that the target does not list any more are deleted.
        let application = target.labels().get(LABEL_APP).map_or("", String::as_str);
        let clusters = target.spec.clusters.iter();
        let chains: Vec<_> = clusters
            .map(|cluster| chain::label(application, cluster))
            .collect();
        for revision in revisions {
            let label = revision.release.as_ref().map(|of| &of.chain);
            if !revision.deleting && label.is_some_and(|label| !chains.contains(label)) {
                if !is_current() {
                    return None;
                }
                let deleted = self.context.shared.api.delete(&revision).await;
                match deleted.at_step("deleting a revision") {
                    Ok(record) => self.context.observed.revisions.updated(record, Self::NAME),
                    Err(error) => {
                        failure.get_or_insert(error);
                    }
                }
            }
        }
        Some((outcomes, failure))
    }

    /// The outcome of one cluster. Creates its revision if there is none.
    async fn install_in(
        &self,
        key: &Key,
        target: &InstallationTarget,
        content: &Content,
        cluster: &str,
    ) -> Result<InstallationOutcome, Error> {
        let application = target.labels().get(LABEL_APP).map_or("", String::as_str);
        let label = chain::label(application, cluster);
        let observed = &self.context.observed;
        let link = self.context.inventory.link(cluster);
        let chain = observed.revisions.of_chain(&key.namespace, &label);
        let own = chain.iter().find(|revision| {
            !revision.deleting && revision.controller.as_deref() == target.metadata.uid.as_deref()
        });
        if let Some(own) = own {
            return Ok(outcome::of(own, &link));
        }
        let class = match self.hub.server_location(cluster, &link).await {
            // Local phases are not checked against the assignments.
            Ok(ServerLocation::Hub) => {
                let Context {
                    inventory,
                    assignments,
                    ..
                } = &self.context;
                if let Err(failure) = admit((inventory, assignments), &key.namespace, cluster) {
                    return Ok(Err(failure));
                }
                String::new()
            }
            Ok(ServerLocation::Elsewhere) => format!("{CLASS_CLUSTER_PREFIX}{cluster}"),
            Err(failure) => return Ok(Err(failure)),
        };
        let place = match self.place_in_chain(key, target, cluster, &chain) {
            Ok(place) => place,
            Err(outcome) => return Ok(outcome),
        };
        let number = place.number;
        let name = chain::revision_name(&key.name, cluster, number);
        let revision = revision_key(key, &name);
        let previous = chain.iter().filter(|revision| {
            !revision.archived && revision.number.is_none_or(|earlier| earlier < number)
        });
        let previous = previous.map(|it| it.key.name.to_string());
        let previous = previous.chain(place.reserved);
        let previous: Vec<_> = previous.map(|name| json!({"name": name})).collect();
        let phases = [
            (DEFINITIONS, &content.definitions),
            (OBJECTS, &content.objects),
        ];
        let phases = phases.iter().filter(|(_, slices)| !slices.is_empty());
        let phases =
            phases.map(|(name, slices)| json!({"name": name, "class": class, "slices": slices}));
        let manifest = json!({
            "apiVersion": API_VERSION,
            "kind": "ObjectSet",
            "metadata": metadata(key, target, &name, (&label, self.lost_hubs(key, target))),
            "spec": {
                "revision": number,
                "previous": previous,
                "phases": phases.collect::<Vec<_>>(),
            },
        });
        match self.context.shared.api.create(&revision, &manifest).await {
            Ok(record) => {
                observed.revisions.created(record, Self::NAME);
                Ok(Ok(Progress::InProgress(String::new())))
            }
            Err(error @ ApiError::Changed { .. }) => Err(error).at_step("creating a revision"),
            Err(error) => match error.refusal() {
                Some(message) => Ok(Err(Failure::new(Cause::Refused, message))),
                None => Err(error).at_step("creating a revision"),
            },
        }
    }

    /// The revisions that a target has created.
    fn own_revisions(&self, key: &Key, target: &InstallationTarget) -> Vec<Arc<RevisionRecord>> {
        let uid = target.metadata.uid.as_deref().unwrap_or_default();
        let revisions = &self.context.observed.revisions;
        revisions.controlled_by_uid(&key.namespace, uid)
    }

    /// The annotation of the Application of a target about hubs that do not exist any more.
    fn lost_hubs(&self, key: &Key, target: &InstallationTarget) -> Option<String> {
        let name = target.labels().get(LABEL_APP)?;
        let application = self.context.stores.applications.get(&key.namespace, name)?;
        lost_hubs::of_deployment(application.annotations()).map(Into::into)
    }

    /// The Release that owns a target.
    fn release(&self, key: &Key, target: &InstallationTarget) -> Option<Arc<Release>> {
        let release = self
            .context
            .stores
            .releases
            .get(&key.namespace, &key.name)?;
        let uid = release.metadata.uid.as_deref();
        let mut owners = target.owner_references().iter();
        let is_owner = owners.any(|owner| Some(&*owner.uid) == uid);
        is_owner.then_some(release)
    }

    /// Trigger: an Application whose annotation about lost hubs has changed wakes its targets.
    fn on_application(&self, change: &Change<Application>) -> Vec<Wake<Key>> {
        let by_custody = on_custody(&self.context.stores.installation_targets, change);
        if !by_custody.is_empty() {
            return by_custody;
        }
        let changed = change.object().filter(|_| {
            let [old, new] = [&change.old, &change.new].map(|application| {
                let annotations = application.as_ref().map(|it| it.annotations());
                annotations.and_then(lost_hubs::of_deployment)
            });
            old != new
        });
        let Some(application) = changed else {
            return Vec::new();
        };
        let targets = &self.context.stores.installation_targets;
        targets.wake(|target| {
            target.namespace() == application.namespace()
                && target.labels().get(LABEL_APP) == application.metadata.name.as_ref()
        })
    }

    /// Trigger: a revision wakes the target that created it, unless this controller made the change. When
    /// it is gone, it wakes all targets of its chain: its number may have left no next one for them.
    fn on_revision(&self, change: &RecordChange<RevisionKind>) -> Vec<Wake<Key>> {
        let is_foreign = change.writer != Some(Self::NAME);
        let revision = change.record().filter(|_| is_foreign);
        let Some((revision, of)) = revision.and_then(|it| Some((it, it.release.as_ref()?))) else {
            return Vec::new();
        };
        let namespace = &revision.key.namespace;
        let kind = kinds::INSTALLATION_TARGET.name;
        let mut wakes = vec![Wake::now(Key::new(kind, namespace, &of.release))];
        if change.new.is_none() {
            let targets = &self.context.stores.installation_targets;
            wakes.extend(targets.wake(|target| {
                let application = target.labels().get(LABEL_APP).map_or("", String::as_str);
                let mut clusters = target.spec.clusters.iter();
                target.metadata.namespace.as_deref() == Some(&**namespace)
                    && clusters.any(|cluster| chain::label(application, cluster) == of.chain)
            }));
        }
        wakes
    }

    /// Trigger: a changed link of a cluster wakes the targets that list the cluster.
    fn in_cluster(&self, cluster: &str) -> Vec<Wake<Key>> {
        let targets = &self.context.stores.installation_targets;
        targets.wake(|target| target.spec.clusters.iter().any(|name| name == cluster))
    }
}

fn revision_key(key: &Key, name: &str) -> RevisionKey {
    RecordKey {
        kind: RevisionKind::ObjectSet,
        namespace: key.namespace.clone(),
        name: name.into(),
    }
}

/// True if two versions of a target require the same revisions.
fn means_the_same(one: &InstallationTarget, other: &InstallationTarget) -> bool {
    let (meta, its) = (&one.metadata, &other.metadata);
    meta.uid == its.uid
        && meta.deletion_timestamp == its.deletion_timestamp
        && one.spec == other.spec
}

/// The metadata of a revision. When the revision is deleted, it hands objects back to older
/// revisions that want them.
fn metadata(
    key: &Key,
    target: &InstallationTarget,
    name: &str,
    (chain, lost_hubs): (&str, Option<String>),
) -> Value {
    let mut annotations = json!({ANNOTATION_ON_DELETION: ON_DELETION_HAND_BACK});
    if let Some(lost_hubs) = lost_hubs {
        annotations[ANNOTATION_LOST_HUBS] = lost_hubs.into();
    }
    let mut labels = target.labels().clone();
    labels.insert(LABEL_CHAIN.to_owned(), chain.to_owned());
    json!({
        "name": name,
        "namespace": &*key.namespace,
        "labels": labels,
        "annotations": annotations,
        // At the creation they cost no write of their own.
        "finalizers": [FINALIZER_CACHED, FINALIZER_METRICS],
        "ownerReferences": [{
            "apiVersion": shipper::API_VERSION,
            "kind": kinds::INSTALLATION_TARGET.name,
            "name": &*key.name,
            "uid": target.metadata.uid,
            "controller": true,
        }],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_continues_while_the_spec_of_its_target_is_unchanged() {
        let target = |change: &dyn Fn(&mut Value)| -> InstallationTarget {
            let mut object = json!({
                "apiVersion": shipper::API_VERSION, "kind": kinds::INSTALLATION_TARGET.name,
                "metadata": {"name": "web-0", "namespace": "shop", "uid": "u", "resourceVersion": "1"},
                "spec": {"clusters": ["a", "b"], "canOverride": true},
            });
            change(&mut object);
            serde_json::from_value(object).unwrap()
        };
        let old = target(&|_| {});
        let means = |change: &dyn Fn(&mut Value)| means_the_same(&target(change), &old);
        assert!(means(&|it| {
            it["metadata"]["resourceVersion"] = "2".into();
            it["metadata"]["labels"] = json!({"team": "x"});
            it["status"] = json!({"conditions": []});
        }));
        assert!(!means(&|it| it["spec"]["clusters"] = json!(["a"])));
        assert!(!means(&|it| it["metadata"]["uid"] = "v".into()));
        let at = "2026-01-01T00:00:00Z";
        assert!(!means(&|it| it["metadata"]["deletionTimestamp"] = at.into()));
    }
}
