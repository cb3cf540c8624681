//! The rollout blocks of the cluster, and the objects that they apply to.

use std::{collections::BTreeMap, sync::Arc};

use baton_apis::{
    RolloutBlock,
    constants::{
        LABEL_OBEY_ROLLOUT_BLOCKS,
        shipper::{ANNOTATION_BLOCK_OVERRIDE, NAMESPACE_GLOBAL_BLOCKS},
    },
    kinds,
};
use baton_engine::rollout_blocks::{Blocks, Effect, Verdict, is_obeyed};
use baton_kubernetes::collection::Extent;
use baton_typed::{
    key::Key,
    store::{Change, Store},
};

/// The blocks that exist.
#[derive(Clone)]
pub(crate) struct RolloutBlocks(pub Arc<Store<RolloutBlock>>);

impl RolloutBlocks {
    /// The blocks that apply to a namespace, which is empty for an object of the cluster scope.
    pub(crate) fn of(&self, namespace: &str) -> Blocks {
        let own = self.0.in_namespace(namespace).into_iter();
        let is_global = namespace == NAMESPACE_GLOBAL_BLOCKS;
        let global = (!is_global).then(|| self.0.in_namespace(NAMESPACE_GLOBAL_BLOCKS));
        let mut blocks = Blocks::default();
        for block in own.chain(global.into_iter().flatten()) {
            let name = Key::of(kinds::ROLLOUT_BLOCK.name, &*block).full_name();
            if block.metadata.deletion_timestamp.is_none() {
                blocks.in_force.insert(name);
            } else {
                blocks.ending.insert(name);
            }
        }
        blocks
    }

    /// The effect of the blocks on a chain of revisions with these labels and annotations.
    pub(crate) fn effect_on(
        &self,
        namespace: &str,
        labels: &BTreeMap<String, String>,
        annotations: &BTreeMap<String, String>,
    ) -> Effect {
        if !obeys(labels) {
            return Effect::NotObeyed;
        }
        if let Some(cause) = self.unlisted() {
            return Effect::Unlisted(cause);
        }
        let overrides = annotations.get(ANNOTATION_BLOCK_OVERRIDE);
        let overrides = overrides.map_or("", String::as_str);
        Effect::Judged(Verdict::of(&self.of(namespace), overrides))
    }

    /// The reason that not all blocks are known; `None` if they are.
    pub(crate) fn unlisted(&self) -> Option<String> {
        match self.0.extent() {
            Extent::All => None,
            Extent::Unavailable(cause) => Some(cause.to_string()),
            Extent::Nothing => Some("RolloutBlocks are not listed yet".to_owned()),
        }
    }
}

/// True if the label of a chain makes it obey blocks.
pub(crate) fn obeys(labels: &BTreeMap<String, String>) -> bool {
    is_obeyed(labels.get(LABEL_OBEY_ROLLOUT_BLOCKS).map(String::as_str))
}

/// True if the blocks of a namespace apply to the objects of another one, which is empty for objects of
/// the cluster scope.
pub(crate) fn applies(of_block: &str, of_object: &str) -> bool {
    of_block == NAMESPACE_GLOBAL_BLOCKS || of_block == of_object
}

/// True if a chain obeys the blocks of a namespace.
pub(crate) fn is_obeying(
    labels: &BTreeMap<String, String>,
    namespace: &str,
    of_block: &str,
) -> bool {
    obeys(labels) && applies(of_block, namespace)
}

/// The namespace of a block that appeared, is being deleted or was deleted.
pub(crate) fn begun_or_ended(change: &Change<RolloutBlock>) -> Option<&str> {
    let is_in_force = |side: &Option<Arc<RolloutBlock>>| {
        let block = side.as_ref()?;
        Some(block.metadata.deletion_timestamp.is_none())
    };
    let is_same = is_in_force(&change.old) == is_in_force(&change.new);
    (!is_same).then(|| change.object()?.metadata.namespace.as_deref())?
}
