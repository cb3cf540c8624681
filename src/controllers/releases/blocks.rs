//! The controller of RolloutBlocks: states which objects override a block, and removes the overrides of
//! a block that is being deleted.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use baton_apis::{
    Application, Release, RolloutBlock, RolloutBlockOverrides, SiteDeployment,
    constants::{FINALIZER_OVERRIDES, shipper::ANNOTATION_BLOCK_OVERRIDE},
    kinds,
};
use baton_engine::{
    conditions::Requeue,
    rollout_blocks::{listed, without},
};
use baton_kubernetes::collection::Extent;
use baton_records::{
    deployment::{DeploymentKind, DeploymentRecord},
    revision::RevisionKind,
};
use baton_runtime::{
    controller::{Controller, Reconciled},
    outcomes::ReconcileOutcome,
    queue::Queue,
    source::Wake,
};
use baton_typed::{
    key::Key,
    requests::Namespaced,
    store::{Change, Store},
};
use kube::ResourceExt as _;
use serde_json::json;
use tracing::warn;

use super::{AtStep as _, Context, Error, is_permanent};
use crate::delivery::rollout_blocks::{applies, obeys};

/// Maximum number of objects of a kind in the status of a block, so that the block stays far below the
/// size that etcd stores.
const MAX_NAMES: usize = 200;

/// States the overrides of blocks.
///
/// A block has a finalizer while objects override it. So the override of a deleted block is removed
/// before it would name a block that does not exist, also if no manager runs at the deletion.
pub(crate) struct Blocks {
    context: Context,
    site_deployments: Arc<Store<SiteDeployment>>,
}

/// The parts of an object by which it overrides blocks. The default overrides none.
#[derive(Clone, Copy, Default)]
struct Overrides<'a> {
    /// Namespace of the object; empty for the cluster scope.
    namespace: &'a str,
    /// The annotation; empty if the object is being deleted or obeys no block.
    annotation: &'a str,
}

impl<'a> Overrides<'a> {
    fn of(
        namespace: Option<&'a str>,
        annotations: Option<&'a BTreeMap<String, String>>,
        obeys: bool,
    ) -> Self {
        let annotation = annotations.and_then(|all| all.get(ANNOTATION_BLOCK_OVERRIDE));
        Self {
            namespace: namespace.unwrap_or_default(),
            annotation: annotation.filter(|_| obeys).map_or("", String::as_str),
        }
    }

    fn of_record(record: &'a DeploymentRecord) -> Self {
        let obeys = !record.deleting && obeys(&record.labels);
        Self::of(
            Some(&record.key.namespace),
            Some(&record.annotations),
            obeys,
        )
    }

    fn contain(&self, block: &Key) -> bool {
        applies(&block.namespace, self.namespace)
            && listed(self.annotation).contains(&*block.full_name())
    }

    /// The annotation without a block.
    fn without(&self, block: &Key) -> String {
        without(self.annotation, &block.full_name())
    }
}

/// A kind whose objects can override blocks.
trait Overriding: Namespaced {
    /// True if the object obeys blocks.
    fn obeys(&self) -> bool {
        true
    }

    fn overrides(&self) -> Overrides<'_> {
        let metadata = self.meta();
        let obeys = metadata.deletion_timestamp.is_none() && self.obeys();
        Overrides::of(
            metadata.namespace.as_deref(),
            metadata.annotations.as_ref(),
            obeys,
        )
    }
}

impl Overriding for Application {}

impl Overriding for Release {}

impl Overriding for SiteDeployment {
    fn obeys(&self) -> bool {
        obeys(self.labels())
    }
}

/// The objects that override a block.
fn overriding<K: Overriding>(store: &Store<K>, block: &Key) -> Vec<Arc<K>> {
    let mut objects = store.all();
    objects.retain(|it| it.overrides().contain(block));
    objects
}

/// The names of the objects that override a block, in the form of its status; `present` if the objects
/// cannot be listed.
fn names<K: Overriding>(store: &Store<K>, block: &Key, present: &str) -> String {
    if !store.is_complete() {
        return present.to_owned();
    }
    let objects = overriding(store, block);
    joined(
        objects
            .iter()
            .map(|it| Key::of(store.kind, &**it).full_name()),
    )
}

/// The first names in alphabetical order, separated by commas, and the number of the others.
fn joined(names: impl Iterator<Item = String>) -> String {
    let names: BTreeSet<_> = names.collect();
    let mut sorted = Vec::from_iter(names);
    let others = sorted.len().saturating_sub(MAX_NAMES);
    sorted.truncate(MAX_NAMES);
    sorted.extend((others > 0).then(|| format!("{others} more")));
    sorted.join(",")
}

/// The block with a name, `namespace/name`.
fn key(name: &str) -> Option<Key> {
    let (namespace, name) = name.split_once('/')?;
    Some(Key::new(kinds::ROLLOUT_BLOCK.name, namespace, name))
}

impl Controller for Blocks {
    const NAME: &'static str = "rolloutblock";

    type Key = Key;
    type Error = Error;

    fn watches(self: &Arc<Self>, queue: &Arc<Queue<Key>>) {
        let stores = &self.context.stores;
        queue.wake_on(&stores.blocks.0.changes, self, |_, change| {
            let block = change.object();
            block.map(|it| Wake::now(Key::of(kinds::ROLLOUT_BLOCK.name, &**it)))
        });
        queue.wake_on(&stores.applications.changes, self, |_, change| {
            on_object(change)
        });
        queue.wake_on(&stores.releases.changes, self, |_, change| {
            on_object(change)
        });
        queue.wake_on(&self.site_deployments.changes, self, |_, change| {
            on_object(change)
        });
        let deployments = &self.context.observed.deployments;
        queue.wake_on(deployments.changes(), self, |_, change| {
            on_overrides(
                [&change.old, &change.new].map(|it| it.as_deref().map(Overrides::of_record)),
            )
        });
    }

    async fn reconcile(&self, key: &Key, _failures: u32) -> Result<Reconciled, Error> {
        let blocks = &self.context.stores.blocks.0;
        let Some(block) = blocks.get(&key.namespace, &key.name) else {
            return Ok((ReconcileOutcome::Gone, Requeue::OnEvent));
        };
        let mut changed = RolloutBlock::clone(&block);
        let finalizers = changed.finalizers_mut();
        finalizers.retain(|it| it != FINALIZER_OVERRIDES);
        if block.metadata.deletion_timestamp.is_some() {
            self.remove_overrides(key).await?;
        } else {
            let present = block.status.clone().unwrap_or_default().overrides;
            let wanted = self.overrides(key, &present);
            if wanted != RolloutBlockOverrides::default() {
                finalizers.push(FINALIZER_OVERRIDES.to_owned());
            }
            changed.status.get_or_insert_default().overrides = wanted;
        }
        changed.metadata.finalizers.take_if(|it| it.is_empty());
        if changed == *block {
            return Ok((ReconcileOutcome::Unchanged, Requeue::OnEvent));
        }
        let written = self.context.requests.replace(&changed).await;
        let written = written.at_step("writing the RolloutBlock")?;
        // Without the finalizer, the watch reports the deletion.
        if written.metadata.deletion_timestamp.is_none() {
            blocks.written(written);
        }
        Ok((ReconcileOutcome::Changed, Requeue::OnEvent))
    }
}

/// Trigger: an object wakes the blocks that it begins or ceases to override.
fn on_object<K: Overriding>(change: &Change<K>) -> Vec<Wake<Key>> {
    on_overrides([&change.old, &change.new].map(|it| it.as_deref().map(K::overrides)))
}

/// As [`on_object`], given the overrides before and after the change.
fn on_overrides(sides: [Option<Overrides<'_>>; 2]) -> Vec<Wake<Key>> {
    let [old, new] = sides.map(|it| it.unwrap_or_default().annotation);
    if old == new {
        return Vec::new();
    }
    let (old, new) = (listed(old), listed(new));
    let changed = old.symmetric_difference(&new);
    changed
        .filter_map(|name| key(name))
        .map(Wake::now)
        .collect()
}

impl Blocks {
    /// A controller of blocks.
    pub(crate) fn new(context: Context, site_deployments: Arc<Store<SiteDeployment>>) -> Self {
        Self {
            context,
            site_deployments,
        }
    }

    /// The objects that override a block. Those of a kind that cannot be listed stay as they are in
    /// `present`.
    fn overrides(&self, key: &Key, present: &RolloutBlockOverrides) -> RolloutBlockOverrides {
        let Context {
            stores, observed, ..
        } = &self.context;
        let deployments = &observed.deployments;
        let is_listed = |kind| deployments.extent(kind) == Extent::All;
        let object_deployment = if RevisionKind::ALL
            .map(DeploymentKind)
            .into_iter()
            .all(is_listed)
        {
            let found = self.deployments_overriding(key);
            joined(found.iter().map(|it| {
                let (namespace, name) = (&it.key.namespace, &it.key.name);
                let separator = if namespace.is_empty() { "" } else { "/" };
                format!("{namespace}{separator}{name}")
            }))
        } else {
            present.object_deployment.clone()
        };
        let application = names(&stores.applications, key, &present.application);
        RolloutBlockOverrides {
            applications: application.clone(),
            application,
            release: names(&stores.releases, key, &present.release),
            object_deployment,
            site_deployment: names(&self.site_deployments, key, &present.site_deployment),
        }
    }

    fn deployments_overriding(&self, block: &Key) -> Vec<Arc<DeploymentRecord>> {
        let deployments = &self.context.observed.deployments;
        deployments.filter(|it| Overrides::of_record(it).contain(block))
    }

    /// Removes a block from the annotations of all objects that override it. An object whose change is
    /// refused keeps the name, which blocks only this object.
    ///
    /// # Errors
    /// The first failure that can be retried, after all objects were tried.
    async fn remove_overrides(&self, block: &Key) -> Result<(), Error> {
        let Context {
            stores,
            shared,
            observed,
            ..
        } = &self.context;
        let mut done = self.remove_from(&stores.applications, block).await;
        done = done.and(self.remove_from(&stores.releases, block).await);
        done = done.and(self.remove_from(&self.site_deployments, block).await);
        for record in self.deployments_overriding(block) {
            let left = Overrides::of_record(&record).without(block);
            let annotations = BTreeMap::from([(ANNOTATION_BLOCK_OVERRIDE, Some(&*left))]);
            match shared.api.annotate(&record, &annotations).await {
                Ok(mut written) => {
                    let annotations = &mut written.annotations;
                    annotations.insert(ANNOTATION_BLOCK_OVERRIDE.to_owned(), left);
                    observed.deployments.updated(written, Self::NAME);
                }
                Err(error) => match error.refusal() {
                    Some(error) => warn!(%error, object = %record.key, "the override stays"),
                    None => done = done.and(Err(error).at_step(REMOVING)),
                },
            }
        }
        done
    }

    async fn remove_from<K: Overriding>(&self, store: &Store<K>, block: &Key) -> Result<(), Error> {
        let mut done = Ok(());
        for object in overriding(store, block) {
            let left = object.overrides().without(block);
            let annotations = json!({ ANNOTATION_BLOCK_OVERRIDE: left });
            let patch = json!({ "metadata": { "annotations": annotations } });
            match self.context.requests.merge(&*object, patch).await {
                Ok(written) => store.written(written),
                Err(error) if is_permanent(&error) => {
                    let object = Key::of(store.kind, &*object);
                    warn!(%error, object = object.full_name(), kind = object.kind, "the override stays");
                }
                Err(error) => done = done.and(Err(error).at_step(REMOVING)),
            }
        }
        done
    }
}

const REMOVING: &str = "removing the override of a deleted block";

#[cfg(test)]
mod tests {
    use super::*;

    /// Case B3, and its counterparts without an override and for another namespace.
    #[test]
    fn an_object_overrides_the_blocks_that_apply_to_it() {
        let block = |namespace: &str| Key::new(kinds::ROLLOUT_BLOCK.name, namespace, "frozen");
        for (namespace, annotation, of_block, expected) in [
            ("shop", "shop/frozen", "shop", true),
            (
                "shop",
                "rollout-blocks-global/frozen",
                "rollout-blocks-global",
                true,
            ),
            (
                "",
                "rollout-blocks-global/frozen",
                "rollout-blocks-global",
                true,
            ),
            ("shop", "shop/frozen", "rollout-blocks-global", false),
            ("other", "shop/frozen", "shop", false),
            ("shop", "", "shop", false),
        ] {
            let annotations =
                BTreeMap::from([(ANNOTATION_BLOCK_OVERRIDE.to_owned(), annotation.to_owned())]);
            let overrides = Overrides::of(Some(namespace), Some(&annotations), true);
            assert_eq!(
                overrides.contain(&block(of_block)),
                expected,
                "{annotation} {of_block}"
            );
            let ignored = Overrides::of(Some(namespace), Some(&annotations), false);
            assert!(!ignored.contain(&block(of_block)));
        }
    }

    #[test]
    fn the_status_has_a_limited_number_of_names() {
        let joined_names = |count: usize| joined((0..count).rev().map(|at| format!("ns/{at:03}")));
        assert_eq!(joined_names(0), "");
        assert_eq!(joined_names(3), "ns/000,ns/001,ns/002");
        assert!(joined_names(MAX_NAMES).ends_with(",ns/199"));
        assert!(joined_names(MAX_NAMES + 7).ends_with(",ns/199,7 more"));
    }
}
